//! Type promotion: tensors with dimensions outrank those without, and both outrank numbers given as arguments.

use crate::Tensor;
use flambeau_core::{Result, Scalar, ScalarType, bail, default_dtype};

/// The types found so far, by rank.
#[derive(Default, Clone, Copy)]
struct Ranks {
    dimensioned: Option<ScalarType>,
    zero_dim: Option<ScalarType>,
    wrapped: Option<ScalarType>,
}

/// `a` and `b` promoted; `None` is neutral.
fn join(a: Option<ScalarType>, b: Option<ScalarType>) -> Result<Option<ScalarType>> {
    match (a, b) {
        (Some(a), Some(b)) => match a.promote(b) {
            Some(promoted) => Ok(Some(promoted)),
            None => {
                bail!(Dtype, expected = a, got = b, "there is no type that holds both {expected} and {got}")
            }
        },
        (a, b) => Ok(a.or(b)),
    }
}

/// The higher rank wins unless the lower has a higher category. Complex numbers of lower rank make floating point numbers complex without
/// making them wider, and outrank all integers.
fn outrank(high: Option<ScalarType>, low: Option<ScalarType>) -> Result<Option<ScalarType>> {
    match (high, low) {
        (Some(ScalarType::F32), Some(low)) if low.is_complex() => Ok(Some(ScalarType::Complex64)),
        (Some(high), Some(low)) if high.is_integral(true) && low.is_complex() => Ok(Some(low)),
        (Some(high), Some(low)) if high.category() < low.category() => join(Some(high), Some(low)),
        (high, low) => Ok(high.or(low)),
    }
}

impl Ranks {
    fn add(&mut self, tensor: &Tensor) -> Result<()> {
        let mut dtype = tensor.dtype();
        let rank = if tensor.is_wrapped_number() {
            dtype = of_number(dtype);
            &mut self.wrapped
        } else if tensor.dim() == 0 {
            &mut self.zero_dim
        } else {
            &mut self.dimensioned
        };
        *rank = join(*rank, Some(dtype))?;
        Ok(())
    }

    fn result(self) -> Result<Option<ScalarType>> {
        outrank(self.dimensioned, outrank(self.zero_dim, self.wrapped)?)
    }
}

/// The type with which a number of type `dtype` takes part in promotion.
#[inline]
fn of_number(dtype: ScalarType) -> ScalarType {
    match dtype {
        ScalarType::F64 => default_dtype(),
        ScalarType::Complex128 => default_dtype().to_complex(),
        other => other,
    }
}

/// The type that `tensors` promote to. PyTorch's `result_type`.
///
/// # Errors
/// `Dtype` where no type holds them all, `InvalidArgument` where there are no tensors.
pub fn result_type<'t>(tensors: impl IntoIterator<Item = &'t Tensor>) -> Result<ScalarType> {
    let mut ranks = Ranks::default();
    for tensor in tensors {
        ranks.add(tensor)?;
    }
    match ranks.result()? {
        Some(dtype) => Ok(dtype),
        None => bail!(InvalidArgument, "expected at least one tensor to find a result type"),
    }
}

/// The type that a tensor and a number promote to.
///
/// # Errors
/// `Dtype` where there is none.
pub fn result_type_of(tensor: &Tensor, number: Scalar) -> Result<ScalarType> {
    let mut ranks = Ranks::default();
    ranks.add(tensor)?;
    ranks.wrapped = Some(of_number(number.scalar_type()));
    Ok(ranks.result()?.unwrap_or(tensor.dtype()))
}
