"""NVIDIA GPUs: torch's `cuda`. Without a driver there are no devices, and what needs one raises an error that says what is missing."""

from __future__ import annotations

from collections import namedtuple

import flambeau
from flambeau import _flambeau
from flambeau._cuda_graphs import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing, make_graphed_callables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "CUDAGraph",
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "graph",
    "graph_pool_handle",
    "init",
    "is_available",
    "is_current_stream_capturing",
    "is_initialized",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_device",
    "set_stream",
    "stream",
    "synchronize",
]

_Properties = namedtuple("_Properties", ["name", "major", "minor", "total_memory", "multi_processor_count"])


def _index(device: Any) -> int:
    """The number of a device, which may be given in any form; of none, that of the current one."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    chosen = flambeau.device(device)
    if chosen.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {chosen}")
    return current_device() if chosen.index is None else chosen.index


def device_count() -> int:
    """How many devices there are."""
    return _flambeau._cuda_device_count()


def is_available() -> bool:
    """Whether there is a device."""
    return device_count() > 0


def is_initialized() -> bool:
    """Whether there is a device: the first call that needs it starts it."""
    return is_available()


def init() -> None:
    """Raises an error if there is no device."""
    current_device()


def current_device() -> int:
    """The number of the device that is used where none is named."""
    return _flambeau._cuda_current_device()


def set_device(device: Any) -> None:
    """Sets the device that is used where none is named; a negative number changes nothing."""
    index = _index(device)
    if index >= 0:
        _flambeau._cuda_set_device(index)


class device:
    """Selects a device: `with flambeau.cuda.device(1): ...`."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else _index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = current_device()
            set_device(self.idx)

    def __exit__(self, *raised: object) -> None:
        set_device(self.prev_idx)


class device_of(device):
    """Selects the device of a tensor; one on the CPU changes nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.device.type == "cuda" else None)


def synchronize(device: Any = None) -> None:
    """Waits until all work on a device is done."""
    _flambeau._cuda_synchronize(_index(device))


class Stream:
    """A queue of work of a device. Uses of the same memory by several streams keep the order of the calls, without a word from the program."""

    def __init__(self, device: Any = None, priority: int = 0, stream_id: int | None = None) -> None:
        self.device_index = _index(device)
        self.priority = priority
        self.stream_id = _flambeau._cuda_stream_new(self.device_index) if stream_id is None else stream_id

    @property
    def device(self) -> flambeau.device:
        """The device."""
        return flambeau.device("cuda", self.device_index)

    @property
    def cuda_stream(self) -> int:
        """The driver's handle, as a number, for other libraries."""
        return _flambeau._cuda_stream_address(self.device_index, self.stream_id)

    def query(self) -> bool:
        """Whether its work is done."""
        return _flambeau._cuda_stream_query(self.device_index, self.stream_id)

    def synchronize(self) -> None:
        """Waits until its work is done."""
        _flambeau._cuda_stream_synchronize(self.device_index, self.stream_id)

    def record_event(self, event: Event | None = None) -> Event:
        """Records the end of its work in an event, or in a new one."""
        recorded = Event() if event is None else event
        recorded.record(self)
        return recorded

    def wait_event(self, event: Event) -> None:
        """Has later work wait for what an event has recorded."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Has later work wait for the work that is in another stream now."""
        self.wait_event(stream.record_event())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return (self.device_index, self.stream_id) == (other.device_index, other.stream_id)

    def __hash__(self) -> int:
        return hash((self.device_index, self.stream_id))

    def __repr__(self) -> str:
        return f"<flambeau.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class Event:
    """A point in the work of a stream; with `enable_timing`, its time."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if interprocess:
            raise RuntimeError("events between processes are not implemented")
        self._event = _flambeau._CudaEvent(enable_timing)

    def record(self, stream: Stream | None = None) -> None:
        """Records the end of the work of a stream, by default the current one."""
        chosen = current_stream() if stream is None else stream
        self._event.record(chosen.device_index, chosen.stream_id)

    def wait(self, stream: Stream | None = None) -> None:
        """Has later work of a stream, by default the current one, wait for what it has recorded."""
        chosen = current_stream() if stream is None else stream
        self._event.hold(chosen.device_index, chosen.stream_id)

    def query(self) -> bool:
        """Whether what it has recorded is done."""
        return self._event.query()

    def synchronize(self) -> None:
        """Waits until what it has recorded is done."""
        self._event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """The milliseconds to a later event."""
        return self._event.elapsed_time(end_event._event)


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread uses on a device."""
    index = _index(device)
    return Stream(index, stream_id=_flambeau._cuda_stream_current(index))


def default_stream(device: Any = None) -> Stream:
    """The stream of a device that is used where no other is current."""
    return Stream(_index(device), stream_id=0)


def set_stream(stream: Stream | None) -> None:
    """Has this thread use a stream on its device; of `None` it changes nothing."""
    if stream is not None:
        _flambeau._cuda_stream_set(stream.device_index, stream.stream_id)


class StreamContext:
    """Has this thread use a stream and its device: `with flambeau.cuda.stream(s): ...`; `None` changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before: list[tuple[int, Stream]] = []

    def __enter__(self) -> None:
        if self.stream is not None:
            self._before.append((current_device(), current_stream(self.stream.device_index)))
            set_device(self.stream.device_index)
            set_stream(self.stream)

    def __exit__(self, *raised: object) -> None:
        if self._before:
            index, before = self._before.pop()
            set_stream(before)
            set_device(index)


def stream(stream: Stream | None) -> StreamContext:
    """Has this thread use a stream: `with flambeau.cuda.stream(s): ...`."""
    return StreamContext(stream)


def empty_cache() -> None:
    """Returns cached memory to the devices."""
    _flambeau._cuda_empty_cache()


def memory_stats(device: Any = None) -> dict[str, int]:
    """The memory of a device in numbers, by PyTorch's keys. Empty without a device."""
    if not is_available():
        return {}
    live, peak, cached, allocations, frees = _flambeau._cuda_memory_stats(_index(device))
    return {
        "allocated_bytes.all.current": live,
        "allocated_bytes.all.peak": peak,
        "reserved_bytes.all.current": live + cached,
        "allocation.all.allocated": allocations,
        "allocation.all.freed": frees,
        "allocation.all.current": allocations - frees,
    }


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors use."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Any = None) -> int:
    """The largest number of bytes that tensors used at once."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Any = None) -> int:
    """Bytes that tensors use, and those that are cached."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Has `max_memory_allocated` begin at what is in use now."""
    if is_available():
        _flambeau._cuda_reset_peak(_index(device))


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes of a device that nobody uses, and all bytes."""
    _, _, free, total, _ = _flambeau._cuda_properties(_index(device))
    return free, total


def get_device_properties(device: Any = None) -> _Properties:
    """Name, compute capability, memory and multiprocessors of a device."""
    name, (major, minor), _, total, multiprocessors = _flambeau._cuda_properties(_index(device))
    return _Properties(name, major, minor, total, multiprocessors)


def get_device_name(device: Any = None) -> str:
    """The name of a device's model."""
    return str(get_device_properties(device).name)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a device, as `(9, 0)`."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def manual_seed(seed: int) -> None:
    """Seeds random numbers: they are drawn on the host, so that a seed gives the same numbers on every device."""
    flambeau.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """The same."""
    flambeau.manual_seed(seed)
