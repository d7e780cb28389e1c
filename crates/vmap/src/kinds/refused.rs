//! Operators that no function under `vmap` may call, with PyTorch's messages.

use crate::batch::{Batch, qualified};
use flambeau_core::{Result, bail};
use flambeau_ops::dispatch::Value;

pub(crate) fn call(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let name = batch.operator.name();
    let base = name.split('.').next().unwrap_or(name);
    let full = qualified(base);
    match base {
        "equal" => bail!(
            NotImplemented(name),
            "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, please \
             try to rewrite what you're doing with other operations."
        ),
        "as_strided" | "resize_" | "resize_as_" | "as_strided_" => bail!(
            NotImplemented(name),
            "vmap: {full} is not supported, since it depends on how the elements of the batch are laid out in memory"
        ),
        "_adam_step_" | "_sparse_adam_" => bail!(
            NotImplemented(name),
            "vmap: {full} is not supported, since it writes several of its arguments"
        ),
        _ if base.ends_with('_') => bail!(
            NotImplemented(name),
            "vmap: {full} is not supported, since it changes the sizes of its argument in place; {} does not",
            full.trim_end_matches('_')
        ),
        _ => bail!(
            NotImplemented(name),
            "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over {full}."
        ),
    }
}

/// Operators that write to an argument `out`.
pub(crate) fn out(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let name = batch.operator.name();
    bail!(
        NotImplemented(name),
        "Batching rule not implemented for {}; the fallback path doesn't work on out= or view ops.",
        qualified(name)
    )
}
