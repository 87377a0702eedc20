"""The file of a fit with noise, or of fits to strata, which were released by one call.

It has the arguments of the call, and the numbers that were released. Reading it plans the design
and calibrates the noise again, by the code of a fit.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import UNSET, Meta, UnsetType, field

from privatelr import mechanisms
from privatelr.design import DesignSpec, EntryBoundedMatrix, prior_of, standardise
from privatelr.errors import ReleaseFileError
from privatelr.mechanisms import Release, StagedCalibration, calibration
from privatelr.mechanisms.request import COEFFICIENTS, INFERENCE, LENGTHS, ROC, SCALE
from privatelr.mechanisms.stages import matrices
from privatelr.mechanisms.stages import scale as scale_stage
from privatelr.mechanisms.stages.histogram import HistogramCalibration, HistogramRelease
from privatelr.mechanisms.stages.lengths import LENGTH_GRID, LengthCalibration, LengthRelease
from privatelr.method import perturbation
from privatelr.privacy import Guarantee, noise
from privatelr.results.answers.scored_records import score_scale
from privatelr.results.fit import Fit
from privatelr.results.fit_record import ModelRecord, NoisyRecord
from privatelr.results.multinomial_fit import MultinomialFit
from privatelr.results.predict import Threshold, scale_of
from privatelr.results.release_files import file_entries as entries
from privatelr.results.release_files.design_file import DesignEntry, design_entry, plan_again
from privatelr.results.release_files.json_values import named, sums
from privatelr.results.strata_of_fits import Strata
from privatelr.types import FloatArray

FARTHEST = 1000.0
"""Noise beyond this number of standard deviations is never drawn, so a file with it is refused."""
_STAGE = ("target", "analysis", "noise", "shield", "tau", "grid", "balance", "typical", "bins")
"""What a file tells of the calibration of a stage, as far as the stage has it."""
ThresholdEntry = Annotated[float, Meta(ge=-1e100, le=1e100)] | Literal["youden", "topleft"]
"""A public value, or the rule that learns one, which is never in a file."""


class FitCall(entries.FileEntry, frozen=True):
    """The arguments of a fit with noise.

    Attributes
    ----------
    n
        Number of records, or of persons; it is public.
    lambda
        Penalty of the mean objective, (1/n) sum loss + (lambda/2) |w|^2.
    placement
        Noise is added to the objective, or to its minimiser (output).
    analysis
        The proof that was asked for; null for the tightest that is proven for the loss.
    promise
        What the noise of all parts was made for together; it implies the guarantee.
    shares
        The share of each part in the promise, or the usual ones.
    laws
        The laws of noise to choose from, by the names of their classes; empty for all.
    scaled
        Whether rows were standardised by means and mean squares that were released first.
    threshold
        Between predicted classes: a probability, a margin, or a rule that learns one from the
        training data. A learned value is never in a file.
    """

    _phrases = ("lambda_origin",)
    n: entries.Records
    design: DesignEntry
    loss: entries.LossEntry
    lambda_: Annotated[float, Meta(ge=0.0, le=1e100)] = field(name="lambda")
    lambda_origin: entries.Phrase
    placement: Literal["objective", "output"]
    analysis: Literal["joint", "one-log", "cms11"] | None
    promise: entries.GuaranteeEntry
    shares: (
        Literal["inference"]
        | list[tuple[Literal["scale", "lengths", "coefficients", "inference", "roc"], float]]
    )
    laws: list[entries.Phrase]
    scaled: bool
    threshold: ThresholdEntry


class ScaleEntry(entries.FileEntry, frozen=True):
    """Means and mean squares of columns with noise, which standardised the rows.

    They are of the covariates in units that have declared bounds at -1 and 1; a record that could
    not be used counted as zeros.

    Attributes
    ----------
    means
        Of all covariates; under a pure promise, of those that are one number.
    squares
        Mean squares of those covariates that are not indicators of levels, times a weight that
        follows from the promise.
    """

    means: list[float]
    squares: list[float]


class MomentsEntry(entries.FileEntry, frozen=True):
    """Two matrices with noise, from which standard errors, tests and intervals are computed.

    With w the coefficients in scaled units (declared bounds at -1 and 1), x the row of a record
    with response y = -1 or 1, and l the loss, they are the means over the n records of
    l''(y x.w) x x' and of l'(y x.w)^2 x x', without the penalty. They may be indefinite.

    Attributes
    ----------
    curvature
        Mean of l''(y x.w) x x' as released: the upper triangle row by row. Entries off the
        diagonal are multiplied by the root of 2.
    scores
        Mean of l'(y x.w)^2 x x' as released, in the same form and multiplied by the balance.
    """

    curvature: list[float]
    scores: list[float]


class NumbersEntry(entries.FileEntry, frozen=True):
    """The numbers that one fit released.

    Attributes
    ----------
    coefficients
        In scaled units, one class after the other.
    inference
        Present if inference was requested.
    roc
        Present if a ROC curve was requested: counts of scores with noise. They are of records in
        the bins of the negative class, in those of the positive class, and of records that cannot
        be used.
    """

    coefficients: Annotated[list[float], Meta(min_length=1, max_length=10**6)]
    inference: MomentsEntry | UnsetType = UNSET
    roc: list[int] | UnsetType = UNSET


class FitReleased(entries.FileEntry, frozen=True):
    """The numbers that were released.

    Attributes
    ----------
    fits
        One, or one for each level of the column in by(...).
    scale
        Present if rows were standardised; shared by all fits.
    length
        In lengths of a typical row: what standardised rows are divided by, if it was released.
    """

    fits: Annotated[list[NumbersEntry], Meta(min_length=1, max_length=100_000)]
    scale: ScaleEntry | UnsetType = UNSET
    length: float | UnsetType = UNSET


# -- writing ---------------------------------------------------------------------------------


def fit_parts(fit: NoisyRecord | Strata) -> entries.Parts:
    """The call, the released numbers, and what follows from both."""
    fits = [fit] if isinstance(fit, NoisyRecord) else list(fit.fits.values())
    first = fits[0]
    spec, release, by = first.spec, first.release, first.spec.formula.by
    text = spec.formula.text
    if isinstance(fit, Strata) and by is not None:
        text = text.replace(by.label, replace(by, level=None).label)
    scale: Any = UNSET
    length: Any = UNSET if release.length is None else release.length
    if release.scale is not None:
        parts = np.split(release.scale.values, [len(release.scale.calibration.means)])
        scale = {"means": parts[0], "squares": parts[1]}
    numbers = [_numbers(one.release) for one in fits]
    derived = {
        **derived_of_plan(spec),
        "fits": [derived_of_fit(one) for one in fits],
        **entries.picked(("problem", "lambda_rules"), release.calibration),
        "stages": {name: entries.picked(_STAGE, stage) for name, stage in _stages(release).items()},
    }
    return (
        _call_of(first, text),
        entries.written(FitReleased, fits=numbers, scale=scale, length=length),
        derived,
    )


def _call_of(fit: NoisyRecord, text: str) -> dict[str, Any]:
    made, spec, request, row_norm = fit.release.calibration, fit.spec, fit.release.request, None
    if request is None:
        raise ReleaseFileError("the fit does not say what was asked for")
    if spec.standard is not None:
        known = made.problem.loss, made.problem.n, spec.d, request.target
        usual = scale_stage.usual_rows(*known)
        length = spec.standard.length
        row_norm = None if (length, spec.standard.unit) == usual else length
    shares: Any = request.spend
    if shares != "inference":
        shares = [(name, float(share)) for name, share in shares]
    return entries.written(
        FitCall,
        made.problem,
        made,
        request,
        design=design_entry(spec, text, row_norm),
        analysis=request.analysis,
        promise=request.target,
        shares=shares,
        laws=[law.__name__ for law in request.kinds],
        scaled=fit.release.scale is not None,
        threshold=fit.threshold,
    )


def _numbers(release: Release) -> dict[str, Any]:
    if not np.isfinite(release.coef).all():
        raise ReleaseFileError("a coefficient is not a finite number")
    moments, counts = release.moments, release.histogram
    inference: Any = UNSET
    if moments is not None:
        curvature, scores = np.split(moments.values, 2)
        inference = {"curvature": curvature, "scores": scores}
    return entries.written(
        NumbersEntry,
        coefficients=release.coef,
        inference=inference,
        roc=UNSET if counts is None else [int(count) for count in counts.counts],
    )


def _stages(release: Release) -> dict[str, Any]:
    others = {name: part.calibration for name, part in release.parts.items()}
    return mechanisms.in_order({COEFFICIENTS: release.calibration, **others})


def derived_of_plan(spec: Any) -> dict[str, Any]:
    """The columns of a plan, with their map, and the response."""
    names = list(spec.columns.names)
    if spec.response.kind == "classes":
        names = [f"{one}: {name}" for one in spec.response.classes for name in names]
    derived: dict[str, Any] = {"response": spec.response.describe(), "names": names}
    if isinstance(spec, DesignSpec):
        columns = spec.columns
        sizes = np.maximum(np.abs(columns.centre), columns.scale)
        derived["columns"] = {
            "parent": columns.parent.tolist(),
            "centre": sums(columns.centre, sizes),
            "scale": columns.scale.tolist(),
        }
    return derived


def derived_of_fit(fit: ModelRecord) -> dict[str, Any]:
    """Coefficients in the units of the columns, those of each class one after the other."""
    units, coef = fit.spec.user_map(), fit.release.coef
    with np.errstate(all="ignore"):
        parts = np.split(coef, len(coef) // fit.spec.d)
        values = np.concatenate([np.asarray(units @ part) for part in parts])
        sizes = np.concatenate([np.asarray(np.abs(units) @ np.abs(part)) for part in parts])
    by = fit.spec.formula.by
    derived: dict[str, Any] = {} if by is None else {"level": by.level}
    if fit.has_roc:
        place = fit.release.histogram.scale
        sizes_of_place = abs(place.middle) + place.spread
        derived["roc"] = sums([place.middle, place.spread], [sizes_of_place] * 2)
    return {**derived, "user_units": sums(values, sizes)}


# -- reading ---------------------------------------------------------------------------------


def restore_fit(document: entries.Document[FitCall, FitReleased]) -> Fit | MultinomialFit | Strata:
    """The fit of a document, or the fits to strata.

    Raises
    ------
    ReleaseFileError
        If an entry is wrong, or does not follow from the others. The message is part of a sentence.
    """
    call, released = document.call, document.released
    promise = entries.read_promise(call.promise, "call.promise")
    guarantee = entries.read_guarantee(document.guarantee, "guarantee")
    entries.require_standing(guarantee, promise)
    spec, staged = _calibrate_again(call, promise, len(released.fits[0].coefficients))
    staged = replace(staged, target=guarantee if guarantee.is_private else promise)
    entry = entries.read_charge(document.ledger, guarantee, staged.events, spec)
    scale = _read_scale(released.scale, staged.scale)
    length = _read_length(released.length, staged.parts.get(LENGTHS))
    if scale is not None:
        own = None if length is None else length.length
        mapped, held = mechanisms.scale_map(scale, own), scale_stage.binding(scale, own)
        spec = standardise(spec, *mapped, released=held)
    threshold, by = (
        read_threshold(call.threshold, staged.coefficients.problem.loss),
        spec.formula.by,
    )
    levels = (None,) if by is None or by.level is not None else spec.variables[by.column].levels
    if len(levels) != len(released.fits):
        raise ReleaseFileError(f"released.fits takes {len(levels)} fits, one for each level")
    fits = dict[Any, Any]()
    for level, numbers in zip(levels, released.fits, strict=True):
        plan = spec if level is None else spec.at_level(level)
        drawn = {} if spec.prior is None else prior_of(plan, staged.coefficients.problem)
        release = Release(
            _read_coefficients(numbers, staged.coefficients),
            guarantee,
            staged.coefficients,
            entry,
            request=staged.request,
            **drawn,
        )
        moments = _read_moments(numbers.inference, staged.moments)
        release = release.having({SCALE: scale, LENGTHS: length, INFERENCE: moments})
        fit = (MultinomialFit if plan.response.kind == "classes" else Fit)(plan, release, threshold)
        counts = read_histogram(fit, numbers.roc, staged.histogram)
        fits[level] = replace(fit, release=release.having({ROC: counts}))
    return Strata(by.column, fits) if by is not None and by.level is None else fits[None]


def _calibrate_again(
    call: FitCall, promise: Guarantee, coefficients: int
) -> tuple[Any, StagedCalibration]:
    """The plan of the rows that a call fits, and all numbers of all stages."""
    loss = entries.read_loss(call.loss)
    spec, schema = plan_again(call.design, coefficients, scaled=call.scaled)
    if isinstance(spec, EntryBoundedMatrix):
        raise ReleaseFileError("call.design.row_norm takes a number next to noise")
    try:
        with named("call"), np.errstate(all="ignore"):
            shares: Any = call.shares
            spend = shares if shares == "inference" else mechanisms.read_spend(dict(shares))
            laws = tuple(_read_law(name) for name in call.laws)
            asked = call.placement, call.analysis, call.lambda_, "keep", spend, laws
            request = mechanisms.Request(promise, *asked)  # type: ignore[arg-type]
            scaling = "private" if call.scaled else False
            method = perturbation(loss, request, schema, scaling, prior=spec.prior)
            if method.standard:
                spec, staged = method.standard[0](spec, call.n)
            else:
                staged = method.calibrate(method.facts(call.n, spec))
    except ReleaseFileError:
        raise
    except (ArithmeticError, ValueError):
        raise ReleaseFileError("call: nothing is proven about these numbers") from None
    others = staged.parts.keys() - {SCALE, LENGTHS, COEFFICIENTS}
    if spec.response.kind == "classes" and (others or spec.prior is not None):
        raise ReleaseFileError("call: several classes have no inference, no curve and no prior")
    coefficient_stage = replace(staged.coefficients, lambda_origin=call.lambda_origin)
    return spec, staged.having({COEFFICIENTS: coefficient_stage})


def _read_law(name: str) -> type[noise.NoiseLaw]:
    every: tuple[Any, ...] = (noise.LaplaceNoise, *noise.LAWS.values())
    laws: dict[str, type[noise.NoiseLaw]] = {law.__name__: law for law in every}
    if name not in laws:
        raise ReleaseFileError(f"call.laws takes names from {', '.join(laws)}")
    return laws[name]


def _read_coefficients(numbers: NumbersEntry, made: calibration.Calibration) -> FloatArray:
    given, size = numbers.coefficients, made.problem.size
    return entries.read_numbers(given, size, "released.coefficients", made.grid)


def _require_both(given: Any, made: Any, name: str) -> None:
    if isinstance(given, UnsetType) != (made is None):
        raise ReleaseFileError(f"released.{name} takes numbers if they are paid for, and only then")


def _read_scale(
    given: ScaleEntry | UnsetType, made: scale_stage.ScaleCalibration | None
) -> mechanisms.ScaleRelease | None:
    _require_both(given, made, "scale")
    if made is None or isinstance(given, UnsetType):
        return None
    largest = max(1.0, *(group.largest for group in made.facts.groups))
    most = made.weight * largest**2 + FARTHEST * math.sqrt(made.noise.variances.max())
    parts = [
        entries.read_numbers(numbers, len(columns), "released.scale", made.grid, most)
        for numbers, columns in ((given.means, made.means), (given.squares, made.squares))
    ]
    return mechanisms.ScaleRelease(np.concatenate(parts), made)


def _read_length(given: float | UnsetType, made: LengthCalibration | None) -> LengthRelease | None:
    _require_both(given, made, "length")
    if made is None or isinstance(given, UnsetType):
        return None
    if given not in LENGTH_GRID[1:]:
        raise ReleaseFileError("released.length takes a number of the grid of lengths")
    return LengthRelease(given, made)


def _read_moments(
    given: MomentsEntry | UnsetType, made: matrices.MomentsCalibration | None
) -> mechanisms.Moments | None:
    _require_both(given, made, "inference")
    if made is None or isinstance(given, UnsetType):
        return None
    # a mean over n rows is at most n times the largest change that one row can cause
    reach = matrices.moments_sensitivity(made.problem, made.typical)
    size, most = made.noise.dimension // 2, made.problem.n * reach + FARTHEST * made.entry_sd
    halves = [
        entries.read_numbers(numbers, size, "released.inference", made.grid, most)
        for numbers in (given.curvature, given.scores)
    ]
    return mechanisms.Moments(np.concatenate(halves), made)


def read_histogram(
    fit: Any, counts: list[int] | UnsetType, made: HistogramCalibration | None
) -> HistogramRelease | None:
    """The counts of scores that a fit bought."""
    _require_both(counts, made, "roc")
    if made is None or isinstance(counts, UnsetType):
        return None
    paid = fit.release.guarantee, fit.release.entry
    return HistogramRelease(read_counts(counts, made), score_scale(fit), made, *paid)


def read_counts(counts: list[int], made: HistogramCalibration) -> FloatArray:
    """Counts of scores by class, no larger than records and noise make them."""
    most, whole = made.n + FARTHEST * max(made.count_sd, 1.0), [float(count) for count in counts]
    return entries.read_numbers(whole, 2 * made.bins + 1, "released.roc", largest=most)


def read_threshold(given: ThresholdEntry, loss: Any) -> Threshold:
    """A threshold within the scale of the predictions of a loss."""
    scale = scale_of(loss)
    if not isinstance(given, str) and not scale.lowest <= given <= scale.highest:
        raise ReleaseFileError(f"call.threshold takes {scale.takes}")
    return given


FIT = entries.Kind(NoisyRecord | Strata, FitCall, FitReleased, fit_parts, restore_fit)
