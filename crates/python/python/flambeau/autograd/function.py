"""Functions whose derivative is written in Python."""

from __future__ import annotations

from .. import _flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._flambeau import Tensor
    from .._library.batching import VmapInfo


__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class FunctionCtx:
    """What `forward` leaves for `backward`: tensors by `save_for_backward`, anything else as an attribute."""

    needs_input_grad: tuple[bool, ...] = ()
    _to_save: tuple[Tensor | None, ...] = ()
    _for_forward: tuple[Tensor | None, ...] | None = None
    _dirty: tuple[Tensor, ...] = ()
    _non_differentiable: tuple[Tensor, ...] = ()
    _materialize = True
    _saved: Any = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Saves inputs, outputs or other tensors, or None, for `backward`; a second call replaces the first."""
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Saves tensors for `jvp`, which otherwise gets those of `save_for_backward`."""
        self._for_forward = tensors

    def mark_dirty(self, *inputs: Tensor) -> None:
        """Says that these inputs were written in place; they must be among the outputs."""
        self._dirty = inputs

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Says that these outputs have no gradient."""
        self._non_differentiable = outputs

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets undefined gradients as zeros, the default, or as None."""
        self._materialize = value

    @property
    def saved_tensors(self) -> Any:
        """The tensors of `save_for_backward`, inside `backward`, or of `save_for_forward`, inside `jvp`."""
        if isinstance(self._saved, BaseException):
            raise self._saved
        if self._saved is None:
            raise RuntimeError("saved_tensors can be read inside backward and jvp only")
        return self._saved

    saved_variables = saved_tensors


class Function:
    """A function with a derivative of its own: a class with two static methods or three, called by `apply`.

    `forward(ctx, *args)` returns tensors, `backward(ctx, *grads)` a gradient or None for each argument, `jvp(ctx, *tangents)` a
    tangent or None for each output. Instead, `forward(*args)` may leave the context to `setup_context(ctx, inputs, output)`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(f"{type(self)} should not be instantiated. Methods on autograd functions are all static: use apply")

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The outputs; nothing in here is recorded."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Stores in the context what `backward` needs, if `forward` takes no context."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the arguments, from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name for `backward`."""
        raise NotImplementedError

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The tangents of the outputs, from those of the arguments: forward mode, right after `forward`."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """The outputs for a batch, and the dimension of the batch in each, from arguments with their batch in `in_dims`.

        `info` has `batch_size` and `randomness`. A class with `generate_vmap_rule = True` needs none: it is applied to each example.
        """
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap static method or set generate_vmap_rule=True."
        )

    @classmethod
    def _run_forward(cls, ctx: Any, arguments: tuple[Any, ...]) -> Any:
        if cls.setup_context is Function.setup_context:
            return cls.forward(ctx, *arguments)
        output = cls.forward(*arguments)
        cls.setup_context(ctx, arguments, output)
        return output

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Calls the function and records it."""
        if kwargs:
            args = cls._bound(args, kwargs)
        if any(_flambeau._is_batched(value) for value in args):
            return _batched(cls, args)
        return _flambeau._apply_function(cls, FunctionCtx(), args)

    @classmethod
    def _bound(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Arguments in the order of `forward`'s parameters."""
        from inspect import signature

        if cls.setup_context is Function.setup_context:
            bound = signature(cls.forward).bind(None, *args, **kwargs)
        else:
            bound = signature(cls.forward).bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args if cls.setup_context is not Function.setup_context else bound.args[1:]

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if cls.vjp is not Function.vjp:
            if cls.backward is not Function.backward:
                raise RuntimeError("Implementing both 'backward' and 'vjp' for a custom Function is not allowed.")
            setattr(cls, "backward", staticmethod(cls.vjp))


def _batched(cls: type[Function], args: tuple[Any, ...]) -> Any:
    """Applies a function to arguments that are batched, by its own rule, or example by example."""
    is_overridden = cls.vmap is not Function.vmap
    if is_overridden and cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overriden vmap staticmethod. Please set "
            "generate_vmap_rule=False or delete the overriden vmap staticmethod to avoid ambiguity."
        )
    if not is_overridden and not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the vmap staticmethod or "
            "set generate_vmap_rule=True."
        )
    from .._library.batching import hidden, level_of, parts, wrapped

    found = level_of(value for value in args if isinstance(value, _flambeau.Tensor))
    if found is None:
        raise RuntimeError("a batched tensor was used outside of the function that vmap called")
    level, info = found
    pairs = [parts(value, level) if isinstance(value, _flambeau.Tensor) else (value, None) for value in args]
    values, in_dims = [value for value, _ in pairs], tuple(dim for _, dim in pairs)
    with hidden(level):
        if is_overridden:
            outputs, out_dims = cls.vmap(info, in_dims, *values)
        else:
            outputs, out_dims = _by_example(cls, info, values, in_dims)
    if not isinstance(outputs, (tuple, list)):
        return wrapped(outputs, out_dims, level)
    dims = out_dims if isinstance(out_dims, (tuple, list)) else [out_dims] * len(outputs)
    return tuple(wrapped(output, dim, level) for output, dim in zip(outputs, dims, strict=True))


def _by_example(cls: type[Function], info: VmapInfo, values: list[Any], in_dims: tuple[int | None, ...]) -> tuple[Any, Any]:
    pairs = list(zip(values, in_dims, strict=True))
    rows = [cls.apply(*(x if dim is None else x.select(dim, at) for x, dim in pairs)) for at in range(info.batch_size)]
    if not rows:
        raise RuntimeError(f"vmap: the outputs of {cls.__name__} are not known, since there are no examples")
    if isinstance(rows[0], _flambeau.Tensor):
        return _flambeau.stack(rows), 0
    return tuple(_flambeau.stack(list(column)) for column in zip(*rows, strict=True)), (0,) * len(rows[0])


def once_differentiable(function: Any) -> Any:
    """Marks a `backward` whose own derivative is an error; it need not use differentiable operators."""
    function._once_differentiable = True
    return function
