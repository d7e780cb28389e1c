//! Derivatives of functions: products with vectors, whole Jacobians and Hessians, in reverse and in forward mode.
//!
//! A function takes a list of tensors and returns one. Where the crate `flambeau-vmap` is linked, which has the rules for batches, all
//! rows of a Jacobian are computed in one backward pass, with a batch of gradients, and all columns in one run of the function, with a
//! batch of tangents. Else they are computed one by one.

use crate::forward::{dual_level, make_dual, unpack_dual};
use crate::tensor::Autograd;
use crate::variable::tangents::set_tangent;
use crate::{alias, engine, factory};
use flambeau_core::{DispatchKey, Result, Scalar, ensure};
use flambeau_ops::batched::{Level, LevelGuard, Randomness, batched_at_all_levels, is_batched, unwrap, wrap};
use flambeau_ops::dispatch::has_fallback;
use flambeau_ops::{Tensor, ops};
use std::ops::Range;

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
    jacrev_in_chunks(f, inputs, i64::MAX)
}

/// The same with at most `chunk_size` rows in a backward pass, which needs less memory. With 1, rows are computed without a batch.
///
/// # Errors
/// `InvalidArgument` for a `chunk_size` below 1, and those of `f` and of the passes.
pub fn jacrev_in_chunks(f: Function<'_>, inputs: &[Tensor], chunk_size: i64) -> Result<Vec<Vec<Tensor>>> {
    ensure!(
        chunk_size > 0,
        InvalidArgument("jacrev", "chunk_size"),
        "expected at least 1 but got {chunk_size}"
    );
    let leaves = leaves(inputs)?;
    let results = f(&leaves)?;
    let batches = chunk_size > 1 && has_batches();
    let rows_of = |result: &Tensor| {
        let (count, mut chunks) = (result.numel(), Vec::new());
        let step = if batches { chunk_size.min(count).max(1) } else { 1 };
        for start in (0..count).step_by(step as usize) {
            let rows = start..count.min(start + step);
            chunks.push(if batches {
                rows_batched(result, &leaves, rows)?
            } else {
                one_row(result, &leaves, start)?
            });
        }
        let whole = |(i, leaf): (usize, &Tensor)| {
            let chunks: Vec<Tensor> = chunks.iter().filter_map(|chunk| chunk.get(i).cloned()).collect();
            joined(&chunks, leaf, &[result.sizes(), leaf.sizes()].concat())
        };
        leaves.iter().enumerate().map(whole).collect()
    };
    results.iter().map(rows_of).collect()
}

/// Row `at` of the Jacobians of `result` by each leaf, with a first dimension of size 1.
fn one_row(result: &Tensor, leaves: &[Tensor], at: i64) -> Result<Vec<Tensor>> {
    let grads = gradients(std::slice::from_ref(result), leaves, &[unit(result, at)?])?;
    grads.iter().map(|grad| ops::unsqueeze(grad, 0)).collect()
}

/// Several rows, in one backward pass.
fn rows_batched(result: &Tensor, leaves: &[Tensor], rows: Range<i64>) -> Result<Vec<Tensor>> {
    let units = units(result, rows)?;
    // Whatever a backward pass draws again, such as a checkpoint, was drawn once in the forward pass.
    let guard = LevelGuard::open(units.sizes()[0], Randomness::Same)?;
    let seed = wrap(&units, 0, guard.level())?;
    let grads = gradients(std::slice::from_ref(result), leaves, &[seed])?;
    grads.iter().map(|grad| examples(grad, guard.level())).collect()
}

/// The Jacobians by columns, in forward mode: for more results than inputs.
///
/// # Errors
/// Those of `f` and of [`jvp`].
pub fn jacfwd(f: Function<'_>, inputs: &[Tensor]) -> Result<Vec<Vec<Tensor>>> {
    let batches = has_batches();
    let mut jacobians: Vec<Vec<Tensor>> = Vec::new();
    for (i, input) in inputs.iter().enumerate() {
        let of_one = |varied: &[Tensor]| {
            let mut all = inputs.to_vec();
            all[i] = varied[0].clone();
            f(&all)
        };
        let columns = match input.numel() {
            0 => f(inputs)?
                .iter()
                .map(|result| factory::zeros(&[&[0], result.sizes()].concat(), result))
                .collect(),
            _ if batches => columns_batched(&of_one, input),
            _ => columns_one_by_one(&of_one, input),
        }?;
        jacobians.resize(columns.len(), Vec::new());
        for (columns, of_result) in columns.iter().zip(&mut jacobians) {
            let sizes = [input.sizes(), &columns.sizes()[1..]].concat();
            let (rank, own) = (sizes.len() as i64, input.dim() as i64);
            let results_first: Vec<i64> = (own..rank).chain(0..own).collect();
            of_result.push(ops::permute(&ops::reshape(columns, &sizes)?, &results_first)?);
        }
    }
    Ok(jacobians)
}

/// The tangents of each result along each element of `input`, which is the first dimension.
fn columns_one_by_one(f: Function<'_>, input: &Tensor) -> Result<Vec<Tensor>> {
    let column = |at: i64| Ok(jvp(f, std::slice::from_ref(input), &[unit(input, at)?])?.1);
    let columns = (0..input.numel()).map(column).collect::<Result<Vec<_>>>()?;
    let of_result = |n: usize| {
        let columns: Vec<Tensor> = columns.iter().filter_map(|column| column.get(n).cloned()).collect();
        ops::stack(&columns, 0)
    };
    (0..columns.first().map_or(0, Vec::len)).map(of_result).collect()
}

/// The same in one run of `f`.
fn columns_batched(f: Function<'_>, input: &Tensor) -> Result<Vec<Tensor>> {
    // Columns are derivatives of one run, so that what it draws is the same for all.
    let guard = LevelGuard::open_for_tangents(input.numel(), Randomness::Same)?;
    let along = wrap(&units(input, 0..input.numel())?, 0, guard.level())?;
    let (_, tangents) = jvp(f, std::slice::from_ref(input), &[along])?;
    tangents.iter().map(|tangent| examples(tangent, guard.level())).collect()
}

/// Whether there are rules for batches.
fn has_batches() -> bool {
    has_fallback(DispatchKey::Batched)
}

/// A batch of a tensor's sizes: the given rows of the identity on its elements.
fn units(like: &Tensor, rows: Range<i64>) -> Result<Tensor> {
    let count = rows.end - rows.start;
    let units = factory::zeros(&[count, like.numel()], like)?;
    let square = ops::slice_tensor(&units, 1, Some(rows.start), Some(rows.end), 1)?;
    ops::fill__scalar(&ops::diagonal(&square, 0, 0, 1)?, Scalar::Int(1))?;
    ops::reshape(&units, &[&[count], like.sizes()].concat())
}

/// A result with the examples of a level as its first dimension, each with elements of its own.
fn examples(result: &Tensor, level: Level) -> Result<Tensor> {
    match unwrap(result, level.id) {
        Some((value, dim)) => ops::movedim_int(&value, dim, 0),
        None => {
            let sizes = [&[level.size], result.sizes()].concat();
            ops::clone(&ops::expand(&ops::unsqueeze(result, 0)?, &sizes, false)?, None)
        }
    }
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

/// A new leaf with the values of an input. Inside `vmap` it is batched, so that each example has a gradient of its own.
fn leaf(input: &Tensor) -> Result<Tensor> {
    let input = batched_at_all_levels(input)?;
    let leaf = if is_batched(&input) { input.detach()? } else { alias::alias(&input)? };
    leaf.requires_grad_(true)?;
    Ok(leaf)
}

fn leaves(inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    inputs.iter().map(leaf).collect()
}

/// The same with the tangents of the inputs.
fn variables(inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let variable = |input: &Tensor| {
        let (primal, tangent) = unpack_dual(input)?;
        let leaf = leaf(&primal)?;
        match tangent {
            Some(tangent) if is_batched(&leaf) => make_dual(&leaf, &tangent),
            Some(tangent) => set_tangent(&leaf, tangent).map(|()| leaf),
            None => Ok(leaf),
        }
    };
    inputs.iter().map(variable).collect()
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

/// Chunks of rows, joined and reshaped to `sizes`.
fn joined(chunks: &[Tensor], like: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    match chunks {
        [] => factory::zeros(sizes, like),
        [only] => ops::reshape(only, sizes),
        several => ops::reshape(&ops::cat(several, 0)?, sizes),
    }
}
