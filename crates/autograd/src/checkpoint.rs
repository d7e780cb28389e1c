//! Activation checkpointing: a segment of a computation keeps its inputs instead of what its backward pass needs, and is recomputed in
//! the backward pass.
//!
//! The idea is Chen et al.'s (2016, "Training Deep Nets with Sublinear Memory Cost"). For each tensor that an operator saves inside a
//! segment, the graph keeps an empty slot. The first slot that a backward pass unpacks has the segment run again, which fills all of
//! its slots. A segment inside another saves its inputs through the outer one, so that it keeps slots of the outer segment instead
//! of tensors.

use crate::grad_mode::{enable_grad, is_grad_enabled};
use crate::graph::hooks::{Packed, saved_tensors_hooks};
use crate::tensor::Autograd;
use flambeau_core::{Error, ErrorKind, Generator, GeneratorState, Result, ScalarType, bail, ensure};
use flambeau_ops::Tensor;
use parking_lot::Mutex;
use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// The result of `function` for `inputs`. What its operators save is not kept: a backward pass runs the function again.
///
/// The second run draws the same random numbers. It must save tensors of the same sizes and types in the same order, and not write
/// to its inputs. What the closure captures is kept alive, so tensors that other operators computed should be passed as inputs.
///
/// # Errors
/// Those of `function`. The backward pass has them too, and an `Autograd` error where the function does something else when
/// it runs again, or where an input was written since.
///
/// ```
/// use flambeau_autograd::{Autograd, checkpoint};
/// use flambeau_ops::{Tensor, ops};
/// let x = Tensor::from([0.5f64, 1.0]);
/// x.requires_grad_(true)?;
/// let y = checkpoint(|x: &[Tensor]| ops::exp(&ops::sin(&x[0])?), &[x.clone()])?;
/// ops::sum(&y, None)?.backward()?;
/// assert!(x.grad().is_some());
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn checkpoint<T>(
    function: impl Fn(&[Tensor]) -> Result<T> + Send + Sync + 'static,
    inputs: &[Tensor],
) -> Result<T> {
    if !is_grad_enabled() {
        return function(inputs);
    }
    let function = Arc::new(function);
    let again = Arc::clone(&function);
    let segment = Arc::new(Segment {
        function: Box::new(move |inputs| again(inputs).map(drop)),
        inputs: inputs.iter().map(Input::keep).collect::<Result<_>>()?,
        generator: Generator::default_cpu().state(),
        slots: Mutex::new(Vec::new()),
    });
    saving_to(segment, || function(inputs))
}

/// What packs saved tensors: a segment that runs for the first time, or its recomputation.
trait Saver: Send + Sync {
    fn pack(self: Arc<Self>, tensor: &Tensor) -> Result<Packed>;

    fn unpack(&self, packed: &(dyn Any + Send + Sync)) -> Result<Tensor>;
}

thread_local! {
    /// The segments that run on this thread, the innermost last.
    static RUNNING: RefCell<Vec<Arc<dyn Saver>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `function`. What its operators save goes to `saver`, and so do the inputs of segments inside it.
fn saving_to<S: Saver + 'static, T>(saver: Arc<S>, function: impl FnOnce() -> Result<T>) -> Result<T> {
    struct Running;
    impl Drop for Running {
        fn drop(&mut self) {
            let gone = RUNNING.with_borrow_mut(Vec::pop);
            drop(gone);
        }
    }
    let (pack, unpack) = (Arc::clone(&saver), Arc::clone(&saver));
    RUNNING.with_borrow_mut(|running| running.push(saver));
    let _running = Running;
    let _hooks = saved_tensors_hooks(
        move |tensor| Arc::clone(&pack).pack(tensor),
        move |packed| unpack.unpack(packed),
    );
    function()
}

type Function = dyn Fn(&[Tensor]) -> Result<()> + Send + Sync;

/// One call of [`checkpoint`]. It has weak references to its slots: those whose graph was dropped are not filled.
struct Segment {
    function: Box<Function>,
    inputs: Vec<Input>,
    generator: GeneratorState,
    slots: Mutex<Vec<(Weak<Slot>, Kind)>>,
}

/// What a graph keeps for a saved tensor. It holds the tensor after the segment was recomputed.
struct Slot {
    segment: Arc<Segment>,
    tensor: Mutex<Option<Tensor>>,
}

/// What must be the same of a saved tensor when a segment is recomputed.
#[derive(Debug, Clone, PartialEq)]
struct Kind {
    sizes: Vec<i64>,
    dtype: ScalarType,
}

impl Kind {
    fn of(tensor: &Tensor) -> Self {
        Kind { sizes: tensor.sizes().to_vec(), dtype: tensor.dtype() }
    }
}

impl Saver for Segment {
    fn pack(self: Arc<Self>, tensor: &Tensor) -> Result<Packed> {
        let slot = Arc::new(Slot { segment: Arc::clone(&self), tensor: Mutex::new(None) });
        self.slots.lock().push((Arc::downgrade(&slot), Kind::of(tensor)));
        Ok(Box::new(slot))
    }

    fn unpack(&self, packed: &(dyn Any + Send + Sync)) -> Result<Tensor> {
        let Some(slot) = packed.downcast_ref::<Arc<Slot>>() else {
            bail!(Internal, "expected a slot of a checkpointed segment")
        };
        let filled = slot.tensor.lock().take();
        if let Some(tensor) = filled {
            return Ok(tensor);
        }
        slot.segment.recompute()?;
        let recomputed = slot.tensor.lock().take();
        recomputed.ok_or_else(|| fault("a tensor was not saved again when the function ran again"))
    }
}

impl Segment {
    fn recompute(self: &Arc<Self>) -> Result<()> {
        let inputs: Vec<Tensor> = self.inputs.iter().map(Input::tensor).collect::<Result<_>>()?;
        let expected = self.slots.lock().len();
        let recomputation =
            Arc::new(Recomputation { segment: Arc::clone(self), expected, count: AtomicUsize::new(0) });
        let _recorded = enable_grad();
        let _generator = GeneratorStateGuard::set(self.generator);
        match saving_to(Arc::clone(&recomputation), || (self.function)(&inputs)) {
            Err(error) if !is_stop(&error) => return Err(error),
            _ => {}
        }
        let count = recomputation.count.load(Ordering::Relaxed);
        ensure!(
            count == expected,
            Autograd,
            "checkpoint: {expected} tensors were saved when the function ran first, and {count} when it ran again"
        );
        Ok(())
    }
}

/// A segment that runs again: what its operators save goes to the slots of the first run.
struct Recomputation {
    segment: Arc<Segment>,
    expected: usize,
    count: AtomicUsize,
}

impl Saver for Recomputation {
    fn pack(self: Arc<Self>, tensor: &Tensor) -> Result<Packed> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let kept = tensor.detach()?;
        if number < self.expected {
            self.fill(number, &kept)?;
            // Every slot is filled: the rest of the function need not run.
            if number + 1 == self.expected {
                return Err(Error::with_source(
                    ErrorKind::Interrupted,
                    "checkpoint: enough",
                    StopRecomputation,
                ));
            }
        }
        // Unpacked only by a backward pass inside the function itself.
        Ok(Box::new(kept))
    }

    fn unpack(&self, packed: &(dyn Any + Send + Sync)) -> Result<Tensor> {
        packed.downcast_ref::<Tensor>().cloned().ok_or_else(|| fault("a tensor of another kind"))
    }
}

impl Recomputation {
    fn fill(&self, number: usize, tensor: &Tensor) -> Result<()> {
        let Some((slot, first)) = self.segment.slots.lock().get(number).cloned() else { return Ok(()) };
        let now = Kind::of(tensor);
        ensure!(
            first == now,
            Autograd,
            "checkpoint: expected saved tensor {number} to be {first:?} again but got {now:?}"
        );
        if let Some(slot) = slot.upgrade() {
            *slot.tensor.lock() = Some(tensor.clone());
        }
        Ok(())
    }
}

/// The source of the error with which a recomputation stops early.
#[derive(Debug)]
struct StopRecomputation;

impl fmt::Display for StopRecomputation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("every saved tensor was recomputed")
    }
}

impl std::error::Error for StopRecomputation {}

fn is_stop(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<StopRecomputation>())
}

/// An input that a segment saved for its recomputation.
enum Input {
    Tensor {
        tensor: Tensor,
        version: u32,
    },
    /// Saved by the segment around this one.
    Outer {
        saver: Arc<dyn Saver>,
        packed: Packed,
        requires_grad: bool,
    },
}

impl Input {
    fn keep(tensor: &Tensor) -> Result<Self> {
        let Some(saver) = RUNNING.with_borrow(|running| running.last().cloned()) else {
            return Ok(Input::Tensor { tensor: tensor.clone(), version: tensor.version() });
        };
        let packed = Arc::clone(&saver).pack(tensor)?;
        Ok(Input::Outer { saver, packed, requires_grad: tensor.requires_grad() })
    }

    fn tensor(&self) -> Result<Tensor> {
        match self {
            Input::Tensor { tensor, version } => {
                ensure!(
                    tensor.version() == *version,
                    Autograd,
                    "an input of a checkpointed function has been modified by an inplace operation: it is at version {}; \
                     expected version {version} instead",
                    tensor.version()
                );
                Ok(tensor.clone())
            }
            Input::Outer { saver, packed, requires_grad } => {
                let tensor = saver.unpack(&**packed)?.detach()?;
                tensor.requires_grad_(*requires_grad)?;
                Ok(tensor)
            }
        }
    }
}

/// Restores the former state of the default generator when it is dropped.
struct GeneratorStateGuard(GeneratorState);

impl GeneratorStateGuard {
    fn set(state: GeneratorState) -> Self {
        let generator = Generator::default_cpu();
        let before = generator.state();
        generator.set_state(state);
        GeneratorStateGuard(before)
    }
}

impl Drop for GeneratorStateGuard {
    fn drop(&mut self) {
        Generator::default_cpu().set_state(self.0);
    }
}

fn fault(message: &str) -> Error {
    Error::new(ErrorKind::Autograd, format!("checkpoint: {message}"))
}
