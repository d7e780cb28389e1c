//! Loops on the elements of another device: its crate registers [`DeviceLoops`], which the kernels of this crate call where the host may
//! not touch the operands. So a formula is written once, in Rust, and serves every device.
#![expect(
    unsafe_code,
    reason = "vectors that write down operations are loaded and stored, which accesses nothing"
)]

use super::rows::LaneFormula;
use crate::tensor_iterator::TensorIterator;
use crate::vectorized::Lanes;
use crate::vectorized::traced::{Tape, Traced, trace};
use flambeau_core::{Device, DeviceType, Error, ErrorKind, Result, ScalarType, bail};
use std::ptr;

/// The loops of a kind of device, over the operands of an iterator: one output and several inputs. An input without dimensions may be on
/// the host.
pub trait DeviceLoops: Send + Sync {
    /// Evaluates the expression of a formula of inputs that are converted to `input`; the output is converted from `output`. Of complex
    /// numbers each input is two of the expression, its parts.
    ///
    /// # Errors
    /// What the device reports, and `NotImplemented` for types that it does not have.
    fn pointwise(
        &self,
        iter: &TensorIterator<'_>,
        formula: &Tape,
        input: ScalarType,
        output: ScalarType,
    ) -> Result<()>;

    /// The choice between the second and the third input by the first, a bool.
    ///
    /// # Errors
    /// As for [`pointwise`](Self::pointwise).
    fn select(&self, iter: &TensorIterator<'_>) -> Result<()>;

    /// Copies the input, converting it where types differ.
    ///
    /// # Errors
    /// As for [`pointwise`](Self::pointwise).
    fn copy(&self, iter: &TensorIterator<'_>) -> Result<()>;
}

/// The loops of a kind of device, registered at link time: `inventory::submit!(LoopsOf::new(DeviceType::Cuda, &Loops))`.
pub struct LoopsOf {
    device_type: DeviceType,
    loops: &'static dyn DeviceLoops,
}

inventory::collect!(LoopsOf);

impl LoopsOf {
    /// `loops` for the devices of `device_type`.
    pub const fn new(device_type: DeviceType, loops: &'static dyn DeviceLoops) -> Self {
        LoopsOf { device_type, loops }
    }
}

/// What `done` is, unless the host may not touch the elements and their device has loops: then what `on_device` gives.
#[inline(always)]
pub(super) fn or_on_device(
    done: Result<()>,
    iter: &TensorIterator<'_>,
    on_device: impl FnOnce(&dyn DeviceLoops) -> Result<()>,
) -> Result<()> {
    match done {
        Ok(()) => Ok(()),
        Err(error) => match loops_for(iter, &error) {
            Some(loops) => on_device(loops),
            None => Err(error),
        },
    }
}

/// The loops for a call that the host has refused.
#[cold]
fn loops_for(iter: &TensorIterator<'_>, refused: &Error) -> Option<&'static dyn DeviceLoops> {
    if refused.kind() != ErrorKind::Device {
        return None;
    }
    loops_of(iter)
}

/// The loops that are registered for the device of an iterator's operands.
pub fn loops_of(iter: &TensorIterator<'_>) -> Option<&'static dyn DeviceLoops> {
    let device_type = iter.device()?.device_type();
    let mut all = inventory::iter::<LoopsOf>.into_iter();
    all.find(|loops| loops.device_type == device_type).map(|loops| loops.loops)
}

/// Evaluates a formula of `N` elements of `input`, which is traced by `As`, on a device.
#[cold]
#[inline(never)]
pub(super) fn pointwise<As, F, const N: usize>(
    loops: &dyn DeviceLoops,
    iter: &TensorIterator<'_>,
    formula: F,
    input: ScalarType,
    output: ScalarType,
) -> Result<()>
where
    As: Lanes<Traced>,
    F: LaneFormula<Traced, As, N>,
{
    let tape = trace(|| {
        // SAFETY: vectors of this set neither read nor write memory.
        unsafe {
            let args = std::array::from_fn(|_| As::load(ptr::null()));
            formula.apply(args, ptr::null_mut(), 1);
        }
    });
    run(loops, iter, &tape, input, output)
}

fn run(
    loops: &dyn DeviceLoops,
    iter: &TensorIterator<'_>,
    tape: &Tape,
    input: ScalarType,
    output: ScalarType,
) -> Result<()> {
    if let Some(why) = tape.fault {
        let device = iter.device().unwrap_or(Device::CPU).device_type().name();
        bail!(
            NotImplemented(iter.name()),
            "there is no kernel for {device} of its formula for {input}: {why}"
        );
    }
    loops.pointwise(iter, tape, input, output).map_err(|error| error.in_operator(iter.name()))
}
