//! Printing, character for character as PyTorch prints.

mod debug;
mod number;
mod options;
mod sparse;
mod summary;

pub use options::{PrintOptions, print_options, set_print_options};

use super::Tensor;
use super::elements::Elements;
use flambeau_core::{Layout, Result, ScalarType, default_dtype};
use number::Numbers;
use std::fmt;
use summary::Summary;

/// What another crate prints of a tensor after its values, `grad_fn=<AddBackward0>`:
/// `inventory::submit!(Suffix(describe));`.
pub struct Suffix(pub fn(&Tensor) -> Option<String>);

inventory::collect!(Suffix);

/// How another crate prints a tensor that has no elements of its own: `inventory::submit!(Representation(print));`.
pub struct Representation(pub fn(&Tensor, &PrintOptions) -> Option<String>);

inventory::collect!(Representation);

impl Tensor {
    /// The tensor as text. Where its values cannot be read, since an accessor of this thread is writing them, the text says
    /// so instead.
    pub fn to_string_with(&self, options: &PrintOptions) -> String {
        let other = inventory::iter::<Representation>.into_iter().find_map(|other| other.0(self, options));
        if let Some(text) = other {
            return text;
        }
        let prefix = "tensor(";
        if let Some(parts) = self.sparse_parts() {
            return sparse::text(self, &parts, prefix, options).unwrap_or_else(|e| format!("{prefix}<{e}>)"));
        }
        let values = self.values_text(prefix.len(), options).unwrap_or_else(|e| format!("<{e}>"));
        append(format!("{prefix}{values}"), &self.suffixes(), prefix.len(), options.linewidth)
    }

    fn values_text(&self, indent: usize, options: &PrintOptions) -> Result<String> {
        if self.device().is_meta() {
            return Ok("...".to_string());
        }
        if self.numel() == 0 {
            return Ok("[]".to_string());
        }
        let host = self.on_host()?;
        crate::dispatch_all_types!(stored, self.dtype(), "Display", T => {
            let summary = Summary::new(&Elements::<T>::new(&host)?, options);
            let numbers = Numbers::new(&summary.values, self.dtype(), options);
            Ok(summary.text(&numbers, indent, options.linewidth))
        })
    }

    fn suffixes(&self) -> Vec<String> {
        let mut suffixes = Vec::new();
        let without_values = self.device().is_meta() || self.numel() == 0;
        if !self.device().is_cpu() {
            suffixes.push(format!("device='{}'", self.device()));
        }
        if self.device().is_meta() || (without_values && self.dim() != 1) {
            suffixes.push(format!("size={}", tuple(self.sizes())));
        }
        let literals = [ScalarType::I64, ScalarType::Bool, default_dtype().to_complex()];
        let known = literals.contains(&self.dtype()) && !without_values;
        if self.dtype() != default_dtype() && !known {
            suffixes.push(format!("dtype=flambeau.{}", self.dtype()));
        }
        if self.layout() != Layout::Strided {
            suffixes.push(format!("layout={}", self.layout()));
        }
        suffixes.extend(self.history());
        suffixes
    }

    /// Its gradient function or `requires_grad`.
    fn history(&self) -> Option<String> {
        let described = inventory::iter::<Suffix>.into_iter().find_map(|suffix| suffix.0(self));
        let requires_grad = || self.impl_().autograd_meta().is_some_and(|meta| meta.requires_grad());
        described.or_else(|| requires_grad().then(|| "requires_grad=True".to_string()))
    }
}

/// As Python writes one.
fn tuple(sizes: &[i64]) -> String {
    match sizes {
        [one] => format!("({one},)"),
        _ => format!("({})", sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Appends the suffixes to the text, on a new line where they do not fit the last.
fn append(text: String, suffixes: &[String], indent: usize, linewidth: usize) -> String {
    append_from(text, suffixes, indent, linewidth, false)
}

/// The same; the first suffix is on a new line in any case if `force_newline`.
fn append_from(
    mut text: String,
    suffixes: &[String],
    indent: usize,
    linewidth: usize,
    mut force_newline: bool,
) -> String {
    // PyTorch counts two characters more than the line has, or one where it is not the first.
    let mut last_line = match text.rfind('\n') {
        Some(newline) => text.len() - newline + 1,
        None => text.len() + 2,
    };
    for suffix in suffixes {
        if std::mem::take(&mut force_newline) || last_line + suffix.len() + 2 > linewidth {
            text += &format!(",\n{:indent$}{suffix}", "");
            last_line = indent + suffix.len();
        } else {
            text += &format!(", {suffix}");
            last_line += suffix.len() + 2;
        }
    }
    text + ")"
}

/// As PyTorch prints it, by the [process's options](set_print_options); a precision, `{:.2}`, replaces theirs.
///
/// ```
/// use flambeau_ops::Tensor;
/// let t = Tensor::from([[1.0f64, 0.0], [-2.5, f64::INFINITY]]);
/// assert_eq!(t.to_string(), "tensor([[ 1.0000,  0.0000],\n        [-2.5000,     inf]], dtype=flambeau.float64)");
/// ```
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = print_options();
        let precision = f.precision().unwrap_or(options.precision);
        f.write_str(&self.to_string_with(&PrintOptions { precision, ..options }))
    }
}
