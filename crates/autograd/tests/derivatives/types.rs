//! Gradients in other types than f64, and of results of another type than their input: as those of f64, to rounding.

use super::{fractions, ix, s, values};
use flambeau_autograd::{Autograd, grad};
use flambeau_core::{Result, ScalarType};
use flambeau_ops::{Tensor, ops};

type Case = (&'static str, fn(&Tensor) -> Result<Tensor>);

/// A type at least as wide as f32.
fn wide(x: &Tensor) -> Option<ScalarType> {
    x.dtype().promote(ScalarType::F32)
}

const CASES: &[Case] = &[
    ("prod", |x| ops::prod(x, None)),
    ("prod wide", |x| ops::prod(x, wide(x))),
    ("prod.dim wide", |x| ops::prod_dim_int(x, 1, false, wide(x))),
    ("cumprod", |x| ops::cumprod(x, 0, None)),
    ("cumprod wide", |x| ops::cumprod(x, 1, wide(x))),
    ("cumsum", |x| ops::cumsum(x, 0, None)),
    ("cumsum wide", |x| ops::cumsum(x, 1, wide(x))),
    ("var", |x| ops::var_correction(x, Some(&[1]), None, true)),
    ("std", |x| ops::std_correction(x, None, None, true)),
    ("std_mean", |x| Ok(ops::std_mean_correction(x, None, None, true)?.0)),
    ("aminmax", |x| Ok(ops::aminmax(x, None, false)?.0)),
    ("max.dim", |x| Ok(ops::max_dim(x, 0, false)?.0)),
    ("norm", |x| ops::norm_scalar(x, s(3.0))),
    ("norm wide", |x| ops::linalg_vector_norm(x, s(2.0), Some(&[0]), false, wide(x))),
    ("norm wide, inf", |x| ops::linalg_vector_norm(x, s(f64::INFINITY), None, false, wide(x))),
    ("kl_div", |x| ops::kl_div(x, x, 1, false)),
    ("bce", |x| ops::binary_cross_entropy(x, x, None, 1)),
    ("bce with logits", |x| ops::binary_cross_entropy_with_logits(x, x, None, None, 1)),
    ("huber", |x| ops::huber_loss(x, &ops::neg(x)?, 2, 0.5)),
    ("layer_norm", |x| ops::layer_norm(x, &[3], None, None, 1e-2, false)),
    ("rms_norm", |x| ops::rms_norm(x, &[3], None, Some(1e-2))),
    ("group_norm", |x| ops::group_norm(x, 1, None, None, 1e-2, false)),
    ("batch_norm", |x| ops::batch_norm(x, None, None, None, None, true, 0.1, 1e-2, false)),
    ("scatter prod", |x| ops::scatter_reduce_two(x, 0, &ix(&[1, 1, 0, 1], &[2, 2]), x, "prod", true)),
    ("scatter amax", |x| ops::scatter_reduce_two(x, 0, &ix(&[1, 1, 0, 1], &[2, 2]), x, "amax", false)),
    ("index_fill", |x| ops::index_fill_int_tensor(x, 0, &ix(&[1], &[1]), &ops::sum(x, None)?)),
    ("embedding", |x| ops::embedding(x, &ix(&[1, 1], &[2]), -1, true, false)),
    ("attention", |x| ops::scaled_dot_product_attention(x, x, x, None, 0.0, true, None, false)),
    ("linspace", |x| {
        ops::linspace_tensor_scalar(&ops::sum(x, None)?, s(2.0), 3, Some(x.dtype()), None, None, None)
    }),
];

/// The gradient of the sum of `f^2`, and the derivative of the sum of its squares.
fn derivatives(f: fn(&Tensor) -> Result<Tensor>, x: &Tensor) -> Result<[Tensor; 2]> {
    let total = |y: &Tensor| ops::sum(&ops::mul_tensor(y, y)?, None);
    let leaf = std::slice::from_ref(x);
    let first = grad(&[total(&f(x)?)?], leaf, &[], None, true, false)?[0].clone().unwrap();
    let second = grad(&[total(&first)?], leaf, &[], None, false, false)?[0].clone().unwrap();
    Ok([first, second])
}

#[test]
fn gradients_have_the_type_of_their_input() {
    let exact = fractions(&[2, 3], 1);
    for (dtype, unit) in [(ScalarType::F32, 1e-5), (ScalarType::F16, 0.03), (ScalarType::BF16, 0.2)] {
        let of = |dtype| ops::to_dtype(&exact.detach().unwrap(), dtype, false, true, None).unwrap();
        let rounded = of(dtype);
        // The same numbers in f64.
        let same = ops::to_dtype(&rounded, ScalarType::F64, false, true, None).unwrap();
        for x in [&rounded, &same] {
            x.requires_grad_(true).unwrap();
        }
        for (name, f) in CASES {
            let found = derivatives(*f, &rounded).unwrap_or_else(|e| panic!("{name} {dtype}: {e}"));
            let expected = derivatives(*f, &same).unwrap_or_else(|e| panic!("{name} f64: {e}"));
            for (order, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert_eq!(found.dtype(), dtype, "{name}");
                let found = values(&ops::to_dtype(found, ScalarType::F64, false, true, None).unwrap());
                let expected = values(expected);
                let scale = expected.iter().fold(1.0f64, |a, b| a.max(b.abs()));
                for (found, expected) in found.iter().zip(&expected) {
                    let error = (found - expected).abs() / scale;
                    assert!(error < unit, "{name} {dtype} order {}: {found} {expected}", order + 1);
                }
            }
        }
    }
}
