//! Copies between orders of dimensions, against elements named one by one.
#![allow(clippy::unwrap_used, reason = "a call that fails, fails the test")]

mod exact;

use exact::{numel, tensor, values};
use flambeau_core::{MemoryFormat, ScalarType};
use flambeau_ops::{ops, parallel};

const EACH_SIZE: [ScalarType; 4] = [ScalarType::I8, ScalarType::BF16, ScalarType::I32, ScalarType::F64];

/// The element of a row-major tensor of `sizes` that stands at `at` after `order`.
fn expected(x: &[f64], sizes: &[i64], order: &[usize]) -> Vec<f64> {
    let turned: Vec<i64> = order.iter().map(|d| sizes[*d]).collect();
    let element = |mut n: usize| {
        let mut at = vec![0usize; sizes.len()];
        for (place, d) in order.iter().enumerate().rev() {
            at[*d] = n % turned[place] as usize;
            n /= turned[place] as usize;
        }
        x[at.iter().zip(sizes).fold(0, |n, (i, size)| n * *size as usize + i)]
    };
    (0..x.len()).map(element).collect()
}

#[test]
fn every_order_of_dimensions_is_copied() {
    for dtype in EACH_SIZE {
        for (sizes, order) in [
            (vec![37i64, 53], vec![1usize, 0]),
            (vec![64, 64], vec![1, 0]),
            (vec![16, 9], vec![1, 0]),
            (vec![1025, 8], vec![1, 0]),
            (vec![3, 40, 50], vec![0, 2, 1]),
            (vec![3, 40, 50], vec![2, 1, 0]),
            (vec![17, 5, 33, 2], vec![2, 3, 1, 0]),
            (vec![300, 301], vec![1, 0]),
        ] {
            let data: Vec<f64> = (0..numel(&sizes)).map(|i| (i * 7 % 101) as f64).collect();
            let x = tensor(&data, &sizes, dtype);
            let dims: Vec<i64> = order.iter().map(|d| *d as i64).collect();
            let turned = ops::permute(&x, &dims).unwrap();
            for threads in [1, 2] {
                parallel::set_num_threads(threads);
                let dense = ops::clone(&turned, Some(MemoryFormat::Contiguous)).unwrap();
                assert!(dense.is_contiguous());
                assert_eq!(values(&dense), expected(&data, &sizes, &order), "{dtype} {sizes:?} {order:?}");
            }
        }
    }
}

#[test]
fn a_transposed_copy_within_one_storage_is_read_first() {
    let x = tensor(&(0..4096).map(|i| (i % 97) as f64).collect::<Vec<_>>(), &[64, 64], ScalarType::I32);
    let before = values(&x);
    ops::copy_(&x, &ops::t(&x).unwrap(), false).unwrap();
    assert_eq!(values(&x), expected(&before, &[64, 64], &[1, 0]));
}
