//! Products of two matrices in compressed rows, row by row (Gustavson's algorithm): the pattern first, then the values.

use super::arguments::{Pattern, SumElement, contiguous, indices, sum_type};
use crate::native::guarded_slices::with_slices;
use crate::native::index::masked_select::refuse_meta;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, scratch};
use flambeau_core::{Result, ensure, fallible};

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
    let mut pointers = fallible::with_capacity(first.rows.len() + 1)?;
    let mut found: Vec<i64> = Vec::new();
    // The last row in which a column was found.
    let mut seen = fallible::filled(usize::MAX, columns)?;
    pointers.push(0);
    for row in 0..first.rows.len() {
        let start = found.len();
        for middle in &first.col[first.rows.segment(row)] {
            for column in &second.col[second.rows.segment(*middle as usize)] {
                if std::mem::replace(&mut seen[*column as usize], row) != row {
                    fallible::push(&mut found, *column)?;
                }
            }
        }
        found[start..].sort_unstable();
        pointers.push(found.len() as i64);
    }
    Ok((pointers, found))
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
            multiply([&first, &second, &third], values, columns as usize, s.write::<T>(0)?);
            Ok(())
        })
    })?;
    contiguous(&out, values1.dtype())
}

/// No position of the third pattern is in this column of the present row.
const ABSENT: usize = usize::MAX;

fn multiply<T: SumElement>(
    [first, second, third]: [&Pattern<'_>; 3],
    [a, b]: [&[T]; 2],
    columns: usize,
    out: &mut [T],
) {
    out.fill(T::ZERO);
    let mut positions = scratch::filled(ABSENT, columns);
    for row in 0..third.rows.len() {
        let own = third.rows.segment(row);
        own.clone().for_each(|position| positions[third.col[position] as usize] = position);
        for at in first.rows.segment(row) {
            for other in second.rows.segment(first.col[at] as usize) {
                if let Some(sum) = out.get_mut(positions[second.col[other] as usize]) {
                    *sum = sum.plus(a[at].times(b[other]));
                }
            }
        }
        own.for_each(|position| positions[third.col[position] as usize] = ABSENT);
    }
}
