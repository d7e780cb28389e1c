"""Jacobians by `vmap`: many rows in one backward pass with a batch of gradients, all columns in one run with a batch of tangents."""

from __future__ import annotations

from contextlib import contextmanager

from .. import _flambeau
from . import forward_ad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    Rows = list[list["Tensor"]]
    Gradients = Callable[[Sequence["Tensor"], Sequence["Tensor"]], Sequence["Tensor"]]

Tensor = _flambeau.Tensor


@contextmanager
def level(size: int, randomness: str, of_tangents: bool = False) -> Iterator[None]:
    """Inside, tensors may be batched at one more level, of `size` examples."""
    _flambeau._vmap_enter(size, randomness, of_tangents)
    try:
        yield
    finally:
        _flambeau._vmap_exit()


def unit(like: Tensor, at: int) -> Tensor:
    """Zeros with a one at element `at`, in row-major order."""
    flat = _flambeau.zeros(like.numel(), dtype=like.dtype, device=like.device)
    flat[at] = 1
    return flat.view(like.shape)


def stacked(rows: list[Tensor], like: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Rows as one tensor of `sizes`."""
    if not rows:
        return _flambeau.zeros(sizes, dtype=like.dtype, device=like.device)
    return _flambeau.stack(rows).reshape(sizes)


def units(tensors: Sequence[Tensor], start: int, stop: int) -> list[Tensor | None]:
    """Rows `start` to `stop` of the identity on the elements of all tensors: a batch of each tensor's sizes, `None` where all is zero."""
    found: list[Tensor | None] = []
    offset = 0
    for like in tensors:
        first, last = max(start, offset), min(stop, offset + like.numel())
        if first >= last:
            found.append(None)
        else:
            rows = _flambeau.zeros(stop - start, like.numel(), dtype=like.dtype, device=like.device)
            rows[first - start : last - start, first - offset : last - offset].fill_diagonal_(1)
            found.append(rows.view(stop - start, *like.shape))
        offset += like.numel()
    return found


def rows_of(outputs: Sequence[Tensor], inputs: Sequence[Tensor], gradients: Gradients, chunk_size: int | None) -> Rows:
    """For each output the Jacobians by each input. `gradients(outputs, seeds)` is a backward pass, which gets at most `chunk_size` rows
    at once, and a `chunk_size` of 1 as they are, without a batch."""
    if chunk_size == 1:
        return [_one_by_one(output, inputs, gradients) for output in outputs]
    total = sum(output.numel() for output in outputs)
    step = min(chunk_size or total, total) or 1
    chunks = [_chunk(outputs, inputs, gradients, start, min(start + step, total)) for start in range(0, total, step)]
    found: Rows = []
    offset = 0
    for output in outputs:
        parts: list[Tensor] = []
        for index, x in enumerate(inputs):
            sizes = (*output.shape, *x.shape)
            whole = _narrowed([chunk[index] for chunk in chunks], offset, output.numel())
            parts.append(stacked([], x, sizes) if whole is None else whole.reshape(sizes))
        found.append(parts)
        offset += output.numel()
    return found


def _one_by_one(output: Tensor, inputs: Sequence[Tensor], gradients: Gradients) -> list[Tensor]:
    found = [gradients((output,), (unit(output, at),)) for at in range(output.numel())]
    by_input = [[row[index] for row in found] for index in range(len(inputs))]
    return [stacked(part, x, (*output.shape, *x.shape)) for part, x in zip(by_input, inputs, strict=True)]


def _chunk(outputs: Sequence[Tensor], inputs: Sequence[Tensor], gradients: Gradients, start: int, stop: int) -> list[Tensor]:
    """Rows `start` to `stop` of the Jacobians of all outputs by each input."""
    seeds = units(outputs, start, stop)
    # Whatever a backward pass draws again, such as a checkpoint, was drawn once in the forward pass.
    with level(stop - start, "same"):
        pairs = [(output, _flambeau._vmap_wrap(seed, 0)) for output, seed in zip(outputs, seeds, strict=True) if seed is not None]
        found = gradients([output for output, _ in pairs], [seed for _, seed in pairs])
        rows = [_flambeau._vmap_unwrap(grad, 0) for grad in found]
    # A gradient that is zero is the same for all rows, and is not to share memory among them.
    return [grad.contiguous() for grad in rows]


def grads_of_batch(outputs: Any, inputs: Any, grad_outputs: Any, options: tuple[Any, bool, bool], materialize: bool) -> tuple[Any, ...]:
    """The gradients of the inputs for each of a batch of gradients of the outputs."""
    roots = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    seeds = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs or [])
    given = [seed for seed in seeds if seed is not None]
    if not given:
        raise ValueError("grad: expected at least one of grad_outputs to be a tensor with a batch when is_grads_batched=True")
    for index, (root, seed) in enumerate(zip(roots, seeds)):
        if seed is not None and (seed.dim() == 0 or seed.shape[1:] != root.shape):
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. The sizes of the "
                "remaining dimensions are expected to match the shape of corresponding output, but a mismatch was detected: "
                f"grad_output[{index}] has a shape of {seed.shape} and output[{index}] has a shape of {root.shape}. If you only want some "
                "tensors in `grad_output` to be considered batched, consider using vmap."
            )
    sizes = [len(seed) for seed in given]
    if any(size != sizes[0] for size in sizes):
        raise ValueError(f"grad: expected grad_outputs of one batch size when is_grads_batched=True but got {sizes}")
    with level(sizes[0], "same"):
        wrapped = [None if seed is None else _flambeau._vmap_wrap(seed, 0) for seed in seeds]
        found: tuple[Any, ...] = _flambeau._grad(roots, inputs, wrapped, *options)
        if materialize:
            leaves = [inputs] if isinstance(inputs, Tensor) else inputs
            found = tuple(_flambeau.zeros_like(x) if grad is None else grad for x, grad in zip(leaves, found, strict=True))
        return tuple(None if grad is None else _flambeau._vmap_unwrap(grad, 0) for grad in found)


def _narrowed(chunks: list[Tensor], offset: int, count: int) -> Tensor | None:
    """Rows `offset` to `offset + count` of chunks that follow one another."""
    parts: list[Tensor] = []
    start = 0
    for chunk in chunks:
        first, last = max(start, offset), min(start + len(chunk), offset + count)
        if first < last:
            parts.append(chunk[first - start : last - start])
        start += len(chunk)
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else _flambeau.cat(parts)


def columns_of(inputs: Sequence[Tensor], randomness: str, tangents: Callable[[list[Tensor]], list[Tensor]]) -> Rows:
    """For each output the Jacobians by each input. `tangents(duals)` runs a function, and gives the tangents of its outputs."""
    total = sum(x.numel() for x in inputs)
    with level(total, randomness, True):
        with forward_ad.dual_level():
            pairs = zip(inputs, units(inputs, 0, total), strict=True)
            along = [_flambeau.zeros_like(x) if rows is None else _flambeau._vmap_wrap(rows, 0) for x, rows in pairs]
            duals = [forward_ad.make_dual(x, tangent) for x, tangent in zip(inputs, along, strict=True)]
            slopes = tangents(duals)
        whole = [_flambeau._vmap_unwrap(slope, -1) for slope in slopes]
    # A tangent that is zero is the same for all columns, and is not to share memory among them.
    whole = [columns.contiguous() if columns.stride(-1) == 0 else columns for columns in whole]
    found: Rows = []
    for columns in whole:
        parts: list[Tensor] = []
        offset = 0
        for x in inputs:
            part = columns.narrow(-1, offset, x.numel())
            parts.append(part.reshape((*columns.shape[:-1], *x.shape)))
            offset += x.numel()
        found.append(parts)
    return found


def first_example(value: Tensor) -> Tensor:
    """What a function returned beside its outputs: where it is batched at the innermost level, of the first example."""
    whole, dim = _flambeau._vmap_parts(value)
    return value if dim is None else whole.select(dim, 0)
