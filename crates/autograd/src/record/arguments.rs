//! Arguments that are optional tensors or lists of tensors: their edges, saved variables and gradients.

use super::fields::MaybeSaved;
use super::out_is_recorded;
use crate::grad_mode::is_grad_enabled;
use crate::graph::dual_level::is_dual_level_open;
use crate::graph::gradients::Gradients;
use crate::graph::node::{Context, Edges};
use crate::variable::history::gradient_edge;
use crate::variable::meta::requires_grad;
use crate::variable::saved_variable::SavedVariable;
use crate::variable::tangents;
use flambeau_core::{Result, ensure};
use flambeau_ops::Tensor;

/// An argument that holds tensors. Each tensor has one edge; that of an absent one is `None`.
pub trait Input {
    /// Calls `visit` on every tensor in order, until an error.
    ///
    /// # Errors
    /// That of `visit`.
    fn visit(&self, visit: &mut dyn FnMut(Option<&Tensor>) -> Result<()>) -> Result<()>;
}

impl Input for &Tensor {
    fn visit(&self, visit: &mut dyn FnMut(Option<&Tensor>) -> Result<()>) -> Result<()> {
        visit(Some(self))
    }
}

impl Input for Option<&Tensor> {
    fn visit(&self, visit: &mut dyn FnMut(Option<&Tensor>) -> Result<()>) -> Result<()> {
        visit(*self)
    }
}

impl Input for &[Tensor] {
    fn visit(&self, visit: &mut dyn FnMut(Option<&Tensor>) -> Result<()>) -> Result<()> {
        self.iter().try_for_each(|tensor| visit(Some(tensor)))
    }
}

impl Input for &[Option<Tensor>] {
    fn visit(&self, visit: &mut dyn FnMut(Option<&Tensor>) -> Result<()>) -> Result<()> {
        self.iter().try_for_each(|tensor| visit(tensor.as_ref()))
    }
}

/// [`any_requires_grad`](super::any_requires_grad) of arguments of any kind.
pub fn any_requires_grad_of(inputs: &[&dyn Input]) -> bool {
    is_grad_enabled() && any(inputs)
}

fn any(inputs: &[&dyn Input]) -> bool {
    let mut found = false;
    for input in inputs {
        // The visitor returns no error.
        let _ = input.visit(&mut |tensor| {
            found |= tensor.is_some_and(requires_grad);
            Ok(())
        });
    }
    found
}

/// [`edges`](super::edges) of arguments of any kind.
///
/// # Errors
/// `Autograd` for a view whose base was modified in place since, if the view was created in no_grad or inference mode, by an operator
/// with several results, or in a custom function.
pub fn edges_of(inputs: &[&dyn Input]) -> Result<Edges> {
    let mut edges = Edges::new();
    for input in inputs {
        input.visit(&mut |tensor| {
            edges.push(tensor.map(gradient_edge).transpose()?.flatten());
            Ok(())
        })?;
    }
    Ok(edges)
}

/// [`recorded_edges`](super::recorded_edges) of arguments of any kind.
///
/// # Errors
/// Those of [`edges_of`].
pub fn recorded_edges_of(inputs: &[&dyn Input]) -> Result<Option<Edges>> {
    if any_requires_grad_of(inputs) { edges_of(inputs).map(Some) } else { Ok(None) }
}

/// [`check_out`](super::check_out) of arguments of any kind.
///
/// # Errors
/// `Autograd`.
pub fn check_out_of(operator: &str, inputs: &[&dyn Input]) -> Result<()> {
    ensure!(!any_requires_grad_of(inputs), Autograd, "{}", out_is_recorded(operator));
    if !is_dual_level_open() {
        return Ok(());
    }
    inputs.iter().try_for_each(|input| {
        input.visit(&mut |tensor| tensor.map_or(Ok(()), |tensor| tangents::check_out(operator, &[tensor])))
    })
}

/// Saves a tensor that is not among the inputs with gradients, if it is used.
///
/// # Errors
/// Those of [`SavedVariable::other`].
pub fn saved_other(used: bool, tensor: &Tensor) -> Result<MaybeSaved> {
    saved_optional(used, Some(tensor)).map(MaybeSaved)
}

/// Saves an optional tensor, if there is one and it is used.
///
/// # Errors
/// Those of [`SavedVariable::input`].
pub fn saved_optional(used: bool, tensor: Option<&Tensor>) -> Result<Option<SavedVariable>> {
    match tensor {
        Some(tensor) if used => SavedVariable::other(tensor).map(Some),
        _ => Ok(None),
    }
}

/// Saves every tensor of a list.
///
/// # Errors
/// Those of [`SavedVariable::input`].
pub fn saved_list(tensors: &[Tensor]) -> Result<Vec<SavedVariable>> {
    tensors.iter().map(SavedVariable::other).collect()
}

/// Saves every tensor of a list in which some are absent.
///
/// # Errors
/// Those of [`SavedVariable::input`].
pub fn saved_optionals(tensors: &[Option<Tensor>]) -> Result<Vec<Option<SavedVariable>>> {
    tensors.iter().map(|tensor| saved_optional(true, tensor.as_ref())).collect()
}

/// Saves every result of an operator that returns a list.
///
/// # Errors
/// Those of [`SavedVariable::output`].
pub fn saved_outputs(tensors: &[Tensor]) -> Result<Vec<SavedVariable>> {
    tensors.iter().zip(0..).map(|(tensor, nr)| SavedVariable::output(tensor, nr)).collect()
}

/// Collects the gradients of inputs that are not all single tensors, or that share a formula, in the order of the edges.
pub struct InputGradients<'a> {
    cx: &'a Context<'a>,
    grads: Gradients,
}

impl<'a> InputGradients<'a> {
    /// For the node that runs in `cx`.
    pub fn new(cx: &'a Context<'a>) -> Self {
        InputGradients { cx, grads: Gradients::new() }
    }

    /// Adds the gradient of the next input, if it is needed.
    ///
    /// # Errors
    /// That of the formula.
    pub fn one(&mut self, formula: impl FnOnce() -> Result<Option<Tensor>>) -> Result<()> {
        let needed = self.cx.needs(self.grads.len());
        self.grads.push(if needed { formula()? } else { None });
        Ok(())
    }

    /// Adds the gradients of the next `N` inputs, from a formula that takes a mask of those that are needed. It runs if any is.
    ///
    /// # Errors
    /// That of the formula.
    pub fn several<const N: usize>(
        &mut self,
        formula: impl FnOnce([bool; N]) -> Result<[Option<Tensor>; N]>,
    ) -> Result<()> {
        let start = self.grads.len();
        let mask: [bool; N] = std::array::from_fn(|i| self.cx.needs(start + i));
        if !mask.contains(&true) {
            self.grads.extend(mask.map(|_| None));
            return Ok(());
        }
        let given = formula(mask)?;
        self.grads.extend(given.into_iter().zip(mask).map(|(grad, needed)| grad.filter(|_| needed)));
        Ok(())
    }

    /// Adds the gradients of a list of inputs; the formula returns one for each.
    ///
    /// # Errors
    /// That of the formula.
    pub fn list(&mut self, formula: impl FnOnce() -> Result<Vec<Tensor>>) -> Result<()> {
        for grad in formula()? {
            let needed = self.cx.needs(self.grads.len());
            self.grads.push(Some(grad).filter(|_| needed));
        }
        Ok(())
    }

    /// All gradients.
    pub fn finish(self) -> Gradients {
        self.grads
    }
}
