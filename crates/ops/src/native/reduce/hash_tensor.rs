//! `hash_tensor`: a number of 64 bits that changes with the elements of a tensor.
#![expect(unsafe_code, reason = "dispatches a kernel")]

use crate::loops::reduce::exclusive_or_fold;
use crate::native::guarded_slices::{fill_chunks, with_slices};
use crate::native::pointwise::accumulate::dispatches_to_cpu;
use crate::native::reduce::sum_prod_any::as_dtype;
use crate::structured::TensorSpec;
use crate::tensor_iterator::{DimMask, GRAIN};
use crate::vectorized::{CodegenAnchor, Isa, Kernel, dispatch};
use crate::{Tensor, ops};
use bytemuck::Pod;
use flambeau_core::{DimVec, MemoryFormat, Result, ScalarType, Storage, ensure};
use half::bf16;

/// The exclusive or of the elements' bits, as f64 or int64, along the given dimensions or of all elements.
pub fn hash_tensor(self_: &Tensor, dim: &[i64], keepdim: bool, mode: i64) -> Result<Tensor> {
    const NAME: &str = "hash_tensor";
    ensure!(mode == 0, InvalidArgument(NAME, "mode"), "expected 0, the exclusive or, but got {mode}");
    let own = self_.dtype();
    ensure!(!own.is_complex(), Dtype(NAME, "self"), "expected real elements but got {own}");
    let mask =
        DimMask::new((!dim.is_empty()).then_some(dim), self_.dim()).map_err(|e| e.in_operator(NAME))?;
    let dims: Vec<i64> = (0..self_.dim()).filter(|&d| mask.has(d)).map(|d| d as i64).collect();
    for &d in &dims {
        let size = self_.sizes()[d as usize];
        ensure!(size > 0, Shape(NAME, "self"), "expected reduced dimension {d} to have non-zero size");
    }
    let wide = if own.is_floating_point() { ScalarType::F64 } else { ScalarType::I64 };
    let elements = self_.detach()?;
    let has_kernel = !dims.is_empty() && elements.numel() > 0 && dispatches_to_cpu(elements.key_set());
    let bits = if has_kernel && has_hash_bits(own) {
        xor_groups_of(&elements, &dims, wide)?
    } else if has_kernel {
        xor_rows_of(&elements, mask, wide)?
    } else {
        let bits = elements.to_dtype(wide)?.view_dtype(ScalarType::I64)?;
        dims.iter().try_fold(bits, |bits, d| xor_along(bits, *d))?
    };
    let bits = if keepdim || dims.is_empty() { bits } else { bits.squeeze_dims(&dims)? };
    let hash = bits.view_dtype(ScalarType::U64)?;
    // Row-major, as every reduction. Where nothing was converted and no dimension has several elements, it is still a view.
    let row_major = Some(MemoryFormat::Contiguous);
    let is_done = hash.is_contiguous() && !Storage::ptr_eq(hash.storage(), self_.storage());
    if is_done { Ok(hash) } else { ops::clone(&hash, row_major) }
}

/// The exclusive or along a dimension: of its halves, until one element is left.
fn xor_along(mut bits: Tensor, dim: i64) -> Result<Tensor> {
    loop {
        let size = bits.sizes()[dim as usize];
        if size == 1 {
            return Ok(bits);
        }
        let half = size / 2;
        let both = bits.narrow(dim, 0, half)?.bitwise_xor(&bits.narrow(dim, half, half)?)?;
        if size % 2 == 1 {
            both.narrow(dim, 0, 1)?.bitwise_xor_(&bits.narrow(dim, size - 1, 1)?)?;
        }
        bits = both;
    }
}

/// Whether the bits of the hash are those of the elements, or their extension to more: integers, and f64.
fn has_hash_bits(dtype: ScalarType) -> bool {
    use ScalarType::{Bool, F64, I8, I16, I32, I64, U8};
    matches!(dtype, Bool | U8 | I8 | I16 | I32 | I64 | F64)
}

/// The exclusive or of the elements along `dims`, ascending, which keep a size of 1: of neighbouring dimensions together, the first ones
/// first, so that others lie between rows. It is extended to i64 at the end, since extension and exclusive or commute.
fn xor_groups_of(elements: &Tensor, dims: &[i64], wide: ScalarType) -> Result<Tensor> {
    let mut bits = elements.clone();
    for group in dims.chunk_by(|a, b| *b == a + 1) {
        let mask = DimMask::new(Some(group), bits.dim())?;
        let sizes = mask.reduced_sizes(bits.sizes(), true);
        let folded = TensorSpec::like(&bits, &sizes).allocate("hash_tensor")?;
        exclusive_or_fold(&bits, &folded, mask)?;
        bits = folded;
    }
    as_dtype(&bits, wide)?.view_dtype(ScalarType::I64)
}

/// The exclusive or of the bits along the dimensions `mask`, which keep a size of 1: of parts of each row, until one element is left.
fn xor_rows_of(elements: &Tensor, mask: DimMask, wide: ScalarType) -> Result<Tensor> {
    let (mut reduced, kept): (Vec<usize>, Vec<usize>) = (0..elements.dim()).partition(|d| mask.has(*d));
    // In the order of memory: the elements of a row have none, so that rows that are dense in any order are not copied.
    reduced.sort_by_key(|d| std::cmp::Reverse(elements.strides()[*d]));
    let order: DimVec = kept.iter().chain(&reduced).map(|d| *d as i64).collect();
    let sizes = elements.sizes();
    let size_of = |dims: &[usize]| dims.iter().map(|d| sizes[*d]).product::<i64>();
    let (rows, row) = (size_of(&kept), size_of(&reduced));
    // f16 in f32; the kernel converts others itself.
    let own = elements.dtype();
    let kernel = match own {
        ScalarType::F32 | ScalarType::BF16 => own,
        ScalarType::F16 => ScalarType::F32,
        _ => wide,
    };
    let dense = ops::contiguous(&as_dtype(&elements.permute(&order)?, kernel)?, MemoryFormat::Contiguous)?;
    let mut bits = xor_parts(&dense, [rows, row])?;
    while bits.sizes()[1] > 1 {
        bits = xor_parts(&bits, [rows, bits.sizes()[1]])?;
    }
    let sizes: DimVec = (0..elements.dim()).map(|d| if mask.has(d) { 1 } else { sizes[d] }).collect();
    bits.reshape(&sizes)
}

/// The most elements of a part.
const PART: usize = 1 << 16;

/// The exclusive or of each part of each row of contiguous elements, as int64 of sizes `[rows, parts]`.
fn xor_parts(dense: &Tensor, [rows, row]: [i64; 2]) -> Result<Tensor> {
    const NAME: &str = "hash_tensor";
    let row = row as usize;
    let parts = row.div_ceil(PART);
    let made = TensorSpec::like(dense, &[rows, parts as i64]).with_dtype(ScalarType::I64).allocate(NAME)?;
    with_slices(NAME, &[dense], &[&made], |s| {
        let to = s.write::<u64>(0)?;
        match dense.dtype() {
            ScalarType::F32 => xor_rows(s.read::<f32>(0)?, [row, parts], to),
            ScalarType::BF16 => xor_rows(s.read::<bf16>(0)?, [row, parts], to),
            _ => xor_rows(s.read::<u64>(0)?, [row, parts], to),
        }
        Ok(())
    })?;
    Ok(made)
}

fn xor_rows<T: Word>(from: &[T], [row, parts]: [usize; 2], to: &mut [u64]) {
    fill_chunks(to, 1, GRAIN / row.min(PART), |range, to| {
        // SAFETY: slices of the right length: the kernel is safe code.
        unsafe { dispatch(XorParts { from, row, parts, first: range.start, to }) }
    });
}

/// An element whose bits the kernel reads: f32 and bf16 as f64, and what has 64 bits.
trait Word: Pod + Send + Sync {
    fn bits(self) -> u64;
}

impl Word for f32 {
    #[inline(always)]
    fn bits(self) -> u64 {
        f64::from(self).to_bits()
    }
}

impl Word for bf16 {
    #[inline(always)]
    fn bits(self) -> u64 {
        // Not `to_f32`, which has a branch for NaN.
        f32::from_bits(u32::from(self.to_bits()) << 16).bits()
    }
}

impl Word for u64 {
    #[inline(always)]
    fn bits(self) -> u64 {
        self
    }
}

/// The parts from number `first` on, of rows of `row` elements that have `parts` each.
struct XorParts<'a, T> {
    from: &'a [T],
    row: usize,
    parts: usize,
    first: usize,
    to: &'a mut [u64],
}

impl<T: Word> CodegenAnchor for XorParts<'_, T> {
    type Anchor = XorParts<'static, T>;
}

impl<I: Isa, T: Word> Kernel<I, ()> for XorParts<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let first = self.first;
        if self.parts == 1 {
            let rows = self.from[first * self.row..].chunks_exact(self.row);
            return self.to.iter_mut().zip(rows).for_each(|(to, row)| *to = xor(row));
        }
        for (k, to) in self.to.iter_mut().enumerate() {
            let (row, part) = ((first + k) / self.parts, (first + k) % self.parts);
            let end = ((part + 1) * PART).min(self.row);
            *to = xor(&self.from[row * self.row + part * PART..row * self.row + end]);
        }
    }
}

/// The exclusive or of the elements' bits. It has no order, so that the compiler takes as many lanes as vectors have; of loops over groups
/// of elements it would make gathers.
#[inline(always)]
fn xor<T: Word>(elements: &[T]) -> u64 {
    elements.iter().fold(0, |all, x| all ^ x.bits())
}
