//! Products of tensors made of other operators: by blocks, by pairs, of vectors in space, and of many matrices.

use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, ScalarType, bail, ensure, shape};

/// Every element of `self_` times the whole of `other`, block beside block.
pub fn kron(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let rank = self_.dim().max(other.dim());
    let padded = |t: &Tensor| -> DimVec {
        std::iter::repeat_n(1, rank - t.dim()).chain(t.sizes().iter().copied()).collect()
    };
    let (a, b) = (padded(self_), padded(other));
    let blocks: DimVec = a.iter().flat_map(|size| [*size, 1]).collect();
    let inside: DimVec = b.iter().flat_map(|size| [1, *size]).collect();
    let both = a.iter().zip(&b).map(|(x, y)| shape::numel(&[*x, *y]));
    let made = both.collect::<Result<DimVec>>().map_err(|e| e.context("kron"))?;
    self_.reshape(&blocks)?.mul(&other.reshape(&inside)?)?.reshape(&made)
}

/// The sum of a matrix's diagonal.
pub fn trace(self_: &Tensor) -> Result<Tensor> {
    ensure!(self_.dim() == 2, Shape, "trace: expected a matrix, but got tensor with dim {}", self_.dim());
    self_.diagonal(0, 0, 1)?.sum()
}

/// Matrices along a diagonal, zeros elsewhere; a vector is a row.
pub fn block_diag(tensors: &[Tensor]) -> Result<Tensor> {
    let mut matrices = vec![];
    for (number, tensor) in tensors.iter().enumerate() {
        ensure!(
            tensor.dim() <= 2,
            Shape,
            "block_diag: Input tensors must have 2 or fewer dimensions. Input {number} has {} dimensions",
            tensor.dim()
        );
        let columns = tensor.sizes().last().copied().unwrap_or(1);
        matrices.push(if tensor.dim() == 2 { tensor.clone() } else { tensor.reshape(&[1, columns])? });
    }
    if matrices.is_empty() {
        return ops::empty_memory_format(&[1, 0], None, None, None, None, None);
    }
    let total: i64 = matrices.iter().map(|m| m.sizes()[1]).sum();
    let mut before = 0;
    for matrix in &mut matrices {
        let columns = matrix.sizes()[1];
        *matrix = ops::constant_pad_nd(matrix, &[before, total - before - columns], 0.into())?;
        before += columns;
    }
    ops::cat(&matrices, 0)
}

/// Every choice of one element of each vector, a row each.
pub fn cartesian_prod(tensors: &[Tensor]) -> Result<Tensor> {
    for tensor in tensors {
        ensure!(
            tensor.dim() == 1,
            Shape,
            "cartesian_prod: Expect a 1D vector, but got shape {:?}",
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

/// Every choice of `r` elements in their order, a row each; with replacement an element may be chosen again.
pub fn combinations(self_: &Tensor, r: i64, with_replacement: bool) -> Result<Tensor> {
    ensure!(self_.dim() == 1, Shape, "combinations: Expect a 1D vector, but got shape {:?}", self_.sizes());
    ensure!(r >= 0, InvalidArgument, "combinations: Expect a non-negative number, but got {r}");
    if r == 0 {
        return self_.new_empty(&[0], ());
    }
    let places = choices(self_.sizes()[0], r, with_replacement)?;
    let count = places.len() as i64;
    let places = Tensor::from_vec(places, &[count])?.to(self_.device())?;
    self_.index_select(0, &places)?.view(&[count / r, r])
}

/// The numbers of the elements of each choice, one choice behind the other.
fn choices(n: i64, r: i64, with_replacement: bool) -> Result<Vec<i64>> {
    let last = |place: i64| if with_replacement { n - 1 } else { n - r + place };
    if n == 0 || last(0) < 0 {
        return Ok(vec![]);
    }
    ensure!(r <= i64::from(u16::MAX), Overflow, "combinations: choices of {r} elements are too many");
    let mut choice: Vec<i64> = (0..r).map(|place| if with_replacement { 0 } else { place }).collect();
    let mut all: Vec<i64> = vec![];
    loop {
        let room = all.try_reserve(choice.len());
        ensure!(
            room.is_ok() && all.len() < 1 << 36,
            OutOfMemory,
            "combinations: {} choices and more",
            all.len()
        );
        all.extend(&choice);
        let Some(place) = (0..choice.len()).rfind(|p| choice[*p] < last(*p as i64)) else { return Ok(all) };
        let next = choice[place] + 1;
        let follows = |p: usize| if with_replacement { next } else { next + (p - place) as i64 };
        (place..choice.len()).for_each(|p| choice[p] = follows(p));
    }
}

/// The vector product along `dim`.
pub fn linalg_cross(self_: &Tensor, other: &Tensor, dim: i64) -> Result<Tensor> {
    const NAME: &str = "linalg.cross";
    ensure!(self_.dim() == other.dim(), Shape, "{NAME}: inputs must have the same number of dimensions.");
    let sizes = |t: &Tensor| t.size(dim).map_err(|e| e.context(NAME));
    let (a, b) = (sizes(self_)?, sizes(other)?);
    ensure!(a == 3 && b == 3, Shape, "{NAME}: inputs dimension {dim} must have length 3. Got {a} and {b}");
    let turned = |t: &Tensor, by: i64| t.roll(&[-by], &[dim]);
    let forth = turned(self_, 1)?.mul(&turned(other, 2)?)?;
    forth.sub(&turned(self_, 2)?.mul(&turned(other, 1)?)?)
}

/// The same along `dim` or the first dimension of size 3.
pub fn cross(self_: &Tensor, other: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    let first = || self_.sizes().iter().position(|size| *size == 3).map(|d| d as i64);
    match dim.or_else(first) {
        Some(dim) => ops::linalg_cross(self_, other, dim),
        None => bail!(Shape, "cross: no dimension of size 3 in input"),
    }
}

/// The sum of products along `dim`.
pub fn linalg_vecdot(x: &Tensor, y: &Tensor, dim: i64) -> Result<Tensor> {
    ensure!(
        x.dtype() == y.dtype() && x.dtype().is_floating_point(),
        Dtype,
        "linalg.vecdot: Expected floating point tensors of the same dtype but got {} and {}",
        x.dtype(),
        y.dtype()
    );
    x.mul(y)?.sum_dim_intlist(Some(&[dim]), false)
}

/// A square matrix times itself `n` times.
pub fn linalg_matrix_power(self_: &Tensor, n: i64) -> Result<Tensor> {
    const NAME: &str = "linalg.matrix_power";
    let &[.., rows, columns] = self_.sizes() else {
        bail!(Shape, "{NAME}: The input tensor A must have at least 2 dimensions.");
    };
    ensure!(
        rows == columns,
        Shape,
        "{NAME}: A must be batches of square matrices, but they are {rows} by {columns} matrices"
    );
    ensure!(n >= 0, NotImplemented, "{NAME}: negative powers need an inverse, which is not implemented");
    if n == 0 {
        let one = ops::eye(rows, Some(self_.dtype()), None, Some(self_.device()), None)?;
        return ops::clone(&one.expand(self_.sizes())?, Some(flambeau_core::MemoryFormat::Contiguous));
    }
    let (mut power, mut made, mut left) = (self_.clone(), None::<Tensor>, n);
    loop {
        if left % 2 == 1 {
            made = Some(match made {
                Some(made) => made.matmul(&power)?,
                None => power.clone(),
            });
        }
        left /= 2;
        match made {
            Some(made) if left == 0 => return if n == 1 { ops::clone(&made, None) } else { Ok(made) },
            _ => power = power.matmul(&power)?,
        }
    }
}

/// As [`linalg_matrix_power`].
pub fn matrix_power(self_: &Tensor, n: i64) -> Result<Tensor> {
    ops::linalg_matrix_power(self_, n)
}

/// The product of many matrices, in the order that takes the fewest multiplications. The first may be a row, the last a
/// column.
pub fn linalg_multi_dot(tensors: &[Tensor]) -> Result<Tensor> {
    const NAME: &str = "linalg.multi_dot";
    let [first, inside @ .., last] = tensors else {
        bail!(InvalidArgument, "{NAME}: expected at least 2 tensors but got {}", tensors.len());
    };
    ensure!(
        [first, last].iter().all(|t| matches!(t.dim(), 1 | 2)),
        Shape,
        "{NAME}: the first and last tensors must be 1D or 2D but got {}D and {}D",
        first.dim(),
        last.dim()
    );
    ensure!(
        inside.iter().all(|t| t.dim() == 2),
        Shape,
        "{NAME}: tensors between the first and the last must be 2D"
    );
    let (row, column) = (first.dim() == 1, last.dim() == 1);
    let mut matrices = tensors.to_vec();
    if row {
        matrices[0] = first.unsqueeze(0)?;
    }
    if let (true, Some(matrix)) = (column, matrices.last_mut()) {
        *matrix = last.unsqueeze(1)?;
    }
    let meets = |pair: &[Tensor]| pair[0].sizes()[1] == pair[1].sizes()[0];
    ensure!(
        matrices.windows(2).all(meets),
        Shape,
        "{NAME}: tensors cannot be multiplied: their sizes do not meet"
    );
    let splits = cheapest(&matrices);
    let product = multiplied(&matrices, &splits, 0, matrices.len() - 1)?;
    let dims: DimVec = [(row, 0), (column, 1)].iter().filter(|(drop, _)| *drop).map(|(_, d)| *d).collect();
    product.squeeze_dims(&dims)
}

/// For each stretch of matrices, from the first to the last of it, where to cut it: Cormen et al., Introduction to
/// Algorithms, 15.2.
fn cheapest(matrices: &[Tensor]) -> Vec<Vec<usize>> {
    let n = matrices.len();
    let size = |i: usize| if i == 0 { matrices[0].sizes()[0] } else { matrices[i - 1].sizes()[1] } as f64;
    let (mut costs, mut splits) = (vec![vec![0.0; n]; n], vec![vec![0; n]; n]);
    for length in 1..n {
        for i in 0..n - length {
            let j = i + length;
            let cost = |k: usize| costs[i][k] + costs[k + 1][j] + size(i) * size(k + 1) * size(j + 1);
            let best = (i..j).map(|k| (cost(k), k)).min_by(|a, b| a.0.total_cmp(&b.0));
            (costs[i][j], splits[i][j]) = best.unwrap_or((0.0, i));
        }
    }
    splits
}

fn multiplied(matrices: &[Tensor], splits: &[Vec<usize>], i: usize, j: usize) -> Result<Tensor> {
    if i == j {
        return Ok(matrices[i].clone());
    }
    let k = splits[i][j];
    multiplied(matrices, splits, i, k)?.mm(&multiplied(matrices, splits, k + 1, j)?)
}

/// As [`linalg_multi_dot`], of matrices only; one is itself.
pub fn chain_matmul(matrices: &[Tensor]) -> Result<Tensor> {
    for matrix in matrices {
        ensure!(
            matrix.dim() == 2,
            Shape,
            "chain_matmul: Tensor dimension is {}, expected 2 instead",
            matrix.dim()
        );
    }
    match matrices {
        [] => bail!(InvalidArgument, "chain_matmul: Expecting at least 1 matrix"),
        [only] => Ok(only.clone()),
        several => ops::linalg_multi_dot(several),
    }
}

/// The columns `x^0, x^1, ...` or, unless `increasing`, in reverse.
pub fn vander(x: &Tensor, n: Option<i64>, increasing: bool) -> Result<Tensor> {
    ensure!(x.dim() == 1, Shape, "vander: x must be a one-dimensional tensor.");
    let columns = n.unwrap_or(x.sizes()[0]);
    ensure!(columns >= 0, InvalidArgument, "vander: N must be non-negative.");
    let powers = powers(x, columns)?;
    if increasing { Ok(powers) } else { powers.flip(&[1]) }
}

/// The same in increasing order, for every vector of a batch.
pub fn linalg_vander(x: &Tensor, n: Option<i64>) -> Result<Tensor> {
    // A number is a vector of one.
    let x = &if x.dim() == 0 { x.reshape(&[1])? } else { x.clone() };
    let columns = n.unwrap_or(x.size(-1)?);
    ensure!(columns > 1, InvalidArgument, "linalg.vander: N must be greater than 1.");
    powers(x, columns)
}

fn powers(x: &Tensor, columns: i64) -> Result<Tensor> {
    let integral = x.dtype().is_integral(true);
    let x = if integral { x.to(ScalarType::I64)? } else { x.clone() };
    let sizes = |last: i64| -> DimVec { x.sizes().iter().copied().chain([last]).collect() };
    if columns == 0 {
        return x.new_empty(&sizes(0), ());
    }
    let ones = x.new_ones(&sizes(1), ())?;
    if columns == 1 {
        return Ok(ones);
    }
    let higher = x.unsqueeze(-1)?.expand(&sizes(columns - 1))?.cumprod(-1)?;
    ops::cat(&[ones, higher], -1)
}
