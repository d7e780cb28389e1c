//! What complex numbers do not have: an order, and functions that are defined for real numbers only. Nothing panics.

use crate::{COMPLEX, c, tensor};
use flambeau_core::{ErrorKind, Scalar, ScalarType};
use flambeau_ops::{Result, Tensor, ops};

type Call = fn(&Tensor) -> Result<Tensor>;

const REFUSED: &[(&str, Call)] = &[
    ("lt", |t| ops::lt_tensor(t, t)),
    ("ge", |t| ops::ge_scalar(t, Scalar::Int(1))),
    ("maximum", |t| ops::maximum(t, t)),
    ("max", ops::max),
    ("amin", |t| ops::amin(t, &[0], false)),
    ("argmax", |t| ops::argmax(t, None, false)),
    ("sort", |t| ops::sort(t, 0, false).map(|(values, _)| values)),
    ("topk", |t| ops::topk(t, 1, 0, true, true).map(|(values, _)| values)),
    ("clamp", |t| ops::clamp(t, Some(Scalar::Int(0)), None)),
    ("floor", ops::floor),
    ("round", ops::round),
    ("trunc", ops::trunc),
    ("frac", ops::frac),
    ("sign", ops::sign),
    ("relu", ops::relu),
    ("gelu", |t| ops::gelu(t, "none")),
    ("softmax", |t| ops::softmax_int(t, 0, None)),
    ("remainder", |t| ops::remainder_tensor(t, t)),
    ("fmod", |t| ops::fmod_tensor(t, t)),
    ("floor_divide", |t| ops::floor_divide(t, t)),
    ("atan2", |t| ops::atan2(t, t)),
    ("hypot", |t| ops::hypot(t, t)),
    ("erf", ops::erf),
    ("lgamma", ops::lgamma),
    ("bitwise_not", ops::bitwise_not),
    ("cummax", |t| ops::cummax(t, 0).map(|(values, _)| values)),
    ("logsumexp", |t| ops::logsumexp(t, &[0], false)),
    ("median", ops::median),
    ("nansum", |t| ops::nansum(t, None, false, None)),
    ("signbit", ops::signbit),
    ("isposinf", ops::isposinf),
    ("unique", |t| ops::unique_dim(t, 0, true, false, false).map(|(values, _, _)| values)),
];

#[test]
fn what_needs_an_order_is_refused() {
    for (name, call) in REFUSED {
        for dtype in COMPLEX {
            let x = tensor(&[c(1.0, 2.0), c(-1.0, 0.5)], &[2], dtype);
            let error = call(&x).map(|made| made.to_string()).expect_err(name);
            assert!(matches!(error.kind(), ErrorKind::NotImplemented | ErrorKind::Dtype), "{name}: {error}");
        }
    }
}

#[test]
fn results_are_not_written_into_real_tensors() {
    let x = tensor(&[c(1.0, 2.0)], &[1], ScalarType::Complex64);
    let real = Tensor::from([1.0f32]);
    let message = ops::add__tensor(&real, &x, Scalar::Int(1)).unwrap_err().to_string();
    assert!(
        message.contains("result type complex64 can't be cast to the desired output type float32"),
        "{message}"
    );
    assert!(
        ops::abs_(&x).unwrap_err().to_string().contains("In-place abs is not supported for complex tensors.")
    );
    let i = Scalar::Complex(0.0, 1.0);
    let message = ops::fill__scalar(&real, i).unwrap_err().to_string();
    assert!(message.contains("cannot be converted to type float32 without overflow"), "{message}");
    let message = ops::add_tensor(&real, &real, i).unwrap_err().to_string();
    assert!(message.contains("argument alpha must not be a complex number"), "{message}");
    assert_eq!(real.to_vec::<f32>().unwrap(), [1.0]);
}
