//! Operators of another crate: its own two YAML files, which it gives to this crate in its `build.rs`.

use std::error::Error;
use std::path::{Path, PathBuf};

use crate::derivatives::Derivatives;
use crate::emit;
use crate::model;
use crate::native_functions::NativeFunctions;
use crate::source::{Faults, Source};

/// The library's own operators, which formulas of other crates call.
const LIBRARY: Source<'static> =
    Source { name: "native_functions.yaml", text: include_str!("../native_functions.yaml") };

/// The operators of another crate, and the paths by which it reaches the library and its own functions.
///
/// ```
/// use flambeau_codegen::{Extension, Source};
///
/// let functions = "
/// - func: mine::cube(Tensor self) -> Tensor
///   dispatch:
///     CompositeExplicitAutograd: powers::cube
///   tags: pointwise
///   doc: The third power of each element.
/// ";
/// let derivatives = "
/// - name: mine::cube(Tensor self) -> Tensor
///   self: grad * self * self * 3
/// ";
/// let extension = Extension {
///     functions: Source { name: "native_functions.yaml", text: functions },
///     derivatives: Source { name: "derivatives.yaml", text: derivatives },
///     kernels: "crate::kernels",
///     formulas: None,
///     ops: "flambeau_ops",
///     autograd: "flambeau_autograd",
/// };
/// let text = extension.generate()?;
/// assert!(text.contains("cube(self_: &Tensor) -> Tensor") && text.contains("CubeBackward0"));
/// # Ok::<(), flambeau_codegen::Faults>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Extension<'a> {
    /// The operators, in the format of `native_functions.yaml`. Their names have a namespace, `mine::cube`.
    pub functions: Source<'a>,
    /// Their derivatives, in the format of `derivatives.yaml`.
    pub derivatives: Source<'a>,
    /// The module with the modules of kernels that `dispatch` names: `crate::kernels`.
    pub kernels: &'a str,
    /// The module with the functions that `helpers` declares, if there are some: `crate::formulas`.
    pub formulas: Option<&'a str>,
    /// The library's crate of operators: `flambeau_ops`.
    pub ops: &'a str,
    /// The library's crate of derivatives: `flambeau_autograd`.
    pub autograd: &'a str,
}

impl Extension<'_> {
    /// One file, to be included in a module: operators as functions and statics that are found by name, with the kernels that record
    /// calls for the profiler, their nodes, and their tangents.
    ///
    /// # Errors
    /// Every fault found, with file, line and column.
    pub fn generate(&self) -> Result<String, Faults> {
        let library = NativeFunctions::parse(LIBRARY)?;
        let own = NativeFunctions::parse(self.functions)?;
        let mut faults = Faults::default();
        for entry in &own.entries {
            if entry.schema.name.namespace.is_none() {
                let message = format!(
                    "`{0}`: expected a name with a namespace, such as `mine::{0}`",
                    entry.schema.name
                );
                faults.0.push(self.functions.fault(entry.at, message));
            }
        }
        faults.or(())?;
        let operators = model::operators_of_extension(self.functions, &own)?;
        let mut known = model::operators(LIBRARY, &library)?;
        known.extend(operators.iter().cloned());
        let both = library.clone().joined(self.functions, &own)?;
        let derivatives = Derivatives::parse(self.derivatives, &both)?;
        let typed = derivatives.type_check(self.derivatives, &both)?;
        emit::extension_text(self, (&operators, &known), &derivatives, &typed)
    }
}

/// For a `build.rs`: reads `native_functions.yaml` and `derivatives.yaml` in the folder of the crate, and writes `operators.rs` into
/// Cargo's `OUT_DIR`. The kernels are in `crate::kernels`; with `formulas` the functions under `helpers` are in `crate::formulas`.
///
/// ```no_run
/// // build.rs
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     flambeau_codegen::build_extension(false)
/// }
/// // lib.rs has: pub mod ops { include!(concat!(env!("OUT_DIR"), "/operators.rs")); }
/// ```
///
/// # Errors
/// A file that cannot be read or written, and every fault in the two files.
pub fn build_extension(formulas: bool) -> Result<(), Box<dyn Error>> {
    let folder = variable("CARGO_MANIFEST_DIR")?;
    let (functions, derivatives) = (folder.join("native_functions.yaml"), folder.join("derivatives.yaml"));
    let (functions_text, derivatives_text) = (read(&functions)?, read(&derivatives)?);
    let extension = Extension {
        functions: Source { name: "native_functions.yaml", text: &functions_text },
        derivatives: Source { name: "derivatives.yaml", text: &derivatives_text },
        kernels: "crate::kernels",
        formulas: formulas.then_some("crate::formulas"),
        ops: "flambeau_ops",
        autograd: "flambeau_autograd",
    };
    let text = extension.generate().map_err(|faults| {
        // Cargo prints what a build script writes here; the error itself would be printed with its line breaks escaped.
        eprintln!("{faults}");
        format!("{} faults", faults.0.len())
    })?;
    let file = variable("OUT_DIR")?.join("operators.rs");
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(())
}

fn variable(name: &str) -> Result<PathBuf, String> {
    std::env::var_os(name)
        .map(PathBuf::from)
        .ok_or_else(|| format!("expected the variable {name}, which Cargo sets"))
}

/// A file of the crate, for whose changes Cargo runs `build.rs` again.
fn read(path: &Path) -> Result<String, String> {
    println!("cargo::rerun-if-changed={}", path.display());
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
