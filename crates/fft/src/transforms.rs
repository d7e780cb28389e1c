//! Transforms of all rows of an array: blocks of rows go through a buffer, on several threads.
#![expect(unsafe_code, reason = "threads read and write disjoint rows of one slice")]

use crate::buffer::Buffer;
use crate::error::OutOfMemory;
use crate::float::Float;
use crate::kinds::{ComplexToComplex, ComplexToReal, Kind, RealToComplex};
use crate::plan::Direction;
use crate::rows::{Rows, STRIP, Source, Target};
use crate::shape::Shape;
use crate::short::{Content, Short};
use flambeau_parallel::parallel_for;
use flambeau_vectorized::with_processor_vectors;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows in a buffer, where neighbours of a row are not neighbours in memory: so each cache line is read once.
const BLOCK: usize = 32;
/// Elements of short rows that are transformed by one call.
const PACKED: usize = 1 << 11;
/// Elements in a buffer from which on it has fewer rows.
const LARGE_BUFFER: usize = 1 << 17;
/// Elements for which another thread is worthwhile.
const WORTH_A_THREAD: usize = 1 << 14;
/// The same of short rows.
const SHORT_WORTH_A_THREAD: usize = 1 << 15;

/// Transforms complex rows along `dim` to an array of the same sizes: `factor * sum(x[j] exp(-+2 pi i j k / n))`.
///
/// # Errors
/// If memory runs out.
///
/// # Panics
/// Unless the slices hold their arrays, and rows have elements.
pub fn complex_to_complex<T: Float>(
    input: &[[T; 2]],
    shape: &Shape,
    output: &mut [[T; 2]],
    dim: usize,
    direction: Direction,
    factor: f64,
) -> Result<(), OutOfMemory> {
    let n = shape.sizes()[dim];
    let arrays = Arrays::new(input, shape, output, dim, n);
    match Short::<T>::of(n, [Content::Complex; 2], direction, factor)? {
        Some(short) => arrays.transform_short(&short),
        None => arrays.transform(&ComplexToComplex::new(n, direction)?, factor),
    }
}

/// [`complex_to_complex`] of a row-major array in place.
///
/// # Errors
/// If memory runs out.
///
/// # Panics
/// Unless the slice holds the array, and rows have elements.
pub fn complex_in_place<T: Float>(
    array: &mut [[T; 2]],
    sizes: &[usize],
    dim: usize,
    direction: Direction,
    factor: f64,
) -> Result<(), OutOfMemory> {
    let arrays = Arrays::in_place(array, &Shape::contiguous(sizes), dim);
    match Short::<T>::of(sizes[dim], [Content::Complex; 2], direction, factor)? {
        Some(short) => arrays.transform_short(&short),
        None => arrays.transform(&ComplexToComplex::new(sizes[dim], direction)?, factor),
    }
}

/// Transforms real rows along `dim` forwards: to n / 2 + 1 complex numbers, or to all n if `all`.
///
/// # Errors
/// If memory runs out.
///
/// # Panics
/// Unless the slices hold their arrays, and rows have elements.
pub fn real_to_complex<T: Float>(
    input: &[T],
    shape: &Shape,
    output: &mut [[T; 2]],
    dim: usize,
    all: bool,
    factor: f64,
) -> Result<(), OutOfMemory> {
    let n = shape.sizes()[dim];
    let (to, content) = if all { (n, Content::Mirrored) } else { (n / 2 + 1, Content::Half) };
    let arrays = Arrays::new(input, shape, output, dim, to);
    match Short::<T>::of(n, [Content::Real, content], Direction::Forward, factor)? {
        Some(short) => arrays.transform_short(&short),
        None => arrays.transform(&RealToComplex::new(n, all)?, factor),
    }
}

/// Transforms the n / 2 + 1 first elements of the transforms of real rows of length `n` along `dim` backwards, to the rows.
///
/// # Errors
/// If memory runs out.
///
/// # Panics
/// Unless the slices hold their arrays, rows have elements, and those of the input are n / 2 + 1.
pub fn complex_to_real<T: Float>(
    input: &[[T; 2]],
    shape: &Shape,
    output: &mut [T],
    n: usize,
    dim: usize,
    factor: f64,
) -> Result<(), OutOfMemory> {
    assert_eq!(shape.sizes()[dim], n / 2 + 1, "elements of a row");
    let arrays = Arrays::new(input, shape, output, dim, n);
    match Short::<T>::of(n, [Content::Half, Content::Real], Direction::Backward, factor)? {
        Some(short) => arrays.transform_short(&short),
        None => arrays.transform(&ComplexToReal::new(n)?, factor),
    }
}

/// The rows of two arrays.
///
/// - (inside) the elements of the rows are inside the arrays. Those of the target are disjoint, and the source is other memory unless
///   `in_place`.
struct Arrays<'a, In, Out> {
    source: Source<'a, In>,
    target: Target<'a, Out>,
    rows: Rows,
    /// The sizes of a row in either.
    lengths: [usize; 2],
    /// Whether source and target are the same memory, and a row has the same elements in both.
    in_place: bool,
}

impl<'a, E: Copy> Arrays<'a, E, E> {
    /// The rows along `dim` of a row-major array, as source and as target.
    fn in_place(array: &'a mut [E], shape: &Shape, dim: usize) -> Self {
        assert_eq!(array.len(), shape.elements(), "elements of the array");
        let target = Target::new(array);
        let (source, rows) = (target.as_source(), Rows::new(shape, shape, dim));
        Arrays { source, target, rows, lengths: [shape.sizes()[dim]; 2], in_place: true }
    }
}

impl<'a, In: Copy, Out: Copy> Arrays<'a, In, Out> {
    /// The rows along `dim` of an array, and of a row-major one of the same sizes but for rows of `to` elements.
    fn new(input: &'a [In], shape: &Shape, output: &'a mut [Out], dim: usize, to: usize) -> Self {
        let written = Shape::contiguous(&shape.with_size(dim, to));
        assert!(shape.reach() <= input.len(), "elements of the input");
        assert_eq!(written.elements(), output.len(), "elements of the output");
        Arrays {
            source: Source::new(input),
            target: Target::new(output),
            rows: Rows::new(shape, &written, dim),
            lengths: [shape.sizes()[dim], to],
            in_place: false,
        }
    }

    /// Transforms the rows by calls of an algorithm.
    fn transform<T: Float, K: Kind<T, In = In, Out = Out>>(
        &self,
        kind: &K,
        factor: f64,
    ) -> Result<(), OutOfMemory> {
        assert_eq!(self.lengths, kind.lengths(), "elements of a row");
        let Arrays { source, target, rows, in_place, .. } = self;
        let pass = Pass { kind, source, target, rows, factor: T::from_f64(factor), in_place: *in_place };
        // SAFETY: (inside).
        unsafe { pass.run_on_threads() }
    }

    /// Transforms short rows.
    fn transform_short<T: Float>(&self, short: &Short<T>) -> Result<(), OutOfMemory>
    where
        In: Sync,
        Out: Send,
    {
        assert_eq!(self.lengths, short.lengths(), "elements of a row");
        let sizes = short.contents().map(|content| content.parts() * size_of::<T>());
        assert_eq!(sizes, [size_of::<In>(), size_of::<Out>()], "parts of elements");
        let (source, target, rows) = (&self.source, &self.target, &self.rows);
        let worthwhile = (SHORT_WORTH_A_THREAD / short.lengths()[1]).next_multiple_of(STRIP);
        in_parts(rows.count, worthwhile, |part| {
            let arrays = [source.start().cast(), target.start().cast_const().cast()];
            // SAFETY: (inside); elements are as many parts as the contents say, and the parts of rows are disjoint.
            unsafe { short.run(arrays, rows, part) }
        })
    }
}

/// Calls `run` with parts of the rows, on several threads if there are more than so many.
fn in_parts(
    count: usize,
    worthwhile: usize,
    run: impl Fn(Range<usize>) -> Result<(), OutOfMemory> + Sync,
) -> Result<(), OutOfMemory> {
    let missing = AtomicUsize::new(0);
    parallel_for(0..count, worthwhile.min(count), |part| {
        if let Err(OutOfMemory { bytes }) = run(part) {
            missing.store(bytes, Ordering::Relaxed);
        }
    });
    match missing.into_inner() {
        0 => Ok(()),
        bytes => Err(OutOfMemory { bytes }),
    }
}

/// What is needed to transform rows.
struct Pass<'a, T: Float, K: Kind<T>> {
    kind: &'a K,
    source: &'a Source<'a, K::In>,
    target: &'a Target<'a, K::Out>,
    rows: &'a Rows,
    factor: T,
    in_place: bool,
}

impl<T: Float, K: Kind<T>> Pass<'_, T, K> {
    /// # Safety
    /// - (inside) the elements of the rows are inside the arrays. Those of the target are disjoint, and the source is other memory unless
    ///   `in_place`.
    unsafe fn run_on_threads(&self) -> Result<(), OutOfMemory> {
        let length = self.kind.buffer_length();
        let rows =
            (WORTH_A_THREAD / (length * (length.ilog2() as usize + 2))).max(1).next_multiple_of(self.block());
        in_parts(self.rows.count, rows, |part| {
            // SAFETY: (inside), and the parts are disjoint.
            unsafe { self.run(part) }
        })
    }

    /// How many rows go through a buffer together.
    fn block(&self) -> usize {
        match self.rows.strides {
            _ if self.is_packed() => (PACKED / self.kind.packed_length()).max(1),
            _ if self.fits_output() => 1,
            [1, 1] => 1,
            _ => (LARGE_BUFFER / self.kind.buffer_length()).clamp(4, BLOCK),
        }
    }

    /// Whether rows are short and dense.
    fn is_packed(&self) -> bool {
        self.rows.strides == [1, 1] && 2 * self.kind.packed_length() <= PACKED && self.rows.count > 1
    }

    /// # Safety
    /// Those of [`run_on_threads`](Self::run_on_threads), and no other thread uses these rows.
    unsafe fn run(&self, part: Range<usize>) -> Result<(), OutOfMemory> {
        let mut scratch = Buffer::new(T::scratch_length(self.kind.plan()))?;
        let (length, block) = (self.kind.buffer_length(), self.block());
        let is_packed = self.is_packed();
        // Rows whose length is a power of two would share few sets of a cache, so they are a cache line apart.
        let pitch = match block {
            _ if is_packed => self.kind.packed_length(),
            1 => length,
            _ => length + 64 / size_of::<[T; 2]>(),
        };
        let is_in_output = self.fits_output() && !is_packed;
        let rows = if is_in_output { 0 } else { block.min(part.len()) };
        let mut buffer = Buffer::new(pitch.saturating_mul(rows) + length)?;
        let (scratch, buffer) = (scratch.numbers(), buffer.numbers());
        with_processor_vectors(
            #[inline(always)]
            || {
                for first in part.clone().step_by(block) {
                    let rows = first..part.end.min(first + block);
                    // SAFETY: the caller's.
                    unsafe {
                        match is_in_output {
                            true => rows.for_each(|row| self.transform_in_output(row, scratch)),
                            false if is_packed => self.transform_packed(rows, buffer, scratch),
                            false => self.transform_in_buffer(rows, buffer, pitch, scratch),
                        }
                    }
                }
            },
        );
        Ok(())
    }

    /// Whether a row of the output can be the buffer.
    fn fits_output(&self) -> bool {
        let fits = self.kind.buffer_length() == self.kind.lengths()[1] && K::as_buffer(&mut []).is_some();
        fits && self.rows.strides[1] == 1
    }

    /// Transforms dense rows by one call: one after another in the buffer, which has room for one more element than they need, or in the
    /// output.
    ///
    /// # Safety
    /// Those of [`run`](Self::run).
    #[inline(always)]
    unsafe fn transform_packed(&self, rows: Range<usize>, buffer: &mut [[T; 2]], scratch: &mut [[T; 2]]) {
        let (packed, [_, to_length]) = (self.kind.packed_length(), self.kind.lengths());
        let follow = self.rows.follow(1, to_length);
        if follow && packed == to_length && self.kind.packs() {
            // SAFETY: the caller's, and nothing is read through the source while this row is borrowed, unless it is other memory.
            let out = unsafe { self.target.row(self.rows.offsets(rows.start)[1], rows.len() * to_length) };
            if let Some(out) = K::as_buffer(out) {
                if !self.in_place {
                    // SAFETY: the caller's.
                    unsafe { self.put_packed(rows, out) };
                }
                T::transform(self.kind.plan(), out, scratch);
                out.chunks_exact_mut(packed).for_each(|row| self.kind.after(row));
                return self.scale(out);
            }
        }
        // SAFETY: the caller's.
        unsafe { self.put_packed(rows.clone(), buffer) };
        T::transform(self.kind.plan(), &mut buffer[..rows.len() * packed], scratch);
        if follow && K::as_buffer(&mut []).is_none() {
            // SAFETY: the caller's.
            let out = unsafe { self.target.row(self.rows.offsets(rows.start)[1], rows.len() * to_length) };
            return self.kind.take_row(&buffer[..rows.len() * packed], self.factor, out);
        }
        for (at, row) in rows.enumerate() {
            let buffer = &buffer[at * packed..][..packed];
            // SAFETY: the caller's, and nothing is read through the source while this row is borrowed.
            let out = unsafe { self.target.row(self.rows.offsets(row)[1], to_length) };
            let Some(out) = K::as_buffer(out) else {
                // SAFETY: the same row, of which there is no other borrow.
                self.kind.take_row(buffer, self.factor, unsafe {
                    self.target.row(self.rows.offsets(row)[1], to_length)
                });
                continue;
            };
            let count = packed.min(to_length);
            out[..count].copy_from_slice(&buffer[..count]);
            self.kind.after(out);
            self.scale(out);
        }
    }

    /// Puts dense rows one after another, ready for the complex transform.
    ///
    /// # Safety
    /// Those of [`run`](Self::run).
    #[inline(always)]
    unsafe fn put_packed(&self, rows: Range<usize>, buffer: &mut [[T; 2]]) {
        let (packed, [from_length, _]) = (self.kind.packed_length(), self.kind.lengths());
        if self.kind.packs() && self.rows.follow(0, from_length) {
            // SAFETY: the caller's.
            let from = unsafe { self.source.row(self.rows.offsets(rows.start)[0], rows.len() * from_length) };
            return self.kind.put_row(&mut buffer[..rows.len() * packed], from);
        }
        for (at, row) in rows.enumerate() {
            // An element past the packed ones is read before the next row overwrites it.
            let buffer = &mut buffer[at * packed..][..self.kind.buffer_length()];
            // SAFETY: the caller's.
            self.kind.put_row(buffer, unsafe { self.source.row(self.rows.offsets(row)[0], from_length) });
            self.kind.before(buffer);
        }
    }

    #[inline(always)]
    fn scale(&self, row: &mut [[T; 2]]) {
        if self.factor != T::ONE {
            row.iter_mut().for_each(|[re, im]| (*re, *im) = (*re * self.factor, *im * self.factor));
        }
    }

    /// # Safety
    /// Those of [`run`](Self::run), and a row of the output fits.
    #[inline(always)]
    unsafe fn transform_in_output(&self, row: usize, scratch: &mut [[T; 2]]) {
        let [from, to] = self.rows.offsets(row);
        // SAFETY: the caller's. Nothing is read through the source while this row is borrowed, unless it is other memory.
        let out = unsafe { self.target.row(to, self.kind.lengths()[1]) };
        let Some(buffer) = K::as_buffer(out) else { return };
        let count = if self.in_place { 0 } else { self.kind.lengths()[0] };
        if self.rows.strides[0] == 1 && count > 0 {
            // SAFETY: the caller's.
            self.kind.put_row(buffer, unsafe { self.source.row(from, count) });
        } else {
            for index in 0..count {
                // SAFETY: the caller's.
                let value = unsafe { self.source.get(from + index * self.rows.strides[0]) };
                self.kind.put(buffer, index, value);
            }
        }
        self.kind.transform(buffer, scratch);
        self.scale(buffer);
    }

    /// # Safety
    /// Those of [`run`](Self::run).
    #[inline(always)]
    unsafe fn transform_in_buffer(
        &self,
        rows: Range<usize>,
        buffer: &mut [[T; 2]],
        pitch: usize,
        scratch: &mut [[T; 2]],
    ) {
        let length = self.kind.buffer_length();
        // SAFETY: the caller's.
        unsafe { self.load(rows.clone(), buffer, pitch) };
        for row in buffer.chunks_exact_mut(pitch).take(rows.len()) {
            self.kind.transform(&mut row[..length], scratch);
        }
        // SAFETY: the caller's.
        unsafe { self.store(rows, buffer, pitch) };
    }

    /// # Safety
    /// Those of [`run`](Self::run).
    #[inline(always)]
    unsafe fn load(&self, rows: Range<usize>, buffer: &mut [[T; 2]], pitch: usize) {
        let (count, stride) = (self.kind.lengths()[0], self.rows.strides[0]);
        let offsets = self.block_offsets(&rows, 0);
        if stride == 1 {
            for (offset, buffer) in offsets.iter().zip(buffer.chunks_mut(pitch)).take(rows.len()) {
                // SAFETY: the caller's.
                self.kind.put_row(buffer, unsafe { self.source.row(*offset, count) });
            }
            return;
        }
        // Neighbours in memory one after another.
        if is_adjacent(&offsets[..rows.len()]) {
            for index in 0..count {
                // SAFETY: the caller's.
                let line = unsafe { self.source.row(offsets[0] + index * stride, rows.len()) };
                for (buffer, value) in buffer.chunks_exact_mut(pitch).zip(line) {
                    self.kind.put(buffer, index, *value);
                }
            }
            return;
        }
        for index in 0..count {
            for (row, offset) in offsets.iter().enumerate().take(rows.len()) {
                // SAFETY: the caller's.
                let value = unsafe { self.source.get(offset + index * stride) };
                self.kind.put(&mut buffer[row * pitch..], index, value);
            }
        }
    }

    /// # Safety
    /// Those of [`run`](Self::run).
    #[inline(always)]
    unsafe fn store(&self, rows: Range<usize>, buffer: &[[T; 2]], pitch: usize) {
        let (count, stride) = (self.kind.lengths()[1], self.rows.strides[1]);
        let offsets = self.block_offsets(&rows, 1);
        if stride == 1 {
            for (offset, buffer) in offsets.iter().zip(buffer.chunks(pitch)).take(rows.len()) {
                // SAFETY: the caller's.
                self.kind.take_row(buffer, self.factor, unsafe { self.target.row(*offset, count) });
            }
            return;
        }
        if is_adjacent(&offsets[..rows.len()]) {
            for index in 0..count {
                // SAFETY: the caller's.
                let line = unsafe { self.target.row(offsets[0] + index * stride, rows.len()) };
                for (buffer, to) in buffer.chunks_exact(pitch).zip(line) {
                    *to = self.kind.take(buffer, index, self.factor);
                }
            }
            return;
        }
        for index in 0..count {
            for (row, offset) in offsets.iter().enumerate().take(rows.len()) {
                let value = self.kind.take(&buffer[row * pitch..], index, self.factor);
                // SAFETY: the caller's.
                unsafe { self.target.set(offset + index * stride, value) };
            }
        }
    }

    /// The offsets of the rows of a block in one of the arrays.
    #[inline(always)]
    fn block_offsets(&self, rows: &Range<usize>, side: usize) -> [usize; BLOCK] {
        let mut offsets = [0; BLOCK];
        for (offset, row) in offsets.iter_mut().zip(rows.clone()) {
            *offset = self.rows.offsets(row)[side];
        }
        offsets
    }
}

/// Whether each offset is one more than that before.
fn is_adjacent(offsets: &[usize]) -> bool {
    offsets.windows(2).all(|pair| pair[1] == pair[0] + 1)
}
