//! Derivatives of both orders against central differences, in float64; and gradients that add up on one leaf.

use flambeau_autograd::{Autograd, grad, gradcheck, gradgradcheck};
use flambeau_core::{DispatchKey, ErrorKind, Result};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::ops::OPERATORS;
use flambeau_tests::array::Array;
use flambeau_tests::call::{array, is_in_place, operator, outcome, tensor};
use flambeau_tests::compare::{Bound, difference};
use flambeau_tests::leaves::{
    LAYOUTS, differentiable, marked, optional_under_test, replaced, rows, samples, split, takes_part,
};
use flambeau_tests::report::Report;
use flambeau_tests::row::{Arg, Check};

/// A Jacobian takes two calls per element, and a second one as many for each of the first.
const FIRST_ORDER: usize = 36;
const SECOND_ORDER: usize = 12;

/// Operators that a second call may not follow before the backward pass of the first.
const ONCE: &[(&str, &str)] =
    &[("native_batch_norm", TRACKED), ("_native_batch_norm_legit", TRACKED), ("rrelu_with_noise", DRAWN)];

/// Operators whose gradients are sums of terms that cancel, which two uses add in another order than one.
const CANCELLING: &[&str] = &[
    "_grid_sample_grid_backward",
    "_recurrent_layer_backward",
    "grid_sampler_2d_backward",
    "grid_sampler_3d_backward",
    "linalg_cond.p_str",
    "rnn_tanh.data",
];

const DRAWN: &str =
    "the second call writes the noise that the first has saved, and the backward pass refuses, as PyTorch's";

const TRACKED: &str = "the second call writes the running statistics that the first has saved, and the backward pass \
                       refuses; PyTorch lets it pass";

type Checker = fn(&dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>, &[Tensor]) -> Result<()>;

fn check(which: Check, most: usize, checker: Checker) {
    let mut report = Report::new(which);
    for row in rows().iter().filter(|row| takes_part(row)) {
        let Some(op) = operator(row.name) else { continue };
        if !report.enter(row) {
            continue;
        }
        for (number, args) in samples(row, most) {
            for layout in LAYOUTS {
                let (leaves, all) = split(args, *layout);
                if leaves.is_empty() || (layout.is_some() && leaves.iter().all(Tensor::is_contiguous)) {
                    continue;
                }
                let call = |inputs: &[Tensor]| differentiable(op, &replaced(args, &all, inputs));
                let fault = checker(&call, &leaves).err().map(|error| error.to_string());
                report.case(|| format!("{} {layout:?} sample {number}", row.name), fault);
            }
        }
    }
    report.finish();
}

#[test]
fn first_derivatives_are_those_of_differences() {
    check(Check::Gradients, FIRST_ORDER, |f, inputs| gradcheck(f, inputs));
}

#[test]
fn second_derivatives_are_those_of_differences() {
    check(Check::SecondGradients, SECOND_ORDER, |f, inputs| gradgradcheck(f, inputs));
}

/// A leaf that is used twice gets the sum: each gradient is added, none replaces another.
#[test]
fn gradients_of_two_uses_add_up() {
    let mut report = Report::new(Check::Gradients);
    for row in &marked(rows(), ONCE) {
        if !takes_part(row) {
            continue;
        }
        let Some(op) = operator(row.name) else { continue };
        if !report.enter(row) {
            continue;
        }
        for (number, args) in samples(row, FIRST_ORDER) {
            let (leaves, all) = split(args, None);
            if leaves.is_empty() {
                continue;
            }
            let terms = if CANCELLING.contains(&row.name) { row.terms } else { 0.0 };
            let fault = twice(op, &all, &leaves, terms).unwrap_or_else(|error| Some(error.to_string()));
            report.case(|| format!("{} twice, sample {number}", row.name), fault);
        }
    }
    report.finish();
}

fn twice(op: &dyn OperatorInfo, given: &[Value], leaves: &[Tensor], terms: f64) -> Result<Option<String>> {
    let outputs = |times: usize| -> Result<Vec<Tensor>> {
        (0..times).map(|_| differentiable(op, given)).collect::<Result<Vec<_>>>().map(|all| all.concat())
    };
    let gradients = |outputs: Vec<Tensor>| {
        let seeds: Vec<Option<Tensor>> = outputs.iter().map(|output| Some(ones(output))).collect();
        grad(&outputs, leaves, &seeds, None, false, true)
    };
    let (once, both) = (gradients(outputs(1)?)?, gradients(outputs(2)?)?);
    let differs = |(one, two): (&Option<Tensor>, &Option<Tensor>)| match (one, two) {
        (Some(one), Some(two)) => difference(two, &array(one).map(|x| 2.0 * x), Bound { ulps: 1.0, terms }),
        (None, None) => None,
        _ => Some("a gradient of one use is missing for two".to_owned()),
    };
    Ok(once.iter().zip(&both).find_map(differs))
}

fn ones(like: &Tensor) -> Tensor {
    let sizes: Vec<usize> = like.sizes().iter().map(|size| *size as usize).collect();
    tensor(&Array::new(&sizes, vec![1.0; sizes.iter().product()]), like.dtype())
}

/// Whether the results do not depend on the leaves.
fn without_effect(call: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>, leaves: &[Tensor]) -> Result<bool> {
    let moved: Vec<Tensor> = leaves.iter().map(|leaf| leaf.mul_scalar(1.25)).collect::<Result<_>>()?;
    let (before, after) = (call(leaves)?, call(&moved)?);
    let same = |(a, b): (&Tensor, &Tensor)| array(a) == array(b);
    Ok(before.iter().zip(&after).all(same))
}

/// An optional tensor that a row gives as a constant has the gradient that differences say, or the backward pass refuses, or
/// it has no effect: a gradient that is silently lost is none of these.
#[test]
fn optional_tensors_lose_no_gradient_in_silence() {
    let mut report = Report::new(Check::Gradients);
    let mut refused = 0;
    for row in rows().iter().filter(|row| takes_part(row)) {
        let Some(op) = operator(row.name) else { continue };
        if !report.enter(row) {
            continue;
        }
        for (number, args) in samples(row, FIRST_ORDER) {
            let (leaves, all) = split(&optional_under_test(op, args), None);
            if leaves.is_empty() {
                continue;
            }
            let under_test = optional_under_test(op, args);
            let given = |inputs: &[Tensor]| replaced(&under_test, &all, inputs);
            let call = |inputs: &[Tensor]| differentiable(op, &given(inputs));
            let fault = match gradcheck(call, &leaves) {
                Ok(()) => None,
                Err(error) if error.kind() == ErrorKind::NotImplemented => {
                    refused += 1;
                    None
                }
                Err(error) => match without_effect(&|inputs| outcome(op, &given(inputs)), &leaves) {
                    Ok(true) => None,
                    _ => Some(error.to_string()),
                },
            };
            report.case(|| format!("{} optional, sample {number}", row.name), fault);
        }
    }
    println!("Optional: {refused} cases refused by the backward pass");
    report.finish();
}

/// No gradient is silently lost: every operator from tensors to tensors has a kernel for autograd.
#[test]
fn every_operator_on_tensors_records() {
    let takes_tensors = |op: &&&dyn OperatorInfo| {
        let inputs = op.schema().split(" -> ").next().unwrap_or_default();
        inputs.contains("Tensor")
    };
    let silent: Vec<&str> = OPERATORS
        .iter()
        .filter(takes_tensors)
        .filter(|op| {
            !op.has_kernel(DispatchKey::Autograd) && !op.has_kernel(DispatchKey::CompositeImplicitAutograd)
        })
        .map(|op| op.name())
        .collect();
    assert!(silent.is_empty(), "{silent:?}");
}

/// Results that depend on a leaf and carry no history, for a reason.
const WITHOUT_HISTORY: &[(&str, &str)] = &[
    ("log_sigmoid_forward", "the buffer is there for the derivative of the other result, as in PyTorch"),
    ("_cross_entropy", "the statistics are there for the derivative of the loss"),
    ("_tiled_attention", "the statistics are there for the derivative of the other result"),
    ("_linalg_solve_ex", FACTORS),
    ("_linalg_det", FACTORS),
    ("_linalg_slogdet", FACTORS),
    ("linalg_lstsq", "the singular values have none, as in PyTorch; those of linalg_svdvals do"),
];

const FACTORS: &str = "the factors are there for the derivative of the other result, as in PyTorch";

/// A floating point result that depends on a leaf carries a history: a gradient through it is not silently lost.
#[test]
fn results_that_depend_on_leaves_carry_a_history() {
    let mut report = Report::new(Check::Gradients);
    for row in &marked(rows(), WITHOUT_HISTORY) {
        let Some(op) = operator(row.name).filter(|_| takes_part(row)) else { continue };
        if !report.enter(row) {
            continue;
        }
        for (number, args) in samples(row, FIRST_ORDER) {
            let (leaves, all) = split(args, None);
            if leaves.is_empty() {
                continue;
            }
            let fault =
                without_history(op, args, &all, &leaves).unwrap_or_else(|error| Some(error.to_string()));
            report.case(|| format!("{} history, sample {number}", row.name), fault);
        }
    }
    report.finish();
}

/// A result that changes with the leaves, but has no history.
fn without_history(
    op: &dyn OperatorInfo,
    args: &[Arg],
    all: &[Value],
    leaves: &[Tensor],
) -> Result<Option<String>> {
    let call = |leaves: &[Tensor]| {
        let mut given = replaced(args, all, leaves);
        if let (Some(Value::Tensor(leaf)), true) = (given.first(), is_in_place(op)) {
            given[0] = Value::Tensor(leaf.mul_scalar(1)?);
        }
        outcome(op, &given)
    };
    let moved: Vec<Tensor> = leaves.iter().map(|leaf| leaf.mul_scalar(1.25)).collect::<Result<_>>()?;
    let before = call(leaves)?;
    // Values that the operator refuses tell nothing.
    let Ok(after) = call(&moved) else { return Ok(None) };
    let lost =
        |(a, b): (&Tensor, &Tensor)| a.is_floating_point() && !a.requires_grad() && array(a) != array(b);
    Ok(before.iter().zip(&after).position(lost).map(|index| format!("result {index} depends on a leaf")))
}
