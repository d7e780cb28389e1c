//! Traversal of a module's tensors: each field passes itself to a visitor under its name.

use crate::Module;
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

/// A tensor that is saved with its module but not trained.
///
/// ```
/// use flambeau_core::Result;
/// use flambeau_nn::{Buffer, Module, fields};
/// use flambeau_ops::Tensor;
/// struct Shift {
///     by: Buffer,
/// }
/// impl Module for Shift {
///     fields!(by);
///     fn forward(&self, input: &Tensor) -> Result<Tensor> {
///         input.add(&self.by.0)
///     }
/// }
/// let shift = Shift { by: Buffer(Tensor::from([1.0f32, 2.0])) };
/// assert!(shift.parameters().is_empty());
/// assert_eq!(shift.named_buffers()[0].0, "by");
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Buffer(pub Tensor);

/// Visits a module's tensors, training flags and submodules, each under its full name.
pub struct Visitor<'a> {
    path: String,
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
        Visitor { path: String::new(), tensor, training, module }
    }

    /// Visits the field called `name`.
    pub fn field(&mut self, name: &str, field: &(impl Field + ?Sized)) {
        let length = push(&mut self.path, name);
        field.show(self);
        self.path.truncate(length);
    }
}

/// Visits a module's tensors and may replace them.
pub struct VisitorMut<'a> {
    path: String,
    tensor: &'a mut dyn FnMut(&str, Kind, &mut Tensor),
}

impl<'a> VisitorMut<'a> {
    /// A visitor that calls this.
    pub fn new(tensor: &'a mut dyn FnMut(&str, Kind, &mut Tensor)) -> Self {
        VisitorMut { path: String::new(), tensor }
    }

    /// Visits the field called `name`.
    pub fn field(&mut self, name: &str, field: &mut (impl Field + ?Sized)) {
        let length = push(&mut self.path, name);
        field.show_mut(self);
        self.path.truncate(length);
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

/// What a field of a module can be: a [`Tensor`] (a parameter), a [`Buffer`], a [`Training`], a [`Module`]; and options, vectors
/// and arrays of these, whose elements are named by their numbers.
pub trait Field {
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
        (visitor.tensor)(&visitor.path, Kind::Parameter, self);
    }

    fn show_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        (visitor.tensor)(&visitor.path, Kind::Parameter, self);
    }
}

impl Field for Buffer {
    fn show(&self, visitor: &mut Visitor<'_>) {
        (visitor.tensor)(&visitor.path, Kind::Buffer, &self.0);
    }

    fn show_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        (visitor.tensor)(&visitor.path, Kind::Buffer, &mut self.0);
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

impl<M: Module + ?Sized> Module for Box<M> {
    fn forward(&self, input: &Tensor) -> flambeau_core::Result<Tensor> {
        (**self).forward(input)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        (**self).visit(visitor);
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        (**self).visit_mut(visitor);
    }
}

/// Inside `impl Module`, names the fields that hold parameters, buffers, training flags and modules: `fields!(hidden, out);`. The
/// other fields, sizes and the like, are left out; `fields!();` is for a module that holds none.
#[macro_export]
macro_rules! fields {
    ($($field:ident),* $(,)?) => {
        fn visit(&self, visitor: &mut $crate::Visitor<'_>) {
            let _ = &visitor;
            $(visitor.field(::core::stringify!($field), &self.$field);)*
        }

        fn visit_mut(&mut self, visitor: &mut $crate::VisitorMut<'_>) {
            let _ = &visitor;
            $(visitor.field(::core::stringify!($field), &mut self.$field);)*
        }
    };
}
