//! The samples of a row as functions of their tensors under test, for the checks of derivatives.

use crate::array::Array;
use crate::call::{is_in_place, outcome, tensor, values};
use crate::layout::{Layout, lay_out};
use crate::op_db;
use crate::row::{Arg, Check, Row};
use flambeau_autograd::Autograd;
use flambeau_core::{Result, ScalarType, ensure};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::ops::clone;

/// Size-1 dimensions and repeated elements are no layouts of leaves that are perturbed element by element.
pub const LAYOUTS: &[Option<Layout>] = &[None, Some(Layout::Transposed), Some(Layout::Sliced)];

fn sizes(args: &[Arg]) -> usize {
    let of = |arg: &Arg| match arg {
        Arg::Tensor(a) => a.data.len(),
        Arg::Tensors(list) => list.iter().map(|a| a.data.len()).sum(),
        _ => 0,
    };
    args.iter().map(of).max().unwrap_or(0)
}

const HALF: &str = "a sample converts to half precision, whose steps are larger than the differences";
const REPEATED: &str =
    "a sample writes one element twice: the gradient is that of either write, as in PyTorch";
const SMALLER_INDEX: &str =
    "a sample has an index smaller than its source, for which PyTorch has no gradient either";

/// Rows left out here, with the reason.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("scatter.src", SMALLER_INDEX),
    ("scatter_add", SMALLER_INDEX),
    ("index_copy", REPEATED),
    ("index_put", REPEATED),
    ("_to_copy", HALF),
    ("to.device", HALF),
    ("to.dtype", HALF),
    ("to.dtype_layout", HALF),
    ("to.other", HALF),
    ("type_as", HALF),
    ("view", "odd strides are refused, as they should be"),
    ("view_as", "odd strides are refused, as they should be"),
];

/// Rows whose names are listed are left out, for the reason beside.
pub fn marked(rows: Vec<Row>, left_out: &[(&str, &'static str)]) -> Vec<Row> {
    let reason = |name: &str| left_out.iter().find(|(row, _)| *row == name).map(|(_, reason)| *reason);
    let mark = |row: Row| match reason(row.name) {
        Some(reason) => row.skip(Check::Gradients, reason).skip(Check::SecondGradients, reason),
        None => row,
    };
    rows.into_iter().map(mark).collect()
}

/// The operator table, without the rows that no check of derivatives can take.
pub fn rows() -> Vec<Row> {
    marked(op_db::rows(), LEFT_OUT)
}

/// The samples of at most so many elements, with their numbers.
pub fn samples(row: &Row, most: usize) -> impl Iterator<Item = (usize, &Vec<Arg>)> {
    row.samples.iter().enumerate().filter(move |(_, args)| sizes(args) <= most)
}

/// The call as a function of its tensors under test alone, and those tensors as leaves.
pub fn split(args: &[Arg], layout: Option<Layout>) -> (Vec<Tensor>, Vec<Value>) {
    let mut leaves = vec![];
    let constant = |arg: &Arg| match arg {
        Arg::Constant(a) => Arg::Typed(a.clone(), ScalarType::F64),
        other => other.clone(),
    };
    let args: Vec<Arg> = args.iter().map(constant).collect();
    let all = values(&args, &mut |a: &Array| {
        let plain = tensor(a, ScalarType::F64);
        let leaf = layout.and_then(|layout| lay_out(&plain, layout)).unwrap_or(plain);
        leaf.requires_grad_(true).unwrap();
        leaves.push(leaf.clone());
        leaf
    });
    (leaves, all)
}

/// The arguments with the tensors under test replaced, in order.
pub fn replaced(args: &[Arg], all: &[Value], inputs: &[Tensor]) -> Vec<Value> {
    let mut inputs = inputs.iter().cloned();
    let mut next = || inputs.next().unwrap();
    let value = |(arg, value): (&Arg, &Value)| match arg {
        Arg::Tensor(_) => Value::Tensor(next()),
        Arg::Tensors(list) => Value::Tensors(list.iter().map(|_| next()).collect()),
        _ => value.clone(),
    };
    args.iter().zip(all).map(value).collect()
}

/// The results that have a history; an operator that writes gets a copy to write.
///
/// # Errors
/// The operator's, and `Autograd` where no result has a history.
pub fn differentiable(op: &dyn OperatorInfo, given: &[Value]) -> Result<Vec<Tensor>> {
    let mut given = given.to_vec();
    if let (Some(Value::Tensor(leaf)), true) = (given.first(), is_in_place(op)) {
        given[0] = Value::Tensor(clone(leaf, None)?);
    }
    let results = outcome(op, &given)?;
    let recorded: Vec<Tensor> = results.into_iter().filter(|result| result.requires_grad()).collect();
    ensure!(!recorded.is_empty(), Autograd, "expected a result with a history");
    Ok(recorded)
}

/// Whether a row says that it has derivatives, in float64.
pub fn takes_part(row: &Row) -> bool {
    row.differentiable && row.types.contains(&ScalarType::F64)
}

/// The indices of the optional tensors of a schema.
fn optional_indices(op: &dyn OperatorInfo) -> Vec<usize> {
    let list = op.schema().split_once('(').and_then(|(_, rest)| rest.rsplit_once(") ->"));
    let arguments = list.map_or("", |(list, _)| list).split(", ").filter(|argument| *argument != "*");
    arguments
        .enumerate()
        .filter(|(_, argument)| argument.starts_with("Tensor? "))
        .map(|(index, _)| index)
        .collect()
}

/// The sample with its optional floating point tensors under test and everything else constant, where the row has them
/// constant.
pub fn optional_under_test(op: &dyn OperatorInfo, args: &[Arg]) -> Vec<Arg> {
    let optional = optional_indices(op);
    let arg = |(index, arg): (usize, &Arg)| match arg {
        Arg::Constant(a) if optional.contains(&index) => Arg::Tensor(a.clone()),
        Arg::Typed(a, dtype) if optional.contains(&index) && dtype.is_floating_point() => {
            Arg::Tensor(a.clone())
        }
        Arg::Tensor(a) => Arg::Constant(a.clone()),
        other => other.clone(),
    };
    args.iter().enumerate().map(arg).collect()
}
