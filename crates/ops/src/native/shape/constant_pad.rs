//! `constant_pad_nd`.

use crate::native::shape::view;
use crate::structured::TensorSpec;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, Scalar, bail, ensure};

/// `self_` with `pad[0]` elements of `value` before and `pad[1]` behind those of the last dimension; the next two are for the
/// dimension before, and so on. Negative numbers remove elements.
pub fn constant_pad_nd(self_: &Tensor, pad: &[i64], value: Scalar) -> Result<Tensor> {
    const NAME: &str = "constant_pad_nd";
    ensure!(
        pad.len().is_multiple_of(2),
        InvalidArgument(NAME, "pad"),
        "Length of pad must be even but instead it equals {}",
        pad.len()
    );
    ensure!(
        pad.len() / 2 <= self_.dim(),
        InvalidArgument(NAME, "pad"),
        "Length of pad should be no more than twice the number of dimensions of the input. Pad length is {} while \
         the input has {} dimensions.",
        pad.len(),
        self_.dim()
    );
    let mut sizes = DimVec::from_slice(self_.sizes());
    for (pair, d) in pad.chunks(2).zip((0..self_.dim()).rev()) {
        let padded = sizes[d].checked_add(pair[0]).and_then(|s| s.checked_add(pair[1])).filter(|s| *s >= 0);
        let Some(size) = padded else {
            bail!(
                InvalidArgument(NAME, "pad"),
                "The input size {}, plus negative padding {} and {} resulted in a negative output size, which is \
                 invalid. Check dimension {d} of your input.",
                sizes[d],
                pair[0],
                pair[1]
            );
        };
        sizes[d] = size;
    }
    let made = TensorSpec::like(self_, &sizes).with_format(self_.suggest_memory_format()).allocate(NAME)?;
    ops::fill__scalar(&made, value)?;
    let (mut to, mut from) = (made.clone(), self_.clone());
    for (pair, d) in pad.chunks(2).zip((0..self_.dim() as i64).rev()) {
        to = view::slice(&to, d, Some(pair[0].max(0)), Some(sizes[d as usize] - pair[1].max(0)), 1)?;
        let end = self_.sizes()[d as usize] - pair[1].min(0).saturating_neg();
        from = view::slice(&from, d, Some(pair[0].min(0).saturating_neg()), Some(end.max(0)), 1)?;
    }
    if from.numel() > 0 && to.numel() > 0 {
        ops::copy_(&to, &from, false)?;
    }
    Ok(made)
}
