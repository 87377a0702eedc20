"""A page of headings, facts, sentences and tables: as text of 79 columns, HTML, and Markdown.

A page is a list of pieces, and only this module decides how it looks. A string is a paragraph. An
empty string is an empty line in text, and nothing in HTML or Markdown, where all text is escaped.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from privatelr.arguments import suggests_arguments

WIDTH = 79
_LABEL = 12
"""Width of the label of a fact, in characters."""
_LONGEST_NAME = 38
_RULE = " not private -----".rjust(WIDTH, "-")
_MARKS = re.compile(r"([\\`*_\[\]<>|#~&$])")
_SPACE = re.compile(r"\s+")
_LEFT = "text-align:left;vertical-align:top;padding-right:1em"
_RIGHT = "text-align:right;vertical-align:top;padding-left:1em;white-space:nowrap"
_WRAPPED = ";overflow-wrap:anywhere;min-width:12em;max-width:20em"
_IN_DOCUMENT = ("<h1>{}</h1>", "<h2>{}</h2>", "<pre>{}</pre>")
_STRONG = "<p><strong>{}</strong></p>"
_IN_NOTEBOOK = (_STRONG, _STRONG, "<p style='overflow-wrap:anywhere'><code>{}</code></p>")
"""Markup of a title, of other headings, and of code."""
_STYLE = """
:root {color-scheme: light dark} table {border-collapse: collapse; width: 100%}
body {font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #ffffff;
  max-width: 46rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word}
h1 {font-size: 1.7rem; margin: 0 0 .5rem} h2 {font-size: 1.15rem; margin: 1.8rem 0 .4rem}
th, td {padding: .3rem .8rem .3rem 0; border-bottom: 1px solid rgb(128 128 128 / 35%)}
tbody th {width: 9rem; font-weight: 600} thead th {border-bottom: 2px solid #888888}
pre {background: rgb(128 128 128 / 12%); padding: .6rem .8rem; white-space: pre-wrap}
@media (prefers-color-scheme: dark) {body {color: #e3e3e3; background: #181818}}
"""
# the text around it tells whether a notebook is dark; browsers of before 2023 keep the plain red
_RED = "color:#d32f2f;color:color-mix(in srgb, #d32f2f 65%, currentcolor)"
_LOUD = f"border:3px solid #d32f2f;{_RED};padding:.6rem .8rem;font-weight:600"


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; the first one of a page is the title of the page."""

    text: str


@dataclass(frozen=True, slots=True)
class Indented:
    """A paragraph with an indent for all lines but the first."""

    text: str
    rest: str


@dataclass(frozen=True, slots=True)
class Alarm:
    """Sentences that the reader has to see first."""

    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class Code:
    """Text to copy literally."""

    text: str


@dataclass(frozen=True, slots=True)
class FactList:
    """Labels, and a sentence for each."""

    rows: Sequence[tuple[str, str]]
    titles: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of words under headers; a row of one cell spans all columns.

    In text `limits` holds the largest widths of columns, and the first column takes the rest.
    """

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    limits: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Named rows of numbers, as they are printed.

    Attributes
    ----------
    names, headers : sequence of str
    cells : sequence of sequence of str
        One sequence per name, with a cell for each header.
    width : int or None
        Width of every column in text; None for columns as narrow as their cells allow.
    drawings : sequence of str
        SVG of each row for HTML, if there are any.
    legend : str
        What the drawings show.
    """

    names: Sequence[str]
    headers: Sequence[str]
    cells: Sequence[Sequence[str]]
    width: int | None = None
    drawings: Sequence[str] = ()
    legend: str = ""

    @property
    def titles(self) -> tuple[str, ...]:
        """Return all headers; that of the names is first, and empty."""
        return ("", *self.headers)

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Return the rows, each with its name before its cells."""
        return [(name, *cells) for name, cells in zip(self.names, self.cells, strict=True)]


@dataclass(frozen=True, slots=True)
class NotPrivate:
    """Results that no privacy budget covers, below a rule that says so."""

    pieces: Sequence[Piece]


Grid = FactList | Listing | Table
Piece = str | Heading | Indented | Alarm | Bullets | Code | Grid | NotPrivate


# -- text --------------------------------------------------------------------------------------


@suggests_arguments
class Paged:
    """What shows its `page` in a terminal and in a notebook."""

    __slots__ = ()

    def page(self) -> list[Piece]:
        """The pieces of the page that `print` shows; subclasses define it."""
        raise NotImplementedError

    def as_text(self) -> str:
        """The page as text of at most 79 columns."""
        return as_text(self.page())

    def as_html(self) -> str:
        """The page as HTML, with the same words."""
        return as_html(self.page())

    def __str__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.as_html()


def as_text(page: Iterable[Piece]) -> str:
    """Return the page as text of at most `WIDTH` columns, of which a table takes some."""
    return "\n".join(line for piece in page for line in as_lines(piece))


def as_lines(piece: Piece) -> list[str]:
    """Return one piece as lines of at most `WIDTH` columns."""
    match piece:
        case str():
            return _wrapped(piece) or [""]
        case Indented(text, rest):
            return _wrapped(text, rest=rest)
        case Bullets(items):
            return [line for item in items for line in _wrapped(item, "- ", "  ")]
        case FactList(rows):
            indent = " " * _LABEL
            labelled = ((name.ljust(_LABEL), text) for name, text in rows)
            return [s for name, text in labelled for s in _wrapped(text, name, indent)]
        case Listing():
            return _listing_lines(piece)
        case Table():
            return _table_lines(piece)
        case NotPrivate(pieces):
            return [_RULE, *(line for inner in pieces for line in as_lines(inner))]
    return _wrapped(piece.text)


def _wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    """Break into lines, but not around an equals sign."""
    lines = textwrap.wrap(
        text.replace(" = ", "\0=\0"),
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


def _table_lines(table: Table) -> list[str]:
    """Return a table as lines; a name that is too long for its cells has its own line."""
    longest = max(map(len, table.names))
    if table.width is not None:
        stub, widths = min(longest, _LONGEST_NAME), [table.width] * len(table.headers)
    else:
        needed = [max(map(len, column)) for column in zip(table.headers, *table.cells, strict=True)]
        gap = 2 if longest + sum(needed) + 2 * len(needed) <= WIDTH else 1
        widths = [size + gap for size in needed]
        stub = min(longest, WIDTH - sum(widths))
    lines = []
    for name, *cells in (table.titles, *table.rows):
        label = shorten(name, _LONGEST_NAME) if table.width is not None else name
        if len(label) > stub:
            lines.append(shorten(label, WIDTH))
            label = ""
        lines.append(label.ljust(stub) + "".join(map(str.rjust, cells, widths)))
    return [line.rstrip() for line in lines]


def on_one_line(text: str) -> str:
    """Return a text of somebody else on one line; what would steer a terminal is escaped."""
    letters = " ".join(text.split())
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in letters)


def in_words(items: Sequence[str]) -> str:
    """Return items of a sentence, such as ``a, b and c``."""
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def shorten(text: str, longest: int) -> str:
    """Return the text; if it is longer than `longest`, without its middle."""
    if len(text) <= longest:
        return text
    half = (longest - 3) // 2
    return f"{text[: longest - 3 - half]}...{text[-half:]}"


def _listing_lines(listing: Listing) -> list[str]:
    shown = [listing.titles, *listing.rows]
    columns = zip(*(row for row in shown if len(row) > 1), strict=True)
    sizes = [max(map(len, column)) for column in columns]
    sizes = list(map(min, sizes, listing.limits)) if listing.limits else sizes
    sizes[0] = min(sizes[0], max(WIDTH - 2 * len(sizes) - sum(sizes[1:]), 3))

    def cut(text: str, size: int) -> str:
        return text.ljust(size) if len(text) <= size else f"{text[: size - 3]}..."

    rows = (map(cut, row, sizes) if len(row) > 1 else row for row in shown)
    return [f"  {'  '.join(row)}".rstrip() for row in rows]


# -- Markdown ----------------------------------------------------------------------------------


def as_markdown(page: Sequence[Piece]) -> str:
    """The page as Markdown with tables of pipes."""
    return "\n\n".join(_markdown(piece, piece is page[0]) for piece in page) + "\n"


def _markdown(piece: Piece, first: bool) -> str:
    match piece:
        case Heading(text):
            return f"{'#' if first else '##'} {_escaped(text)}"
        case Alarm(text):
            return f"> **{_escaped(text)}**"
        case Bullets(items):
            return "\n".join(f"- {_escaped(item)}" for item in items)
        case Code(text):
            longest = max((len(run) for run in re.findall("`+", text)), default=0)
            fence = "`" * max(3, longest + 1)
            return f"{fence}\n{text}\n{fence}"
        case FactList() | Listing() | Table():
            titles = piece.titles or ("", "")
            top, *rows = (map(_escaped, line) for line in (titles, *piece.rows))
            lines = (top, ["---"] * len(titles), *rows)
            return "\n".join(f"| {' | '.join(line)} |" for line in lines)
        case NotPrivate(pieces):
            return as_markdown([Alarm("not private"), *pieces])
        case Indented(text) | str(text):
            return _escaped(text)


def _escaped(text: str) -> str:
    return _MARKS.sub(r"\\\1", _SPACE.sub(" ", text))


# -- HTML --------------------------------------------------------------------------------------


def as_html(page: Sequence[Piece]) -> str:
    """The page as HTML for a notebook, with the words of the text in the same order."""
    return f"<div class='privatelr'>{_html(page, _IN_NOTEBOOK)}</div>"


def as_document(page: Sequence[Piece]) -> str:
    """The page as an HTML document that needs no other file."""
    title = next(piece.text for piece in page if isinstance(piece, Heading))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{_html(page, _IN_DOCUMENT)}\n</body>\n</html>\n"
    )


def _html(page: Sequence[Piece], markup: tuple[str, str, str]) -> str:
    return "\n".join(_marked_up(piece, piece is page[0], markup) for piece in page)


def _marked_up(piece: Piece, first: bool, markup: tuple[str, str, str]) -> str:
    title, heading, code = markup
    match piece:
        case Heading(text):
            return (title if first else heading).format(html.escape(text))
        case Alarm(text):
            return f'<p class="loud" style="{_LOUD}">{html.escape(text)}</p>'
        case Bullets(items):
            return f"<ul>{''.join(f'<li>{html.escape(item)}</li>' for item in items)}</ul>"
        case Code(text):
            return code.format(html.escape(text))
        case FactList() | Listing() | Table():
            return _html_table(piece)
        case NotPrivate(pieces):
            below = _html([Heading("not private"), *pieces], markup)
            return f"<div style='border-top:2px solid #d32f2f;{_RED}'>{below}</div>"
        case Indented(text) | str(text):
            return f"<p>{html.escape(text)}</p>" if text else ""


def _html_table(table: Grid) -> str:
    drawings, legend, others = [""] * len(table.rows), "", _LEFT
    if isinstance(table, Table):
        others = _RIGHT
        drawings = [f"<td style='{_RIGHT}'>{drawn}</td>" for drawn in table.drawings] or drawings
        legend = f"<figcaption>{html.escape(table.legend)}</figcaption>" if table.legend else ""

    def as_row(row: Sequence[str], name: str, tag: str) -> str:
        first, *rest = map(html.escape, row)
        span = "" if rest else f" colspan='{len(table.titles)}'"
        cells = "".join(f"<{tag} style='{others}'>{cell}</{tag}>" for cell in rest)
        left = _LEFT + _WRAPPED * bool(re.search(r"\S{41}", row[0]))  # numbers stay on the page
        return f"<{name}{span} style='{left}'>{first}</{name}>{cells}"

    name = "td" if isinstance(table, Listing) else "th"
    head = f"<thead><tr>{as_row(table.titles, 'th', 'th')}</tr></thead>" if table.titles else ""
    body = "".join(
        f"<tr>{as_row(row, name, 'td')}{drawn}</tr>"
        for row, drawn in zip(table.rows, drawings, strict=True)
    )
    whole = f"<table>{head}<tbody>{body}</tbody></table>"
    return f"<div style='overflow-x:auto;margin:.5em 0'>{whole}</div>{legend}"
