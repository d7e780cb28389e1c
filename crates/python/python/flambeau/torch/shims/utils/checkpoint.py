"""torch.utils.checkpoint: names beside `checkpoint` itself, and its reentrant form."""

from __future__ import annotations

from contextlib import contextmanager
from enum import Enum

import flambeau
from flambeau import Tensor
from flambeau.utils import checkpoint as _own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

OVERRIDES = ("checkpoint",)
_debug: list[bool | None] = [None]


class CheckpointPolicy(Enum):
    """Whether the result of an operator is stored or computed again."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class DefaultDeviceType:
    """The type of device whose generators are restored; here it is only stored."""

    _default_device_type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Sets it."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """The type of device."""
        return DefaultDeviceType._default_device_type


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs without their history, which record their own."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


def check_backward_validity(inputs: Any) -> None:
    """A warning where no input requires a gradient."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        import warnings

        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The generators of devices that the arguments are on: none, since there is one device."""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Restores the generators of devices, of which there are none."""


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Inside it, parts say what they do, whatever their own option `debug` is."""
    before, _debug[0] = _debug[0], enabled
    try:
        yield
    finally:
        _debug[0] = before


class CheckpointFunction(flambeau.autograd.Function):
    """The reentrant form: the part runs without recording, and in the backward pass again, with a backward pass of its own."""

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.state = flambeau.get_rng_state() if preserve_rng_state else None
        ctx.where = [index for index, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.inputs = [None if isinstance(x, Tensor) else x for x in args]
        ctx.save_for_backward(*(x for x in args if isinstance(x, Tensor)))
        with flambeau.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        inputs = list(ctx.inputs)
        for index, tensor in zip(ctx.where, ctx.saved_tensors):
            inputs[index] = tensor
        given = detach_variable(tuple(inputs))
        state = flambeau.get_rng_state()
        try:
            if ctx.state is not None:
                flambeau.set_rng_state(ctx.state)
            with flambeau.enable_grad():
                outputs = ctx.run_function(*given)
        finally:
            if ctx.state is not None:
                flambeau.set_rng_state(state)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [(out, grad) for out, grad in zip(outputs, grads) if isinstance(out, Tensor) and out.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        flambeau.autograd.backward([out for out, _ in pairs], [grad for _, grad in pairs])
        return (None, None, *(x.grad if isinstance(x, Tensor) else None for x in given))


def checkpoint(function: Any, *args: Any, use_reentrant: bool | None = None, **kwargs: Any) -> Any:
    """Runs a part of a model so that it stores its inputs only, and runs again in the backward pass."""
    if use_reentrant is not True:
        return _own.checkpoint(function, *args, use_reentrant=use_reentrant, **kwargs)
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    return CheckpointFunction.apply(function, preserve, *args)
