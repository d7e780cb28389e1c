//! Reductions along any dimensions. How elements are split depends on sizes alone, so the same input gives the same bits.

use super::{computing_type, dense_as, empty, made, meta, name_of, number_name_of, program, structured};
use crate::launch::{Arguments, Grid, address, ceil_div, guarded};
use crate::loops::wide;
use crate::print::{MAX_DIMS, layout_struct};
use flambeau_core::{DispatchKeySet, Result, Scalar, ScalarType, ensure};
use flambeau_ops::native::reduce::{max_min, sum_prod_any, vector_norm};
use flambeau_ops::structured::TensorSpec;
use flambeau_ops::tensor_iterator::DimMask;
use flambeau_ops::{Tensor, ops, register};

structured! {
    SUM_DIM_INTLIST SUM_INTLIST_OUT "sum" sum_prod_any::sum_meta, sum:
        (self_: &Tensor, dim: Option<&[i64]>, keepdim: bool, dtype: Option<flambeau_core::ScalarType>) reads [self_];
    MEAN_DIM MEAN_OUT "mean" sum_prod_any::mean_meta, mean:
        (self_: &Tensor, dim: Option<&[i64]>, keepdim: bool, dtype: Option<flambeau_core::ScalarType>) reads [self_];
    LINALG_VECTOR_NORM LINALG_VECTOR_NORM_OUT "linalg.vector_norm" vector_norm::linalg_vector_norm_meta, norm:
        (self_: &Tensor, ord: flambeau_core::Scalar, dim: Option<&[i64]>, keepdim: bool, dtype: Option<flambeau_core::ScalarType>)
        reads [self_];
    NANSUM NANSUM_OUT "nansum" sum_prod_any::nansum_meta, nansum:
        (self_: &Tensor, dim: Option<&[i64]>, keepdim: bool, dtype: Option<flambeau_core::ScalarType>) reads [self_];
    NORM_SCALAROPT_DIM NORM_OUT "norm" vector_norm::norm_dim_meta, norm_dim:
        (self_: &Tensor, p: Option<flambeau_core::Scalar>, dim: &[i64], keepdim: bool) reads [self_];
    NORM_SCALAROPT_DIM_DTYPE NORM_DTYPE_OUT "norm" vector_norm::norm_dim_dtype_meta, norm_dim_dtype:
        (self_: &Tensor, p: Option<flambeau_core::Scalar>, dim: &[i64], keepdim: bool, dtype: flambeau_core::ScalarType)
        reads [self_];
    ANY_DIMS ANY_DIMS_OUT "any" sum_prod_any::any_dims_meta, any_dims:
        (self_: &Tensor, dim: Option<&[i64]>, keepdim: bool) reads [self_];
    ALL_DIMS ALL_DIMS_OUT "all" sum_prod_any::all_dims_meta, all_dims:
        (self_: &Tensor, dim: Option<&[i64]>, keepdim: bool) reads [self_];
    AMAX AMAX_OUT "amax" max_min::amax_meta, amax: (self_: &Tensor, dim: &[i64], keepdim: bool) reads [self_];
    AMIN AMIN_OUT "amin" max_min::amin_meta, amin: (self_: &Tensor, dim: &[i64], keepdim: bool) reads [self_];
    ARGMAX ARGMAX_OUT "argmax" max_min::argmax_meta, argmax: (self_: &Tensor, dim: Option<i64>, keepdim: bool) reads [self_];
    ARGMIN ARGMIN_OUT "argmin" max_min::argmin_meta, argmin: (self_: &Tensor, dim: Option<i64>, keepdim: bool) reads [self_];
}

/// The operators that have only a functional form here; their `out=` form is composed of it.
macro_rules! functional {
    ($($operator:ident $name:literal $meta:path: ($($arg:ident: $ty:ty),*) $fold:literal $dims:expr;)*) => {$(
        const _: () = {
            fn kernel(_: DispatchKeySet, self_: &Tensor $(, $arg: $ty)*) -> Result<Tensor> {
                let out = $meta(self_ $(, $arg)*)?.allocate($name)?;
                let dims: Option<&[i64]> = $dims;
                let from = if matches!($fold, "Any" | "All") { truth_of(self_)? } else { self_.clone() };
                Reduction::new($name, &from, dims)?.run($fold, [Some(&out), None], 1.0)?;
                Ok(out)
            }
            register!(ops::$operator, Cuda, kernel);
        };
    )*};
}

functional! {
    MAX "max" max_min::max_meta: () "max" None;
    MIN "min" max_min::min_meta: () "min" None;
    ANY "any" sum_prod_any::any_meta: () "Any" None;
    ALL "all" sum_prod_any::all_meta: () "All" None;
    ANY_DIM "any" sum_prod_any::any_dim_meta: (dim: i64, keepdim: bool) "Any" Some(&[dim]);
    ALL_DIM "all" sum_prod_any::all_dim_meta: (dim: i64, keepdim: bool) "All" Some(&[dim]);
    PROD_DIM_INT "prod" sum_prod_any::prod_meta: (dim: i64, keepdim: bool, dtype: Option<ScalarType>) "Product" Some(&[dim]);
}

register!(ops::MAX_DIM, Cuda, max_dim);
register!(ops::MIN_DIM, Cuda, min_dim);

fn sum(self_: &Tensor, dim: Option<&[i64]>, _: bool, _: Option<ScalarType>, out: &Tensor) -> Result<()> {
    Reduction::new("sum", self_, dim)?.run("Sum", [Some(out), None], 1.0)
}

fn mean(self_: &Tensor, dim: Option<&[i64]>, _: bool, _: Option<ScalarType>, out: &Tensor) -> Result<()> {
    let reduction = Reduction::new("mean", self_, dim)?;
    let count = reduction.count;
    if count == 0 {
        let nan = f64::NAN;
        let none = if out.is_complex() { Scalar::Complex(nan, nan) } else { Scalar::Float(nan) };
        return ops::fill__scalar(out, none);
    }
    reduction.run("Sum", [Some(out), None], count as f64)
}

/// The sum over no dimension is over all.
fn nansum(self_: &Tensor, dim: Option<&[i64]>, _: bool, _: Option<ScalarType>, out: &Tensor) -> Result<()> {
    ensure!(!self_.is_complex(), NotImplemented("nansum", "self"), "nansum does not support complex inputs");
    let fold = if self_.is_floating_point() { "NanSum" } else { "Sum" };
    Reduction::new("nansum", self_, dim)?.run(fold, [Some(out), None], 1.0)
}

fn any_dims(self_: &Tensor, dim: Option<&[i64]>, _: bool, out: &Tensor) -> Result<()> {
    of_dims("any", "Any", self_, dim, out)
}

fn all_dims(self_: &Tensor, dim: Option<&[i64]>, _: bool, out: &Tensor) -> Result<()> {
    of_dims("all", "All", self_, dim, out)
}

/// Along none of the dimensions, whether each element differs from zero.
fn of_dims(name: &'static str, fold: &str, self_: &Tensor, dim: Option<&[i64]>, out: &Tensor) -> Result<()> {
    match dim {
        Some([]) => ops::copy_(out, &ops::ne_scalar(self_, Scalar::Int(0))?, false),
        _ => Reduction::new(name, &truth_of(self_)?, dim)?.run(fold, [Some(out), None], 1.0),
    }
}

/// Whether complex numbers differ from zero; real ones as they are.
fn truth_of(self_: &Tensor) -> Result<Tensor> {
    if self_.dtype().is_complex() { ops::ne_scalar(self_, Scalar::Int(0)) } else { Ok(self_.clone()) }
}

fn norm(
    self_: &Tensor,
    ord: Scalar,
    dim: Option<&[i64]>,
    _: bool,
    _: Option<ScalarType>,
    out: &Tensor,
) -> Result<()> {
    const NAME: &str = "linalg.vector_norm";
    if self_.dtype().is_complex() {
        return norm(&ops::abs(self_)?, ord, dim, false, None, out);
    }
    let reduce = |of: &Tensor, fold| Reduction::new(NAME, of, dim)?.run(fold, [Some(out), None], 1.0);
    let wide = dense_as(self_, computing_type(out.dtype()))?;
    match ord.to_f64() {
        2.0 => reduce(self_, "SumOfSquares"),
        1.0 => reduce(&ops::abs(self_)?, "Sum"),
        0.0 => reduce(&ops::ne_scalar(self_, Scalar::Int(0))?, "Sum"),
        p if p == f64::INFINITY => reduce(&ops::abs(self_)?, "max"),
        p if p == f64::NEG_INFINITY => reduce(&ops::abs(self_)?, "min"),
        p => {
            let powers = ops::pow_tensor_scalar(&ops::abs(&wide)?, Scalar::Float(p))?;
            let keepdim = out.dim() == self_.dim();
            let sum = ops::sum_dim_intlist(&powers, dim, keepdim, None)?;
            ops::copy_(out, &ops::pow_tensor_scalar(&sum, Scalar::Float(1.0 / p))?, false)
        }
    }
}

fn norm_dim(self_: &Tensor, p: Option<Scalar>, dim: &[i64], keepdim: bool, out: &Tensor) -> Result<()> {
    norm(self_, p.unwrap_or(Scalar::Int(2)), Some(dim), keepdim, None, out)
}

fn norm_dim_dtype(
    self_: &Tensor,
    p: Option<Scalar>,
    dim: &[i64],
    keepdim: bool,
    dtype: ScalarType,
    out: &Tensor,
) -> Result<()> {
    norm(self_, p.unwrap_or(Scalar::Int(2)), Some(dim), keepdim, Some(dtype), out)
}

register!(ops::COUNT_NONZERO_DIM_INTLIST, Cuda, count_nonzero);
register!(ops::LOGSUMEXP, Cuda, logsumexp);
register!(ops::PROD, Cuda, prod);
register!(ops::AMINMAX, Cuda, aminmax);

fn count_nonzero(_: DispatchKeySet, self_: &Tensor, dim: &[i64]) -> Result<Tensor> {
    let out = made(&sum_prod_any::count_nonzero_dims(&meta(self_)?, dim)?, self_.device())?;
    let truth = ops::ne_scalar(self_, Scalar::Int(0))?;
    Reduction::new("count_nonzero", &truth, Some(dim))?.run("Sum", [Some(&out), None], 1.0)?;
    Ok(out)
}

/// The maximum is subtracted before, unless it is infinite.
fn logsumexp(_: DispatchKeySet, self_: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    let out = made(&sum_prod_any::logsumexp(&meta(self_)?, dim, keepdim)?, self_.device())?;
    if out.numel() == 0 {
        return Ok(out);
    }
    let x = dense_as(self_, computing_type(out.dtype()))?;
    if x.numel() == 0 {
        ops::fill__scalar(&out, Scalar::Float(f64::NEG_INFINITY))?;
        return Ok(out);
    }
    let highest = ops::amax(&x, dim, true)?;
    let shift = ops::masked_fill_scalar(&highest, &ops::isinf(&highest)?, Scalar::Int(0))?;
    let powers = ops::exp(&ops::sub_tensor(&x, &shift, Scalar::Int(1))?)?;
    let sum = ops::log(&ops::sum_dim_intlist(&powers, Some(dim), keepdim, None)?)?;
    let result = ops::add_tensor(&sum, &ops::reshape(&shift, sum.sizes())?, Scalar::Int(1))?;
    ops::copy_(&out, &result, false)?;
    Ok(out)
}

fn prod(_: DispatchKeySet, self_: &Tensor, dtype: Option<ScalarType>) -> Result<Tensor> {
    let out = made(&sum_prod_any::prod_all(&meta(self_)?, dtype)?, self_.device())?;
    let wide = if dtype.is_some() { dense_as(self_, out.dtype())? } else { self_.clone() };
    Reduction::new("prod", &wide, None)?.run("Product", [Some(&out), None], 1.0)?;
    Ok(out)
}

fn aminmax(_: DispatchKeySet, self_: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let (min, max) = max_min::aminmax_meta(self_, dim, keepdim)?;
    let (min, max) = (min.allocate("aminmax")?, max.allocate("aminmax")?);
    let dims = dim.as_ref().map(std::slice::from_ref);
    Reduction::new("aminmax", self_, dims)?.run("min", [Some(&min), None], 1.0)?;
    Reduction::new("aminmax", self_, dims)?.run("max", [Some(&max), None], 1.0)?;
    Ok((min, max))
}

fn amax(self_: &Tensor, dim: &[i64], _: bool, out: &Tensor) -> Result<()> {
    Reduction::new("amax", self_, Some(dim))?.run("max", [Some(out), None], 1.0)
}

fn amin(self_: &Tensor, dim: &[i64], _: bool, out: &Tensor) -> Result<()> {
    Reduction::new("amin", self_, Some(dim))?.run("min", [Some(out), None], 1.0)
}

fn argmax(self_: &Tensor, dim: Option<i64>, _: bool, out: &Tensor) -> Result<()> {
    Reduction::new("argmax", self_, dim.as_ref().map(std::slice::from_ref))?.run(
        "max",
        [None, Some(out)],
        1.0,
    )
}

fn argmin(self_: &Tensor, dim: Option<i64>, _: bool, out: &Tensor) -> Result<()> {
    Reduction::new("argmin", self_, dim.as_ref().map(std::slice::from_ref))?.run(
        "min",
        [None, Some(out)],
        1.0,
    )
}

fn max_dim(_: DispatchKeySet, self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    extreme("max", self_, dim, max_min::max_dim_meta(self_, dim, keepdim)?)
}

fn min_dim(_: DispatchKeySet, self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    extreme("min", self_, dim, max_min::min_dim_meta(self_, dim, keepdim)?)
}

fn extreme(
    fold: &'static str,
    self_: &Tensor,
    dim: i64,
    (values, indices): (TensorSpec, TensorSpec),
) -> Result<(Tensor, Tensor)> {
    let (values, indices) = (values.allocate(fold)?, indices.allocate(fold)?);
    Reduction::new(fold, self_, Some(&[dim]))?.run(fold, [Some(&values), Some(&indices)], 1.0)?;
    Ok((values, indices))
}

/// A reduction: the dimensions that are kept and those that are reduced, innermost first, with strides in bytes.
pub(super) struct Reduction<'a> {
    name: &'static str,
    input: &'a Tensor,
    kept: (Vec<i64>, Vec<i64>),
    reduced: (Vec<i64>, Vec<i64>),
    outputs: i64,
    /// Elements of one result.
    count: i64,
}

/// Bytes of an accumulator in memory, at most: two numbers and a count.
const ACCUMULATOR_BYTES: i64 = 24;
/// From so many elements on, a result is computed by a block.
const MIN_BLOCK_COUNT: i64 = 128;
/// A block folds at least so many elements, a thread at least as many as the second.
const MIN_CHUNK: [i64; 2] = [4096, 64];
/// So many blocks, or threads, are enough for a large device.
const ENOUGH: [i64; 2] = [1024, 1 << 18];
/// Chunks are multiples of what a block, or a thread, folds in one round: 8 elements of each thread.
const ROUND: [i64; 2] = [2048, 8];
/// Up to so many partial results are folded by a thread, more by a block; the second where there are many results.
const MAX_SERIAL_CHUNKS: [i64; 2] = [8, 64];
const MANY_OUTPUTS: i64 = 1024;
/// The largest number of chunks.
const MAX_CHUNKS: i64 = 4096;

impl<'a> Reduction<'a> {
    pub(super) fn new(name: &'static str, input: &'a Tensor, dim: Option<&[i64]>) -> Result<Self> {
        let mask = DimMask::new(dim, input.dim()).map_err(|error| error.in_operator(name))?;
        let view = input.strided_view();
        let size = input.dtype().size() as i64;
        let dims = |reduced: bool| {
            let of_kind = (0..view.dim()).filter(|d| mask.has(*d) == reduced);
            coalesced(of_kind.map(|d| (view.sizes()[d], view.strides()[d] * size)))
        };
        let (kept, reduced) = (dims(false), dims(true));
        ensure!(
            kept.0.len().max(reduced.0.len()) <= MAX_DIMS,
            NotImplemented(name),
            "cuda: expected at most {MAX_DIMS} dimensions that cannot be merged"
        );
        let product = |sizes: &[i64]| sizes.iter().fold(1i64, |all, size| all.saturating_mul(*size));
        let (outputs, count) = (product(&kept.0), product(&reduced.0));
        Ok(Reduction { name, input, kept, reduced, outputs, count })
    }

    /// Whether elements of adjacent results are adjacent, and those of one result are not.
    fn is_outer(&self) -> bool {
        let size = self.input.dtype().size() as i64;
        let inner = |dims: &(Vec<i64>, Vec<i64>)| dims.1.first().copied().unwrap_or(0).abs();
        self.outputs > 1 && inner(&self.kept) == size && inner(&self.reduced) != size
    }

    /// Whether the elements of one result are adjacent.
    fn is_adjacent(&self) -> bool {
        let size = self.input.dtype().size() as i64;
        matches!((self.reduced.0.as_slice(), self.reduced.1.as_slice()), ([_], [stride]) if *stride == size)
    }

    /// Elements of a chunk: all, unless there are too few results to keep a device busy.
    fn chunk(&self, by_block: bool) -> i64 {
        let (kind, per_result) = (usize::from(!by_block), self.count.max(1));
        let needed = ceil_div(per_result.saturating_mul(self.outputs.max(1)), ENOUGH[kind]);
        let chunk = needed.max(MIN_CHUNK[kind]).max(ceil_div(per_result, MAX_CHUNKS));
        (ceil_div(chunk, ROUND[kind]) * ROUND[kind]).min(per_result)
    }

    /// Folds into values, indices, or both.
    pub(super) fn run(self, fold: &str, [values, indices]: [Option<&Tensor>; 2], divisor: f64) -> Result<()> {
        let name = self.name;
        if self.outputs == 0 {
            return Ok(());
        }
        let of = |out: &Tensor| -> Result<Tensor> {
            let dense = || empty(out.sizes(), out.dtype(), out.device());
            if out.is_contiguous() { Ok(out.clone()) } else { dense() }
        };
        let (dense_values, dense_indices) = (values.map(of).transpose()?, indices.map(of).transpose()?);
        self.launch(fold, [dense_values.as_ref(), dense_indices.as_ref()], divisor)
            .map_err(|error| error.in_operator(name))?;
        for (out, dense) in [(values, &dense_values), (indices, &dense_indices)] {
            if let (Some(out), Some(dense)) = (out, dense)
                && !out.is_contiguous()
            {
                ops::copy_(out, dense, false)?;
            }
        }
        Ok(())
    }

    fn launch(&self, fold: &str, [values, indices]: [Option<&Tensor>; 2], divisor: f64) -> Result<()> {
        let by_block = self.count >= MIN_BLOCK_COUNT && !self.is_outer();
        let chunk = self.chunk(by_block);
        let chunks = ceil_div(self.count, chunk).max(1);
        let (from, to) = (self.input.dtype(), values.map_or(self.input.dtype(), Tensor::dtype));
        let definitions = definitions(self.name, fold, from, to)?;
        let partials = match chunks {
            1 => None,
            _ => Some(empty(
                &[self.outputs.saturating_mul(chunks), ACCUMULATOR_BYTES],
                ScalarType::U8,
                self.input.device(),
            )?),
        };
        let writes: Vec<&Tensor> = [values, indices, partials.as_ref()].into_iter().flatten().collect();
        let (kept, reduced) = (table(&self.kept), table(&self.reduced));
        let null_or = |tensor: Option<&Tensor>| tensor.map_or(0, address);
        guarded(self.name, &[self.input], &writes, |gpu| {
            let flag = match (by_block, self.is_adjacent()) {
                (true, true) => "#define BY_BLOCK\n#define ADJACENT\n",
                (true, false) => "#define BY_BLOCK\n",
                (false, _) => "",
            };
            let first = format!("reduce {definitions}{flag}");
            let function = gpu.function(&first, || source(&format!("{definitions}{flag}")))?;
            let blocks = if by_block { self.outputs } else { ceil_div(self.outputs, 256) };
            let arguments = Arguments::new().int(self.outputs).int(self.count).int(chunk).tensor(self.input);
            let arguments =
                arguments.word(null_or(partials.as_ref())).word(null_or(values)).word(null_or(indices));
            let grid = Grid { blocks: [blocks, chunks, 1], threads: 256 };
            gpu.launch(function, grid, &arguments.double(divisor).structure(&kept).structure(&reduced))?;
            let Some(partials) = &partials else { return Ok(()) };
            let by_block = chunks > MAX_SERIAL_CHUNKS[usize::from(self.outputs > MANY_OUTPUTS)];
            let flags = if by_block { "#define PARTIALS\n#define BY_BLOCK\n" } else { "#define PARTIALS\n" };
            let second = format!("reduce {definitions}{flags}");
            let function = gpu.function(&second, || source(&format!("{definitions}{flags}")))?;
            let arguments = Arguments::new().int(self.outputs).int(chunks).tensor(partials);
            let arguments = arguments.word(null_or(values)).word(null_or(indices));
            let blocks = if by_block { self.outputs } else { ceil_div(self.outputs, 256) };
            gpu.launch(function, Grid { blocks: [blocks, 1, 1], threads: 256 }, &arguments.double(divisor))
        })
    }
}

fn table((sizes, strides): &(Vec<i64>, Vec<i64>)) -> Vec<u64> {
    wide(sizes, &[strides.as_slice()])
}

/// The types and the fold of a program; `max` and `min` fold elements with their indices, `var` and `std` give the mean too.
fn definitions(name: &str, fold: &str, from: ScalarType, to: ScalarType) -> Result<String> {
    let named = if matches!(fold, "Sum" | "Product") { number_name_of } else { name_of };
    let (from_name, to_name) = (named(name, from)?, named(name, to)?);
    // Folds that are not for all types are only in the programs that use them.
    let fold = match fold {
        "max" => "Arg\n#define IS_MAX true",
        "min" => "Arg\n#define IS_MAX false",
        "var" => "Moments\n#define IS_ROOT false",
        "std" => "Moments\n#define IS_ROOT true",
        other => other,
    };
    Ok(format!("typedef {from_name} T;\ntypedef {to_name} R;\n#define FOLD {fold}\n"))
}

fn source(definitions: &str) -> String {
    let layouts = layout_struct("Kept", 1, false) + &layout_struct("Reduced", 1, false);
    program(
        definitions,
        &[include_str!("../kernels/fold.cu"), &layouts, include_str!("../kernels/reduce.cu")],
    )
}

/// Sizes and strides of dimensions, given outermost first: innermost first, and merged where they are one dimension in memory.
fn coalesced(dims: impl DoubleEndedIterator<Item = (i64, i64)>) -> (Vec<i64>, Vec<i64>) {
    let (mut sizes, mut strides): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
    for (size, stride) in dims.rev().filter(|(size, _)| *size != 1) {
        match (sizes.last_mut(), strides.last()) {
            (Some(last), Some(inner)) if last.checked_mul(*inner) == Some(stride) => *last *= size,
            _ => {
                sizes.push(size);
                strides.push(stride);
            }
        }
    }
    (sizes, strides)
}

/// Every program of this module, by name.
pub(super) fn programs() -> Vec<(String, String)> {
    const FOLDS: [&str; 10] =
        ["Sum", "SumOfSquares", "Product", "NanSum", "Any", "All", "max", "min", "var", "std"];
    let mut all = Vec::new();
    for from in [
        ScalarType::F32,
        ScalarType::F64,
        ScalarType::F16,
        ScalarType::BF16,
        ScalarType::I64,
        ScalarType::I32,
        ScalarType::Bool,
    ] {
        for fold in FOLDS {
            if matches!(fold, "NanSum" | "var" | "std") && !from.is_floating_point() {
                continue;
            }
            let to = match fold {
                "Any" | "All" => ScalarType::Bool,
                "max" | "min" => from,
                _ if from.is_floating_point() => from,
                _ => ScalarType::I64,
            };
            let Ok(definitions) = definitions("reduce", fold, from, to) else { continue };
            for flag in [
                "",
                "#define BY_BLOCK\n#define ADJACENT\n",
                "#define BY_BLOCK\n",
                "#define PARTIALS\n#define BY_BLOCK\n",
            ] {
                all.push((format!("reduce {fold} {from} {flag}"), source(&format!("{definitions}{flag}"))));
            }
        }
    }
    all
}
