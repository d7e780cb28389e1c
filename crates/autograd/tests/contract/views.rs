//! The bases of views, and which views may not be written in place.

use crate::{add, data, leaf, message, mul};
use flambeau_autograd::function::{BackwardContext, ForwardContext, Function, apply};
use flambeau_autograd::{Autograd, inference_mode, no_grad, record};
use flambeau_core::{DispatchKey, Result, Scalar};
use flambeau_ops::{Tensor, ops};

#[test]
fn a_view_of_a_view_is_a_view_of_the_root() {
    let x = data(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    let row = ops::select_int(&x, 0, 0).unwrap();
    let element = ops::select_int(&row, 0, 1).unwrap();
    assert!(row.base().unwrap().is_same(&x) && element.base().unwrap().is_same(&x));
    assert!(!x.is_view() && element.is_view());
    let detached = element.detach().unwrap();
    assert!(!detached.is_view() && !detached.key_set().has(DispatchKey::Autograd));
    assert!(!ops::clone(&element, None).unwrap().is_view());
}

#[test]
fn a_tensor_that_needs_no_gradient_does_not_carry_the_key() {
    let x = data(&[1.0], &[1]);
    assert!(!add(&x, &x).key_set().has(DispatchKey::Autograd));
    let w = leaf(&[1.0]);
    assert!(add(&x, &w).key_set().has(DispatchKey::Autograd));
    let _unrecorded = no_grad();
    assert!(!add(&x, &w).key_set().has(DispatchKey::Autograd));
}

#[test]
fn views_made_in_no_grad() {
    let x = leaf(&[1.0, 2.0]);
    let y = mul(&x, &x);
    let view = {
        let _unrecorded = no_grad();
        ops::select_int(&y, 0, 0).unwrap()
    };
    assert!(view.is_view() && view.is_leaf());
    let direct = "A view was created in no_grad mode and is being modified inplace with grad mode enabled.";
    assert!(message(ops::exp_(&view)).starts_with(direct));
    ops::add__tensor(&y, &x, Scalar::Int(1)).unwrap();
    let indirect = "A view was created in no_grad mode and its base or another view of its base has been modified inplace";
    assert!(message(view.grad_fn()).starts_with(indirect));
    assert!(message(ops::exp(&view)).starts_with(indirect));
}

#[test]
fn views_made_in_inference_mode() {
    let y = data(&[1.0, 2.0], &[2]);
    let view = {
        let _inference = inference_mode();
        ops::select_int(&y, 0, 0).unwrap()
    };
    assert!(view.is_view() && !view.is_inference());
    let x = ops::select_int(&leaf(&[1.0]), 0, 0).unwrap();
    assert!(
        message(ops::mul__tensor(&view, &x))
            .contains("A view was created in inference mode and is being modified")
    );
}

#[test]
fn views_of_several_results() {
    let x = leaf(&[1.0, 2.0]);
    let y = mul(&x, &x);
    let both = || Ok(vec![y.detach()?, y.detach()?]);
    let views = record::views(&y, both).unwrap();
    let text = message(ops::mul__tensor(&views[0], &x));
    assert!(text.contains(
        "is being modified inplace. This view is the output of a function that returns multiple views."
    ));
}

#[test]
fn views_made_in_a_custom_function() {
    struct First;
    impl Function for First {
        const NAME: &'static str = "First";
        fn forward(&self, _: &mut ForwardContext<'_>, x: &[Tensor]) -> Result<Vec<Tensor>> {
            Ok(vec![ops::select_int(&x[0], 0, 0)?])
        }
        fn backward(&self, _: &BackwardContext<'_>, _: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
            Ok(vec![None])
        }
    }
    let y = mul(&leaf(&[1.0, 2.0]), &data(&[2.0], &[1]));
    let view = apply(First, &[&y]).unwrap().remove(0);
    let text = message(ops::exp_(&view));
    assert!(text.starts_with("Output 0 of First is a view and is being modified inplace."), "{text}");
    assert!(text.contains("created inside a custom Function"), "{text}");
}

#[test]
fn a_view_of_a_leaf_whose_requires_grad_is_set_later() {
    let x = data(&[1.0, 2.0], &[2]);
    let view = ops::select_int(&x, 0, 0).unwrap();
    x.requires_grad_(true).unwrap();
    // As in PyTorch: it reports that its base requires a gradient, but was created before the base did, and has no history.
    assert!(view.requires_grad() && view.is_leaf() && view.grad_fn().unwrap().is_none());
}
