//! Elements of guarded tensors as slices, for kernels that gather, scatter and sort.
#![expect(unsafe_code, reason = "makes slices of guarded bytes, and splits a slice among threads")]

use crate::Tensor;
use crate::parallel::parallel_for;
use crate::structured::with_scratch;
use crate::tensor_iterator::GRAIN;
use bytemuck::Pod;
use flambeau_core::{Guarded, Result, Storage, bail, ensure, shape};
use smallvec::SmallVec;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

/// The memory of a tensor, from its first element to its last.
///
/// - (inside) `count` elements of `size` bytes from `first`, aligned, are in a storage that is guarded for `'g`. Where `writable`, it
///   is guarded for writing, and no other span overlaps it.
struct Span<'g> {
    first: *mut u8,
    count: usize,
    size: usize,
    writable: Cell<bool>,
    guard: PhantomData<&'g ()>,
}

impl Span<'_> {
    /// Under a guard on the tensor's storage.
    fn new(guarded: Guarded<'_>, tensor: &Tensor, writable: bool) -> Result<Self> {
        let view = tensor.strided_view();
        let (geometry, size, first) = (view.geometry(), view.dtype().size(), guarded.ptr(view));
        let reach =
            if geometry.numel() == 0 { None } else { shape::extent(geometry.sizes(), geometry.strides())? };
        let count = reach.map_or(0, |last| last as usize + 1);
        ensure!(
            count == 0 || first.addr().is_multiple_of(size),
            InvalidArgument,
            "the memory is not aligned for elements of {}",
            tensor.dtype()
        );
        Ok(Span { first, count, size, writable: Cell::new(writable), guard: PhantomData })
    }

    fn start<T>(&self) -> *mut T {
        if self.count == 0 { std::ptr::dangling_mut() } else { self.first.cast() }
    }
}

/// The elements of the inputs and outputs of a kernel. The index in a slice is the offset from the tensor's first element: the sum
/// of index times stride.
pub(super) struct Slices<'g> {
    reads: SmallVec<[Span<'g>; 4]>,
    writes: SmallVec<[Span<'g>; 2]>,
}

impl<'g> Slices<'g> {
    /// Requires that the tensors' guards are held for `'g`.
    fn of(guarded: Guarded<'_>, reads: &[&Tensor], writes: &[&Tensor]) -> Result<Self> {
        let spans = |tensors: &[&Tensor], writable: bool| {
            tensors.iter().map(move |t| Span::new(guarded, t, writable)).collect::<Result<Vec<_>>>()
        };
        Ok(Slices { reads: spans(reads, false)?.into(), writes: spans(writes, true)?.into() })
    }

    /// The elements of input number `at`, as a type of the same size.
    pub(super) fn read<T: Pod>(&self, at: usize) -> Result<&'g [T]> {
        match self.reads.get(at) {
            // SAFETY: (inside); nobody writes while a guard for reading is held, and any bytes are a `Pod`.
            Some(span) if span.size == size_of::<T>() => unsafe {
                Ok(std::slice::from_raw_parts(span.start(), span.count))
            },
            _ => bail!(Internal, "there is no input {at} of elements of {} bytes", size_of::<T>()),
        }
    }

    /// The elements of output number `at`, as a type of the same size. Only the first call for each output succeeds.
    pub(super) fn write<T: Pod>(&self, at: usize) -> Result<&'g mut [T]> {
        match self.writes.get(at) {
            // SAFETY: (inside): no other span reaches there, and `writable` is taken, so this is the only slice of it.
            Some(span) if span.size == size_of::<T>() && span.writable.take() => unsafe {
                Ok(std::slice::from_raw_parts_mut(span.start(), span.count))
            },
            _ => bail!(Internal, "there is no output {at} of elements of {} bytes left", size_of::<T>()),
        }
    }
}

/// Calls `body` with the elements of `reads` and `writes`, under their guards. Tensors in `writes` must share no storage with any
/// other argument: see [`non_aliasing`].
///
/// # Errors
/// `Device` for tensors that are not on the host, `Aliasing` for shared storages, those of the guards, and `body`'s.
pub(super) fn with_slices<R>(
    name: &str,
    reads: &[&Tensor],
    writes: &[&Tensor],
    body: impl for<'g> FnOnce(&Slices<'g>) -> Result<R>,
) -> Result<R> {
    check(name, reads, writes)?;
    with_scratch(name, reads, writes, |guarded| body(&Slices::of(guarded, reads, writes)?))
}

/// Refuses tensors on other devices, and outputs that share a storage with another tensor.
fn check(name: &str, reads: &[&Tensor], writes: &[&Tensor]) -> Result<()> {
    for tensor in reads.iter().chain(writes) {
        ensure!(
            tensor.device().is_cpu(),
            Device(name),
            "expected all tensors to be on the cpu, but got one on {}",
            tensor.device()
        );
    }
    for (at, written) in writes.iter().enumerate() {
        let shared = |other: &&&Tensor| Storage::ptr_eq(other.storage(), written.storage());
        ensure!(
            !reads.iter().chain(&writes[..at]).any(|other| shared(&other)),
            Aliasing(name),
            "expected a result with memory of its own"
        );
    }
    Ok(())
}

/// `tensor`, or a copy of it if it shares its storage with `written`. The copy has the same strides, which the caller may have read
/// before.
pub(super) fn non_aliasing(tensor: &Tensor, written: &Tensor) -> Result<Tensor> {
    if !Storage::ptr_eq(tensor.storage(), written.storage()) {
        return Ok(tensor.clone());
    }
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    let last: i64 = sizes.iter().zip(strides).map(|(size, stride)| (size - 1) * stride).sum();
    let span = if tensor.numel() == 0 { 0 } else { last + 1 };
    let reached = tensor.alias_as(&[span], &[1], tensor.storage_offset())?;
    crate::structured::private_copy(&reached)?.alias_as(sizes, strides, 0)
}

/// A slice whose disjoint parts are written by several threads.
struct Parts<T>(*mut T);

// SAFETY: each thread accesses only its own part, which `fill` gives it.
unsafe impl<T: Send> Sync for Parts<T> {}

impl<T> Parts<T> {
    /// # Safety
    /// - (disjoint) `range` is inside the slice, and overlaps no other part that is alive.
    #[expect(clippy::mut_from_ref, reason = "disjoint parts of one slice")]
    unsafe fn get(&self, range: Range<usize>) -> &mut [T] {
        // SAFETY: (disjoint).
        unsafe { std::slice::from_raw_parts_mut(self.0.add(range.start), range.len()) }
    }
}

/// Splits `out` into parts whose lengths are multiples of `unit`, and calls `f` with the range and the elements of each, on several
/// threads if `out` is large.
pub(super) fn fill<T: Send>(out: &mut [T], unit: usize, f: impl Fn(Range<usize>, &mut [T]) + Sync) {
    fill_chunks(out, unit, GRAIN / unit.max(1), f);
}

/// [`fill`] in chunks of `grain` units, for results whose elements are more work than a copy.
pub(super) fn fill_chunks<T: Send>(
    out: &mut [T],
    unit: usize,
    grain: usize,
    f: impl Fn(Range<usize>, &mut [T]) + Sync,
) {
    let unit = unit.max(1);
    let parts = Parts(out.as_mut_ptr());
    parallel_for(0..out.len() / unit, grain.max(1), |units| {
        let range = units.start * unit..units.end * unit;
        // SAFETY: (disjoint): the ranges of one parallel-for are disjoint, and end before `out` does.
        f(range.clone(), unsafe { parts.get(range) });
    });
}

/// [`fill`] of two results of as many elements, which are split alike.
pub(super) fn fill_both<T: Send, U: Send>(
    (first, second): (&mut [T], &mut [U]),
    unit: usize,
    f: impl Fn(Range<usize>, &mut [T], &mut [U]) + Sync,
) {
    let unit = unit.max(1);
    let len = first.len().min(second.len());
    let parts = (Parts(first.as_mut_ptr()), Parts(second.as_mut_ptr()));
    parallel_for(0..len / unit, (GRAIN / unit).max(1), |units| {
        let range = units.start * unit..units.end * unit;
        // SAFETY: (disjoint): as in `fill_chunks`, in each of the two.
        f(range.clone(), unsafe { parts.0.get(range.clone()) }, unsafe { parts.1.get(range) });
    });
}
