//! One overload: its parameters, and the typed call.

use super::names::Overload;
use super::parameter;
use crate::naming;
use crate::schema::{Argument, FunctionSchema, Type};

pub(super) fn emit(overload: &Overload<'_>) -> String {
    let receiver = match overload.receiver() {
        Some(index) => format!("Some({index})"),
        None => "None".to_owned(),
    };
    format!(
        "Overload {{ parameters: &[{parameters}], receiver: {receiver}, function: {function}, call: |a| {{ {call} }} }}",
        parameters = parameters(overload),
        function = overload.is_function(),
        call = call(overload),
    )
}

fn parameters(overload: &Overload<'_>) -> String {
    let schema = &overload.operator.schema;
    let base = &schema.name.base;
    let positional = schema.positional.iter().map(|argument| parameter::entry(base, argument, false));
    let keyword = schema.keyword.iter().map(|argument| parameter::entry(base, argument, true));
    let mut entries: Vec<String> = positional.chain(keyword).collect();
    if overload.is_factory() {
        entries.push("boolean(\"requires_grad\").by_keyword().or(\"False\")".to_owned());
    }
    entries.extend(overload.out.map(|out| {
        let kind = if out.schema.out.len() > 1 || writes_list(out) { "tensors" } else { "tensor" };
        format!("{kind}(\"out\").by_keyword().or_none().or(\"None\")")
    }));
    entries.join(", ")
}

/// Whether `out` is a list of tensors, whose length depends on the result.
fn writes_list(out: &crate::model::Operator<'_>) -> bool {
    out.schema.out.iter().any(|argument| matches!(argument.ty, Type::List(..)))
}

/// The closure that converts the arguments and calls the operator. The call is a closure of its own, so that it can run without the
/// interpreter's lock.
fn call(overload: &Overload<'_>) -> String {
    let schema = &overload.operator.schema;
    let out = overload.out.map_or(String::new(), |out| {
        let options = schema.inputs().position(|argument| argument.name == "dtype");
        let index = schema.inputs().count() + usize::from(overload.is_factory());
        write_out(out, index, options.filter(|_| overload.is_factory()))
    });
    let values: Vec<String> =
        schema.inputs().enumerate().map(|(index, argument)| parameter::value(index, argument)).collect();
    let names: Vec<String> = schema.inputs().map(|argument| naming::identifier(&argument.name)).collect();
    let taken = match names.as_slice() {
        [] => String::new(),
        [name] => format!("let {name} = {};", values[0]),
        _ => format!("let ({}) = ({});", names.join(", "), values.join(", ")),
    };
    format!("{taken}\n{out}{}", run(overload, schema))
}

fn run(overload: &Overload<'_>, schema: &FunctionSchema) -> String {
    let call = operator_call(overload.operator.function(), schema.inputs());
    // `rrelu_with_noise` writes one argument and returns something else.
    let returns_new = schema.returns.iter().any(|result| result.alias.is_none());
    let written = schema.inputs().position(Argument::is_written).filter(|_| !returns_new);
    let names: Vec<&str> = schema.returns.iter().filter_map(|result| result.name.as_deref()).collect();
    match written {
        Some(index) => format!("a.writes({index}, || {call})"),
        None if overload.is_factory() => format!("a.makes({}, || {call})", schema.inputs().count()),
        None if names.len() > 1 => {
            let names = format!("static NAMES: Names = Names::new({:?}, &{names:?});", schema.name.base);
            format!("{names}\na.returns_named(&NAMES, || {call})")
        }
        None if schema.is_view() => format!("a.views(|| {call})"),
        None => format!("a.returns(|| {call})"),
    }
}

fn operator_call<'a>(function: String, arguments: impl Iterator<Item = &'a Argument>) -> String {
    let passed: Vec<String> = arguments.map(parameter::passed).collect();
    format!("ops::{function}({})", passed.join(", "))
}

/// The call of the `out=` variant, if `out` is given. That of a factory must agree with the arguments `dtype`, `layout` and `device`,
/// which start at the index `options`.
fn write_out(out: &crate::model::Operator<'_>, index: usize, options: Option<usize>) -> String {
    let inputs = out.schema.inputs().map(parameter::passed);
    let several = out.schema.out.len() > 1;
    let outs: Vec<String> = (0..out.schema.out.len())
        .map(|nr| if several { format!("&out[{nr}]") } else { "&out".to_owned() })
        .collect();
    let passed: Vec<String> = inputs.chain(outs).collect();
    let check = options.map_or(String::new(), |dtype| format!("a.agree({dtype}, &out)?; "));
    let given = match several {
        true => format!("a.out_tensors({index}, {})?", out.schema.out.len()),
        false if writes_list(out) => format!("a.optional_tensors_out({index})?"),
        false => format!("a.optional_tensor({index})?"),
    };
    format!(
        "if let Some(out) = {given} {{ {check}return a.writes({index}, || ops::{}({})); }}\n",
        out.function(),
        passed.join(", ")
    )
}
