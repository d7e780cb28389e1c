//! Rows of few elements, one in each lane: what the folds and the loops over dimensions have in common.
#![expect(unsafe_code, reason = "addresses of results that several threads write")]

use std::mem::MaybeUninit;

/// The largest number of elements of a short row.
pub(in crate::loops) const SHORT: usize = 32;
/// The largest number of elements of rows that are folded in lanes without a strip where they follow one another in memory.
pub(in crate::loops) const MAX_PACKED: usize = 8;
/// Rows of a strip: a multiple of any number of lanes.
pub(in crate::loops) const STRIP: usize = 64;

/// Memory for a strip of rows of up to [`MAX_PACKED`] elements of up to eight bytes, from the beginning of a cache line on: vectors
/// of that size take one access.
#[repr(align(64))]
pub(in crate::loops) struct PackedTile([MaybeUninit<u64>; MAX_PACKED * STRIP]);

impl PackedTile {
    #[inline(always)]
    pub(in crate::loops) fn new() -> Self {
        PackedTile([const { MaybeUninit::uninit() }; MAX_PACKED * STRIP])
    }

    #[inline(always)]
    pub(in crate::loops) fn as_mut_ptr(&mut self) -> *mut u64 {
        self.0.as_mut_ptr().cast()
    }
}

/// Rows of a strip: element `i` of row `j` is at `i * STRIP + j`. Elements of rows that do not exist have any value.
#[derive(Clone, Copy)]
pub(crate) struct Strip {
    pub(super) elements: *const u8,
    /// Elements of a row.
    pub(super) n: usize,
    /// Rows.
    pub(super) count: usize,
}

impl Strip {
    /// The address of each element of the first row, of `size` bytes.
    #[inline]
    pub(super) fn addresses(&self, size: usize) -> [*const u8; SHORT] {
        std::array::from_fn(|i| self.elements.wrapping_add(i * STRIP * size))
    }
}

/// The addresses of the results of a strip's rows.
pub(crate) struct StripResults<const M: usize> {
    pub(super) to: [*mut u8; M],
    pub(super) sizes: [usize; M],
    /// The index of each row's results; of the first row alone where they are adjacent.
    pub(super) indices: [isize; STRIP],
    /// Whether the results of the rows are adjacent.
    pub(super) are_adjacent: bool,
    pub(super) count: usize,
}

impl<const M: usize> StripResults<M> {
    /// The addresses of the results of a row.
    pub(super) fn of_row(&self, row: usize) -> [*mut u8; M] {
        let index = if self.are_adjacent { self.indices[0] + row as isize } else { self.indices[row] };
        std::array::from_fn(|m| self.to[m].wrapping_offset(index * self.sizes[m] as isize))
    }

    /// The addresses of result `m` alone.
    pub(super) fn only(&self, m: usize) -> StripResults<1> {
        let StripResults { to, sizes, indices, are_adjacent, count } = *self;
        StripResults { to: [to[m]], sizes: [sizes[m]], indices, are_adjacent, count }
    }

    /// Bytes of a result.
    pub(super) fn size(&self) -> usize {
        self.sizes[0]
    }

    /// Writes result `m` of each row.
    ///
    /// # Safety
    /// - These results are elements of `U`, and this thread's to write.
    pub(super) unsafe fn write<U: Copy>(&self, m: usize, results: &[U; STRIP]) {
        if self.are_adjacent {
            let (from, n) = (results.as_ptr().cast::<u8>(), size_of_val(&results[..self.count]));
            // SAFETY: by this function's condition: the results of all rows follow one another.
            return unsafe { from.copy_to_nonoverlapping(self.of_row(0)[m], n) };
        }
        for (row, result) in results[..self.count].iter().enumerate() {
            // SAFETY: by this function's condition.
            unsafe { self.of_row(row)[m].cast::<U>().write_unaligned(*result) };
        }
    }
}

/// Blocks of `rows` rows, `row_stride` bytes apart, of `columns` dense elements each.
#[derive(Clone, Copy)]
pub(super) struct BlockShape {
    pub(super) rows: usize,
    pub(super) row_stride: isize,
    pub(super) columns: usize,
}

/// An address that the guards of the calling thread protect, or of memory that is split among its tasks.
#[derive(Clone, Copy)]
pub(super) struct Shared(pub(super) *mut u8);

// SAFETY: every task writes its own part.
unsafe impl Sync for Shared {}
