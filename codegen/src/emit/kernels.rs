//! The kernels in an operator's declaration: each calls a hand-written kernel with the arguments of the operator.

use super::{calls, wrapped};
use crate::model::{Operator, OperatorKernel};
use crate::schema::{Argument, FunctionSchema, Type};
use crate::variants::Variant;

/// The kernels in the declaration of an operator, `Cpu => native::nn::loss::mse(..),`, a string for each key.
pub(super) fn emit(operator: &Operator<'_>) -> Vec<String> {
    operator.kernels.iter().flat_map(|kernel| entries(operator, kernel)).collect()
}

fn entries(operator: &Operator<'_>, kernel: &OperatorKernel) -> Vec<String> {
    let snapshot = if needs_snapshot(operator, kernel) { snapshot(&operator.schema) } else { String::new() };
    let body = snapshot + &check(operator, kernel) + &body(operator, kernel);
    let body = within_feature(operator, kernel, body);
    let entry = |key: String| match body.lines().count() {
        1 => format!("{}\n", wrapped(&format!("    {key} => {body},"))),
        _ => format!("    {key} => {{\n{}    }},\n", indented(&body)),
    };
    shared(&kernel.keys).into_iter().map(entry).collect()
}

/// `native::with_fft!("_fft_c2c", ..)`: the kernel, or an error in a build without its feature.
fn within_feature(operator: &Operator<'_>, kernel: &OperatorKernel, body: String) -> String {
    let Some(feature) = feature(kernel) else {
        return body;
    };
    let name = operator.schema.name.to_string();
    match body.lines().count() {
        1 => format!("native::with_{feature}!({name:?}, {})", body.trim_end()),
        _ => format!("native::with_{feature}!({name:?}, {{\n{}\n}})", body.trim_end()),
    }
}

/// The feature of the crate that the kernels of a module need.
pub(super) fn feature(kernel: &OperatorKernel) -> Option<&'static str> {
    const FEATURES: [(&str, &str); 2] =
        [("linalg::decompositions::", "linalg"), ("fft::transforms::", "fft")];
    let path = kernel.path.to_string();
    FEATURES.into_iter().find(|(module, _)| path.starts_with(module)).map(|(_, feature)| feature)
}

/// The keys, those of the host and of CUDA as one: `Cpu + Cuda`, for which a kernel is compiled once.
fn shared(keys: &[&str]) -> Vec<String> {
    let has_both = keys.contains(&"Cpu") && keys.contains(&"Cuda");
    let of = |key: &&str| match *key {
        "Cuda" if has_both => None,
        "Cpu" if has_both => Some("Cpu + Cuda".to_owned()),
        other => Some(other.to_owned()),
    };
    keys.iter().filter_map(of).collect()
}

/// The statements of a block, each on lines of its own.
fn indented(body: &str) -> String {
    let mut depth = 2;
    let mut text = String::new();
    for line in body.lines() {
        depth -= usize::from(line.starts_with('}'));
        text += &format!("{}\n", wrapped(&format!("{}{line}", "    ".repeat(depth))));
        depth += usize::from(line.ends_with('{'));
    }
    text
}

/// Whether the hand-written kernel may access elements directly, so that the geometries of its arguments must not change meanwhile: it
/// is a kernel of a backend, and uses neither an iterator, which reads the geometries only once, nor other operators. A kernel that
/// changes the geometry of its argument needs the argument itself.
fn needs_snapshot(operator: &Operator<'_>, kernel: &OperatorKernel) -> bool {
    let is_composite = kernel.keys.iter().any(|key| key.starts_with("Composite"));
    let changes_geometry = operator.entry.tags.iter().any(|tag| tag == "inplace_view");
    !is_composite && !kernel.meta_only && !operator.uses_iterator() && !changes_geometry
}

/// If the geometry of an argument was ever changed, another thread may change it again: calls the kernel with aliases that no other
/// thread has.
fn snapshot(schema: &FunctionSchema) -> String {
    let is_read = |argument: &&Argument| {
        argument.ty.holds_tensors() && schema.inputs().any(|input| input.name == argument.name)
    };
    let conditions: Vec<String> = schema
        .arguments()
        .filter(is_read)
        .map(|argument| format!("{}.was_resized()", calls::name(argument)))
        .collect();
    if conditions.is_empty() {
        return String::new();
    }
    let passed = schema.arguments().map(|argument| match (is_read(&argument), calls::name(argument)) {
        (true, name) if argument.ty.is_optional() => format!("{name}.snapshot().as_ref()"),
        (true, name) => format!("&{name}.snapshot()"),
        (false, name) => name,
    });
    let passed: Vec<String> = passed.collect();
    format!("if {} {{\nreturn kernel({});\n}}\n", conditions.join(" || "), passed.join(", "))
}

/// The check that all operands are on one device.
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

/// The body of a structured kernel with an iterator: the meta function builds the iterator, and the kernel runs on it.
fn with_iterator(operator: &Operator<'_>, kernel: &OperatorKernel) -> String {
    let schema = &operator.schema;
    let (name, path) = (schema.name.to_string(), &kernel.path);
    let iter = calls::local(schema, "iter");
    let inputs: String = schema.inputs().map(|argument| format!(", {}", calls::name(argument))).collect();
    let outputs = operator.entry.schema.returns.len();
    let meta = format!("native::{path}_meta({iter}{inputs})");
    let steps = match kernel.meta_only {
        true => format!("|{iter}| {meta}"),
        false => format!("|{iter}| {{\n{meta}?;\nnative::{path}({iter}{inputs})\n}}"),
    };
    match operator.derived {
        Some(Variant::InPlace) => format!("iterate::in_place({name:?}, self_, {steps})"),
        Some(Variant::Out) if outputs == 1 => {
            format!("iterate::out({name:?}, {}, {steps})", calls::name(&schema.out[0]))
        }
        Some(Variant::Out) => {
            let outs: Vec<String> = schema.out.iter().map(calls::name).collect();
            format!("iterate::outs({name:?}, [{}], {steps})", outs.join(", "))
        }
        _ if outputs == 1 => format!("iterate::functional({name:?}, {steps})"),
        _ => format!("iterate::functional_pair({name:?}, {steps})"),
    }
}

/// The body of another structured kernel: the meta function computes the shapes, and the kernel fills outputs that are allocated.
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

/// The end of `out=` and in-place variants: the kernel writes to the given tensor, or, if that overlaps an input, to a copy.
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

/// `out`, or `out0, out1` if there are several: names that no argument has.
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

/// Operators without a structured kernel whose `out` may have another dtype than the result, if the result can be cast to it, because
/// in PyTorch they end in a tensor iterator or in `cat`. All other operators refuse such an `out`.
const CONVERT_TO_OUT: &[&str] = &[
    "addr",
    "cholesky_inverse",
    "cholesky_solve",
    "column_stack",
    "concat",
    "concatenate",
    "copysign",
    "diff",
    "dstack",
    "fft_fft",
    "fft_fft2",
    "fft_fftn",
    "fft_hfft",
    "fft_hfft2",
    "fft_hfftn",
    "fft_ifft",
    "fft_ifft2",
    "fft_ifftn",
    "fft_ihfft",
    "fft_ihfft2",
    "fft_ihfftn",
    "fft_irfft",
    "fft_irfft2",
    "fft_irfftn",
    "fft_rfft",
    "fft_rfft2",
    "fft_rfftn",
    "floor_divide",
    "geqrf",
    "hstack",
    "inner",
    "kron",
    "linalg_cond",
    "linalg_householder_product",
    "linalg_lstsq",
    "linalg_matrix_rank",
    "linalg_pinv",
    "linalg_tensorinv",
    "linalg_tensorsolve",
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

/// The `out=` or in-place variant of an operator that is not structured: computes the result and copies it.
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
        let copy = if converts { "convert_all_to_out" } else { "copy_all_to_out" };
        return format!("{made}{copy}(&[{}])", pairs.join(", "));
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

/// The arguments of the functional kernel. The `out=` variant of a factory has no tensor options: those of `out` are passed.
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
