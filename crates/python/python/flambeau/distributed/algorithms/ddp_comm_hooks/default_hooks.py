"""Hooks that average a bucket as it is, or in numbers of 16 bits."""

from __future__ import annotations

import flambeau
from flambeau.distributed.collectives import ReduceOp, all_reduce

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flambeau.distributed import GradBucket
    from flambeau.futures import Future

    Hook = Callable[[Any, GradBucket], Future]

__all__ = ["allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook", "fp16_compress_wrapper"]


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Averages a bucket. Its first argument, like those of the other hooks, is a group, by default that of all processes."""
    work = all_reduce(bucket.buffer(), ReduceOp.AVG, process_group, async_op=True)
    assert work is not None
    future: Future = work.get_future()
    return future


def _compressed(dtype: flambeau.dtype, process_group: Any, bucket: GradBucket) -> Future:
    buffer = bucket.buffer()
    work = all_reduce(buffer.to(dtype), ReduceOp.AVG, process_group, async_op=True)
    assert work is not None
    following: Future = work.get_future().then(lambda done: buffer.copy_(done.value()[0]))
    return following


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Sends gradients as numbers of `float16`."""
    return _compressed(flambeau.float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Sends gradients as numbers of `bfloat16`."""
    return _compressed(flambeau.bfloat16, process_group, bucket)


def _wrapper(dtype: flambeau.dtype, hook: Hook) -> Hook:
    """Calls a hook with a bucket of another dtype: gradients are converted before it and after it."""

    def wrapped(state: Any, bucket: GradBucket) -> Future:
        buffer = bucket.buffer()
        following: Future = hook(state, bucket._converted(dtype)).then(lambda done: buffer.copy_(_tensor_of(done)))
        return following

    return wrapped


def _tensor_of(done: Future) -> Any:
    value = done.value()
    return value[0] if isinstance(value, list) else value


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """The hook, for gradients as numbers of `float16`."""
    return _wrapper(flambeau.float16, hook)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """The hook, for gradients as numbers of `bfloat16`."""
    return _wrapper(flambeau.bfloat16, hook)
