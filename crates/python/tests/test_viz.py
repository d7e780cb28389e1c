"""Drawings are well-formed, and show what they should."""

import xml.etree.ElementTree as ElementTree

import pytest

import flambeau
from flambeau import nn, viz

SVG = "{http://www.w3.org/2000/svg}"


def texts(drawing):
    return [text.text for text in ElementTree.fromstring(str(drawing)).iter(f"{SVG}text")]


def test_an_element_is_labelled_with_its_offset():
    x = flambeau.arange(6).reshape(2, 3)
    assert texts(viz.strides(x))[1:7] == ["0", "1", "2", "3", "4", "5"]
    assert texts(viz.strides(x.t()))[1:7] == ["0", "3", "1", "4", "2", "5"]
    assert texts(viz.strides(x[1:, 1:]))[0] == "size [1, 2], stride [3, 1], offset 4"
    assert texts(viz.strides(x[0, :1].expand(2, 3)))[1:7] == ["0"] * 6


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 2, 2), (2, 1, 3, 2)])
def test_every_shape_is_drawn(shape):
    cells = ElementTree.fromstring(str(viz.strides(flambeau.zeros(shape)))).findall(f"{SVG}rect")
    count = flambeau.zeros(shape).numel()
    assert len(cells) == 1 + 2 * count  # the paper, the elements, the storage


def test_what_is_too_large_is_refused():
    with pytest.raises(ValueError, match="at most 1024 elements but got 2000"):
        viz.strides(flambeau.zeros(2000))


def test_a_graph_shows_each_node_once_and_names_leaves(tmp_path):
    layer = nn.Linear(3, 2)
    y = layer(flambeau.ones(1, 3)).tanh()
    drawing = viz.graph((y * y).sum(), dict(layer.named_parameters()))
    shown = texts(drawing)
    assert shown.count("TanhBackward") == 1 and shown.count("MulBackward") == 1
    assert {"weight", "bias", "SumBackward"} <= set(shown)
    path = tmp_path / "graph.svg"
    drawing.save(path)
    assert path.read_text() == str(drawing) == drawing._repr_svg_()


def test_a_tensor_without_history_has_no_graph():
    with pytest.raises(ValueError, match="grad_fn"):
        viz.graph(flambeau.ones(2))
