//! A call of an operator with tensors that are batched at one level, as rules see it.

use crate::plan::{Plan, plan_of};
use flambeau_core::{Result, Scalar, bail};
use flambeau_ops::batched::{Below, Level};
use flambeau_ops::batched::{unwrap, wrap_ordered};
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::{Tensor, ops};
use std::borrow::Cow;

/// A call of an operator, of which at least one argument is batched at [`level`](Self::level). While it exists, that level and those above
/// it are closed on this thread, so that operators that a rule calls see outer levels only.
pub struct Batch<'c> {
    /// The operator that is called.
    pub operator: &'static dyn OperatorInfo,
    /// Its arguments in the order of the schema; tensors have the sizes of one example.
    pub arguments: &'c [Value],
    level: Level,
    pub(crate) plan: &'static Plan,
    _below: Below,
}

/// The name of an operator with its namespace, as PyTorch's messages have it: `aten::mul`, `mine::cube`.
pub(crate) fn qualified(name: &str) -> Cow<'_, str> {
    if name.contains("::") { Cow::Borrowed(name) } else { Cow::Owned(format!("aten::{name}")) }
}

impl<'c> Batch<'c> {
    pub(crate) fn new(
        operator: &'static dyn OperatorInfo,
        arguments: &'c [Value],
        level: Level,
    ) -> Result<Self> {
        let plan = plan_of(operator)?;
        Ok(Batch { operator, arguments, level, plan, _below: Below::level(level.id) })
    }

    /// The level of the call.
    pub fn level(&self) -> Level {
        self.level
    }

    /// How many examples there are.
    pub fn size(&self) -> i64 {
        self.level.size
    }

    /// Whether the tensor has a value for each example.
    pub fn is_batched(&self, tensor: &Tensor) -> bool {
        unwrap(tensor, self.level.id).is_some()
    }

    /// Whether this argument has a tensor that is batched.
    pub fn is_batched_argument(&self, index: usize) -> bool {
        self.arguments.get(index).is_some_and(|value| value.tensors().any(|tensor| self.is_batched(tensor)))
    }

    /// The tensor of all examples and the dimension of the batch, or the tensor as it is.
    pub fn unwrapped(&self, tensor: &Tensor) -> (Tensor, Option<i64>) {
        unwrap(tensor, self.level.id)
            .map_or_else(|| (tensor.clone(), None), |(value, dim)| (value, Some(dim)))
    }

    /// The tensor of all examples with the batch as its first dimension, and true; or the tensor as it is, and false.
    ///
    /// # Errors
    /// Those of `movedim`.
    pub fn front(&self, tensor: &Tensor) -> Result<(Tensor, bool)> {
        self.at(tensor, 0)
    }

    /// The same with the batch as dimension `dim`.
    ///
    /// # Errors
    /// Those of `movedim`.
    pub fn at(&self, tensor: &Tensor, dim: i64) -> Result<(Tensor, bool)> {
        match self.unwrapped(tensor) {
            (value, Some(from)) if from == dim => Ok((value, true)),
            (value, Some(from)) => Ok((ops::movedim_int(&value, from, dim)?, true)),
            (value, None) => Ok((value, false)),
        }
    }

    /// The tensor of all examples with the batch as its first dimension; one that is not batched is expanded.
    ///
    /// # Errors
    /// Those of `movedim` and `expand`.
    pub fn full(&self, tensor: &Tensor) -> Result<Tensor> {
        match self.front(tensor)? {
            (value, true) => Ok(value),
            (value, false) => {
                let sizes = self.sizes(value.sizes());
                ops::expand(&ops::unsqueeze(&value, 0)?, &sizes, false)
            }
        }
    }

    /// `sizes` after that of the batch.
    pub fn sizes(&self, sizes: &[i64]) -> Vec<i64> {
        [self.level.size].iter().chain(sizes).copied().collect()
    }

    /// A result, of which dimension `dim` is the batch, as a batched tensor.
    ///
    /// # Errors
    /// `Index` where there is no such dimension, `Internal` where it has another size.
    pub fn wrap(&self, value: &Tensor, dim: i64) -> Result<Tensor> {
        let at = flambeau_core::shape::wrap_dim(dim, value.dim())?;
        match value.sizes().get(at) {
            Some(size) if *size == self.level.size => wrap_ordered(value, at, self.level.id),
            _ => bail!(
                Internal(self.operator.name()),
                "vmap: expected a result for {} examples in dimension {dim} but got sizes {:?}",
                self.level.size,
                value.sizes()
            ),
        }
    }

    /// Each tensor among results, of which the first dimension is the batch, as a batched tensor. Results without elements that an operator
    /// was not requested to compute are the same for all examples.
    ///
    /// # Errors
    /// As [`wrap`](Self::wrap).
    pub fn wrap_all(&self, results: Vec<Value>) -> Result<Vec<Value>> {
        let wrap = |tensor: &Tensor| match tensor.numel() {
            0 if tensor.sizes().first() != Some(&self.level.size) => Ok(tensor.clone()),
            _ => self.wrap(tensor, 0),
        };
        results.iter().map(|value| mapped(value, &wrap)).collect()
    }

    /// The operator itself, for tensors of all examples.
    ///
    /// # Errors
    /// Its own.
    pub fn call(&self, arguments: &[Value]) -> Result<Vec<Value>> {
        self.operator.call_boxed(arguments)
    }

    /// The tensors among the arguments.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.arguments.iter().flat_map(Value::tensors)
    }

    /// The arguments with other tensors.
    pub(crate) fn with_tensors(&self, map: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Vec<Value>> {
        self.arguments.iter().map(|value| mapped(value, &map)).collect()
    }

    /// Errors for an operator in place whose target has one value for all examples while another operand has one for each.
    pub(crate) fn ensure_self_is_batched(&self) -> Result<()> {
        if !self.plan.is_in_place || self.is_batched_argument(0) {
            return Ok(());
        }
        let name = qualified(self.operator.name().split('.').next().unwrap_or_default());
        bail!(
            InvalidArgument(self.operator.name()),
            "vmap: {name}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has more \
             elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped over in a vmap. \
             Please try to use out-of-place operators instead of {name}."
        )
    }

    #[cold]
    fn unexpected<T>(&self, index: usize, expected: &str) -> Result<T> {
        bail!(
            InvalidArgument(self.operator.name()),
            "expected {expected} as argument {index} but got {:?}",
            self.arguments.get(index)
        )
    }

    /// Argument `index`, a tensor with the sizes of one example.
    ///
    /// # Errors
    /// `InvalidArgument` where it is no tensor.
    pub fn tensor(&self, index: usize) -> Result<&'c Tensor> {
        match self.arguments.get(index) {
            Some(Value::Tensor(tensor)) => Ok(tensor),
            _ => self.unexpected(index, "a tensor"),
        }
    }

    /// Argument `index`, a tensor or nothing.
    pub fn optional(&self, index: usize) -> Option<&'c Tensor> {
        match self.arguments.get(index) {
            Some(Value::Tensor(tensor)) => Some(tensor),
            _ => None,
        }
    }

    /// Argument `index`, a list of tensors, each present or not.
    ///
    /// # Errors
    /// `InvalidArgument` where it is no list of tensors.
    pub fn optional_tensors(&self, index: usize) -> Result<Vec<Option<Tensor>>> {
        match self.arguments.get(index) {
            Some(Value::OptionalTensors(tensors)) => Ok(tensors.clone()),
            Some(Value::Tensors(tensors)) => Ok(tensors.iter().cloned().map(Some).collect()),
            _ => self.unexpected(index, "a list of tensors"),
        }
    }

    /// Argument `index`, an `int`.
    ///
    /// # Errors
    /// `InvalidArgument` where it is none.
    pub fn int(&self, index: usize) -> Result<i64> {
        match self.arguments.get(index) {
            Some(Value::Int(int)) => Ok(*int),
            _ => self.unexpected(index, "an int"),
        }
    }

    /// Argument `index`, an `int[]`.
    ///
    /// # Errors
    /// `InvalidArgument` where it is none.
    pub fn ints(&self, index: usize) -> Result<&'c [i64]> {
        match self.arguments.get(index) {
            Some(Value::Ints(ints)) => Ok(ints),
            _ => self.unexpected(index, "a list of ints"),
        }
    }

    /// Argument `index`, a `bool`.
    ///
    /// # Errors
    /// `InvalidArgument` where it is none.
    pub fn flag(&self, index: usize) -> Result<bool> {
        match self.arguments.get(index) {
            Some(Value::Bool(flag)) => Ok(*flag),
            _ => self.unexpected(index, "a bool"),
        }
    }

    /// Argument `index`, a `Scalar`.
    ///
    /// # Errors
    /// `InvalidArgument` where it is none.
    pub fn scalar(&self, index: usize) -> Result<Scalar> {
        match self.arguments.get(index) {
            Some(Value::Scalar(scalar)) => Ok(*scalar),
            Some(Value::Int(int)) => Ok(Scalar::Int(*int)),
            Some(Value::Float(float)) => Ok((*float).into()),
            Some(Value::Bool(flag)) => Ok((*flag).into()),
            _ => self.unexpected(index, "a number"),
        }
    }
}

/// A value with other tensors in it.
pub(crate) fn mapped(value: &Value, map: &impl Fn(&Tensor) -> Result<Tensor>) -> Result<Value> {
    Ok(match value {
        Value::Tensor(tensor) => Value::Tensor(map(tensor)?),
        Value::Tensors(tensors) => Value::Tensors(tensors.iter().map(map).collect::<Result<_>>()?),
        Value::OptionalTensors(tensors) => Value::OptionalTensors(
            tensors.iter().map(|tensor| tensor.as_ref().map(map).transpose()).collect::<Result<_>>()?,
        ),
        other => other.clone(),
    })
}

/// One tensor as the results of a call.
pub(crate) fn one(tensor: Tensor) -> Vec<Value> {
    vec![Value::Tensor(tensor)]
}

/// The tensors among results, in order.
pub(crate) fn results(values: &[Value]) -> Vec<Tensor> {
    values.iter().flat_map(Value::tensors).cloned().collect()
}
