//! The operator that computes the derivative of another: its schema, and the formula that calls it.

use flambeau_codegen::{FunctionSchema, Return};

/// `gated_tanh_backward(Tensor? grad_output, .., Tensor activation, Tensor? gate, bool[2] output_mask) -> (Tensor, Tensor)`: the gradients
/// of the results, the saved tensors, the arguments that are no tensors, and which gradients are requested.
pub(super) fn schema(forward: &FunctionSchema, saved: &[String]) -> Result<FunctionSchema, String> {
    let results = results(forward);
    let mut parameters: Vec<String> = match &results[..] {
        [_] => vec!["Tensor grad_output".to_owned()],
        several => several.iter().map(|name| format!("Tensor? grad_{name}")).collect(),
    };
    let inputs = tensors(forward);
    let all: Vec<String> = inputs.iter().map(|(name, _)| name.clone()).collect();
    for name in if saved.is_empty() { &all } else { saved } {
        let result =
            results.iter().find(|result| *result == name).map(|result| ("Tensor".to_owned(), result));
        let input = inputs.iter().find(|(input, _)| input == name).map(|(input, ty)| (ty.clone(), input));
        let (ty, name) = input.or(result).ok_or(format!("`{name}` is no tensor of `{forward}`"))?;
        parameters.push(format!("{ty} {name}"));
    }
    let others = forward.inputs().filter(|argument| !argument.ty.holds_tensors());
    parameters.extend(others.map(|argument| format!("{} {}", argument.ty, argument.name)));
    let count = inputs.len();
    if count > 1 {
        parameters.push(format!("bool[{count}] output_mask"));
    }
    let returned =
        if count > 1 { format!("({})", vec!["Tensor"; count].join(", ")) } else { "Tensor".to_owned() };
    let text = format!("{}_backward({}) -> {returned}", forward.name.base, parameters.join(", "));
    FunctionSchema::parse(&text).map_err(|error| format!("{text}: {}", error.message))
}

/// `self, gate: gated_tanh_backward(grads[0], grads[1], activation, gate, grad_input_mask)`.
pub(super) fn call(forward: &FunctionSchema, backward: &FunctionSchema) -> String {
    let inputs: Vec<String> = tensors(forward).into_iter().map(|(name, _)| name).collect();
    let count = forward.returns.len();
    let grads =
        (0..count).map(|index| if count == 1 { "grad".to_owned() } else { format!("grads[{index}]") });
    let rest = backward.arguments().skip(count).map(|argument| match argument.name.as_str() {
        "output_mask" => "grad_input_mask".to_owned(),
        name => name.to_owned(),
    });
    let arguments: Vec<String> = grads.chain(rest).collect();
    format!("{}: {}({})", inputs.join(", "), backward.name, arguments.join(", "))
}

/// What the operator for the derivative computes, in a sentence.
pub(super) fn doc(forward: &FunctionSchema, backward: &FunctionSchema) -> String {
    let of = format!("The derivative of `{}`", forward.name);
    match backward.returns.len() {
        1 => format!("{of}."),
        _ => format!("{of}; a gradient that `output_mask` does not request has no elements."),
    }
}

/// The names of the results, as a formula has them.
fn results(schema: &FunctionSchema) -> Vec<String> {
    let name = |(index, result): (usize, &Return)| match (&result.name, schema.returns.len()) {
        (Some(name), _) => name.clone(),
        (None, 1) => "result".to_owned(),
        (None, _) => format!("result{index}"),
    };
    schema.returns.iter().enumerate().map(name).collect()
}

/// The names and types of the tensors among the arguments.
fn tensors(schema: &FunctionSchema) -> Vec<(String, String)> {
    let tensors = schema.inputs().filter(|argument| argument.ty.holds_tensors());
    tensors.map(|argument| (argument.name.clone(), argument.ty.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(forward: &str, saved: &[&str]) -> Result<(String, String), String> {
        let forward = FunctionSchema::parse(forward).unwrap();
        let saved: Vec<String> = saved.iter().map(|&name| name.to_owned()).collect();
        let backward = schema(&forward, &saved)?;
        Ok((backward.to_string(), call(&forward, &backward)))
    }

    #[test]
    fn several_results_and_an_optional_tensor() {
        let forward = "f(Tensor self, Tensor? gate=None, *, float eps=0.1) -> (Tensor output, Tensor root)";
        let backward = "f_backward(Tensor? grad_output, Tensor? grad_root, Tensor root, Tensor? gate, float eps, \
                        bool[2] output_mask) -> (Tensor, Tensor)";
        let line = "self, gate: f_backward(grads[0], grads[1], root, gate, eps, grad_input_mask)";
        assert_eq!(of(forward, &["root", "gate"]), Ok((backward.to_owned(), line.to_owned())));
    }

    #[test]
    fn one_result_of_one_tensor_needs_no_mask() {
        let backward = "g_backward(Tensor grad_output, Tensor self, int n) -> Tensor";
        let (schema, line) = of("g(Tensor self, int n) -> Tensor", &[]).unwrap();
        assert_eq!((schema.as_str(), line.as_str()), (backward, "self: g_backward(grad, self, n)"));
        assert!(of("g(Tensor self) -> Tensor", &["result"]).unwrap().1.ends_with("(grad, result)"));
        assert!(of("g(Tensor self) -> Tensor", &["other"]).unwrap_err().contains("`other` is no tensor"));
    }
}
