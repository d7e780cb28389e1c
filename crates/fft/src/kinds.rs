//! The three kinds of transforms of a row: complex to complex, real to complex, complex to real.

use crate::error::OutOfMemory;
use crate::float::Float;
use crate::plan::{Direction, Plan, Planned};
use crate::real::{Twiddles, merge, mirror, split};
use std::sync::Arc;

/// What is done with a row: its elements are put into a buffer of complex numbers, transformed there, and taken out.
pub(crate) trait Kind<T: Float>: Sync {
    /// An element of the input.
    type In: Copy + Send + Sync;
    /// An element of the output.
    type Out: Copy + Send + Sync;
    /// The sizes of a row of the input and of the output.
    fn lengths(&self) -> [usize; 2];
    /// The size of the buffer.
    fn buffer_length(&self) -> usize;
    /// The complex transform that is computed: of the first elements of the buffer.
    fn plan(&self) -> &Plan<T>;
    /// How many elements that transform has.
    fn packed_length(&self) -> usize;
    /// Puts an element of the input into the buffer.
    fn put(&self, buffer: &mut [[T; 2]], index: usize, value: Self::In);
    /// Puts a row of the input into the buffer; also several rows, one after another in both, where they [`pack`](Self::packs).
    fn put_row(&self, buffer: &mut [[T; 2]], row: &[Self::In]);
    /// Whether a row takes no more room in the buffer than its transform.
    fn packs(&self) -> bool {
        true
    }
    /// Takes a row of the output out of the buffer, multiplied by a factor; also several, where the output is [no buffer](Self::as_buffer).
    fn take_row(&self, buffer: &[[T; 2]], factor: T, row: &mut [Self::Out]);
    /// Prepares the buffer for the complex transform.
    fn before(&self, _buffer: &mut [[T; 2]]) {}
    /// Makes the result from the complex transform.
    fn after(&self, _buffer: &mut [[T; 2]]) {}
    /// Transforms the buffer.
    #[inline(always)]
    fn transform(&self, buffer: &mut [[T; 2]], scratch: &mut [[T; 2]]) {
        self.before(buffer);
        T::transform(self.plan(), &mut buffer[..self.packed_length()], scratch);
        self.after(buffer);
    }
    /// Takes an element of the output out of the buffer, multiplied by a factor.
    fn take(&self, buffer: &[[T; 2]], index: usize, factor: T) -> Self::Out;
    /// A row of the output as the buffer, if it can be.
    fn as_buffer(row: &mut [Self::Out]) -> Option<&mut [[T; 2]]>;
}

/// Complex rows.
pub(crate) struct ComplexToComplex<T: Planned> {
    length: usize,
    plan: Arc<Plan<T>>,
}

impl<T: Float> ComplexToComplex<T> {
    pub(crate) fn new(length: usize, direction: Direction) -> Result<Self, OutOfMemory> {
        Ok(ComplexToComplex { length, plan: T::plan(length, direction)? })
    }
}

impl<T: Float> Kind<T> for ComplexToComplex<T> {
    type In = [T; 2];
    type Out = [T; 2];

    fn lengths(&self) -> [usize; 2] {
        [self.length; 2]
    }

    fn buffer_length(&self) -> usize {
        self.length
    }

    fn plan(&self) -> &Plan<T> {
        &self.plan
    }

    fn packed_length(&self) -> usize {
        self.length
    }

    #[inline(always)]
    fn put(&self, buffer: &mut [[T; 2]], index: usize, value: [T; 2]) {
        buffer[index] = value;
    }

    #[inline(always)]
    fn put_row(&self, buffer: &mut [[T; 2]], row: &[[T; 2]]) {
        buffer[..row.len()].copy_from_slice(row);
    }

    #[inline(always)]
    fn take(&self, buffer: &[[T; 2]], index: usize, factor: T) -> [T; 2] {
        let [re, im] = buffer[index];
        [re * factor, im * factor]
    }

    #[inline(always)]
    fn take_row(&self, buffer: &[[T; 2]], factor: T, row: &mut [[T; 2]]) {
        row.iter_mut().zip(buffer).for_each(|(to, [re, im])| *to = [*re * factor, *im * factor]);
    }

    fn as_buffer(row: &mut [[T; 2]]) -> Option<&mut [[T; 2]]> {
        Some(row)
    }
}

/// The complex transform that one of real rows is made of: of the pairs of elements, or, for odd lengths, of all elements.
struct OfReal<T: Planned> {
    plan: Arc<Plan<T>>,
    /// For even lengths.
    twiddles: Option<Arc<Twiddles<T>>>,
}

impl<T: Float> OfReal<T> {
    fn new(length: usize, direction: Direction) -> Result<Self, OutOfMemory> {
        if length.is_multiple_of(2) {
            return Ok(OfReal {
                plan: T::plan(length / 2, direction)?,
                twiddles: Some(Twiddles::of(length)?),
            });
        }
        Ok(OfReal { plan: T::plan(length, direction)?, twiddles: None })
    }
}

/// Real rows, forwards: the elements of the result up to the middle, or all.
pub(crate) struct RealToComplex<T: Planned> {
    length: usize,
    all: bool,
    inner: OfReal<T>,
}

impl<T: Float> RealToComplex<T> {
    pub(crate) fn new(length: usize, all: bool) -> Result<Self, OutOfMemory> {
        Ok(RealToComplex { length, all, inner: OfReal::new(length, Direction::Forward)? })
    }
}

impl<T: Float> Kind<T> for RealToComplex<T> {
    type In = T;
    type Out = [T; 2];

    fn lengths(&self) -> [usize; 2] {
        [self.length, if self.all { self.length } else { self.length / 2 + 1 }]
    }

    fn buffer_length(&self) -> usize {
        if self.inner.twiddles.is_none() { self.length } else { self.lengths()[1] }
    }

    fn plan(&self) -> &Plan<T> {
        &self.inner.plan
    }

    fn packed_length(&self) -> usize {
        if self.inner.twiddles.is_some() { self.length / 2 } else { self.length }
    }

    #[inline(always)]
    fn put(&self, buffer: &mut [[T; 2]], index: usize, value: T) {
        match self.inner.twiddles {
            Some(_) => buffer[index / 2][index % 2] = value,
            None => buffer[index] = [value, T::ZERO],
        }
    }

    #[inline(always)]
    fn put_row(&self, buffer: &mut [[T; 2]], row: &[T]) {
        match self.inner.twiddles {
            Some(_) => buffer.iter_mut().zip(row.as_chunks().0).for_each(|(to, pair)| *to = *pair),
            None => buffer.iter_mut().zip(row).for_each(|(to, value)| *to = [*value, T::ZERO]),
        }
    }

    #[inline(always)]
    fn after(&self, buffer: &mut [[T; 2]]) {
        match &self.inner.twiddles {
            Some(twiddles) => split(&mut buffer[..=self.length / 2], twiddles),
            None => buffer[0][1] = T::ZERO, // Products of infinities and zeros are not.
        }
        if self.all {
            mirror(buffer);
        }
    }

    #[inline(always)]
    fn take(&self, buffer: &[[T; 2]], index: usize, factor: T) -> [T; 2] {
        let [re, im] = buffer[index];
        [re * factor, im * factor]
    }

    #[inline(always)]
    fn take_row(&self, buffer: &[[T; 2]], factor: T, row: &mut [[T; 2]]) {
        row.iter_mut().zip(buffer).for_each(|(to, [re, im])| *to = [*re * factor, *im * factor]);
    }

    fn as_buffer(row: &mut [[T; 2]]) -> Option<&mut [[T; 2]]> {
        Some(row)
    }
}

/// The elements up to the middle of the transform of a real row, backwards.
pub(crate) struct ComplexToReal<T: Planned> {
    length: usize,
    inner: OfReal<T>,
}

impl<T: Float> ComplexToReal<T> {
    pub(crate) fn new(length: usize) -> Result<Self, OutOfMemory> {
        Ok(ComplexToReal { length, inner: OfReal::new(length, Direction::Backward)? })
    }
}

impl<T: Float> Kind<T> for ComplexToReal<T> {
    type In = [T; 2];
    type Out = T;

    fn lengths(&self) -> [usize; 2] {
        [self.length / 2 + 1, self.length]
    }

    fn buffer_length(&self) -> usize {
        if self.inner.twiddles.is_none() { self.length } else { self.length / 2 + 1 }
    }

    fn plan(&self) -> &Plan<T> {
        &self.inner.plan
    }

    fn packed_length(&self) -> usize {
        if self.inner.twiddles.is_some() { self.length / 2 } else { self.length }
    }

    /// Its first and last element become one.
    fn packs(&self) -> bool {
        false
    }

    #[inline(always)]
    fn put(&self, buffer: &mut [[T; 2]], index: usize, value: [T; 2]) {
        buffer[index] = value;
    }

    #[inline(always)]
    fn put_row(&self, buffer: &mut [[T; 2]], row: &[[T; 2]]) {
        buffer[..row.len()].copy_from_slice(row);
    }

    #[inline(always)]
    fn before(&self, buffer: &mut [[T; 2]]) {
        match &self.inner.twiddles {
            Some(twiddles) => merge(&mut buffer[..=self.length / 2], twiddles),
            None => {
                buffer[0][1] = T::ZERO; // It is that of a real row.
                mirror(buffer);
            }
        }
    }

    #[inline(always)]
    fn take(&self, buffer: &[[T; 2]], index: usize, factor: T) -> T {
        match self.inner.twiddles {
            Some(_) => buffer[index / 2][index % 2] * factor,
            None => buffer[index][0] * factor,
        }
    }

    #[inline(always)]
    fn take_row(&self, buffer: &[[T; 2]], factor: T, row: &mut [T]) {
        match self.inner.twiddles {
            Some(_) => {
                let pairs = row.as_chunks_mut().0.iter_mut().zip(buffer);
                pairs.for_each(|(to, [re, im])| *to = [*re * factor, *im * factor]);
            }
            None => row.iter_mut().zip(buffer).for_each(|(to, [re, _])| *to = *re * factor),
        }
    }

    fn as_buffer(_: &mut [T]) -> Option<&mut [[T; 2]]> {
        None
    }
}
