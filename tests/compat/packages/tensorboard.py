"""tensorboard: torch.utils.tensorboard writes events, which the package's own reader reads."""

import tempfile

from torch.utils.tensorboard import SummaryWriter

from harness import tensor, uniform


def case_scalars():
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with tempfile.TemporaryDirectory() as folder:
        with SummaryWriter(folder) as writer:
            for step in range(3):
                writer.add_scalar("loss", 1.0 / (step + 1), step)
            writer.add_scalars("both", {"a": 1.0, "b": 2.0}, 0)
            writer.add_histogram("weights", tensor(50), 1)
            writer.add_image("image", uniform(3, 8, 8), 2)
            writer.add_text("text", "words", 0)
            writer.add_hparams({"rate": 0.1, "kind": "x"}, {"score": 0.5})
        events = EventAccumulator(folder).Reload()
        histogram = events.Histograms("weights")[0].histogram_value
        return [
            [(event.step, round(event.value, 5)) for event in events.Scalars("loss")], sorted(events.Tags()["images"]),
            [float(histogram.min), float(histogram.max), float(histogram.num), float(histogram.sum)],
            [(event.step, event.width, event.height) for event in events.Images("image")], sorted(events.Tags()["tensors"]),
        ]
