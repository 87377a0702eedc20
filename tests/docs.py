"""Run the examples of the documents, and compare or refresh their output.

    python -m tests.docs            write what the examples print into the documents
    python -m tests.docs --check    only compare
    python -m tests.docs splines.md one document, or several

The ``python`` blocks of a document run in order in one namespace, warnings being errors. A
``text`` block right after one holds what it prints and must be equal to the letter. In a
block marked ``text random`` the noise shows: there the columns of estimates and odds ratios,
the C-index, the length of rows and a learned threshold may be any number, and everything else
must be equal. If such a block holds no table of estimates, any number with a decimal point may be
any other, and so may suggested bounds at the end of a line, and the words after the mark:
``text random: Clinton Dole``. Where a table has standard errors, the same is true of every number
with a decimal point, and lines may break elsewhere. In a block marked ``text within 5%`` each
number
may be off by that much, and the words must be equal.

In a ``console`` block, which takes the same marks, each line that begins with ``$ `` is a command
for the shell, and the lines after it are what it prints. A command that ends in a backslash goes
on in the next line. Commands run in order with the Python blocks, in the same folder.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from unittest import mock

import pandas as pd
from sybil import Document, Example, Region
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

from privatelr.results.pages.error_notes import BLANK

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "vignettes").glob("*.md")))
_INFO = re.compile(r"(?P<kind>python|console|text)(?:[ ]+(?P<mark>[^\n]*))?\n")
_COMMAND = re.compile(r"^\$ (?P<command>(?:[^\n]*\\\n)*[^\n]*)\n", re.MULTILINE)
_NEXT = "the next command"
_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+|inf)(?![\w.])")
_ANY_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?(?![\w.])")
_WITHIN = re.compile(r"within (\d+)%")
_HEADING = re.compile(r"(?<=  )(?:Estimate|estimate|odds ratio|odds_ratio)\b")
_HEADING_BY_SCALE = re.compile(
    _HEADING.pattern.replace("(?:", "(?:expected noise sd|noise sd limit|", 1)
)
_RELEASED_SCALE = "released scale of the columns"
"""On a page with these words the noise also decides what noise is expected, and its limit."""
_ERRORS = re.compile(r"Std\. Error|std_error")
_STATISTIC = r"(?<=statistic )\d+(?=[ ,])"
"""Of statistics of four digits one in ten is a whole number."""
_ENDS = r"(?<=  )\S+ to \S+$|(?<= = )\[[-\d.e+]+, [-\d.e+]+\]$"
"""A suggested range at the end of a line; its ends are whole numbers, mostly."""
_OF_INFERENCE = re.compile(
    rf"{_STATISTIC}|"
    r"<?(?:[-+]?\d+\.\d*(?:e[-+]?\d+)?|[-+]?\d+e[-+]?\d+|inf|NaN|\b\d+(?=%))(?!\w)"
)
_BOUGHT = r"\(AUC\)\s+|standard\s+error\s+|thresholds\s+|\(youden\)\s+and\s+"
"""Before the numbers of a ROC curve that was bought with a fit."""
_ON_THE_PAGE = re.compile(rf"(C-index |The threshold |{_BOUGHT}){_NUMBER.pattern}")
_LENGTH = re.compile(
    r"records longer than [\d.]+ lengths of a typical one \(released\) count less".replace(
        " ", r"\s+"
    )
)
"""The released length of rows, which may break lines elsewhere."""
_SHOWN = re.compile(r"^!\[[^\]]*\]\(([\w-]+\.(?:png|svg))\)$", re.MULTILINE)

HOME = "PRIVATELR_DATA_HOME"
_BESIDE = ROOT.parent / "shared" / "data"
_LIBRARY = re.compile(r"^<!-- library: (?P<name>\w+) -->$", re.MULTILINE)
_DATA = re.compile(r"^<!-- data: (?P<names>[\w -]+) -->$", re.MULTILINE)


def blocks(document: Document) -> Iterator[Region]:
    """What is run: ``python`` blocks, each with the ``text`` right after it, and ``console``."""
    fenced, taken = list(RawFencedCodeBlockLexer(_INFO)(document)), None
    for region, after in zip_longest(fenced, fenced[1:]):
        kind, shows = region.lexemes["kind"], region
        if region is taken:
            continue
        if kind == "text":
            raise ValueError(f"{document.region_details(region)} follows no python block.")
        if kind == "python":
            told = after is not None and after.lexemes["kind"] == "text"
            follows = told and not document.text[region.end : after.start].strip()
            shows = taken = after if follows else None
        mark = (shows.lexemes["mark"] or "").strip() if shows else ""
        lexemes = {"kind": kind, "mark": mark, "expected": _told(document, shows)}
        end = (shows or region).end
        yield Region(region.start, end, region.lexemes["source"], check, lexemes)


def _told(document: Document, region: Region | None) -> str:
    """The lines between two fences, as they stand: the lexer takes off what all are indented by."""
    if region is None:
        return ""
    held = document.text[region.start + region.lexemes["source"].offset : region.end]
    return held[: held.rfind("\n") + 1]


def read(text: str, path: str = "<document>") -> Document:
    """A document with its examples."""
    document = Document(text, path)
    document.namespace["__name__"] = "document"
    for region in blocks(document):
        document.add(region)
    return document


def check(example: Example) -> str:
    """Run an example; returns the lines of a diff, none if the document is right."""
    return "\n".join(difference(example, printed(example)))


def difference(example: Example, seen: str) -> list[str]:
    """How what a document says differs from what was printed."""
    expected, mark = example.region.lexemes["expected"], example.region.lexemes["mark"]
    within = _WITHIN.fullmatch(mark)
    if within and _is_close(expected, seen, int(within[1]) / 100):
        return []
    lines = difflib.unified_diff(
        mask(expected, mark), mask(seen, mark), "document", "printed", lineterm=""
    )
    return list(lines)


def absent(text: str) -> str:
    """A message if a document takes a library or tables that are not there; otherwise nothing."""
    library = _LIBRARY.search(text)
    if library and find_spec(library["name"]) is None:
        return f"not run: {library['name']} is not installed"
    found = _DATA.search(text)
    names = found["names"].split() if found else []
    home = _data_home()
    missing = [name for name in names if not (home / name).is_dir()]
    return f"not run: {home} holds no {', '.join(missing)}; {HOME} names it" if missing else ""


def _data_home() -> Path:
    return Path(os.environ.get(HOME) or _BESIDE).resolve()


@contextlib.contextmanager
def in_a_folder() -> Iterator[None]:
    """Within the block the examples of a document run in a folder of their own."""
    resolved = {HOME: str(_data_home())}  # before the folder is left
    with (
        mock.patch.dict(os.environ, resolved),
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
    ):
        yield


def wrong(document: Document) -> list[str]:
    """Run the examples of a document; returns where it differs from what they print, and how."""
    with in_a_folder():
        found = [(example.line, check(example)) for example in document]
    return [f"{document.path}:{line}\n{lines}" for line, lines in found if lines]


def printed(example: Example) -> str:
    """Run an example; returns what it prints."""
    if example.region.lexemes["kind"] == "console":
        return _converse(example.region.lexemes["expected"])
    display = ("display.width", 79, "display.max_columns", 20)
    output = io.StringIO()
    with (
        warnings.catch_warnings(),
        pd.option_context(*display),
        contextlib.redirect_stdout(output),
    ):
        warnings.simplefilter("error")
        PythonEvaluator()(example)
    return output.getvalue()


def _converse(session: str) -> str:
    """The commands of a session, each with what it prints now."""
    commands = [found["command"] for found in _COMMAND.finditer(session)]
    # the marks between the commands must leave $? as the command before them left it
    script = "".join(f"(c=$?; echo {_NEXT!r}; exit $c)\n{command}\n" for command in commands)
    # the programs of the environment that runs this, on a terminal of 80 columns
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    ran = subprocess.run(
        ["sh", "-c", script],
        env={**os.environ, "PATH": path, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    printed = ran.stdout.split(f"{_NEXT}\n")[1:]
    told = zip(commands, printed, strict=True)
    return "".join(f"$ {command}\n{_whole_lines(output)}" for command, output in told)


def _whole_lines(output: str) -> str:
    return output if output.endswith("\n") or not output else f"{output}\n"


def _is_close(expected: str, printed: str, share: float) -> bool:
    """Whether the words are equal, and each number is within a share of the other one."""
    (told, first), (seen, second) = _words_and_numbers(expected), _words_and_numbers(printed)
    return told == seen and all(
        abs(a - b) <= share * max(abs(a), abs(b)) for a, b in zip(first, second, strict=True)
    )


def _words_and_numbers(text: str) -> tuple[list[list[str]], list[float]]:
    words = [_ANY_NUMBER.sub("~", line).split() for line in text.splitlines()]
    return words, [float(number) for number in _ANY_NUMBER.findall(text)]


def mask(text: str, mark: str) -> list[str]:
    """The lines of an output, with a ``~`` for whatever the noise decides."""
    if not mark.startswith("random"):
        return text.splitlines()
    text = _LENGTH.sub("records longer than released count less", text)
    lines = text.splitlines()
    if _ERRORS.search(text):
        paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
        masked = (_OF_INFERENCE.sub("~", each).replace(BLANK, "") for each in paragraphs)
        # the noise decides as well which errors are blank
        return [" ".join(re.sub("~( ~)+", "~", each).split()) for each in masked]
    if _HEADING.search(text):
        released = _RELEASED_SCALE in " ".join(text.split())
        return _mask_tables(lines, _HEADING_BY_SCALE if released else _HEADING)
    words = "".join(rf"|\b{re.escape(word)}\b" for word in mark.partition(":")[2].split())
    decided = re.compile(f"{_ENDS}|{_NUMBER.pattern}|{_STATISTIC}{words}")
    return [" ".join(decided.sub("~", line).split()) for line in lines]


def _mask_tables(lines: list[str], heading: re.Pattern[str] = _HEADING) -> list[str]:
    """Mask the cells that end where a heading of estimates ends, down to the end of the table."""
    masked = []
    ends: set[int] = set()
    for line in lines:
        headings = {heading.end() for heading in heading.finditer(line)}
        cells = [cell for cell in _NUMBER.finditer(line) if cell.end() in ends]
        ends = headings or (ends if cells else set())
        if not ends:
            masked.append(_ON_THE_PAGE.sub(r"\1~", line))
            continue
        for cell in reversed(cells):
            line = f"{line[: cell.start()]}~{line[cell.end() :]}"
        masked.append(" ".join(line.split()))
    return masked


def refresh(text: str, pictures: Path | None = None) -> str:
    """The document with what its examples print; pictures that they save go to a folder."""
    parts, done = [], 0
    with in_a_folder():
        for example in read(text):
            seen = printed(example)
            if not difference(example, seen):
                continue
            parts += [text[done : example.start], _rewritten(example, seen)]
            done = example.end
        for name in _SHOWN.findall(text) if pictures else ():
            if Path(name).is_file():
                shutil.copy(name, pictures)
    return "".join([*parts, text[done:]])


def _rewritten(example: Example, seen: str) -> str:
    """An example that says what it prints."""
    mark = example.region.lexemes["mark"]
    if example.region.lexemes["kind"] == "console":
        return f"```console {mark}".rstrip() + f"\n{seen}```"
    told = f"\n\n```text {mark}".rstrip() + f"\n{seen}```" if seen else ""
    return f"```python\n{example.parsed}```{told}"


def main() -> int:
    """Refresh or check documents; returns the exit status."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m tests.docs", description=__doc__, formatter_class=form
    )
    names = [path.name for path in DOCUMENTS]
    parser.add_argument("names", nargs="*", metavar="NAME.md", help="documents; by default all")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    told = "also replace the pictures that a document shows and its examples save"
    parser.add_argument("--pictures", action="store_true", help=told)
    chosen, failed = parser.parse_args(), 0
    if unknown := {*chosen.names} - {*names}:
        parser.error(f"no document is called {min(unknown)}; there are {', '.join(names)}")
    for path in DOCUMENTS:
        if chosen.names and path.name not in chosen.names:
            continue
        text = path.read_text(encoding="utf-8")
        if message := absent(text):
            print(f"{path.name} {message}")
            continue
        if not chosen.check:
            folder = path.parent.resolve() if chosen.pictures else None
            path.write_text(refresh(text, folder), encoding="utf-8")
            continue
        found = wrong(read(text, path.name))
        failed += len(found)
        print(*found, sep="\n", end="\n" * bool(found))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
