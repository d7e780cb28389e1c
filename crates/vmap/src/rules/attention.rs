//! Attention: the batch is folded into the first dimension, unless there is a bias, which may broadcast along it.

use crate::batch::Batch;
use crate::kinds::{fold, loops};
use flambeau_core::Result;
use flambeau_ops::dispatch::Value;

pub(super) fn attention(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let arguments = batch.operator.arguments();
    let bias = arguments.iter().position(|argument| argument.name == "attn_bias");
    match bias.and_then(|at| batch.optional(at)) {
        Some(_) => loops::call(batch),
        None => fold::call(batch),
    }
}
