"""torch.utils.cpp_extension: what is known of the machine's compiler. Extensions are compiled against PyTorch's C++ library, which is not here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys


def get_cxx_compiler() -> str:
    """The C++ compiler: that of `CXX`, else the usual name."""
    return os.environ.get("CXX", "cl" if sys.platform == "win32" else "c++")


def check_compiler_is_gcc(compiler: str) -> bool:
    """Whether the compiler says that it is gcc."""
    if not sys.platform.startswith("linux") or shutil.which(compiler) is None:
        return False
    done = subprocess.run([compiler, "-v"], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
    return "gcc version" in done.stderr


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """Whether the compiler is the platform's usual one."""
    if shutil.which(compiler) is None:
        return False
    if sys.platform == "win32":
        return True
    done = subprocess.run([compiler, "-v"], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
    expected = ("clang",) if sys.platform == "darwin" else ("gcc version", "clang version")
    return any(name in done.stderr for name in expected)


def get_default_build_root() -> str:
    """The folder in which extensions are built."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.realpath(os.path.join(base, "torch_extensions"))


def is_ninja_available() -> bool:
    """Whether the program ninja runs."""
    return shutil.which("ninja") is not None


def verify_ninja_availability() -> None:
    """RuntimeError where the program ninja does not run."""
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions (pip install ninja to get it)")
