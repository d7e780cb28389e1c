//! Elements by a mask: `nonzero`, `masked_select`, `masked_scatter`. How many there are is waited for.

use super::scatter::flat_nonzero;
use super::{dense, empty, meta};
use flambeau_core::{DispatchKeySet, Result, Scalar, ScalarType, bail, ensure, shape};
use flambeau_ops::native::index::masked_select;
use flambeau_ops::{Tensor, ops, register};

register!(ops::NONZERO, Cuda, nonzero);
register!(ops::NONZERO_STATIC, Cuda, nonzero_static);
register!(ops::MASKED_SELECT, Cuda, masked_select_kernel);
register!(ops::MASKED_SCATTER_, Cuda, masked_scatter_);
register!(ops::MASKED_SCATTER, Cuda, masked_scatter);
register!(ops::MASKED_SCATTER_BACKWARD, Cuda, masked_scatter_backward);

const ONE: Scalar = Scalar::Int(1);

/// The coordinates of elements, a row for each; those of one dimension are adjacent in memory.
fn nonzero(_: DispatchKeySet, self_: &Tensor) -> Result<Tensor> {
    let mask = match self_.dtype() {
        ScalarType::Bool => dense(self_)?,
        _ => dense(&ops::ne_scalar(self_, Scalar::Int(0))?)?,
    };
    let flat = flat_nonzero("nonzero", &mask)?;
    let count = flat.numel();
    let columns = empty(&[self_.dim() as i64, count], ScalarType::I64, self_.device())?;
    let mut rest = flat;
    for (d, size) in self_.sizes().iter().enumerate().rev() {
        if count == 0 {
            break;
        }
        ops::copy_(
            &ops::select_int(&columns, 0, d as i64)?,
            &ops::remainder_scalar(&rest, Scalar::Int(*size))?,
            false,
        )?;
        rest = ops::div_scalar_mode(&rest, Scalar::Int(*size), Some("floor"))?;
    }
    ops::transpose_int(&columns, 0, 1)
}

fn nonzero_static(_: DispatchKeySet, self_: &Tensor, size: i64, fill_value: i64) -> Result<Tensor> {
    flambeau_ops::native::index::nonzero::nonzero_static(self_, size, fill_value)
}

/// Both, broadcast to common sizes.
fn broadcast(name: &str, a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    let sizes = shape::broadcast(a.sizes(), b.sizes()).map_err(|error| error.in_operator(name))?;
    Ok((ops::expand(a, &sizes, false)?, ops::expand(b, &sizes, false)?))
}

fn ensure_mask(name: &str, mask: &Tensor) -> Result<()> {
    ensure!(
        mask.dtype() == ScalarType::Bool,
        Dtype(name, "mask"),
        "expected BoolTensor for mask but got {}",
        mask.dtype()
    );
    Ok(())
}

fn masked_select_kernel(_: DispatchKeySet, self_: &Tensor, mask: &Tensor) -> Result<Tensor> {
    const NAME: &str = "masked_select";
    ensure_mask(NAME, mask)?;
    let (values, mask) = broadcast(NAME, self_, mask)?;
    let found = flat_nonzero(NAME, &dense(&mask)?)?;
    ops::index_select(&ops::reshape(&values, &[-1])?, 0, &found)
}

fn masked_scatter_(_: DispatchKeySet, self_: &Tensor, mask: &Tensor, source: &Tensor) -> Result<()> {
    const NAME: &str = "masked_scatter_";
    masked_select::masked_scatter_(&meta(self_)?, &meta(mask)?, &meta(source)?)?;
    if self_.numel() == 0 {
        return Ok(());
    }
    let mask = dense(&ops::expand(mask, self_.sizes(), false)?)?;
    let flat = ops::view(&mask, &[mask.numel()])?;
    let positions = ops::cumsum(&flat, 0, Some(ScalarType::I64))?;
    let needed = ops::select_int(&positions, 0, positions.numel() - 1)?.item::<i64>()?;
    ensure!(
        needed <= source.numel(),
        InvalidArgument(NAME, "source"),
        "Number of elements of source < number of ones in mask ({} < {needed})",
        source.numel()
    );
    if needed == 0 {
        return Ok(());
    }
    let indices = ops::clamp_min(&ops::sub_scalar(&positions, ONE, ONE)?, Scalar::Int(0))?;
    let chosen = ops::index_select(&ops::reshape(source, &[-1])?, 0, &indices)?;
    let result = ops::where_self(&mask, &ops::view(&chosen, self_.sizes())?, self_)?;
    ops::copy_(self_, &result, false)
}

fn masked_scatter(key: DispatchKeySet, self_: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    let (values, mask) = broadcast("masked_scatter", self_, mask)?;
    let made = ops::clone(&values, Some(flambeau_core::MemoryFormat::Contiguous))?;
    masked_scatter_(key, &made, &mask, source)?;
    Ok(made)
}

fn masked_scatter_backward(
    key: DispatchKeySet,
    grad_output: &Tensor,
    mask: &Tensor,
    sizes: &[i64],
) -> Result<Tensor> {
    const NAME: &str = "masked_scatter_backward";
    let chosen = masked_select_kernel(key, grad_output, mask)?;
    let made = ops::zeros(sizes, Some(grad_output.dtype()), None, Some(grad_output.device()), None)?;
    let flat = ops::view(&made, &[made.numel()])?;
    if chosen.numel() > flat.numel() {
        bail!(Shape(NAME, "sizes"), "{} elements do not fit into sizes {sizes:?}", chosen.numel());
    }
    ops::copy_(&ops::narrow(&flat, 0, 0, chosen.numel())?, &chosen, false)?;
    Ok(made)
}
