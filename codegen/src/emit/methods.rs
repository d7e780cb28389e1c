//! The methods of `Tensor`, which take fewer arguments than the functions: those with defaults are left out.

use super::{FROM, calls, comment, imports};
use crate::model::Operator;
use crate::naming;
use crate::schema::{Argument, BaseType, FunctionSchema, Type};

pub(super) fn file(family: &str, operators: &[&Operator<'_>]) -> String {
    let methods: Vec<String> = operators.iter().filter_map(|operator| method(family, operator)).collect();
    let body = format!("impl Tensor {{\n{}\n}}\n", methods.join("\n\n"));
    format!("//! The methods of the operators in `{family}`.\n\n{}\n{body}", imports(FROM, &body))
}

fn method(family: &str, operator: &Operator<'_>) -> Option<String> {
    let name = operator.method.as_ref()?;
    let schema = &operator.schema;
    let (parameters, options) = parameters(schema);
    let receiver = if schema.self_argument().is_some() { vec!["&self".to_owned()] } else { vec![] };
    let parameters: Vec<String> = receiver.into_iter().chain(parameters).collect();
    let chained = schema.is_in_place() && schema.self_argument().is_some();
    let returned = if chained { "&Tensor".to_owned() } else { calls::returned(schema) };
    let call = format!("super::{family}::{}({})", operator.function(), arguments(schema));
    let call = if chained { format!("{call}?;\nOk(self)") } else { call };
    let unpack = if options { "let options = options.into();\n" } else { "" };
    Some(format!(
        "{doc}pub fn {name}({parameters}) -> Result<{returned}> {{\n{unpack}{call}\n}}",
        doc = comment(&doc(operator)),
        parameters = parameters.join(", "),
    ))
}

fn doc(operator: &Operator<'_>) -> String {
    let doc = operator.entry.doc.as_deref().unwrap_or_default();
    match operator.derived {
        None => doc.to_owned(),
        Some(_) => format!("{} The result is written into `self`.", super::first_sentence(doc)),
    }
}

/// The parameters of a method, and whether `options` is one of them.
fn parameters(schema: &FunctionSchema) -> (Vec<String>, bool) {
    let options = options_of(schema);
    let mut parameters: Vec<String> =
        schema.positional.iter().filter(|argument| argument.name != "self").map(parameter).collect();
    for (index, argument) in schema.keyword.iter().enumerate() {
        match options.as_ref() {
            Some(range) if index == range.start => {
                parameters.push("options: impl Into<TensorOptions>".to_owned())
            }
            Some(range) if range.contains(&index) => {}
            _ if argument.default.is_none() => parameters.push(parameter(argument)),
            _ => {}
        }
    }
    (parameters, options.is_some())
}

fn parameter(argument: &Argument) -> String {
    let ty = match argument.ty {
        Type::Base(BaseType::Scalar) => "impl Into<Scalar>".to_owned(),
        _ => calls::ty(argument),
    };
    format!("{}: {ty}", calls::name(argument))
}

/// The four options as one parameter, if all are optional.
fn options_of(schema: &FunctionSchema) -> Option<std::ops::Range<usize>> {
    schema.tensor_options().filter(|range| schema.keyword[range.clone()].iter().all(|a| a.ty.is_optional()))
}

fn arguments(schema: &FunctionSchema) -> String {
    let options = options_of(schema);
    let positional = schema.positional.iter().map(|argument| match &argument.ty {
        _ if argument.name == "self" => "self".to_owned(),
        Type::Base(BaseType::Scalar) => format!("{}.into()", calls::name(argument)),
        _ => calls::name(argument),
    });
    let keyword = schema.keyword.iter().enumerate().map(|(index, argument)| match options.as_ref() {
        Some(range) if range.contains(&index) => format!("options.{}", argument.name),
        _ => match naming::default(argument) {
            Some(default) => default,
            None if argument.ty == Type::Base(BaseType::Scalar) => {
                format!("{}.into()", calls::name(argument))
            }
            None => calls::name(argument),
        },
    });
    positional.chain(keyword).collect::<Vec<_>>().join(", ")
}
