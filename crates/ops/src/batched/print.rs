//! Prints a batched tensor as PyTorch does: the level, the dimension of the batch, and the tensor of all examples.

use super::level::levels;
use super::wrapper::parts;
use crate::Tensor;
use crate::dispatch::inventory;
use crate::tensor::display::{PrintOptions, Representation};

inventory::submit! { Representation(print) }

fn print(tensor: &Tensor, options: &PrintOptions) -> Option<String> {
    let found = parts(tensor)?;
    let depth = levels().iter().position(|level| level.id == found.level);
    let level = depth.map_or_else(|| "closed".to_owned(), |depth| (depth + 1).to_string());
    let value = found.value.to_string_with(options).replace('\n', "\n    ");
    Some(format!("BatchedTensor(lvl={level}, bdim={}, value=\n    {value}\n)", found.dim))
}
