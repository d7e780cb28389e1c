//! What margin losses of classes have in common: by how much the score of another class exceeds that of the target class, less a margin.

use crate::Tensor;
use flambeau_core::{Result, ensure};

/// Samples by classes: a vector is one sample, a scalar one sample of one class.
pub(super) fn rows(name: &str, self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() <= 2 && self_.sizes().last() != Some(&0),
        Shape(name, "self"),
        "Expected non-empty vector or matrix with optional 0-dim batch size, but got: {:?}",
        self_.sizes()
    );
    ensure!(
        self_.is_floating_point(),
        NotImplemented,
        operator = name,
        argument = "self",
        "\"{name}\" not implemented for '{}'",
        self_.dtype()
    );
    if self_.dim() == 2 { Ok(self_.clone()) } else { self_.reshape(&[1, -1]) }
}
