//! Derivatives of the operators that a plug-in defines.

use crate::abi::{FbBackward, FbError, FbSetup, FbTensor};
use crate::error::{Result, outcome, taken};
use crate::operator::{Operator, drop_box};
use crate::table::member;
use crate::tensor::Tensor;
use crate::value::{Value, borrowed, list};
use std::ffi::c_void;

/// A call that is recorded: its arguments and results.
pub struct Recorded {
    /// All arguments of the schema.
    pub arguments: Vec<Value>,
    /// What the operator returned.
    pub results: Vec<Value>,
}

/// A node of the graph while its gradients are computed.
pub struct Backward {
    /// The arguments of the call; those that are tensors are [`Value::None`].
    pub arguments: Vec<Value>,
    /// The tensors that were saved.
    pub saved: Vec<Tensor>,
    /// The gradient of each result that is a tensor.
    pub gradients: Vec<Option<Tensor>>,
}

/// The two functions of a derivative.
struct Derivative<S, B> {
    setup: S,
    backward: B,
}

impl Operator {
    /// Gives the operator a derivative in both modes. `setup` returns the tensors to save; `backward` returns the gradients of the tensors
    /// among the arguments, one for each, by calling operators, so that it can be differentiated itself.
    ///
    /// # Errors
    /// `InvalidArgument` where it has one, `NotImplemented` where it writes an argument.
    pub fn autograd<S, B>(self, setup: S, backward: B) -> Result<()>
    where
        S: Fn(&Recorded) -> Result<Vec<Tensor>> + Send + Sync + 'static,
        B: Fn(&Backward) -> Result<Vec<Option<Tensor>>> + Send + Sync + 'static,
    {
        let autograd = member!(autograd);
        let context = Box::into_raw(Box::new(Derivative { setup, backward })).cast();
        let drop = drop_box::<Derivative<S, B>>;
        // SAFETY: functions and context belong together, and the library drops the context.
        unsafe {
            taken(autograd(
                self.handle(),
                Some(run_setup::<S, B>),
                run_backward::<S, B>,
                context,
                Some(drop),
                0,
            ))
        }
    }
}

/// # Safety
/// - `context` is a `Derivative<S, B>`, and `setup` a recorded call.
unsafe extern "C" fn run_setup<S, B>(context: *mut c_void, setup: *mut FbSetup) -> *mut FbError
where
    S: Fn(&Recorded) -> Result<Vec<Tensor>>,
{
    outcome(|| {
        let (arguments, results, save) =
            (member!(setup_arguments), member!(setup_results), member!(setup_save));
        let mut count = 0;
        // SAFETY: as above.
        unsafe {
            let derivative = &*context.cast::<Derivative<S, B>>();
            let first = arguments(setup, &raw mut count);
            let arguments = borrowed(first, count)?;
            let first = results(setup, &raw mut count);
            let results = borrowed(first, count)?;
            let saved = (derivative.setup)(&Recorded { arguments, results })?;
            let handles: Vec<*mut FbTensor> = saved.iter().map(Tensor::handle).collect();
            taken(save(setup, handles.as_ptr(), handles.len()))
        }
    })
}

/// # Safety
/// - `context` is a `Derivative<S, B>`, and `backward` a node that runs.
unsafe extern "C" fn run_backward<S, B>(context: *mut c_void, backward: *mut FbBackward) -> *mut FbError
where
    B: Fn(&Backward) -> Result<Vec<Option<Tensor>>>,
{
    outcome(|| {
        let (arguments, saved) = (member!(backward_arguments), member!(backward_saved));
        let (gradients, set) = (member!(backward_gradients), member!(backward_set_gradient));
        let mut count = 0;
        // SAFETY: as above.
        unsafe {
            let derivative = &*context.cast::<Derivative<S, B>>();
            let first = arguments(backward, &raw mut count);
            let arguments = borrowed(first, count)?;
            let first = saved(backward, &raw mut count);
            let saved =
                list(first, count).iter().map(|tensor| Tensor::retained(*tensor)).collect::<Result<_>>()?;
            let first = gradients(backward, &raw mut count);
            let given =
                |tensor: &*mut FbTensor| (!tensor.is_null()).then(|| Tensor::retained(*tensor)).transpose();
            let gradients = list(first, count).iter().map(given).collect::<Result<_>>()?;
            let made = (derivative.backward)(&Backward { arguments, saved, gradients })?;
            for (input, gradient) in made.iter().enumerate() {
                if let Some(gradient) = gradient {
                    taken(set(backward, input, gradient.handle()))?;
                }
            }
            Ok(())
        }
    })
}
