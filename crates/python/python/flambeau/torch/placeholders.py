"""What stands for a name of PyTorch's that Flambeau does not implement: it exists, and fails when it is called."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Why a name is not here, by the longest prefix that fits.
REASONS = {
    "torch": "it is not implemented in Flambeau yet",
    "torch.accelerator": "there is no accelerator",
    "torch.ao": "there is no quantisation",
    "torch.cuda": "flambeau.cuda does not have it yet",
    "torch.distributed": "flambeau.distributed does not have it yet",
    "torch.export": "programs run as they are; there is no exporter of graphs",
    "torch.jit": "programs run as they are; there is no TorchScript",
    "torch.masked": "there are no tensors with a mask; the functions of torch.masked take the mask as an argument",
    "torch.mps": "there are no devices of Apple's",
    "torch.mtia": "there are no devices of this kind",
    "torch.nested": "there are no nested tensors",
    "torch.onnx": "there is no exporter of graphs",
    "torch.quantization": "there is no quantisation",
    "torch.sparse": "there are no semi-structured sparse tensors",
    "torch.xpu": "there are no devices of Intel's",
    "torch._C": "it is a part of PyTorch's C++ library",
    "torch._dynamo": "programs run as they are; there is no compiler",
    "torch._inductor": "programs run as they are; there is no compiler",
}


def reason(path: str) -> str:
    """Why the name is not implemented."""
    fits = [prefix for prefix in REASONS if path == prefix or path.startswith(prefix + ".")]
    return REASONS[max(fits, key=len)]


def refuse(path: str) -> NotImplementedError:
    """The error of a name that is not implemented."""
    return NotImplementedError(f"{path}: {reason(path)}")


class _Absent(type):
    """The type of placeholders for classes. They can be subclassed and annotated with; calling one fails."""

    _placeholder_path: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        # A subclass names the class of PyTorch's that it cannot do without.
        raise refuse(cls._placeholder_path)

    def __getattr__(cls, name: str) -> Any:
        """Members of enumerations, static methods: again something that fails when it is called."""
        if name.startswith("__") or name.startswith("_ipython"):
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")
        return constant(f"{cls.__dict__.get('_placeholder_path', cls.__name__)}.{name}")

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__


class Constant:
    """A placeholder for a value: it can be named, stored and compared; calling it or reading its attributes fails."""

    def __init__(self, path: str) -> None:
        self.__dict__["_path"] = path

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise refuse(self._path)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Constant(f"{self._path}.{name}")

    def __getitem__(self, item: Any) -> Constant:
        return self

    def __or__(self, other: Any) -> Constant:
        """In annotations, it may be one of several types."""
        return self

    __ror__ = __or__

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{self._path}, which is not implemented>"


def constant(path: str) -> Constant:
    """A placeholder for a value."""
    return Constant(path)


def function(path: str) -> Any:
    """A placeholder for a function."""

    def missing(*args: Any, **kwargs: Any) -> Any:
        raise refuse(path)

    missing.__module__, _, missing.__name__ = path.rpartition(".")
    missing.__qualname__ = missing.__name__
    missing.__doc__ = f"Not implemented: {reason(path)}."
    missing._is_placeholder = True  # type: ignore[attr-defined]
    return missing


def class_(path: str) -> Any:
    """A placeholder for a class."""
    module, _, name = path.rpartition(".")
    attributes = {
        "__module__": module,
        "__doc__": f"Not implemented: {reason(path)}.",
        "__class_getitem__": classmethod(lambda cls, item: cls),
        "_is_placeholder": True,
        "_placeholder_path": path,
    }
    return _Absent(name, (), attributes)


def is_placeholder(value: Any) -> bool:
    """Whether the value stands for something that is not implemented."""
    return isinstance(value, Constant) or getattr(value, "_is_placeholder", False) is True


def of(path: str, kind: str | None) -> Any:
    """The placeholder for a name, by what PyTorch has there: a class, a function or a value."""
    if kind is None:
        module, _, name = path.rpartition(".")
        raise AttributeError(f"module '{module}' has no attribute '{name}'")
    return {"class": class_, "function": function, "value": constant}[kind](path)
