"""torch.utils._python_dispatch: classes of tensors that wrap others, which there are none of."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """False."""
    return False


def is_traceable_wrapper_subclass_type(t: Any) -> bool:
    """False."""
    return False


def is_in_torch_dispatch_mode(*args: Any, **kwargs: Any) -> bool:
    """False: there are no modes."""
    return False


class TorchDispatchMode:
    """A mode that sees every operator. Entering one fails: operators are not reported to Python."""

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    def __enter__(self) -> Any:
        from flambeau.torch.placeholders import refuse

        raise refuse("torch.utils._python_dispatch.TorchDispatchMode")

    def __exit__(self, *raised: object) -> None:
        pass
