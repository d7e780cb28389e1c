//! Reflection and replication padding, composed of `index_select` along each padded dimension.

use crate::{Tensor, ops};
use flambeau_core::{Result, ensure, fallible};

/// Pads the last `n` dimensions: `source` maps an index, which may be outside of the dimension, and the size to an index inside.
fn padded(
    name: &str,
    self_: &Tensor,
    padding: &[i64],
    n: usize,
    (is_reflection, source): (bool, fn(i64, i64) -> i64),
) -> Result<Tensor> {
    ensure!(
        padding.len() == 2 * n,
        InvalidArgument(name, "padding"),
        "padding size is expected to be {}",
        2 * n
    );
    let rank = self_.dim();
    ensure!(
        rank == n + 1 || rank == n + 2,
        Shape(name, "self"),
        "Expected {}D or {}D (batch mode) tensor for input, but got: {:?}",
        n + 1,
        n + 2,
        self_.sizes()
    );
    let mut output = self_.clone();
    for (pair, d) in padding.chunks(2).zip((0..rank).rev()) {
        let size = self_.sizes()[d];
        ensure!(
            size > 0 && (!is_reflection || (pair[0] < size && pair[1] < size)),
            InvalidArgument(name, "padding"),
            "Padding size should be less than the corresponding input dimension, but got: padding ({}, {}) at dimension \
             {d} of input {:?}",
            pair[0],
            pair[1],
            self_.sizes()
        );
        let in_range = pair.iter().all(|p| p.unsigned_abs() < 1 << 31) && size + pair[0] + pair[1] > 0;
        ensure!(
            in_range,
            InvalidArgument(name, "padding"),
            "input of size {size} with padding {pair:?} has no output"
        );
        let indices = fallible::collect((-pair[0]..size + pair[1]).map(|index| source(index, size)))
            .map_err(|e| e.in_operator(name))?;
        let count = indices.len() as i64;
        output = output.index_select(d as i64, &Tensor::from_vec(indices, &[count])?.to(self_.device())?)?;
    }
    if padding.iter().all(|p| *p == 0) { ops::clone(&output, None) } else { Ok(output) }
}

/// Reflects an index at the border, which is not repeated.
fn reflected(index: i64, size: i64) -> i64 {
    let index = index.abs();
    if index < size { index } else { 2 * (size - 1) - index }
}

/// The index of the border element that is nearest.
fn replicated(index: i64, size: i64) -> i64 {
    index.clamp(0, size - 1)
}

macro_rules! pads {
    ($($name:ident $n:literal $is_reflection:literal $source:ident;)*) => {$(
        #[doc = concat!("Borders along the last ", $n, " dimensions, ", stringify!($source), ".")]
        pub fn $name(self_: &Tensor, padding: &[i64]) -> Result<Tensor> {
            padded(stringify!($name), self_, padding, $n, ($is_reflection, $source))
        }
    )*};
}

pads! {
    reflection_pad1d 1 true reflected;
    reflection_pad2d 2 true reflected;
    reflection_pad3d 3 true reflected;
    replication_pad1d 1 false replicated;
    replication_pad2d 2 false replicated;
    replication_pad3d 3 false replicated;
}
