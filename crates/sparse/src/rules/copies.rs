//! Copies, conversions of types, and tensors like a sparse one.

use super::{check_same_sizes, rules, unsupported};
use crate::convert::to_sparse;
use crate::dense::cast;
use crate::parts::{Coo, is_sparse};
use flambeau_core::{Device, DispatchKey, Layout, MemoryFormat, Result, ScalarType, ensure};
use flambeau_ops::tensor::sparse::SparseParts;
use flambeau_ops::{Tensor, ops};

/// The same pattern with values that `f` makes of the values.
pub(crate) fn with_values(tensor: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let Some(parts) = tensor.sparse_parts() else { return f(tensor) };
    let values = f(parts.values())?;
    Tensor::from_sparse_parts(tensor.layout(), tensor.sizes(), parts.with_values(values))
}

/// The same with copies of indices too, on another device if given.
fn copied(tensor: &Tensor, values: Tensor, device: Device) -> Result<Tensor> {
    let index = |t: &Tensor| ops::to_dtype_layout(t, None, None, Some(device), None, false, true, None);
    let parts = match tensor.sparse_parts() {
        Some(SparseParts::Coo { indices, is_coalesced, .. }) => {
            SparseParts::Coo { indices: index(&indices)?, values, is_coalesced }
        }
        Some(SparseParts::Compressed { compressed, plain, .. }) => {
            SparseParts::Compressed { compressed: index(&compressed)?, plain: index(&plain)?, values }
        }
        None => return Ok(values),
    };
    Tensor::from_sparse_parts(tensor.layout(), tensor.sizes(), parts)
}

fn clone(tensor: &Tensor) -> Result<Tensor> {
    let values = tensor.sparse_parts().map(|parts| ops::clone(parts.values(), None)).transpose()?;
    copied(tensor, values.unwrap_or_else(|| tensor.clone()), tensor.device())
}

fn to_copy(
    tensor: &Tensor,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    non_blocking: bool,
    _memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let Some(parts) = tensor.sparse_parts() else {
        return unsupported("_to_copy", tensor, "a copy of a strided tensor");
    };
    let values = ops::_to_copy(parts.values(), dtype, None, device, pin_memory, non_blocking, None)?;
    let made = copied(tensor, values, device.unwrap_or(tensor.device()))?;
    match layout {
        Some(layout) if layout != tensor.layout() => to_sparse(&made, layout, None, None),
        _ => Ok(made),
    }
}

/// A sparse tensor of the same sizes without elements: all of it is 0.
fn zeros_like(
    tensor: &Tensor,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
) -> Result<Tensor> {
    let (dtype, device) = (dtype.unwrap_or(tensor.dtype()), device.unwrap_or(tensor.device()));
    let layout = layout.unwrap_or(tensor.layout());
    if layout == Layout::Strided {
        return ops::zeros(tensor.sizes(), Some(dtype), None, Some(device), None);
    }
    ensure!(
        layout == tensor.layout(),
        NotImplemented("zeros_like", "layout"),
        "expected layout {} but got {layout}",
        tensor.layout()
    );
    let integers =
        |sizes: &[i64], like: &Tensor| ops::zeros(sizes, Some(like.dtype()), None, Some(device), None);
    let Some(parts) = tensor.sparse_parts() else { return Ok(tensor.clone()) };
    let mut sizes = parts.values().sizes().to_vec();
    let parts = match parts {
        SparseParts::Coo { indices, .. } => {
            sizes[0] = 0;
            let values = ops::zeros(&sizes, Some(dtype), None, Some(device), None)?;
            SparseParts::Coo {
                indices: integers(&[indices.sizes()[0], 0], &indices)?,
                values,
                is_coalesced: true,
            }
        }
        SparseParts::Compressed { compressed, plain, .. } => {
            let batch = compressed.dim() - 1;
            sizes[batch] = 0;
            let mut none = plain.sizes().to_vec();
            none[batch] = 0;
            SparseParts::Compressed {
                compressed: integers(compressed.sizes(), &compressed)?,
                plain: integers(&none, &plain)?,
                values: ops::zeros(&sizes, Some(dtype), None, Some(device), None)?,
            }
        }
    };
    Tensor::from_sparse_parts(layout, tensor.sizes(), parts)
}

/// Makes `self` all 0. The values are written in place, for tensors that share them.
fn zero_(tensor: &Tensor) -> Result<()> {
    let Some(parts) = tensor.sparse_parts() else { return ops::zero_(tensor) };
    ops::zero_(parts.values())?;
    // Values that autograd knows stay, with their gradient and history. Others are dropped: a gradient that is reset and summed up again
    // would keep all coordinates that it ever had.
    if parts.values().key_set().has(DispatchKey::Autograd) {
        return Ok(());
    }
    let empty = zeros_like(tensor, None, None, None)?;
    empty.sparse_parts().map_or(Ok(()), |parts| tensor.replace_sparse_parts(parts))
}

/// `self` becomes a copy of `src`, of the same layout.
fn copy_(tensor: &Tensor, src: &Tensor) -> Result<()> {
    ensure!(
        tensor.layout() == src.layout(),
        InvalidArgument("copy_", "src"),
        "expected a source of layout {} but got {}",
        tensor.layout(),
        src.layout()
    );
    check_same_sizes("copy_", tensor, src)?;
    let copy = to_copy(src, Some(tensor.dtype()), None, Some(tensor.device()), None, false, None)?;
    copy.sparse_parts().map_or(Ok(()), |parts| tensor.write_sparse_parts(parts))
}

/// Whether sizes, layout and all elements are equal.
fn equal(a: &Tensor, b: &Tensor) -> Result<bool> {
    ensure!(
        a.layout() == b.layout(),
        InvalidArgument("equal"),
        "expected tensors of one layout but got {} and {}",
        a.layout(),
        b.layout()
    );
    if a.sizes() != b.sizes() {
        return Ok(false);
    }
    let (a, b) = (crate::convert::coo_of(a)?.coalesced()?, crate::convert::coo_of(b)?.coalesced()?);
    Ok(ops::equal(&a.indices, &b.indices)? && ops::equal(&a.values, &b.values)?)
}

/// The same tensor without history, sharing its elements.
fn detach(tensor: &Tensor) -> Result<Tensor> {
    with_values(tensor, ops::detach)
}

fn to_dtype(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    with_values(tensor, |values| cast(values, dtype))
}

/// `coalesce` in effect for `is_sparse` operands of in-place operators: the values then are those of the elements.
pub(crate) fn coalesce_(tensor: &Tensor) -> Result<()> {
    if tensor.layout() != Layout::SparseCoo {
        return Ok(());
    }
    let coo = Coo::of(tensor)?;
    if coo.is_coalesced {
        return Ok(());
    }
    let Coo { indices, values, is_coalesced, .. } = coo.coalesced()?;
    if indices.sizes() == coo.indices.sizes() && ops::equal(&indices, &coo.indices)? {
        // The order was right already: the values stay the same tensor, which others may share.
        let parts = SparseParts::Coo { indices: coo.indices, values: coo.values, is_coalesced };
        return tensor.replace_sparse_parts(parts);
    }
    let parts = tensor.replacement_parts(SparseParts::Coo { indices, values, is_coalesced })?;
    tensor.replace_sparse_parts(parts)
}

/// A tensor of the type that both operands promote to.
pub(crate) fn promoted(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    let dtype = a.dtype().promote(b.dtype()).unwrap_or(a.dtype());
    let of = |t: &Tensor| if is_sparse(t) { to_dtype(t, dtype) } else { cast(t, dtype) };
    Ok((of(a)?, of(b)?))
}

rules! {
    CLONE => |_, tensor, _| clone(tensor);
    DETACH => |_, tensor| detach(tensor);
    ALIAS => |_, tensor| with_values(tensor, ops::alias);
    _TO_COPY => |_, tensor, dtype, layout, device, pin, non_blocking, format| {
        to_copy(tensor, dtype, layout, device, pin, non_blocking, format)
    };
    ZEROS_LIKE => |_, tensor, dtype, layout, device, _, _| zeros_like(tensor, dtype, layout, device);
    EMPTY_LIKE => |_, tensor, dtype, layout, device, _, _| zeros_like(tensor, dtype, layout, device);
    ZERO_ => |_, tensor| zero_(tensor);
    COPY_ => |_, tensor, src, _| match is_sparse(tensor) {
        true => copy_(tensor, src),
        false => ops::copy_(tensor, &crate::to_dense(src)?, false),
    };
    EQUAL => |_, a, b| equal(a, b);
}
