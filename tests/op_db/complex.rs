//! Views of complex numbers and operators that make them. The reference has the parts of a complex result as a last dimension. Operators on
//! complex numbers are tested in `tests/complex`.

use crate::array::Array;
use crate::row::{ALL, Arg, Check, Row, WIDE_FLOATS, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{self, Complex64, Complex128, F32};

fn some(sizes: &[usize], seed: u64) -> Array {
    Array::fill(sizes, -3.0..3.0, seed)
}

/// Real numbers as a complex tensor.
fn complex(sizes: &[usize]) -> Arg {
    Arg::Typed(some(sizes, sizes.len() as u64), Complex64)
}

/// The parts of the results of a formula of two arrays that broadcast.
fn parts(a: &Array, b: &Array, f: impl Fn(f64, f64) -> [f64; 2]) -> Array {
    let (re, im) = (a.zip(b, |a, b| f(a, b)[0]), a.zip(b, |a, b| f(a, b)[1]));
    let pairs = re.data.iter().zip(&im.data).flat_map(|(re, im)| [*re, *im]).collect();
    Array::new(&[&re.sizes[..], &[2]].concat(), pairs)
}

fn to_complex(dtype: ScalarType) -> ScalarType {
    dtype.to_complex()
}

/// Derivatives of complex results need differences along both parts.
fn without_derivatives(row: Row) -> Row {
    let reason = "tests/complex compares the derivatives by both parts";
    [Check::Gradients, Check::SecondGradients, Check::Tangents]
        .into_iter()
        .fold(row, |row, check| row.skip(check, reason))
}

/// A view of a complex tensor, whose imaginary parts are 0 here.
fn of_complex(name: &'static str, f: fn(&Array) -> Array) -> Row {
    let samples = [&[][..], &[5], &[2, 3], &[0, 2]].map(|sizes| vec![complex(sizes)]);
    let row = samples.into_iter().fold(row(name).types(&[F32]).ulps(0.0), Row::sample);
    without_derivatives(row.reference(move |a| vec![f(a[0].array())]))
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    let pair = |sizes: [&[usize]; 2]| vec![some(sizes[0], 1).into(), some(sizes[1], 2).into()];
    let of_parts = |name: &'static str| {
        [[&[][..], &[]], [&[5], &[5]], [&[3, 1], &[4]], [&[0], &[1]]]
            .into_iter()
            .fold(row(name).types(WIDE_FLOATS).gives(to_complex), |row, sizes| row.sample(pair(sizes)))
    };
    vec![
        row("_conj_physical").types(ALL).ulps(0.0).unary(-9.0..9.0, &[], |x| x),
        row("real").types(ALL).ulps(0.0).unary(-9.0..9.0, &[], |x| x),
        of_complex("imag", |a| a.map(|_| 0.0)).refuses(
            vec![some(&[2], 0).into()],
            ErrorKind::Dtype,
            "non-complex dtypes",
        ),
        of_complex("view_as_real", |a| parts(a, a, |x, _| [x, 0.0])).refuses(
            vec![some(&[2], 0).into()],
            ErrorKind::Dtype,
            "only supported for complex tensors",
        ),
        without_derivatives(
            [&[2][..], &[3, 2], &[2, 0, 2]]
                .into_iter()
                .fold(row("view_as_complex").types(WIDE_FLOATS).gives(to_complex), |row, sizes| {
                    row.sample(vec![some(sizes, 3).into()])
                })
                .ulps(0.0)
                .reference(|a| vec![a[0].array().clone()])
                .skip(
                    Check::Layouts,
                    "the last dimension has stride 1, and offset and other strides are even",
                )
                .refuses(vec![some(&[3], 0).into()], ErrorKind::Shape, "last dimension of size 2"),
        ),
        without_derivatives(
            of_parts("complex")
                .ulps(0.0)
                .reference(|a| vec![parts(a[0].array(), a[1].array(), |re, im| [re, im])])
                .refuses(
                    vec![some(&[2], 0).into(), Arg::Typed(some(&[2], 0), Complex128)],
                    ErrorKind::Dtype,
                    "Expected both inputs to be Half, Float or Double tensors",
                ),
        ),
        without_derivatives(of_parts("polar").ulps(3.0).reference(|a| {
            vec![parts(a[0].array(), a[1].array(), |abs, angle| [abs * angle.cos(), abs * angle.sin()])]
        })),
    ]
}
