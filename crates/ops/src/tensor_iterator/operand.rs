//! One operand of an iterator: a tensor, its strides in the loops, and its type.

use crate::Tensor;
use flambeau_core::{DimVec, Error, ErrorKind, Geometry, Guarded, Result, ScalarType, Storage, StridedView};
use smallvec::SmallVec;

/// Operands, inline for ternary formulas.
pub type Operands<'a> = SmallVec<[Operand<'a>; 4]>;

/// Where an output's tensor comes from.
#[derive(Clone, Copy)]
pub(super) enum Output<'a> {
    /// A new tensor.
    Allocate,
    /// `self` of an in-place call.
    InPlace(&'a Tensor),
    /// `out=`.
    Out(&'a Tensor),
}

/// Whether an operand is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Written.
    Output,
    /// Read.
    Input,
}

pub(super) enum Handle<'a> {
    None,
    /// With its geometry when the call began, which is used throughout the call.
    Borrowed(&'a Tensor, &'a Geometry),
    /// Made by the call.
    Owned(Tensor),
}

impl<'a> Handle<'a> {
    /// A tensor with its present geometry.
    #[inline(always)]
    pub(super) fn borrowed(tensor: &'a Tensor) -> Self {
        Handle::Borrowed(tensor, tensor.geometry())
    }
}

/// An operand of an iterator.
pub struct Operand<'a> {
    pub(super) handle: Handle<'a>,
    pub(super) output: Option<Output<'a>>,
    /// In bytes, innermost dimension first.
    pub(super) strides: DimVec,
    /// Allocated by this call, so that nobody else can reach its elements.
    pub(super) fresh: bool,
    /// The type that an output will have, or an input has.
    pub(super) dtype: ScalarType,
}

impl<'a> Operand<'a> {
    #[inline]
    pub(super) fn output(output: Output<'a>) -> Self {
        let (handle, dtype) = match output {
            Output::Allocate => (Handle::None, ScalarType::F32),
            Output::InPlace(t) | Output::Out(t) => (Handle::borrowed(t), t.dtype()),
        };
        Operand { handle, output: Some(output), strides: DimVec::new(), fresh: false, dtype }
    }

    #[inline]
    pub(super) fn input(tensor: &'a Tensor) -> Self {
        let (handle, dtype) = (Handle::borrowed(tensor), tensor.dtype());
        Operand { handle, output: None, strides: DimVec::new(), fresh: false, dtype }
    }

    /// An input whose geometry was read before.
    pub(super) fn with_geometry(tensor: &'a Tensor, geometry: &'a Geometry) -> Self {
        Operand { handle: Handle::Borrowed(tensor, geometry), ..Self::input(tensor) }
    }

    pub(super) fn owned_input(tensor: Tensor) -> Self {
        let dtype = tensor.dtype();
        Operand { handle: Handle::Owned(tensor), output: None, strides: DimVec::new(), fresh: false, dtype }
    }

    /// The name of an output's argument, for errors.
    pub(super) fn output_argument(&self) -> &'static str {
        if matches!(self.output, Some(Output::InPlace(_))) { "self" } else { "out" }
    }

    /// The tensor, once there is one.
    #[inline]
    pub fn tensor(&self) -> Option<&Tensor> {
        match &self.handle {
            Handle::None => None,
            Handle::Borrowed(t, _) => Some(t),
            Handle::Owned(t) => Some(t),
        }
    }

    /// Its sizes, strides and offset, once there is a tensor: those that are used throughout the call.
    #[inline]
    pub fn geometry(&self) -> Option<&Geometry> {
        match &self.handle {
            Handle::None => None,
            Handle::Borrowed(_, geometry) => Some(geometry),
            Handle::Owned(t) => Some(t.geometry()),
        }
    }

    #[inline]
    pub(super) fn take_tensor(&mut self, name: &str) -> Result<Tensor> {
        match std::mem::replace(&mut self.handle, Handle::None) {
            Handle::Owned(t) => Ok(t),
            Handle::Borrowed(t, _) => Ok(t.clone()),
            Handle::None => Err(not_built(name)),
        }
    }

    /// Copies the values to `out` where a new tensor was written instead.
    pub(super) fn copy_to_out(&self) -> Result<()> {
        match (&self.output, &self.handle) {
            (Some(Output::Out(out)), Handle::Owned(made)) => crate::structured::resize_and_copy(made, out),
            _ => Ok(()),
        }
    }

    /// Whether it is written.
    #[inline]
    pub fn role(&self) -> Role {
        if self.output.is_some() { Role::Output } else { Role::Input }
    }

    /// In bytes, innermost dimension first.
    #[inline]
    pub fn strides(&self) -> &[i64] {
        &self.strides
    }

    /// Whether both are views of one storage.
    pub(crate) fn shares_storage(&self, other: &Operand<'_>) -> bool {
        let storages = (self.tensor().map(Tensor::storage), other.tensor().map(Tensor::storage));
        matches!(storages, (Some(a), Some(b)) if Storage::ptr_eq(a, b))
    }

    /// The type of its elements in memory.
    #[inline]
    pub fn dtype(&self) -> ScalarType {
        self.dtype
    }

    #[inline]
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    #[inline]
    pub(super) fn storage(&self, name: &str) -> Result<&Storage> {
        self.tensor().map(Tensor::storage).ok_or_else(|| not_built(name))
    }

    /// The address of its first element; null where there is no tensor.
    #[inline]
    pub(super) fn first_element(&self, guarded: Guarded<'_>) -> *mut u8 {
        match (self.tensor(), self.geometry()) {
            (Some(tensor), Some(geometry)) => {
                guarded.ptr(StridedView::with_geometry(tensor.impl_(), geometry))
            }
            _ => std::ptr::null_mut(),
        }
    }
}

#[cold]
fn not_built(name: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("{name}: the iterator was not built"))
}
