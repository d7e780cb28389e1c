//! Reads `derivatives.yaml`, which has for each operator one formula for each differentiable input. Formulas stay text here.

mod text;
mod typed;

use std::collections::HashSet;

pub use typed::{Body, TypedDerivative, TypedFormula};

use crate::native_functions::{Located, NativeFunctions, is_autograd_key, parse_schema};
use crate::schema::{FunctionSchema, OperatorName};
use crate::source::{Fault, Faults, Source};
use crate::yaml::{Entry, Kind, Node, Scalar, Value, entries};

/// The whole file.
#[derive(Clone, Debug, PartialEq)]
pub struct Derivatives {
    /// The functions that formulas may call, declared at the top of the file.
    pub helpers: Vec<Located<FunctionSchema>>,
    /// The operators, in the order of the file.
    pub entries: Vec<Derivative>,
}

/// The derivatives of one operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Derivative {
    /// The operator's signature.
    pub schema: FunctionSchema,
    /// Byte offset of the signature.
    pub at: usize,
    /// The formulas by dispatch key; `Default` is for all other keys.
    pub formulas: Vec<(String, Vec<Formula>)>,
    /// Which outputs have gradients; if empty, all have.
    pub output_differentiability: Vec<Differentiable>,
}

/// Whether an output has a gradient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Differentiable {
    /// Known from the file.
    Known(bool),
    /// Under a condition on the arguments.
    If(String),
}

/// One formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    /// The inputs whose gradients it computes, or the outputs whose tangents it computes.
    pub names: Vec<String>,
    /// Whether it is a forward-mode formula (`result:`).
    pub forward: bool,
    /// The text.
    pub text: Scalar,
}

impl Derivatives {
    /// Reads a file whose operators are those of `functions`.
    ///
    /// # Errors
    /// Every fault found, with its line: an operator that does not exist or has another signature, an
    /// argument it does not have, unbalanced brackets in a formula, gradients named both `grad` and `grads[i]`, ...
    pub fn parse(source: Source<'_>, functions: &NativeFunctions) -> Result<Self, Faults> {
        let mut faults = Faults::default();
        let mut all = Self { helpers: vec![], entries: vec![] };
        let mut seen = HashSet::new();
        for mut entry in entries(source)? {
            if let Some(node) = entry.take("helpers") {
                let helpers = helpers(entry, node, &all.entries);
                all.helpers.extend(faults.take(helpers).unwrap_or_default());
                continue;
            }
            let Some(derivative) = faults.take(derivative(entry, functions)) else { continue };
            if !seen.insert(derivative.schema.name.clone()) {
                let message = format!("the derivatives of `{}` are given twice", derivative.schema.name);
                faults.0.push(source.fault(derivative.at, message));
            }
            all.entries.push(derivative);
        }
        faults.or(all)
    }
}

fn helpers(
    entry: Entry<'_>,
    node: Node,
    before: &[Derivative],
) -> Result<Vec<Located<FunctionSchema>>, Fault> {
    let source = entry.source;
    if !before.is_empty() {
        return Err(source.fault(entry.at, "`helpers` stand before the derivatives"));
    }
    if let Some((key, _)) = entry.rest().first() {
        return Err(source.fault(key.at, format!("unknown field `{}` beside `helpers`", key.text)));
    }
    let mut helpers: Vec<Located<FunctionSchema>> = vec![];
    for text in node.into_texts(source, "helpers")? {
        let value = parse_schema(source, &text)?;
        if helpers.iter().any(|known| known.value.name == value.name) {
            return Err(text.fault(source, 0, format!("helper `{}` is given twice", value.name)));
        }
        helpers.push(Located { value, at: text.at });
    }
    Ok(helpers)
}

fn derivative(mut entry: Entry<'_>, functions: &NativeFunctions) -> Result<Derivative, Fault> {
    let source = entry.source;
    let Some(name) = entry.take_text("name")? else {
        return Err(source.fault(entry.at, "the entry has no `name`"));
    };
    let schema = parse_schema(source, &name)?;
    check_operator(source, &name, &schema, functions)?;
    let output_differentiability = output_differentiability(&mut entry, &schema)?;
    let dispatch = entry.take("dispatch");
    let at = name.at;
    let rest = entry.rest();
    let formulas = match dispatch {
        None => vec![("Default".to_owned(), formulas(source, &schema, rest)?)],
        Some(node) => match rest.first() {
            None => by_key(source, &schema, node)?,
            Some((key, _)) => {
                let message = format!("`{}` stands beside `dispatch`, not inside it", key.text);
                return Err(source.fault(key.at, message));
            }
        },
    };
    let derivative = Derivative { schema, at, formulas, output_differentiability };
    for (_, formulas) in &derivative.formulas {
        text::check(source, &derivative, formulas)?;
    }
    Ok(derivative)
}

/// Checks that the operator exists, with exactly this signature.
fn check_operator(
    source: Source<'_>,
    text: &Scalar,
    schema: &FunctionSchema,
    functions: &NativeFunctions,
) -> Result<(), Fault> {
    let name = &schema.name;
    match signature_of(name, functions) {
        Some(known) if known == *schema => Ok(()),
        Some(known) => {
            let same = known.to_string().bytes().zip(text.text.bytes()).take_while(|(a, b)| a == b).count();
            Err(text.fault(source, same, format!("expected the signature of `{name}`, `{known}`")))
        }
        None => Err(text.fault(source, 0, format!("there is no operator `{name}`"))),
    }
}

fn signature_of(name: &OperatorName, functions: &NativeFunctions) -> Option<FunctionSchema> {
    if let Some(function) = functions.get(name) {
        return Some(function.schema.clone());
    }
    let generates = |sibling: &Located<OperatorName>| sibling.value == *name;
    let origin = functions.entries.iter().find(|function| function.autogen.iter().any(generates))?;
    crate::variants::sibling(&origin.schema, name).ok()
}

fn output_differentiability(
    entry: &mut Entry<'_>,
    schema: &FunctionSchema,
) -> Result<Vec<Differentiable>, Fault> {
    const NAME: &str = "output_differentiability";
    let source = entry.source;
    let Some(node) = entry.take(NAME) else { return Ok(vec![]) };
    let at = node.at;
    let Value::List(items) = node.value else {
        return Err(node.expected(source, NAME, "a list of True and False"));
    };
    let known =
        items.iter().all(|item| matches!(&item.value, Value::Scalar(Scalar { kind: Kind::Bool(_), .. })));
    if items.is_empty() || (known && items.len() > schema.returns.len()) || (!known && items.len() != 1) {
        let message = format!("`{NAME}`: expected one value for each of {} outputs", schema.returns.len());
        return Err(source.fault(at, message));
    }
    items.into_iter().map(|item| differentiable(source, item)).collect()
}

fn differentiable(source: Source<'_>, item: Node) -> Result<Differentiable, Fault> {
    match item.value {
        Value::Scalar(Scalar { kind: Kind::Bool(value), .. }) => Ok(Differentiable::Known(value)),
        Value::Scalar(Scalar { kind: Kind::Text, text, .. }) if !text.trim().is_empty() => {
            Ok(Differentiable::If(text))
        }
        _ => Err(item.expected(source, "output_differentiability", "True, False or a condition")),
    }
}

fn by_key(
    source: Source<'_>,
    schema: &FunctionSchema,
    node: Node,
) -> Result<Vec<(String, Vec<Formula>)>, Fault> {
    let Value::Map(keys) = node.value else {
        return Err(node.expected(source, "dispatch", "a map from keys to formulas"));
    };
    let mut all = vec![];
    for (key, node) in keys {
        if key.text != "Default" && !is_autograd_key(&key.text) {
            return Err(source.fault(key.at, format!("unknown dispatch key `{}` of a derivative", key.text)));
        }
        let Value::Map(fields) = node.value else {
            return Err(node.expected(source, &key.text, "a map from inputs to formulas"));
        };
        all.push((key.text, formulas(source, schema, fields)?));
    }
    Ok(all)
}

fn formulas(
    source: Source<'_>,
    schema: &FunctionSchema,
    fields: Vec<(Scalar, Node)>,
) -> Result<Vec<Formula>, Fault> {
    let mut seen = HashSet::new();
    let mut formulas = vec![];
    for (key, node) in fields {
        let names: Vec<String> = key.text.split(',').map(|name| name.trim().to_owned()).collect();
        let outputs = names.iter().filter(|name| is_output(schema, name)).count();
        for name in &names {
            if !seen.insert(name.clone()) {
                return Err(source.fault(key.at, format!("`{name}` has two formulas")));
            }
            check_name(schema, name).map_err(|message| source.fault(key.at, message))?;
        }
        if outputs > 0 && outputs < names.len() {
            return Err(source.fault(key.at, "one formula gives gradients of inputs or tangents of outputs"));
        }
        let text = node.into_scalar(source, &key.text)?;
        if !text::is_constant(&text) {
            check_types(schema, &names).map_err(|message| source.fault(key.at, message))?;
        }
        formulas.push(Formula { names, forward: outputs > 0, text });
    }
    Ok(formulas)
}

/// Whether the name is that of an output: its own, `result` for the only one, `result1` for the second.
fn is_output(schema: &FunctionSchema, name: &str) -> bool {
    let index = name.strip_prefix("result").and_then(|index| index.parse::<usize>().ok());
    let numbered = index.is_some_and(|index| index < schema.returns.len());
    let named = schema.returns.iter().any(|result| result.name.as_deref() == Some(name));
    let is_input = schema.arguments().any(|argument| argument.name == name);
    !is_input && (named || numbered || (name == "result" && schema.returns.len() == 1))
}

fn check_name(schema: &FunctionSchema, name: &str) -> Result<(), String> {
    if is_output(schema, name) {
        return Ok(());
    }
    match schema.arguments().find(|argument| argument.name == name) {
        None if name.is_empty() => Err("the formula has no input".to_owned()),
        None => Err(format!("`{}` has no argument or output `{name}`", schema.name)),
        Some(_) if schema.returns.iter().any(|result| result.name.as_deref() == Some(name)) => {
            Err(format!("`{name}` is the name of an argument and of an output"))
        }
        Some(_) => Ok(()),
    }
}

/// Checks that the named arguments are tensors: nothing else has a derivative.
fn check_types(schema: &FunctionSchema, names: &[String]) -> Result<(), String> {
    let constant = |name: &String| {
        schema.arguments().find(|argument| argument.name == *name && !argument.ty.holds_tensors())
    };
    match names.iter().find_map(constant) {
        Some(argument) => Err(format!("`{}` is a `{}` and has no derivative", argument.name, argument.ty)),
        None => Ok(()),
    }
}
