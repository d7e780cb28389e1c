//! Transforms of short rows, one in each lane of vectors: a call of an algorithm for each row would take longer than its arithmetic.
//!
//! Strips of rows are gathered in a tile, transformed one vector of rows after another, and scattered. Where rows are neighbours in memory,
//! vectors are read and written there, and dense rows are transposed in registers. The arithmetic of a row depends on its length alone, and no lane depends on another. A transform
//! backwards is one forwards of numbers with real and imaginary parts exchanged, both before and after.
#![expect(unsafe_code, reason = "threads read and write disjoint rows of one slice")]

use crate::buffer::Buffer;
use crate::error::OutOfMemory;
use crate::float::Float;
use crate::plan::Direction;
use crate::rows::{Copies, End, Parts, Rows, STRIP, fill_run, find_offsets};
use crate::small::{LONGEST, Row, Small, exchange, mirror};
use crate::transpose::{self, Block};
use flambeau_vectorized::{
    CodegenAnchor, Float as _, FloatLanes, Isa, Kernel, Number as _, Vector, dispatch,
};
use std::ops::Range;
use std::sync::Arc;

/// Vectors of rows in a strip.
const VECTORS: usize = 4;
/// No vector has more lanes than 16.
const _: () = assert!(16 * VECTORS == STRIP);

/// What the elements of a row are, before a transform or after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Real numbers.
    Real,
    /// Complex numbers.
    Complex,
    /// Those up to the middle of complex numbers, of which the others are the conjugates in reverse.
    Half,
    /// All of these.
    Mirrored,
}

impl Content {
    /// The size of a row.
    fn length(self, n: usize) -> usize {
        if self == Content::Half { n / 2 + 1 } else { n }
    }

    /// The parts of an element.
    pub(crate) fn parts(self) -> usize {
        if self == Content::Real { 1 } else { 2 }
    }
}

/// A transform of short rows.
pub(crate) struct Short<T> {
    small: Arc<Small<T>>,
    contents: [Content; 2],
    /// Whether it is backwards.
    exchanges: bool,
    factor: T,
}

impl<T: Float> Short<T> {
    /// The transform of rows of length `n`, multiplied by a factor, if they are short.
    pub(crate) fn of(
        n: usize,
        contents: [Content; 2],
        direction: Direction,
        factor: f64,
    ) -> Result<Option<Self>, OutOfMemory> {
        if n == 0 || n > LONGEST {
            return Ok(None);
        }
        let (small, exchanges) = (Small::of(n)?, direction == Direction::Backward);
        Ok(Some(Short { small, contents, exchanges, factor: T::from_f64(factor) }))
    }

    pub(crate) fn contents(&self) -> [Content; 2] {
        self.contents
    }

    /// The size of a row before the transform and after it.
    pub(crate) fn lengths(&self) -> [usize; 2] {
        self.contents.map(|content| content.length(self.small.length()))
    }

    /// Transforms a part of the rows.
    ///
    /// # Safety
    /// - (inside) the elements of the rows are inside the arrays that begin at `from` and `to`, which are those parts of numbers that the
    ///   contents say. No thread writes what is read, none uses what is written, and the arrays are disjoint or rows are the same in both.
    pub(crate) unsafe fn run(
        &self,
        [from, to]: [*const T; 2],
        rows: &Rows,
        part: Range<usize>,
    ) -> Result<(), OutOfMemory> {
        let mut tiles = Buffer::new(2 * STRIP * self.small.length())?;
        let (from_tile, to_tile) = tiles.numbers().split_at_mut(STRIP * self.small.length());
        let tiles = [from_tile.as_flattened_mut(), to_tile.as_flattened_mut()];
        let in_fours = [0, 1].map(|side| rows.are_neighbours(side, 4, &part));
        let strips = Strips { short: self, from, to: to.cast_mut(), rows, part, tiles, in_fours };
        // SAFETY: (inside).
        unsafe { T::run_strips(strips) };
        Ok(())
    }
}

/// A type of parts of numbers in lanes.
pub trait InLanes: Sized {
    /// Runs the kernel on the instruction set of the process.
    ///
    /// # Safety
    /// - (inside) that of `Short::run`.
    #[doc(hidden)]
    unsafe fn run_strips(strips: Strips<'_, Self>);
}

macro_rules! in_lanes {
    ($($t:ty),*) => {$(
        impl InLanes for $t {
            unsafe fn run_strips(strips: Strips<'_, Self>) {
                // SAFETY: (inside).
                unsafe { dispatch(strips) }
            }
        }
    )*};
}
in_lanes!(f32, f64);

/// Rows that are transformed, as a kernel.
pub struct Strips<'a, T> {
    short: &'a Short<T>,
    from: *const T,
    to: *mut T,
    rows: &'a Rows,
    part: Range<usize>,
    /// Room for all elements of a strip, before and after: one element of all rows after another.
    tiles: [&'a mut [T]; 2],
    /// Whether four rows in sequence are neighbours in either array.
    in_fours: [bool; 2],
}

impl<T> CodegenAnchor for Strips<'_, T> {
    type Anchor = Self;
}

impl<I: Isa, T: Float + FloatLanes<I>> Kernel<I> for Strips<'_, T> {
    #[inline(always)]
    unsafe fn run(mut self) {
        let lanes = <T::Vector as Vector>::LANES;
        let mut buffers = [[[T::Vector::zero(); 2]; LONGEST]; 2];
        let mut blocks = [[T::Vector::zero(); transpose::VECTORS]; 2];
        let mut walk = self.rows.walk_from(self.part.start);
        let mut offsets = [[0; STRIP]; 2];
        let distance = if self.in_fours == [true; 2] { 4 } else { 1 };
        for first in self.part.clone().step_by(VECTORS * lanes) {
            let count = (self.part.end - first).min(VECTORS * lanes);
            let is_run = find_offsets(&mut walk, &mut offsets, count, distance);
            let accesses = [0, 1].map(|side| self.access(side, is_run, count, lanes));
            for side in 0..2 {
                if is_run && matches!(accesses[side], Access::Elements) {
                    let first = offsets[side][0];
                    fill_run(&mut offsets[side][..count], first, self.rows.steps()[side]);
                }
            }
            let [read, written] = offsets.each_ref().map(|offsets| &offsets[..count]);
            // SAFETY: the caller's; offsets are those of rows, and a tile has the vectors of a strip.
            unsafe {
                self.read::<I>(read, accesses[0], &mut blocks);
                let [from, to] = [(0, read), (1, written)]
                    .map(|(side, offsets)| self.end(side, accesses[side], offsets[0], lanes));
                for lane in (0..count).step_by(lanes) {
                    self.transform::<I>(from.at(lane), to.at(lane), &mut buffers);
                }
                self.write::<I>(written, accesses[1], &mut blocks);
            }
        }
    }
}

/// How the elements of a strip are read or written.
#[derive(Clone, Copy)]
enum Access {
    /// Rows are neighbours: vectors, in the array.
    Vectors,
    /// Rows are dense, one after another: blocks are transposed.
    Blocks,
    /// One by one.
    Elements,
}

impl<T: Float> Strips<'_, T> {
    /// How many floats a row has.
    #[inline(always)]
    fn floats(&self, side: usize) -> usize {
        self.short.lengths()[side] * self.short.contents[side].parts()
    }

    /// How so many rows are read or written, which are neighbours along one dimension if they are a run.
    #[inline(always)]
    fn access(&self, side: usize, is_run: bool, count: usize, lanes: usize) -> Access {
        let (step, stride) = (self.rows.steps()[side], self.rows.strides[side]);
        let block = lanes * transpose::vectors_of_rows(self.floats(side));
        match stride {
            _ if is_run && step == 1 && count.is_multiple_of(lanes) => Access::Vectors,
            1 if is_run && step == self.short.lengths()[side] && count.is_multiple_of(block) => {
                Access::Blocks
            }
            _ => Access::Elements,
        }
    }

    /// Where vectors of a strip are, whose first row has this offset in the array.
    ///
    /// # Safety
    /// - The offset is in the array.
    #[inline(always)]
    unsafe fn end(&mut self, side: usize, access: Access, offset: usize, lanes: usize) -> End<T> {
        let (parts, strip) = (self.short.contents[side].parts(), VECTORS * lanes);
        let (array, tile) = ([self.from.cast_mut(), self.to][side], self.tiles[side].as_mut_ptr());
        let (first, pitch) = match access {
            // SAFETY: the caller's.
            Access::Vectors => (unsafe { array.add(offset * parts) }, self.rows.strides[side] * parts),
            Access::Blocks | Access::Elements => (tile, strip * parts),
        };
        let parts = match access {
            _ if parts == 1 => Parts::Real,
            Access::Blocks => Parts::Apart(strip),
            Access::Vectors | Access::Elements => Parts::Paired,
        };
        End { first, parts, pitch }
    }

    /// Reads rows to the first tile, if they are not read from the array.
    ///
    /// # Safety
    /// - The rows with these offsets are in the array, and the access is theirs.
    #[inline(always)]
    unsafe fn read<I: Isa>(&mut self, offsets: &[usize], access: Access, blocks: &mut [Block<T::Vector>; 2])
    where
        T: FloatLanes<I>,
    {
        // SAFETY: the caller's.
        unsafe {
            match access {
                Access::Vectors => {}
                Access::Blocks => self.read_blocks::<I>(offsets, blocks),
                Access::Elements => self.gather(offsets, <T::Vector as Vector>::LANES),
            }
        }
    }

    /// Writes rows from the second tile, if they were not written to the array.
    ///
    /// # Safety
    /// - The rows with these offsets are in the array, and the access is theirs.
    #[inline(always)]
    unsafe fn write<I: Isa>(&mut self, offsets: &[usize], access: Access, blocks: &mut [Block<T::Vector>; 2])
    where
        T: FloatLanes<I>,
    {
        // SAFETY: the caller's.
        unsafe {
            match access {
                Access::Vectors => {}
                Access::Blocks => self.write_blocks::<I>(offsets, blocks),
                Access::Elements => self.scatter(offsets, <T::Vector as Vector>::LANES),
            }
        }
    }

    /// Reads dense rows, one after another, to the first tile.
    ///
    /// # Safety
    /// - The rows are in the array, and fill blocks.
    #[inline(always)]
    unsafe fn read_blocks<I: Isa>(&mut self, offsets: &[usize], blocks: &mut [Block<T::Vector>; 2])
    where
        T: FloatLanes<I>,
    {
        let (lanes, floats) = (<T::Vector as Vector>::LANES, self.floats(0));
        let vectors = transpose::vectors_of_rows(floats);
        let (array, tile) = (self.from, self.tiles[0].as_mut_ptr());
        let first = offsets[0] * self.short.contents[0].parts();
        for row in (0..offsets.len()).step_by(vectors * lanes) {
            transpose::to_elements(
                floats,
                blocks,
                // SAFETY: the caller's.
                #[inline(always)]
                |at| unsafe { T::load(array.add(first + row * floats + at * lanes)) },
                #[inline(always)]
                |at, vector| {
                    let offset = at / vectors * VECTORS * lanes + row + at % vectors * lanes;
                    // SAFETY: a tile has so many rows.
                    unsafe { T::store(vector, tile.add(offset)) }
                },
            );
        }
    }

    /// Writes dense rows, one after another, from the second tile.
    ///
    /// # Safety
    /// - The rows are in the array, and fill blocks.
    #[inline(always)]
    unsafe fn write_blocks<I: Isa>(&mut self, offsets: &[usize], blocks: &mut [Block<T::Vector>; 2])
    where
        T: FloatLanes<I>,
    {
        let (lanes, floats) = (<T::Vector as Vector>::LANES, self.floats(1));
        let vectors = transpose::vectors_of_rows(floats);
        let (array, tile) = (self.to, self.tiles[1].as_ptr());
        let first = offsets[0] * self.short.contents[1].parts();
        for row in (0..offsets.len()).step_by(vectors * lanes) {
            transpose::to_rows(
                floats,
                blocks,
                #[inline(always)]
                |at| {
                    let offset = at / vectors * VECTORS * lanes + row + at % vectors * lanes;
                    // SAFETY: a tile has so many rows.
                    unsafe { T::load(tile.add(offset)) }
                },
                // SAFETY: the caller's.
                #[inline(always)]
                |at, vector| unsafe { T::store(vector, array.add(first + row * floats + at * lanes)) },
            );
        }
    }

    /// Reads the elements of rows to the first tile one by one, and zeros for further ones.
    ///
    /// # Safety
    /// - The rows are in the array.
    #[inline(always)]
    unsafe fn gather(&mut self, offsets: &[usize], lanes: usize) {
        let to = self.tiles[0].as_mut_ptr();
        let copies = self.copies(0, offsets.len().next_multiple_of(lanes), lanes);
        // SAFETY: the caller's; the contents say which elements the array has, and the tile has a strip of them.
        unsafe {
            match self.short.contents[0].parts() {
                1 => copies.gather(self.from, offsets, to, T::ZERO),
                _ => copies.gather::<[T; 2]>(self.from.cast(), offsets, to.cast(), [T::ZERO; 2]),
            }
        }
    }

    /// Writes the elements of rows from the second tile one by one.
    ///
    /// # Safety
    /// - The rows are in the array.
    #[inline(always)]
    unsafe fn scatter(&self, offsets: &[usize], lanes: usize) {
        let from = self.tiles[1].as_ptr();
        let copies = self.copies(1, offsets.len(), lanes);
        // SAFETY: the caller's; the contents say which elements the array has, and the tile has a strip of them.
        unsafe {
            match self.short.contents[1].parts() {
                1 => copies.scatter(from, self.to, offsets),
                _ => copies.scatter::<[T; 2]>(from.cast(), self.to.cast(), offsets),
            }
        }
    }

    /// How the elements of a strip are copied.
    #[inline(always)]
    fn copies(&self, side: usize, padded: usize, lanes: usize) -> Copies {
        Copies {
            stride: self.rows.strides[side],
            length: self.short.lengths()[side],
            padded,
            strip: VECTORS * lanes,
            in_fours: self.in_fours[side],
        }
    }

    /// Transforms a vector of rows.
    ///
    /// # Safety
    /// - As many rows as there are lanes are at either end.
    #[inline(always)]
    unsafe fn transform<I: Isa>(&self, from: End<T>, to: End<T>, [a, b]: &mut [Row<T::Vector>; 2])
    where
        T: FloatLanes<I>,
    {
        // SAFETY: the caller's.
        unsafe { self.load::<I>(from, a) };
        let row = self.short.small.transform(
            [a, b],
            #[inline(always)]
            |part| T::Vector::splat(part.widen()),
        );
        // SAFETY: the caller's.
        unsafe { self.store::<I>(row, to) };
    }

    /// Reads the elements of a row in each lane, and adds those that follow from them.
    ///
    /// # Safety
    /// - As many rows as there are lanes are there.
    #[inline(always)]
    unsafe fn load<I: Isa>(&self, from: End<T>, row: &mut Row<T::Vector>)
    where
        T: FloatLanes<I>,
    {
        for (index, number) in row.iter_mut().enumerate().take(self.short.lengths()[0]) {
            // SAFETY: the caller's.
            *number = unsafe {
                let at = from.element(index);
                match from.parts {
                    Parts::Real => [T::load(at), T::Vector::zero()],
                    Parts::Apart(distance) => [T::load(at), T::load(at.add(distance))],
                    Parts::Paired => {
                        let next = T::load(at.add(<T::Vector as Vector>::LANES));
                        let (re, im) = T::load(at).deinterleave(next);
                        [re, im]
                    }
                }
            };
        }
        let n = self.short.small.length();
        if self.short.contents[0] == Content::Half {
            // It is the transform of real numbers.
            mirror(row, n);
        }
        if self.short.exchanges {
            exchange(row, n);
        }
    }

    /// Writes the elements of a row in each lane, multiplied by the factor.
    ///
    /// # Safety
    /// - As many rows as there are lanes are there.
    #[inline(always)]
    unsafe fn store<I: Isa>(&self, row: &mut Row<T::Vector>, to: End<T>)
    where
        T: FloatLanes<I>,
    {
        let (content, n) = (self.short.contents[1], self.short.small.length());
        if self.short.exchanges {
            exchange(row, n);
        }
        if matches!(content, Content::Half | Content::Mirrored) {
            // Products of infinities and zeros are not zeros, and these numbers are real.
            mirror(row, n);
        }
        let factor = T::Vector::splat(self.short.factor.widen());
        for (index, [re, im]) in row.iter().enumerate().take(self.short.lengths()[1]) {
            // SAFETY: the caller's.
            unsafe {
                let (at, re, im) = (to.element(index), *re * factor, *im * factor);
                match to.parts {
                    Parts::Real => T::store(re, at),
                    Parts::Apart(distance) => {
                        T::store(re, at);
                        T::store(im, at.add(distance));
                    }
                    Parts::Paired => {
                        let (low, high) = re.interleave(im);
                        T::store(low, at);
                        T::store(high, at.add(<T::Vector as Vector>::LANES));
                    }
                }
            }
        }
    }
}
