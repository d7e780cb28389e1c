"""`infer_schema`: the schema of a function by its annotations."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Sequence

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_BASES: dict[Any, str] = {
    flambeau.Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    flambeau.dtype: "ScalarType",
    flambeau.device: "Device",
}
_RETURNED = ("Tensor", "SymInt", "float", "bool", "Scalar", "Tensor[]")
_NUMBER = {int, float, bool}
_LISTS = ("Tensor", "Tensor?", "SymInt", "float", "bool", "Scalar")


def _type_text(annotation: Any) -> str | None:
    """A type in the language of schemas; None where it has none."""
    if annotation in _BASES:
        return _BASES[annotation]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Union or origin is types.UnionType:
        others = [each for each in inner if each is not type(None)]
        if set(others) == _NUMBER:
            text: str | None = "Scalar"
        else:
            text = _type_text(others[0]) if len(others) == 1 else None
        return text if text is None or len(others) == len(inner) else f"{text}?"
    if origin in (list, Sequence) and len(inner) == 1:
        text = _type_text(inner[0])
        return f"{text}[]" if text in _LISTS else None
    return None


def _default_text(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, flambeau.dtype):
        return str(value).rpartition(".")[2]
    if isinstance(value, flambeau.device):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_default_text(item) for item in value) + "]"
    return str(value)


def infer_schema(prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str], op_name: str | None = None) -> str:
    """The schema of a function whose parameters and result have annotations.

    `mutates_args` names the parameters that it writes, or is "unknown", which stands for all tensors.
    """
    try:
        signature = inspect.signature(prototype_function, eval_str=True)
    except NameError as error:
        raise ValueError(f"infer_schema(func): an annotation cannot be read: {error}") from error

    def refuse(message: str) -> ValueError:
        return ValueError(f"infer_schema(func): {message} Got func with signature {signature}")

    unknown = mutates_args == "unknown"
    if isinstance(mutates_args, str) and not unknown:
        raise ValueError("mutates_args must either be a sequence of the names of the arguments that are mutated or the string 'unknown'.")
    written = set() if unknown else set(mutates_args)
    texts, has_star = [], False
    for index, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise refuse("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind == parameter.KEYWORD_ONLY and not has_star:
            texts.append("*")
            has_star = True
        if parameter.annotation is parameter.empty:
            raise refuse(f"Parameter {name} must have a type annotation.")
        text = _type_text(parameter.annotation)
        if text is None:
            hint = " For tuples, we recommend using List instead." if typing.get_origin(parameter.annotation) is tuple else ""
            raise refuse(f"Parameter {name} has unsupported type {parameter.annotation}.{hint}")
        if name in written or unknown and text.startswith("Tensor"):
            if not text.startswith("Tensor"):
                raise refuse(f"Parameter {name} is in mutates_args but only Tensors or collections of Tensors can be mutated")
            text = text.replace("Tensor", f"Tensor(a{index}!)", 1)
        default = "" if parameter.default is parameter.empty else f"={_default_text(parameter.default)}"
        texts.append(f"{text} {name}{default}")
    stray = sorted(written - set(signature.parameters))
    if stray:
        raise refuse(f"{stray} in mutates_args were not found in the custom op's signature. mutates_args should contain the names of all args that the custom op mutates.")
    return f"{op_name or ''}({', '.join(texts)}) -> {_returns(signature.return_annotation, refuse)}"


def _returns(annotation: Any, refuse: Callable[[str], ValueError]) -> str:
    if annotation is inspect.Signature.empty:
        raise refuse("No return type annotation was provided. Please add one.")
    if annotation is None or annotation is type(None):
        return "()"
    if typing.get_origin(annotation) is tuple:
        texts = [_type_text(item) for item in typing.get_args(annotation)]
    else:
        texts = [_type_text(annotation)]
    if not all(text in _RETURNED for text in texts):
        raise refuse(f"Return has unsupported type {annotation}.")
    return str(texts[0]) if len(texts) == 1 else f"({', '.join(map(str, texts))})"
