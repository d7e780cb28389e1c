"""The stubs name what there is, and what there is has a stub: editors and type checkers see the package as it runs."""

import ast
import pathlib

import pytest

import flambeau as fl
from flambeau import _flambeau

FOLDER = pathlib.Path(fl.__file__).parent


def names(body):
    """The names that a module or a class of a stub declares."""
    declared = set()
    for item in body:
        if isinstance(item, (ast.FunctionDef, ast.ClassDef)):
            declared.add(item.name)
        elif isinstance(item, ast.AnnAssign):
            declared.add(item.target.id)
    return declared


def classes(file):
    body = ast.parse((FOLDER / file).read_text()).body
    return names(body), {item.name: names(item.body) for item in body if isinstance(item, ast.ClassDef)}


OPERATORS, OPERATOR_CLASSES = classes("_operators.pyi")
MODULE, MODULE_CLASSES = classes("_flambeau.pyi")


def test_every_stub_of_an_operator_is_there():
    results = {name for name in OPERATORS if name.startswith("_") and name in OPERATOR_CLASSES}
    missing = [name for name in OPERATORS - results - {"TensorMethods"} if not hasattr(_flambeau, name)]
    assert not missing
    assert not [name for name in OPERATOR_CLASSES["TensorMethods"] if not hasattr(fl.Tensor, name)]
    for module in ("_nn", "_linalg", "_fft"):
        assert not [name for name in OPERATOR_CLASSES[module] if not hasattr(getattr(_flambeau, module), name)]


def test_every_stub_of_the_module_is_there():
    assert not [name for name in MODULE if not hasattr(_flambeau, name)]
    for name, declared in MODULE_CLASSES.items():
        found = getattr(_flambeau, name)
        assert not [attribute for attribute in declared if not hasattr(found, attribute)], name


def test_everything_has_a_stub():
    runs = {name for name in vars(_flambeau) if not name.startswith("__")}
    assert runs - OPERATORS - MODULE - set(OPERATOR_CLASSES) == set()
    methods = {name for name in vars(fl.Tensor) if not name.startswith("_")}
    aliases = {name for name in methods if name.rstrip("_") in fl._methods.ALIASES}
    unknown = methods - aliases - OPERATOR_CLASSES["TensorMethods"] - MODULE_CLASSES["Tensor"]
    assert unknown == set()


@pytest.mark.parametrize("name", sorted(OPERATORS - set(OPERATOR_CLASSES)))
def test_every_function_says_what_it_does(name):
    forms, _, text = getattr(_flambeau, name).__doc__.partition("\n\n")
    assert all(form.startswith(f"{name}(") for form in forms.splitlines()) and len(text) > 8
