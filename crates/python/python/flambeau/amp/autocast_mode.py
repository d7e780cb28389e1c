"""`autocast`: operators on the CPU convert their operands to bfloat16 or float16, or to float32, as PyTorch's lists say."""

from __future__ import annotations

import functools
import threading

import flambeau
from flambeau import Tensor, _function_modes
from flambeau.amp.lists import LOWER, SINGLE, WIDEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEVICES = ("cpu", "cuda", "mps", "xpu", "mtia", "hpu", "meta")
HALVES = (flambeau.bfloat16, flambeau.float16)


class _State(threading.local):
    """What is enabled on a thread, by the type of device."""

    def __init__(self) -> None:
        self.enabled: dict[str, bool] = {}
        self.dtypes: dict[str, flambeau.dtype] = {}
        self.is_cached = True
        self.nesting = 0
        self.is_installed = False


_state = _State()


def _mapped(value: Any, convert: Any) -> Any:
    if isinstance(value, Tensor):
        return convert(value)
    if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
        return [convert(item) if isinstance(item, Tensor) else item for item in value]
    return value


def _is_eligible(value: Tensor) -> bool:
    """Whether a tensor may be converted: floating point numbers on the CPU, but not in double precision."""
    return value.is_floating_point() and value.dtype != flambeau.float64 and value.device.type == "cpu"


def _operand_dtype(name: str, args: Any, kwargs: Any) -> flambeau.dtype | None:
    """The dtype that an operator's operands are converted to; None where they stay as they are."""
    if name in LOWER:
        return get_autocast_dtype("cpu")
    if name in SINGLE:
        return flambeau.float32
    if name not in WIDEST:
        return None
    found: list[flambeau.dtype] = []
    for value in (*args, *kwargs.values()):
        _mapped(value, lambda x: found.append(x.dtype) if _is_eligible(x) else None)
    return flambeau.float32 if flambeau.float32 in found else found[0] if len(set(found)) == 1 else None if not found else flambeau.float32


class _Converting:
    """The mode that converts operands."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        plain = getattr(func, "__wrapped__", None)
        if plain is not None:
            # A function written in Python, whose operators convert.
            _function_modes.enter(self)
            try:
                return plain(*args, **kwargs)
            finally:
                _function_modes.leave()
        dtype = _operand_dtype(getattr(func, "__name__", ""), args, kwargs) if _state.enabled.get("cpu") else None
        if dtype is None:
            return func(*args, **kwargs)

        def convert(x: Tensor) -> Tensor:
            return x.to(dtype) if _is_eligible(x) else x

        return func(*(_mapped(x, convert) for x in args), **{key: _mapped(x, convert) for key, x in kwargs.items()})


_converting = _Converting()


def _install() -> None:
    """Lets the mode see the calls of this thread."""
    if not _state.is_installed:
        _function_modes.enter(_converting)
        _state.is_installed = True


def _uninstall() -> None:
    stack = _function_modes.stack()
    if _state.is_installed and stack and stack[-1] is _converting:
        _function_modes.leave()
        _state.is_installed = False


class autocast:
    """A context, and a decorator, in which operators convert their operands. Other devices than the CPU convert nothing."""

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
        self.device, self.fast_dtype = device_type, get_autocast_dtype(device_type) if dtype is None else dtype
        self._enabled = enabled and _is_usable(device_type, self.fast_dtype)
        self._cache_enabled = cache_enabled
        self._before: list[Any] = []

    def __enter__(self) -> autocast:
        installed = _state.is_installed
        self._before.append((_state.enabled.get(self.device, False), _state.dtypes.get(self.device), _state.is_cached, installed))
        set_autocast_enabled(self.device, self._enabled)
        _state.dtypes[self.device] = self.fast_dtype
        _state.is_cached = _state.is_cached if self._cache_enabled is None else self._cache_enabled
        _state.nesting += 1
        return self

    def __exit__(self, *raised: object) -> None:
        enabled, dtype, _state.is_cached, installed = self._before.pop()
        _state.nesting -= 1
        _state.enabled[self.device] = enabled
        if dtype is None:
            _state.dtypes.pop(self.device, None)
        else:
            _state.dtypes[self.device] = dtype
        if not installed:
            _uninstall()

    def __call__(self, func: Any) -> Any:
        @functools.wraps(func)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return inside


def _is_usable(device: str, dtype: flambeau.dtype) -> bool:
    """Whether the context converts anything; a warning where it cannot."""
    import warnings

    if device == "cpu" and dtype not in HALVES:
        warnings.warn(
            f"In CPU autocast, but the target dtype {dtype} is not supported. Disabling autocast. CPU Autocast only supports dtype of "
            "bfloat16, float16 currently.",
            stacklevel=3,
        )
        return False
    if device == "cuda":
        warnings.warn("User provided device_type of 'cuda', but CUDA is not available. Disabling", stacklevel=3)
        return False
    return True


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Begins or ends the conversions for a type of device on this thread."""
    device, enabled = (device_type, bool(enabled)) if isinstance(device_type, str) else ("cuda", bool(device_type))
    _state.enabled[device] = enabled
    if device == "cpu" and enabled:
        _install()


def set_autocast_dtype(device_type: str, dtype: flambeau.dtype) -> None:
    """Sets the dtype that operands are converted to."""
    _state.dtypes[device_type] = dtype


def get_autocast_dtype(device_type: str = "cpu") -> flambeau.dtype:
    """The dtype that operands are converted to."""
    return _state.dtypes.get(device_type) or (flambeau.float16 if device_type in ("cuda", "mps") else flambeau.bfloat16)


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether operands on a type of device are converted; on CUDA's where none is named."""
    return _state.enabled.get(device_type or "cuda", False)


def is_autocast_cache_enabled() -> bool:
    """Whether converted weights may be stored. None are: each operator converts its operands."""
    return _state.is_cached


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Sets what `is_autocast_cache_enabled` says."""
    _state.is_cached = bool(enabled)


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` takes the device."""
    return device_type in DEVICES


def custom_fwd(fwd: Any = None, *, device_type: str = "cuda", cast_inputs: flambeau.dtype | None = None) -> Any:
    """A decorator for `forward` of an `autograd.Function`: it computes in `cast_inputs` if that is given and `autocast` is entered."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def converted(*args: Any, **kwargs: Any) -> Any:
        enabled = is_autocast_enabled(device_type)
        args[0]._dtype, args[0]._fwd_used_autocast = get_autocast_dtype(device_type), enabled and cast_inputs is None
        if not enabled or cast_inputs is None:
            return fwd(*args, **kwargs)

        def convert(x: Tensor) -> Tensor:
            return x.to(cast_inputs) if _is_eligible(x) else x

        with autocast(device_type, enabled=False):
            return fwd(*(_mapped(x, convert) for x in args), **{key: _mapped(x, convert) for key, x in kwargs.items()})

    return converted


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """A decorator for `backward` of an `autograd.Function`: it converts as `forward` did."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def converted(*args: Any, **kwargs: Any) -> Any:
        if not getattr(args[0], "_fwd_used_autocast", False):
            return bwd(*args, **kwargs)
        with autocast(device_type, args[0]._dtype):
            return bwd(*args, **kwargs)

    return converted
