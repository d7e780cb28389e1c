//! The fields of an entry, each with the values it may take.

use super::{Located, NativeFunction, dispatch};
use crate::batching::KINDS;
use crate::schema::{FunctionSchema, OperatorName, argument, is_identifier};
use crate::source::{Fault, Source};
use crate::yaml::{Entry, Node, Scalar, Value};

/// The tags an operator may carry, as in PyTorch's `tags.yaml`.
const TAGS: &[&str] = &[
    "inplace_view",
    "pt2_compliant_tag",
    "view_copy",
    "dynamic_output_shape",
    "data_dependent_output",
    "generated",
    "nondeterministic_seeded",
    "nondeterministic_bitwise",
    "needs_exact_strides",
    "needs_contiguous_strides",
    "needs_fixed_stride_order",
    "flexible_layout",
    "core",
    "pointwise",
    "maybe_aliasing_or_mutating",
    "cudagraph_unsafe",
    "reduction",
    "inplace",
    "out",
    "out_variant",
];
/// The modules of `torch` that have operators.
const PYTHON_MODULES: &[&str] = &["nn", "special", "linalg", "fft", "sparse", "nested"];
const UFUNC_KEYS: &[&str] = &[
    "CUDAFunctor",
    "CUDAFunctorOnOther",
    "CUDAFunctorOnSelf",
    "CPUScalar",
    "CPUVector",
    "ScalarOnly",
    "Generic",
];

pub(super) fn read(
    entry: &mut Entry<'_>,
    schema: FunctionSchema,
    at: usize,
) -> Result<NativeFunction, Fault> {
    let source = entry.source;
    let (function, method) = variants(entry)?;
    Ok(NativeFunction {
        at,
        function,
        method,
        dispatch: entry.take("dispatch").map(|node| dispatch::read(source, node)).transpose()?,
        structured: entry.take_bool("structured", false)?,
        structured_delegate: delegate(entry)?,
        structured_inherits: one_of(entry, "structured_inherits", &["TensorIteratorBase"])?,
        autogen: autogen(entry, &schema.name)?,
        tags: tags(entry)?,
        python_module: one_of(entry, "python_module", PYTHON_MODULES)?,
        category_override: one_of(entry, "category_override", &["factory", "dummy"])?,
        device_check: device_check(entry)?,
        device_guard: entry.take_bool("device_guard", true)?,
        manual_cpp_binding: entry.take_bool("manual_cpp_binding", false)?,
        manual_kernel_registration: entry.take_bool("manual_kernel_registration", false)?,
        use_const_ref_for_mutable_tensors: entry.take_bool("use_const_ref_for_mutable_tensors", false)?,
        cpp_no_default_args: no_default_args(entry, &schema)?,
        precomputed: precomputed(entry, &schema)?,
        ufunc_inner_loop: entry.take("ufunc_inner_loop").map_or(Ok(vec![]), |node| ufunc(source, node))?,
        batch: one_of(entry, "batch", &KINDS.iter().map(|(name, _)| *name).collect::<Vec<_>>())?,
        doc: doc(entry)?,
        rust_name: entry
            .take_text("rust_name")?
            .map(|text| Located { at: text.position(0), value: text.text }),
        rust_positional: rust_positional(entry, &schema)?,
        example: entry.take_text("example")?.map(|text| Located { at: text.position(0), value: text.text }),
        schema,
    })
}

fn variants(entry: &mut Entry<'_>) -> Result<(bool, bool), Fault> {
    let Some(text) = entry.take_text("variants")? else { return Ok((true, false)) };
    let (mut function, mut method) = (false, false);
    for (at, variant) in pieces(&text) {
        let seen = match variant {
            "function" => &mut function,
            "method" => &mut method,
            other => {
                let message = format!("`variants`: expected `function` or `method` but got `{other}`");
                return Err(text.fault(entry.source, at, message));
            }
        };
        if std::mem::replace(seen, true) {
            return Err(text.fault(entry.source, at, format!("variant `{variant}` is given twice")));
        }
    }
    Ok((function, method))
}

/// The parts of `a, b`, each with its position.
fn pieces(text: &Scalar) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.text.split(", ").map(move |piece| {
        let start = at;
        at += piece.len() + 2;
        (start, piece)
    })
}

/// A field whose value must be one of the words.
fn one_of(entry: &mut Entry<'_>, name: &str, words: &[&str]) -> Result<Option<String>, Fault> {
    let Some(text) = entry.take_text(name)? else { return Ok(None) };
    if words.contains(&text.text.as_str()) {
        return Ok(Some(text.text));
    }
    let message = format!("`{name}`: expected {} but got `{}`", words.join(" or "), text.text);
    Err(text.fault(entry.source, 0, message))
}

fn operator(
    source: Source<'_>,
    text: &Scalar,
    at: usize,
    name: &str,
) -> Result<Located<OperatorName>, Fault> {
    let value = OperatorName::parse(name).map_err(|error| text.fault(source, at, error.message))?;
    if value.namespace.is_some() {
        return Err(text.fault(source, at, format!("`{name}`: expected an operator of the same namespace")));
    }
    Ok(Located { value, at: text.position(at) })
}

fn delegate(entry: &mut Entry<'_>) -> Result<Option<Located<OperatorName>>, Fault> {
    let text = entry.take_text("structured_delegate")?;
    text.map(|text| operator(entry.source, &text, 0, &text.text)).transpose()
}

/// The variants, which are in the namespace of their `original`.
fn autogen(entry: &mut Entry<'_>, original: &OperatorName) -> Result<Vec<Located<OperatorName>>, Fault> {
    let Some(text) = entry.take_text("autogen")? else { return Ok(vec![]) };
    let variant = |(at, name)| {
        let mut variant = operator(entry.source, &text, at, name)?;
        variant.value.namespace.clone_from(&original.namespace);
        Ok(variant)
    };
    pieces(&text).map(variant).collect()
}

fn tags(entry: &mut Entry<'_>) -> Result<Vec<String>, Fault> {
    let source = entry.source;
    let texts = match entry.take("tags") {
        None => return Ok(vec![]),
        Some(node) if matches!(node.value, Value::List(_)) => node.into_texts(source, "tags")?,
        Some(node) => vec![node.into_text(source, "tags")?],
    };
    for (index, tag) in texts.iter().enumerate() {
        if !TAGS.contains(&tag.text.as_str()) {
            return Err(tag.fault(source, 0, format!("unknown tag `{}`", tag.text)));
        }
        if texts[..index].iter().any(|known| known.text == tag.text) {
            return Err(tag.fault(source, 0, format!("tag `{}` is given twice", tag.text)));
        }
    }
    Ok(texts.into_iter().map(|tag| tag.text).collect())
}

fn device_check(entry: &mut Entry<'_>) -> Result<bool, Fault> {
    match entry.take_text("device_check")? {
        None => Ok(true),
        Some(text) if text.text == "ExactSame" => Ok(true),
        Some(text) if text.text == "NoCheck" => Ok(false),
        Some(text) => {
            let message =
                format!("`device_check`: expected `NoCheck` or `ExactSame` but got `{}`", text.text);
            Err(text.fault(entry.source, 0, message))
        }
    }
}

fn no_default_args(entry: &mut Entry<'_>, schema: &FunctionSchema) -> Result<Vec<String>, Fault> {
    let source = entry.source;
    let Some(node) = entry.take("cpp_no_default_args") else { return Ok(vec![]) };
    let names = node.into_texts(source, "cpp_no_default_args")?;
    for name in &names {
        if !schema.arguments().any(|argument| argument.name == name.text && argument.default.is_some()) {
            let message = format!("`{}` is not an argument with a default", name.text);
            return Err(name.fault(source, 0, message));
        }
    }
    Ok(names.into_iter().map(|name| name.text).collect())
}

/// `dim -> int dim, int size` replaces an argument; a last line without an arrow adds arguments.
fn precomputed(entry: &mut Entry<'_>, schema: &FunctionSchema) -> Result<Vec<String>, Fault> {
    let source = entry.source;
    let Some(node) = entry.take("precomputed") else { return Ok(vec![]) };
    let lines = node.into_texts(source, "precomputed")?;
    for (index, line) in lines.iter().enumerate() {
        let added = match line.text.split_once(" -> ") {
            Some((name, added)) if schema.arguments().any(|argument| argument.name == name) => added,
            Some((name, _)) => return Err(line.fault(source, 0, format!("there is no argument `{name}`"))),
            None if index + 1 == lines.len() => &line.text,
            None => return Err(line.fault(source, 0, "only the last line goes without ` -> `")),
        };
        let mut at = line.text.len() - added.len();
        for piece in added.split(", ") {
            argument(piece).map_err(|error| line.fault(source, at + error.at, error.message))?;
            at += piece.len() + 2;
        }
    }
    Ok(lines.into_iter().map(|line| line.text).collect())
}

fn ufunc(source: Source<'_>, node: Node) -> Result<Vec<(String, String)>, Fault> {
    let loops: Vec<(String, Scalar)> = match node.value {
        Value::Map(fields) => {
            let mut loops = vec![];
            for (key, value) in fields {
                if !UFUNC_KEYS.contains(&key.text.as_str()) {
                    return Err(source.fault(key.at, format!("unknown key of an inner loop `{}`", key.text)));
                }
                loops.push((key.text, value.into_text(source, "ufunc_inner_loop")?));
            }
            loops
        }
        _ => vec![("Generic".to_owned(), node.into_text(source, "ufunc_inner_loop")?)],
    };
    for (_, text) in &loops {
        let types = text.text.split_once(" (").and_then(|(name, rest)| Some((name, rest.strip_suffix(')')?)));
        let sound = types.is_some_and(|(name, types)| {
            is_identifier(name) && types.split(", ").all(|ty| !ty.is_empty() && is_identifier(ty))
        });
        if !sound {
            return Err(text.fault(source, 0, "expected `name (ScalarType, ..)`"));
        }
    }
    Ok(loops.into_iter().map(|(key, text)| (key, text.text)).collect())
}

/// Arguments that the schema lets be absent.
fn rust_positional(entry: &mut Entry<'_>, schema: &FunctionSchema) -> Result<Vec<String>, Fault> {
    let Some(text) = entry.take_text("rust_positional")? else { return Ok(vec![]) };
    for (at, name) in pieces(&text) {
        if !schema.inputs().any(|argument| argument.name == name && argument.may_be_absent()) {
            let message = format!("`rust_positional`: `{name}` is not an argument that may be absent");
            return Err(text.fault(entry.source, at, message));
        }
    }
    Ok(pieces(&text).map(|(_, name)| name.to_owned()).collect())
}

fn doc(entry: &mut Entry<'_>) -> Result<Option<String>, Fault> {
    let Some(text) = entry.take_text("doc")? else { return Ok(None) };
    if text.text.trim().is_empty() {
        return Err(text.fault(entry.source, 0, "`doc` says nothing"));
    }
    Ok(Some(text.text.trim().to_owned()))
}
