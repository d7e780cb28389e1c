//! The kernels for `Autograd` and `ADInplaceOrView`: they call the kernel below, and record the history or the base of the result.

use super::Plan;
use super::node::{Field, FieldStorage, Node, braced};
use crate::derivatives::Differentiable;
use crate::emit::{calls, joined, wrapped};
use crate::formula::{Property, SavedWhat, Variable};
use crate::model::Operator;
use crate::naming;
use crate::schema::{Argument, BaseType, Type};

/// The kernels of one operator.
pub(super) fn emit(operator: &Operator<'_>, plan: &Plan<'_>) -> Result<String, String> {
    let schema = &operator.schema;
    let recording = match plan {
        Plan::Composite | Plan::NoTensors => return Ok(String::new()),
        Plan::Unrecorded if schema.is_in_place() => in_place(operator, &overwritten(operator)?)?,
        Plan::Unrecorded if schema.is_out() => out(operator, &schema.out.iter().collect::<Vec<_>>()),
        Plan::Unrecorded => line("unrecorded", operator, ""),
        Plan::Refused => out(operator, &tensors(operator)),
        Plan::Missing(name) if schema.is_in_place() => in_place(operator, &missing(operator, name))?,
        Plan::Missing(name) => functional(operator, &missing(operator, name))?,
        Plan::Recorded(node) if schema.is_in_place() => in_place(operator, &History::of(operator, node)?)?,
        Plan::Recorded(node) => functional(operator, &History::of(operator, node)?)?,
    };
    let tracked = schema.is_view() && !matches!(plan, Plan::Unrecorded);
    Ok(if tracked { format!("{recording}\n{}", self::tracked(operator)?) } else { recording })
}

/// What a kernel needs to record a result: the inputs with a gradient, and the value of the node.
struct History<'a> {
    inputs: Vec<&'a Argument>,
    /// What is computed before the operator runs, because it may change afterwards.
    before: Vec<(String, String)>,
    /// The value of the node; with `before` and the results in scope.
    node: String,
    /// Which results have a gradient; empty if all have.
    differentiable: Vec<bool>,
}

fn tensors<'a>(operator: &'a Operator<'_>) -> Vec<&'a Argument> {
    operator.schema.arguments().filter(|argument| argument.ty.holds_tensors()).collect()
}

/// The operator has no derivative: computing the gradient is an error that names it.
fn missing<'a>(operator: &'a Operator<'_>, name: &str) -> History<'a> {
    let node = format!("record::NotImplemented({name:?})");
    History { inputs: tensors(operator), before: vec![], node, differentiable: vec![] }
}

/// The operator writes values that depend on nothing with a gradient.
fn overwritten<'a>(operator: &'a Operator<'_>) -> Result<History<'a>, String> {
    let self_ = operator.schema.self_argument().ok_or("an in-place operator without `self`")?;
    let node = "record::Overwritten".to_owned();
    Ok(History { inputs: vec![self_], before: vec![], node, differentiable: vec![] })
}

impl<'a> History<'a> {
    fn of(operator: &'a Operator<'_>, node: &Node<'a>) -> Result<Self, String> {
        let schema = &operator.schema;
        let in_place = schema.is_in_place();
        if in_place && node.inputs.first().is_none_or(|input| input.name != "self") {
            return Err(format!(
                "`{}` writes `self`, which needs a formula (`None` for no gradient)",
                schema.name
            ));
        }
        let (mut before, mut fields) = (vec![], vec![]);
        let late = node.fields.iter().any(Field::is_output);
        for field in &node.fields {
            let made = saved(operator, node, field)?;
            let name = field.name.clone();
            if in_place && late && !field.is_output() {
                let local = calls::local(schema, &format!("saved_{}", name.trim_end_matches('_')));
                before.push((local.clone(), made));
                fields.push(format!("{name}: {local}"));
            } else if made == name {
                fields.push(name);
            } else {
                fields.push(format!("{name}: {made}"));
            }
        }
        let path = match node.family == operator.family {
            true => node.name.clone(),
            false => format!("super::{}::{}", node.family, node.name),
        };
        let node_text = format!("{path} {}", braced(&fields));
        let differentiable = differentiable(node);
        Ok(Self { inputs: node.inputs.clone(), before, node: node_text, differentiable })
    }
}

/// Which results have a gradient, if not all have.
fn differentiable(node: &Node<'_>) -> Vec<bool> {
    let outputs = node.derivative.derivative.output_differentiability.iter();
    let outputs: Vec<bool> = outputs.map(|output| *output != Differentiable::Known(false)).collect();
    if outputs.contains(&false) { outputs } else { vec![] }
}

/// The value of a field, from the arguments and results of the call.
fn saved(operator: &Operator<'_>, node: &Node<'_>, field: &Field) -> Result<String, String> {
    let source = match &field.variable {
        Variable::Output(_) if operator.schema.is_in_place() => "self_".to_owned(),
        Variable::Output(index) => {
            let names = results(operator);
            names.get(*index).cloned().ok_or("there is no such output")?
        }
        Variable::Input(name) => naming::identifier(name),
        _ => return Err("only arguments and results are saved".to_owned()),
    };
    match field.what {
        SavedWhat::Property(property) => Ok(property_of(&source, property, &field.ty)),
        SavedWhat::Value => Ok(to_owned(&source, field)),
        SavedWhat::Tensor => match &field.variable {
            Variable::Output(index) => output(operator, &source, *index, field),
            _ => Ok(input(operator, node, &source, field)),
        },
    }
}

fn output(operator: &Operator<'_>, source: &str, index: usize, field: &Field) -> Result<String, String> {
    let borrow = if operator.schema.is_in_place() { "" } else { "&" };
    match field.storage {
        FieldStorage::Tensors => Ok(format!("record::saved_outputs({borrow}{source})?")),
        _ => Ok(format!("SavedVariable::output({borrow}{source}, {index})?")),
    }
}

fn input(operator: &Operator<'_>, node: &Node<'_>, source: &str, field: &Field) -> String {
    let used = used(node, field);
    let written = operator.schema.is_in_place() && source == "self_";
    let condition = used.clone().unwrap_or_else(|| "true".to_owned());
    match &field.ty {
        Type::List(inner, _) if inner.is_optional() => format!("record::saved_optionals({source})?"),
        Type::List(..) => format!("record::saved_list({source})?"),
        Type::Optional(_) => format!("record::saved_optional({condition}, {source})?"),
        _ if written && used.is_none() => format!("record::original_always({source})?"),
        _ if written => format!("record::original({condition}, {source})?"),
        _ => {
            // The history of an input is saved as the number of its edge.
            match (used, edge_index(node, source)) {
                (Some(used), Some(nr)) => format!("record::saved_input({used}, {source}, {nr})?"),
                (Some(used), None) => format!("record::saved_other({used}, {source})?"),
                (None, Some(nr)) => format!("SavedVariable::input({source}, {nr})?"),
                (None, None) => format!("SavedVariable::other({source})?"),
            }
        }
    }
}

/// The index of an input's edge. It is not known for a list, and for inputs after one.
fn edge_index(node: &Node<'_>, name: &str) -> Option<usize> {
    let index = node.inputs.iter().position(|input| naming::identifier(&input.name) == name)?;
    let lists = node.inputs[..=index].iter().any(|input| matches!(input.ty, Type::List(..)));
    (!lists).then_some(index)
}

/// The condition under which a formula that uses the field is needed; `None` if one always is.
fn used(node: &Node<'_>, field: &Field) -> Option<String> {
    if field.always {
        return None;
    }
    let mut conditions = vec![];
    for name in field.used_by.iter().flat_map(|index| &node.formulas[*index].names) {
        conditions.push(match edge_index(node, &naming::identifier(name)) {
            Some(index) => format!("edges[{index}].is_some()"),
            None => return Some("true".to_owned()),
        });
    }
    Some(conditions.join(" || "))
}

fn property_of(source: &str, property: Property, ty: &Type) -> String {
    match property {
        Property::Sizes if matches!(ty, Type::List(..)) => format!("formulas::sizes_of({source})"),
        Property::Sizes | Property::Strides => format!("DimVec::from_slice({source}.{}())", property.name()),
        Property::Size(dim) => format!("{source}.size({dim})?"),
        Property::Dim | Property::Len => format!("{source}.{}() as i64", property.name()),
        Property::ScalarType => format!("{source}.dtype()"),
        other => format!("{source}.{}()", other.name()),
    }
}

fn to_owned(source: &str, field: &Field) -> String {
    let list = match field.ty.without_optional() {
        Type::Base(BaseType::Str) => "str::to_owned",
        Type::List(inner, _) if matches!(**inner, Type::Base(BaseType::Int | BaseType::SymInt)) => {
            "DimVec::from_slice"
        }
        _ => "<[_]>::to_vec",
    };
    match field.storage {
        FieldStorage::List => format!("{list}({source})"),
        FieldStorage::OptionalList => format!("{source}.map({list})"),
        _ => source.to_owned(),
    }
}

/// `of [self_, other]`, or `of_optional` or `of_any` if not all are plain tensors. Only recorded edges may be those of optional inputs.
fn inputs(inputs: &[&Argument], recorded: bool) -> String {
    let tensor = Type::Base(BaseType::Tensor);
    let kind = match inputs {
        _ if inputs.iter().all(|input| input.ty == tensor) => "of",
        _ if recorded && inputs.iter().all(|input| *input.ty.without_optional() == tensor) => "of_optional",
        _ => "of_any",
    };
    let names: Vec<String> = inputs.iter().map(|input| calls::name(input)).collect();
    format!("{kind} [{}]", names.join(", "))
}

/// `ADD_TENSOR(self_, other, alpha)`
fn head(operator: &Operator<'_>) -> String {
    format!("{}({})", naming::operator_static(&operator.schema.name), calls::arguments(&operator.schema))
}

/// A kernel that one line declares.
fn line(name: &str, operator: &Operator<'_>, rest: &str) -> String {
    wrapped(&format!("{name}! {{ {}{rest} }}", head(operator)))
}

/// The names of the results.
fn results(operator: &Operator<'_>) -> Vec<String> {
    let schema = &operator.schema;
    (0..schema.returns.len())
        .map(|index| calls::local(schema, &super::node::output_name(schema, index)))
        .collect()
}

fn functional(operator: &Operator<'_>, history: &History<'_>) -> Result<String, String> {
    let names = results(operator);
    let pattern = if names.len() == 1 { names[0].clone() } else { format!("({})", names.join(", ")) };
    let edges = format!("edges {};", inputs(&history.inputs, true));
    let head = joined(&format!("{} -> {pattern},", head(operator)), &edges);
    let node = joined(&format!("{},", set_history(operator, history, &names)?), &history.node);
    Ok(format!("recorded! {{\n{head}{node}}}"))
}

/// The call that sets the history of the results, without edges and node. That of a single tensor is set while nobody else owns it,
/// which needs no lock.
fn set_history(operator: &Operator<'_>, history: &History<'_>, names: &[String]) -> Result<String, String> {
    let returns = &operator.schema.returns;
    let tensors = returns.iter().take_while(|result| result.ty == Type::Base(BaseType::Tensor)).count();
    let list =
        |result: &crate::schema::Return| matches!(result.ty, Type::List(..)) && result.ty.holds_tensors();
    match (returns.as_slice(), names) {
        ([only], [name]) if list(only) => {
            Ok(format!("set_history_of_all(&flambeau_core::fallible::collect({name}.iter())?)"))
        }
        ([_], [name]) if tensors == 1 => Ok(format!("set_history(&mut {name})")),
        _ if returns[tensors..].iter().any(|result| result.ty.holds_tensors()) || tensors == 0 => {
            Err("tensors are returned first, or in one list".to_owned())
        }
        _ => {
            let all = names[..tensors].iter().map(|name| format!("&{name}")).collect::<Vec<_>>().join(", ");
            let differentiable = &history.differentiable[..tensors.min(history.differentiable.len())];
            Ok(match differentiable.is_empty() {
                true => format!("set_history_of_all(&[{all}])"),
                false => format!("set_history_of_some(&[{all}], &{differentiable:?})"),
            })
        }
    }
}

fn in_place(operator: &Operator<'_>, history: &History<'_>) -> Result<String, String> {
    let schema = &operator.schema;
    let first = schema.arguments().next().is_some_and(|argument| argument.name == "self");
    if !first || schema.arguments().filter(|argument| argument.is_written()).count() != 1 {
        return Err("an in-place operator writes `self`, its first argument, and nothing else".to_owned());
    }
    let edges = format!("edges {};", inputs(&history.inputs, false));
    let mut text = format!("recorded_in_place! {{\n{}", joined(&format!("{},", head(operator)), &edges));
    for (name, value) in &history.before {
        text += &format!("{}\n", wrapped(&format!("    let {name} = {value};")));
    }
    // If results are saved, the value is made after the call.
    let late = !history.before.is_empty() || history.node.contains("SavedVariable::output(");
    let after = if late { "after " } else { "" };
    Ok(format!("{text}{}\n}}", wrapped(&format!("    {after}{}", history.node))))
}

/// `out=` writes a tensor from outside, whose history would be lost.
fn out(operator: &Operator<'_>, checked: &[&Argument]) -> String {
    line("out_variant", operator, &format!(", refused {}", inputs(checked, false)))
}

fn tracked(operator: &Operator<'_>) -> Result<String, String> {
    let schema = &operator.schema;
    let source = schema.inputs().find(|argument| argument.alias.is_some());
    let source = source.ok_or("a view has an argument with an alias annotation")?;
    let view = match schema.returns.as_slice() {
        [only] if only.ty == Type::Base(BaseType::Tensor) => "view",
        [only] if matches!(only.ty, Type::List(..)) => "views",
        _ => return Err("a view returns one tensor or a list".to_owned()),
    };
    Ok(line("tracked", operator, &format!(", {view} of {}", calls::name(source))))
}
