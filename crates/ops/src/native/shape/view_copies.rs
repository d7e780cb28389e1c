//! Operators that copy the result of a view operator, such as `select_copy`, and `as_strided_scatter`.

use crate::{Tensor, ops};
use flambeau_core::{MemoryFormat, Result, Storage, ensure, shape};

fn copied(view: Tensor) -> Result<Tensor> {
    ops::clone(&view, Some(MemoryFormat::Contiguous))
}

macro_rules! copies {
    ($($(#[$doc:meta])* $name:ident = $of:ident($($arg:ident: $ty:ty),*);)*) => {$(
        $(#[$doc])*
        pub fn $name(self_: &Tensor $(, $arg: $ty)*) -> Result<Tensor> {
            copied(ops::$of(self_ $(, $arg)*)?)
        }
    )*};
}

copies! {
    /// A copy of `alias`.
    alias_copy = alias();
    /// A copy of `as_strided`.
    as_strided_copy = as_strided(size: &[i64], stride: &[i64], storage_offset: Option<i64>);
    /// A copy of `detach`.
    detach_copy = detach();
    /// A copy of `diagonal`.
    diagonal_copy = diagonal(offset: i64, dim1: i64, dim2: i64);
    /// A copy of `expand`.
    expand_copy = expand(size: &[i64], implicit: bool);
    /// A copy of `narrow`.
    narrow_copy = narrow(dim: i64, start: i64, length: i64);
    /// A copy of `permute`.
    permute_copy = permute(dims: &[i64]);
    /// A copy of `select`.
    select_copy = select_int(dim: i64, index: i64);
    /// A copy of `slice`.
    slice_copy = slice_tensor(dim: i64, start: Option<i64>, end: Option<i64>, step: i64);
    /// A copy of `squeeze`.
    squeeze_copy = squeeze();
    /// A copy of `squeeze` of one dimension.
    squeeze_copy_dim = squeeze_dim(dim: i64);
    /// A copy of `squeeze` of several dimensions.
    squeeze_copy_dims = squeeze_dims(dim: &[i64]);
    /// A copy of `t`.
    t_copy = t();
    /// A copy of `transpose`.
    transpose_copy = transpose_int(dim0: i64, dim1: i64);
    /// A copy of `unfold`.
    unfold_copy = unfold(dimension: i64, size: i64, step: i64);
    /// A copy of `unsqueeze`.
    unsqueeze_copy = unsqueeze(dim: i64);
}

/// A copy with other sizes; `reshape` makes it where no view has them.
pub fn view_copy(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    let made = ops::reshape(self_, size)?;
    let is_view = Storage::ptr_eq(made.storage(), self_.storage());
    if is_view { copied(made) } else { Ok(made) }
}

fn all_copied(views: Vec<Tensor>) -> Result<Vec<Tensor>> {
    views.into_iter().map(copied).collect()
}

/// Copies of the pieces of `split`.
pub fn split_copy(self_: &Tensor, split_size: i64, dim: i64) -> Result<Vec<Tensor>> {
    all_copied(ops::split_tensor(self_, split_size, dim)?)
}

/// Copies of the pieces of `split_with_sizes`.
pub fn split_with_sizes_copy(self_: &Tensor, split_sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    all_copied(ops::split_with_sizes(self_, split_sizes, dim)?)
}

/// Copies of the slices of `unbind`.
pub fn unbind_copy(self_: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    all_copied(ops::unbind_int(self_, dim)?)
}

/// A copy of `self_` with `src` in the view that `as_strided` makes of it.
pub fn as_strided_scatter(
    self_: &Tensor,
    src: &Tensor,
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    // `as_strided` addresses elements by their offset in the storage, so all of the storage is copied.
    let storage_len = self_.storage().nbytes() / self_.dtype().size();
    let made = if shape::has_internal_overlap(self_.sizes(), self_.strides()) {
        ops::clone(self_, Some(MemoryFormat::Contiguous))?
    } else {
        let all = ops::clone(&ops::as_strided(self_, &[storage_len as i64], &[1], Some(0))?, None)?;
        ops::as_strided(&all, self_.sizes(), self_.strides(), Some(self_.storage_offset()))?
    };
    let part = ops::as_strided(&made, size, stride, storage_offset)?;
    ensure!(
        part.sizes() == src.sizes(),
        Shape("as_strided_scatter", "src"),
        "expected src to have a size equal to the slice of self. src size = {:?}, slice size = {:?}",
        src.sizes(),
        part.sizes()
    );
    ops::copy_(&part, src, false)?;
    Ok(made)
}
