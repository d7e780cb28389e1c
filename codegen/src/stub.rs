//! The functions that the author of an operator has to complete, with the parameters of its schema.

use crate::naming;
use crate::schema::{Argument, BaseType, FunctionSchema, Type};

/// How an operator is implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stub<'a> {
    /// A formula of one, two or three tensors, element by element.
    Pointwise(&'a str),
    /// A fold along dimensions, and what is applied to its accumulator: a new file.
    Reduction {
        /// `SumOfSquares`.
        fold: &'a str,
        /// `Divide(count as f64)`, with the number of elements that are folded to one.
        epilogue: &'a str,
    },
    /// A meta function that computes shapes, and a kernel that fills the outputs.
    Structured,
    /// Calls of other operators, whose derivatives are those of the calls.
    Composite,
    /// Calls of other operators, with a derivative of its own.
    CompositeExplicit,
}

impl Stub<'_> {
    /// Whether it has an entry in `derivatives.yaml`.
    pub fn has_derivative(self) -> bool {
        self != Stub::Composite
    }

    /// The keys of its kernel: the loops of formulas are those of GPUs too.
    pub fn dispatch_keys(self) -> &'static str {
        match self {
            Stub::Composite => "CompositeImplicitAutograd",
            Stub::CompositeExplicit => "CompositeExplicitAutograd",
            Stub::Pointwise(_) => "CPU, CUDA",
            Stub::Reduction { .. } | Stub::Structured => "CPU",
        }
    }

    /// Whether one meta function and one kernel serve all its variants.
    pub fn is_structured(self) -> bool {
        !matches!(self, Stub::Composite | Stub::CompositeExplicit)
    }
}

/// The paths of names from the root of the crate, so that a stub needs no `use`.
const PATHS: &[(&str, &str)] = &[
    ("Tensor", "crate"),
    ("Generator", "flambeau_core"),
    ("Storage", "flambeau_core"),
    ("Scalar", "flambeau_core"),
    ("ScalarType", "flambeau_core"),
    ("Layout", "flambeau_core"),
    ("Device", "flambeau_core"),
    ("MemoryFormat", "flambeau_core"),
];

/// The name of an operator's kernel.
pub fn kernel_name(schema: &FunctionSchema) -> String {
    naming::function(&schema.name)
}

/// The kernel of an operator as Rust that compiles: formulas and reductions are complete, and all other kernels return an error.
///
/// # Errors
/// The reason why the schema has no such kernel, in one sentence.
pub fn kernel_stub(schema: &FunctionSchema, stub: Stub<'_>, doc: &str) -> Result<String, String> {
    match stub {
        Stub::Pointwise(formula) => pointwise(schema, formula, doc),
        Stub::Reduction { fold, epilogue } => reduction(schema, fold, epilogue, doc),
        Stub::Structured => structured(schema, doc),
        Stub::Composite | Stub::CompositeExplicit => composite(schema, doc),
    }
}

fn pointwise(schema: &FunctionSchema, formula: &str, doc: &str) -> Result<String, String> {
    let arguments: Vec<&Argument> = schema.arguments().collect();
    if arguments.iter().any(|argument| argument.ty != Type::Base(BaseType::Tensor)) {
        return Err("a formula of arguments that are no tensors is written by hand".to_owned());
    }
    let build = match arguments.len() {
        1 => "build_unary_float_op",
        2 => "build_binary_float_op",
        count => return Err(format!("a formula of {count} tensors is written by hand")),
    };
    let lanes = arguments.iter().zip(["x", "y"]);
    let tensors: Vec<String> =
        lanes.map(|(argument, lane)| format!("{}: {lane}", naming::identifier(&argument.name))).collect();
    let name = kernel_name(schema);
    Ok(format!(
        "formulas! {{ float_kernel(FloatFormula, Float) -> V:\n    /// {doc}\n    fn {name}, {name}_meta = {build}({}) => {formula};\n}}\n",
        tensors.join(", ")
    ))
}

/// The arguments of a reduction that is written whole.
const REDUCED: &str = "Tensor self, int[1]? dim=None, bool keepdim=False";

fn reduction(schema: &FunctionSchema, fold: &str, epilogue: &str, doc: &str) -> Result<String, String> {
    if !schema.to_string().ends_with(&format!("({REDUCED}) -> Tensor")) {
        return Err(format!("a reduction of other arguments than `{REDUCED}` is written by hand"));
    }
    let (name, operator) = (kernel_name(schema), &schema.name);
    let count = "    let count = mask.count(self_.sizes());\n";
    let count = if epilogue.contains("count") { count } else { "" };
    Ok(format!(
        "use super::reduced_spec::{{mask_of, reduced_spec}};
use crate::Tensor;
use crate::loops::reduce::{{Epilogue, {fold}, computing_type, sum_fold}};
use crate::structured::TensorSpec;
use flambeau_core::{{Result, ensure}};

/// Shape and type of [`{name}`].
pub fn {name}_meta(self_: &Tensor, dim: Option<&[i64]>, keepdim: bool) -> Result<TensorSpec> {{
    let own = self_.dtype();
    ensure!(own.is_floating_point(), Dtype, \"{operator}: expected a floating point tensor but got {{own}}\");
    reduced_spec(\"{operator}\", self_, dim, keepdim, own)
}}

/// {doc}
pub fn {name}(self_: &Tensor, dim: Option<&[i64]>, _keepdim: bool, out: &Tensor) -> Result<()> {{
    let mask = mask_of(\"{operator}\", self_, dim)?;
{count}    sum_fold(self_, out, mask, computing_type(out.dtype()), {fold}, Epilogue::{epilogue})
}}
"
    ))
}

fn structured(schema: &FunctionSchema, doc: &str) -> Result<String, String> {
    let name = kernel_name(schema);
    let results = schema.returns.len();
    let specs = vec!["crate::structured::TensorSpec"; results].join(", ");
    let spec = if results == 1 { specs } else { format!("({specs})") };
    let mut parameters = parameters(schema)?;
    let meta =
        function(&format!("{name}_meta"), &format!("Shape and type of [`{name}`]."), &parameters, &spec);
    for index in 0..results {
        let out = if results == 1 { "_out".to_owned() } else { format!("_out{index}") };
        parameters.push(format!("{out}: &crate::Tensor"));
    }
    Ok(format!("{meta}\n{}", function(&name, doc, &parameters, "()")))
}

fn composite(schema: &FunctionSchema, doc: &str) -> Result<String, String> {
    let returned = naming::returned(schema).ok_or("what it returns has no form in Rust yet")?;
    Ok(function(&kernel_name(schema), doc, &parameters(schema)?, &with_paths(&returned)))
}

fn parameters(schema: &FunctionSchema) -> Result<Vec<String>, String> {
    let parameter = |argument: &Argument| {
        let ty = naming::parameter(&argument.ty).ok_or_else(|| {
            format!("argument `{}`: a `{}` has no form in Rust yet", argument.name, argument.ty)
        })?;
        Ok(format!("_{}: {}", argument.name, with_paths(&ty)))
    };
    schema.arguments().map(parameter).collect()
}

fn function(name: &str, doc: &str, parameters: &[String], returned: &str) -> String {
    let many = if parameters.len() > 7 {
        "#[expect(clippy::too_many_arguments, reason = \"the schema's\")]\n"
    } else {
        ""
    };
    format!(
        "/// {doc}\n{many}pub fn {name}({}) -> flambeau_core::Result<{returned}> {{\n    \
         flambeau_core::bail!(NotImplemented, \"{name} is not written yet\")\n}}\n",
        parameters.join(", ")
    )
}

/// A type with the path of every name in it.
fn with_paths(ty: &str) -> String {
    let mut text = String::new();
    for word in ty.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let name = word.trim_end_matches(|c: char| !c.is_alphanumeric());
        if let Some((_, path)) = PATHS.iter().find(|(known, _)| *known == name) {
            text += path;
            text += "::";
        }
        text += word;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stub(schema: &str, stub: Stub<'_>) -> Result<String, String> {
        kernel_stub(&FunctionSchema::parse(schema).unwrap(), stub, "What it does.")
    }

    #[test]
    fn parameters_are_those_of_the_schema() {
        let composite =
            stub("f(Tensor self, Tensor? w, int[2] k, *, Scalar? a=None) -> Tensor", Stub::Composite);
        assert_eq!(
            composite.unwrap(),
            "/// What it does.\npub fn f(_self: &crate::Tensor, _w: Option<&crate::Tensor>, _k: &[i64], \
             _a: Option<flambeau_core::Scalar>) -> flambeau_core::Result<crate::Tensor> {\n    \
             flambeau_core::bail!(NotImplemented, \"f is not written yet\")\n}\n"
        );
        let structured = stub("f(Tensor self) -> (Tensor, Tensor)", Stub::Structured).unwrap();
        assert!(
            structured
                .contains("pub fn f_meta(_self: &crate::Tensor) -> flambeau_core::Result<(crate::structured")
        );
        assert!(
            structured
                .contains("pub fn f(_self: &crate::Tensor, _out0: &crate::Tensor, _out1: &crate::Tensor)")
        );
    }

    #[test]
    fn a_reduction_counts_what_it_divides_by() {
        let kind = |epilogue| Stub::Reduction { fold: "Sum", epilogue };
        let schema = "f(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor";
        let mean = stub(schema, kind("Divide(count as f64)")).unwrap();
        assert!(mean.contains("let count = mask.count(self_.sizes());\n    sum_fold(self_, out, mask"));
        assert!(mean.contains("computing_type(out.dtype()), Sum, Epilogue::Divide(count as f64))"));
        assert!(!stub(schema, kind("Identity")).unwrap().contains("count"));
        assert!(stub("f(Tensor self, int dim) -> Tensor", kind("Identity")).is_err());
    }

    #[test]
    fn a_formula_names_its_lanes() {
        let text =
            stub("hyp(Tensor self, Tensor other) -> Tensor", Stub::Pointwise("(x * x + y * y).sqrt()"))
                .unwrap();
        assert!(text.contains(
            "fn hyp, hyp_meta = build_binary_float_op(self_: x, other: y) => (x * x + y * y).sqrt();"
        ));
        assert!(stub("f(Tensor self, int n) -> Tensor", Stub::Pointwise("x")).is_err());
    }
}
