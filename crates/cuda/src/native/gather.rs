//! `gather`, `index_select`, `scatter_add` and `index_add`: elements along a dimension by index. Indices out of range are faults, which the
//! next wait reports.

use super::{dense, dense_as, empty, name_of, program, structured};
use crate::launch::{Arguments, Grid, guarded};
use crate::loops::wide;
use crate::print::{MAX_DIMS, layout_struct};
use flambeau_core::{DispatchKeySet, Result, Scalar, ScalarType, ensure, shape};
use flambeau_ops::native::index::{gather_scatter, index_select};
use flambeau_ops::{Tensor, ops, register};

structured! {
    GATHER GATHER_OUT "gather" gather_scatter::gather_meta, gather:
        (self_: &Tensor, dim: i64, index: &Tensor, sparse_grad: bool) reads [self_, index];
    INDEX_SELECT INDEX_SELECT_OUT "index_select" index_select::index_select_meta, select:
        (self_: &Tensor, dim: i64, index: &Tensor) reads [self_, index];
}

register!(ops::SCATTER_ADD_, Cuda, scatter_add_);
register!(ops::SCATTER_ADD, Cuda, scatter_add);
register!(ops::INDEX_ADD_, Cuda, index_add_);
register!(ops::INDEX_ADD, Cuda, index_add);

const SOURCE: &str = include_str!("../kernels/gather.cu");

/// Sizes and strides of a tensor, of at least one dimension.
fn geometry(tensor: &Tensor) -> (Vec<i64>, Vec<i64>) {
    match tensor.dim() {
        0 => (vec![1], vec![1]),
        _ => (tensor.sizes().to_vec(), tensor.strides().to_vec()),
    }
}

/// Innermost first, and in bytes.
fn reversed(values: &[i64], factor: usize) -> Vec<i64> {
    values.iter().rev().map(|value| value * factor as i64).collect()
}

fn dimension(name: &str, dim: i64, rank: usize) -> Result<usize> {
    ensure!(
        rank <= MAX_DIMS,
        NotImplemented(name),
        "cuda: expected at most {MAX_DIMS} dimensions but got {rank}"
    );
    shape::wrap_dim(dim, rank.max(1)).map_err(|error| error.in_operator(name))
}

/// `out[..] = from[.., index[..], ..]`, with an index of these strides for the dimensions of `out`.
fn take(
    name: &'static str,
    from: &Tensor,
    dim: usize,
    (index, index_strides): (&Tensor, &[i64]),
    out: &Tensor,
) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let result =
        if out.is_contiguous() { out.clone() } else { empty(out.sizes(), out.dtype(), out.device())? };
    let ((sizes, strides), (shape, _)) = (geometry(from), geometry(&result));
    let (size, stride) = (sizes[dim], strides[dim]);
    let mut others = strides;
    others[dim] = 0;
    let bytes = from.dtype().size();
    let rows = [reversed(&others, bytes), reversed(index_strides, size_of::<i64>())];
    let table = wide(&reversed(&shape, 1), &[&rows[0], &rows[1]]);
    let dtype = name_of(name, from.dtype())?;
    guarded(name, &[from, index], &[&result], |gpu| {
        let function = gpu.function(&format!("gather {dtype}"), || source(dtype, ""))?;
        let arguments =
            Arguments::new().int(result.numel()).int(size).int(stride * bytes as i64).tensor(from);
        let arguments = arguments.tensor(index).tensor(&result).word(gpu.faults.address);
        let arguments = arguments.int(gpu.faults.number_of(name)).structure(&table);
        gpu.launch(function, Grid::of(result.numel(), 256), &arguments)
    })?;
    if out.is_contiguous() { Ok(()) } else { ops::copy_(out, &result, false) }
}

fn source(dtype: &str, flag: &str) -> String {
    let operands = if flag.is_empty() { 2 } else { 3 };
    let layout = layout_struct("Layout", operands, false);
    program(&format!("typedef {dtype} T;\n{flag}"), &[&layout, SOURCE])
}

fn gather(self_: &Tensor, dim: i64, index: &Tensor, _: bool, out: &Tensor) -> Result<()> {
    let (dim, index) = (dimension("gather", dim, self_.dim())?, dense_as(index, ScalarType::I64)?);
    let (_, strides) = geometry(&index);
    take("gather", self_, dim, (&index, &strides), out)
}

fn select(self_: &Tensor, dim: i64, index: &Tensor, out: &Tensor) -> Result<()> {
    let (dim, index) = (dimension("index_select", dim, self_.dim())?, dense_as(index, ScalarType::I64)?);
    let mut strides = vec![0; self_.dim().max(1)];
    strides[dim] = 1;
    take("index_select", self_, dim, (&index, &strides), out)
}

/// `to[.., index[k], ..] += alpha * from[.., k, ..]`, with an index of these strides for the dimensions of `from`.
fn add_by_index(
    name: &'static str,
    to: &Tensor,
    dim: usize,
    (index, index_strides): (&Tensor, &[i64]),
    from: &Tensor,
    alpha: f64,
) -> Result<()> {
    let ((sizes, strides), (from_sizes, from_strides)) = (geometry(to), geometry(from));
    ensure!(
        from.dtype() == to.dtype(),
        Dtype(name, "src"),
        "expected elements of {} but got {}",
        to.dtype(),
        from.dtype()
    );
    ensure!(
        from_sizes.len() == sizes.len() && (0..sizes.len()).all(|d| d == dim || from_sizes[d] <= sizes[d]),
        Shape(name, "src"),
        "expected sizes of at most {sizes:?} except in dimension {dim} but got {from_sizes:?}"
    );
    let length = from_sizes[dim];
    // One thread for each element of `to` that an element of `from` may be added to.
    let without =
        |values: &[i64]| -> Vec<i64> { (0..values.len()).filter(|d| *d != dim).map(|d| values[d]).collect() };
    let outer = without(&from_sizes);
    let count = outer.iter().product::<i64>() * sizes[dim];
    if count == 0 || length == 0 {
        return Ok(());
    }
    let (bytes, words) = (to.dtype().size(), size_of::<i64>());
    let rows = [
        reversed(&without(&strides), bytes),
        reversed(&without(index_strides), words),
        reversed(&without(&from_strides), bytes),
    ];
    let table = wide(&reversed(&outer, 1), &[&rows[0], &rows[1], &rows[2]]);
    let dtype = name_of(name, to.dtype())?;
    guarded(name, &[index, from], &[to], |gpu| {
        let function = gpu.function(&format!("scatter {dtype}"), || source(dtype, "#define SCATTER\n"))?;
        let arguments =
            Arguments::new().int(count).int(sizes[dim]).int(strides[dim] * bytes as i64).int(length);
        let arguments =
            arguments.int(index_strides[dim] * words as i64).int(from_strides[dim] * bytes as i64);
        let arguments =
            arguments.tensor(to).tensor(index).tensor(from).double(alpha).word(gpu.faults.address);
        let arguments = arguments.int(gpu.faults.number_of(name)).structure(&table);
        gpu.launch(function, Grid::of(count, 256), &arguments)
    })
}

fn scatter_add_(_: DispatchKeySet, self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<()> {
    const NAME: &str = "scatter_add_";
    let (dim, list) = (dimension(NAME, dim, self_.dim())?, dense_as(index, ScalarType::I64)?);
    let (sizes, strides) = geometry(&list);
    ensure!(
        list.dim() == src.dim() && sizes.iter().zip(geometry(src).0).all(|(a, b)| *a <= b),
        Shape(NAME, "index"),
        "expected an index of at most the sizes of src, {:?}, but got {sizes:?}",
        src.sizes()
    );
    // Only the elements of the source that have an index.
    let part = if list.dim() == 0 { src.clone() } else { ops::as_strided(src, &sizes, src.strides(), None)? };
    add_by_index(NAME, self_, dim, (&list, &strides), &separate(&part, self_)?, 1.0)
}

/// `tensor`, or a copy if it shares memory with what is written.
fn separate(tensor: &Tensor, written: &Tensor) -> Result<Tensor> {
    let shares = flambeau_core::Storage::ptr_eq(tensor.storage(), written.storage());
    if shares { ops::clone(tensor, None) } else { Ok(tensor.clone()) }
}

fn scatter_add(
    key: DispatchKeySet,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
) -> Result<Tensor> {
    let result = ops::clone(self_, None)?;
    scatter_add_(key, &result, dim, index, src)?;
    Ok(result)
}

fn index_add_(
    _: DispatchKeySet,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    alpha: Scalar,
) -> Result<()> {
    const NAME: &str = "index_add_";
    let (dim, list) = (dimension(NAME, dim, self_.dim())?, dense_as(index, ScalarType::I64)?);
    let (sizes, _) = geometry(source);
    ensure!(
        list.dim() <= 1 && sizes.get(dim) == Some(&list.numel()),
        Shape(NAME, "index"),
        "expected one index for each of the {:?} elements of source in dimension {dim} but got {}",
        sizes.get(dim),
        list.numel()
    );
    let mut strides = vec![0; sizes.len()];
    strides[dim] = 1;
    let source = separate(&dense(source)?, self_)?;
    add_by_index(NAME, self_, dim, (&list, &strides), &source, alpha.to_f64())
}

fn index_add(
    key: DispatchKeySet,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    let result = ops::clone(self_, None)?;
    index_add_(key, &result, dim, index, source, alpha)?;
    Ok(result)
}

/// Every program of this module, in a type.
pub(super) fn programs(dtype: &str) -> [(String, String); 2] {
    [
        (format!("gather {dtype}"), source(dtype, "")),
        (format!("scatter {dtype}"), source(dtype, "#define SCATTER\n")),
    ]
}
