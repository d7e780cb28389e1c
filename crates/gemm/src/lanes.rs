//! The operations of a vector register that kernels use, and how a body of code is compiled for the instruction set it runs on.
#![expect(unsafe_code, reason = "vector instructions that only some CPUs have")]

use super::{
    element::Scalar,
    plan::Cut,
    tile::{Tile, TileArgs},
};

/// Code that runs inside an instruction set's shim. Its method, and all that it calls, must be `#[inline(always)]`: a function that is
/// not inlined into the shim is compiled without the instructions, and is 40 to 100 times slower.
pub(super) trait Body {
    /// # Safety
    /// - The body's own conditions, and the CPU has the instruction set whose shim calls it.
    unsafe fn run(self);
}

/// The largest number of accumulators in a register.
pub(super) const WIDEST: usize = 16;

/// PackAdjacent columns that tiles share.
#[derive(Clone, Copy)]
pub(super) struct Strip {
    /// Vectors of columns in all strips but the last one.
    pub(super) vectors: usize,
    /// Rows of a tile at most.
    pub(super) rows: usize,
}

impl Strip {
    /// Sums of a tile at most.
    pub(super) const fn sums<L: Lanes>(self) -> usize {
        self.vectors * L::N * self.rows
    }
}

/// `N` rows of `N` units, for a register of `N`; the rest of the array is not used.
pub(super) type Block<U> = [[U; WIDEST]; WIDEST];

/// One register of `N` accumulators.
///
/// # Safety
/// Every method:
/// - the CPU has the instruction set that the type stands for.
///
/// Methods with a pointer:
/// - `N` elements (or `count` of them, where given) may be read or written there. No alignment is needed.
pub(super) unsafe trait Lanes: Copy + 'static {
    /// What the packed operands consist of: an element, or a pair of them along k.
    type Unit: Copy + Default + Send + Sync;
    /// What products are summed in.
    type Acc: Scalar;
    /// A register of `N` units.
    type Operand: Copy;
    /// Accumulators a register.
    const N: usize;
    /// Units of k that a tile multiplies at once. If they are several, those of a row of A are adjacent, in packed panels too, and
    /// panels are padded with zeros to a multiple.
    const K_UNITS: usize = 1;
    /// `TILES[vectors - 1][rows - 1]`: for each number of vectors of columns, as many rows as fit the registers.
    const TILES: &'static [&'static [Tile<Self>]];
    /// How products are cut.
    const CUT: Cut = Cut::VECTORS;
    /// Tiles for products of few columns.
    const NARROW: Strip = Strip { vectors: 2, rows: Self::TILES[1].len() };
    /// Tiles for other products: closer to square, which loads fewer operands for as many sums.
    const WIDE: Strip = match Self::TILES.len() {
        0..=2 => Self::NARROW,
        vectors => Strip { vectors, rows: Self::TILES[vectors - 1].len() },
    };

    /// The tiles for a product of so many columns. A strip of a single vector is avoided: its tiles have so few sums that the latency of
    /// additions bounds them.
    #[inline(always)]
    fn strip(columns: usize) -> Strip {
        let (all, most) = (columns.div_ceil(Self::N), Self::WIDE.vectors);
        let has_lone_one = all % most == 1 && all < 2 * most;
        if all <= Self::NARROW.vectors || has_lone_one { Self::NARROW } else { Self::WIDE }
    }

    /// Computes the tile of so many rows and vectors.
    ///
    /// # Safety
    /// - As [`Tile`].
    #[inline(always)]
    unsafe fn tile(rows: usize, vectors: usize, args: &TileArgs<Self>) {
        // SAFETY: the caller's conditions.
        unsafe { Self::TILES[vectors - 1][rows - 1](args) }
    }
    /// Called when a thread has computed some tiles: releases registers that the system would otherwise save.
    #[inline(always)]
    fn release_registers() {}

    /// Runs a body with the instruction set's features on.
    unsafe fn enter(body: impl Body);

    unsafe fn zero() -> Self;
    unsafe fn splat(value: Self::Acc) -> Self;
    unsafe fn load(from: *const Self::Acc) -> Self;
    unsafe fn load_first(from: *const Self::Acc, count: usize) -> Self;
    unsafe fn store(self, to: *mut Self::Acc);
    unsafe fn store_first(self, to: *mut Self::Acc, count: usize);
    unsafe fn mul(self, by: Self) -> Self;
    /// `self * by + plus`, rounded once where the instruction set can.
    unsafe fn mul_add(self, by: Self, plus: Self) -> Self;
    /// `a0 b0 a1 b1 ...` of `self` and `other`, as two registers.
    unsafe fn interleaved(self, other: Self) -> [Self; 2];

    unsafe fn operand(from: *const Self::Unit) -> Self::Operand;
    unsafe fn broadcast(from: *const Self::Unit) -> Self::Operand;
    /// Writes `block[lane][group]` to `to[group * stride + lane]`, for `groups` and `lanes` of at most `N`.
    #[inline(always)]
    unsafe fn transpose(
        block: &Block<Self::Unit>,
        to: *mut Self::Unit,
        stride: usize,
        groups: usize,
        lanes: usize,
    ) {
        for group in 0..groups {
            for (lane, row) in block.iter().enumerate().take(lanes) {
                // SAFETY: `lanes` units are writable at each group.
                unsafe { to.add(group * stride + lane).write(row[group]) }
            }
        }
    }
    /// [`Lanes::transpose`] of `N` lanes of `N` units each, where `row` says.
    #[inline(always)]
    unsafe fn transpose_rows(
        row: impl Fn(usize) -> *const Self::Unit,
        to: *mut Self::Unit,
        stride: usize,
        groups: usize,
    ) {
        for lane in 0..Self::N {
            for group in 0..groups {
                // SAFETY: `N` units are readable in each row, and writable at each group.
                unsafe { to.add(group * stride + lane).write(row(lane).add(group).read_unaligned()) }
            }
        }
    }
    /// Prefetches memory into L1; the address need not be mapped.
    #[inline(always)]
    unsafe fn prefetch(_at: *const u8) {}
    /// As [`Lanes::prefetch`], into L2.
    #[inline(always)]
    unsafe fn prefetch_l2(_at: *const u8) {}
    /// `self + a * b`, for a pair the sum of both products.
    unsafe fn accumulate(self, a: Self::Operand, b: Self::Operand) -> Self;
}

/// Lanes with instructions that permute the elements of two registers, with which a block is transposed in registers.
///
/// # Safety
/// As [`Lanes`].
pub(super) unsafe trait Shuffle: Lanes {
    /// Writes the first `count` units.
    unsafe fn store_units(units: Self::Operand, to: *mut Self::Unit, count: usize);
    /// `a0 b0 a1 b1 ...`, as two registers.
    unsafe fn interleave(a: Self::Operand, b: Self::Operand) -> [Self::Operand; 2];
}

/// Transposes a square of `N` registers. Interleaving row `i` with row `i + N / 2`, for all `i`, moves the highest bit of an element's
/// row index to the lowest bit of its column index; this is done once for each bit.
///
/// # Safety
/// - The CPU has the instruction set.
#[inline(always)]
pub(super) unsafe fn transposed<L: Shuffle>(mut rows: [L::Operand; WIDEST]) -> [L::Operand; WIDEST] {
    for _ in 0..L::N.ilog2() {
        let old = rows;
        for i in 0..L::N / 2 {
            // SAFETY: the condition above.
            [rows[2 * i], rows[2 * i + 1]] = unsafe { L::interleave(old[i], old[i + L::N / 2]) };
        }
    }
    rows
}

/// [`Lanes::transpose`] in registers.
///
/// # Safety
/// - As [`Lanes::transpose`].
#[inline(always)]
pub(super) unsafe fn transpose<L: Shuffle>(
    block: &Block<L::Unit>,
    to: *mut L::Unit,
    stride: usize,
    groups: usize,
    lanes: usize,
) {
    // SAFETY: the conditions above; a row of the block is at least a register.
    unsafe { store_transposed::<L>(|lane| block[lane].as_ptr(), to, stride, [groups, lanes]) }
}

/// Writes the first `groups` units of the first `lanes` of `N` rows of `N` units as [`Lanes::transpose`] does.
///
/// # Safety
/// - The rows are readable, and `lanes` units writable at each group; the CPU has the instruction set.
#[inline(always)]
pub(super) unsafe fn store_transposed<L: Shuffle>(
    row: impl Fn(usize) -> *const L::Unit,
    to: *mut L::Unit,
    stride: usize,
    [groups, lanes]: [usize; 2],
) {
    // SAFETY: the conditions above.
    unsafe {
        let mut rows = [L::operand(row(0)); WIDEST];
        for (i, operand) in rows.iter_mut().enumerate().take(L::N).skip(1) {
            *operand = L::operand(row(i));
        }
        for (group, row) in transposed::<L>(rows).into_iter().enumerate().take(L::N) {
            if group < groups {
                L::store_units(row, to.add(group * stride), lanes);
            }
        }
    }
}

/// Lists tiles of up to so many rows with one and with two vectors of columns; if `wide`, also with three and four vectors, of half as
/// many rows.
macro_rules! tiles {
    (4) => { tiles!(1: 1 2 3 4, 2: 1 2 3 4) };
    (6) => { tiles!(1: 1 2 3 4 5 6, 2: 1 2 3 4 5 6) };
    (12) => { tiles!(1: 1 2 3 4 5 6 7 8 9 10 11 12, 2: 1 2 3 4 5 6 7 8 9 10 11 12) };
    (12 wide) => {
        tiles!(
            1: 1 2 3 4 5 6 7 8 9 10 11 12, 2: 1 2 3 4 5 6 7 8 9 10 11 12,
            3: 1 2 3 4 5 6, 4: 1 2 3 4 5 6
        )
    };
    ($($vectors:literal: $($rows:literal)*),*) => {
        &[$(&[$($crate::tile::tile::<Self, $rows, $vectors>),*]),*]
    };
}
pub(super) use tiles;
