//! The geometry of a reduction: which input elements are reduced to each output element. It depends on no device and no formula.

use crate::Tensor;
use flambeau_core::{DimVec, Result, ScalarType, ensure, shape};
use smallvec::SmallVec;

/// One dimension of a loop; strides in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dim {
    /// How many elements.
    pub size: i64,
    /// Bytes from one input element to the next.
    pub input: i64,
    /// Bytes from one output element to the next; 0 where the dimension is reduced.
    pub output: i64,
}

/// Dimensions, innermost first.
pub type Dims = SmallVec<[Dim; 6]>;

/// Which dimensions of a tensor are reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DimMask(u64);

impl DimMask {
    /// The dimensions in `dims`, negative ones counted from the back. `None`, or an empty list, means all of them.
    ///
    /// # Errors
    /// `Index` out of range, `InvalidArgument` where one appears twice, `Shape` for more than 64 dimensions.
    pub fn new(dims: Option<&[i64]>, rank: usize) -> Result<Self> {
        ensure!(rank <= 64, Shape, "expected at most 64 dimensions to reduce but got {rank}");
        let dims = dims.unwrap_or(&[]);
        if dims.is_empty() {
            return Ok(DimMask(!0));
        }
        let mut mask = 0u64;
        for &dim in dims {
            let d = shape::wrap_dim(dim, rank)?;
            ensure!(
                mask & (1 << d) == 0,
                InvalidArgument,
                argument = "dim",
                got = format_args!("{dims:?}"),
                "dim {d} appears multiple times in the list of dims {got}"
            );
            mask |= 1 << d;
        }
        Ok(DimMask(mask))
    }

    /// Whether dimension `d` is reduced.
    pub fn has(self, d: usize) -> bool {
        self.0 & (1 << d) != 0
    }

    /// `sizes` after the reduction: reduced ones become 1 or are removed.
    pub fn reduced_sizes(self, sizes: &[i64], keepdim: bool) -> DimVec {
        let kept = |d: usize| !self.has(d) || keepdim;
        (0..sizes.len()).filter(|&d| kept(d)).map(|d| if self.has(d) { 1 } else { sizes[d] }).collect()
    }

    /// How many elements of `sizes` are reduced to one output element.
    pub fn count(self, sizes: &[i64]) -> i64 {
        (0..sizes.len()).filter(|&d| self.has(d)).fold(1, |count: i64, d| count.saturating_mul(sizes[d]))
    }
}

/// A reduction of one input into one output: dimensions kept and dimensions reduced, both coalesced, innermost first.
#[derive(Debug, Clone)]
pub struct Reduction {
    /// The dimensions of the output elements.
    pub kept: Dims,
    /// The dimensions of the elements that are reduced to one output element.
    pub reduced: Dims,
    /// The type of the input's elements in memory.
    pub input: ScalarType,
}

impl Reduction {
    /// The geometry of reducing the dimensions `mask` of `input` into `output`, which has the reduced sizes with or without
    /// the dimensions of size 1.
    ///
    /// # Errors
    /// `Internal` where `output` has another rank than either.
    pub fn new(input: &Tensor, output: &Tensor, mask: DimMask) -> Result<Self> {
        let (size_in, size_out) = (input.dtype().size() as i64, output.dtype().size() as i64);
        let keepdim = output.dim() == input.dim();
        let kept_dims = (0..input.dim()).filter(|&d| !mask.has(d)).count();
        ensure!(keepdim || output.dim() == kept_dims, Internal, "a reduction's output has the wrong rank");
        let mut made = Reduction { kept: Dims::new(), reduced: Dims::new(), input: input.dtype() };
        let mut out = 0;
        // Where there are no elements, strides may be any numbers, and none is used.
        for d in 0..input.dim() {
            let (size, stride) = (input.sizes()[d], input.strides()[d].wrapping_mul(size_in));
            if mask.has(d) {
                made.reduced.push(Dim { size, input: stride, output: 0 });
            } else {
                let out_dim = if keepdim { d } else { out };
                made.kept.push(Dim {
                    size,
                    input: stride,
                    output: output.strides()[out_dim].wrapping_mul(size_out),
                });
                out += 1;
            }
        }
        for dims in [&mut made.kept, &mut made.reduced] {
            dims.retain(|dim| dim.size != 1);
            dims.sort_by_key(|dim| dim.input);
            coalesce(dims);
        }
        Ok(made)
    }

    /// Two reductions, one after the other: of the reduced dimensions from number `inner` on, into dense accumulators of type `kernel`
    /// in the order of the input's memory; and of these to the outputs.
    pub fn split(&self, inner: usize, kernel: ScalarType) -> [Self; 2] {
        let (kept, reduced) = (Dims::new(), Dims::from_slice(&self.reduced[inner..]));
        let mut first = Reduction { kept, reduced, input: self.input };
        let mut second = Reduction { kept: Dims::new(), reduced: Dims::new(), input: kernel };
        let kept = self.kept.iter().map(|dim| (dim, false));
        let mut dims: SmallVec<[(&Dim, bool); 6]> =
            kept.chain(self.reduced[..inner].iter().map(|dim| (dim, true))).collect();
        dims.sort_by_key(|(dim, _)| dim.input);
        let mut step = kernel.size() as i64;
        for (dim, is_reduced) in dims {
            first.kept.push(Dim { output: step, ..*dim });
            let of = if is_reduced { &mut second.reduced } else { &mut second.kept };
            of.push(Dim { input: step, ..*dim });
            step = step.saturating_mul(dim.size);
        }
        for dims in [&mut first.kept, &mut second.kept, &mut second.reduced] {
            coalesce(dims);
        }
        [first, second]
    }

    /// How many output elements there are.
    pub fn outputs(&self) -> usize {
        numel(&self.kept)
    }

    /// How many input elements are reduced to each.
    pub fn count(&self) -> usize {
        numel(&self.reduced)
    }

    /// The byte offsets, in input and output, of output element `index`.
    pub fn kept_offsets(&self, index: usize) -> (isize, isize) {
        offsets(&self.kept, index)
    }
}

/// How many elements `dims` have. Saturates: the product may overflow before it is multiplied by a size of 0.
fn numel(dims: &[Dim]) -> usize {
    dims.iter().fold(1, |numel: usize, dim| numel.saturating_mul(dim.size as usize))
}

/// The byte offsets of element `index` of `dims`.
pub fn offsets(dims: &[Dim], mut index: usize) -> (isize, isize) {
    let (mut input, mut output) = (0i64, 0i64);
    for dim in dims {
        let step = (index % dim.size as usize) as i64;
        index /= dim.size as usize;
        input += step * dim.input;
        output += step * dim.output;
    }
    (input as isize, output as isize)
}

/// Whether `dim` continues `last`: its stride is that of the element after the last one of `last`.
fn follows(last: &Dim, dim: &Dim) -> bool {
    let after = [last.input, last.output].map(|step| step.wrapping_mul(last.size));
    after == [dim.input, dim.output]
}

/// Coalesces neighbouring dimensions that continue each other.
pub(crate) fn coalesce(dims: &mut Dims) {
    let mut joined = Dims::new();
    for dim in dims.drain(..) {
        match joined.last_mut() {
            Some(last) if follows(last, &dim) => last.size = last.size.saturating_mul(dim.size),
            _ => joined.push(dim),
        }
    }
    *dims = joined;
}
