//! Tangents against differences of values, and against the gradients whose transposes they are.

use super::*;
use flambeau_autograd::{Autograd, grad};

/// The results at the leaves moved by a multiple of the directions, in the memory where they are.
fn moved(
    op: &dyn OperatorInfo,
    args: &[Arg],
    all: &[Value],
    leaves: &[Tensor],
    directions: &[Tensor],
    by: f64,
) -> Result<Vec<Array>> {
    let leaves = plain(leaves)?;
    let before: Vec<Tensor> = leaves.iter().map(|leaf| clone(leaf, None)).collect::<Result<_>>()?;
    for (leaf, direction) in leaves.iter().zip(directions) {
        leaf.add_(&direction.mul_scalar(by)?)?;
    }
    let made = results(op, args, all, &leaves).map(|made| made.iter().map(array).collect());
    leaves.iter().zip(&before).try_for_each(|(leaf, before)| leaf.copy_(before).map(drop))?;
    made
}

/// Results with a history, by number.
fn carrying(op: &dyn OperatorInfo, args: &[Arg], all: &[Value], leaves: &[Tensor]) -> Result<Vec<bool>> {
    let recorded = results(op, args, all, leaves)?;
    Ok(recorded.iter().map(Tensor::requires_grad).collect())
}

fn differences(
    op: &dyn OperatorInfo,
    args: &[Arg],
    all: &[Value],
    leaves: &[Tensor],
    directions: &[Tensor],
) -> Result<Vec<Array>> {
    let at = |by: f64| moved(op, args, all, leaves, directions, by);
    let (high, low) = (at(EPS)?, at(-EPS)?);
    let slope = |(high, low): (&Array, &Array)| high.zip(low, |h, l| (h - l) / (2.0 * EPS));
    Ok(high.iter().zip(&low).map(slope).collect())
}

/// What is wrong with the tangents of one call, in words.
fn against_differences(
    op: &dyn OperatorInfo,
    args: &[Arg],
    layout: Option<Layout>,
) -> Result<Option<String>> {
    let (leaves, all) = split(args, layout);
    let directions = directions(&leaves, 7);
    let carries = carrying(op, args, &all, &leaves)?;
    let got = tangents(op, args, &all, &leaves, &directions)?;
    let expected = differences(op, args, &all, &leaves, &directions)?;
    let nothing = leaves.iter().all(|leaf| leaf.numel() == 0);
    for (i, carries) in carries.into_iter().enumerate() {
        match (&got[i], carries) {
            (None, false) => {}
            (None, true) => return Ok(Some(format!("result {i} has no tangent"))),
            (Some(_), false) => return Ok(Some(format!("result {i} has a tangent and no gradient"))),
            (Some(got), true) => {
                let expected = &expected[i];
                if got.sizes != expected.sizes {
                    return Ok(Some(format!(
                        "result {i}: expected {:?} but got {:?}",
                        expected.sizes, got.sizes
                    )));
                }
                // If no leaf has elements, the difference quotients are NaN (0 / 0), and the tangents zeros.
                let wrong = |k: &usize| !nothing && far(got.data[*k], expected.data[*k], ATOL, RTOL);
                if let Some(k) = (0..got.data.len()).find(wrong) {
                    let (got, expected) = (got.data[k], expected.data[k]);
                    return Ok(Some(format!(
                        "result {i}, element {k}: expected {expected:e} but got {got:e}"
                    )));
                }
            }
        }
    }
    Ok(None)
}

/// The same where results need not depend on the tensors under test: a tangent that is not there is one of zeros.
pub(super) fn of_optional(op: &dyn OperatorInfo, args: &[Arg]) -> Result<Option<String>> {
    let (leaves, all) = split(args, None);
    let directions = directions(&leaves, 7);
    let got = tangents(op, args, &all, &leaves, &directions)?;
    for (i, expected) in differences(op, args, &all, &leaves, &directions)?.iter().enumerate() {
        let zeros = || Array::new(&expected.sizes, vec![0.0; expected.data.len()]);
        let got = got[i].clone().unwrap_or_else(zeros);
        let wrong = |k: &usize| far(got.data[*k], expected.data[*k], ATOL, RTOL);
        if let Some(k) = (0..expected.data.len()).find(wrong) {
            let (got, expected) = (got.data[k], expected.data[k]);
            return Ok(Some(format!("result {i}, element {k}: expected {expected:e} but got {got:e}")));
        }
    }
    Ok(None)
}

fn product(a: &Array, b: &Array) -> (f64, f64) {
    let terms = a.data.iter().zip(&b.data).map(|(a, b)| a * b);
    (terms.clone().sum(), terms.map(f64::abs).sum())
}

/// `u . (J v)` by forward mode and `(J^T u) . v` by a backward pass.
fn against_backward(op: &dyn OperatorInfo, args: &[Arg]) -> Result<Option<String>> {
    let (leaves, all) = split(args, None);
    if leaves.iter().all(|leaf| leaf.numel() == 0) {
        return Ok(None);
    }
    let directions = directions(&leaves, 7);
    let outputs = results(op, args, &all, &leaves)?;
    let carries: Vec<bool> = outputs.iter().map(Tensor::requires_grad).collect();
    let outputs: Vec<Tensor> = outputs.into_iter().filter(Tensor::requires_grad).collect();
    let seeds = weights(&outputs);
    let given: Vec<Option<Tensor>> = seeds.iter().cloned().map(Some).collect();
    let grads = grad(&outputs, &leaves, &given, None, false, true)?;
    let tangents = tangents(op, args, &all, &leaves, &directions)?;
    let forward = tangents.iter().zip(carries).filter(|(_, carries)| *carries).zip(&seeds);
    let (mut one, mut other, mut size) = (0.0, 0.0, 1e-3);
    for ((tangent, _), seed) in forward {
        let Some(tangent) = tangent else { continue };
        let (sum, terms) = product(tangent, &array(seed));
        one += sum;
        size += terms;
    }
    for (grad, direction) in grads.iter().zip(&directions) {
        let Some(grad) = grad else { continue };
        let (sum, terms) = product(&array(grad), &array(direction));
        other += sum;
        size += terms;
    }
    Ok(far(one, other, ROUNDING * size, 0.0).then(|| format!("forward gives {one:e}, backward {other:e}")))
}

#[test]
fn tangents_are_those_of_differences() {
    let rows = marked_as_gradients(Check::Gradients);
    each_sample(&rows, FIRST_ORDER, |op, args, layout| Some(against_differences(op, args, layout)));
}

#[test]
fn tangents_and_gradients_are_transposes() {
    let rows = marked_as_gradients(Check::Gradients);
    each_sample(&rows, FIRST_ORDER, |op, args, layout| match layout {
        None => Some(against_backward(op, args)),
        Some(_) => None,
    });
}
