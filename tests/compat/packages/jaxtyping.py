"""jaxtyping: annotations of shapes and types, which are checked against tensors."""

import jaxtyping
import torch
from jaxtyping import Float, Int, Shaped, jaxtyped


def case_checks():
    x, index = torch.ones(2, 3, dtype=torch.float32), torch.zeros(3, dtype=torch.int64)
    kinds = [
        Float[torch.Tensor, "2 3"], Float[torch.Tensor, "a a"], Float[torch.Tensor, "..."], Int[torch.Tensor, "n"],
        Shaped[torch.Tensor, "2 n"], jaxtyping.Float32[torch.Tensor, "a b"], jaxtyping.Float64[torch.Tensor, "a b"],
    ]
    with jaxtyped("context"):
        bound = [isinstance(x, Float[torch.Tensor, "rows columns"]), isinstance(index, Int[torch.Tensor, "columns"])]
        bound.append(isinstance(index, Int[torch.Tensor, "rows"]))
    return [[isinstance(value, kind) for kind in kinds] for value in (x, index)] + [bound]
