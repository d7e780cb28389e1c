//! The loops around the microkernel: blocks that fit the caches, packed where that is faster, cut by size for the threads.
#![expect(unsafe_code, reason = "raw operands")]

use std::{mem::MaybeUninit, ops::Range, ptr};

use super::{
    Gemm, GemmElement,
    element::{Pack, Scalar},
    lanes::Lanes,
    pack::{PackPanel, PackPanels, PackRows},
    plan::{Packed, PackedRows, Plan, WORTH_A_THREAD, fits_l1},
    round::Round,
    scratch::{self, Scratch, SendPtr},
    tile::{CACHE_LINE, RowsOfA, TileArgs, UNROLLED},
};
use flambeau_parallel::{num_threads, parallel_for};

/// Sums of the largest tile.
const MAX_SUMS: usize = 32 * 32;

/// The rows of adjacent accumulators to which sums are written, and those which are added to them.
#[derive(Clone, Copy)]
pub(super) struct Target<A> {
    pub(super) at: *mut A,
    pub(super) row: isize,
    /// The addend that `beta` scales.
    pub(super) old: *const A,
    pub(super) old_row: isize,
    pub(super) alpha: A,
    pub(super) beta: A,
}

impl<A: Copy> Target<A> {
    /// C, whose elements are accumulators, and its addend.
    pub(super) fn of<T: GemmElement<Scalar = A>>(g: &Gemm<T>) -> Self {
        let (at, row): (*mut A, _) = (g.c.cast(), g.c_strides[0]);
        let (old, old_row) = g.addend.map_or((at.cast_const(), row), |d| (d.first.cast(), d.strides[0]));
        Self { at, row, old, old_row, alpha: g.alpha, beta: g.beta }
    }

    /// The same from another column on.
    fn from(self, column: usize) -> Self {
        Self { at: self.at.wrapping_add(column), old: self.old.wrapping_add(column), ..self }
    }
}

/// One block of k and of columns, all rows.
struct Slab<'a, T: GemmElement, L: Lanes> {
    g: &'a Gemm<T>,
    plan: &'a Plan,
    k: Range<usize>,
    columns: Range<usize>,
    /// What is packed before the tiles.
    packed: SendPtr<L::Unit>,
    target: Target<L::Acc>,
    /// Whether sums are complete, and to be rounded to C.
    rounds: bool,
    /// The rows of each tile.
    rows: EvenParts,
}

/// A block of C, and its panels of A.
struct Block<U> {
    tiles: Range<usize>,
    /// Its first row, and the first of its strips.
    top: usize,
    first_strip: usize,
    panels: *mut U,
}

// SAFETY: its pointers are those of the product, whose elements each chunk uses as `gemm` allows.
unsafe impl<T: GemmElement, L: Lanes> Sync for Slab<'_, T, L> {}

/// The product. Sums are stored in `target` between slabs of k, and if `rounds` rounded to C from there.
///
/// # Safety
/// - As [`super::gemm`], with C replaced by `target` unless there is one slab, which is rounded.
pub(super) unsafe fn multiply<T: GemmElement + Pack<L::Unit>, L: Lanes<Acc = T::Scalar>>(
    g: &Gemm<T>,
    target: Target<L::Acc>,
    rounds: bool,
) {
    let plan = Plan::new::<T, L>(g);
    let columns = match plan.b {
        Packed::Before => g.n.min(plan.columns).next_multiple_of(plan.strip),
        Packed::Last => plan.strip,
        Packed::PerBlock => 0,
    };
    let rows = EvenParts::new(g.m, g.m.div_ceil(plan.rows));
    let mut packed = Scratch::new::<L::Unit>(groups::<T, L>(plan.depth) * columns);
    for first_column in (0..g.n).step_by(plan.columns) {
        let columns = first_column..g.n.min(first_column + plan.columns);
        // With `k` of 0 there is one slab without products, which only scales C.
        for first in (0..g.k.max(1)).step_by(plan.depth) {
            let mut target = target.from(first_column);
            if first > 0 {
                // The sums of the slabs before are added.
                target = Target { old: target.at, old_row: target.row, beta: L::Acc::ONE, ..target };
            }
            let k = first..g.k.min(first + plan.depth);
            let (packed, rounds) = (SendPtr(packed.as_mut_ptr()), rounds && k.end == g.k);
            let columns = columns.clone();
            let slab = Slab::<T, L> { g, plan: &plan, k, columns, packed, target, rounds, rows };
            // SAFETY: the caller's conditions.
            unsafe { slab.run() }
        }
    }
}

impl<T: GemmElement + Pack<L::Unit>, L: Lanes<Acc = T::Scalar>> Slab<'_, T, L> {
    fn groups(&self) -> usize {
        groups::<T, L>(self.k.len())
    }

    fn tiles(&self) -> usize {
        self.rows.count
    }

    fn strips(&self) -> usize {
        self.columns.len().div_ceil(self.plan.strip)
    }

    /// How many blocks of C there are from top to bottom, and across. With nine, one of two threads would wait for a ninth of the time,
    /// so if there are 8 or more their number from top to bottom is rounded to the nearest multiple of four; not always up, because
    /// fewer blocks read B less often.
    fn blocks(&self) -> (usize, usize) {
        let (down, across) =
            (self.tiles().div_ceil(self.plan.tiles), self.strips().div_ceil(self.plan.strips));
        let unchanged = down * across < 8 || self.plan.b == Packed::PerBlock;
        let nearest = ((down + 2) / 4 * 4).max(4);
        (if unchanged { down } else { nearest.min(self.tiles()) }, across)
    }

    unsafe fn run(&self) {
        let (down, across) = self.blocks();
        let work = self.g.m / down * (self.columns.len() / across) * self.k.len();
        // Block `index` of `parts`. Longer blocks are spread among shorter ones, since each thread begins with its share of the blocks.
        let share = |index: usize, of: usize, parts: usize| index * of / parts..(index + 1) * of / parts;
        // SAFETY: `gemm`'s conditions; each chunk packs its own strips, each block writes its own part of C.
        unsafe {
            self.pack_strips();
            parallel_for(0..down * across, (WORTH_A_THREAD / work.max(1)).max(1), |part| {
                for block in part {
                    self.block(
                        share(block / across, self.tiles(), down),
                        share(block % across, self.strips(), across),
                    );
                }
                L::release_registers();
            });
        }
    }

    /// Packs the strips that are packed before the tiles, in two parts per thread or fewer: the wider a part, the longer are the
    /// contiguous runs of B that it reads.
    unsafe fn pack_strips(&self) {
        let worth = (1 << 15) / (self.k.len() * self.plan.strip).max(1);
        let grain = worth.max(self.strips().div_ceil(2 * num_threads()));
        parallel_for(0..self.strips(), grain, |part| {
            let packed = part.filter(|&strip| self.is_packed(strip));
            // SAFETY: each strip is written to its own offset in the buffer.
            unsafe {
                let strips = packed.map(|strip| self.strip_panel(strip, self.packed_strip(strip)));
                L::enter(PackPanels(&scratch::collect(strips)));
            }
        });
    }

    /// A strip of B, to be packed.
    fn strip_panel(&self, strip: usize, to: *mut L::Unit) -> PackPanel<T, L> {
        PackPanel {
            from: self.first_column(strip),
            lane: self.g.b_strides[1],
            along: self.g.b_strides[0],
            width: self.width(strip),
            k: self.k.len(),
            to,
            padded: self.plan.strip,
            groups: self.groups(),
        }
    }

    /// The first element of a strip in B.
    fn first_column(&self, strip: usize) -> *const T {
        at(self.g.b, self.g.b_strides, self.k.start, self.columns.start + strip * self.plan.strip)
    }

    /// Whether a strip is packed before the tiles.
    fn is_packed(&self, strip: usize) -> bool {
        match self.plan.b {
            Packed::Before => true,
            Packed::Last => !self.width(strip).is_multiple_of(L::N),
            Packed::PerBlock => false,
        }
    }

    fn width(&self, strip: usize) -> usize {
        (self.columns.len() - strip * self.plan.strip).min(self.plan.strip)
    }

    unsafe fn packed_strip(&self, strip: usize) -> *mut L::Unit {
        let index = if self.plan.b == Packed::Before { strip } else { 0 };
        // SAFETY: the buffer holds every strip.
        unsafe { self.packed.at().add(index * self.plan.strip * self.groups()) }
    }

    /// Tiles x strips of C.
    unsafe fn block(&self, tiles: Range<usize>, strips: Range<usize>) {
        let is_per_block = self.plan.b == Packed::PerBlock;
        let top = self.rows.part(tiles.start).start;
        // A buffer for panels of A, or for one strip of B: never for both.
        let rows = match (self.plan.a, is_per_block) {
            (PackedRows::Before | PackedRows::Meanwhile, _) => self.rows.part(tiles.end - 1).end - top,
            (PackedRows::Never, true) => self.plan.strip,
            (PackedRows::Never, false) => 0,
        };
        let mut buffer = Scratch::new::<L::Unit>(rows * self.groups());
        let buffer = buffer.as_mut_ptr::<L::Unit>();
        let block = Block { tiles: tiles.clone(), top, first_strip: strips.start, panels: buffer };
        // SAFETY: `gemm`'s conditions; each panel begins where the rows before it end.
        unsafe {
            if self.plan.a == PackedRows::Before {
                let rows = tiles.clone().map(|tile| self.rows.part(tile));
                let panels = rows.map(|rows| self.rows_panel(&rows, self.panel(&block, &rows)));
                L::enter(PackRows(&scratch::collect(panels)));
            }
            if self.by_rows() {
                for tile in tiles {
                    for (index, strip) in strips.clone().enumerate() {
                        self.tile(&block, tile, strip, self.strip(strip), index);
                    }
                }
                return;
            }
            for strip in strips {
                let b = if is_per_block {
                    L::enter(self.strip_panel(strip, buffer));
                    (buffer.cast_const(), self.plan.strip as isize)
                } else {
                    self.strip(strip)
                };
                for (index, tile) in tiles.clone().enumerate() {
                    self.tile(&block, tile, strip, b, index);
                }
            }
        }
    }

    /// The panel into which these rows of a block are packed.
    #[inline(always)]
    fn panel(&self, block: &Block<L::Unit>, rows: &Range<usize>) -> *mut L::Unit {
        block.panels.wrapping_add((rows.start - block.top) * self.groups())
    }

    /// How a tile reads its rows of A, and which rows it packs while it reads them.
    #[inline(always)]
    fn rows_of_a(
        &self,
        block: &Block<L::Unit>,
        tile: usize,
        rows: &Range<usize>,
        strip: usize,
    ) -> RowsOfA<L::Unit> {
        let (panel, groups) = (self.panel(block, rows), self.groups());
        if self.plan.a == PackedRows::Never {
            return self.unpacked_rows(rows, ptr::null_mut(), 0);
        }
        let is_first = self.plan.a == PackedRows::Meanwhile && strip == block.first_strip;
        let is_upper = (tile - block.tiles.start).is_multiple_of(2);
        if is_first && (is_upper || !self.is_paired(block, tile - 1)) {
            let below = if is_upper && self.is_paired(block, tile) { rows.len() * groups } else { 0 };
            return self.unpacked_rows(rows, panel, below);
        }
        RowsOfA::packed::<L>(panel, rows.len(), groups)
    }

    /// Whether a tile packs the rows of the tile below with its own: those are as many, and adjacent.
    #[inline(always)]
    fn is_paired(&self, block: &Block<L::Unit>, tile: usize) -> bool {
        let [rows, below] = [tile, tile + 1].map(|tile| self.rows.part(tile).len());
        self.g.a_strides[0] == 1 && tile + 1 < block.tiles.end && rows == below
    }

    /// A strip of B, in B or where it was packed before the tiles, and the stride between its rows.
    unsafe fn strip(&self, strip: usize) -> (*const L::Unit, isize) {
        // SAFETY: a strip of B.
        unsafe {
            if self.is_packed(strip) {
                return (self.packed_strip(strip).cast_const(), self.plan.strip as isize);
            }
            (self.first_column(strip).cast(), self.g.b_strides[0])
        }
    }

    /// Whether the loop over tiles is outside the loop over strips: all of B stays in L1, or [`Cut::by_rows`](super::plan::Cut) holds.
    fn by_rows(&self) -> bool {
        self.plan.b != Packed::PerBlock && (L::CUT.by_rows || fits_l1::<L>(self.groups(), self.columns.len()))
    }

    /// What a tile, the one at `index` of those that use one strip or one panel, prefetches for later tiles: part of the next packed
    /// strip, so that the first tile there does not wait for all of it, or of the rows of A below.
    fn prefetch_address(&self, rows: &Range<usize>, index: usize, strip: usize) -> *const u8 {
        let part = index * (self.groups() / UNROLLED) * CACHE_LINE;
        if self.plan.b == Packed::Before && !L::CUT.by_rows {
            let start = self.packed.at().wrapping_add((strip + 1) * self.plan.strip * self.groups());
            start.cast_const().cast::<u8>().wrapping_add(part)
        } else {
            let start = at(self.g.a, self.g.a_strides, rows.end, self.k.start).cast::<u8>();
            start.wrapping_add(if self.by_rows() { part } else { 0 })
        }
    }

    /// Rows of A, to be packed.
    fn rows_panel(&self, rows: &Range<usize>, to: *mut L::Unit) -> PackPanel<T, L> {
        PackPanel {
            from: at(self.g.a, self.g.a_strides, rows.start, self.k.start),
            lane: self.g.a_strides[0],
            along: self.g.a_strides[1],
            width: rows.len(),
            k: self.k.len(),
            to,
            padded: rows.len(),
            groups: self.groups(),
        }
    }

    /// Rows of A that the tile reads unpacked; it packs them into `panel` unless that is null.
    fn unpacked_rows(&self, rows: &Range<usize>, panel: *mut L::Unit, below: usize) -> RowsOfA<L::Unit> {
        let (from, [row, along]) = (self.g.a, self.g.a_strides);
        RowsOfA {
            at: at(from, [row, along], rows.start, self.k.start).cast(),
            row: row / T::DEPTH as isize,
            depth: if T::DEPTH == 1 { along } else { 1 },
            panel,
            below,
        }
    }

    /// # Safety
    /// - As [`super::gemm`]; the rows of A are packed, unless the tile itself packs them; the strip begins at `b`, with that stride
    ///   between its rows; the tile is at `index` of those that use one strip or one panel.
    // Inlined, and its arguments are not copied: a function of its own would load the fields of `RowsOfA` by wider loads than they were
    // stored by, and stall until the stores of the tile before have left the store buffer. See `# Note: store forwarding` in
    // `crates/core/src/lib.rs`.
    #[inline(always)]
    unsafe fn tile(
        &self,
        block: &Block<L::Unit>,
        tile: usize,
        strip: usize,
        b: (*const L::Unit, isize),
        index: usize,
    ) {
        let rows = self.rows.part(tile);
        let (a, prefetch) =
            (self.rows_of_a(block, tile, &rows, strip), self.prefetch_address(&rows, index, strip));
        // SAFETY: the parts of the operands that belong to the tile.
        unsafe {
            if self.rounds {
                return self.rounded_tile(&rows, a, b, strip, prefetch);
            }
            let Target { at, row, .. } = self.target.from(strip * self.plan.strip);
            let args = self.args(&rows, a, b, strip, prefetch, (at.offset(rows.start as isize * row), row));
            L::tile(rows.len(), args.cols.div_ceil(L::N), &args);
        }
    }

    #[inline(always)]
    fn args(
        &self,
        rows: &Range<usize>,
        a: RowsOfA<L::Unit>,
        (b, b_depth): (*const L::Unit, isize),
        strip: usize,
        prefetch: *const u8,
        (c, c_row): (*mut L::Acc, isize),
    ) -> TileArgs<L> {
        let Target { old, old_row, alpha, beta, .. } = self.target.from(strip * self.plan.strip);
        let old = old.wrapping_offset(rows.start as isize * old_row);
        let (depth, cols) = (self.groups(), self.width(strip));
        TileArgs { depth, a, b, b_depth, c, c_row, old, old_row, cols, alpha, beta, prefetch }
    }

    /// A tile whose sums are complete, and are rounded to C while they are in L1.
    ///
    /// # Safety
    /// - As [`Slab::tile`].
    #[inline(always)]
    unsafe fn rounded_tile(
        &self,
        rows: &Range<usize>,
        a: RowsOfA<L::Unit>,
        b: (*const L::Unit, isize),
        strip: usize,
        prefetch: *const u8,
    ) {
        const { assert!(L::NARROW.sums::<L>() <= MAX_SUMS && L::WIDE.sums::<L>() <= MAX_SUMS) }
        let mut sums = MaybeUninit::<[L::Acc; MAX_SUMS]>::uninit();
        let sums = sums.as_mut_ptr().cast::<L::Acc>();
        let &Gemm { c, c_strides: strides, alpha, beta, .. } = self.g;
        let c = at(c, strides, rows.start, self.columns.start + strip * self.plan.strip).cast_mut();
        let pitch = self.plan.strip;
        let args = self.args(rows, a, b, strip, prefetch, (sums, pitch as isize));
        let (rows, columns) = (rows.len(), args.cols);
        // SAFETY: there is room for the tile, and C has its elements.
        unsafe {
            L::tile(rows, columns.div_ceil(L::N), &args);
            L::enter(Round::<T> { c, strides, sums, pitch, rows, columns, alpha, beta });
        }
    }
}

/// `0..len` cut into `count` parts of nearly equal size, of which the first are longer by one: equal parts and a remainder could leave
/// a last tile of a row or two, which would use most of its operands only once.
#[derive(Clone, Copy)]
pub(super) struct EvenParts {
    count: usize,
    /// The size of the shorter parts, and how many parts are longer.
    shorter: usize,
    longer: usize,
}

impl EvenParts {
    pub(super) fn new(len: usize, count: usize) -> Self {
        let parts = count.max(1);
        Self { count, shorter: len / parts, longer: len % parts }
    }

    #[inline(always)]
    pub(super) fn part(self, index: usize) -> Range<usize> {
        let start = index * self.shorter + index.min(self.longer);
        start..start + self.shorter + usize::from(index < self.longer)
    }
}

/// The number of units that `k` elements are packed into, with padding.
fn groups<T: Pack<L::Unit>, L: Lanes>(k: usize) -> usize {
    k.div_ceil(T::DEPTH).next_multiple_of(L::K_UNITS)
}

/// The address of an element.
#[inline(always)]
fn at<T>(from: *const T, strides: [isize; 2], row: usize, column: usize) -> *const T {
    from.wrapping_offset(row as isize * strides[0] + column as isize * strides[1])
}
