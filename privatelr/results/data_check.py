"""The page of a local look at the data: not private, and labelled so wherever it is shown."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from privatelr.results.counts import NeverSaved
from privatelr.results.counts_page import sentences, table_of
from privatelr.results.summary_page import STYLE, wrapped

if TYPE_CHECKING:
    import pandas as pd

    from privatelr.results.counts import DataCounts

_TITLE = "NOT PRIVATE: local check of the data against their declarations"
_WARNING = (
    "For the eyes of those who hold the data. Its numbers are exact, nothing was charged for them "
    "and nothing was saved; do not publish them, and declare bounds and levels from public "
    "knowledge and not from this page."
)


class DataCheck(NeverSaved):
    """Not private: what a fit would read of the data, counted; see `privatelr.check`.

    Attributes
    ----------
    formula : str
        The formula with ``.`` expanded.
    counts : DataCounts
        Numbers of the data.
    doubts : tuple of str
        What is declared and probably not meant, which is public.
    """

    # not a dataclass: asdict() and replace() would take the label off
    __slots__ = ("counts", "doubts", "formula")

    def __init__(self, formula: str, counts: DataCounts, doubts: tuple[str, ...]) -> None:
        self.formula, self.counts, self.doubts = formula, counts, doubts

    @property
    def table(self) -> pd.DataFrame:
        """Not private; one row per variable: usable, missing, outside_bounds, undeclared."""
        return self.counts.table

    @property
    def classes(self) -> pd.Series[int]:
        """Not private: usable records of the negative and of the positive class."""
        return self.counts.classes

    def as_text(self) -> str:
        """The page in at most 79 columns."""
        lines = [_TITLE, *wrapped(self.formula), "", *wrapped(_WARNING), ""]
        for paragraph in self._sentences():
            lines += wrapped(paragraph)
        table = table_of(self.counts)
        return "\n".join(lines + (["", *table.as_lines()] if table is not None else []))

    def as_html(self) -> str:
        """The same words as HTML."""
        words = "".join(f"<p>{html.escape(text)}</p>" for text in self._sentences())
        table = table_of(self.counts)
        return (
            f"<div class='privatelr-fit' style='border-left:4px solid #d32f2f;padding-left:1em'>"
            f"{STYLE}<p><strong style='color:#d32f2f'>{_TITLE}</strong><br>"
            f"<code>{html.escape(self.formula)}</code></p><p>{html.escape(_WARNING)}</p>{words}"
            f"{table.as_html() if table is not None else ''}</div>"
        )

    def _sentences(self) -> list[str]:
        response = self.counts.response.describe()
        doubts = [f"Doubtful: {doubt}." for doubt in self.doubts]
        return [f"Response {response}.", *sentences(self.counts), *doubts]

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return f"<DataCheck of {self.formula!r}, NOT PRIVATE: print it to see its numbers>"

    def _repr_html_(self) -> str:
        return self.as_html()
