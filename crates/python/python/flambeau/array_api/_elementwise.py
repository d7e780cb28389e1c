"""Elementwise functions of the standard."""

from __future__ import annotations

import flambeau
from flambeau import Tensor

from ._arguments import operands
from ._unsigned import bits, as_int64_bits, as_sort_keys, floor_divide as _floor_divide, from_bits, is_wide, from_int64_bits, from_sort_keys
from ._unsigned import remainder as _unsigned_remainder, right_shift

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._arguments import Operand

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]


def _unary(name: str, operator: Callable[[Tensor], Tensor], text: str) -> Callable[[Tensor], Tensor]:
    """The function of one array that an operator computes."""

    def function(x: Tensor, /) -> Tensor:
        return operator(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


def _binary(name: str, operator: Callable[[Tensor, Tensor], Tensor], text: str) -> Callable[[Operand, Operand], Tensor]:
    """The function of two arrays, or of an array and a number, that an operator computes after promotion."""

    def function(x1: Operand, x2: Operand, /) -> Tensor:
        return operator(*operands(x1, x2))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


def _magnitude(x: Tensor) -> Tensor:
    return x.clone() if is_wide(x.dtype) else flambeau.abs(x)


def _rounded(x: Tensor) -> Tensor:
    return flambeau.complex(x.real.round(), x.imag.round()) if x.dtype.is_complex else flambeau.round(x)


def _sign(x: Tensor) -> Tensor:
    """x / |x|, 0 for zeros, and NaN for NaN, whose sign PyTorch says to be 0."""
    if is_wide(x.dtype):
        return from_bits((bits(x) != 0).to(flambeau.int64), x.dtype)
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        return flambeau.sign(x)
    nan: Any = complex(flambeau.nan, flambeau.nan) if x.dtype.is_complex else flambeau.nan
    return flambeau.where(flambeau.isnan(x), flambeau.full_like(x, nan), flambeau.sgn(x))


def _remainder(x1: Tensor, x2: Tensor) -> Tensor:
    """The remainder, whose sign is that of `x2` for zeros too: -0 modulo 1 is 0."""
    found = _unsigned_remainder(x1, x2)
    # A sum with 0 is -0 for no operand.
    return flambeau.where(x2 < 0, -(0 - found), 0 + found) if found.dtype.is_floating_point else found


abs = _unary("abs", _magnitude, "The magnitude of each element.")
acos = _unary("acos", flambeau.acos, "The inverse cosine of each element.")
acosh = _unary("acosh", flambeau.acosh, "The inverse hyperbolic cosine of each element.")
asin = _unary("asin", flambeau.asin, "The inverse sine of each element.")
asinh = _unary("asinh", flambeau.asinh, "The inverse hyperbolic sine of each element.")
atan = _unary("atan", flambeau.atan, "The inverse tangent of each element.")
atanh = _unary("atanh", flambeau.atanh, "The inverse hyperbolic tangent of each element.")
bitwise_invert = _unary("bitwise_invert", as_int64_bits(flambeau.bitwise_not), "Each element with all bits inverted.")
ceil = _unary("ceil", as_int64_bits(flambeau.ceil), "The smallest integer that is not below each element.")
conj = _unary("conj", as_int64_bits(flambeau.conj), "The complex conjugate of each element.")
cos = _unary("cos", flambeau.cos, "The cosine of each element.")
cosh = _unary("cosh", flambeau.cosh, "The hyperbolic cosine of each element.")
exp = _unary("exp", flambeau.exp, "e to the power of each element.")
expm1 = _unary("expm1", flambeau.expm1, "exp(x) - 1 of each element, exact to the last digits near 0.")
floor = _unary("floor", as_int64_bits(flambeau.floor), "The largest integer that is not above each element.")
imag = _unary("imag", flambeau.imag, "The imaginary part of each element.")
isfinite = _unary("isfinite", from_int64_bits(flambeau.isfinite), "Whether each element is neither infinite nor NaN.")
isinf = _unary("isinf", from_int64_bits(flambeau.isinf), "Whether each element is infinite.")
isnan = _unary("isnan", from_int64_bits(flambeau.isnan), "Whether each element is NaN.")
log = _unary("log", flambeau.log, "The natural logarithm of each element.")
log10 = _unary("log10", flambeau.log10, "The logarithm to the base 10 of each element.")
log1p = _unary("log1p", flambeau.log1p, "log(1 + x) of each element, exact to the last digits near 0.")
log2 = _unary("log2", flambeau.log2, "The logarithm to the base 2 of each element.")
logical_not = _unary("logical_not", flambeau.logical_not, "Whether each element is false.")
negative = _unary("negative", as_int64_bits(flambeau.neg), "Each element negated.")
positive = _unary("positive", as_int64_bits(flambeau.positive), "Each element as it is.")
real = _unary("real", as_int64_bits(flambeau.real), "The real part of each element.")
reciprocal = _unary("reciprocal", flambeau.reciprocal, "1 divided by each element.")
round = _unary("round", as_int64_bits(_rounded), "The integer next to each element, the even one of two.")
sign = _unary("sign", _sign, "The sign of each element; of a complex number x / |x|.")
signbit = _unary("signbit", flambeau.signbit, "Whether the sign bit of each element is set.")
sin = _unary("sin", flambeau.sin, "The sine of each element.")
sinh = _unary("sinh", flambeau.sinh, "The hyperbolic sine of each element.")
sqrt = _unary("sqrt", flambeau.sqrt, "The square root of each element.")
square = _unary("square", as_int64_bits(flambeau.square), "Each element times itself.")
tan = _unary("tan", flambeau.tan, "The tangent of each element.")
tanh = _unary("tanh", flambeau.tanh, "The hyperbolic tangent of each element.")
trunc = _unary("trunc", as_int64_bits(flambeau.trunc), "Each element without its fraction.")

add = _binary("add", as_int64_bits(flambeau.add), "The sums of elements.")
atan2 = _binary("atan2", flambeau.atan2, "The angle of the point (x2, x1) with the first axis.")
bitwise_and = _binary("bitwise_and", as_int64_bits(flambeau.bitwise_and), "The bits that are set in both elements.")
bitwise_left_shift = _binary("bitwise_left_shift", as_int64_bits(flambeau.bitwise_left_shift), "The bits of x1 shifted left by x2.")
bitwise_or = _binary("bitwise_or", as_int64_bits(flambeau.bitwise_or), "The bits that are set in either element.")
bitwise_right_shift = _binary("bitwise_right_shift", right_shift, "The bits of x1 shifted right by x2, with the sign.")
bitwise_xor = _binary("bitwise_xor", as_int64_bits(flambeau.bitwise_xor), "The bits that are set in one element only.")
copysign = _binary("copysign", flambeau.copysign, "The magnitude of x1 with the sign of x2.")
divide = _binary("divide", flambeau.div, "The quotients of elements.")
equal = _binary("equal", from_int64_bits(flambeau.eq), "Whether elements are equal.")
floor_divide = _binary("floor_divide", _floor_divide, "The largest integers that are not above the quotients.")
greater = _binary("greater", from_sort_keys(flambeau.gt), "Whether x1 is greater than x2.")
greater_equal = _binary("greater_equal", from_sort_keys(flambeau.ge), "Whether x1 is greater than x2 or equal.")
hypot = _binary("hypot", flambeau.hypot, "The lengths of the vectors (x1, x2), without overflow of the squares.")
less = _binary("less", from_sort_keys(flambeau.lt), "Whether x1 is less than x2.")
less_equal = _binary("less_equal", from_sort_keys(flambeau.le), "Whether x1 is less than x2 or equal.")
logaddexp = _binary("logaddexp", flambeau.logaddexp, "log(exp(x1) + exp(x2)), without overflow of the exponentials.")
logical_and = _binary("logical_and", flambeau.logical_and, "Whether both elements are true.")
logical_or = _binary("logical_or", flambeau.logical_or, "Whether either element is true.")
logical_xor = _binary("logical_xor", flambeau.logical_xor, "Whether one element only is true.")
maximum = _binary("maximum", as_sort_keys(flambeau.maximum), "The larger of the elements, NaN where either is.")
minimum = _binary("minimum", as_sort_keys(flambeau.minimum), "The smaller of the elements, NaN where either is.")
multiply = _binary("multiply", as_int64_bits(flambeau.mul), "The products of elements.")
nextafter = _binary("nextafter", flambeau.nextafter, "The number that follows x1 in the direction of x2.")
not_equal = _binary("not_equal", from_int64_bits(flambeau.ne), "Whether elements are not equal.")
pow = _binary("pow", as_int64_bits(flambeau.pow), "x1 to the power of x2.")
remainder = _binary("remainder", _remainder, "The remainders of the division, with the sign of x2.")
subtract = _binary("subtract", as_int64_bits(flambeau.sub), "The differences of elements.")


def clip(x: Tensor, /, min: Tensor | int | float | None = None, max: Tensor | int | float | None = None) -> Tensor:
    """Each element, or the bound beyond which it is. The result has the type of `x`."""
    result = x if min is None else maximum(x, min)
    result = result if max is None else minimum(result, max)
    return x.clone() if result is x else result.to(x.dtype)
