//! The loop of fused cells: rows of gates and states in vectors, on several threads if there are many.
#![expect(
    unsafe_code,
    reason = "loads vectors from rows of slices, and enters kernels for an instruction set"
)]

use crate::parallel::parallel_for;
use crate::tensor_iterator::GRAIN;
use crate::vectorized::{CodegenAnchor, EveryIsa, Float, FloatLanes, Isa, Kernel, Lanes, Vector, dispatch};
use flambeau_core::{Result, ensure};
use std::marker::PhantomData;
use std::ops::Range;

/// A formula of one step. A row of operand `k` has as many parts of one size as the array says: the gates, or a state.
pub(super) trait Cell<const N: usize, const M: usize>: Copy + Send + Sync + 'static {
    /// The parts of each input.
    const READS: [usize; N];
    /// The parts of each result.
    const WRITES: [usize; M];

    /// Computes all parts of the results at the same positions.
    fn step<V: Float>(self, at: &mut impl Columns<V>);
}

/// Some columns of all parts of a row.
pub(super) trait Columns<V> {
    /// Those of a part of input number `k`; zero for a part that it does not have.
    fn read(&self, k: usize, part: usize) -> V;
    /// Writes those of a part of result number `k`.
    fn write(&mut self, k: usize, part: usize, value: V);
}

/// An input: one row for each row of the results, or one for all of them, as biases are.
#[derive(Clone, Copy)]
pub(super) struct Input<'a, T> {
    pub(super) elements: &'a [T],
    pub(super) is_repeated: bool,
}

impl<'a, T> Input<'a, T> {
    /// One row for each row of the results.
    pub(super) fn of_rows(elements: &'a [T]) -> Self {
        Input { elements, is_repeated: false }
    }
}

/// Computes `rows` rows, whose parts have `n` elements.
///
/// # Errors
/// `Internal` if a slice does not have these rows.
pub(super) fn run<T: Send + Sync, C: Cell<N, M>, const N: usize, const M: usize>(
    name: &str,
    cell: C,
    [rows, n]: [usize; 2],
    from: [Input<'_, T>; N],
    to: [&mut [T]; M],
) -> Result<()>
where
    Step<T, C, N, M>: EveryIsa,
{
    let rows_of = |input: &Input<'_, T>| if input.is_repeated { rows.min(1) } else { rows };
    let fits =
        from.iter().zip(C::READS).all(|(input, parts)| input.elements.len() >= rows_of(input) * parts * n)
            && to.iter().zip(C::WRITES).all(|(to, parts)| to.len() == rows * parts * n);
    ensure!(fits, Internal(name), "expected operands of {rows} rows with parts of {n} elements");
    if rows == 0 || n == 0 {
        return Ok(());
    }
    let mut from_row = C::READS.map(|parts| parts * n);
    for (row, input) in from_row.iter_mut().zip(&from) {
        *row = if input.is_repeated { 0 } else { *row };
    }
    let (from, to) = (from.map(|input| input.elements.as_ptr()), to.map(|to| to.as_mut_ptr()));
    let step = Step { cell, n, rows: [0, rows], from, from_row, to };
    // An element takes about as long as several of an elementwise operator.
    parallel_for(0..rows, (GRAIN / 4 / n).max(1), |range| {
        // SAFETY: the slices have these rows, and each thread writes rows of its own.
        unsafe { dispatch(step.part(range)) }
    });
    Ok(())
}

/// Rows number `rows[0]` to `rows[1]`.
///
/// - (inside) `from` and `to` have these rows, of [`Cell::READS`] and [`Cell::WRITES`] parts of `n` elements.
#[derive(Clone, Copy)]
pub(super) struct Step<T, C, const N: usize, const M: usize> {
    cell: C,
    n: usize,
    rows: [usize; 2],
    from: [*const T; N],
    /// Elements from one row to the next.
    from_row: [usize; N],
    to: [*mut T; M],
}

// SAFETY: the slices whose addresses these are are borrowed during the call, and each thread writes rows of its own.
unsafe impl<T: Send + Sync, C: Sync, const N: usize, const M: usize> Sync for Step<T, C, N, M> {}

impl<T, C: Copy, const N: usize, const M: usize> Step<T, C, N, M> {
    fn part(&self, rows: Range<usize>) -> Self {
        Step {
            cell: self.cell,
            n: self.n,
            rows: [rows.start, rows.end],
            from: self.from,
            from_row: self.from_row,
            to: self.to,
        }
    }
}

impl<T, C, const N: usize, const M: usize> CodegenAnchor for Step<T, C, N, M> {
    type Anchor = C;
}

impl<I: Isa, T: FloatLanes<I>, C: Cell<N, M>, const N: usize, const M: usize> Kernel<I> for Step<T, C, N, M> {
    #[inline(always)]
    unsafe fn run(self) {
        let lanes = <T as Lanes<I>>::Vector::LANES;
        for row in self.rows[0]..self.rows[1] {
            let (mut from, mut to) = (self.from, self.to);
            for (k, from) in from.iter_mut().enumerate() {
                *from = from.wrapping_add(row * self.from_row[k]);
            }
            for (k, to) in to.iter_mut().enumerate() {
                *to = to.wrapping_add(row * C::WRITES[k] * self.n);
            }
            let mut at = Block::<I, T, C, N, M> { from, to, n: self.n, count: lanes, of: PhantomData };
            for _ in 0..self.n / lanes {
                self.cell.step(&mut at);
                at.advance(lanes);
            }
            at.count = self.n % lanes;
            if at.count > 0 {
                self.cell.step(&mut at);
            }
        }
    }
}

/// `count` columns of a row, from those at the addresses on.
struct Block<I, T, C, const N: usize, const M: usize> {
    from: [*const T; N],
    to: [*mut T; M],
    n: usize,
    count: usize,
    of: PhantomData<(I, C)>,
}

impl<I, T, C, const N: usize, const M: usize> Block<I, T, C, N, M> {
    #[inline(always)]
    fn advance(&mut self, lanes: usize) {
        self.from = self.from.map(
            #[inline(always)]
            |from| from.wrapping_add(lanes),
        );
        self.to = self.to.map(
            #[inline(always)]
            |to| to.wrapping_add(lanes),
        );
    }
}

impl<I: Isa, T: FloatLanes<I>, C: Cell<N, M>, const N: usize, const M: usize> Columns<T::Vector>
    for Block<I, T, C, N, M>
{
    #[inline(always)]
    fn read(&self, k: usize, part: usize) -> T::Vector {
        if part >= C::READS[k] {
            return T::Vector::constant(0.0);
        }
        // SAFETY: the part is one of the row's, and has `count` columns from here on.
        unsafe { T::load_up_to(self.from[k].wrapping_add(part * self.n), self.count) }
    }

    #[inline(always)]
    fn write(&mut self, k: usize, part: usize, value: T::Vector) {
        if part < C::WRITES[k] {
            // SAFETY: as above.
            unsafe { T::store_up_to(value, self.to[k].wrapping_add(part * self.n), self.count) }
        }
    }
}
