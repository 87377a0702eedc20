"""Notebooks have the words and the code of their pages, and what was shown is what pages print."""

import importlib.util
import json

import docs
import notebooks
import pytest

TOOLS = all(map(importlib.util.find_spec, ("jupytext", "nbclient", "ipykernel")))
needs_tools = pytest.mark.skipif(not TOOLS, reason="takes the extra notebooks")


def page(name):
    return (docs.ROOT / "vignettes" / name).read_text(encoding="utf-8")


def kept(name):
    path = notebooks.notebook_of(docs.ROOT / "vignettes" / name)
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", notebooks.PAGES)
def test_a_notebook_is_that_of_its_page(name):
    wrong = notebooks.faults(page(name), kept(name))
    assert wrong == [], "python -m tests.notebooks"
    assert f"]({notebooks.notebook_of(docs.ROOT / name).name})" in page(name)


def test_notebooks_know_no_machine():
    for name in notebooks.PAGES:
        places = ("/tmp/", "/home/", "/Users/", str(docs.ROOT))
        assert [place for place in places if place in kept(name)] == []
        about = json.loads(kept(name))["metadata"]
        assert about["language_info"] == {"name": "python"}  # no version of whoever ran it


def test_a_changed_page_is_noticed():
    changed = page("first-fit.md").replace("eps=1.0", "eps=0.5")
    assert "not that of the page" in notebooks.faults(changed, kept("first-fit.md"))[0]
    longer = f"{page('first-fit.md')}\n```python\nprint(1)\n```\n\n```text\n1\n```\n"
    assert "cells" in notebooks.faults(longer, kept("first-fit.md"))[0]


def test_a_page_with_commands_is_refused():
    with pytest.raises(ValueError, match="shell"):
        notebooks.cells_of("```console\n$ true\n```\n")


@needs_tools
@pytest.mark.full
@pytest.mark.parametrize("name", notebooks.PAGES)
def test_notebooks_run_again(name):
    assert notebooks.faults(page(name), notebooks.built(page(name))) == []
