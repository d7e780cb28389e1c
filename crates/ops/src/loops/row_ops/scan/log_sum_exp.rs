//! Logarithms of running sums of exponentials, in f64: of one row in blocks, or of several rows at once, one in each lane.
//!
//! The sum of the exponentials so far is kept as that of their maximum times `1 + rest`. With the next element `x` the rest becomes
//! `rest * factor + term`: the term is `exp(-|x - maximum|)`, and the factor is 1, or the term where `x` is the new maximum. Thus
//! elements wait for one another only in a product and a sum, and the exponentials and logarithms of many are computed at a time.
#![expect(unsafe_code, reason = "reads and writes the rows and strips that the loops give")]

use super::super::columns::map_columns;
use super::super::map_rows::{Strip, map_rows};
use crate::loops::reduce::strips::STRIP;
use crate::tensor_iterator::DimMask;
use crate::vectorized::{
    CodegenAnchor, Convert, Float, FloatLanes, Isa, Kernel, Lanes, Ordered, Vector, dispatch, load_one,
};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::Result;
use std::marker::PhantomData;

/// Elements of a row that are computed at a time.
const BLOCK: usize = STRIP;

/// Numbers of a block of a row, or of one element of each row of a strip.
type Block = [f64; BLOCK];

/// The vector of f64 of an instruction set.
type Wide<I> = <f64 as Lanes<I>>::Vector;

/// `log(cumsum(exp(input)))` of every row of the dimensions `mask`; `out` is of the input's type.
///
/// # Errors
/// As [`map_rows`].
pub(crate) fn log_cumsum_exp_rows(input: &Tensor, out: &Tensor, mask: DimMask) -> Result<()> {
    dispatch_all_types!(floats, out.dtype(), "logcumsumexp", T => {
        let in_lanes = map_columns([input], out, mask, |_, [from], to, n, rows| {
            // SAFETY: the strips have these elements.
            unsafe { dispatch(Columns::<T> { from, to, n, rows, element: PhantomData }) }
        })?;
        if in_lanes {
            return Ok(());
        }
        map_rows([input], out, mask, out.dtype(), |_, [from], to, n| {
            // SAFETY: a row of `n` elements.
            unsafe { dispatch(Row::<T> { from: from.cast(), to: to.cast(), n }) }
        })
    })
}

/// The term of `x` in the rest of the sum, and the factor of the terms before, where `max` is the maximum before.
#[inline(always)]
fn term_and_factor<V: Float>(x: V, max: V) -> (V, V) {
    let below = (-(x - max).abs()).exp();
    // The difference of equal infinities is NaN.
    let term = V::select(x.eq(max), V::one(), below);
    (term, V::select(x.gt(max), term, V::one()))
}

/// Reads the elements at `from`.
///
/// # Safety
/// - As many as the slice has are valid for reading.
#[inline(always)]
unsafe fn read<T: Convert>(from: *const T, to: &mut [f64]) {
    for (i, to) in to.iter_mut().enumerate() {
        // SAFETY: this function's condition.
        *to = unsafe { load_one(from.add(i)) }.convert();
    }
}

/// Writes the elements at `to`.
///
/// # Safety
/// - As many as the slice has are valid for writing.
#[inline(always)]
unsafe fn write<T: Convert>(from: &[f64], to: *mut T) {
    for (i, value) in from.iter().enumerate() {
        // SAFETY: this function's condition.
        unsafe { to.add(i).write_unaligned(value.convert()) };
    }
}

/// The vector from element `at` on, of which a block has as many as any vector takes.
#[inline(always)]
fn vector<I: Isa>(block: &Block, at: usize) -> Wide<I>
where
    f64: FloatLanes<I>,
{
    let part = &block[at..at + Wide::<I>::LANES];
    // SAFETY: the part has as many elements.
    unsafe { <f64 as Lanes<I>>::load(part.as_ptr()) }
}

/// Writes a vector from element `at` on.
#[inline(always)]
fn set<I: Isa>(block: &mut Block, at: usize, value: Wide<I>)
where
    f64: FloatLanes<I>,
{
    let part = &mut block[at..at + Wide::<I>::LANES];
    // SAFETY: the part has as many elements.
    unsafe { <f64 as Lanes<I>>::store(value, part.as_mut_ptr()) }
}

/// `rows` rows of `n` elements of a strip.
struct Columns<T> {
    from: Strip,
    to: Strip,
    n: usize,
    rows: usize,
    element: PhantomData<T>,
}

impl<T> CodegenAnchor for Columns<T> {
    type Anchor = Self;
}

impl<I: Isa, T: Convert> Kernel<I> for Columns<T>
where
    f64: FloatLanes<I>,
{
    #[inline(always)]
    unsafe fn run(self) {
        let Columns { from, to, n, rows, .. } = self;
        let (mut max, mut rest) = ([f64::NEG_INFINITY; BLOCK], [0.0; BLOCK]);
        let mut x = [0.0; BLOCK];
        for i in 0..n as isize {
            let (source, target) =
                (from.at.wrapping_offset(i * from.step), to.at.wrapping_offset(i * to.step));
            // SAFETY: element `i` of the rows.
            unsafe { read::<T>(source.cast_const().cast(), &mut x[..rows]) };
            for at in (0..rows).step_by(Wide::<I>::LANES) {
                let (value, before) = (vector::<I>(&x, at), vector::<I>(&max, at));
                let (term, factor) = term_and_factor(value, before);
                let (max_now, rest_now) = (value.maximum(before), vector::<I>(&rest, at) * factor + term);
                set::<I>(&mut max, at, max_now);
                set::<I>(&mut rest, at, rest_now);
                set::<I>(&mut x, at, max_now + rest_now.log1p());
            }
            // SAFETY: the same.
            unsafe { write::<T>(&x[..rows], target.cast()) };
        }
    }
}

/// A row, in blocks.
///
/// - `from` is valid for reading and `to` for writing `n` elements.
struct Row<T> {
    from: *const T,
    to: *mut T,
    n: usize,
}

impl<T> CodegenAnchor for Row<T> {
    type Anchor = Self;
}

impl<I: Isa, T: Convert> Kernel<I> for Row<T>
where
    f64: FloatLanes<I>,
{
    #[inline(always)]
    unsafe fn run(self) {
        let Row { from, to, n } = self;
        let (mut max, mut rest) = (f64::NEG_INFINITY, 0.0);
        let [mut x, mut before, mut after, mut factors] = [[0.0; BLOCK]; 4];
        for first in (0..n).step_by(BLOCK) {
            let count = BLOCK.min(n - first);
            // SAFETY: elements of the row.
            unsafe { read(from.add(first), &mut x[..count]) };
            for ((x, before), after) in x[..count].iter().zip(&mut before).zip(&mut after) {
                *before = max;
                max = if *x > max || x.is_nan() { *x } else { max };
                *after = max;
            }
            for at in (0..count).step_by(Wide::<I>::LANES) {
                let (term, factor) = term_and_factor(vector::<I>(&x, at), vector::<I>(&before, at));
                set::<I>(&mut x, at, term);
                set::<I>(&mut factors, at, factor);
            }
            for (term, factor) in x[..count].iter_mut().zip(&factors) {
                rest = rest * factor + *term;
                *term = rest;
            }
            for at in (0..count).step_by(Wide::<I>::LANES) {
                let sum = vector::<I>(&after, at) + vector::<I>(&x, at).log1p();
                set::<I>(&mut x, at, sum);
            }
            // SAFETY: the same.
            unsafe { write(&x[..count], to.add(first)) };
        }
    }
}
