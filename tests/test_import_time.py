"""A call is imported in hardly more time than formulaic, and nothing else is."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from structure import MODULES, PACKAGE

import privatelr

MOST = 1.2
"""Of the time of ``import formulaic``, which loads what a call needs: pandas, sparse matrices."""
COMMAND = 0.5
"""Seconds until the command has said how it is used."""
FORMULAIC = "import formulaic"
FIT = "from privatelr import dplr"
"""Formulaic itself is imported with the first formula."""
HELP = "from privatelr.cli import main; main(['--help'])"
HEAVY = ("formulaic", "matplotlib", "scipy.optimize", "scipy.special", "scipy.stats", "statsmodels")
TREE = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
LAZY = {
    node.args[0].value
    for path in MODULES
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy_import"
}
"""Modules that are imported when they are first used."""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Runs code in a process of its own; compiled files are kept, as they are for users."""
    home = tmp_path_factory.mktemp("installed")
    shutil.copytree(PACKAGE, home / "privatelr", ignore=shutil.ignore_patterns("__pycache__"))
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    ours = {**kept, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(home)}

    def run(code):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=home,
            env=ours,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return done.stdout.splitlines()[-1]

    assert Path(run("import privatelr; print(privatelr.__file__)")).is_relative_to(home)
    return run


# -- time --------------------------------------------------------------------------------------


def seconds(python, code):
    """Processor time of a whole process, which other processes change least.

    Without the collector: it goes through all objects of formulaic once their number is some
    multiple, which is within our import or after it, and takes as long as a third of that.
    """
    clock = "import gc; gc.disable(); "
    clock += "import atexit, time; atexit.register(lambda: print(time.process_time())); "
    return float(python(clock + code))


def best_of(python, code, enough, pairs=3, rounds=20, known=FORMULAIC):
    """Ratio to what is known, and seconds, each by the least time: other processes only add to it.

    More is measured, up to so many rounds, until it is good enough.
    """
    seconds(python, code), seconds(python, known)  # compiles what is not
    theirs, ours = [], []
    for _ in range(rounds):
        for _ in range(pairs):
            theirs.append(seconds(python, known))
            ours.append(seconds(python, code))
        found = min(ours) / min(theirs), min(ours)
        if enough(*found):
            break
    return found


def test_the_package_is_imported_in_little_more_time_than_formulaic(python):
    ratio, _ = best_of(python, FIT, lambda ratio, _: ratio < MOST)
    assert ratio < MOST


@pytest.mark.parametrize(
    ("code", "known", "most"),
    [
        ("import privatelr", "import pandas", 1.3),
        ("import privatelr", "import argparse", 3.0),
    ],
)
def test_nothing_is_loaded_before_it_is_used(python, code, known, most):
    ratio, _ = best_of(python, code, lambda ratio, _: ratio < most, known=known)
    assert ratio < most


@pytest.mark.parametrize("code", [HELP], ids=["--help"])
def test_the_command_starts_soon(python, code):
    """Within so many seconds, or on a slow machine within a multiple of formulaic's."""

    def is_soon(ratio, took):
        return took < COMMAND or ratio < MOST + 0.4

    assert is_soon(*best_of(python, code, is_soon, pairs=3))


# -- what is loaded ----------------------------------------------------------------------------


def loaded_by(python, code):
    """Modules that stay unused in a fit and are loaded all the same, beyond formulaic's own."""
    ask = "import atexit, formulaic, sys; known = set(sys.modules); "
    told = "atexit.register(lambda: print(*set(sys.modules) - known)); "
    found = python(f"{ask}{told}{code}").split()
    assert "privatelr.errors" in found
    late = (*HEAVY, *LAZY, *later_homes())
    return sorted(
        module
        for module in found
        if any(module == name or module.startswith(f"{name}.") for name in late)
    )


def test_what_a_fit_does_not_need_is_not_loaded(python):
    assert LAZY
    assert loaded_by(python, FIT) == []


def test_the_command_loads_neither_audit_nor_planning(python):
    unused = ("privatelr.audit", "privatelr.planning", *HEAVY)
    assert not [module for module in loaded_by(python, HELP) if module.startswith(unused)]


# -- names that are imported when they are first used --------------------------------------------


def constant(name):
    for node in TREE.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return eval(ast.unparse(node.value))
    raise AssertionError(name)


NEEDED = {
    *("design", "mechanisms", "mechanisms.calibration", "model", "numerics.solve"),
    *("privacy", "privacy.accounting", "results", "sources"),
}
"""Faces of which a fit needs everything; what else is public is imported when it is used."""


def later_homes():
    folders = constant("_FOLDERS")
    own = [f"privatelr.{name}" for name in folders[""]]
    return own + [f"privatelr.{folder}" for folder in folders if folder and folder not in NEEDED]


def test_every_public_name_is_there_and_stays(python):
    assert python("from privatelr import *; import privatelr; print(len(privatelr.__all__))")
    for name in privatelr.__all__:
        assert name in dir(privatelr)
        assert getattr(privatelr, name) is getattr(privatelr, name)


def test_what_is_listed_is_what_is_public():
    assert dir(privatelr) == sorted(privatelr.__all__)


@pytest.mark.parametrize(
    "code",
    [
        "from privatelr import audit; print(audit.run.__name__)",
        "import privatelr; print(privatelr.audit.run.__name__)",
        "import privatelr.audit; print(privatelr.audit.run.__name__)",
        "from privatelr.audit import run; import privatelr; print(privatelr.audit.run.__name__)",
    ],
)
def test_audit_is_found_in_every_way(python, code):
    assert python(code) == "run"


def test_plan_is_the_function_and_planning_the_module(python):
    code = "import privatelr; print(privatelr.plan is privatelr.planning.plan)"
    assert python(code) == "True"


def test_names_that_are_not_there_are_said_to_be_missing():
    with pytest.raises(AttributeError, match="module 'privatelr' has no attribute 'dprl'"):
        privatelr.dprl  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'dprl'"):
        from privatelr import dprl  # noqa: F401
