//! Tests of `cargo xtask new-op`: the steps of docs/adding_an_operator.md, in a copy of the files that it edits.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which fail by panicking")]

use flambeau_codegen::{GeneratedFile, Source, generate, operators_page};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The files that the command reads and writes.
const FILES: &[&str] = &[
    "native_functions.yaml",
    "derivatives.yaml",
    "crates/ops/src/native/pointwise.rs",
    "crates/ops/src/native/pointwise/unary.rs",
    "crates/ops/src/native/reduce.rs",
    "crates/ops/src/native/nn.rs",
    "tests/op_db.rs",
];

/// One file of each folder that new files are written to.
const NEW: &[&str] =
    &["tests/op_db/none", "crates/ops/src/native/reduce/none", "crates/ops/src/native/nn/none"];

struct Tree(PathBuf);

impl Tree {
    /// A copy for one test.
    fn new(case: &str) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("new_op_{case}"));
        let _ = std::fs::remove_dir_all(&root);
        for file in FILES.iter().chain(NEW) {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        }
        for file in FILES {
            std::fs::copy(source.join(file), root.join(file)).unwrap();
        }
        Tree(root)
    }

    fn new_op(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.arg("new-op").args(arguments).arg("--root").arg(&self.0).output().unwrap()
    }

    fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(file)).unwrap()
    }

    /// The files that are generated from the two YAML files.
    fn generated(&self) -> Vec<GeneratedFile> {
        let texts = ["native_functions.yaml", "derivatives.yaml"].map(|name| (name, self.text(name)));
        let [functions, derivatives] = texts.each_ref().map(|(name, text)| Source { name, text });
        let nothing = Source { name: "nothing", text: "" };
        let page = operators_page(functions, derivatives, nothing, nothing);
        let files = generate(functions, derivatives).and_then(|files| Ok([files, vec![page?]].concat()));
        files.unwrap_or_else(|faults| panic!("{faults}"))
    }

    /// Whether rustfmt can parse a file.
    fn is_rust(&self, file: &str) -> bool {
        let mut command = Command::new("rustfmt");
        command.args(["--edition", "2024", "--emit", "stdout", "--config", "skip_children=true"]);
        command.arg(self.0.join(file)).output().unwrap().status.success()
    }
}

const DOC: &[&str] = &["--doc", "What it computes."];

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[test]
fn a_formula_becomes_an_operator_by_one_command() {
    let tree = Tree::new("formula");
    let told = [
        "sine_of_double(Tensor self) -> Tensor",
        "--module",
        "pointwise/unary",
        "--formula",
        "(x + x).sin()",
    ];
    let more = ["--derivative", "self: grad * (self * 2).cos() * 2", "--reference", "(2.0 * x).sin()"];
    let output = tree.new_op(&[&told[..], &more, DOC].concat());
    assert!(output.status.success(), "{}", printed(&output));
    let files = tree.generated();
    let holds = |text: &str| files.iter().any(|file| file.text.contains(text));
    for made in [
        " sine_of_double(self_: &Tensor) -> Tensor,",
        " sine_of_double_(self_: &Tensor) -> (),",
        " sine_of_double_out(",
        "SineOfDoubleBackward",
        "`sine_of_double(Tensor self) -> Tensor`\n\nWhat it computes.\n\n- **Types** not determined yet",
    ] {
        assert!(holds(made), "{made}");
    }
    // One word registers the kernel for GPUs.
    assert!(tree.text("native_functions.yaml").contains("    CPU, CUDA: pointwise::unary::sine_of_double\n"));
    assert!(
        tree.text("crates/ops/src/native/pointwise/unary.rs")
            .contains("build_unary_float_op(self_: x) => (x + x).sin();")
    );
    assert!(tree.text("tests/op_db/sine_of_double.rs").contains("|x: f64| (2.0 * x).sin()"));
    assert!(tree.text("tests/op_db.rs").contains("mod sine_of_double;"));
    assert!(
        ["crates/ops/src/native/pointwise/unary.rs", "tests/op_db/sine_of_double.rs"]
            .iter()
            .all(|file| tree.is_rust(file))
    );
}

#[test]
fn other_kernels_are_functions_that_refuse() {
    for (case, more) in [("structured", &[][..]), ("composite", &["--composite"])] {
        let tree = Tree::new(case);
        let schema = "halves.left(Tensor self, Tensor? weight, int[2] sizes, Scalar p=2) -> (Tensor, Tensor)";
        let output = tree.new_op(&[&[schema, "--module", "reduce/halves"], more, DOC].concat());
        assert!(output.status.success(), "{}", printed(&output));
        assert!(tree.generated().iter().any(|file| file.text.contains(" halves_left(")));
        let kernel = tree.text("crates/ops/src/native/reduce/halves.rs");
        assert!(kernel.starts_with("//! What it computes.") && kernel.contains("is not written yet"));
        assert!(
            tree.text("crates/ops/src/native/reduce.rs").contains("\npub mod halves;\npub mod hash_tensor;")
        );
        assert!(tree.text("tests/op_db/halves_left.rs").contains("no reference yet"));
        assert!(
            ["crates/ops/src/native/reduce/halves.rs", "tests/op_db/halves_left.rs"]
                .iter()
                .all(|file| tree.is_rust(file))
        );
    }
}

#[test]
fn each_kind_is_written_from_a_name() {
    let tree = Tree::new("kinds");
    let unary = ["twice", "--kind", "unary", "--formula", "x + x", "--reference", "2.0 * x"];
    let fold =
        ["--fold", "Sum", "--epilogue", "Divide(count as f64)", "--reference", "x.iter().sum::<f64>()"];
    let reduction = [&["middle", "--kind", "reduction"][..], &fold].concat();
    let unwritten = ["range", "--kind", "reduction"];
    let backward = ["both(Tensor self, Tensor? other) -> (Tensor a, Tensor b)", "--kind", "with-backward"];
    for arguments in [&unary[..], &reduction, &unwritten, &backward] {
        let output = tree.new_op(&[arguments, DOC].concat());
        assert!(output.status.success(), "{}", printed(&output));
    }
    let generated: String = tree.generated().into_iter().map(|file| file.text).collect();
    for made in [" twice(", " middle(", " range(", " both(", "BothBackward", " both_backward("] {
        assert!(generated.contains(made), "{made}");
    }
    let files = ["pointwise/unary", "reduce/middle", "reduce/range", "nn/both"];
    let files = files.map(|file| format!("crates/ops/src/native/{file}.rs"));
    let rows = ["twice", "middle", "range", "both"].map(|row| format!("tests/op_db/{row}.rs"));
    assert!(files.iter().chain(&rows).all(|file| tree.is_rust(file)));
    assert!(rows[2..].iter().all(|row| tree.text(row).contains("no reference yet")));
}

#[test]
fn what_cannot_be_is_refused_and_nothing_written() {
    let cases: [(&[&str], &str); 9] = [
        (&["neg(Tensor self) -> Tensor", "--module", "pointwise/unary"], "`neg` exists"),
        (&["two(Tensr self) -> Tensor", "--module", "pointwise/unary"], "unknown type"),
        (
            &["two(Tensor self, int n) -> Tensor", "--module", "pointwise/unary", "--formula", "x"],
            "written by hand",
        ),
        (&["two(Tensor self) -> Tensor"], "expected a file of the kernel"),
        (&["two(Tensor self) -> Tensor", "--module", "two"], "expected a folder and a file"),
        (&["two(Tensor self) -> Tensor", "--module", "twos/two"], "there is no folder"),
        (&["two", "--kind", "unary"], "expected a formula"),
        (&["two", "--kind", "unary", "--formula", "x", "--fold", "Sum"], "a fold for `--kind reduction`"),
        (&["two(Tensor self) -> Tensor", "--kind", "reduction", "--fold", "Sum"], "written by hand"),
    ];
    for (number, (arguments, message)) in cases.into_iter().enumerate() {
        let tree = Tree::new(&format!("refused{number}"));
        let before = FILES.iter().map(|file| tree.text(file)).collect::<Vec<_>>();
        let output = tree.new_op(&[arguments, DOC].concat());
        assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
        assert!(printed(&output).contains(message), "{}", printed(&output));
        assert_eq!(before, FILES.iter().map(|file| tree.text(file)).collect::<Vec<_>>());
    }
}
