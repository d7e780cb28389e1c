//! `cargo xtask extensions`: the example extensions of `tests/` as crates truly outside the workspace, with one of their own and path
//! dependencies on the library, as a user writes them. For each it prints how many tests passed, and what they counted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use clap::Args;
use serde_json::Value;

use crate::codegen::read;
use crate::{Outcome, root};

/// What is added to the library, and the folder of the example.
const EXAMPLES: &[(&str, &str)] = &[
    ("a device", "tests/mock_device"),
    ("operators", "tests/operator_extension"),
    ("a layout", "tests/blocked_layout"),
];

/// The workspace outside, and the folder of what it builds.
const FOLDER: &str = "target/extensions";

#[derive(Args)]
pub(crate) struct Options {
    /// Only checks that they compile, which takes a third of the time.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let (folder, start) = (root().join(FOLDER), Instant::now());
    write_workspace(&folder)?;
    let compiled = compiled(&folder, options.check)?;
    println!("Compiled in {} s", start.elapsed().as_secs());
    if options.check {
        return Ok(ExitCode::SUCCESS);
    }
    let mut is_well = true;
    for (what, example) in EXAMPLES {
        let package = folder.join(name(example));
        let mut counts = Counts::default();
        for test in compiled.iter().filter(|test| test.package == package) {
            counts.add(&tested(test)?);
        }
        println!("{what}, {example}: {} tests passed, {} failed", counts.passed, counts.failed);
        counts.said.iter().for_each(|line| println!("    {line}"));
        is_well &= counts.failed == 0 && counts.passed > 0;
    }
    println!("{} s in all", start.elapsed().as_secs());
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes the workspace outside, with a copy of each example.
fn write_workspace(folder: &Path) -> Result<(), String> {
    let workspace = read(&root().join("Cargo.toml"))?;
    for (_, example) in EXAMPLES {
        copy(&root().join(example), &folder.join(name(example)))?;
        let manifest = outside(&read(&root().join(example).join("Cargo.toml"))?, &workspace)?;
        write(&folder.join(name(example)).join("Cargo.toml"), manifest.as_bytes())?;
    }
    // The same versions of all crates as inside.
    write(&folder.join("Cargo.lock"), read(&root().join("Cargo.lock"))?.as_bytes())?;
    write(&folder.join("Cargo.toml"), own_workspace(&workspace).as_bytes())
}

/// A program of tests, and the folder of its package.
struct Test {
    program: PathBuf,
    package: PathBuf,
}

/// Compiles the examples; their programs of tests, unless they are only checked.
fn compiled(folder: &Path, check: bool) -> Result<Vec<Test>, String> {
    let task: &[&str] = if check { &["check", "--all-targets"] } else { &["test", "--no-run"] };
    let mut cargo = Command::new("cargo");
    cargo.args(task).args(["--workspace", "--message-format=json-render-diagnostics"]);
    cargo.current_dir(folder).env("CARGO_TARGET_DIR", folder.join("target"));
    cargo.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = cargo.output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err("the examples do not compile outside the workspace".to_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    Ok(messages.lines().filter_map(|line| test_of(&serde_json::from_str(line).ok()?)).collect())
}

/// The program of tests that a message of cargo's tells of.
fn test_of(message: &Value) -> Option<Test> {
    let is_test = message["profile"]["test"].as_bool()?;
    let package = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let program = message["executable"].as_str()?.into();
    is_test.then_some(Test { program, package })
}

/// Runs a program of tests; its output is shown where a test fails.
fn tested(test: &Test) -> Result<String, String> {
    let mut program = Command::new(&test.program);
    program.arg("--show-output").current_dir(&test.package).stdin(Stdio::null());
    let output = program.output().map_err(|error| format!("{}: {error}", test.program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    eprintln!("{text}{}", String::from_utf8_lossy(&output.stderr));
    // A program that a signal ended has no last line.
    Ok(if text.contains("test result:") { text } else { "test result: 0 passed; 1 failed;".to_owned() })
}

/// What programs of tests printed.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    passed: usize,
    failed: usize,
    /// Lines of the tests, but for lists, which are indented.
    said: Vec<String>,
}

impl Counts {
    fn add(&mut self, output: &str) {
        let mut is_said = false;
        for line in output.lines() {
            if let Some(result) = line.strip_prefix("test result:") {
                self.passed += number_before(result, " passed");
                self.failed += number_before(result, " failed");
            }
            is_said = match line {
                "successes:" | "failures:" => false,
                _ if line.starts_with("---- ") => true,
                _ => is_said,
            };
            let is_head = line.starts_with("---- ") || line.starts_with(' ') || line.is_empty();
            if is_said && !is_head {
                self.said.push(line.to_owned());
            }
        }
    }
}

/// The number in front of a word; 0 where there is none.
fn number_before(text: &str, word: &str) -> usize {
    let before = text.split_once(word).map_or("", |(before, _)| before);
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
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
    let members: Vec<String> = EXAMPLES.iter().map(|(_, example)| format!("\"{}\"", name(example))).collect();
    let profiles = workspace.find("[profile").map_or("", |start| &workspace[start..]);
    // The stand-in for CUDA's driver is not among the dependencies.
    let profiles = profiles.split("\n\n").filter(|part| !part.contains("flambeau-cuda-standin"));
    // Nobody debugs them: without line tables they compile faster.
    let profiles = profiles.collect::<Vec<_>>().join("\n\n").replace("\"line-tables-only\"", "false");
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
    fn results_and_lines_of_tests_are_counted() {
        let mut counts = Counts::default();
        counts.add(
            "running 2 tests\ntest a ... ok\n\nsuccesses:\n\n---- a stdout ----\n5 rows\n  one: other\n\n\nsuccesses:\n    a\n\n\
             test result: ok. 2 passed; 1 failed; 0 ignored; 0 measured\n",
        );
        counts.add("test result: FAILED. 10 passed; 0 failed; 0 ignored\n");
        assert_eq!(counts, Counts { passed: 12, failed: 1, said: vec!["5 rows".to_owned()] });
    }

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
