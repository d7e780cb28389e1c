//! The elementwise loops that a kernel of the CPU runs, written down instead of run: the kernel is called with tensors of the device
//! `meta`, whose elements the host may not touch, so that its loops ask for the loops of that device, which are these.

use flambeau_core::{DeviceType, Result, Scalar, ScalarType, Storage, bail, error};
use flambeau_ops::Tensor;
use flambeau_ops::loops::device::{DeviceLoops, LoopsOf};
use flambeau_ops::tensor_iterator::{Operand, TensorIterator};
use flambeau_ops::vectorized::traced::{Tape, TracedType};
use std::cell::RefCell;

/// An operand of a loop.
pub(crate) struct TracedOperand {
    pub(crate) storage: Storage,
    pub(crate) sizes: Vec<i64>,
    pub(crate) strides: Vec<i64>,
    pub(crate) offset: i64,
    pub(crate) dtype: ScalarType,
    /// Its value, where it is a number.
    pub(crate) number: Option<Scalar>,
}

impl TracedOperand {
    /// Whether it is this tensor.
    pub(crate) fn is(&self, tensor: &Tensor) -> bool {
        Storage::ptr_eq(&self.storage, tensor.storage())
            && self.sizes == tensor.sizes()
            && self.strides == tensor.strides()
    }
}

/// A loop: the first operand is the result.
pub(crate) struct TracedLoop {
    /// The operator that runs it.
    pub(crate) operator: &'static str,
    pub(crate) operands: Vec<TracedOperand>,
    pub(crate) tape: Tape,
    pub(crate) computing: ScalarType,
    /// The type of the result as the formula gives it.
    pub(crate) output: ScalarType,
}

thread_local! {
    static LOOPS: RefCell<Option<Vec<TracedLoop>>> = const { RefCell::new(None) };
}

/// What `kernel` returns, and the loops that it ran on this thread.
pub(crate) fn traced<R>(kernel: impl FnOnce() -> R) -> (R, Vec<TracedLoop>) {
    let set = |loops| LOOPS.try_with(|cell| cell.replace(loops)).ok().flatten();
    set(Some(Vec::new()));
    let returned = kernel();
    (returned, set(None).unwrap_or_default())
}

/// The loops of the device `meta`.
struct MetaLoops;

inventory::submit! { LoopsOf::new(DeviceType::Meta, &MetaLoops) }

impl DeviceLoops for MetaLoops {
    fn pointwise(
        &self,
        iter: &TensorIterator<'_>,
        formula: &Tape,
        input: ScalarType,
        output: ScalarType,
    ) -> Result<()> {
        record(iter, formula.clone(), input, output)
    }

    fn select(&self, iter: &TensorIterator<'_>) -> Result<()> {
        let kinds = [TracedType::Mask, TracedType::Element, TracedType::Element];
        let tape = Tape::of(Some("select"), &kinds, &[]);
        record(iter, tape, iter.common_dtype(), iter.common_dtype())
    }

    fn copy(&self, iter: &TensorIterator<'_>) -> Result<()> {
        let to = iter.operands().first().map_or(ScalarType::F32, Operand::dtype);
        record(iter, Tape::of(None, &[TracedType::Element], &[]), to, to)
    }
}

fn record(iter: &TensorIterator<'_>, tape: Tape, computing: ScalarType, output: ScalarType) -> Result<()> {
    let operands: Vec<TracedOperand> = iter.operands().iter().map(operand).collect::<Result<_>>()?;
    let made = TracedLoop { operator: iter.name(), operands, tape, computing, output };
    let recorded = LOOPS.try_with(|cell| match cell.borrow_mut().as_mut() {
        Some(loops) => {
            loops.push(made);
            true
        }
        None => false,
    });
    if recorded != Ok(true) {
        bail!(Device(iter.name()), "expected tensors with elements but got one on the device meta");
    }
    Ok(())
}

fn operand(operand: &Operand<'_>) -> Result<TracedOperand> {
    let (Some(tensor), Some(geometry)) = (operand.tensor(), operand.geometry()) else {
        return Err(error!(Internal, "compile: the iterator was not built"));
    };
    Ok(TracedOperand {
        storage: tensor.storage().clone(),
        sizes: geometry.sizes().to_vec(),
        strides: geometry.strides().to_vec(),
        offset: geometry.storage_offset(),
        dtype: tensor.dtype(),
        number: number_of(tensor)?,
    })
}

fn number_of(tensor: &Tensor) -> Result<Option<Scalar>> {
    let is_number = tensor.device().is_cpu() && tensor.dim() == 0 && tensor.storage().is_host();
    is_number.then(|| tensor.item_scalar()).transpose()
}
