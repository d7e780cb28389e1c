"""The operators that torchvision has in C++, composed of others: suppression of boxes, pooling of regions, deformable convolution.

`flambeau.torch` gives them to torchvision as its library of operators. Regions and boxes get no gradient, as in torchvision.
"""

from __future__ import annotations

import flambeau
from flambeau import Tensor

__all__ = ["deform_conv2d", "nms", "roi_align", "roi_pool"]

# How many elements an intermediate result of `roi_align` may have: regions are pooled in parts.
PART = 1 << 22


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The boxes that overlap no box of a higher score by more than the threshold, by descending score."""
    if dets.dim() != 2 or dets.shape[1] != 4:
        raise RuntimeError(f"nms: boxes should be a 2D tensor of 4 columns, got {tuple(dets.shape)}")
    if scores.dim() != 1 or scores.shape[0] != dets.shape[0]:
        raise RuntimeError(f"nms: boxes and scores should have same number of elements, got {dets.shape[0]} and {tuple(scores.shape)}")
    order = scores.detach().argsort(descending=True, stable=True)
    boxes = dets.detach()[order]
    x1, y1, x2, y2 = boxes.unbind(1)
    areas = (x2 - x1) * (y2 - y1)
    left = flambeau.ones(len(boxes), dtype=flambeau.bool)
    kept = []
    for index in range(len(boxes)):
        if not left[index]:
            continue
        kept.append(index)
        rest = slice(index + 1, None)
        width = (flambeau.minimum(x2[index], x2[rest]) - flambeau.maximum(x1[index], x1[rest])).clamp(min=0)
        height = (flambeau.minimum(y2[index], y2[rest]) - flambeau.maximum(y1[index], y1[rest])).clamp(min=0)
        both = width * height
        left[rest] &= ~(both / (areas[index] + areas[rest] - both) > iou_threshold)
    return order[flambeau.tensor(kept, dtype=flambeau.int64)]


def _weights(start: Tensor, step: Tensor, count: Tensor, bins: int, size: int) -> Tensor:
    """How much each of `size` rows counts in each bin of each region: the mean of `count` interpolated samples."""
    rows = flambeau.arange(size, dtype=start.dtype)
    bin_index = flambeau.arange(bins, dtype=start.dtype)
    found = flambeau.zeros((len(start), bins, size), dtype=start.dtype)
    for sample in range(int(count.max()) if len(count) else 0):
        at = start[:, None] + (bin_index + (sample + 0.5) / count[:, None]) * step[:, None]
        is_used = (at >= -1) & (at <= size) & (sample < count)[:, None]
        # Between two rows the weights are linear; outside of the first and last one they are those of these rows.
        hat = (1 - (at.clamp(0, size - 1)[..., None] - rows).abs()).clamp(min=0)
        found = found + hat * is_used[..., None]
    return found / count.clamp(min=1)[:, None, None]


def roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int, aligned: bool
) -> Tensor:
    """The mean of interpolated samples in each bin of each region; a region is a row of the picture's index and two corners."""
    if rois.dim() != 2 or rois.shape[1] != 5:
        raise RuntimeError("rois must have shape as Tensor[K, 5]")
    if input.dtype != rois.dtype:
        raise RuntimeError(f"Expected tensor for input to have the same type as tensor for rois; but type {input.dtype} does not equal {rois.dtype}")
    rois = rois.detach()
    shift = 0.5 if aligned else 0.0
    corners = rois[:, 1:] * spatial_scale - shift
    size = corners[:, 2:] - corners[:, :2]
    size = size if aligned else size.clamp(min=1)
    bins = flambeau.tensor([pooled_width, pooled_height], dtype=rois.dtype)
    counts = flambeau.full_like(size, float(sampling_ratio)) if sampling_ratio > 0 else (size / bins).ceil()
    steps = size / bins
    rows = _weights(corners[:, 1], steps[:, 1], counts[:, 1], pooled_height, input.shape[2])
    columns = _weights(corners[:, 0], steps[:, 0], counts[:, 0], pooled_width, input.shape[3])
    pictures = rois[:, 0].to(flambeau.int64)
    parts, order = [], []
    length = max(1, PART // max(1, input.shape[1] * pooled_height * input.shape[3]))
    for picture in range(len(input)):
        for chosen in (pictures == picture).nonzero().flatten().split(length):
            if len(chosen):
                order.append(chosen)
                parts.append(_pooled(input[picture], rows[chosen], columns[chosen]))
    if not parts:
        return input.new_zeros((len(rois), input.shape[1], pooled_height, pooled_width)) + input.sum() * 0
    return flambeau.cat(parts)[flambeau.cat(order).argsort()]


def _pooled(picture: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Regions of one picture: its rows and columns with the weights of each."""
    along_rows = rows.unsqueeze(1) @ picture
    return along_rows @ columns.unsqueeze(1).transpose(-1, -2)


def _rounded(x: Tensor) -> Tensor:
    """The nearest integer; halves away from 0, as C rounds."""
    return (x.abs() + 0.5).floor() * x.sign()


def _edges(start: Tensor, end: Tensor, bins: int, size: int) -> tuple[list[list[int]], list[list[int]]]:
    """Where each bin of each region begins and ends."""
    length = (end - start + 1).clamp(min=1)
    index = flambeau.arange(bins, dtype=start.dtype)
    first = (index * (length / bins)[:, None]).floor() + start[:, None]
    last = ((index + 1) * (length / bins)[:, None]).ceil() + start[:, None]
    return first.clamp(0, size).to(flambeau.int64).tolist(), last.clamp(0, size).to(flambeau.int64).tolist()


def roi_pool(input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int) -> tuple[Tensor, Tensor]:
    """The largest element in each bin of each region, and where it is in its picture; 0 and -1 in an empty bin."""
    if rois.dim() != 2 or rois.shape[1] != 5:
        raise RuntimeError("rois must have shape as Tensor[K, 5]")
    height, width = input.shape[2:]
    corners = _rounded(rois.detach()[:, 1:] * spatial_scale)
    tops, bottoms = _edges(corners[:, 1], corners[:, 3], pooled_height, height)
    lefts, rights = _edges(corners[:, 0], corners[:, 2], pooled_width, width)
    values, indices = [], []
    for number, picture in enumerate(rois[:, 0].to(flambeau.int64).tolist()):
        for top, bottom in zip(tops[number], bottoms[number]):
            for left, right in zip(lefts[number], rights[number]):
                if bottom <= top or right <= left:
                    values.append(input.new_zeros(input.shape[1]))
                    indices.append(flambeau.full((input.shape[1],), -1, dtype=flambeau.int64))
                    continue
                window = input[picture, :, top:bottom, left:right]
                value, at = window.reshape(window.shape[0], -1).max(1)
                values.append(value)
                indices.append((top + at // (right - left)) * width + left + at % (right - left))
    shape = (len(rois), pooled_height, pooled_width, input.shape[1])
    if not values:
        return input.new_zeros((0, input.shape[1], pooled_height, pooled_width)), flambeau.zeros((0, input.shape[1], pooled_height, pooled_width), dtype=flambeau.int32)
    found = flambeau.stack(values).reshape(shape).permute(0, 3, 1, 2)
    return found, flambeau.stack(indices).reshape(shape).permute(0, 3, 1, 2).to(flambeau.int32)


def _sampled(input: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Interpolated elements of (N, G, C, H, W) at (N, G, P) positions: (N, G, C, P); 0 outside."""
    height, width = input.shape[-2:]
    flat = input.flatten(3)
    found = None
    top, left = y.detach().floor(), x.detach().floor()
    for row, row_weight in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, column_weight in ((left, 1 - (x - left)), (left + 1, x - left)):
            is_inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            index = row.clamp(0, height - 1) * width + column.clamp(0, width - 1)
            index = index.to(flambeau.int64).unsqueeze(2).expand(-1, -1, flat.shape[2], -1)
            part = flat.gather(3, index) * (row_weight * column_weight * is_inside).unsqueeze(2)
            found = part if found is None else found + part
    assert found is not None
    return found


def deform_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    """A convolution whose kernel positions are moved by `offset`, and weighted by `mask` (Dai et al., 2017)."""
    (batch, channels), (out_channels, _, kernel_h, kernel_w) = input.shape[:2], weight.shape
    out_h, out_w = offset.shape[-2:]
    count = kernel_h * kernel_w
    expected = (batch, offset_groups * 2 * count, out_h, out_w)
    if tuple(offset.shape) != expected:
        raise RuntimeError(f"deform_conv2d: expected an offset of sizes {expected} but got {tuple(offset.shape)}")
    moved = offset.reshape(batch, offset_groups, count, 2, out_h, out_w)
    kernel_y = (flambeau.arange(kernel_h) * dilation_h).repeat_interleave(kernel_w).reshape(count, 1, 1)
    kernel_x = (flambeau.arange(kernel_w) * dilation_w).repeat(kernel_h).reshape(count, 1, 1)
    y = moved[:, :, :, 0] + (kernel_y + (flambeau.arange(out_h) * stride_h - pad_h)[:, None]).to(offset.dtype)
    x = moved[:, :, :, 1] + (kernel_x + flambeau.arange(out_w) * stride_w - pad_w).to(offset.dtype)
    grouped = input.reshape(batch, offset_groups, channels // offset_groups, *input.shape[2:])
    columns = _sampled(grouped, y.flatten(2), x.flatten(2))
    if use_mask:
        columns = columns * mask.reshape(batch, offset_groups, 1, -1)
    columns = columns.reshape(batch, groups, channels // groups * count, out_h * out_w)
    kernels = weight.reshape(groups, out_channels // groups, -1)
    found = (kernels @ columns).reshape(batch, out_channels, out_h, out_w)
    return found + bias.reshape(1, -1, 1, 1)
