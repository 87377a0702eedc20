"""The table of an audit as a picture."""

from __future__ import annotations

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


def write_plot(rows: Sequence[Row], path: str | Path) -> None:
    """Draw what was found over what was claimed, one line per row.

    Raises
    ------
    MissingDependencyError
        If matplotlib is not installed.
    """
    target = require_format(path)
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise MissingDependencyError(
            "plot: takes matplotlib; install it, or privatelr[plots]."
        ) from missing
    figure = Figure(figsize=(9.0, 1.5 + 0.28 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    _draw(figure.subplots(), rows)
    figure.savefig(target, dpi=150)


def _draw(axes: Axes, rows: Sequence[Row]) -> None:
    heights = range(len(rows), 0, -1)
    axes.axvline(1.0, color="black", linewidth=1.0)
    for height, row in zip(heights, rows, strict=True):
        colour = _FINE if row.verdict == "ok" else _BROKEN
        sampled = row.sampled / row.claimed
        axes.plot([0, row.ratio], [height, height], color=_QUIET, linewidth=0.8, zorder=1)
        axes.plot(row.ratio, height, "o", color=colour, markersize=6, zorder=3)
        axes.plot(sampled, height, "o", mfc="white", mec=colour, markersize=5, zorder=2)
    axes.plot([], [], "o", color=_FINE, label="exact, from densities")
    axes.plot([], [], "o", mfc="white", mec=_FINE, label="sampled, from outputs alone")
    axes.set_yticks(list(heights), [f"{row.placement}, {row.loss}: {row.claim}" for row in rows])
    axes.set_ylim(0.4, len(rows) + 0.6)
    axes.set_xlim(0, max(1.15, *(1.05 * row.ratio for row in rows)))
    axes.set_xlabel("privacy loss over claim (right of the line: violation)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
