"""Work on the parameters of a network as a whole, and on sequences of different lengths."""

from __future__ import annotations

from flambeau.nn.utils.clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from flambeau.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau.nn.utils import parametrizations as parametrizations, parametrize as parametrize, prune as prune, rnn as rnn
    from flambeau.nn.utils import fusion as fusion, stateless as stateless

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]

# In which module each function is that not every program needs.
_MODULES = {
    "convert_conv2d_weight_memory_format": "memory_format",
    "convert_conv3d_weight_memory_format": "memory_format",
    "fuse_conv_bn_eval": "fusion",
    "fuse_conv_bn_weights": "fusion",
    "fuse_linear_bn_eval": "fusion",
    "fuse_linear_bn_weights": "fusion",
    "remove_spectral_norm": "spectral_normalization",
    "remove_weight_norm": "weight_normalization",
    "skip_init": "init",
    "spectral_norm": "spectral_normalization",
    "weight_norm": "weight_normalization",
}


def __getattr__(name: str) -> Any:
    """Functions and modules that not every program needs are imported on first access."""
    from importlib import import_module

    if name in _MODULES:
        found = getattr(import_module(f"flambeau.nn.utils.{_MODULES[name]}"), name)

        globals()[name] = found
        return found
    if name in ("fusion", "memory_format", "parametrizations", "parametrize", "prune", "rnn", "stateless", "init"):
        return import_module(f"flambeau.nn.utils.{name}")
    raise AttributeError(f"module 'flambeau.nn.utils' has no attribute '{name}'")
