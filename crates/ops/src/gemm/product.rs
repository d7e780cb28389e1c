//! The loops around the micro-kernel: blocks that fit the caches, packed where that pays, cut by size for the threads.
#![expect(unsafe_code, reason = "raw operands")]

use std::ops::Range;

use super::{
    Gemm, GemmElement,
    element::{Element, Pack, Scalar, Visitor},
    lanes::{Body, Lanes},
    pack::PackPanel,
    scratch::Scratch,
    tile::TileArgs,
    vector,
};
use crate::parallel::parallel_for;

/// Groups of k in one block: a strip of B (two vectors of columns) then fills two thirds of a 48 KiB first-level cache.
const DEPTH: usize = 256;
/// Columns in one block.
const COLUMNS: usize = 2048;
/// Rows in one block, if A is packed: a panel of A and a strip of B then stay in the second-level cache.
const ROWS: usize = 120;
/// Elements of C in one piece where sums are kept beside it.
const PIECE: usize = 1 << 21;
/// Multiply-adds worth a thread.
const WORTH_A_THREAD: usize = 1 << 18;

/// The product as a visitor of lanes. C is oriented: its columns are adjacent if they can be.
pub(super) struct Multiply<T: GemmElement>(pub(super) Gemm<T>);

impl<T: GemmElement> Visitor<T> for Multiply<T> {
    unsafe fn visit<L: Lanes<Acc = <T as Element>::Acc>>(self)
    where
        T: Pack<L::Unit>,
    {
        let g = self.0;
        // SAFETY: the caller's conditions; an element of C is an accumulator where `DIRECT` says so.
        unsafe {
            if vector::applies(&g) {
                vector::multiply::<T, L>(&g);
            } else if T::DIRECT && g.c_strides[1] == 1 {
                let target = Target { at: g.c.cast(), row: g.c_strides[0], alpha: g.alpha, beta: g.beta };
                multiply::<T, L>(&g, target);
            } else {
                multiply_beside::<T, L>(&g);
            }
        }
    }
}

/// Where sums go: rows of adjacent accumulators.
struct Target<A> {
    at: *mut A,
    row: isize,
    alpha: A,
    beta: A,
}

/// Sums in a buffer of accumulators, a piece of C at a time, then scales and rounds each element once.
///
/// # Safety
/// - As [`super::gemm`].
unsafe fn multiply_beside<T: GemmElement + Pack<L::Unit>, L: Lanes<Acc = <T as Element>::Acc>>(g: &Gemm<T>) {
    let rows = (PIECE / g.n).clamp(1, g.m);
    let mut sums = Scratch::new::<L::Acc>(rows * g.n);
    let at = sums.as_mut_ptr::<L::Acc>();
    for start in (0..g.m).step_by(rows) {
        let m = rows.min(g.m - start);
        // SAFETY: rows `start..start + m` of the operands; the buffer holds `m * n`, all written before they are read.
        unsafe {
            let piece = Gemm {
                m,
                a: g.a.offset(start as isize * g.a_strides[0]),
                c: g.c.offset(start as isize * g.c_strides[0]),
                ..*g
            };
            let target = Target { at, row: g.n as isize, alpha: L::Acc::ONE, beta: L::Acc::ZERO };
            multiply::<T, L>(&piece, target);
            finish::<T, L>(&piece, Shared(at));
        }
    }
}

/// `C = round(alpha * sums + beta * C)`.
///
/// # Safety
/// - `sums` holds `m * n` accumulators, and C is as [`super::gemm`] asks.
unsafe fn finish<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>>(g: &Gemm<T>, sums: Shared<L::Acc>) {
    let (c, strides) = (Shared(g.c), g.c_strides);
    let (n, alpha, beta) = (g.n, g.alpha, g.beta);
    parallel_for(0..g.m, ((1 << 15) / n).max(1), move |part| {
        for i in part {
            // SAFETY: row `i` of both, written by this chunk alone.
            unsafe {
                let (c, sums) = (c.at().offset(i as isize * strides[0]), sums.at().add(i * n));
                L::enter(FinishRow::<T> { c, stride: strides[1], sums, n, alpha, beta });
            }
        }
    });
}

struct FinishRow<T: GemmElement> {
    c: *mut T,
    stride: isize,
    sums: *const T::Scalar,
    n: usize,
    alpha: T::Scalar,
    beta: T::Scalar,
}

impl<T: GemmElement> Body for FinishRow<T> {
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: the row's. A stride of 1 is a constant, so that the loop becomes vector code.
        unsafe {
            match (self.stride, self.beta == T::Scalar::ZERO) {
                (1, true) => self.row::<false>(1),
                (1, false) => self.row::<true>(1),
                (stride, true) => self.row::<false>(stride),
                (stride, false) => self.row::<true>(stride),
            }
        }
    }
}

impl<T: GemmElement> FinishRow<T> {
    /// # Safety
    /// - `n` elements of C and of sums; C is read only if `OLD`.
    #[inline(always)]
    unsafe fn row<const OLD: bool>(&self, stride: isize) {
        for j in 0..self.n {
            // SAFETY: element `j` of both.
            unsafe {
                let to = self.c.offset(j as isize * stride);
                let value = self.sums.add(j).read().mul(self.alpha);
                to.write(T::narrow(if OLD { to.read().widen().mul_add(self.beta, value) } else { value }));
            }
        }
    }
}

/// A pointer that chunks on several threads use, each its own elements.
pub(super) struct Shared<T>(pub(super) *mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}

impl<T> Shared<T> {
    pub(super) fn at(self) -> *mut T {
        self.0
    }
}

// SAFETY: it only carries an address; each use argues for itself.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

/// What is decided once for a product, from its sizes and strides alone.
struct Plan {
    pack_a: bool,
    pack_b: bool,
    /// Rows and strips in one block.
    rows: usize,
    strips: usize,
}

impl Plan {
    fn new<T: GemmElement + Pack<L::Unit>, L: Lanes>(g: &Gemm<T>) -> Self {
        let bytes = size_of::<T>();
        let pack_b = !T::SAME || g.b_strides[1] != 1 || (g.m > 256 && g.k * g.n * bytes > 512 << 10);
        let pack_a = !T::SAME || (g.n > 256 && g.m * g.k * bytes > 512 << 10);
        let tile = L::TILES.len();
        let strip = 2 * L::N;
        let (mut rows, mut strips) = (ROWS.next_multiple_of(tile), COLUMNS / strip);
        let small = g.m * g.n * g.k.min(DEPTH) < 2 * WORTH_A_THREAD;
        let (all_rows, all_strips) = (g.m, g.n.min(COLUMNS).div_ceil(strip));
        // Several blocks, so that a slow thread can leave some to the others; rows first, so that A is packed once.
        let blocks = |rows: usize, strips: usize| all_rows.div_ceil(rows) * all_strips.div_ceil(strips);
        while !small && blocks(rows, strips) < 8 && rows > 2 * tile {
            rows = (rows / 2).next_multiple_of(tile);
        }
        while !small && blocks(rows, strips) < 8 && strips > 2 {
            strips = strips.min(all_strips).div_ceil(2);
        }
        Self { pack_a, pack_b, rows, strips }
    }
}

/// One block of k and of columns, all rows.
struct Slab<'a, T: GemmElement, L: Lanes> {
    g: &'a Gemm<T>,
    plan: &'a Plan,
    k: Range<usize>,
    columns: Range<usize>,
    /// The packed strips: all of them, or the last if it alone needs it.
    packed: Shared<L::Unit>,
    target: Target<L::Acc>,
}

// SAFETY: its pointers are those of the product, whose elements each chunk uses as `gemm` allows.
unsafe impl<T: GemmElement, L: Lanes> Sync for Slab<'_, T, L> {}

/// # Safety
/// - As [`super::gemm`], with C replaced by `target`.
unsafe fn multiply<T: GemmElement + Pack<L::Unit>, L: Lanes>(g: &Gemm<T>, target: Target<L::Acc>) {
    let plan = Plan::new::<T, L>(g);
    let depth = DEPTH * T::DEPTH;
    let mut packed = Scratch::new::<L::Unit>(DEPTH.min(g.k) * g.n.min(COLUMNS).next_multiple_of(2 * L::N));
    for first_column in (0..g.n).step_by(COLUMNS) {
        let columns = first_column..g.n.min(first_column + COLUMNS);
        // With `k` of 0 there is one block of nothing, which scales C.
        for first in (0..g.k.max(1)).step_by(depth) {
            let target = Target {
                // SAFETY: a column of C.
                at: unsafe { target.at.add(first_column) },
                beta: if first == 0 { target.beta } else { L::Acc::ONE },
                ..target
            };
            let k = first..g.k.min(first + depth);
            let packed = Shared(packed.as_mut_ptr());
            let slab = Slab::<T, L> { g, plan: &plan, k, columns: columns.clone(), packed, target };
            // SAFETY: the caller's conditions.
            unsafe { slab.run() }
        }
    }
}

impl<T: GemmElement + Pack<L::Unit>, L: Lanes> Slab<'_, T, L> {
    const STRIP: usize = 2 * L::N;

    fn groups(&self) -> usize {
        self.k.len().div_ceil(T::DEPTH)
    }

    fn strips(&self) -> usize {
        self.columns.len().div_ceil(Self::STRIP)
    }

    unsafe fn run(&self) {
        let (rows, strips) = (self.plan.rows, self.plan.strips);
        let across = self.strips().div_ceil(strips);
        let blocks = self.g.m.div_ceil(rows) * across;
        // SAFETY: `gemm`'s conditions; each chunk packs its own strips, each block writes its own part of C.
        unsafe {
            self.pack_strips();
            let work = rows.min(self.g.m) * strips.min(self.strips()) * Self::STRIP * self.k.len();
            parallel_for(0..blocks, (WORTH_A_THREAD / work.max(1)).max(1), |part| {
                for block in part {
                    let (i, j) = (block / across * rows, block % across * strips);
                    self.block(i..self.g.m.min(i + rows), j..self.strips().min(j + strips));
                }
            });
        }
    }

    unsafe fn pack_strips(&self) {
        let grain = (1 << 15) / (self.k.len() * Self::STRIP).max(1);
        parallel_for(0..self.strips(), grain.max(1), |part| {
            for strip in part.filter(|&strip| self.is_packed(strip)) {
                // SAFETY: the strip's columns of B, and its own place in the buffer.
                unsafe {
                    let column = self.columns.start + strip * Self::STRIP;
                    L::enter(PackPanel::<T, L> {
                        from: at(self.g.b, self.g.b_strides, self.k.start, column),
                        lane: self.g.b_strides[1],
                        along: self.g.b_strides[0],
                        width: self.width(strip),
                        k: self.k.len(),
                        to: self.packed_strip(strip),
                        padded: Self::STRIP,
                    });
                }
            }
        });
    }

    /// A strip is packed if all are, or if its last vector would be read past the last column.
    fn is_packed(&self, strip: usize) -> bool {
        self.plan.pack_b || !self.width(strip).is_multiple_of(L::N)
    }

    fn width(&self, strip: usize) -> usize {
        (self.columns.len() - strip * Self::STRIP).min(Self::STRIP)
    }

    unsafe fn packed_strip(&self, strip: usize) -> *mut L::Unit {
        let index = if self.plan.pack_b { strip } else { 0 };
        // SAFETY: the buffer holds every strip.
        unsafe { self.packed.at().add(index * Self::STRIP * self.groups()) }
    }

    /// Rows x strips of C.
    unsafe fn block(&self, rows: Range<usize>, strips: Range<usize>) {
        let tiles = rows.len().div_ceil(L::TILES.len());
        // Tiles of nearly equal height: a last one of a row or two would waste most of its operands.
        let edge = |tile: usize| rows.start + tile * rows.len() / tiles;
        let groups = self.groups();
        let mut panels = Scratch::new::<L::Unit>(if self.plan.pack_a { rows.len() * groups } else { 0 });
        let panels = panels.as_mut_ptr::<L::Unit>();
        // SAFETY: `gemm`'s conditions; panel `tile` begins where the rows before it end.
        unsafe {
            if self.plan.pack_a {
                for tile in 0..tiles {
                    self.pack_rows(
                        edge(tile)..edge(tile + 1),
                        panels.add((edge(tile) - rows.start) * groups),
                    );
                }
            }
            for strip in strips {
                for tile in 0..tiles {
                    let panel =
                        panels.add(if self.plan.pack_a { (edge(tile) - rows.start) * groups } else { 0 });
                    self.tile(edge(tile)..edge(tile + 1), panel, strip);
                }
            }
        }
    }

    unsafe fn pack_rows(&self, rows: Range<usize>, to: *mut L::Unit) {
        // SAFETY: rows of A, and `rows * groups` units of the buffer.
        unsafe {
            L::enter(PackPanel::<T, L> {
                from: at(self.g.a, self.g.a_strides, rows.start, self.k.start),
                lane: self.g.a_strides[0],
                along: self.g.a_strides[1],
                width: rows.len(),
                k: self.k.len(),
                to,
                padded: rows.len(),
            });
        }
    }

    /// # Safety
    /// - As [`super::gemm`]; `panel` holds the rows if A is packed.
    #[inline]
    unsafe fn tile(&self, rows: Range<usize>, panel: *const L::Unit, strip: usize) {
        let (g, cols) = (self.g, self.width(strip));
        // SAFETY: the parts of the operands that belong to the tile.
        unsafe {
            let (a, a_row, a_depth) = if self.plan.pack_a {
                (panel, 1, rows.len() as isize)
            } else {
                (at(g.a, g.a_strides, rows.start, self.k.start).cast(), g.a_strides[0], g.a_strides[1])
            };
            let (b, b_depth) = if self.is_packed(strip) {
                (self.packed_strip(strip).cast_const(), Self::STRIP as isize)
            } else {
                let column = self.columns.start + strip * Self::STRIP;
                (at(g.b, g.b_strides, self.k.start, column).cast(), g.b_strides[0])
            };
            let c = self.target.at.offset(rows.start as isize * self.target.row).add(strip * Self::STRIP);
            let (alpha, beta) = (self.target.alpha, self.target.beta);
            let c_row = self.target.row;
            let depth = self.groups();
            let args = TileArgs { depth, a, a_row, a_depth, b, b_depth, c, c_row, cols, alpha, beta };
            L::TILES[rows.len() - 1][cols.div_ceil(L::N) - 1](&args);
        }
    }
}

/// # Safety
/// - The element exists.
#[inline(always)]
unsafe fn at<T>(from: *const T, strides: [isize; 2], row: usize, column: usize) -> *const T {
    // SAFETY: the caller's condition.
    from.wrapping_offset(row as isize * strides[0] + column as isize * strides[1])
}
