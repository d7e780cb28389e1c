//! The arguments, tangents and results of a call, and the sum of the terms of a result's tangent.

use crate::factory;
use crate::variable::meta::requires_grad;
use crate::variable::tangents::tangent;
use flambeau_core::{Result, Scalar, Storage, bail, ensure};
use flambeau_ops::batched::innermost;
use flambeau_ops::dispatch::{Arguments, OperatorInfo, Value};
use flambeau_ops::{Tensor, ops};

/// How the tangents of the results are computed from those of the arguments.
#[derive(Clone, Copy)]
pub enum JvpRule {
    /// The operator is linear in all its differentiable arguments together: it is applied to the tangents.
    Linear,
    /// Each element of a result depends only on the elements of the arguments at the same index. So the Jacobian is diagonal, and a
    /// backward pass maps tangents as it maps gradients.
    Pointwise,
    /// A backward pass multiplies by the transposed Jacobian; the gradient of that multiplies by the Jacobian.
    Transposed,
    /// A formula of the operator in `derivatives.yaml`.
    Formula(fn(&Call<'_>) -> Result<Vec<Value>>),
}

/// A call of an operator in forward mode.
pub struct Call<'a> {
    pub(super) operator: &'static dyn OperatorInfo,
    /// The indices of the differentiable arguments.
    pub(super) inputs: &'a [usize],
    pub(super) given: &'a [Value],
    pub(super) duals: Vec<Dual>,
    pub(super) results: Vec<Value>,
}

/// The tangent of one tensor among the arguments.
pub(super) struct Dual {
    pub(super) argument: usize,
    /// Its index in the argument, if that is a list; else 0.
    pub(super) item: usize,
    pub(super) primal: Tensor,
    pub(super) tangent: Tensor,
}

/// The tensors of a value, each with its index in the list; 0 for a single tensor.
pub(super) fn tensors(value: &Value) -> Vec<(usize, &Tensor)> {
    match value {
        Value::Tensor(tensor) => vec![(0, tensor)],
        Value::Tensors(list) => list.iter().enumerate().collect(),
        Value::OptionalTensors(list) => {
            list.iter().enumerate().filter_map(|(i, tensor)| Some((i, tensor.as_ref()?))).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a tensor among the arguments requires a gradient.
pub(super) fn any_requires_grad(given: &[Value]) -> bool {
    given.iter().flat_map(tensors).any(|(_, tensor)| requires_grad(tensor))
}

pub(super) fn duals(inputs: &[usize], given: &[Value]) -> Result<Vec<Dual>> {
    let mut duals = Vec::new();
    for &argument in inputs {
        for (item, primal) in given.get(argument).map(tensors).unwrap_or_default() {
            if let Some(tangent) = tangent(primal)? {
                duals.push(Dual { argument, item, primal: primal.clone(), tangent });
            }
        }
    }
    Ok(duals)
}

impl<'a> Call<'a> {
    /// A formula may return the tangent of an argument as it is. It is copied, unless the result shares the memory of the argument: the
    /// tangents share memory only where their tensors do.
    pub(super) fn unshared(&self, result: &Value, tangent: Value) -> Result<Value> {
        let (Value::Tensor(result), Value::Tensor(own)) = (result, &tangent) else { return Ok(tangent) };
        let shares = |dual: &Dual| {
            Storage::ptr_eq(innermost(&dual.tangent).storage(), innermost(own).storage())
                && !Storage::ptr_eq(dual.primal.storage(), result.storage())
        };
        if self.duals.iter().any(shares) { Ok(Value::Tensor(ops::clone(own, None)?)) } else { Ok(tangent) }
    }

    /// Argument number `argument`, to be converted to its type.
    ///
    /// # Errors
    /// `InvalidArgument` where there are fewer arguments.
    pub fn argument(&self, argument: usize) -> Result<Arguments<'a>> {
        let value = self.given.get(argument..=argument).unwrap_or_default();
        Arguments::new(self.operator.name(), value, 1)
    }

    /// The tangent of that argument, if it has one.
    pub fn tangent(&self, argument: usize) -> Option<&Tensor> {
        self.duals.iter().find(|dual| dual.argument == argument).map(|dual| &dual.tangent)
    }

    /// Refuses a tangent of an argument with respect to which no derivative is implemented.
    ///
    /// # Errors
    /// `NotImplemented` where it has one.
    pub fn refuse(&self, argument: usize, name: &str) -> Result<()> {
        ensure!(
            self.tangent(argument).is_none(),
            NotImplemented,
            "the derivative for '{name}' is not implemented."
        );
        Ok(())
    }

    /// Result number `result`.
    ///
    /// # Errors
    /// `Internal` where there are fewer results, or it is no tensor.
    pub fn result(&self, result: usize) -> Result<&Tensor> {
        match self.results.get(result) {
            Some(Value::Tensor(result)) => Ok(result),
            _ => bail!(Internal, "{}: expected a tensor as result {result}", self.operator.name()),
        }
    }
}

/// The sum of the terms of a formula, one for each argument that has a tangent.
#[derive(Default)]
pub struct Sum(Option<Tensor>);

impl Sum {
    /// Adds a term.
    ///
    /// # Errors
    /// Those of `add`.
    pub fn add(&mut self, term: Tensor) -> Result<()> {
        self.0 = Some(match self.0.take() {
            None => term,
            Some(sum) => ops::add_tensor(&sum, &term, Scalar::Int(1))?,
        });
        Ok(())
    }

    /// The tangent of `result`, broadcast to its sizes: zeros without terms.
    ///
    /// # Errors
    /// Those of `expand`.
    pub fn of(self, result: &Tensor) -> Result<Value> {
        Ok(Value::Tensor(match self.0 {
            None => ops::zeros_like(result, None, None, None, None, None)?,
            Some(sum) => expand_to_result(sum, result)?,
        }))
    }
}

/// A tangent expanded to the sizes of its result and converted to its dtype.
pub(super) fn expand_to_result(tangent: Tensor, result: &Tensor) -> Result<Tensor> {
    let tangent = match tangent.sizes() == result.sizes() {
        true => tangent,
        false => ops::clone(&ops::expand(&tangent, result.sizes(), false)?, None)?,
    };
    if tangent.dtype() == result.dtype() { Ok(tangent) } else { factory::to_dtype(&tangent, result.dtype()) }
}
