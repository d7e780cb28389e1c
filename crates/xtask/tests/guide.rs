//! Tests of docs/adding_an_operator.md: its examples are applied to a copy of the tree, and its commands write the same.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which fail by panicking")]

use flambeau_codegen::{Source, generate};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const GUIDE: &str = "docs/adding_an_operator.md";
const YAML: [&str; 2] = ["native_functions.yaml", "derivatives.yaml"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

fn guide() -> String {
    std::fs::read_to_string(root().join(GUIDE)).unwrap()
}

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().unwrap()
}

/// A copy of the tree with the examples in it.
fn applied(case: &str, more: &[&str]) -> PathBuf {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(case);
    let output = xtask(&[&["guide", "--into", copy.to_str().unwrap()], more].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    copy
}

fn text(root: &Path, file: &str) -> String {
    std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// All text that is generated from the YAML files of a tree.
fn generated(root: &Path) -> String {
    let texts = YAML.map(|name| (name, text(root, name)));
    let [functions, derivatives] = texts.each_ref().map(|(name, text)| Source { name, text });
    let files = generate(functions, derivatives);
    let files = files.unwrap_or_else(|faults| panic!("{faults}"));
    files.into_iter().map(|file| file.text).collect()
}

/// The files that headings of blocks assign text to.
fn assigned() -> Vec<String> {
    let guide = guide();
    let headings = guide.lines().filter(|line| line.starts_with('`') && line.ends_with(':'));
    headings.filter_map(|line| Some(line[1..].split_once("`, ")?.0.to_owned())).collect()
}

#[test]
fn the_examples_are_operators_with_derivatives() {
    let copy = applied("guide", &["--edits"]);
    let generated = generated(&copy);
    for made in [
        " sech(self_: &Tensor) -> Tensor,",
        " sech_(self_: &Tensor) -> (),",
        " sech_out(",
        "SechBackward",
        " mean_square(",
        " mean_square_out(",
        "pub fn mean_square_dim(",
        "pub fn gated_tanh_with(",
        "MeanSquareBackward",
        " gated_tanh(",
        " gated_tanh_out(",
        "GatedTanhBackward",
        " gated_tanh_backward(",
    ] {
        assert!(generated.contains(made), "{made}");
    }
    for file in assigned().iter().filter(|file| file.ends_with(".rs")) {
        let mut rustfmt = Command::new("rustfmt");
        rustfmt.args(["--edition", "2024", "--check", "--config", "skip_children=true", "--config-path"]);
        let output = rustfmt.arg(root().join("rustfmt.toml")).arg(copy.join(file)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// A path is a word in backquotes with a slash in it, and the name of a file or a folder behind the last one.
#[test]
fn every_file_that_the_guide_names_exists() {
    let copy = applied("guide_files", &["--edits"]);
    let guide = guide();
    let words = guide
        .lines()
        .filter(|line| !line.starts_with("```"))
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_path = |word: &&str| {
        let ends = [".rs", ".yaml", ".md", ".toml", "/"].iter().any(|end| word.ends_with(end));
        ends && !word.contains(' ') && *word != "generated/"
    };
    let paths: Vec<&str> = words.filter(is_path).collect();
    assert!(paths.len() > 20, "{paths:?}");
    for path in paths {
        let exists = copy.join(path).exists() || copy.join("crates/ops/src/native").join(path).exists();
        assert!(exists, "{path}");
    }
}

/// The words of the guide's commands, without `cargo xtask`.
fn commands() -> Vec<Vec<String>> {
    let joined = guide().replace(" \\\n", " ");
    let commands = joined.lines().filter_map(|line| line.strip_prefix("    cargo xtask new-op "));
    commands.map(words).collect()
}

/// Splits a command line as a shell does, with double quotes only.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('"').enumerate();
    let words = parts.flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

#[test]
fn the_commands_write_the_examples() {
    let examples = applied("guide_examples", &["--edits"]);
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide_commands");
    let _ = std::fs::remove_dir_all(&copy);
    for file in assigned().iter().map(String::as_str).chain(YAML).chain(["tests/op_db/none"]) {
        std::fs::create_dir_all(copy.join(file).parent().unwrap()).unwrap();
        let _ = std::fs::copy(root().join(file), copy.join(file));
    }
    assert_eq!(commands().len(), 3);
    for command in commands() {
        let arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        let output = xtask(&[&["new-op"], &arguments[..], &["--root", copy.to_str().unwrap()]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for file in
        YAML.into_iter().chain(["crates/ops/src/native/reduce/mean_square.rs", "crates/ops/src/native/nn.rs"])
    {
        assert_eq!(text(&copy, file), text(&examples, file), "{file}");
    }
    let backward = text(&copy, "crates/ops/src/native/nn/gated_tanh.rs");
    assert!(backward.contains("gated_tanh_backward is not written yet"), "{backward}");
}

#[test]
#[ignore = "checks core, ops and autograd in the copy, which takes minutes: `cargo xtask guide --test` builds and runs all of it"]
fn the_examples_compile() {
    applied("guide_check", &["--check"]);
}
