//! `cargo xtask extensions`: the example extensions of `tests/` as crates truly outside the workspace, with one of their own and path
//! dependencies on the library, as a user writes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;

use crate::codegen::read;
use crate::{Outcome, root};

/// The folders of the examples: a device, operators, a layout.
const EXAMPLES: &[&str] = &["tests/mock_device", "tests/operator_extension", "tests/blocked_layout"];

/// The workspace outside, and the folder of what it builds.
const FOLDER: &str = "target/extensions";

#[derive(Args)]
pub(crate) struct Options {
    /// Only checks that they compile, which takes a third of the time.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let folder = root().join(FOLDER);
    let workspace = read(&root().join("Cargo.toml"))?;
    for example in EXAMPLES {
        copy(&root().join(example), &folder.join(name(example)))?;
        let manifest = outside(&read(&root().join(example).join("Cargo.toml"))?, &workspace)?;
        write(&folder.join(name(example)).join("Cargo.toml"), manifest.as_bytes())?;
    }
    // The same versions of all crates as inside.
    write(&folder.join("Cargo.lock"), read(&root().join("Cargo.lock"))?.as_bytes())?;
    write(&folder.join("Cargo.toml"), own_workspace(&workspace).as_bytes())?;
    let task: &[&str] = if options.check { &["check", "--all-targets"] } else { &["test", "--no-fail-fast"] };
    let mut cargo = Command::new("cargo");
    cargo.args(task).arg("--workspace").current_dir(&folder).env("CARGO_TARGET_DIR", folder.join("target"));
    let status = cargo.stdin(Stdio::null()).status().map_err(|error| format!("cargo: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The last part of a path.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The lines of a section of a manifest, without its head.
fn section<'t>(manifest: &'t str, head: &str) -> impl Iterator<Item = &'t str> {
    let mut lines = manifest.lines().skip_while(move |line| *line != head);
    lines.next();
    lines.take_while(|line| !line.starts_with('['))
}

/// The workspace's value of a key: that of `flambeau-ops` in a list of dependencies, or of `edition` in `[workspace.package]`.
fn value(workspace: &str, key: &str) -> Result<String, String> {
    let heads = ["[workspace.package]", "[workspace.dependencies]"];
    let mut lines = heads.iter().flat_map(|head| section(workspace, head));
    let found = lines.find_map(|line| line.split_once(" = ").filter(|(known, _)| *known == key));
    let (_, value) = found.ok_or_else(|| format!("Cargo.toml: the workspace has no `{key}`"))?;
    Ok(value.replace("path = \"", &format!("path = \"{}/", root().display())))
}

/// The manifest of a crate outside the workspace: what it inherits is written out.
fn outside(manifest: &str, workspace: &str) -> Result<String, String> {
    let mut text = String::new();
    for line in manifest.lines() {
        let inherited = line.strip_suffix(".workspace = true").map(|key| (key, String::new()));
        // `flambeau = { workspace = true, features = [..] }`
        let extended =
            line.split_once(" = { workspace = true, ").map(|(key, rest)| (key, format!(", {rest}")));
        text += &match inherited.or(extended) {
            Some((key, rest)) => format!("{key} = {}", joined(&value(workspace, key)?, &rest)),
            None => line.to_owned(),
        };
        text.push('\n');
    }
    Ok(text)
}

/// A dependency's table with further keys.
fn joined(value: &str, rest: &str) -> String {
    match (rest.is_empty(), value.strip_suffix(" }")) {
        (true, _) => value.to_owned(),
        (false, Some(table)) => format!("{table}{rest}"),
        (false, None) => format!("{{ version = {value}{rest}"),
    }
}

/// A workspace of the examples, with the profiles of this one.
fn own_workspace(workspace: &str) -> String {
    let members: Vec<String> = EXAMPLES.iter().map(|example| format!("\"{}\"", name(example))).collect();
    let profiles = workspace.find("[profile").map_or("", |start| &workspace[start..]);
    // The stand-in for CUDA's driver is not among the dependencies.
    let profiles = profiles.split("\n\n").filter(|part| !part.contains("flambeau-cuda-standin"));
    let profiles = profiles.collect::<Vec<_>>().join("\n\n");
    format!("[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n{profiles}\n", members.join(", "))
}

/// Copies a folder. A file that is the same already keeps its time. Paths to files of this repository become absolute.
fn copy(from: &Path, into: &Path) -> Result<(), String> {
    let error = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(into).map_err(error)?;
    for entry in fs::read_dir(from).map_err(error)? {
        let entry = entry.map_err(error)?;
        let target: PathBuf = into.join(entry.file_name());
        match entry.file_type().map_err(error)? {
            kind if kind.is_dir() && entry.file_name() != "target" => copy(&entry.path(), &target)?,
            kind if kind.is_file() && entry.file_name() != "Cargo.toml" => {
                let text = read(&entry.path())?
                    .replace("\"../../../crates/", &format!("\"{}/crates/", root().display()));
                write(&target, text.as_bytes())?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_crate_inherits_is_written_out() {
        let workspace = "[workspace.package]\nedition = \"2024\"\n\n[workspace.dependencies]\nlibc = \"0.2\"\nops = { path = \"crates/ops\", version = \"1\" }\n\n[profile.dev]\nopt-level = 1\n";
        let manifest = "[package]\nedition.workspace = true\n\n[dependencies]\nlibc.workspace = true\nops = { workspace = true, features = [\"a\"] }\n";
        let ops = format!(
            "ops = {{ path = \"{}/crates/ops\", version = \"1\", features = [\"a\"] }}",
            root().display()
        );
        let expected = format!("[package]\nedition = \"2024\"\n\n[dependencies]\nlibc = \"0.2\"\n{ops}\n");
        assert_eq!(outside(manifest, workspace).as_deref(), Ok(&*expected));
        assert!(own_workspace(workspace).ends_with("[profile.dev]\nopt-level = 1\n\n"));
        assert!(outside("a.workspace = true", workspace).is_err());
    }
}
