"""The Array API standard, 2025.12: every function has its name and its signature, and what differs is documented."""

import inspect
import pathlib

import pytest

import flambeau as fl
from flambeau import array_api as xp

HERE = pathlib.Path(__file__).parent
LINES = [line.split(": ", 1) for line in (HERE / "array_api" / "signatures.txt").read_text().splitlines() if not line.startswith("#")]
FUNCTIONS = [(section, *text.split("(", 1)) for section, text in LINES]
PAGE = HERE.parents[2] / "docs" / "array_api.md"


def owner(section):
    """What has the functions of a section."""
    if section == "array":
        return fl.Tensor
    if section == "info":
        return xp.__array_namespace_info__()
    return getattr(xp, section) if section in ("linalg", "fft") else xp


def deviations():
    """The rows of the table of what differs: what, where, why."""
    rows = [line.strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row] for row in rows]


@pytest.mark.parametrize("section, name, rest", [function for function in FUNCTIONS if function[0] != "array"])
def test_signature(section, name, rest):
    function = getattr(owner(section), name)
    found = inspect.signature(function)
    parameters = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in found.parameters.values()]
    assert f"{found.replace(parameters=parameters, return_annotation=inspect.Signature.empty)}" == f"({rest}", name
    assert function.__name__ == name and function.__doc__


@pytest.mark.parametrize("section, name, rest", [function for function in FUNCTIONS if function[0] == "array"])
def test_method_of_arrays(section, name, rest):
    assert callable(getattr(fl.Tensor, name)), name


def test_names_are_those_of_the_standard_only():
    functions = {name for section, name, _ in FUNCTIONS if section not in ("linalg", "fft", "array", "info")}
    constants = {"e", "inf", "nan", "newaxis", "pi"}
    types = set(xp.__array_namespace_info__().dtypes())
    assert set(dir(xp)) == functions | constants | types | {"__array_api_version__", "fft", "linalg"}
    for extension in ("linalg", "fft"):
        assert set(getattr(xp, extension).__all__) == {name for section, name, _ in FUNCTIONS if section == extension}


def test_the_main_namespace_has_the_names():
    """Those that PyTorch has mean what they mean there; the others are the standard's."""
    for section, name, _ in FUNCTIONS:
        if section not in ("array", "info"):
            assert hasattr(getattr(fl, section) if section in ("linalg", "fft") else fl, name) or section in ("linalg", "fft"), name
    assert fl.__array_api_version__ == xp.__array_api_version__ == "2025.12"
    assert fl.permute_dims is xp.permute_dims


def test_deviations_are_documented(capsys):
    """Prints how many functions there are, and what differs from the standard, with the reason."""
    rows = deviations()
    sections = {section: sum(1 for one, *_ in FUNCTIONS if one == section) for section, *_ in FUNCTIONS}
    with capsys.disabled():
        print(f"\nArray API {xp.__array_api_version__}: {len(FUNCTIONS)} functions and methods of the standard, {len(rows)} deviations")
        print("  " + ", ".join(f"{section} {count}" for section, count in sections.items()))
        for what, difference, reason in rows:
            print(f"  {what}: {difference}. {reason}")
    assert len(FUNCTIONS) > 200 and all(all(row) for row in rows)
