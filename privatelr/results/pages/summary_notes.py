"""What the printed page says of the errors in its table: how they were made, what they are of."""

from __future__ import annotations

import math

from privatelr.inference import LARGEST_BIAS, Inference, quality
from privatelr.privacy import ZCDP, NonPrivate
from privatelr.results.fit_record import FitRecord
from privatelr.results.pages.summary_table import shown_of

_NOTHING = 5e-4


def notes(fit: FitRecord, found: Inference | None, *, is_asked_for: bool) -> list[str]:
    """Sentences below the table; `is_asked_for` says whether the mode was the user's choice."""
    if found is not None:
        words = [*_parts(fit), _mode(fit, found, is_asked_for), _target(fit, found)]
        if not isinstance(fit.guarantee, NonPrivate):
            words.append(
                "All of this was paid for; other intervals and tests of this fit cost nothing more."
            )
        return words
    few = _few(fit)
    if isinstance(fit.guarantee, NonPrivate):
        return few
    limit = "privacy sd: the standard deviation of what the noise adds; computed without the data."
    if fit.calibration.placement == "objective":
        limit = (
            "privacy sd: the noise adds at most this, whatever the data, and usually much less, "
            "because the information in the data damps it; computed without the data."
        )
    price = "rho" if isinstance(fit.guarantee, ZCDP) else "epsilon"
    return [
        *few,
        limit,
        f"Standard errors were not requested: spend='inference' splits {price} and adds them.",
    ]


def _few(fit: FitRecord) -> list[str]:
    known = len(fit.spec.columns.names)
    shown = shown_of(known)
    return [] if shown == known else [f"The {shown} largest of {known} coefficients."]


def legend(found: Inference, counted: bool) -> str:
    """What the bars beside the table show."""
    noise = ", light: what the noise adds" if found.privacy_sd.any() else ""
    unit = " In units of each standard error." if counted else ""
    return f"Bars are the intervals, dark: sampling error{noise}. The dashed line is zero.{unit}"


def _parts(fit: FitRecord) -> list[str]:
    if fit.calibration.noise.scale == 0:
        return []
    return [
        "Std. Error has two parts whose squares add up: the sampling error, and the noise that was "
        "added for privacy, which is the privacy part."
    ]


def _mode(fit: FitRecord, found: Inference, is_asked_for: bool) -> str:
    known = quality(fit.release)
    chosen = ", as asked for" if is_asked_for else ""
    if fit.calibration.noise.scale == 0:
        return "The standard errors are those of the sandwich formula, without any noise."
    if found.mode == "conservative":
        why = (
            f": that noise is {known.noise_to_signal:.2g} times the smallest eigenvalue of the "
            "matrix, which may come from the penalty alone, so that an average could miss"
        )
        return (
            "Conservative mode: the widest errors that the noise in the information matrix leaves "
            f"possible, which hold for every dataset{chosen or why}. Intervals and p-values are "
            "bounds as well; mode='posterior' gives averages instead."
        )
    if found.mode == "plug-in":
        return (
            f"Plug-in mode{chosen}: the noisy information matrix is taken as it is, and its noise "
            "is not counted, so that errors may be too small."
        )
    return (
        f"Posterior mode{chosen}: errors are averaged over the information matrices that the known "
        "noise leaves possible."
    )


def _target(fit: FitRecord, found: Inference) -> str:
    if found.target == "unpenalised":
        return (
            "All of it is about the coefficients of the model without its penalty: one step, which "
            "costs nothing, took the penalty's bias off the released estimates."
        )
    title = fit.calibration.problem.loss.title
    known = quality(fit.release)
    aim = (
        "All of it is about the penalised coefficients, which minimise the expected loss with "
        f"its penalty, and not about those of a {title} without one. A variable without an effect "
        "of its own may have such a coefficient if it goes with one that has"
    )
    bias = known.relative_bias
    if not math.isfinite(bias):
        return f"{aim}; by how much the penalty shrinks them cannot be told from this release."
    if bias < _NOTHING:
        return f"{aim}; the penalty hardly shrinks them."
    shrinks = f"{aim}; the penalty shrinks them by about {bias:.1%}"
    if bias > LARGEST_BIAS:
        return f"{shrinks}, too much for target='unpenalised' to take off."
    if found.mode == "conservative":
        return f"{shrinks}."
    return f"{shrinks}, which summary(target='unpenalised') takes off."
