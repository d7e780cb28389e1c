//! Reads MNIST's files: LeCun, Cortes and Burges, "The MNIST database of handwritten digits", whose page describes the format.

use super::digits::Digits;
use flambeau::core::ensure;
use flambeau::{Error, ErrorKind, Result};
use std::fs::File;
use std::io::Read;
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
        return Err(Error::new(ErrorKind::Io, message).context(labels.display()));
    }
    Ok(Digits {
        pixels: converted(&pixels, |byte| f32::from(byte) / 255.0)?,
        labels: converted(&digits, i64::from)?,
        height,
        width,
    })
}

fn converted<T>(bytes: &[u8], convert: impl Fn(u8) -> T) -> Result<Vec<T>> {
    let mut values = room(bytes.len())?;
    values.extend(bytes.iter().map(|byte| convert(*byte)));
    Ok(values)
}

/// An empty list with memory for so many items, if there is as much.
fn room<T>(count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|e| {
        let nbytes = count.saturating_mul(size_of::<T>());
        Error::with_source(ErrorKind::OutOfMemory, format!("expected memory for {nbytes} bytes: {e}"), e)
    })?;
    Ok(list)
}

fn file<const N: usize>(path: &Path, magic: u32) -> Result<([usize; N], Vec<u8>)> {
    parse(path, magic).map_err(|e| e.context(path.display()))
}

/// Sizes and bytes of a file that must begin with `magic`. No memory is allocated before the sizes are known to be the file's.
fn parse<const N: usize>(path: &Path, magic: u32) -> Result<([usize; N], Vec<u8>)> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let words = header(&mut file, length, 1 + N)?;
    ensure!(
        words[0] == magic,
        Io,
        "expected a file that begins with {magic:#010x} but got {:#010x}",
        words[0]
    );
    let sizes: [usize; N] = std::array::from_fn(|i| words[i + 1] as usize);
    let elements = sizes.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
    let found = length - 4 * words.len() as u64;
    let expected = elements.filter(|n| u64::try_from(*n) == Ok(found)).ok_or_else(|| {
        let expected = elements.map_or("more than 2^64".to_string(), |n| n.to_string());
        let message = format!(
            "expected {expected} bytes after the header, as its sizes {sizes:?} say, but got {found}"
        );
        Error::new(ErrorKind::Io, message)
    })?;
    let mut bytes = room(expected)?;
    bytes.resize(expected, 0);
    file.read_exact(&mut bytes)?;
    Ok((sizes, bytes))
}

/// The first words of a file of so many bytes, big-endian ones.
fn header(file: &mut File, length: u64, count: usize) -> Result<Vec<u32>> {
    let mut start = Vec::new();
    file.take(4 * count as u64).read_to_end(&mut start)?;
    ensure!(!start.starts_with(&[0x1f, 0x8b]), Io, "the file is packed: unpack it with gunzip first");
    ensure!(
        start.len() == 4 * count,
        Io,
        "expected a header of {} bytes but the file ends after {length}",
        4 * count
    );
    let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    Ok(start.chunks_exact(4).map(word).collect())
}
