//! Transposed inputs, against elements found by their indices one at a time.

use crate::support::values;
use flambeau_core::{Result, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops, parallel};

const TYPES: [ScalarType; 6] =
    [ScalarType::Bool, ScalarType::U8, ScalarType::BF16, ScalarType::I32, ScalarType::F32, ScalarType::F64];

/// Small numbers that every type has.
fn number(i: usize) -> f64 {
    (i * 7 % 11 % 2) as f64
}

fn range(sizes: &[i64], dtype: ScalarType) -> Result<Tensor> {
    let count = sizes.iter().product::<i64>() as usize;
    let made = Tensor::from_vec((0..count).map(number).collect(), sizes)?;
    ops::to_dtype(&made, dtype, false, false, None)
}

/// The elements of a contiguous tensor of `sizes` in the order of its dimensions `dims`.
fn permuted(sizes: &[i64], dims: &[usize]) -> Vec<f64> {
    let permuted: Vec<usize> = dims.iter().map(|d| sizes[*d] as usize).collect();
    let stride = |d: usize| sizes[d + 1..].iter().product::<i64>() as usize;
    let count: usize = permuted.iter().product();
    let offset = |i: usize| {
        let mut left = i;
        dims.iter().zip(&permuted).rev().fold(0, |at, (d, size)| {
            let here = left % size;
            left /= size;
            at + here * stride(*d)
        })
    };
    (0..count).map(|i| number(offset(i))).collect()
}

fn each(mut check: impl FnMut(&Tensor, &[f64], &[i64], ScalarType) -> Result<()>) -> Result<()> {
    let shapes: [(&[i64], &[usize]); 6] = [
        (&[70, 300], &[1, 0]),
        (&[257, 8], &[1, 0]),
        (&[3, 65, 33], &[2, 1, 0]),
        (&[3, 65, 33], &[0, 2, 1]),
        (&[5, 9, 7, 66], &[0, 2, 3, 1]),
        (&[64, 1, 128], &[2, 1, 0]),
    ];
    for dtype in TYPES {
        for (sizes, dims) in shapes {
            let order: Vec<i64> = dims.iter().map(|d| *d as i64).collect();
            let transposed = ops::permute(&range(sizes, dtype)?, &order)?;
            for threads in [1, 2] {
                parallel::set_num_threads(threads);
                check(&transposed, &permuted(sizes, dims), transposed.sizes(), dtype)?;
            }
        }
    }
    Ok(())
}

#[test]
fn copies_are_in_their_own_order() -> Result<()> {
    each(|transposed, expected, _, dtype| {
        assert_eq!(values(&transposed.contiguous()?), expected, "{dtype} {:?}", transposed.sizes());
        let wide = ops::to_dtype(transposed, ScalarType::F64, false, true, None)?.contiguous()?;
        assert_eq!(values(&wide), expected, "{dtype} {:?}", transposed.sizes());
        Ok(())
    })
}

#[test]
fn formulas_take_them_beside_others() -> Result<()> {
    each(|transposed, expected, sizes, dtype| {
        let straight = range(sizes, dtype)?;
        let equal: Vec<f64> = expected.iter().enumerate().map(|(i, x)| f64::from(*x == number(i))).collect();
        assert_eq!(values(&ops::eq_tensor(transposed, &straight)?), equal, "{dtype} {sizes:?}");
        let sum: Vec<f64> = expected.iter().enumerate().map(|(i, x)| x + number(i)).collect();
        if dtype != ScalarType::Bool {
            let made = ops::add_tensor(&straight, transposed, Scalar::Int(1))?;
            assert_eq!(values(&made), sum, "{dtype} {sizes:?}");
            // In place, and with a number beside them.
            ops::add__tensor(&straight, transposed, Scalar::Int(1))?;
            assert_eq!(values(&straight), sum, "{dtype} {sizes:?}");
            let one = ops::add_tensor(transposed, &Tensor::full(&[1], 1, dtype)?, Scalar::Int(1))?;
            assert_eq!(values(&one), expected.iter().map(|x| x + 1.0).collect::<Vec<_>>());
        }
        Ok(())
    })
}
