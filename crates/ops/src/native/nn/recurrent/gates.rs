//! What cells have in common: the parts of gates, and which operands the kernels take.

use crate::native::pointwise::accumulate::dispatches_to_cpu;
use crate::native::shape::view::alias;
use crate::structured::{TensorSpec, ensure_same_device};
use crate::{Tensor, ops};
use flambeau_core::{
    DimVec, DispatchKey, DispatchKeySet, MemoryFormat, Result, ScalarType, apply_thread_keys, bail, ensure,
};

/// The parts of a product that belong to one gate each.
pub(super) fn parts<const N: usize>(name: &str, product: &Tensor) -> Result<[Tensor; N]> {
    match ops::chunk(product, N as i64, -1)?.try_into() {
        Ok(gates) => Ok(gates),
        Err(_) => bail!(
            Shape(name, "params"),
            "expected weights of {N} gates of one size but got sums of sizes {:?}",
            product.sizes()
        ),
    }
}

/// What the dispatcher finds in all of them.
fn keys_of(tensors: &[Option<&Tensor>]) -> DispatchKeySet {
    tensors.iter().flatten().fold(DispatchKeySet::EMPTY, |keys, tensor| keys | tensor.key_set())
}

/// Whether all are of the floating point type of `first`.
fn are_floats_like(first: &Tensor, tensors: &[Option<&Tensor>]) -> bool {
    use ScalarType::{BF16, F16, F32, F64};
    let dtype = first.dtype();
    matches!(dtype, F16 | BF16 | F32 | F64) && tensors.iter().flatten().all(|tensor| tensor.dtype() == dtype)
}

/// Whether a kernel may read the elements now, since nothing records the call.
pub(super) fn suit_kernel(first: &Tensor, tensors: &[Option<&Tensor>]) -> bool {
    are_floats_like(first, tensors) && dispatches_to_cpu(first.key_set() | keys_of(tensors))
}

/// Whether the operator of a fused cell reaches the kernel, with history or without; the operators that a step is composed of have
/// better rules for batches and tangents.
pub(super) fn suit_operator(first: &Tensor, tensors: &[Option<&Tensor>]) -> bool {
    const PASSED: DispatchKeySet = DispatchKeySet::of(DispatchKey::Autograd)
        .union(DispatchKeySet::of(DispatchKey::ADInplaceOrView))
        .union(DispatchKeySet::of(DispatchKey::Profiler));
    let keys = apply_thread_keys(first.key_set() | keys_of(tensors));
    are_floats_like(first, tensors) && keys.without(PASSED) == DispatchKeySet::of(DispatchKey::Cpu)
}

/// Refuses operands that are not all on one device, and of one floating point type.
pub(super) fn check_type(name: &str, first: &Tensor, tensors: &[Option<&Tensor>]) -> Result<()> {
    ensure!(
        are_floats_like(first, tensors),
        Dtype(name),
        "expected operands of one floating point type but got {}",
        tensors
            .iter()
            .flatten()
            .fold(first.dtype().to_string(), |all, tensor| format!("{all}, {}", tensor.dtype()))
    );
    tensors.iter().flatten().try_for_each(|tensor| ensure_same_device(name, &[first, tensor]))
}

/// Whether the sums of `N` gates belong to states of these sizes.
pub(super) fn have_sizes_of<const N: usize>(gates: [&Tensor; 2], state: &Tensor) -> bool {
    gates.iter().all(|gates| match (gates.sizes().split_last(), state.sizes().split_last()) {
        (Some((sum, leading)), Some((size, of_state))) => {
            size.checked_mul(N as i64) == Some(*sum) && leading == of_state
        }
        _ => false,
    })
}

/// Refuses operands of a cell of `N` gates whose sizes do not belong together.
pub(super) fn check_sizes<const N: usize>(
    name: &str,
    gates: [&Tensor; 2],
    state: &Tensor,
    biases: [Option<&Tensor>; 2],
) -> Result<()> {
    ensure!(
        have_sizes_of::<N>(gates, state),
        Shape(name, "input_gates"),
        "expected {N} gates of the size of the state for each of its rows, which has sizes {:?}, but got {:?} and {:?}",
        state.sizes(),
        gates[0].sizes(),
        gates[1].sizes()
    );
    let size = gates[0].size(-1)?;
    for bias in biases.into_iter().flatten() {
        ensure!(
            bias.sizes() == [size],
            Shape(name, "input_bias"),
            "expected biases of {size} elements but got sizes {:?}",
            bias.sizes()
        );
    }
    Ok(())
}

/// Refuses a tensor of other sizes than `count` parts of the size of a state.
pub(super) fn check_parts(
    name: &str,
    which: &str,
    tensor: &Tensor,
    count: i64,
    state: &Tensor,
) -> Result<()> {
    let fits = match (tensor.sizes().split_last(), state.sizes().split_last()) {
        (Some((all, leading)), Some((size, of_state))) => {
            size.checked_mul(count) == Some(*all) && leading == of_state
        }
        _ => false,
    };
    ensure!(
        fits,
        Shape(name, which),
        "expected {count} times the size of a state of sizes {:?} but got sizes {:?}",
        state.sizes(),
        tensor.sizes()
    );
    Ok(())
}

/// In contiguous memory, in which the kernels read elements.
pub(super) fn dense(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_contiguous() { alias(tensor) } else { ops::contiguous(tensor, MemoryFormat::Contiguous) }
}

/// A new tensor of `count` parts of the size of a state.
pub(super) fn new_parts(name: &str, state: &Tensor, count: i64) -> Result<Tensor> {
    let mut sizes = DimVec::from_slice(state.sizes());
    if let Some(last) = sizes.last_mut() {
        *last = match last.checked_mul(count) {
            Some(size) => size,
            None => bail!(Overflow(name), "{count} parts of {last} elements overflow a size"),
        };
    }
    TensorSpec::new(&sizes, state.dtype(), state.device()).allocate(name)
}

/// The number of rows of a state, and their size.
pub(super) fn rows_of(state: &Tensor) -> [usize; 2] {
    let n = state.sizes().last().map_or(1, |size| *size as usize);
    [(state.numel() as usize).checked_div(n).unwrap_or(0), n]
}

/// The gradient of a bias, which is added to each row: no elements if there is none.
pub(super) fn bias_gradient(name: &str, gates: &Tensor, has_bias: bool) -> Result<Tensor> {
    if !has_bias {
        return TensorSpec::like(gates, &[0]).allocate(name);
    }
    let leading: DimVec = (0..gates.dim() as i64 - 1).collect();
    if leading.is_empty() {
        return ops::clone(gates, None);
    }
    ops::sum_dim_intlist(gates, Some(&leading), false, None)
}

/// `a + b` of what is there.
pub(super) fn sum_of(a: Option<Tensor>, b: Option<Tensor>) -> Result<Option<Tensor>> {
    match (a, b) {
        (Some(a), Some(b)) => Ok(Some((a + b)?)),
        (a, b) => Ok(a.or(b)),
    }
}

/// `input + hidden`, and the biases that there are, in this order.
pub(super) fn sum_of_gates([input, hidden]: [&Tensor; 2], biases: [Option<&Tensor>; 2]) -> Result<Tensor> {
    biases.into_iter().flatten().try_fold((input + hidden)?, |sum, bias| sum + bias)
}

/// The type in which half precision is computed by operators, so that they round once, as the kernels do.
pub(super) fn wider_type(tensor: &Tensor) -> Option<ScalarType> {
    tensor.dtype().is_reduced_floating_point().then_some(ScalarType::F32)
}

pub(super) fn converted<const N: usize>(tensors: [&Tensor; N], dtype: ScalarType) -> Result<[Tensor; N]> {
    let mut all = tensors.map(Tensor::clone);
    for tensor in &mut all {
        *tensor = tensor.to(dtype)?;
    }
    Ok(all)
}

pub(super) fn options_converted<const N: usize>(
    tensors: [Option<&Tensor>; N],
    dtype: ScalarType,
) -> Result<[Option<Tensor>; N]> {
    let mut all = tensors.map(Option::<&Tensor>::cloned);
    for tensor in all.iter_mut().flatten() {
        *tensor = tensor.to(dtype)?;
    }
    Ok(all)
}
