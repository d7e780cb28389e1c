//! The language of derivative formulas: Rust's expressions, with tensors as values.
//!
//! `grad * (1 - result * result)`, `if p == 2 { grad * self * 2 } else { norm_backward(grad, self, p) }`.
//! There are no borrows, no `?` and no clones, which the generator inserts. Types are known from the operators' schemas, so that a
//! formula that does not type-check is reported here, and not by rustc in generated code.

mod ast;
mod call;
mod check;
mod lex;
mod parse;
mod saved;
mod scope;
mod types;

use std::fmt;

pub use ast::BinaryOperator;
pub use call::{Callee, Passed};
pub use check::{Special, Typed, TypedKind, check};
pub use saved::{Saved, SavedWhat, Variable, saved};
pub use scope::{Catalog, Direction, Scope};
pub use types::{Conversion, Property, Ty};

/// The error of a formula that does not parse or type-check, and its position in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormulaError {
    /// Byte offset into the formula.
    pub at: usize,
    /// What is wrong, in one sentence.
    pub message: String,
}

impl FormulaError {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

impl fmt::Display for FormulaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.at, self.message)
    }
}

impl std::error::Error for FormulaError {}
