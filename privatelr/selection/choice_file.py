"""The file of a fit whose columns were chosen by a mechanism, in rounds or by draws.

It has the arguments of the call, and how often each option was chosen. Reading it plans the design
and calibrates the choices again, by the code of a fit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import UNSET, Meta, UnsetType, field

from privatelr.errors import GuaranteeError, ReleaseFileError
from privatelr.mechanisms.request import ROC
from privatelr.mechanisms.stages.histogram import calibrate_histogram
from privatelr.privacy import Guarantee, exact, prices
from privatelr.privacy.accounting import join
from privatelr.results.release_files import file_entries as entries
from privatelr.results.release_files.design_file import DesignEntry, design_entry, plan_again
from privatelr.results.release_files.fit_file import (
    ThresholdEntry,
    derived_of_fit,
    derived_of_plan,
    read_numbers,
    read_parts,
    read_threshold,
)
from privatelr.results.release_files.json_values import CLOSE, named
from privatelr.results.release_files.origin import with_origin
from privatelr.selection import multiplicative_weights, simplex
from privatelr.selection.choices import SelectionCalibration, Selections, StagedSelection
from privatelr.selection.multiplicative_weights import ProgramCalibration, WorstMargins
from privatelr.selection.selected_fit import SelectedFit


class SelectionCall(entries.FileEntry, frozen=True):
    """The arguments of a fit that chooses columns.

    Attributes
    ----------
    target
        The part of the guarantee that is about the choices.
    roc_target
        The part that is about the counts of scores; null if no ROC curve was requested.
    """

    n: Annotated[int, Meta(ge=1, le=10**9)]
    design: DesignEntry
    target: entries.GuaranteeEntry
    roc_target: entries.GuaranteeEntry | None
    threshold: ThresholdEntry


class ProgramCall(SelectionCall, frozen=True, tag_field="mechanism", tag="multiplicative weights"):
    """Multiplicative weights over the records: each round chooses a column.

    Attributes
    ----------
    density
        The least fraction of the records over which the weights are spread.
    """

    _phrases = ("rounds_origin",)
    density: Annotated[float, Meta(gt=0.0, lt=1.0)]
    rounds: Annotated[int, Meta(ge=1, le=10**6)]
    rounds_origin: entries.Phrase
    step: entries.Size
    score: Literal["margin", "count"]
    slack: Annotated[float, Meta(ge=0.0, lt=1.0)]


class SimplexCall(SelectionCall, frozen=True, tag_field="mechanism", tag="simplex draws"):
    """Draws from the minimiser of an entropy-penalised objective over the signed columns.

    Attributes
    ----------
    radius
        The largest sum of the absolute values of the coefficients.
    lambda
        Penalty of the mean objective, (1/n) sum loss + lambda sum theta log theta.
    """

    _phrases = ("lambda_origin",)
    radius: entries.Size
    loss: entries.LossEntry
    lambda_: entries.Size = field(name="lambda")
    lambda_origin: entries.Phrase
    draws: Annotated[int, Meta(ge=0, le=10**6)]


class ChoicesEntry(entries.FileEntry, frozen=True):
    """How often each option was chosen.

    Option k below d is column k, and option d + k is column k with the opposite sign; both are
    counted from 0.

    Attributes
    ----------
    path
        The options in the order in which they were chosen; null if the order was not released.
    exact
        Coefficients in scaled units of a fit without a guarantee that did not count choices.
    roc
        Counts of scores with noise, if a ROC curve was requested, as in the file of another fit.
    """

    options: list[entries.Position]
    times: list[Annotated[int, Meta(ge=1, le=10**9)]]
    path: list[entries.Position] | None
    exact: list[float] | None
    roc: list[float] | UnsetType = UNSET


# -- writing ---------------------------------------------------------------------------------


def selection_parts(fit: SelectedFit) -> entries.Parts:
    """The call, the choices, and what follows from both."""
    release, counts = fit.release, fit.release.histogram
    made: Any = release.calibration
    if not np.isfinite(release.coef).all():
        raise ReleaseFileError("a coefficient is not a finite number")
    call = entries.written(
        ProgramCall if isinstance(made, ProgramCalibration) else SimplexCall,
        made,
        made.problem,
        design=design_entry(fit.spec, fit.spec.formula.text, None),
        roc_target=None if counts is None else counts.calibration.target,
        threshold=fit.threshold,
    )
    chosen = np.flatnonzero(release.counts)
    choices = entries.written(
        ChoicesEntry,
        release,
        options=chosen,
        times=release.counts[chosen],
        roc=UNSET if counts is None else counts.values,
    )
    numbers = ("x_bound", "sensitivity", "eta", "stability", "tolerance")
    derived = {
        **derived_of_plan(fit.spec),
        **derived_of_fit(fit),
        "design_units": entries.plain(release.coef),
        **entries.picked(numbers, made, made.problem),
        "roc_noise": None if counts is None else entries.plain(counts.calibration.noise),
    }
    return call, choices, derived


# -- reading ---------------------------------------------------------------------------------


def restore_selection(document: entries.Document[Any, ChoicesEntry]) -> SelectedFit:
    """The fit of a document.

    Raises
    ------
    ReleaseFileError
        If an entry is wrong, or does not follow from the others. The message is part of a sentence.
    """
    call, names = document.call, document.derived.get("names")
    # the length of the file bounds the work of planning, and the names are compared later
    spec = plan_again(call.design, len(names) if isinstance(names, list) else 0)[0]
    if not spec.has_names and call.design.row_norm is not None:
        raise ReleaseFileError("call.design.row_norm takes null next to choices")
    target, histogram = entries.read_promise(call.target, "call.target"), None
    made: Any = _calibrate_again(call, spec, target)
    targets = [target]
    if call.roc_target is not None:
        with named("call.roc_target"):
            targets.append(entries.read_promise(call.roc_target, "call.roc_target"))
            histogram = calibrate_histogram(call.n, targets[1])
    guarantee = entries.read_guarantee(document.guarantee, "guarantee")
    _require_total(guarantee, targets)
    events = StagedSelection(guarantee, made, histogram).events
    entry = entries.read_charge(document.ledger, guarantee, events, spec)
    release = replace(_read_choices(document.released, made), guarantee=guarantee, entry=entry)
    fit = SelectedFit(spec, release, read_threshold(call.threshold, made.problem.loss))
    bought = {} if histogram is None else {ROC: histogram}
    counts = {} if document.released.roc is UNSET else {ROC: document.released.roc}
    parts = read_parts(fit, read_numbers(counts, bought, "released"), bought)
    fit = replace(fit, release=replace(release, histogram=parts.get(ROC)))
    return with_origin(fit, document.written_by)


def _calibrate_again(call: Any, spec: Any, target: Guarantee) -> SelectionCalibration:
    """All numbers of the choices, by the code of a fit."""
    try:
        with named("call"), np.errstate(all="ignore"):
            if isinstance(call, ProgramCall):
                facts = multiplicative_weights.ProgramFacts(
                    call.n, spec.d, spec.x_bound, call.density
                )
                terms = call.rounds, call.step, call.score, call.slack
                program = multiplicative_weights.calibrate_program(facts, target, *terms)
                return replace(program, rounds_origin=call.rounds_origin)
            loss = entries.read_loss(call.loss)
            known = call.n, spec.d, spec.x_bound, call.radius, loss
            problem = simplex.SimplexProblem(*known)
            draws = call.draws if target.is_private else (call.draws or "auto")
            found = simplex.calibrate_simplex(problem, target, call.lambda_, draws)
            return replace(found, lambda_origin=call.lambda_origin)
    except ReleaseFileError:
        raise
    except (ArithmeticError, ValueError):
        raise ReleaseFileError("call: nothing is proven about these numbers") from None


def _require_total(guarantee: Guarantee, targets: list[Guarantee]) -> None:
    """Refuse a guarantee that is not the total of its parts, up to rounding, or void."""
    try:
        total = join(targets)
    except GuaranteeError:
        raise ReleaseFileError("call.roc_target takes a part that adds up with target") from None
    given, least = prices(guarantee), prices(total)
    same = given.keys() == least.keys() and replace(total, **given) == guarantee  # type: ignore[arg-type]
    if not same or not all(
        exact(least[k]) <= exact(given[k]) <= exact(least[k] * (1 + CLOSE)) for k in given
    ):
        entries.require_standing(guarantee, total)


def _read_choices(entry: ChoicesEntry, made: Any) -> Selections:
    """The choices that an entry describes, under a calibration."""
    d, options, path = made.problem.d, entry.options, entry.path
    if max(options, default=0) >= 2 * d or len(entry.times) != len(options):
        raise ReleaseFileError("released.options takes positions, and times one number each")
    counts = np.zeros(2 * d, dtype=np.intp)
    counts[options] = entry.times
    is_ordered = isinstance(made, ProgramCalibration)
    if counts.sum() != (made.rounds if is_ordered else made.draws):
        raise ReleaseFileError("released.times does not add up to the number of choices")
    if (path is not None) != is_ordered:
        raise ReleaseFileError("released.path takes the order of choices where it is released")
    if path is not None and (
        max(path, default=0) >= 2 * d
        or not np.array_equal(np.bincount(path, minlength=2 * d), counts)
    ):
        raise ReleaseFileError("released.path does not count as released.times says")
    if entry.exact is not None and made.target.is_private:
        raise ReleaseFileError("released.exact takes null next to a guarantee")
    return Selections(
        counts,
        made,
        made.target,
        path=None if path is None else np.array(path, dtype=np.intp),
        exact=None
        if entry.exact is None
        else entries.read_numbers(entry.exact, d, "released.exact"),
    )


def read_objective(entry: entries.LossEntry) -> WorstMargins:
    """What stands in place of a loss where columns are chosen in rounds."""
    density = entry.get("density") if isinstance(entry, dict) else None
    if len(entry) != 2 or not (isinstance(density, float) and 0 < density < 1):
        raise ReleaseFileError("call.loss takes a density above 0 and below 1")
    return WorstMargins(density)


SELECTION: entries.Kind = entries.Kind(
    SelectedFit,
    ProgramCall | SimplexCall,
    ChoicesEntry,
    selection_parts,
    restore_selection,
    objectives={WorstMargins.name: read_objective},
)
