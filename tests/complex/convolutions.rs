//! Convolutions of complex numbers against sums of products, and their derivatives.

use crate::{C, COMPLEX, c, draw, eps, numbers, tensor};
use flambeau_autograd::Autograd;
use flambeau_autograd::gradcheck::GradCheck;
use flambeau_core::ScalarType;
use flambeau_ops::{Result, Tensor, ops};

/// One signal of `channels`, weights of `outputs x channels x 3`, and a bias.
fn direct(x: &[C], weight: &[C], bias: &[C], channels: usize, padding: usize) -> Vec<C> {
    let (length, outputs) = (x.len() / channels, weight.len() / channels / 3);
    let at = |channel: usize, i: i64| match (0..length as i64).contains(&i) {
        true => x[channel * length + i as usize],
        false => c(0.0, 0.0),
    };
    let sum = |output: usize, i: usize| {
        let terms = (0..channels).flat_map(|channel| (0..3).map(move |k| (channel, k)));
        terms.fold(bias[output], |sum, (channel, k)| {
            sum + weight[(output * channels + channel) * 3 + k] * at(channel, (i + k) as i64 - padding as i64)
        })
    };
    (0..outputs)
        .flat_map(|output| (0..length + 2 * padding - 2).map(move |i| (output, i)))
        .map(|(o, i)| sum(o, i))
        .collect()
}

#[test]
fn values_are_sums_of_products() {
    let (x, weight, bias) = (draw(2 * 9, 1), draw(4 * 2 * 3, 2), draw(4, 3));
    for dtype in COMPLEX {
        let [x_t, weight_t, bias_t] =
            [tensor(&x, &[2, 9], dtype), tensor(&weight, &[4, 2, 3], dtype), tensor(&bias, &[4], dtype)];
        for padding in [0, 1] {
            let made = ops::conv1d(&x_t, &weight_t, Some(&bias_t), &[1], &[padding], &[1], 1).unwrap();
            let expected = direct(&x, &weight, &bias, 2, padding as usize);
            for (got, expected) in numbers(&made).iter().zip(&expected) {
                let distance = crate::abs(*got - *expected);
                assert!(distance <= 200.0 * eps(dtype), "{got} is not {expected}");
            }
        }
        let plane = ops::unsqueeze(&x_t, 1).unwrap();
        let deep = ops::unsqueeze(&weight_t, 2).unwrap();
        let flat = ops::conv2d(&plane, &deep, Some(&bias_t), &[1, 1], &[0, 0], &[1, 1], 1).unwrap();
        let line = ops::conv1d(&x_t, &weight_t, Some(&bias_t), &[1], &[0], &[1], 1).unwrap();
        assert!(ops::allclose(&ops::squeeze_dim(&flat, 1).unwrap(), &line, 1e-5, 1e-5, false).unwrap());
        let same = ops::conv1d_padding(&x_t, &weight_t, None, &[1], "same", &[1], 1).unwrap();
        assert_eq!(same.sizes(), [4, 9]);
        let transposed = ops::conv_transpose1d(&line, &weight_t, None, &[1], &[0], &[0], 1, &[1]).unwrap();
        assert_eq!((transposed.sizes(), transposed.dtype()), (&[2, 9][..], dtype));
    }
    let mixed = ops::conv1d(
        &tensor(&x, &[2, 9], ScalarType::Complex64),
        &Tensor::from([[[1.0f32; 3]; 2]]),
        None,
        &[1],
        &[0],
        &[1],
        1,
    );
    assert!(mixed.is_err());
}

#[test]
fn derivatives_are_right() {
    let inputs = [
        tensor(&draw(2 * 5, 4), &[2, 5], ScalarType::Complex128),
        tensor(&draw(2 * 3, 5), &[1, 2, 3], ScalarType::Complex128),
        tensor(&draw(1, 6), &[1], ScalarType::Complex128),
    ];
    inputs.iter().for_each(|input| {
        input.requires_grad_(true).unwrap();
    });
    let f = |x: &[Tensor]| -> Result<Vec<Tensor>> {
        Ok(vec![ops::conv1d(&x[0], &x[1], Some(&x[2]), &[2], &[1], &[1], 1)?])
    };
    let all = GradCheck { check_forward_ad: true, ..GradCheck::default() };
    all.check(f, &inputs).unwrap();
    all.check_twice(f, &inputs).unwrap();
}
