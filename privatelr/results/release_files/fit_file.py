"""The file of a fit with noise, or of fits to strata, which were released by one call.

It has the arguments of the call, and the numbers that were released. Reading it plans the design
and calibrates the noise again, by the code of a fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, field

from privatelr import mechanisms
from privatelr.design import prior_of, standardise
from privatelr.errors import GuaranteeError, ReleaseFileError, listed
from privatelr.mechanisms import Release, StagedCalibration
from privatelr.mechanisms.request import COEFFICIENTS, RANGES, SCALE
from privatelr.mechanisms.stages import StageCalibration
from privatelr.mechanisms.stages import scale as scale_stage
from privatelr.mechanisms.stages.ranges import merged
from privatelr.method import perturbation
from privatelr.privacy import Guarantee, noise
from privatelr.results.answers.scored_records import score_scale
from privatelr.results.fit import Fit
from privatelr.results.fit_record import ModelRecord, NoisyRecord
from privatelr.results.multinomial_fit import MultinomialFit
from privatelr.results.predict import Threshold, scale_of
from privatelr.results.release_files import file_entries as entries
from privatelr.results.release_files.design_file import DesignEntry, design_entry, plan_again
from privatelr.results.release_files.json_values import named
from privatelr.results.release_files.origin import with_origin
from privatelr.results.strata_of_fits import Strata
from privatelr.types import FloatArray

_STAGE = ("target", "analysis", "noise", "shield", "tau", "grid", "balance", "typical", "bins")
"""What a file tells of the calibration of a stage, as far as the stage has it."""
ThresholdEntry = Annotated[float, Meta(ge=-1e100, le=1e100)] | Literal["youden", "topleft"]
"""A public value, or the rule that learns one, which is never in a file."""


Numbers = Annotated[list[float], Meta(max_length=2_000_000)]
"""Released numbers of one stage."""


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
    shares: Literal["inference"] | list[tuple[entries.Phrase, float]]
    laws: list[entries.Phrase]
    scaled: bool
    threshold: ThresholdEntry


class FitReleased(entries.FileEntry, frozen=True):
    """The numbers that were released, by the names of their shares.

    The `coefficients` are in scaled units (declared bounds at -1 and 1), one class after the other.

    The `lengths` are one number: what standardised rows are divided by, in lengths of a typical
    row.

    The `ranges` of numbers, in the order of the columns, are all lower ends in scaled units and
    then all upper ends. They are -1 and 1 where the moments show how much a number varies, and
    equal where most values are in one cell.

    The `scale` of the columns, which standardised the rows, are means and then mean squares of
    covariates in scaled units, where a record that could not be used counted as zeros: means of
    all covariates, or under a pure promise of those that are one number, and mean squares of those
    that are not indicators of levels, times a weight that follows from the promise.

    For `inference` there are two matrices. With w the coefficients in scaled units, x the row of
    a record with response y = -1 or 1, and l the loss, they are the means over the n records of
    l''(y x.w) x x' and of l'(y x.w)^2 x x', without the penalty. Where a length is released, x is
    the row before it is divided, and the weights of long rows are reduced. The upper triangle of
    either is there row by row, with entries off the diagonal multiplied by the root of 2; that of
    the second one is multiplied by the balance. They may be indefinite.

    For a `roc` curve there are counts of scores: of records in the bins of the negative class, in
    those of the positive class, and of records that cannot be used.

    Attributes
    ----------
    shared
        What was released before the coefficients, once for all fits.
    fits
        One, or one for each level of the column in by(...).
    """

    shared: dict[entries.Phrase, Numbers]
    fits: Annotated[list[dict[entries.Phrase, Numbers]], Meta(min_length=1, max_length=100_000)]


# -- writing ---------------------------------------------------------------------------------


def fit_parts(fit: NoisyRecord | Strata) -> entries.Parts:
    """The call, the released numbers, and what follows from both."""
    fits = [*getattr(fit, "fits", {"": fit}).values()]
    first = fits[0]
    spec, release = first.spec, first.release
    if spec.scaled_by_data:
        raise GuaranteeError(
            "do_scale=True: the columns were scaled by means and deviations of the data, which "
            "a release may not hold; declare bounds= instead, and fit again."
        )
    shared = {name: part.values for name, part in release.parts.items() if not _at(name)}
    own = [
        {
            COEFFICIENTS: one.release.coef,
            **{name: part.values for name, part in one.release.parts.items() if _at(name)},
        }
        for one in fits
    ]
    if not all(np.isfinite(numbers).all() for one in (shared, *own) for numbers in one.values()):
        raise ReleaseFileError("a released number is not finite")
    stages = {name: part.calibration for name, part in release.parts.items()}
    stages = mechanisms.in_order({COEFFICIENTS: release.calibration, **stages})
    derived = {
        **derived_of_plan(spec),
        "fits": [derived_of_fit(one) for one in fits],
        **entries.picked(("problem", "lambda_rules"), release.calibration),
        "stages": {name: entries.picked(_STAGE, stage) for name, stage in stages.items()},
    }
    return _call_of(first, fit.formula), entries.plain({"shared": shared, "fits": own}), derived


def _at(name: str) -> bool:
    """Whether a stage is released at the coefficients of each fit."""
    return mechanisms.STAGES[name].at_coefficients


def _call_of(fit: NoisyRecord, text: str) -> dict[str, Any]:
    made, spec, request, row_norm = fit.release.calibration, fit.spec, fit.release.request, None
    if request is None:
        raise ReleaseFileError("the fit does not say what was asked for")
    if spec.standard is not None:
        length = spec.standard.length
        usual = scale_stage.usual_rows(made.problem.loss, made.problem.n, spec.d, request.target)
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


def derived_of_plan(spec: Any) -> dict[str, Any]:
    """The columns of a plan, and the response."""
    names = list(spec.columns.names)
    if spec.response.kind == "classes":
        names = [f"{one}: {name}" for one in spec.response.classes for name in names]
    return {"response": spec.response.describe(), "names": names}


def derived_of_fit(fit: ModelRecord) -> dict[str, Any]:
    """Coefficients in the units of the columns, those of each class one after the other."""
    units, coef = fit.spec.user_map(), fit.release.coef
    with np.errstate(all="ignore"):
        parts = np.split(coef, len(coef) // fit.spec.d)
        values = np.concatenate([np.asarray(units @ part) for part in parts])
    by = fit.spec.formula.by
    level = {} if by is None else {"level": by.level}
    return {**level, "user_units": entries.plain(values)}


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
    coefficients = released.fits[0].get(COEFFICIENTS, ())
    spec, staged = _calibrate_again(call, promise, len(coefficients))
    staged = replace(staged, target=guarantee if guarantee.is_private else promise)
    entry = entries.read_charge(document.ledger, guarantee, staged.events, spec)
    own = {name: made for name, made in staged.parts.items() if _at(name)}
    before = {k: made for k, made in staged.parts.items() if k not in {*own, COEFFICIENTS}}
    values = read_numbers(released.shared, before, "released.shared")
    with named("released.shared"):
        shared = read_parts(None, values, before)
        if RANGES in shared:
            shared[SCALE] = merged(shared[SCALE], shared[RANGES])
    if SCALE in shared:
        spec = standardise(spec, *scale_stage.row_map(shared))
    threshold = read_threshold(call.threshold, staged.coefficients.problem.loss)
    by = spec.formula.by
    levels = (None,) if by is None or by.level is not None else spec.variables[by.column].levels
    if len(levels) != len(released.fits):
        raise ReleaseFileError(f"released.fits takes {len(levels)} fits, one for each level")
    fits = dict[Any, Any]()
    for level, numbers in zip(levels, released.fits, strict=True):
        plan = spec if level is None else spec.at_level(level)
        drawn = {} if spec.prior is None else prior_of(plan, staged.coefficients.problem)
        values = read_numbers(numbers, {COEFFICIENTS: staged.coefficients, **own}, "released")
        release = Release(
            values.pop(COEFFICIENTS),
            guarantee,
            staged.coefficients,
            entry,
            parts=shared,
            request=staged.request,
            **drawn,
        )
        kind = MultinomialFit if plan.response.kind == "classes" else Fit
        fit = kind(plan, release, threshold)
        with named("released.fits"):
            fit = replace(fit, release=release.having(read_parts(fit, values, own)))
        fits[level] = with_origin(fit, document.written_by)
    return Strata(by.column, fits) if by is not None and by.level is None else fits[None]


def _calibrate_again(
    call: FitCall, promise: Guarantee, coefficients: int
) -> tuple[Any, StagedCalibration]:
    """The plan of the rows that a call fits, and all numbers of all stages."""
    loss = entries.read_loss(call.loss)
    spec, schema = plan_again(call.design, coefficients, scaled=call.scaled)
    if not spec.has_names and call.design.row_norm is None:
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
            if not method.standardises:
                spec, staged = method.planned(spec, call.n)
            else:
                found, refusal = method.tried(spec, call.n, [(promise, laws)])
                if refusal is not None:
                    raise refusal
                ((spec, staged),) = found.values()
    except ReleaseFileError:
        raise
    except (ArithmeticError, ValueError):
        raise ReleaseFileError("call: nothing is proven about these numbers") from None
    others = [name for name in staged.parts if _at(name)]
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


def read_numbers(
    numbers: Mapping[str, list[float]], stages: Mapping[str, StageCalibration], where: str
) -> dict[str, FloatArray]:
    """The released numbers of each stage, which are as many as its noise has, on its grid."""
    if numbers.keys() != stages.keys():
        told = listed(stages) if stages else "nothing"
        raise ReleaseFileError(f"{where} takes numbers that are paid for, here of {told}")
    return {
        name: entries.read_numbers(numbers[name], made.size, f"{where}.{name}", made.grid)
        for name, made in stages.items()
    }


def read_parts(
    fit: Any, values: Mapping[str, FloatArray], stages: Mapping[str, StageCalibration]
) -> dict[str, Any]:
    """What stages released at the coefficients of a fit, or before them if there is no fit."""
    release, scale = (None, None) if fit is None else (fit.release, lambda _: score_scale(fit))
    return {
        name: mechanisms.STAGES[name].read(numbers, stages[name], release, scale)
        for name, numbers in values.items()
    }


def read_threshold(given: ThresholdEntry, loss: Any) -> Threshold:
    """A threshold within the scale of the predictions of a loss."""
    scale = scale_of(loss)
    if not isinstance(given, str) and not scale.lowest <= given <= scale.highest:
        raise ReleaseFileError(f"call.threshold takes {scale.takes}")
    return given


FIT = entries.Kind(NoisyRecord | Strata, FitCall, FitReleased, fit_parts, restore_fit)
