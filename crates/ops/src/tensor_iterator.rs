//! The geometry of a call: which elements of the operands belong together, in what order, in what type. It depends on no device and no
//! formula.
//!
//! A kernel's meta function fills an iterator with [`build`](TensorIterator::build) or one of its short forms; the kernel then
//! locks the operands and loops over them.

mod build;
mod config;
mod for_each;
pub mod iterate;
mod operand;
mod reduction;
mod trivial;
mod types;

pub use config::Config;
pub(crate) use for_each::{Along, grain_of};
pub use for_each::{GRAIN, Pointers};
pub use operand::{Operand, Operands};
pub(crate) use reduction::coalesce;
pub use reduction::{Dim, DimMask, Dims, Reduction, offsets};
pub use types::{result_type, result_type_of};

use crate::Tensor;
use flambeau_core::{Access, Device, DimVec, Guarded, Result, ScalarType, bail, shape, with_guards};
use operand::{Output, Role};
use smallvec::SmallVec;
use std::sync::OnceLock;
pub(crate) use trivial::TrivialIter;

/// Operands, outputs first, and the shape of the loops over them. Filled in place: to move it would cost as much as a small kernel,
/// since the copy's wide loads follow narrow stores (Note: store forwarding, in `flambeau_core`).
///
/// # Note: trivial calls
///
/// Most calls have contiguous inputs of one shape, type and device. For these the build ends after one comparison, and stores only
/// the inputs and the output; [`operands`](Self::operands) are made when they are first read.
pub struct TensorIterator<'a> {
    name: &'static str,
    output: Output<'a>,
    trivial: Option<TrivialIter<'a>>,
    trivial_operands: OnceLock<Operands<'a>>,
    operands: Operands<'a>,
    outputs: usize,
    /// Innermost dimension first; coalesced once built.
    shape: DimVec,
    /// The sizes of the result before reordering, outermost first.
    sizes: DimVec,
    common_dtype: ScalarType,
}

impl<'a> TensorIterator<'a> {
    #[inline(always)]
    fn with_output(name: &'static str, output: Output<'a>) -> Self {
        TensorIterator {
            name,
            output,
            trivial: None,
            trivial_operands: OnceLock::new(),
            operands: Operands::new(),
            outputs: 1,
            shape: DimVec::new(),
            sizes: DimVec::new(),
            common_dtype: ScalarType::F32,
        }
    }

    /// For a call of operator `name` whose result is allocated by [`build`](Self::build).
    #[inline(always)]
    pub fn functional(name: &'static str) -> Self {
        Self::with_output(name, Output::Allocate)
    }

    /// For `x.add_(y)`: the result is written into `self_`, whose shape is fixed.
    #[inline(always)]
    pub fn in_place(name: &'static str, self_: &'a Tensor) -> Self {
        Self::with_output(name, Output::InPlace(self_))
    }

    /// For `add(x, y, out=z)`: the result is written into `out`, which is resized if need be.
    #[inline(always)]
    pub fn out(name: &'static str, out: &'a Tensor) -> Self {
        Self::with_output(name, Output::Out(out))
    }

    /// Whether the result is written over the first argument.
    pub(crate) fn is_in_place(&self) -> bool {
        matches!(self.output, Output::InPlace(_))
    }

    /// Adds the first output, before any other operand.
    fn begin(&mut self) {
        if self.operands.is_empty() {
            self.operands.push(Operand::output(self.output));
        }
    }

    /// Adds an output, allocated by the build or `out`. Before any input.
    pub fn add_output(&mut self, out: Option<&'a Tensor>) {
        self.begin();
        let output = out.map_or(Output::Allocate, Output::Out);
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
    ///
    /// Takes the iterator by reference, since to move it would cost as much as a small kernel (Note: store forwarding, in
    /// `flambeau_core`).
    #[inline]
    pub fn take_result(&mut self) -> Result<Tensor> {
        match &mut self.trivial {
            Some(trivial) => Ok(trivial.take_output()),
            None => self.take_output(0),
        }
    }

    /// Result `index`, once built.
    ///
    /// # Errors
    /// `Internal` where nothing was built.
    #[inline]
    pub fn take_output(&mut self, index: usize) -> Result<Tensor> {
        match (&self.trivial, self.operands.get_mut(index)) {
            (Some(trivial), _) if index == 0 => Ok(trivial.output().clone()),
            (None, Some(operand)) => operand.take_tensor(self.name),
            _ => bail!(Internal(self.name), "there is no output {index}"),
        }
    }

    /// Ends an in-place call.
    #[inline]
    pub fn finish(&self) -> Result<()> {
        Ok(())
    }

    /// Ends an `out=` call: an output that had other sizes than the result is resized and gets the values.
    ///
    /// # Errors
    /// `OutOfMemory` where it cannot grow.
    pub fn finish_out(&self) -> Result<()> {
        for operand in self.operands.iter().take(self.outputs) {
            operand.copy_to_out().map_err(|e| e.in_operator(self.name))?;
        }
        Ok(())
    }

    /// Whether all outputs are new tensors, so that nobody sees them if the call fails.
    pub(crate) fn writes_new(&self) -> bool {
        match &self.trivial {
            Some(trivial) => trivial.is_fresh(),
            None => self.operands.iter().take(self.outputs).all(Operand::is_fresh),
        }
    }

    /// Outputs first.
    #[inline]
    pub fn operands(&self) -> &[Operand<'a>] {
        match &self.trivial {
            Some(trivial) => self.trivial_operands.get_or_init(|| trivial.operands()),
            None => &self.operands,
        }
    }

    /// The call, if it is trivial.
    #[inline]
    pub(crate) fn trivial(&self) -> Option<&TrivialIter<'a>> {
        self.trivial.as_ref()
    }

    /// How many of the operands are outputs.
    #[inline]
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The sizes of the loops, innermost first, coalesced.
    #[inline]
    pub fn shape(&self) -> &[i64] {
        match &self.trivial {
            Some(trivial) => trivial.shape(),
            None => &self.shape,
        }
    }

    /// The number of elements of the loops.
    #[inline]
    pub fn numel(&self) -> i64 {
        shape::product(self.shape())
    }

    /// The type the formula is evaluated in.
    #[inline]
    pub fn common_dtype(&self) -> ScalarType {
        self.common_dtype
    }

    /// The device of the output, on which the call is computed, once built.
    pub(crate) fn device(&self) -> Option<Device> {
        match &self.trivial {
            Some(trivial) => Some(trivial.output().device()),
            None => self.operands.first().and_then(Operand::tensor).map(|output| output.device()),
        }
    }

    /// Whether the operands are meta tensors, which have no elements, so that there is nothing to compute.
    pub fn is_meta(&self) -> bool {
        match &self.trivial {
            Some(trivial) => trivial.is_meta(),
            None => self.operands.iter().filter_map(Operand::tensor).any(|t| t.device().is_meta()),
        }
    }

    /// Calls `body` under the guards of all operands.
    ///
    /// # Errors
    /// `Device` for operands without elements on the CPU, `Busy` where this thread holds an accessor of one, `Aliasing`
    /// where memory may not be written.
    #[inline]
    pub fn with_guards<R>(&self, body: impl for<'g> FnOnce(Guarded<'g>) -> R) -> Result<R> {
        let mut accesses: SmallVec<[(&flambeau_core::Storage, Access); 4]> = SmallVec::new();
        for operand in self.operands() {
            if !operand.is_fresh() {
                let access = if operand.role() == Role::Output { Access::Write } else { Access::Read };
                accesses.push((operand.storage(self.name)?, access));
            }
        }
        with_guards(&accesses, body).map_err(|e| e.in_operator(self.name))
    }

    /// Calls `body`, under the guards of all operands, with the address of each one's first element.
    ///
    /// # Errors
    /// Those of [`with_guards`](Self::with_guards).
    #[inline]
    pub fn with_pointers<R>(&self, body: impl FnOnce(&[*mut u8]) -> R) -> Result<R> {
        self.with_guards(|guarded| {
            let pointers: SmallVec<[*mut u8; 4]> =
                self.operands().iter().map(|operand| operand.first_element(guarded)).collect();
            body(&pointers)
        })
    }
}
