"""torch.utils.tensorboard: writes events to files of TensorBoard, by the package `tensorboard`, which has to be installed."""

from __future__ import annotations

from flambeau.torch.shims.utils.tensorboard.writer import FileWriter as FileWriter, SummaryWriter as SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
