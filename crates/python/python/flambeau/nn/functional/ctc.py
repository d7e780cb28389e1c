"""Connectionist temporal classification: the likelihood of a sequence without an alignment (Graves et al., 2006)."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

# The logarithm of a probability that is 0: finite, so that differences of two are no NaN.
NEVER = -1e30
# What is less probable than this is impossible.
IMPOSSIBLE = -1e20


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The negative logarithm of the probability of each target sequence, over all its alignments to the inputs.

    `log_probs` has the sizes (steps, batch, classes), or (steps, classes); `targets` is a row for each sequence, or all in one vector.
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    is_single = log_probs.dim() == 2
    log_probs = log_probs.unsqueeze(1) if is_single else log_probs
    steps, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank must be in label range, but got {blank} of {classes} classes")
    in_lengths, lengths = _lengths(input_lengths, batch, "input_lengths"), _lengths(target_lengths, batch, "target_lengths")
    if batch and int(in_lengths.max()) > steps:
        raise RuntimeError(f"Expected input_lengths to have value at most {steps}, but got value {int(in_lengths.max())}")
    labels = _with_blanks(targets.unsqueeze(0) if is_single and targets.dim() == 1 else targets, lengths, blank)
    losses = _losses(log_probs, labels, in_lengths, lengths)
    if zero_infinity:
        losses = flambeau.where(losses == float("inf"), flambeau.zeros_like(losses), losses)
    if reduction == "mean":
        return (losses / lengths.clamp(min=1).to(losses.dtype)).mean()
    return losses.sum() if reduction == "sum" else losses.squeeze(0) if is_single else losses


def _lengths(given: Any, batch: int, name: str) -> Tensor:
    lengths = flambeau.as_tensor(given, dtype=flambeau.int64).reshape(-1)
    if lengths.numel() != batch:
        raise RuntimeError(f"{name} must be of size batch_size: expected {batch} but got {lengths.numel()}")
    if batch and int(lengths.min()) < 0:
        raise RuntimeError(f"ctc_loss: {name} must not be negative")
    return lengths


def _with_blanks(targets: Tensor, lengths: Tensor, blank: int) -> Tensor:
    """A row for each sequence: its labels with blanks around each, and blanks behind."""
    count = int(lengths.max()) if lengths.numel() else 0
    rows = flambeau.full((lengths.numel(), 2 * count + 1), blank, dtype=flambeau.int64)
    begin = 0
    for number, length in enumerate(lengths.tolist()):
        own = targets[begin : begin + length] if targets.dim() == 1 else targets[number, :length]
        if own.numel() != length:
            raise RuntimeError(f"ctc_loss: expected targets to have {length} labels for sequence {number}, but got {own.numel()}")
        rows[number, 1 : 2 * length : 2] = own.to(flambeau.int64)
        begin += length
    return rows


def _losses(log_probs: Tensor, labels: Tensor, in_lengths: Tensor, lengths: Tensor) -> Tensor:
    """The loss of each sequence; infinite where no alignment fits."""
    width = labels.shape[1]
    never = log_probs.new_full((labels.shape[0], 1), NEVER)
    # A label may follow the one before the blank if it is another.
    differs = flambeau.cat([labels.new_zeros((labels.shape[0], 2), dtype=flambeau.bool), labels[:, 2:] != labels[:, :-2]], 1)[:, :width]
    scores = log_probs.gather(2, labels.expand(log_probs.shape[0], -1, -1)).clamp(min=NEVER)
    begin = flambeau.arange(width) < 2
    alpha = flambeau.where(begin, scores[0] if len(scores) else never.expand(-1, width), never)
    for step in range(1, len(scores)):
        before = flambeau.cat([never, alpha], 1)[:, :width]
        skipped = flambeau.where(differs, flambeau.cat([never, never, alpha], 1)[:, :width], never)
        found = flambeau.stack([alpha, before, skipped]).logsumexp(0) + scores[step]
        alpha = flambeau.where((step < in_lengths).unsqueeze(1), found, alpha)
    last = (2 * lengths).unsqueeze(1)
    ends = flambeau.cat([alpha.gather(1, last), flambeau.where(last > 0, alpha.gather(1, (last - 1).clamp(min=0)), never)], 1)
    total = ends.logsumexp(1)
    # Without inputs only the empty target is possible.
    total = flambeau.where(in_lengths == 0, flambeau.where(lengths == 0, 0.0, NEVER).to(total.dtype), total)
    return flambeau.where(total < IMPOSSIBLE, flambeau.full_like(total, float("inf")), -total)
