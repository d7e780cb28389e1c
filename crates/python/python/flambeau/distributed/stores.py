"""Stores: keys and values that all processes see."""

from __future__ import annotations

from datetime import timedelta

from flambeau import _flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "FileStore",
    "HashStore",
    "PrefixStore",
    "Store",
    "TCPStore",
    "register_rendezvous_handler",
]

DEFAULT_TIMEOUT = timedelta(minutes=5)


def seconds_of(timeout: timedelta | float) -> float:
    """A timeout in seconds."""
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


def _bytes_of(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class Store:
    """Keys and values that all processes see."""

    def __init__(self, store: _flambeau._Store, timeout: timedelta | float = DEFAULT_TIMEOUT) -> None:
        self._store, self._timeout = store, timeout

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait by default."""
        return timedelta(seconds=seconds_of(self._timeout))

    def set_timeout(self, timeout: timedelta | float) -> None:
        """Sets how long `get` and `wait` wait by default."""
        self._timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Sets the value of a key."""
        self._store.set(key, _bytes_of(value))

    def get(self, key: str) -> bytes:
        """The value of a key; waits until it is set."""
        return self._store.get(key, seconds_of(self._timeout))

    def add(self, key: str, amount: int) -> int:
        """Adds to the number of a key, and returns the sum."""
        return self._store.add(key, amount)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Sets the value of a key if it is the expected one, and returns the value after that."""
        return self._store.compare_set(key, _bytes_of(expected_value), _bytes_of(desired_value))

    def delete_key(self, key: str) -> bool:
        """Deletes a key, and says whether it had a value."""
        return self._store.delete_key(key)

    def check(self, keys: Iterable[str]) -> bool:
        """Whether all keys have values."""
        return self._store.check(list(keys))

    def num_keys(self) -> int:
        """How many keys have values."""
        return self._store.num_keys()

    def wait(self, keys: Iterable[str], timeout: timedelta | float | None = None) -> None:
        """Waits until all keys have values."""
        for key in keys:
            self._store.get(key, seconds_of(self._timeout if timeout is None else timeout))

    def multi_get(self, keys: Iterable[str]) -> list[bytes]:
        """The values of keys."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Iterable[str], values: Iterable[str | bytes]) -> None:
        """Sets the values of keys."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)


class TCPStore(Store):
    """A store that one process, the master, serves over TCP."""

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta | float = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
    ) -> None:
        workers = world_size if wait_for_workers and world_size is not None and world_size > 0 else None
        super().__init__(_flambeau._Store.tcp(host_name, port, is_master, seconds_of(timeout), workers), timeout)
        self.host = host_name

    @property
    def port(self) -> int:
        """The port of the server."""
        port = self._store.port
        assert port is not None
        return port


class FileStore(Store):
    """A store in a file that all processes can open."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__(_flambeau._Store.file(file_name))
        self.path = file_name


class HashStore(Store):
    """A store for the threads of one process."""

    def __init__(self) -> None:
        super().__init__(_flambeau._Store.hash())


class PrefixStore(Store):
    """The keys of another store that begin with a prefix."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__(store._store.prefixed(prefix), store._timeout)
        self.underlying_store = store


def register_rendezvous_handler(scheme: str, handler: Callable[..., object]) -> None:
    """Raises: ranks meet by `env://`, `tcp://`, `file://` or a store."""
    raise NotImplementedError(f"register_rendezvous_handler: ranks meet by env://, tcp://, file:// or a store, not by {scheme}://")
