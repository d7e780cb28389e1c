//! `hash_tensor`: the exclusive or of bits.

use super::reduce::{Make, SEVERAL, counted, folded};
use crate::array::Array;
use crate::row::{Arg, Row, ints, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{self, BF16, Bool, Complex64, F16, F32, F64, I8, I16, I32, I64, U8, U64};

const INTEGERS: &[ScalarType] = &[U8, I8, I16, I32, I64];
const FLOATS: &[ScalarType] = &[F16, BF16, F32, F64];

/// Powers of two of either sign, whose bits, and exclusive ors of them, are numbers that f64 holds.
fn powers(sizes: &[usize], seed: u64) -> Array {
    Array::fill(sizes, -6.0..6.0, seed).map(|x| x.signum() * x.abs().round().exp2())
}

fn zeros_and_ones(sizes: &[usize], seed: u64) -> Array {
    counted(sizes, seed).map(|x| f64::from(x > 1.0))
}

fn of_integers(x: &[f64]) -> f64 {
    x.iter().fold(0, |hash, x| hash ^ *x as u64) as f64
}

fn of_floats(x: &[f64]) -> f64 {
    x.iter().fold(0, |hash, x| hash ^ x.to_bits()) as f64
}

fn along(types: &'static [ScalarType], make: Make, hash: fn(&[f64]) -> f64) -> Row {
    let start = row("hash_tensor").types(types).gives(|_| U64).ulps(0.0).not_differentiable();
    let sample = |row: Row, ((sizes, dims), seed): (&(&[usize], &[i64]), u64)| {
        row.sample(vec![make(sizes, seed).into(), ints(dims), (seed % 2 == 0).into(), 0i64.into()])
    };
    SEVERAL
        .iter()
        .zip(0..)
        .fold(start, sample)
        .reference(move |a| vec![folded(a[0].array(), &a[1], a[2].flag(), hash)])
}

fn call(x: Arg, dims: &[i64], mode: i64) -> Vec<Arg> {
    vec![x, ints(dims), false.into(), mode.into()]
}

pub(super) fn rows() -> Vec<Row> {
    let some = || Arg::from(counted(&[2, 3], 0));
    let complex = Arg::Typed(counted(&[3], 0), Complex64);
    vec![
        along(INTEGERS, counted, of_integers)
            .refuses(call(some(), &[], 1), ErrorKind::InvalidArgument, "expected 0, the exclusive or")
            .refuses(call(some(), &[2], 0), ErrorKind::Index, "dimension out of range")
            .refuses(call(counted(&[0, 3], 0).into(), &[], 0), ErrorKind::Shape, "non-zero size"),
        along(&[Bool], zeros_and_ones, of_integers),
        along(FLOATS, powers, of_floats).refuses(call(complex, &[], 0), ErrorKind::Dtype, "real elements"),
    ]
}
