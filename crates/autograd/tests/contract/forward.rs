//! Forward mode: levels, what a tangent is a tangent of, views, writing in place, and both modes through one another.

use crate::{data, message, values};
use flambeau_autograd::forward::{dual_level, is_dual_level_open, make_dual, unpack_dual};
use flambeau_autograd::{Autograd, checkpoint, grad, no_grad, saved_tensors_hooks};
use flambeau_core::{ErrorKind, Result};
use flambeau_ops::{Tensor, ops};

fn f64s(values: &[f64]) -> Tensor {
    data(values, &[values.len() as i64])
}

/// A tensor with a tangent.
fn dual(primal: &[f64], tangent: &[f64]) -> Result<Tensor> {
    make_dual(&f64s(primal), &f64s(tangent))
}

fn tangent(tensor: &Tensor) -> Option<Vec<f64>> {
    unpack_dual(tensor).unwrap().1.map(|tangent| values(&tangent))
}

#[test]
fn a_level_ends_with_its_tangents_and_does_not_nest() {
    assert!(!is_dual_level_open());
    assert_eq!(make_dual(&f64s(&[1.0]), &f64s(&[1.0])).unwrap_err().kind(), ErrorKind::Autograd);
    let level = dual_level().unwrap();
    assert!(dual_level().is_err());
    let x = dual(&[1.0, 2.0], &[3.0, 4.0]).unwrap();
    assert_eq!(tangent(&x), Some(vec![3.0, 4.0]));
    drop(level);
    assert_eq!(tangent(&x), None);
    let _level = dual_level().unwrap();
    assert_eq!(tangent(&x), None);
    assert_eq!(tangent(&ops::exp(&x).unwrap()), None);
}

#[test]
fn a_level_belongs_to_its_thread() {
    let _level = dual_level().unwrap();
    let x = dual(&[1.0], &[3.0]).unwrap();
    let seen = {
        let x = x.clone();
        std::thread::spawn(move || {
            let outside = (is_dual_level_open(), tangent(&x));
            let _level = dual_level().unwrap();
            (outside, tangent(&ops::exp(&x).unwrap()))
        })
    };
    assert_eq!(seen.join().unwrap(), ((false, None), None));
    assert_eq!(tangent(&x), Some(vec![3.0]));
}

#[test]
fn a_tangent_fits_its_tensor() {
    let _level = dual_level().unwrap();
    let x = f64s(&[1.0, 2.0]);
    let whole = Tensor::from_vec(vec![1i64, 2], &[2]).unwrap();
    let single = Tensor::from_vec(vec![1f32, 2.0], &[2]).unwrap();
    assert!(make_dual(&x, &f64s(&[1.0])).is_err());
    assert!(make_dual(&x, &whole).is_err() && make_dual(&whole, &whole).is_err());
    assert!(make_dual(&x, &single).is_err());
    let dual = make_dual(&x, &x).unwrap();
    assert!(make_dual(&dual, &x).is_err());
    assert_eq!(tangent(&x), None);
    assert!(!dual.requires_grad());
}

#[test]
fn a_primal_is_without_its_tangent() {
    let _level = dual_level().unwrap();
    let x = dual(&[1.0, 2.0], &[3.0, 4.0]).unwrap();
    let (primal, _) = unpack_dual(&x).unwrap();
    assert_eq!(values(&primal), [1.0, 2.0]);
    assert_eq!(tangent(&primal), None);
    assert_eq!(tangent(&ops::mul_tensor(&primal, &primal).unwrap()), None);
    assert_eq!(tangent(&x.detach().unwrap()), None);
}

#[test]
fn what_has_no_gradient_has_no_tangent() {
    let _level = dual_level().unwrap();
    let x = dual(&[1.5, 2.0], &[3.0, 4.0]).unwrap();
    assert_eq!(tangent(&ops::gt_scalar(&x, 0.into()).unwrap()), None);
    assert_eq!(tangent(&ops::floor(&x).unwrap()), Some(vec![0.0, 0.0]));
    let _unrecorded = no_grad();
    assert_eq!(tangent(&ops::histc(&x, 2, 0.into(), 0.into()).unwrap()), None);
    assert_eq!(tangent(&ops::square(&x).unwrap()), Some(vec![9.0, 16.0]));
}

#[test]
fn views_and_bases_share_their_tangents() {
    let _level = dual_level().unwrap();
    let x = dual(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
    let part = ops::slice_tensor(&x, 0, Some(1), None, 1).unwrap();
    assert_eq!(tangent(&part), Some(vec![5.0, 6.0]));
    ops::mul__scalar(&part, 2.into()).unwrap();
    assert_eq!(tangent(&x), Some(vec![4.0, 10.0, 12.0]));

    let base = ops::zeros(&[3], Some(flambeau_core::ScalarType::F64), None, None, None).unwrap();
    let (first, last) = (ops::select_int(&base, 0, 0).unwrap(), ops::select_int(&base, 0, 2).unwrap());
    ops::copy_(&first, &ops::select_int(&x, 0, 1).unwrap(), false).unwrap();
    assert_eq!(tangent(&base), Some(vec![10.0, 0.0, 0.0]));
    assert_eq!(tangent(&last), Some(vec![0.0]));
    ops::zero_(&base).unwrap();
    assert_eq!(tangent(&first), Some(vec![0.0]));
}

#[test]
fn writing_in_place_writes_the_tangent() {
    let _level = dual_level().unwrap();
    let direction = f64s(&[3.0, 4.0]);
    let x = make_dual(&f64s(&[1.0, 2.0]), &direction).unwrap();
    ops::mul__scalar(&x, 2.into()).unwrap();
    assert_eq!(values(&direction), [6.0, 8.0]);
    let shifted = ops::add_scalar(&x, 1.into(), 1.into()).unwrap();
    ops::neg_(&shifted).unwrap();
    assert_eq!(tangent(&x), Some(vec![6.0, 8.0]));
    assert_eq!(tangent(&shifted), Some(vec![-6.0, -8.0]));
    ops::normal_(&shifted, 0.0, 1.0, None).unwrap();
    assert_eq!(tangent(&shifted), Some(vec![0.0, 0.0]));
    let whole = Tensor::from_vec(vec![1i64, 2], &[2]).unwrap();
    let add = |to: &Tensor| ops::add__tensor(to, &x, 1.into());
    assert_eq!(message(add(&whole)), message(ops::add__tensor(&whole, &f64s(&[1.0, 2.0]), 1.into())));
    let part =
        ops::slice_tensor(&dual(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap(), 0, Some(1), None, 1).unwrap();
    ops::as_strided_(&part, &[1], &[1], Some(2)).unwrap();
    assert_eq!((values(&part), tangent(&part)), (vec![3.0], Some(vec![6.0])));
    let row = ops::reshape(&dual(&[1.0, 2.0], &[3.0, 4.0]).unwrap(), &[1, 2]).unwrap();
    ops::t_(&row).unwrap();
    assert_eq!(unpack_dual(&row).unwrap().1.unwrap().sizes(), [2, 1]);
}

#[test]
fn what_cannot_carry_a_tangent_says_so() {
    let _level = dual_level().unwrap();
    let x = dual(&[1.0, 2.0], &[3.0, 4.0]).unwrap();
    let out = f64s(&[0.0, 0.0]);
    let refused = |result: Result<()>| result.unwrap_err();
    let error = refused(ops::exp_out(&x, &out));
    assert!(error.kind() == ErrorKind::NotImplemented && error.to_string().contains("exp_out"), "{error}");
    let error = refused(ops::resize_(&x, &[4], None));
    assert!(error.to_string().contains("resize_"), "{error}");
    let _unrecorded = no_grad();
    assert!(ops::exp_out(&x, &out).is_err());
    assert!(ops::add_out(&out, &out, 1.into(), &x).is_err());
}

/// d/dx of the tangent of sin along 2, at x: -2 sin x.
#[test]
fn a_backward_pass_goes_through_tangents() {
    let x = f64s(&[0.3, 1.1]);
    x.requires_grad_(true).unwrap();
    let _level = dual_level().unwrap();
    let sine = ops::sin(&make_dual(&x, &f64s(&[2.0, 2.0])).unwrap()).unwrap();
    assert!(sine.requires_grad());
    let slope = unpack_dual(&sine).unwrap().1.unwrap();
    let seed = [Some(f64s(&[1.0, 1.0]))];
    let second = grad(&[slope], std::slice::from_ref(&x), &seed, None, false, false).unwrap();
    let second = values(second[0].as_ref().unwrap());
    assert!((second[0] + 2.0 * 0.3f64.sin()).abs() < 1e-15 && (second[1] + 2.0 * 1.1f64.sin()).abs() < 1e-15);
}

#[test]
fn tangents_alone_may_have_a_history() {
    let direction = f64s(&[2.0]);
    direction.requires_grad_(true).unwrap();
    let _level = dual_level().unwrap();
    let cube = ops::pow_tensor_scalar(&make_dual(&f64s(&[3.0]), &direction).unwrap(), 3.into()).unwrap();
    assert!(!cube.requires_grad());
    let slope = unpack_dual(&cube).unwrap().1.unwrap();
    let back = grad(&[slope], &[direction], &[], None, false, false).unwrap();
    assert_eq!(values(back[0].as_ref().unwrap()), [27.0]);
}

/// The gradient of exp(x)² / 2 is exp(2x), and its slope along 1 twice that: saved results, written to `grad`.
#[test]
fn gradients_computed_in_a_level_have_tangents() {
    let x = f64s(&[0.5]);
    x.requires_grad_(true).unwrap();
    let _level = dual_level().unwrap();
    let y = make_dual(&x, &f64s(&[1.0])).unwrap();
    let loss = ops::mul_scalar(&ops::square(&ops::exp(&y).unwrap()).unwrap(), 0.5.into()).unwrap();
    loss.backward().unwrap();
    let slope = tangent(&x.grad().unwrap()).unwrap();
    assert!((slope[0] - 2.0 * 1f64.exp()).abs() < 1e-14, "{slope:?}");
    let twice = ops::exp(&y).unwrap();
    twice.backward().unwrap();
    let sum = tangent(&x.grad().unwrap()).unwrap();
    assert!((sum[0] - 2.0 * 1f64.exp() - 0.5f64.exp()).abs() < 1e-14, "{sum:?}");
}

#[test]
fn packed_tensors_keep_their_tangents() {
    let x = f64s(&[0.5]);
    x.requires_grad_(true).unwrap();
    let _level = dual_level().unwrap();
    let hooks = saved_tensors_hooks(
        |tensor| Ok(Box::new(tensor.detach()?)),
        |packed| Ok(packed.downcast_ref::<Tensor>().unwrap().clone()),
    );
    let y = ops::exp(&make_dual(&x, &f64s(&[1.0])).unwrap()).unwrap();
    drop(hooks);
    let gradient = grad(&[y], &[x], &[], None, false, false).unwrap();
    let slope = tangent(gradient[0].as_ref().unwrap()).unwrap();
    assert!((slope[0] - 0.5f64.exp()).abs() < 1e-15, "{slope:?}");
}

/// A checkpointed segment saves the same tensors when it is recomputed, with tangents or without.
#[test]
fn parts_that_run_again_keep_their_tangents() {
    let part = |x: &[Tensor]| {
        let y = ops::cumprod(&ops::tanh(&ops::mul_tensor(&x[0], &x[1])?)?, 0, None)?;
        let z = ops::add_scalar(&y, 1.into(), 1.into())?;
        ops::exp_(&z)?;
        ops::mul_tensor(&z, &x[0])
    };
    let (x, w) = (f64s(&[0.5, -1.5]), f64s(&[2.0, 0.25]));
    x.requires_grad_(true).unwrap();
    w.requires_grad_(true).unwrap();
    let run = |again: bool| {
        let _level = dual_level().unwrap();
        let inputs = [make_dual(&x, &f64s(&[1.0, 2.0])).unwrap(), w.clone()];
        let y = if again { checkpoint(part, &inputs) } else { part(&inputs) }.unwrap();
        let seed = [Some(f64s(&[1.0, -0.5]))];
        let grads = grad(&[y.clone()], &[x.clone(), w.clone()], &seed, Some(true), false, false).unwrap();
        let slope = unpack_dual(&y).unwrap().1.unwrap();
        let back = grad(&[slope], &[x.clone(), w.clone()], &seed, None, false, false).unwrap();
        let of_grads = grads.iter().flatten().map(|grad| (values(grad), tangent(grad)));
        (tangent(&y), of_grads.collect::<Vec<_>>(), back.iter().flatten().map(values).collect::<Vec<_>>())
    };
    let ((tangent, grads, back), (plain_tangent, plain_grads, plain_back)) = (run(true), run(false));
    assert_eq!((tangent, grads), (plain_tangent, plain_grads));
    // Gradients that arrive in another order are added in another order.
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-14 * b.abs();
    assert!(back.concat().iter().zip(&plain_back.concat()).all(close), "{back:?} {plain_back:?}");
}

#[test]
fn writing_in_place_in_a_level_can_be_differentiated() {
    let x = f64s(&[0.5, 2.0]);
    x.requires_grad_(true).unwrap();
    let _level = dual_level().unwrap();
    let y = ops::clone(&make_dual(&x, &f64s(&[1.0, 1.0])).unwrap(), None).unwrap();
    ops::log_(&y).unwrap();
    let gradient = grad(&[y], &[x], &[Some(f64s(&[1.0, 1.0]))], None, false, false).unwrap();
    assert_eq!(values(gradient[0].as_ref().unwrap()), [2.0, 0.5]);
    assert_eq!(tangent(gradient[0].as_ref().unwrap()), Some(vec![-4.0, -0.25]));
}

/// An operator of another crate, whose derivative is recorded.
mod cube {
    use flambeau_autograd::record;
    use flambeau_autograd::{Backward, Context, Gradients, SavedVariable, forward};
    use flambeau_core::{DispatchKey, DispatchKeySet, Result, Scalar};
    use flambeau_ops::dispatch::{Arguments, Kernel, Operator, Value};
    use flambeau_ops::{Tensor, ops};

    type UnaryFn = fn(DispatchKeySet, &Tensor) -> Result<Tensor>;

    pub(super) fn call(operator: &Operator<UnaryFn>, x: &Tensor) -> Result<Tensor> {
        let (keys, kernel) = operator.select(x.key_set())?;
        kernel(keys, x)
    }

    fn cube(_: DispatchKeySet, x: &Tensor) -> Result<Tensor> {
        ops::mul_tensor(&ops::mul_tensor(x, x)?, x)
    }

    struct CubeBackward0 {
        x: SavedVariable,
    }

    impl Backward for CubeBackward0 {
        const NAME: &'static str = "CubeBackward0";
        const SAVES: bool = true;

        fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
            let Some(grad) = &grads[0] else { return Ok(Gradients::new()) };
            let x = &self.x.unpack(cx)?;
            let slope = || ops::mul_scalar(&ops::mul_tensor(&ops::mul_tensor(x, x)?, grad)?, Scalar::Int(3));
            record::gradients(cx, [&slope])
        }
    }

    fn recorded(keys: DispatchKeySet, x: &Tensor) -> Result<Tensor> {
        let mut result = {
            let _below = record::below();
            cube(keys, x)?
        };
        if let Some(edges) = record::recorded_edges([x])? {
            record::set_history(&mut result, edges, CubeBackward0 { x: SavedVariable::input(x, 0)? });
        }
        Ok(result)
    }

    pub(super) static SILENT: Operator<UnaryFn> = Operator::new(
        "silent_cube",
        "silent_cube(Tensor self) -> Tensor",
        &[
            Kernel::new(DispatchKey::Cpu, cube as UnaryFn),
            Kernel::new(DispatchKey::Autograd, recorded as UnaryFn),
        ],
        |given| Ok(vec![call(&SILENT, Arguments::new("silent_cube", given, 1)?.tensor()?)?.into()]),
    );

    fn carried(_: DispatchKeySet, x: &Tensor) -> Result<Tensor> {
        let results = forward::transposed(&CARRIED, &[0], &[Value::from(x)])?;
        Arguments::new("cube", &results, 1)?.tensor().cloned()
    }

    pub(super) static CARRIED: Operator<UnaryFn> = Operator::new(
        "cube",
        "cube(Tensor self) -> Tensor",
        &[
            Kernel::new(DispatchKey::Cpu, cube as UnaryFn),
            Kernel::new(DispatchKey::Autograd, recorded as UnaryFn),
            Kernel::new(DispatchKey::ForwardGrad, carried as UnaryFn),
        ],
        |given| Ok(vec![call(&CARRIED, Arguments::new("cube", given, 1)?.tensor()?)?.into()]),
    );
}

#[test]
fn an_operator_of_another_crate_loses_no_tangent_in_silence() {
    let plain = f64s(&[1.0, -2.0]);
    let _level = dual_level().unwrap();
    for slope in 1..4 {
        let x = dual(&[1.0, -2.0], &[f64::from(slope), 0.5]).unwrap();
        for unrecorded in [false, true] {
            let _guard = unrecorded.then(no_grad);
            let error = cube::call(&cube::SILENT, &x).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotImplemented);
            assert!(error.message().contains("silent_cube"), "{error}");
            let carried = cube::call(&cube::CARRIED, &x).unwrap();
            assert_eq!(tangent(&carried), Some(vec![3.0 * f64::from(slope), 6.0]));
        }
        assert_eq!(values(&cube::call(&cube::SILENT, &plain).unwrap()), [1.0, -8.0]);
        assert_eq!(tangent(&cube::call(&cube::CARRIED, &plain).unwrap()), None);
    }
}
