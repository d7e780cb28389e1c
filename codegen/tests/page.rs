//! The page of operators: the text of an entry, and errors in the two tables.

use flambeau_codegen::{Faults, Source, operators_page};

const FUNCTIONS: &str = "\
- func: mul.Tensor(Tensor self, Tensor other) -> Tensor
  rust_name: mul
  variants: function, method
  structured: True
  structured_inherits: TensorIteratorBase
  dispatch:
    CPU: binary::mul
  autogen: mul_.Tensor, mul.out
  doc: The product. And more.

- func: mul_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
  rust_name: mul_scalar_
  variants: method
  dispatch:
    CPU: binary::mul_scalar_
  doc: The product with a number.

- func: mul.Scalar(Tensor self, Scalar other) -> Tensor
  rust_name: mul_scalar
  variants: function
  dispatch:
    CPU: binary::mul_scalar
  doc: The product with a number.

- func: max.dim(Tensor self, int dim) -> (Tensor values, Tensor indices)
  rust_name: max_dim
  variants: function
  dispatch:
    CPU: reduce::max
  doc: The maximum.

- func: eq(Tensor self, Tensor other) -> Tensor
  variants: function
  dispatch:
    CPU: compare::eq
  doc: Whether they are equal.

- func: outer(Tensor self, Tensor vec2) -> Tensor
  variants: function
  dispatch:
    CompositeImplicitAutograd: linear::outer
  doc: Products.
";

const DERIVATIVES: &str = "\
- name: mul.Tensor(Tensor self, Tensor other) -> Tensor
  self: grad * other
  other: grad *
    self
- name: mul.Scalar(Tensor self, Scalar other) -> Tensor
  self: grad * other
  result: auto_linear
- name: max.dim(Tensor self, int dim) -> (Tensor values, Tensor indices)
  output_differentiability: [True, False]
  self: grad
  values: self_t
- name: eq(Tensor self, Tensor other) -> Tensor
  output_differentiability: [False]
";

const TYPES: &str = "# found\nmul.Tensor\tall\nmul_.Tensor\tfloating\nmax.dim\tintegers\n";

const DIFFERENCES: &str = "\
| entry | kind | words | reason |
|---|---|---|---|
| `linalg.mul, max*` | `function values` | | NaN. |
";

fn page(types: &str, differences: &str) -> Result<String, Faults> {
    let [functions, derivatives, types, differences] = [
        ("f.yaml", FUNCTIONS),
        ("d.yaml", DERIVATIVES),
        ("types.tsv", types),
        ("differences.md", differences),
    ]
    .map(|(name, text)| Source { name, text });
    operators_page(functions, derivatives, types, differences).map(|file| file.text)
}

#[test]
fn an_entry_says_what_is_known() {
    let page = page(TYPES, DIFFERENCES).unwrap();
    let entries = [
        "### <a id=\"mul.Tensor\"></a>mul.Tensor\n\n`mul.Tensor(Tensor self, Tensor other) -> Tensor`\n\nThe product.\n\n\
         - **Types** all; in place floating\n- **Forms** function, method, `Tensor::mul`, `mul_.Tensor`, `mul.out`\n\
         - **Gradient** `self`: `grad * other`; `other`: `grad * self`\n- **Tangent** pointwise\n",
        "The product with a number.\n\n- **Types** not determined yet: run `cargo xtask types`\n\
         - **Forms** method, `Tensor::mul_scalar_`\n- **Gradient** as [mul.Scalar](#mul.Scalar)\n",
        "- **Gradient** `self`: `grad * other`\n- **Tangent** linear\n",
        "- **Types** integers\n- **Forms** function, `Tensor::max_dim`\n- **Gradient** `self`: `grad`; none through `indices`\n\
         - **Tangent** `self_t`\n- **Differs** `function values`: NaN.\n",
        "- **Gradient** none: not differentiable\n",
        "- **Gradient** of the operators it calls\n",
        "- **[binary](#family-binary)**: [mul](#mul.Tensor), [mul_](#mul_.Scalar)\n",
    ];
    for entry in entries {
        assert!(page.contains(entry), "{entry}\nis not in\n{page}");
    }
    assert_eq!(page.matches("**Differs** `").count(), 1);
}

#[test]
fn a_line_that_cannot_be_read_is_refused() {
    let faults = page("mul.Tensor all\n", "| entry | b |\n|---|---|\n| c |\n").unwrap_err().to_string();
    assert!(faults.contains("types.tsv:1:1: expected an operator, a tab and its types"), "{faults}");
    assert!(faults.contains("differences.md:3:1: expected a row of 4 cells"), "{faults}");
}
