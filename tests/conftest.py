"""Settings for all tests: how Hypothesis searches, and which tests are quick."""

import os
import random
import sys
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

if "PYTEST_XDIST_WORKER" in os.environ:
    # read when NumPy is imported: processes that share the cores gain nothing by threads
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

LAWS = Path(__file__).parent / "laws"

# Hypothesis searches anew on every run, and noise is drawn anew. The gate repeats one search and
# one draw of each test, so that a green gate stays green.
IN_GATE = bool(os.environ.get("CI"))
settings.register_profile("gate", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None)
settings.load_profile("gate" if IN_GATE else "search")


@contextmanager
def repeated_bits(name):
    """In the gate, draw the bits of `secrets` in this process from a generator with this name."""
    if not IN_GATE:
        yield
        return
    with mock.patch.object(random, "_urandom", random.Random(name).randbytes):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Every test has bits of its own, whichever tests ran before it."""
    with repeated_bits(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """A fixture of a module has the same bits, whichever test asks for it first."""
    if fixturedef.scope == "function":
        return (yield)
    with repeated_bits(f"{fixturedef.baseid}::{fixturedef.argname}"):
        return (yield)


def pytest_collection_modifyitems(items):
    """Laws are quick, unless they are marked as slow: those that take half a second or more.

    Long tests come first: one that is begun last keeps a single process busy while others idle.
    Names with an address differ between processes, which then cannot share the tests.
    """
    if named := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"its name has an address: {named[0]}")
    for item in items:
        if LAWS in item.path.parents and not item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.quick)
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


class ForgetfulPatch(pytest.MonkeyPatch):
    """A bug that a test plants is seen: columns that were planned before are planned anew."""

    def setattr(self, *target, **how):
        super().setattr(*target, **how)
        forget_columns()

    def undo(self):
        super().undo()
        forget_columns()


def forget_columns():
    """Forget the columns that are kept for the next fit of the same formula."""
    if "privatelr.design.formula_design" in sys.modules:
        sys.modules["privatelr.design.formula_design"]._KEPT.clear()


@pytest.fixture
def monkeypatch():
    """That of pytest, and what is planted in the planning of columns is seen by every fit."""
    patch = ForgetfulPatch()
    yield patch
    patch.undo()


@pytest.fixture(autouse=True)
def no_picture_stays_open():
    """Figures of pyplot stay open in a process, which warns at the twenty-first."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def pytest_ignore_collect(collection_path, config):
    """With ``-m quick``, leave out files without a quick test: to import them takes as long."""
    if config.option.markexpr != "quick" or collection_path.suffix != ".py":
        return None
    if LAWS in collection_path.parents or "mark.quick" in collection_path.read_text("utf-8"):
        return None
    return True
