//! Jacobians, Hessians and their products, gradcheck in forward mode, and custom functions with a jvp.

use crate::{data, leaf, message, values};
use flambeau_autograd::forward::{dual_level, make_dual, unpack_dual};
use flambeau_autograd::function::{BackwardContext, ForwardContext, Function, JvpContext, apply};
use flambeau_autograd::functional::{hessian, hvp, jacfwd, jacrev, jvp, vjp};
use flambeau_autograd::gradcheck::GradCheck;
use flambeau_core::{ErrorKind, Result};
use flambeau_ops::{Tensor, ops};

/// x[0]² x[1] and x[1], of which the Jacobian at (3, 5) is [[30, 9], [0, 1]].
fn f(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let (a, b) = (ops::select_int(&x[0], 0, 0)?, ops::select_int(&x[0], 0, 1)?);
    Ok(vec![ops::stack(&[ops::mul_tensor(&ops::square(&a)?, &b)?, b], 0)?])
}

fn x() -> [Tensor; 1] {
    [data(&[3.0, 5.0], &[2])]
}

#[test]
fn products_and_jacobians_are_those_worked_out_by_hand() {
    let (value, slope) = jvp(&f, &x(), &[data(&[1.0, -2.0], &[2])]).unwrap();
    assert_eq!((values(&value[0]), values(&slope[0])), (vec![45.0, 5.0], vec![12.0, -2.0]));
    let (_, gradient) = vjp(&f, &x(), &[data(&[1.0, -2.0], &[2])]).unwrap();
    assert_eq!(values(&gradient[0]), [30.0, 7.0]);
    for jacobian in [jacrev(&f, &x()).unwrap(), jacfwd(&f, &x()).unwrap()] {
        assert_eq!(
            values(&ops::contiguous(&jacobian[0][0], flambeau_core::MemoryFormat::Contiguous).unwrap()),
            [30.0, 9.0, 0.0, 1.0]
        );
    }
}

/// sum(x³): the Hessian is diag(6 x).
#[test]
fn hessians_are_those_worked_out_by_hand() {
    let cubes = |x: &[Tensor]| Ok(vec![ops::sum(&ops::pow_tensor_scalar(&x[0], 3.into())?, None)?]);
    let whole = hessian(&cubes, &x()).unwrap();
    assert_eq!(values(&ops::diagonal(&whole[0][0], 0, 0, 1).unwrap()), [18.0, 30.0]);
    assert_eq!(values(&hvp(&cubes, &x(), &[data(&[1.0, -1.0], &[2])]).unwrap()[0]), [18.0, -30.0]);
    assert!(message(hessian(&f, &x())).contains("one number"));
}

struct Square;

impl Function for Square {
    const NAME: &'static str = "Square";

    fn forward(&self, cx: &mut ForwardContext<'_>, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        cx.save_for_backward(&[&inputs[0]]);
        Ok(vec![ops::square(&inputs[0])?])
    }

    fn backward(&self, cx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let twice = ops::mul_scalar(&cx.saved_tensors()?[0], 2.into())?;
        grads.iter().flatten().map(|grad| ops::mul_tensor(grad, &twice).map(Some)).collect()
    }

    fn jvp(&self, cx: &JvpContext<'_>, tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let twice = ops::mul_scalar(&cx.inputs[0], 2.into())?;
        tangents.iter().flatten().map(|tangent| ops::mul_tensor(tangent, &twice).map(Some)).collect()
    }
}

struct Negative;

impl Function for Negative {
    const NAME: &'static str = "Negative";

    fn forward(&self, _: &mut ForwardContext<'_>, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![ops::neg(&inputs[0])?])
    }

    fn backward(&self, _: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        grads.iter().map(|grad| grad.as_ref().map(ops::neg).transpose()).collect()
    }
}

#[test]
fn custom_functions_have_tangents_by_their_jvp() {
    let both = GradCheck { check_forward_ad: true, ..GradCheck::default() };
    both.check(|x| apply(Square, &[&x[0]]), &[leaf(&[0.5, -2.0])]).unwrap();
    both.check_twice(|x| apply(Square, &[&x[0]]), &[leaf(&[0.5, -2.0])]).unwrap();
    let _level = dual_level().unwrap();
    let dual = make_dual(&leaf(&[1.0]), &data(&[1.0], &[1])).unwrap();
    assert_eq!(apply(Negative, &[&dual]).unwrap_err().kind(), ErrorKind::NotImplemented);
    assert!(unpack_dual(&apply(Negative, &[&leaf(&[1.0])]).unwrap()[0]).unwrap().1.is_none());
}
