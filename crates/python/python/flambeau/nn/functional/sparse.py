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
    padding = -1 if padding_idx is None else padding_idx % rows
    if max_norm is not None:
        _shorten(weight, input, max_norm, norm_type)
    return flambeau.embedding(weight, input, padding, scale_grad_by_freq, sparse)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Rows of `weight` that `input` numbers, bag by bag: their sum, mean or maximum."""
    if per_sample_weights is not None and input.shape != per_sample_weights.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, "
            f"then it must have the same shape as the input ({input.shape})"
        )
    if weight.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. "
                f"However, found offsets of type {type(offsets)}"
            )
        offsets = flambeau.arange(0, input.numel(), input.shape[1], dtype=input.dtype)
        include_last_offset = False
        input = input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    elif input.ndim != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if offsets is None or offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor" + (" but got None" if offsets is None else ""))
    number = _mode_number(mode, scale_grad_by_freq, sparse, per_sample_weights)
    if max_norm is not None:
        _shorten(weight, input, max_norm, norm_type)
    more = (scale_grad_by_freq, number, sparse, per_sample_weights, include_last_offset, padding_idx)
    return flambeau.embedding_bag(weight, input, offsets, *more)[0]


def _mode_number(mode: str, scale_grad_by_freq: bool, sparse: bool, per_sample_weights: Tensor | None) -> int:
    """The operator's number of a mode, after checks that the mode supports the other arguments."""
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}')."
        )
    return ("sum", "mean", "max").index(mode)


def _shorten(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Scales the rows that are looked up to a norm of at most `max_norm`; 1e-7 is PyTorch's guard against division by 0."""
    with flambeau.no_grad():
        used = flambeau.zeros(weight.shape[0], dtype=flambeau.bool)
        used[input.reshape(-1)] = True
        norms = weight.norm(norm_type, 1, keepdim=True)
        shorter = weight * (max_norm / (norms + 1e-7))
        weight.copy_(flambeau.where(used.unsqueeze(1) & (norms > max_norm), shorter, weight))
