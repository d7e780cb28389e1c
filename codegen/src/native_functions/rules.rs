//! The rules for each entry, and for entries that belong together. They are those that PyTorch's own file satisfies.

use std::collections::{HashMap, HashSet};

use super::dispatch::COMPOSITES;
use super::{Located, NativeFunction, NativeFunctions};
use crate::schema::{BaseType, FunctionSchema, OperatorName, Type};
use crate::source::{Fault, Source};
use crate::variants::sibling;

/// Backends whose structured kernels are called through `structured_delegate`.
const STRUCTURED_KEYS: &[&str] = &["CPU", "CUDA", "MPS", "XPU", "MTIA"];

/// Keywords of Python, which cannot be names of arguments.
const PYTHON_KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];
/// Arguments of PyTorch that have such a name all the same.
const NAMED_BEFORE: &[(&str, &str)] =
    &[("_has_compatible_shallow_copy_type", "from"), ("random_.from", "from"), ("uniform_", "from")];

/// The rules for a single entry.
pub(super) fn alone(source: Source<'_>, entry: &NativeFunction) -> Result<(), Fault> {
    let checks = [method, structured, factory, python_names, random, foreach, manual];
    match checks.iter().find_map(|check| check(entry)) {
        Some(message) => Err(source.fault(entry.at, format!("`{}`: {message}", entry.schema.name))),
        None => Ok(()),
    }
}

fn method(entry: &NativeFunction) -> Option<String> {
    let schema = &entry.schema;
    let has_tensor_self =
        schema.self_argument().is_some_and(|argument| argument.ty == Type::Base(BaseType::Tensor));
    let reason = match () {
        () if !entry.method => return None,
        () if schema.is_out() => "an operator with `out=` arguments cannot be a method",
        () if !has_tensor_self => "a method needs an argument `Tensor self`",
        () if entry.python_module.is_some() => "an operator in a Python module cannot be a method",
        () => return None,
    };
    Some(reason.to_owned())
}

fn structured(entry: &NativeFunction) -> Option<String> {
    let kernels_of_delegate = || entry.kernels().iter().find(|k| STRUCTURED_KEYS.contains(&k.key.as_str()));
    let delegates = entry.structured_delegate.is_some();
    let in_parts = entry.structured || delegates;
    match () {
        () if entry.structured && delegates => {
            Some("an operator is `structured` or has a `structured_delegate`, not both".to_owned())
        }
        () if entry.structured_inherits.is_some() && !entry.structured => {
            Some("`structured_inherits` needs `structured: True`".to_owned())
        }
        () if !entry.precomputed.is_empty() && !entry.structured => {
            Some("`precomputed` needs `structured: True`".to_owned())
        }
        () if !entry.ufunc_inner_loop.is_empty() && !entry.structured => {
            Some("`ufunc_inner_loop` needs `structured: True`".to_owned())
        }
        () if entry.structured && entry.schema.is_in_place() => {
            Some("`structured` belongs on the functional or `out=` operator".to_owned())
        }
        () if entry.structured && entry.kernels().is_empty() && entry.ufunc_inner_loop.is_empty() => {
            Some("a structured operator names its kernels in `dispatch`".to_owned())
        }
        () if entry.structured
            && entry.kernels().iter().any(|k| k.key == COMPOSITES[0] || k.key == COMPOSITES[1]) =>
        {
            Some("a structured operator has no composite kernel".to_owned())
        }
        () if delegates && entry.schema.is_out() => {
            Some("`structured_delegate` belongs on the functional or in-place operator".to_owned())
        }
        () if in_parts && !entry.device_guard => {
            Some("`device_guard: False` has no effect on a structured operator".to_owned())
        }
        () if delegates => {
            let kernel = kernels_of_delegate()?;
            Some(format!("the delegate has the kernel of `{}`, not this operator", kernel.key))
        }
        () => None,
    }
}

/// A factory must not be composite, so it needs a `dispatch` table.
fn factory(entry: &NativeFunction) -> Option<String> {
    let schema = &entry.schema;
    let base = &schema.name.base;
    let holds_tensors = schema.inputs().any(|argument| argument.ty.holds_tensors());
    let makes = base.starts_with("new_") || base.ends_with("_like");
    let makes = makes || (schema.tensor_options().is_some() && !holds_tensors);
    let has_kernel = entry.dispatch.is_some() || entry.structured || entry.structured_delegate.is_some();
    (makes && !has_kernel && !entry.manual_kernel_registration)
        .then(|| "a factory names its kernel in `dispatch`, under CompositeExplicitAutograd".to_owned())
}

fn python_names(entry: &NativeFunction) -> Option<String> {
    let name = entry.schema.name.to_string();
    let reserved = |argument: &str| {
        PYTHON_KEYWORDS.contains(&argument) && !NAMED_BEFORE.contains(&(name.as_str(), argument))
    };
    let argument = entry.schema.arguments().find(|argument| reserved(&argument.name))?;
    Some(format!("argument `{}` has the name of a Python keyword", argument.name))
}

fn random(entry: &NativeFunction) -> Option<String> {
    let generator = Type::Base(BaseType::Generator);
    let draws = entry.schema.arguments().any(|argument| *argument.ty.innermost() == generator);
    let tagged = entry.tags.iter().any(|tag| tag == "nondeterministic_seeded");
    (draws && !tagged)
        .then(|| "an operator with a generator has the tag `nondeterministic_seeded`".to_owned())
}

fn foreach(entry: &NativeFunction) -> Option<String> {
    let foreach = entry.schema.name.base.starts_with("_foreach");
    (foreach && entry.device_check).then(|| "an operator on lists has `device_check: NoCheck`".to_owned())
}

fn manual(entry: &NativeFunction) -> Option<String> {
    (entry.manual_kernel_registration && entry.dispatch.is_some())
        .then(|| "`dispatch` has no effect with `manual_kernel_registration`".to_owned())
}

/// The rules for entries that belong together.
pub(super) fn across(source: Source<'_>, all: &NativeFunctions) -> Vec<Fault> {
    let mut faults = vec![];
    let mut generated = HashSet::new();
    for entry in &all.entries {
        let named =
            |(at, message): (usize, String)| source.fault(at, format!("`{}`: {message}", entry.schema.name));
        faults.extend(delegate(entry, all).map(named));
        faults.extend(autogen(entry, all, &mut generated).map(named));
        faults.extend(in_place_view(entry, all).map(|message| named((entry.at, message))));
    }
    faults.extend(groups(source, all));
    faults
}

fn delegate(entry: &NativeFunction, all: &NativeFunctions) -> Option<(usize, String)> {
    let delegate = entry.structured_delegate.as_ref()?;
    let name = &delegate.value;
    let message = match all.get(name) {
        None => format!("`structured_delegate`: there is no operator `{name}`"),
        Some(target) if !target.structured => format!("`structured_delegate`: `{name}` is not structured"),
        Some(target) if signature(&target.schema) != signature(&entry.schema) => {
            format!("`structured_delegate`: the signature of `{name}` differs: {}", target.schema)
        }
        Some(_) => return None,
    };
    Some((delegate.at, message))
}

/// What variants have in common: the root name, the arguments that are read, the types of the results.
fn signature(schema: &FunctionSchema) -> String {
    let options = schema.tensor_options().unwrap_or(0..0);
    let keyword = schema.keyword.iter().enumerate().filter(|(index, _)| !options.contains(index));
    let inputs = schema.positional.iter().chain(keyword.map(|(_, argument)| argument));
    let text = |argument: &crate::schema::Argument| {
        let default = argument.default.as_ref().map_or("", |default| default.text.as_str());
        format!("{} {}={default}", argument.ty, argument.name)
    };
    let inputs: Vec<String> = inputs.map(text).collect();
    let returns: Vec<String> = if schema.is_out() {
        schema.out.iter().map(|argument| argument.ty.to_string()).collect()
    } else {
        schema.returns.iter().map(|result| result.ty.to_string()).collect()
    };
    format!("{}({}) -> {}", schema.name.root(), inputs.join(", "), returns.join(", "))
}

fn autogen<'a>(
    entry: &'a NativeFunction,
    all: &NativeFunctions,
    generated: &mut HashSet<&'a OperatorName>,
) -> Option<(usize, String)> {
    let own = &entry.schema.name;
    for Located { value: name, at } in &entry.autogen {
        let message = match () {
            () if all.get(name).is_some() => format!("`autogen`: `{name}` has an entry of its own"),
            () if name.root() != own.root() => format!("`autogen`: `{name}` is not a sibling"),
            () if !generated.insert(name) => format!("`autogen`: `{name}` is generated twice"),
            () => match sibling(&entry.schema, name) {
                Ok(_) => continue,
                Err(reason) => format!("`autogen`: `{name}`: {reason}"),
            },
        };
        return Some((*at, message));
    }
    None
}

/// An operator that changes the geometry of its tensor in place must have a functional variant.
fn in_place_view(entry: &NativeFunction, all: &NativeFunctions) -> Option<String> {
    let name = &entry.schema.name;
    let exempt = ["resize_", "resize_as_", "set_"].contains(&name.base.as_str());
    if exempt || !entry.tags.iter().any(|tag| tag == "inplace_view") {
        return None;
    }
    if !name.is_in_place() {
        return Some("`inplace_view` is a tag of in-place operators".to_owned());
    }
    let twin = name.base.trim_end_matches('_');
    let has_twin = all.entries.iter().any(|other| other.schema.name.base == twin);
    (!has_twin).then(|| format!("`inplace_view`: there is no operator `{twin}`"))
}

/// The functional and in-place variants of a structured `out=` operator must delegate to it.
fn groups(source: Source<'_>, all: &NativeFunctions) -> Vec<Fault> {
    let structured = all.entries.iter().filter(|entry| entry.structured && entry.schema.is_out());
    let leaders: HashMap<String, &NativeFunction> =
        structured.map(|entry| (signature(&entry.schema), entry)).collect();
    let stray = |entry: &&NativeFunction| {
        !entry.structured
            && entry.structured_delegate.is_none()
            && leaders.contains_key(&signature(&entry.schema))
    };
    let fault = |entry: &NativeFunction| {
        let message =
            format!("`{}`: a sibling is structured: this one needs `structured_delegate`", entry.schema.name);
        source.fault(entry.at, message)
    };
    let strays = all.entries.iter().filter(stray).map(fault);
    strays.chain(unused_structured(source, all)).collect()
}

/// A structured `out=` operator must be the delegate of a functional one.
fn unused_structured(source: Source<'_>, all: &NativeFunctions) -> Vec<Fault> {
    let named: HashSet<&OperatorName> =
        all.entries.iter().filter_map(|entry| Some(&entry.structured_delegate.as_ref()?.value)).collect();
    let unused = |entry: &&NativeFunction| {
        entry.structured && entry.schema.is_out() && !named.contains(&entry.schema.name)
    };
    let fault = |entry: &NativeFunction| {
        source
            .fault(entry.at, format!("`{}`: structured, but no operator delegates to it", entry.schema.name))
    };
    all.entries.iter().filter(unused).map(fault).collect()
}
