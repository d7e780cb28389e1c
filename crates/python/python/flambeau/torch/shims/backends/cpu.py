"""torch.backends.cpu: what the processor can do."""

from __future__ import annotations


def get_cpu_capability() -> str:
    """"DEFAULT": kernels choose their instruction set by themselves."""
    return "DEFAULT"
