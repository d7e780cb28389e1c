//! The methods of `Tensor`: one that takes what has no default, and one that takes options too.

use super::{calls, comment, examples, first_sentence, own_and_other_imports};
use crate::model::Operator;
use crate::naming;
use crate::rust_enums::is_text;
use crate::rust_interface::{
    MethodNames, Role, enum_of, options, options_type, reduced_dim, role, tensor_options,
};
use crate::schema::{Argument, BaseType, Type};

pub(super) fn file(family: &str, operators: &[&Operator<'_>]) -> String {
    let methods: Vec<String> = operators.iter().flat_map(|operator| methods(operator)).collect();
    let body = format!("impl Tensor {{\n{}\n}}\n", methods.join("\n\n"));
    let mut code = body.lines().filter(|line| !line.trim_start().starts_with("//"));
    let options = if code.any(|line| line.contains("options::")) { "use crate::ops::options;\n" } else { "" };
    let (own, other) = own_and_other_imports(&body);
    format!(
        "//! The methods of the operators in `{family}`.\n\n{own}use crate::ops;\n{options}{other}\n{body}"
    )
}

/// The module that gathers the files of `families`.
pub(super) fn module(families: &[&str]) -> String {
    let declared: String = families.iter().map(|family| format!("mod {family};\n")).collect();
    format!("//! The methods of `Tensor`, by the file of the kernels.\n\n{declared}")
}

/// Where a method gets the arguments that it does not take by position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// They have their defaults.
    Plain,
    /// They are options.
    With,
    /// `dim` is positional too, and the others have their defaults.
    Dim,
}

fn methods(operator: &Operator<'_>) -> Vec<String> {
    let Some(plain) = operator.method.as_ref() else { return vec![] };
    let names = MethodNames::of(operator, plain);
    let mut methods = vec![method(operator, plain, Form::Plain, &plain_doc(operator, &names))];
    if let Some(dim) = &names.dim {
        let doc = format!("[`{plain}`](Tensor::{plain}) along `dim`.");
        methods.push(method(operator, dim, Form::Dim, &doc));
    }
    if let Some(with) = &names.with {
        methods.push(method(operator, with, Form::With, &with_doc(operator, plain)));
    }
    methods
}

/// The methods of an operator that have no example.
pub(crate) fn without_example(operator: &Operator<'_>) -> Vec<String> {
    let Some(plain) = operator.method.as_ref() else { return vec![] };
    let names = MethodNames::of(operator, plain);
    names.all().filter(|name| examples::block(operator, name).is_none()).cloned().collect()
}

fn method(operator: &Operator<'_>, name: &str, form: Form, doc: &str) -> String {
    let schema = &operator.schema;
    let example = examples::block(operator, name).map(|block| format!("\n\n{block}")).unwrap_or_default();
    let chained = schema.is_in_place() && schema.self_argument().is_some();
    let returned = if chained { "&Tensor".to_owned() } else { calls::returned(schema) };
    let call = format!("ops::{}({})", operator.function(), arguments(operator, form).join(", "));
    let call = if chained { format!("{call}?;\nOk(self)") } else { call };
    let unpack = match tensor_options(schema) {
        Some(_) => format!("let {0} = {0}.into();\n", tensor_options_name(form)),
        None => String::new(),
    };
    format!(
        "{doc}pub fn {name}({parameters}) -> Result<{returned}> {{\n{unpack}{call}\n}}",
        doc = comment(&format!("{doc}{example}")),
        parameters = parameters(operator, form).join(", "),
    )
}

fn plain_doc(operator: &Operator<'_>, names: &MethodNames) -> String {
    let doc = operator.entry.doc.as_deref().unwrap_or_default();
    let doc = match operator.derived {
        None => doc.to_owned(),
        Some(_) => format!("{} The result is written into `self`.", first_sentence(doc)),
    };
    match &names.with {
        Some(with) => format!("{doc}\n\n[`{with}`](Tensor::{with}) takes options."),
        None => doc,
    }
}

fn with_doc(operator: &Operator<'_>, plain: &str) -> String {
    let names: Vec<String> = options(operator).map(|argument| format!("`{}`", argument.name)).collect();
    format!("[`{plain}`](Tensor::{plain}) with options: {}.", names.join(", "))
}

/// The name of the parameter of a factory's four options.
fn tensor_options_name(form: Form) -> &'static str {
    if form == Form::With { "tensor_options" } else { "options" }
}

fn parameters(operator: &Operator<'_>, form: Form) -> Vec<String> {
    let schema = &operator.schema;
    let is_receiver = |argument: &Argument| role(operator, argument) == Role::Receiver;
    let receiver = schema.inputs().any(is_receiver).then(|| "&self".to_owned());
    let positional = |argument: &&Argument| match role(operator, argument) {
        Role::Positional => true,
        Role::Option => form == Form::Dim && is_dim(operator, argument),
        Role::Receiver | Role::TensorOptions | Role::Fixed(_) => false,
    };
    let mut parameters: Vec<String> = receiver.into_iter().collect();
    parameters.extend(schema.inputs().filter(positional).map(|argument| parameter(operator, argument)));
    if tensor_options(schema).is_some() {
        parameters.push(format!("{}: impl Into<TensorOptions>", tensor_options_name(form)));
    }
    if form == Form::With {
        let name = options_type(operator.method.as_deref().unwrap_or_default());
        let lifetime = if super::options::borrows(operator) { "<'_>" } else { "" };
        parameters.push(format!("options: options::{name}{lifetime}"));
    }
    parameters
}

fn is_dim(operator: &Operator<'_>, argument: &Argument) -> bool {
    reduced_dim(operator).is_some_and(|dim| dim.name == argument.name)
}

/// A positional parameter. Of an optional one, a number may be `None`, and what is no number has to be given.
fn parameter(operator: &Operator<'_>, argument: &Argument) -> String {
    let inner = argument.ty.without_optional();
    let ty = match enum_of(&operator.schema, argument) {
        Some(found) => format!("options::{}", found.name),
        None if *inner == Type::Base(BaseType::Scalar) => "impl Into<Scalar>".to_owned(),
        None if is_int_list(operator, argument) => "impl options::IntList".to_owned(),
        None if takes_option(operator, argument) => {
            format!("impl Into<{}>", naming::parameter(&argument.ty).unwrap_or_default())
        }
        None => naming::parameter(inner).unwrap_or_default(),
    };
    format!("{}: {ty}", calls::name(argument))
}

fn arguments(operator: &Operator<'_>, form: Form) -> Vec<String> {
    let argument = |argument: &Argument| match role(operator, argument) {
        Role::Receiver => "self".to_owned(),
        Role::Fixed(value) => value.to_owned(),
        Role::Positional => given(operator, argument),
        Role::TensorOptions => format!("{}.{}", tensor_options_name(form), argument.name),
        Role::Option if form == Form::Dim && is_dim(operator, argument) => given(operator, argument),
        Role::Option if form == Form::With => chosen(operator, argument),
        Role::Option => naming::default(argument).unwrap_or_else(|| "None".to_owned()),
    };
    operator.schema.inputs().map(argument).collect()
}

/// Whether a number is taken for a list too: where the schema does so, and for the dimensions of a reduction.
fn is_int_list(operator: &Operator<'_>, argument: &Argument) -> bool {
    match argument.ty.without_optional() {
        Type::List(element, size) => {
            matches!(**element, Type::Base(BaseType::Int | BaseType::SymInt))
                && (*size == Some(1) || is_dim(operator, argument))
        }
        _ => false,
    }
}

fn takes_option(operator: &Operator<'_>, argument: &Argument) -> bool {
    let inner = argument.ty.without_optional();
    argument.ty.is_optional()
        && !is_dim(operator, argument)
        && matches!(inner, Type::Base(BaseType::Int | BaseType::SymInt | BaseType::Float))
}

/// The value of a positional parameter, as the function takes it.
fn given(operator: &Operator<'_>, argument: &Argument) -> String {
    let name = calls::name(argument);
    let value = match enum_of(&operator.schema, argument) {
        Some(_) => format!("{name}.{}()", conversion(argument)),
        None if is_int_list(operator, argument) => {
            format!("options::IntList::ints(&{name})")
        }
        None if takes_option(operator, argument) => return format!("{name}.into()"),
        None if *argument.ty.without_optional() == Type::Base(BaseType::Scalar) => format!("{name}.into()"),
        None => name,
    };
    if argument.ty.is_optional() { format!("Some({value})") } else { value }
}

/// The value of an option, as the function takes it.
fn chosen(operator: &Operator<'_>, argument: &Argument) -> String {
    let field = format!("options.{}", super::options::field(argument));
    match enum_of(&operator.schema, argument) {
        Some(found) if argument.ty.is_optional() => {
            format!("{field}.map(options::{}::{})", found.name, conversion(argument))
        }
        Some(_) => format!("{field}.{}()", conversion(argument)),
        None => field,
    }
}

/// The method of an enum that gives what schemas have for it.
fn conversion(argument: &Argument) -> &'static str {
    if is_text(&argument.ty) { "as_str" } else { "as_int" }
}
