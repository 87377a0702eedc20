"""Notebooks are their pages, run: nothing in them is written twice."""

import json

import pytest

pytest.importorskip("jupytext", reason="takes the extra notebooks")

import notebooks

MOST = 400_000
"""Bytes of a notebook."""


def sources(notebook):
    return [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]


def kept(page):
    return json.loads(notebooks.path_of(page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", notebooks.PAGES)
def test_a_notebook_is_its_page(page):
    told = "python -m tests.notebooks writes it anew"
    assert sources(kept(page)) == sources(notebooks.notebook_of(page)), told
    assert notebooks.path_of(page).stat().st_size < MOST


@pytest.mark.parametrize("page", notebooks.PAGES)
def test_a_notebook_was_run_whole(page):
    cells = [cell for cell in kept(page)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    found = [output for cell in cells for output in cell["outputs"]]
    assert found
    assert not [one for one in found if one["output_type"] == "error"]
    # a warning would be about this machine, or would belong on the page
    assert not [one for one in found if one.get("name") == "stderr"]


def test_what_a_page_prints_is_left_to_the_cells(monkeypatch, tmp_path):
    page = "# Page\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\nWords.\n\n```text\nkept\n```\n"
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    monkeypatch.setattr(notebooks, "FOLDER", tmp_path)
    found = sources(notebooks.notebook_of("page.md"))
    assert found[:2] == [("markdown", "# Page"), ("code", "print(1)")]
    assert "Words.\n\n```text\nkept\n```" in found[2][1]


@pytest.mark.full
@pytest.mark.parametrize("page", notebooks.PAGES)
def test_a_notebook_runs(page):
    pytest.importorskip("nbclient")
    cells = [cell for cell in notebooks.run(notebooks.notebook_of(page)).cells if "outputs" in cell]
    assert all(cell["execution_count"] for cell in cells)
