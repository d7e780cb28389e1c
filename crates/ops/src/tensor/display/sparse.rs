//! Printing of sparse tensors: their parts, one after the other.

use super::{PrintOptions, append_from, tuple};
use crate::Tensor;
use crate::tensor::sparse::SparseParts;
use flambeau_core::{Layout, Result, ScalarType, default_dtype};

/// The text of a sparse tensor, and what follows its parts.
pub(super) fn text(
    tensor: &Tensor,
    parts: &SparseParts,
    prefix: &str,
    options: &PrintOptions,
) -> Result<String> {
    let indent = prefix.len();
    let named = parts.named(tensor.layout());
    let is_coo = tensor.layout() == Layout::SparseCoo;
    let mut lines = Vec::new();
    for (name, part) in named.iter().skip(usize::from(is_coo)) {
        let start = format!("{name}=tensor(");
        let mut line = format!("{start}{}", part.values_text(indent + start.len(), options)?);
        if part.numel() == 0 {
            line += &format!(", size={}", tuple(part.sizes()));
        }
        lines.push(line + ")");
    }
    let text = format!("{prefix}{}", lines.join(&format!(",\n{:indent$}", "")));
    Ok(append_from(text, &suffixes(tensor, parts), indent, options.linewidth, is_coo))
}

fn suffixes(tensor: &Tensor, parts: &SparseParts) -> Vec<String> {
    let nnz = match parts {
        SparseParts::Coo { indices, .. } => indices.sizes().last().copied(),
        SparseParts::Compressed { plain, .. } => plain.sizes().last().copied(),
    };
    let mut suffixes = Vec::new();
    if !tensor.device().is_cpu() {
        suffixes.push(format!("device='{}'", tensor.device()));
    }
    suffixes.push(format!("size={}", tuple(tensor.sizes())));
    suffixes.push(format!("nnz={}", nnz.unwrap_or_default()));
    if ![default_dtype(), ScalarType::I64, ScalarType::Bool].contains(&tensor.dtype()) {
        suffixes.push(format!("dtype=flambeau.{}", tensor.dtype()));
    }
    suffixes.push(format!("layout={}", tensor.layout()));
    suffixes.extend(parts.values().history());
    suffixes
}
