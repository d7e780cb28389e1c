//! The tensors that reductions write: the outputs, or contiguous temporaries that are copied to them afterwards.

use super::fold::RowFold;
use super::inner;
use super::source::Source;
use crate::structured::{TensorSpec, with_scratch};
use crate::tensor_iterator::{DimMask, Reduction};
use crate::{Tensor, ops};
use flambeau_core::{Guarded, Result, ScalarType};
use smallvec::SmallVec;

/// Folds rows of elements of type `kernel` into `M` outputs, whose values have the types `results`.
///
/// # Errors
/// `Busy` or `Aliasing` where memory may not be touched.
pub(crate) fn row_fold<const M: usize>(
    input: &Tensor,
    outs: [&Tensor; M],
    mask: DimMask,
    kernel: ScalarType,
    results: [ScalarType; M],
    fold: impl RowFold<M>,
) -> Result<()> {
    with_targets(input, outs, mask, results, |guarded, reduction, targets| {
        let source = Source::new(guarded, input, kernel)?;
        inner::fold_inner(reduction, source, targets, results.map(ScalarType::size), fold);
        Ok(())
    })
}

/// Calls `body` with the geometry and the addresses of contiguous outputs of the types `results`, under the guards; other
/// outputs get their values by a copy.
pub(super) fn with_targets<const M: usize>(
    input: &Tensor,
    outs: [&Tensor; M],
    mask: DimMask,
    results: [ScalarType; M],
    body: impl FnOnce(Guarded<'_>, &Reduction, [*mut u8; M]) -> Result<()>,
) -> Result<()> {
    let targets = targets(&outs, &results)?;
    let reduction = Reduction::new(input, &targets[0], mask)?;
    let mut addresses = [std::ptr::null_mut(); M];
    with_scratch("reduction", &[input], &targets.iter().collect::<SmallVec<[&Tensor; 3]>>(), |guarded| {
        for (address, target) in addresses.iter_mut().zip(&targets) {
            *address = guarded.ptr(target.strided_view());
        }
        body(guarded, &reduction, addresses)
    })?;
    copy_to_outs(&outs, &targets)
}

/// The outputs themselves, or temporaries that are contiguous and of the types `results`.
fn targets(outs: &[&Tensor], results: &[ScalarType]) -> Result<SmallVec<[Tensor; 3]>> {
    let target = |(out, result): (&&Tensor, &ScalarType)| {
        if out.dtype() == *result && out.is_contiguous() {
            return Ok((*out).clone());
        }
        TensorSpec::like(out, out.sizes()).with_dtype(*result).allocate("reduction")
    };
    outs.iter().zip(results).map(target).collect()
}

/// Copies temporaries to their outputs.
fn copy_to_outs(outs: &[&Tensor], targets: &[Tensor]) -> Result<()> {
    for (out, target) in outs.iter().zip(targets) {
        if !out.is_same(target) {
            ops::copy_(out, target, false)?;
        }
    }
    Ok(())
}
