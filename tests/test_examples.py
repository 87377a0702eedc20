"""Every public name is seen at work: in an example that runs, or on a page that does."""

import doctest
import inspect
import os
import re
import warnings
from pathlib import Path

import docs
import pytest

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


@pytest.fixture(scope="module")
def code():
    texts = [path.read_text(encoding="utf-8") for path in docs.DOCUMENTS]
    return "\n".join(
        block for text in texts for block in re.findall(r"```python\n(.*?)```", text, re.S)
    )


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


def returned(thing):
    """The name of what a function returns."""
    return str(inspect.signature(thing).return_annotation) if inspect.isfunction(thing) else ""


def unseen(names, code):
    """Names without an example, unused on the pages, and returned by no public function."""
    made = " ".join(map(returned, PUBLIC.values()))
    return {
        name
        for name in names
        if ">>>" not in WORDS[name]
        and not re.search(rf"\b{name.rpartition('.')[2]}\b", f"{code} {made}")
    }


def test_every_public_name_is_seen_at_work(code):
    assert unseen(PUBLIC, code) == set()


def test_a_name_that_nothing_shows_is_noticed():
    assert "privatelr.implies" not in unseen(PUBLIC, "")
    assert "privatelr.dpsvm" in unseen(PUBLIC, "")
