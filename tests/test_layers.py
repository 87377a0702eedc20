"""Imports go downward only, at the top of a file, or through the one door for later."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "privatelr"
ANYWHERE = {
    *("arguments", "cells", "dask_cluster", "errors", "later", "locks", "precision", "types"),
}
ABOVE = {
    "frames": set(),
    "numerics": set(),
    "privacy": set(),
    "mechanisms": {"numerics", "privacy"},
    "inference": {"mechanisms", "numerics", "privacy", "frames"},
    "results": {"inference", "mechanisms", "numerics", "privacy", "frames"},
    "model_data": {"mechanisms", "numerics", "privacy", "frames"},
    "model": {"model_data", "results", "inference", "mechanisms", "numerics", "privacy", "frames"},
    "selected_model": {
        *(
            "model",
            "model_data",
            "results",
            "inference",
            "mechanisms",
            "numerics",
            "privacy",
            "frames",
        ),
    },
}
EVERYTHING = {*ABOVE, "checking", "datasets", "cli", "audit", "planning"}  # for the edges
OPTIONAL = {
    *("cryptography", "dask", "distributed", "dp_accounting", "matplotlib"),
    *("opendp", "pyarrow", "sklearn"),
}


def offences(name, source):
    """Imports of a module that the house does not allow, inside functions or round the door."""
    layer = name.split("/")[0].removesuffix(".py")
    allowed = ABOVE.get(layer, EVERYTHING) | ANYWHERE | {layer}
    tree = ast.parse(source)
    found = []
    for node in ast.walk(tree):
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for module in modules:
            parts = module.split(".")
            if parts[0] == "privatelr" and len(parts) > 1 and parts[1] not in allowed:
                found.append(module)
            lazy = not any(node in ast.walk(top) for top in tree.body if not is_function(top))
            if lazy and parts[0] not in OPTIONAL:
                found.append(f"{module} inside a function")
    ours = [module for module in doors(tree) if module.startswith("privatelr.")]
    found += [module for module in ours if module.split(".")[1] not in allowed]
    return found + ([] if name == "later.py" else round_the_door(tree))


def doors(tree):
    """Modules that ``name = later("module")`` stands for."""
    return [
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "later" and is_a_door(node)
    ]


def is_a_door(call):
    match call:
        case ast.Call(args=[ast.Constant(value=str())], keywords=[]):
            return True
    return False


def round_the_door(tree):
    """Modules that are loaded by their name in any other way than the door's one.

    The door stands in the ``else`` of ``if TYPE_CHECKING``, which has the same import.
    """
    proper = set()
    for top in tree.body:
        if isinstance(top, ast.If) and ast.unparse(top.test) == "TYPE_CHECKING":
            typed = {
                (f"{room}.{alias.name}".removeprefix("."), alias.asname or alias.name)
                for node in top.body
                if isinstance(node, ast.Import | ast.ImportFrom)
                for room in [getattr(node, "module", "")]
                for alias in node.names
            }
            for node in top.orelse:
                match node:
                    case ast.Assign(targets=[ast.Name(id=local)], value=ast.Call() as call):
                        if is_a_door(call) and (call.args[0].value, local) in typed:
                            proper.add(call.func)
    loads = {"later", "import_module", "importlib.import_module", "__import__"}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)]
    return [
        f"{ast.unparse(node)} on line {node.lineno}"
        for node in names
        if ast.unparse(node) in loads and node not in proper
    ]


def is_function(node):
    return isinstance(node, ast.FunctionDef | ast.ClassDef)


MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_imports(name):
    layer = name.split("/")[0].removesuffix(".py")
    assert layer in {*EVERYTHING, *ANYWHERE, "__init__"}, "a new room needs a place in the house"
    if layer != "__init__":
        assert offences(name, (PACKAGE / name).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_of_a_size_to_read(name):
    assert len((PACKAGE / name).read_text(encoding="utf-8").splitlines()) <= 400


def door(name, argument, room="privatelr.results"):
    typed = f"if TYPE_CHECKING:\n    from {room} import {name}\n"
    return f"{typed}else:\n    {name} = later({argument})"


def test_the_door_is_allowed():
    assert offences("results/fit.py", door("card", "'privatelr.results.card'")) == []
    other = "if TYPE_CHECKING:\n    import flint\nelse:\n    flint = later('flint')"
    assert offences("privacy/draws.py", other) == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("frames/design.py", "from privatelr.numerics.rows import DenseRows"),
        ("privacy/noise.py", "import privatelr.frames"),
        ("numerics/newton.py", "from privatelr.mechanisms.problem import Problem"),
        ("mechanisms/output.py", "from privatelr.results.fit import Fit"),
        ("mechanisms/release.py", "from privatelr.frames.design import Design"),
        ("results/fit.py", "def f():\n    import statsmodels"),
        ("results/fit.py", "def f():\n    return later('privatelr.results.card')"),
        ("results/fit.py", "card = later('privatelr.results.card')"),
        ("results/fit.py", door("card", "'privatelr.results.forest'")),
        ("results/fit.py", door("card", "'privatelr.results.' + 'card'")),
        ("results/fit.py", door("card", "'privatelr.results.card'").replace("card =", "cards =")),
        ("results/fit.py", "import importlib\nimportlib.import_module('privatelr.audit')"),
        ("privacy/noise.py", "__import__('privatelr.frames')"),
        ("mechanisms/release.py", door("results", "'privatelr.results'", room="privatelr")),
    ],
)
def test_planted_imports_are_caught(name, source):
    assert offences(name, source)
