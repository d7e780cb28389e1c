"""`python -m flambeau.torch program.py arguments`, `-m module arguments` or `-c text`: runs a program written for PyTorch."""

from __future__ import annotations

import os
import runpy
import sys

from flambeau.torch import install

USAGE = "usage: python -m flambeau.torch (program.py | -m module | -c text) [arguments]"


def main(arguments: list[str]) -> None:
    """Runs the program as Python would, with its own arguments in `sys.argv`."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if arguments else sys.stderr)
        raise SystemExit(0 if arguments else 2)
    install()
    kind, rest = (arguments[0], arguments[1:]) if arguments[0] in ("-m", "-c") else ("", arguments)
    if not rest:
        print(USAGE, file=sys.stderr)
        raise SystemExit(2)
    if kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        main_names = {"__name__": "__main__", "__builtins__": __builtins__}
        exec(compile(rest[0], "<string>", "exec"), main_names)
    elif kind == "-m":
        sys.argv = list(rest)
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(rest)
        sys.path[0] = os.path.dirname(os.path.abspath(rest[0]))
        runpy.run_path(rest[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
