//! The geometry of a call: which elements of each operand meet, in what order, in what type. It names no device and no formula.
//!
//! A kernel's meta function fills an iterator with [`build`](TensorIterator::build) or one of its short forms; the kernel then
//! locks the operands and walks them.

mod build;
mod config;
mod operand;
mod reduction;
mod types;
mod walk;

pub use config::Config;
pub use operand::{Operand, Operands};
pub use reduction::{Dim, DimMask, Dims, Reduction, offsets};
pub use types::{result_type, result_type_of};
pub use walk::{GRAIN, Pointers};

use crate::Tensor;
use flambeau_core::{Access, StorageGuards};
use flambeau_core::{DimVec, Result, ScalarType, bail};
use operand::{Output, Role};
use smallvec::SmallVec;

/// Operands, outputs first, and the shape they are walked in. Filled in place, since moving it costs as much as a small kernel.
pub struct TensorIterator<'a> {
    name: &'static str,
    operands: Operands<'a>,
    outputs: usize,
    /// Innermost dimension first; coalesced once built.
    shape: DimVec,
    /// The sizes of the result before reordering, outermost first.
    sizes: DimVec,
    common_dtype: ScalarType,
}

impl<'a> TensorIterator<'a> {
    #[inline]
    fn with_output(name: &'static str, output: Output<'a>) -> Self {
        let mut operands = Operands::new();
        operands.push(Operand::output(output));
        let (shape, sizes) = (DimVec::new(), DimVec::new());
        TensorIterator { name, operands, outputs: 1, shape, sizes, common_dtype: ScalarType::F32 }
    }

    /// For a call of operator `name` whose result is allocated by [`build`](Self::build).
    #[inline]
    pub fn functional(name: &'static str) -> Self {
        Self::with_output(name, Output::Allocate)
    }

    /// For `x.add_(y)`: the result is written into `self_`, whose shape is fixed.
    #[inline]
    pub fn in_place(name: &'static str, self_: &'a Tensor) -> Self {
        Self::with_output(name, Output::InPlace(self_))
    }

    /// For `add(x, y, out=z)`: the result is written into `out`, which is resized if need be.
    #[inline]
    pub fn out(name: &'static str, out: &'a Tensor) -> Self {
        Self::with_output(name, Output::Given(out))
    }

    /// With one more output, of the same kind as the first unless given.
    pub fn add_output(&mut self, given: Option<&'a Tensor>) {
        let output = given.map_or(Output::Allocate, Output::Given);
        self.operands.insert(self.outputs, Operand::output(output));
        self.outputs += 1;
    }

    /// The operator, for messages.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The result, once built.
    ///
    /// # Errors
    /// `Internal` where nothing was built.
    #[inline]
    pub fn into_output(mut self) -> Result<Tensor> {
        self.take_output(0)
    }

    /// Result number `index`, once built.
    ///
    /// # Errors
    /// `Internal` where nothing was built.
    #[inline]
    pub fn take_output(&mut self, index: usize) -> Result<Tensor> {
        match self.operands.get_mut(index) {
            Some(operand) => operand.take_tensor(self.name),
            None => bail!(Internal, "{}: there is no output {index}", self.name),
        }
    }

    /// Ends an in-place or `out=` call.
    #[inline]
    pub fn finish(self) -> Result<()> {
        Ok(())
    }

    /// Outputs first.
    #[inline]
    pub fn operands(&self) -> &[Operand<'a>] {
        &self.operands
    }

    /// How many of the operands are outputs.
    #[inline]
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The sizes walked, innermost first, coalesced.
    #[inline]
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The number of steps of the walk.
    #[inline]
    pub fn numel(&self) -> i64 {
        self.shape.iter().product()
    }

    /// The type the formula is evaluated in.
    #[inline]
    pub fn common_dtype(&self) -> ScalarType {
        self.common_dtype
    }

    /// Whether the elements are on no device, so that there is nothing to compute.
    pub fn is_meta(&self) -> bool {
        self.operands.iter().filter_map(Operand::tensor).any(|t| t.device().is_meta())
    }

    /// Calls `body` under the guards of all operands.
    ///
    /// # Errors
    /// `Busy` where an accessor of this thread is in the way, `Aliasing` where memory may not be written.
    #[inline]
    pub fn with_guards<R>(&self, body: impl FnOnce() -> R) -> Result<R> {
        let mut wanted: SmallVec<[(&flambeau_core::Storage, Access); 4]> = SmallVec::new();
        for operand in &self.operands {
            if !operand.is_fresh() {
                let access = if operand.role() == Role::Output { Access::Write } else { Access::Read };
                wanted.push((operand.storage(self.name)?, access));
            }
        }
        let _guards = StorageGuards::acquire(&wanted).map_err(|e| e.context(self.name))?;
        Ok(body())
    }

    /// The address of the first element of operand `index`; stays true under [`with_guards`](Self::with_guards).
    #[inline]
    pub fn first_element(&self, index: usize) -> *mut u8 {
        self.operands.get(index).map_or(std::ptr::null_mut(), Operand::first_element)
    }

    /// Calls `body`, under the guards of all operands, with the address of each one's first element.
    ///
    /// # Errors
    /// Those of [`with_guards`](Self::with_guards).
    #[inline]
    pub fn with_pointers<R>(&self, body: impl FnOnce(&[*mut u8]) -> R) -> Result<R> {
        self.with_guards(|| {
            let pointers: SmallVec<[*mut u8; 4]> = self.operands.iter().map(Operand::first_element).collect();
            body(&pointers)
        })
    }
}
