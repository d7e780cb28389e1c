//! Elements written by index: `scatter` with its reductions, `index_add`, `index_copy`, `index_fill`, `index_put` and `put`.
//!
//! Each index becomes the offset of its target. A stable sort by offset makes the elements of a target adjacent, and one thread folds them in
//! their order. So results have one order of sums, and of several elements that are assigned the last one stays.

use super::gather::{Indexing, dimension, ensure_rank, geometry, reversed};
use super::sort::sorted_rows;
use super::{dense, dense_as, empty, meta, name_of, number_name_of, program};
use crate::launch::{Arguments, Grid, address, guarded};
use crate::loops::wide;
use crate::print::layout_struct;
use flambeau_core::{DispatchKeySet, Result, Scalar, ScalarType, Storage, ensure};
use flambeau_ops::native::index::{gather_scatter, index_put, index_select};
use flambeau_ops::{Tensor, ops, register};

const SOURCE: &str = include_str!("../kernels/scatter.cu");

/// What becomes of a target and the elements for it: a fold of the program.
#[derive(Clone, Copy)]
pub(super) enum Fold {
    Assign,
    Add,
    Multiply,
    Larger,
    Lesser,
}

impl Fold {
    const ALL: [Fold; 5] = [Fold::Assign, Fold::Add, Fold::Multiply, Fold::Larger, Fold::Lesser];

    fn name(self) -> &'static str {
        match self {
            Fold::Assign => "Assign",
            Fold::Add => "Add",
            Fold::Multiply => "Multiply",
            Fold::Larger => "Larger",
            Fold::Lesser => "Lesser",
        }
    }
}

/// Indices along a dimension of `size` elements that are `stride` apart; negative ones count from the end if it `wraps`.
pub(super) struct Along<'a> {
    pub(super) index: &'a Tensor,
    pub(super) size: i64,
    pub(super) stride: i64,
    pub(super) wraps: bool,
}

/// The offset, in elements, that each index names, and -1 for those out of range. The strides are those of the other dimensions of the
/// target, and of the index, for the dimensions of `sizes`. Offsets of other indices are added.
pub(super) fn targets(
    name: &'static str,
    sizes: &[i64],
    [target_strides, index_strides]: [&[i64]; 2],
    along: &Along<'_>,
    previous: Option<&Tensor>,
) -> Result<Tensor> {
    let result = empty(sizes, ScalarType::I64, along.index.device())?;
    if result.numel() == 0 {
        return Ok(result);
    }
    ensure_rank(name, sizes.len())?;
    let rows = [reversed(target_strides, 1), reversed(index_strides, size_of::<i64>())];
    let table = wide(&reversed(sizes, 1), &[&rows[0], &rows[1]]);
    let mut reads = vec![along.index];
    reads.extend(previous);
    guarded(name, &reads, &[&result], |gpu| {
        let function = gpu.function("targets", targets_source)?;
        let arguments = Arguments::new().int(result.numel()).int(along.size).int(along.stride);
        let arguments = arguments.int(i64::from(along.wraps)).tensor(along.index);
        let arguments = arguments.word(previous.map_or(0, address)).tensor(&result).word(gpu.faults.address);
        let arguments = arguments.int(gpu.faults.number_of(name)).structure(&table);
        gpu.launch(function, Grid::of(result.numel(), 256), &arguments)
    })?;
    Ok(result)
}

fn targets_source() -> String {
    program("#define TARGETS\n", &[&layout_struct("Layout", 2, false), SOURCE])
}

/// Folds elements into those of `to` at offsets; one element of `source` for each, or one for all.
pub(super) fn fold_into(
    name: &'static str,
    to: &Tensor,
    targets: &Tensor,
    source: &Tensor,
    fold: Fold,
) -> Result<()> {
    let count = targets.numel();
    if count == 0 || source.numel() == 0 {
        return Ok(());
    }
    let (sorted, order) = sorted_rows(name, &ops::view(targets, &[count])?, false)?;
    let source = separate(&dense(source)?, to)?;
    let step = i64::from(source.numel() == count);
    let dtype = match fold {
        Fold::Larger | Fold::Lesser => name_of(name, to.dtype())?,
        _ => number_name_of(name, to.dtype())?,
    };
    let definitions = format!("typedef {dtype} T;\n#define FOLD {}\n", fold.name());
    guarded(name, &[&sorted, &order, &source], &[to], |gpu| {
        let function = gpu.function(&format!("fold {definitions}"), || program(&definitions, &[SOURCE]))?;
        let arguments = Arguments::new().int(count).int(step).tensor(&sorted).tensor(&order);
        gpu.launch(function, Grid::of(count, 256), &arguments.tensor(&source).tensor(to))
    })
}

/// `tensor`, or a copy if it shares memory with what is written.
fn separate(tensor: &Tensor, written: &Tensor) -> Result<Tensor> {
    let shares = Storage::ptr_eq(tensor.storage(), written.storage());
    if shares { ops::clone(tensor, None) } else { Ok(tensor.clone()) }
}

/// Folds the elements of `source` into `self_` along a dimension. Each has its own index, or one for its slice.
fn scatter(
    name: &'static str,
    self_: &Tensor,
    dim: i64,
    (index, index_strides): (&Tensor, &[i64]),
    (source, sizes): (&Tensor, &[i64]),
    fold: Fold,
    wraps: bool,
) -> Result<()> {
    let d = dimension(name, dim, self_.dim())?;
    let (own_sizes, mut strides) = geometry(self_);
    let along = Along { index, size: own_sizes[d], stride: strides[d], wraps };
    strides[d] = 0;
    let targets = targets(name, sizes, [&strides, index_strides], &along, None)?;
    fold_into(name, self_, &targets, source, fold)
}

/// `scatter` with an index for each element of the source, of which those beyond the index are not used.
fn by_element(
    name: &'static str,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    fold: Fold,
) -> Result<()> {
    let index = dense_as(index, ScalarType::I64)?;
    let (sizes, strides) = geometry(&index);
    let is_one_value = source.dim() == 0 && index.dim() > 0;
    let source = match is_one_value || source.dim() == 0 {
        true => source.clone(),
        false => ops::as_strided(source, &sizes, source.strides(), None)?,
    };
    scatter(name, self_, dim, (&index, &strides), (&source, &sizes), fold, false)
}

/// `scatter` with an index for each slice of the source.
fn by_slice(
    name: &'static str,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    fold: Fold,
    wraps: bool,
) -> Result<()> {
    let index = dense_as(index, ScalarType::I64)?;
    let d = dimension(name, dim, self_.dim())?;
    let (mut sizes, _) = geometry(self_);
    sizes[d] = index.numel();
    let mut strides = vec![0; sizes.len()];
    strides[d] = 1;
    scatter(name, self_, dim, (&index, &strides), (source, &sizes), fold, wraps)
}

/// A number of the type of a tensor, on its device.
fn number(like: &Tensor, value: Scalar) -> Result<Tensor> {
    let made = empty(&[], like.dtype(), like.device())?;
    ops::fill__scalar(&made, value)?;
    Ok(made)
}

fn reduction(reduce: &str) -> Fold {
    if reduce == "multiply" { Fold::Multiply } else { Fold::Add }
}

/// Registers an operator in place and with a new result. The host's kernel checks the arguments on tensors without values.
macro_rules! in_place {
    ($($operator:ident $operator_in_place:ident $checked:path, $kernel:path:
        ($($arg:ident: $ty:ty = $without_values:expr),*);)*) => {$(
        const _: () = {
            fn in_place(_: DispatchKeySet, self_: &Tensor, $($arg: $ty),*) -> Result<()> {
                {
                    let checked = meta(self_)?;
                    $checked(&checked, $($without_values),*)?;
                }
                $kernel(self_, $($arg),*)
            }

            fn functional(key: DispatchKeySet, self_: &Tensor, $($arg: $ty),*) -> Result<Tensor> {
                let result = ops::clone(self_, None)?;
                in_place(key, &result, $($arg),*)?;
                Ok(result)
            }

            register!(ops::$operator, Cuda, functional);
            register!(ops::$operator_in_place, Cuda, in_place);
        };
    )*};
}

in_place! {
    SCATTER_SRC SCATTER__SRC gather_scatter::scatter_src_, scatter_src:
        (dim: i64 = dim, index: &Tensor = &meta(index)?, src: &Tensor = &meta(src)?);
    SCATTER_VALUE SCATTER__VALUE gather_scatter::scatter_value_, scatter_value:
        (dim: i64 = dim, index: &Tensor = &meta(index)?, value: Scalar = value);
    SCATTER_REDUCE SCATTER__REDUCE gather_scatter::scatter_reduce_src_, scatter_reduce_src:
        (dim: i64 = dim, index: &Tensor = &meta(index)?, src: &Tensor = &meta(src)?, reduce: &str = reduce);
    SCATTER_VALUE_REDUCE SCATTER__VALUE_REDUCE gather_scatter::scatter_reduce_value_, scatter_reduce_value:
        (dim: i64 = dim, index: &Tensor = &meta(index)?, value: Scalar = value, reduce: &str = reduce);
    SCATTER_ADD SCATTER_ADD_ gather_scatter::scatter_add_, scatter_add:
        (dim: i64 = dim, index: &Tensor = &meta(index)?, src: &Tensor = &meta(src)?);
    INDEX_ADD INDEX_ADD_ index_select::index_add_, index_add:
        (dim: i64 = dim, index: &Tensor = &meta(index)?, source: &Tensor = &meta(source)?, alpha: Scalar = alpha);
    INDEX_COPY INDEX_COPY_ index_select::index_copy_, index_copy:
        (dim: i64 = dim, index: &Tensor = &meta(index)?, source: &Tensor = &meta(source)?);
    INDEX_FILL_INT_SCALAR INDEX_FILL__INT_SCALAR index_select::index_fill_, index_fill:
        (dim: i64 = dim, index: &Tensor = &meta(index)?, value: Scalar = value);
    INDEX_FILL_INT_TENSOR INDEX_FILL__INT_TENSOR index_select::index_fill_tensor_, index_fill_tensor:
        (dim: i64 = dim, index: &Tensor = &meta(index)?, value: &Tensor = &meta(value)?);
    PUT PUT_ index_put::put_, put:
        (index: &Tensor = &meta(index)?, source: &Tensor = &meta(source)?, accumulate: bool = accumulate);
}

fn scatter_src(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<()> {
    by_element("scatter", self_, dim, index, src, Fold::Assign)
}

fn scatter_value(self_: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<()> {
    by_element("scatter", self_, dim, index, &number(self_, value)?, Fold::Assign)
}

fn scatter_reduce_src(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor, reduce: &str) -> Result<()> {
    by_element("scatter", self_, dim, index, src, reduction(reduce))
}

fn scatter_reduce_value(self_: &Tensor, dim: i64, index: &Tensor, value: Scalar, reduce: &str) -> Result<()> {
    by_element("scatter", self_, dim, index, &number(self_, value)?, reduction(reduce))
}

fn scatter_add(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<()> {
    by_element("scatter_add", self_, dim, index, src, Fold::Add)
}

fn index_add(self_: &Tensor, dim: i64, index: &Tensor, source: &Tensor, alpha: Scalar) -> Result<()> {
    let scaled = if alpha.to_f64() == 1.0 { source.clone() } else { ops::mul_scalar(source, alpha)? };
    by_slice("index_add", self_, dim, index, &scaled, Fold::Add, false)
}

fn index_copy(self_: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<()> {
    by_slice("index_copy", self_, dim, index, source, Fold::Assign, false)
}

fn index_fill(self_: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<()> {
    by_slice("index_fill", self_, dim, index, &number(self_, value)?, Fold::Assign, true)
}

fn index_fill_tensor(self_: &Tensor, dim: i64, index: &Tensor, value: &Tensor) -> Result<()> {
    let number = empty(&[], self_.dtype(), self_.device())?;
    ops::copy_(&number, value, false)?;
    by_slice("index_fill", self_, dim, index, &number, Fold::Assign, true)
}

fn put(self_: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<()> {
    let fold = if accumulate { Fold::Add } else { Fold::Assign };
    let flat = ops::reshape(&dense(self_)?, &[-1])?;
    let (index, source) = (ops::reshape(index, &[-1])?, ops::reshape(source, &[-1])?);
    by_slice("put_", &flat, 0, &index, &source, fold, true)?;
    if self_.is_contiguous() { Ok(()) } else { ops::copy_(self_, &ops::view(&flat, self_.sizes())?, false) }
}

register!(ops::SCATTER_REDUCE_TWO, Cuda, scatter_reduce_two);

/// As the host's: what is not to be included is first replaced by what changes nothing.
fn scatter_reduce_two(
    _: DispatchKeySet,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    const NAME: &str = "scatter_reduce";
    let (without_index, without_src) = (meta(index)?, meta(src)?);
    gather_scatter::scatter_reduce_two(
        &meta(self_)?,
        dim,
        &without_index,
        &without_src,
        reduce,
        include_self,
    )?;
    let (fold, start) = match reduce {
        "prod" => (Fold::Multiply, Scalar::Int(1)),
        "amax" => (Fold::Larger, extreme(self_.dtype(), false)),
        "amin" => (Fold::Lesser, extreme(self_.dtype(), true)),
        _ => (Fold::Add, Scalar::Int(0)),
    };
    let made = ops::clone(self_, Some(flambeau_core::MemoryFormat::Contiguous))?;
    if !include_self {
        by_element(NAME, &made, dim, index, &number(self_, start)?, Fold::Assign)?;
    }
    by_element(NAME, &made, dim, index, src, fold)?;
    if reduce == "mean" {
        let counts = ops::ones(self_.sizes(), Some(ScalarType::I64), None, Some(self_.device()), None)?;
        if !include_self {
            by_element(NAME, &counts, dim, index, &number(&counts, Scalar::Int(0))?, Fold::Assign)?;
        }
        by_element(NAME, &counts, dim, index, &number(&counts, Scalar::Int(1))?, Fold::Add)?;
        // What no element is for keeps its value.
        let counts = ops::clamp_min(&counts, Scalar::Int(1))?;
        let rounding = if self_.is_floating_point() { None } else { Some("floor") };
        ops::div__tensor_mode(&made, &counts, rounding)?;
    }
    Ok(made)
}

/// The largest number of a type, or the smallest.
fn extreme(dtype: ScalarType, is_largest: bool) -> Scalar {
    let bits = 8 * dtype.size() as u32;
    match dtype {
        ScalarType::Bool => Scalar::Bool(is_largest),
        _ if dtype.is_floating_point() => {
            Scalar::Float(if is_largest { f64::INFINITY } else { f64::NEG_INFINITY })
        }
        ScalarType::U8 => Scalar::Int(if is_largest { 255 } else { 0 }),
        _ if is_largest => Scalar::Int(i64::MAX >> (64 - bits)),
        _ => Scalar::Int(i64::MIN >> (64 - bits)),
    }
}

register!(ops::INDEX_PUT_, Cuda, index_put_);
register!(ops::INDEX_PUT, Cuda, index_put);

fn index_put_(
    _: DispatchKeySet,
    self_: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<()> {
    const NAME: &str = "index_put_";
    ensure!(
        self_.dtype() == values.dtype(),
        Dtype(NAME, "values"),
        "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
        self_.dtype(),
        values.dtype()
    );
    // Without indices, the host's kernel checks that every element of `self` has memory of its own.
    index_put::index_put_(&meta(self_)?, &[], &meta(self_)?, accumulate)?;
    let plan = Indexing::new(NAME, self_, indices)?;
    let on_device = if values.device().is_cpu() && values.dim() == 0 {
        super::to_device(values, self_.device())?
    } else {
        values.clone()
    };
    let fits = flambeau_core::shape::expand_strides(values.sizes(), values.strides(), &plan.sizes).is_ok();
    ensure!(
        fits,
        Shape(NAME, "values"),
        "shape mismatch: value tensor of shape {:?} cannot be broadcast to indexing result of shape {:?}",
        values.sizes(),
        plan.sizes
    );
    let along = Along { index: &plan.offsets, size: plan.end, stride: 1, wraps: false };
    let targets = targets(NAME, &plan.sizes, [&plan.strides, &plan.offset_strides], &along, None)?;
    let source = match on_device.numel() {
        1 => on_device,
        _ => ops::expand(&on_device, &plan.sizes, false)?,
    };
    let fold = if accumulate { Fold::Add } else { Fold::Assign };
    fold_into(NAME, self_, &targets, &source, fold)
}

fn index_put(
    key: DispatchKeySet,
    self_: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    let made = ops::clone(self_, None)?;
    index_put_(key, &made, indices, values, accumulate)?;
    Ok(made)
}

/// The indices, in row-major order, of the elements that a dense mask has; how many there are is waited for.
pub(super) fn flat_nonzero(name: &'static str, mask: &Tensor) -> Result<Tensor> {
    let flat = ops::view(mask, &[mask.numel()])?;
    let positions = ops::cumsum(&flat, 0, Some(ScalarType::I64))?;
    let count = match mask.numel() {
        0 => 0,
        n => ops::select_int(&positions, 0, n - 1)?.item::<i64>()?,
    };
    let found = empty(&[count], ScalarType::I64, mask.device())?;
    if count > 0 {
        guarded(name, &[&flat, &positions], &[&found], |gpu| {
            let function = gpu.function("compact", compact_source)?;
            let arguments = Arguments::new().int(flat.numel()).tensor(&flat).tensor(&positions);
            gpu.launch(function, Grid::of(flat.numel(), 256), &arguments.tensor(&found))
        })?;
    }
    Ok(found)
}

fn compact_source() -> String {
    program("#define COMPACT\n", &[SOURCE])
}

/// Every program of this module, in a type.
pub(super) fn programs(dtype: &str) -> Vec<(String, String)> {
    let folds = Fold::ALL.iter().map(|fold| {
        let definitions = format!("typedef {dtype} T;\n#define FOLD {}\n", fold.name());
        (format!("fold {definitions}"), program(&definitions, &[SOURCE]))
    });
    let others = [("targets".to_owned(), targets_source()), ("compact".to_owned(), compact_source())];
    folds.chain(others.into_iter().filter(|_| dtype == "int64")).collect()
}
