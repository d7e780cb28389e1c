//! A sweep of QR iteration with many shifts: each pair of them is a bulge of three rows below the diagonal, which reflectors move from
//! the first row of a block to the last one. The bulges are a chain in which each is two rows behind the one before, as close as
//! possible: Karlsson, Kressner and Lang, "Optimally packed chains of bulges in multishift QR algorithms" (2014).
//!
//! The chain moves by its own length in a pass. In a pass only the rows and columns around the chain change, in a copy that fits the
//! cache. The rest of the matrix is then multiplied by the product of the reflectors.

use super::basis::{reflect_column, reflect_columns};
use super::{Iteration, complex};
use crate::field::Field;
use crate::matrix::{Matrix, MatrixMut};
use crate::reflector::reflector;
use flambeau_gemm::scratch;
use flambeau_vectorized::with_processor_vectors;
use std::ops::Range;

/// Rows of a bulge.
const WIDTH: usize = 3;

/// The reflector that moved a bulge last.
#[derive(Clone, Copy)]
struct Bulge<T> {
    v: [T; WIDTH],
    tau: T,
}

impl<T: Field> Iteration<'_, T> {
    /// Moves a bulge for each pair of shifts over a block. The first pair is the first one to move.
    pub(super) fn sweep(&mut self, block: &Range<usize>, shifts: &[[T::Complex; 2]]) {
        let count = shifts.len();
        if count == 0 || block.len() < WIDTH {
            return;
        }
        let mut bulges = scratch::filled(Bulge { v: [T::ZERO; WIDTH], tau: T::ZERO }, count);
        // The last bulge is at the last row but one after so many steps.
        let steps = block.len() + 2 * (count - 1) - 1;
        for first in (0..steps).step_by(2 * count) {
            let steps = first..(first + 2 * count).min(steps);
            let rows = block.start + first.saturating_sub(2 * (count - 1))
                ..(block.start + steps.end + WIDTH - 1).min(block.end);
            let mut pass = Pass::new(&self.h.view(), rows.clone(), block, shifts, &mut bulges);
            with_processor_vectors(
                #[inline(always)]
                || pass.run(&steps),
            );
            pass.put_back(&mut self.h);
            let change = pass.change;
            self.multiply_outside(
                rows.start,
                &Matrix::new(&change, rows.len(), rows.len(), rows.len()),
                block,
            );
        }
    }
}

/// Some steps of all bulges.
struct Pass<'a, T: Field> {
    block: &'a Range<usize>,
    shifts: &'a [[T::Complex; 2]],
    bulges: &'a mut [Bulge<T>],
    /// The rows that change.
    rows: Range<usize>,
    /// These rows of the matrix, from the column before the first one on.
    copy: Vec<T>,
    /// The product of the reflectors.
    change: Vec<T>,
}

impl<'a, T: Field> Pass<'a, T> {
    fn new(
        h: &Matrix<'_, T>,
        rows: Range<usize>,
        block: &'a Range<usize>,
        shifts: &'a [[T::Complex; 2]],
        bulges: &'a mut [Bulge<T>],
    ) -> Self {
        let size = rows.len();
        let mut copy = scratch::filled(T::ZERO, size * (size + 1));
        let first = Self::first_column(&rows, block);
        for j in first..rows.end {
            copy[(j + 1 - rows.start) * size..][..size].copy_from_slice(&h.column(j)[rows.clone()]);
        }
        let mut change = scratch::filled(T::ZERO, size * size);
        change.iter_mut().step_by(size + 1).for_each(|x| *x = T::ONE);
        Self { block, shifts, bulges, rows, copy, change }
    }

    /// The column before the rows, if it belongs to the block.
    fn first_column(rows: &Range<usize>, block: &Range<usize>) -> usize {
        if rows.start > block.start { rows.start - 1 } else { rows.start }
    }

    fn put_back(&self, h: &mut MatrixMut<'_, T>) {
        let size = self.rows.len();
        for j in Self::first_column(&self.rows, self.block)..self.rows.end {
            let column = &self.copy[(j + 1 - self.rows.start) * size..][..size];
            h.column(j)[self.rows.clone()].copy_from_slice(column);
        }
    }

    /// A column of the copy.
    #[inline(always)]
    fn column(&mut self, j: usize) -> &mut [T] {
        let size = self.rows.len();
        &mut self.copy[(j + 1 - self.rows.start) * size..][..size]
    }

    #[inline(always)]
    fn at(&self, i: usize, j: usize) -> T {
        self.copy[(j + 1 - self.rows.start) * self.rows.len() + i - self.rows.start]
    }

    #[inline(always)]
    fn set(&mut self, i: usize, j: usize, value: T) {
        let size = self.rows.len();
        self.copy[(j + 1 - self.rows.start) * size + i - self.rows.start] = value;
    }

    #[inline(always)]
    fn run(&mut self, steps: &Range<usize>) {
        for step in steps.clone() {
            // Those that have begun and are not at the end.
            let first = (self.block.start + step + 2).saturating_sub(self.block.end).div_ceil(2);
            let moving = first..(step / 2 + 1).min(self.bulges.len());
            for index in moving.clone() {
                self.advance(index, self.row_of(index, step));
            }
            self.reflect_columns(&moving, step);
            for index in moving {
                self.collect(index, step, steps.start);
            }
        }
    }

    /// The first row of the reflector that moves a bulge in a step.
    #[inline(always)]
    fn row_of(&self, index: usize, step: usize) -> usize {
        self.block.start + step - 2 * index
    }

    #[inline(always)]
    fn width_at(&self, row: usize) -> usize {
        WIDTH.min(self.block.end - row)
    }

    /// Moves a bulge by a row: finds the reflector, applies it to columns from the right, and to the first column from the left.
    #[inline(always)]
    fn advance(&mut self, index: usize, row: usize) {
        let (width, offset) = (self.width_at(row), row - self.rows.start);
        let mut bulge = Bulge { v: [T::ZERO; WIDTH], tau: T::ZERO };
        if row == self.block.start {
            bulge.v = self.first_vector(self.shifts[index]);
            bulge.tau = reflector(&mut bulge.v[..width]);
        } else {
            if width == WIDTH {
                self.finish_row(self.bulges[index], row);
            }
            let own = &mut self.column(row - 1)[offset..offset + width];
            bulge.v[..width].copy_from_slice(own);
            bulge.tau = reflector(&mut bulge.v[..width]);
            own.fill(T::ZERO);
            own[0] = bulge.v[0];
        }
        self.bulges[index] = bulge;
        // The row below is not changed before the bulge ahead has left it.
        let (size, height) = (self.rows.len(), offset + width);
        let columns = &mut self.copy[(offset + 1) * size..(offset + 1 + width) * size];
        reflect_adjacent(columns, size, 0..height, &bulge);
        reflect_column(&mut columns[offset..offset + width], &bulge.v, bulge.tau);
    }

    /// Applies the reflector of the step before to the row below it, which is zero but for its last element.
    #[inline(always)]
    fn finish_row(&mut self, Bulge { v, tau }: Bulge<T>, row: usize) {
        let below = row + WIDTH - 1;
        let last = self.at(below, row + 1);
        let sum = last * v[2] * tau;
        self.set(below, row - 1, -sum);
        self.set(below, row, -(sum * v[1].conj()));
        self.set(below, row + 1, last - sum * v[2].conj());
    }

    /// A multiple of the first column of the product of the block less each of two shifts.
    #[inline(always)]
    fn first_vector(&self, [first, second]: [T::Complex; 2]) -> [T; WIDTH] {
        let k = self.block.start;
        let at = |i: usize, j: usize| complex(self.at(k + i, k + j));
        let (own, below) = (at(0, 0) - second, at(1, 0));
        let scale = own.pivot_size() + below.pivot_size();
        if scale == T::Real::ZERO {
            return [T::ZERO; WIDTH];
        }
        let (own, below) = (own.divided(scale), below.divided(scale));
        let vector = [
            (at(0, 0) - first) * own + at(0, 1) * below,
            (at(0, 0) - first + (at(1, 1) - second)) * below,
            at(2, 1) * below,
        ];
        let size = vector.iter().map(|x| x.pivot_size()).sum::<T::Real>();
        vector.map(|x| {
            let x = if size == T::Real::ZERO { x } else { x.divided(size) };
            T::from_parts(x.re(), x.im())
        })
    }

    /// Applies the reflectors of a step from the left to the other columns.
    #[inline(always)]
    fn reflect_columns(&mut self, moving: &Range<usize>, step: usize) {
        if moving.is_empty() {
            return;
        }
        let (size, start, first_row) = (self.rows.len(), self.rows.start, self.row_of(0, step));
        let lowest = self.row_of(moving.end - 1, step);
        for j in lowest + 1..self.rows.end {
            // Those whose first row is before `j`.
            let first = moving.start.max((first_row + 2).saturating_sub(j) / 2);
            let column = &mut self.copy[(j + 1 - start) * size..][..size];
            for index in first..moving.end {
                let (row, Bulge { v, tau }) = (first_row - 2 * index, &self.bulges[index]);
                let end = (row + WIDTH).min(self.block.end);
                reflect_column(&mut column[row - start..end - start], v, *tau);
            }
        }
    }

    /// Multiplies the product by the reflector of a bulge in a step of the pass that began with step `began`.
    #[inline(always)]
    fn collect(&mut self, index: usize, step: usize, began: usize) {
        let (row, start) = (self.row_of(index, step), self.rows.start);
        let width = self.width_at(row);
        // Those rows from where the bulge was in the beginning to where the first one is now; the others are 0.
        let from = self.block.start + began.saturating_sub(2 * index);
        let to = (row + 2 * index + WIDTH).min(self.rows.end);
        let size = self.rows.len();
        let columns = &mut self.change[(row - start) * size..(row - start + width) * size];
        reflect_adjacent(columns, size, from - start..to - start, &self.bulges[index]);
    }
}

/// Applies a reflector from the right to some rows of two or three columns of `size` elements.
#[inline(always)]
fn reflect_adjacent<T: Field>(columns: &mut [T], size: usize, rows: Range<usize>, bulge: &Bulge<T>) {
    let (x, rest) = columns.split_at_mut(size);
    let (y, z) = rest.split_at_mut(size);
    let z = (!z.is_empty()).then(|| &mut z[rows.clone()]);
    reflect_columns(&mut x[rows.clone()], &mut y[rows.clone()], z, &bulge.v, bulge.tau);
}
