"""Operators from Python, with PyTorch's signatures: definitions, kernels, derivatives, and a check of them.

    @flambeau.library.custom_op("mylib::cube", mutates_args=())
    def cube(x: flambeau.Tensor) -> flambeau.Tensor:
        return x * x * x

    cube.register_autograd(lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2,
                           setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
"""

from __future__ import annotations

from ._library import batching as _batching, custom as _custom, locations as _locations, registration as _registration
from ._library.checks import OpCheckError as OpCheckError, opcheck as opcheck
from ._library.custom import CustomOpDef as CustomOpDef, custom_op as custom_op
from ._library.registration import Library as Library, scoped_library as _scoped_library
from ._library.schemas import infer_schema as infer_schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "Library",
    "custom_op",
    "define",
    "get_ctx",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]

# Libraries that the functions below made, one for each namespace.
_libraries: dict[str, Library] = {}


def _library(namespace: str, lib: Library | None, kind: str = "FRAGMENT") -> Library:
    if lib is not None:
        return lib
    key = f"{namespace} {kind}"
    if key not in _libraries:
        _libraries[key] = Library(namespace, kind)
    return _libraries[key]


def _decorated(func: Any, register: Callable[[Any], None]) -> Any:
    """Registers a function, or returns a decorator that does."""

    def decorate(function: Any) -> Any:
        register(function)
        return function

    return decorate if func is None else decorate(func)


def define(qualname: Any, schema: Any = None, *, lib: Library | None = None, tags: Any = ()) -> Any:
    """Defines the operator "mylib::name" of the schema "(Tensor x) -> Tensor"; with a library and a schema a decorator for its kernel."""
    if isinstance(qualname, Library):
        library, name = qualname, qualname.define(schema)
        return _decorated(None, lambda function: library.impl(name, function))
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}")
    namespace, separator, name = qualname.partition("::")
    if not separator:
        raise ValueError(f"expected a name with a namespace, such as 'mylib::cube', but got {qualname!r}")
    if not isinstance(schema, str) or not schema.strip().startswith("("):
        raise ValueError(f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but got {schema!r}')
    _library(namespace, lib).define(name + schema, tags=tags)
    return None


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Library | None = None) -> Any:
    """Makes a function the kernel of an operator for types of devices, or for all by "default"."""
    if isinstance(qualname, Library):
        return _decorated(None, lambda function: qualname.impl(types, function, func or ""))
    overload = _registration.overload_of(qualname)
    library = _library(overload.namespace, lib)
    kinds = (types,) if isinstance(types, str) else types

    def register(function: Any) -> None:
        for kind in kinds:
            key = "CompositeExplicitAutograd" if kind == "default" else kind
            library.impl(overload, function, key if key[:1].isupper() else _registration.key_of_device(key))

    return _decorated(func, register)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Library | None = None) -> Any:
    """Makes a function the kernel of an operator for a type of devices, several, or None for all."""
    custom = _custom_operator(op)
    if custom is not None:
        return custom.register_kernel(device_types, func)
    overload = _registration.overload_of(op)
    return impl(overload, "default" if device_types is None else device_types, func, lib=lib)


def register_fake(op: Any, func: Any = None, /, *, lib: Library | None = None, _stacklevel: int = 1, allow_override: bool = False) -> Any:
    """Makes a function the kernel of an operator for the device meta, whose tensors have sizes and types only."""
    custom = _custom_operator(op)

    def register(function: Any) -> None:
        if custom is not None:
            if allow_override:
                _locations.forget(custom._qualname, "a fake kernel")
            custom.register_fake(function)
            return
        if _registration.is_function(op):
            return
        overload = _registration.overload_of(op)
        _library(overload.namespace, lib).impl(overload, function, "Meta", allow_override=allow_override)

    return _decorated(func, register)


impl_abstract = register_fake


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Library | None = None) -> None:
    """Sets the derivative of an operator: `setup_context(ctx, inputs, output)` keeps what `backward(ctx, *grads)` needs."""
    if not _registration.is_function(op):
        _custom.register_autograd_of(_registration.overload_of(op), backward, setup_context, lib)


def register_vmap(op: Any, func: Any = None, /, *, lib: Library | None = None) -> Any:
    """Sets what a batch of arguments is: `func(info, in_dims, *args)` returns the output and the dimension of its batch."""
    overload = _registration.overload_of(op)

    def register(function: Any) -> None:
        _library(overload.namespace, lib).impl(overload, _batching.kernel(overload, function), "Batched")

    return _decorated(func, register)


def register_torch_dispatch(op: Any, torch_dispatch_class: type, func: Any = None, /, *, lib: Library | None = None) -> Any:
    """Sets what a class or a mode does with an operator: `func(cls_or_mode, func, types, args, kwargs)`."""
    overload = _registration.overload_of(op)
    return _decorated(func, lambda function: _custom.register_rule(overload, torch_dispatch_class, function))


def _custom_operator(op: Any) -> CustomOpDef | None:
    if isinstance(op, CustomOpDef):
        return op
    return _custom.operators.get(op) if isinstance(op, str) else None


class FakeImplCtx:
    """What a fake kernel may ask for."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        """Refused: sizes are numbers, also on the device meta."""
        raise NotImplementedError("new_dynamic_size: a size that depends on elements has no value on the device meta")

    create_unbacked_symint = new_dynamic_size


def get_ctx() -> FakeImplCtx:
    """What a fake kernel may ask for."""
    return FakeImplCtx()


def triton_op(name: str, fn: Any = None, /, *, mutates_args: Any = (), schema: Any = None) -> Any:
    """Refused: Triton compiles kernels for PyTorch's tensors on GPUs."""
    raise NotImplementedError(
        f"triton_op({name!r}): Triton is not supported, since its kernels are compiled and launched by PyTorch's runtime; use custom_op"
    )


def wrap_triton(triton_kernel: Any, /) -> Any:
    """Refused, as `triton_op` is."""
    raise NotImplementedError("wrap_triton: Triton is not supported, since its kernels are compiled and launched by PyTorch's runtime")
