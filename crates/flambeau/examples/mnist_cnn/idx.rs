//! MNIST's files: LeCun, Cortes and Burges, "The MNIST database of handwritten digits", whose page describes the format.

use super::digits::Digits;
use flambeau::core::ensure;
use flambeau::{Error, Result};
use std::path::Path;

/// Bytes in three dimensions: two zeros, the type of elements, the number of dimensions.
const IMAGES: u32 = 0x0000_0803;
/// Bytes in one dimension.
const LABELS: u32 = 0x0000_0801;

/// Pictures and what they show.
///
/// # Errors
/// `Io` naming the file that is missing, of another kind, cut short or too long, and where the files do not go together.
pub(crate) fn read(images: &Path, labels: &Path) -> Result<Digits> {
    let ([count, height, width], pixels) = file(images, IMAGES)?;
    let ([expected], digits) = file(labels, LABELS)?;
    ensure!(
        count == expected,
        Io,
        "{}: expected {count} labels, one for each picture, but got {expected}",
        labels.display()
    );
    ensure!(count > 0, Io, "{}: expected at least one picture but got none", images.display());
    if let Some(at) = digits.iter().position(|digit| *digit > 9) {
        let message = format!("expected labels from 0 to 9 but label {at} is {}", digits[at]);
        return Err(Error::new(flambeau::ErrorKind::Io, message).context(labels.display()));
    }
    Ok(Digits {
        pixels: pixels.iter().map(|byte| f32::from(*byte) / 255.0).collect(),
        labels: digits.iter().map(|byte| i64::from(*byte)).collect(),
        height,
        width,
    })
}

fn file<const N: usize>(path: &Path, magic: u32) -> Result<([usize; N], Vec<u8>)> {
    let bytes = std::fs::read(path).map_err(|e| Error::from(e).context(path.display()))?;
    parse(&bytes, magic).map_err(|e| e.context(path.display()))
}

/// Sizes and bytes of a file that must begin with `magic`.
fn parse<const N: usize>(bytes: &[u8], magic: u32) -> Result<([usize; N], Vec<u8>)> {
    let header = 4 + 4 * N;
    ensure!(!bytes.starts_with(&[0x1f, 0x8b]), Io, "the file is packed: unpack it with gunzip first");
    ensure!(
        bytes.len() >= header,
        Io,
        "expected a header of {header} bytes but the file ends after {}",
        bytes.len()
    );
    let word = |i: usize| bytes[4 * i..4 * i + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    ensure!(word(0) == magic, Io, "expected a file that begins with {magic:#010x} but got {:#010x}", word(0));
    let sizes: [usize; N] = std::array::from_fn(|i| word(i + 1) as usize);
    let elements = sizes.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
    let found = bytes.len() - header;
    ensure!(
        elements == Some(found),
        Io,
        "expected {} bytes after the header, as its sizes {sizes:?} say, but got {found}",
        elements.map_or("more than 2^64".to_string(), |n| n.to_string())
    );
    Ok((sizes, bytes[header..].to_vec()))
}
