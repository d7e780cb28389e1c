//! Tests of `cargo xtask codegen --parse-only`: its output and its exit code.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FUNCTIONS: &str = "- func: neg(Tensor self) -> Tensor\n  variants: function, method\n";
const DERIVATIVES: &str =
    "- name: neg(Tensor self) -> Tensor\n  self: grad.neg()\n  result: auto_element_wise\n";

/// Runs the command on two temporary files.
fn parse_only(case: &str, functions: &str, derivatives: &str) -> io::Result<Output> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(case);
    std::fs::create_dir_all(&folder)?;
    let write = |name: &str, text: &str| -> io::Result<PathBuf> {
        let path = folder.join(name);
        std::fs::write(&path, text).map(|()| path)
    };
    let paths = [write("functions.yaml", functions)?, write("derivatives.yaml", derivatives)?];
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(["codegen", "--parse-only"]).args(paths).output()
}

#[test]
fn sound_files_are_counted() {
    let output = parse_only("sound", FUNCTIONS, DERIVATIVES).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(
        printed.contains("functions.yaml: 1 functions")
            && printed.contains("derivatives.yaml: 1 derivatives")
    );
}

#[test]
fn a_fault_is_named_with_its_file_and_line() {
    let cases = [
        (
            "type",
            FUNCTIONS.replace("(Tensor", "(Tensr"),
            DERIVATIVES.to_owned(),
            "functions.yaml:1:13: unknown type `Tensr`",
        ),
        (
            "input",
            FUNCTIONS.to_owned(),
            DERIVATIVES.replace("  self:", "  other:"),
            "derivatives.yaml:2:3: `neg` has no argument",
        ),
    ];
    for (case, functions, derivatives, message) in cases {
        let output = parse_only(case, &functions, &derivatives).unwrap();
        let printed = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{printed}");
        assert!(printed.contains(message), "{printed}");
    }
}
