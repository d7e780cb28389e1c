//! The input of a reduction: read in memory, or gathered and converted into a tile.
#![expect(unsafe_code, reason = "element access behind the guards that the caller holds")]

use super::dim_counter::DimCounter;
use crate::Tensor;
use crate::loops::neighbors::Neighbors;
use crate::loops::tiles::StridedConvert;
use crate::tensor_iterator::Dim;
use flambeau_core::{Guarded, Result, ScalarType};

/// Bytes that stay in L1 while rows across them are gathered one after another.
const IN_L1: usize = 16 << 10;

/// An input whose type in memory may be another than that of the kernel.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    base: *const u8,
    convert: StridedConvert,
    memory: ScalarType,
    kernel: ScalarType,
}

// SAFETY: it is an address that the guards of the calling thread protect until every thread is done.
unsafe impl Sync for Source {}

impl Source {
    /// The elements of `input`, as `kernel`.
    ///
    /// # Errors
    /// `NotImplemented` for a type without storage.
    pub(crate) fn new(guarded: Guarded<'_>, input: &Tensor, kernel: ScalarType) -> Result<Self> {
        let convert = StridedConvert::new(input.dtype(), kernel)?;
        let base = guarded.ptr(input.strided_view());
        Ok(Source { base, convert, memory: input.dtype(), kernel })
    }

    /// The accumulators at `base`, of type `kernel`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn of_accumulators(base: *const u8, kernel: ScalarType) -> Result<Self> {
        Ok(Source { base, convert: StridedConvert::new(kernel, kernel)?, memory: kernel, kernel })
    }

    /// Bytes of an element of the kernel's type.
    pub(crate) fn size(&self) -> usize {
        self.kernel.size()
    }

    /// The types of the elements in memory and in the kernel.
    pub(super) fn types(&self) -> [ScalarType; 2] {
        [self.memory, self.kernel]
    }

    /// Bytes of an element in memory.
    pub(super) fn memory_size(&self) -> usize {
        self.memory.size()
    }

    /// Whether elements `stride` bytes apart can be read in memory, without a tile.
    #[inline]
    pub(crate) fn is_direct(&self, stride: i64) -> bool {
        self.memory == self.kernel && stride == self.memory.size() as i64
    }

    /// Whether elements are copied as they are.
    #[inline]
    pub(crate) fn is_move(&self) -> bool {
        self.memory == self.kernel && self.memory != ScalarType::Bool
    }

    /// The address of an element.
    #[inline]
    pub(crate) fn at(&self, offset: isize) -> *const u8 {
        self.base.wrapping_offset(offset)
    }

    /// Reads `n` elements, `stride` bytes apart, and writes them `to_stride` bytes apart, converted.
    ///
    /// # Safety
    /// - The input has these elements, and the guards are held.
    /// - `to` is valid for writing them.
    #[inline]
    pub(crate) unsafe fn copy(&self, offset: isize, stride: i64, to: *mut u8, to_stride: i64, n: usize) {
        // SAFETY: by the conditions above.
        unsafe { self.convert.run(self.at(offset), stride, to, to_stride, n) }
    }

    /// Converts `n` dense elements that were moved from the input.
    ///
    /// # Safety
    /// - `from` is valid for reading them, and `to` for writing.
    #[inline]
    pub(super) unsafe fn convert(&self, from: *const u8, to: *mut u8, n: usize) {
        // SAFETY: by the conditions above.
        unsafe { self.convert.run(from, self.memory.size() as i64, to, self.size() as i64, n) }
    }

    /// Gathers elements `start..start + n` of the dimensions `dims`, which begin at `offset`, as dense elements.
    ///
    /// # Safety
    /// As [`copy`](Self::copy).
    pub(crate) unsafe fn gather(&self, offset: isize, dims: &[Dim], start: usize, n: usize, to: *mut u8) {
        let size = self.size();
        let stride = dims.first().map_or(size as i64, |dim| dim.input);
        let mut counter = DimCounter::new(dims, start);
        let mut done = 0;
        while done < n {
            let run = counter.left_in_row().min(n - done);
            // SAFETY: `run` elements of the dimensions, and `to` takes all `n`.
            unsafe { self.copy(offset + counter.input, stride, to.add(done * size), size as i64, run) };
            counter.advance(run);
            done += run;
        }
    }

    /// [`gather`](Self::gather) for `width` rows that begin `across` bytes apart: row `w` goes to `to + w * pitch`.
    ///
    /// # Safety
    /// As [`copy`](Self::copy).
    #[expect(clippy::too_many_arguments, reason = "a rectangle in two memories")]
    pub(crate) unsafe fn gather_across(
        &self,
        offset: isize,
        across: i64,
        width: usize,
        dims: &[Dim],
        start: usize,
        n: usize,
        to: *mut u8,
        pitch: usize,
    ) {
        let (step, run) = dims.first().map_or((0, 1), |dim| (dim.input, dim.size as usize));
        let mut counter = DimCounter::new(dims, start);
        if across == self.memory.size() as i64 {
            let mut done = 0;
            while done < n {
                let count = counter.left_in_row().min(n - done);
                let (from, neighbors) =
                    (self.at(offset + counter.input), Neighbors { step, n: count, width });
                // SAFETY: `count` elements of each of the rows; `to` takes `n` elements in each of `width` pitches.
                unsafe { neighbors.gather(self.convert, from, to.add(done * self.size()), pitch) };
                counter.advance(count);
                done += count;
            }
            return;
        }
        if run > width && step.unsigned_abs() as usize * n <= IN_L1 {
            for w in 0..width {
                let offset = offset + w as isize * across as isize;
                // SAFETY: a row; `to` takes `n` elements in each of `width` pitches.
                unsafe { self.gather(offset, dims, start, n, to.add(w * pitch)) };
            }
            return;
        }
        for i in 0..n {
            // SAFETY: element `start + i` of each of the rows; `to` takes `n` elements in each of `width` pitches.
            unsafe {
                self.copy(offset + counter.input, across, to.add(i * self.size()), pitch as i64, width)
            };
            counter.advance(1);
        }
    }
}
