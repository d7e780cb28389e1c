//! Derivatives of second order by both modes, one through the other.

use super::*;
use flambeau_autograd::{Autograd, grad};
use flambeau_core::ensure;
use flambeau_tests::leaves::differentiable;

/// The gradients of `f` weighted by `seeds`, and the tangents of those along the directions, by a backward pass in a level.
fn forward_over_reverse(
    op: &dyn OperatorInfo,
    args: &[Arg],
    all: &[Value],
    leaves: &[Tensor],
    directions: &[Tensor],
) -> Result<Vec<Option<Array>>> {
    let _level = dual_level()?;
    let duals = duals(leaves, directions)?;
    let outputs: Vec<Tensor> =
        results(op, args, all, &duals)?.into_iter().filter(Tensor::requires_grad).collect();
    ensure!(!outputs.is_empty(), Autograd, "expected a result with a history");
    let seeds: Vec<Option<Tensor>> = weights(&outputs).into_iter().map(Some).collect();
    let grads = grad(&outputs, leaves, &seeds, None, false, true)?;
    let tangent = |grad: Option<Tensor>| match grad {
        Some(grad) => Ok(unpack_dual(&grad)?.1.map(|tangent| array(&tangent))),
        None => Ok(None),
    };
    grads.into_iter().map(tangent).collect()
}

/// The gradients of the tangents, weighted by the same seeds: a backward pass through forward mode.
fn reverse_over_forward(
    op: &dyn OperatorInfo,
    args: &[Arg],
    all: &[Value],
    leaves: &[Tensor],
    directions: &[Tensor],
) -> Result<Vec<Option<Array>>> {
    let _level = dual_level()?;
    let duals = duals(leaves, directions)?;
    let outputs: Vec<Tensor> =
        results(op, args, all, &duals)?.into_iter().filter(Tensor::requires_grad).collect();
    let (mut recorded, mut seeds) = (vec![], vec![]);
    for (output, seed) in outputs.iter().zip(weights(&outputs)) {
        if let Some(tangent) = unpack_dual(output)?.1.filter(Tensor::requires_grad) {
            recorded.push(tangent);
            seeds.push(Some(seed));
        }
    }
    if recorded.is_empty() {
        return Ok(vec![None; leaves.len()]);
    }
    let seconds = grad(&recorded, leaves, &seeds, None, false, true)?;
    Ok(seconds.into_iter().map(|second| second.map(|second| array(&second))).collect())
}

/// The same by a backward pass through a backward pass.
fn reverse_over_reverse(
    op: &dyn OperatorInfo,
    given: &[Value],
    leaves: &[Tensor],
    directions: &[Tensor],
) -> Result<Vec<Option<Array>>> {
    let outputs = differentiable(op, given)?;
    let seeds: Vec<Option<Tensor>> = weights(&outputs).into_iter().map(Some).collect();
    let grads = grad(&outputs, leaves, &seeds, None, true, true)?;
    let (mut recorded, mut along) = (vec![], vec![]);
    for (grad, direction) in grads.into_iter().zip(directions) {
        if let Some(grad) = grad.filter(Tensor::requires_grad) {
            recorded.push(grad);
            along.push(Some(direction.clone()));
        }
    }
    if recorded.is_empty() {
        return Ok(vec![None; leaves.len()]);
    }
    let seconds = grad(&recorded, leaves, &along, None, false, true)?;
    Ok(seconds.into_iter().map(|second| second.map(|second| array(&second))).collect())
}

/// Derivatives of second order with a forward part, of a call with these leaves along these directions.
type Mixed = fn(&dyn OperatorInfo, &[Arg], &[Value], &[Tensor], &[Tensor]) -> Result<Vec<Option<Array>>>;

fn second_order(op: &dyn OperatorInfo, args: &[Arg], mixed: Mixed) -> Result<Option<String>> {
    let (leaves, all) = split(args, None);
    let directions = directions(&leaves, 7);
    let mixed = mixed(op, args, &all, &leaves, &directions)?;
    let reverse = reverse_over_reverse(op, &all, &leaves, &directions)?;
    for (i, (mixed, reverse)) in mixed.iter().zip(&reverse).enumerate() {
        let zeros = || leaves[i].numel() as usize;
        let values = |given: &Option<Array>| given.as_ref().map_or(vec![0.0; zeros()], |a| a.data.clone());
        let (mixed, reverse) = (values(mixed), values(reverse));
        let most = reverse.iter().filter(|x| x.is_finite()).fold(1.0, |most: f64, x| most.max(x.abs()));
        let wrong = |k: &usize| far(mixed[*k], reverse[*k], 10.0 * ROUNDING * most, 0.0);
        if let Some(k) = (0..mixed.len()).find(wrong) {
            let (mixed, reverse) = (mixed[k], reverse[k]);
            return Ok(Some(format!("leaf {i}, element {k}: expected {reverse:e} but got {mixed:e}")));
        }
    }
    Ok(None)
}

fn both_orders(mixed: Mixed) {
    let rows = marked_as_gradients(Check::SecondGradients);
    each_sample(&rows, SECOND_ORDER, |op, args, layout| match layout {
        None => Some(second_order(op, args, mixed)),
        Some(_) => None,
    });
}

#[test]
fn forward_over_reverse_is_reverse_over_reverse() {
    both_orders(forward_over_reverse);
}

#[test]
fn reverse_over_forward_is_reverse_over_reverse() {
    both_orders(reverse_over_forward);
}
