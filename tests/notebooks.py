"""Build executed notebooks from the pages, which stay the one place where they are written.

    python -m tests.notebooks            write vignettes/*.ipynb
    python -m tests.notebooks plots.md   one of them, or several

Takes the extra ``notebooks``. A page's ``python`` blocks become cells, by jupytext. What they print
on the page is left out, since the cells are run and print it themselves; the noise is new in each.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import jupytext

try:  # as a test imports it, and as a command
    from docs import ROOT, in_a_folder
except ModuleNotFoundError:
    from tests.docs import ROOT, in_a_folder

PAGES = ("first-fit.md", "inference.md", "plots.md")
FOLDER = ROOT / "vignettes"
_TOLD = re.compile(r"(^```python\n(?:.*?\n)?```\n)\n```text[^\n]*\n(?:.*?\n)?```\n", re.M | re.S)
_RUN_BY = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebook_of(page: str) -> Any:
    """The notebook of a page, not run yet; its cells are named by their place."""
    text = (FOLDER / page).read_text(encoding="utf-8")
    made = jupytext.reads(_TOLD.sub(r"\1", text), fmt="md")
    made.metadata = dict(_RUN_BY)
    for place, cell in enumerate(made.cells):
        cell["id"] = f"cell-{place}"
        cell["metadata"] = {}
    made.nbformat_minor = 5
    return made


def path_of(page: str) -> Path:
    return FOLDER / Path(page).with_suffix(".ipynb")


def run(notebook: Any) -> Any:
    """Run a notebook in a folder of its own; an error in a cell is an error here."""
    from nbclient import NotebookClient

    with in_a_folder():
        NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    for cell in notebook.cells:
        cell["metadata"] = {}  # the times of its run
    return notebook


def write(page: str) -> Path:
    """Build, run and write the notebook of a page."""
    path = path_of(page)
    text = json.dumps(run(notebook_of(page)), indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(f"{text}\n", encoding="utf-8")
    return path


def main() -> None:
    """Write the notebooks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", default=PAGES, metavar="PAGE.md")
    for page in parser.parse_args().pages:
        path = write(page)
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
