"""torch.utils.tensorboard.writer: `SummaryWriter`."""

from __future__ import annotations

import os
import socket
import time
from datetime import datetime
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-not-found]
from tensorboard.summary.writer.event_file_writer import EventFileWriter  # type: ignore[import-not-found]

from flambeau.torch.placeholders import refuse
from flambeau.torch.shims.utils.tensorboard import summary

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes events to a file in a folder."""

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "") -> None:
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return str(self.event_writer.get_logdir())

    def add_summary(self, summary: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Adds a record."""
        event = Event(wall_time=time.time() if walltime is None else walltime, summary=summary)
        if global_step is not None:
            event.step = int(global_step)
        self.event_writer.add_event(event)

    def flush(self) -> None:
        """Writes what is waiting."""
        self.event_writer.flush()

    def close(self) -> None:
        """Ends the file."""
        self.event_writer.close()


class SummaryWriter:
    """Writes numbers, histograms, pictures, texts and options of runs."""

    def __init__(
        self, log_dir: Any = None, comment: str = "", purge_step: Any = None, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        if not log_dir:
            log_dir = os.path.join("runs", f"{datetime.now().strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}")
        self.log_dir, self.purge_step = str(log_dir), purge_step
        self._options = (max_queue, flush_secs, filename_suffix)
        self.file_writer: FileWriter | None = FileWriter(self.log_dir, *self._options)
        self.all_writers: dict[str, FileWriter] = {self.log_dir: self.file_writer}

    def _get_file_writer(self) -> FileWriter:
        """The writer of the folder, which is made again after `close`."""
        if self.file_writer is None:
            self.file_writer = self.all_writers[self.log_dir] = FileWriter(self.log_dir, *self._options)
        return self.file_writer

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: Any = None, walltime: Any = None, new_style: bool = False, double_precision: bool = False
    ) -> None:
        """Adds a number."""
        self._get_file_writer().add_summary(summary.scalar(tag, scalar_value), global_step, walltime)

    def add_scalars(self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: Any = None, walltime: Any = None) -> None:
        """Adds several numbers, each to a folder of its own, so that they are drawn together."""
        for tag, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            if folder not in self.all_writers:
                self.all_writers[folder] = FileWriter(folder, *self._options)
            self.all_writers[folder].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: Any = None, bins: Any = "tensorflow", walltime: Any = None, max_bins: Any = None
    ) -> None:
        """Adds a histogram."""
        self._get_file_writer().add_summary(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_image(self, tag: str, img_tensor: Any, global_step: Any = None, walltime: Any = None, dataformats: str = "CHW") -> None:
        """Adds a picture."""
        self._get_file_writer().add_summary(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(self, tag: str, img_tensor: Any, global_step: Any = None, walltime: Any = None, dataformats: str = "NCHW") -> None:
        """Adds several pictures as a grid."""
        self._get_file_writer().add_summary(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_figure(self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: Any = None) -> None:
        """Adds a figure of matplotlib as a picture, several as a grid."""
        import numpy

        pictures = []
        for one in figure if isinstance(figure, list) else [figure]:
            one.canvas.draw()
            pictures.append(numpy.asarray(one.canvas.buffer_rgba())[:, :, :3])
            if close:
                import matplotlib.pyplot  # type: ignore[import-not-found]

                matplotlib.pyplot.close(one)
        self.add_images(tag, numpy.stack(pictures), global_step, walltime, "NHWC")

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: Any = None) -> None:
        """Adds a text, in Markdown."""
        self._get_file_writer().add_summary(summary.text(tag, text_string), global_step, walltime)

    def add_hparams(
        self, hparam_dict: Any, metric_dict: Any, hparam_domain_discrete: Any = None, run_name: str | None = None, global_step: Any = None
    ) -> None:
        """Adds the options of a run and its results, in a folder of their own."""
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        records = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(os.path.join(self.log_dir, run_name or str(time.time()))) as writer:
            for record in records:
                writer._get_file_writer().add_summary(record, global_step)
            for name, value in metric_dict.items():
                writer.add_scalar(name, value, global_step)

    def _refused(self, name: str) -> NotImplementedError:
        return refuse(f"torch.utils.tensorboard.SummaryWriter.{name}")

    def add_graph(self, *args: Any, **kwargs: Any) -> None:
        """NotImplementedError: there are no graphs of TorchScript."""
        raise self._refused("add_graph")

    def add_embedding(self, *args: Any, **kwargs: Any) -> None:
        """NotImplementedError."""
        raise self._refused("add_embedding")

    def add_video(self, *args: Any, **kwargs: Any) -> None:
        """NotImplementedError."""
        raise self._refused("add_video")

    def add_audio(self, *args: Any, **kwargs: Any) -> None:
        """NotImplementedError."""
        raise self._refused("add_audio")

    def add_pr_curve(self, *args: Any, **kwargs: Any) -> None:
        """NotImplementedError."""
        raise self._refused("add_pr_curve")

    def flush(self) -> None:
        """Writes what is waiting."""
        for writer in self.all_writers.values():
            writer.flush()

    def close(self) -> None:
        """Ends the files."""
        for writer in self.all_writers.values():
            writer.flush()
            writer.close()
        self.file_writer = None
        self.all_writers = {}

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
