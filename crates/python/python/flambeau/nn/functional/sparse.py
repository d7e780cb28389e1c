"""Rows of a table, by number."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau import Tensor

one_hot = flambeau._nn.one_hot


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of `weight` that `input` numbers; with `max_norm` longer ones are shortened in the table first."""
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    place = -1 if padding_idx is None else padding_idx % rows
    if max_norm is not None:
        _shorten(weight, input, max_norm, norm_type)
    return flambeau.embedding(weight, input, place, scale_grad_by_freq, sparse)


def _shorten(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Rows that are looked up become no longer than `max_norm`; 1e-7 is PyTorch's guard against division by 0."""
    with flambeau.no_grad():
        used = flambeau.zeros(weight.shape[0], dtype=flambeau.bool)
        used[input.reshape(-1)] = True
        norms = weight.norm(norm_type, 1, keepdim=True)
        shorter = weight * (max_norm / (norms + 1e-7))
        weight.copy_(flambeau.where(used.unsqueeze(1) & (norms > max_norm), shorter, weight))
