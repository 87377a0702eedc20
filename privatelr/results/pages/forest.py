"""A forest plot: coefficients with intervals whose bars show the parts of their errors.

For a fit without standard errors, the plot shows the estimates with a line of one standard
deviation of the noise.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.design import INTERCEPT
from privatelr.errors import ArgumentError, require_choice
from privatelr.inference import Inference, Question
from privatelr.page_model import shorten
from privatelr.plot_style import add_legend, axes_for, ground_of, ink_of, literal, series_of
from privatelr.results import odds_ratios
from privatelr.results.answers.named_fits import named_fits
from privatelr.results.fit_record import FitRecord, in_user_units
from privatelr.results.fit_tables import infer_coefficients
from privatelr.results.pages.coefficient_table import (
    ENDS,
    PART_WORDS,
    bars_of,
    parts_of,
    shown_rows,
)
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCALES = ("coefficient", "auto")
_OPACITIES = dict(zip(PART_WORDS, (1.0, 0.65, 0.25), strict=True))
"""Opacities of the parts of a bar."""
_BAND = 0.7
"""The bars of a row take this share of the distance between two rows."""
_LONGEST_NAME, _USUAL_NAME = 40, 20
_LEGEND = 26
"""A line of the legend has at most this number of letters, as two stand side by side."""
_MOST_ROWS = 100
"""A plot of more coefficients shows the largest, as a page does."""
_MOST_TICKS = 9
"""An axis of ratios has at most this number of decades with ticks."""


@dataclass(frozen=True, slots=True, eq=False)
class _Drawn:
    """The numbers that are drawn for one fit.

    Attributes
    ----------
    bars : DataFrame
        One row per coefficient, with the columns of `bars_of` and its span (see `spans_of`).
    found : Inference or None
        The inference with its intervals, or None if the fit has no intervals.
    noise : str
        The legend of the bars of a fit without intervals; empty if it has no noise.
    """

    bars: pd.DataFrame
    found: Inference | None
    noise: str


@suggests_arguments
def plot_coefficients(
    fit: Any,
    *others: Any,
    level: float = 0.95,
    ax: Axes | None = None,
    mode: str | None = None,
    target: str | None = None,
    simultaneous: bool = False,
    intercept: bool = False,
    exponentiate: bool = False,
    scale: str | None = None,
) -> Axes:
    """Forest plot of the coefficients of a fit, or of several fits side by side.

    The whole bar is the interval. Its dark inner part is about the interval that sampling error
    alone would give: on either side of the estimate, it is shorter by the ratio of the sampling
    error to the standard error. The next part is added by the noise. The light one is there because
    the information matrix is known through its own noise only.

    A fit without standard errors has no intervals. Its estimates are drawn with a line of one
    `privacy_sd_limit` on either side, an upper bound on the standard deviation of the noise.

    Parameters
    ----------
    fit, others : Fit
        One or several fits, or one list of fits, or one mapping from labels to fits. Coefficients
        of the same name share a row.
    level : float
        Level of confidence.
    ax : Axes, optional
        The axes to draw on; by default those of a new figure of pyplot.
    mode, target, simultaneous
        As in `Fit.conf_int`; they need fits with standard errors.
    intercept : bool
        Whether to draw the intercept, too.
    exponentiate : bool
        Whether to draw odds ratios on a logarithmic axis.
    scale : {"coefficient", "auto"}, optional
        The unit of a row. ``"coefficient"``, the default for coefficients, is one unit of the
        variable, as the page prints it. ``"auto"`` is a power of ten of units, of which the
        declared range has from 3 to 31, as the name of the row says: ``age (per 10)``. The default
        for odds ratios is one unit where the range has from 1 to 200 of them, and ``"auto"``
        elsewhere. All of these follow from public bounds, so that they are the same for every
        release.

    Returns
    -------
    Axes

    Raises
    ------
    ArgumentError
        If odds ratios are requested and a fit has none.
    GuaranteeError
        If standard errors are requested and a fit has none.
    MissingDependencyError
        If matplotlib is not installed.

    Notes
    -----
    **Privacy.** *Covered*: the plot, which is a function of releases. *Neighbours*, *Assumed
    public*: those of the releases. *Not covered*: nothing.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema, plot_coefficients
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=4.0, spend="inference", **public)
    >>> axes = plot_coefficients(fit)
    >>> axes.figure.savefig("coefficients.svg")  # doctest: +SKIP
    """
    takes = "fits of dplr or dpsvm, a list of them, or a mapping from labels to fits"
    several = [fit, *others] if others else fit
    fits = named_fits("plot_coefficients", FitRecord, takes, several, strata=True)
    if scale is not None:
        require_choice(ArgumentError, "scale", scale, SCALES)
    if exponentiate:
        for one in fits.values():
            odds_ratios.require_odds(one, "exponentiate=True")
    asked = Question(level, mode, target, simultaneous=simultaneous)
    drawn = {label: _drawn(one, asked) for label, one in fits.items()}
    every = list(dict.fromkeys(name for one in drawn.values() for name in one.bars.index))
    every = [name for name in every if intercept or name != INTERCEPT] or every
    # if a fit has no coefficient of a name, its numbers in that row are NaN
    shown = [one.bars.reindex(every) for one in drawn.values()]
    sizes = np.fmax.reduce([bars.estimate.abs().to_numpy() for bars in shown])
    rows = [every[place] for place in shown_rows(sizes, _MOST_ROWS)]
    shown = [bars.loc[rows] for bars in shown]
    units = _units(shown, scale, exponentiate)
    named = zip(rows, units.tolist(), strict=True)
    names = [odds_ratios.with_unit(shorten(row, _LONGEST_NAME), unit) for row, unit in named]
    width = 7.0 + 0.08 * max(max(map(len, names)) - _USUAL_NAME, 0)
    size = width, 1.6 + 0.34 * len(rows) * len(fits)
    axes = axes_for("plot_coefficients", size, ax)
    for index, (of_fit, bars) in enumerate(zip(drawn.values(), shown, strict=True)):
        ends = bars[["estimate", *ENDS]].div(units, axis=0)
        with np.errstate(over="ignore"):
            ends = np.exp(ends) if exponentiate else ends
        _draw(axes, index, len(drawn), ends, of_fit.found is not None)
    _label(axes, names, drawn, "odds ratio" if exponentiate else "coefficient")
    if len(rows) < len(every):
        axes.set_xlabel(f"{axes.get_xlabel()}, the {len(rows)} largest of {len(every)}")
    if exponentiate:
        _show_ratios(axes)
    return axes


def _drawn(fit: FitRecord, asked: Question) -> _Drawn:
    """The intervals of a fit, or its estimates if it has no intervals and none are requested."""
    found, words = None, ""
    if fit.has_inference or not asked.is_usual:
        found = infer_coefficients(fit, asked)
        bars = bars_of(found)
    else:
        estimate, limit = in_user_units(fit), fit.privacy_sd_limit.to_numpy()
        most = ", at most" if fit.calibration.placement == "objective" else ""
        words = f"± one standard deviation of the noise{most}" if limit.any() else ""
        low, high = estimate - limit, estimate + limit
        ends = dict(zip(ENDS, (low, high, low, high, estimate, estimate), strict=True))
        bars = pd.DataFrame({"estimate": estimate, **ends})
    named = bars.assign(span=odds_ratios.spans_of(fit)).set_axis(list(fit.spec.columns.names))
    return _Drawn(named, None if found is None or found.is_withheld else found, words)


def _units(shown: list[pd.DataFrame], scale: str | None, exponentiate: bool) -> FloatArray:
    """Divisors ``(m,)`` of the rows."""
    if scale == "coefficient" or not (scale or exponentiate):
        return np.ones(len(shown[0]))
    spans = np.fmax.reduce([bars.span.to_numpy() for bars in shown])
    return odds_ratios.units_of_bounds(spans) if scale else odds_ratios.readable_units(spans)


def _draw(axes: Axes, index: int, count: int, bars: pd.DataFrame, has_errors: bool) -> None:
    """Draw the bars of one fit, each at its height within the row of the coefficient."""
    thickness = _BAND / count
    heights = np.arange(len(bars)) + (index - (count - 1) / 2) * thickness
    colours = series_of(axes)
    colour = colours[index % len(colours)]
    size, below = (0.62 if has_errors else 0.12) * thickness, 0.0
    pairs = list(zip(ENDS[::2], ENDS[1::2], reversed(_OPACITIES.values()), strict=True))
    for low, high, opacity in pairs if has_errors else pairs[1:2]:
        # what is drawn on the part below makes the opacity of both together that of the legend
        alpha, width = 1 - (1 - opacity) / (1 - below), bars[high] - bars[low]
        axes.barh(heights, width, size, left=bars[low], color=colour, alpha=alpha, linewidth=0)
        below = opacity
    face = ground_of(axes) if has_errors else colour
    axes.plot(bars.estimate, heights, "o", color=face, mec=ink_of(axes), markersize=5, zorder=3)


def _label(axes: Axes, names: list[str], drawn: Mapping[str, _Drawn], what: str) -> None:
    """Label the axes, and add a legend of the tones, the lines, and the colours of the fits."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    axes.axvline(1.0 if what == "odds ratio" else 0.0, color=ink_of(axes), linewidth=0.8, zorder=0)
    if what == "odds ratio":
        axes.set_xscale("log")
    axes.use_sticky_edges = False
    axes.margins(x=0.04)
    axes.autoscale_view()
    axes.set_yticks(range(len(names)), list(map(literal, names)))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    found = [one.found for one in drawn.values() if one.found is not None]
    tone = series_of(axes)[0] if len(drawn) == 1 else ink_of(axes)
    intervals, handles = "without confidence intervals", list[Any]()
    if found:
        intervals = f"{100 * found[0].level:g}% confidence intervals"
        modes = dict.fromkeys(one.mode for one in found if one.privacy_sd.any())
        intervals += f", {' and '.join(modes)} mode" * bool(modes)  # without noise there is one
    axes.set_xlabel(f"{what}, {intervals}")
    for part, words in PART_WORDS.items():
        if any(parts_of(one).get(part, np.zeros(1)).any() for one in found):
            handles.append(Patch(color=tone, alpha=_OPACITIES[part], lw=0, label=words))
    for words in dict.fromkeys(one.noise for one in drawn.values() if one.noise):
        handles.append(
            Line2D([], [], color=tone, alpha=_OPACITIES["privacy sd"], lw=2, label=_wrapped(words))
        )
    if len(drawn) > 1:
        named = zip(itertools.cycle(series_of(axes)), map(_wrapped, drawn))
        handles += [Patch(color=colour, label=label) for colour, label in named]
    if handles:
        place = (0.0, 1.0)
        add_legend(axes, handles, loc="lower left", bbox_to_anchor=place, ncols=2)


def _wrapped(label: str) -> str:
    return literal(textwrap.fill(label, _LEGEND, replace_whitespace=False))


def _show_ratios(axes: Axes) -> None:
    """Show ticks of odds ratios as plain numbers such as 0.5, 1 and 2, not as powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=_MOST_TICKS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
