"""The printed page of a private ROC curve: price, numbers with their errors, and rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from privatelr import page_model
from privatelr.inference import released_roc as roc
from privatelr.inference.question import read_level
from privatelr.page_model import Piece
from privatelr.plot_style import PARTS, add_legend, axes_for, ground_of, ink_of, literal
from privatelr.privacy import REPLACE_PERSON
from privatelr.results.answers.private_roc import RATES, PrivateRoc
from privatelr.results.answers.scored_records import fit_price
from privatelr.results.pages import sentences
from privatelr.results.pages.coefficient_table import PART_WORDS
from privatelr.results.predict import scale_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privatelr.results.answers.private_roc import PrivateRoc


_POINTS = 201
_MARKERS = {"youden": ("o", "Youden"), "topleft": ("s", "nearest (0, 1)")}
_SAMPLING, _NOISE, _ = PARTS
_OF_SAMPLING, _OF_NOISE, _ = PART_WORDS.values()
_WORDS = {
    "auc": "AUC",
    "prevalence": "Prevalence",
    "brier": "Brier score",
    "calibration_slope": "Calibration slope",
}
_LAST = "Std. Error is of sampling, noise and bins, and takes the model as given."


def page_of(curve: PrivateRoc) -> list[Piece]:
    """The pieces of the page; the rates are those at both thresholds, if there are any."""
    is_private, cuts = curve.guarantee.is_private, None
    if not np.isnan(curve.youden):
        cuts = curve.at([curve.youden, curve.topleft])
    found = curve.tidy().set_index("term")
    page: list[Piece] = [
        page_model.Heading("Private ROC curve" if is_private else "ROC curve, not private"),
        page_model.Code(curve.formula),
        "",
        page_model.FactList(_facts(curve)),
        "",
        page_model.Table(
            [_WORDS[term] for term in found.index],
            ["Estimate", "Std. Error", "sampling sd", "privacy sd", "bins sd"],
            [[f"{number:.4f}" for number in row] for row in found.to_numpy()],
        ),
    ]
    if cuts is not None:
        headers = [scale_of(curve.loss).name, "sensitivity", "specificity", "PPV", "NPV"]
        numbers = cuts[["threshold", *RATES]].to_numpy()
        cells = [[f"{number:.3f}" for number in row] for row in numbers]
        page += ["", page_model.Table(["Youden", "nearest to (0, 1)"], headers, cells)]
    if roc.hides_class(curve.release):
        page += ["", roc.LOST]
    noisy = "Every number but n was computed from noisy counts. " if is_private else ""
    share = 100 * float(roc.counts_of(curve.release)[-1]) / curve.nobs
    unusable = f"{share:.1f} % of the records could not be used."
    return [*page, "", f"Positive is {curve.positive}. {noisy}{_LAST} {unusable}"]


def _facts(curve: PrivateRoc) -> list[tuple[str, str]]:
    made = curve.release.calibration
    price = f"{curve.guarantee}; neighbours replace one of n = {curve.nobs} scored records"
    unused = "records that cannot be used"
    if made.persons:
        price = sentences.neighbours(str(curve.guarantee), curve.nobs, REPLACE_PERSON)
        unused = "what records that cannot be used, and too few of them, leave of a person"
    noise = (
        f"{made.noise.family} noise, sd {made.count_sd:.3g}, on the counts of "
        f"{made.bins} bins of either class and of {unused}"
    )
    if curve.fit_guarantee is not None:
        fit = fit_price(curve.fit_guarantee)
    elif made.target.is_private:
        fit = f"made of the same records; of its price, {made.target} bought these counts"
    else:
        fit = "made of the same records"
    facts = [("Promise", price), ("Fit", fit), ("Mechanism", noise)]
    if made.target.is_private and curve.entry is None:
        facts.append(("Ledger", "no ledger was charged"))
    return facts


def plot_roc(answer: PrivateRoc, *, level: float = 0.95, ax: Any = None) -> Axes:
    """Draw a private ROC curve.

    Parameters
    ----------
    answer : PrivateRoc
    level : float
        Level of confidence of the bands, which are for each rate of false positives by itself.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        The inner, darker band is of sampling alone. What the noise adds is drawn around it.

    Raises
    ------
    MissingDependencyError
        If matplotlib is not installed.

    Notes
    -----
    **Privacy.** *Covered*: the plot, which is a function of the release. *Neighbours*, *Assumed
    public*: those of the release. *Not covered*: nothing.
    """
    false = np.linspace(0.0, 1.0, _POINTS)
    curve = roc.sensitivities(roc.counts_of(answer.release), false)
    parts = roc.parts_of(answer.release, lambda c: roc.sensitivities(c, false))
    bands = _bands(curve, parts.sampling, parts.privacy, level)
    axes = axes_for("plot", (5.6, 5.6), ax)
    for low, high, look in bands:
        axes.fill_between(false, low, high, linewidth=0, **look)
    words = f"AUC {answer.auc:.3f} (SE {answer.auc_std_error:.3f})"
    axes.plot(false, curve, color=ink_of(axes), linewidth=1.2, label=words)
    axes.plot([0, 1], [0, 1], color=ink_of(axes), linewidth=0.8, linestyle=":")
    _points(axes, answer)
    axes.set_ylim(0, 1.005)
    axes.set_xlabel("false positives (1 - specificity)")
    axes.set_ylabel("true positives (sensitivity)")
    _finish(axes, answer)
    return axes


def plot_calibration(
    answer: PrivateRoc, groups: int = 10, *, level: float = 0.95, ax: Any = None
) -> Axes:
    """Draw the observed shares of `PrivateRoc.calibration` against the predicted probabilities.

    Parameters
    ----------
    answer : PrivateRoc
    groups : int
        Number of groups of records.
    level : float
        Level of confidence of the intervals, each for its group by itself.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        The thick inner bar is of sampling alone. What the noise adds is drawn around it.

    Raises
    ------
    ArgumentError
        If the fit has margins and no probabilities.
    MissingDependencyError
        If matplotlib is not installed.

    Notes
    -----
    **Privacy.** As of `plot_roc`.
    """
    table = answer.calibration(groups)
    bands = _bands(table.observed, table.sampling_sd, table.privacy_sd, level)
    axes = axes_for("plot_calibration", (5.6, 5.6), ax)
    axes.plot([0, 1], [0, 1], color=ink_of(axes), linewidth=0.8, linestyle=":")
    for (low, high, look), width in zip(bands, (3.0, 5.0), strict=True):
        axes.vlines(table.predicted, low, high, linewidth=width, **look)
    named, look = f"slope {answer.calibration_slope:.2f}\nBrier {answer.brier:.3f}", _dots(axes)
    axes.plot(table.predicted, table.observed, "o", label=named, zorder=3, clip_on=False, **look)
    axes.set_ylim(0, 1)
    axes.set_xlabel("predicted probability")
    axes.set_ylabel(f"observed share of {literal(answer.positive)}")
    _finish(axes, answer)
    return axes


def _bands(middle: Any, sampling: Any, privacy: Any, level: float) -> list[tuple[Any, Any, Any]]:
    """The ends of intervals with all errors, and of those with sampling alone, and their looks."""
    times = special.ndtri((1 + read_level(level, "level")) / 2)
    inner = {"color": _SAMPLING, "label": f"{_OF_SAMPLING} ({100 * level:g}%)"}
    outer = {"color": _NOISE, "label": _OF_NOISE}
    return [
        (np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1), look)
        for half, look in (
            (times * np.hypot(sampling, privacy), outer),
            (times * sampling, inner),
        )
    ]


def _dots(axes: Axes) -> dict[str, Any]:
    return {"color": ground_of(axes), "mec": ink_of(axes), "markersize": 6, "ls": ""}


def _finish(axes: Axes, answer: PrivateRoc) -> None:
    """Frame the axes, with a legend and what was paid for which records."""
    axes.set_xlim(0, 1)
    axes.set_aspect("equal")
    axes.spines[["top", "right"]].set_visible(False)
    look: dict[str, Any] = {"fontsize": "x-small", "handlelength": 1.2}
    handles, _ = axes.get_legend_handles_labels()
    add_legend(axes, handles[::-1], loc="best", **look)  # from the estimate outward
    size = f"{'m' if answer.release.calibration.persons else 'n'} = {answer.nobs}"
    axes.set_title(f"{answer.guarantee}, {size}", fontsize="medium", loc="left")


def _points(axes: Axes, answer: PrivateRoc) -> None:
    """Mark the best thresholds, if neither class is empty."""
    for rule, (marker, words) in _MARKERS.items():
        cut = getattr(answer, rule)
        if np.isnan(cut):
            return
        (row,) = answer.at(cut).itertuples()
        named = f"{words}:\n{scale_of(answer.loss).name} {cut:.3g}"
        place = (1 - row.specificity, row.sensitivity)
        axes.plot(*place, marker, label=named, **_dots(axes))
