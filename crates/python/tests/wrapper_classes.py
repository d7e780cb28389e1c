"""Classes and modes that tests of `__torch_dispatch__` share: a logging wrapper, a pair of tensors, a lazy cast, a logging mode."""

import flambeau as fl
from flambeau.utils import _pytree as pytree
from flambeau.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

LOG = []


class LoggingTensor(fl.Tensor):
    """A tensor that notes every operator."""

    elem: fl.Tensor
    __slots__ = ["elem"]
    __torch_function__ = None

    @staticmethod
    def __new__(cls, elem, requires_grad=None):
        needs = elem.requires_grad if requires_grad is None else requires_grad
        made = fl.Tensor._make_wrapper_subclass(cls, elem.size(), strides=elem.stride(), dtype=elem.dtype, device=elem.device, requires_grad=needs)
        made.elem = elem.detach()
        return made

    def __repr__(self):
        return f"LoggingTensor({self.elem})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        LOG.append(func)
        plain_args, plain_kwargs = pytree.tree_map_only(LoggingTensor, lambda t: t.elem, (args, kwargs or {}))
        out = func(*plain_args, **plain_kwargs)
        out = pytree.tree_map_only(fl.Tensor, lambda t: t if isinstance(t, cls) else cls(t), out)
        return return_and_correct_aliasing(func, args, kwargs, out)


class TwoTensor(fl.Tensor):
    """Two tensors that go through all operators together."""

    @staticmethod
    def __new__(cls, a, b, requires_grad=False):
        assert a.shape == b.shape and a.dtype == b.dtype
        return fl.Tensor._make_wrapper_subclass(cls, a.size(), strides=a.stride(), dtype=a.dtype, device=a.device, requires_grad=requires_grad)

    __torch_function__ = None

    def __init__(self, a, b, requires_grad=False):
        self.a, self.b = a, b

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, meta, outer_size, outer_stride):
        return TwoTensor(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        outs = []
        for name in ("a", "b"):
            plain = pytree.tree_map_only(TwoTensor, lambda t: getattr(t, name), (args, kwargs))
            outs.append(func(*plain[0], **plain[1]))
        left, spec = pytree.tree_flatten(outs[0])
        right = pytree.tree_leaves(outs[1])
        joined = [TwoTensor(a, b) if isinstance(a, fl.Tensor) else a for a, b in zip(left, right)]
        return return_and_correct_aliasing(func, args, kwargs, pytree.tree_unflatten(joined, spec))


class LazyCast(fl.Tensor):
    """Elements in 64 bits, which operators get in 32: a weight that is cast when it is used."""

    __torch_function__ = None

    @staticmethod
    def __new__(cls, stored):
        return fl.Tensor._make_wrapper_subclass(cls, stored.size(), strides=stored.stride(), dtype=fl.float32, device=stored.device)

    def __init__(self, stored):
        self.stored = stored

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func in (fl.ops.aten.detach.default, fl.ops.aten.clone.default):
            return cls(func(args[0].stored))
        if func._schema.is_mutable and isinstance(args[0], cls):
            cast = [t.stored if isinstance(t, cls) else t.double() if isinstance(t, fl.Tensor) else t for t in args]
            func(*cast, **(kwargs or {}))
            return args[0]
        cast_args, cast_kwargs = pytree.tree_map_only(cls, lambda t: t.stored.float(), (args, kwargs or {}))
        return func(*cast_args, **cast_kwargs)


class LoggingMode(TorchDispatchMode):
    """Notes every operator."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, types))
        return func(*args, **(kwargs or {}))

    def names(self):
        return [func.name() for func, _ in self.calls]
