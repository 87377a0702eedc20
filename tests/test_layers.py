"""Imports go downward only, and the three layers at the top do not know each other."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "privatelr"
ANYWHERE = {"errors", "locks", "precision", "types"}
ABOVE = {
    "frames": set(),
    "numerics": set(),
    "privacy": set(),
    "mechanisms": {"numerics", "privacy"},
    "inference": {"mechanisms", "numerics", "privacy", "frames"},
    "results": {"inference", "mechanisms", "numerics", "privacy", "frames"},
    "model": {"results", "inference", "mechanisms", "numerics", "privacy", "frames"},
    "selected_model": {
        *("model", "results", "inference", "mechanisms", "numerics", "privacy", "frames"),
    },
}
EVERYTHING = {*ABOVE, "datasets", "cli", "audit", "planning"}  # for the edges
OPTIONAL = {"dask", "distributed", "matplotlib", "pyarrow", "sklearn", "dp_accounting"}


def offences(name, source):
    """Imports of a module that the house does not allow, and imports inside functions."""
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
    return found


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


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("frames/design.py", "from privatelr.numerics.rows import DenseRows"),
        ("privacy/noise.py", "import privatelr.frames"),
        ("numerics/newton.py", "from privatelr.mechanisms.problem import Problem"),
        ("mechanisms/output.py", "from privatelr.results.fit import Fit"),
        ("mechanisms/release.py", "from privatelr.frames.design import Design"),
        ("results/fit.py", "def f():\n    import statsmodels"),
    ],
)
def test_planted_imports_are_caught(name, source):
    assert offences(name, source)
