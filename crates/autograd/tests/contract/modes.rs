//! Grad modes, inference mode, and the flags of leaves.

use crate::{add, data, leaf, message, mul, sum};
use flambeau_autograd::{
    Autograd, enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad,
    set_grad_enabled,
};
use flambeau_core::{DispatchKey, ErrorKind};
use flambeau_ops::{Tensor, ops};

#[test]
fn modes_nest_and_end_with_their_guards() {
    let x = leaf(&[1.0]);
    let recorded = || add(&x, &x).requires_grad();
    assert!(recorded());
    {
        let _off = no_grad();
        assert!(!recorded() && !is_grad_enabled());
        {
            let _on = enable_grad();
            assert!(recorded());
            let _off = set_grad_enabled(false);
            assert!(!recorded());
        }
        assert!(!recorded());
    }
    assert!(recorded() && is_grad_enabled());
    // Modes belong to the thread.
    let _off = no_grad();
    std::thread::scope(|scope| scope.spawn(|| assert!(is_grad_enabled())).join().unwrap());
}

#[test]
fn inference_mode_makes_inference_tensors() {
    let x = leaf(&[1.0]);
    let (made, view) = {
        let _inference = inference_mode();
        assert!(is_inference_mode_enabled() && !is_grad_enabled());
        let _on = enable_grad();
        let made = add(&x, &x);
        assert!(!made.requires_grad() && made.is_inference());
        assert!(!made.key_set().has(DispatchKey::ADInplaceOrView));
        let view = ops::view(&made, &[1, 1]).unwrap();
        ops::mul__tensor(&made, &made).unwrap();
        (made, view)
    };
    assert!(view.is_inference() && !view.is_view() && !is_inference_mode_enabled());
    assert!(message(ops::mul_tensor(&made, &x)).contains("Inference tensors cannot be saved for backward."));
    // Adding saves nothing.
    add(&made, &x).backward().unwrap();
    assert!(
        message(ops::mul__tensor(&made, &x))
            .starts_with("Inplace update to inference tensor outside InferenceMode")
    );
    assert!(message(made.requires_grad_(true)).contains("Setting requires_grad=True on inference tensor"));
    ops::mul_tensor(&ops::clone(&made, None).unwrap(), &x).unwrap().backward().unwrap();
}

#[test]
fn requires_grad_is_for_leaves_of_floating_point() {
    let whole = Tensor::from_vec(vec![1i64], &[1]).unwrap();
    assert_eq!(
        message(whole.requires_grad_(true)),
        "only Tensors of floating point dtype can require gradients"
    );
    let x = leaf(&[1.0]);
    let y = mul(&x, &x);
    assert!(
        message(y.requires_grad_(false))
            .starts_with("you can only change requires_grad flags of leaf variables.")
    );
    y.requires_grad_(true).unwrap();
    x.requires_grad_(false).unwrap();
    assert!(!x.requires_grad() && !x.key_set().has(DispatchKey::Autograd) && !add(&x, &x).requires_grad());
    // The graph was recorded before, but the leaf no longer requires a gradient.
    y.backward().unwrap();
    assert!(x.grad().is_none());
}

#[test]
fn detach_in_place_forgets() {
    let x = leaf(&[1.0]);
    let y = mul(&x, &x);
    y.detach_().unwrap();
    assert!(y.is_leaf() && !y.requires_grad());
    let view = ops::view(&x, &[1, 1]).unwrap();
    assert!(message(view.detach_()).contains("Can't detach views in-place"));
}

#[test]
fn an_operator_without_a_recording_kernel_refuses_to_lose_a_gradient() {
    use flambeau_core::{DispatchKeySet, Result};
    use flambeau_ops::dispatch::{Kernel, Operator, Value};
    type UnaryFn = fn(DispatchKeySet, &Tensor) -> Result<Tensor>;
    fn kernel(_: DispatchKeySet, x: &Tensor) -> Result<Tensor> {
        Ok(x.clone())
    }
    fn boxed(_: &[Value]) -> Result<Vec<Value>> {
        Ok(Vec::new())
    }
    static FORGOTTEN: Operator<UnaryFn> = Operator::new(
        "forgotten",
        "forgotten(Tensor self) -> Tensor",
        &[Kernel::new(DispatchKey::Cpu, kernel as UnaryFn)],
        boxed,
    );
    assert!(FORGOTTEN.select(data(&[1.0], &[1]).key_set()).is_ok());
    assert_eq!(
        FORGOTTEN.select(leaf(&[1.0]).key_set()).map(drop).unwrap_err().kind(),
        ErrorKind::NotImplemented
    );
}

#[test]
fn an_operator_without_a_derivative_says_so_in_the_backward_pass() {
    let x = leaf(&[1.0]);
    let y = ops::unique_consecutive(&x, false, false, None).unwrap().0;
    assert!(y.requires_grad());
    let error = sum(&y).backward().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotImplemented);
    assert_eq!(error.message(), "the derivative for 'unique_consecutive' is not implemented.");
}

#[test]
fn printing_tells_of_the_gradient() {
    let x = leaf(&[1.0]);
    assert!(x.to_string().ends_with("requires_grad=True)"), "{x}");
    assert!(mul(&x, &x).to_string().ends_with("grad_fn=<MulBackward0>)"), "{}", mul(&x, &x));
    assert!(!data(&[1.0], &[1]).to_string().contains("grad"));
}
