//! Generates the Rust text of operators and derivatives from two YAML files.
//!
//! A pipeline of functions from text to text: parse ([`NativeFunctions`], [`Derivatives`]), build the model, check, emit. Only
//! [`build_extension`], for the `build.rs` of other crates, reads and writes files.

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

use flambeau_schema as schema;

mod batching;
mod derivatives;
mod emit;
mod extension;
pub mod formula;
mod model;
mod naming;
mod native_functions;
mod rust_enums;
mod rust_interface;
mod source;
mod stub;
mod variants;
mod yaml;

pub use derivatives::{
    Body, Derivative, Derivatives, Differentiable, Formula, TypedDerivative, TypedFormula,
};
pub use emit::{
    AUTOGRAD_FOLDER, FORWARD_FOLDER, GeneratedFile, OPERATORS_PAGE, OPS_FOLDER, PYTHON_FOLDER, PYTHON_STUBS,
    VMAP_FOLDER,
};
pub use extension::{Extension, build_extension};
pub use native_functions::{Kernel, KernelPath, Located, NativeFunction, NativeFunctions};
pub use schema::{
    Alias, AliasSet, Argument, BaseType, Default, FunctionSchema, Literal, OperatorName, Return, SchemaError,
    Type,
};
pub use source::{Fault, Faults, Source};
pub use stub::{Stub, kernel_name, kernel_stub};
pub use variants::{Variant, sibling, variant_of};
pub use yaml::{Kind, Scalar};

/// The files that are generated from the two YAML files of this project. Rust is not formatted yet.
///
/// # Errors
/// Every fault found, with file, line and column: those of [`NativeFunctions::parse`], [`Derivatives::parse`] and
/// [`Derivatives::type_check`], and fields or types for which the generator has no Rust type.
///
/// # Examples
/// ```
/// use flambeau_codegen::{Source, generate};
///
/// let functions = "
/// - func: neg(Tensor self) -> Tensor
///   variants: function, method
///   dispatch:
///     CPU: unary::neg
///   doc: The negative of each element.
/// ";
/// let files = generate(
///     Source { name: "native_functions.yaml", text: functions },
///     Source { name: "derivatives.yaml", text: "[]" },
/// )?;
/// assert!(files.iter().any(|file| file.text.contains("neg(self_: &Tensor) -> Tensor")));
/// # Ok::<(), flambeau_codegen::Faults>(())
/// ```
pub fn generate(functions: Source<'_>, derivatives: Source<'_>) -> Result<Vec<GeneratedFile>, Faults> {
    with_model(functions, derivatives, |operators, formulas, typed| {
        let mut files = emit::files(operators);
        files.extend(emit::python_files(operators));
        files.extend(emit::autograd_files(derivatives, operators, formulas, typed)?);
        files.extend(emit::forward_files(derivatives, operators, formulas, typed)?);
        Ok(files)
    })
}

/// The page that lists every operator, with the types it takes, from a table of names and types, and where it differs from
/// PyTorch, from a page whose tables name operators.
///
/// # Errors
/// Those of [`generate`], and lines of the two tables that cannot be read.
pub fn operators_page(
    functions: Source<'_>,
    derivatives: Source<'_>,
    types: Source<'_>,
    differences: Source<'_>,
) -> Result<GeneratedFile, Faults> {
    with_model(functions, derivatives, |operators, _, typed| {
        emit::operators_page(operators, (derivatives, typed), types, differences)
    })
}

/// The table of the kinds of rules by which `vmap` computes operators.
///
/// # Errors
/// Those of [`generate`] that concern the operators.
pub fn batching_rules(functions: Source<'_>) -> Result<GeneratedFile, Faults> {
    let parsed = NativeFunctions::parse(functions)?;
    Ok(emit::batching_file(&model::operators(functions, &parsed)?))
}

/// The methods of `Tensor` whose documentation has no example.
///
/// # Errors
/// Those of [`generate`] that concern the operators.
pub fn methods_without_example(functions: Source<'_>) -> Result<Vec<String>, Faults> {
    let parsed = NativeFunctions::parse(functions)?;
    let operators = model::operators(functions, &parsed)?;
    Ok(operators.iter().flat_map(emit::methods_without_example).collect())
}

/// Reads and checks the operators and the derivatives, and calls `make` with them.
fn with_model<T>(
    functions: Source<'_>,
    derivatives: Source<'_>,
    make: impl FnOnce(&[model::Operator<'_>], &Derivatives, &[TypedDerivative]) -> Result<T, Faults>,
) -> Result<T, Faults> {
    let parsed = NativeFunctions::parse(functions)?;
    let operators = model::operators(functions, &parsed)?;
    let formulas = Derivatives::parse(derivatives, &parsed)?;
    let typed = formulas.type_check(derivatives, &parsed)?;
    make(&operators, &formulas, &typed)
}
