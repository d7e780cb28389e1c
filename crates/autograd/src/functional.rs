//! Derivatives of functions: products with vectors, whole Jacobians and Hessians, in reverse and in forward mode.
//!
//! A function takes a list of tensors and returns one. Jacobians are not vectorised: their rows are computed one by one by backward
//! passes, or their columns one by one by forward mode.

use crate::forward::{dual_level, make_dual, unpack_dual};
use crate::tensor::Autograd;
use crate::variable::tangents::set_tangent;
use crate::{alias, engine, factory};
use flambeau_core::{Result, ensure};
use flambeau_ops::{Tensor, ops};

/// A function of several tensors with several results.
pub type Function<'a> = &'a dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>;

/// The results of `f` at `inputs`, and their tangents along `tangents`: forward mode, one run of `f`.
///
/// ```
/// use flambeau_autograd::functional::jvp;
/// use flambeau_ops::{Tensor, ops};
/// let f = |x: &[Tensor]| Ok(vec![ops::mul_tensor(&x[0], &x[0])?]);
/// let (value, slope) = jvp(&f, &[Tensor::from([3.0f64])], &[Tensor::from([2.0f64])])?;
/// assert_eq!(value[0].to_vec::<f64>()?, [9.0]);
/// assert_eq!(slope[0].to_vec::<f64>()?, [12.0]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
///
/// # Errors
/// Those of `f`, `Autograd` inside a dual level, and `NotImplemented` where an operator has no forward derivative.
pub fn jvp(f: Function<'_>, inputs: &[Tensor], tangents: &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    check_count("tangents", inputs.len(), tangents.len())?;
    let _level = dual_level()?;
    let pairs = inputs.iter().zip(tangents);
    let duals = pairs.map(|(input, tangent)| make_dual(input, tangent)).collect::<Result<Vec<_>>>()?;
    let (mut results, mut along) = (Vec::new(), Vec::new());
    for result in f(&duals)? {
        let (result, tangent) = unpack_dual(&result)?;
        along.push(tangent.map_or_else(|| factory::zeros(result.sizes(), &result), Ok)?);
        results.push(result);
    }
    Ok((results, along))
}

/// The results of `f` at `inputs`, and the gradients of the inputs for the gradients `cotangents` of the results: a backward
/// pass.
///
/// # Errors
/// Those of `f` and of the pass.
pub fn vjp(f: Function<'_>, inputs: &[Tensor], cotangents: &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    let leaves = leaves(inputs)?;
    let results = f(&leaves)?;
    check_count("cotangents", results.len(), cotangents.len())?;
    let grads = gradients(&results, &leaves, cotangents)?;
    let plain = results.iter().map(Tensor::detach).collect::<Result<Vec<_>>>()?;
    Ok((plain, grads))
}

/// The Jacobians by rows, in reverse mode: for each result and each input a tensor of the sizes of both, one after the other.
///
/// # Errors
/// Those of `f` and of the passes.
pub fn jacrev(f: Function<'_>, inputs: &[Tensor]) -> Result<Vec<Vec<Tensor>>> {
    let leaves = leaves(inputs)?;
    let rows_of = |result: &Tensor| {
        let row = |at: i64| gradients(std::slice::from_ref(result), &leaves, &[unit(result, at)?]);
        let rows = (0..result.numel()).map(row).collect::<Result<Vec<_>>>()?;
        let whole = |(i, leaf): (usize, &Tensor)| {
            let rows: Vec<Tensor> = rows.iter().filter_map(|row| row.get(i).cloned()).collect();
            stacked(&rows, leaf, &[result.sizes(), leaf.sizes()].concat())
        };
        leaves.iter().enumerate().map(whole).collect()
    };
    f(&leaves)?.iter().map(rows_of).collect()
}

/// The same by columns, in forward mode: for more results than inputs.
///
/// # Errors
/// Those of `f` and of [`jvp`].
pub fn jacfwd(f: Function<'_>, inputs: &[Tensor]) -> Result<Vec<Vec<Tensor>>> {
    let mut jacobians: Vec<Vec<Tensor>> = Vec::new();
    for (i, input) in inputs.iter().enumerate() {
        let of_one = |varied: &[Tensor]| {
            let mut all = inputs.to_vec();
            all[i] = varied[0].clone();
            f(&all)
        };
        let column = |at: i64| Ok(jvp(&of_one, std::slice::from_ref(input), &[unit(input, at)?])?.1);
        let columns = (0..input.numel()).map(column).collect::<Result<Vec<_>>>()?;
        let results = if columns.is_empty() { f(inputs)? } else { columns[0].clone() };
        jacobians.resize(results.len(), Vec::new());
        for (n, (result, of_result)) in results.iter().zip(&mut jacobians).enumerate() {
            let columns: Vec<Tensor> = columns.iter().filter_map(|column| column.get(n).cloned()).collect();
            let sizes = [input.sizes(), result.sizes()].concat();
            let columns = stacked(&columns, result, &sizes)?;
            let (rank, own) = (sizes.len() as i64, input.sizes().len() as i64);
            let results_first: Vec<i64> = (own..rank).chain(0..own).collect();
            of_result.push(ops::permute(&columns, &results_first)?);
        }
    }
    Ok(jacobians)
}

/// The product of the Hessian of `f`, which gives one number, with a vector: forward mode through a backward pass.
///
/// # Errors
/// Those of `f` and of [`jvp`].
pub fn hvp(f: Function<'_>, inputs: &[Tensor], vector: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(jvp(&|inputs: &[Tensor]| gradient(f, inputs), inputs, vector)?.1)
}

/// The Hessian of `f`, which gives one number: for each two inputs a tensor of the sizes of both.
///
/// # Errors
/// Those of `f` and of [`jacfwd`].
pub fn hessian(f: Function<'_>, inputs: &[Tensor]) -> Result<Vec<Vec<Tensor>>> {
    jacfwd(&|inputs: &[Tensor]| gradient(f, inputs), inputs)
}

/// The gradient of `f`, which gives one number.
///
/// # Errors
/// `Autograd` where it gives another number of results or elements, and those of `f` and of the pass.
pub fn gradient(f: Function<'_>, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let variables = variables(inputs)?;
    let results = f(&variables)?;
    ensure!(
        results.len() == 1 && results[0].numel() == 1,
        Autograd,
        "expected a function that gives one number"
    );
    gradients(&results, &variables, &[factory::ones_like(&results[0])?])
}

fn check_count(what: &str, expected: usize, got: usize) -> Result<()> {
    ensure!(expected == got, InvalidArgument, "expected {expected} {what} but got {got}");
    Ok(())
}

/// New leaves with the values of the inputs.
fn leaves(inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let leaf = |input: &Tensor| {
        let leaf = alias::alias(input)?;
        leaf.requires_grad_(true)?;
        Ok(leaf)
    };
    inputs.iter().map(leaf).collect()
}

/// The same with the tangents of the inputs.
fn variables(inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let variables = leaves(inputs)?;
    for (variable, input) in variables.iter().zip(inputs) {
        if let Some(tangent) = unpack_dual(input)?.1 {
            set_tangent(variable, tangent)?;
        }
    }
    Ok(variables)
}

/// The gradients, zeros where there are none.
fn gradients(results: &[Tensor], leaves: &[Tensor], cotangents: &[Tensor]) -> Result<Vec<Tensor>> {
    let used: Vec<usize> = (0..results.len()).filter(|i| results[*i].requires_grad()).collect();
    let zeros = |leaf: &Tensor| factory::zeros(leaf.sizes(), leaf);
    if used.is_empty() {
        return leaves.iter().map(zeros).collect();
    }
    let roots: Vec<Tensor> = used.iter().map(|i| results[*i].clone()).collect();
    let seeds: Vec<Option<Tensor>> = used.iter().map(|i| Some(cotangents[*i].clone())).collect();
    let grads = engine::grad(&roots, leaves, &seeds, Some(true), false, true)?;
    grads.into_iter().zip(leaves).map(|(grad, leaf)| grad.map_or_else(|| zeros(leaf), Ok)).collect()
}

/// Zeros with a one at element `at`, in row-major order.
fn unit(like: &Tensor, at: i64) -> Result<Tensor> {
    let flat = factory::zeros(&[like.numel()], like)?;
    ops::fill__scalar(&ops::select_int(&flat, 0, at)?, 1.into())?;
    ops::reshape(&flat, like.sizes())
}

fn stacked(rows: &[Tensor], like: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if rows.is_empty() {
        return factory::zeros(sizes, like);
    }
    ops::reshape(&ops::stack(rows, 0)?, sizes)
}
