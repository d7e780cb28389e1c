//! Golden tests: each folder of `golden/` has a YAML snippet and the Rust that is generated from it.
//!
//! Folders whose names begin with `python` have the bindings, `tangents` the kernels of forward mode, those with a `derivatives.yaml` the
//! recording kernels, and the others the operators. With `UPDATE_GOLDEN=1` the Rust is rewritten.

use std::path::{Path, PathBuf};
use std::process::Command;

use flambeau_codegen::{
    AUTOGRAD_FOLDER, FORWARD_FOLDER, Faults, OPS_FOLDER, PYTHON_FOLDER, Source, generate,
};

/// The generated Rust files of one folder for a snippet, without `mod.rs`; the name of `options/sort.rs` is `options_sort.rs`.
fn emitted(yaml: &str, derivatives: Option<&str>, folder: &str) -> Result<Vec<(String, String)>, Faults> {
    let functions = Source { name: "functions.yaml", text: yaml };
    let formulas = Source { name: "derivatives.yaml", text: derivatives.unwrap_or("[]") };
    let files = generate(functions, formulas)?;
    let named = files.into_iter().filter_map(|file| {
        let name = file.path.strip_prefix(folder)?.trim_start_matches('/').replace('/', "_");
        (name.ends_with(".rs") && !name.ends_with("mod.rs")).then_some((name, file.text))
    });
    Ok(named.collect())
}

/// The text without what rustfmt changes: white space, trailing commas, braces around a single import.
fn normal(text: &str) -> String {
    let squeezed: String = text.split_whitespace().collect();
    let plain = [",)", ",]", ",}"].iter().fold(squeezed, |text, end| text.replace(end, &end[1..]));
    plain.replace(['{', '}'], "")
}

fn cases() -> std::io::Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let entries: Result<Vec<_>, _> = std::fs::read_dir(folder)?.collect();
    let mut cases: Vec<PathBuf> = entries?.into_iter().map(|entry| entry.path()).collect();
    cases.sort();
    Ok(cases)
}

#[test]
fn snippets_become_the_rust_beside_them() {
    let cases = cases().unwrap();
    assert!(cases.len() >= 5);
    for case in cases {
        let functions = std::fs::read_to_string(case.join("functions.yaml")).unwrap();
        let derivatives = std::fs::read_to_string(case.join("derivatives.yaml")).ok();
        let is = |kind: &str| case.file_name().is_some_and(|name| name.to_string_lossy().starts_with(kind));
        let folder = match derivatives {
            _ if is("python") => PYTHON_FOLDER,
            _ if is("tangents") => FORWARD_FOLDER,
            Some(_) => AUTOGRAD_FOLDER,
            None => OPS_FOLDER,
        };
        for (name, text) in emitted(&functions, derivatives.as_deref(), folder).unwrap() {
            let beside = case.join(&name);
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::write(&beside, &text).unwrap();
                Command::new("rustfmt").args(["--edition", "2024"]).arg(&beside).status().unwrap();
            }
            let expected = std::fs::read_to_string(&beside).unwrap_or_default();
            assert!(normal(&expected) == normal(&text), "{} becomes\n{text}", beside.display());
        }
    }
}

const ENTRY: &str = "\
- func: neg(Tensor self) -> Tensor
  variants: function, method
  dispatch:
    CPU: unary::neg
  autogen: neg_, neg.out
  doc: The negative of each element.
";

/// A text to replace in the entry, its replacement, and a part of the expected error.
const REFUSED: &[(&str, &str, &str)] = &[
    ("  doc: The negative of each element.\n", "", "no `doc`"),
    ("unary::neg", "neg", "`module::function`"),
    ("CPU: unary::neg", "CPU: unary::neg\n    Meta: binary::neg", "all kernels in the module `unary`"),
    ("CPU:", "XPU:", "`XPU` is not a dispatch key here"),
    ("  dispatch:\n    CPU: unary::neg\n", "", "to name the kernels"),
    ("neg_, neg.out", "neg_, neg.out\n  structured_delegate: neg.out", "the delegate has the kernel"),
    ("-> Tensor\n", "-> QScheme\n", "single new `Tensor`"),
    ("Tensor self)", "Tensor self, Stream s)", "no form in Rust"),
    ("-> Tensor\n  variants", "-> Tensor[]\n  variants", "single new `Tensor`"),
    (
        "-> Tensor\n  variants: function, method\n  dispatch:\n    CPU: unary::neg\n  autogen: neg_, neg.out",
        "-> int\n  structured: True\n  dispatch:\n    CPU: unary::neg",
        "returns new tensors",
    ),
    ("Tensor self) -> Tensor", "Tensor(a) self) -> Tensor(a)", "single new `Tensor`"),
    ("-> Tensor\n", "-> (Tensor, QScheme)\n", "single new `Tensor`"),
    ("neg(Tensor self)", "neg(Tensor input)", "a method needs"),
    ("- func: neg(", "- func: clone(", "not a sibling"),
    ("neg(Tensor self) -> Tensor", "neg(Tensor self) -> (Tensor, Tensor)", "single new `Tensor`"),
    ("neg(Tensor self)", "neg.Tensor(Tensor self)", "an overload that becomes a method needs a `rust_name`"),
    ("  doc:", "  rust_name: neg__scalar\n  doc:", "`neg__scalar`: expected a name of lowercase words"),
    ("  doc:", "  rust_name: negT\n  doc:", "`negT`: expected a name of lowercase words"),
    ("  doc:", "  rust_name: neg_\n  doc:", "ends in `_`"),
    ("  doc:", "  rust_positional: self\n  doc:", "`self` is not an argument that may be absent"),
    ("  autogen: neg_, neg.out", "  structured: True\n  structured_inherits: Other", "TensorIteratorBase"),
];

#[test]
fn an_entry_without_a_form_in_rust_is_refused() {
    let run = |text: &str| {
        let source = Source { name: "functions.yaml", text };
        generate(source, Source { name: "derivatives.yaml", text: "[]" })
    };
    run(ENTRY).unwrap();
    for (from, to, message) in REFUSED {
        assert!(ENTRY.contains(from), "{from}");
        let faults = run(&ENTRY.replacen(from, to, 1)).expect_err(to);
        assert!(faults.to_string().contains(message), "{to}\n{faults}");
    }
    let one_name = "- func: neg.a_b(Tensor self) -> Tensor\n  dispatch:\n    CPU: unary::neg\n  doc: One.\n";
    let same_name = one_name.replace("neg.a_b", "neg_a.b");
    assert!(run(&format!("{one_name}{same_name}")).unwrap_err().to_string().contains("one name in Rust"));
    let other = ENTRY.replace("neg", "minus").replace("  doc:", "  rust_name: neg\n  doc:");
    assert!(run(&format!("{ENTRY}{other}")).unwrap_err().to_string().contains("the method `neg` exists"));
    let clone = ENTRY.replace("neg", "clone");
    assert!(run(&clone).unwrap_err().to_string().contains("would hide"));
}

#[test]
fn a_formula_at_fault_stops_the_generator() {
    let derivatives =
        Source { name: "derivatives.yaml", text: "- name: neg(Tensor self) -> Tensor\n  self: grad.nge()\n" };
    let faults = generate(Source { name: "functions.yaml", text: ENTRY }, derivatives).unwrap_err();
    assert!(
        faults.to_string().contains("derivatives.yaml:2:14: there is no operator or helper `nge`"),
        "{faults}"
    );
}

/// Formulas of tangents that lack a term or have an invalid one, and a part of the expected error.
const WRONG_TANGENTS: &[(&str, &str)] = &[
    ("self_t * other_p", "`other` has a gradient, and no term"),
    ("self_t * other_p + other_p", "has none"),
    ("self_t * other_t", "write a sum"),
];

#[test]
fn a_tangent_never_goes_missing_in_silence() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tangents");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let (functions, derivatives) = (read("functions.yaml"), read("derivatives.yaml"));
    for (wrong, message) in WRONG_TANGENTS {
        let changed = derivatives.replacen("self_t * other_p + other_t * self_p", wrong, 1);
        assert_ne!(changed, derivatives);
        let faults = emitted(&functions, Some(&changed), FORWARD_FOLDER).expect_err(wrong);
        assert!(faults.to_string().contains(message), "{wrong}\n{faults}");
    }
}
