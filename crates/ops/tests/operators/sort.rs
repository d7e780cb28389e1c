//! Long rows, which are sorted digit by digit and in shares, against the standard library's stable sort.

use crate::exact::NUMBERS;
use flambeau_core::{Element, Result, ScalarType};
use flambeau_ops::{Tensor, ops, parallel};
use std::cmp::Ordering;

/// Numbers with many equal ones among them.
fn noise(n: usize, kinds: u64) -> impl Iterator<Item = i64> {
    (0..n as u64)
        .map(move |i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as i64 % kinds as i64 - kinds as i64 / 2)
}

fn check<T: Element>(values: Vec<T>, order: impl Fn(&T, &T) -> Ordering) -> Result<()> {
    let tensor = Tensor::from_vec(values.clone(), &[values.len() as i64])?;
    for descending in [false, true] {
        let mut expected: Vec<i64> = (0..values.len() as i64).collect();
        expected.sort_by(|a, b| {
            let order = order(&values[*a as usize], &values[*b as usize]);
            if descending { order.reverse() } else { order }
        });
        for threads in [1, 3, 6] {
            parallel::set_num_threads(threads);
            let (_, indices) = ops::sort(&tensor, -1, descending)?;
            assert!(indices.to_vec::<i64>()? == expected, "{} elements, {threads} threads", values.len());
        }
    }
    Ok(())
}

#[test]
fn long_rows_are_in_order_and_equal_elements_keep_theirs() -> Result<()> {
    for n in [4095, 4096, (1 << 17) - 1, 1 << 17, 150_001] {
        check(noise(n, 1 << 40).map(|x| x as f32 * 1e-3).collect(), f32::total_cmp)?;
        check(noise(n, 100).map(|x| x as f64).collect(), f64::total_cmp)?;
        check(noise(n, 1 << 50).collect(), i64::cmp)?;
    }
    check(vec![5i32; 1 << 17], i32::cmp)?;
    check((0..1 << 17).rev().collect(), i64::cmp)
}

#[test]
fn the_first_of_long_rows_are_those_of_a_sort() -> Result<()> {
    let (rows, n) = (3, 5000);
    for kinds in [1 << 30, 50, 1] {
        let mut data: Vec<f32> = noise(rows * n, kinds).map(|x| x as f32).collect();
        data[17] = f32::NAN;
        data[n + 4000] = f32::NAN;
        let tensor = Tensor::from_vec(data, &[rows as i64, n as i64])?;
        for descending in [false, true] {
            let (values, indices) = ops::sort(&tensor, -1, descending)?;
            for k in [1, 10, 600, 624, 625, 4999] {
                let (top, top_indices) = ops::topk(&tensor, k, -1, descending, true)?;
                let first = |all: &Tensor| ops::narrow(all, 1, 0, k);
                assert!(top_indices.equal(&first(&indices)?)?, "{kinds} kinds, the first {k}, {descending}");
                assert!(ops::isclose(&top, &first(&values)?, 0.0, 0.0, true)?.all()?.item::<bool>()?);
            }
        }
    }
    Ok(())
}

/// Every type, in lengths around those of vectors, with ties, numbers that are none, and the worst orders.
#[test]
fn the_first_few_are_those_of_a_sort() -> Result<()> {
    let types = std::iter::once(ScalarType::Bool).chain(NUMBERS);
    type Order = (&'static str, fn(i64) -> f64);
    let orders: [Order; 7] = [
        ("noise", |i| ((i * 7919 % 10_007) - 5000) as f64 / 64.0),
        ("few kinds", |i| (i * 31 % 7 - 3) as f64),
        ("growing", |i| (i / 40 - 100) as f64),
        ("falling", |i| (100 - i / 40) as f64),
        ("zeros of both signs", |i| if i % 3 == 0 { -0.0 } else { 0.0 }),
        ("some without a number", |i| if i * 13 % 29 == 0 { f64::NAN } else { (i * 37 % 101) as f64 }),
        ("nearly all without a number", |i| if i % 200 == 199 { 2.0 } else { f64::NAN }),
    ];
    for dtype in types {
        for (name, number) in orders {
            for n in [8, 130, 135, 511, 1025, 4099] {
                let data: Vec<f64> = (0..3 * n).map(number).collect();
                if !dtype.is_floating_point() && data.iter().any(|x| x.is_nan()) {
                    continue;
                }
                let tensor = Tensor::from_vec(data, &[3, n])?;
                let tensor = ops::to_dtype(&tensor, dtype, false, false, None)?;
                for descending in [false, true] {
                    let indices = ops::sort(&tensor, -1, descending)?.1;
                    for k in [1, 2, 10, 16, 17, 40, 500].into_iter().filter(|k| k * 8 <= n) {
                        let top_indices = ops::topk(&tensor, k, -1, descending, true)?.1;
                        let what = format!("{dtype}, {name}, the first {k} of {n}, {descending}");
                        assert!(top_indices.equal(&ops::narrow(&indices, 1, 0, k)?)?, "{what}");
                    }
                }
            }
        }
    }
    Ok(())
}
