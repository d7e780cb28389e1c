"""Runs one case of a file and prints what it computes as JSON: `case.py FILE CASE`."""

import contextlib
import importlib.util
import json
import os
import pathlib
import sys
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("MPLBACKEND", "Agg")


def main(path, name):
    warnings.simplefilter("ignore")
    # Packages print on standard output, where the result alone is expected.
    with contextlib.redirect_stdout(sys.stderr):
        import torch

        import harness

        torch.manual_seed(0)
        torch.set_num_threads(1)
        # The file's own name would hide the package of the same name.
        spec = importlib.util.spec_from_file_location(f"cases_of_{pathlib.Path(path).stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if getattr(module, "DOUBLE", True):
            torch.set_default_dtype(torch.float64)
        found = harness.summary(getattr(module, f"case_{name}")())
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
