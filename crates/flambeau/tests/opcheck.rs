//! `opcheck` finds what is wrong with an operator, each kind of fault by the check that is named for it.

use flambeau::dispatch::{Call, DispatchKey, OperatorInfo, Value};
use flambeau::opcheck::{Check, opcheck};
use flambeau::prelude::*;
use flambeau::{num_threads, registry};

type Kernel = fn(&Tensor) -> Result<Tensor>;

/// An operator of one tensor with these kernels.
fn operator(schema: &str, kernels: &[(DispatchKey, Kernel)]) -> Result<&'static dyn OperatorInfo> {
    let op = registry::define(schema)?;
    for (key, kernel) in kernels {
        let kernel = *kernel;
        let boxed = move |call: &Call<'_>| match call.arguments {
            [Value::Tensor(x)] => Ok(vec![kernel(x)?.into()]),
            other => flambeau::core::bail!(InvalidArgument, "expected a tensor but got {}", other.len()),
        };
        op.register_boxed(*key, Box::leak(Box::new(boxed)))?;
    }
    Ok(op)
}

fn fault(op: &dyn OperatorInfo, x: &Tensor) -> String {
    opcheck(op, &[x.into()]).err().map(|error| error.to_string()).unwrap_or_default()
}

fn empty_like(x: &Tensor) -> Result<Tensor> {
    ops::empty_like(x, None, None, None, None, None)
}

fn twice(x: &Tensor) -> Result<Tensor> {
    x.add(x)
}

const CPU: DispatchKey = DispatchKey::Cpu;
const META: DispatchKey = DispatchKey::Meta;
const IMPLICIT: DispatchKey = DispatchKey::CompositeImplicitAutograd;

#[test]
fn right_operators_pass_and_name_what_was_checked() -> Result<()> {
    let op = operator("opcheck_tests::twice(Tensor x) -> Tensor", &[(IMPLICIT, twice)])?;
    let x = Tensor::from([[1.0f64, 2.0], [-3.0, 0.5]]);
    assert_eq!(opcheck(op, &[(&x).into()])?, [Check::Schema, Check::Meta, Check::Threads, Check::Batches]);
    let all = opcheck(op, &[x.with_requires_grad(true)?.into()])?;
    assert!(all.contains(&Check::Gradients) && all.contains(&Check::Tangents) && all.len() == 6, "{all:?}");
    Ok(())
}

#[test]
fn undeclared_writes_and_aliases_are_found() -> Result<()> {
    let write: Kernel = |x| {
        x.add_(x)?;
        twice(x)
    };
    let op = operator("opcheck_tests::writes(Tensor x) -> Tensor", &[(CPU, write), (META, twice)])?;
    let x = Tensor::from([1.0f32, 2.0]);
    let words = fault(op, &x);
    assert!(words.contains("Schema") && words.contains("not written"), "{words}");
    let op =
        operator("opcheck_tests::alias(Tensor x) -> Tensor", &[(CPU, |x| x.view(&[-1])), (META, twice)])?;
    let words = fault(op, &x);
    assert!(words.contains("Schema") && words.contains("memory of its own"), "{words}");
    let declared =
        operator("opcheck_tests::view(Tensor(a) x) -> Tensor(a)", &[(IMPLICIT, |x| x.view(&[-1]))])?;
    assert_eq!(fault(declared, &x), "");
    Ok(())
}

#[test]
fn another_shape_on_meta_is_found() -> Result<()> {
    let op =
        operator("opcheck_tests::shape(Tensor x) -> Tensor", &[(CPU, twice), (META, |x| x.unsqueeze(0))])?;
    let words = fault(op, &Tensor::from([1.0f32, 2.0]));
    assert!(words.contains("Meta") && words.contains("[1, 2]"), "{words}");
    Ok(())
}

#[test]
fn bits_that_depend_on_threads_are_found() -> Result<()> {
    let kernel: Kernel = |x| x.add(&Tensor::from(num_threads() as f32));
    let op = operator("opcheck_tests::threads(Tensor x) -> Tensor", &[(CPU, kernel), (META, empty_like)])?;
    let words = fault(op, &Tensor::from([1.0f32, 2.0]));
    assert!(words.contains("Threads") && words.contains("other bits on 2 threads"), "{words}");
    Ok(())
}

#[test]
fn wrong_and_missing_derivatives_are_found() -> Result<()> {
    // What is detached is left out of the derivative.
    let op = operator("opcheck_tests::half(Tensor x) -> Tensor", &[(IMPLICIT, |x| x.mul(&x.detach()?))])?;
    let x = Tensor::from([1.0f64, 2.0]).with_requires_grad(true)?;
    let words = fault(op, &x);
    assert!(words.contains("Gradients"), "{words}");
    let op = operator("opcheck_tests::none(Tensor x) -> Tensor", &[(CPU, twice), (META, twice)])?;
    let words = fault(op, &x);
    assert!(words.contains("Gradients"), "{words}");
    Ok(())
}

#[test]
fn a_wrong_rule_for_batches_is_found() -> Result<()> {
    let first: Kernel = |x| x.sub(&x.select(0, 0)?);
    let op = operator("opcheck_tests::batch(Tensor x) -> Tensor", &[(IMPLICIT, first)])?;
    assert_eq!(fault(op, &Tensor::from([1.0f32, 2.0])), "");
    // It takes the batch for an example.
    let rule = move |call: &Call<'_>| {
        flambeau::vmap::rule(call, |batch| {
            let (x, _) = batch.front(batch.tensor(0)?)?;
            batch.wrap_all(vec![first(&x)?.into()])
        })
    };
    op.register_boxed(DispatchKey::Batched, Box::leak(Box::new(rule)))?;
    let words = fault(op, &Tensor::from([1.0f32, 2.0]));
    assert!(words.contains("Batches") && words.contains("not that of the examples"), "{words}");
    Ok(())
}
