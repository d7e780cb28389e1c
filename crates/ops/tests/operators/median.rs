//! Elements of a rank against a stable sort, in rows that are long enough for their digits to be counted.

use flambeau_core::{Element, Result};
use flambeau_ops::Tensor;

const LEN: usize = 5000;

/// Numbers in no order.
fn mixed(i: usize) -> i64 {
    (i as i64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64)
}

fn check<T: Element + PartialOrd + std::fmt::Debug>(what: &str, row: &[T]) -> Result<()> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|a, b| row[*a].partial_cmp(&row[*b]).expect("no NaN"));
    let tensor = Tensor::from_slice(row)?;
    for k in [1, 2, row.len() / 3, row.len() / 2, row.len()] {
        let (value, index) = tensor.kthvalue(k as i64)?;
        assert_eq!(index.item::<i64>()?, order[k - 1] as i64, "{what}, rank {k}");
        assert_eq!(value.to_vec::<T>()?, [row[order[k - 1]]], "{what}, rank {k}");
    }
    Ok(())
}

#[test]
fn ranks_of_long_rows_are_those_of_a_stable_sort() -> Result<()> {
    let integers = |f: fn(i64) -> i64| (0..LEN).map(|i| f(mixed(i))).collect::<Vec<i64>>();
    check("small", &integers(|x| x >> 62))?;
    check("far from 0", &integers(|x| (1 << 40) + (x & 0xFFF)))?;
    check("equal", &integers(|_| -3))?;
    check("of 64 bits", &integers(|x| x))?;
    check("the ends", &integers(|x| if x & 1 == 0 { i64::MIN } else { i64::MAX }))?;
    check("one lower bit", &integers(|x| x & 1))?;
    let floats = |f: fn(f64) -> f64| integers(|x| x >> 8).iter().map(|x| f(*x as f64)).collect::<Vec<f64>>();
    check("floats", &floats(|x| x))?;
    check("floats of a binade", &floats(|x| 1.0 + x.abs() * 2f64.powi(-56)))?;
    check("infinities", &floats(|x| x * f64::INFINITY))?;
    check("bytes", &integers(|x| x >> 56).iter().map(|x| *x as i8).collect::<Vec<i8>>())
}
