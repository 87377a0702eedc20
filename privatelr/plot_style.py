"""The look of all plots: their axes, and colours that everybody can tell apart.

The colours are of Okabe and Ito (2008), who chose them for people who see no red or no green.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privatelr.errors import ArgumentError, MissingDependencyError, show

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#000000")
"""Colours of series, in this order."""
MAIN, HIGHLIGHT = "#0072b2", "#d55e00"
"""What a plot is about, and what privacy adds to it or limits it by."""
PARTS = ("#0072b2", "#59a3cd", "#bfdcec")
"""Of an error, from the estimate outward: of sampling, added by the noise, and not known."""
SHADES = ("#a9d3ee", "#5fa8d8", "#0072b2", "#00324f")
SHADES_ON_DARK = ("#0072b2", "#5fa8d8", "#a9d3ee", "#f2f9fd")
"""Series with an order, from little to much: away from a light ground, and from a dark one."""
QUIET, BROKEN = "#9aa5b1", "#d55e00"
"""What is not told apart from others, and what is wrong."""

_LIGHT, _MIDDLE = (0.2126, 0.7152, 0.0722), 0.179
"""What red, green and blue add to the light of a colour, and the light that has as much contrast
with black as with white, by WCAG 2."""
_FORMATS = (".pdf", ".png", ".svg")
"""Suffixes of files of pictures."""


def require_plot(path: str | Path) -> Path:
    """Return the path of a picture if it can be written; this is checked before any work is done.

    Raises
    ------
    ArgumentError
        If the name has another suffix, or its directory does not exist.
    MissingDependencyError
        If matplotlib is not installed.
    """
    target, given = Path(path), f"plot={show(str(path))}: plot takes a name in"
    if target.suffix.lower() not in _FORMATS:
        raise ArgumentError(f"{given} {', '.join(_FORMATS)}.")
    if not target.parent.is_dir():
        raise ArgumentError(f"{given} a directory that exists.")
    _require_matplotlib("plot")
    return target


def _require_matplotlib(caller: str) -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as missing:
        raise MissingDependencyError(
            f"{caller}: takes matplotlib; install it, or privatelr[plots]."
        ) from missing


def axes_for(caller: str, size: tuple[float, float], ax: Any) -> Axes:
    """Return `ax`, or axes of a new figure in inches if it is None.

    Raises
    ------
    ArgumentError
        If `ax` is something else, such as polar axes or some in space.
    MissingDependencyError
        If matplotlib, an extra, is not installed; the sentence names the `caller`.
    """
    _require_matplotlib(caller)
    from matplotlib import axes as matplotlib_axes
    from matplotlib import pyplot

    if ax is None:
        _, ax = pyplot.subplots(figsize=size, layout="constrained")
    sides = {} if hasattr(ax, "zaxis") else getattr(ax, "spines", {})  # of circles, others
    if not isinstance(ax, matplotlib_axes.Axes) or not {"top", "right", "left"} <= {*sides}:
        raise ArgumentError(
            f"ax of type {type(ax).__name__}: ax takes None, for a new figure, or one Axes of "
            "matplotlib with an x and a y, as in figure, ax = pyplot.subplots()."
        )
    return ax


def ground_of(axes: Axes) -> str:
    """Return the colour that axes are drawn on, whatever they and their figures let through."""
    from matplotlib.colors import to_hex, to_rgba

    red = green = blue = 1.0
    root = axes.figure.figure if axes.figure is not None else None
    for layer in (root, axes.figure, axes):
        *colour, opacity = to_rgba(layer.get_facecolor())
        under = zip(colour, (red, green, blue), strict=True)
        red, green, blue = (opacity * above + (1 - opacity) * below for above, below in under)
    return to_hex((red, green, blue))


def ink_of(axes: Axes) -> str:
    """Return black or white, whichever has more contrast with the ground."""
    ground = [int(ground_of(axes)[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    light = sum(share * part**2.2 for share, part in zip(_LIGHT, ground, strict=True))
    return "white" if light < _MIDDLE else "black"


def series_of(axes: Axes) -> tuple[str, ...]:
    """Return `COLOURS`, with ink in the place of black."""
    return (*COLOURS[:-1], ink_of(axes))


def shades_of(axes: Axes) -> tuple[str, ...]:
    """Return the shades for the ground of these axes."""
    return SHADES if ink_of(axes) == "black" else SHADES_ON_DARK


def literal(text: Any) -> str:
    """Return a text in which matplotlib typesets no mathematics, for names, levels and labels.

    A dollar sign is escaped in the text itself, so that axes that share their ticks with others,
    and legends that are made later, show it as well.
    """
    from matplotlib import rcParams

    return str(text).replace("$", r"\$") if rcParams["text.parse_math"] else str(text)


def add_legend(axes: Axes, handles: Sequence[Any] | None = None, **look: Any) -> None:
    """Add a legend of all that has a label, or of `handles`, which may begin with an underscore.

    Its ground is that of the axes, and hides what is drawn behind it.
    """
    if handles is None:
        handles, _ = axes.get_legend_handles_labels()
    # labels are set later, as matplotlib leaves out those that begin with an underscore
    look |= {"facecolor": ground_of(axes), "edgecolor": "none", "framealpha": 1.0}
    look |= {"frameon": True, "fancybox": False, "shadow": False, "labelcolor": ink_of(axes)}
    legend = axes.legend(handles=handles, labels=[" "] * len(handles), **look)
    for text, handle in zip(legend.get_texts(), handles, strict=True):
        text.set_text(handle.get_label())
