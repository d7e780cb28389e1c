//! Derives variants of an operator: the schemas of `add_.Tensor` and `add.out` from that of `add.Tensor`.

use crate::schema::{Alias, AliasSet, Argument, BaseType, FunctionSchema, OperatorName, Return, Type};

/// How a variant differs from the entry from which it is derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Writes nothing, and returns the values that the original writes: `rrelu_with_noise_functional`.
    Functional,
    /// Writes its `self`: `add_.Tensor`.
    InPlace,
    /// Writes into arguments given after the `*`: `add.out`.
    Out,
}

/// PyTorch's names of `out=` overloads that do not end in `out`.
const OUT_BY_ANOTHER_NAME: &[&str] = &[
    "L",
    "Q",
    "U",
    "X",
    "a",
    "dim_max",
    "dim_min",
    "dim_values",
    "eigenvalues",
    "eigvals",
    "grad_input",
    "inverse",
    "out_mode",
    "out_rcond_tensor",
    "out_tol_tensor",
    "result",
    "sign",
    "values",
    "values_stable",
];

/// The variant that has this name.
pub fn variant_of(name: &OperatorName) -> Variant {
    let overload = name.overload.as_str();
    // `xlogy.OutTensor` and its overloads are the only ones that begin with it.
    let is_out = overload == "out"
        || overload.ends_with("_out")
        || overload.starts_with("Out")
        || OUT_BY_ANOTHER_NAME.contains(&overload);
    match () {
        () if name.is_in_place() => Variant::InPlace,
        () if is_out => Variant::Out,
        () => Variant::Functional,
    }
}

/// The schema of a variant with the name that `autogen` gives.
///
/// # Errors
/// The reason why the original has no such variant, in one sentence.
pub fn sibling(original: &FunctionSchema, name: &OperatorName) -> Result<FunctionSchema, String> {
    let mut schema = match variant_of(name) {
        Variant::Functional if original.is_functional() => {
            return Err("the operator is functional itself".to_owned());
        }
        Variant::Functional => functional(original)?,
        Variant::InPlace => in_place(original)?,
        // Arguments that the original writes are written by the `out=` variant too.
        Variant::Out if !original.is_in_place() && !original.is_out() => out(original)?,
        Variant::Out => out(&functional(original)?)?,
    };
    schema.name = name.clone();
    // The only argument to which PyTorch gives the name of the overload.
    if let ([out], "grad_input") = (schema.out.as_mut_slice(), name.overload.as_str()) {
        out.name = name.overload.clone();
    }
    Ok(schema)
}

fn written(letter: u8) -> Option<Alias> {
    let name = char::from(letter).to_string();
    Some(Alias { before: vec![AliasSet { name, write: true }], after: vec![] })
}

/// The functional variant: it only reads the arguments that the original writes, and returns their new values as further results.
fn functional(original: &FunctionSchema) -> Result<FunctionSchema, String> {
    if original.is_out() {
        return Err("an `out=` operator has no functional sibling".to_owned());
    }
    let mut schema = original.clone();
    let in_place = original.is_in_place();
    for argument in schema.positional.iter_mut().filter(|argument| argument.is_written()) {
        argument.alias = None;
        if in_place && argument.name == "self" {
            schema.returns = vec![Return { name: None, ty: argument.ty.clone(), alias: None }];
        } else {
            let name = Some(format!("{}_out", argument.name));
            schema.returns.push(Return { name, ty: argument.ty.clone(), alias: None });
        }
    }
    Ok(schema)
}

fn in_place(original: &FunctionSchema) -> Result<FunctionSchema, String> {
    let tensor = Type::Base(BaseType::Tensor);
    let Some(index) = original.positional.iter().position(|a| a.name == "self" && a.ty == tensor) else {
        return Err("an in-place sibling needs an argument `Tensor self`".to_owned());
    };
    match original.returns.as_slice() {
        [only] if only.ty == tensor && only.alias.is_none() && original.is_functional() => {}
        _ => return Err("an in-place sibling needs a single new `Tensor` as the result".to_owned()),
    }
    let mut schema = original.clone();
    schema.positional[index].alias = written(b'a');
    schema.returns = vec![Return { name: None, ty: tensor, alias: written(b'a') }];
    Ok(schema)
}

fn out(original: &FunctionSchema) -> Result<FunctionSchema, String> {
    let tensor = Type::Base(BaseType::Tensor);
    if original.is_view() {
        return Err("a view has no `out=` sibling: it has no memory of its own".to_owned());
    }
    let mut schema = original.clone();
    if let Some(options) = original.tensor_options() {
        schema.keyword.drain(options);
    }
    let several = original.returns.len() > 1;
    let lists = original.returns.iter().any(|result| result.ty != tensor);
    let first = b'a' + original.arguments().filter(|argument| argument.is_written()).count() as u8;
    for (letter, (index, result)) in (first..=b'z').zip(original.returns.iter().enumerate()) {
        if !result.ty.holds_tensors() {
            return Err(format!("a `{}` cannot be written into an `out=` argument", result.ty));
        }
        let unnamed = if several { format!("out{index}") } else { "out".to_owned() };
        let name = result.name.clone().filter(|_| several).unwrap_or(unnamed);
        schema.out.push(Argument { name, ty: result.ty.clone(), alias: written(letter), default: None });
    }
    if schema.out.is_empty() {
        return Err("an operator that returns nothing has no `out=` sibling".to_owned());
    }
    let returned = |argument: &Argument| Return {
        name: if several { Some(argument.name.clone()) } else { None },
        ty: argument.ty.clone(),
        alias: argument.alias.clone(),
    };
    schema.returns = if lists { vec![] } else { schema.out.iter().map(returned).collect() };
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derive(original: &str, name: &str) -> Result<String, String> {
        let original = FunctionSchema::parse(original).unwrap();
        let schema = sibling(&original, &OperatorName::parse(name).unwrap())?;
        assert_eq!(FunctionSchema::parse(&schema.to_string()).unwrap(), schema);
        Ok(schema.to_string())
    }

    #[test]
    fn siblings_print_as_pytorch_writes_them() {
        let add = "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor";
        let add_ = "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)";
        let add_out = "add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)";
        assert_eq!(derive(add, "add_.Tensor").unwrap(), add_);
        assert_eq!(derive(add, "add.out").unwrap(), add_out);
        assert_eq!(
            derive("f_backward(Tensor grad) -> Tensor", "f_backward.grad_input").unwrap(),
            "f_backward.grad_input(Tensor grad, *, Tensor(a!) grad_input) -> Tensor(a!)"
        );
        assert_eq!(
            derive("topk(Tensor self, SymInt k) -> (Tensor values, Tensor indices)", "topk.values_out")
                .unwrap(),
            "topk.values_out(Tensor self, SymInt k, *, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)"
        );
        assert!(derive("sort(Tensor self) -> (Tensor values, Tensor indices)", "sort.values").is_ok());
        assert_eq!(
            derive("full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", "full.out").unwrap(),
            "full.out(SymInt[] size, Scalar fill_value, *, Tensor(a!) out) -> Tensor(a!)"
        );
        assert_eq!(
            derive("f(Tensor self, Tensor(a!) mean) -> (Tensor, Tensor)", "f.out").unwrap(),
            "f.out(Tensor self, Tensor(a!) mean, *, Tensor(b!) out0, Tensor(c!) out1) -> (Tensor(b!) out0, Tensor(c!) out1)"
        );
        assert_eq!(
            derive("rrelu(Tensor self, Tensor(b!) noise) -> Tensor", "rrelu_functional").unwrap(),
            "rrelu_functional(Tensor self, Tensor noise) -> (Tensor, Tensor noise_out)"
        );
    }

    #[test]
    fn an_operator_without_such_a_sibling_says_why() {
        assert!(derive("zeros(int[] size) -> Tensor", "zeros_").unwrap_err().contains("self"));
        assert!(derive("item(Tensor self) -> Scalar", "item.out").unwrap_err().contains("Scalar"));
        assert!(
            derive("view(Tensor(a) self, int[] size) -> Tensor(a)", "view_").unwrap_err().contains("new")
        );
    }
}
