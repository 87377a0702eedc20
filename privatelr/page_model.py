"""A page of headings, sentences and tables, as Markdown or as HTML; every text is escaped."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARKS = re.compile(r"([\\`*_\[\]<>|#~&$])")
_SPACE = re.compile(r"\s+")
_STYLE = """
body {font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
  max-width: 46rem; margin: 2rem auto; padding: 0 1rem}
h1 {font-size: 1.7rem; margin: 0 0 .5rem} h2 {font-size: 1.15rem; margin: 1.8rem 0 .4rem}
table {border-collapse: collapse; width: 100%; margin: .5rem 0}
th, td {text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid #ddd; overflow-wrap: anywhere}
.facts th {width: 9rem; font-weight: 600}
thead th {border-bottom: 2px solid #888}
pre {background: #f4f4f4; padding: .6rem .8rem; white-space: pre-wrap; overflow-wrap: anywhere}
.loud {border: 3px solid #b30000; color: #b30000; padding: .6rem .8rem; font-weight: 600}
"""


@dataclass(frozen=True, slots=True)
class Heading:
    """A title; the first of a page is its own."""

    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Sentences."""

    text: str


@dataclass(frozen=True, slots=True)
class Alarm:
    """Sentences that nobody should miss."""

    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class Code:
    """Text to copy, as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class CardTable:
    """Rows of cells; without headers the first cell of a row names it."""

    rows: Sequence[Sequence[str]]
    headers: Sequence[str] = ()


Piece = Heading | Paragraph | Alarm | Bullets | Code | CardTable


def as_markdown(pieces: Sequence[Piece]) -> str:
    """The page as Markdown with tables of pipes."""
    return "\n\n".join(_markdown(piece, piece is pieces[0]) for piece in pieces) + "\n"


def _markdown(piece: Piece, first: bool) -> str:
    match piece:
        case Heading(text=text):
            return f"{'#' if first else '##'} {_escaped(text)}"
        case Paragraph(text=text):
            return _escaped(text)
        case Alarm(text=text):
            return f"> **{_escaped(text)}**"
        case Bullets(items=items):
            return "\n".join(f"- {_escaped(item)}" for item in items)
        case Code(text=text):
            longest = max((len(run) for run in re.findall("`+", text)), default=0)
            fence = "`" * max(3, longest + 1)
            return f"{fence}\n{text}\n{fence}"
        case CardTable(rows=rows, headers=headers):
            names = list(headers) or ["" for _ in rows[0]]
            lines = [names, ["---"] * len(names), *rows]
            return "\n".join(
                f"| {' | '.join(line if line is lines[1] else map(_escaped, line))} |"
                for line in lines
            )


def _escaped(text: str) -> str:
    return _MARKS.sub(r"\\\1", _SPACE.sub(" ", text))


def as_html(pieces: Sequence[Piece]) -> str:
    """The page as an HTML document that needs no other file."""
    title = next(piece.text for piece in pieces if isinstance(piece, Heading))
    body = "\n".join(_html(piece, piece is pieces[0]) for piece in pieces)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _html(piece: Piece, first: bool) -> str:
    match piece:
        case Heading(text=text):
            level = "h1" if first else "h2"
            return f"<{level}>{html.escape(text)}</{level}>"
        case Paragraph(text=text):
            return f"<p>{html.escape(text)}</p>"
        case Alarm(text=text):
            return f'<p class="loud">{html.escape(text)}</p>'
        case Bullets(items=items):
            return f"<ul>{''.join(f'<li>{html.escape(item)}</li>' for item in items)}</ul>"
        case Code(text=text):
            return f"<pre>{html.escape(text)}</pre>"
        case CardTable(rows=rows, headers=headers):
            return _html_table(rows, headers)


def _html_table(rows: Sequence[Sequence[str]], headers: Sequence[str]) -> str:
    if headers:
        names = "".join(f"<th>{html.escape(name)}</th>" for name in headers)
        head, opening = f"<thead><tr>{names}</tr></thead>", "<table>"
    else:
        head, opening = "", '<table class="facts">'
    lines = []
    for name, *cells in rows:
        first = f"<td>{html.escape(name)}</td>" if headers else f"<th>{html.escape(name)}</th>"
        rest = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        lines.append(f"<tr>{first}{rest}</tr>")
    return f"{opening}{head}<tbody>{''.join(lines)}</tbody></table>"
