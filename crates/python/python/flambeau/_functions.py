"""Functions of the package that are composed of others in a few lines of Python."""

from __future__ import annotations

import math

from . import _flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ._flambeau import Generator, Tensor, dtype
    from ._size import Size

    Tensors = Tensor | Sequence[Tensor]

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "e",
    "cartesian_prod",
    "cdist",
    "chain_matmul",
    "einsum",
    "get_rng_state",
    "histogramdd",
    "inf",
    "is_complex",
    "is_floating_point",
    "is_nonzero",
    "lu",
    "meshgrid",
    "nan",
    "newaxis",
    "nonzero",
    "norm",
    "numel",
    "pca_lowrank",
    "pi",
    "seed",
    "set_rng_state",
    "stft",
    "svd_lowrank",
    "tensordot",
    "unique",
    "unique_consecutive",
    "unravel_index",
]


# What `math` has, and NumPy's name for a new dimension.
e, inf, nan, pi, newaxis = 2.718281828459045, float("inf"), float("nan"), 3.141592653589793, None


def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not 0."""
    if input.numel() != 1:
        some = "no values" if input.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {some} is ambiguous")
    return bool(input)


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floating point numbers."""
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    return input.is_complex()


def numel(input: Tensor) -> int:
    """How many elements."""
    return input.numel()


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The sizes of the result of an operator on tensors of these sizes."""
    from ._size import Size

    result: list[int] = []
    for given in shapes:
        shape = (given,) if isinstance(given, int) else tuple(given)
        result = [1] * (len(shape) - len(result)) + result
        for dim in range(-1, -len(shape) - 1, -1):
            if shape[dim] != 1 and result[dim] not in (1, shape[dim]):
                raise RuntimeError(
                    "Shape mismatch: objects cannot be broadcast to a single shape: "
                    f"expected {result[dim]} but got {shape[dim]} at dimension {dim}"
                )
            result[dim] = shape[dim] if result[dim] == 1 else result[dim]
    return Size(result)


def _listed(tensors: Sequence[Any]) -> Sequence[Tensor]:
    """Tensors that were given one by one or as one list."""
    return tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors


def broadcast_tensors(*tensors: Tensors) -> tuple[Tensor, ...]:
    """The tensors expanded to the sizes of an operator's result on them."""
    return _flambeau.broadcast_tensors(_listed(tensors))


def block_diag(*tensors: Tensors) -> Tensor:
    """Matrices along a diagonal, zeros elsewhere."""
    return _flambeau.block_diag(_listed(tensors))


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of several matrices, in the order that takes the fewest multiplications."""
    return _flambeau.chain_matmul(_listed(matrices), out=out)


def cartesian_prod(*tensors: Tensors) -> Tensor:
    """Every choice of one element of each vector, a row each."""
    return _flambeau.cartesian_prod(_listed(tensors))


def einsum(*args: Any) -> Tensor:
    """The sum of products that an equation names: `einsum("ij,jk->ik", a, b)`, or with lists of numbers behind operands."""
    if len(args) < 2:
        raise ValueError("einsum(): must specify the equation string and at least one operand, or operands and their subscripts")
    if isinstance(args[0], str):
        return _flambeau.einsum(args[0], _listed(args[1:]))
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    subscripts = ["".join("..." if label is Ellipsis else letters[label] for label in part) for part in args[1::2]]
    count = len(args) // 2
    equation = ",".join(subscripts)
    if len(args) % 2:
        equation += "->" + "".join("..." if label is Ellipsis else letters[label] for label in args[-1])
    return _flambeau.einsum(equation, list(args[: 2 * count : 2]))


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """The product summed over the last `dims` dimensions of `a` and the first of `b`, or over two lists of dimensions."""
    if isinstance(dims, _flambeau.Tensor):
        dims = dims.tolist() if dims.numel() > 1 else int(dims.item())
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims = (list(range(-dims, 0)), list(range(dims)))
    of_a, of_b = ([part] if isinstance(part, int) else list(part) for part in dims)
    return _flambeau.tensordot(a, b, of_a, of_b, out=out)


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Converts flat row-major indices into indices of `shape`, a tensor for each dimension."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(size < 0 for size in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    steps: list[int] = []
    below = 1
    for size in reversed(shape):
        steps.insert(0, below)
        below *= size
    along = [_flambeau.tensor(numbers, dtype=_flambeau.int64) for numbers in (steps, shape)]
    return (_flambeau.floor_divide(indices.unsqueeze(-1), along[0]) % along[1]).unbind(-1)


# How `cdist` may compute Euclidean distances, and the numbers its operator knows that by.
DISTANCES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}


def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary"
) -> Tensor:
    """The p-norms of all differences of a row of `x1` and a row of `x2`."""
    if compute_mode not in DISTANCES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _flambeau.cdist(x1, x2, p, DISTANCES[compute_mode])


def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """The histogram of points, the rows of `input`, on a grid: given by the edges of each coordinate, or by numbers of equal bins."""
    if input.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    points = input.reshape(-1, input.shape[-1]).unbind(-1)
    parts: list[Any] = [bins] * len(points) if isinstance(bins, int) else list(bins)
    if len(parts) != len(points):
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    if range is not None and len(range) != 2 * len(points):
        raise RuntimeError(f"torch.histogramdd: for a {len(points)}-dimensional histogram range should have {2 * len(points)} elements")
    edges: list[Tensor] = []
    for nr, (row, part) in enumerate(zip(points, parts)):
        ends = None if range is None else range[2 * nr : 2 * nr + 2]
        edges.append(part if isinstance(part, _flambeau.Tensor) else _flambeau.histogram(row, part, range=ends).bin_edges)
    hist = _counted(points, edges, weight)
    if density:
        hist = hist / hist.sum()
        for nr, row in enumerate(edges):
            hist = hist / row.diff().reshape([-1] + [1] * (len(edges) - 1 - nr))
    from .return_types import make

    return make("histogramdd", ("hist", "bin_edges"))(hist, tuple(edges))


def _counted(points: Sequence[Tensor], edges: Sequence[Tensor], weight: Tensor | None) -> Tensor:
    """The sums of the weights of the points in each box. Boxes have their lower edges, the last ones also their upper."""
    box = _flambeau.zeros_like(points[0], dtype=_flambeau.int64)
    inside = _flambeau.ones_like(points[0], dtype=_flambeau.bool)
    for row, ends in zip(points, edges):
        bin_index = _flambeau.bucketize(row.contiguous(), ends, right=True) - 1
        inside = inside & (row >= ends[0]) & (row <= ends[-1])
        box = box * (len(ends) - 1) + bin_index.clamp(0, len(ends) - 2)
    weights = _flambeau.ones_like(points[0]) if weight is None else weight.reshape(-1)
    sizes = [len(ends) - 1 for ends in edges]
    hist = _flambeau.zeros([math.prod(sizes)], dtype=weights.dtype)
    return hist.index_add(0, box[inside], weights[inside]).reshape(sizes)


def meshgrid(*tensors: Tensors, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Grids of coordinates from tensors of one dimension."""
    if indexing is None:
        return _flambeau.meshgrid(_listed(tensors))
    return _flambeau.meshgrid(_listed(tensors), indexing=indexing)


def _for_each(function: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """Of one tensor a tensor, of several or of a list a tuple."""

    def each(*tensors: Tensors) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], _flambeau.Tensor):
            return function(tensors[0])
        return tuple(function(tensor) for tensor in _listed(tensors))

    each.__name__, each.__doc__ = function.__name__, function.__doc__
    return each


atleast_1d = _for_each(_flambeau.atleast_1d)
atleast_2d = _for_each(_flambeau.atleast_2d)
atleast_3d = _for_each(_flambeau.atleast_3d)


def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not 0: a row each, or with `as_tuple` a tensor for each dimension."""
    if not as_tuple:
        return _flambeau.nonzero(input, out=out)
    return _flambeau.nonzero_numpy(input)


def _requested_results(found: tuple[Tensor, Tensor, Tensor], return_inverse: bool, return_counts: bool) -> Any:
    values, inverse, counts = found
    results = [values]
    results += [inverse] if return_inverse else []
    results += [counts] if return_counts else []
    return results[0] if len(results) == 1 else tuple(results)


def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The distinct elements; on request also the index of each input element among them, and their counts."""
    if dim is not None:
        found = _flambeau.unique_dim(input, dim, sorted, return_inverse, return_counts)
        return _requested_results(found, return_inverse, return_counts)
    found = _flambeau._unique2(input, sorted, return_inverse, return_counts)
    return _requested_results(found, return_inverse, return_counts)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements without those that equal the one before."""
    found = _flambeau.unique_consecutive(input, return_inverse, return_counts, dim)
    return _requested_results(found, return_inverse, return_counts)


def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: dtype | None = None,
) -> Tensor:
    """The p-norm of the elements, of all or along dimensions; "fro" is that of p = 2, "nuc" the sum of the singular values."""
    if p == "nuc":
        dims = tuple(range(input.ndim)) if dim is None else (dim,) if isinstance(dim, int) else dim
        return _flambeau._linalg.linalg_matrix_norm(input, "nuc", dims, keepdim, dtype=dtype, out=out)
    order: Any = 2 if p in ("fro", None) else p
    return _flambeau._linalg.linalg_vector_norm(input, order, dim, keepdim, dtype=dtype, out=out)


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The Fourier transforms of windows of a signal, one every `hop_length` elements: frequencies by windows."""
    return _flambeau.stft(
        input, n_fft, hop_length, win_length, window,
        center=center, pad_mode=pad_mode, normalized=normalized, onesided=onesided, return_complex=return_complex,
        align_to_window=align_to_window,
    )  # fmt: skip


def lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, *, out: tuple[Tensor, ...] | None = None
) -> tuple[Tensor, ...]:
    """The packed factors and pivots of `linalg.lu_factor`; with `get_infos`, LAPACK's `info` too, instead of errors."""
    found = _flambeau._linalg.linalg_lu_factor_ex(A, pivot=pivot, check_errors=not get_infos)
    results = found if get_infos else tuple(found)[:2]
    if out is None:
        return results
    if len(out) != len(results):
        raise TypeError(f"lu: expected tuple of {len(results)} elements as `out` but got {len(out)}")
    for result, given in zip(results, out):
        given.resize_as_(result).copy_(result)
    return out


def _orthonormal_range(a: Tensor, q: int, niter: int) -> Tensor:
    """Orthonormal columns that nearly span what the largest singular values of `a` do: Halko, Martinsson and Tropp, "Finding structure
    with randomness" (2011), algorithm 4.4."""
    qr = _flambeau._linalg.linalg_qr
    drawn = _flambeau.randn(a.shape[-1], q, dtype=a.dtype, device=a.device)
    found = qr(a @ drawn)[0]
    for _ in range(niter):
        found = qr(a @ qr(a.mH @ found)[0])[0]
    return found


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The `q` largest singular values of `A - M` and their vectors, U, S and V, nearly: from random combinations of the columns."""
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    a = A if M is None else A - M.expand(A.shape)
    # The shorter side is that of the random numbers.
    is_wide = a.shape[-2] < a.shape[-1]
    tall = a.mH if is_wide else a
    basis = _orthonormal_range(tall, q, niter)
    u, s, vh = _flambeau._linalg.linalg_svd(basis.mH @ tall, False)
    left, right = basis @ u, vh.mH
    return (right, s, left) if is_wide else (left, s, right)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """The `q` largest principal components of rows of numbers, as `svd_lowrank` of their differences from the mean row."""
    smallest = min(A.shape[-2:])
    q = min(6, smallest) if q is None else q
    if not 0 <= q <= smallest:
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={smallest}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, True) if center else A, q, niter)


def _state(generator: Generator) -> Tensor:
    seed, offset = generator._position()
    data = seed.to_bytes(8, "little") + offset.to_bytes(8, "little")
    return _flambeau.tensor(list(data), dtype=_flambeau.uint8)


def _set_state(generator: Generator, new_state: Tensor) -> Generator:
    data = bytes(new_state.tolist())
    if len(data) != 16:
        raise RuntimeError(f"expected a state of 16 bytes but got {len(data)}")
    generator._go_to(int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little"))
    return generator


def get_rng_state() -> Tensor:
    """The state of the default generator, as bytes."""
    return _state(_flambeau.default_generator)


def set_rng_state(new_state: Tensor) -> None:
    """Puts the default generator where it stood when `new_state` was taken."""
    _set_state(_flambeau.default_generator, new_state)


def seed() -> int:
    """Seeds the default generator from the system's entropy, and says with what."""
    import os

    drawn = int.from_bytes(os.urandom(7), "little")
    _flambeau.manual_seed(drawn)
    return drawn


def _overridable(function: Any) -> Any:
    """The function, for which overrides are called, those of arguments that are no tensors too, such as a traced program's."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if _flambeau._has_overrides(args, kwargs):
            from ._overrides import call_override

            return call_override(call, args, kwargs)
        for value in args[0] if args and isinstance(args[0], (list, tuple)) else args:
            kind = type(value)
            if kind is not _flambeau.Tensor and not isinstance(value, _flambeau.Tensor) and hasattr(kind, "__torch_function__"):
                from ._overrides import handle_flambeau_function

                return handle_flambeau_function(call, (value,), *args, **kwargs)
        return function(*args, **kwargs)

    call.__name__, call.__doc__, call.__wrapped__ = function.__name__, function.__doc__, function  # type: ignore[attr-defined]
    return call


for _name in ("broadcast_tensors", "block_diag", "cartesian_prod", "cdist", "einsum", "meshgrid", "norm", "tensordot", "unique"):
    globals()[_name] = _overridable(globals()[_name])


def install(tensor: Any, generator: Any) -> None:
    """Sets the functions that are methods too on the class `Tensor`."""
    tensor.nonzero, tensor.norm, tensor.stft = nonzero, norm, stft
    tensor.unique, tensor.unique_consecutive = unique, unique_consecutive
    generator.get_state, generator.set_state = _state, _set_state
