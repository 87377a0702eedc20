"""Every public name is seen at work: in an example that runs, or on a page that does."""

import doctest
import inspect
import os
import re
import warnings
from pathlib import Path

import docs
import pytest
from public_uses import uses

import privatelr
from privatelr import audit, datasets, estimators, inference, mechanisms, privacy


def names_of(module):
    """Names on the page of a module: those that it lists, or its functions and classes."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted({*listed} - {"__version__", "audit"})
    return sorted(
        name
        for name, thing in vars(module).items()
        if callable(thing) and str(getattr(thing, "__module__", "")).startswith("privatelr.")
    )


EVERY = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (privatelr, audit, datasets, estimators, inference, mechanisms, privacy)
    for name in names_of(module)
}
"""Functions, classes and constants of the pages of the reference."""
PUBLIC = {name: thing for name, thing in EVERY.items() if callable(thing)}
"""Functions and classes; constants have no docstring of their own."""
WORDS = {name: inspect.getdoc(thing) or "" for name, thing in PUBLIC.items()}
WITH_EXAMPLE = sorted(
    {id(PUBLIC[name]): name for name in reversed(WORDS) if ">>>" in WORDS[name]}.values()
)
"""Each once, by the first of its names."""
NEEDS_TABLE = {"privatelr.datasets.fetch_kddcup99": "kddcup99"}
"""Examples that read a published table, which is looked for in a folder and not downloaded."""
OPTIONAL = {"privatelr.plot_coefficients": "matplotlib", "privatelr.stream": "pyarrow"}


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_examples_run(name):
    if name in OPTIONAL:
        pytest.importorskip(OPTIONAL[name])
    table = NEEDS_TABLE.get(name)
    if table is not None and not Path(os.environ.get(docs.HOME, ""), table).is_dir():
        pytest.skip(f"{docs.HOME} names no folder with {table}")
    test = doctest.DocTestParser().get_doctest(WORDS[name], {}, name, None, None)
    said = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        doctest.DocTestRunner().run(test, out=said.append)
    assert not said, "".join(said)


def examples_of(words):
    """The code of a docstring."""
    return "\n".join(one.source for one in doctest.DocTestParser().get_examples(words))


def on_pages():
    """The Python of each page."""
    texts = [path.read_text(encoding="utf-8") for path in docs.DOCUMENTS]
    return ["\n".join(re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)) for text in texts]


def things(paths):
    """What public names stand for, whatever module they are read from."""
    return [EVERY[path] for path in paths if path in EVERY]


def unseen(names, pages, words=WORDS):
    """Names without an example of their own that no page uses."""
    shown = things(set().union(*map(uses, pages)))
    return {
        name
        for name in names
        if ">>>" not in words.get(name, "") and not any(EVERY[name] is one for one in shown)
    }


def test_every_public_name_has_an_example_or_is_on_a_page():
    assert unseen(EVERY, on_pages()) == set()


def does_without(name, words=WORDS):
    """Whether the example of a function is about something else."""
    thing = inspect.unwrap(PUBLIC[name])
    if not inspect.isfunction(thing) or ">>>" not in words[name]:
        return False
    return not any(one is PUBLIC[name] for one in things(uses(examples_of(words[name]))))


def test_every_example_of_a_function_calls_it():
    assert [name for name in PUBLIC if does_without(name)] == []
    assert does_without("privatelr.privacy.split", {"privatelr.privacy.split": ">>> 1 + 1"})


def test_every_function_of_the_package_has_an_example_of_its_own():
    for name in privatelr.__all__:
        path = f"privatelr.{name}"
        if inspect.isfunction(EVERY.get(path)):
            assert path in uses(examples_of(WORDS[path])), name


def test_a_name_that_is_assigned_is_not_one_of_the_package():
    code = "from privatelr import plan, scaled, audit\nscaled = plan = [plan(3)]\nplan, scaled\n"
    assert uses(code) == {"privatelr.plan"}
    assert uses(f"{code}search = 1\nsearch, [audit.FULL.seeds for plan in search]\n") == {
        *("privatelr.plan", "privatelr.audit", "privatelr.audit.FULL", "privatelr.audit.FULL.seeds")
    }
    assert uses("from privatelr import plan\nlambda plan: plan\n") == set()
