//! One module after another.

use crate::{Forward, Module, Visitor, VisitorMut};
use flambeau_core::Result;
use flambeau_ops::Tensor;

/// Modules in a row, each given the output of the one before; their names are their numbers.
///
/// ```
/// use flambeau_nn::{Linear, Forward, Module, Relu, Sequential};
/// use flambeau_ops::Tensor;
/// let net = Sequential::new().then(Linear::new(3, 8)?).then(Relu).then(Linear::new(8, 1)?);
/// assert_eq!(net.forward(&Tensor::ones(&[5, 3], ())?)?.sizes(), &[5, 1]);
/// assert_eq!(net.named_parameters()[2].0, "2.weight");
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Default)]
pub struct Sequential {
    modules: Vec<Box<dyn Forward>>,
}

impl Sequential {
    /// None yet: the identity.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one more at the end.
    pub fn then(mut self, module: impl Forward + 'static) -> Self {
        self.push(module);
        self
    }

    /// Adds one at the end.
    pub fn push(&mut self, module: impl Forward + 'static) {
        self.modules.push(Box::new(module));
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.modules.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Forward> {
        self.modules.iter().map(|module| &**module)
    }
}

impl Module for Sequential {
    // As in PyTorch, the numbers stand alone in names: `0.weight`.
    fn visit(&self, visitor: &mut Visitor<'_>) {
        crate::Field::show(&self.modules, visitor);
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        crate::Field::show_mut(&mut self.modules, visitor);
    }
}

impl Forward for Sequential {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.modules.iter().try_fold(input.clone(), |value, module| module.forward(&value))
    }
}
