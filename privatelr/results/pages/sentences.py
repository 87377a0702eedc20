"""Sentences on the pages about a fit: guarantee, mechanism, rows, lambda, and errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from privatelr.design import DesignSpec, EntryBoundedMatrix, NormBoundedMatrix
from privatelr.inference import LARGEST_BIAS, Inference, quality
from privatelr.mechanisms.calibration import Calibration, ScaleCalibration
from privatelr.numerics import Loss, describe
from privatelr.privacy import ZCDP, Guarantee, NonPrivate, SharedApproxDP
from privatelr.results.fit_record import FitRecord, ModelRecord, SelectedRecord

Facts = list[tuple[str, str]]
SOURCES = {
    "operating system": "drawn from the operating system, and not kept",
    "seed": "drawn from a seed, so whoever has the seed can take it off",
    "no noise": "there is none",
}
_UNMOVED = "none: the minimiser of loss and penalty itself"
_BY_BOUNDS = "declaring bounds={name: (lo, hi)} maps each variable onto [-1, 1]"
_REMEDY = f"{_BY_BOUNDS}, and usually loses less than shortening"
_UNSEEN = "nothing was estimated from the data"
_GOODS = {
    "scale": "scale of the columns",
    "coefficients": "coefficients",
    "inference": "matrices for inference",
}
_NOTHING = 5e-4
"""A page says that the penalty hardly shrinks coefficients below this relative bias."""


def title(fit: ModelRecord) -> str:
    """The kind of the model, and whether its fit is private."""
    how = "Non-private" if isinstance(fit.guarantee, NonPrivate) else "Differentially private"
    what = fit.calibration.title if isinstance(fit, SelectedRecord) else fit.loss.title
    return f"{how} {what}"


# -- sentences of the printed page and of a plan -----------------------------------------------


def neighbours(promise: str, n: int) -> str:
    """A guarantee with its neighbouring relation."""
    return f"{promise}; neighbours replace one of n = {n} records"


def promise(fit: ModelRecord) -> str:
    """The guarantee, and the releases that it covers."""
    if isinstance(fit.guarantee, NonPrivate):
        return f"{fit.guarantee}; nothing on this page is private"
    bought = ", coefficients only"
    if isinstance(fit, SelectedRecord):
        bought = f": the choices{'' if fit.release.path is None else ' and their order'}"
    elif len(parts := targets(fit)) > 1:
        bought = f": {divided(parts)}"
    return neighbours(f"{fit.guarantee}{bought}", fit.nobs)


def targets(fit: ModelRecord) -> dict[str, Guarantee]:
    """Return the part of each stage, in the order of their releases."""
    scale, moments = fit.release.scale, fit.release.moments
    found = {
        "scale": scale and scale.calibration.target,
        "coefficients": fit.release.calibration.target,
        "inference": moments and moments.calibration.target,
    }
    return {name: target for name, target in found.items() if target is not None}


def divided(parts: Mapping[str, Guarantee]) -> str:
    """Return the numbers of each part of a guarantee, without its kind.

    Gaussian parts that share an (epsilon, delta) with the coefficients are told by their mu.
    """
    if not isinstance(parts["coefficients"], SharedApproxDP):
        told = (f"{name} {str(part).partition(' (')[0]}" for name, part in parts.items())
        return ", ".join(one.replace(", ", " and ") for one in told)
    beside = [
        f"{name} by Gaussian noise of mu = {math.sqrt(2 * part.rho):.3g}"
        for name, part in parts.items()
        if isinstance(part, ZCDP)
    ]
    return ", ".join([*beside, "coefficients by what that leaves"])


def mechanism(calibration: Calibration) -> str:
    """The place, the law and the scale of the noise."""
    noise = calibration.noise
    if noise.scale == 0:
        return _UNMOVED
    return (
        f"{calibration.placement} perturbation, {noise.title} noise, scale {noise.scale:.3g} "
        f"({calibration.bound})"
    )


def loss(found: Loss) -> Facts:
    """The line about a loss with parameters; nothing for a loss without any."""
    return [("Loss", describe(found))] if found.parameters else []


def lambda_(calibration: Calibration, digits: int = 3) -> str:
    """The value of lambda, and how it was chosen."""
    return f"{calibration.lambda_:.{digits}g}, {calibration.lambda_origin}"


def _projection(spec: DesignSpec) -> Facts:
    """The line about a projection; nothing without one."""
    if spec.projection is None:
        return []
    p, q = spec.projection.shape
    return [("Projection", f"{p} covariates onto {q} random directions, drawn without the data")]


def facts_of_page(fit: ModelRecord, found: Inference | None = None) -> Facts:
    """The lines under the title of the printed page, each a label and a text."""
    response = ("Response", fit.spec.response.describe())
    if isinstance(fit, SelectedRecord):
        return [*fit.calibration.facts, ("Rows", _entry_bounds(fit.spec)), response]
    assert isinstance(fit, FitRecord)
    calibration, moments = fit.calibration, fit.release.moments
    shrunk = "; coefficients are penalised by it, that is, shrunk towards zero"
    facts = [
        ("Mechanism", mechanism(calibration)),
        *_scale(fit),
        ("Rows", _row_bounds(fit.spec)),
        response,
        *loss(fit.loss),
        ("Lambda", lambda_(calibration) + (shrunk if calibration.lambda_ else "")),
        *_projection(fit.spec),
    ]
    if moments is None or found is None:
        return facts
    known, noise = quality(fit.release), moments.calibration.noise
    size = f"{known.relative_bias:.3g}" if math.isfinite(known.relative_bias) else "not known"
    bias = f"relative bias of the penalty {size}"
    text = f"information matrix and scores of the data, without noise; {bias}"
    if noise.scale > 0:
        text = (
            f"information matrix and scores with {noise.title} noise, which is "
            f"{known.noise_to_signal:.3g} times the smallest eigenvalue of the matrix; {bias}; "
            f"{found.mode} mode, {found.target} coefficients"
        )
    return [*facts, ("Inference", text)]


def _scale(fit: FitRecord) -> Facts:
    """Return what was bought to standardise the rows, if it was."""
    made = fit.release.scale
    return [] if made is None else [("Scale", f"{scale(made.calibration)}; fit.scale has them")]


def scale(calibration: ScaleCalibration) -> str:
    """The moments that standardise the rows, and their noise."""
    k, noise = len(calibration.means), calibration.noise.title
    return (
        f"means and second moments of {k} column{'s' if k != 1 else ''} with {noise} noise, sd "
        f"{calibration.mean_sd:.3g} of a mean whose bounds are -1 and 1"
    )


def standardised(spec: DesignSpec) -> str:
    """How rows are mapped by the moments that were released."""
    assert spec.standard is not None
    how = "brought" if spec.standard.unit else "shortened"
    centred = "centred and scaled" if spec.standard.centred else "scaled"
    length = f"{spec.standard.length:g} length{'s' if spec.standard.length != 1 else ''}"
    return f"columns {centred} by the released moments, rows {how} to {length} of a typical one"


def _row_bounds(spec: DesignSpec) -> str:
    radius = f"radius R = {spec.radius:.3g}"
    if spec.scaled_by_data:
        return f"{radius}; columns were scaled by the data's own means, deviations and longest row"
    if spec.bound_source == "declared bounds":
        return f"{radius} from declared bounds; {_UNSEEN}"
    if spec.standard is not None:
        return f"{radius}; {standardised(spec)}"
    if spec.bound_source == "declared bounds and row_norm":
        return f"{radius} from declared bounds; {_shortened_apart(spec)}; {_REMEDY} them"
    shortened = f"{radius}, covariates shortened to length {spec.bound:.3g} (row_norm)"
    if isinstance(spec, NormBoundedMatrix):
        return f"{shortened}; {_UNSEEN}"
    if not spec.unbounded:
        return f"{shortened}, below what the declared bounds give"
    return f"{shortened}: no bounds for {', '.join(spec.unbounded)}; {_REMEDY} whole rows"


def _shortened_apart(spec: DesignSpec) -> str:
    """The bound on the terms without bounds, for a design that also has terms with bounds."""
    length = f"to length {spec.unbounded_norm:.3g} (row_norm)"
    if len(spec.unbounded) == 1:
        return f"{spec.unbounded[0]} has none and is shortened {length}"
    return f"{', '.join(spec.unbounded)} have none and are shortened together {length}"


def _entry_bounds(spec: DesignSpec | EntryBoundedMatrix) -> str:
    size = f"entries of size {spec.x_bound:.3g} at most"
    if isinstance(spec, EntryBoundedMatrix):
        return f"{size}, others are cut off there; {_UNSEEN}"
    if not spec.unbounded:
        return f"{size} from declared bounds; {_UNSEEN}"
    names = ", ".join(spec.unbounded)
    return f"{size}: no bounds for {names}, whose values are cut off there; {_BY_BOUNDS}"


# -- sentences below the table of the printed page ---------------------------------------------


def notes_without_errors(fit: FitRecord, shown: int) -> list[str]:
    """Sentences below a table that shows this number of estimates without standard errors."""
    known = len(fit.spec.columns.names)
    few = [] if shown == known else [f"The {shown} largest of {known} coefficients."]
    if isinstance(fit.guarantee, NonPrivate):
        return few
    source = "computed without the data"
    if fit.release.scale is not None:
        source += ", but for the released scale of the columns"
    limit = f"privacy sd: the standard deviation of what the noise adds; {source}."
    if fit.calibration.placement == "objective":
        limit = (
            "privacy sd: the noise adds at most this, whatever the data, and usually much less, "
            f"because the information in the data damps it; {source}."
        )
    price = "rho" if isinstance(fit.guarantee, ZCDP) else "epsilon"
    missing = f"Standard errors were not requested: spend='inference' splits {price} and adds them."
    return [*few, limit, missing]


def notes_on_choices(fit: SelectedRecord, shown: int) -> list[str]:
    """Sentences below a table that shows this number of chosen columns."""
    words, coef, unit = [], fit.release.coef, fit.calibration.unit
    if shown < len(coef):
        words.append(
            f"{np.count_nonzero(coef)} of {len(coef)} coefficients are not zero; {shown} of them "
            "are shown."
        )
    if fit.release.exact is None:
        words.append(
            "A column was chosen as it is (times +) or with its sign turned (times -). The "
            f"difference over all choices{f', {unit:.3g} times,' if unit != 1 else ''} is its "
            "coefficient where declared bounds are mapped to -1 and 1; the table has it in the "
            "units of the column, and the intercept takes up the centres of the bounds."
        )
    return words


def notes_on_errors(fit: FitRecord, found: Inference, *, is_asked_for: bool) -> list[str]:
    """Sentences below a table of errors; `is_asked_for` says whether the user chose the mode."""
    words = [_mode(fit, found, ", as asked for" if is_asked_for else ""), _target(fit, found)]
    if fit.calibration.noise.scale > 0:
        words.insert(
            0,
            "Std. Error has two parts whose squares add up: the sampling error, and the noise "
            "that was added for privacy, which is the privacy part.",
        )
    if not isinstance(fit.guarantee, NonPrivate):
        words.append(
            "All of this was paid for; other intervals and tests of this fit cost nothing more."
        )
    return words


def _mode(fit: FitRecord, found: Inference, chosen: str) -> str:
    if fit.calibration.noise.scale == 0:
        return "The standard errors are those of the sandwich formula, without any noise."
    if found.mode == "plug-in":
        return (
            f"Plug-in mode{chosen}: the noisy information matrix is taken as it is, and its noise "
            "is not counted, so that errors may be too small."
        )
    if found.mode != "conservative":
        return (
            f"Posterior mode{chosen}: errors are averaged over the information matrices that the "
            "known noise leaves possible."
        )
    why = (
        f": that noise is {quality(fit.release).noise_to_signal:.2g} times the smallest eigenvalue "
        "of the matrix, which may come from the penalty alone, so that an average could miss"
    )
    return (
        "Conservative mode: the widest errors that the noise in the information matrix leaves "
        f"possible, which hold for every dataset{chosen or why}. Intervals and p-values are "
        "bounds as well; mode='posterior' gives averages instead."
    )


def _target(fit: FitRecord, found: Inference) -> str:
    if found.target == "unpenalised":
        return (
            "All of it is about the coefficients of the model without its penalty: one step, which "
            "costs nothing, took the penalty's bias off the released estimates."
        )
    aim = (
        "All of it is about the penalised coefficients, which minimise the expected loss with "
        f"its penalty, and not about those of a {fit.loss.title} without one. A variable without "
        "an effect of its own may have such a coefficient if it goes with one that has"
    )
    bias = quality(fit.release).relative_bias
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


# -- lines of the card -------------------------------------------------------------------------


def facts_of_card(fit: ModelRecord, document: dict[str, Any]) -> Facts:
    """The lines of the card about how a fit was made, each a label and a text."""
    # the software that made the fit; of a fit from a file only its statement is known
    software = fit.origin.written_by if fit.origin else document["written_by"].items()
    by_its_word = "; so its file states" if fit.origin else ""
    cut, entry = fit.threshold, fit.release.entry
    learned = isinstance(cut, str)
    threshold = f"learned ({cut}), not private" if learned else f"{cut:g}, public"
    ledger = "no ledger was charged"
    if entry is not None:
        part = f", part {entry.part!r}" if entry.part is not None else ""
        times = f", {entry.times} times" if entry.times > 1 else ""
        ledger = f"charged with {entry.guarantee} for {entry.label!r}{part}{times}"
    spent = "all of it on the coefficients"
    if isinstance(fit, SelectedRecord):
        problem, spent = fit.calibration.problem, "all of it on the choices"
        rows = f"d = {problem.d} columns, no entry above {problem.x_bound:.6g} in size"
        own = [("Rows", rows), ("Loss", describe(fit.loss)), *fit.calibration.facts]
    else:
        assert isinstance(fit, FitRecord)
        own = _perturbed_of_card(fit)
        if len(parts := targets(fit)) > 1:
            spent = "; ".join(f"{part} on the {_GOODS[name]}" for name, part in parts.items())
    return [
        ("Guarantee", str(fit.guarantee)),
        *([] if isinstance(fit.guarantee, NonPrivate) else [("Spent", spent)]),
        ("Neighbours", fit.guarantee.neighbours.value),
        ("Records", f"n = {fit.nobs}"),
        *own,
        ("Randomness", f"{SOURCES[document['randomness']]}{by_its_word}"),
        ("Threshold", threshold),
        ("Ledger", ledger),
        ("Software", ", ".join(f"{name} {version}" for name, version in software)),
    ]


def _perturbed_of_card(fit: FitRecord) -> Facts:
    calibration, moments, spec = fit.calibration, fit.release.moments, fit.spec
    problem, noise, shield = calibration.problem, calibration.noise, calibration.shield
    constant = "no intercept" if spec.intercept is None else f"intercept {spec.intercept:g}"
    source = "from the declared bounds and levels"
    if spec.bound_source == "row_norm":
        without = f"; without bounds: {', '.join(spec.unbounded)}" if spec.unbounded else ""
        source = f"longer ones are shortened (row_norm){without}"
    if spec.standard is not None:
        source = standardised(spec)
    if spec.bound_source == "declared bounds and row_norm":
        source += f"; {_shortened_apart(spec)}"
    facts = [
        *_scale(fit),
        ("Rows", f"d = {problem.d} columns, no row longer than R = {problem.radius:.6g}"),
        ("Row length", f"covariates of length {spec.bound:.6g} at most, {source}; {constant}"),
        ("Loss", describe(problem.loss)),
        ("Lambda", lambda_(calibration, digits=6)),
        *_projection(spec),
    ]
    rounding = "to multiples of {:.6g}, decided exactly"
    if noise.scale > 0:
        place = "objective" if calibration.placement == "objective" else "minimiser"
        covers = f"{shield.title}, scale {shield.scale:.6g}, which covers the approximate minimum"
        certified = (
            f"gradient of the objective in its sum form at most {calibration.tau:.6g}; the "
            "distance to the exact minimiser is covered by the guarantee"
        )
        facts += [
            ("Mechanism", f"{calibration.placement} perturbation ({calibration.bound})"),
            ("Noise", f"{noise.title}, scale {noise.scale:.6g}, added to the {place}"),
            *([("Small noise", covers)] if shield.scale > 0 else []),
            ("Certificate", certified),
            ("Rounding", rounding.format(calibration.grid)),
        ]
    else:
        facts.append(("Mechanism", _UNMOVED))
    if moments is not None and moments.calibration.noise.scale > 0:
        noise, grid = moments.calibration.noise, moments.calibration.grid
        text = (
            f"{noise.title} noise, scale {noise.scale:.6g}, added to their {noise.dimension} "
            f"numbers together; rounded {rounding.format(grid)}"
        )
        facts.append(("Matrices for inference", text))
    return facts
