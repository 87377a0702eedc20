"""Run the examples of the documents, and compare or refresh their output.

    python -m tests.docs            write what the examples print into the documents
    python -m tests.docs --check    only compare

The ``python`` blocks of a document run in order in one namespace, warnings being errors. A
``text`` block right after one holds what it prints and must be equal to the letter. In a
block marked ``text random`` the noise shows: there the columns of estimates and odds ratios,
the C-index and a learned threshold may be any number, and everything else must be equal. If
such a block holds no table of estimates, any number with a decimal point may be any other,
and so may the words after the mark: ``text random: Clinton Dole``. Where a table has standard
errors, the same is true of every number with a decimal point, and lines may break elsewhere.
In a block marked ``text within 5%`` each number may be off by that much, and the words must be
equal.

In a ``console`` block, which takes the same marks, each line that begins with ``$ `` is a command
for the shell, and the lines after it are what it prints. A command that ends in a backslash goes
on in the next line. Commands run in order with the Python blocks, in the same folder.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import re
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "vignettes").glob("*.md")))
_BLOCK = re.compile(
    r"^```(?:python\n(?P<code>.*?)^```\n(?:\n```text(?P<mark>[^\n]*)\n(?P<text>.*?)^```\n)?"
    r"|console(?P<console>[^\n]*)\n(?P<session>.*?)^```\n)",
    re.MULTILINE | re.DOTALL,
)
_COMMAND = re.compile(r"^\$ (?P<command>(?:[^\n]*\\\n)*[^\n]*)\n", re.MULTILINE)
_NEXT = "the next command"
_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+|inf)(?![\w.])")
_ANY_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?(?![\w.])")
_WITHIN = re.compile(r"within (\d+)%")
_HEADING = re.compile(r"(?<=  )(?:Estimate|estimate|odds ratio|odds_ratio)\b")
_ERRORS = re.compile(r"Std\. Error|std_error")
_OF_INFERENCE = re.compile(
    r"(?<=statistic )\d+(?=[ ,])"  # of four digits, one in ten is a whole number
    r"|<?(?:[-+]?\d+\.\d*(?:e[-+]?\d+)?|[-+]?\d+e[-+]?\d+|inf|\b\d+(?=%))(?!\w)"
)
_ON_THE_PAGE = re.compile(rf"(C-index |The threshold ){_NUMBER.pattern}")


HOME = "PRIVATELR_DATA_HOME"
_BESIDE = ROOT.parent / "shared" / "data"
_DATA = re.compile(r"^<!-- data: (?P<names>[\w -]+) -->$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A block that was run: where, what the document says it prints, what it printed."""

    line: int
    mark: str
    expected: str
    printed: str

    @property
    def difference(self) -> list[str]:
        """Lines of a diff; none if the document is right."""
        if (within := _WITHIN.fullmatch(self.mark)) and _is_close(
            self.expected, self.printed, int(within[1]) / 100
        ):
            return []
        told, seen = mask(self.expected, self.mark), mask(self.printed, self.mark)
        return list(difflib.unified_diff(told, seen, "document", "printed", lineterm=""))


def absent(text: str) -> str:
    """A message if a document reads tables that are not there; otherwise nothing."""
    found = _DATA.search(text)
    names = found["names"].split() if found else []
    home = _data_home()
    missing = [name for name in names if not (home / name).is_dir()]
    return f"not run: {home} holds no {', '.join(missing)}; {HOME} names it" if missing else ""


def _data_home() -> Path:
    return Path(os.environ.get(HOME) or _BESIDE).resolve()


def run(text: str) -> list[Example]:
    """Run the examples of a document, in a folder of its own."""
    with (
        mock.patch.dict(
            os.environ, {HOME: str(_data_home())}
        ),  # resolved before the folder is left
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
    ):
        return _run_here(text)


def _run_here(text: str) -> list[Example]:
    namespace: dict[str, object] = {"__name__": "document"}
    examples = []
    display = ("display.width", 79, "display.max_columns", 20)
    for block in _BLOCK.finditer(text):
        if block["session"] is not None:
            line = text.count("\n", 0, block.start("session"))
            session = block["session"]
            examples.append(Example(line, block["console"].strip(), session, _converse(session)))
            continue
        line = text.count("\n", 0, block.start("code"))
        output = io.StringIO()
        with (
            warnings.catch_warnings(),
            pd.option_context(*display),
            contextlib.redirect_stdout(output),
        ):
            warnings.simplefilter("error")
            exec(compile("\n" * line + block["code"], "<document>", "exec"), namespace)
        mark, expected = (block["mark"] or "").strip(), block["text"] or ""
        examples.append(Example(line, mark, expected, output.getvalue()))
    return examples


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
    lines = text.splitlines()
    if not mark.startswith("random"):
        return lines
    if _ERRORS.search(text):
        paragraphs = _OF_INFERENCE.sub("~", text).split("\n\n")
        return [" ".join(paragraph.split()) for paragraph in paragraphs]
    if _HEADING.search(text):
        return _mask_tables(lines)
    words = "".join(rf"|\b{re.escape(word)}\b" for word in mark.partition(":")[2].split())
    return [" ".join(re.sub(_NUMBER.pattern + words, "~", line).split()) for line in lines]


def _mask_tables(lines: list[str]) -> list[str]:
    """Mask the cells that end where a heading of estimates ends, down to the end of the table."""
    masked = []
    ends: set[int] = set()
    for line in lines:
        headings = {heading.end() for heading in _HEADING.finditer(line)}
        cells = [cell for cell in _NUMBER.finditer(line) if cell.end() in ends]
        ends = headings or (ends if cells else set())
        if not ends:
            masked.append(_ON_THE_PAGE.sub(r"\1~", line))
            continue
        for cell in reversed(cells):
            line = f"{line[: cell.start()]}~{line[cell.end() :]}"
        masked.append(" ".join(line.split()))
    return masked


def refresh(text: str) -> str:
    """The document with what its examples print."""
    examples = iter(run(text))

    def rewrite(block: re.Match[str]) -> str:
        example = next(examples)
        if not example.difference:
            return block[0]
        if block["session"] is not None:
            return f"```console{block['console']}\n{example.printed}```\n"
        told = f"\n```text {example.mark}".rstrip() + f"\n{example.printed}```\n"
        return f"```python\n{block['code']}```\n{told if example.printed else ''}"

    return _BLOCK.sub(rewrite, text)


def main() -> int:
    """Refresh or check all documents; returns the exit status."""
    wrong = 0
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        if message := absent(text):
            print(f"{path.name} {message}")
            continue
        if "--check" not in sys.argv:
            path.write_text(refresh(text), encoding="utf-8")
            continue
        for example in run(text):
            if example.difference:
                wrong += 1
                print(f"{path.name}:{example.line + 1}", *example.difference, sep="\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
