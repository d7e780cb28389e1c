//! One overload: its parameters, the operator that it calls, and the one for `out=`.

use super::names::Overload;
use super::parameter;
use crate::emit::calls;
use crate::schema::{Argument, Type};

/// `both 0 (input: tensor, other: tensor) returns mul_tensor, out mul_out;`
pub(super) fn emit(overload: &Overload<'_>) -> String {
    let schema = &overload.operator.schema;
    let form = match (overload.is_function(), overload.receiver()) {
        (true, Some(index)) => format!("both {index}"),
        (true, None) => "function".to_owned(),
        (false, Some(index)) => format!("method {index}"),
        (false, None) => "method".to_owned(),
    };
    let base = &schema.name.base;
    let positional = schema.positional.iter().map(|argument| parameter::entry(base, argument, false));
    let keyword = schema.keyword.iter().map(|argument| parameter::entry(base, argument, true));
    format!(
        "{form} ({}) {} {}{};",
        positional.chain(keyword).collect::<Vec<_>>().join(", "),
        run(overload),
        overload.operator.function(),
        out(overload)
    )
}

/// What becomes of the result.
fn run(overload: &Overload<'_>) -> String {
    let schema = &overload.operator.schema;
    // `rrelu_with_noise` writes one argument and returns something else.
    let returns_new = schema.returns.iter().any(|result| result.alias.is_none());
    let written = schema.inputs().position(Argument::is_written).filter(|_| !returns_new);
    let names: Vec<String> = schema
        .returns
        .iter()
        .filter_map(|result| result.name.as_ref())
        .map(|name| format!("{name:?}"))
        .collect();
    match written {
        Some(index) => format!("writes({index})"),
        None if overload.is_factory() => "makes".to_owned(),
        None if names.len() > 1 => format!("named({})", names.join(", ")),
        None if schema.is_view() => "views".to_owned(),
        None => "returns".to_owned(),
    }
}

/// `, out ones_out(size)`: the arguments of the `out=` variant are listed if they are not all.
fn out(overload: &Overload<'_>) -> String {
    let Some(out) = overload.out else { return String::new() };
    let function = out.function();
    let names = |schema| calls::inputs(schema);
    let passed = names(&out.schema);
    let passed = match passed == names(&overload.operator.schema) {
        true => String::new(),
        false => format!("({})", passed_names(out).join(", ")),
    };
    let lists = out.schema.out.iter().any(|argument| matches!(argument.ty, Type::List(..)));
    match out.schema.out.len() {
        1 if lists => format!(", outs {function}{passed}"),
        1 => format!(", out {function}{passed}"),
        several => {
            let indices: Vec<String> = (0..several).map(|index| index.to_string()).collect();
            format!(", outs [{}] {function}{passed}", indices.join(", "))
        }
    }
}

fn passed_names(out: &crate::model::Operator<'_>) -> Vec<String> {
    out.schema.inputs().map(parameter::identifier).collect()
}
