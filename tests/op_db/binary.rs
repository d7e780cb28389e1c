//! Formulas of two arguments that broadcast.

use crate::array::Array;
use crate::row::{FLOATS, Row, number, row};
use flambeau_core::ErrorKind;

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    let wide = || [-50.0..50.0, -50.0..50.0];
    vec![
        row("add.Tensor").binary(wide(), &[number(2)], |a, b| a + 2.0 * b).types(FLOATS).refuses(
            vec![Array::fill(&[3], 0.0..1.0, 0).into(), Array::fill(&[4], 0.0..1.0, 1).into(), number(1)],
            ErrorKind::Shape,
            "add.Tensor",
        ),
        row("sub.Tensor").binary(wide(), &[number(1)], |a, b| a - b).types(FLOATS),
        row("mul.Tensor").binary(wide(), &[], |a, b| a * b).types(FLOATS),
        row("div.Tensor").binary([-50.0..50.0, 0.5..9.0], &[], |a, b| a / b).types(FLOATS),
    ]
}
