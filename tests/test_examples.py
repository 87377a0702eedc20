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
from privatelr import audit, datasets, estimators

PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (privatelr, audit, datasets, estimators)
    for name in sorted({*module.__all__} - {"__version__", "audit"})
    if callable(getattr(module, name))
}
"""Functions and classes; constants have no docstring of their own."""
WORDS = {name: inspect.getdoc(thing) or "" for name, thing in PUBLIC.items()}
WITH_EXAMPLE = sorted(name for name, words in WORDS.items() if ">>>" in words)
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


EVERY = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (privatelr, audit, datasets, estimators)
    for name in sorted({*module.__all__} - {"__version__", "audit"})
}
"""Functions, classes and constants."""


def examples_of(words):
    """The code of a docstring."""
    return "\n".join(one.source for one in doctest.DocTestParser().get_examples(words))


def on_pages():
    """The Python of each page."""
    texts = [path.read_text(encoding="utf-8") for path in docs.DOCUMENTS]
    return ["\n".join(re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)) for text in texts]


def named_by(thing):
    """The names in what a function says it takes and returns."""
    if not inspect.isfunction(thing):
        return set()
    told = inspect.signature(thing)
    written = [told.return_annotation, *(one.annotation for one in told.parameters.values())]
    return {*re.findall(r"\w+", " ".join(map(str, written)))}


def unseen(names, pages, words=WORDS):
    """Names that no example and no page uses, and no public function takes or returns."""
    used = set().union(*map(uses, [*pages, *map(examples_of, words.values())]))
    shown = [EVERY[path] for path in used if path in EVERY]
    parts = set().union(*map(named_by, PUBLIC.values()))
    return {
        name
        for name in names
        if ">>>" not in words.get(name, "")
        and name.rpartition(".")[2] not in parts
        and not any(EVERY[name] is one for one in shown)
    }


def test_every_public_name_is_seen_at_work():
    assert unseen(EVERY, on_pages()) == set()


def test_every_function_of_the_package_has_an_example_of_its_own():
    for name in privatelr.__all__:
        path = f"privatelr.{name}"
        if inspect.isfunction(EVERY.get(path)):
            assert path in uses(examples_of(WORDS[path])), name


def test_a_name_that_nothing_shows_is_noticed():
    bare = WORDS | {"privatelr.dpsvm": ""}
    assert "privatelr.dpsvm" in unseen(EVERY, [], bare)
    assert "privatelr.dpsvm" not in unseen(EVERY, [], WORDS)
    assert "privatelr.dpsvm" in unseen(EVERY, ["dpsvm = 3\nprint(dpsvm)"], bare)
    assert "privatelr.dpsvm" not in unseen(EVERY, ["import privatelr as a\na.dpsvm()"], bare)


def test_a_name_that_is_assigned_is_not_one_of_the_package():
    code = "from privatelr import plan, scaled, audit\nscaled = plan = [plan(3)]\nplan, scaled\n"
    assert uses(code) == {"privatelr.plan"}
    assert uses(f"{code}search = 1\nsearch, [audit.FULL.seeds for plan in search]\n") == {
        *("privatelr.plan", "privatelr.audit", "privatelr.audit.FULL", "privatelr.audit.FULL.seeds")
    }
    assert uses("from privatelr import plan\nlambda plan: plan\n") == set()
