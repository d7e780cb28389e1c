//! Elements put, added or compared at places that indices name. Threads share the work along a dimension that the indices do not
//! name: what one of them writes no other meets, and each element receives in the order of the indices, as on one thread.
#![expect(unsafe_code, reason = "threads write elements of one slice, each its own")]

use super::ahead::{Ahead, LINE, Soon};
use super::named::Places;
use crate::loops::streaming::prefetch_bytes;
use crate::native::factory::copy;
use crate::native::guarded_slices::{Slices, apart, with_slices};
use crate::native::element_bits::{Moved, Numeric, Sortable, Stored};
use crate::native::strided_iter::Walk;
use crate::parallel::parallel_for;
use crate::tensor_iterator::GRAIN;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{DimVec, Result, Scalar, ScalarType, bail};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Elements that threads write, each those of its own part of a walk: see [`Places::cut`].
struct Apart<'g, N> {
    first: *mut N,
    len: usize,
    elements: PhantomData<&'g mut [N]>,
}

// SAFETY: no two parts of a walk meet the same element.
unsafe impl<N: Send> Sync for Apart<'_, N> {}

/// Which elements a stretch may reach: `at + j * step + i * stride`, for `j` below `n` and `i` below `size`.
struct Reach {
    at: i64,
    step: i64,
    n: usize,
    stride: i64,
    size: i64,
}

impl Reach {
    fn has(&self, i: i64) -> bool {
        (i as u64) < self.size as u64
    }

    fn is_inside(&self, len: usize) -> bool {
        let ends = [self.step * (self.n as i64 - 1), self.stride * (self.size - 1)];
        let least: i64 = ends.iter().map(|end| end.min(&0)).sum();
        let most: i64 = ends.iter().map(|end| end.max(&0)).sum();
        self.size > 0 && self.at + least >= 0 && self.at + most < len as i64
    }
}

/// What comes to a stretch of places: indices and elements, and how far apart they lie.
struct Arriving<'a, N> {
    index: &'a [i64],
    index_step: i64,
    from: &'a [N],
    from_step: i64,
}

impl<'g, N: Numeric> Apart<'g, N> {
    fn new(elements: &'g mut [N]) -> Self {
        Apart { first: elements.as_mut_ptr(), len: elements.len(), elements: PhantomData }
    }

    /// Combines what arrives with what is there; false where an index, or the stretch itself, reaches outside.
    ///
    /// # Safety
    /// - (own) No other thread touches the elements that `reach` and the indices name.
    #[inline(always)]
    unsafe fn put(
        &self,
        reach: &Reach,
        arriving: &Arriving<'_, N>,
        ahead: &mut Ahead,
        combine: impl Fn(N, N) -> N,
    ) -> bool {
        if !reach.is_inside(self.len) {
            return false;
        }
        let first = self.first.wrapping_offset(reach.at as isize);
        // SAFETY: (own); the reach is inside the elements.
        unsafe {
            match [reach.step, arriving.index_step, arriving.from_step] {
                [1, 0, 1] => put_row(first, reach, arriving, combine),
                [0, 1, 1] if reach.stride == 1 => {
                    let soon = ahead.meet(self.first, reach.at, reach.size as usize, reach.n);
                    put_line(first, reach, arriving, soon, combine)
                }
                _ => put_each(first, reach, arriving, combine),
            }
        }
    }
}

/// Neighbours, all at the place of one index.
///
/// # Safety
/// - As [`put_each`].
#[inline(always)]
unsafe fn put_row<N: Numeric>(
    first: *mut N,
    reach: &Reach,
    arriving: &Arriving<'_, N>,
    combine: impl Fn(N, N) -> N,
) -> bool {
    let i = arriving.index[0];
    if !reach.has(i) {
        return false;
    }
    // SAFETY: the elements side by side at that place.
    let row = unsafe { std::slice::from_raw_parts_mut(first.offset((i * reach.stride) as isize), reach.n) };
    row.iter_mut().zip(arriving.from).for_each(|(to, from)| *to = combine(*to, *from));
    true
}

/// Elements that are loaded together, before the first of them is combined: the processor then waits less for places just written.
const GROUP: usize = 4;
/// How far ahead elements are asked for, and indices twice as far, in bytes.
const ARRIVE: usize = 1024;

/// Elements of one line, whose places lie side by side; meanwhile asks for what is met `soon`. All that the loop needs is its own, so
/// that nothing is read anew after each element that is written.
///
/// # Safety
/// - As [`put_each`].
#[inline(never)]
unsafe fn put_line<N: Numeric>(
    first: *mut N,
    reach: &Reach,
    arriving: &Arriving<'_, N>,
    mut soon: Soon,
    combine: impl Fn(N, N) -> N,
) -> bool {
    let (size, n) = (reach.size as u64, reach.n);
    let (index, from) = (&arriving.index[..n], &arriving.from[..n]);
    // SAFETY: a place of the line.
    let put = |i: i64, new: N| unsafe {
        let to = first.add(i as usize);
        *to = combine(*to, new);
    };
    let ((lines, index), (new_lines, from)) = (index.as_chunks::<LINE>(), from.as_chunks::<LINE>());
    for (index, from) in lines.iter().zip(new_lines) {
        soon.ask();
        prefetch_bytes(index.as_ptr().cast::<u8>().wrapping_add(2 * ARRIVE), size_of_val(index));
        prefetch_bytes(from.as_ptr().cast::<u8>().wrapping_add(ARRIVE), size_of_val(from));
        for (index, new) in index.as_chunks::<GROUP>().0.iter().zip(from.as_chunks::<GROUP>().0) {
            let ([a, b, c, d], [new_a, new_b, new_c, new_d]) = (*index, *new);
            if [a, b, c, d].iter().any(|&i| i as u64 >= size) {
                return false;
            }
            put(a, new_a);
            put(b, new_b);
            put(c, new_c);
            put(d, new_d);
        }
    }
    for (&i, &new) in index.iter().zip(from) {
        if i as u64 >= size {
            return false;
        }
        put(i, new);
    }
    true
}

/// Elements anywhere.
///
/// # Safety
/// - (inside) Places that `reach` allows, counted from `first`, are inside elements that nobody else touches.
#[inline(always)]
unsafe fn put_each<N: Numeric>(
    first: *mut N,
    reach: &Reach,
    arriving: &Arriving<'_, N>,
    combine: impl Fn(N, N) -> N,
) -> bool {
    let (step, stride) = (reach.step, reach.stride);
    let Arriving { index, index_step, from, from_step } = *arriving;
    for j in 0..reach.n as i64 {
        let i = index[(j * index_step) as usize];
        if !reach.has(i) {
            return false;
        }
        // SAFETY: (inside).
        unsafe {
            let to = first.offset((j * step + i * stride) as isize);
            *to = combine(*to, from[(j * from_step) as usize]);
        }
    }
    true
}

/// Neighbours that a thread takes at least along a dimension after the one that is named: their lines of memory are its own.
const LEAST: usize = 128;

impl Places<'_> {
    /// `to[place(at)] = combine(to[place(at)], from[at])` in row-major order of `sizes`, so that the last of equal places wins,
    /// and sums are the same every time. Nobody sees `to` after a failure where it is `fresh`: indices are then looked at only
    /// as they are met.
    pub(in crate::native) fn place(
        &self,
        to: &Tensor,
        index: &Tensor,
        (from, from_strides): (&Tensor, &[i64]),
        how: Combine,
        fresh: bool,
    ) -> Result<()> {
        let (index, from) = (apart(index, to)?, apart(from, to)?);
        if !fresh {
            // Before the guard for writing, which counts as a write; and again under it, since the index may be written meanwhile.
            with_slices(self.name, &[&index], &[], |s| self.check(s.read::<i64>(0)?))?;
        }
        let under_guards = |place: &dyn Fn(&Slices<'_>) -> Result<bool>| {
            with_slices(self.name, &[&from, &index], &[to], |s| {
                if !fresh {
                    self.check(s.read::<i64>(1)?)?;
                }
                if !place(s)? {
                    self.check(s.read::<i64>(1)?)?;
                    bail!(Internal, "{}: places outside of the tensor", self.name);
                }
                Ok(())
            })
        };
        if matches!(how, Combine::Greatest | Combine::Least) {
            return dispatch_all_types!(ordered, to.dtype(), self.name, T => {
                type N = <T as Stored>::Number;
                under_guards(&|s| match how {
                    Combine::Greatest => self.place_numbers::<N>(s, from_strides, |a, b| greatest(a, b).settled()),
                    _ => self.place_numbers::<N>(s, from_strides, |a, b| least(a, b).settled()),
                })
            });
        }
        dispatch_all_types!(all, to.dtype(), self.name, T => {
            type N = <T as Stored>::Number;
            under_guards(&|s| match how {
                Combine::Add => self.place_numbers::<N>(s, from_strides, N::plus),
                Combine::Multiply => self.place_numbers::<N>(s, from_strides, N::times),
                _ => self.place_numbers::<N>(s, from_strides, |_, new| new.settled()),
            })
        })
    }

    /// False where an index is outside; not all elements have arrived then.
    fn place_numbers<N: Numeric>(
        &self,
        s: &Slices<'_>,
        from_strides: &[i64],
        combine: impl Fn(N, N) -> N + Sync,
    ) -> Result<bool> {
        let (from, index, to) = (s.read::<N>(0)?, s.read::<i64>(1)?, Apart::new(s.write::<N>(0)?));
        let strides = [self.strides, self.index_strides, from_strides];
        let outside = AtomicBool::new(false);
        let (dim, grain) = self.cut();
        let count = dim.map_or(1, |d| self.sizes[d] as usize);
        parallel_for(0..count, grain, |part| {
            let (walk, first) = self.part(strides, dim, part);
            let ([step, index_step, from_step], mut ahead) = (walk.steps(), Ahead::default());
            walk.stretches(0..walk.numel(), |[at, index_at, from_at], n| {
                if outside.load(Ordering::Relaxed) {
                    return;
                }
                let reach = Reach { at: first[0] + at, step, n, stride: self.stride, size: self.size };
                let (index, from) =
                    (&index[(first[1] + index_at) as usize..], &from[(first[2] + from_at) as usize..]);
                let arriving = Arriving { index, index_step, from, from_step };
                // SAFETY: (own): parts differ in their places along `dim`.
                if !unsafe { to.put(&reach, &arriving, &mut ahead, &combine) } {
                    outside.store(true, Ordering::Relaxed);
                }
            });
        });
        Ok(!outside.into_inner())
    }

    /// The dimension that threads share, and how much of it they take at a time: of those along which places differ whatever the
    /// indices are, the largest.
    fn cut(&self) -> (Option<usize>, usize) {
        let differ = (0..self.sizes.len()).filter(|&d| self.strides[d] != 0 && self.sizes[d] > 1);
        let Some(dim) = differ.rev().max_by_key(|&d| self.sizes[d]) else { return (None, 1) };
        let each: usize =
            self.sizes.iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, n)| *n as usize).product();
        let named_before = self.index_strides[..dim].iter().any(|stride| *stride != 0);
        let least = if named_before && self.strides[dim] == 1 { LEAST } else { 1 };
        (Some(dim), (GRAIN / each.max(1)).max(least))
    }

    /// The walk of a part of dimension `dim`, and where it begins.
    fn part(&self, strides: [&[i64]; 3], dim: Option<usize>, part: Range<usize>) -> (Walk<3>, [i64; 3]) {
        let mut sizes = DimVec::from_slice(self.sizes);
        let first = dim.map_or([0; 3], |d| {
            sizes[d] = part.len() as i64;
            strides.map(|strides| strides[d] * part.start as i64)
        });
        (Walk::new(&sizes, strides), first)
    }
}

/// What is done with an element that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::native) enum Combine {
    Assign,
    Add,
    Multiply,
    Greatest,
    Least,
}

impl Combine {
    /// Whether the type must hold more than the result does on the way: sums of many numbers of half precision.
    fn needs_wide(self, dtype: ScalarType) -> bool {
        matches!(self, Combine::Add | Combine::Multiply) && dtype.is_reduced_floating_point()
    }
}

/// NaN if either is.
fn greatest<N: Sortable>(a: N, b: N) -> N {
    if b.order() > a.order() { b } else { a }
}

/// NaN if either is.
fn least<N: Sortable>(a: N, b: N) -> N {
    let nan = N::of(Scalar::Float(f64::NAN)).order();
    let is_nan = |x: N| N::HAS_NAN && x.order() == nan;
    if !is_nan(a) && (is_nan(b) || b.order() < a.order()) { b } else { a }
}

/// Runs `f` on `self_`, or on a copy in f32 that is rounded back into it: half precision is summed in f32.
pub(in crate::native) fn in_wide(
    self_: &Tensor,
    how: Combine,
    f: impl FnOnce(&Tensor, bool) -> Result<()>,
) -> Result<()> {
    if !how.needs_wide(self_.dtype()) {
        return f(self_, false);
    }
    let wide = copy::to_copy(self_, Some(ScalarType::F32), None, None, None, false, None)?;
    f(&wide, true)?;
    copy::copy_(self_, &wide, false)
}

pub(in crate::native) fn widened(tensor: &Tensor, wide: bool) -> Result<Tensor> {
    if !wide {
        return Ok(tensor.clone());
    }
    copy::to_copy(tensor, Some(ScalarType::F32), None, None, None, false, None)
}
