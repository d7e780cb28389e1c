"""Types of TorchScript, by which programs describe values: `ListType(IntType.get())`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The types without parameters, and how they are written.
SIMPLE = {
    "AnyType": "Any",
    "BoolType": "bool",
    "ComplexType": "complex",
    "DeviceObjType": "Device",
    "FloatType": "float",
    "IntType": "int",
    "NoneType": "NoneType",
    "NumberType": "number",
    "PyObjectType": "PyObject",
    "StreamObjType": "Stream",
    "StringType": "str",
    "SymBoolType": "bool",
    "SymIntType": "int",
    "TensorType": "Tensor",
}
NUMBERS = ("IntType", "FloatType", "ComplexType")


class Type:
    """A type of values."""

    annotation_str: Any
    _parts: tuple[Type, ...] = ()

    def kind(self) -> Any:
        """The name of the class."""
        return type(self).__name__

    def str(self) -> Any:
        """The type as it is written."""
        return self.annotation_str

    def containedTypes(self) -> list[Type]:
        """The types that it is made of."""
        return list(self._parts)

    def isSubtypeOf(self, other: Type) -> bool:
        """Whether every value of this type is one of another."""
        if self == other or other.kind() == "AnyType":
            return True
        if other.kind() == "NumberType":
            return self.kind() in NUMBERS
        if isinstance(other, (OptionalType, UnionType)):
            mine = self._parts if isinstance(self, UnionType) else (self,)
            return all(any(part.isSubtypeOf(one) for one in other._members()) for part in mine)
        return False

    def is_interface_type(self) -> bool:
        """False."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and self.kind() == other.kind() and self._parts == other._parts

    def __hash__(self) -> int:
        return hash((self.kind(), self._parts))

    def __repr__(self) -> Any:
        return self.annotation_str

    def _members(self) -> tuple[Type, ...]:
        return self._parts


def _simple(name: str) -> Any:
    """The class of a type without parameters, of which there is one object."""
    made: Any = type(name, (Type,), {"annotation_str": SIMPLE[name], "__module__": "torch", "__doc__": f"The type `{SIMPLE[name]}`."})
    only = made()
    made.get = staticmethod(lambda: only)
    return made


class ListType(Type):
    """A list of values of a type."""

    def __init__(self, a: Type) -> None:
        self._parts, self.annotation_str = (a,), f"List[{a}]"

    def getElementType(self) -> Type:
        """The type of the items."""
        return self._parts[0]

    @staticmethod
    def ofInts() -> ListType:
        """A list of integers."""
        return ListType(of("IntType").get())

    @staticmethod
    def ofFloats() -> ListType:
        """A list of numbers."""
        return ListType(of("FloatType").get())

    @staticmethod
    def ofBools() -> ListType:
        """A list of truth values."""
        return ListType(of("BoolType").get())

    @staticmethod
    def ofTensors() -> ListType:
        """A list of tensors."""
        return ListType(of("TensorType").get())

    @staticmethod
    def ofStrings() -> ListType:
        """A list of strings."""
        return ListType(of("StringType").get())


class OptionalType(Type):
    """A value of a type, or None."""

    def __init__(self, a: Type) -> None:
        self._parts, self.annotation_str = (a,), f"Optional[{a}]"

    def getElementType(self) -> Type:
        """The type of a value that is not None."""
        return self._parts[0]

    def _members(self) -> tuple[Type, ...]:
        return (*self._parts, of("NoneType").get())

    @staticmethod
    def ofTensor() -> OptionalType:
        """A tensor or None."""
        return OptionalType(of("TensorType").get())


class DictType(Type):
    """A dict with keys and values of two types."""

    def __init__(self, key: Type, value: Type) -> None:
        self._parts, self.annotation_str = (key, value), f"Dict[{key}, {value}]"

    def getKeyType(self) -> Type:
        """The type of the keys."""
        return self._parts[0]

    def getValueType(self) -> Type:
        """The type of the values."""
        return self._parts[1]


class TupleType(Type):
    """A tuple with a type for each item."""

    def __init__(self, a: Any) -> None:
        self._parts = tuple(a)
        self.annotation_str = f"Tuple[{', '.join(map(repr, self._parts))}]"

    def elements(self) -> list[Type]:
        """The types of the items."""
        return list(self._parts)


class UnionType(Type):
    """A value of one of several types."""

    def __init__(self, a: Any) -> None:
        self._parts = tuple(a)
        self.annotation_str = f"Union[{', '.join(map(repr, self._parts))}]"


class _Wrapped(Type):
    """A value that is there later, or elsewhere."""

    def __init__(self, a: Type) -> None:
        self._parts, self.annotation_str = (a,), f"{type(self).__name__.removesuffix('Type')}[{a}]"

    def getElementType(self) -> Type:
        """The type of the value."""
        return self._parts[0]


class FutureType(_Wrapped):
    """The result of a call that may not have ended."""


class AwaitType(_Wrapped):
    """The result of a call that begins when it is needed."""


class RRefType(_Wrapped):
    """A value in another process."""


_made: dict[str, Any] = {}


def of(name: str) -> Any:
    """A class by its name; None where there is no such type."""
    if name in SIMPLE:
        if name not in _made:
            _made[name] = _simple(name)
        return _made[name]
    found = globals().get(name)
    return found if isinstance(found, type) and issubclass(found, Type) and not name.startswith("_") else None
