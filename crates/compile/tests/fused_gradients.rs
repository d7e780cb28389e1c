//! Gradients of compiled functions have the bits of autograd's.

#![allow(clippy::unwrap_used, reason = "a test")]

mod chains;

use chains::{CHAINS, assert_same, numbers};
use flambeau_autograd::{Autograd, grad, gradcheck};
use flambeau_compile::compile;
use flambeau_core::{Result, ScalarType};
use flambeau_ops::{Tensor, ops};

fn leaves(sizes: &[&[i64]], dtype: ScalarType) -> Vec<Tensor> {
    let leaf = |(i, sizes): (usize, &&[i64])| {
        let made = numbers(i as u64 + 1, sizes, dtype).unwrap();
        made.requires_grad_(true).unwrap();
        made
    };
    sizes.iter().enumerate().map(leaf).collect()
}

/// The gradients of the sum of what `f` returns, weighted so that they differ.
fn gradients(f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor]) -> Vec<Option<Tensor>> {
    let outputs: Vec<Tensor> = f(inputs).unwrap().into_iter().filter(Autograd::requires_grad).collect();
    let weight = |(i, out): (usize, &Tensor)| Some(numbers(i as u64 + 50, out.sizes(), out.dtype()).unwrap());
    let seeds: Vec<Option<Tensor>> = outputs.iter().enumerate().map(weight).collect();
    grad(&outputs, inputs, &seeds, None, false, true).unwrap()
}

fn assert_gradients(name: &str, f: fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor]) {
    let compiled = compile(f);
    let (made, expected) = (gradients(&|x| compiled.call(x), inputs), gradients(&f, inputs));
    let explanation = compiled.explain(inputs);
    assert!(explanation.is_compiled(), "{name}: {explanation}");
    for (made, expected) in made.iter().zip(&expected) {
        assert_eq!(made.is_some(), expected.is_some(), "{name}");
        if let (Some(made), Some(expected)) = (made, expected) {
            assert_same(name, std::slice::from_ref(made), std::slice::from_ref(expected));
        }
    }
}

#[test]
fn of_chains() {
    for dtype in [ScalarType::F32, ScalarType::F64] {
        for (name, chain, _) in CHAINS {
            assert_gradients(name, *chain, &leaves(&[&[37i64][..]; 4], dtype));
            assert_gradients(name, *chain, &leaves(&[&[5, 9], &[9], &[5, 1], &[]], dtype));
        }
    }
}

#[test]
fn of_products_and_sums_between_chains() {
    fn layer(x: &[Tensor]) -> Result<Vec<Tensor>> {
        let h = (x[0].mm(&x[1])? + &x[2])?.silu()?;
        Ok(vec![ops::sum_dim_intlist(&(&h * &h)?, Some(&[1]), false, None)?])
    }
    assert_gradients("layer", layer, &leaves(&[&[5, 8], &[8, 6], &[6]], ScalarType::F64));
}

#[test]
fn of_a_sum_whose_gradient_is_expanded() {
    let compiled = compile(CHAINS[3].1);
    let run = |f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>| {
        let x = leaves(&[&[33]], ScalarType::F32);
        f(&x).unwrap()[0].sum().unwrap().backward().unwrap();
        x[0].grad().unwrap()
    };
    assert_same("sum", &[run(&|x| compiled.call(x))], &[run(&CHAINS[3].1)]);
}

#[test]
fn of_tensors_that_the_function_knows() {
    let weight = leaves(&[&[8]], ScalarType::F64).remove(0);
    let known = weight.clone();
    let compiled = compile(move |x: &[Tensor]| Ok(vec![((&x[0] * &known)?).tanh()?]));
    let x = numbers(9, &[3, 8], ScalarType::F64).unwrap();
    compiled.call(std::slice::from_ref(&x)).unwrap()[0].sum().unwrap().backward().unwrap();
    let made = weight.grad().unwrap();
    weight.set_grad(None).unwrap();
    ((&x * &weight).unwrap()).tanh().unwrap().sum().unwrap().backward().unwrap();
    assert_same("weight", &[made], &[weight.grad().unwrap()]);
}

#[test]
fn against_finite_differences_and_twice() {
    let inputs = leaves(&[&[6], &[6]], ScalarType::F64);
    let compiled = compile(CHAINS[4].1);
    gradcheck(|x| compiled.call(x), &inputs).unwrap();
    flambeau_autograd::gradgradcheck(|x| compiled.call(x), &inputs).unwrap();
}

#[test]
fn a_write_before_the_backward_pass_is_noticed() {
    let x = leaves(&[&[6]], ScalarType::F32);
    let y = (&x[0] * 1.0).unwrap();
    let result = compile(CHAINS[3].1).call(std::slice::from_ref(&y)).unwrap();
    ops::mul__scalar(&y, 2.0.into()).unwrap();
    assert!(result[0].sum().unwrap().backward().is_err());
}

#[test]
fn of_random_numbers_that_were_drawn() {
    fn noisy(x: &[Tensor]) -> Result<Vec<Tensor>> {
        let dropped = ops::native_dropout(&x[0].tanh()?, 0.5, Some(true))?.0;
        Ok(vec![(&dropped * &x[1])?])
    }
    let inputs = leaves(&[&[40], &[40]], ScalarType::F32);
    let compiled = compile(noisy);
    flambeau_core::manual_seed(5);
    let made = gradients(&|x| compiled.call(x), &inputs);
    flambeau_core::manual_seed(5);
    let expected = gradients(&noisy, &inputs);
    for (made, expected) in made.into_iter().flatten().zip(expected.into_iter().flatten()) {
        assert_same("noisy", &[made], &[expected]);
    }
    assert!(compiled.explain(&inputs).is_compiled());
}
