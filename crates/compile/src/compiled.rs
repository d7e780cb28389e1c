//! [`compile`]: a function and its plans, one for each combination of types of its arguments.

use crate::capture::is_capturing;
use crate::explanation::{Explanation, parts_of};
use crate::graph::ValueInfo;
use crate::planned::{FunctionOf, Planned, obstacle_of};
use flambeau_autograd::{Autograd, is_grad_enabled, is_inference_mode_enabled};
use flambeau_core::{DispatchKey, DispatchKeySet, Result, ScalarType, apply_thread_keys, default_dtype};
use flambeau_ops::Tensor;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A function whose elementwise operators are fused: [`compile`].
pub struct Compiled {
    function: Arc<FunctionOf>,
    plans: Plans,
}

/// `function`, compiled when it is called first, once for each combination of its arguments' sizes, strides, types and whether they
/// require gradients. The function must depend on its arguments, and on tensors that it knows, only.
///
/// ```
/// use flambeau_compile::compile;
/// use flambeau_ops::Tensor;
///
/// let f = compile(|x: &[Tensor]| Ok(vec![x[0].exp()?.add(&x[1])?.sqrt()?]));
/// let (a, b) = (Tensor::from([0.0f32, 1.0]), Tensor::from([3.0f32, 4.0]));
/// assert_eq!(f.call(&[a.clone(), b.clone()])?[0].to_vec::<f32>()?[0], 2.0);
/// assert!(f.explain(&[a, b]).is_compiled());
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn compile(function: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static) -> Compiled {
    Compiled { function: Arc::new(function), plans: Plans::default() }
}

impl Compiled {
    /// Calls the function.
    ///
    /// # Errors
    /// The function's.
    pub fn call(&self, arguments: &[Tensor]) -> Result<Vec<Tensor>> {
        match self.plans.call_planned("", &self.function, arguments)? {
            Some((_, results)) => Ok(results),
            None => (self.function)(arguments),
        }
    }

    /// What a call with such arguments runs, and why. It compiles for them if that has not happened.
    pub fn explain(&self, arguments: &[Tensor]) -> Explanation {
        self.plans.explain("", &self.function, arguments)
    }

    /// For how many combinations of arguments the function was compiled.
    pub fn plans(&self) -> usize {
        self.plans.count()
    }
}

/// What plans differ by.
struct Key {
    /// What a front end adds: arguments that are not tensors.
    state: String,
    arguments: Vec<(ValueInfo, bool)>,
    is_recording: bool,
    is_inference: bool,
    default_dtype: ScalarType,
}

impl Key {
    fn of(state: &str, arguments: &[Tensor]) -> Self {
        let is_recording = is_grad_enabled();
        let argument = |tensor: &Tensor| (ValueInfo::of(tensor), is_recording && tensor.requires_grad());
        Key {
            state: state.to_owned(),
            arguments: arguments.iter().map(argument).collect(),
            is_recording,
            is_inference: is_inference_mode_enabled(),
            default_dtype: default_dtype(),
        }
    }

    /// Whether [`Key::of`] is this one.
    fn is_of(&self, state: &str, arguments: &[Tensor]) -> bool {
        let is_recording = is_grad_enabled();
        let is_same = |((info, requires_grad), tensor): (&(ValueInfo, bool), &Tensor)| {
            info.describes(tensor) && *requires_grad == (is_recording && tensor.requires_grad())
        };
        (self.is_recording, self.is_inference) == (is_recording, is_inference_mode_enabled())
            && self.default_dtype == default_dtype()
            && self.arguments.len() == arguments.len()
            && self.arguments.iter().zip(arguments).all(is_same)
            && self.state == state
    }
}

/// What is kept for a key: the plan, or why the function runs as written; and how long it took.
#[derive(Clone)]
struct Entry {
    number: u64,
    planned: std::result::Result<Arc<Planned>, String>,
    time: Duration,
}

/// So many plans are kept; calls with other arguments then run as written.
const MAX_PLANS: usize = 64;

/// The plans of a function.
#[derive(Default)]
pub struct Plans {
    entries: Mutex<Vec<(Key, Entry)>>,
    /// How many were made.
    made: AtomicU64,
}

impl Plans {
    /// The number and the results of the plan of `function` for such arguments, which is made if there is none; `None` where the function
    /// is to run as written. `state` stands for everything beside the tensors that the function depends on.
    ///
    /// # Errors
    /// Those of the operators.
    pub fn call_planned(
        &self,
        state: &str,
        function: &Arc<FunctionOf>,
        arguments: &[Tensor],
    ) -> Result<Option<(u64, Vec<Tensor>)>> {
        if obstacle(arguments).is_some() {
            return Ok(None);
        }
        match self.entry(state, function, arguments) {
            Some(Entry { planned: Ok(planned), number, .. }) => {
                planned.call(function, arguments).map(|results| Some((number, results)))
            }
            _ => Ok(None),
        }
    }

    /// What a call with such arguments runs.
    pub fn explain(&self, state: &str, function: &Arc<FunctionOf>, arguments: &[Tensor]) -> Explanation {
        let as_written =
            |reason: &str| Explanation { reason: Some(reason.to_owned()), ..Explanation::default() };
        if let Some(why) = obstacle(arguments) {
            return as_written(why);
        }
        let Some(entry) = self.entry(state, function, arguments) else {
            return as_written("it was called with too many combinations of arguments");
        };
        let planned = match entry.planned {
            Ok(planned) => planned,
            Err(why) => return Explanation { time: entry.time, ..as_written(&why) },
        };
        let (loops, calls) = parts_of(&planned.plan);
        let backward = planned.gradient.as_ref().and_then(|gradient| gradient.first());
        let (gradient_loops, gradient_calls) =
            backward.map(|backward| parts_of(&backward.plan)).unwrap_or_default();
        let plan = Some(entry.number);
        Explanation { reason: None, loops, calls, gradient_loops, gradient_calls, plan, time: entry.time }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.entries.lock().len()
    }

    /// What is kept for such arguments, made if there is nothing; `None` where too much is kept.
    fn entry(&self, state: &str, function: &Arc<FunctionOf>, arguments: &[Tensor]) -> Option<Entry> {
        {
            let mut entries = self.entries.lock();
            if let Some(at) = entries.iter().position(|(known, _)| known.is_of(state, arguments)) {
                let entry = &entries[at].1;
                if entry.planned.as_ref().ok().is_none_or(|planned| planned.is_valid()) {
                    return Some(entry.clone());
                }
                entries.remove(at);
            }
            if entries.len() >= MAX_PLANS {
                return None;
            }
        }
        let (key, start) = (Key::of(state, arguments), Instant::now());
        // The function itself reports its errors, when it runs as written.
        let planned = Planned::new(&**function, arguments).map(Arc::new).map_err(|error| error.to_string());
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let entry = Entry { number, planned, time: start.elapsed() };
        self.entries.lock().push((key, entry.clone()));
        Some(entry)
    }
}

/// Why a call runs as written whatever the function does.
fn obstacle(arguments: &[Tensor]) -> Option<&'static str> {
    if is_capturing() {
        return Some("another compiled function calls it, of whose loops it becomes a part");
    }
    let others = apply_thread_keys(DispatchKeySet::EMPTY).without(DispatchKey::Profiler.into());
    if !others.is_empty() {
        return Some("a mode of the thread sees its operators");
    }
    if arguments.is_empty() {
        return Some("it has no tensors as arguments");
    }
    arguments.iter().find_map(obstacle_of)
}
