//! Batches of tangents and of gradients, of which a Jacobian is computed at once, against one at a time.

use super::*;
use flambeau_autograd::{Autograd, grad};
use flambeau_ops::batched::{Level, LevelGuard, Randomness, wrap};
use flambeau_ops::ops::{select_int, stack};
use flambeau_vmap::out_of_level;

/// Two batches as one, at a level.
fn batch(one: &[Tensor], other: &[Tensor], level: Level) -> Result<Vec<Tensor>> {
    let both = |(one, other): (&Tensor, &Tensor)| wrap(&stack(&[one.clone(), other.clone()], 0)?, 0, level);
    one.iter().zip(other).map(both).collect()
}

/// What is wrong with two examples of each result, in words.
fn fault(got: &[Option<Tensor>], expected: [Vec<Option<Array>>; 2]) -> Result<Option<String>> {
    for (example, expected) in expected.iter().enumerate() {
        for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
            let name = format!("result {i} of example {example}");
            let (got, expected) = match (got, expected) {
                (None, None) => continue,
                (Some(got), Some(expected)) => (array(&select_int(got, 0, example as i64)?), expected),
                (got, expected) => return Ok(Some(format!("{name}: expected {expected:?} but got {got:?}"))),
            };
            if got.sizes != expected.sizes {
                return Ok(Some(format!("{name}: expected {:?} but got {:?}", expected.sizes, got.sizes)));
            }
            let wrong = |k: &usize| far(got.data[*k], expected.data[*k], ROUNDING, ROUNDING);
            if let Some(k) = (0..got.data.len()).find(wrong) {
                let (got, expected) = (got.data[k], expected.data[k]);
                return Ok(Some(format!("{name}, element {k}: expected {expected:e} but got {got:e}")));
            }
        }
    }
    Ok(None)
}

fn out_of(results: Vec<Option<Tensor>>, level: Level) -> Result<Vec<Option<Tensor>>> {
    let out = |result: Option<Tensor>| result.map(|result| out_of_level(&result, Some(0), level)).transpose();
    results.into_iter().map(out).collect()
}

/// A batch of tangents of arguments that all examples share.
fn of_tangents(op: &dyn OperatorInfo, args: &[Arg], layout: Option<Layout>) -> Result<Option<String>> {
    let (leaves, all) = split(args, layout);
    let (one, other) = (directions(&leaves, 7), directions(&leaves, 11));
    let expected = [tangents(op, args, &all, &leaves, &one)?, tangents(op, args, &all, &leaves, &other)?];
    let guard = LevelGuard::open_for_tangents(2, Randomness::Same)?;
    let along = batch(&one, &other, guard.level())?;
    let made = {
        let _level = dual_level()?;
        let made = results(op, args, &all, &duals(&plain(&leaves)?, &along)?)?;
        made.iter().map(|result| Ok(unpack_dual(result)?.1)).collect::<Result<Vec<_>>>()?
    };
    fault(&out_of(made, guard.level())?, expected)
}

/// A batch of gradients of one call.
fn of_gradients(op: &dyn OperatorInfo, args: &[Arg], layout: Option<Layout>) -> Result<Option<String>> {
    let (leaves, all) = split(args, layout);
    let outputs = results(op, args, &all, &leaves)?;
    let outputs: Vec<Tensor> = outputs.into_iter().filter(Tensor::requires_grad).collect();
    if outputs.is_empty() {
        return Ok(None);
    }
    let pass = |seeds: &[Tensor]| {
        let seeds: Vec<Option<Tensor>> = seeds.iter().cloned().map(Some).collect();
        grad(&outputs, &leaves, &seeds, Some(true), false, true)
    };
    let arrays = |grads: Vec<Option<Tensor>>| grads.iter().map(|grad| grad.as_ref().map(array)).collect();
    let (one, other) = (weights(&outputs), directions(&outputs, 11));
    let expected = [arrays(pass(&one)?), arrays(pass(&other)?)];
    let guard = LevelGuard::open(2, Randomness::Same)?;
    let grads = pass(&batch(&one, &other, guard.level())?)?;
    fault(&out_of(grads, guard.level())?, expected)
}

#[test]
fn a_batch_of_tangents_gives_what_each_gives() {
    let rows = marked_as_gradients(Check::Gradients);
    each_sample(&rows, FIRST_ORDER, |op, args, layout| Some(of_tangents(op, args, layout)));
}

#[test]
fn a_batch_of_gradients_gives_what_each_gives() {
    let rows = marked_as_gradients(Check::Gradients);
    each_sample(&rows, FIRST_ORDER, |op, args, layout| Some(of_gradients(op, args, layout)));
}
