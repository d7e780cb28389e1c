//! The values that a node saves for the backward pass: a tensor only if its elements are used, else its properties.

use std::collections::BTreeSet;

use super::check::{Typed, TypedKind};
use super::types::{Property, Ty};

/// What a name in a formula refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variable {
    /// An argument of the operator.
    Input(String),
    /// A result of the operator, by number.
    Output(usize),
    /// The gradient of an output, by number.
    Gradient(usize),
    /// The gradients of all outputs.
    Gradients,
    /// Which of the formula's inputs need a gradient.
    Mask,
    /// The tangent of an argument.
    Tangent(String),
}

/// A value that is saved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Saved {
    /// The argument or result it is taken from.
    pub variable: Variable,
    /// What is taken.
    pub what: SavedWhat,
}

/// What is taken from a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SavedWhat {
    /// The tensor, or the tensors, with their values.
    Tensor,
    /// A value that is not a tensor.
    Value,
    /// One property of a tensor.
    Property(Property),
}

/// The values that the formulas of one operator need. A property of a tensor that is saved itself is saved separately only if some
/// formula uses the property without the tensor: the tensor is not saved if, when the call is recorded, only that formula is needed.
pub fn saved<'a>(formulas: impl IntoIterator<Item = &'a Typed>) -> Vec<Saved> {
    let needs: Vec<BTreeSet<Saved>> = formulas.into_iter().map(needs).collect();
    let whole = |variable: &Variable| Saved { variable: variable.clone(), what: SavedWhat::Tensor };
    let kept = |variable: &Variable| {
        let tensor = whole(variable);
        let is_output = matches!(variable, Variable::Output(_));
        if is_output {
            needs.iter().any(|needs| needs.contains(&tensor))
        } else {
            needs.iter().all(|needs| needs.contains(&tensor))
        }
    };
    let redundant = |saved: &&Saved| {
        let users = || needs.iter().filter(|needs| needs.contains(saved));
        matches!(saved.what, SavedWhat::Property(_))
            && (kept(&saved.variable) || users().all(|needs| needs.contains(&whole(&saved.variable))))
    };
    let all: BTreeSet<&Saved> = needs.iter().flatten().collect();
    all.into_iter().filter(|saved| !redundant(saved)).cloned().collect()
}

fn needs(formula: &Typed) -> BTreeSet<Saved> {
    let mut found = BTreeSet::new();
    visit(formula, &mut found);
    found
}

fn visit(formula: &Typed, found: &mut BTreeSet<Saved>) {
    if let TypedKind::Property(receiver, property) = &formula.kind
        && let TypedKind::Variable(variable @ (Variable::Input(_) | Variable::Output(_))) = &receiver.kind
    {
        let what =
            if holds_tensors(&receiver.ty) { SavedWhat::Property(*property) } else { SavedWhat::Value };
        found.insert(Saved { variable: variable.clone(), what });
        return;
    }
    if let TypedKind::Variable(variable @ (Variable::Input(_) | Variable::Output(_))) = &formula.kind {
        let what = if holds_tensors(&formula.ty) { SavedWhat::Tensor } else { SavedWhat::Value };
        found.insert(Saved { variable: variable.clone(), what });
    }
    formula.children().into_iter().for_each(|child| visit(child, found));
}

fn holds_tensors(ty: &Ty) -> bool {
    matches!(ty, Ty::Value(ty) if ty.holds_tensors())
}
