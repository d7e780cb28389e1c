"""`assert_close`: whether values agree up to rounding errors, in nested lists, tuples and dicts too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Message = str | Callable[[str], str] | None

# Relative and absolute tolerance of a dtype: roots of its precision, as PyTorch has them.
TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def _tolerances(*dtypes: Any, rtol: float | None, atol: float | None) -> tuple[float, float]:
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol must both be specified or both be unspecified")
    if rtol is not None and atol is not None:
        return rtol, atol
    found = [TOLERANCES.get(str(dtype).split(".")[-1], (0.0, 0.0)) for dtype in dtypes]
    return max(r for r, _ in found), max(a for _, a in found)


class Comparison:
    """The options of one call, and how each kind of value is compared."""

    def __init__(self, allow_subclasses: bool, equal_nan: bool, checks: dict[str, bool], rtol: Any, atol: Any, msg: Message) -> None:
        self.allow_subclasses, self.equal_nan, self.checks, self.msg = allow_subclasses, equal_nan, checks, msg
        self.rtol, self.atol = rtol, atol

    def fail(self, text: str, path: str) -> None:
        """Raises AssertionError with the text, or the one that the caller gave."""
        if path:
            text += f"\n\nThe failure occurred for item {path}"
        raise AssertionError(self.msg(text) if callable(self.msg) else self.msg or text)

    def values(self, actual: Any, expected: Any, path: str = "") -> None:
        """Compares two values."""
        if isinstance(actual, (str, bytes)) or isinstance(expected, (str, bytes)):
            if actual != expected:
                self.fail(f"Object comparison failed: {actual!r} != {expected!r}", path)
        elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
            self.mappings(actual, expected, path)
        elif isinstance(actual, Sequence) and isinstance(expected, Sequence):
            self.sequences(actual, expected, path)
        elif actual is None and expected is None:
            pass
        else:
            self.tensors(actual, expected, path)

    def mappings(self, actual: Mapping[Any, Any], expected: Mapping[Any, Any], path: str) -> None:
        """Compares the items of dicts."""
        if set(actual) != set(expected):
            self.fail(f"The keys of the mappings do not match: {sorted(map(repr, set(actual) ^ set(expected)))}", path)
        for key in actual:
            self.values(actual[key], expected[key], f"{path}[{key!r}]")

    def sequences(self, actual: Sequence[Any], expected: Sequence[Any], path: str) -> None:
        """Compares the items of lists and tuples."""
        if len(actual) != len(expected):
            self.fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", path)
        for index, (a, e) in enumerate(zip(actual, expected)):
            self.values(a, e, f"{path}[{index}]")

    def tensors(self, actual: Any, expected: Any, path: str) -> None:
        """Compares tensors, arrays and numbers."""
        numbers = not isinstance(actual, Tensor) and not isinstance(expected, Tensor)
        a, e = self._tensor(actual, expected, path)
        if a.shape != e.shape:
            self.fail(f"The values for attribute 'shape' do not match: {a.shape} != {e.shape}.", path)
        for name in ("device", "dtype", "layout"):
            if self.checks.get(name) and getattr(a, name) != getattr(e, name):
                self.fail(f"The values for attribute '{name}' do not match: {getattr(a, name)} != {getattr(e, name)}.", path)
        if self.checks.get("stride") and a.stride() != e.stride():
            self.fail(f"The values for attribute 'stride()' do not match: {a.stride()} != {e.stride()}.", path)
        rtol, atol = _tolerances(a.dtype, e.dtype, rtol=self.rtol, atol=self.atol)
        if a.is_meta or e.is_meta or a.numel() == 0:
            return
        self._elements(a.detach(), e.detach(), rtol, atol, numbers, path)

    def _tensor(self, actual: Any, expected: Any, path: str) -> tuple[Tensor, Tensor]:
        if not self.allow_subclasses and type(actual) is not type(expected):
            raise TypeError(f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.")
        if isinstance(actual, Tensor) != isinstance(expected, Tensor):
            if self.checks.get("types", True):
                self.fail(f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.", path)
        if type(actual) in (bool, int, float) and type(expected) in (bool, int, float):
            wide = flambeau.float64 if float in (type(actual), type(expected)) else flambeau.int64
            return flambeau.tensor(actual, dtype=wide), flambeau.tensor(expected, dtype=wide)
        return flambeau.as_tensor(actual), flambeau.as_tensor(expected)

    def _elements(self, a: Tensor, e: Tensor, rtol: float, atol: float, numbers: bool, path: str) -> None:
        if a.dtype != e.dtype:
            wide = flambeau.promote_types(a.dtype, e.dtype)
            a, e = a.to(wide), e.to(wide)
        matches = flambeau.isclose(a, e, rtol=rtol, atol=atol, equal_nan=self.equal_nan)
        if bool(matches.all()):
            return
        if numbers and a.dim() == 0:
            self.fail(f"Scalars are not close!\n\nExpected {e.item()} but got {a.item()}.", path)
        difference = (a.double() - e.double()).abs()
        difference = flambeau.where(matches, flambeau.zeros_like(difference), difference)
        relative = difference / e.double().abs()
        wrong, count = int((~matches).sum()), a.numel()
        kind = "close" if rtol or atol else "equal"
        self.fail(
            f"Tensor-likes are not {kind}!\n\nMismatched elements: {wrong} / {count} ({wrong / count:.1%})\n"
            f"Largest absolute difference: {float(difference.max())} (up to {atol} allowed)\n"
            f"Largest relative difference: {float(relative.nan_to_num(0.0, float('inf')).max())} (up to {rtol} allowed)",
            path,
        )


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Message = None,
) -> None:
    """AssertionError unless `|actual - expected| <= atol + rtol * |expected|` for all elements, and their tensors are alike.

    Without tolerances, those of the dtypes are taken.
    """
    checks = {"device": check_device, "dtype": check_dtype, "layout": check_layout, "stride": check_stride}
    Comparison(allow_subclasses, equal_nan, checks, rtol, atol, msg).values(actual, expected)


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True, msg: str = ""
) -> None:
    """The older form of `assert_close`, which converts what it compares."""
    a, e = flambeau.as_tensor(actual), flambeau.as_tensor(expected)
    assert_close(a, e, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, check_device=False, msg=msg or None)
