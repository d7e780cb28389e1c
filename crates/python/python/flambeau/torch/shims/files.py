"""The archives of `torch.save` as a set of records: `PyTorchFileReader` and `PyTorchFileWriter` of PyTorch's C++ library."""

from __future__ import annotations

import zipfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class PyTorchFileReader:
    """Reads the records of an archive."""

    def __init__(self, name_or_buffer: Any) -> None:
        self._archive = zipfile.ZipFile(name_or_buffer)
        names = self._archive.namelist()
        if not names:
            raise RuntimeError("PytorchStreamReader failed: the archive has no records")
        self._folder = names[0].partition("/")[0] + "/"

    def get_all_records(self) -> list[str]:
        """The names of the records."""
        return [name.removeprefix(self._folder) for name in self._archive.namelist()]

    def has_record(self, name: str) -> bool:
        """Whether there is a record of that name."""
        return self._folder + name in self._archive.namelist()

    def get_record(self, name: str) -> bytes:
        """The bytes of a record."""
        if not self.has_record(name):
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found")
        return self._archive.read(self._folder + name)

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Any:
        """A tensor of the elements in a record."""
        import flambeau

        return flambeau.frombuffer(bytearray(self.get_record(name)), dtype=dtype, count=numel)

    def serialization_id(self) -> str:
        """The identity of the archive, if it has one."""
        name = ".data/serialization_id"
        return self.get_record(name).decode() if self.has_record(name) else ""

    def version(self) -> int:
        """The version of the format."""
        return int(self.get_record("version")) if self.has_record("version") else 0

    def archive_name(self) -> str:
        """The folder of the records."""
        return self._folder.rstrip("/")


class PyTorchFileWriter:
    """Writes an archive record by record."""

    def __init__(self, file_name: Any, *options: Any) -> None:
        import os

        self._archive: Any = zipfile.ZipFile(file_name, "w")
        name = os.path.splitext(os.path.basename(file_name))[0] if isinstance(file_name, (str, os.PathLike)) else "archive"
        self._folder = f"{name}/"
        self._written: list[str] = []

    def write_record(self, name: str, data: Any, size: int | None = None) -> None:
        """Writes a record."""
        if self._archive is None:
            raise RuntimeError("PytorchStreamWriter failed: the archive is finalized")
        content = data.encode() if isinstance(data, str) else bytes(memoryview(data).cast("B"))
        self._archive.writestr(self._folder + name, content if size is None else content[:size])
        self._written.append(name)

    def get_all_written_records(self) -> list[str]:
        """The names of the records so far."""
        return list(self._written)

    def archive_name(self) -> str:
        """The folder of the records."""
        return self._folder.rstrip("/")

    def write_end_of_file(self) -> None:
        """Ends the archive."""
        if self._archive is not None:
            self._archive.close()
            self._archive = None
