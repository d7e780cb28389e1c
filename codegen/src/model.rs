//! Builds the operators that are emitted from the entries of the file: derives variants, names kernels, and checks all.

use std::collections::HashMap;

use crate::naming;
use crate::native_functions::{Kernel, KernelPath, NativeFunction, NativeFunctions};
use crate::rust_interface;
use crate::schema::{Argument, BaseType, FunctionSchema, Return, Type};
use crate::source::{Fault, Faults, Source};
use crate::variants::{Variant, sibling, variant_of};

/// An operator: an entry of the file, or a variant that is derived from it.
#[derive(Clone, Debug)]
pub(crate) struct Operator<'a> {
    pub(crate) schema: FunctionSchema,
    pub(crate) entry: &'a NativeFunction,
    /// How it was derived from the entry, if it was.
    pub(crate) derived: Option<Variant>,
    /// The module of its kernels, which names the generated file.
    pub(crate) family: String,
    pub(crate) kernels: Vec<OperatorKernel>,
    /// The name of its method in Rust, if it has one.
    pub(crate) method: Option<String>,
}

/// A kernel that is registered for one or several dispatch keys.
#[derive(Clone, Debug)]
pub(crate) struct OperatorKernel {
    /// Variants of `DispatchKey`.
    pub(crate) keys: Vec<&'static str>,
    pub(crate) path: KernelPath,
    /// Whether it computes only shapes: the Meta kernel of a structured operator.
    pub(crate) meta_only: bool,
}

impl Operator<'_> {
    pub(crate) fn function(&self) -> String {
        naming::function(&self.schema.name)
    }

    /// Whether the generated kernel checks that all operands are on one device. A call with tensors of several devices goes to the
    /// kernel of the highest key, which is `Meta` if there is such a tensor. Iterators check this themselves.
    pub(crate) fn checks_devices(&self, kernel: &OperatorKernel) -> bool {
        kernel.keys == ["Meta"]
            && spans_devices(&self.schema)
            && !(self.entry.structured && self.uses_iterator())
    }

    pub(crate) fn uses_iterator(&self) -> bool {
        self.entry.structured_inherits.is_some()
    }
}

/// The operators of a file written for this project, in its order; derived variants follow their entry.
pub(crate) fn operators<'a>(
    source: Source<'_>,
    functions: &'a NativeFunctions,
) -> Result<Vec<Operator<'a>>, Faults> {
    let mut operators = operators_of_extension(source, functions)?;
    let faults = Faults(rust_interface::name_methods(source, &mut operators));
    faults.or(operators)
}

/// The operators of another crate, which are no methods of `Tensor`.
pub(crate) fn operators_of_extension<'a>(
    source: Source<'_>,
    functions: &'a NativeFunctions,
) -> Result<Vec<Operator<'a>>, Faults> {
    let mut faults = Faults::default();
    let mut operators: Vec<Operator<'a>> = vec![];
    for entry in &functions.entries {
        match expand(entry) {
            Ok(expanded) => operators.extend(expanded),
            Err(message) => {
                faults.0.push(source.fault(entry.at, format!("`{}`: {message}", entry.schema.name)))
            }
        }
    }
    faults.0.extend(clashes(source, &operators));
    faults.or(operators)
}

fn expand(entry: &NativeFunction) -> Result<Vec<Operator<'_>>, String> {
    check_fields(entry)?;
    if entry.structured {
        check_structured(&entry.schema)?;
    }
    let family = family(entry)?;
    let kernels = kernels(entry)?;
    let make = |schema: FunctionSchema, derived: Option<Variant>| {
        check_types(&schema)?;
        Ok::<_, String>(Operator {
            schema,
            entry,
            derived,
            family: family.clone(),
            kernels: kernels.clone(),
            method: None,
        })
    };
    let mut operators = vec![make(entry.schema.clone(), None)?];
    for name in &entry.autogen {
        let schema =
            sibling(&entry.schema, &name.value).map_err(|reason| format!("`{}`: {reason}", name.value))?;
        operators.push(make(schema, Some(variant_of(&name.value)))?);
    }
    Ok(operators)
}

/// Fields of PyTorch's format that this generator does not support are errors, and not ignored.
fn check_fields(entry: &NativeFunction) -> Result<(), String> {
    let unused = [
        (
            entry.structured_delegate.is_some(),
            "`structured_delegate`: siblings are named by `autogen` on one entry",
        ),
        (!entry.precomputed.is_empty(), "`precomputed` is not supported"),
        (!entry.ufunc_inner_loop.is_empty(), "`ufunc_inner_loop` is not supported: a formula is a kernel"),
        (!entry.cpp_no_default_args.is_empty(), "`cpp_no_default_args` is for C++ only"),
        (entry.use_const_ref_for_mutable_tensors, "`use_const_ref_for_mutable_tensors` is for C++ only"),
        (entry.manual_kernel_registration, "`manual_kernel_registration` is not supported"),
        (entry.doc.is_none(), "the entry has no `doc`"),
        (
            entry.structured && !entry.schema.is_functional(),
            "`structured` belongs on the functional operator",
        ),
        (
            (entry.schema.is_in_place() || entry.schema.is_out()) && !entry.autogen.is_empty(),
            "`autogen` belongs on the operator that returns new tensors",
        ),
    ];
    unused.iter().find(|(fails, _)| *fails).map_or(Ok(()), |(_, message)| Err((*message).to_owned()))
}

fn check_types(schema: &FunctionSchema) -> Result<(), String> {
    for argument in schema.arguments() {
        if naming::parameter(&argument.ty).is_none() || naming::boxed(&argument.ty).is_none() {
            return Err(format!("argument `{}`: a `{}` has no form in Rust yet", argument.name, argument.ty));
        }
        if argument.default.is_some() && naming::default(argument).is_none() {
            return Err(format!("argument `{}`: its default has no form in Rust yet", argument.name));
        }
    }
    let plain = |argument: &Argument| argument.ty == Type::Base(BaseType::Tensor);
    if !schema.out.iter().all(plain) && schema.out.len() > 1 {
        return Err("a list among several `out=` arguments has no form in Rust yet".to_owned());
    }
    match naming::returned(schema) {
        Some(_) => Ok(()),
        None => Err("what it returns has no form in Rust yet".to_owned()),
    }
}

/// Checks that each result of a structured operator is a new tensor, which its meta function describes.
fn check_structured(schema: &FunctionSchema) -> Result<(), String> {
    let new = |result: &Return| result.ty == Type::Base(BaseType::Tensor) && result.alias.is_none();
    if !schema.returns.is_empty() && schema.returns.iter().all(new) {
        return Ok(());
    }
    Err("a structured operator returns new tensors and nothing else".to_owned())
}

/// The module of all kernels of an entry.
fn family(entry: &NativeFunction) -> Result<String, String> {
    let mut modules = entry.kernels().iter().map(|kernel| kernel.path.module());
    match modules.next() {
        None => Err("expected `dispatch` to name the kernels".to_owned()),
        Some(None) => Err("expected the path of a kernel to be `module::function`".to_owned()),
        Some(first @ Some(module)) if modules.all(|other| other == first) => Ok(module.to_owned()),
        Some(Some(module)) => Err(format!("expected all kernels in the module `{module}`")),
    }
}

/// Kernels with the same path are merged, except the one for `Meta` if it checks that all operands are meta tensors. A structured
/// operator gets a Meta kernel of its own.
fn kernels(entry: &NativeFunction) -> Result<Vec<OperatorKernel>, String> {
    let mut kernels: Vec<OperatorKernel> = vec![];
    for Kernel { key, path, .. } in entry.kernels() {
        let variant =
            naming::dispatch_key(key).ok_or_else(|| format!("`{key}` is not a dispatch key here yet"))?;
        if path.0.len() < 2 {
            return Err(format!("`{path}`: expected the path of a kernel to be `module::function`"));
        }
        let apart = variant == "Meta" && spans_devices(&entry.schema);
        match kernels.iter_mut().find(|kernel| kernel.path == *path && !apart) {
            Some(known) => known.keys.push(variant),
            None => {
                kernels.push(OperatorKernel { keys: vec![variant], path: path.clone(), meta_only: false })
            }
        }
    }
    let has_meta = kernels.iter().any(|kernel| kernel.keys.contains(&"Meta"));
    if entry.structured && has_meta {
        return Err("a structured operator gets its Meta kernel by itself".to_owned());
    }
    if let Some(first) = kernels.first().filter(|_| entry.structured) {
        let path = first.path.clone();
        kernels.push(OperatorKernel { keys: vec!["Meta"], path, meta_only: true });
    }
    Ok(kernels)
}

/// Whether a call can have tensors of several devices: the operator has several tensor arguments. A copy between devices is valid.
fn spans_devices(schema: &FunctionSchema) -> bool {
    if schema.name.base == "copy_" {
        return false;
    }
    let tensors: Vec<&Argument> = schema.arguments().filter(|argument| argument.ty.holds_tensors()).collect();
    tensors.len() > 1 || tensors.iter().any(|argument| matches!(argument.ty, Type::List(..)))
}

/// Errors for operators that have the same name in Rust.
fn clashes(source: Source<'_>, operators: &[Operator<'_>]) -> Vec<Fault> {
    let mut seen: HashMap<String, &FunctionSchema> = HashMap::new();
    let mut faults = vec![];
    for operator in operators {
        let name = &operator.schema.name;
        if let Some(known) = seen.insert(naming::function(name), &operator.schema) {
            let message = format!("`{}` and `{name}` have one name in Rust", known.name);
            faults.push(source.fault(operator.entry.at, message));
        }
    }
    faults
}
