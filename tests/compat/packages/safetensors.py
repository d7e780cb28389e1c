"""safetensors.torch: files of tensors, with slices, shared memory, and models."""

import pathlib
import tempfile

import safetensors
import torch
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

from harness import double, tensor


def case_files():
    x = {"a": tensor(3, 4), "b": tensor(2, 5).to(torch.bfloat16), "c": torch.arange(6).reshape(2, 3), "d": torch.tensor([True, False])}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.safetensors"
        save_file(x, path, metadata={"format": "pt"})
        with safetensors.safe_open(path, "pt") as file:
            part = file.get_slice("a")[1:, :2]
            found = [part, file.metadata(), sorted(file.keys()), file.get_tensor("c")]
        return [found, load_file(path), load(save(x))]


def case_model():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.second(self.first(x))

    model, other = double(Tied()), Tied().double()
    with tempfile.TemporaryDirectory() as folder:
        save_model(model, f"{folder}/model.safetensors")
        missing = load_model(other, f"{folder}/model.safetensors")
    return [[sorted(names) for names in missing], other(tensor(2, 4)), other.first.weight is other.second.weight]
