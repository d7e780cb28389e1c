//! `matrix_power`, by repeated squaring.

use crate::{Tensor, ops};
use flambeau_core::{MemoryFormat, Result, bail, ensure};

/// The `n`-th power of a square matrix.
pub fn linalg_matrix_power(self_: &Tensor, n: i64) -> Result<Tensor> {
    const NAME: &str = "linalg.matrix_power";
    let &[.., rows, columns] = self_.sizes() else {
        bail!(Shape(NAME, "self"), "The input tensor A must have at least 2 dimensions.");
    };
    ensure!(
        rows == columns,
        Shape(NAME, "self"),
        "A must be batches of square matrices, but they are {rows} by {columns} matrices"
    );
    if n < 0 {
        let inverse = ops::linalg_inv(self_)?;
        return match n.checked_neg() {
            Some(1) => Ok(inverse),
            Some(magnitude) => linalg_matrix_power(&inverse, magnitude),
            None => bail!(Overflow(NAME, "n"), "expected an exponent above -2^63 but got {n}"),
        };
    }
    if n == 0 {
        let one = ops::eye(rows, Some(self_.dtype()), None, Some(self_.device()), None)?;
        return ops::clone(&one.expand(self_.sizes())?, Some(MemoryFormat::Contiguous));
    }
    let (mut power, mut result, mut left) = (self_.clone(), None::<Tensor>, n);
    loop {
        if left % 2 == 1 {
            result = Some(match result {
                Some(result) => result.matmul(&power)?,
                None => power.clone(),
            });
        }
        left /= 2;
        match result {
            Some(result) if left == 0 => return if n == 1 { ops::clone(&result, None) } else { Ok(result) },
            _ => power = power.matmul(&power)?,
        }
    }
}

/// As [`linalg_matrix_power`].
pub fn matrix_power(self_: &Tensor, n: i64) -> Result<Tensor> {
    ops::linalg_matrix_power(self_, n)
}
