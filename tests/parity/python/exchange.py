"""DLPack and NumPy between Flambeau, PyTorch and, where it is installed, JAX: the same memory, strides and values.

Run it where the others are installed, with the package on the path: `PYTHONPATH=crates/python/python python exchange.py`.
"""

import gc
import importlib
import resource
import sys

import flambeau as fl
import numpy as np
import torch

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
LAYOUTS = [
    lambda x: x,
    lambda x: x.permute(2, 0, 1),
    lambda x: x[1:, ::2],
    lambda x: x[:, 1, 2:],
    lambda x: x[0, 0, 0],
    lambda x: x[:0],
    lambda x: x[:1, :1].expand(3, 4, 4),
]


def values(tensor):
    return tensor.double().tolist() if isinstance(tensor, torch.Tensor) else tensor.to(fl.float64).tolist()


def same(ours, theirs):
    assert values(ours) == values(theirs), (ours, theirs)
    assert tuple(ours.shape) == tuple(theirs.shape)
    if ours.numel():
        assert ours.data_ptr() == theirs.data_ptr()
    for size, a, b in zip(ours.shape, ours.stride(), theirs.stride()):
        assert size < 2 or a == b or 0 in ours.shape


def with_torch():
    count = 0
    for name in DTYPES:
        for layout in LAYOUTS:
            theirs = layout(torch.arange(60).reshape(3, 5, 4).to(getattr(torch, name)))
            ours = layout(fl.arange(60).reshape(3, 5, 4).to(getattr(fl, name)))
            same(fl.from_dlpack(theirs), theirs)
            same(ours, torch.from_dlpack(ours))
            same(fl.from_dlpack(torch.utils.dlpack.to_dlpack(theirs)), theirs)
            same(ours, torch.utils.dlpack.from_dlpack(ours.__dlpack__()))
            same(ours, torch.from_dlpack(ours.__dlpack__(max_version=(1, 0))))
            same(fl.from_dlpack(torch.from_dlpack(ours)), ours)
            count += 6
    fl.from_dlpack(theirs := torch.zeros(3)).add_(1)
    assert theirs.tolist() == [1, 1, 1]
    for broken in (lambda: fl.from_dlpack(torch.ones(2, dtype=torch.complex64)), lambda: torch.from_dlpack(fl.ones(2, requires_grad=True))):
        try:
            broken()
        except (BufferError, RuntimeError):
            count += 1
        else:
            raise AssertionError("expected a refusal")
    return count


def with_jax():
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    count = 0
    for name in DTYPES:
        ours = fl.arange(12).reshape(3, 4).to(getattr(fl, name))
        theirs = jax.dlpack.from_dlpack(ours)
        assert np.asarray(theirs, dtype=np.float64).tolist() == values(ours)
        made = jax.numpy.arange(12).reshape(3, 4).astype(getattr(jax.numpy, name))
        back = fl.from_dlpack(made)
        assert values(back) == np.asarray(made, dtype=np.float64).tolist()
        assert back.data_ptr() == made.unsafe_buffer_pointer()
        count += 2
    return count


def memory():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()


def round_trips(count):
    """Growth in bytes over `count` trips to PyTorch and back."""
    x = fl.arange(1000.0)
    for trip in range(count):
        x = fl.from_dlpack(torch.from_dlpack(x))
        if trip == 1000:
            before = memory()
        if trip % 1000 == 0:
            x = fl.arange(1000.0)
    gc.collect()
    return memory() - before


if __name__ == "__main__":
    print("PyTorch:", with_torch(), "cases agree")
    if importlib.util.find_spec("jax"):
        print("JAX:", with_jax(), "cases agree")
    else:
        print("JAX is not installed here: left out")
    grown = round_trips(100_000)
    print("100,000 round trips grew by", grown, "bytes")
    sys.exit(grown > 1 << 20)
