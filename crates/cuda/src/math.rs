//! Which mathematical functions programs have: those of CUDA, or the host's, which consist of sums, products and tables and give the host's
//! bits.

use flambeau_core::{Result, ScalarType, bail};
use flambeau_ops::vectorized::traced::{Node, NodeId, Tape};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The mathematical functions of elementwise operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Math {
    /// Those of CUDA: within a few ulp of the host's.
    Native,
    /// Those of the host, with its bits.
    Portable,
}

/// 0 until it is known, 1 for native, 2 for portable.
static MATH: AtomicU8 = AtomicU8::new(0);

/// The functions that programs have: those that [`set_math`] said, or else the environment by `FLAMBEAU_CUDA_MATH=portable`.
pub fn math() -> Math {
    match MATH.load(Ordering::Relaxed) {
        1 => Math::Native,
        2 => Math::Portable,
        _ => {
            let is_portable = std::env::var("FLAMBEAU_CUDA_MATH").is_ok_and(|value| value == "portable");
            let math = if is_portable { Math::Portable } else { Math::Native };
            set_math(math);
            math
        }
    }
}

/// Has programs from now on compute with these functions.
pub fn set_math(math: Math) {
    MATH.store(if math == Math::Portable { 2 } else { 1 }, Ordering::Relaxed);
}

/// What tells expressions apart: the nodes, those of the result and of its imaginary part, and whether it is of f64.
type Key = (Vec<Node>, [Option<NodeId>; 2], bool);

/// Expressions without functions, by those that have them.
type Portable = HashMap<Key, Arc<Tape>>;

/// A formula without mathematical functions, where programs are to be portable; `None` where it stays as it is. The numbers that the formula
/// was given are those of another call.
///
/// # Errors
/// `NotImplemented` where the expression is too long.
pub(crate) fn portable(formula: &Tape, computing: ScalarType) -> Result<Option<Arc<Tape>>> {
    static KNOWN: LazyLock<Mutex<Portable>> = LazyLock::new(Mutex::default);
    let is_float = computing.is_floating_point() || computing.is_complex();
    if !is_float || math() == Math::Native {
        return Ok(None);
    }
    let is_f64 = matches!(computing, ScalarType::F64 | ScalarType::Complex128);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (formula.nodes.clone(), [formula.output, formula.imaginary], is_f64);
    let made = known.entry(key).or_insert_with(|| Arc::new(formula.portable(is_f64)));
    if let Some(why) = made.fault {
        bail!(NotImplemented, "cuda: there is no portable program of the formula: {why}");
    }
    Ok(Some(Arc::clone(made)))
}
