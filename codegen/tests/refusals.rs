//! Invalid entries: each is a change to valid files, with the line of the expected error.

use flambeau_codegen::{Derivatives, Faults, NativeFunctions, Source};

const FUNCTIONS: &str = "\
- func: add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  device_check: NoCheck
  structured_delegate: add.out
  variants: function, method
  tags: [core, pointwise]

- func: add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)
  structured: True
  structured_inherits: TensorIteratorBase
  dispatch:
    CPU, CUDA: add_out

- func: topk(Tensor self, SymInt k) -> (Tensor values, Tensor indices)
  variants: function
  autogen: topk.out
  dispatch:
    CPU: topk
";

const DERIVATIVES: &str = "\
- name: add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  self: handle_r_to_c(self.scalar_type(), grad)
  other: maybe_multiply(grad, alpha)
  result: self_t + other_t

- name: topk(Tensor self, SymInt k) -> (Tensor values, Tensor indices)
  self: value_selecting_reduction_backward(grad, indices, self.sizes())
  output_differentiability: [True, False]
";

fn read(functions: &str, derivatives: &str) -> Result<(usize, usize), Faults> {
    let functions = NativeFunctions::parse(Source { name: "functions.yaml", text: functions })?;
    let derivatives = Derivatives::parse(Source { name: "derivatives.yaml", text: derivatives }, &functions)?;
    Ok((functions.entries.len(), derivatives.entries.len()))
}

#[test]
fn the_files_read_whole() {
    assert_eq!(read(FUNCTIONS, DERIVATIVES).unwrap(), (3, 2));
}

/// A text to replace in the functions, its replacement, the line of the error, and a part of the message.
const IN_FUNCTIONS: &[(&str, &str, usize, &str)] = &[
    ("Tensor other", "Tensr other", 1, "unknown type"),
    ("-> Tensor\n", "Tensor\n", 1, "expected ` -> `"),
    ("- func: topk(", "- func: add.out(", 13, "given twice"),
    ("variants: function\n", "variants: functional\n", 14, "but got `functional`"),
    ("variants: function, method", "variants: function, function", 4, "given twice"),
    ("variants: function\n", "variants: function\n  varients: method\n", 15, "unknown field `varients`"),
    ("variants: function\n", "variants: function\n  variants: method\n", 15, "twice"),
    ("structured: True", "structured: yes please", 8, "True or False"),
    ("structured: True\n  ", "", 7, "needs `structured"),
    ("structured_delegate: add.out", "structured_delegate: add.outt", 3, "no operator `add.outt`"),
    ("structured_delegate: add.out", "structured_delegate: topk", 3, "not structured"),
    ("structured_delegate: add.out\n", "dispatch:\n    CPU: add\n", 1, "needs `structured_delegate`"),
    (
        "  structured_delegate: add.out\n",
        "  structured_delegate: add.out\n  dispatch:\n    CPU: a\n",
        1,
        "the delegate",
    ),
    ("CPU: topk", "CPUU: topk", 17, "unknown dispatch key `CPUU`"),
    ("CPU: topk", "CPU, CPU: topk", 17, "given twice"),
    ("CPU: topk", "CPU: top k", 17, "path of a kernel"),
    ("CPU: topk", "CPU:", 17, "expected text"),
    ("CPU, CUDA: add_out", "CompositeImplicitAutograd: add_out", 7, "no composite"),
    ("  dispatch:\n    CPU: topk", "  dispatch: [topk]", 16, "a map"),
    ("TensorIteratorBase", "TensorIterator", 9, "expected TensorIteratorBase"),
    ("tags: [core, pointwise]", "tags: [core, pointwize]", 5, "unknown tag"),
    ("NoCheck", "NoChek", 2, "NoCheck"),
    ("autogen: topk.out", "autogen: topk.foo", 15, "functional itself"),
    ("autogen: topk.out", "autogen: topk_", 15, "single new `Tensor`"),
    ("autogen: topk.out", "autogen: sort.out", 15, "not a sibling"),
    ("autogen: topk.out", "autogen: topk.out, topk.out", 15, "generated twice"),
    ("autogen: topk.out", "autogen: add.out", 15, "entry of its own"),
    ("autogen: topk.out", "autogen: topk.out,", 15, "overload name"),
    ("- func: topk", "- funk: topk", 13, "no `func`"),
    ("variants: function\n", "variants: method\n  python_module: nn\n", 13, "Python module"),
    ("other, *, Scalar alpha=1, Tensor(a!) out", "other, *, Scalar alpha=2, Tensor(a!) out", 3, "signature"),
    ("- func: topk", "- topk\n- func: topk", 13, "expected an entry"),
    (
        "k) -> (Tensor values",
        "k, *, Generator? generator=None) -> (Tensor values",
        13,
        "nondeterministic_seeded",
    ),
    ("Tensor self, SymInt k", "Tensor self, SymInt lambda", 13, "Python keyword"),
];

const IN_DERIVATIVES: &[(&str, &str, usize, &str)] = &[
    ("  other: may", "  othr: may", 3, "no argument or output `othr`"),
    ("  other: may", "  self: may", 3, "twice"),
    ("  other: may", "  alpha: may", 3, "`alpha` is a `Scalar`"),
    ("  other: may", "  other, self: may", 3, "two formulas"),
    ("  other: may", "  other, result: may", 3, "inputs or tangents"),
    ("name: topk(Tensor self, SymInt k)", "name: topk(Tensor self, int k)", 6, "expected the signature"),
    ("name: topk(", "name: sort(", 6, "no operator `sort`"),
    ("- name: topk(", "- nome: topk(", 6, "no `name`"),
    ("grad, alpha)", "grad, alfa)", 3, "no value `alfa`"),
    ("self_t + other_t", "auto_linar", 4, "no value `auto_linar`"),
    ("maybe_multiply(grad, alpha)", "auto_linear", 3, "tangent of an output"),
    ("self_t + other_t", "non_differentiable", 4, "said of an input"),
    ("grad, alpha)", "grad, alpha", 3, "never closed"),
    ("grad, alpha)", "grad, alpha))", 3, "closes nothing"),
    ("grad, alpha)", "grad, alpha]", 3, "closes the `(`"),
    ("maybe_multiply(grad, alpha)", "", 3, "expected text"),
    ("maybe_multiply(grad, alpha)", "\"\"", 3, "empty"),
    ("grad, alpha)", "grads[0], alpha)", 3, "mixes"),
    ("grad, indices", "grads[2], indices", 7, "2 outputs"),
    ("grad, indices", "grads[0], indices", 7, "is called `grad`"),
    ("self_t +", "self +", 4, "`self_p` or `self_t`"),
    ("result: ", "result1: ", 4, "no argument or output `result1`"),
    ("[True, False]", "[True, False, False]", 8, "each of 2 outputs"),
    ("[True, False]", "True", 8, "a list"),
    ("[True, False]", "[True, 0]", 8, ""),
    ("  self: value", "  dispatch:\n    Defualt:\n      self: value", 8, "unknown dispatch key"),
];

#[test]
fn a_changed_function_is_refused_at_its_line() {
    for (from, to, line, message) in IN_FUNCTIONS {
        assert!(FUNCTIONS.contains(from), "{from}");
        let faults = read(&FUNCTIONS.replacen(from, to, 1), DERIVATIVES).expect_err(to);
        check(&faults, to, *line, message);
    }
}

#[test]
fn a_changed_derivative_is_refused_at_its_line() {
    for (from, to, line, message) in IN_DERIVATIVES {
        assert!(DERIVATIVES.contains(from), "{from}");
        check(&read(FUNCTIONS, &DERIVATIVES.replacen(from, to, 1)).expect_err(to), to, *line, message);
    }
}

fn check(faults: &Faults, change: &str, line: usize, message: &str) {
    let first = &faults.0[0];
    assert!(first.message.contains(message), "{change}\n{faults}");
    assert!(message.is_empty() || first.line == line, "{change}: expected line {line}\n{faults}");
}

#[test]
fn a_document_must_be_a_list() {
    for text in ["", "a: b", "text", "- func: [", "\t- a"] {
        assert!(read(text, DERIVATIVES).is_err(), "{text:?}");
        assert!(read(FUNCTIONS, text).is_err(), "{text:?}");
    }
    assert_eq!(read("[]", "[]").unwrap(), (0, 0));
}

#[test]
fn helpers_stand_first_and_are_schemas() {
    let helper = "- helpers: [\"maybe_multiply(Tensor grad, Scalar alpha) -> Tensor\"]\n";
    assert!(read(FUNCTIONS, &format!("{helper}{DERIVATIVES}")).is_ok());
    assert!(read(FUNCTIONS, &format!("{DERIVATIVES}{helper}")).is_err());
    assert!(
        read(FUNCTIONS, &format!("{helper}{helper}{DERIVATIVES}").replace("Tensor grad", "Tensr grad"))
            .is_err()
    );
}
