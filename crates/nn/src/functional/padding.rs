//! Padding: numbers around a tensor, constant or taken from inside it.

use flambeau_core::{Result, ensure};
use flambeau_ops::{Tensor, ops};

/// What padding consists of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PadMode {
    /// This number.
    Constant(f64),
    /// The elements beside the edge, mirrored.
    Reflect,
    /// The element at the edge.
    Replicate,
    /// The elements from the other end.
    Circular,
}

/// Adds elements before and after the last dimensions: `sizes` are pairs, the last dimension's first.
///
/// # Errors
/// `InvalidArgument` unless `sizes` are pairs, `Shape` for more pairs than dimensions, or for more elements than there are to take.
///
/// ```
/// use flambeau_nn::functional::{PadMode, pad};
/// use flambeau_ops::Tensor;
/// let row = Tensor::from([[1.0f32, 2.0, 3.0]]);
/// assert_eq!(pad(&row, &[1, 2], PadMode::Constant(0.0))?.to_vec::<f32>()?, [0.0, 1.0, 2.0, 3.0, 0.0, 0.0]);
/// assert_eq!(pad(&row, &[1, 2], PadMode::Reflect)?.to_vec::<f32>()?, [2.0, 1.0, 2.0, 3.0, 2.0, 1.0]);
/// assert_eq!(pad(&row, &[1, 2], PadMode::Circular)?.to_vec::<f32>()?, [3.0, 1.0, 2.0, 3.0, 1.0, 2.0]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn pad(input: &Tensor, sizes: &[i64], mode: PadMode) -> Result<Tensor> {
    ensure!(sizes.len().is_multiple_of(2), InvalidArgument, "pad: expected pairs of sizes but got {sizes:?}");
    if let PadMode::Constant(value) = mode {
        return ops::constant_pad_nd(input, sizes, value.into());
    }
    ensure!(
        sizes.len() / 2 <= input.dim() && sizes.iter().all(|size| *size >= 0),
        Shape,
        "pad: expected sizes of at least 0 for {} dimensions but got {sizes:?}",
        input.dim()
    );
    let mut padded = input.clone();
    for (index, pair) in sizes.chunks_exact(2).enumerate().filter(|(_, pair)| pair != &[0, 0]) {
        let dim = input.dim() as i64 - 1 - index as i64;
        let sources = sources(mode, (pair[0], pair[1]), padded.size(dim)?)?;
        padded = ops::index_select(&padded, dim, &sources)?;
    }
    Ok(padded)
}

/// The source index of each index of a padded dimension.
fn sources(mode: PadMode, (before, after): (i64, i64), size: i64) -> Result<Tensor> {
    let most = if mode == PadMode::Reflect { size - 1 } else { size };
    ensure!(
        size > 0 && (mode == PadMode::Replicate || before.max(after) <= most),
        Shape,
        "pad: expected at most {most} elements around a dimension of {size} but got {before} and {after}"
    );
    let source = |index: i64| match mode {
        PadMode::Reflect => (size - 1) - ((size - 1) - index.abs()).abs(),
        PadMode::Circular => index.rem_euclid(size),
        PadMode::Replicate | PadMode::Constant(_) => index.clamp(0, size - 1),
    };
    let sources: Vec<i64> = (-before..size + after).map(source).collect();
    let count = sources.len() as i64;
    Tensor::from_vec(sources, &[count])
}
