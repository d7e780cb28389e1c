//! `cargo xtask tidy`: the project's rules that neither rustc nor clippy checks.

mod bounded_lists;
mod code;
mod directions;
mod rules;
mod sample;
mod unsafe_files;
mod words;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use crate::{Outcome, root};

/// Folders without files of the project.
const SKIPPED: &[&str] = &["target", "out", ".git", "node_modules"];
/// The extensions of files that are checked.
const EXTENSIONS: &[&str] = &["rs", "toml", "md", "yaml", "yml", "py", "pyi", "sh", "lock", "cu"];

#[derive(Args)]
pub(crate) struct Options {
    /// Prints no warnings, only errors.
    #[arg(long)]
    quiet: bool,

    /// Checks nothing, and prints ten passages of the code that this seed chooses, for a reader who has not seen it.
    #[arg(long, value_name = "SEED", conflicts_with = "quiet")]
    sample: Option<u64>,
}

/// A file of the project: its path from the root, with `/` between the parts, and its text.
struct File {
    path: String,
    text: String,
}

/// A violation of a rule.
struct Finding {
    path: String,
    line: usize,
    message: String,
    /// A warning does not fail the check.
    warning: bool,
}

impl File {
    fn error(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, message: message.into(), warning: false }
    }

    fn warning(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding { warning: true, ..self.error(line, message) }
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_generated(&self) -> bool {
        self.path.contains("/generated/") || self.path.contains("/golden/")
    }

    /// Tests, examples and benchmarks: code that no user runs.
    fn is_test(&self) -> bool {
        let parts: Vec<&str> = self.path.split('/').collect();
        let named = |name: &str| ["tests", "tests.rs", "examples", "benches"].contains(&name);
        parts.into_iter().any(named)
    }
}

pub(crate) fn run(options: &Options) -> Outcome {
    let mut files = vec![];
    collect(&root(), "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    if let Some(seed) = options.sample {
        sample::passages(&files, seed).iter().for_each(|passage| println!("{passage}"));
        return Ok(ExitCode::SUCCESS);
    }
    let mut findings: Vec<Finding> = rules::check(&files);
    findings.extend(directions::check(&files));
    let errors = findings.iter().filter(|finding| !finding.warning).count();
    let warnings = findings.len() - errors;
    for Finding { path, line, message, warning } in &findings {
        match warning {
            true if options.quiet => {}
            true => println!("{path}:{line}: warning: {message}"),
            false => eprintln!("{path}:{line}: {message}"),
        }
    }
    if !options.quiet {
        directions::describe().iter().for_each(|line| println!("{line}"));
    }
    println!("tidy: {} files, {errors} errors, {warnings} warnings", files.len());
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All files under a folder that are checked; `prefix` is the folder's path from the root.
fn collect(folder: &Path, prefix: &str, files: &mut Vec<File>) -> Result<(), String> {
    let error = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(error)? {
        let entry = entry.map_err(error)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().map_err(error)?;
        let path = format!("{prefix}{name}");
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            collect(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() && name.rsplit('.').next().is_some_and(|ext| EXTENSIONS.contains(&ext)) {
            let text = fs::read_to_string(entry.path()).map_err(|error| format!("{path}: {error}"))?;
            files.push(File { path, text });
        }
    }
    Ok(())
}
