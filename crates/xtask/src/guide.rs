//! `cargo xtask guide`: applies the worked examples of docs/adding_an_operator.md to a copy of the tree, and tests them there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;

use crate::codegen::{self, read};
use crate::guide::blocks::{Block, blocks};
use crate::{Outcome, root};

mod blocks;

/// The guide, whose blocks of text are the examples.
const GUIDE: &str = "docs/adding_an_operator.md";
/// Folders that are not copied.
const SKIPPED: &[&str] = &["target", "out", ".git", "__pycache__"];
/// What the guide tells its reader to run, in the copy.
const STEPS: &[&[&str]] = &[
    &["fmt", "--all", "--check"],
    &["xtask", "types"],
    &["xtask", "tidy", "--quiet"],
    &["test", "--package", "flambeau-tests", "--no-fail-fast"],
];

#[derive(Args)]
pub(crate) struct Options {
    /// The folder of the copy; by default target/guide.
    #[arg(long)]
    into: Option<PathBuf>,

    /// Writes no generated files.
    #[arg(long, conflicts_with_all = ["check", "test"])]
    edits: bool,

    /// Checks there that the kernels and the derivatives compile.
    #[arg(long)]
    check: bool,

    /// Runs there what the guide tells its reader to run: some ten minutes.
    #[arg(long)]
    test: bool,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let into = options.into.clone().unwrap_or_else(|| root().join("target/guide"));
    let blocks = blocks(&read(&root().join(GUIDE))?)?;
    let edited = edited(&blocks)?;
    copy(Path::new(""), &into, &|path| edited.contains_key(path) || path.contains("/generated/"))?;
    edited.iter().try_for_each(|(path, text)| write_changed(&into.join(path), text.as_bytes()))?;
    for Block { line, path, text, .. } in &blocks {
        println!("{GUIDE}:{line}: {path}: {} lines", text.lines().count());
    }
    if options.edits {
        return Ok(ExitCode::SUCCESS);
    }
    codegen::run_in(&into, false)?;
    let check: &[&[&str]] = &[&["check", "--package", "flambeau-autograd"]];
    let steps = if options.check { check } else { &[] };
    let steps = steps.iter().chain(if options.test { STEPS } else { &[] });
    for step in steps {
        println!("== cargo {}", step.join(" "));
        if !cargo(&into, step)? {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The texts of the files with the blocks in them, by path.
fn edited(blocks: &[Block]) -> Result<BTreeMap<String, String>, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for block in blocks {
        let text = texts.get(&block.path).cloned().or_else(|| read(&root().join(&block.path)).ok());
        let text =
            block.applied(text.as_deref()).map_err(|error| format!("{GUIDE}:{}: {error}", block.line))?;
        texts.insert(block.path.clone(), text);
    }
    Ok(texts)
}

/// Copies a folder of the tree, without the files for which `kept` holds and that exist already. A file that is the same already
/// keeps its time, so that cargo builds only what changed.
fn copy(folder: &Path, into: &Path, kept: &dyn Fn(&str) -> bool) -> Result<(), String> {
    let from = root().join(folder);
    let error = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(into.join(folder)).map_err(error)?;
    for entry in fs::read_dir(&from).map_err(error)? {
        let entry = entry.map_err(error)?;
        let (path, target) = (folder.join(entry.file_name()), into.join(folder).join(entry.file_name()));
        let kind = entry.file_type().map_err(error)?;
        if SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
            continue;
        }
        if kind.is_dir() {
            copy(&path, into, kept)?;
        } else if kind.is_symlink() && path.extension().is_some() {
            // `codegen` has the library's operators by a link.
            link(&entry.path(), &target)?;
        } else if kind.is_file() && !(kept(&path.to_string_lossy()) && target.exists()) {
            write_changed(&target, &fs::read(entry.path()).map_err(error)?)?;
        }
    }
    Ok(())
}

/// The same link at `target`, unless there is one.
fn link(from: &Path, target: &Path) -> Result<(), String> {
    let error = |error: std::io::Error| format!("{}: {error}", from.display());
    let to = fs::read_link(from).map_err(error)?;
    if target.is_symlink() {
        return Ok(());
    }
    #[cfg(unix)]
    return std::os::unix::fs::symlink(to, target).map_err(error);
    #[cfg(not(unix))]
    fs::copy(from, target).map(|_| drop(to)).map_err(error)
}

fn write_changed(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs cargo in the copy, with a target folder of its own.
fn cargo(folder: &Path, arguments: &[&str]) -> Result<bool, String> {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(folder).env("CARGO_TARGET_DIR", folder.join("target"));
    let status = command.stdin(Stdio::null()).status();
    status.map(|status| status.success()).map_err(|error| format!("cargo: {error}"))
}
