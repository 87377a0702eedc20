"""A forest plot: coefficients with intervals whose bars show sampling error and noise apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.errors import ArgumentError, MissingDependencyError, require_choice, show
from privatelr.frames.terms import INTERCEPT
from privatelr.results.bars import Bars, bars_of, is_uneven
from privatelr.results.inference_table import Question, infer_coefficients
from privatelr.results.record import FitRecord, require_odds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privatelr.inference.intervals import Inference
    from privatelr.types import FloatArray

SCALES = ("auto", "coefficient", "standard error")
_COLOURS = ("#2f6fab", "#d1792b", "#3a8f5c", "#8a5aa5", "#7a7a7a")
_LIGHT = 0.4
_BAND = 0.7
_LONGEST_NAME = 40


def plot_coefficients(
    fit: Any,
    *others: Any,
    level: float = 0.95,
    ax: Axes | None = None,
    mode: str | None = None,
    target: str = "regularised",
    simultaneous: bool = False,
    intercept: bool = False,
    exponentiate: bool = False,
    scale: str = "auto",
) -> Axes:
    """Forest plot of the coefficients of a fit, or of several side by side.

    The whole bar is the interval. Its dark inner part is what the interval would be without the
    noise: on either side of the estimate it is shorter by the ratio of the sampling error to
    the standard error. What is light was added for privacy.

    Parameters
    ----------
    fit, others : Fit
        With inference; or one list of fits, or one mapping from labels to fits. Coefficients of
        the same name share a row.
    level : float
        Of confidence.
    ax : Axes, optional
        Where to draw; by default a new figure of pyplot.
    mode, target, simultaneous
        As in `Fit.conf_int`.
    intercept : bool
        Whether to draw the intercept too.
    exponentiate : bool
        Odds ratios on a logarithmic axis.
    scale : {"auto", "coefficient", "standard error"}
        What the axis counts: the user's units, or the largest standard error that the fits give
        the coefficient. By default the latter where the intervals are too unlike in length.

    Returns
    -------
    Axes

    Raises
    ------
    GuaranteeError
        If a fit did not buy inference.
    MissingDependencyError
        If matplotlib is not installed.

    Notes
    -----
    **Privacy.** *Covered*: a function of releases. *Neighbours*, *Assumed public*: those of the
    releases. *Not covered*: nothing.
    """
    fits = _read_fits(fit, others)
    require_choice(ArgumentError, "scale", scale, SCALES)
    asked = Question(level=level, mode=mode, target=target, simultaneous=simultaneous)
    found = {name: infer_coefficients(one, asked) for name, one in fits.items()}
    names = {name: list(one.spec.columns.names) for name, one in fits.items()}
    if exponentiate:
        for one in fits.values():
            require_odds(one)
    rows = _rows(names.values(), intercept)
    units = _units(found, names, rows, "coefficient" if exponentiate else scale)
    axes = _new_axes(len(rows) * len(fits)) if ax is None else ax
    for index, name in enumerate(fits):
        _draw(axes, index, len(fits), _picked(found[name], names[name], rows), units, exponentiate)
    _label(axes, rows, list(fits), found, units, exponentiate)
    return axes


def _read_fits(fit: Any, others: tuple[Any, ...]) -> dict[str, FitRecord]:
    """Fits by label, told apart by their guarantees unless labels are given."""
    if isinstance(fit, Mapping) and not others:
        named = {str(label): one for label, one in fit.items()}
    else:
        given = [*fit] if isinstance(fit, Sequence) and not others else [fit, *others]
        labels = [str(getattr(one, "guarantee", "")) for one in given]
        twice = len(set(labels)) < len(labels)
        named = {
            f"{index}: {label}" if twice else label: one
            for index, (label, one) in enumerate(zip(labels, given, strict=True), start=1)
        }
    for one in named.values():
        if not isinstance(one, FitRecord):
            raise ArgumentError(
                f"plot_coefficients: {show(one)} is no fit; it takes fits of dplr or dpsvm, a list "
                "of them, or a mapping from labels to fits."
            )
    if not named:
        raise ArgumentError("plot_coefficients: there is no fit to draw.")
    return named


def _rows(names: Any, intercept: bool) -> list[str]:
    """Coefficients in the order in which they first appear."""
    every = list(dict.fromkeys(name for listed in names for name in listed))
    return [name for name in every if intercept or name != INTERCEPT] or every


def _picked(found: Inference, names: list[str], rows: list[str]) -> Bars:
    """The bars of a fit, one per row, NaN where it has no such coefficient."""
    bars = bars_of(found)
    place = [names.index(row) if row in names else len(names) for row in rows]

    def pick(values: FloatArray) -> FloatArray:
        return np.append(values, np.nan)[place]

    ends = (bars.estimate, bars.lower, bars.upper, bars.inner_lower, bars.inner_upper)
    return Bars(*(pick(values) for values in ends))


def _units(
    found: Mapping[str, Inference], names: Mapping[str, list[str]], rows: list[str], scale: str
) -> FloatArray | None:
    """What to divide rows by, or None for the user's own units."""
    picked = [_picked(one, names[label], rows) for label, one in found.items()]
    if scale == "coefficient" or (scale == "auto" and not any(map(is_uneven, picked))):
        return None
    errors = [
        [one.sd[names[label].index(row)] if row in names[label] else 0.0 for row in rows]
        for label, one in found.items()
    ]
    largest = np.max(errors, axis=0)
    return np.where(largest > 0, largest, 1.0)


def _new_axes(bars: int) -> Axes:
    try:
        from matplotlib import pyplot
    except ImportError as missing:
        raise MissingDependencyError(
            "plot_coefficients: takes matplotlib; install it, or privatelr[plots]."
        ) from missing
    height = 1.6 + 0.34 * bars
    _, axes = pyplot.subplots(figsize=(7.0, height), layout="constrained")
    return axes


def _draw(
    axes: Axes, index: int, count: int, bars: Bars, units: FloatArray | None, exponentiate: bool
) -> None:
    """The bars of one fit, in its band of each row."""
    if units is not None:
        bars = bars.over(units)
    thickness = _BAND / count
    heights = np.arange(len(bars.estimate)) + (index - (count - 1) / 2) * thickness
    colour = _COLOURS[index % len(_COLOURS)]
    shown = (bars.lower, bars.upper, bars.inner_lower, bars.inner_upper, bars.estimate)
    with np.errstate(over="ignore"):
        ends = [np.exp(values) if exponentiate else values for values in shown]
    lower, upper, inner_lower, inner_upper, estimate = ends
    height = 0.62 * thickness
    axes.barh(heights, upper - lower, height, left=lower, color=colour, alpha=_LIGHT, linewidth=0)
    axes.barh(heights, inner_upper - inner_lower, height, left=inner_lower, color=colour)
    axes.plot(estimate, heights, "o", color="white", mec="black", markersize=5, zorder=3)


def _label(
    axes: Axes,
    rows: list[str],
    labels: list[str],
    found: Mapping[str, Inference],
    units: FloatArray | None,
    exponentiate: bool,
) -> None:
    from matplotlib.patches import Patch

    some = next(iter(found.values()))
    axes.axvline(1.0 if exponentiate else 0.0, color="black", linewidth=0.8, zorder=0)
    if exponentiate:
        axes.set_xscale("log")
    axes.use_sticky_edges = False
    axes.margins(x=0.04)
    axes.autoscale_view()
    axes.set_yticks(range(len(rows)), [_shortened(row) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    what = "odds ratio" if exponentiate else "coefficient"
    if units is not None:
        what = "coefficient / its standard error"
    modes = " and ".join(dict.fromkeys(one.mode for one in found.values()))
    axes.set_xlabel(f"{what}, {100 * some.level:g}% {modes} intervals")
    tone = _COLOURS[0] if len(labels) == 1 else "black"
    handles = [Patch(color=tone, label="sampling error")]
    if any(one.privacy_sd.any() for one in found.values()):
        handles.append(Patch(color=tone, alpha=_LIGHT, lw=0, label="added by the noise"))
    if len(labels) > 1:
        handles += [
            Patch(color=_COLOURS[index % len(_COLOURS)], label=label)
            for index, label in enumerate(labels)
        ]
    axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False
    )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _shortened(name: str) -> str:
    half = (_LONGEST_NAME - 3) // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[:half]}...{name[-half:]}"
