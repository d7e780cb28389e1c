//! Scans of several rows at once, one in each lane, element by element and where the elements are: rows side by side, whose elements of the
//! same index are adjacent, or rows any distance apart. Long rows are scanned in chunks, so that a cache line is read once for all rows
//! that it has elements of.
#![expect(unsafe_code, reason = "reads and writes the rows that the plan gives")]

use super::GROUP;
use super::elements::{LaneElement, ScanElement};
use crate::loops::reduce::strips::STRIP;
use crate::vectorized::{CodegenAnchor, Isa, Kernel, load_one};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Rows in the lanes of one step where elements are adjacent.
pub(super) const WIDTH: usize = 16;
/// The same where a group of each row is in registers.
pub(super) const WIDTH_OF_GROUPS: usize = 8;
/// Rows in the lanes of one step where each element has an address of its own, or rows are few.
pub(super) const FEW: usize = 4;
/// Elements of each row that are scanned before the same of the next rows.
pub(super) const CHUNK: usize = 16 * GROUP;

/// The rows of an operand: the address of the first element, and the bytes from one element of a row to the next, from one row to the
/// next, and from one block of rows to the next.
#[derive(Clone, Copy)]
pub(super) struct Side {
    pub(super) at: *mut u8,
    pub(super) step: isize,
    pub(super) across: isize,
    pub(super) block: isize,
}

impl Side {
    /// The address of element `i` of row `row` of the first block.
    #[inline(always)]
    fn element<T>(self, i: usize, row: usize) -> *mut T {
        self.at.wrapping_offset(i as isize * self.step + row as isize * self.across).cast()
    }

    /// Whether the elements of neighbouring rows are adjacent.
    #[inline(always)]
    fn is_adjacent<T>(self) -> bool {
        self.across == size_of::<T>() as isize
    }
}

/// Elements from one vector of few rows to the next: not adjacent, as the compiler would join vectors of different elements of the rows.
const APART: usize = 2 * FEW;

/// Sums of as many rows, which have been written before.
type Sums<T, const M: usize> = [T; M];

/// Results of one group of few rows, in whole vectors.
pub(super) type Whole<T> = MaybeUninit<[[T; APART]; GROUP]>;

/// `blocks` blocks of `rows` rows of `n` elements, at most [`STRIP`] rows.
pub(super) struct ScanLanes<'w, T, const SUM: bool> {
    pub(super) from: Side,
    pub(super) to: Side,
    pub(super) n: usize,
    pub(super) rows: usize,
    pub(super) blocks: usize,
    /// Memory of the caller.
    pub(super) whole: &'w mut Whole<T>,
}

impl<T, const SUM: bool> CodegenAnchor for ScanLanes<'_, T, SUM> {
    type Anchor = Self;
}

/// The results of the elements of each row before a chunk; with some that do not exist, so that there are as many as lanes after any row.
type Before<T> = [<T as ScanElement>::Running; STRIP + FEW];

impl<I: Isa, T: LaneElement<I>, const SUM: bool> Kernel<I> for ScanLanes<'_, T, SUM> {
    #[inline(always)]
    unsafe fn run(mut self) {
        let adjacent = [self.from.is_adjacent::<T>(), self.to.is_adjacent::<T>()];
        let mut before: Before<T> = [T::start::<SUM>(); STRIP + FEW];
        for _ in 0..self.blocks {
            for begin in (0..self.n).step_by(CHUNK) {
                let chunk = begin..self.n.min(begin + CHUNK);
                // SAFETY: by the kernel's conditions these rows are readable and writable.
                unsafe {
                    match adjacent {
                        [true, true] => self.scan_chunk::<I, true, true>(chunk, &mut before),
                        [false, true] => self.scan_chunk::<I, false, true>(chunk, &mut before),
                        _ => self.scan_chunk::<I, false, false>(chunk, &mut before),
                    }
                };
            }
            self.from.at = self.from.at.wrapping_offset(self.from.block);
            self.to.at = self.to.at.wrapping_offset(self.to.block);
        }
    }
}

/// Strides are read from memory while results are written: for short rows to keep multiples of them takes longer.
impl<T, const SUM: bool> ScanLanes<'_, T, SUM> {
    /// Scans a chunk of each row of the first block, of several rows at a time. `FROM` and `TO` say whether the compiler may take the elements
    /// of neighbouring rows for adjacent.
    ///
    /// # Safety
    /// - The rows are readable and writable, and adjacent as is said.
    #[inline(always)]
    unsafe fn scan_chunk<I: Isa, const FROM: bool, const TO: bool>(
        &mut self,
        chunk: Range<usize>,
        before: &mut Before<T>,
    ) where
        T: LaneElement<I>,
    {
        let mut first = 0;
        while first < self.rows {
            let (chunk, left) = (chunk.clone(), self.rows - first);
            // SAFETY: this function's condition; as many rows are left.
            first += unsafe {
                let is_wide = T::IS_CONVERTED || (FROM && TO);
                if SUM && T::HAS_GROUPS && is_wide && left >= WIDTH_OF_GROUPS {
                    self.scan_rows::<I, FROM, TO, WIDTH_OF_GROUPS, WIDTH_OF_GROUPS>(first, chunk, before)
                } else if !(SUM && T::HAS_GROUPS) && is_wide && left >= WIDTH {
                    self.scan_rows::<I, FROM, TO, WIDTH, WIDTH>(first, chunk, before)
                } else if left >= FEW {
                    self.scan_rows::<I, FROM, TO, FEW, FEW>(first, chunk, before)
                } else if SUM && T::HAS_GROUPS {
                    match left {
                        3 if TO => self.scan_rows::<I, FROM, TO, 3, FEW>(first, chunk, before),
                        2 if TO => self.scan_rows::<I, FROM, TO, 2, FEW>(first, chunk, before),
                        _ => self.scan_rows::<I, FROM, TO, 1, FEW>(first, chunk, before),
                    }
                } else {
                    match left {
                        3 if TO => self.scan_rows::<I, FROM, TO, 3, 3>(first, chunk, before),
                        2 if TO => self.scan_rows::<I, FROM, TO, 2, 2>(first, chunk, before),
                        _ => self.scan_rows::<I, FROM, TO, 1, 1>(first, chunk, before),
                    }
                }
            };
        }
    }

    /// Scans a chunk of `M` rows from `first` on in `N` lanes, and returns how many.
    ///
    /// # Safety
    /// - The rows are among those of the block, and readable and writable.
    #[inline(always)]
    unsafe fn scan_rows<I: Isa, const FROM: bool, const TO: bool, const M: usize, const N: usize>(
        &mut self,
        first: usize,
        chunk: Range<usize>,
        before: &mut Before<T>,
    ) -> usize
    where
        T: LaneElement<I>,
    {
        let Some(before) = before.get_mut(first..).and_then(|rows| rows.first_chunk_mut::<N>()) else {
            return M;
        };
        let mut running = if chunk.start == 0 { [T::start::<SUM>(); N] } else { *before };
        let mut done = chunk.start;
        // SAFETY: this function's condition.
        unsafe {
            if SUM && T::HAS_GROUPS {
                while done + GROUP <= chunk.end {
                    self.sum_group::<I, FROM, TO, M, N>(first, done, &mut running);
                    done += GROUP;
                }
            }
            for i in done..chunk.end {
                let x = self.read::<I, FROM, M, N>(i, first);
                for (running, x) in running.iter_mut().zip(x) {
                    *running = T::next::<SUM>(*running, x);
                }
                self.write::<I, TO, M, N>(running, i, first);
            }
        }
        *before = running;
        M
    }

    /// The sums of the next group of `M` rows, added in the order of a dense row.
    ///
    /// # Safety
    /// - As [`scan_rows`](Self::scan_rows), and each row has a group from element `done` on.
    #[inline(always)]
    unsafe fn sum_group<I: Isa, const FROM: bool, const TO: bool, const M: usize, const N: usize>(
        &mut self,
        first: usize,
        done: usize,
        running: &mut [T::Running; N],
    ) where
        T: LaneElement<I>,
    {
        const { assert!(M == N || N == FEW) };
        let mut x = [[T::start::<SUM>(); N]; GROUP];
        for (i, x) in x.iter_mut().enumerate() {
            // SAFETY: this function's condition.
            *x = unsafe { self.read::<I, FROM, M, N>(done + i, first) };
        }
        let own = prefix_sums_of::<T, N>(x);
        let whole: *mut T = self.whole.as_mut_ptr().cast();
        for (i, own) in own.iter().enumerate() {
            let sums = added::<T, N>(running, own);
            // SAFETY: the same; the memory beside takes a vector of few lanes for each element.
            unsafe {
                if M == N {
                    self.write::<I, TO, M, N>(sums, done + i, first);
                } else {
                    T::write::<N>(sums, whole.add(i * APART));
                }
            }
        }
        *running = added::<T, N>(running, &own[GROUP - 1]);
        // The compiler has vectors of all lanes only if all of them are stored.
        for i in 0..if M == N { 0 } else { GROUP } {
            // SAFETY: the same; this vector has been written.
            unsafe {
                let values = whole.add(i * APART).cast::<Sums<T, M>>().read_unaligned();
                self.put::<TO, M>(values, self.to.element(done + i, first));
            }
        }
    }

    /// Element `i` of `M` rows from `first` on, and zeros in the other lanes.
    ///
    /// # Safety
    /// - The elements are readable.
    #[inline(always)]
    unsafe fn read<I: Isa, const FROM: bool, const M: usize, const N: usize>(
        &self,
        i: usize,
        first: usize,
    ) -> [T::Running; N]
    where
        T: LaneElement<I>,
    {
        let from: *const T = self.from.element(i, first);
        // SAFETY: this function's condition.
        let x: [T::Running; M] = unsafe {
            if FROM {
                T::read::<M>(from)
            } else {
                let mut gathered = [MaybeUninit::<T>::uninit(); M];
                for (row, to) in gathered.iter_mut().enumerate() {
                    to.write(load_one(from.wrapping_byte_offset(row as isize * self.from.across)));
                }
                T::read::<M>(gathered.as_ptr().cast())
            }
        };
        let mut lanes = [T::start::<true>(); N];
        for (lane, x) in lanes.iter_mut().zip(x) {
            *lane = x;
        }
        lanes
    }

    /// Writes the first `M` lanes to element `i` of the rows from `first` on.
    ///
    /// # Safety
    /// - The elements are writable.
    #[inline(always)]
    unsafe fn write<I: Isa, const TO: bool, const M: usize, const N: usize>(
        &self,
        lanes: [T::Running; N],
        i: usize,
        first: usize,
    ) where
        T: LaneElement<I>,
    {
        const { assert!(M <= N) };
        let (to, mut values) = (self.to.element::<T>(i, first), [T::start::<SUM>(); M]);
        for (value, lane) in values.iter_mut().zip(lanes) {
            *value = lane;
        }
        // SAFETY: this function's condition; all results are written before they are read.
        unsafe {
            if TO {
                return T::write::<M>(values, to);
            }
            let mut made = MaybeUninit::<[T; M]>::uninit();
            T::write::<M>(values, made.as_mut_ptr().cast());
            self.put::<TO, M>(made.assume_init(), to);
        }
    }

    /// Writes elements of neighbouring rows, of which the first one is at `to`.
    ///
    /// # Safety
    /// - The elements are writable.
    #[inline(always)]
    unsafe fn put<const TO: bool, const M: usize>(&self, values: [T; M], to: *mut T) {
        // SAFETY: this function's condition.
        unsafe {
            if TO {
                return to.cast::<[T; M]>().write_unaligned(values);
            }
            for (row, value) in values.into_iter().enumerate() {
                to.wrapping_byte_offset(row as isize * self.to.across).write_unaligned(value);
            }
        }
    }
}

/// The sums of two vectors.
#[inline(always)]
fn added<T: ScanElement, const N: usize>(a: &[T::Running; N], b: &[T::Running; N]) -> [T::Running; N] {
    let mut sums = *a;
    for (sum, b) in sums.iter_mut().zip(b) {
        *sum = T::next::<true>(*sum, *b);
    }
    sums
}

/// `prefix_sums` of each lane.
#[inline(always)]
fn prefix_sums_of<T: ScanElement, const N: usize>(
    mut x: [[T::Running; N]; GROUP],
) -> [[T::Running; N]; GROUP] {
    for before in [1, 2, 4] {
        for i in (before..GROUP).rev() {
            x[i] = added::<T, N>(&x[i], &x[i - before]);
        }
    }
    x
}
