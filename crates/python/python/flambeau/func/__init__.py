"""Functions of functions: their gradients, products with their Jacobians, these as a whole, and functions of one example for a batch.

Arguments and outputs are tensors or nested tuples, lists and dicts of them. The transforms nest in one another, but for forward
mode in itself: `jvp` and `jacfwd` open the one level of tangents that a thread has. Under `vmap` every operator computes all examples at
once; so `jacrev` runs one backward pass for all rows, and `jacfwd` the function once for all columns. Results have gradients by what
a function captures, as by its arguments.
"""

from __future__ import annotations

from .ensembles import debug_unwrap, functionalize, linearize, rearrange, replace_all_batch_norm_modules_, stack_module_state
from .forward import hessian, jacfwd, jvp
from .modules import functional_call
from .reverse import grad, grad_and_value, jacrev, vjp
from .vmap import vmap

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
