//! The fields of nodes: saved tensors, which are unpacked for a formula, and plain values.

use crate::graph::node::{Context, Owned};
use crate::variable::saved_variable::{SavedVariable, Unpacked};
use flambeau_core::{Device, DimVec, Layout, Result, Scalar, ScalarType, TensorOptions, bail};
use flambeau_ops::Tensor;

/// A field of a node: a saved tensor or several, or a plain value.
pub trait Field {
    /// Whether it may hold a tensor.
    const SAVES: bool = false;

    /// Visits the saved tensors.
    fn owns(&self, _visit: &mut dyn FnMut(Owned<'_>)) {}
}

/// A field that holds tensors.
pub trait Saved: Field {
    /// What a formula borrows.
    type Unpacked<'a>
    where
        Self: 'a;

    /// The tensors.
    ///
    /// # Errors
    /// Those of [`SavedVariable::unpack`].
    fn unpack(&self, cx: &Context<'_>) -> Result<Self::Unpacked<'_>>;
}

/// A tensor that is saved if the gradient of a formula that uses it is needed.
pub struct MaybeSaved(pub(super) Option<SavedVariable>);

impl Field for SavedVariable {
    const SAVES: bool = true;

    fn owns(&self, visit: &mut dyn FnMut(Owned<'_>)) {
        self.owns(visit);
    }
}

impl Saved for SavedVariable {
    type Unpacked<'a> = Unpacked<'a>;

    #[inline]
    fn unpack(&self, cx: &Context<'_>) -> Result<Unpacked<'_>> {
        self.unpack(cx)
    }
}

impl Field for MaybeSaved {
    const SAVES: bool = true;

    fn owns(&self, visit: &mut dyn FnMut(Owned<'_>)) {
        Field::owns(&self.0, visit);
    }
}

impl Saved for MaybeSaved {
    type Unpacked<'a> = Unpacked<'a>;

    #[inline]
    fn unpack(&self, cx: &Context<'_>) -> Result<Unpacked<'_>> {
        match &self.0 {
            Some(saved) => saved.unpack(cx),
            None => bail!(Internal, "{}: a tensor that was not saved is needed", cx.name()),
        }
    }
}

impl<T: Field> Field for Option<T> {
    const SAVES: bool = T::SAVES;

    fn owns(&self, visit: &mut dyn FnMut(Owned<'_>)) {
        self.iter().for_each(|field| field.owns(visit));
    }
}

impl Saved for Option<SavedVariable> {
    type Unpacked<'a> = Option<Tensor>;

    fn unpack(&self, cx: &Context<'_>) -> Result<Option<Tensor>> {
        self.as_ref().map(|saved| saved.unpack(cx).map(Unpacked::into_tensor)).transpose()
    }
}

impl<T: Field> Field for Vec<T> {
    const SAVES: bool = T::SAVES;

    fn owns(&self, visit: &mut dyn FnMut(Owned<'_>)) {
        self.iter().for_each(|field| field.owns(visit));
    }
}

impl Saved for Vec<SavedVariable> {
    type Unpacked<'a> = Vec<Tensor>;

    fn unpack(&self, cx: &Context<'_>) -> Result<Vec<Tensor>> {
        self.iter().map(|saved| saved.unpack(cx).map(Unpacked::into_tensor)).collect()
    }
}

impl Saved for Vec<Option<SavedVariable>> {
    type Unpacked<'a> = Vec<Option<Tensor>>;

    fn unpack(&self, cx: &Context<'_>) -> Result<Vec<Option<Tensor>>> {
        self.iter().map(|saved| Saved::unpack(saved, cx)).collect()
    }
}

macro_rules! plain {
    ($($ty:ty),*) => {$(
        impl Field for $ty {}
    )*};
}

plain!(bool, i64, f64, String, Scalar, ScalarType, DimVec, Device, Layout, TensorOptions);

impl<const N: usize> Field for [bool; N] {}
