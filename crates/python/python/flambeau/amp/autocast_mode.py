"""`autocast`: programs that enter it run, and every operator computes in the dtypes of its operands.

PyTorch's converts operands to bfloat16 or float16 where its lists say so, which loses digits to gain speed. Here results keep their
digits, and `is_autocast_enabled` is False, so that programs do not convert operands by themselves either.
"""

from __future__ import annotations

import functools

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEVICES = ("cpu", "cuda", "mps", "xpu", "mtia", "hpu", "meta")


class autocast:
    """A context, and a decorator, that checks its arguments and changes nothing."""

    def __init__(
        self,
        device_type: str = "cpu",
        dtype: flambeau.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            # `torch.cuda.amp.autocast(enabled)` names no device.
            device_type, enabled = "cuda", bool(device_type)
        if device_type not in DEVICES:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device, self._enabled = device_type, enabled
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def __call__(self, func: Any) -> Any:
        @functools.wraps(func)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return inside


def get_autocast_dtype(device_type: str = "cpu") -> flambeau.dtype:
    """The dtype that PyTorch converts operands to."""
    return flambeau.float16 if device_type in ("cuda", "mps") else flambeau.bfloat16


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """False: operands are not converted."""
    return False


def is_autocast_cache_enabled() -> bool:
    """False: there are no converted operands to store."""
    return False


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` takes the device."""
    return device_type in DEVICES


def custom_fwd(fwd: Any = None, *, device_type: str = "cuda", cast_inputs: flambeau.dtype | None = None) -> Any:
    """A decorator for `forward` of an `autograd.Function`, which gives it back."""
    return fwd if fwd is not None else (lambda function: function)


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """A decorator for `backward` of an `autograd.Function`, which gives it back."""
    return bwd if bwd is not None else (lambda function: function)
