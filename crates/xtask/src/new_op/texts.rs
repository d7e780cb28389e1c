//! The texts of a new operator's stubs: the entries of both YAML files, and the row of the operator table.

use flambeau_codegen::{Argument, BaseType, FunctionSchema, Stub, Type};

/// The entry in `native_functions.yaml`.
pub(super) fn entry(
    schema: &FunctionSchema,
    stub: Stub<'_>,
    kernel: &str,
    doc: &str,
    examples: &[String],
) -> String {
    let is_pointwise = matches!(stub, Stub::Pointwise(_));
    let line = |condition: bool, line: &str| condition.then(|| format!("  {line}"));
    let lines = [
        Some(format!("- func: {schema}")),
        line(schema.self_argument().is_some(), "variants: function, method"),
        rust_name(schema),
        line(stub.is_structured(), "structured: True"),
        line(is_pointwise, "structured_inherits: TensorIteratorBase"),
        Some(format!("  dispatch:\n    {}: {kernel}", stub.dispatch_keys())),
        siblings(schema, stub),
        line(is_pointwise, "tags: pointwise"),
        line(matches!(stub, Stub::Reduction { .. }), "tags: reduction"),
        Some(format!("  doc: {doc:?}")),
        (!examples.is_empty()).then(|| format!("  example: |\n    {}", examples.join("\n    "))),
    ];
    lines.into_iter().flatten().collect::<Vec<_>>().join("\n") + "\n"
}

/// The name of the method of an overload, which does not follow from the operator's name: that of tensors has the plain one.
fn rust_name(schema: &FunctionSchema) -> Option<String> {
    let base = schema.name.base.trim_end_matches('_');
    let name = match schema.name.overload.to_lowercase().as_str() {
        "" => return None,
        "tensor" => base.to_owned(),
        overload => format!("{base}_{overload}"),
    };
    Some(format!("  rust_name: {name}{}", if schema.is_in_place() { "_" } else { "" }))
}

/// The variants that are derived: `out=`, and for pointwise operators in-place.
fn siblings(schema: &FunctionSchema, stub: Stub<'_>) -> Option<String> {
    let tensors = schema.returns.iter().all(|result| result.ty == Type::Base(BaseType::Tensor));
    if !tensors || !schema.is_functional() || schema.is_view() || stub == Stub::Composite {
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

/// The file of the rows. Without a reference the test fails until the author writes one.
pub(super) fn rows(operators: &[(FunctionSchema, Stub<'_>)], reference: Option<&str>) -> String {
    let names: Vec<String> = operators.iter().map(|(schema, _)| format!("`{}`", schema.name)).collect();
    let head = format!("//! The rows of {}.\n\n", names.join(" and "));
    let (uses, rows) = match (operators, reference) {
        ([(schema, Stub::Pointwise(_))], Some(reference)) => pointwise_row(schema, reference),
        ([(schema, Stub::Reduction { .. })], Some(reference)) => reduction_row(schema, reference),
        _ => unwritten_rows(operators),
    };
    format!("{head}{uses}\n/// The rows.\npub(super) fn rows() -> Vec<Row> {{\n{rows}}}\n")
}

/// What is imported, and the body of the function.
type Body = (String, String);

fn pointwise_row(schema: &FunctionSchema, reference: &str) -> Body {
    let (call, closure) = match schema.arguments().count() {
        1 => ("unary(-2.0..2.0, &[], ", "|x: f64|"),
        _ => ("binary([-2.0..2.0, -2.0..2.0], &[], ", "|x: f64, y: f64|"),
    };
    let name = &schema.name;
    // The kernel and the standard library's functions each have an error below one ulp, as in `unary::real`.
    let row =
        format!("row(\"{name}\").types(NUMBERS).gives(float_of).ulps(2.0).{call}{closure} {reference})");
    let uses = "use super::unary::float_of;\nuse crate::row::{NUMBERS, Row, row};\n";
    (uses.to_owned(), format!("    vec![{row}]\n"))
}

fn reduction_row(schema: &FunctionSchema, reference: &str) -> Body {
    let uses = "use super::reduce::{counted, folded, over};\nuse crate::row::{FLOATS, Row, row};\n";
    let name = &schema.name;
    let row = format!("over(row(\"{name}\").types(FLOATS), counted, &[], &[])");
    let given = format!("let reference = |x: &[f64]| {reference};");
    let of = "|a| vec![folded(a[0].array(), &a[1], a[2].flag(), reference)]";
    (uses.to_owned(), format!("    {given}\n    vec![{row}.reference({of})]\n"))
}

fn unwritten_rows(operators: &[(FunctionSchema, Stub<'_>)]) -> Body {
    let row = |schema: &FunctionSchema| {
        let arguments = schema.arguments().zip(1..).map(|(argument, seed)| sample(argument, seed));
        let sample = arguments.collect::<Vec<_>>().join(", ");
        format!("row(\"{}\").types(FLOATS).sample(vec![{sample}]).property(unwritten)", schema.name)
    };
    let rows = operators.iter().map(|(schema, _)| row(schema)).collect::<Vec<_>>().join(", ");
    let helpers =
        ["ints", "none", "number"].into_iter().filter(|helper| rows.contains(&format!(" {helper}(")));
    let helpers: String = helpers.map(|helper| format!("{helper}, ")).collect();
    let names = operators.iter().map(|(schema, _)| schema.name.to_string()).collect::<Vec<_>>().join(" and ");
    let uses = format!("use crate::array::Array;\nuse crate::row::{{Arg, FLOATS, Row, {helpers}row}};\n");
    let body = format!(
        "    let unwritten = |_: &[Arg], _: &[Array]| {{\n        \
         Err(\"{names}: no reference yet: write what it gives, in float64\".to_string())\n    }};\n    \
         vec![{rows}]\n"
    );
    (uses, body)
}

/// A sample argument.
fn sample(argument: &Argument, seed: u64) -> String {
    let array = format!("Array::fill(&[3, 4], -2.0..2.0, {seed})");
    let text = match &argument.ty {
        Type::Base(BaseType::Tensor) => return format!("{array}.into()"),
        Type::List(inner, _) if **inner == Type::Base(BaseType::Tensor) => {
            return format!("Arg::Tensors(vec![{array}])");
        }
        Type::List(inner, Some(count)) if **inner == Type::Base(BaseType::Bool) => {
            return format!("vec![true; {count}].into()");
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
