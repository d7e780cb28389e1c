"""Functions of functions: their gradients, products with their Jacobians, and these as a whole.

Arguments and outputs are tensors or nested tuples, lists and dicts of them. The transforms nest in one another, but for forward
mode in itself: `jvp` and `jacfwd` open the one level of tangents that a thread has. Nothing is vectorised, since there is no `vmap`:
`jacrev` runs one backward pass for each row and `jacfwd` the function once for each column. Gradients of what a function captures
are recorded where an argument requires grad.
"""

from __future__ import annotations

from .forward import hessian, jacfwd, jvp
from .modules import functional_call
from .reverse import grad, grad_and_value, jacrev, vjp

__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp"]
