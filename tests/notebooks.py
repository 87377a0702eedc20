"""Pages as notebooks: what a page says and runs, with outputs as a notebook shows them.

    python -m tests.notebooks            run the pages again and write vignettes/*.ipynb
    python -m tests.notebooks --check    only say which notebooks are not those of their pages

A notebook has the words and the code of its page. What a page prints at the end of a block, a
notebook shows: `print(fit)` is `fit` there, with its page in HTML. Building takes the extra
`notebooks`; checking takes nothing, since the tests run the code where it stands on the page.
"""

from __future__ import annotations

import argparse
import ast
import base64
import html
import io
import json
import os
import re
import sys
import tempfile
from itertools import zip_longest
from pathlib import Path
from typing import Any
from unittest import mock

if __package__:  # the command
    from tests import docs
else:  # tests, which find modules beside them
    import docs

PAGES = ("first-fit.md", "own-data.md", "inference.md", "plots.md")
"""Pages of Python alone: a notebook has no shell."""
LARGEST = 300_000
"""Bytes of a notebook."""
_WORD = re.compile(r"[A-Za-z_]{3,}")
_SHOWN_CALLS = ("round", "tidy", "glance")
_PICTURE = re.compile(r"^!\[(?P<words>[^\]]+)\]\([\w-]+\.png\)$", re.MULTILINE)
_LINK = re.compile(r"^.*\]\([\w-]+\.ipynb\)[^\n]*\n", re.MULTILINE)
_PREAMBLE = "import pandas\npandas.set_option('display.width', 79, 'display.max_columns', 20)"


def notebook_of(path: Path) -> Path:
    """Where the notebook of a page is kept."""
    return path.with_suffix(".ipynb")


def cells_of(text: str) -> list[tuple[str, str, Any]]:
    """The cells of a page: kind, source, and of code its example; outputs of the page are not."""
    made: list[tuple[str, str, Any]] = []
    done = 0
    for example in docs.read(text):
        if example.region.lexemes["kind"] != "python":
            raise ValueError("a page with commands for the shell has no notebook.")
        made += [("markdown", text[done : example.start], None)]
        made += [("code", as_shown(str(example.parsed)), example)]
        done = example.end
    made.append(("markdown", text[done:], None))
    tidy = [(kind, _own_words(source), example) for kind, source, example in made]
    return [cell for cell in tidy if cell[1]]


def _own_words(source: str) -> str:
    """Without the link to the notebook, and with the words of a picture, which the cell draws."""
    return _PICTURE.sub(r"*\g<words>*", _LINK.sub("", source)).strip()


def as_shown(code: str) -> str:
    """The code of a block, which shows at its end what the page prints."""
    last = ast.parse(code).body[-1]
    match last:
        case ast.Expr(ast.Call(ast.Name("print"), [shown], [])) if _has_a_look(shown):
            before = "".join(code.splitlines(keepends=True)[: last.lineno - 1])
            return before + str(ast.get_source_segment(code, shown))
        case ast.Expr(ast.Call(ast.Name("print"))):
            return code
        case ast.Expr():  # such as the size of a file that is written: the page does not print it
            return f"{code.rstrip()};"
    return code


def _has_a_look(shown: ast.expr) -> bool:
    """Whether a notebook shows a value in another way than as text."""
    match shown:
        case ast.Name() | ast.Call(ast.Name()) | ast.Attribute(attr="T"):
            return True
        case ast.Call(ast.Attribute(attr=name)):
            return name in _SHOWN_CALLS
    return False


def built(text: str) -> str:
    """A notebook of a page, run from its first cell to its last."""
    import jupytext
    import nbformat

    fences = {"markdown": "{}", "code": "```python\n{}\n```"}
    page = "\n\n".join(fences[kind].format(source) for kind, source, _ in cells_of(text))
    made = jupytext.reads(f"{page}\n", fmt="md")
    run(made)
    made.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    made.nbformat_minor = 5
    # nothing that differs between two runs for no reason
    for place, cell in enumerate(made.cells, 1):
        cell.id, cell.metadata = f"cell-{place}", {}
    return f"{nbformat.writes(made, indent=1, ensure_ascii=False)}\n"


def run(notebook: Any) -> None:
    """Run a notebook in a folder of its own."""
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell

    paths = os.pathsep.join([str(docs.ROOT), os.environ.get("PYTHONPATH", "")])
    given = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, given):
        notebook.cells.insert(0, new_code_cell(_PREAMBLE))
        ways = {"kernel_name": "python3", "coalesce_streams": True, "timeout": 120}
        NotebookClient(notebook, resources={"metadata": {"path": folder}}, **ways).execute()
        del notebook.cells[0]
        for number, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), 1):
            cell.execution_count = number
            cell.outputs = [output for output in cell.outputs if not is_removed(output)]
            for output in cell.outputs:
                if "execution_count" in output:
                    output["execution_count"] = number
                if "image/png" in output.get("data", {}):
                    output["data"]["image/png"] = smaller(output["data"]["image/png"])


def is_removed(output: dict[str, Any]) -> bool:
    """Whether an output is a progress line, which is taken off the screen at its end."""
    return output.get("name") == "stderr" and output["text"].endswith("\r")


def smaller(picture: str) -> str:
    """A picture in base64 with the 64 colours that it mostly has: a third of the bytes."""
    from PIL import Image

    written = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
        image.convert("RGB").quantize(64).save(written, "PNG", optimize=True)
    return base64.b64encode(written.getvalue()).decode("ascii")


def faults(text: str, notebook: str) -> list[str]:
    """What of a notebook is not what its page says, runs and prints."""
    page, kept = cells_of(text), json.loads(notebook)["cells"]
    found = ["it is larger than a notebook may be"] if len(notebook) > LARGEST else []
    for place, (mine, theirs) in enumerate(zip_longest(page, kept), 1):
        if mine is None or theirs is None:
            return [*found, f"it has {len(kept)} cells, the page {len(page)}"]
        kind, source, example = mine
        if (theirs["cell_type"], "".join(theirs["source"])) != (kind, source):
            return [*found, f"cell {place} is not that of the page"]
        found += [f"cell {place}: {fault}" for fault in _outputs(theirs, example)]
    return found


def _outputs(cell: dict[str, Any], example: Any) -> list[str]:
    """How what a cell has shown differs from what the page prints."""
    if example is None:
        return []
    expected = example.region.lexemes["expected"]
    outputs = cell["outputs"]
    if cell["execution_count"] is None:
        return ["it was not run"]
    if any(one["output_type"] == "error" or one.get("name") == "stderr" for one in outputs):
        return ["it ends in an error or a warning"]
    plain = "".join(map(_as_text, outputs))
    if "\n<" not in f"\n{plain}":
        return docs.difference(example, plain)
    pages = ["".join(one["data"].get("text/html", "")) for one in outputs if "data" in one]
    shown = html.unescape(re.sub(r"<[^>]*>", " ", "".join([plain, *pages])))
    missing = sorted({*_WORD.findall(expected)} - {*_WORD.findall(shown)})
    return [f"it does not show {', '.join(missing)}"] if missing else []


def _as_text(output: dict[str, Any]) -> str:
    """What an output is where there is no look but text."""
    if output["output_type"] == "stream":
        return "".join(output["text"])
    return "".join([*output["data"]["text/plain"], "\n"])


def main() -> int:
    """Write or check notebooks; returns the exit status."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m tests.notebooks", description=__doc__, formatter_class=form
    )
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    wrong = 0
    only_check = parser.parse_args().check
    for name in PAGES:
        path = docs.ROOT / "vignettes" / name
        text = path.read_text(encoding="utf-8")
        if not only_check:
            notebook_of(path).write_text(built(text), encoding="utf-8")
        found = faults(text, notebook_of(path).read_text(encoding="utf-8"))
        print(*(f"{notebook_of(path).name}: {fault}" for fault in found), sep="\n", end="")
        wrong += len(found)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
