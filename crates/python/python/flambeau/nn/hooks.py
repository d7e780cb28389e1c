"""Global hooks of modules, and the handles that remove hooks."""

from __future__ import annotations

from collections import OrderedDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


class RemovableHandle:
    """Takes a hook away: by `remove()`, or at the end of a `with`."""

    next_id = 0

    def __init__(self, hooks: dict[int, Any], *others: dict[int, Any]) -> None:
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        self._registries = (hooks, *others)

    def remove(self) -> None:
        """Takes the hook away; a second time does nothing."""
        for registry in self._registries:
            registry.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def add_hook(
    hooks: OrderedDict[int, Any], hook: Callable[..., Any], prepend: bool = False, *flags: tuple[dict[int, bool], bool]
) -> RemovableHandle:
    """Adds `hook` at the end, or with `prepend` at the front; each of `flags` is a set of ids, and whether this one is in it."""
    handle = RemovableHandle(hooks, *(flagged for flagged, _ in flags))
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    for flagged, here in flags:
        if here:
            flagged[handle.id] = True
    return handle
