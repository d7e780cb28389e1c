//! Custom functions.

use crate::{assert_close, data, grad_of, leaf, message, mul, sum, values};
use flambeau_autograd::function::{BackwardContext, ForwardContext, Function, apply};
use flambeau_autograd::{Autograd, grad, gradcheck, gradgradcheck};
use flambeau_core::{ErrorKind, Result, Scalar};
use flambeau_ops::{Tensor, ops};

/// x^2 y, and the sum of both as a second output.
struct Both;

impl Function for Both {
    const NAME: &'static str = "Both";

    fn forward(&self, cx: &mut ForwardContext<'_>, x: &[Tensor]) -> Result<Vec<Tensor>> {
        assert!(cx.needs_input_grad(0));
        cx.save_for_backward(&[&x[0], &x[1]]);
        let product = ops::mul_tensor(&ops::mul_tensor(&x[0], &x[0])?, &x[1])?;
        Ok(vec![product, ops::add_tensor(&x[0], &x[1], Scalar::Int(1))?])
    }

    fn backward(&self, cx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let saved = cx.saved_tensors()?;
        let (x, y) = (&saved[0], &saved[1]);
        let (product, sum) = (grads[0].as_ref().unwrap(), grads[1].as_ref().unwrap());
        let xy = ops::mul_tensor(x, y)?;
        let by_x = ops::mul_tensor(product, &ops::add_tensor(&xy, &xy, Scalar::Int(1))?)?;
        let by_y = ops::mul_tensor(product, &ops::mul_tensor(x, x)?)?;
        let plus = |a: &Tensor| ops::add_tensor(a, sum, Scalar::Int(1)).map(Some);
        Ok(vec![plus(&by_x)?, plus(&by_y)?])
    }
}

#[test]
fn several_inputs_and_outputs_of_both_orders() {
    let inputs = [leaf(&[0.5, -0.7]), leaf(&[1.5, 2.0])];
    gradcheck(|x| apply(Both, &[&x[0], &x[1]]), &inputs).unwrap();
    gradgradcheck(|x| apply(Both, &[&x[0], &x[1]]), &inputs).unwrap();
    // An output without a gradient counts as zero.
    let outputs = apply(Both, &[&inputs[0], &inputs[1]]).unwrap();
    assert_eq!((outputs[0].output_nr(), outputs[1].output_nr()), (0, 1));
    sum(&outputs[1]).backward().unwrap();
    assert_close(&grad_of(&inputs[0]), &[1.0, 1.0]);
}

/// Behaves as its fields say.
#[derive(Default)]
struct Odd {
    panics: bool,
    fails: bool,
    gradients: usize,
    unmarked: bool,
    returns_input: bool,
}

impl Function for Odd {
    const NAME: &'static str = "Odd";

    fn forward(&self, cx: &mut ForwardContext<'_>, x: &[Tensor]) -> Result<Vec<Tensor>> {
        if self.returns_input {
            return Ok(vec![x[0].clone()]);
        }
        let (value, flag) = (ops::exp(&x[0])?, ops::neg(&x[0])?);
        if !self.unmarked {
            cx.mark_non_differentiable(&[&flag]);
        }
        Ok(vec![value, flag])
    }

    fn backward(&self, _: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        assert!(!self.panics, "this backward panics");
        if self.fails {
            flambeau_core::bail!(InvalidArgument, "this backward fails");
        }
        Ok(vec![grads[0].clone(); self.gradients])
    }
}

#[test]
fn errors_and_panics_in_a_backward_are_errors() {
    let x = leaf(&[1.0]);
    let run = |odd: Odd| apply(odd, &[&x]).unwrap()[0].backward();
    let error = run(Odd { panics: true, ..Odd::default() }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Autograd);
    assert!(error.message().contains("Odd") && error.message().contains("this backward panics"), "{error}");
    assert_eq!(message(run(Odd { fails: true, ..Odd::default() })), "this backward fails");
    let text = message(run(Odd { gradients: 2, ..Odd::default() }));
    assert_eq!(text, "function Odd returned an incorrect number of gradients (expected 1, got 2)");
    run(Odd { gradients: 1, ..Odd::default() }).unwrap();
    // The thread is as it was.
    assert!(flambeau_autograd::is_grad_enabled());
    assert!(mul(&x, &x).requires_grad());
}

#[test]
fn outputs_marked_not_differentiable_carry_no_history() {
    let x = leaf(&[1.0]);
    let outputs = apply(Odd { gradients: 1, ..Odd::default() }, &[&x]).unwrap();
    assert!(outputs[0].requires_grad() && !outputs[1].requires_grad());
    let outputs = apply(Odd { gradients: 1, unmarked: true, ..Odd::default() }, &[&x]).unwrap();
    assert!(outputs[1].requires_grad());
    // Nothing is recorded where no input requires a gradient.
    let outputs = apply(Odd::default(), &[&data(&[1.0], &[1])]).unwrap();
    assert!(!outputs[0].requires_grad());
}

#[test]
fn an_input_returned_as_it_came_keeps_its_own_history() {
    let x = leaf(&[1.0]);
    let output = apply(Odd { returns_input: true, gradients: 1, ..Odd::default() }, &[&x]).unwrap().remove(0);
    assert!(!output.is_same(&x) && x.is_leaf() && !output.is_leaf());
    output.backward().unwrap();
    assert_close(&grad_of(&x), &[1.0]);
}

/// Doubles in place.
struct Double {
    mark: bool,
}

impl Function for Double {
    const NAME: &'static str = "Double";

    fn forward(&self, cx: &mut ForwardContext<'_>, x: &[Tensor]) -> Result<Vec<Tensor>> {
        ops::add__tensor(&x[0], &x[0], Scalar::Int(1))?;
        if self.mark {
            cx.mark_dirty(&[&x[0]]);
        }
        Ok(vec![x[0].clone()])
    }

    fn backward(&self, _: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let grad = grads[0].as_ref().unwrap();
        Ok(vec![Some(ops::add_tensor(grad, grad, Scalar::Int(1))?)])
    }
}

#[test]
fn a_function_that_writes_its_input() {
    let x = leaf(&[1.0, 2.0]);
    let y = mul(&x, &x);
    let z = apply(Double { mark: true }, &[&y]).unwrap().remove(0);
    assert!(z.is_same(&y) && y.grad_fn().unwrap().unwrap().name() == "Double");
    sum(&y).backward().unwrap();
    assert_close(&grad_of(&x), &[4.0, 8.0]);
    // Through a view.
    x.set_grad(None).unwrap();
    let y = mul(&x, &x);
    apply(Double { mark: true }, &[&ops::select_int(&y, 0, 1).unwrap()]).unwrap();
    sum(&y).backward().unwrap();
    assert_close(&grad_of(&x), &[2.0, 8.0]);
    assert!(message(apply(Double { mark: true }, &[&x])).contains("a leaf Variable that requires grad"));
}

struct Once;

impl Function for Once {
    const NAME: &'static str = "Once";
    const ONCE_DIFFERENTIABLE: bool = true;

    fn forward(&self, cx: &mut ForwardContext<'_>, x: &[Tensor]) -> Result<Vec<Tensor>> {
        cx.save_for_backward(&[&x[0]]);
        Ok(vec![ops::mul_tensor(&x[0], &x[0])?])
    }

    fn backward(&self, cx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let x = &cx.saved_tensors()?[0];
        let twice = ops::add_tensor(x, x, Scalar::Int(1))?;
        Ok(vec![Some(ops::mul_tensor(grads[0].as_ref().unwrap(), &twice)?)])
    }
}

#[test]
fn a_function_that_is_differentiable_once() {
    let x = leaf(&[3.0]);
    apply(Once, &[&x]).unwrap()[0].backward().unwrap();
    assert_close(&grad_of(&x), &[6.0]);
    let y = apply(Once, &[&x]).unwrap().remove(0);
    // The gradient of the gradient's own gradient is what would be wrong.
    let seed = leaf(&[1.0]);
    let first = grad(&[y], &[x.clone()], &[Some(seed)], None, true, false).unwrap().remove(0).unwrap();
    assert_close(&values(&first), &[6.0]);
    assert!(message(first.backward()).contains("marked with @once_differentiable"));
}

#[test]
fn saved_values_are_freed() {
    let x = leaf(&[3.0]);
    let y = apply(Once, &[&x]).unwrap().remove(0);
    y.backward().unwrap();
    assert!(message(y.backward()).contains("a second time"));
    // A saved input that was written.
    let y = mul(&x, &x);
    let z = apply(Once, &[&y]).unwrap().remove(0);
    ops::fill__scalar(&y.detach().unwrap(), Scalar::Int(0)).unwrap();
    assert!(message(z.backward()).contains("modified by an inplace operation"));
}
