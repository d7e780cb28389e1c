//! Activation checkpointing: a part of a computation keeps its inputs instead of what its backward needs, and runs again then.
//!
//! The idea is Chen et al.'s (2016, "Training Deep Nets with Sublinear Memory Cost"). What an operator saves inside a part is
//! a place in a row; the first place that a pass asks for has the part run again, which fills all places. A part inside
//! another hands its inputs to the outer one to save, so that a place in the row of that is all it keeps.

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

/// What `function` makes of `inputs`; a backward pass runs it again instead of keeping what it needs.
///
/// It draws the same random numbers again. It must save tensors of the same sizes and types in the same order, and not write
/// to its inputs. What it captures is kept as it is, so tensors that other operators made should be among the inputs.
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
    let part = Arc::new(Part {
        function: Box::new(move |inputs| again(inputs).map(drop)),
        inputs: inputs.iter().map(Input::keep).collect::<Result<_>>()?,
        generator: Generator::default_cpu().state(),
        places: Mutex::new(Vec::new()),
    });
    saving_to(part, || function(inputs))
}

/// What saves tensors: a part that runs for the first time, or again.
trait Keeper: Send + Sync {
    fn pack(self: Arc<Self>, tensor: &Tensor) -> Result<Packed>;

    fn unpack(&self, packed: &(dyn Any + Send + Sync)) -> Result<Tensor>;
}

thread_local! {
    /// The parts that run on this thread, the innermost last.
    static RUNNING: RefCell<Vec<Arc<dyn Keeper>>> = const { RefCell::new(Vec::new()) };
}

/// What operators of this thread save goes to `keeper`, and so do the inputs of parts.
fn saving_to<K: Keeper + 'static, T>(keeper: Arc<K>, function: impl FnOnce() -> Result<T>) -> Result<T> {
    struct Running;
    impl Drop for Running {
        fn drop(&mut self) {
            let gone = RUNNING.with_borrow_mut(Vec::pop);
            drop(gone);
        }
    }
    let (pack, unpack) = (Arc::clone(&keeper), Arc::clone(&keeper));
    RUNNING.with_borrow_mut(|running| running.push(keeper));
    let _running = Running;
    let _hooks = saved_tensors_hooks(
        move |tensor| Arc::clone(&pack).pack(tensor),
        move |packed| unpack.unpack(packed),
    );
    function()
}

type Function = dyn Fn(&[Tensor]) -> Result<()> + Send + Sync;

/// One call. It knows its places weakly: those whose graph is gone are not filled.
struct Part {
    function: Box<Function>,
    inputs: Vec<Input>,
    generator: GeneratorState,
    places: Mutex<Vec<(Weak<Place>, Kind)>>,
}

/// What a graph keeps for a tensor: its place, and, after the part has run again, the tensor.
struct Place {
    part: Arc<Part>,
    tensor: Mutex<Option<Tensor>>,
}

/// What must be the same when a part runs again.
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

impl Keeper for Part {
    fn pack(self: Arc<Self>, tensor: &Tensor) -> Result<Packed> {
        let place = Arc::new(Place { part: Arc::clone(&self), tensor: Mutex::new(None) });
        self.places.lock().push((Arc::downgrade(&place), Kind::of(tensor)));
        Ok(Box::new(place))
    }

    fn unpack(&self, packed: &(dyn Any + Send + Sync)) -> Result<Tensor> {
        let Some(place) = packed.downcast_ref::<Arc<Place>>() else {
            bail!(Internal, "a place of another kind")
        };
        let there = place.tensor.lock().take();
        if let Some(tensor) = there {
            return Ok(tensor);
        }
        place.part.run_again()?;
        let now = place.tensor.lock().take();
        now.ok_or_else(|| fault("a tensor was not saved again when the function ran again"))
    }
}

impl Part {
    fn run_again(self: &Arc<Self>) -> Result<()> {
        let inputs: Vec<Tensor> = self.inputs.iter().map(Input::tensor).collect::<Result<_>>()?;
        let expected = self.places.lock().len();
        let again = Arc::new(Again { part: Arc::clone(self), expected, count: AtomicUsize::new(0) });
        let _recorded = enable_grad();
        let _generator = GeneratorAt::state(self.generator);
        match saving_to(Arc::clone(&again), || (self.function)(&inputs)) {
            Err(error) if !is_enough(&error) => return Err(error),
            _ => {}
        }
        let count = again.count.load(Ordering::Relaxed);
        ensure!(
            count == expected,
            Autograd,
            "checkpoint: {expected} tensors were saved when the function ran first, and {count} when it ran again"
        );
        Ok(())
    }
}

/// A part that runs again: what it saves goes to the places of the first run.
struct Again {
    part: Arc<Part>,
    expected: usize,
    count: AtomicUsize,
}

impl Keeper for Again {
    fn pack(self: Arc<Self>, tensor: &Tensor) -> Result<Packed> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let kept = tensor.detach()?;
        if number < self.expected {
            self.fill(number, &kept)?;
            // Every place is filled: what comes after is of no use.
            if number + 1 == self.expected {
                return Err(Error::with_source(ErrorKind::Interrupted, "checkpoint: enough", Enough));
            }
        }
        // For a backward pass inside the function itself.
        Ok(Box::new(kept))
    }

    fn unpack(&self, packed: &(dyn Any + Send + Sync)) -> Result<Tensor> {
        packed.downcast_ref::<Tensor>().cloned().ok_or_else(|| fault("a tensor of another kind"))
    }
}

impl Again {
    fn fill(&self, number: usize, tensor: &Tensor) -> Result<()> {
        let Some((place, first)) = self.part.places.lock().get(number).cloned() else { return Ok(()) };
        let now = Kind::of(tensor);
        ensure!(
            first == now,
            Autograd,
            "checkpoint: expected the tensor saved in place {number} to be {first:?} again but got {now:?}"
        );
        if let Some(place) = place.upgrade() {
            *place.tensor.lock() = Some(tensor.clone());
        }
        Ok(())
    }
}

/// The source of the error that ends a part that runs again.
#[derive(Debug)]
struct Enough;

impl fmt::Display for Enough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("every place is filled")
    }
}

impl std::error::Error for Enough {}

fn is_enough(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<Enough>())
}

/// An input, until the part runs again.
enum Input {
    Kept {
        tensor: Tensor,
        version: u32,
    },
    /// Saved by the part around this one.
    Outer {
        keeper: Arc<dyn Keeper>,
        packed: Packed,
        requires_grad: bool,
    },
}

impl Input {
    fn keep(tensor: &Tensor) -> Result<Self> {
        let Some(keeper) = RUNNING.with_borrow(|running| running.last().cloned()) else {
            return Ok(Input::Kept { tensor: tensor.clone(), version: tensor.version() });
        };
        let packed = Arc::clone(&keeper).pack(tensor)?;
        Ok(Input::Outer { keeper, packed, requires_grad: tensor.requires_grad() })
    }

    fn tensor(&self) -> Result<Tensor> {
        match self {
            Input::Kept { tensor, version } => {
                ensure!(
                    tensor.version() == *version,
                    Autograd,
                    "an input of a checkpointed function has been modified by an inplace operation: it is at version {}; \
                     expected version {version} instead",
                    tensor.version()
                );
                Ok(tensor.clone())
            }
            Input::Outer { keeper, packed, requires_grad } => {
                let tensor = keeper.unpack(&**packed)?.detach()?;
                tensor.requires_grad_(*requires_grad)?;
                Ok(tensor)
            }
        }
    }
}

/// The default generator stands at a state, and where it stood when this is dropped.
struct GeneratorAt(GeneratorState);

impl GeneratorAt {
    fn state(state: GeneratorState) -> Self {
        let generator = Generator::default_cpu();
        let before = generator.state();
        generator.set_state(state);
        GeneratorAt(before)
    }
}

impl Drop for GeneratorAt {
    fn drop(&mut self) {
        Generator::default_cpu().set_state(self.0);
    }
}

fn fault(message: &str) -> Error {
    Error::new(ErrorKind::Autograd, format!("checkpoint: {message}"))
}
