//! The microkernel: a tile of C held in registers while the loop over k runs, written once for all lanes.
#![expect(unsafe_code, reason = "raw operands; vector registers")]

use std::ptr;

use super::{
    element::Scalar,
    lanes::{Body, Lanes},
};

/// Rows of A as a tile reads them.
pub(super) struct RowsOfA<U> {
    pub(super) at: *const U,
    /// How far rows are apart, and units of a row.
    pub(super) row: isize,
    pub(super) depth: isize,
    /// The panel into which this tile packs them while it reads them, for other tiles of these rows, or null.
    pub(super) panel: *mut U,
    /// Units from `panel` to the panel of the tile below, if this tile packs that tile's rows too, which must be as many; else 0.
    pub(super) below: usize,
}

impl<U> RowsOfA<U> {
    /// A panel that has been packed, of `depth` units.
    pub(super) fn packed<L: Lanes<Unit = U>>(panel: *const U, rows: usize, depth: usize) -> Self {
        let (row, depth) = if L::K_UNITS == 1 { (1, rows as isize) } else { (depth as isize, 1) };
        Self { at: panel, row, depth, panel: ptr::null_mut(), below: 0 }
    }
}

/// One tile of work: `rows x cols` of C, `depth` units of A and B.
///
/// A and B may be packed or not: A needs two strides, B a row stride and adjacent columns.
pub(super) struct TileArgs<L: Lanes> {
    pub(super) depth: usize,
    pub(super) a: RowsOfA<L::Unit>,
    pub(super) b: *const L::Unit,
    pub(super) b_depth: isize,
    pub(super) c: *mut L::Acc,
    pub(super) c_row: isize,
    /// What `beta` scales: C itself, or rows of another matrix.
    pub(super) old: *const L::Acc,
    pub(super) old_row: isize,
    /// Columns of C that are written; all columns of the tile's vectors are read from B.
    pub(super) cols: usize,
    pub(super) alpha: L::Acc,
    pub(super) beta: L::Acc,
    /// Memory to prefetch, a cache line or more for each `UNROLLED` units.
    pub(super) prefetch: *const u8,
}

impl<L: Lanes> TileArgs<L> {
    /// The first of the rows that are read or written when the sums are complete, and the stride between them.
    #[inline(always)]
    fn addend_rows(&self) -> (*const L::Acc, isize) {
        if self.beta == L::Acc::ZERO { (self.c.cast_const(), self.c_row) } else { (self.old, self.old_row) }
    }
}

/// # Safety
/// - The CPU has the instruction set of `L`.
/// - `rows` x `depth` units of A and `depth` x `vectors * N` units of B are readable through the strides, where `rows`
///   and `vectors` are those of the tile chosen; as many of A are writable at its panel unless it is null. The same of the rows
///   below and their panel, if they are packed here too.
/// - `rows` x `cols` of C are writable, and of `old` readable unless `beta` is 0; `N * (vectors - 1) < cols <= N * vectors`.
pub(super) type Tile<L> = unsafe fn(&TileArgs<L>);

/// The tile of `R` rows and `V` vectors of columns.
///
/// # Safety
/// - As [`Tile`].
pub(super) unsafe fn tile<L: Lanes, const R: usize, const V: usize>(args: &TileArgs<L>) {
    // SAFETY: the caller's conditions are the body's.
    unsafe { L::enter(TileBody::<L, R, V>(args)) }
}

struct TileBody<'a, L: Lanes, const R: usize, const V: usize>(&'a TileArgs<L>);

impl<L: Lanes, const R: usize, const V: usize> Body for TileBody<'_, L, R, V> {
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: as `Tile`.
        unsafe {
            let sums = multiply::<L, R, V>(self.0);
            if self.0.cols == V * L::N {
                write::<L, R, V, true>(self.0, sums);
            } else {
                write::<L, R, V, false>(self.0, sums);
            }
        }
    }
}

/// The sums of the tile, before they are scaled.
#[inline(always)]
unsafe fn multiply<L: Lanes, const R: usize, const V: usize>(args: &TileArgs<L>) -> [[L; V]; R] {
    let RowsOfA { at, row, depth, panel, below } = args.a;
    // SAFETY: as `Tile`.
    unsafe {
        // The common strides are passed as constants.
        if !panel.is_null() && row == 1 {
            let packing = PackAdjacent { panel, below, further: if below == 0 { 0 } else { R } };
            return sums::<L, R, V, 1, _, _>(args, Rows::<_, false>::new(at, 1), depth, packing);
        }
        if !panel.is_null() {
            return sums::<L, R, V, 1, _, _>(
                args,
                Rows::<_, true>::new(at, row),
                depth,
                PackStrided { panel },
            );
        }
        if row == 1 && depth == R as isize {
            sums::<L, R, V, UNROLLED, _, _>(args, Rows::<_, false>::new(at, 1), R as isize, NoPacking)
        } else if depth == 1 {
            sums::<L, R, V, UNROLLED, _, _>(args, Rows::<_, true>::new(at, row), 1, NoPacking)
        } else {
            sums::<L, R, V, 1, _, _>(args, Rows::<_, true>::new(at, row), depth, NoPacking)
        }
    }
}

/// Bytes of a cache line.
pub(super) const CACHE_LINE: usize = 64;
/// Units of k in one iteration of the loop: the loop's counter would otherwise take issue slots from the multiplications.
pub(super) const UNROLLED: usize = 4;
/// The prefetch distance in A, in units, of a tile that packs: it computes for so many units as long as a load from memory takes.
const PREFETCH_DISTANCE: isize = 32;

/// The addresses of one unit of each row of A. The stride between rows is a constant of the compiler's unless `STRIDED`.
///
/// Rows are addressed as `bases[row / 3] + (row % 3) * stride`: with one base for each row the addresses alone would fill the
/// integer registers.
#[derive(Clone, Copy)]
struct Rows<U, const STRIDED: bool> {
    bases: [*const U; 4],
    stride: isize,
}

impl<U, const STRIDED: bool> Rows<U, STRIDED> {
    #[inline(always)]
    fn new(first: *const U, stride: isize) -> Self {
        let mut rows = Self { bases: [0, 3, 6, 9].map(|row| first.wrapping_offset(row * stride)), stride };
        rows.hide_from_optimizer();
        rows
    }

    /// Hides from the compiler how bases are related. It would compute each from the one before, twelve dependent additions, which take
    /// as long as the whole tile; or compute all rows' addresses before the loop, and load them from the stack in it.
    #[inline(always)]
    fn hide_from_optimizer(&mut self) {
        if STRIDED {
            self.bases = self.bases.map(opaque);
        }
    }

    #[inline(always)]
    fn at(&self, row: usize) -> *const U {
        self.bases[row / 3].wrapping_offset((row % 3) as isize * self.stride)
    }

    #[inline(always)]
    fn advance(&mut self, by: isize) {
        for base in &mut self.bases {
            *base = base.wrapping_offset(by);
        }
    }
}

/// The same pointer, about which the compiler can assume nothing; unlike `black_box`, this leaves it in its register.
#[inline(always)]
fn opaque<T>(pointer: *const T) -> *const T {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    #[expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written there")]
    let pointer = {
        let mut pointer = pointer;
        // SAFETY: a comment, no instruction.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) pointer, options(pure, nomem, nostack, preserves_flags))
        };
        pointer
    };
    pointer
}

/// Cache lines that are prefetched in one iteration of the loop: a tile of one vector reads A twice as fast, so it prefetches as much
/// as it reads.
const fn prefetches_at_once<L: Lanes>(rows: usize, vectors: usize) -> usize {
    let read = (rows * UNROLLED * size_of::<L::Unit>()).div_ceil(CACHE_LINE);
    if vectors == 1 { read } else { 1 }
}

#[inline(always)]
unsafe fn sums<
    L: Lanes,
    const R: usize,
    const V: usize,
    const AT_ONCE: usize,
    const STRIDED: bool,
    P: Packing<L, R>,
>(
    args: &TileArgs<L>,
    mut rows: Rows<L::Unit, STRIDED>,
    a_depth: isize,
    mut packing: P,
) -> [[L; V]; R] {
    // SAFETY: as `Tile`; pointers move past the last unit without being read there.
    unsafe {
        let mut sums = [[L::zero(); V]; R];
        let mut b = args.b;
        let mut prefetch = args.prefetch;
        let (c, c_row) = args.addend_rows();
        for step in 0..args.depth / AT_ONCE {
            // One row of C is prefetched in each iteration: all of them at once would delay the loads of A and B.
            if step < R {
                let row = c.wrapping_offset(step as isize * c_row);
                for v in 0..V {
                    L::prefetch(row.wrapping_add(v * L::N).cast());
                }
            }
            for _ in 0..const { prefetches_at_once::<L>(R, V) } {
                L::prefetch_l2(prefetch);
                prefetch = prefetch.wrapping_add(CACHE_LINE * AT_ONCE / UNROLLED);
            }
            rows.hide_from_optimizer();
            for _ in 0..AT_ONCE {
                packing.pack(&rows, a_depth);
                add::<L, R, V, _>(&mut sums, &rows, b);
                rows.advance(a_depth);
                b = b.wrapping_offset(args.b_depth);
            }
        }
        for _ in 0..args.depth % AT_ONCE {
            add::<L, R, V, _>(&mut sums, &rows, b);
            rows.advance(a_depth);
            b = b.wrapping_offset(args.b_depth);
        }
        sums
    }
}

/// What a tile does with a unit of each row of A besides multiplying it.
///
/// # Safety
/// - `R` units are readable in A, and writable in the panel.
trait Packing<L: Lanes, const R: usize> {
    unsafe fn pack<const STRIDED: bool>(&mut self, rows: &Rows<L::Unit, STRIDED>, a_depth: isize);
}

/// The rows are packed already, or are not to be packed.
struct NoPacking;

impl<L: Lanes, const R: usize> Packing<L, R> for NoPacking {
    #[inline(always)]
    unsafe fn pack<const STRIDED: bool>(&mut self, _: &Rows<L::Unit, STRIDED>, _: isize) {}
}

/// Packs rows whose units are adjacent, together with those of the rows below where these are packed too, which share cache lines
/// with them; and prefetches the units that are [`PREFETCH_DISTANCE`] further along k.
struct PackAdjacent<U> {
    panel: *mut U,
    below: usize,
    further: usize,
}

impl<L: Lanes, const R: usize> Packing<L, R> for PackAdjacent<L::Unit> {
    #[inline(always)]
    unsafe fn pack<const STRIDED: bool>(&mut self, rows: &Rows<L::Unit, STRIDED>, a_depth: isize) {
        let Self { panel, below, further } = *self;
        let from = rows.at(0);
        let far = from.wrapping_offset(PREFETCH_DISTANCE * a_depth);
        // SAFETY: the trait's conditions. Without rows below the same ones are copied twice, which costs less than a branch.
        unsafe {
            L::prefetch_l2(far.cast());
            L::prefetch_l2(far.wrapping_add(further + R - 1).cast());
            from.copy_to_nonoverlapping(panel, R);
            from.add(further).copy_to_nonoverlapping(panel.add(below), R);
        }
        self.panel = panel.wrapping_add(R);
    }
}

/// Packs rows that lie apart. Each is a sequential stream, which the hardware prefetches.
struct PackStrided<U> {
    panel: *mut U,
}

impl<L: Lanes, const R: usize> Packing<L, R> for PackStrided<L::Unit> {
    #[inline(always)]
    unsafe fn pack<const STRIDED: bool>(&mut self, rows: &Rows<L::Unit, STRIDED>, _: isize) {
        for row in 0..R {
            // SAFETY: the trait's conditions.
            unsafe { self.panel.add(row).write(rows.at(row).read()) }
        }
        self.panel = self.panel.wrapping_add(R);
    }
}

/// Adds the products of one unit of each row and of each column.
#[inline(always)]
unsafe fn add<L: Lanes, const R: usize, const V: usize, const STRIDED: bool>(
    sums: &mut [[L; V]; R],
    rows: &Rows<L::Unit, STRIDED>,
    b: *const L::Unit,
) {
    // SAFETY: as `Tile`.
    unsafe {
        let mut columns = [L::operand(b); V];
        for (v, column) in columns.iter_mut().enumerate().skip(1) {
            *column = L::operand(b.add(v * L::N));
        }
        for (row, sums) in sums.iter_mut().enumerate() {
            let a = L::broadcast(rows.at(row));
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = sum.accumulate(a, column);
            }
        }
    }
}

#[inline(always)]
unsafe fn write<L: Lanes, const R: usize, const V: usize, const FULL: bool>(
    args: &TileArgs<L>,
    sums: [[L; V]; R],
) {
    for (row, sums) in sums.into_iter().enumerate() {
        // SAFETY: as `Tile`.
        unsafe { write_row::<L, V, FULL>(args, row, sums) }
    }
}

/// Writes the sums of one row to C, whose last vector is whole only if `FULL`.
///
/// # Safety
/// - As [`Tile`], for a row of the tile.
#[inline(always)]
pub(super) unsafe fn write_row<L: Lanes, const V: usize, const FULL: bool>(
    args: &TileArgs<L>,
    row: usize,
    sums: [L; V],
) {
    // SAFETY: as `Tile`; `old` is read only where `beta` is not 0.
    unsafe {
        let (alpha, beta) = (L::splat(args.alpha), L::splat(args.beta));
        let last = args.cols - (V - 1) * L::N;
        for (v, sum) in sums.into_iter().enumerate() {
            let c = args.c.offset(row as isize * args.c_row).add(v * L::N);
            let partial = !FULL && v + 1 == V;
            let mut value = sum.mul(alpha);
            if args.beta != L::Acc::ZERO {
                let old = args.old.offset(row as isize * args.old_row).add(v * L::N);
                let old = if partial { L::load_first(old, last) } else { L::load(old) };
                value = old.mul_add(beta, value);
            }
            if partial { value.store_first(c, last) } else { value.store(c) }
        }
    }
}
