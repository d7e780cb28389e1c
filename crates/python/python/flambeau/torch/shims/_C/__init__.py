"""torch._C: the few names of PyTorch's C++ library that packages call."""

from __future__ import annotations

import flambeau
from flambeau import _dispatch, _ops
from flambeau.torch.shims.overrides import DisableTorchFunction as DisableTorchFunction, DisableTorchFunctionSubclass as DisableTorchFunctionSubclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_disabled_torch_function_impl = None
_disabled_torch_dispatch_impl = _dispatch._disabled_torch_dispatch_impl
TensorBase = _TensorBase = flambeau.Tensor
has_cuda = has_mps = has_cudnn = has_mkldnn = _has_cuda = False


def _log_api_usage_once(event: Any) -> None:
    """Logs nothing."""


def _get_tracing_state() -> None:
    """None: nothing is traced."""


def _is_tracing() -> bool:
    return False


def _get_privateuse1_backend_name() -> str:
    return "privateuseone"


def _cuda_getDeviceCount() -> int:
    return 0


def _is_torch_function_enabled() -> bool:
    return flambeau._overrides._are_overrides_enabled()


def _get_cudnn_enabled() -> bool:
    return False


def _len_torch_function_stack() -> int:
    from flambeau import _function_modes

    return len(_function_modes.stack())


def _set_worker_signal_handlers(*args: Any) -> None:
    """Sets nothing."""


def _has_storage(tensor: Any) -> bool:
    return not tensor.is_meta


def _functorch_is_active() -> bool:
    return False


def _debug_only_are_vmap_fallback_warnings_enabled() -> bool:
    return False


class DispatchKeySet:
    """A set of dispatch keys, which nothing here reads."""

    def __init__(self, keys: Any = ()) -> None:
        self.keys = keys

    def has(self, key: Any) -> bool:
        """False."""
        return False

    def __or__(self, other: Any) -> DispatchKeySet:
        return self

    def __sub__(self, other: Any) -> DispatchKeySet:
        return self


class _ExcludeDispatchKeyGuard:
    """A context that does nothing."""

    def __init__(self, keys: Any = None) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        pass


class _AutoDispatchBelowAutograd:
    """Inside it operators are not recorded."""

    def __enter__(self) -> None:
        self._left = flambeau._flambeau._enter_below_autograd()

    def __exit__(self, *raised: object) -> None:
        flambeau._flambeau._leave_below_autograd(self._left)


_ForceDispatchKeyGuard = _IncludeDispatchKeyGuard = _ExcludeDispatchKeyGuard


def _are_functorch_transforms_active() -> bool:
    return False


def _is_torch_function_mode_enabled() -> bool:
    return _len_torch_function_stack() > 0


def _get_dispatch_mode(*args: Any) -> None:
    """None: there are no modes of the library's own."""


def _len_torch_dispatch_stack() -> int:
    return len(_dispatch.stack())


def _get_dispatch_stack_at(index: int) -> Any:
    return _dispatch.stack()[index]


def _push_on_torch_dispatch_stack(mode: Any) -> None:
    _dispatch.enter(mode)


def _pop_torch_dispatch_stack(*args: Any) -> Any:
    return _dispatch.leave()


def parse_schema(schema: str) -> Any:
    """The schema of an operator that exists."""
    return _ops._overload_named(schema.partition("(")[0])._schema


def _dispatch_has_kernel_for_dispatch_key(name: str, key: str) -> bool:
    return _ops._overload_named(name).has_kernel_for_dispatch_key(key)


def _dispatch_has_kernel(name: str) -> bool:
    return flambeau._flambeau._find_operator(name) is not None
