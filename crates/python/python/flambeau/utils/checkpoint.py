"""Activation checkpointing: a part of a model saves its inputs instead of the tensors for its backward pass, and runs again in that.

The idea is Chen et al.'s (2016, "Training Deep Nets with Sublinear Memory Cost"). What an operator saves inside such a part is
an empty slot; the first slot that the backward pass unpacks makes the part run again, which fills all slots. A nested part saves its
inputs by the outer part's hooks, so that it keeps no more than slots of the outer part.

`autograd::checkpoint` in Rust is the same for functions of Rust. This module does not use it: PyTorch's interface takes any
arguments, contexts around both runs and checks that may be disabled, and its second run ends early by an exception that passes
the function's own handlers, which an error of Rust's would not. Both use hooks on saved tensors.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import contextmanager, nullcontext
from functools import partial, wraps

import flambeau
from flambeau.autograd.graph import saved_tensors_hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Protocol

    from flambeau import Tensor

    Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]

    class Saver(Protocol):
        """What saves tensors: a part that runs for the first time, or again."""

        def pack(self, tensor: Tensor) -> Any: ...

        def unpack(self, packed: Any) -> Tensor: ...


__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential", "noop_context_fn", "set_checkpoint_early_stop"]


class CheckpointError(RuntimeError):
    """A part did not do the same when it ran again."""


class _StopRecomputation(BaseException):
    """Ends the second run of a part as soon as every slot is filled. A BaseException, so that `except Exception` lets it pass."""


class _Thread(threading.local):
    """The parts that run on this thread, the innermost last; and whether they stop early."""

    def __init__(self) -> None:
        self.running: list[Saver] = []
        self.early_stop: bool | None = None


_thread = _Thread()


def noop_context_fn() -> Contexts:
    """Contexts that do nothing, for the first run and for the next."""
    return nullcontext(), nullcontext()


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether parts that are called inside run again to their end, whatever they were told."""
    before, _thread.early_stop = _thread.early_stop, enable
    try:
        yield
    finally:
        _thread.early_stop = before


def checkpoint(
    function: Callable[..., Any] | None = None,
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, of which the backward pass runs it again instead of keeping what it needs.

    It draws the same random numbers again unless `preserve_rng_state` is false, and must save tensors of the same sizes and
    types in the same order unless `determinism_check` is "none". Without a function this is a decorator.
    """
    if use_reentrant or debug:
        raise NotImplementedError("checkpoint: there are only parts that are not reentrant, and no traces of them")
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be 'default' or 'none', not {determinism_check!r}")
    if _thread.early_stop is not None:
        early_stop = _thread.early_stop
    options = (preserve_rng_state, context_fn, determinism_check == "default", early_stop)
    if function is None:
        return partial(_decorated, options=options)
    return _run(function, options, args, kwargs)


def _decorated(function: Callable[..., Any], options: tuple[Any, ...]) -> Callable[..., Any]:
    @wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        return _run(function, options, args, kwargs)

    return inside


def _run(function: Callable[..., Any], options: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not flambeau.is_grad_enabled():
        return function(*args, **kwargs)
    part = _Part(function, options, args, kwargs)
    with part.contexts[0], _saving_to(part):
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Tensor, use_reentrant: bool | None = None, preserve_rng_state: bool = True
) -> Tensor:
    """Modules one after the other, in so many parts, all but the last of which run again in the backward pass."""
    steps = list(functions.children()) if isinstance(functions, flambeau.nn.Sequential) else list(functions)
    length = len(steps) // segments
    for start in range(0, length * (segments - 1), length):
        part = partial(_run_steps, steps[start : start + length])
        input = checkpoint(part, input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)
    return _run_steps(steps[length * (segments - 1) :], input)


def _run_steps(steps: Sequence[Callable[[Tensor], Tensor]], value: Tensor) -> Tensor:
    for step in steps:
        value = step(value)
    return value


class _Slot:
    """What a graph saves instead of a tensor: its part, and, after that has run again, the tensor."""

    __slots__ = ("__weakref__", "part", "tensor")

    def __init__(self, part: _Part) -> None:
        self.part = part
        self.tensor: Tensor | None = None


class _Part:
    """One call of a function. It has weak references to its slots: those whose graph is gone are not filled."""

    def __init__(
        self, function: Callable[..., Any], options: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        preserve_rng_state, context_fn, self.is_checked, self.early_stop = options
        self.function = function
        self.contexts: Contexts = context_fn()
        self.rng_state = flambeau.get_rng_state() if preserve_rng_state else None
        self.args = [_Input(value) for value in args]
        self.kwargs = {name: _Input(value) for name, value in kwargs.items()}
        self.slots: list[weakref.ref[_Slot]] = []
        self.kinds: list[tuple[Any, ...]] = []

    def pack(self, tensor: Tensor) -> _Slot:
        slot = _Slot(self)
        self.slots.append(weakref.ref(slot))
        self.kinds.append(_kind(tensor))
        return slot

    def unpack(self, slot: _Slot) -> Tensor:
        if slot.tensor is None:
            self.run_again()
        tensor, slot.tensor = slot.tensor, None
        if tensor is None:
            raise CheckpointError("checkpoint: a tensor was not saved again when the function ran again")
        return tensor

    def run_again(self) -> None:
        args = [value.value() for value in self.args]
        kwargs = {name: value.value() for name, value in self.kwargs.items()}
        again = _Recomputation(self)
        with _generator_at(self.rng_state), flambeau.enable_grad(), self.contexts[1], _saving_to(again):
            try:
                self.function(*args, **kwargs)
            except _StopRecomputation:
                pass
        again.check_count()


class _Recomputation:
    """The second run of a part: what it saves fills the slots of the first run."""

    def __init__(self, part: _Part) -> None:
        self.part = part
        self.expected = len(part.slots)
        self.count = 0

    def pack(self, tensor: Tensor) -> Tensor:
        number, self.count = self.count, self.count + 1
        kept = tensor.detach()
        if number < self.expected:
            self.check_kind(number, kept)
            slot = self.part.slots[number]()
            if slot is not None:
                slot.tensor = kept
            if self.part.early_stop and self.count == self.expected:
                raise _StopRecomputation
        # For a backward pass inside the function itself.
        return kept

    def unpack(self, tensor: Tensor) -> Tensor:
        return tensor

    def check_kind(self, number: int, tensor: Tensor) -> None:
        first, now = self.part.kinds[number], _kind(tensor)
        if self.part.is_checked and first != now:
            raise CheckpointError(
                "flambeau.utils.checkpoint: Recomputed values for the following tensors have different metadata than during "
                f"the forward pass.\ntensor at position {number}:\nsaved metadata: {first}\nrecomputed metadata: {now}"
            )

    def check_count(self) -> None:
        if self.count < self.expected or (self.part.is_checked and self.count != self.expected):
            raise CheckpointError(
                "flambeau.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {self.expected}\n"
                f"Number of tensors saved during recomputation: {self.count}"
            )


class _Input:
    """An argument, until the function runs again: stored as it is, or, inside another part, saved by that."""

    def __init__(self, value: Any) -> None:
        is_tensor = isinstance(value, flambeau.Tensor)
        self.outer = _thread.running[-1] if is_tensor and _thread.running else None
        self.kept = value if self.outer is None else self.outer.pack(value)
        self.requires_grad = is_tensor and value.requires_grad
        self.version = value._version if is_tensor else None

    def value(self) -> Any:
        if self.outer is not None:
            return self.outer.unpack(self.kept).detach().requires_grad_(self.requires_grad)
        if self.version is not None and self.kept._version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: an input of "
                f"a checkpointed function is at version {self.kept._version}; expected version {self.version} instead."
            )
        return self.kept


def _kind(tensor: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.dtype, tensor.device


@contextmanager
def _saving_to(saver: Saver) -> Iterator[None]:
    """Operators of this thread save their tensors by `saver`, and nested parts their inputs."""
    _thread.running.append(saver)
    try:
        with saved_tensors_hooks(saver.pack, saver.unpack):
            yield
    finally:
        _thread.running.pop()


@contextmanager
def _generator_at(state: Tensor | None) -> Iterator[None]:
    """Sets the default generator to `state`, and restores it afterwards."""
    before = flambeau.get_rng_state()
    if state is not None:
        flambeau.set_rng_state(state)
    try:
        yield
    finally:
        if state is not None:
            flambeau.set_rng_state(before)
