"""torch.utils.data._utils.worker: names that packages use of PyTorch's own workers."""

from __future__ import annotations

_worker_info = None


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Four numbers of 32 bits that seed NumPy's generator: hashes of the seed and the worker."""
    import hashlib

    digest = hashlib.sha256(f"{base_seed}/{worker_id}".encode()).digest()
    return [int.from_bytes(digest[at : at + 4], "little") for at in range(0, 16, 4)]
