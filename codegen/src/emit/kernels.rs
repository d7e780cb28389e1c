//! The functions registered in an operator's table: each brings a hand-written kernel into the operator's form.

use super::calls;
use crate::model::{Operator, OperatorKernel};
use crate::schema::{Argument, FunctionSchema, Type};
use crate::variants::Variant;

pub(super) fn emit(operator: &Operator<'_>) -> String {
    operator.kernels.iter().map(|kernel| function(operator, kernel)).collect::<Vec<_>>().join("\n\n")
}

/// The name of the registered function: `add_tensor_cpu`, `linear_composite`, `fill__scalar_kernel` for several keys.
pub(super) fn wrapper(operator: &Operator<'_>, kernel: &OperatorKernel) -> String {
    let suffix = match kernel.keys.as_slice() {
        [key] if key.starts_with("Composite") => "composite".to_owned(),
        [key] => key.to_lowercase(),
        _ => "kernel".to_owned(),
    };
    format!("{}_{suffix}", operator.function())
}

fn function(operator: &Operator<'_>, kernel: &OperatorKernel) -> String {
    let schema = &operator.schema;
    let name = wrapper(operator, kernel);
    let snapshot = if meets_memory(operator, kernel) { snapshot(&name, schema) } else { String::new() };
    format!(
        "fn {name}(_keys: DispatchKeySet, {parameters}) -> Result<{returned}> {{\n{snapshot}{body}\n}}",
        parameters = calls::parameters(schema),
        returned = calls::returned(schema),
        body = check(operator, kernel) + &body(operator, kernel),
    )
}

/// Whether the hand-written kernel may reach elements by itself: it serves a backend, and does so neither through an iterator,
/// which looks at its operands once, nor through other operators. One that gives its operand another geometry needs no other.
fn meets_memory(operator: &Operator<'_>, kernel: &OperatorKernel) -> bool {
    let is_composite = kernel.keys.iter().any(|key| key.starts_with("Composite"));
    let changes_geometry = operator.entry.tags.iter().any(|tag| tag == "inplace_view");
    !is_composite && !kernel.meta_only && !operator.uses_iterator() && !changes_geometry
}

/// Calls the kernel again with aliases that nobody else has, where another thread might change what it looks at.
fn snapshot(wrapper: &str, schema: &FunctionSchema) -> String {
    let is_read = |argument: &&Argument| {
        argument.ty.holds_tensors() && schema.inputs().any(|input| input.name == argument.name)
    };
    let questions: Vec<String> = schema
        .arguments()
        .filter(is_read)
        .map(|argument| format!("{}.was_resized()", calls::name(argument)))
        .collect();
    if questions.is_empty() {
        return String::new();
    }
    let passed = schema.arguments().map(|argument| match (is_read(&argument), calls::name(argument)) {
        (true, name) if argument.ty.is_optional() => format!("{name}.snapshot().as_ref()"),
        (true, name) => format!("&{name}.snapshot()"),
        (false, name) => name,
    });
    let passed: Vec<String> = passed.collect();
    format!("if {} {{\nreturn {wrapper}(_keys, {});\n}}\n", questions.join(" || "), passed.join(", "))
}

/// One device for all operands.
fn check(operator: &Operator<'_>, kernel: &OperatorKernel) -> String {
    if !operator.checks_devices(kernel) {
        return String::new();
    }
    let name = operator.schema.name.to_string();
    format!("ensure_same_device({name:?}, {})?;\n", calls::operand_slice(&operator.schema))
}

fn body(operator: &Operator<'_>, kernel: &OperatorKernel) -> String {
    match (operator.entry.structured, operator.uses_iterator(), operator.derived) {
        (true, true, _) => with_iterator(operator, kernel),
        (true, false, _) => with_spec(operator, kernel),
        (false, _, None | Some(Variant::Functional)) => {
            format!("native::{}({})", kernel.path, calls::arguments(&operator.schema))
        }
        (false, _, Some(derived)) => composed(operator, kernel, derived),
    }
}

/// Shapes through the iterator, then the formula through it.
fn with_iterator(operator: &Operator<'_>, kernel: &OperatorKernel) -> String {
    let schema = &operator.schema;
    let (name, path) = (schema.name.to_string(), &kernel.path);
    let iter = calls::local(schema, "iter");
    let mut arguments = vec![format!("&mut {iter}")];
    arguments.extend(calls::inputs(schema));
    let arguments = arguments.join(", ");
    let outputs = operator.entry.schema.returns.len();
    let (start, more, end) = match operator.derived {
        Some(Variant::InPlace) => {
            (format!("TensorIterator::in_place({name:?}, self_)"), vec![], format!("{iter}.finish()"))
        }
        Some(Variant::Out) => {
            let outs: Vec<String> = schema.out.iter().map(calls::name).collect();
            let more = outs[1..].iter().map(|out| format!("{iter}.add_output(Some({out}));\n")).collect();
            (format!("TensorIterator::out({name:?}, {})", outs[0]), more, format!("{iter}.finish_out()"))
        }
        _ => {
            let more = vec![format!("{iter}.add_output(None);\n"); outputs - 1];
            (format!("TensorIterator::functional({name:?})"), more, taken(&iter, outputs))
        }
    };
    let formula = if kernel.meta_only { String::new() } else { format!("native::{path}({arguments})?;\n") };
    format!("let mut {iter} = {start};\n{}native::{path}_meta({arguments})?;\n{formula}{end}", more.concat())
}

fn taken(iter: &str, outputs: usize) -> String {
    if outputs == 1 {
        return format!("{iter}.take_result()");
    }
    let each: Vec<String> = (0..outputs).map(|index| format!("{iter}.take_output({index})?")).collect();
    format!("Ok(({}))", each.join(", "))
}

/// Shapes first, then the filling of outputs that are already there.
fn with_spec(operator: &Operator<'_>, kernel: &OperatorKernel) -> String {
    let schema = &operator.schema;
    let name = schema.name.to_string();
    let inputs = calls::inputs(schema);
    let specs = numbered(schema, "spec", operator.entry.schema.returns.len());
    let meta = format!("let {} = native::{}_meta({})?;\n", pattern(&specs), kernel.path, inputs.join(", "));
    let call = |outputs: &[String]| {
        if kernel.meta_only {
            return String::new();
        }
        format!("native::{}({}, {})?;\n", kernel.path, inputs.join(", "), outputs.join(", "))
    };
    match operator.derived {
        Some(Variant::Out | Variant::InPlace) => meta + &into_targets(operator, &name, &specs, call),
        _ if kernel.meta_only => {
            let allocate: Vec<String> =
                specs.iter().map(|spec| format!("{spec}.allocate({name:?})")).collect();
            match allocate.as_slice() {
                [only] => format!("{meta}{only}"),
                several => format!("{meta}Ok(({}?))", several.join("?, ")),
            }
        }
        _ => {
            let outs = numbered(schema, "out", specs.len());
            let allocate = specs
                .iter()
                .zip(&outs)
                .map(|(spec, out)| format!("let {out} = {spec}.allocate({name:?})?;\n"));
            let borrowed: Vec<String> = outs.iter().map(|out| format!("&{out}")).collect();
            format!("{meta}{}{}Ok({})", allocate.collect::<String>(), call(&borrowed), pattern(&outs))
        }
    }
}

/// `out=` and in-place: the kernel writes there if it may, and into a copy otherwise.
fn into_targets(
    operator: &Operator<'_>,
    name: &str,
    specs: &[String],
    call: impl Fn(&[String]) -> String,
) -> String {
    let schema = &operator.schema;
    let (method, written) = match operator.derived {
        Some(Variant::InPlace) => ("for_in_place", vec!["self_".to_owned()]),
        _ => ("for_out", schema.out.iter().map(calls::name).collect()),
    };
    let targets = numbered(schema, "target", specs.len());
    let slice = calls::tensor_slice(schema);
    let make = |((spec, target), out): ((&String, &String), &String)| {
        format!("let {target} = {spec}.{method}({name:?}, {out}, {slice})?;\n")
    };
    let made: String = specs.iter().zip(&targets).zip(&written).map(make).collect();
    let borrowed: Vec<String> = targets.iter().map(|target| format!("{target}.tensor()")).collect();
    let mut ends: Vec<String> =
        targets.iter().zip(&written).map(|(target, out)| format!("{target}.finish({out})")).collect();
    let last = ends.pop().unwrap_or_default();
    let ends: String = ends.iter().map(|end| format!("{end}?;\n")).collect();
    format!("{made}{}{ends}{last}", call(&borrowed))
}

/// `out` alone, or `out0, out1`, kept apart from the arguments.
fn numbered(schema: &FunctionSchema, name: &str, count: usize) -> Vec<String> {
    if count == 1 {
        return vec![calls::local(schema, name)];
    }
    (0..count).map(|index| calls::local(schema, &format!("{name}{index}"))).collect()
}

fn pattern(names: &[String]) -> String {
    match names {
        [only] => only.clone(),
        several => format!("({})", several.join(", ")),
    }
}

/// Operators without a structured kernel whose `out` may be of another type than the result, as far as that can be cast:
/// in PyTorch they end in a tensor iterator or in `cat`. All others refuse such an `out`.
const CONVERT_TO_OUT: &[&str] = &[
    "addr",
    "column_stack",
    "concat",
    "concatenate",
    "copysign",
    "diff",
    "dstack",
    "floor_divide",
    "hstack",
    "inner",
    "kron",
    "linalg_vector_norm",
    "logsumexp",
    "max",
    "mean",
    "min",
    "mvlgamma",
    "nanmean",
    "outer",
    "row_stack",
    "square",
    "stack",
    "std",
    "true_divide",
    "var",
    "vstack",
];

/// A sibling of an operator that is not structured: the result, copied to where it is wanted.
fn composed(operator: &Operator<'_>, kernel: &OperatorKernel, derived: Variant) -> String {
    let schema = &operator.schema;
    let results = numbered(schema, "result", operator.entry.schema.returns.len());
    let call = format!("native::{}({})?", kernel.path, functional_arguments(operator));
    let made = format!("let {} = {call};\n", pattern(&results));
    if derived == Variant::InPlace {
        return format!("{made}copy_to_self({:?}, &{}, self_)", schema.name.to_string(), pattern(&results));
    }
    let converts = CONVERT_TO_OUT.contains(&schema.name.base.as_str());
    let copy = |out: &Argument| match out.ty {
        Type::List(..) => "copy_each_to_out",
        _ if converts => "convert_to_out",
        _ => "copy_to_out",
    };
    if let [_, _, ..] = schema.out.as_slice() {
        let pair = |(result, out): (&String, &Argument)| format!("(&{result}, {})", calls::name(out));
        let pairs: Vec<String> = results.iter().zip(&schema.out).map(pair).collect();
        return format!("{made}copy_all_to_out(&[{}])", pairs.join(", "));
    }
    let mut copies: Vec<String> = results
        .iter()
        .zip(&schema.out)
        .map(|(result, out)| format!("{}(&{result}, {})", copy(out), calls::name(out)))
        .collect();
    let last = copies.pop().unwrap_or_default();
    let copies: String = copies.iter().map(|copy| format!("{copy}?;\n")).collect();
    format!("{made}{copies}{last}")
}

/// What the functional kernel takes. An `out=` sibling of a factory has no options of its own: those of `out` are meant.
fn functional_arguments(operator: &Operator<'_>) -> String {
    let original: &FunctionSchema = &operator.entry.schema;
    let given: Vec<String> = calls::inputs(&operator.schema);
    let out = operator.schema.out.first().map(calls::name).unwrap_or_default();
    let passed = original.inputs().map(calls::name).map(|name| match name.as_str() {
        _ if given.contains(&name) => name,
        "dtype" => format!("Some({out}.dtype())"),
        "layout" => format!("Some({out}.layout())"),
        "device" => format!("Some({out}.device())"),
        _ => "None".to_owned(),
    });
    passed.collect::<Vec<_>>().join(", ")
}
