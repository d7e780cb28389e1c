//! How operators look as methods in Rust: their names, and which arguments are taken by position, which as options.

use std::collections::{HashMap, HashSet};

use crate::model::Operator;
use crate::naming;
use crate::rust_enums;
use crate::schema::{Argument, BaseType, FunctionSchema, Literal, Type};
use crate::source::{Fault, Source};

/// Method names that would hide methods of traits that every Rust type has.
const TAKEN_METHODS: &[&str] = &["clone", "drop", "from", "into", "to_owned", "to_string", "default"];

/// How a method takes an argument of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It is the tensor whose method is called.
    Receiver,
    /// By position.
    Positional,
    /// As one of the four options of a factory, which are a single parameter.
    TensorOptions,
    /// By a setter of the method's options.
    Option,
    /// Not at all: it has this value.
    Fixed(&'static str),
}

/// Arguments that mean something inside of PyTorch only.
const FIXED: &[(&str, &str)] = &[("cudnn_enable", "true"), ("cudnn_enabled", "true"), ("implicit", "false")];

/// The names that one operator adds to `Tensor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MethodNames {
    /// With positional arguments only.
    pub(crate) plain: String,
    /// With options too, if there are any.
    pub(crate) with: Option<String>,
    /// With the dimensions by position, for reductions that reduce all dimensions otherwise.
    pub(crate) dim: Option<String>,
}

impl MethodNames {
    pub(crate) fn of(operator: &Operator<'_>, plain: &str) -> Self {
        let insert = |word: &str| match plain.strip_suffix('_') {
            Some(base) => format!("{base}_{word}_"),
            None => format!("{plain}_{word}"),
        };
        let has_options = options(operator).next().is_some();
        Self {
            plain: plain.to_owned(),
            with: has_options.then(|| insert("with")),
            dim: reduced_dim(operator).map(|_| insert("dim")),
        }
    }

    /// Every name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.plain).chain(&self.with).chain(&self.dim)
    }
}

/// How the method of an operator takes an argument.
pub(crate) fn role(operator: &Operator<'_>, argument: &Argument) -> Role {
    let is_tensor_option = |options: std::ops::Range<usize>| {
        operator.schema.keyword[options].iter().any(|option| option.name == argument.name)
    };
    let fixed = FIXED.iter().find(|(name, _)| *name == argument.name);
    match () {
        () if is_receiver(operator, argument) => Role::Receiver,
        () if fixed.is_some() => Role::Fixed(fixed.map_or("", |(_, value)| value)),
        () if tensor_options(&operator.schema).is_some_and(is_tensor_option) => Role::TensorOptions,
        () if operator.entry.rust_positional.contains(&argument.name) => Role::Positional,
        () if argument.may_be_absent() => Role::Option,
        () => Role::Positional,
    }
}

/// Whether an argument is what the method is called on: `self`, or the first matrix of an operator of linear algebra without one.
fn is_receiver(operator: &Operator<'_>, argument: &Argument) -> bool {
    let schema = &operator.schema;
    let of_linalg = operator.entry.python_module.as_deref() == Some("linalg");
    let is_named = match schema.self_argument() {
        None if of_linalg => schema.positional.first().is_some_and(|first| first.name == argument.name),
        _ => argument.name == "self",
    };
    is_named && argument.ty == Type::Base(BaseType::Tensor)
}

/// The four options of a factory, if all may be absent: they are one parameter then.
pub(crate) fn tensor_options(schema: &FunctionSchema) -> Option<std::ops::Range<usize>> {
    schema.tensor_options().filter(|range| schema.keyword[range.clone()].iter().all(|a| a.ty.is_optional()))
}

/// The arguments that are options.
pub(crate) fn options<'a>(operator: &'a Operator<'_>) -> impl Iterator<Item = &'a Argument> {
    operator.schema.inputs().filter(|argument| role(operator, argument) == Role::Option)
}

/// The option `dim` of a reduction, without which all dimensions are reduced.
pub(crate) fn reduced_dim<'a>(operator: &'a Operator<'_>) -> Option<&'a Argument> {
    let is_reduction = operator.entry.tags.iter().any(|tag| tag == "reduction");
    let reduces_all = |argument: &&Argument| match &argument.default {
        None => argument.ty.is_optional(),
        Some(default) => default.value == Literal::None || default.value == Literal::List(vec![]),
    };
    options(operator).find(|argument| argument.name == "dim" && is_reduction).filter(reduces_all)
}

/// The name of the struct of a method's options; a method and its in-place form share it.
pub(crate) fn options_type(method: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters
            .next()
            .map_or_else(String::new, |first| format!("{}{}", first.to_ascii_uppercase(), letters.as_str()))
    };
    format!("{}Options", method.split('_').map(word).collect::<String>())
}

/// Names the methods: by `rust_name`, or else by the operator's name if it is no overload.
pub(crate) fn name_methods(source: Source<'_>, operators: &mut [Operator<'_>]) -> Vec<Fault> {
    let mut faults = vec![];
    let mut taken: HashSet<String> = HashSet::new();
    let mut fields: HashMap<String, Vec<(String, Type)>> = HashMap::new();
    for operator in operators.iter_mut() {
        let named = match method_name(operator) {
            Ok(Some(name)) => check_options(operator, &name, &mut fields).map(|()| name),
            Ok(None) => continue,
            Err(message) => Err(message),
        };
        let named = named.and_then(|name| {
            match MethodNames::of(operator, &name).all().find(|name| !taken.insert((*name).clone())) {
                Some(known) => Err(format!("the method `{known}` exists")),
                None => Ok(name),
            }
        });
        match named {
            Ok(name) => operator.method = Some(name),
            Err(message) => {
                let at = operator.entry.rust_name.as_ref().map_or(operator.entry.at, |name| name.at);
                faults.push(source.fault(at, format!("`{}`: {message}", operator.schema.name)));
            }
        }
    }
    faults
}

/// The name of an operator's method, if it has one.
fn method_name(operator: &Operator<'_>) -> Result<Option<String>, String> {
    let (schema, entry) = (&operator.schema, operator.entry);
    let given = entry.rust_name.as_ref().map(|name| name.value.as_str());
    if !may_be_method(operator) || given == Some("none") {
        return Ok(None);
    }
    let derived = operator.derived.is_some() && schema.is_in_place();
    let name = match given {
        Some(given) if derived => format!("{given}_"),
        Some(given) => given.to_owned(),
        None if entry.schema.name.overload.is_empty() => naming::identifier(&schema.name.base),
        None => {
            return Err(
                "an overload that becomes a method needs a `rust_name`, or `rust_name: none`".to_owned()
            );
        }
    };
    check_name(schema, &name).map(|()| Some(name))
}

/// Whether an operator may be a method in Rust, or, without `self`, an associated function. Those of a number are functions only, and so
/// are those that only other operators call, unless they have a `rust_name`.
fn may_be_method(operator: &Operator<'_>) -> bool {
    let schema = &operator.schema;
    let base = schema.name.base.as_str();
    let parts = ["_backward", "_forward", "native_"];
    let is_private = base.starts_with('_') || parts.iter().any(|part| base.contains(part));
    let of_tensor = schema.self_argument().is_none_or(|argument| is_receiver(operator, argument));
    !schema.is_out() && of_tensor && (!is_private || operator.entry.rust_name.is_some())
}

fn check_name(schema: &FunctionSchema, name: &str) -> Result<(), String> {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let mut words = name.strip_suffix('_').unwrap_or(name).split('_');
    match () {
        () if !name.chars().all(is_letter) || words.any(str::is_empty) => Err(format!(
            "`{name}`: expected a name of lowercase words with `_` between them: give a `rust_name`"
        )),
        () if name.ends_with('_') != schema.is_in_place() => Err(format!(
            "`{name}`: a method that writes its tensor, and no other, ends in `_`: give a `rust_name`"
        )),
        () if TAKEN_METHODS.contains(&name) => {
            Err(format!("a method `{name}` would hide the one every type has: use `variants: function`"))
        }
        () => Ok(()),
    }
}

/// Records the options of a method; those of one name must be the same.
fn check_options(
    operator: &Operator<'_>,
    name: &str,
    known: &mut HashMap<String, Vec<(String, Type)>>,
) -> Result<(), String> {
    let fields: Vec<(String, Type)> =
        options(operator).map(|argument| (argument.name.clone(), argument.ty.clone())).collect();
    if fields.is_empty() {
        return Ok(());
    }
    let options = options_type(name);
    match known.entry(options.clone()).or_insert_with(|| fields.clone()) {
        known if *known == fields => Ok(()),
        _ => Err(format!("`{options}` has other fields already")),
    }
}

/// The Rust enum of an argument, if it has one.
pub(crate) fn enum_of(schema: &FunctionSchema, argument: &Argument) -> Option<&'static rust_enums::RustEnum> {
    rust_enums::find(&schema.name.root(), argument)
}
