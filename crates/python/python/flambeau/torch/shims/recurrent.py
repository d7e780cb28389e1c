"""Recurrent networks as functions of their weights: `torch.lstm`, `torch.gru_cell` and their like."""

from __future__ import annotations

import flambeau
from flambeau import Tensor
from flambeau.nn.modules import rnn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LAYERS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}
CELLS = {"lstm_cell": "lstm", "gru_cell": "gru", "rnn_tanh_cell": "tanh", "rnn_relu_cell": "relu"}


def _module(kind: str, params: Any, has_biases: bool, layers: int, dropout: float, bidirectional: bool, batch_first: bool) -> Any:
    """A module with the sizes of the weights, without memory of its own, and the weights by name."""
    shown = params[1].shape[1]
    gates = rnn.KINDS["lstm" if kind == "lstm" else "gru" if kind == "gru" else "tanh"][0]
    hidden = params[1].shape[0] // gates
    options: dict[str, Any] = {"proj_size": shown} if kind == "lstm" and shown != hidden else {}
    if LAYERS[kind] == "RNN":
        options["nonlinearity"] = kind.partition("_")[2]
    made = getattr(flambeau.nn, LAYERS[kind])(
        params[0].shape[1], hidden, layers, bias=has_biases, batch_first=batch_first, dropout=dropout, bidirectional=bidirectional,
        device="meta", **options,
    )
    names = [name for name, _ in made.named_parameters()]
    if len(names) != len(params):
        raise RuntimeError(f"{kind}: expected {len(names)} params but got {len(params)}")
    return made, dict(zip(names, params))


def layer(kind: str) -> Any:
    """The function of a kind of network. Where the second argument is a vector of batch sizes, the first is data of a packed sequence."""

    def call(input: Tensor, *args: Any) -> tuple[Tensor, ...]:
        is_packed = isinstance(args[0 if kind == "lstm" else 1], Tensor)
        sizes = args[0] if is_packed else None
        hx, params, has_biases, layers, dropout, train, bidirectional, *rest = args[1:] if is_packed else args
        made, weights = _module(kind, params, has_biases, layers, dropout if train else 0.0, bidirectional, bool(rest and rest[0]))
        made.train(bool(train))
        given: Any = input if sizes is None else flambeau.nn.utils.rnn.PackedSequence(input, sizes)
        state = tuple(hx) if kind == "lstm" else hx
        output, left = flambeau.func.functional_call(made, weights, (given, state))
        output = output if sizes is None else output.data
        return (output, *left) if kind == "lstm" else (output, left)

    call.__name__ = kind
    call.__doc__ = f"The outputs and the last state of `nn.{LAYERS[kind]}` with these weights."
    return call


def cell(kind: str) -> Any:
    """The function of one step."""
    step = rnn.KINDS[CELLS[kind]][2]

    def call(input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Any:
        state = tuple(hx) if kind == "lstm_cell" else (hx,)
        found = step(flambeau.nn.functional.linear(input, w_ih, b_ih), state, w_hh, b_hh)
        return found if kind == "lstm_cell" else found[0]

    call.__name__, call.__doc__ = kind, "The state after one step."
    return call
