//! `cargo xtask coverage`: how many operators of PyTorch's core set, and how many functions that its users call, exist here.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use flambeau_codegen::{Derivatives, NativeFunctions, Source, Variant, variant_of};

use crate::codegen::{DERIVATIVES, FUNCTIONS, read};
use crate::{Outcome, root};

/// The overloads of PyTorch's core set.
const CORE: &str = "tests/coverage/core_aten.txt";
/// Names that PyTorch's users call.
const USER_NAMES: &str = "tests/coverage/user_names.txt";
/// The folder of the package whose names stand for PyTorch's and need not be Flambeau's.
const SHIMS: &str = "torch";

/// Operators of the core set that are methods of a tensor here.
const METHODS: &[&str] =
    &["sym_size.int", "sym_is_contiguous", "sym_numel", "sym_storage_offset", "sym_stride.int"];

#[derive(Args)]
pub(crate) struct Options {
    /// Exits 1 if fewer operators of the core set exist.
    #[arg(long)]
    minimum: Option<usize>,
}

/// Which variants of an operator exist, and whether it has a derivative.
#[derive(Default)]
struct Known {
    in_place: bool,
    out: bool,
    derivative: bool,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let operators = operators()?;
    let (core, user_names) = (names(CORE)?, names(USER_NAMES)?);
    let found = report_core(&core, &operators);
    report_user_names(&user_names, &operators, &python_names()?);
    let enough = options.minimum.is_none_or(|minimum| found >= minimum);
    Ok(if enough { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn names(file: &str) -> Result<Vec<String>, String> {
    Ok(read(&root().join(file))?.lines().map(str::to_owned).collect())
}

/// All operators by full name. A composite operator has the derivatives of the operators that it calls.
fn operators() -> Result<HashMap<String, Known>, Box<dyn std::error::Error>> {
    let (functions, derivatives) = (read(&root().join(FUNCTIONS))?, read(&root().join(DERIVATIVES))?);
    let parsed = NativeFunctions::parse(Source { name: FUNCTIONS, text: &functions })?;
    let formulas = Derivatives::parse(Source { name: DERIVATIVES, text: &derivatives }, &parsed)?;
    let derived: HashSet<String> =
        formulas.entries.iter().map(|entry| entry.schema.name.to_string()).collect();
    let mut known = HashMap::new();
    for entry in &parsed.entries {
        let has = |variant| entry.autogen.iter().any(|sibling| variant_of(&sibling.value) == variant);
        let name = entry.schema.name.to_string();
        let composite = entry.kernels().iter().any(|kernel| kernel.key == "CompositeImplicitAutograd");
        let derivative = composite || derived.contains(&name);
        let (in_place, out) = (has(Variant::InPlace), has(Variant::Out));
        for sibling in &entry.autogen {
            known.insert(sibling.value.to_string(), Known { in_place, out, derivative });
        }
        known.insert(name, Known { in_place, out, derivative });
    }
    Ok(known)
}

/// Prints which operators of the core set exist, and returns their number.
fn report_core(core: &[String], operators: &HashMap<String, Known>) -> usize {
    let known: Vec<&Known> = core.iter().filter_map(|name| operators.get(name)).collect();
    let methods = core.iter().filter(|name| METHODS.contains(&name.as_str())).count();
    let count = |has: fn(&&&Known) -> bool| known.iter().filter(has).count();
    println!(
        "core: {} of {}: {} operators, {methods} methods; {} with an in-place form, {} with out=, {} with a derivative",
        known.len() + methods,
        core.len(),
        known.len(),
        count(|known| known.in_place),
        count(|known| known.out),
        count(|known| known.derivative),
    );
    let exists = |name: &str| operators.contains_key(name) || METHODS.contains(&name);
    list(core.iter().filter(|name| !exists(name)));
    known.len() + methods
}

fn report_user_names(names: &[String], operators: &HashMap<String, Known>, python: &HashSet<String>) {
    let bases: HashSet<&str> = operators.keys().map(|name| name.split('.').next().unwrap_or(name)).collect();
    let is_operator = |name: &str| {
        let last = name.rsplit('.').next().unwrap_or(name);
        let joined = name.replace('.', "_");
        [name, joined.as_str()]
            .iter()
            .any(|name| bases.contains(name) || bases.contains(format!("{name}_").as_str()))
            || (["nn.functional.", "special."].iter().any(|module| name.starts_with(module))
                && bases.contains(last))
    };
    let in_python = |name: &str| python.contains(name);
    let operators = names.iter().filter(|name| is_operator(name)).count();
    let others = names.iter().filter(|name| !is_operator(name) && in_python(name)).count();
    println!(
        "names that users call: {} of {}: {operators} operators, {others} written in Python",
        operators + others,
        names.len()
    );
    list(names.iter().filter(|name| !is_operator(name) && !in_python(name)));
}

fn list<'a>(names: impl Iterator<Item = &'a String>) {
    let names: Vec<&str> = names.map(String::as_str).collect();
    println!("  missing {}: {}", names.len(), names.join(" "));
}

/// The names that the Python package defines, with their modules as users write them: `nn.functional.pad`, `matmul`.
fn python_names() -> Result<HashSet<String>, String> {
    let mut names = HashSet::new();
    collect(&root().join("crates/python/python/flambeau"), "", &mut names)?;
    Ok(names)
}

/// Adds the names that the files of a folder define, and those of its folders after the names of these.
fn collect(folder: &Path, prefix: &str, names: &mut HashSet<String>) -> Result<(), String> {
    let error = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(error)? {
        let path = entry.map_err(error)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_python = path.extension().is_some_and(|extension| extension == "py" || extension == "pyi");
        if path.is_dir() && name != SHIMS {
            collect(&path, &format!("{prefix}{name}."), names)?;
        } else if is_python {
            names.extend(defined(&read(&path)?).map(|name| format!("{prefix}{name}")));
        }
    }
    Ok(())
}

/// Names after `def`, and those assigned at the top level, as in `relu = flambeau.relu`.
fn defined(text: &str) -> impl Iterator<Item = &str> {
    let name = |line: &'_ str| -> Option<usize> {
        let end = line.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        (end > 0).then_some(end)
    };
    text.lines().filter_map(move |line| {
        if let Some(rest) = line.trim_start().strip_prefix("def ") {
            return name(rest).map(|end| &rest[..end]);
        }
        let end = name(line)?;
        let rest = line[end..].trim_start();
        (rest.starts_with('=') || rest.starts_with(": ")).then(|| &line[..end])
    })
}
