"""The examples of docs/extending_python.md, and what a mode costs."""

import pathlib
import re
import time

import flambeau as fl
from flambeau.utils._python_dispatch import TorchDispatchMode

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "extending_python.md"


def test_the_examples_of_the_page_run():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 8
    variables = {"__name__": "extending_python"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{PAGE.name}, example {number + 1}", "exec"), variables)


def seconds_of(call, count=2000):
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count


def test_a_mode_costs_microseconds():
    class Through(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    x = fl.ones(1)
    with Through():
        inside = min(seconds_of(lambda: fl.add(x, x)) for _ in range(3))
    # Wide, since the build may be one for debugging and the machine busy; the page has figures of a release build.
    assert inside < 1e-3
