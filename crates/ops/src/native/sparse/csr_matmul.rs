//! Products of two matrices in compressed rows, row by row (Gustavson's algorithm): the pattern first, then the values.

use super::arguments::{Pattern, SumElement, check_size, contiguous, indices, parts, ranges, sum_type};
use crate::native::guarded_slices::with_slices;
use crate::native::index::masked_select::refuse_meta;
use crate::parallel::for_each_task;
use crate::structured::TensorSpec;
use crate::vectorized::prefetch_cache_line;
use crate::{Tensor, dispatch_all_types, scratch};
use flambeau_core::{Result, ensure, fallible};
use std::ops::Range;

/// Terms that are worth a task.
const TERMS: usize = 1 << 16;
/// A set of columns is used by rows with at least one term for so many columns: it looks at a word for every 4096 columns.
const TERMS_OF_SET: usize = 1 << 14;
/// Columns up to which each task has a sum for every column.
const MOST_SUMS: usize = 1 << 22;
/// How many positions ahead rows of the second factor are prefetched.
const AHEAD: usize = 4;

/// Pointers and columns, in ascending order, of the product of two patterns, of which the second has `columns` columns.
pub fn csr_matmul_pattern(
    crow1: &Tensor,
    col1: &Tensor,
    crow2: &Tensor,
    col2: &Tensor,
    columns: i64,
) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "_csr_matmul_pattern";
    refuse_meta(NAME, crow1)?;
    check_size(NAME, "columns", columns)?;
    let lists = [crow1, col1, crow2, col2].map(|list| indices(NAME, "indices", list));
    let [crow1, col1, crow2, col2] = lists;
    let (crow1, col1, crow2, col2) = (crow1?, col1?, crow2?, col2?);
    let (pointers, found) = with_slices(NAME, &[&crow1, &col1, &crow2, &col2], &[], |s| {
        let inner = s.read::<i64>(2)?.len() as i64 - 1;
        let first = Pattern::new(NAME, s.read(0)?, s.read(1)?, inner)?;
        let second = Pattern::new(NAME, s.read(2)?, s.read(3)?, columns)?;
        product(&first, &second, columns as usize)
    })?;
    let sizes = [pointers.len() as i64, found.len() as i64];
    Ok((Tensor::from_vec(pointers, &sizes[..1])?, Tensor::from_vec(found, &sizes[1..])?))
}

fn product(first: &Pattern<'_>, second: &Pattern<'_>, columns: usize) -> Result<(Vec<i64>, Vec<i64>)> {
    let before = terms_before(first, second);
    let tasks = rows_by_terms(&before, columns);
    let mut found: Vec<(Vec<i64>, Vec<i64>)> = fallible::filled((vec![], vec![]), tasks.len())?;
    for_each_task(scratch::collect(tasks.into_iter().zip(&mut found)), |(rows, found)| {
        *found = columns_of_rows(first, second, columns, rows, &before);
    });
    let count = found.iter().map(|(_, columns)| columns.len()).sum();
    let mut pointers = fallible::with_capacity(first.rows.len() + 1)?;
    pointers.push(0);
    for (counts, _) in &found {
        for count in counts {
            pointers.push(pointers.last().copied().unwrap_or_default() + count);
        }
    }
    let mut all = fallible::filled(0i64, count)?;
    let mut rest = all.as_mut_slice();
    let copies = found.iter().map(|(_, columns)| {
        let (part, after) = std::mem::take(&mut rest).split_at_mut(columns.len());
        rest = after;
        (part, columns)
    });
    for_each_task(scratch::collect(copies), |(part, columns)| part.copy_from_slice(columns));
    Ok((pointers, all))
}

/// How many terms the rows before each row of the product have.
fn terms_before(first: &Pattern<'_>, second: &Pattern<'_>) -> Vec<usize> {
    let mut before = scratch::with_capacity(first.rows.len() + 1);
    before.push(0usize);
    for row in 0..first.rows.len() {
        let middles = &first.col[first.rows.segment(row)];
        let terms: usize = middles.iter().map(|middle| second.rows.segment(*middle as usize).len()).sum();
        before.push(before[row].saturating_add(terms));
    }
    before
}

/// Rows with so many terms that they are worth a task, and the memory of a task for each column.
fn rows_by_terms(before: &[usize], columns: usize) -> Vec<Range<usize>> {
    let grain = TERMS.max(columns);
    ranges(before.len() - 1, grain, |row| before[row].saturating_add(row))
}

/// How many columns each of some rows has, and which, in ascending order.
fn columns_of_rows(
    first: &Pattern<'_>,
    second: &Pattern<'_>,
    columns: usize,
    rows: Range<usize>,
    before: &[usize],
) -> (Vec<i64>, Vec<i64>) {
    let mut counts = scratch::with_capacity(rows.len());
    let terms = before[rows.end] - before[rows.start];
    let mut found = scratch::with_capacity(terms.min(rows.len().saturating_mul(columns)));
    let mut set = ColumnSet::default();
    for row in rows {
        let start = found.len();
        let is_long = before[row + 1] - before[row] >= columns / TERMS_OF_SET;
        for position in first.rows.segment(row) {
            prefetch(first, second, position, second.col);
            let row = &second.col[second.rows.segment(first.col[position] as usize)];
            if is_long { set.insert_all(row, columns) } else { found.extend_from_slice(row) }
        }
        if is_long {
            set.drain_into(&mut found);
        } else {
            found[start..].sort_unstable();
            keep_distinct(&mut found, start);
        }
        counts.push((found.len() - start) as i64);
    }
    (counts, found)
}

/// Removes equal neighbours from `start` on.
fn keep_distinct(list: &mut Vec<i64>, start: usize) {
    let mut kept = start;
    for at in start..list.len() {
        if at == start || list[at] != list[kept - 1] {
            list[kept] = list[at];
            kept += 1;
        }
    }
    list.truncate(kept);
}

/// A set of columns that lists its members in ascending order without sorting them: a bit for each column, and a bit for each word of them.
#[derive(Default)]
struct ColumnSet {
    words: Vec<u64>,
    is_word_used: Vec<u64>,
}

impl ColumnSet {
    #[inline]
    fn insert_all(&mut self, list: &[i64], columns: usize) {
        if self.words.is_empty() {
            self.words = scratch::filled(0, columns.div_ceil(64));
            self.is_word_used = scratch::filled(0, columns.div_ceil(64 * 64));
        }
        for column in list {
            let word = *column as usize / 64;
            self.words[word] |= 1 << (column % 64);
            self.is_word_used[word / 64] |= 1 << (word % 64);
        }
    }

    /// Appends all columns and removes them from the set.
    fn drain_into(&mut self, list: &mut Vec<i64>) {
        for (at, used) in self.is_word_used.iter_mut().enumerate() {
            while *used != 0 {
                let word = at * 64 + used.trailing_zeros() as usize;
                *used &= *used - 1;
                let mut bits = std::mem::take(&mut self.words[word]);
                while bits != 0 {
                    list.push((word * 64) as i64 + i64::from(bits.trailing_zeros()));
                    bits &= bits - 1;
                }
            }
        }
    }
}

/// Prefetches the row of the second factor that belongs to a later position of the first.
#[inline(always)]
fn prefetch<T>(first: &Pattern<'_>, second: &Pattern<'_>, position: usize, of: &[T]) {
    if let Some(middle) = first.col.get(position + AHEAD) {
        let address = of.as_ptr().wrapping_add(second.rows.segment(*middle as usize).start).cast::<u8>();
        prefetch_cache_line(address);
        prefetch_cache_line(address.wrapping_add(64));
    }
}

/// The product of two matrices in compressed rows at the positions of a third pattern, which has `columns` columns.
#[expect(clippy::too_many_arguments, reason = "three patterns")]
pub fn csr_matmul_values(
    crow1: &Tensor,
    col1: &Tensor,
    values1: &Tensor,
    crow2: &Tensor,
    col2: &Tensor,
    values2: &Tensor,
    crow: &Tensor,
    col: &Tensor,
    columns: i64,
) -> Result<Tensor> {
    const NAME: &str = "_csr_matmul_values";
    check_size(NAME, "columns", columns)?;
    let list = |list: &Tensor| indices(NAME, "indices", list);
    let (crow1, col1, crow2, col2) = (list(crow1)?, list(col1)?, list(crow2)?, list(col2)?);
    let (crow, col) = (list(crow)?, list(col)?);
    ensure!(
        values1.sizes() == col1.sizes()
            && values2.sizes() == col2.sizes()
            && values1.dtype() == values2.dtype()
            && crow.numel() == crow1.numel()
            && crow2.numel() > 0,
        Shape(NAME, "values2"),
        "expected values of one type for {} and {} columns but got {} and {}",
        col1.numel(),
        col2.numel(),
        values1.signature(),
        values2.signature()
    );
    if values1.device().is_meta() {
        return TensorSpec::like(values1, col.sizes()).allocate(NAME);
    }
    let sums = sum_type(NAME, values1.dtype())?;
    let (a, b) = (contiguous(values1, sums)?, contiguous(values2, sums)?);
    let out = TensorSpec::like(&a, col.sizes()).allocate(NAME)?;
    let lists = [&crow1, &col1, &crow2, &col2, &crow, &col, &a, &b];
    dispatch_all_types!(accumulators, sums, NAME, T => {
        with_slices(NAME, &lists, &[&out], |s| {
            let first = Pattern::new(NAME, s.read(0)?, s.read(1)?, crow2.numel() - 1)?;
            let second = Pattern::new(NAME, s.read(2)?, s.read(3)?, columns)?;
            let third = Pattern::new(NAME, s.read(4)?, s.read(5)?, columns)?;
            let values = [s.read::<T>(6)?, s.read::<T>(7)?];
            let product = Product { patterns: [&first, &second, &third], values, columns: columns as usize };
            product.compute(s.write::<T>(0)?);
            Ok(())
        })
    })?;
    contiguous(&out, values1.dtype())
}

/// The factors of a product, and the pattern at whose positions it is computed.
struct Product<'a, T> {
    patterns: [&'a Pattern<'a>; 3],
    values: [&'a [T]; 2],
    columns: usize,
}

impl<T: SumElement> Product<'_, T> {
    fn compute(&self, out: &mut [T]) {
        let [first, second, third] = self.patterns;
        let tasks = rows_by_terms(&terms_before(first, second), self.columns.min(MOST_SUMS));
        let count =
            |rows: &Range<usize>| third.rows.segment(rows.end - 1).end - third.rows.segment(rows.start).start;
        for_each_task(parts(out, tasks, count), |(rows, out)| match self.columns <= MOST_SUMS {
            true => self.rows_by_column(rows, out),
            false => self.rows_by_search(rows, out),
        });
    }

    /// Adds the terms of a row to the sums of their columns. A column that is not in the third pattern has a sum too, which is not read.
    fn rows_by_column(&self, rows: Range<usize>, out: &mut [T]) {
        let third = self.patterns[2];
        let mut sums = scratch::filled(T::ZERO, self.columns);
        let start = third.rows.segment(rows.start).start;
        for row in rows {
            let own = third.rows.segment(row);
            let columns = &third.col[own.clone()];
            columns.iter().for_each(|column| sums[*column as usize] = T::ZERO);
            self.for_each_term(row, |column, term| sums[column] = sums[column].plus(term));
            let out = &mut out[own.start - start..own.end - start];
            out.iter_mut().zip(columns).for_each(|(to, column)| *to = sums[*column as usize]);
        }
    }

    /// Looks up each column among those of the row, where sums of all columns would take too much memory.
    fn rows_by_search(&self, rows: Range<usize>, out: &mut [T]) {
        let third = self.patterns[2];
        let start = third.rows.segment(rows.start).start;
        out.fill(T::ZERO);
        let mut sorted: Vec<(i64, usize)> = Vec::new();
        for row in rows {
            let own = third.rows.segment(row);
            sorted.clear();
            for (column, at) in third.col[own.clone()].iter().zip(own.start - start..) {
                scratch::push(&mut sorted, (*column, at));
            }
            // Nothing is moved where columns ascend, as they do unless they were overwritten.
            sorted.sort_unstable();
            self.for_each_term(row, |column, term| {
                if let Ok(found) = sorted.binary_search_by_key(&(column as i64), |(column, _)| *column) {
                    let sum = &mut out[sorted[found].1];
                    *sum = sum.plus(term);
                }
            });
        }
    }

    #[inline(always)]
    fn for_each_term(&self, row: usize, mut f: impl FnMut(usize, T)) {
        let ([first, second, _], [a, b]) = (self.patterns, self.values);
        for position in first.rows.segment(row) {
            prefetch(first, second, position, second.col);
            prefetch(first, second, position, b);
            let (own, factor) = (second.rows.segment(first.col[position] as usize), a[position]);
            second.col[own.clone()]
                .iter()
                .zip(&b[own])
                .for_each(|(column, x)| f(*column as usize, factor.times(*x)));
        }
    }
}
