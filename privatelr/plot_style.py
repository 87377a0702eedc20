"""The look of all plots: their axes, and colours that everybody can tell apart.

The colours are of Okabe and Ito (2008), who chose them for people who see no red or no green.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from privatelr.errors import ArgumentError, MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#000000")
"""Colours of series, in this order."""
MAIN, HIGHLIGHT = "#0072b2", "#d55e00"
"""What a plot is about, and what privacy adds to it or limits it by."""
PARTS = ("#0072b2", "#59a3cd", "#bfdcec")
"""Of an error, from the estimate outward: of sampling, added by the noise, and not known."""
SHADES = ("#a9d3ee", "#5fa8d8", "#0072b2", "#00324f")
"""Series with an order, from little to much."""
QUIET, BROKEN = "#9aa5b1", "#d55e00"
"""What is not told apart from others, and what is wrong."""


def axes_for(caller: str, size: tuple[float, float], ax: Any) -> Axes:
    """Return `ax`, or axes of a new figure in inches if it is None.

    Raises
    ------
    ArgumentError
        If `ax` is something else.
    MissingDependencyError
        If matplotlib, an extra, is not installed; the sentence names the `caller`.
    """
    try:
        from matplotlib import axes as matplotlib_axes
        from matplotlib import pyplot
    except ImportError as missing:
        raise MissingDependencyError(
            f"{caller}: takes matplotlib; install it, or privatelr[plots]."
        ) from missing
    if ax is None:
        _, ax = pyplot.subplots(figsize=size, layout="constrained")
    if not isinstance(ax, matplotlib_axes.Axes):
        raise ArgumentError(
            f"ax of type {type(ax).__name__}: ax takes None, for a new figure, or one Axes of "
            "matplotlib, as in figure, ax = pyplot.subplots()."
        )
    return ax


def literal(text: Any) -> str:
    """Return a text in which matplotlib typesets no mathematics, for names, levels and labels.

    A dollar sign is escaped in the text itself, so that axes that share their ticks with others,
    and legends that are made later, show it as well.
    """
    from matplotlib import rcParams

    return str(text).replace("$", r"\$") if rcParams["text.parse_math"] else str(text)


def add_legend(axes: Axes, handles: Sequence[Any] | None = None, **look: Any) -> None:
    """Add a legend of all that has a label, or of `handles`, which may begin with an underscore."""
    if handles is None:
        handles, _ = axes.get_legend_handles_labels()
    # labels are set later, as matplotlib leaves out those that begin with an underscore
    legend = axes.legend(handles=handles, labels=[" "] * len(handles), **look)
    for text, handle in zip(legend.get_texts(), handles, strict=True):
        text.set_text(handle.get_label())
