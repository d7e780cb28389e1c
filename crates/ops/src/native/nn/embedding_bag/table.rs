//! Sums and maxima of some rows of a table.

use crate::loops::streaming::prefetch_bytes;
use crate::native::nn::pooling::PoolElement;
use crate::scratch;
use crate::vectorized::{convert_elements, with_processor_vectors};
use half::{bf16, f16};

/// Rows that are added to one another before they are added to the sums, which so are read and written once for all of them.
pub(super) const GROUP: usize = 4;
/// Up to so many columns have sums in registers.
pub(super) const MAX_NARROW: usize = 8;
/// Columns whose maxima are compared before any of them is replaced.
const STRIP: usize = 32;
/// How many rows ahead elements are prefetched.
const AHEAD: usize = 8;
/// The size in bytes of tables that stay in the cache, whose rows are not prefetched.
const CACHED: usize = 1 << 20;

/// An element of a table: rows of it are added in the type of the sums.
pub(super) trait BagElement: PoolElement {
    /// The elements as terms of sums: they themselves, or converted in `buffer`, which is as long. Mark it `#[inline(always)]`.
    fn as_terms<'a>(row: &'a [Self], buffer: &'a mut [Self::Sum]) -> &'a [Self::Sum];
    /// Writes sums.
    fn write(sums: &[Self::Sum], to: &mut [Self]);
}

macro_rules! bag_elements {
    ($($type:ident, $row:ident, $buffer:ident => $terms:expr;)*) => {$(
        impl BagElement for $type {
            #[inline(always)]
            fn as_terms<'a>($row: &'a [Self], $buffer: &'a mut [Self::Sum]) -> &'a [Self::Sum] {
                $terms
            }
            fn write(sums: &[Self::Sum], to: &mut [Self]) {
                convert_elements(sums, to);
            }
        }
    )*};
}

bag_elements! {
    f32, row, _buffer => row;
    f64, row, _buffer => row;
    f16, row, buffer => {
        convert_elements(row, buffer);
        buffer
    };
    bf16, row, buffer => {
        // A loop, which is compiled for the vectors of the processor where it is called.
        for (to, x) in buffer.iter_mut().zip(row) {
            *to = f32::from_bits(u32::from(x.to_bits()) << 16);
        }
        buffer
    };
}

/// The elements of the table.
pub(super) struct Table<'a, T> {
    pub(super) elements: &'a [T],
    /// Of rows and of columns.
    pub(super) strides: [usize; 2],
}

/// Rows of a table, given by their indices, and the factors by which they are multiplied.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a, T> {
    pub(super) indices: &'a [i64],
    pub(super) weights: Option<&'a [T]>,
}

impl<T: BagElement> Table<'_, T> {
    pub(super) fn at(&self, row: usize, column: usize) -> T {
        self.elements[row * self.strides[0] + column * self.strides[1]]
    }

    /// The columns from number `first` on.
    pub(super) fn columns_from(&self, first: usize) -> Self {
        let elements = self.elements.get(first * self.strides[1]..).unwrap_or_default();
        Table { elements, strides: self.strides }
    }

    /// Writes the sums of the columns of `rows`, one or more. `buffers` has as many elements for each row of a [`GROUP`]. It is inlined where
    /// the instruction set is known.
    #[inline(always)]
    pub(super) fn add_up(&self, rows: Rows<'_, T>, buffers: &mut [T::Sum], sums: &mut [T::Sum]) {
        match sums.len() {
            1 => self.add_up_narrow::<1>(rows, sums),
            2 => self.add_up_narrow::<2>(rows, sums),
            3 => self.add_up_narrow::<3>(rows, sums),
            4 => self.add_up_narrow::<4>(rows, sums),
            5 => self.add_up_narrow::<5>(rows, sums),
            6 => self.add_up_narrow::<6>(rows, sums),
            7 => self.add_up_narrow::<7>(rows, sums),
            8 => self.add_up_narrow::<8>(rows, sums),
            _ => self.add_up_wide(rows, buffers, sums),
        }
    }

    /// Writes the indices of the rows in which the maxima of the columns are, one or more: the first of equal ones, or 0 if there are no
    /// rows. `best` is overwritten.
    pub(super) fn find_maxima(&self, rows: &[i64], best: &mut [T::Sum], found: &mut [i64]) {
        let Some((first, others)) = rows.split_first() else {
            return found.fill(0);
        };
        match found.len() {
            1 => self.find_narrow::<1>(*first, others, found),
            2 => self.find_narrow::<2>(*first, others, found),
            3 => self.find_narrow::<3>(*first, others, found),
            4 => self.find_narrow::<4>(*first, others, found),
            5 => self.find_narrow::<5>(*first, others, found),
            6 => self.find_narrow::<6>(*first, others, found),
            7 => self.find_narrow::<7>(*first, others, found),
            8 => self.find_narrow::<8>(*first, others, found),
            _ => self.find_wide(*first, others, best, found),
        }
    }

    /// A row of `N` elements.
    #[inline(always)]
    fn load<const N: usize>(&self, row: i64) -> [T::Sum; N] {
        let row = &self.elements[row as usize * self.strides[0]..];
        match self.strides[1] {
            1 => {
                let row = &row[..N];
                std::array::from_fn(|column| row[column].widen())
            }
            step => std::array::from_fn(|column| row[column * step].widen()),
        }
    }

    /// The elements of a row from its first to its last, `step` apart.
    #[inline(always)]
    fn row(&self, row: i64, width: usize, step: usize) -> &[T] {
        &self.elements[row as usize * self.strides[0]..][..(width - 1) * step + 1]
    }

    /// [`add_up`](Self::add_up) of `N` columns, whose sums stay in registers.
    #[inline(always)]
    fn add_up_narrow<const N: usize>(&self, rows: Rows<'_, T>, to: &mut [T::Sum]) {
        let count = rows.indices.len();
        let (mut sums, whole) = ([T::ZERO; N], count - count % GROUP);
        for k in (0..whole).step_by(GROUP) {
            let [a, b, c, d] = [k, k + 1, k + 2, k + 3].map(
                #[inline(always)]
                |k| self.term::<N>(rows, k),
            );
            sums = added::<T, N>(sums, added::<T, N>(added::<T, N>(a, b), added::<T, N>(c, d)));
        }
        for k in whole..count {
            sums = added::<T, N>(sums, self.term::<N>(rows, k));
        }
        to.copy_from_slice(&sums);
    }

    /// Row number `k` of some, of `N` elements, times its factor.
    #[inline(always)]
    fn term<const N: usize>(&self, rows: Rows<'_, T>, k: usize) -> [T::Sum; N] {
        let mut x = self.load::<N>(rows.indices[k]);
        if let Some(weights) = rows.weights {
            let weight = weights[k].widen();
            x.iter_mut().for_each(|x| *x = *x * weight);
        }
        x
    }

    /// The elements of a row as terms of sums. Strided ones are copied to `buffer`.
    #[inline(always)]
    fn terms<'a>(&'a self, row: i64, buffer: &'a mut [T::Sum]) -> &'a [T::Sum] {
        let (width, step) = (buffer.len(), self.strides[1]);
        let row = self.row(row, width, step);
        if step == 1 {
            return T::as_terms(row, buffer);
        }
        for (column, to) in buffer.iter_mut().enumerate() {
            *to = row[column * step].widen();
        }
        buffer
    }

    /// [`add_up`](Self::add_up) of any number of columns.
    #[inline(always)]
    fn add_up_wide(&self, rows: Rows<'_, T>, buffers: &mut [T::Sum], sums: &mut [T::Sum]) {
        let (count, width) = (rows.indices.len(), sums.len());
        let (first, rest) = buffers.split_at_mut(width);
        let (second, rest) = rest.split_at_mut(width);
        let (third, rest) = rest.split_at_mut(width);
        let fourth = &mut rest[..width];
        sums.fill(T::ZERO);
        let whole = count - count % GROUP;
        for k in (0..whole).step_by(GROUP) {
            self.prefetch_rows(rows.indices, k, width * self.strides[1]);
            let at = |i: usize| rows.indices[k + i];
            let (a, b) = (self.terms(at(0), first), self.terms(at(1), second));
            let (c, d) = (self.terms(at(2), third), self.terms(at(3), fourth));
            let terms = sums.iter_mut().zip(a).zip(b).zip(c).zip(d);
            match rows.weights {
                None => {
                    for ((((sum, a), b), c), d) in terms {
                        *sum = T::add(*sum, T::add(T::add(*a, *b), T::add(*c, *d)));
                    }
                }
                Some(weights) => {
                    let [e, f, g, h] = [k, k + 1, k + 2, k + 3].map(|k| weights[k].widen());
                    for ((((sum, a), b), c), d) in terms {
                        *sum = T::add(*sum, T::add(T::add(*a * e, *b * f), T::add(*c * g, *d * h)));
                    }
                }
            }
        }
        for k in whole..count {
            let terms = sums.iter_mut().zip(self.terms(rows.indices[k], first));
            match rows.weights {
                None => terms.for_each(|(sum, x)| *sum = T::add(*sum, *x)),
                Some(weights) => {
                    let weight = weights[k].widen();
                    terms.for_each(|(sum, x)| *sum = T::add(*sum, *x * weight));
                }
            }
        }
    }

    /// Prefetches the rows that are added some groups after the one at `k`.
    #[inline(always)]
    fn prefetch_rows(&self, indices: &[i64], k: usize, span: usize) {
        if size_of_val(self.elements) <= CACHED {
            return;
        }
        if let Some(later) = indices.get(k + AHEAD..k + AHEAD + GROUP) {
            for index in later {
                let first = self.elements.as_ptr().wrapping_add(*index as usize * self.strides[0]);
                prefetch_bytes(first.cast(), span * size_of::<T>());
            }
        }
    }

    /// [`find_maxima`](Self::find_maxima) of `N` columns.
    fn find_narrow<const N: usize>(&self, first: i64, others: &[i64], to: &mut [i64]) {
        let (mut best, mut found) = (self.load::<N>(first), [first; N]);
        for &row in others {
            let x = self.load::<N>(row);
            if (0..N).fold(false, |any, column| any | (x[column] > best[column])) {
                for column in 0..N {
                    let is_better = x[column] > best[column];
                    found[column] = if is_better { row } else { found[column] };
                    best[column] = if is_better { x[column] } else { best[column] };
                }
            }
        }
        to.copy_from_slice(&found);
    }

    /// [`find_maxima`](Self::find_maxima) of any number of columns.
    fn find_wide(&self, first: i64, others: &[i64], best: &mut [T::Sum], found: &mut [i64]) {
        let (width, step) = (found.len(), self.strides[1]);
        let row = |index: i64| self.row(index, width, step);
        for (column, best) in best.iter_mut().enumerate() {
            *best = row(first)[column * step].widen();
        }
        found.fill(first);
        if step == 1 {
            return with_processor_vectors(
                #[inline(always)]
                || others.iter().for_each(|&index| raise(best, found, index, row(index))),
            );
        }
        let mut dense = scratch::with_capacity(width);
        for &index in others {
            let row = row(index);
            dense.clear();
            dense.extend((0..width).map(|column| row[column * step]));
            raise(best, found, index, &dense);
        }
    }
}

/// The sums of two rows.
#[inline(always)]
fn added<T: BagElement, const N: usize>(mut a: [T::Sum; N], b: [T::Sum; N]) -> [T::Sum; N] {
    for (a, b) in a.iter_mut().zip(b) {
        *a = T::add(*a, b);
    }
    a
}

/// Replaces the maxima that are less than the elements of row number `index`.
#[inline(always)]
fn raise<T: PoolElement>(best: &mut [T::Sum], found: &mut [i64], index: i64, row: &[T]) {
    let strips = best.chunks_mut(STRIP).zip(found.chunks_mut(STRIP)).zip(row.chunks(STRIP));
    for ((best, found), x) in strips {
        // Few rows have a new maximum, so that this branch is predictable.
        if best.iter().zip(x).fold(false, |any, (best, x)| any | (x.widen() > *best)) {
            for ((best, found), x) in best.iter_mut().zip(found).zip(x) {
                let x = x.widen();
                if x > *best {
                    (*best, *found) = (x, index);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums in the order in which groups are added, of numbers that are exact.
    fn plain(table: &Table<'_, f32>, rows: Rows<'_, f32>, column: usize) -> f32 {
        let weight = |k: usize| rows.weights.map_or(1.0, |weights| weights[k]);
        (0..rows.indices.len()).map(|k| table.at(rows.indices[k] as usize, column) * weight(k)).sum()
    }

    #[test]
    fn sums_and_maxima_of_any_layout() {
        let elements: Vec<f32> = (0..40 * 40).map(|i| (i * 7 % 101) as f32 - 50.0).collect();
        let indices: Vec<i64> = (0..23).map(|i| i * 5 % 40).collect();
        let weights: Vec<f32> = (0..23).map(|i| (i % 5) as f32 - 2.0).collect();
        for (width, strides) in [(1, [40, 1]), (3, [40, 1]), (8, [1, 40]), (37, [40, 1]), (37, [1, 40])] {
            let table = Table { elements: &elements, strides };
            for weights in [None, Some(&weights[..])] {
                let rows = Rows { indices: &indices, weights };
                let (mut sums, mut buffers) = (vec![f32::NAN; width], vec![0.0; width * GROUP]);
                table.add_up(rows, &mut buffers, &mut sums);
                let expected: Vec<f32> = (0..width).map(|column| plain(&table, rows, column)).collect();
                assert_eq!(sums, expected, "{width} columns of strides {strides:?}");
            }
            let (mut best, mut found) = (vec![0.0; width], vec![-1; width]);
            table.find_maxima(&indices, &mut best, &mut found);
            for (column, found) in found.iter().enumerate() {
                let at = |row: i64| table.at(row as usize, column);
                let first = indices.iter().copied().reduce(|a, b| if at(b) > at(a) { b } else { a });
                assert_eq!(Some(*found), first);
            }
        }
    }
}
