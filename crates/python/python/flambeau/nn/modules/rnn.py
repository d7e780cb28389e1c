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


def _tanh_step(x: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    return ((x + F.linear(state[0], weight, bias)).tanh(),)


def _relu_step(x: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    return ((x + F.linear(state[0], weight, bias)).relu(),)


def _lstm_step(x: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    """Hochreiter and Schmidhuber, 1997, with the forget gate of Gers et al., 2000."""
    take, keep, new, show = (x + F.linear(state[0], weight, bias)).chunk(4, -1)
    memory = keep.sigmoid() * state[1] + take.sigmoid() * new.tanh()
    return show.sigmoid() * memory.tanh(), memory


def _gru_step(x: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    """Cho et al., 2014, with the reset after the product, as PyTorch and cuDNN have it."""
    reset_x, keep_x, new_x = x.chunk(3, -1)
    reset_h, keep_h, new_h = F.linear(state[0], weight, bias).chunk(3, -1)
    keep = (keep_x + keep_h).sigmoid()
    new = (new_x + (reset_x + reset_h).sigmoid() * new_h).tanh()
    return (new + keep * (state[0] - new),)


# For each kind: how many gates it has, how many tensors a step leaves, and the step.
KINDS = {
    "tanh": (1, 1, _tanh_step),
    "relu": (1, 1, _relu_step),
    "lstm": (4, 2, _lstm_step),
    "gru": (3, 1, _gru_step),
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
        self._gates, self._states, self._step = KINDS[kind]
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
        outputs, last = self._run(data, begin, sizes)
        if inverse is not None:
            last = tuple(part.index_select(1, inverse) for part in last)
        return type(input)(outputs, batch_sizes, order, inverse), (last if self._states > 1 else last[0])

    def _run(self, x: Tensor, begin: State, sizes: list[int] | None = None) -> tuple[Tensor, State]:
        directions = 2 if self.bidirectional else 1
        ends: list[State] = []
        for layer in range(self.num_layers):
            outputs = []
            for index in range(layer * directions, (layer + 1) * directions):
                state, suffix = tuple(part[index] for part in begin), self._suffixes[index]
                made, end = self._run_direction(x, state, suffix) if sizes is None else self._run_steps(x, state, suffix, sizes)
                outputs.append(made)
                ends.append(end)
            x = outputs[0] if directions == 1 else flambeau.cat(outputs, -1)
            if self.dropout > 0 and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        return x, tuple(flambeau.stack(list(parts)) for parts in zip(*ends))

    def _run_direction(self, x: Tensor, state: State, suffix: str) -> tuple[Tensor, State]:
        """All steps of one layer in one direction. What depends on the inputs alone is one product for all."""
        own: Any = self._parameters.get
        weight, bias, narrow = own("weight_hh" + suffix), own("bias_hh" + suffix), own("weight_hr" + suffix)
        backwards = suffix.endswith("_reverse")
        steps = F.linear(x, own("weight_ih" + suffix), own("bias_ih" + suffix)).unbind(0)
        made = []
        for step in reversed(steps) if backwards else steps:
            state = self._step(step, state, weight, bias)
            if narrow is not None:
                state = (F.linear(state[0], narrow), *state[1:])
            made.append(state[0])
        return flambeau.stack(made[::-1] if backwards else made), state

    def _run_steps(self, x: Tensor, state: State, suffix: str, sizes: list[int]) -> tuple[Tensor, State]:
        """The same for packed sequences: a step has as many rows as sequences are that long.

        Forwards, the rows of sequences that end are set aside. Backwards, each sequence begins with its own last step.
        """
        own: Any = self._parameters.get
        weight, bias, narrow = own("weight_hh" + suffix), own("bias_hh" + suffix), own("weight_hr" + suffix)
        steps = list(F.linear(x, own("weight_ih" + suffix), own("bias_ih" + suffix)).split(sizes))
        backwards = suffix.endswith("_reverse")
        first, rows, made = state, sizes[-1] if backwards else sizes[0], []
        state = tuple(part[:rows] for part in first)
        ended: list[State] = []
        for step in reversed(steps) if backwards else steps:
            count = step.shape[0]
            if count < rows:
                ended.append(tuple(part[count:] for part in state))
                state = tuple(part[:count] for part in state)
            elif count > rows:
                state = tuple(flambeau.cat([part, begin[rows:count]]) for part, begin in zip(state, first))
            rows = count
            state = self._step(step, state, weight, bias)
            if narrow is not None:
                state = (F.linear(state[0], narrow), *state[1:])
            made.append(state[0])
        last = tuple(flambeau.cat(parts) for parts in zip(state, *reversed(ended)))
        return flambeau.cat(made[::-1] if backwards else made), last

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
