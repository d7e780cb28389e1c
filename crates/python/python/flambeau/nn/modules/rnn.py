"""Recurrent networks: each step sees its input and what the step before has left."""

from __future__ import annotations

import math

import flambeau
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

    # What a step leaves: the output, and for an LSTM what it remembers.
    State = tuple[Tensor, ...]


# For each kind: how many gates it has, how many tensors a step leaves, and the operators of sequences and of a step.
KINDS: dict[str, tuple[int, int, Any, Any]] = {
    "tanh": (1, 1, flambeau.rnn_tanh, flambeau.rnn_tanh_cell),
    "relu": (1, 1, flambeau.rnn_relu, flambeau.rnn_relu_cell),
    "lstm": (4, 2, flambeau.lstm, flambeau.lstm_cell),
    "gru": (3, 1, flambeau.gru, flambeau.gru_cell),
}


def kind_of(nonlinearity: str) -> str:
    """The kind of step that has this nonlinearity."""
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
    return nonlinearity


class RNNBase(Module):
    """Layers of steps, in one direction or both."""

    def __init__(
        self,
        kind: str,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        proj_size: int,
        where: dict[str, Any],
    ) -> None:
        super().__init__()
        _check_sizes(hidden_size, num_layers, dropout, proj_size)
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, float(dropout), bidirectional
        self.proj_size = proj_size
        self.mode = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}.get(kind, kind.upper())
        self._kind, (self._gates, self._states, _, _) = kind, KINDS[kind]
        self._suffixes = [
            f"_l{layer}{direction}" for layer in range(num_layers) for direction in (("", "_reverse") if bidirectional else ("",))
        ]
        directions = 2 if bidirectional else 1
        shown = proj_size or hidden_size
        for index, suffix in enumerate(self._suffixes):
            width = input_size if index < directions else directions * shown
            rows = self._gates * hidden_size
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, shown)}
            shapes.update({"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {})
            shapes.update({"weight_hr": (proj_size, hidden_size)} if proj_size else {})
            for name, shape in shapes.items():
                self.register_parameter(name + suffix, Parameter(flambeau.empty(shape, **where)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters from `-1 / sqrt(hidden_size)` to `1 / sqrt(hidden_size)`."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for param in self.parameters():
            init.uniform_(param, -bound, bound)

    def flatten_parameters(self) -> None:
        """PyTorch's arrangement for one of its devices; there is nothing to arrange here."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[p for name, p in self._parameters.items() if _belongs(name, s) and p is not None] for s in self._suffixes]

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The outputs of all steps, and the state after the last one of each layer and direction.

        Of a `PackedSequence` the outputs are one too, and the state is that after the last step of each sequence.
        """
        if isinstance(input, tuple) and hasattr(input, "batch_sizes"):
            return self._forward_packed(input, hx)
        if input.ndim not in (2, 3):
            raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.ndim}D tensor instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )
        batched = input.ndim == 3
        x = input.unsqueeze(1) if not batched else input.transpose(0, 1) if self.batch_first else input
        outputs, last = self._run(x, self._begin(x, hx, batched))
        if not batched:
            outputs, last = outputs.squeeze(1), tuple(part.squeeze(1) for part in last)
        elif self.batch_first:
            outputs = outputs.transpose(0, 1)
        return outputs, (last if self._states > 1 else last[0])

    def _begin(self, x: Tensor, hx: Any, batched: bool) -> State:
        """The state before the first step, `[layers and directions, batch, size]`: what was given, or 0."""
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)[: self._states]
        shapes = [(len(self._suffixes), x.shape[1], size) for size in sizes]
        if hx is None:
            return tuple(flambeau.zeros(shape, dtype=x.dtype) for shape in shapes)
        given = tuple(hx) if self._states > 1 else (hx,)
        given = given if batched else tuple(part.unsqueeze(1) for part in given)
        for part, shape in zip(given, shapes):
            if tuple(part.shape) != shape:
                raise RuntimeError(f"Expected hidden size {shape}, got {list(part.shape)}")
        return given

    def _forward_packed(self, input: Any, hx: Any) -> Any:
        """The same for packed sequences, whose states are in the order in which the sequences were given."""
        data, batch_sizes, order, inverse = input
        sizes: list[int] = batch_sizes.tolist()
        if data.shape[-1] != self.input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {data.shape[-1]}")
        if hx is not None and order is not None:
            hx = tuple(part.index_select(1, order) for part in hx) if self._states > 1 else hx.index_select(1, order)
        begin = self._begin(data.new_empty(0, sizes[0], 0), hx, True)
        outputs, last = self._run(data, begin, batch_sizes)
        if inverse is not None:
            last = tuple(part.index_select(1, inverse) for part in last)
        return type(input)(outputs, batch_sizes, order, inverse), (last if self._states > 1 else last[0])

    def _run(self, x: Tensor, begin: State, batch_sizes: Tensor | None = None) -> tuple[Tensor, State]:
        """The outputs of all steps, `[length, batch, size]` or those of packed sequences, and the states after the last step."""
        biases, projection = (("bias_ih", "bias_hh") if self.bias else ()), (("weight_hr",) if self.proj_size else ())
        names = ("weight_ih", "weight_hh", *biases, *projection)
        params = [self._parameters[name + suffix] for suffix in self._suffixes for name in names]
        options = (params, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        states, operator = (list(begin) if self._states > 1 else begin[0]), KINDS[self._kind][2]
        if batch_sizes is None:
            outputs, *last = operator(x, states, *options, False)
        else:
            outputs, *last = operator(x, batch_sizes, states, *options)
        return outputs, tuple(last)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        standard = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False}
        return text + "".join(f", {name}={getattr(self, name)}" for name, v in standard.items() if getattr(self, name) != v)


def _belongs(name: str, suffix: str) -> bool:
    return name.partition("_l")[2] == suffix[2:]


def _check_sizes(hidden: int, layers: int, dropout: float, projected: int) -> None:
    if isinstance(dropout, bool) or not 0 <= dropout <= 1:
        raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
    if dropout > 0 and layers == 1:
        import warnings

        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers greater "
            f"than 1, but got dropout={dropout} and num_layers={layers}",
            stacklevel=4,
        )
    for name, size in (("hidden_size", hidden), ("num_layers", layers)):
        if not isinstance(size, int):
            raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if projected < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if projected >= hidden:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNN(RNNBase):
    """`h = tanh(W x + U h)`: Elman, 1990; or `relu` instead of `tanh`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: flambeau.device | str | None = None,
        dtype: flambeau.dtype | None = None,
    ) -> None:
        sizes = (input_size, hidden_size, num_layers)
        where = {"device": device, "dtype": dtype}
        super().__init__(kind_of(nonlinearity), *sizes, bias, batch_first, dropout, bidirectional, 0, where)
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """A gated recurrent unit: Cho et al., 2014."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: flambeau.device | str | None = None,
        dtype: flambeau.dtype | None = None,
    ) -> None:
        sizes = (input_size, hidden_size, num_layers)
        where = {"device": device, "dtype": dtype}
        super().__init__("gru", *sizes, bias, batch_first, dropout, bidirectional, 0, where)


class LSTM(RNNBase):
    """Long short-term memory: Hochreiter and Schmidhuber, 1997; `proj_size` narrows what it shows (Sak et al., 2014)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: flambeau.device | str | None = None,
        dtype: flambeau.dtype | None = None,
    ) -> None:
        sizes = (input_size, hidden_size, num_layers)
        where = {"device": device, "dtype": dtype}
        super().__init__("lstm", *sizes, bias, batch_first, dropout, bidirectional, proj_size, where)
