//! The language of derivative formulas: resolution of calls, saved values, and errors with their positions.

use flambeau_codegen::formula::{Callee, Property, Saved, SavedWhat, Typed, TypedKind, Variable};
use flambeau_codegen::{Body, Derivatives, Faults, NativeFunctions, Source, TypedDerivative};

const FUNCTIONS: &str = "\
- func: add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
- func: add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
- func: sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
- func: sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
- func: mul.Tensor(Tensor self, Tensor other) -> Tensor
- func: mul.Scalar(Tensor self, Scalar other) -> Tensor
- func: div.Tensor(Tensor self, Tensor other) -> Tensor
- func: neg(Tensor self) -> Tensor
- func: reciprocal(Tensor self) -> Tensor
- func: gt.Scalar(Tensor self, Scalar other) -> Tensor
- func: lt.Scalar(Tensor self, Scalar other) -> Tensor
- func: where.self(Tensor condition, Tensor self, Tensor other) -> Tensor
- func: cos(Tensor self) -> Tensor
- func: zero_(Tensor(a!) self) -> Tensor(a!)
- func: sum(Tensor self, *, ScalarType? dtype=None) -> Tensor
- func: sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
- func: expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)
- func: sort(Tensor self, int dim=-1) -> (Tensor values, Tensor indices)
- func: var_mean(Tensor self) -> (Tensor, Tensor)
- func: pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor
- func: mm(Tensor self, Tensor mat2) -> Tensor
- func: cat(Tensor[] tensors, int dim=0) -> Tensor
- func: zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
  dispatch:
    CompositeExplicitAutograd: zeros
";

const HELPERS: &str = "\
- helpers:
  - pow_backward(Tensor grad, Tensor self, Scalar exponent) -> Tensor
  - mm_backward(Tensor grad, Tensor self, Tensor mat2, bool[2] mask) -> (Tensor, Tensor)
  - cat_backward(Tensor grad, int[][] sizes, int dim) -> Tensor[]
  - var_mean_backward(Tensor? gvar, Tensor? gmean, Tensor self) -> Tensor
  - scatter(Tensor grad, int dim, Tensor indices, int[] sizes) -> Tensor
";

/// Type-checks the derivatives of one operator.
fn typed(entry: &str) -> Result<TypedDerivative, Faults> {
    let functions = NativeFunctions::parse(Source { name: "functions.yaml", text: FUNCTIONS })?;
    let text = format!("{HELPERS}{entry}");
    let source = Source { name: "derivatives.yaml", text: &text };
    let derivatives = Derivatives::parse(source, &functions)?;
    Ok(derivatives.type_check(source, &functions)?.remove(0))
}

/// The formula of `self` for `cos`, whose argument is `self` and whose gradient is `grad`.
fn of_cos(formula: &str) -> Result<TypedDerivative, Faults> {
    typed(&format!("- name: cos(Tensor self) -> Tensor\n  self: {formula}\n"))
}

/// The operators and helpers that a formula calls, as an S-expression.
fn shape(typed: &Typed) -> String {
    let parts: Vec<String> = typed.children().into_iter().map(shape).collect();
    let name = match &typed.kind {
        TypedKind::Call(Callee::Operator(name), _) => name.to_string(),
        TypedKind::Call(Callee::Helper(name), _) => name.clone(),
        TypedKind::Property(_, property) => property.name().to_owned(),
        TypedKind::Variable(Variable::Input(name)) => name.clone(),
        TypedKind::Variable(Variable::Output(_)) => "result".to_owned(),
        TypedKind::Variable(Variable::Gradient(_)) => "grad".to_owned(),
        TypedKind::Int(value) => value.to_string(),
        TypedKind::Float(value) => value.to_string(),
        TypedKind::Binary(operator, ..) => operator.symbol().to_owned(),
        other => format!("{other:?}").split(['(', ' ']).next().unwrap_or_default().to_lowercase(),
    };
    if parts.is_empty() { name } else { format!("({name} {})", parts.join(" ")) }
}

fn shape_of(derivative: &TypedDerivative) -> String {
    match &derivative.backward[0].body {
        Body::Expression(typed) => shape(typed),
        Body::Special(special) => format!("{special:?}"),
    }
}

/// A formula and the calls to which it resolves.
const MEANINGS: &[(&str, &str)] = &[
    ("grad", "grad"),
    ("-grad", "(neg grad)"),
    ("grad * self", "(mul.Tensor grad self)"),
    ("grad * 2", "(mul.Scalar grad 2)"),
    ("2.5 * grad", "(mul.Scalar grad 2.5)"),
    ("grad * (1 - result * result)", "(mul.Tensor grad (add.Scalar (neg (mul.Tensor result result)) 1))"),
    ("1 / grad", "(mul.Scalar (reciprocal grad) 1)"),
    ("grad + self * result - self", "(sub.Tensor (add.Tensor grad (mul.Tensor self result)) self)"),
    ("0 < self", "(gt.Scalar self 0)"),
    ("where(self > 0, grad, grad * 0)", "(where.self (gt.Scalar self 0) grad (mul.Scalar grad 0))"),
    ("grad.where(self > 0, self)", "(where.self (gt.Scalar self 0) grad self)"),
    ("grad.sum()", "(sum grad)"),
    ("grad.sum(0)", "(sum.dim_IntList grad 0)"),
    ("grad.sum([0], true)", "(sum.dim_IntList grad (list 0) bool)"),
    ("grad.sum([0, 1])", "(sum.dim_IntList grad (list 0 1))"),
    ("grad.expand(self.sizes())", "(expand grad (sizes self))"),
    ("zeros(self.sizes(), self.options())", "(zeros (sizes self) (options self))"),
    ("zeros([self.size(0), self.size(-1)])", "(zeros (list (size self) (size self)))"),
    (
        "if self.dim() == 2 { grad } else if self.numel() > 1 && true { -grad } else { result }",
        "(if (== (dim self) 2) grad (if (&& (> (numel self) 1) bool) (neg grad) result))",
    ),
    ("grad.sort(0).1", "(field (sort grad 0))"),
    ("self.cos().mul(grad)", "(mul.Tensor (cos self) grad)"),
    ("grad * self.dim() * 2 / 3", ""),
    ("None", "none"),
    ("not_implemented(\"cos\")", "NotImplemented(\"cos\")"),
];

#[test]
fn formulas_mean_what_they_say() {
    for (formula, meaning) in MEANINGS {
        let result = of_cos(formula);
        match meaning.is_empty() {
            true => assert!(result.is_err(), "{formula}: {}", shape_of(&result.unwrap())),
            false => assert_eq!(shape_of(&result.unwrap_or_else(|faults| panic!("{faults}"))), *meaning),
        }
    }
}

/// A formula, the position of the error, and a part of the message.
const REFUSED: &[(&str, usize, &str)] = &[
    ("grad *", 6, "expected a value but got the end"),
    ("grad * slef", 7, "no value `slef`"),
    ("grad * cosh(self)", 7, "no operator or helper `cosh`"),
    ("grad.mm(2)", 8, "argument `mat2` of `mm`: expected Tensor but found int"),
    ("mm(grad)", 0, "needs its argument `mat2`"),
    ("mm(grad, self, self)", 15, "takes no more arguments"),
    ("grad + self.sizes()", 5, "no `add` takes (Tensor, int[])"),
    ("self.sizes()", 5, "expected the formula to give Tensor but found int[]"),
    ("grad.sort()", 5, "expected the formula to give Tensor but found (Tensor, Tensor)"),
    ("grad.sort().2", 12, ""),
    ("if grad { grad } else { self }", 3, "expected bool but found Tensor"),
    ("if true { grad } else { 1 }", 0, "branches of `if` differ: Tensor and int"),
    ("if true { grad }", 16, "expected `else`"),
    ("grad.zero_()", 5, "no operator or helper `zero_`"),
    ("mm(grad, &self)", 9, "no borrows"),
    ("grad.cos()?", 10, "no `?`"),
    ("1 < 2 < 3", 6, "do not chain"),
    ("grad.cos(,)", 9, "expected a value"),
    ("grad 2", 5, "end of the formula"),
    ("2 + true", 2, "not defined between int and bool"),
    ("self.sizes().cos()", 5, "expected Tensor but found int[]"),
    ("pow_backward(grad, self, [1])", 25, "expected Scalar but found int[]"),
    ("grad * 99999999999999999999", 7, "64 bits"),
    ("auto_linear", 0, "tangent of an output"),
    ("grads[0]", 0, "called `grad`"),
];

#[test]
fn faults_name_their_byte() {
    for (formula, at, message) in REFUSED {
        let faults = of_cos(formula).expect_err(formula);
        let fault = &faults.0[0];
        assert!(fault.message.contains(message), "{formula}\n{faults}");
        let column = "  self: ".len() + at + 1;
        assert!(
            message.is_empty() || fault.column == column,
            "{formula}: expected column {column}\n{faults}"
        );
    }
}

#[test]
fn a_fault_shows_the_formula_and_a_caret() {
    let faults = of_cos("grad.mm(self.sizes())").unwrap_err();
    let line = HELPERS.lines().count() + 2;
    let expected = format!(
        "derivatives.yaml:{line}:22: argument `mat2` of `mm`: expected Tensor but found int[]\n   |\n {line} |   self: grad.mm(self.sizes())\n   |                      ^"
    );
    assert_eq!(faults.0[0].to_string(), expected);
}

#[test]
fn deep_formulas_are_refused_and_do_not_exhaust_the_stack() {
    for deep in
        ["(".repeat(50_000), "-".repeat(50_000), "if true { grad } else ".repeat(50_000), "[".repeat(50_000)]
    {
        assert!(of_cos(&format!("{deep}grad")).is_err());
    }
}

fn saved(derivative: &TypedDerivative) -> Vec<String> {
    let show = |saved: &Saved| {
        let name = match &saved.variable {
            Variable::Input(name) => name.clone(),
            Variable::Output(index) => format!("result{index}"),
            other => format!("{other:?}, which is never saved"),
        };
        match saved.what {
            SavedWhat::Tensor => name,
            SavedWhat::Value => format!("{name} by value"),
            SavedWhat::Property(Property::Size(dim)) => format!("{name}.size({dim})"),
            SavedWhat::Property(property) => format!("{name}.{}()", property.name()),
        }
    };
    derivative.saved.iter().map(show).collect()
}

#[test]
fn a_tensor_is_saved_only_if_its_values_are_used() {
    let of = |entry: &str| saved(&typed(entry).unwrap_or_else(|faults| panic!("{faults}")));
    let cos = |formula: &str| saved(&of_cos(formula).unwrap());
    assert!(cos("grad").is_empty());
    assert_eq!(cos("grad.expand(self.sizes())"), ["self.sizes()"]);
    assert_eq!(cos("grad.expand(self.sizes()) * self"), ["self"]);
    assert_eq!(cos("grad * result"), ["result0"]);
    assert_eq!(cos("zeros([result.size(0)], self.options())"), ["self.options()", "result0.size(0)"]);
    assert!(cos("grad.expand(grad.sizes())").is_empty());
    let pow = "- name: pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor\n  self: pow_backward(grad, self, exponent)\n";
    assert_eq!(of(pow), ["exponent by value", "self"]);
    let mm = "- name: mm(Tensor self, Tensor mat2) -> Tensor\n  self, mat2: mm_backward(grad, self, mat2, grad_input_mask)\n";
    assert_eq!(of(mm), ["mat2", "self"]);
    let cat = "- name: cat(Tensor[] tensors, int dim=0) -> Tensor\n  tensors: cat_backward(grad, tensors.sizes(), dim)\n";
    assert_eq!(of(cat), ["dim by value", "tensors.sizes()"]);
    let sort = "- name: sort(Tensor self, int dim=-1) -> (Tensor values, Tensor indices)\n  self: scatter(grad, dim, indices, self.sizes())\n  output_differentiability: [True, False]\n";
    assert_eq!(of(sort), ["dim by value", "self.sizes()", "result1"]);
    let var = "- name: var_mean(Tensor self) -> (Tensor, Tensor)\n  self: var_mean_backward(grads[0], grads[1], self)\n";
    assert_eq!(of(var), ["self"]);
}

#[test]
fn every_tensor_input_is_named() {
    let missing =
        typed("- name: mm(Tensor self, Tensor mat2) -> Tensor\n  self: grad.mm(mat2)\n").unwrap_err();
    assert!(missing.0[0].message.contains("`mat2` has neither a formula"), "{missing}");
    typed(
        "- name: mm(Tensor self, Tensor mat2) -> Tensor\n  self: grad.mm(mat2)\n  mat2: non_differentiable\n",
    )
    .unwrap();
}

#[test]
fn forward_formulas_name_values_and_tangents() {
    let entry =
        |formula: &str| format!("- name: cos(Tensor self) -> Tensor\n  self: grad\n  result: {formula}\n");
    let forward = typed(&entry("self_t * self_p")).unwrap();
    assert_eq!(forward.forward.len(), 1);
    assert!(typed(&entry("auto_linear")).is_ok());
    assert!(typed(&entry("grad")).is_err());
    assert!(typed(&entry("self_t * self_q")).is_err());
}
