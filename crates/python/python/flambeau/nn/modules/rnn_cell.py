"""One step of a recurrent network."""

from __future__ import annotations

import math

import flambeau
from flambeau.nn import init
from flambeau.nn.module import Module
from flambeau.nn.modules.rnn import KINDS, kind_of
from flambeau.nn.parameter import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor


class RNNCellBase(Module):
    def __init__(self, kind: str, input_size: int, hidden_size: int, bias: bool, where: dict[str, Any]) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self._kind, (gates, self._states, _, _) = kind, KINDS[kind]
        rows = gates * hidden_size
        for name, shape in (("weight_ih", (rows, input_size)), ("weight_hh", (rows, hidden_size))):
            self.register_parameter(name, Parameter(flambeau.empty(shape, **where)))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(flambeau.empty(rows, **where)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters from `-1 / sqrt(hidden_size)` to `1 / sqrt(hidden_size)`."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for param in self.parameters():
            init.uniform_(param, -bound, bound)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """The state after a step from `[batch, size]` or `[size]`."""
        if input.ndim not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        if hx is None:
            zero = flambeau.zeros([*input.shape[:-1], self.hidden_size], dtype=input.dtype)
            hx = [zero] * self._states if self._states > 1 else zero
        states = list(hx) if self._states > 1 else hx
        return KINDS[self._kind][3](input, states, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"


class RNNCell(RNNCellBase):
    """A step of `RNN`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: flambeau.device | str | None = None,
        dtype: flambeau.dtype | None = None,
    ) -> None:
        super().__init__(kind_of(nonlinearity), input_size, hidden_size, bias, {"device": device, "dtype": dtype})
        self.nonlinearity = nonlinearity


class GRUCell(RNNCellBase):
    """A step of `GRU`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: flambeau.device | str | None = None,
        dtype: flambeau.dtype | None = None,
    ) -> None:
        super().__init__("gru", input_size, hidden_size, bias, {"device": device, "dtype": dtype})


class LSTMCell(RNNCellBase):
    """A step of `LSTM`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: flambeau.device | str | None = None,
        dtype: flambeau.dtype | None = None,
    ) -> None:
        super().__init__("lstm", input_size, hidden_size, bias, {"device": device, "dtype": dtype})
