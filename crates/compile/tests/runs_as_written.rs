//! Functions that cannot be compiled run as they are written, and say why.

#![allow(clippy::unwrap_used, reason = "a test")]

mod chains;

use chains::{assert_same, numbers};
use flambeau_compile::{Compiled, compile};
use flambeau_core::{Result, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops};
use std::sync::atomic::{AtomicUsize, Ordering};

fn x() -> Tensor {
    numbers(1, &[20], ScalarType::F32).unwrap()
}

fn refused(compiled: &Compiled, inputs: &[Tensor], why: &str) {
    let explanation = compiled.explain(inputs);
    let reason = explanation.reason.clone().unwrap_or_default();
    assert!(reason.contains(why), "expected {why:?} in {explanation}");
}

#[test]
fn a_branch_that_depends_on_an_element() {
    fn clipped(x: &[Tensor]) -> Result<Vec<Tensor>> {
        let largest = x[0].max()?.item::<f32>()?;
        Ok(vec![if largest > 1.0 { (&x[0] / f64::from(largest))? } else { (&x[0] * 1.0)? }])
    }
    let compiled = compile(clipped);
    let small = (x() * 0.01).unwrap();
    for input in [x(), small] {
        let input = [input];
        assert_same("clipped", &compiled.call(&input).unwrap(), &clipped(&input).unwrap());
    }
    refused(&compiled, &[x()], "");
}

#[test]
fn a_write_to_an_argument() {
    let compiled = compile(|x: &[Tensor]| {
        ops::add__tensor(&x[0], &x[1], Scalar::Int(1))?;
        Ok(vec![(&x[0] * 2.0)?])
    });
    let (a, b) = (x(), x());
    refused(&compiled, &[a.clone(), b.clone()], "in place");
    assert_same("explained only", std::slice::from_ref(&a), &[x()]);
    compiled.call(&[a.clone(), b.clone()]).unwrap();
    assert_same("written once", &[a], &[(x() + x()).unwrap()]);
}

#[test]
fn tensors_of_values_that_the_function_makes() {
    let calls = AtomicUsize::new(0);
    let compiled = compile(move |x: &[Tensor]| {
        let count = calls.fetch_add(1, Ordering::Relaxed) as f32;
        Ok(vec![(&x[0] * Tensor::from([count]))?])
    });
    refused(&compiled, &[x()], "of its own values");
    let first = compiled.call(&[x()]).unwrap();
    let second = compiled.call(&[x()]).unwrap();
    assert_ne!(chains::bits(&first[0]).unwrap(), chains::bits(&second[0]).unwrap());
}

#[test]
fn errors_are_those_of_the_function() {
    let compiled = compile(|x: &[Tensor]| Ok(vec![x[0].mm(&x[1])?]));
    let error = compiled.call(&[x(), x()]).unwrap_err();
    assert_eq!(error.operator(), Some("mm"), "{error}");
}

#[test]
fn other_operators_run_between_the_loops() {
    fn layer(x: &[Tensor]) -> Result<Vec<Tensor>> {
        let h = (x[0].mm(&x[1])? + &x[2])?.tanh()?;
        let mean = ops::mean_dim(&h, Some(&[1]), true, None)?;
        Ok(vec![((&h - mean)? * 3.0)?, h])
    }
    let inputs = [
        numbers(1, &[5, 8], ScalarType::F32).unwrap(),
        numbers(2, &[8, 6], ScalarType::F32).unwrap(),
        numbers(3, &[6], ScalarType::F32).unwrap(),
    ];
    let compiled = compile(layer);
    assert_same("layer", &compiled.call(&inputs).unwrap(), &layer(&inputs).unwrap());
    let explanation = compiled.explain(&inputs);
    let names: Vec<&str> = explanation.calls.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        (names.as_slice(), explanation.loops.len()),
        (["mm", "mean.dim"].as_slice(), 2),
        "{explanation}"
    );
}

#[test]
fn tensors_that_the_function_knows() {
    let weight = x();
    let known = weight.clone();
    let compiled = compile(move |x: &[Tensor]| Ok(vec![((&x[0] * &known)? + 1.0)?]));
    let expected = |x: &Tensor| vec![((x * &weight).unwrap() + 1.0).unwrap()];
    assert_same("known", &compiled.call(&[x()]).unwrap(), &expected(&x()));
    ops::mul__tensor(&weight, &weight).unwrap();
    assert_same("written since", &compiled.call(&[x()]).unwrap(), &expected(&x()));
    assert_eq!(compiled.plans(), 1);
}

#[test]
fn a_compiled_function_inside_another_becomes_a_part_of_its_loop() {
    let inner = compile(|x: &[Tensor]| Ok(vec![x[0].exp()?]));
    let outer = compile(move |x: &[Tensor]| Ok(vec![(inner.call(x)?[0].clone() + 1.0)?]));
    let explanation = outer.explain(&[x()]);
    assert_eq!(explanation.loops[0].operators.len(), 2, "{explanation}");
}

#[test]
fn random_numbers_are_drawn_anew_and_as_often() {
    fn noisy(x: &[Tensor]) -> Result<Vec<Tensor>> {
        let (dropped, mask) = ops::native_dropout(&(&x[0] * 2.0)?, 0.5, Some(true))?;
        ops::bernoulli_p(&mask, 0.5, None)?;
        Ok(vec![(dropped + 1.0)?, ops::native_dropout(&x[0], 0.25, Some(true))?.0])
    }
    let compiled = compile(noisy);
    flambeau_core::manual_seed(7);
    let made: Vec<Vec<Tensor>> = (0..3).map(|_| compiled.call(&[x()]).unwrap()).collect();
    flambeau_core::manual_seed(7);
    for made in made {
        assert_same("noisy", &made, &noisy(&[x()]).unwrap());
    }
    assert!(compiled.explain(&[x()]).is_compiled());
}
