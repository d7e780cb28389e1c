//! Scans along a dimension: `cumsum`, `cumprod`, `cummax`, `cummin`, `logcumsumexp`, and linear recurrences.

use super::{computing_type, dense, dense_as, empty, meta, name_of, number_name_of, program};
use crate::launch::{Arguments, Grid, address, ceil_div, guarded};
use flambeau_core::{DispatchKeySet, Result, ScalarType, shape};
use flambeau_ops::native::reduce::{cummax_cummin, cumsum_cumprod};
use flambeau_ops::tensor_iterator::result_type;
use flambeau_ops::{Tensor, ops, register};

register!(ops::CUMSUM, Cuda, cumsum);
register!(ops::CUMPROD, Cuda, cumprod);
register!(ops::LOGCUMSUMEXP, Cuda, logcumsumexp);
register!(ops::CUMMAX, Cuda, cummax);
register!(ops::CUMMIN, Cuda, cummin);
register!(ops::_LINEAR_RECURRENCE, Cuda, linear_recurrence);

const SOURCE: &str = include_str!("../kernels/scan.cu");
/// Elements of a chunk, which a block scans.
const CHUNK: i64 = 4096;
/// The largest number of chunks of a row.
const MAX_CHUNKS: i64 = 1024;
/// Rows of up to so many elements are scanned by a warp.
const WARP_ROWS: i64 = 256;
/// Bytes of an accumulator in memory, at most: an element and its index.
const ACCUMULATOR_BYTES: i64 = 16;

/// The types of elements and results, the fold, and how many threads scan a chunk.
fn definitions(from: &str, to: &str, fold: &str, team: i64) -> String {
    let fold = match fold {
        "max" => "Latest\n#define IS_MAX true\n#define WITH_INDICES",
        "min" => "Latest\n#define IS_MAX false\n#define WITH_INDICES",
        "LogSumExp" => "LogSumExp\n#define WITH_LOGARITHM",
        other => other,
    };
    format!("typedef {from} T;\ntypedef {to} R;\n#define TEAM {team}\n#define FOLD {fold}\n")
}

/// Scans a dimension into dense tensors.
fn scan(
    name: &'static str,
    fold: &str,
    self_: &Tensor,
    dim: i64,
    values: &Tensor,
    indices: Option<&Tensor>,
) -> Result<()> {
    if values.numel() == 0 {
        return Ok(());
    }
    let from = dense(self_)?;
    let d = shape::wrap_dim(dim, from.dim())?;
    let n = from.sizes().get(d).copied().unwrap_or(1);
    let inner: i64 = from.sizes().iter().skip(d + 1).product();
    let rows = from.numel() / n;
    let chunk = CHUNK.max(ceil_div(n, MAX_CHUNKS)).min(n);
    let chunks = ceil_div(n, chunk);
    let team = if n <= WARP_ROWS { 32 } else { 256 };
    // Sums and products are of numbers that may have no order.
    let named = if matches!(fold, "Sum" | "Product") { number_name_of } else { name_of };
    let definitions = definitions(named(name, from.dtype())?, named(name, values.dtype())?, fold, team);
    let grid = Grid { blocks: [rows, chunks, 1], threads: team as u32 };
    let totals = match chunks {
        1 => None,
        _ => Some(empty(&[rows * chunks, ACCUMULATOR_BYTES], ScalarType::U8, from.device())?),
    };
    let mut writes = vec![values];
    writes.extend(indices);
    writes.extend(&totals);
    guarded(name, &[&from], &writes, |gpu| {
        let function = gpu.function(&format!("scan {definitions}"), || program(&definitions, &[SOURCE]))?;
        let start = || Arguments::new().int(n).int(inner).int(chunk).tensor(&from).tensor(values);
        let start = || start().word(indices.map_or(0, address));
        let sums = totals.as_ref().map_or(0, address);
        if sums != 0 {
            gpu.launch(function, grid, &start().word(sums).word(0))?;
        }
        gpu.launch(function, grid, &start().word(0).word(sums))
    })
}

/// Registered kernels of scans that give a tensor.
macro_rules! scans {
    ($($kernel:ident $name:literal $fold:literal $meta:ident($($arg:ident: $ty:ty),*);)*) => {$(
        fn $kernel(_: DispatchKeySet, self_: &Tensor, dim: i64, $($arg: $ty),*) -> Result<Tensor> {
            let out = cumsum_cumprod::$meta(self_, dim, $($arg),*)?.allocate($name)?;
            // Elements are converted before they are added.
            let wide = dense_as(self_, out.dtype())?;
            scan($name, $fold, &wide, dim, &out, None)?;
            Ok(out)
        }
    )*};
}

scans! {
    cumsum "cumsum" "Sum" cumsum_meta(dtype: Option<ScalarType>);
    cumprod "cumprod" "Product" cumprod_meta(dtype: Option<ScalarType>);
    logcumsumexp "logcumsumexp" "LogSumExp" logcumsumexp_meta();
}

fn cummax(_: DispatchKeySet, self_: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    let (values, indices) = cummax_cummin::cummax_meta(self_, dim)?;
    let (values, indices) = (values.allocate("cummax")?, indices.allocate("cummax")?);
    scan("cummax", "max", self_, dim, &values, Some(&indices))?;
    Ok((values, indices))
}

fn cummin(_: DispatchKeySet, self_: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    let (values, indices) = cummax_cummin::cummin_meta(self_, dim)?;
    let (values, indices) = (values.allocate("cummin")?, indices.allocate("cummin")?);
    scan("cummin", "min", self_, dim, &values, Some(&indices))?;
    Ok((values, indices))
}

fn linear_recurrence(
    _: DispatchKeySet,
    factor: &Tensor,
    input: &Tensor,
    dim: i64,
    reverse: bool,
) -> Result<Tensor> {
    const NAME: &str = "_linear_recurrence";
    cumsum_cumprod::linear_recurrence(&meta(factor)?, &meta(input)?, dim, reverse)?;
    let dtype = result_type([factor, input])?;
    let kernel = computing_type(dtype);
    let (factor, input) = (dense_as(factor, kernel)?, dense_as(input, kernel)?);
    let out = empty(input.sizes(), kernel, input.device())?;
    if out.numel() > 0 {
        let d = shape::wrap_dim(dim, input.dim())?;
        let n = input.sizes().get(d).copied().unwrap_or(1);
        let inner: i64 = input.sizes().iter().skip(d + 1).product();
        let rows = input.numel() / n;
        let name = number_name_of(NAME, kernel)?;
        guarded(NAME, &[&factor, &input], &[&out], |gpu| {
            let source = || program(&format!("typedef {name} T;\n#define RECURRENCE\n"), &[SOURCE]);
            let function = gpu.function(&format!("recurrence {name}"), source)?;
            let arguments = Arguments::new().int(rows).int(n).int(inner).int(i64::from(reverse));
            let arguments = arguments.tensor(&factor).tensor(&input).tensor(&out);
            gpu.launch(function, Grid::of(rows, 256), &arguments)
        })?;
    }
    dense_as(&out, dtype)
}

/// Every program of this module, in a type.
pub(super) fn programs(dtype: &str) -> Vec<(String, String)> {
    let is_real = ["float", "double", "float16", "bfloat16"].contains(&dtype);
    let folds: &[&str] = match is_real {
        true => &["Sum", "Product", "LogSumExp", "max", "min"],
        false => &["Sum", "Product", "max", "min"],
    };
    let each = folds.iter().map(|fold| {
        let definitions = definitions(dtype, dtype, fold, 256);
        (format!("scan {definitions}"), program(&definitions, &[SOURCE]))
    });
    each.collect()
}
