//! Packs a panel of an operand, so that the microkernel reads it from the first unit to the last.
#![expect(unsafe_code, reason = "raw operands")]

use super::{
    StridedRows,
    element::Pack,
    lanes::{Body, Lanes, WIDEST},
    tile::CACHE_LINE,
};

/// Groups of k that are copied of one panel before the next panel's, where lanes are adjacent; also the prefetch distance, in groups.
const GROUPS: usize = 4;

/// A panel: `width` rows of A or columns of B (`lane` is the stride between them), over `k` elements of stride
/// `along`. It is written as `groups` of `padded` units; units past `width`, units past `k`, and the second half of an odd last pair
/// are zero.
pub(super) struct PackPanel<T, L: Lanes> {
    pub(super) from: *const T,
    pub(super) lane: isize,
    pub(super) along: isize,
    pub(super) width: usize,
    pub(super) k: usize,
    pub(super) to: *mut L::Unit,
    pub(super) padded: usize,
    pub(super) groups: usize,
}

/// Panels of the same `k` elements that lie side by side. Where lanes are adjacent, a few groups of one panel are copied, then those of
/// the next: rows are then read sequentially, as the hardware prefetcher expects, and a cache line that two panels share is still in
/// L1.
pub(super) struct PackPanels<'a, T, L: Lanes>(pub(super) &'a [PackPanel<T, L>]);

/// # Safety
/// - For each panel the conditions of [`PackPanel`]'s `run`.
impl<T: Pack<L::Unit>, L: Lanes> Body for PackPanels<'_, T, L> {
    #[inline(always)]
    unsafe fn run(self) {
        let Some(&PackPanel { lane, k, .. }) = self.0.first() else { return };
        let step = if lane == 1 { GROUPS * T::DEPTH } else { k.max(1) };
        for first in (0..k).step_by(step) {
            for panel in self.0 {
                // SAFETY: the condition above, for some groups of the panel.
                unsafe { panel.part(first, step.min(k - first)).run() }
            }
        }
        for panel in self.0 {
            // SAFETY: as above.
            unsafe { panel.pad() }
        }
    }
}

/// Panels of A: packed like those of B, or row after row where tiles multiply several units of k at once.
pub(super) struct PackRows<'a, T, L: Lanes>(pub(super) &'a [PackPanel<T, L>]);

/// # Safety
/// - For each panel the conditions of [`PackPanel`]'s `run`, with as many lanes as there are rows.
impl<T: Pack<L::Unit>, L: Lanes> Body for PackRows<'_, T, L> {
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: the condition above.
        unsafe {
            if L::K_UNITS == 1 {
                return PackPanels(self.0).run();
            }
            for panel in self.0 {
                panel.rows();
            }
        }
    }
}

impl<T: Pack<L::Unit>, L: Lanes> PackPanel<T, L> {
    /// The groups that `k` elements from `first` on make.
    #[inline(always)]
    fn part(&self, first: usize, k: usize) -> Self {
        let from = self.from.wrapping_offset(first as isize * self.along);
        let to = self.to.wrapping_add(first / T::DEPTH * self.padded);
        Self { from, k, to, groups: k.div_ceil(T::DEPTH), ..*self }
    }
}

/// [`super::transpose_pack`] with these lanes: rows are packed like columns of B.
///
/// # Safety
/// - As [`super::transpose_pack`], and the CPU has the instruction set of `L`.
pub(super) unsafe fn transpose_pack<T: Pack<L::Unit>, L: Lanes>(
    rows: &StridedRows<T>,
    to: *mut L::Unit,
    pitch: usize,
) {
    let StridedRows { from, rows: width, row_stride: lane, len: k, stride: along } = *rows;
    let groups = k.div_ceil(T::DEPTH);
    // SAFETY: by this function's condition.
    unsafe { L::enter(PackPanel::<T, L> { from, lane, along, width, k, to, padded: pitch, groups }) }
}

/// [`super::transpose`] with these lanes.
///
/// # Safety
/// - As [`super::transpose`], and the CPU has the instruction set of `L`.
pub(super) unsafe fn transpose<T: Pack<L::Unit>, L: Lanes>(
    rows: &StridedRows<T>,
    to: *mut L::Unit,
    pitch: usize,
) {
    let StridedRows { from, rows: width, row_stride: lane, len: k, stride: along } = *rows;
    let groups = k.div_ceil(T::DEPTH);
    // SAFETY: by this function's condition.
    unsafe {
        L::enter(Unpadded(PackPanel::<T, L> { from, lane, along, width, k, to, padded: pitch, groups }))
    }
}

/// A panel without zeros after its last lane.
struct Unpadded<T, L: Lanes>(PackPanel<T, L>);

/// # Safety
/// - As for [`PackPanel`], but only `width` units of each group are writable.
impl<T: Pack<L::Unit>, L: Lanes> Body for Unpadded<T, L> {
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: the condition above.
        unsafe { self.0.transpose(self.0.width) }
    }
}

/// # Safety
/// - `width` x `k` elements are readable through the strides.
/// - `padded * groups` units are writable, `padded >= width`, and `groups >= k.div_ceil(DEPTH)`.
impl<T: Pack<L::Unit>, L: Lanes> Body for PackPanel<T, L> {
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: the conditions above.
        unsafe {
            match (self.lane, self.width) {
                // The common widths are passed as constants: each run of lanes is then a few registers. Conversions are left to
                // `lanes`, because the compiler vectorises them only in a loop that is not unrolled first.
                (1, 64) if T::RAW && self.padded == 64 => self.runs::<64>(),
                (1, 32) if T::RAW && self.padded == 32 => self.runs::<32>(),
                (1, 16) if T::RAW && self.padded == 16 => self.runs::<16>(),
                (1, 12) if T::RAW && self.padded == 12 => self.runs::<12>(),
                (1, 11) if T::RAW && self.padded == 11 => self.runs::<11>(),
                (1, _) => self.lanes(),
                _ => self.transpose(self.padded),
            }
            self.pad();
        }
    }
}

impl<T: Pack<L::Unit>, L: Lanes> PackPanel<T, L> {
    /// The first elements of a group, and the second ones if it consists of pairs and is complete.
    #[inline(always)]
    unsafe fn group(&self, group: usize) -> (*const T, Option<*const T>) {
        // SAFETY: the group exists.
        let first = unsafe { self.from.offset((group * T::DEPTH) as isize * self.along) };
        let whole = T::DEPTH == 2 && 2 * group + 1 < self.k;
        (first, whole.then_some(first.wrapping_offset(self.along)))
    }

    /// The groups past `k`.
    #[inline(always)]
    unsafe fn pad(&self) {
        for unit in self.k.div_ceil(T::DEPTH) * self.padded..self.groups * self.padded {
            // SAFETY: a unit of the panel.
            unsafe { self.to.add(unit).write(L::Unit::default()) }
        }
    }

    /// Row after row, each of `groups` units.
    #[inline(always)]
    unsafe fn rows(&self) {
        let whole = self.k.div_ceil(T::DEPTH);
        for first in (0..self.groups).step_by(L::N) {
            let (groups, there) = (L::N.min(self.groups - first), L::N.min(whole.saturating_sub(first)));
            for lane in (0..self.width).step_by(L::N) {
                let lanes = L::N.min(self.width - lane);
                let mut block = [[L::Unit::default(); WIDEST]; WIDEST];
                // SAFETY: lanes and groups of the panel, whose rows are `groups` units apart.
                unsafe {
                    let to = self.to.add(lane * self.groups + first);
                    if self.lane == 1 {
                        for (i, row) in block[..there].iter_mut().enumerate() {
                            self.units(first + i, lane, row.as_mut_ptr(), lanes);
                        }
                        L::transpose(&block, to, self.groups, lanes, groups);
                    } else {
                        for (i, row) in block[..lanes].iter_mut().enumerate() {
                            self.gather(lane + i, first, &mut row[..there]);
                            row.as_ptr().copy_to_nonoverlapping(to.add(i * self.groups), groups);
                        }
                    }
                }
            }
        }
    }

    /// Units of one group from lane `first` on, where lanes are adjacent.
    #[inline(always)]
    unsafe fn units(&self, group: usize, first: usize, to: *mut L::Unit, count: usize) {
        // SAFETY: the group exists, and has the lanes; `to` takes as many units.
        unsafe {
            let (one, other) = self.group(group);
            for lane in 0..count {
                let second = other.map_or(
                    T::PAD,
                    #[inline(always)]
                    |second| second.add(first + lane).read(),
                );
                to.add(lane).write(T::unit(one.add(first + lane).read(), second));
            }
        }
    }

    /// `W` lanes that are adjacent in memory, and no padding.
    #[inline(always)]
    unsafe fn runs<const W: usize>(&self) {
        for group in 0..self.k.div_ceil(T::DEPTH) {
            // SAFETY: `W` elements of each run, `W` units of the panel; only a unit of bytes is written unaligned.
            unsafe {
                let (first, second) = self.group(group);
                // Rows are too far apart for the hardware prefetcher.
                for element in 0..T::DEPTH {
                    let row = (GROUPS * T::DEPTH + element) as isize * self.along;
                    for lane in (0..W - 1).step_by(const { CACHE_LINE / size_of::<T>() }) {
                        L::prefetch(first.wrapping_offset(row).wrapping_add(lane).cast());
                    }
                    L::prefetch(first.wrapping_offset(row).wrapping_add(W - 1).cast());
                }
                let first = first.cast::<[T; W]>().read();
                let second = second.map_or(
                    [T::PAD; W],
                    #[inline(always)]
                    |second| second.cast::<[T; W]>().read(),
                );
                let mut units = [L::Unit::default(); W];
                for i in 0..W {
                    units[i] = T::unit(first[i], second[i]);
                }
                self.to.add(group * W).cast::<[L::Unit; W]>().write(units);
            }
        }
    }

    /// Lanes that are adjacent in memory, in any number.
    #[inline(always)]
    unsafe fn lanes(&self) {
        for group in 0..self.k.div_ceil(T::DEPTH) {
            // SAFETY: the conditions of `run`.
            unsafe {
                let to = self.to.add(group * self.padded);
                self.units(group, 0, to, self.width);
                for lane in self.width..self.padded {
                    to.add(lane).write(L::Unit::default());
                }
            }
        }
    }

    /// Lanes that are not adjacent, of which so many are written: square blocks of them are transposed in registers.
    #[inline(always)]
    unsafe fn transpose(&self, written: usize) {
        let groups = self.k.div_ceil(T::DEPTH);
        let mut block = [[L::Unit::default(); WIDEST]; WIDEST];
        for first in (0..groups).step_by(L::N) {
            for lane in (0..written).step_by(L::N) {
                let (groups, lanes) = (L::N.min(groups - first), L::N.min(written - lane));
                let filled = self.width.saturating_sub(lane).min(L::N);
                if filled == L::N && self.has_registers(lane, first, groups) {
                    // SAFETY: the conditions of `run`.
                    unsafe { self.transpose_registers(lane, first, groups) }
                    continue;
                }
                for row in &mut block[filled..lanes.max(filled)] {
                    *row = [L::Unit::default(); WIDEST];
                }
                // SAFETY: the conditions of `run`.
                unsafe {
                    for (i, row) in block[..filled].iter_mut().enumerate() {
                        if groups < L::N && self.is_inside_dense(lane + i, first) {
                            // Units of the next lane follow, which are not used.
                            let from = self.from.add((lane + i) * self.k + first);
                            from.cast::<L::Unit>().copy_to_nonoverlapping(row.as_mut_ptr(), L::N);
                        } else {
                            self.gather(lane + i, first, &mut row[..groups]);
                        }
                    }
                    let to = self.to.add(first * self.padded + lane);
                    L::transpose(&block, to, self.padded, groups, lanes);
                }
            }
        }
    }

    /// Whether a whole register can be read from group `first` of each of the `N` lanes from `lane` on.
    #[inline(always)]
    fn has_registers(&self, lane: usize, first: usize, groups: usize) -> bool {
        let are_whole = groups == L::N && self.k - first * T::DEPTH >= L::N * T::DEPTH;
        T::RAW && self.along == 1 && (are_whole || self.is_inside_dense(lane + L::N - 1, first))
    }

    /// Transposes `N` lanes in registers.
    ///
    /// # Safety
    /// - As for [`PackPanel`], and they have [registers](Self::has_registers).
    #[inline(always)]
    unsafe fn transpose_registers(&self, lane: usize, first: usize, groups: usize) {
        let row = |i: usize| {
            let at = (lane + i) as isize * self.lane + (first * T::DEPTH) as isize;
            self.from.wrapping_offset(at)
        };
        // SAFETY: this function's conditions; a prefetch of any address is harmless.
        unsafe {
            // As in `gather`.
            for i in 0..L::N {
                L::prefetch(row(i).wrapping_add(2 * L::N * T::DEPTH).cast());
            }
            let to = self.to.add(first * self.padded + lane);
            L::transpose_rows(
                #[inline(always)]
                |i| row(i).cast(),
                to,
                self.padded,
                groups,
            );
        }
    }

    /// Whether lanes of units follow one another, and a whole register can be read from group `first` of one.
    #[inline(always)]
    fn is_inside_dense(&self, lane: usize, first: usize) -> bool {
        let is_dense = T::IS_UNIT && self.along == 1 && self.lane == self.k as isize;
        is_dense && lane * self.k + first + L::N <= self.width * self.k
    }

    /// Some units of one lane, from group `first` on.
    #[inline(always)]
    unsafe fn gather(&self, lane: usize, first: usize, row: &mut [L::Unit]) {
        // SAFETY: the lane and the groups exist.
        unsafe {
            let from = self.from.offset(lane as isize * self.lane + (first * T::DEPTH) as isize * self.along);
            let left = self.k - first * T::DEPTH;
            // A short run of each lane is too short for the hardware prefetcher.
            L::prefetch(from.wrapping_offset(2 * (L::N * T::DEPTH) as isize * self.along).cast());
            match (self.along == 1, row.len() == L::N && left >= L::N * T::DEPTH) {
                (true, true) if T::RAW => {
                    // As bytes: two elements need not be aligned as a unit is.
                    let bytes = L::N * size_of::<L::Unit>();
                    from.cast::<u8>().copy_to_nonoverlapping(row.as_mut_ptr().cast(), bytes);
                }
                (true, true) => gather::<T, L::Unit>(from, 1, usize::MAX, row),
                _ => gather::<T, L::Unit>(from, self.along, left, row),
            }
        }
    }
}

/// # Safety
/// - `row.len() * DEPTH` elements, or `left` if that is less, are readable at `from`, `along` apart.
#[inline(always)]
unsafe fn gather<T: Pack<U>, U>(from: *const T, along: isize, left: usize, row: &mut [U]) {
    for (group, unit) in row.iter_mut().enumerate() {
        let p = group * T::DEPTH;
        // SAFETY: the condition above; the second half of a pair is read where there is one.
        unsafe {
            let first = from.offset(p as isize * along);
            let whole = T::DEPTH == 2 && p + 1 < left;
            *unit = T::unit(first.read(), if whole { first.offset(along).read() } else { T::PAD });
        }
    }
}
