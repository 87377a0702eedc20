"""Sentences below a table of coefficients: what they are, and what their errors mean."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from privatelr.inference import Guesses, Inference, evidence_of, quality
from privatelr.inference.noisy_moments import Quality
from privatelr.inference.unresolved_columns import HIDDEN, thin_numbers
from privatelr.page_model import Table
from privatelr.privacy import ZCDP, NonPrivate
from privatelr.results.fit_record import FitRecord
from privatelr.results.multinomial_fit import NO_ERRORS
from privatelr.results.pages.coefficient_table import NOISE

_NAMED = 3
"""A page names at most so many hidden columns."""
BLANK = "Cells are blank where a normal law would have another interval or p-value."
_NONE = "No Std. Error or z: a normal law would have other intervals or p-values."
_WITHHELD = (
    "There are no standard errors, intervals and tests, because those of shrunk coefficients look "
    "precise where little is known. target='penalised' asks for them."
)
_NOTHING = 5e-4
"""A page says that the penalty hardly shrinks coefficients below this relative bias."""


# -- without standard errors -------------------------------------------------------------------


def notes_without_errors(fit: FitRecord, table: Table) -> tuple[list[str], list[str]]:
    """Sentences below a table without standard errors, and what the noise was computed from."""
    known, scale, shown = len(fit.kind.names(fit)), fit.release.scale, len(table.names)
    noise = [name for name in NOISE if name in table.headers]
    few = [] if shown == known else [f"The {shown} largest of {known} coefficients."]
    if fit.spec.response.kind == "classes":
        first = fit.spec.response.classes[0]
        few.append(f"Coefficients are log odds of a class against {first}, the reference.")
    if isinstance(fit.guarantee, NonPrivate):
        return few, []
    source = "computed without the data"
    source += ", but for the released scale of the columns." if scale is not None else "."
    limit = "what the noise adds has at most this standard deviation, whatever the data"
    match noise:
        case [exact] if fit.calibration.placement == "output":
            words = [f"{exact}: the standard deviation of what the noise adds; {source}"]
        case [limited]:
            damped = "usually much less, because the information in the data damps it"
            words = [f"{limited}: {limit}, and {damped}; {source}"]
        case [expected, limited]:
            words = [f"{expected}: {_forecast(fit)}", f"{limited}: {limit}. Both are {source}"]
    missing = (
        f"Standard errors were not requested: spend='inference' splits {_price(fit)} and adds them."
    )
    if fit.spec.response.kind == "classes":
        missing = f"{NO_ERRORS[0].upper()}{NO_ERRORS[1:]}."
    computed = [] if scale is None else ["what the noise adds (by the released scale)"]
    return [*few, *words, missing], computed


def _forecast(fit: FitRecord) -> str:
    """How the expected noise was worked out."""
    source = "public guesses" if fit.release.scale is None else "the released scale and guesses"
    usual = Guesses()
    guessed = f"balance={usual.balance:g}, c_index={usual.c_index:g}"
    guessed += f", correlation={usual.correlation:g}"
    return (
        f"a forecast of what the noise adds, by {source} as in privatelr.plan ({guessed}). It is "
        "more where columns go together or classes are far apart."
    )


# -- with standard errors ----------------------------------------------------------------------


def notes_on_errors(fit: FitRecord, found: Inference, *, is_asked_for: bool) -> list[str]:
    """Sentences below a table of errors; `is_asked_for` says whether the user chose the mode."""
    words = _target(fit, found)
    if not found.is_withheld:
        words += [_parts(found)] if fit.calibration.noise.scale > 0 else []
        if lacks_errors(found):
            words.append(BLANK if found.is_normal.any() else _NONE)
        words += [_mode(fit, found, ", as asked for" if is_asked_for else ""), *_hidden(fit, found)]
    if not isinstance(fit.guarantee, NonPrivate):
        words.append(
            "All of this was paid for; other intervals and tests of this fit cost nothing more."
        )
    return words


def _parts(found: Inference) -> str:
    """What each part of a standard error means; the last one depends on the mode."""
    step = ", and because one step may be off" if found.target == "unpenalised" else ""
    unknown = {
        "posterior": "unknown sd: what is added because that matrix is known through its own "
        f"noise only{step}.",
        "conservative": "unknown sd: what the worst matrix that its noise leaves possible adds.",
    }.get(found.mode)
    parts = (
        "sampling sd: the sampling error; privacy sd: what the noise on the coefficients adds; "
        f"both {_centre(found)}."
    )
    if not found.is_normal.any():
        return parts
    count = "two parts" if unknown is None else "three parts"
    return f"Std. Error has {count} whose squares add up. {parts} {unknown or ''}".rstrip()


def _centre(found: Inference) -> str:
    """At which information matrix the first two parts are."""
    if found.mode == "plug-in":
        return "at the information matrix that was released"
    return "as medians over the information matrices that the release leaves possible"


def _mode(fit: FitRecord, found: Inference, chosen: str) -> str:
    if fit.calibration.noise.scale == 0:
        unseen = (
            " nan: no record tells this coefficient, or earlier columns determine its column; the "
            "others are those of the model without it."
        )
        said = "The standard errors are those of the sandwich formula, without any noise."
        return said + unseen * bool(np.isnan(found.estimate).any())
    if found.mode == "plug-in":
        return (
            f"Plug-in mode{chosen}: the noisy information matrix is taken as it is, and its noise "
            "is not counted, so that errors may be too small."
        )
    known, price = quality(fit.release), _price(fit)
    ratio = known.told_noise
    helps = f"More records, a larger {price} or fewer columns help; privatelr.plan says how much."
    if fit.spec.has_names and fit.spec.bound_source == "declared bounds":
        helps += " So may a share of the price for the scale of the columns."
    if found.mode == "conservative":
        why = f": that noise is {ratio}, which may come from the penalty alone"
        if known.has_thin_number:
            why = ": averages could miss where the noise hides a column"
        bounds = "Intervals" if np.isnan(found.null).all() else "Intervals and p-values"
        return (
            "Conservative mode: the widest errors that the noise in the information matrix leaves "
            f"possible, which hold for every dataset{chosen or why}. {bounds} are bounds as well; "
            f"mode='posterior' gives averages instead. {helps}"
        )
    averaged = (
        f"Posterior mode{chosen}: errors are averaged over the information matrices that the "
        "known noise leaves possible."
    )
    is_wide = found.unknown_sd > np.hypot(found.sampling_sd, found.privacy_sd)
    if not (known.is_fragile or is_wide.any()):
        return averaged
    why = f"that noise is {ratio}"
    if found.target == "unpenalised" and known.noise_to_signal < known.relative_bias:
        why = (
            "the penalty moved the estimates far, which one step takes off with a large error "
            f"(relative bias {known.relative_bias:.3g})"
        )
        helps = f"A smaller lambda_ helps. {helps}"
    return (
        f"{averaged} Intervals are wide because {why}; sampling sd and privacy sd are not known "
        f"well either. {helps}"
    )


def lacks_errors(found: Inference) -> bool:
    """Whether some interval has no standard error, because no normal law describes it."""
    return not found.is_withheld and not found.is_normal.all()


def _names(fit: FitRecord, places: Sequence[int]) -> str:
    names = [fit.spec.columns.names[place] for place in places]
    several = f" and {len(names) - _NAMED} others" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + several


def _hidden(fit: FitRecord, found: Inference) -> list[str]:
    """Name the terms whose columns may hardly vary, as far as the release shows.

    Thin numbers are named where it is said what they do to the target.
    """
    evidence = evidence_of(fit.release)
    thin = thin_numbers(fit.release.scale, evidence)
    hidden = np.flatnonzero(evidence.resolved < HIDDEN).tolist()
    places = [at for at in hidden if at not in thin]
    if not places:
        return []
    count, told = len(places), _names(fit, places)
    varies, it, its, own = "varies", "It", "its interval allows", "its"
    if count > 1:
        varies, it, its, own = "vary", "They", "their intervals allow", "their"
    words = f"The noise hides how much {told} {varies} from record to record. {it} may be nearly"
    words += f" constant: {its} for bounds up to a hundred times as wide as {own} spread."
    if thin or not quality(fit.release).hides_numbers:
        return [words]
    tests = "" if np.isfinite(found.null).any() else ", and there are no tests"
    return [
        f"{words} Other columns that go together with what is hidden may take over {own} effect: "
        f"their intervals are not about an effect that is adjusted for {told}{tests}. Narrower "
        "bounds, which privatelr.suggest_bounds can find, or a larger "
        f"{_price(fit)} show it; so does a formula without it, which says what it leaves out."
    ]


def _price(fit: FitRecord) -> str:
    return "rho" if isinstance(fit.guarantee, ZCDP) else "epsilon"


def _target(fit: FitRecord, found: Inference) -> list[str]:
    title, known = fit.loss.title, quality(fit.release)
    if found.target == "unpenalised":
        return [
            f"Estimates and errors are about the coefficients of a {title} without a penalty: one "
            "step, which costs nothing, took the penalty's bias off. fit.coef, and predict without "
            "intervals, have them as they were released, penalised."
        ]
    helps = f", more records or a larger {_price(fit)} shrink less"
    helps = f"A smaller lambda_ (lambda){helps if known.noise_to_signal else ' shrinks less'}."
    if found.is_withheld:
        most = "more than one step can take off"
        if known.noise_to_signal == 0 and known.corrects_bias:
            most = "more than one step takes off without an error of its own"
        shrunk = [f"Estimates are shrunk, by {most}. {helps}"]
        return [*(_thin(fit) if known.has_thin_number else shrunk), _WITHHELD]
    aim = (
        "All of it is about the penalised coefficients, which minimise the expected loss with "
        f"its penalty, and not about those of a {title} without one. A variable without "
        "an effect of its own may have such a coefficient if it goes with one that has"
    )
    if np.isnan(found.null).all():
        aim += ", so that there are no tests of 0, unless target='penalised' asks for them"
    return [*(_thin(fit) if known.has_thin_number else []), f"{aim}{_shrinkage(known, found)}"]


def _thin(fit: FitRecord) -> list[str]:
    """Say which hidden columns leave the penalised target alone, and what would show them."""
    thin = thin_numbers(fit.release.scale, evidence_of(fit.release))
    count, told = len(thin), _names(fit, thin)
    vary, it, that = ("varies", "it", "that") if count == 1 else ("vary", "them", "those")
    shrunk = "Estimates are shrunk: the noise" if fit.loss.probability is not None else "The noise"
    return [
        f"{shrunk} hides how much {told} {vary} from record to record, so that the coefficients "
        f"without the penalty cannot be told, neither {that} of {told} nor those of columns that "
        f"go together with {it}.",
        f"Narrower bounds for {told}, which privatelr.suggest_bounds can find, or a larger "
        f"{_price(fit)} show how much {it.replace('them', 'they')} {vary}. So does a formula "
        f"without {it}, which says what it leaves out.",
    ]


def _shrinkage(known: Quality, found: Inference) -> str:
    """How far the penalty shrinks, which ends a sentence about the penalised coefficients."""
    bias = known.relative_bias
    if not math.isfinite(bias):
        return "; by how much the penalty shrinks them cannot be told from this release."
    if bias < _NOTHING:
        return "; the penalty hardly shrinks them."
    shrinks = f"; the penalty shrinks them by about {bias:.1%}"
    if not known.corrects_bias:
        return f"{shrinks}, too much for target='unpenalised' to take off."
    if found.mode == "conservative":
        return f"{shrinks}."
    return f"{shrinks}, which summary(target='unpenalised') takes off."
