"""torch.utils.tensorboard.summary: values as the records of TensorBoard."""

from __future__ import annotations

import io
from typing import Any

import numpy
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata  # type: ignore[import-not-found]
from tensorboard.compat.proto.tensor_pb2 import TensorProto  # type: ignore[import-not-found]
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto  # type: ignore[import-not-found]

import flambeau

__all__ = ["histogram", "hparams", "image", "scalar", "text"]


def array(value: Any) -> Any:
    """A value as an array of NumPy's."""
    return value.detach().cpu().numpy() if isinstance(value, flambeau.Tensor) else numpy.asarray(value)


def scalar(tag: str, value: Any) -> Any:
    """A number."""
    found = array(value)
    if found.size != 1:
        raise AssertionError(f"Tensor should contain one element (0 dimensions). Was given size: {found.size} and {found.ndim} dimensions.")
    return Summary(value=[Summary.Value(tag=tag, simple_value=float(found.reshape(())))])


def _edges() -> Any:
    """The edges of boxes whose widths grow by a tenth from 1e-12 to 1e20, on both sides of 0."""
    positive = 1e-12 * 1.1 ** numpy.arange(numpy.ceil(numpy.log(1e32) / numpy.log(1.1)))
    return numpy.concatenate([-positive[::-1], [0.0], positive])


def histogram(tag: str, values: Any, bins: Any = "tensorflow", max_bins: int | None = None) -> Any:
    """How many elements are in each of a number of boxes."""
    flat = array(values).astype(float).reshape(-1)
    if flat.size == 0:
        raise ValueError("The input has no element.")
    counts, limits = numpy.histogram(flat, bins=_edges() if bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        counts = numpy.add.reduceat(counts, numpy.arange(0, len(counts), step))
        limits = numpy.concatenate([limits[:-1:step], limits[-1:]])
    used = numpy.flatnonzero(counts)
    if used.size == 0:
        raise ValueError("The histogram is empty, please file a bug report.")
    # An empty box comes before the first one, so that its lower edge is known.
    chosen = slice(used[0], used[-1] + 1)
    proto = HistogramProto(
        min=flat.min(), max=flat.max(), num=len(flat), sum=flat.sum(), sum_squares=flat.dot(flat),
        bucket_limit=[limits[used[0]], *limits[1:][chosen]], bucket=[0, *counts[chosen]],
    )
    return Summary(value=[Summary.Value(tag=tag, histo=proto)])


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Any:
    """A picture: numbers of bytes from 0 to 255, others from 0 to 1. Several pictures are a grid."""
    pixels = array(tensor)
    names = dataformats.upper()
    if pixels.ndim != len(names) or len(set(names)) != len(names):
        raise AssertionError(f"size of input tensor and input format are different. tensor shape: {pixels.shape}, input_format: {dataformats}")
    scale = 1 if pixels.dtype == numpy.uint8 else 255
    pixels = (_height_width_channels(pixels, names).astype(float) * scale).clip(0, 255).astype(numpy.uint8)
    from PIL import Image  # type: ignore[import-not-found]

    height, width, channels = pixels.shape
    picture = Image.fromarray(pixels if channels != 1 else pixels[:, :, 0])
    if rescale != 1:
        picture = picture.resize((int(width * rescale), int(height * rescale)))
    file = io.BytesIO()
    picture.save(file, format="PNG")
    proto = Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=file.getvalue())
    return Summary(value=[Summary.Value(tag=tag, image=proto)])


def _height_width_channels(pixels: Any, names: str) -> Any:
    """The picture in the order of rows, columns and colours; of several pictures a grid of eight columns."""
    if "C" not in names:
        pixels, names = numpy.stack([pixels] * 3, -1), names + "C"
    if "N" not in names:
        return numpy.transpose(pixels, [names.index(name) for name in "HWC"])
    rows = numpy.transpose(pixels, [names.index(name) for name in "NHWC"])
    columns = min(len(rows), 8)
    count = -(-len(rows) // columns)
    height, width, channels = rows.shape[1:]
    grid = numpy.zeros((count * height, columns * width, channels), rows.dtype)
    for number, row in enumerate(rows):
        y, x = number // columns * height, number % columns * width
        grid[y : y + height, x : x + width] = row
    return grid


def text(tag: str, string: str) -> Any:
    """A text, in Markdown."""
    from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData  # type: ignore[import-not-found]

    data = SummaryMetadata.PluginData(plugin_name="text", content=TextPluginData(version=0).SerializeToString())
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    proto = TensorProto(dtype="DT_STRING", string_val=[string.encode("utf_8")], tensor_shape=shape)
    return Summary(value=[Summary.Value(tag=f"{tag}/text_summary", metadata=SummaryMetadata(plugin_data=data), tensor=proto)])


def hparams(hparam_dict: dict[str, Any], metric_dict: dict[str, Any], hparam_domain_discrete: Any = None) -> tuple[Any, Any, Any]:
    """Options of a run and the names of its results: the experiment, the begin and the end of a session."""
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2  # type: ignore[import-not-found]

    infos, start = [], plugin_data_pb2.SessionStartInfo()
    for name, value in hparam_dict.items():
        value = array(value).item() if isinstance(value, (flambeau.Tensor, numpy.generic)) else value
        kind = {bool: "DATA_TYPE_BOOL", int: "DATA_TYPE_FLOAT64", float: "DATA_TYPE_FLOAT64", str: "DATA_TYPE_STRING"}.get(type(value))
        if kind is None:
            raise ValueError(f"value should be one of int, float, str, bool, or torch.Tensor, but {name} is {type(value)}")
        field = {"DATA_TYPE_BOOL": "bool_value", "DATA_TYPE_FLOAT64": "number_value", "DATA_TYPE_STRING": "string_value"}[kind]
        setattr(start.hparams[name], field, value)
        infos.append(api_pb2.HParamInfo(name=name, type=getattr(api_pb2, kind)))
    metrics = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=name)) for name in metric_dict]
    parts = (
        (metadata.EXPERIMENT_TAG, plugin_data_pb2.HParamsPluginData(experiment=api_pb2.Experiment(hparam_infos=infos, metric_infos=metrics))),
        (metadata.SESSION_START_INFO_TAG, plugin_data_pb2.HParamsPluginData(session_start_info=start)),
        (
            metadata.SESSION_END_INFO_TAG,
            plugin_data_pb2.HParamsPluginData(session_end_info=plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS)),
        ),
    )
    first, second, third = (
        Summary(value=[Summary.Value(tag=tag, metadata=metadata.create_summary_metadata(data))]) for tag, data in parts
    )
    return first, second, third
