"""Notebooks have the words and the code of their pages, and what was shown is what pages print."""

import importlib.util
import json

import docs
import notebooks
import pytest

TOOLS = all(map(importlib.util.find_spec, ("jupytext", "nbclient", "ipykernel")))
needs_tools = pytest.mark.skipif(not TOOLS, reason="takes the extra notebooks")
PAGE = """\
# A page

Words.

```python
from privatelr import Ledger, PureDP

ledger = Ledger(epsilon=2.0)
print(ledger)
```

```text
Ledger: epsilon 2
Neighbours: replace one record, the number of records being public
  nothing was released
Spent: epsilon 0
Left: epsilon 2 for one more pure release
```

More words.

```python
print(PureDP(1.0).epsilon + 0.25)
```

```text random
7.5
```
"""


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


def test_no_notebook_is_without_a_page():
    found = {path.stem for path in (docs.ROOT / "vignettes").glob("*.ipynb")}
    assert found == {name.removesuffix(".md") for name in notebooks.PAGES}


def test_a_changed_page_is_noticed():
    changed = page("first-fit.md").replace("eps=1.0", "eps=0.5")
    assert "not that of the page" in notebooks.faults(changed, kept("first-fit.md"))[0]
    longer = f"{page('first-fit.md')}\n```python\nprint(1)\n```\n\n```text\n1\n```\n"
    assert "cells" in notebooks.faults(longer, kept("first-fit.md"))[0]


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("a = 1\nprint(fit)", "a = 1\nfit"),
        ("print(check(1, 2))", "check(1, 2)"),
        ("print(fit.tidy())", "fit.tidy()"),
        ("print(fit.glance().T)", "fit.glance().T"),
        ("print(fit)\nb = 2", "print(fit)\nb = 2"),
        ("print(a, b)", "print(a, b)"),
        ("print(a.to_string())", "print(a.to_string())"),
        ("p.write_text('a')", "p.write_text('a');"),
    ],
)
def test_what_a_page_prints_last_is_shown(code, shown):
    assert notebooks.as_shown(code) == shown


def test_a_page_with_commands_is_refused():
    with pytest.raises(ValueError, match="shell"):
        notebooks.cells_of("```console\n$ true\n```\n")


@needs_tools
@pytest.mark.full
def test_a_page_is_built_and_run():
    made = notebooks.built(PAGE)
    assert notebooks.faults(PAGE, made) == []
    assert notebooks.built(PAGE) == made
    outputs = [cell["outputs"] for cell in json.loads(made)["cells"] if "outputs" in cell]
    assert "text/html" in outputs[0][0]["data"]
    assert outputs[1][0]["text"] == ["1.25\n"]


@needs_tools
@pytest.mark.full
@pytest.mark.parametrize("name", notebooks.PAGES)
def test_notebooks_run_again(name):
    assert notebooks.faults(page(name), notebooks.built(page(name))) == []


def test_plots_are_in_the_notebook_and_not_beside_it():
    cells = json.loads(kept("plots.md"))["cells"]
    drawn = [one for cell in cells for one in cell.get("outputs", []) if "image/png" in str(one)]
    assert len(drawn) == page("plots.md").count(".png)") > 5
    assert not [cell for cell in cells if ".png)" in "".join(cell["source"])]
