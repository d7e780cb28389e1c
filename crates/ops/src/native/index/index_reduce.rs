//! `index_reduce`: slices combined with those of another tensor by product, mean, maximum or minimum.

use crate::{Tensor, ops};
use flambeau_core::{Result, ScalarType, ensure, shape};

/// A copy of `self_` whose slices of `dim` at `index` are reduced with the slices of `source`, as `reduce` says.
pub fn index_reduce(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    const NAME: &str = "index_reduce";
    ensure!(
        ["prod", "mean", "amax", "amin"].contains(&reduce),
        InvalidArgument(NAME, "reduce"),
        "expected reduce to be one of prod, mean, amax or amin but got {reduce}."
    );
    ensure!(
        self_.dtype() != ScalarType::Bool,
        NotImplemented(NAME, "self"),
        "\"index_func_\" not implemented for 'bool'"
    );
    ensure!(
        index.dim() <= 1,
        Index(NAME, "index"),
        "Index is supposed to be a vector, but got dim: {}",
        index.dim()
    );
    let whole = matches!(index.dtype(), ScalarType::I32 | ScalarType::I64);
    ensure!(whole, Dtype(NAME, "index"), "Expected dtype int32/int64 for index");
    ensure!(
        self_.dtype() == source.dtype(),
        Dtype(NAME, "source"),
        "self and source expected to have the same dtype"
    );
    ensure!(
        self_.dim() == source.dim(),
        Shape(NAME, "source"),
        "self and source must have as many dimensions"
    );
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator(NAME))?;
    let fits = (0..self_.dim()).all(|at| {
        let size = source.sizes()[at];
        if at == d { size == index.numel() } else { size == self_.sizes()[at] }
    });
    ensure!(
        fits,
        Shape(NAME, "source"),
        "expected a source of as many slices as there are indices ({}), and otherwise of the sizes {:?}, but got {:?}",
        index.numel(),
        self_.sizes(),
        source.sizes()
    );
    let mut sizes = vec![1; self_.dim()];
    if let Some(size) = sizes.get_mut(d) {
        *size = index.numel();
    }
    let index = index.to(ScalarType::I64)?.reshape(&sizes)?.expand(source.sizes())?;
    ops::scatter_reduce_two(self_, dim, &index, source, reduce, include_self)
}
