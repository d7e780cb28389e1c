//! `cat`, `stack`, `hstack`, `vstack`, `dstack`, `column_stack`, and `atleast_1d` to `atleast_3d`.
#![expect(unsafe_code, reason = "copies elements behind the guards taken here")]

use crate::loops::copy_bytes;
use crate::native::factory::copy;
use crate::native::shape::view;
use crate::snapshot::Snapshot;
use crate::structured::{TensorSpec, with_guards};
use crate::tensor_iterator::result_type;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, ScalarType, Storage, bail, ensure, fallible, shape};
use smallvec::SmallVec;

/// Whether `cat` ignores the tensor: a 1-D tensor without elements may be concatenated with tensors of any rank, as in PyTorch, where
/// this is kept for backward compatibility.
fn is_skipped(tensor: &Tensor) -> bool {
    tensor.sizes() == [0]
}

/// The memory format that all tensors have, or else the contiguous one.
fn common_format(tensors: &[Tensor]) -> MemoryFormat {
    let first = tensors[0].suggest_memory_format();
    let all = tensors.iter().all(|t| t.suggest_memory_format() == first);
    if all { first } else { MemoryFormat::Contiguous }
}

/// Shape and type of [`cat`].
pub fn cat_meta(tensors: &[Tensor], dim: i64) -> Result<TensorSpec> {
    ensure!(!tensors.is_empty(), InvalidArgument("cat", "tensors"), "expected a non-empty list of Tensors");
    for (position, tensor) in tensors.iter().enumerate() {
        ensure!(
            tensor.dim() > 0,
            Shape("cat", "tensors"),
            "zero-dimensional tensor (at position {position}) cannot be concatenated"
        );
        ensure!(
            tensor.device() == tensors[0].device(),
            Device("cat", "tensors"),
            "expected all tensors to be on the same device, but got at least two devices, {} and {}",
            tensors[0].device(),
            tensor.device()
        );
    }
    let first = tensors.iter().find(|t| !is_skipped(t)).unwrap_or(&tensors[0]);
    let d = shape::wrap_dim(dim, first.dim()).map_err(|e| e.in_operator("cat"))?;
    let mut sizes = DimVec::from_slice(first.sizes());
    sizes[d] = 0;
    for (number, tensor) in tensors.iter().enumerate().filter(|(_, t)| !is_skipped(t)) {
        check_matches(first, tensor, d, number)?;
        let Some(total) = sizes[d].checked_add(tensor.sizes()[d]) else {
            bail!(Overflow("cat", "tensors"), "the sizes of dimension {d} add up past 63 bits");
        };
        sizes[d] = total;
    }
    Ok(TensorSpec::new(&sizes, result_type(tensors)?, first.device())
        .with_format(common_format(tensors))
        .converted_to_out())
}

fn check_matches(first: &Tensor, tensor: &Tensor, dim: usize, number: usize) -> Result<()> {
    let (expected, got) = (first.sizes(), tensor.sizes());
    ensure!(
        expected.len() == got.len(),
        Shape("cat", "tensors"),
        "Tensors must have same number of dimensions: got {} and {}",
        expected.len(),
        got.len()
    );
    for d in (0..expected.len()).filter(|d| *d != dim) {
        ensure!(
            expected[d] == got[d],
            Shape("cat", "tensors"),
            "Sizes of tensors must match except in dimension {dim}. Expected size {} but got size {} for tensor number \
             {number} in the list.",
            expected[d],
            got[d]
        );
    }
    Ok(())
}

/// Concatenates tensors along dimension `dim`.
pub fn cat(tensors: &[Tensor], dim: i64, out: &Tensor) -> Result<()> {
    let d = shape::wrap_dim(dim, out.dim())?;
    if copy_small(tensors, shape::product(&out.sizes()[..d]), out)? {
        return Ok(());
    }
    let mut start = 0;
    for tensor in tensors.iter().filter(|t| !is_skipped(t)) {
        let end = start + tensor.sizes()[d];
        copy::copy_(&view::slice(out, d as i64, Some(start), Some(end), 1)?, tensor, false)?;
        start = end;
    }
    Ok(())
}

/// Bytes of a result that is copied by one thread, tensor by tensor.
const SMALL: usize = 1 << 20;

/// Concatenates small contiguous tensors of one type, of each of which `rows` parts follow each other in `out`; or returns `false`. An
/// iterator for each tensor would take longer than the copies.
fn copy_small(tensors: &[Tensor], rows: i64, out: &Tensor) -> Result<bool> {
    let is_plain = |t: &Tensor| {
        t.is_contiguous() && t.storage().is_host() && t.dtype() == out.dtype() && !t.was_resized()
    };
    let size = out.dtype().size();
    // The bytes of bools are made 0 or 1, as copies do.
    let suits = is_plain(out)
        && out.dtype() != ScalarType::Bool
        && (1..=(SMALL / size) as i64).contains(&out.numel())
        && tensors.iter().all(|t| is_plain(t) && !Storage::ptr_eq(t.storage(), out.storage()));
    if !suits {
        return Ok(false);
    }
    let inputs: SmallVec<[&Tensor; 16]> = tensors.iter().filter(|t| t.numel() > 0).collect();
    with_guards("cat", &inputs, &[out], |guarded| {
        let mut to: *mut u8 = guarded.ptr(out.strided_view());
        let rows = rows as usize;
        let pitch = out.numel() as usize * size / rows;
        for input in &inputs {
            let from = guarded.ptr(input.strided_view()).cast_const();
            let bytes = input.numel() as usize * size / rows;
            // SAFETY: the guards are held; the parts have as many elements as `out` together, which shares no memory with them.
            unsafe { copy_parts(from, to, [rows, bytes, pitch]) }
            to = to.wrapping_add(bytes);
        }
        Ok(())
    })?;
    Ok(true)
}

/// Copies parts of `bytes` that follow each other to positions that are `pitch` bytes apart.
///
/// # Safety
/// - The parts are readable, and their positions writable; they do not overlap.
unsafe fn copy_parts(from: *const u8, to: *mut u8, [rows, bytes, pitch]: [usize; 3]) {
    /// # Safety
    /// As the enclosing function, for parts of `BYTES`: a constant needs no call for each.
    unsafe fn constant<const BYTES: usize>(from: *const u8, to: *mut u8, rows: usize, pitch: usize) {
        for row in 0..rows {
            // SAFETY: this function's condition.
            unsafe { to.add(row * pitch).copy_from_nonoverlapping(from.add(row * BYTES), BYTES) }
        }
    }
    // SAFETY: this function's condition.
    unsafe {
        match bytes {
            1 => constant::<1>(from, to, rows, pitch),
            2 => constant::<2>(from, to, rows, pitch),
            4 => constant::<4>(from, to, rows, pitch),
            8 => constant::<8>(from, to, rows, pitch),
            12 => constant::<12>(from, to, rows, pitch),
            16 => constant::<16>(from, to, rows, pitch),
            24 => constant::<24>(from, to, rows, pitch),
            32 => constant::<32>(from, to, rows, pitch),
            _ => {
                for row in 0..rows {
                    copy_bytes(from.add(row * bytes), to.add(row * pitch), bytes);
                }
            }
        }
    }
}

/// Another name of [`cat`].
pub fn concat(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    ops::cat(tensors, dim)
}

/// Shape and type of [`stack`].
fn stack_spec(tensors: &[Tensor], dim: i64) -> Result<(usize, TensorSpec)> {
    let Some(first) = tensors.first() else {
        bail!(InvalidArgument("stack", "tensors"), "expects a non-empty TensorList");
    };
    let d = shape::wrap_dim(dim, first.dim() + 1).map_err(|e| e.in_operator("stack"))?;
    for (entry, tensor) in tensors.iter().enumerate() {
        ensure!(
            tensor.sizes() == first.sizes(),
            Shape("stack", "tensors"),
            "expects each tensor to be equal size, but got {:?} at entry 0 and {:?} at entry {entry}",
            first.sizes(),
            tensor.sizes()
        );
        ensure!(
            tensor.device() == first.device(),
            Device("stack", "tensors"),
            "expected all tensors to be on the same device, but got at least two devices, {} and {}",
            first.device(),
            tensor.device()
        );
    }
    let mut sizes = DimVec::from_slice(first.sizes());
    sizes.insert(d, tensors.len() as i64);
    Ok((d, TensorSpec::new(&sizes, result_type(tensors)?, first.device())))
}

/// Concatenates tensors of one shape along a new dimension.
pub fn stack(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    let (d, spec) = stack_spec(tensors, dim)?;
    let made = spec.allocate("stack")?;
    if copy_small(tensors, shape::product(&made.sizes()[..d]), &made)? {
        return Ok(made);
    }
    for (index, tensor) in tensors.iter().enumerate() {
        ops::copy_(&view::select(&made, d as i64, index as i64)?, tensor, false)?;
    }
    Ok(made)
}

fn map_each(tensors: &[Tensor], f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Vec<Tensor>> {
    fallible::try_collect(tensors.iter().map(f))
}

/// `self_`, with a dimension inserted if it has none.
pub fn atleast_1d(self_: &Tensor) -> Result<Tensor> {
    if self_.dim() == 0 { ops::reshape(self_, &[1]) } else { Ok(self_.clone()) }
}

/// `self_` with at least two dimensions: a vector becomes a row.
pub fn atleast_2d(self_: &Tensor) -> Result<Tensor> {
    match self_.dim() {
        0 => ops::reshape(self_, &[1, 1]),
        1 => ops::unsqueeze(self_, 0),
        _ => Ok(self_.clone()),
    }
}

/// `self_` with at least three dimensions: inserted before and behind that of a vector, behind those of a matrix.
pub fn atleast_3d(self_: &Tensor) -> Result<Tensor> {
    match self_.dim() {
        0 => ops::reshape(self_, &[1, 1, 1]),
        1 => ops::unsqueeze(&ops::unsqueeze(self_, 0)?, -1),
        2 => ops::unsqueeze(self_, -1),
        _ => Ok(self_.clone()),
    }
}

/// Concatenates along the second dimension, 1-D tensors along the first.
pub fn hstack(tensors: &[Tensor]) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), InvalidArgument("hstack", "tensors"), "expects a non-empty TensorList");
    let tensors = map_each(tensors, ops::atleast_1d)?;
    ops::cat(&tensors, if tensors[0].dim() == 1 { 0 } else { 1 })
}

/// Concatenates along the first dimension, 1-D tensors as rows.
pub fn vstack(tensors: &[Tensor]) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), InvalidArgument("vstack", "tensors"), "expects a non-empty TensorList");
    ops::cat(&map_each(tensors, ops::atleast_2d)?, 0)
}

/// Concatenates along the third dimension.
pub fn dstack(tensors: &[Tensor]) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), InvalidArgument("dstack", "tensors"), "expects a non-empty TensorList");
    ops::cat(&map_each(tensors, ops::atleast_3d)?, 2)
}

/// Concatenates along the second dimension, 1-D tensors as columns.
pub fn column_stack(tensors: &[Tensor]) -> Result<Tensor> {
    ensure!(
        !tensors.is_empty(),
        InvalidArgument("column_stack", "tensors"),
        "expects a non-empty TensorList"
    );
    let column = |t: &Tensor| if t.dim() <= 1 { ops::reshape(t, &[-1, 1]) } else { Ok(t.clone()) };
    ops::hstack(&map_each(tensors, column)?)
}
