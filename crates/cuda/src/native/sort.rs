//! `sort`, `topk` and what follows from the order of elements: `kthvalue`, `median`, `mode`, `searchsorted`.

use super::{dense, dense_as, empty, meta, name_of, program};
use crate::launch::{Arguments, Grid, ceil_div, guarded};
use flambeau_core::{DispatchKeySet, Result, Scalar, ScalarType, shape};
use flambeau_ops::native::index::{searchsorted, sort};
use flambeau_ops::native::reduce::median_mode;
use flambeau_ops::structured::TensorSpec;
use flambeau_ops::tensor_iterator::result_type;
use flambeau_ops::{Tensor, ops, register};

register!(ops::SORT, Cuda, sort_default);
register!(ops::SORT_STABLE, Cuda, sort_stable);
register!(ops::TOPK, Cuda, topk);
register!(ops::KTHVALUE, Cuda, kthvalue);
register!(ops::MEDIAN_DIM, Cuda, median_dim);
register!(ops::NANMEDIAN_DIM, Cuda, nanmedian_dim);
register!(ops::MEDIAN, Cuda, median);
register!(ops::NANMEDIAN, Cuda, nanmedian);
register!(ops::MODE, Cuda, mode);
register!(ops::SEARCHSORTED_TENSOR, Cuda, searchsorted_tensor);
register!(ops::SEARCHSORTED_SCALAR, Cuda, searchsorted_scalar);
register!(ops::BUCKETIZE_TENSOR, Cuda, bucketize);
register!(ops::BUCKETIZE_SCALAR, Cuda, bucketize_scalar);

const SOURCE: &str = include_str!("../kernels/sort.cu");
const SEARCH: &str = include_str!("../kernels/search.cu");
/// Elements of a tile, which a block sorts.
const TILE: i64 = 256;
const ONE: Scalar = Scalar::Int(1);

fn definitions(dtype: &str, descending: bool, flag: &str) -> String {
    format!("typedef {dtype} T;\n#define DESCENDING {descending}\n{flag}")
}

/// The rows of a dense tensor, along its last dimension, in sorted order, and the indices of their elements.
pub(super) fn sorted_rows(name: &'static str, rows: &Tensor, descending: bool) -> Result<(Tensor, Tensor)> {
    let dtype = name_of(name, rows.dtype())?;
    let fresh = |dtype| empty(rows.sizes(), dtype, rows.device());
    let (values, indices) = (fresh(rows.dtype())?, fresh(ScalarType::I64)?);
    let n = rows.sizes().last().copied().unwrap_or(1);
    if rows.numel() == 0 {
        return Ok((values, indices));
    }
    let first = definitions(dtype, descending, "");
    guarded(name, &[rows], &[&values, &indices], |gpu| {
        let function = gpu.function(&format!("sort {first}"), || program(&first, &[SOURCE]))?;
        let tiles = ceil_div(n, TILE);
        let arguments = Arguments::new().int(n).int(tiles).tensor(rows).tensor(&values).tensor(&indices);
        let grid = Grid { blocks: [rows.numel() / n * tiles, 1, 1], threads: 256 };
        gpu.launch(function, grid, &arguments)
    })?;
    let mut runs = (values, indices);
    let merge = definitions(dtype, descending, "#define MERGE\n");
    let mut width = TILE;
    while width < n {
        let merged = (fresh(rows.dtype())?, fresh(ScalarType::I64)?);
        guarded(name, &[&runs.0, &runs.1], &[&merged.0, &merged.1], |gpu| {
            let function = gpu.function(&format!("sort {merge}"), || program(&merge, &[SOURCE]))?;
            let arguments = Arguments::new().int(rows.numel()).int(n).int(width);
            let arguments = arguments.tensor(&runs.0).tensor(&runs.1).tensor(&merged.0).tensor(&merged.1);
            gpu.launch(function, Grid::of(rows.numel(), 256), &arguments)
        })?;
        runs = merged;
        width *= 2;
    }
    Ok(runs)
}

/// A dimension last, densely. A tensor without dimensions is one row of one element.
fn rows_of(self_: &Tensor, dim: i64) -> Result<Tensor> {
    match self_.dim() {
        0 => dense(&ops::view(self_, &[1])?),
        _ => dense(&ops::transpose_int(self_, dim, -1)?),
    }
}

/// Writes rows to where their dimension belongs.
fn store(to: &Tensor, rows: &Tensor, dim: i64) -> Result<()> {
    match to.dim() {
        0 => ops::copy_(to, &ops::view(rows, &[])?, false),
        _ => ops::copy_(to, &ops::transpose_int(rows, dim, -1)?, false),
    }
}

fn sort_into(
    name: &'static str,
    self_: &Tensor,
    dim: i64,
    descending: bool,
    specs: (TensorSpec, TensorSpec),
) -> Result<(Tensor, Tensor)> {
    let (values, indices) = (specs.0.allocate(name)?, specs.1.allocate(name)?);
    if values.numel() == 0 {
        return Ok((values, indices));
    }
    let (sorted, order) = sorted_rows(name, &rows_of(self_, dim)?, descending)?;
    let d = shape::wrap_dim(dim, values.dim())?;
    let count = values.sizes().get(d).copied().unwrap_or(1);
    store(&values, &ops::narrow(&sorted, -1, 0, count)?, dim)?;
    store(&indices, &ops::narrow(&order, -1, 0, count)?, dim)?;
    Ok((values, indices))
}

fn sort_default(_: DispatchKeySet, self_: &Tensor, dim: i64, descending: bool) -> Result<(Tensor, Tensor)> {
    sort_into("sort", self_, dim, descending, sort::sort_meta(self_, None, dim, descending)?)
}

fn sort_stable(
    _: DispatchKeySet,
    self_: &Tensor,
    stable: Option<bool>,
    dim: i64,
    descending: bool,
) -> Result<(Tensor, Tensor)> {
    sort_into("sort", self_, dim, descending, sort::sort_meta(self_, stable, dim, descending)?)
}

fn topk(
    _: DispatchKeySet,
    self_: &Tensor,
    k: i64,
    dim: i64,
    largest: bool,
    sorted: bool,
) -> Result<(Tensor, Tensor)> {
    sort_into("topk", self_, dim, largest, sort::topk_meta(self_, k, dim, largest, sorted)?)
}

/// The elements at a position of each sorted row, which `position` finds, and their indices.
fn selected(
    name: &'static str,
    self_: &Tensor,
    dim: i64,
    specs: (TensorSpec, TensorSpec),
    position: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<(Tensor, Tensor)> {
    let (values, indices) = (specs.0.allocate(name)?, specs.1.allocate(name)?);
    if values.numel() == 0 {
        return Ok((values, indices));
    }
    let (sorted, order) = sorted_rows(name, &rows_of(self_, dim)?, false)?;
    let position = position(&sorted)?;
    for (to, from) in [(&values, &sorted), (&indices, &order)] {
        let chosen = ops::gather(from, -1, &position, false)?;
        let transposed = match self_.dim() {
            0 => chosen,
            _ => dense(&ops::transpose_int(&chosen, dim, -1)?)?,
        };
        ops::copy_(to, &ops::view(&transposed, to.sizes())?, false)?;
    }
    Ok((values, indices))
}

/// One integer for each row.
fn constant_position(sorted: &Tensor, position: i64) -> Result<Tensor> {
    let mut sizes = sorted.sizes().to_vec();
    if let Some(last) = sizes.last_mut() {
        *last = 1;
    }
    ops::full(&sizes, Scalar::Int(position), Some(ScalarType::I64), None, Some(sorted.device()), None)
}

fn kthvalue(_: DispatchKeySet, self_: &Tensor, k: i64, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let specs = median_mode::kthvalue_meta(self_, k, dim, keepdim)?;
    selected("kthvalue", self_, dim, specs, |sorted| constant_position(sorted, k - 1))
}

fn row_length(sorted: &Tensor) -> i64 {
    sorted.sizes().last().copied().unwrap_or(1)
}

/// How many elements of each row are not NaN.
fn numbers(sorted: &Tensor) -> Result<Tensor> {
    let is_number = ops::logical_not(&ops::isnan(sorted)?)?;
    ops::sum_dim_intlist(&is_number, Some(&[-1]), true, Some(ScalarType::I64))
}

/// The position of the lower median, or of the first NaN if there is one.
fn median_position(sorted: &Tensor) -> Result<Tensor> {
    let n = row_length(sorted);
    let middle = constant_position(sorted, (n - 1) / 2)?;
    if !sorted.is_floating_point() {
        return Ok(middle);
    }
    let count = numbers(sorted)?;
    ops::where_self(&ops::lt_scalar(&count, Scalar::Int(n))?, &count, &middle)
}

/// The position of the lower median of what is not NaN.
fn nanmedian_position(sorted: &Tensor) -> Result<Tensor> {
    if !sorted.is_floating_point() {
        return median_position(sorted);
    }
    let last = ops::clamp_min(&ops::sub_scalar(&numbers(sorted)?, ONE, ONE)?, Scalar::Int(0))?;
    ops::div_scalar_mode(&last, Scalar::Int(2), Some("floor"))
}

/// The position of the last element of the first of the longest runs.
fn mode_position(sorted: &Tensor) -> Result<Tensor> {
    let starts = run_starts(sorted)?;
    let position = ops::arange(
        Scalar::Int(row_length(sorted)),
        Some(ScalarType::I64),
        None,
        Some(sorted.device()),
        None,
    )?;
    let zero = Scalar::Int(0);
    let first = ops::masked_fill_scalar(
        &ops::expand(&position, sorted.sizes(), false)?,
        &ops::logical_not(&starts)?,
        zero,
    )?;
    let length = ops::sub_tensor(&position, &ops::cummax(&first, -1)?.0, ONE)?;
    ops::argmax(&length, Some(-1), true)
}

/// Whether each element of a sorted row differs from the one before it.
pub(super) fn run_starts(sorted: &Tensor) -> Result<Tensor> {
    let n = row_length(sorted);
    let mut sizes = sorted.sizes().to_vec();
    if let Some(last) = sizes.last_mut() {
        *last = n.min(1);
    }
    let first = ops::ones(&sizes, Some(ScalarType::Bool), None, Some(sorted.device()), None)?;
    if n < 2 {
        return Ok(first);
    }
    let (left, right) = (ops::narrow(sorted, -1, 0, n - 1)?, ops::narrow(sorted, -1, 1, n - 1)?);
    ops::cat(&[first, ops::ne_tensor(&left, &right)?], -1)
}

/// Registered kernels of reductions that select one element of each row.
macro_rules! selections {
    ($($kernel:ident $name:literal $meta:ident $position:ident;)*) => {$(
        fn $kernel(_: DispatchKeySet, self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
            selected($name, self_, dim, median_mode::$meta(self_, dim, keepdim)?, $position)
        }
    )*};
}

selections! {
    median_dim "median" median_dim_meta median_position;
    nanmedian_dim "nanmedian" nanmedian_dim_meta nanmedian_position;
    mode "mode" mode_meta mode_position;
}

/// The selection of all elements; the host's kernel checks the argument, and fills what is empty.
fn of_all(
    self_: &Tensor,
    checked: fn(&Tensor) -> Result<Tensor>,
    of_dim: fn(&Tensor, i64, bool) -> Result<(Tensor, Tensor)>,
) -> Result<Tensor> {
    if self_.numel() == 0 {
        return checked(self_);
    }
    Ok(of_dim(&ops::reshape(self_, &[-1])?, 0, false)?.0)
}

fn median(_: DispatchKeySet, self_: &Tensor) -> Result<Tensor> {
    of_all(self_, median_mode::median, ops::median_dim)
}

fn nanmedian(_: DispatchKeySet, self_: &Tensor) -> Result<Tensor> {
    of_all(self_, median_mode::nanmedian, ops::nanmedian_dim)
}

fn searchsorted_tensor(
    _: DispatchKeySet,
    sorted_sequence: &Tensor,
    self_: &Tensor,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    const NAME: &str = "searchsorted";
    let without_values = sorter.map(meta).transpose()?;
    searchsorted::searchsorted(
        &meta(sorted_sequence)?,
        &meta(self_)?,
        out_int32,
        right,
        side,
        without_values.as_ref(),
    )?;
    let made = empty(self_.sizes(), ScalarType::I64, sorted_sequence.device())?;
    if made.numel() > 0 {
        let sequence = match sorter {
            Some(sorter) => ops::gather(sorted_sequence, -1, sorter, false)?,
            None => sorted_sequence.clone(),
        };
        let common = result_type([&sequence, self_])?;
        let on_device =
            if self_.device().is_cpu() { super::to_device(self_, made.device())? } else { self_.clone() };
        let (sequence, values) = (dense_as(&sequence, common)?, dense_as(&on_device, common)?);
        let n = row_length(&sequence);
        let per_row = if sequence.dim() == 1 { 0 } else { row_length(&values) };
        let dtype = name_of(NAME, common)?;
        let is_right = i64::from(right || side == Some("right"));
        guarded(NAME, &[&sequence, &values], &[&made], |gpu| {
            let source = || program(&format!("typedef {dtype} T;\n"), &[SEARCH]);
            let function = gpu.function(&format!("search {dtype}"), source)?;
            let arguments = Arguments::new().int(made.numel()).int(n).int(per_row).int(is_right);
            let arguments = arguments.tensor(&sequence).tensor(&values).tensor(&made);
            gpu.launch(function, Grid::of(made.numel(), 256), &arguments)
        })?;
    }
    if out_int32 { dense_as(&made, ScalarType::I32) } else { Ok(made) }
}

fn searchsorted_scalar(
    _: DispatchKeySet,
    sorted_sequence: &Tensor,
    self_: Scalar,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    searchsorted::searchsorted_scalar(sorted_sequence, self_, out_int32, right, side, sorter)
}

fn bucketize(
    _: DispatchKeySet,
    self_: &Tensor,
    boundaries: &Tensor,
    out_int32: bool,
    right: bool,
) -> Result<Tensor> {
    searchsorted::bucketize(&meta(self_)?, &meta(boundaries)?, out_int32, right)?;
    ops::searchsorted_tensor(boundaries, self_, out_int32, right, None, None)
}

fn bucketize_scalar(
    _: DispatchKeySet,
    self_: Scalar,
    boundaries: &Tensor,
    out_int32: bool,
    right: bool,
) -> Result<Tensor> {
    searchsorted::bucketize_scalar(self_, boundaries, out_int32, right)
}

/// Every program of this module, in a type.
pub(super) fn programs(dtype: &str) -> Vec<(String, String)> {
    let sorts = [false, true].into_iter().flat_map(|descending| {
        ["", "#define MERGE\n"].map(|flag| {
            let definitions = definitions(dtype, descending, flag);
            (format!("sort {definitions}"), program(&definitions, &[SOURCE]))
        })
    });
    let search = (format!("search {dtype}"), program(&format!("typedef {dtype} T;\n"), &[SEARCH]));
    sorts.chain([search]).collect()
}
