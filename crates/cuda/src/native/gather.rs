//! Elements read by index: `gather` and `index_select` along a dimension, `index` by several tensors, `take`. Indices out of range are
//! faults, which the next wait reports.

use super::scatter::{Along, targets};
use super::{dense, dense_as, element_name_of, empty, meta, program, structured, to_device};
use crate::launch::{Arguments, Grid, guarded};
use crate::loops::wide;
use crate::print::{MAX_DIMS, layout_struct};
use flambeau_core::{DimVec, DispatchKeySet, Result, ScalarType, bail, ensure, error, shape};
use flambeau_ops::native::index::{gather_scatter, index_put, index_select};
use flambeau_ops::{Tensor, ops, register};

structured! {
    GATHER GATHER_OUT "gather" gather_scatter::gather_meta, gather:
        (self_: &Tensor, dim: i64, index: &Tensor, sparse_grad: bool) reads [self_, index];
    INDEX_SELECT INDEX_SELECT_OUT "index_select" index_select::index_select_meta, select:
        (self_: &Tensor, dim: i64, index: &Tensor) reads [self_, index];
}

const SOURCE: &str = include_str!("../kernels/gather.cu");

/// Sizes and strides of a tensor, of at least one dimension.
pub(super) fn geometry(tensor: &Tensor) -> (Vec<i64>, Vec<i64>) {
    match tensor.dim() {
        0 => (vec![1], vec![1]),
        _ => (tensor.sizes().to_vec(), tensor.strides().to_vec()),
    }
}

/// Innermost first, and in bytes.
pub(super) fn reversed(values: &[i64], factor: usize) -> Vec<i64> {
    values.iter().rev().map(|value| value * factor as i64).collect()
}

pub(super) fn ensure_rank(name: &str, rank: usize) -> Result<()> {
    ensure!(
        rank <= MAX_DIMS,
        NotImplemented(name),
        "cuda: expected at most {MAX_DIMS} dimensions but got {rank}"
    );
    Ok(())
}

pub(super) fn dimension(name: &str, dim: i64, rank: usize) -> Result<usize> {
    ensure_rank(name, rank)?;
    shape::wrap_dim(dim, rank.max(1)).map_err(|error| error.in_operator(name))
}

/// How elements are read by index: the size and the stride of the dimension of the index, and the strides of the others for the dimensions
/// of the result.
struct Reading<'a> {
    size: i64,
    stride: i64,
    strides: &'a [i64],
}

impl Reading<'_> {
    /// `out[..] = from[.., index[..], ..]`, with an index of these strides for the dimensions of `out`.
    fn run(
        &self,
        name: &'static str,
        from: &Tensor,
        (index, index_strides): (&Tensor, &[i64]),
        out: &Tensor,
    ) -> Result<()> {
        if out.numel() == 0 {
            return Ok(());
        }
        let result =
            if out.is_contiguous() { out.clone() } else { empty(out.sizes(), out.dtype(), out.device())? };
        ensure_rank(name, out.dim())?;
        let bytes = from.dtype().size();
        let rows = [reversed(self.strides, bytes), reversed(index_strides, size_of::<i64>())];
        let table = wide(&reversed(&geometry(&result).0, 1), &[&rows[0], &rows[1]]);
        let dtype = element_name_of(name, from.dtype())?;
        guarded(name, &[from, index], &[&result], |gpu| {
            let function = gpu.function(&format!("gather {dtype}"), || source(dtype))?;
            let arguments =
                Arguments::new().int(result.numel()).int(self.size).int(self.stride * bytes as i64);
            let arguments = arguments.tensor(from).tensor(index).tensor(&result).word(gpu.faults.address);
            let arguments = arguments.int(gpu.faults.number_of(name)).structure(&table);
            gpu.launch(function, Grid::of(result.numel(), 256), &arguments)
        })?;
        if out.is_contiguous() { Ok(()) } else { ops::copy_(out, &result, false) }
    }
}

/// Reads along a dimension.
fn take(name: &'static str, from: &Tensor, dim: usize, index: (&Tensor, &[i64]), out: &Tensor) -> Result<()> {
    let (sizes, mut strides) = geometry(from);
    let stride = std::mem::take(&mut strides[dim]);
    Reading { size: sizes[dim], stride, strides: &strides }.run(name, from, index, out)
}

fn source(dtype: &str) -> String {
    program(&format!("typedef {dtype} T;\n"), &[&layout_struct("Layout", 2, false), SOURCE])
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

register!(ops::INDEX_TENSOR, Cuda, index);
register!(ops::TAKE, Cuda, take_flat);

/// The elements that several tensors of indices name: sizes and strides of the result's dimensions, and the offsets of the indices.
pub(super) struct Indexing {
    pub(super) sizes: Vec<i64>,
    /// Strides of the indexed tensor, 0 along the dimensions of the indices.
    pub(super) strides: Vec<i64>,
    /// The sums of the offsets of the indices, -1 where one is out of range.
    pub(super) offsets: Tensor,
    pub(super) offset_strides: Vec<i64>,
    /// The offsets are less than this.
    pub(super) end: i64,
}

impl Indexing {
    pub(super) fn new(name: &'static str, self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Self> {
        let indices = as_integers(name, self_, indices)?;
        let indexed: Vec<(usize, &Tensor)> =
            indices.iter().enumerate().filter_map(|(d, index)| Some((d, index.as_ref()?))).collect();
        let common = common_sizes(name, &indexed)?;
        let dims: Vec<usize> = indexed.iter().map(|(d, _)| *d).collect();
        // If the indexed dimensions are adjacent, those of the indices replace them; otherwise they come first.
        let adjacent = dims.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let at = if adjacent { dims.first().copied().unwrap_or(0) } else { 0 };
        let others = || (0..self_.dim()).filter(|d| !dims.contains(d));
        let mut sizes: Vec<i64> = others().map(|d| self_.sizes()[d]).collect();
        let mut strides: Vec<i64> = others().map(|d| self_.strides()[d]).collect();
        let mut offset_strides = vec![0; sizes.len()];
        sizes.splice(at..at, common.iter().copied());
        strides.splice(at..at, common.iter().map(|_| 0));
        offset_strides.splice(at..at, shape::contiguous_strides(&common));
        let mut offsets: Option<Tensor> = None;
        for (d, index) in indexed {
            let size = self_.sizes()[d];
            ensure!(
                size > 0 || common.contains(&0),
                Index(name, "indices"),
                "index is out of bounds for dimension {d} with size 0"
            );
            let index = ops::expand(index, &common, false)?;
            let along = Along { index: &index, size, stride: self_.strides()[d], wraps: true };
            let zeros = vec![0; common.len()];
            let sums = targets(name, &common, [&zeros, index.strides()], &along, offsets.as_ref())?;
            offsets = Some(sums);
        }
        let offsets = match offsets {
            Some(offsets) => offsets,
            None => ops::zeros(&[], Some(ScalarType::I64), None, Some(self_.device()), None)?,
        };
        let last = |d: &usize| (self_.sizes()[*d] - 1).max(0) * self_.strides()[*d];
        let end = dims.iter().map(last).sum::<i64>() + 1;
        Ok(Indexing { sizes, strides, offsets, offset_strides, end })
    }
}

/// The sizes to which indices broadcast.
fn common_sizes(name: &str, indexed: &[(usize, &Tensor)]) -> Result<DimVec> {
    let mut common = DimVec::new();
    for (_, index) in indexed {
        common = shape::broadcast(&common, index.sizes()).map_err(|_| {
            let shapes: Vec<&[i64]> = indexed.iter().map(|(_, index)| index.sizes()).collect();
            error!(
                Index(name, "indices"),
                "shape mismatch: indexing tensors could not be broadcast together with shapes {shapes:?}"
            )
        })?;
    }
    Ok(common)
}

/// An index of integers on the device of `self_` for each dimension, where masks become the coordinates of what they have.
fn as_integers(name: &str, self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let mut all: Vec<Option<Tensor>> = Vec::new();
    for index in indices {
        let Some(index) = index else {
            all.push(None);
            continue;
        };
        ensure!(
            index.device() == self_.device() || index.device().is_cpu(),
            Device(name, "indices"),
            "indices should be either on cpu or on the same device as the indexed tensor ({}) but one is on {}",
            self_.device(),
            index.device()
        );
        let index = if index.device().is_cpu() { to_device(index, self_.device())? } else { index.clone() };
        match index.dtype() {
            ScalarType::I64 | ScalarType::I32 => all.push(Some(dense_as(&index, ScalarType::I64)?)),
            ScalarType::Bool | ScalarType::U8 => {
                let sizes = self_.sizes().get(all.len()..).unwrap_or_default();
                ensure!(
                    sizes.starts_with(index.sizes()),
                    Index(name, "indices"),
                    "The shape of the mask {:?} at index {} does not match the shape of the indexed tensor {:?}",
                    index.sizes(),
                    all.len(),
                    self_.sizes()
                );
                let coordinates = ops::nonzero(&index)?;
                for d in 0..index.dim() as i64 {
                    all.push(Some(dense(&ops::select_int(&coordinates, 1, d)?)?));
                }
            }
            other => bail!(
                Index(name, "indices"),
                "tensors used as indices must be long, int, byte or bool tensors but got {other}"
            ),
        }
    }
    ensure!(
        all.len() <= self_.dim(),
        Index(name, "indices"),
        "too many indices for tensor of dimension {} (got {})",
        self_.dim(),
        all.len()
    );
    Ok(all)
}

fn index(_: DispatchKeySet, self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Tensor> {
    let plan = Indexing::new("index", self_, indices)?;
    let out = empty(&plan.sizes, self_.dtype(), self_.device())?;
    let reading = Reading { size: plan.end, stride: 1, strides: &plan.strides };
    reading.run("index", self_, (&plan.offsets, &plan.offset_strides), &out)?;
    Ok(out)
}

fn take_flat(_: DispatchKeySet, self_: &Tensor, index: &Tensor) -> Result<Tensor> {
    index_put::take(&meta(self_)?, &meta(index)?)?;
    let flat = ops::reshape(self_, &[-1])?;
    ops::index_tensor(&flat, &[Some(index.clone())])
}

/// Every program of this module, in a type.
pub(super) fn programs(dtype: &str) -> [(String, String); 1] {
    [(format!("gather {dtype}"), source(dtype))]
}
