"""Anomaly mode: a backward pass that fails or makes a NaN names the call that recorded the node."""

from .. import _flambeau

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly"]


def is_anomaly_enabled() -> bool:
    """Whether the mode is on for this thread."""
    return _flambeau._anomaly()[0]


def is_anomaly_check_nan_enabled() -> bool:
    """Whether the mode looks for NaN."""
    return _flambeau._anomaly()[1]


class set_detect_anomaly:
    """Enables or disables the mode, from the call on; as a context manager, until it ends. Slow."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = _flambeau._anomaly()
        _flambeau._set_anomaly(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        _flambeau._set_anomaly(*self._before)


class detect_anomaly:
    """Inside it, nodes remember where they were recorded, and passes that fail or make a NaN tell. Slow."""

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._before.append(_flambeau._anomaly())
        _flambeau._set_anomaly(True, self._check_nan)

    def __exit__(self, *raised: object) -> None:
        _flambeau._set_anomaly(*self._before.pop())
