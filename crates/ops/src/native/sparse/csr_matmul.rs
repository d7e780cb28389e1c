//! Products of two matrices in compressed rows, row by row (Gustavson's algorithm): the pattern first, then the values.

use super::arguments::{
    Csr, Pattern, SumElement, check_size, contiguous, copy_parts, indices, parts, ranges, sum_type,
};
use crate::native::guarded_slices::with_slices;
use crate::native::index::masked_select::refuse_meta;
use crate::parallel::for_each_task;
use crate::structured::TensorSpec;
use crate::vectorized::{prefetch_cache_line, with_processor_vectors};
use crate::{Tensor, dispatch_all_types, ops, scratch};
use flambeau_core::{Result, ensure, fallible};
use std::ops::Range;

/// Terms that are worth a task.
const TERMS: usize = 1 << 16;
/// A set of columns is used by rows with at least one term for so many columns: it looks at a word for every 4096 columns.
const TERMS_OF_SET: usize = 1 << 14;
/// Columns up to which each task has a sum for every column.
const MOST_SUMS: usize = 1 << 22;
/// Elements up to which a product is computed in one pass, with room for as many as there are terms.
const MOST_ROOM: usize = 1 << 27;
/// How many positions ahead rows of the second factor are prefetched.
const AHEAD: usize = 4;

/// The product of two matrices, of which the second has `columns` columns. Columns of the product ascend in each row.
pub fn csr_matmul(
    crow1: &Tensor,
    col1: &Tensor,
    values1: &Tensor,
    crow2: &Tensor,
    col2: &Tensor,
    values2: &Tensor,
    columns: i64,
) -> Result<Csr> {
    const NAME: &str = "_csr_matmul";
    refuse_meta(NAME, crow1)?;
    check_size(NAME, "columns", columns)?;
    let list = |list: &Tensor| indices(NAME, "indices", list);
    let (crow1, col1, crow2, col2) = (list(crow1)?, list(col1)?, list(crow2)?, list(col2)?);
    check_factors(NAME, [&col1, values1], [&col2, values2], &crow2)?;
    if columns > MOST_SUMS as i64 {
        return csr_matmul_in_two_passes(&crow1, &col1, values1, &crow2, &col2, values2, columns);
    }
    let dtype = values1.dtype();
    let sums = sum_type(NAME, dtype)?;
    let (a, b) = (contiguous(values1, sums)?, contiguous(values2, sums)?);
    let pointers = TensorSpec::like(&crow1, crow1.sizes()).allocate(NAME)?;
    let made = |count: usize| -> Result<(Tensor, Tensor)> {
        let sizes = [count as i64];
        Ok((TensorSpec::like(&col1, &sizes).allocate(NAME)?, TensorSpec::like(&a, &sizes).allocate(NAME)?))
    };
    let lists = [&crow1, &col1, &a, &crow2, &col2, &b];
    let before = with_slices(NAME, &lists[..5], &[], |s| {
        let first = Pattern::new(NAME, s.read(0)?, s.read(1)?, crow2.numel() - 1)?;
        let second = Pattern::new(NAME, s.read(3)?, s.read(4)?, columns)?;
        Ok(most_before(&first, &second, columns as usize))
    })?;
    let most = before.last().copied().unwrap_or_default();
    if most > MOST_ROOM {
        return csr_matmul_in_two_passes(&crow1, &col1, values1, &crow2, &col2, values2, columns);
    }
    let (col, values) = made(most)?;
    let (col, values) = dispatch_all_types!(accumulators, sums, NAME, T => {
        let used = with_slices(NAME, &lists, &[&pointers, &col, &values], |s| {
            let first = Pattern::new(NAME, s.read(0)?, s.read(1)?, crow2.numel() - 1)?;
            let second = Pattern::new(NAME, s.read(3)?, s.read(4)?, columns)?;
            ensure!(
                before == most_before(&first, &second, columns as usize),
                Busy(NAME),
                "expected patterns that stay as they are during the call"
            );
            let factors = Factors { first, second, values: [s.read::<T>(2)?, s.read::<T>(5)?], columns: columns as usize };
            factors.multiply(&before, (s.write(0)?, s.write(1)?, s.write::<T>(2)?))
        })?;
        let (exact_col, exact_values) = made(used.iter().map(Range::len).sum())?;
        with_slices(NAME, &[&col, &values], &[&exact_col, &exact_values], |s| {
            copy_parts(&used, s.read::<i64>(0)?, s.write(0)?);
            copy_parts(&used, s.read::<T>(1)?, s.write(1)?);
            Ok(())
        })?;
        Ok((exact_col, exact_values))
    })?;
    Ok((pointers, col, contiguous(&values, dtype)?))
}

/// [`csr_matmul`] by its pattern and then its values, which other devices have.
pub fn csr_matmul_in_two_passes(
    crow1: &Tensor,
    col1: &Tensor,
    values1: &Tensor,
    crow2: &Tensor,
    col2: &Tensor,
    values2: &Tensor,
    columns: i64,
) -> Result<Csr> {
    let (crow, col) = ops::_csr_matmul_pattern(crow1, col1, crow2, col2, columns)?;
    let values = ops::_csr_matmul_values(crow1, col1, values1, crow2, col2, values2, &crow, &col, columns)?;
    Ok((crow, col, values))
}

/// Requires values of one type for the columns of both factors, and pointers of the second.
fn check_factors(name: &str, first: [&Tensor; 2], second: [&Tensor; 2], crow2: &Tensor) -> Result<()> {
    let fits = |[col, values]: [&Tensor; 2]| values.sizes() == col.sizes();
    ensure!(
        fits(first) && fits(second) && first[1].dtype() == second[1].dtype() && crow2.numel() > 0,
        Shape(name, "values2"),
        "expected values of one type for {} and {} columns but got {} and {}",
        first[0].numel(),
        second[0].numel(),
        first[1].signature(),
        second[1].signature()
    );
    Ok(())
}

/// How many elements the rows before each row of the product have at most: its terms, or all columns.
fn most_before(first: &Pattern<'_>, second: &Pattern<'_>, columns: usize) -> Vec<usize> {
    let mut before = terms_before(first, second);
    let (mut terms, mut most) = (0, 0usize);
    for end in &mut before {
        most = most.saturating_add((*end - terms).min(columns));
        terms = std::mem::replace(end, most);
    }
    before
}

/// The factors of a product whose pattern is not known.
struct Factors<'a, T> {
    first: Pattern<'a>,
    second: Pattern<'a>,
    values: [&'a [T]; 2],
    columns: usize,
}

impl<T: SumElement> Factors<'_, T> {
    /// Writes the product: its pointers, and the columns and values of each task from where its rows begin by `before`. Returns where
    /// these are.
    fn multiply(
        &self,
        before: &[usize],
        (pointers, col, values): (&mut [i64], &mut [i64], &mut [T]),
    ) -> Result<Vec<Range<usize>>> {
        let tasks = rows_by_terms(before, self.columns);
        let mut lengths = scratch::filled(0, tasks.len());
        let (start, counts) = pointers.split_at_mut(1);
        let most = |rows: &Range<usize>| before[rows.end] - before[rows.start];
        let outputs = parts(col, tasks.clone(), most).into_iter().zip(parts(values, tasks.clone(), most));
        let outputs = outputs.zip(parts(counts, tasks.clone(), Range::len)).zip(&mut lengths);
        for_each_task(scratch::collect(outputs), |((((rows, col), (_, values)), (_, counts)), length)| {
            *length = with_processor_vectors(
                #[inline(always)]
                || self.rows(rows, before, (counts, col, values)),
            );
        });
        start.fill(0);
        let mut sum = 0;
        for count in counts {
            sum += *count;
            *count = sum;
        }
        let starts = tasks.iter().map(|rows| before[rows.start]);
        fallible::collect(starts.zip(lengths).map(|(start, length)| start..start + length))
    }

    /// Some rows of the product, one after the other, and how many elements each has; returns how many all have.
    #[inline(always)]
    fn rows(
        &self,
        rows: Range<usize>,
        before: &[usize],
        (counts, col, values): (&mut [i64], &mut [i64], &mut [T]),
    ) -> usize {
        let (mut sums, mut found) = (scratch::filled(T::ZERO, self.columns), Vec::new());
        let (mut set, mut used) = (ColumnSet::default(), 0);
        for (row, count) in rows.zip(counts) {
            found.clear();
            let is_long = before[row + 1] - before[row] >= self.columns / TERMS_OF_SET;
            for position in self.first.rows.segment(row) {
                prefetch(&self.first, &self.second, position, self.second.col);
                prefetch(&self.first, &self.second, position, self.values[1]);
                let own = self.second.rows.segment(self.first.col[position] as usize);
                let (factor, columns) = (self.values[0][position], &self.second.col[own.clone()]);
                if is_long {
                    set.insert_all(columns, self.columns)
                } else {
                    extend(&mut found, columns)
                }
                for (column, x) in columns.iter().zip(&self.values[1][own]) {
                    let sum = &mut sums[*column as usize];
                    *sum = sum.plus(factor.times(*x));
                }
            }
            if is_long {
                set.drain_into(&mut found);
            } else {
                found.sort_unstable();
                found.dedup();
            }
            let (col, values) = (&mut col[used..used + found.len()], &mut values[used..used + found.len()]);
            col.copy_from_slice(&found);
            for (value, column) in values.iter_mut().zip(&found) {
                *value = std::mem::replace(&mut sums[*column as usize], T::ZERO);
            }
            *count = found.len() as i64;
            used += found.len();
        }
        used
    }
}

/// Appends a list to another.
fn extend(list: &mut Vec<i64>, more: &[i64]) {
    more.iter().for_each(|column| scratch::push(list, *column));
}

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
    #[inline(always)]
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
    #[inline(always)]
    fn drain_into(&mut self, list: &mut Vec<i64>) {
        for (at, used) in self.is_word_used.iter_mut().enumerate() {
            while *used != 0 {
                let word = at * 64 + used.trailing_zeros() as usize;
                *used &= *used - 1;
                let mut bits = std::mem::take(&mut self.words[word]);
                while bits != 0 {
                    scratch::push(list, (word * 64) as i64 + i64::from(bits.trailing_zeros()));
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
    check_factors(NAME, [&col1, values1], [&col2, values2], &crow2)?;
    ensure!(
        crow.numel() == crow1.numel(),
        Shape(NAME, "crow"),
        "expected pointers of {} rows but got {}",
        crow1.numel() - 1,
        crow.numel()
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
