//! What is decided about a product before it is computed: which operands are packed, how k is cut into slabs, and C into blocks.
//!
//! Only the blocks heed threads: no element of C is in two of them, so they change no sum.

use super::{
    Gemm, GemmElement,
    element::Pack,
    lanes::{Lanes, Strip},
};
use flambeau_parallel::{in_parallel_region, num_threads};

/// How lanes want products cut.
pub(super) struct Cut {
    /// Units of k in one slab at most.
    pub(super) depth: usize,
    /// Columns in one block.
    pub(super) columns: usize,
    /// Whether a tile's rows of A meet all strips of a block before those below do.
    pub(super) by_rows: bool,
}

impl Cut {
    /// For sums in vectors. A strip of B (64 KiB or twice that) streams from the second-level cache, which costs less than
    /// to read and write C twice as often.
    pub(super) const VECTORS: Self = Self { depth: 512, columns: 2048, by_rows: false };
    /// For sums in AMX's registers, which take operands six times as fast as memory gives them: B's block stays in the second-level
    /// cache, and C is written once.
    pub(super) const TILES: Self = Self { depth: 2048, columns: 256, by_rows: true };
}

/// Rows in one block, if A is packed: a panel of A and a strip of B then stay in the second-level cache.
const ROWS: usize = 120;
/// Bytes of B that stay in the first-level cache beside a tile's rows of A and C.
const NEAR: usize = 32 << 10;
/// Rows of A that one block may have where it packs B by itself; twice as many where threads share the product.
const FEW_ROWS: usize = 256;
/// Strips of B from which on threads may take them in turn.
const STRIPS_TO_SHARE: usize = 4;
/// Bytes of a page.
const PAGE: usize = 4096;
/// Multiply-adds worth a thread.
pub(super) const WORTH_A_THREAD: usize = 1 << 18;

/// Elements of k in a slab: as few slabs as may be, all nearly equal, since C is read and written for each.
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
    /// Each by the only block that reads it, just before: what a thread has packed, it finds in its own cache.
    InTurn,
}

/// Whether A is packed, by each block for itself, and when.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum PackedRows {
    /// It is read where it lies.
    Never,
    /// Before the tiles: its units are made of its elements, or lie apart in both ways.
    Before,
    /// By the tiles of the first strip as they read it: copies, and the wait for memory, go beside the multiplications.
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
    /// Blocks of C: tiles from top to bottom, and strips across.
    pub(super) tiles: usize,
    pub(super) strips: usize,
}

impl Plan {
    pub(super) fn new<T: GemmElement + Pack<L::Unit>, L: Lanes>(g: &Gemm<T>) -> Self {
        let a = match packs_a::<T, L>(g) {
            false => PackedRows::Never,
            true if T::SAME && g.a_strides.contains(&1) => PackedRows::Meanwhile,
            true => PackedRows::Before,
        };
        let shared = num_threads() > 1 && !in_parallel_region();
        let Strip { vectors, rows } = L::strip(g.n);
        let strip = vectors * L::N;
        // What is packed before the tiles takes a wait for the other threads, and half of it comes from their caches. But where
        // each strip has one block, a few strips leave threads without.
        let few_rows = match shared {
            true if g.n.div_ceil(strip) < STRIPS_TO_SHARE => 0,
            true => 2 * FEW_ROWS,
            false => FEW_ROWS,
        };
        let b = match packs_b::<T, L::Unit>(g) {
            false => Packed::Last,
            true if a == PackedRows::Never && g.m <= few_rows && !is_near::<L>(g.k, g.n) => Packed::InTurn,
            true => Packed::Before,
        };
        // A is packed anew for each block of columns.
        let columns = if a == PackedRows::Never { L::CUT.columns } else { L::CUT.columns.max(512) };
        let (all_tiles, all_strips) = (g.m.div_ceil(rows), g.n.min(columns).div_ceil(strip));
        let large = shared && g.m * g.n * g.k.min(L::CUT.depth) >= 2 * WORTH_A_THREAD;
        // Several blocks, so that a slow thread can leave some to the others.
        let few = |tiles, strips| large && all_tiles.div_ceil(tiles) * all_strips.div_ceil(strips) < 8;
        let depth = depth_of::<T, L>(g.k);
        let (mut tiles, mut strips, least) = match b {
            Packed::InTurn => (all_tiles, all_strips, 1),
            _ => ((ROWS / rows).min(all_tiles), all_strips, 2),
        };
        // Rows first, so that A is packed once.
        while few(tiles, strips) && tiles > 2 && b != Packed::InTurn {
            tiles = tiles.div_ceil(2);
        }
        while few(tiles, strips) && strips > least {
            strips = strips.div_ceil(2);
        }
        Self { a, b, depth, columns, strip, rows, tiles, strips }
    }
}

/// Whether so many groups of columns of B stay in the first-level cache.
pub(super) fn is_near<L: Lanes>(groups: usize, columns: usize) -> bool {
    groups * columns * size_of::<L::Unit>() <= NEAR
}

/// Whether rows of A may be read as units where they lie: whole ones, as many as tiles take at once, and each row a number of them
/// from the next.
fn usable_units<T: Pack<L::Unit>, L: Lanes>(k: usize, [row, along]: [isize; 2]) -> bool {
    let depth = T::DEPTH as isize;
    T::SAME || (T::RAW && along == 1 && row % depth == 0 && k.is_multiple_of(T::DEPTH * L::TURN))
}

/// Whether A is packed, because it must be or because its units are read often enough to pay for that. Where those of a row lie
/// apart, a tile reads a line for each, again for each strip; a page apart they also share a few sets of the first-level cache.
/// Rows a page apart cost less: each is a stream.
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

/// The same of B, whose rows are read a few vectors at a time: a page apart they share a few sets of the caches, and take a page
/// each. Else it pays later: sooner where B is more than a second-level cache holds, last where its pages are more than the first
/// table of addresses holds.
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
    g.m > rows || !T::SAME || g.b_strides[1] != 1
}
