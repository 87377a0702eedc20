"""Counts of the training data as they are printed: sentences, and a table of the variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privatelr.results.counts import HEADERS
from privatelr.results.summary_table import CoefficientTable

if TYPE_CHECKING:
    from privatelr.results.counts import DataCounts

_MOST_SHOWN = 100
"""Variables on a page; those with the most to tell where there are more."""


def sentences(counts: DataCounts) -> list[str]:
    """Records by class, and what the table leaves out."""
    words = [counts.sentence()]
    empty = [name for name in counts.variables if counts.row(name)[0] == 0]
    if empty:
        words.append(f"No usable value has: {', '.join(empty[:_MOST_SHOWN])}.")
    if counts.unread is None:
        words.append("Missing and clipped values of a Dask collection are not counted.")
    elif len(counts.variables) > _MOST_SHOWN:
        words.append(
            f"{_MOST_SHOWN} of {len(counts.variables)} variables are shown, those with the fewest "
            "usable and then the most clipped values first."
        )
    return words


def table_of(counts: DataCounts) -> CoefficientTable | None:
    """The variables, with a dash where a count does not apply; None where nobody counted."""
    if counts.unread is None or not counts.variables:
        return None
    rows = {name: counts.row(name) for name in counts.variables}
    shown = list(rows)
    if len(shown) > _MOST_SHOWN:
        shown = sorted(shown, key=lambda name: (rows[name][0], -(rows[name][2] or 0)))[:_MOST_SHOWN]
    cells = tuple(tuple("-" if n is None else str(n) for n in rows[name]) for name in shown)
    return CoefficientTable(tuple(shown), HEADERS, cells)
