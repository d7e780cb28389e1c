//! Which operators are forms of one another, and where their schemas differ.

use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::ops::OPERATORS;

use crate::call::is_in_place;

/// The options of a new tensor, which the `out=` variant does not have.
const OPTIONS: &str =
    "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None";

/// How the first of the results to write into stands in a schema where it is a tensor.
const OUT: &str = ", Tensor(a!) ";
/// The same of a list.
pub const OUT_LIST: &str = ", Tensor(a!)[] ";

/// Views whose in-place form changes the shape: they have rows of their own.
pub const RESHAPED_IN_PLACE: &[&str] = &["squeeze", "unsqueeze", "t", "transpose", "as_strided"];

/// The arguments of a schema up to `out=`, without annotations: what variants have in common.
fn arguments(schema: &str) -> String {
    let open = schema.find('(').unwrap_or(0);
    let close = schema.rfind(") ->").unwrap_or(schema.len());
    let list = schema[open + 1..close].split(OUT).next().unwrap_or_default();
    let list = list.split(OUT_LIST).next().unwrap_or_default();
    let list = list.replace("(a!)", "").replace("dtype=long", "dtype=None");
    let list = list.replace(&format!("{OPTIONS}, "), "").replace(OPTIONS, "");
    list.trim_end_matches(", ").trim_end_matches(", *").to_string()
}

/// The index of the first of `OPTIONS` among the arguments.
pub fn index_of_options(schema: &str) -> Option<usize> {
    // Integers are the default of some.
    let at = schema.replace("dtype=long", "dtype=None").find(OPTIONS)?;
    let before = schema[..at].split_once('(').map_or("", |(_, list)| list);
    Some(before.split(", ").filter(|arg| !arg.is_empty() && *arg != "*").count())
}

/// The values without those of `OPTIONS`.
pub fn without_options(schema: &str, args: &[Value]) -> Vec<Value> {
    index_of_options(schema)
        .map_or_else(|| args.to_vec(), |index| [&args[..index], &args[index + 4..]].concat())
}

/// The operator's name without its overload.
pub fn base(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// The operators of a name that take the same arguments.
fn operator_variants(op: &dyn OperatorInfo, name: &str) -> impl Iterator<Item = &'static dyn OperatorInfo> {
    let (name, arguments_of_op) = (name.to_string(), arguments(op.schema()));
    OPERATORS
        .iter()
        .copied()
        .filter(move |o| base(o.name()) == name && arguments(o.schema()) == arguments_of_op)
}

/// The form that writes into its first argument.
pub fn in_place_of(op: &dyn OperatorInfo) -> Option<&'static dyn OperatorInfo> {
    operator_variants(op, &format!("{}_", base(op.name()))).find(|o| is_in_place(*o))
}

/// The form that writes into given results.
pub fn out_of(op: &dyn OperatorInfo) -> Option<&'static dyn OperatorInfo> {
    let name = op.name();
    let writes = |schema: &str| schema.contains(OUT) || schema.contains(OUT_LIST);
    operator_variants(op, base(name)).find(|o| o.name() != name && writes(o.schema()))
}
