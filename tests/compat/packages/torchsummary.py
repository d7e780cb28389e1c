"""torchsummary: the table of a network's layers."""

import contextlib
import io

import torch
import torchsummary

DOUBLE = False


def case_summary():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5))
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        torchsummary.summary(model, (3, 8, 8), device="cpu")
    return text.getvalue()
