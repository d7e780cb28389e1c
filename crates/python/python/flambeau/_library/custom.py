"""`custom_op`: functions of Python's as operators."""

from __future__ import annotations

import contextlib

from flambeau import Tensor, _dispatch, _flambeau, _ops

from . import batching, derivatives, locations, registration, schemas

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

# The operators that `custom_op` made, by name.
operators: dict[str, CustomOpDef] = {}


def _tensors(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _identity(tensor: Any) -> Any:
    return id(tensor) if _flambeau._is_wrapper(tensor) or tensor.is_meta else tensor._storage_identity()


class CustomOpDef:
    """An operator that a program defines: calling it calls the kernel for the arguments' device."""

    def __init__(self, namespace: str, name: str, schema: str, function: Callable[..., Any], tags: Any = ()) -> None:
        self._namespace, self._name = namespace, name
        self._qualname, self._schema = f"{namespace}::{name}", schema
        self._init_fn = function
        self._abstract_fn: Any = None
        self._disabled: set[str] = set()
        self.__name__, self.__doc__, self.__module__ = name, function.__doc__, function.__module__
        self._lib = registration.Library(namespace, "FRAGMENT")
        self._lib.define(f"{name}{schema}", tags=tags)
        self._opoverload = _ops._overload_named(self._qualname)
        written = [argument.is_write for argument in self._opoverload._schema.arguments if not argument.kwarg_only]
        names = {argument.name for argument in self._opoverload._schema.arguments if argument.kwarg_only and argument.is_write}
        self._written, self._written_names = written, names
        self._lib.impl(name, self._fake, "Meta")
        operators[self._qualname] = self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    @property
    def _opnamespace(self) -> str:
        return self._namespace

    def _fake(self, *args: Any, **kwargs: Any) -> Any:
        if self._abstract_fn is not None:
            return self._abstract_fn(*args, **kwargs)
        if self._opoverload._schema.is_mutable and not self._opoverload._schema.returns:
            return None
        raise RuntimeError(
            f"There was no fake impl registered for {self}. This is necessary for torch.compile/export/fx tracing to work, and for tensors "
            f"on the device meta. Please use `{self._init_fn.__name__}.register_fake` to add an fake impl."
        )

    def _checked(self, function: Callable[..., Any], device_type: str | None) -> Callable[..., Any]:
        """A kernel whose results must be new, and whose writes count even where no operator made them."""

        def kernel(*args: Any, **kwargs: Any) -> Any:
            chosen = self._init_fn if device_type in self._disabled else function
            result = chosen(*args, **kwargs)
            written = list(_tensors(value for value, is_written in zip(args, self._written) if is_written))
            written.extend(_tensors(kwargs[name] for name in self._written_names if name in kwargs))
            _flambeau._count_writes(written)
            self._refuse_aliases(chosen, (*args, *kwargs.values()), result)
            return result

        kernel.__name__ = self._name
        return kernel

    def _refuse_aliases(self, function: Callable[..., Any], inputs: Any, result: Any) -> None:
        seen = {_identity(tensor) for tensor in _tensors(inputs)}
        for tensor in _tensors(result if isinstance(result, tuple) else (result,)):
            identity = _identity(tensor)
            if identity in seen:
                raise RuntimeError(
                    f"{self._qualname} (with implementation in {function.__module__}): The output of this custom operator (1) must not also "
                    "be an input to this custom operator and (2) may not alias any inputs to this custom operator or other returns. The usual "
                    "cause of this error is that we have y = custom_op(x) and y and x are the same Tensor. Please instead return "
                    "a clone of the offending output tensor(s) (e.g. return x.clone()) or refactor the custom operator to not return y."
                )
            seen.add(identity)

    def register_kernel(self, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """Makes a function the kernel for a type of devices, "cpu" or "cuda", several of them, or None for all; a decorator without it."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            kinds = [device_types] if device_types is None or isinstance(device_types, str) else list(device_types)
            for kind in kinds:
                key = "CompositeExplicitAutograd" if kind is None else registration.key_of_device(kind)
                self._lib.impl(self._name, self._checked(function, kind), key)
            return function

        return register if fn is None else register(fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Makes a function the kernel for the device meta: it returns tensors of the right sizes and types."""
        locations.register(self._qualname, "a fake kernel")
        self._abstract_fn = fn
        return fn

    register_abstract = register_fake

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None) -> None:
        """Sets the derivative: `setup_context(ctx, inputs, output)` keeps what `backward(ctx, *grads)` needs."""
        register_autograd_of(self._opoverload, backward, setup_context, self._lib)

    def register_vmap(self, func: Callable[..., Any] | None = None, /) -> Any:
        """Sets what a batch of arguments is: `func(info, in_dims, *args)` returns the output and the dimension of its batch."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._lib.impl(self._name, batching.kernel(self._opoverload, function), "Batched")
            return function

        return register if func is None else register(func)

    def register_torch_dispatch(self, torch_dispatch_class: type, fn: Callable[..., Any] | None = None, /) -> Any:
        """Sets what a class or a mode does with the operator: `fn(cls_or_mode, func, types, args, kwargs)`."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            register_rule(self._opoverload, torch_dispatch_class, function)
            return function

        return register if fn is None else register(fn)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Inside it, the kernel for a type of devices is in force or not; without it the first function is called."""
        before = set(self._disabled)
        self._disabled = before - {device_type} if enabled else before | {device_type}
        try:
            yield
        finally:
            self._disabled = before


def register_rule(overload: Any, torch_dispatch_class: type, function: Callable[..., Any]) -> None:
    """Sets what a class or a mode does with an operator, instead of its `__torch_dispatch__`."""
    locations.register(overload.name(), f"a rule for {torch_dispatch_class.__name__}")
    _dispatch.rules[overload, torch_dispatch_class] = function


def register_autograd_of(overload: Any, backward: Callable[..., Any], setup_context: Any, lib: Any) -> None:
    """Sets the derivative of an operator that was defined."""
    derivatives.refuse_unless_functional(overload)
    derivatives.refuse_keyword_only_tensors(overload)
    if overload.name() not in registration.defined:
        raise RuntimeError(f"{overload}: expected an operator that was defined by a program; those of the library have derivatives")
    lib = lib or registration.defined[overload.name()]
    overload._op.add_autograd()
    lib.impl(overload, derivatives.kernel(overload, backward, setup_context), "Autograd")
    overload._op.note_formula()
    registration.with_formula.add(overload.name())


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = (),
) -> Any:
    """Makes a function an operator, "mylib::name"; a decorator without the function.

    `mutates_args` names the parameters that it writes; `device_types` are those whose tensors it takes, None for all. Its schema follows
    from its annotations, or is given as `"(Tensor x) -> Tensor"`.
    """

    def make(function: Callable[..., Any]) -> CustomOpDef:
        namespace, separator, base = name.partition("::")
        if not separator or not namespace or not base:
            raise ValueError(f"expected a name with a namespace, such as 'mylib::cube', but got {name!r}")
        if "." in base:
            raise ValueError(f"{name}: expected a name without an overload")
        text = schemas.infer_schema(function, mutates_args=mutates_args) if schema is None else schema.strip()
        made = CustomOpDef(namespace, base, text, function, tags)
        if schema is not None:
            _check_written(made, mutates_args)
        made.register_kernel(device_types, function)
        return made

    return make if fn is None else make(fn)


def _check_written(made: CustomOpDef, mutates_args: str | Iterable[str]) -> None:
    """The schema and `mutates_args` must say the same."""
    written = {argument.name for argument in made._opoverload._schema.arguments if argument.is_write}
    if mutates_args != "unknown" and written != set(mutates_args):
        made._lib._destroy()
        operators.pop(made._qualname, None)
        raise ValueError(
            f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={made._schema}. The schema suggests that the op "
            f"mutates {written} which is different from what was provided to us in `mutates_args`. Please make these consistent."
        )
