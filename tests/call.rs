//! Calls an operator by name, with the arguments of a sample as tensors of a dtype.

use crate::array::Array;
use crate::row::Arg;
use flambeau_core::{Device, Result, ScalarType, manual_seed};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::ops::{_to_copy, view_as_real};
use flambeau_ops::registry;
use std::sync::{Mutex, PoisonError};

/// The operator of that name.
pub fn operator(name: &str) -> Option<&'static dyn OperatorInfo> {
    registry::find(name).ok()
}

/// A tensor of `dtype` with the values of `array`.
pub fn tensor(array: &Array, dtype: ScalarType) -> Tensor {
    let sizes: Vec<i64> = array.sizes.iter().map(|s| *s as i64).collect();
    let wide = Tensor::from_vec(array.data.clone(), &sizes).unwrap();
    _to_copy(&wide, Some(dtype), None, None, None, false, None).unwrap()
}

/// The values of a tensor, as the reference's array.
pub fn array(tensor: &Tensor) -> Array {
    let host = _to_copy(tensor, None, None, Some(Device::CPU), None, false, None).unwrap();
    let tensor = if host.is_complex() { view_as_real(&host).unwrap() } else { host };
    let wide = _to_copy(&tensor, Some(ScalarType::F64), None, None, None, false, None).unwrap();
    let sizes: Vec<usize> = tensor.sizes().iter().map(|s| *s as usize).collect();
    Array::new(&sizes, wide.to_vec::<f64>().unwrap())
}

/// The arguments of a sample, tensors under test made by `make`.
pub fn values(args: &[Arg], make: &mut dyn FnMut(&Array) -> Tensor) -> Vec<Value> {
    let mut own = ScalarType::F32;
    let mut made = |a: &Array| {
        let tensor = make(a);
        own = tensor.dtype();
        tensor
    };
    let mut all = vec![];
    for arg in args {
        all.push(match arg {
            Arg::Tensor(a) | Arg::Constant(a) => Value::Tensor(made(a)),
            Arg::Typed(a, dtype) => Value::Tensor(tensor(a, *dtype)),
            Arg::Tensors(list) => Value::Tensors(list.iter().map(&mut made).collect()),
            Arg::OwnType => Value::None,
            Arg::Value(v) => v.clone(),
        });
    }
    let at = args.iter().position(|arg| matches!(arg, Arg::OwnType));
    at.into_iter().for_each(|at| all[at] = Value::ScalarType(own));
    all
}

/// The tensors among the results of a call; a truth value and a number are such without dimensions.
pub fn tensors(values: Vec<Value>) -> Vec<Tensor> {
    let flat = |v: Value| match v {
        Value::Tensor(t) => vec![t],
        Value::Tensors(list) => list,
        Value::Bool(b) => vec![tensor(&Array::scalar(f64::from(b)), ScalarType::Bool)],
        Value::Scalar(s) => vec![tensor(&Array::scalar(s.to_f64()), s.scalar_type())],
        _ => vec![],
    };
    values.into_iter().flat_map(flat).collect()
}

/// Whether the operator writes into its first argument.
pub fn is_in_place(op: &dyn OperatorInfo) -> bool {
    op.schema().contains("(Tensor(a!) self")
}

/// Whether the operator draws random numbers.
pub fn is_random(op: &dyn OperatorInfo) -> bool {
    ["Generator", "rand", "dropout"].iter().any(|word| op.schema().contains(word))
}

/// Held while a random operator uses the generator of the process, which all tests of a binary share.
static DRAWS: Mutex<()> = Mutex::new(());

/// The tensors that `op` gives, or the first argument where it writes into that; random numbers are the same for a `seed`.
pub fn seeded(op: &dyn OperatorInfo, args: &[Value], seed: u64) -> Result<Vec<Tensor>> {
    let _exclusive = is_random(op).then(|| DRAWS.lock().unwrap_or_else(PoisonError::into_inner));
    if is_random(op) {
        manual_seed(seed);
    }
    for arg in args {
        if let Value::Generator(generator) = arg {
            generator.manual_seed(seed);
        }
    }
    let results = op.call_boxed(args)?;
    match args.first() {
        Some(Value::Tensor(self_)) if is_in_place(op) => Ok(vec![self_.clone()]),
        _ => Ok(tensors(results)),
    }
}

/// The same with one seed for all.
pub fn outcome(op: &dyn OperatorInfo, args: &[Value]) -> Result<Vec<Tensor>> {
    seeded(op, args, 1)
}

/// The tensors that `op` gives for the arguments of a sample in `dtype`.
pub fn call(op: &dyn OperatorInfo, args: &[Arg], dtype: ScalarType) -> Result<Vec<Tensor>> {
    outcome(op, &values(args, &mut |a| tensor(a, dtype)))
}

/// The sample rounded to `dtype`: the inputs of the reference.
pub fn rounded(args: &[Arg], dtype: ScalarType) -> Vec<Arg> {
    let round = |a: &Array| array(&tensor(a, dtype));
    let arg = |arg: &Arg| match arg {
        Arg::Tensor(a) => Arg::Tensor(round(a)),
        Arg::Constant(a) => Arg::Constant(round(a)),
        Arg::Tensors(list) => Arg::Tensors(list.iter().map(round).collect()),
        other => other.clone(),
    };
    args.iter().map(arg).collect()
}
