//! Traversal of a module's tensors: each field passes itself to a visitor under its name.

use crate::{Forward, Module};
use flambeau_ops::Tensor;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a tensor is to its module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Trained: requires a gradient, is given to optimisers, and saved.
    Parameter,
    /// Saved, but not trained.
    Buffer,
}

/// Whether a module is in training mode, as a new one is. Interior mutability, so that `train(&self)` can set it.
#[derive(Debug)]
pub struct Training(AtomicBool);

impl Training {
    /// Training.
    pub fn new() -> Self {
        Training(AtomicBool::new(true))
    }

    /// Whether it trains.
    pub fn is_training(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Enables or disables training.
    pub fn set(&self, training: bool) {
        self.0.store(training, Ordering::Relaxed);
    }
}

impl Default for Training {
    fn default() -> Self {
        Training::new()
    }
}

/// Visits a module's tensors, training flags and submodules, each under its full name.
pub struct Visitor<'a> {
    path: String,
    kind: Kind,
    tensor: &'a mut dyn FnMut(&str, Kind, &Tensor),
    training: &'a mut dyn FnMut(&Training),
    module: &'a mut dyn FnMut(&str, &dyn Module),
}

impl<'a> Visitor<'a> {
    /// A visitor that calls these.
    pub fn new(
        tensor: &'a mut dyn FnMut(&str, Kind, &Tensor),
        training: &'a mut dyn FnMut(&Training),
        module: &'a mut dyn FnMut(&str, &dyn Module),
    ) -> Self {
        Visitor { path: String::new(), kind: Kind::Parameter, tensor, training, module }
    }

    /// Visits the field called `name`.
    pub fn field(&mut self, name: &str, field: &(impl Field + ?Sized)) {
        let length = push(&mut self.path, name);
        field.show(self);
        self.path.truncate(length);
    }

    /// Visits the field called `name`, whose tensors are buffers.
    pub fn buffer(&mut self, name: &str, field: &impl BufferField) {
        self.kind = Kind::Buffer;
        self.field(name, field);
        self.kind = Kind::Parameter;
    }
}

/// Visits a module's tensors and may replace them.
pub struct VisitorMut<'a> {
    path: String,
    kind: Kind,
    tensor: &'a mut dyn FnMut(&str, Kind, &mut Tensor),
}

impl<'a> VisitorMut<'a> {
    /// A visitor that calls this.
    pub fn new(tensor: &'a mut dyn FnMut(&str, Kind, &mut Tensor)) -> Self {
        VisitorMut { path: String::new(), kind: Kind::Parameter, tensor }
    }

    /// Visits the field called `name`.
    pub fn field(&mut self, name: &str, field: &mut (impl Field + ?Sized)) {
        let length = push(&mut self.path, name);
        field.show_mut(self);
        self.path.truncate(length);
    }

    /// Visits the field called `name`, whose tensors are buffers.
    pub fn buffer(&mut self, name: &str, field: &mut impl BufferField) {
        self.kind = Kind::Buffer;
        self.field(name, field);
        self.kind = Kind::Parameter;
    }
}

/// Appends a name, and returns how long the path was.
fn push(path: &mut String, name: &str) -> usize {
    let length = path.len();
    if length > 0 {
        path.push('.');
    }
    path.push_str(name);
    length
}

/// What a field of a module can be: a [`Tensor`], a [`Training`], a [`Module`]; and options, vectors and arrays of these, whose
/// elements are named by their numbers.
pub trait Field: Send + Sync {
    /// Passes what it holds to a visitor.
    fn show(&self, visitor: &mut Visitor<'_>);

    /// The same for a visitor that may replace tensors.
    fn show_mut(&mut self, visitor: &mut VisitorMut<'_>);
}

impl<M: Module> Field for M {
    fn show(&self, visitor: &mut Visitor<'_>) {
        (visitor.module)(&visitor.path, self);
        self.visit(visitor);
    }

    fn show_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        self.visit_mut(visitor);
    }
}

impl Field for Tensor {
    fn show(&self, visitor: &mut Visitor<'_>) {
        (visitor.tensor)(&visitor.path, visitor.kind, self);
    }

    fn show_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        (visitor.tensor)(&visitor.path, visitor.kind, self);
    }
}

impl Field for Training {
    fn show(&self, visitor: &mut Visitor<'_>) {
        (visitor.training)(self);
    }

    fn show_mut(&mut self, _: &mut VisitorMut<'_>) {}
}

impl<F: Field> Field for Option<F> {
    fn show(&self, visitor: &mut Visitor<'_>) {
        self.iter().for_each(|field| field.show(visitor));
    }

    fn show_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        self.iter_mut().for_each(|field| field.show_mut(visitor));
    }
}

impl<F: Field> Field for [F] {
    fn show(&self, visitor: &mut Visitor<'_>) {
        self.iter().enumerate().for_each(|(i, field)| visitor.field(&i.to_string(), field));
    }

    fn show_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        self.iter_mut().enumerate().for_each(|(i, field)| visitor.field(&i.to_string(), field));
    }
}

impl<F: Field> Field for Vec<F> {
    fn show(&self, visitor: &mut Visitor<'_>) {
        self.as_slice().show(visitor);
    }

    fn show_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        self.as_mut_slice().show_mut(visitor);
    }
}

impl<F: Field, const N: usize> Field for [F; N] {
    fn show(&self, visitor: &mut Visitor<'_>) {
        self.as_slice().show(visitor);
    }

    fn show_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        self.as_mut_slice().show_mut(visitor);
    }
}

/// What a buffer can be: a tensor, and options and vectors of tensors.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no buffer",
    label = "expected a `Tensor`, `Option<Tensor>` or `Vec<Tensor>`"
)]
pub trait BufferField: Field {}

impl BufferField for Tensor {}
impl BufferField for Option<Tensor> {}
impl BufferField for Vec<Tensor> {}

impl<M: Module + ?Sized> Module for Box<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        (**self).visit(visitor);
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        (**self).visit_mut(visitor);
    }
}

impl<M: Forward + ?Sized> Forward for Box<M> {
    fn forward(&self, input: &Tensor) -> flambeau_core::Result<Tensor> {
        (**self).forward(input)
    }
}
