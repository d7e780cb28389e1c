//! Calling an operator by name, with the arguments of a sample as tensors of a type.

use crate::array::Array;
use crate::row::Arg;
use flambeau_core::{Device, Result, ScalarType};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::ops::{_to_copy, OPERATORS};

/// The operator of that name.
pub fn operator(name: &str) -> Option<&'static dyn OperatorInfo> {
    OPERATORS.iter().copied().find(|op| op.name() == name)
}

/// A tensor of `dtype` with the values of `array`.
pub fn tensor(array: &Array, dtype: ScalarType) -> Tensor {
    let sizes: Vec<i64> = array.sizes.iter().map(|s| *s as i64).collect();
    let wide = Tensor::from_vec(array.data.clone(), &sizes).unwrap();
    _to_copy(&wide, Some(dtype), None, None, None, false, None).unwrap()
}

/// The values of a tensor, as the reference's array.
pub fn array(tensor: &Tensor) -> Array {
    let wide = _to_copy(tensor, Some(ScalarType::F64), None, Some(Device::CPU), None, false, None).unwrap();
    let sizes: Vec<usize> = tensor.sizes().iter().map(|s| *s as usize).collect();
    Array::new(&sizes, wide.to_vec::<f64>().unwrap())
}

/// The arguments of a sample, tensors under test made by `make`.
pub fn values(args: &[Arg], make: &mut dyn FnMut(&Array) -> Tensor) -> Vec<Value> {
    let value = |arg: &Arg| match arg {
        Arg::Tensor(a) => Value::Tensor(make(a)),
        Arg::Typed(a, dtype) => Value::Tensor(tensor(a, *dtype)),
        Arg::Tensors(list) => Value::Tensors(list.iter().map(&mut *make).collect()),
        Arg::Value(v) => v.clone(),
    };
    args.iter().map(value).collect()
}

/// The tensors among the results of a call.
pub fn tensors(values: Vec<Value>) -> Vec<Tensor> {
    let flat = |v: Value| match v {
        Value::Tensor(t) => vec![t],
        Value::Tensors(list) => list,
        _ => vec![],
    };
    values.into_iter().flat_map(flat).collect()
}

/// The tensors that `op` gives for the arguments of a sample in `dtype`.
pub fn call(op: &dyn OperatorInfo, args: &[Arg], dtype: ScalarType) -> Result<Vec<Tensor>> {
    op.call_boxed(&values(args, &mut |a| tensor(a, dtype))).map(tensors)
}

/// The sample as `dtype` holds it: what the reference must be given.
pub fn rounded(args: &[Arg], dtype: ScalarType) -> Vec<Arg> {
    let round = |a: &Array| array(&tensor(a, dtype));
    let arg = |arg: &Arg| match arg {
        Arg::Tensor(a) => Arg::Tensor(round(a)),
        Arg::Tensors(list) => Arg::Tensors(list.iter().map(round).collect()),
        other => other.clone(),
    };
    args.iter().map(arg).collect()
}
