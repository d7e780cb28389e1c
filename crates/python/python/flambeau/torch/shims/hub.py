"""torch.hub: files of models; they are taken from the folder of downloads, or downloaded by their addresses."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from urllib.parse import urlparse as urlparse
from urllib.request import Request, urlopen

from flambeau.torch.placeholders import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_DATA_CHUNK = 128 * 1024
_folder: Any = [None]


def _get_torch_home() -> str:
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder of downloads."""
    return _folder[0] or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Sets the folder of downloads."""
    _folder[0] = os.path.expanduser(d)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Writes what is at an address to a file, which must have the hash that is given."""
    dst = os.path.expanduser(dst)
    digest = hashlib.sha256()
    with urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as source:
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(dst) or ".", delete=False) as file:
            while chunk := source.read(READ_DATA_CHUNK):
                file.write(chunk)
                digest.update(chunk)
    if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
        os.remove(file.name)
        raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')
    os.replace(file.name, dst)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """The tensors in the file at an address, which is downloaded unless it is there already."""
    from flambeau import serialization

    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress)
    return serialization.load(path, map_location)


def load(repo_or_dir: str, model: str, *args: Any, **kwargs: Any) -> Any:
    """NotImplementedError: programs are not downloaded."""
    raise refuse("torch.hub.load")


def list(github: str, *args: Any, **kwargs: Any) -> Any:
    """NotImplementedError: programs are not downloaded."""
    raise refuse("torch.hub.list")


def help(github: str, model: str, *args: Any, **kwargs: Any) -> Any:
    """NotImplementedError: programs are not downloaded."""
    raise refuse("torch.hub.help")
