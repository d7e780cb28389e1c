"""torch.utils.data: pipes, which are data sets with methods of the pipes that a program registers."""

from __future__ import annotations

import contextlib
import functools

from flambeau.utils.data import Dataset, IterableDataset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class _Chained:
    """What makes `pipe.name(...)` of `Pipe(pipe, ...)`."""

    functions: dict[str, Any]

    def __getattr__(self, attribute_name: str) -> Any:
        found = type(self).functions.get(attribute_name) if not attribute_name.startswith("__") else None
        if found is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{attribute_name}'")
        return functools.partial(found, self)

    @classmethod
    def register_function(cls, function_name: str, function: Any) -> None:
        """Adds a method."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False) -> None:
        """Adds a method that makes a pipe over this one."""
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")
        cls.functions[function_name] = cls_to_register


class IterDataPipe(_Chained, IterableDataset):
    """Samples in the order they come."""

    functions: dict[str, Any] = {}

    def reset(self) -> None:
        """Begins again; a subclass may have something to do."""


class MapDataPipe(_Chained, Dataset):
    """Samples by number."""

    functions: dict[str, Any] = {}


class DFIterDataPipe(IterDataPipe):
    """A pipe of data frames."""

    def _is_dfpipe(self) -> bool:
        return True


class DataChunk(list):  # type: ignore[type-arg]
    """A batch of samples as a list that knows its samples by `raw_iterator`."""

    def __init__(self, items: Any) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The samples as text."""
        return indent + "[" + ", ".join(str(item) for item in iter(self)) + "]"

    def raw_iterator(self) -> Iterator[Any]:
        """The samples."""
        yield from self.items


class functional_datapipe:
    """A decorator of a pipe: other pipes get a method of that name, which makes one over them."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name, self.enable_df_api_tracing = name, enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        base = IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe if issubclass(cls, MapDataPipe) else None
        if base is None:
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")
        base.register_datapipe_as_function(self.name, cls)
        return cls


_is_deterministic = [False]


class guaranteed_datapipes_determinism:
    """Inside it, pipes whose order may differ between runs are refused."""

    def __init__(self) -> None:
        self.prev, _is_deterministic[0] = _is_deterministic[0], True

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        _is_deterministic[0] = self.prev


class non_deterministic:
    """A decorator of a pipe whose order may differ between runs; with a function, which says so by the arguments."""

    def __init__(self, arg: Any) -> None:
        self._cls = arg if isinstance(arg, type) else None
        self._says = None if self._cls is not None else arg

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._cls is None:
            decorated = non_deterministic(args[0])
            decorated._says = self._says
            return decorated
        if _is_deterministic[0] and (self._says is None or self._says(*args, **kwargs)):
            raise TypeError(f"{self._cls} is non-deterministic, but guaranteed_datapipes_determinism is set")
        return self._cls(*args, **kwargs)


def argument_validation(f: Any) -> Any:
    """The function, whose arguments must be data sets where their annotations say so."""
    import inspect

    parameters = inspect.signature(f).parameters

    @functools.wraps(f)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name, value in inspect.signature(f).bind(*args, **kwargs).arguments.items():
            kind = parameters[name].annotation
            if isinstance(kind, type) and issubclass(kind, Dataset) and not isinstance(value, kind):
                raise TypeError(f"Expected argument '{name}' as a {kind}, but found {type(value)}")
        return f(*args, **kwargs)

    return checked


_validates = [True]


def runtime_validation(f: Any) -> Any:
    """The function itself: annotations of what it yields are not checked."""
    return f


@contextlib.contextmanager
def runtime_validation_disabled() -> Iterator[None]:
    """Inside it, nothing is checked, as outside."""
    before, _validates[0] = _validates[0], False
    try:
        yield
    finally:
        _validates[0] = before
