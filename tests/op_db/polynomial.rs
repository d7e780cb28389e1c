//! Orthogonal polynomials, of tensors and of numbers, against values of 40 digits.

use super::special_table::{edges, entries, of_list, two, value};
use crate::row::{FLOATS, Row, number, row};

const POINTS: [f64; 9] = [-2.5, -1.0, -0.75, -0.25, 0.125, 0.5, 1.0, 1.5, 3.0];
const ORDERS: [f64; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 7.0];

/// Rules, not formulas: order 0 is 1 and below it 0, an order is cut to a whole number, and what is not a number stays so.
const RULES: &[[f64; 3]] = &[
    [f64::NAN, 2.0, f64::NAN],
    [0.5, f64::NAN, f64::NAN],
    [0.5, -1.0, 0.0],
    [0.5, -0.5, 1.0],
    [0.5, 0.75, 1.0],
    [2.0, f64::INFINITY, f64::NAN],
];

/// The forms of one: of two tensors, of a number, and of one order. Values are sums of terms as large as the largest of them.
fn forms([tensors, of_number, of_order]: [&'static str; 3]) -> Vec<Row> {
    let (a, b) = (entries(tensors), entries(tensors));
    let bounded = |mut row: Row| {
        // The table has no edges: those are in rows of their own.
        row.pointwise = false;
        row.types(FLOATS).ulps(8.0).terms(8.0).not_differentiable()
    };
    vec![
        bounded(two(tensors, &POINTS, &ORDERS)),
        edges(tensors, RULES),
        bounded(
            row(of_number).unary_of(of_list(ORDERS.to_vec()), &[number(1.5)], move |n| value(&a, &[1.5, n])),
        )
        .arranged(&[1, 0]),
        bounded(
            row(of_order).unary_of(of_list(POINTS.to_vec()), &[number(3)], move |x| value(&b, &[x, 3.0])),
        ),
    ]
}

/// The names of the forms of one.
macro_rules! names {
    ($($name:literal)*) => {
        [$([concat!("special_", $name), concat!("special_", $name, ".x_scalar"), concat!("special_", $name, ".n_scalar")]),*]
    };
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    let all = names! {
        "chebyshev_polynomial_t" "chebyshev_polynomial_u" "chebyshev_polynomial_v" "chebyshev_polynomial_w"
        "shifted_chebyshev_polynomial_t" "shifted_chebyshev_polynomial_u" "shifted_chebyshev_polynomial_v"
        "shifted_chebyshev_polynomial_w" "hermite_polynomial_h" "hermite_polynomial_he" "laguerre_polynomial_l"
        "legendre_polynomial_p"
    };
    all.into_iter().flat_map(forms).collect()
}
