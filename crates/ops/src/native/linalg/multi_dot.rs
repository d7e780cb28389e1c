//! `multi_dot` and `chain_matmul`: products of several matrices in the cheapest order.

use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, bail, ensure};

/// The product of several matrices, in the order that takes the fewest multiplications. The first may be a vector, which is a
/// row, and the last, which is a column.
pub fn linalg_multi_dot(tensors: &[Tensor]) -> Result<Tensor> {
    const NAME: &str = "linalg.multi_dot";
    let [first, inside @ .., last] = tensors else {
        bail!(InvalidArgument(NAME, "tensors"), "expected at least 2 tensors but got {}", tensors.len());
    };
    ensure!(
        [first, last].iter().all(|t| matches!(t.dim(), 1 | 2)),
        Shape(NAME, "tensors"),
        "the first and last tensors must be 1D or 2D but got {}D and {}D",
        first.dim(),
        last.dim()
    );
    ensure!(
        inside.iter().all(|t| t.dim() == 2),
        Shape(NAME, "tensors"),
        "tensors between the first and the last must be 2D"
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
        Shape(NAME, "tensors"),
        "tensors cannot be multiplied: their sizes do not match"
    );
    let splits = cheapest_splits(&matrices);
    let product = multiplied(&matrices, &splits, 0, matrices.len() - 1)?;
    let dims: DimVec = [(row, 0), (column, 1)].iter().filter(|(drop, _)| *drop).map(|(_, d)| *d).collect();
    product.squeeze_dims(&dims)
}

/// For each range of matrices, from the first to the last, where to split its product: Cormen et al., Introduction to Algorithms,
/// 15.2.
fn cheapest_splits(matrices: &[Tensor]) -> Vec<Vec<usize>> {
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

/// [`linalg_multi_dot`] of matrices only; a single matrix is returned as it is.
pub fn chain_matmul(matrices: &[Tensor]) -> Result<Tensor> {
    for matrix in matrices {
        ensure!(
            matrix.dim() == 2,
            Shape("chain_matmul", "matrices"),
            "Tensor dimension is {}, expected 2 instead",
            matrix.dim()
        );
    }
    match matrices {
        [] => bail!(InvalidArgument("chain_matmul", "matrices"), "Expecting at least 1 matrix"),
        [only] => Ok(only.clone()),
        several => ops::linalg_multi_dot(several),
    }
}
