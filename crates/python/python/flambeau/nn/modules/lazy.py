"""Layers that learn the number of their inputs from the first one."""

from __future__ import annotations

import warnings

import flambeau
from flambeau.nn.modules.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from flambeau.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
]


class LazyModuleMixin:
    """A module with parameters of unknown sizes: `initialize_parameters` sets them before the first call.

    Afterwards the module is of the class `cls_to_become`, which is not lazy.
    """

    cls_to_become: type | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._register_lazy_hooks()
        warnings.warn(
            "Lazy modules are a new feature under heavy development so changes to the API or functionality can happen at any moment.",
            stacklevel=2,
        )

    def _register_lazy_hooks(self: Any) -> None:
        self._load_hook = self.register_load_state_dict_pre_hook(_load_lazily)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def initialize_parameters(self: Any, *args: Any, **kwargs: Any) -> None:
        """Sets the sizes of parameters by the first input; every lazy class has its own."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self: Any) -> bool:
        """Whether the sizes of a parameter or buffer are not known yet."""
        return any(is_lazy(x) for x in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self: Any, module: Any, args: Any, kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


def _load_lazily(module: Any, state: dict[str, Any], prefix: str, *more: Any) -> None:
    """Gives parameters the sizes that they have in the state that is loaded."""
    for name, tensor in (*module._parameters.items(), *module._buffers.items()):
        given = state.get(prefix + name)
        if is_lazy(tensor) and given is not None and not is_lazy(given):
            with flambeau.no_grad():
                tensor.materialize(given.shape)


def _channels(module: Any, input: Any, dims: int) -> int:
    if input.dim() not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {type(module).__name__}, but got input of size: "
            f"{input.shape}"
        )
    return int(input.shape[-dims - 1])


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` whose `in_features` is the last size of its first input."""

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        if self.has_uninitialized_params():
            with flambeau.no_grad():
                self.in_features = input.shape[-1]
                weight: Any = self.weight
                weight.materialize((self.out_features, self.in_features))
                bias: Any = self.bias
                if bias is not None:
                    bias.materialize((self.out_features,))
                self.reset_parameters()


class _LazyConv(LazyModuleMixin):
    """What lazy convolutions have in common."""

    _dims = 0
    _transposed = False

    def __init__(self: Any, out_channels: int, kernel_size: Any, *args: Any, **kwargs: Any) -> None:
        names = ("stride", "padding", "output_padding", "groups", "bias", "dilation") if self._transposed else (
            "stride", "padding", "dilation", "groups", "bias")
        options = {**dict(zip(names, args)), **kwargs}
        bias = options.pop("bias", True)
        where: dict[str, Any] = {"device": options.get("device"), "dtype": options.get("dtype")}
        groups = options.get("groups", 1)
        LazyModuleMixin.__init__(self, groups, out_channels, kernel_size, bias=False, **options)
        self.in_channels = 0
        self.weight = UninitializedParameter(**where)
        if bias:
            self.bias = UninitializedParameter(**where)

    def reset_parameters(self: Any) -> None:
        """Draws the parameters once their sizes are known."""
        if not any(is_lazy(x) for x in self._parameters.values()) and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Any, *args: Any, **kwargs: Any) -> None:
        if self.has_uninitialized_params():
            with flambeau.no_grad():
                self.in_channels = _channels(self, input, self._dims)
                if self.in_channels % self.groups != 0:
                    raise ValueError("in_channels must be divisible by groups")
                sizes = (self.in_channels, self.out_channels // self.groups)
                if not self._transposed:
                    sizes = (self.out_channels, self.in_channels // self.groups)
                self.weight.materialize((*sizes, *self.kernel_size))
                if self.bias is not None:
                    self.bias.materialize((self.out_channels,))
                self.reset_parameters()


class _LazyNorm(LazyModuleMixin):
    """What lazy normalisations have in common."""

    _dims = 0

    def __init__(
        self: Any,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        LazyModuleMixin.__init__(self, 0, eps, momentum, False, False, device=device, dtype=dtype)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            del self.running_mean, self.running_var, self.num_batches_tracked
            self.register_buffer("running_mean", UninitializedBuffer(device=device, dtype=dtype))
            self.register_buffer("running_var", UninitializedBuffer(device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", flambeau.tensor(0))

    def initialize_parameters(self: Any, input: Any) -> None:
        if self.has_uninitialized_params():
            self.num_features = int(input.shape[1])
            with flambeau.no_grad():
                for tensor in (*self._parameters.values(), *self._buffers.values()):
                    if is_lazy(tensor):
                        tensor.materialize((self.num_features,))
                self.reset_parameters()

    def reset_parameters(self: Any) -> None:
        """Sets the parameters and statistics once their sizes are known."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]


def _lazy(name: str, base: Any, kind: Any, dims: int, transposed: bool = False) -> Any:
    """The lazy form of a class."""
    text = f"A `{base.__name__}` that learns the number of its channels from its first input."
    attributes = {"cls_to_become": base, "_dims": dims, "_transposed": transposed, "__doc__": text, "__module__": __name__}
    return type(name, (kind, base), attributes)


LazyConv1d = _lazy("LazyConv1d", Conv1d, _LazyConv, 1)
LazyConv2d = _lazy("LazyConv2d", Conv2d, _LazyConv, 2)
LazyConv3d = _lazy("LazyConv3d", Conv3d, _LazyConv, 3)
LazyConvTranspose1d = _lazy("LazyConvTranspose1d", ConvTranspose1d, _LazyConv, 1, True)
LazyConvTranspose2d = _lazy("LazyConvTranspose2d", ConvTranspose2d, _LazyConv, 2, True)
LazyConvTranspose3d = _lazy("LazyConvTranspose3d", ConvTranspose3d, _LazyConv, 3, True)
LazyBatchNorm1d = _lazy("LazyBatchNorm1d", BatchNorm1d, _LazyNorm, 1)
LazyBatchNorm2d = _lazy("LazyBatchNorm2d", BatchNorm2d, _LazyNorm, 2)
LazyBatchNorm3d = _lazy("LazyBatchNorm3d", BatchNorm3d, _LazyNorm, 3)
LazyInstanceNorm1d = _lazy("LazyInstanceNorm1d", InstanceNorm1d, _LazyNorm, 1)
LazyInstanceNorm2d = _lazy("LazyInstanceNorm2d", InstanceNorm2d, _LazyNorm, 2)
LazyInstanceNorm3d = _lazy("LazyInstanceNorm3d", InstanceNorm3d, _LazyNorm, 3)
