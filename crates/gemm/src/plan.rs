//! The plan of a product: which operands are packed, how k is cut into slabs, and how C is cut into blocks.
//!
//! Only the blocks depend on the number of threads: no element of C is in two of them, so they change no sum.

use super::{
    Gemm, GemmElement,
    element::Pack,
    lanes::{Lanes, Strip},
};
use flambeau_parallel::{in_parallel_region, num_threads};

/// How products are cut for some lanes.
pub(super) struct Cut {
    /// Units of k in one slab at most.
    pub(super) depth: usize,
    /// Columns in one block.
    pub(super) columns: usize,
    /// Whether the loop over tiles is outside the loop over strips: a tile's rows of A are multiplied by all strips of a block before
    /// the rows below are.
    pub(super) by_rows: bool,
}

impl Cut {
    /// For sums in vectors. A strip of B (64 KiB or twice that) is read from L2, which costs less than to read and write C twice as
    /// often.
    pub(super) const VECTORS: Self = Self { depth: 512, columns: 2048, by_rows: false };
    /// For sums in AMX's registers, which consume operands six times as fast as memory delivers them: B's block stays in L2, and C is
    /// written once.
    pub(super) const TILES: Self = Self { depth: 2048, columns: 256, by_rows: true };
}

/// Rows in one block, if A is packed: a panel of A and a strip of B then stay in L2.
const ROWS: usize = 120;
/// Bytes of B that stay in L1 beside a tile's rows of A and C.
const L1_BYTES: usize = 32 << 10;
/// Rows of A that one block may have if it packs B by itself; twice as many if threads share the product.
const MAX_ROWS_OF_BLOCK: usize = 256;
/// With fewer strips of B, threads do not share the product by strips.
const STRIPS_TO_SHARE: usize = 4;
/// Bytes of a page.
const PAGE: usize = 4096;
/// Multiply-adds worth a thread.
pub(super) const WORTH_A_THREAD: usize = 1 << 18;

/// Elements of k in a slab: as few slabs as possible, all nearly equal, since C is read and written for each.
fn depth_of<T: Pack<L::Unit>, L: Lanes>(k: usize) -> usize {
    let most = L::CUT.depth * T::DEPTH;
    let k = k.max(1);
    k.div_ceil(k.div_ceil(most)).next_multiple_of(16 * T::DEPTH).min(most)
}

/// Whether all of k is one slab.
pub(super) fn is_one_slab<T: Pack<L::Unit>, L: Lanes>(k: usize) -> bool {
    depth_of::<T, L>(k) >= k
}

/// Which strips of B are packed, and when.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Packed {
    /// The last one, if its last vector would be read past the last column.
    Last,
    /// All of them, before the tiles: several blocks read each.
    Before,
    /// Each by the only block that reads it, just before: a thread then finds what it has packed in its own cache.
    PerBlock,
}

/// Whether A is packed, by each block for itself, and when.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum PackedRows {
    /// It is read unpacked.
    Never,
    /// Before the tiles: its elements are converted to units, or neither its rows nor its columns are adjacent.
    Before,
    /// By the tiles of the first strip while they read it: copies and loads from memory overlap with the multiplications.
    Meanwhile,
}

/// What is decided once for a product.
pub(super) struct Plan {
    pub(super) a: PackedRows,
    pub(super) b: Packed,
    /// Elements of k in one slab.
    pub(super) depth: usize,
    /// Columns in one block of B.
    pub(super) columns: usize,
    /// Columns in one strip, and rows in one tile.
    pub(super) strip: usize,
    pub(super) rows: usize,
    /// The size of a block of C: tiles from top to bottom, and strips across.
    pub(super) tiles: usize,
    pub(super) strips: usize,
}

impl Plan {
    pub(super) fn new<T: GemmElement + Pack<L::Unit>, L: Lanes>(g: &Gemm<T>) -> Self {
        let a = match packs_a::<T, L>(g) {
            false => PackedRows::Never,
            true if T::IS_UNIT && g.a_strides.contains(&1) => PackedRows::Meanwhile,
            true => PackedRows::Before,
        };
        let shared = num_threads() > 1 && !in_parallel_region();
        let Strip { vectors, rows } = L::strip(g.n);
        let strip = vectors * L::N;
        // Packing all of B before the tiles needs a barrier between threads, and with two threads half of B is then read from the other
        // one's cache. But if each block packs its own strips, a product of few strips has too few blocks for all threads.
        let max_rows = match shared {
            true if g.n.div_ceil(strip) < STRIPS_TO_SHARE => 0,
            true => 2 * MAX_ROWS_OF_BLOCK,
            false => MAX_ROWS_OF_BLOCK,
        };
        let b = match packs_b::<T, L::Unit>(g) {
            false => Packed::Last,
            true if a == PackedRows::Never && g.m <= max_rows && !fits_l1::<L>(g.k, g.n) => Packed::PerBlock,
            true => Packed::Before,
        };
        // A is packed again for each block of columns, so those are wider if it is.
        let columns = if a == PackedRows::Never { L::CUT.columns } else { L::CUT.columns.max(512) };
        let (all_tiles, all_strips) = (g.m.div_ceil(rows), g.n.min(columns).div_ceil(strip));
        let large = shared && g.m * g.n * g.k.min(L::CUT.depth) >= 2 * WORTH_A_THREAD;
        // Several blocks for each thread, so that other threads can compute some of a slow thread's.
        let too_few = |tiles, strips| large && all_tiles.div_ceil(tiles) * all_strips.div_ceil(strips) < 8;
        let depth = depth_of::<T, L>(g.k);
        let (mut tiles, mut strips, min_strips) = match b {
            Packed::PerBlock => (all_tiles, all_strips, 1),
            _ => ((ROWS / rows).min(all_tiles), all_strips, 2),
        };
        // Rows first, so that A is packed once.
        while too_few(tiles, strips) && tiles > 2 && b != Packed::PerBlock {
            tiles = tiles.div_ceil(2);
        }
        while too_few(tiles, strips) && strips > min_strips {
            strips = strips.div_ceil(2);
        }
        Self { a, b, depth, columns, strip, rows, tiles, strips }
    }
}

/// Whether so many groups of so many columns of B stay in L1.
pub(super) fn fits_l1<L: Lanes>(groups: usize, columns: usize) -> bool {
    groups * columns * size_of::<L::Unit>() <= L1_BYTES
}

/// Whether rows of A may be read as units without packing: each row consists of whole units, a multiple of those that tiles take at
/// once, and its stride is a whole number of units.
fn usable_units<T: Pack<L::Unit>, L: Lanes>(k: usize, [row, along]: [isize; 2]) -> bool {
    let depth = T::DEPTH as isize;
    T::IS_UNIT || (T::RAW && along == 1 && row % depth == 0 && k.is_multiple_of(T::DEPTH * L::K_UNITS))
}

/// Whether A is packed, because it must be or because its units are read often enough to amortise packing. If the units of a row are
/// not adjacent, a tile reads a cache line for each, again for each strip; if they are a page apart, they also compete for a few sets
/// of L1. Rows a page apart cost less, because each is read sequentially.
fn packs_a<T: GemmElement + Pack<L::Unit>, L: Lanes>(g: &Gemm<T>) -> bool {
    let [row, along] = g.a_strides.map(|stride| stride.unsigned_abs() * size_of::<T>());
    let (columns, bytes) = match along > size_of::<T>() {
        true if along >= PAGE => (36, 128 << 10),
        true => (96, 128 << 10),
        false if row >= PAGE => (768, 512 << 10),
        false => (usize::MAX, 0),
    };
    let pays = T::DEPTH == 1 && g.n > columns && g.m * g.k * size_of::<T>() > bytes;
    pays || !usable_units::<T, L>(g.k, g.a_strides)
}

/// The same for B, whose rows are read a few vectors at a time: rows a page apart compete for a few sets of the caches, and each needs
/// an entry of the TLB. The thresholds in rows of A are lowest for these; otherwise lower if B exceeds L2, and highest if it merely
/// exceeds the pages of the L1 TLB.
fn packs_b<T: GemmElement + Pack<U>, U>(g: &Gemm<T>) -> bool {
    let [row, all] = [g.b_strides[0].unsigned_abs(), g.k * g.n].map(|elements| elements * size_of::<T>());
    let kilobytes = all >> 10;
    let rows = match kilobytes {
        129.. if row >= PAGE => 36,
        2049.. => 96,
        513.. => 256,
        256.. => 1024,
        _ => usize::MAX,
    };
    g.m > rows || !T::IS_UNIT || g.b_strides[1] != 1
}
