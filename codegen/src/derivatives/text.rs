//! Checks of a formula's text that need no parser: brackets and quotes, and the names of gradients.

use super::{Derivative, Differentiable, Formula};
use crate::source::{Fault, Source};
use crate::yaml::Scalar;

pub(super) fn check(source: Source<'_>, derivative: &Derivative, formulas: &[Formula]) -> Result<(), Fault> {
    for formula in formulas {
        if formula.text.text.trim().is_empty() {
            return Err(formula.text.fault(source, 0, "the formula is empty"));
        }
        balanced(&formula.text.text).map_err(|(at, message)| formula.text.fault(source, at, message))?;
        in_scope(source, derivative, formula)?;
        if formula.forward {
            forward(source, derivative, formulas, formula)?;
        }
    }
    let backward: Vec<&Formula> = formulas.iter().filter(|formula| !formula.forward).collect();
    gradients(source, derivative, &backward)
}

/// Checks that brackets match and quotes are closed; brackets in quotes and comments do not count.
fn balanced(text: &str) -> Result<(), (usize, String)> {
    let mut open: Vec<(usize, char)> = vec![];
    for (at, c) in code(text)? {
        let opens = match c {
            '(' | '[' | '{' => {
                open.push((at, c));
                continue;
            }
            ')' => '(',
            ']' => '[',
            '}' => '{',
            _ => continue,
        };
        match open.pop() {
            Some((_, found)) if found == opens => {}
            Some((begun, found)) => {
                return Err((at, format!("`{c}` closes the `{found}` opened at byte {begun}")));
            }
            None => return Err((at, format!("`{c}` closes nothing"))),
        }
    }
    open.pop().map_or(Ok(()), |(at, c)| Err((at, format!("`{c}` is never closed"))))
}

/// The characters outside quotes and comments, which are replaced by a space.
fn code(text: &str) -> Result<Vec<(usize, char)>, (usize, String)> {
    let mut kept = vec![];
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        let skipped = match c {
            '"' | '\'' => quoted(&text[at + 1..], c).ok_or_else(|| (at, format!("{c} is never closed")))?,
            '/' if text[at..].starts_with("/*") => {
                text[at + 2..].find("*/").ok_or_else(|| (at, "`/*` is never closed".to_owned()))? + 3
            }
            _ => {
                kept.push((at, c));
                continue;
            }
        };
        while chars.clone().next().is_some_and(|(next, _)| next <= at + skipped) {
            chars.next();
        }
        kept.push((at, ' '));
    }
    Ok(kept)
}

/// The number of bytes up to and including the closing quote.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// The names in a formula, each with its byte; the name of a member (`a.name`) is left out.
fn names(text: &str) -> Vec<(usize, String)> {
    let mut names: Vec<(usize, String)> = vec![];
    let mut previous = ' ';
    let mut end = usize::MAX;
    for (at, c) in code(text).unwrap_or_default() {
        let word = c.is_ascii_alphanumeric() || c == '_';
        match names.last_mut() {
            Some((_, name)) if word && end == at => name.push(c),
            _ if word && previous != '.' && !c.is_ascii_digit() => names.push((at, c.to_string())),
            _ => {
                previous = if word { '.' } else { c };
                continue;
            }
        }
        end = at + 1;
        previous = '.';
    }
    names
}

/// Words of C++ and of PyTorch's generator, which are not names of arguments or results.
const WORDS: &[&str] = &[
    "true",
    "false",
    "return",
    "nullptr",
    "Tensor",
    "i",
    "retain_variables",
    "grad_input_mask",
    "original_self_t",
    "original_self_p",
    "if",
    "else",
    "None",
    "grad",
    "grads",
];

/// Checks that every name that is not called is an argument, an output or a gradient of the operator.
fn in_scope(source: Source<'_>, derivative: &Derivative, formula: &Formula) -> Result<(), Fault> {
    let text = formula.text.text.as_str();
    let automatic = ["auto_linear", "auto_element_wise"].contains(&text.trim());
    match (automatic, is_constant(&formula.text), formula.forward) {
        (true, _, true) | (_, true, false) => return Ok(()),
        (true, _, false) => {
            let message = format!("`{}` is a tangent of an output, not a gradient of an input", text.trim());
            return Err(formula.text.fault(source, 0, message));
        }
        (_, true, true) => {
            let message = "`non_differentiable` is said of an input, not of an output";
            return Err(formula.text.fault(source, 0, message));
        }
        (false, false, _) => {}
    }
    for (at, name) in names(text) {
        let after = &text[at + name.len()..];
        let qualified = text[..at].ends_with("::") || text[..at].ends_with("->");
        let called =
            after.trim_start().starts_with(['(', '{']) || after.starts_with('<') || after.starts_with("::");
        let constant =
            name.starts_with("M_") || (name.starts_with('k') && name[1..].starts_with(char::is_uppercase));
        if qualified || called || constant || WORDS.contains(&name.as_str()) || is_known(derivative, &name) {
            continue;
        }
        return Err(formula.text.fault(source, at, format!("there is no value `{name}`")));
    }
    Ok(())
}

fn is_known(derivative: &Derivative, name: &str) -> bool {
    let schema = &derivative.schema;
    let argument = |name: &str| schema.arguments().any(|argument| argument.name == name);
    let returned = |name: &str| schema.returns.iter().any(|result| result.name.as_deref() == Some(name));
    let either = |name: &str| argument(name) || returned(name) || name == "result";
    let number = name.strip_prefix("result").and_then(|index| index.parse::<usize>().ok());
    let stem = name.strip_suffix("_p").or_else(|| name.strip_suffix("_t"));
    either(name)
        || number.is_some_and(|number| number < schema.returns.len())
        || stem.is_some_and(either)
        || name.strip_prefix("grad_").is_some_and(returned)
}

fn forward(
    source: Source<'_>,
    derivative: &Derivative,
    formulas: &[Formula],
    formula: &Formula,
) -> Result<(), Fault> {
    let differentiable = |name: &str| {
        formulas
            .iter()
            .any(|f| !f.forward && !is_constant(&f.text) && f.names.iter().any(|known| known == name))
    };
    let automatic = matches!(formula.text.text.trim(), "auto_linear" | "auto_element_wise");
    if automatic && (formula.names.len() > 1 || formulas.iter().filter(|f| f.forward).count() > 1) {
        let message = format!("`{}` needs a single differentiable output", formula.text.text.trim());
        return Err(formula.text.fault(source, 0, message));
    }
    if formula.text.text.trim() == "auto_element_wise" && derivative.schema.is_in_place() {
        let message = "`auto_element_wise` is said of an operator that writes nothing";
        return Err(formula.text.fault(source, 0, message));
    }
    let tensor = |name: &str| {
        derivative
            .schema
            .arguments()
            .any(|a| a.name == name && !matches!(a.ty, crate::schema::Type::List(..)))
    };
    for (at, name) in names(&formula.text.text) {
        if !automatic && tensor(&name) && differentiable(&name) {
            let message = format!("a forward formula says `{name}_p` or `{name}_t`, not `{name}`");
            return Err(formula.text.fault(source, at, message));
        }
    }
    Ok(())
}

/// Whether the text declares that there is no derivative.
pub(super) fn is_constant(text: &Scalar) -> bool {
    text.text.trim().eq_ignore_ascii_case("non_differentiable")
}

/// Checks that all formulas of an operator use the same naming of gradients: `grad`, `grads[i]` or `grad_NAME`.
fn gradients(source: Source<'_>, derivative: &Derivative, formulas: &[&Formula]) -> Result<(), Fault> {
    let named: Vec<String> = named_gradients(derivative);
    let mut styles: Vec<&str> = vec![];
    let (mut indexed, mut bare) = (vec![], false);
    for formula in formulas {
        for (at, name) in names(&formula.text.text) {
            let style = match name.as_str() {
                "grad" => "grad",
                "grads" => "grads[..]",
                other if named.iter().any(|known| known == other) => "grad_NAME",
                _ => continue,
            };
            if !styles.contains(&style) {
                styles.push(style);
            }
            if let [first, second] = styles.as_slice() {
                let message = format!("`{}` mixes `{first}` and `{second}`", derivative.schema.name);
                return Err(formula.text.fault(source, at, message));
            }
            if style == "grads[..]" {
                match index_after(&formula.text.text[at + name.len()..]) {
                    Some(index) => indexed.push((formula, at, index)),
                    None => bare = true,
                }
            }
        }
    }
    let outputs = derivative.schema.returns.len();
    if let Some((formula, at, index)) = indexed.iter().find(|(_, _, index)| *index >= outputs) {
        let message = format!("`grads[{index}]`: the operator has {outputs} outputs");
        return Err(formula.text.fault(source, *at, message));
    }
    match indexed.first() {
        Some((formula, at, _)) if !bare && indexed.iter().all(|(_, _, index)| *index == 0) => {
            Err(formula.text.fault(source, *at, "where only `grads[0]` is used, it is called `grad`"))
        }
        _ => Ok(()),
    }
}

fn named_gradients(derivative: &Derivative) -> Vec<String> {
    let known =
        |index: usize| derivative.output_differentiability.get(index) != Some(&Differentiable::Known(false));
    let returns = derivative.schema.returns.iter().enumerate().filter(|(index, result)| {
        result.ty.holds_tensors() && (derivative.output_differentiability.is_empty() || known(*index))
    });
    returns.filter_map(|(_, result)| result.name.as_ref().map(|name| format!("grad_{name}"))).collect()
}

fn index_after(text: &str) -> Option<usize> {
    text.strip_prefix('[')?.split_once(']')?.0.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_quotes_and_comments_do_not_count() {
        assert!(balanced(r#"f(")", /*)*/ a[0])"#).is_ok());
        assert_eq!(balanced("f(a]").unwrap_err().0, 3);
        assert_eq!(balanced("f(a").unwrap_err().0, 1);
        assert_eq!(balanced("a)").unwrap_err().0, 1);
        assert!(balanced("f(\"a)").is_err());
    }

    #[test]
    fn names_are_words_that_are_not_members() {
        let found: Vec<String> =
            names("grad * self.exp(2.5e3) + x_1[0]").into_iter().map(|(_, name)| name).collect();
        assert_eq!(found, ["grad", "self", "x_1"]);
    }
}
