//! `cartesian_prod` and `combinations`.

use crate::{Tensor, ops};
use flambeau_core::{Result, ensure};

/// All combinations of one element of each vector, one for each row.
pub fn cartesian_prod(tensors: &[Tensor]) -> Result<Tensor> {
    for tensor in tensors {
        ensure!(
            tensor.dim() == 1,
            Shape("cartesian_prod", "tensors"),
            "Expect a 1D vector, but got shape {:?}",
            tensor.sizes()
        );
    }
    if let [only] = tensors {
        return Ok(only.clone());
    }
    let grids = ops::meshgrid_indexing(tensors, "ij")?;
    let columns = grids.iter().map(Tensor::ravel).collect::<Result<Vec<_>>>()?;
    ops::stack(&columns, 1)
}

/// All combinations of `r` elements in their order, one for each row; with replacement an element may be repeated.
pub fn combinations(self_: &Tensor, r: i64, with_replacement: bool) -> Result<Tensor> {
    ensure!(
        self_.dim() == 1,
        Shape("combinations", "self"),
        "Expect a 1D vector, but got shape {:?}",
        self_.sizes()
    );
    ensure!(r >= 0, InvalidArgument("combinations", "r"), "Expect a non-negative number, but got {r}");
    if r == 0 {
        return self_.new_empty(&[0], ());
    }
    let indices = choices(self_.sizes()[0], r, with_replacement)?;
    let count = indices.len() as i64;
    let indices = Tensor::from_vec(indices, &[count])?.to(self_.device())?;
    self_.index_select(0, &indices)?.view(&[count / r, r])
}

/// The indices of the elements of all combinations, in lexicographic order.
fn choices(n: i64, r: i64, with_replacement: bool) -> Result<Vec<i64>> {
    let last = |position: i64| if with_replacement { n - 1 } else { n - r + position };
    if n == 0 || last(0) < 0 {
        return Ok(vec![]);
    }
    ensure!(r <= i64::from(u16::MAX), Overflow("combinations", "r"), "choices of {r} elements are too many");
    let mut choice: Vec<i64> = (0..r).map(|position| if with_replacement { 0 } else { position }).collect();
    let mut all: Vec<i64> = vec![];
    let count = number_of_choices(if with_replacement { n.saturating_add(r - 1) } else { n }, r);
    let elements = count.and_then(|count| count.checked_mul(choice.len()));
    ensure!(
        elements.is_some_and(|elements| all.try_reserve_exact(elements).is_ok()),
        OutOfMemory("combinations", "r"),
        "the choices of {r} of {n} elements take more than the memory"
    );
    loop {
        all.extend(&choice);
        let Some(position) = (0..choice.len()).rfind(|p| choice[*p] < last(*p as i64)) else {
            return Ok(all);
        };
        let next = choice[position] + 1;
        let follows = |p: usize| if with_replacement { next } else { next + (p - position) as i64 };
        (position..choice.len()).for_each(|p| choice[p] = follows(p));
    }
}

/// The number of choices of `r` of `n` elements, if this can be a size.
fn number_of_choices(n: i64, r: i64) -> Option<usize> {
    let mut count = 1i128;
    for k in 0..i128::from(r.min(n - r)) {
        // The product of `k` such quotients is a binomial coefficient.
        count = count * (i128::from(n) - k) / (k + 1);
        if count > isize::MAX as i128 {
            return None;
        }
    }
    usize::try_from(count).ok()
}
