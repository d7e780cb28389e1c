//! The texts of a new operator's stubs: the entries of both YAML files, and the row of the operator table.

use flambeau_codegen::{Argument, BaseType, FunctionSchema, Stub, Type};

/// The entry in `native_functions.yaml`.
pub(super) fn entry(schema: &FunctionSchema, stub: Stub<'_>, kernel: &str, doc: &str) -> String {
    let mut lines = vec![format!("- func: {schema}")];
    let method = schema.self_argument().is_some();
    lines.push(format!("  variants: function{}", if method { ", method" } else { "" }));
    if stub != Stub::Composite {
        lines.push("  structured: True".to_owned());
    }
    if matches!(stub, Stub::Pointwise(_)) {
        lines.push("  structured_inherits: TensorIteratorBase".to_owned());
    }
    let key = if stub == Stub::Composite { "CompositeImplicitAutograd" } else { "CPU" };
    lines.push(format!("  dispatch:\n    {key}: {kernel}"));
    lines.extend(siblings(schema, stub));
    if matches!(stub, Stub::Pointwise(_)) {
        lines.push("  tags: pointwise".to_owned());
    }
    lines.push(format!("  doc: {doc:?}"));
    lines.join("\n") + "\n"
}

/// The variants that are derived: `out=`, and for pointwise operators in-place.
fn siblings(schema: &FunctionSchema, stub: Stub<'_>) -> Option<String> {
    let one = schema.returns.len() == 1 && schema.returns[0].ty == Type::Base(BaseType::Tensor);
    if !one || !schema.is_functional() || schema.is_view() {
        return None;
    }
    let name = &schema.name;
    let (overload, out) = match name.overload.as_str() {
        "" => (String::new(), "out".to_owned()),
        overload => (format!(".{overload}"), format!("{overload}_out")),
    };
    let in_place = matches!(stub, Stub::Pointwise(_)) && schema.self_argument().is_some();
    let in_place = if in_place { format!("{}_{overload}, ", name.base) } else { String::new() };
    Some(format!("  autogen: {in_place}{}.{out}", name.base))
}

/// The entry in `derivatives.yaml`: the given lines, or `not_implemented` for each tensor.
pub(super) fn derivative(schema: &FunctionSchema, lines: &[String]) -> String {
    let refused = |argument: &Argument| {
        format!("{}: not_implemented(\"{}, for its {}\")", argument.name, schema.name, argument.name)
    };
    let refusals =
        || schema.arguments().filter(|argument| argument.ty.holds_tensors()).map(refused).collect();
    let lines = if lines.is_empty() { refusals() } else { lines.to_vec() };
    let lines: Vec<String> = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("- name: {schema}\n{}", lines.concat())
}

/// The file of the row. Without a reference the test fails until the author writes one.
pub(super) fn row(schema: &FunctionSchema, stub: Stub<'_>, reference: Option<&str>) -> String {
    let name = &schema.name;
    let head = format!("//! The row of `{name}`.\n\n");
    let rows = "/// The rows.\npub(super) fn rows() -> Vec<Row> {\n";
    let is_pointwise = matches!(stub, Stub::Pointwise(_));
    if let (true, Some(reference)) = (is_pointwise, reference) {
        let (call, closure) = match schema.arguments().count() {
            1 => ("unary(-2.0..2.0, &[], ", "|x: f64|"),
            _ => ("binary([-2.0..2.0, -2.0..2.0], &[], ", "|x: f64, y: f64|"),
        };
        // The kernel and the standard library's functions each have an error below one ulp, as in `unary::real`.
        return format!(
            "{head}use super::unary::float_of;\nuse crate::row::{{NUMBERS, Row, row}};\n\n{rows}    \
             vec![row(\"{name}\").types(NUMBERS).gives(float_of).ulps(2.0).{call}{closure} {reference})]\n}}\n"
        );
    }
    let arguments: Vec<String> =
        schema.arguments().zip(1..).map(|(argument, seed)| sample(argument, seed)).collect();
    let helpers = ["ints", "none", "number"].into_iter().filter(|helper| {
        let call = format!("{helper}(");
        arguments.iter().any(|argument| argument.starts_with(&call))
    });
    let helpers: String = helpers.map(|helper| format!("{helper}, ")).collect();
    format!(
        "{head}use crate::array::Array;\nuse crate::row::{{Arg, FLOATS, Row, {helpers}row}};\n\n{rows}    \
         let sample = vec![{}];\n    let unwritten = |_: &[Arg], _: &[Array]| {{\n        \
         Err(\"{name} has no reference: write what it gives, in float64\".to_string())\n    }};\n    \
         vec![row(\"{name}\").types(FLOATS).sample(sample).property(unwritten)]\n}}\n",
        arguments.join(", ")
    )
}

/// A sample argument.
fn sample(argument: &Argument, seed: u64) -> String {
    let array = format!("Array::fill(&[3, 4], -2.0..2.0, {seed})");
    let text = match &argument.ty {
        Type::Base(BaseType::Tensor) => return format!("{array}.into()"),
        Type::List(inner, _) if **inner == Type::Base(BaseType::Tensor) => {
            return format!("Arg::Tensors(vec![{array}])");
        }
        Type::List(inner, _) if matches!(**inner, Type::Base(BaseType::Int | BaseType::SymInt)) => {
            "ints(&[0])"
        }
        Type::Base(BaseType::Scalar) => "number(1.0)",
        Type::Base(BaseType::Int | BaseType::SymInt) => "0i64.into()",
        Type::Base(BaseType::Float | BaseType::SymFloat) => "1.0.into()",
        Type::Base(BaseType::Bool | BaseType::SymBool) => "false.into()",
        _ => "none()",
    };
    text.to_owned()
}
