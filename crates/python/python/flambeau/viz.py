"""Draws, as SVG, how a tensor lies in its storage and how a result was computed.

    viz.strides(x.t()).save("strides.svg")
    viz.graph(loss, dict(model.named_parameters())).save("graph.svg")

In a notebook the drawings show themselves.
"""

from __future__ import annotations

from colorsys import hls_to_rgb
from html import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from flambeau import Tensor

_CELL, _GAP, _MARGIN = 34, 10, 16
_MOST_ELEMENTS = 1024
_FONT = "font-family='monospace' font-size='11'"


class Drawing:
    """An SVG document."""

    def __init__(self, width: float, height: float, parts: list[str]) -> None:
        self.width, self.height, self._parts = width, height, parts

    def __str__(self) -> str:
        size = f"width='{self.width:g}' height='{self.height:g}' viewBox='0 0 {self.width:g} {self.height:g}'"
        head = f"<svg xmlns='http://www.w3.org/2000/svg' {size} {_FONT}>"
        return "\n".join([head, "<rect width='100%' height='100%' fill='white'/>", *self._parts, "</svg>\n"])

    def _repr_svg_(self) -> str:
        return str(self)

    def save(self, path: str) -> None:
        """Writes it to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(str(self))


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f"<text x='{x:g}' y='{y:g}' text-anchor='{anchor}'>{escape(text)}</text>"


def _cell(x: float, y: float, text: str, fill: str) -> str:
    box = f"<rect x='{x:g}' y='{y:g}' width='{_CELL}' height='{_CELL}' fill='{fill}' stroke='#888'/>"
    return box + _text(x + _CELL / 2, y + _CELL / 2 + 4, text)


def _colour(part: float) -> str:
    """A light colour, from red at 0 around the circle; in digits, since not every program knows `hsl()`."""
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in hls_to_rgb(part, 0.82, 0.7))


def _indices(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All indices, the last dimension fastest."""
    if not sizes:
        yield ()
        return
    for first in range(sizes[0]):
        for rest in _indices(sizes[1:]):
            yield (first, *rest)


def strides(tensor: Tensor) -> Drawing:
    """The elements of a tensor, and below them the storage they lie in. Each element is labelled with its offset in the storage
    and has that offset's colour, so a transposed tensor shows its colours in columns and an expanded one repeats them.

    Raises ValueError for more than 1024 elements or a larger offset.
    """
    sizes, steps, offset = tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset()
    if tensor.numel() > _MOST_ELEMENTS:
        raise ValueError(f"viz.strides: expected at most {_MOST_ELEMENTS} elements but got {tensor.numel()}")
    offsets = {index: offset + sum(i * s for i, s in zip(index, steps)) for index in _indices(sizes)}
    length = max(offsets.values(), default=-1) + 1
    if length > _MOST_ELEMENTS:
        raise ValueError(f"viz.strides: expected at most {_MOST_ELEMENTS} offsets but the last is {length - 1}")
    colour = {offset: _colour(offset / length) for offset in offsets.values()}

    title = f"size {list(sizes)}, stride {list(steps)}, offset {offset}"
    parts = [_text(_MARGIN, _MARGIN + 8, title, "start")]
    bottom, right = _grid(parts, sizes, offsets, colour, _MARGIN + 20)
    parts.append(_text(_MARGIN, bottom + 14, "storage", "start"))
    row = max(int((max(right, 620) - 2 * _MARGIN) // _CELL), 1)
    for offset in range(length):
        x, y = _MARGIN + offset % row * _CELL, bottom + 22 + offset // row * (_CELL + _GAP)
        parts.append(_cell(x, y, str(offset), colour.get(offset, "#eee")))
    height = bottom + 22 + -(-length // row) * (_CELL + _GAP) + _MARGIN
    width = max(right, _MARGIN * 2 + min(length, row) * _CELL, _MARGIN * 2 + 7 * len(title))
    return Drawing(width, height, parts)


def _grid(parts: list[str], sizes: tuple[int, ...], offsets: dict[Any, int], colour: dict[int, str], top: float) -> tuple[float, float]:
    """Puts the elements there, a matrix for each index of the leading dimensions; returns where they end."""
    rows, columns = (1, *sizes)[-2] if sizes else 1, sizes[-1] if sizes else 1
    bottom, right = top, float(_MARGIN)
    for number, lead in enumerate(_indices(sizes[:-2])):
        start = top + number * (rows * _CELL + _GAP)
        for index, offset in offsets.items():
            if index[: len(lead)] == lead:
                row, column = (0, 0, *index)[-2], (0, *index)[-1]
                x, y = _MARGIN + column * _CELL, start + (row if len(sizes) > 1 else 0) * _CELL
                parts.append(_cell(x, y, str(offset), colour[offset]))
        bottom, right = start + rows * _CELL + _GAP, max(right, 2 * _MARGIN + columns * _CELL)
    return bottom, right


def graph(tensor: Tensor, names: dict[str, Tensor] | None = None) -> Drawing:
    """The graph that a backward pass from `tensor` would walk: operators from the result at the top down to the leaves.

    `names` says what leaves are called: `dict(model.named_parameters())`.
    Raises ValueError for a tensor without history.
    """
    if tensor.grad_fn is None:
        raise ValueError("viz.graph: expected a tensor with a grad_fn but got one that no recorded operator made")
    called = {_accumulator(leaf): name for name, leaf in (names or {}).items() if leaf.requires_grad}
    edges, depth = _walk(tensor.grad_fn)
    layers: dict[int, list[Any]] = {}
    for node, level in depth.items():
        layers.setdefault(level, []).append(node)

    label = {node: called.get(node, node.name().removesuffix("0")) for node in depth}
    width_of = {node: 7 * len(label[node]) + 20 for node in depth}
    total = max(sum(width_of[node] + _GAP for node in layer) for layer in layers.values()) + 2 * _MARGIN
    position: dict[Any, tuple[float, float]] = {}
    for level in sorted(layers):
        # Below the middle of what leads there, so that few edges cross.
        above = {node: [position[a][0] for a, b in edges if b == node and a in position] for node in layers[level]}
        layers[level].sort(key=lambda node: sum(above[node]) / len(above[node]) if above[node] else 0)
        x = (total - sum(width_of[node] + _GAP for node in layers[level])) / 2
        for node in layers[level]:
            position[node] = (x + width_of[node] / 2, _MARGIN + level * 62)
            x += width_of[node] + _GAP
    parts = [
        "<defs><marker id='to' viewBox='0 0 8 8' refX='8' refY='4' markerWidth='7' markerHeight='7' orient='auto'>"
        "<path d='M0,0 L8,4 L0,8 z' fill='#666'/></marker></defs>"
    ]
    for a, b in edges:
        (x1, y1), (x2, y2) = position[a], position[b]
        parts.append(f"<line x1='{x1:g}' y1='{y1 + 26:g}' x2='{x2:g}' y2='{y2:g}' stroke='#666' marker-end='url(#to)'/>")
    for node, (x, y) in position.items():
        leaf = node.name().endswith("AccumulateGrad")
        fill, width = ("#dbe9ff" if leaf else "#eeeeee"), width_of[node]
        parts.append(
            f"<rect x='{x - width / 2:g}' y='{y:g}' width='{width:g}' height='26' rx='{13 if leaf else 4}' fill='{fill}' stroke='#888'/>"
        )
        parts.append(_text(x, y + 17, label[node]))
    return Drawing(total, 2 * _MARGIN + max(layers) * 62 + 26, parts)


def _accumulator(leaf: Tensor) -> Any:
    """The node that adds to the gradient of a leaf."""
    node = leaf.view_as(leaf).grad_fn if leaf.is_leaf else None
    return leaf.grad_fn if node is None else node.next_functions[0][0]


def _walk(root: Any) -> tuple[list[tuple[Any, Any]], dict[Any, int]]:
    """The edges below a node, and for each node the length of the longest path to it."""
    edges, seen, waiting = [], {root}, [root]
    incoming = {root: 0}
    while waiting:
        node = waiting.pop()
        for target, _ in node.next_functions:
            if target is not None:
                edges.append((node, target))
                incoming[target] = incoming.get(target, 0) + 1
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
    below: dict[Any, list[Any]] = {}
    for a, b in edges:
        below.setdefault(a, []).append(b)
    depth, ready = {root: 0}, [root]
    while ready:
        node = ready.pop()
        for target in below.get(node, []):
            depth[target] = max(depth.get(target, 0), depth[node] + 1)
            incoming[target] -= 1
            if incoming[target] == 0:
                ready.append(target)
    return edges, depth
