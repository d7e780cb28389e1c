//! Scattering, and reducing what is scattered to the same element.

use super::{constant, ix, numbers, of, one, s, transposed, values, x};
use flambeau_autograd::grad;
use flambeau_core::Scalar;
use flambeau_ops::{Tensor, ops};

/// Three numbers are sent to row 0 of the first column, two to row 1 of the second, and none to the last row.
fn index() -> Tensor {
    ix(&[0, 1, 2, 0, 0, 1, 0, 1, 1], &[3, 3])
}

fn with_zeros(sizes: &[i64], zeros: &[usize]) -> Tensor {
    let mut all = numbers(sizes.iter().product(), 4);
    zeros.iter().for_each(|index| all[*index] = 0.0);
    of(all, sizes)
}

#[test]
fn reductions() {
    let index = index();
    let plain = [transposed(&[4, 3], 1), x(&[3, 3], 2)];
    let zeros = [with_zeros(&[4, 3], &[0, 4, 11]), with_zeros(&[3, 3], &[0, 3, 7])];
    let larger = [x(&[4, 3], 1), transposed(&[4, 5], 2)];
    for (which, inputs) in [("plain", &plain), ("zeros", &zeros), ("larger", &larger)] {
        for include in [true, false] {
            // Zeros that tie have no derivative as an extreme.
            let smooth = if which == "zeros" { 3 } else { 5 };
            for reduce in &["sum", "mean", "prod", "amax", "amin"][..smooth] {
                let f = |x: &[Tensor]| ops::scatter_reduce_two(&x[0], 0, &index, &x[1], reduce, include);
                one(&format!("scatter_reduce {reduce} {include} {which}"), f, inputs);
            }
        }
        for reduce in ["add", "multiply"] {
            one(
                &format!("scatter {reduce} {which}"),
                |x| ops::scatter_reduce(&x[0], 0, &index, &x[1], reduce),
                inputs,
            );
            let f = |x: &[Tensor]| ops::scatter_value_reduce(&x[0], 0, &index, s(1.5), reduce);
            one(&format!("scatter of a value, {reduce} {which}"), f, &inputs[..1]);
        }
        one(&format!("scatter_add {which}"), |x| ops::scatter_add(&x[0], 0, &index, &x[1]), inputs);
    }
    let point = [x(&[], 1), x(&[], 2)];
    one("0-d", |x| ops::scatter_reduce_two(&x[0], 0, &ix(&[0], &[]), &x[1], "prod", true), &point);
    let nothing = [x(&[2], 1), x(&[2], 2)];
    one("no index", |x| ops::scatter_reduce_two(&x[0], 0, &ix(&[], &[0]), &x[1], "prod", false), &nothing);
}

/// Each sum is divided by the number of its terms, rounded down for integers.
#[test]
fn means() {
    let (own, src) = (ix(&[1, -3, 7], &[3]), ix(&[4, -6, 2], &[3]));
    for (include, expected) in [(true, [2, -5, 7]), (false, [3, -6, 7])] {
        let found = ops::scatter_reduce_two(&own, 0, &ix(&[0, 1, 0], &[3]), &src, "mean", include).unwrap();
        assert_eq!(found.to_vec::<i64>().unwrap(), expected);
    }
}

/// An overflow of one product does not affect another.
#[test]
fn products_are_independent() {
    let x = of(vec![1e200, 1e200, 2.0, 3.0], &[4]);
    let y =
        ops::scatter_reduce_two(&of(vec![1e200, 1.0], &[2]), 0, &ix(&[0, 0, 1, 1], &[4]), &x, "prod", true)
            .unwrap();
    let y = ops::select_int(&y, 0, 1).unwrap();
    let found = grad(&[y], &[x], &[], None, false, false).unwrap();
    assert_eq!(values(found[0].as_ref().unwrap())[2..], [3.0, 2.0]);
}

/// Equal extremes share; without `self` the first number does not count.
#[test]
fn ties() {
    let (own, src) = (of(vec![2.0, 5.0], &[2]), of(vec![2.0, 2.0, 1.0], &[3]));
    for (include, expected) in [(true, [1.0 / 3.0, 1.0]), (false, [0.0, 1.0])] {
        let y = ops::scatter_reduce_two(&own, 0, &ix(&[0, 0, 0], &[3]), &src, "amax", include).unwrap();
        let total = ops::sum(&y, None).unwrap();
        let found = grad(&[total], &[own.clone(), src.clone()], &[], None, false, false).unwrap();
        assert_eq!(values(found[0].as_ref().unwrap()), expected);
        let share = if include { 1.0 / 3.0 } else { 0.5 };
        assert_eq!(values(found[1].as_ref().unwrap()), [share, share, 0.0]);
    }
}

#[test]
fn fills() {
    let twice = ix(&[1, 3, 1], &[3]);
    let inputs = [transposed(&[3, 4], 1), x(&[], 2)];
    one("index_fill", |x| ops::index_fill_int_tensor(&x[0], 1, &twice, &x[1]), &inputs);
    one(
        "index_fill, 0-d",
        |x| ops::index_fill_int_tensor(&x[0], 0, &ix(&[0], &[1]), &x[1]),
        &[x(&[], 1), x(&[], 2)],
    );
    let fixed = constant(&inputs[1]);
    one("index_fill, fixed", |x| ops::index_fill_int_tensor(&x[0], 1, &twice, &fixed), &inputs[..1]);
}

#[test]
fn in_place() {
    let index = index();
    let inputs = [x(&[4, 3], 1), x(&[3, 3], 2)];
    let copied = |x: &Tensor| ops::mul_scalar(x, Scalar::Int(1));
    let after = |f: &dyn Fn(&Tensor) -> flambeau_core::Result<()>, x: &Tensor| {
        let made = copied(x)?;
        f(&made)?;
        Ok(made)
    };
    one(
        "scatter_reduce_",
        |x| after(&|t| ops::scatter_reduce__two(t, 0, &index, &x[1], "prod", true), &x[0]),
        &inputs,
    );
    one(
        "scatter_.reduce",
        |x| after(&|t| ops::scatter__reduce(t, 0, &index, &x[1], "multiply"), &x[0]),
        &inputs,
    );
    let by_value = |t: &Tensor| ops::scatter__value_reduce(t, 0, &index, s(1.5), "multiply");
    one("scatter_.value_reduce", |x| after(&by_value, &x[0]), &inputs[..1]);
    one("cumprod_", |x| after(&|t| ops::cumprod_(t, 1, None), &x[0]), &inputs[..1]);
    one("cumsum_", |x| after(&|t| ops::cumsum_(t, 1, None), &x[0]), &inputs[..1]);
    let point = [x(&[4, 3], 1), x(&[], 2)];
    let fill = |t: &Tensor, v: &Tensor| ops::index_fill__int_tensor(t, 1, &ix(&[1], &[1]), v);
    one("index_fill_", |x| after(&|t| fill(t, &x[1]), &x[0]), &point);
}

#[test]
fn embeddings() {
    let index = ix(&[2, 0, 2, 1, 2, 0], &[2, 3]);
    for (padding, scaled) in [(-1, false), (0, false), (-1, true), (2, true)] {
        let f = |x: &[Tensor]| ops::embedding(&x[0], &index, padding, scaled, false);
        if scaled || padding >= 0 {
            // The gradient is not that of what was read, so only its own derivative can be checked.
            let f = |x: &[Tensor]| ops::embedding_dense_backward(&x[0], &index, 3, padding, scaled);
            one("embedding_dense_backward", f, &[x(&[2, 3, 2], 1)]);
        } else {
            one("embedding", f, &[transposed(&[3, 2], 1)]);
        }
    }
}
