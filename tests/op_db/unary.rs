//! Formulas of one argument.

use crate::row::{FLOATS, NUMBERS, Row, row};
use flambeau_core::ScalarType;

/// Integers give the default floating point type.
fn float_of(t: ScalarType) -> ScalarType {
    t.to_floating_point(ScalarType::F32)
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    vec![
        row("exp").types(NUMBERS).gives(float_of).unary(-8.0..8.0, &[], f64::exp),
        row("deg2rad").types(NUMBERS).gives(float_of).unary(-400.0..400.0, &[], f64::to_radians),
        row("tanh").types(FLOATS).unary(-9.0..9.0, &[], f64::tanh),
        row("neg").unary(-100.0..100.0, &[], |x| -x).types(FLOATS),
        row("relu").unary(-3.0..3.0, &[], |x| if x.is_nan() { x } else { x.max(0.0) }).types(FLOATS),
    ]
}
