//! Results large enough for non-temporal stores, against the same calls on pieces, which are not: equal to the bit.

use crate::support::values;
use flambeau_core::{MemoryFormat, Result, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops, parallel};

const ONE: Scalar = Scalar::Int(1);
/// Rows and columns: more than 32 MiB, which are always written by non-temporal stores, and no multiple of a cache line.
const SIZES: [i64; 2] = [4219, 2051];
const PIECE: i64 = 109;

fn matrix(sizes: [i64; 2], dtype: ScalarType) -> Result<Tensor> {
    let number = |i: i64| ((i * 7919 % 10_007) as f64 - 5000.0) / 1250.0;
    let made = Tensor::from_vec((0..sizes[0] * sizes[1]).map(number).collect::<Vec<f64>>(), &sizes)?;
    ops::to_dtype(&made, dtype, false, false, None)
}

/// Compares `f` of whole tensors with `f` of their rows, some at a time.
fn check(name: &str, inputs: &[&Tensor], f: impl Fn(&[Tensor]) -> Result<Tensor>) -> Result<()> {
    let rows = inputs[0].sizes()[0];
    let cut = |start: i64, n: i64| {
        let piece =
            |t: &&Tensor| if t.sizes()[0] == rows { ops::narrow(t, 0, start, n) } else { Ok((*t).clone()) };
        inputs.iter().map(piece).collect::<Result<Vec<_>>>()
    };
    for threads in [1, 2] {
        parallel::set_num_threads(threads);
        let whole = f(&cut(0, rows)?)?;
        assert!(whole.numel() as usize * whole.dtype().size() >= 32 << 20, "{name} is not large");
        let bits = |t: &Tensor| values(t).into_iter().map(f64::to_bits).collect::<Vec<_>>();
        for start in (0..rows).step_by(10 * PIECE as usize) {
            let n = PIECE.min(rows - start);
            let (expected, got) = (f(&cut(start, n)?)?, ops::narrow(&whole, 0, start, n)?);
            assert!(bits(&got) == bits(&expected), "{name}, rows from {start} on, {threads} threads");
        }
    }
    parallel::set_num_threads(1);
    Ok(())
}

#[test]
fn elements_and_copies() -> Result<()> {
    let (x, y) = (matrix(SIZES, ScalarType::F32)?, matrix([SIZES[1], SIZES[0]], ScalarType::F32)?);
    let row = ops::clone(&ops::narrow(&x, 0, 3, 1)?, None)?;
    let transposed = ops::transpose_int(&y, 0, 1)?;
    let half = ops::to_dtype(
        &matrix([2 * SIZES[0], SIZES[1]], ScalarType::F32)?,
        ScalarType::BF16,
        false,
        false,
        None,
    )?;
    check("exp", &[&x], |t| ops::exp(&t[0]))?;
    check("mul with a number", &[&x], |t| ops::mul_scalar(&t[0], Scalar::Float(0.3)))?;
    check("add", &[&x, &x], |t| ops::add_tensor(&t[0], &t[1], ONE))?;
    check("add of a row", &[&x, &row], |t| ops::add_tensor(&t[0], &t[1], ONE))?;
    let wide = matrix([SIZES[0], 2064], ScalarType::F32)?;
    let (column, left) = (ops::narrow(&wide, 1, 7, 1)?, ops::narrow(&wide, 1, 0, 2048)?);
    check("add of a column", &[&wide, &column], |t| ops::add_tensor(&t[0], &t[1], ONE))?;
    check("product of rows apart", &[&left, &column], |t| ops::mul_tensor(&t[1], &t[0]))?;
    let wide = ops::to_dtype(&x, ScalarType::F64, false, false, None)?;
    check("add of doubles", &[&wide, &wide], |t| ops::add_tensor(&t[0], &t[1], ONE))?;
    check("add of a transposed one", &[&x, &transposed], |t| ops::add_tensor(&t[0], &t[1], ONE))?;
    check("copy of a transposed one", &[&transposed], |t| ops::clone(&t[0], Some(MemoryFormat::Contiguous)))?;
    check("copy", &[&x], |t| ops::clone(&t[0], None))?;
    check("cast", &[&x], |t| ops::to_dtype(&t[0], ScalarType::F64, false, false, None))?;
    check("exp of bf16", &[&half], |t| ops::exp(&t[0]))?;
    check("add of bf16", &[&half, &half], |t| ops::add_tensor(&t[0], &t[1], ONE))?;
    let column = ops::narrow(&half, 1, 5, 1)?;
    check("product with a column of bf16", &[&half, &column], |t| ops::mul_tensor(&t[0], &t[1]))?;
    for dtype in [ScalarType::I32, ScalarType::I64] {
        let integers = ops::to_dtype(&x, dtype, false, false, None)?;
        check("add of integers", &[&integers, &integers], |t| ops::add_tensor(&t[0], &t[1], ONE))?;
        let divisor = ops::add_scalar(&ops::abs(&integers)?, ONE, ONE)?;
        check("quotient of integers", &[&integers, &divisor], |t| ops::floor_divide(&t[0], &t[1]))?;
    }
    let positive = ops::gt_scalar(&x, Scalar::Int(0))?;
    let truths = ops::cat(&[positive.clone(), positive.clone(), positive.clone(), positive], 0)?;
    let column = ops::narrow(&truths, 1, 9, 1)?;
    check("comparison of truth values", &[&truths, &column], |t| ops::eq_tensor(&t[0], &t[1]))?;
    check("into memory that begins inside a cache line", &[&x], |t| {
        let room = ops::empty_like(&ops::view(&t[0], &[-1])?, None, None, None, None, None)?;
        let all = ops::cat(&[room.clone(), ops::narrow(&room, 0, 0, 1)?], 0)?;
        let to = ops::view(&ops::narrow(&all, 0, 1, t[0].numel())?, t[0].sizes())?;
        ops::add_out(&t[0], &t[0], ONE, &to)?;
        Ok(to)
    })
}

/// Rows of the results begin at cache wide; there are multiples of a square block of them, and some more.
#[test]
fn transposed_copies() -> Result<()> {
    let contiguous = |t: &[Tensor]| ops::clone(&t[0], Some(MemoryFormat::Contiguous));
    for dtype in [ScalarType::F32, ScalarType::F64, ScalarType::I32, ScalarType::BF16] {
        let input = matrix([if dtype == ScalarType::BF16 { 4128 } else { 2064 }, SIZES[0]], dtype)?;
        check("copy", &[&ops::transpose_int(&input, 0, 1)?], contiguous)?;
    }
    let input = matrix([1200 * 80, 91], ScalarType::F32)?;
    let stacked = ops::transpose_int(&ops::view(&input, &[1200, 80, 91])?, 1, 2)?;
    check("copy of a stack", &[&stacked], contiguous)?;
    let input = ops::transpose_int(&matrix([SIZES[1], SIZES[0]], ScalarType::F32)?, 0, 1)?;
    check("copy into rows apart", &[&input], |t| {
        let room = Tensor::full(&[t[0].sizes()[0], 2064], 7, ScalarType::F32)?;
        ops::copy_(&ops::narrow(&room, 1, 0, SIZES[1])?, &t[0], false)?;
        Ok(room)
    })
}

#[test]
fn row_operators() -> Result<()> {
    let x = matrix(SIZES, ScalarType::F32)?;
    let weight = ops::view(&ops::clone(&ops::narrow(&x, 0, 5, 1)?, None)?, &[SIZES[1]])?;
    check("softmax", &[&x], |t| ops::softmax_int(&t[0], 1, None))?;
    check("log_softmax", &[&x], |t| ops::log_softmax_int(&t[0], 1, None))?;
    check("layer_norm", &[&x], |t| {
        Ok(ops::native_layer_norm(&t[0], &[SIZES[1]], Some(&weight), Some(&weight), 1e-5)?.0)
    })?;
    check("rms_norm", &[&x], |t| ops::rms_norm(&t[0], &[SIZES[1]], Some(&weight), None))?;
    check("layer_norm backward", &[&x], |t| {
        let (_, mean, rstd) = ops::native_layer_norm(&t[0], &[SIZES[1]], Some(&weight), None, 1e-5)?;
        let mask = [true, false, false];
        let back = ops::native_layer_norm_backward(
            &ops::exp(&t[0])?,
            &t[0],
            &[SIZES[1]],
            &mean,
            &rstd,
            Some(&weight),
            None,
            mask,
        )?;
        Ok(back.0)
    })
}

#[test]
fn rows_that_indices_name() -> Result<()> {
    let table = matrix([300, 71], ScalarType::F32)?;
    let index: Vec<i64> = (0..125_000).map(|i| i * 7919 % 300).collect();
    let index = Tensor::from_vec(index, &[125_000])?;
    check("index_select", &[&index], |t| ops::index_select(&table, 0, &t[0]))
}
