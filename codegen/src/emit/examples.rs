//! The examples of methods, which run as tests of the documentation.

use crate::model::Operator;
use crate::native_functions::Located;

/// The example of one of an operator's methods, as a block of its documentation: the lines of `example` that call it.
pub(super) fn block(operator: &Operator<'_>, method: &str) -> Option<String> {
    let Located { value: text, .. } = operator.entry.example.as_ref()?;
    let lines: Vec<String> = match operator.derived {
        None => text.lines().filter(|line| calls(line, method)).map(statements).collect(),
        Some(_) => {
            // The in-place form of a method has the example of that method, written in place.
            let functional = method.strip_suffix('_')?;
            let line = text.lines().find(|line| calls(line, functional))?;
            vec![in_place(line, functional)?]
        }
    };
    (!lines.is_empty()).then(|| {
        let imports = "# use flambeau_core::*;\n# use flambeau_ops::{Tensor, ops::options::*};";
        format!("```\n{imports}\n{}\n# Ok::<(), Error>(())\n```", lines.join("\n"))
    })
}

fn calls(line: &str, method: &str) -> bool {
    line.contains(&format!(".{method}(")) || line.contains(&format!("Tensor::{method}("))
}

/// `let x = 2; x + 1 => 3` as statements; `=>` says that two values are equal, `~>` that the elements of two tensors nearly are.
fn statements(line: &str) -> String {
    let mut parts: Vec<String> = line.split("; ").map(|part| format!("{part};")).collect();
    let last = parts.pop().unwrap_or_default();
    let last = last.trim_end_matches(';');
    parts.push(match (last.split_once(" => "), last.split_once(" ~> ")) {
        (Some((left, right)), _) => format!("assert_eq!({left}, {right});"),
        (_, Some((left, right))) => {
            format!("assert!({left}.allclose(&Tensor::from({right}), 1e-3, 1e-3, true)?);")
        }
        _ => format!("{last};"),
    });
    parts.join("\n")
}

/// `let x = a; x.abs()? => b` in place, if the line has this form.
fn in_place(line: &str, method: &str) -> Option<String> {
    let (before, last) = line.rsplit_once("; ")?;
    let arguments = last.strip_prefix(&format!("x.{method}("))?;
    let arguments = &arguments[..closing(arguments)?];
    let before = before.replace("; ", ";\n");
    Some(format!(
        "{before};\nlet expected = x.{method}({arguments})?.to(x.dtype())?;\nx.{method}_({arguments})?;\n\
         assert!(x.allclose(&expected, 0.0, 0.0, true)?);"
    ))
}

/// The position of the parenthesis that closes a list of arguments.
fn closing(arguments: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in arguments.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}
