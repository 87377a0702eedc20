"""The table of an audit as a picture."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from privatelr.errors import ArgumentError, MissingDependencyError, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from privatelr.audit.table import Row

FORMATS = (".pdf", ".png", ".svg")
_FINE, _BROKEN, _QUIET = "#20639b", "#c0392b", "#9aa5b1"


def require_format(path: str | Path) -> Path:
    """The path, if a picture can be written under its name."""
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise ArgumentError(f"plot={show(str(path))}: plot takes a name in {', '.join(FORMATS)}.")
    return target


def require_plot(path: str | Path) -> Path:
    """The path, if a picture can be written there: the check before the work.

    Raises
    ------
    ArgumentError
        If the name has another format, or its directory does not exist.
    MissingDependencyError
        If matplotlib is not installed.
    """
    target = require_format(path)
    if not target.parent.is_dir():
        raise ArgumentError(
            f"plot={show(str(path))}: plot takes a name in a directory that exists."
        )
    try:
        import matplotlib  # noqa: F401
    except ImportError as missing:
        raise MissingDependencyError(
            "plot: takes matplotlib; install it, or privatelr[plots]."
        ) from missing
    return target


def write_plot(rows: Sequence[Row], path: str | Path) -> None:
    """Draw what was found over what was claimed, one line per row.

    Raises
    ------
    ArgumentError, MissingDependencyError
        As `require_plot`.
    """
    target = require_plot(path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 1.5 + 0.28 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    _draw(figure.subplots(), rows)
    figure.savefig(target, dpi=150)


def _draw(axes: Axes, rows: Sequence[Row]) -> None:
    heights = range(len(rows), 0, -1)
    axes.axvline(1.0, color="black", linewidth=1.0)
    finite = [row.ratio for row in rows if math.isfinite(row.ratio)]
    edge = max([1.15, *(1.05 * ratio for ratio in finite)])
    for height, row in zip(heights, rows, strict=True):
        colour = _FINE if row.verdict == "ok" else _BROKEN
        sampled = row.sampled / row.claimed
        found, marker = (row.ratio, "o") if math.isfinite(row.ratio) else (edge, ">")
        axes.plot([0, found], [height, height], color=_QUIET, linewidth=0.8, zorder=1)
        axes.plot(found, height, marker, color=colour, markersize=6, zorder=3, clip_on=False)
        if found != row.ratio:  # no place on the axis
            axes.annotate(
                f"{row.ratio:g}",
                (found, height),
                xytext=(8, 0),
                textcoords="offset points",
                va="center",
                color=colour,
            )
        axes.plot(sampled, height, "o", mfc="white", mec=colour, markersize=5, zorder=2)
    axes.plot([], [], "o", color=_FINE, label="exact, from densities")
    axes.plot([], [], "o", mfc="white", mec=_FINE, label="sampled, from outputs alone")
    axes.set_yticks(list(heights), [_title(row) for row in rows])
    axes.set_ylim(0.4, len(rows) + 0.6)
    axes.set_xlim(0, edge)
    axes.set_xlabel("privacy loss over claim (right of the line: violation)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _title(row: Row) -> str:
    inference = " and inference" if row.buys == "inference" else ""
    return f"{row.placement}, {row.loss}{inference}: {row.claim}"
