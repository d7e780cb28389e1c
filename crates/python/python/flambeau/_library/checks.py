"""`opcheck`: whether an operator does what its registrations say.

Storages and their versions tell exactly what a call shares and writes.
"""

from __future__ import annotations

import flambeau
from flambeau import Tensor, _flambeau
from flambeau.autograd.gradcheck import GradcheckError
from flambeau.utils import _pytree as pytree
from flambeau.utils._python_dispatch import TorchDispatchMode

from . import registration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

TESTS = (
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_dynamic",
    "test_gradcheck",
    "test_tangents",
    "test_threads",
)


class OpCheckError(Exception):
    """An operator does not do what its registrations say."""


class _Call:
    """An operator and arguments, of which each test gets copies."""

    def __init__(self, overload: Any, args: Any, kwargs: Any, tolerances: dict[str, Any]) -> None:
        self.overload, self.tolerances = overload, tolerances
        self.args, self.kwargs = overload._op.bind(tuple(args), dict(kwargs or {}))
        self.schema = overload._schema

    def copies(self, change: Callable[[Any], Any] | None = None) -> tuple[Any, Any]:
        """Copies of the arguments, which require gradients as they do."""

        def copy(tensor: Any) -> Any:
            made = tensor.detach().clone()
            made = change(made) if change is not None else made
            return made.requires_grad_() if tensor.requires_grad and not made.requires_grad else made

        return pytree.tree_map_only(Tensor, copy, (self.args, self.kwargs))

    def run(self, args: Any, kwargs: Any) -> Any:
        return self.overload(*args, **kwargs)

    def named(self, args: Any, kwargs: Any) -> list[tuple[Any, Any]]:
        """Each argument's declaration with its value."""
        names = [argument.name for argument in self.schema.arguments]
        values = {**dict(zip(names, args)), **kwargs}
        return [(argument, values[argument.name]) for argument in self.schema.arguments]


def _tensors(value: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _storage(tensor: Any) -> int:
    return tensor._storage_identity()


def _bits(tensor: Any) -> bytes:
    plain = tensor.detach().contiguous()
    return plain.untyped_storage().tobytes() if plain.numel() else b""


def _same_bits(first: Any, second: Any) -> bool:
    return first.shape == second.shape and first.dtype == second.dtype and _bits(first.clone()) == _bits(second.clone())


def _close(call: _Call, first: Any, second: Any, what: str) -> None:
    pairs = list(zip(_tensors(first), _tensors(second)))
    if len(_tensors(first)) != len(_tensors(second)):
        raise OpCheckError(f"{what}: {len(_tensors(first))} tensors here and {len(_tensors(second))} there")
    for a, b in pairs:
        flambeau.testing.assert_close(a, b, equal_nan=True, **call.tolerances, msg=lambda text: f"{what}: {text}")


def _test_schema(call: _Call) -> None:
    """What is written and shared is what the schema says."""
    args, kwargs = call.copies()
    before = {}
    for argument, value in call.named(args, kwargs):
        for tensor in _tensors(value):
            before[id(tensor)] = (argument, tensor, tensor._version, _bits(tensor.clone()))
    with flambeau.no_grad():
        results = call.run(args, kwargs)
    for argument, tensor, version, bits in before.values():
        changed = tensor._version != version or _bits(tensor.clone()) != bits
        if changed and not argument.is_write:
            raise OpCheckError(f"Argument {argument.name} is not defined as mutable but was mutated")
    _check_aliases(call, args, kwargs, results)


def _check_aliases(call: _Call, args: Any, kwargs: Any, results: Any) -> None:
    returns = call.schema.returns
    items = list(results) if isinstance(results, tuple) and len(returns) > 1 else [results]
    seen: dict[int, str] = {}
    for index, (declared, result) in enumerate(zip(returns, items)):
        letters = declared.alias_info.before_set if declared.alias_info is not None else set()
        for tensor in _tensors(result):
            for argument, value in call.named(args, kwargs):
                own = argument.alias_info.before_set if argument.alias_info is not None else set()
                shares = any(_storage(tensor) == _storage(other) for other in _tensors(value))
                if shares and not (letters & own):
                    raise OpCheckError(f"Argument {argument.name} is not defined to alias output but was aliasing")
            if not letters and _storage(tensor) in seen:
                raise OpCheckError(f"Outputs {seen[_storage(tensor)]} and {index} alias unexpectedly")
            seen[_storage(tensor)] = str(index)


def _needs_grad(call: _Call) -> bool:
    return any(tensor.requires_grad for tensor in _tensors((call.args, call.kwargs)))


def _test_autograd_registration(call: _Call) -> None:
    """Derivatives are registered for autograd, not made inside a kernel for a device."""
    if not _needs_grad(call) or call.overload.namespace == "aten":
        return
    op = call.overload._op
    if not (op.has_kernel("Autograd") or op.has_kernel("CompositeImplicitAutograd")):
        raise OpCheckError("no kernel is registered for Autograd, nor for CompositeImplicitAutograd: results would have no history")
    if op.has_kernel("Autograd"):
        # Below autograd nothing may have a history.
        args, kwargs = call.copies()
        results = _flambeau._call_below_autograd(op, args, kwargs)
        if any(tensor.requires_grad and id(tensor) not in map(id, _tensors((args, kwargs))) for tensor in _tensors(results)):
            raise OpCheckError("a kernel for a device returned tensors that require a gradient; register the derivative by register_autograd")


def _test_faketensor(call: _Call) -> None:
    """The kernel for the device meta returns the sizes and types of real results."""
    args, kwargs = call.copies()
    with flambeau.no_grad():
        real = call.run(args, kwargs)
        on_meta = pytree.tree_map_only(Tensor, lambda tensor: tensor.detach().to("meta"), call.copies())
        moved = pytree.tree_map_only(flambeau.device, lambda device: flambeau.device("meta"), on_meta)
        fake = call.run(*moved)
    reals, fakes = _tensors(real), _tensors(fake)
    if len(reals) != len(fakes):
        raise OpCheckError(f"the fake kernel returned {len(fakes)} tensors but the operator {len(reals)}")
    for index, (a, b) in enumerate(zip(reals, fakes)):
        for what, here, there in (("shape", tuple(a.shape), tuple(b.shape)), ("dtype", a.dtype, b.dtype), ("stride", a.stride(), b.stride())):
            if here != there and not (what == "stride" and a.numel() < 2):
                raise OpCheckError(f"output {index}: the operator's {what} is {here} but the fake kernel's {there}")


class _PassThrough(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _backward(results: Any, args: Any) -> list[Any]:
    outputs = [tensor for tensor in _tensors(results) if tensor.requires_grad and tensor.dtype.is_floating_point]
    inputs = [tensor for tensor in _tensors(args) if tensor.requires_grad]
    if not outputs or not inputs:
        return []
    total = sum((output.double().sum() for output in outputs[1:]), outputs[0].double().sum())
    return [grad for grad in flambeau.autograd.grad(total, inputs, allow_unused=True) if grad is not None]


def _has_formula(call: _Call) -> bool:
    name = call.overload.name()
    return name not in registration.defined or name in registration.with_formula or call.overload._op.has_kernel("CompositeImplicitAutograd")


def _test_aot_dispatch_dynamic(call: _Call) -> None:
    """Results and gradients are the same through a mode as directly."""
    plain, through = call.copies(), call.copies()
    state = flambeau.get_rng_state()
    expected = call.run(*plain)
    expected_grads = _backward(expected, plain) if _has_formula(call) else []
    flambeau.set_rng_state(state)
    with _PassThrough():
        got = call.run(*through)
        got_grads = _backward(got, through) if _has_formula(call) else []
    _close(call, expected, got, "results through a mode")
    _close(call, expected_grads, got_grads, "gradients through a mode")


def _doubled(call: _Call) -> tuple[list[Any], Callable[..., Any]]:
    """The differentiable arguments in 64 bits, and the operator as a function of them."""
    args, kwargs = call.copies(lambda tensor: tensor.double() if tensor.dtype.is_floating_point else tensor)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    at = [index for index, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf.requires_grad]

    def function(*tensors: Any) -> Any:
        changed = list(leaves)
        for index, tensor in zip(at, tensors):
            changed[index] = tensor
        new_args, new_kwargs = pytree.tree_unflatten(changed, spec)
        return call.run(new_args, new_kwargs)

    return [leaves[index] for index in at], function


def _test_gradcheck(call: _Call) -> None:
    """The derivative agrees with finite differences."""
    if not _needs_grad(call) or call.schema.is_mutable or not _has_formula(call):
        return
    inputs, function = _doubled(call)
    try:
        flambeau.autograd.gradcheck(function, inputs, check_undefined_grad=False)
    except GradcheckError as error:
        raise OpCheckError(f"the derivative is not that of the operator: {error}") from None


def _test_tangents(call: _Call) -> None:
    """The tangents, where the operator has them, agree with finite differences."""
    if not _needs_grad(call) or call.schema.is_mutable or not _has_formula(call):
        return
    inputs, function = _doubled(call)
    from flambeau.autograd import forward_ad

    try:
        with forward_ad.dual_level():
            function(*(forward_ad.make_dual(tensor.detach(), flambeau.ones_like(tensor)) for tensor in inputs))
    except (RuntimeError, NotImplementedError):
        # The backward cannot be differentiated: forward mode is an error, not a wrong result.
        return
    try:
        flambeau.autograd.gradcheck(function, inputs, check_forward_ad=True, check_backward_ad=False, check_undefined_grad=False)
    except GradcheckError as error:
        raise OpCheckError(f"the tangents are not those of the operator: {error}") from None


def _test_threads(call: _Call) -> None:
    """The bits of results do not depend on the number of threads."""
    before, state = flambeau.get_num_threads(), flambeau.get_rng_state()
    first = None
    try:
        for count in (1, 2, 4):
            flambeau.set_num_threads(count)
            flambeau.set_rng_state(state)
            with flambeau.no_grad():
                results = _tensors(call.run(*call.copies()))
            if first is not None and not all(map(_same_bits, first, results)):
                raise OpCheckError(f"results with {count} threads have other bits than with 1")
            first = first or results
    finally:
        flambeau.set_num_threads(before)


_FUNCTIONS: dict[str, Callable[[_Call], None]] = {
    "test_schema": _test_schema,
    "test_autograd_registration": _test_autograd_registration,
    "test_faketensor": _test_faketensor,
    "test_aot_dispatch_static": _test_aot_dispatch_dynamic,
    "test_aot_dispatch_dynamic": _test_aot_dispatch_dynamic,
    "test_gradcheck": _test_gradcheck,
    "test_tangents": _test_tangents,
    "test_threads": _test_threads,
}


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = TESTS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Checks an operator for arguments: for each test "SUCCESS", or an OpCheckError, which is raised or, without `raise_exception`, returned.

    The tests are those of PyTorch, and `test_gradcheck`, `test_tangents` and `test_threads`. Gradients are checked for arguments that
    require them.
    """
    tests = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    unknown = sorted(set(tests) - set(_FUNCTIONS))
    if unknown:
        raise ValueError(f"opcheck: expected test_utils among {sorted(_FUNCTIONS)} but got {unknown}")
    tolerances: dict[str, Any] = {name: value for name, value in (("atol", atol), ("rtol", rtol)) if value is not None}
    call = _Call(registration.overload_of(op), args, kwargs, tolerances)
    found: dict[str, Any] = {}
    for test in tests:
        try:
            _FUNCTIONS[test](call)
        except Exception as error:
            failed = OpCheckError(f"opcheck(op={call.overload}, ...): {test} failed with {error}")
            if raise_exception:
                raise failed from error
            found[test] = failed
        else:
            found[test] = "SUCCESS"
    return found
