//! Reads `native_functions.yaml`: one entry for each operator, in PyTorch's format, with `doc`, `rust_name`, `rust_positional` and `example` added.

mod dispatch;
mod fields;
mod rules;

use std::collections::HashMap;

pub(crate) use dispatch::is_autograd_key;
pub use dispatch::{Kernel, KernelPath};

use crate::schema::{FunctionSchema, OperatorName};
use crate::source::{Fault, Faults, Source};
use crate::yaml::{Entry, Scalar, entries};

/// A value and its position in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Byte offset into the file.
    pub at: usize,
}

/// One entry of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct NativeFunction {
    /// Its signature.
    pub schema: FunctionSchema,
    /// Byte offset of the signature.
    pub at: usize,
    /// Whether it is a function.
    pub function: bool,
    /// Whether it is a method of `Tensor`.
    pub method: bool,
    /// The kernel for each dispatch key, one item for each key, in the order of the file. Without the field the kernel
    /// is composite and has the operator's name; with an empty table there is no kernel.
    pub dispatch: Option<Vec<Kernel>>,
    /// Whether shapes and values are computed by separate functions, so that variants can be derived.
    pub structured: bool,
    /// The structured operator whose kernel it uses.
    pub structured_delegate: Option<Located<OperatorName>>,
    /// `TensorIteratorBase`, or nothing.
    pub structured_inherits: Option<String>,
    /// The variants to derive.
    pub autogen: Vec<Located<OperatorName>>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its Python module.
    pub python_module: Option<String>,
    /// `factory` or `dummy`, where the category cannot be told from the signature.
    pub category_override: Option<String>,
    /// Whether all tensors must be on one device.
    pub device_check: bool,
    /// Whether the device of the arguments is made current.
    pub device_guard: bool,
    /// Whether the method is written by hand.
    pub manual_cpp_binding: bool,
    /// Whether the kernel is registered by hand.
    pub manual_kernel_registration: bool,
    /// Whether written tensors are passed as if they were read.
    pub use_const_ref_for_mutable_tensors: bool,
    /// Arguments whose default the C++ interface drops.
    pub cpp_no_default_args: Vec<String>,
    /// What the meta function computes for the kernel.
    pub precomputed: Vec<String>,
    /// The formula and scalar types of an elementwise kernel.
    pub ufunc_inner_loop: Vec<(String, String)>,
    /// The kind of rule by which `vmap` computes it, where the other fields do not say.
    pub batch: Option<String>,
    /// One sentence or more, for the generated documentation.
    pub doc: Option<String>,
    /// The name of the method in Rust; `none` if there is none.
    pub rust_name: Option<Located<String>>,
    /// Arguments with a default that the method takes by position, not as options.
    pub rust_positional: Vec<String>,
    /// Calls of the methods and their results, one a line, for the documentation.
    pub example: Option<Located<String>>,
}

/// All entries of a file, in its order, with an index by name.
#[derive(Clone, Debug)]
pub struct NativeFunctions {
    /// The entries.
    pub entries: Vec<NativeFunction>,
    by_name: HashMap<OperatorName, usize>,
}

impl NativeFunction {
    /// The kernels that `dispatch` names.
    pub fn kernels(&self) -> &[Kernel] {
        self.dispatch.as_deref().unwrap_or_default()
    }
}

impl NativeFunctions {
    /// Reads a file and checks each entry by itself and against the others.
    ///
    /// # Errors
    /// All faults, with their lines. The entries are checked against each other only if each is valid by itself.
    pub fn parse(source: Source<'_>) -> Result<Self, Faults> {
        let mut faults = Faults::default();
        let read: Vec<NativeFunction> =
            entries(source)?.into_iter().filter_map(|entry| faults.take(function(entry))).collect();
        let mut all = Self { entries: Vec::with_capacity(read.len()), by_name: HashMap::new() };
        for entry in read {
            faults.take(all.insert(source, entry));
        }
        if faults.0.is_empty() {
            faults.0 = rules::across(source, &all);
        }
        faults.0.sort_by_key(|fault| (fault.line, fault.column));
        faults.or(all)
    }

    /// The entry of an operator.
    pub fn get(&self, name: &OperatorName) -> Option<&NativeFunction> {
        self.by_name.get(name).map(|&index| &self.entries[index])
    }

    /// These entries and those of another file.
    ///
    /// # Errors
    /// A fault in the other file where both have an operator of one name.
    pub(crate) fn joined(mut self, source: Source<'_>, other: &Self) -> Result<Self, Faults> {
        let mut faults = Faults::default();
        for entry in &other.entries {
            faults.take(self.insert(source, entry.clone()));
        }
        faults.or(self)
    }

    fn insert(&mut self, source: Source<'_>, entry: NativeFunction) -> Result<(), Fault> {
        let name = entry.schema.name.clone();
        if self.by_name.contains_key(&name) {
            return Err(source.fault(entry.at, format!("operator `{name}` is given twice")));
        }
        self.by_name.insert(name, self.entries.len());
        self.entries.push(entry);
        Ok(())
    }
}

fn function(mut entry: Entry<'_>) -> Result<NativeFunction, Fault> {
    let source = entry.source;
    let Some(func) = entry.take_text("func")? else {
        return Err(source.fault(entry.at, "the entry has no `func`"));
    };
    let schema = parse_schema(source, &func)?;
    let function = fields::read(&mut entry, schema, func.at)?;
    if let Some((key, _)) = entry.rest().first() {
        return Err(source.fault(key.at, format!("unknown field `{}`", key.text)));
    }
    rules::alone(source, &function)?;
    Ok(function)
}

/// Parses a schema in a YAML file.
pub(crate) fn parse_schema(source: Source<'_>, text: &Scalar) -> Result<FunctionSchema, Fault> {
    FunctionSchema::parse(&text.text).map_err(|error| text.fault(source, error.at, error.message))
}
