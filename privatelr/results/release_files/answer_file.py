"""The files of private answers: a ROC curve, a choice, suggested bounds, and released levels.

A choice has the file of each candidate in it, so that the price of all of them is added up again.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from privatelr.errors import GuaranteeError, ReleaseFileError, show
from privatelr.mechanisms.candidate_choice import calibrate_choice
from privatelr.mechanisms.level_selection import are_in_order, calibrate_levels
from privatelr.mechanisms.range_selection import calibrate_ranges, candidate_ends
from privatelr.mechanisms.stages.histogram import HistogramRelease, ScoreScale, calibrate_histogram
from privatelr.privacy import Guarantee, compose
from privatelr.privacy.accounting import Entry
from privatelr.results import views
from privatelr.results.answers.chosen_fit import ChosenFit
from privatelr.results.answers.private_roc import PrivateRoc
from privatelr.results.declarations import ReleasedLevels, SuggestedBounds
from privatelr.results.fit_record import ModelRecord
from privatelr.results.pages.comparison import paid_once
from privatelr.results.release_files import file_entries as entries
from privatelr.results.release_files.json_values import named
from privatelr.sources import declare_schema


def _paid(document: entries.Document[Any, Any], made: Any) -> tuple[Guarantee, Entry | None]:
    """The guarantee of an answer, which its calibration gives, and its charge."""
    guarantee = entries.read_guarantee(document.guarantee, "guarantee")
    entries.require_standing(guarantee, made.target)
    return guarantee, entries.read_charge(document.ledger, guarantee, made.events)


# -- a ROC curve -----------------------------------------------------------------------------


class CurveCall(entries.FileEntry, frozen=True):
    """The fit that a ROC curve is about, and the records that were scored by it.

    A score t is the linear predictor of a record at the released coefficients. Bins are equally
    wide in p(t) = (s(t / min(1, 2 spread)) + s((t - middle) / spread)) / 2, with s the logistic
    function, and an edge belongs to the bin below it.

    Attributes
    ----------
    n
        Number of records that were scored, or of their persons.
    fit_guarantee
        The guarantee of the fit itself, which was paid apart.
    target
        The guarantee that the noise was made for.
    middle, spread
        A guess of the mean and the standard deviation of scores, from the coefficients and the
        declarations of the fit.
    """

    n: entries.Records
    formula: entries.Label
    positive: entries.Label
    loss: entries.LossEntry
    fit_guarantee: entries.GuaranteeEntry
    target: entries.GuaranteeEntry
    middle: Annotated[float, Meta(ge=-1e100, le=1e100)]
    spread: entries.Size


class CurveReleased(entries.FileEntry, frozen=True):
    """Counts of scores by class, with noise, from which a ROC curve is computed.

    Attributes
    ----------
    counts
        Of records in the bins of the negative class, in those of the positive class, and of
        records that cannot be used.
    """

    counts: Annotated[list[float], Meta(min_length=5, max_length=2001)]


def curve_parts(answer: PrivateRoc) -> entries.Parts:
    """The call, the counts, and what follows from both."""
    if answer.fit_guarantee is None:
        raise GuaranteeError(
            "the curve was bought with a fit and is a part of it; save the fit, whose file has it."
        )
    release, made = answer.release, answer.release.calibration
    loss = answer.loss  # or what stands in its place where columns were chosen
    told = {"name": loss.name, **loss.parameters} if loss.parameters else loss.name
    call = entries.written(CurveCall, answer, made, release.scale, loss=told)
    edges = entries.plain(release.scale.edges(made.bins))
    numbers = {"auc": answer.auc, "youden": answer.youden, "topleft": answer.topleft}
    derived = {
        "noise": entries.plain(made.noise),
        "edges": [edges[0], edges[-1]],
        **entries.plain(numbers),
    }
    return call, {"counts": entries.plain(release.counts)}, derived


def restore_curve(document: entries.Document[CurveCall, CurveReleased]) -> PrivateRoc:
    """The curve of a document."""
    call = document.call
    target = entries.read_promise(call.target, "call.target")
    with named("call"):
        made = calibrate_histogram(call.n, target)
    place, cells = ScoreScale(call.middle, call.spread), made.noise.dimension
    counts = entries.read_numbers(document.released.counts, cells, "released.counts", made.grid)
    release = HistogramRelease(counts, place, made, *_paid(document, made))
    fit_guarantee = entries.read_guarantee(call.fit_guarantee, "call.fit_guarantee")
    loss = views.release_file.read_objective(call.loss)
    return PrivateRoc(release, loss, call.formula, call.positive, fit_guarantee)


# -- a choice --------------------------------------------------------------------------------


class ChoiceCall(entries.FileEntry, frozen=True):
    """A choice among fits.

    Attributes
    ----------
    n
        Number of records that were scored, or of their persons.
    target
        The guarantee that the mechanism has.
    choice_guarantee
        The guarantee of the choice alone, which follows from it; or none if a seed was used.
    candidates
        The release of each, as its own file has it.
    """

    n: entries.Records
    score: Literal["auc", "accuracy", "brier"]
    target: entries.GuaranteeEntry
    choice_guarantee: entries.GuaranteeEntry
    labels: Annotated[list[entries.Label], Meta(min_length=2, max_length=1000)]
    candidates: Annotated[list[dict[str, Any]], Meta(min_length=2, max_length=1000)]


class ChoiceReleased(entries.FileEntry, frozen=True):
    """What was chosen.

    Attributes
    ----------
    place
        Which of the candidates, counted from 0.
    """

    place: entries.Position


def choice_parts(answer: ChosenFit) -> entries.Parts:
    """The call, with the file of each candidate, and the choice."""
    candidates = [views.release_file.release_document(fit) for fit in answer.candidates]
    call = entries.written(ChoiceCall, answer, answer.calibration, candidates=candidates)
    return call, {"place": answer.place}, {"chosen": answer.label}


def total_of(answer: ChosenFit) -> Guarantee:
    """The guarantee of all that is in the file; prices are added up, whoever reads it."""
    each = [fit.guarantee for fit in paid_once(answer.candidates)]
    return compose([*each, answer.choice_guarantee])


def restore_choice(document: entries.Document[ChoiceCall, ChoiceReleased]) -> ChosenFit:
    """The choice of a document, whose candidates are read by themselves."""
    call, place = document.call, document.released.place
    target = entries.read_promise(call.target, "call.target")
    if len({*call.labels}) < len(call.labels) or len(call.candidates) != len(call.labels):
        raise ReleaseFileError("call.labels takes one label for each candidate")
    if place >= len(call.labels):
        raise ReleaseFileError(f"released.place takes a whole number up to {len(call.labels) - 1}")
    fits = dict[str, Any]()
    for label, each in zip(call.labels, call.candidates, strict=True):
        try:  # a release that is there twice is one, which was paid for once
            fits.setdefault(str(each.get("sha256")), views.release_file.restore(each))
        except ReleaseFileError as error:
            raise ReleaseFileError(f"candidate {show(label)}: {error}") from None
    candidates = tuple(fits[str(each.get("sha256"))] for each in call.candidates)
    about = [fit.guarantee.neighbours for fit in candidates if isinstance(fit, ModelRecord)]
    if about != [target.neighbours] * len(candidates):
        raise ReleaseFileError("call.candidates takes fits that promise the same people as target")
    own = entries.read_guarantee(call.choice_guarantee, "call.choice_guarantee")
    entries.require_standing(own, target)
    with named("call"):
        made = calibrate_choice(call.n, len(candidates), call.score, target)
    entry = entries.read_charge(document.ledger, own, made.events, candidates[0].spec)
    return ChosenFit(place, tuple(call.labels), candidates, made, own, entry)


# -- declarations ----------------------------------------------------------------------------


class RangesCall(entries.FileEntry, frozen=True):
    """Bounds of columns that were asked for.

    Attributes
    ----------
    n
        Number of records, or of persons.
    target
        The guarantee of all ranges together.
    outer
        The declared range of each column.
    """

    n: entries.Records
    target: entries.GuaranteeEntry
    outer: Annotated[list[tuple[entries.Name, entries.Pair]], Meta(min_length=1, max_length=10_000)]


class RangesReleased(entries.FileEntry, frozen=True):
    """Bounds that were suggested, in the order of the columns.

    Attributes
    ----------
    identifier
        Drawn at release.
    """

    ranges: list[entries.Pair]
    identifier: entries.Identifier


def ranges_parts(answer: SuggestedBounds) -> entries.Parts:
    """The call, the ranges, and what follows from both."""
    made = answer.calibration
    call = entries.written(RangesCall, made, outer=list(answer.outer.items()))
    ranges = [answer.ranges[name] for name in answer.outer]
    released = entries.written(RangesReleased, answer, ranges=ranges)
    return call, released, {"eta": made.eta, "beyond": made.beyond}


def restore_ranges(document: entries.Document[RangesCall, RangesReleased]) -> SuggestedBounds:
    """The suggested bounds of a document."""
    call, ranges = document.call, document.released.ranges
    declared = dict(call.outer)
    if len(declared) < len(call.outer) or len(ranges) != len(declared):
        raise ReleaseFileError("call.outer takes each column once, and released.ranges its range")
    with named("call"):
        outer = dict(declare_schema({name: tuple(pair) for name, pair in declared.items()}).bounds)
        ends = [candidate_ends(*pair) for pair in outer.values()]
        target = entries.read_promise(call.target, "call.target")
        made = calibrate_ranges(call.n, [len(each) - 1 for each in ends], target)
    for place, (pair, known) in enumerate(zip(ranges, ends, strict=True)):
        if not (np.isin(pair, known).all() and pair[0] < pair[1]):
            raise ReleaseFileError(
                f"released.ranges[{place}] takes two candidates of its outer range, the lower one "
                "first"
            )
    suggested = {name: (low, high) for name, (low, high) in zip(outer, ranges, strict=True)}
    paid = _paid(document, made)
    return SuggestedBounds(suggested, outer, made, *paid, document.released.identifier)


class LevelsCall(entries.FileEntry, frozen=True):
    """Levels of a column that were asked for.

    Attributes
    ----------
    n
        Number of records, or of persons.
    """

    n: entries.Records
    column: entries.Name
    target: entries.GuaranteeEntry


class LevelsReleased(entries.FileEntry, frozen=True):
    """Levels that were released.

    Attributes
    ----------
    levels
        In increasing order, numbers before texts.
    identifier
        Drawn at release.
    """

    levels: Annotated[list[entries.Level], Meta(max_length=1_000_000)]
    identifier: entries.Identifier


def levels_parts(answer: ReleasedLevels) -> entries.Parts:
    """The call, the levels, and the counts of a level that is released often, or always."""
    half, always = answer.calibration.ladder
    call = entries.written(LevelsCall, answer, answer.calibration)
    released = entries.written(LevelsReleased, answer, levels=answer.found)
    return call, released, {"half": half, "always": always}


def restore_levels(document: entries.Document[LevelsCall, LevelsReleased]) -> ReleasedLevels:
    """The released levels of a document."""
    call, levels = document.call, document.released.levels
    target = entries.read_promise(call.target, "call.target")
    with named("call.target"):
        made = calibrate_levels(target)
    if not are_in_order(levels) or len(levels) > call.n:
        raise ReleaseFileError(
            "released.levels takes different levels in increasing order, no more than records"
        )
    paid = _paid(document, made)
    identifier = document.released.identifier
    return ReleasedLevels(call.column, tuple(levels), call.n, made, *paid, identifier)


_DECLARED = "Names are those of the table, and outer ranges were declared without a look at it."
BOUNDS = entries.Kind(
    SuggestedBounds,
    RangesCall,
    RangesReleased,
    ranges_parts,
    restore_ranges,
    checked="The epsilon of each choice and the number of records to lie beyond an end follow from "
    "the outer ranges, the number of records and the guarantee, and all ends are candidates.",
    stated=(_DECLARED,),
)
LEVELS = entries.Kind(
    ReleasedLevels,
    LevelsCall,
    LevelsReleased,
    levels_parts,
    restore_levels,
    checked="The chances of levels by their counts follow from the guarantee.",
    stated=(_DECLARED,),
)


ROC = entries.Kind(
    PrivateRoc,
    CurveCall,
    CurveReleased,
    curve_parts,
    restore_curve,
    checked="Areas and thresholds are what the released numbers give.",
    stated=("Formula, classes and the guarantee of the fit are those of the fit that scored.",),
)
CHOICE = entries.Kind(
    ChosenFit,
    ChoiceCall,
    ChoiceReleased,
    choice_parts,
    restore_choice,
    guarantee=total_of,
    own_guarantee=attrgetter("choice_guarantee"),
    checked="The file of each candidate is right by itself, and prices add up to the guarantee.",
)
