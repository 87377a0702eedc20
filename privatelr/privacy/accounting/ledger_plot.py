"""A plot of a ledger: what each charge adds to what is spent, against the budget."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from privatelr.page_model import on_one_line, shorten
from privatelr.plot_style import HIGHLIGHT, MAIN, add_legend, axes_for, literal
from privatelr.privacy.accounting import statement as statements
from privatelr.privacy.accounting.statement import Statement

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BARS, _LONGEST_LABEL = 30, 40


def plot_ledger(statement: Statement, ax: Any) -> Axes:
    """Draw a bar for each charge, from what was spent before to what is after; see `Ledger.plot`.

    Of many charges the earlier ones share a bar.
    """
    count = len(statement.entries)
    earlier = 0 if count <= _MOST_BARS else count - _MOST_BARS + 1
    stops = [0, *([earlier] if earlier else []), *range(earlier + 1, count + 1)]
    delta = statement.delta
    after = [
        statements.spent(replace(statement, entries=statement.entries[:stop]), delta)
        for stop in stops
    ]
    names = [f"{earlier} earlier charges"] if earlier else []
    names += [_label(entry) for entry in statement.entries[earlier:]]
    axes = axes_for("plot", (7.0, 1.6 + 0.3 * max(len(names), 1)), ax)
    widths = [end - start for start, end in pairwise(after)]
    axes.barh(range(len(names)), widths, 0.7, left=after[:-1], color=MAIN, linewidth=0)
    words = f"budget, epsilon {statement.epsilon:g}"
    axes.axvline(statement.epsilon, color=HIGHLIGHT, linestyle="--", linewidth=1.5, label=words)
    axes.set_yticks(range(len(names)), list(map(literal, names)))
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.set_xlim(0, 1.04 * max(statement.epsilon, after[-1]))
    at = f" at delta {delta:g}" if delta else ""
    axes.set_xlabel(f"epsilon that is spent{at}")
    add_legend(axes, loc="lower right", bbox_to_anchor=(1.0, 1.0))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return axes


def _label(entry: Any) -> str:
    part = "" if entry.part is None else f" [{on_one_line(entry.part)}]"
    times = "" if entry.times == 1 else f" x {entry.times}"
    return shorten(f"{on_one_line(entry.label) or '(no label)'}{part}{times}", _LONGEST_LABEL)
