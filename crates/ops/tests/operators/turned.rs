//! Inputs that lie the other way round, against elements found by their indices one at a time.

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
    let turned: Vec<usize> = dims.iter().map(|d| sizes[*d] as usize).collect();
    let stride = |d: usize| sizes[d + 1..].iter().product::<i64>() as usize;
    let count: usize = turned.iter().product();
    let place = |i: usize| {
        let mut left = i;
        dims.iter().zip(&turned).rev().fold(0, |at, (d, size)| {
            let here = left % size;
            left /= size;
            at + here * stride(*d)
        })
    };
    (0..count).map(|i| number(place(i))).collect()
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
            let turned = ops::permute(&range(sizes, dtype)?, &order)?;
            for threads in [1, 2] {
                parallel::set_num_threads(threads);
                check(&turned, &permuted(sizes, dims), turned.sizes(), dtype)?;
            }
        }
    }
    Ok(())
}

#[test]
fn copies_are_in_their_own_order() -> Result<()> {
    each(|turned, expected, _, dtype| {
        assert_eq!(values(&turned.contiguous()?), expected, "{dtype} {:?}", turned.sizes());
        let wide = ops::to_dtype(turned, ScalarType::F64, false, true, None)?.contiguous()?;
        assert_eq!(values(&wide), expected, "{dtype} {:?}", turned.sizes());
        Ok(())
    })
}

#[test]
fn formulas_take_them_beside_others() -> Result<()> {
    each(|turned, expected, sizes, dtype| {
        let straight = range(sizes, dtype)?;
        let equal: Vec<f64> = expected.iter().enumerate().map(|(i, x)| f64::from(*x == number(i))).collect();
        assert_eq!(values(&ops::eq_tensor(turned, &straight)?), equal, "{dtype} {sizes:?}");
        let sum: Vec<f64> = expected.iter().enumerate().map(|(i, x)| x + number(i)).collect();
        if dtype != ScalarType::Bool {
            let made = ops::add_tensor(&straight, turned, Scalar::Int(1))?;
            assert_eq!(values(&made), sum, "{dtype} {sizes:?}");
            // In place, and with a number beside them.
            ops::add__tensor(&straight, turned, Scalar::Int(1))?;
            assert_eq!(values(&straight), sum, "{dtype} {sizes:?}");
            let one = ops::add_tensor(turned, &Tensor::full(&[1], 1, dtype)?, Scalar::Int(1))?;
            assert_eq!(values(&one), expected.iter().map(|x| x + 1.0).collect::<Vec<_>>());
        }
        Ok(())
    })
}
