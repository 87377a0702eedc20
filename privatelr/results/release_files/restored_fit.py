"""Restoring a fit from a document, with every part checked against the others.

The document of the restored fit is compared with the one that was read, so every derived entry
must have its derived value. The comparison leaves out the programs and the
hash, which are about the file and not about the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import UNSET, UnsetType

from privatelr.design import (
    DesignSpec,
    EntryBoundedMatrix,
    NormBoundedMatrix,
    plan_standard,
    prior_of,
    standardise,
)
from privatelr.errors import GuaranteeError, ReleaseFileError
from privatelr.lazy_import import lazy_import
from privatelr.mechanisms import Problem, Release, ScaleRelease, scale_map
from privatelr.mechanisms.calibration import CORNER, counts_long_rows_less
from privatelr.privacy import (
    ZCDP,
    ApproxDP,
    Guarantee,
    NonPrivate,
    PureDP,
    exact,
    prices,
    pure_within,
)
from privatelr.privacy.accounting import Entry, Receipt, join
from privatelr.results.fit_record import FitRecord, ModelRecord, NoisyRecord
from privatelr.results.multinomial_fit import MultinomialFit
from privatelr.results.predict import Scale, Threshold, scale_of
from privatelr.results.release_files import calibration_file as parts
from privatelr.results.release_files import design_entries as shapes
from privatelr.results.release_files import document as documents
from privatelr.results.release_files import document_entries as entries
from privatelr.results.release_files import json_values
from privatelr.results.release_files.calibration_entries import (
    AnySelection,
    PerturbationEntry,
    PureEntry,
)
from privatelr.results.release_files.design_file import (
    offset_of,
    prior_limits,
    restore_plan,
    touched_by,
)
from privatelr.results.release_files.json_values import CLOSE, require_same
from privatelr.selection.selected_fit import SelectedFit

if TYPE_CHECKING:
    from privatelr.results.answers import scored_records
else:
    scored_records = lazy_import("privatelr.results.answers.scored_records")

AnyDocument = entries.Document[Any, Any]
_OPEN = ("written_by", "sha256")
"""These entries are about the file and not about the fit."""


def read_document(value: Any) -> AnyDocument:
    """A document with its entries, whose version is known and whose hash is right.

    Raises
    ------
    ReleaseFileError
        If the document is wrong. The message is part of a sentence.
    """
    if not isinstance(value, dict) or value.get("format") != entries.FORMAT:
        raise ReleaseFileError("the file is JSON, and not a release of privatelr")
    json_values.require_version(value, entries.VERSION)
    calibration, design = value.get("calibration"), value.get("design")
    chosen = isinstance(calibration, dict) and "mechanism" in calibration
    numbered = isinstance(design, dict) and "matrix" in design
    # the types are chosen here, because msgspec only distinguishes types that have tags
    made: Any = AnySelection if chosen else PerturbationEntry
    planned: Any = shapes.MatrixEntry if numbered else shapes.FormulaEntry
    document: AnyDocument = json_values.read_entry(value, entries.Document[made, planned])
    if document.sha256 != documents.content_hash(value):
        raise ReleaseFileError(
            "its content does not have the hash that it states, so it was changed after saving"
        )
    return document


def restore(value: Any) -> NoisyRecord | SelectedFit:
    """The fit of a value that `release_document` made, without diagnostics.

    Raises
    ------
    ReleaseFileError
        If the document is wrong. The message is part of a sentence.
    """
    return restore_content(read_document(value), value)


def restore_content(document: AnyDocument, value: dict[str, Any]) -> NoisyRecord | SelectedFit:
    """The fit of a document that was read from this value, without diagnostics."""
    noisy = isinstance(document.calibration, PerturbationEntry)
    record = _restore_perturbed(document) if noisy else _restore_selected(document)
    written = documents.unhashed_document(record)
    if record.has_roc:
        _require_scale(record)
    given, expected = (one["coefficients"]["user_units"] for one in (value, written))
    if len(given) != len(expected):
        raise ReleaseFileError(f"coefficients.user_units takes {len(expected)} numbers")
    with np.errstate(all="ignore"):
        units, sizes = np.abs(record.spec.user_map()), np.abs(record.release.coef)
        slack = CLOSE * documents.in_user_units(units, record.spec, sizes)
    for index, (item, true, room) in enumerate(zip(given, expected, slack.tolist(), strict=True)):
        at = f"coefficients.user_units[{index}]"
        if item is None or true is None:
            require_same(item, true, at)
        elif not abs(item - true) <= room:
            raise ReleaseFileError(f"{at} is not what the coefficients in scaled units give")
    written["coefficients"]["user_units"] = given
    written = {name: value[name] if name in _OPEN else written[name] for name in value}
    if json_values.canonical(value) != json_values.canonical(written):  # rounding may differ
        require_same(value, written, "")
    return record


def _require_scale(record: ModelRecord) -> None:
    """Raise an error if bins are not where coefficients and declarations put them.

    The guesses about records are therefore a part of the format: if they change, so does its
    version.
    """
    given, expected = record.release.histogram.scale, scored_records.score_scale(record)
    room = CLOSE * (abs(expected.middle) + expected.spread)
    for name in ("middle", "spread"):
        if not abs(getattr(given, name) - getattr(expected, name)) <= room:
            raise ReleaseFileError(f"roc.{name} is not what coefficients and declarations give")


def _restore_perturbed(document: AnyDocument) -> NoisyRecord:
    """A fit that was released with noise."""
    planned = getattr(document.design, "standard", UNSET)
    weighted = planned is not UNSET and planned.weighted is True
    offset = offset_of(document.design)
    facts = {"weighted": weighted, "offset": offset, "touched": touched_by(document.design)}
    facts |= prior_limits(document.design)
    calibration = parts.restore_calibration(document.calibration, facts)
    problem = calibration.problem
    moments = parts.restore_moments(document.inference, problem)
    scale, spec = _restore_scale(document, planned, problem)
    made: tuple[Any, ...] = (calibration, moments.calibration) if moments else (calibration,)
    about = problem.n, problem.neighbours, problem.moved
    counts = parts.restore_histogram(document.roc, *about)
    made = made if scale is None else (scale.calibration, *made)
    made = made if counts is None else (*made, counts.calibration)
    guarantee = _standing(document, [part.target for part in made])
    entry = read_charge(document.ledger, guarantee, made)
    require_column(entry, spec)
    if isinstance(spec, EntryBoundedMatrix):
        raise ReleaseFileError("design.row_norm takes a number beside noise")
    require_same(offset, spec.offset_bound, "design.formula")
    if (spec.formula.person is not None) is not problem.persons:
        raise ReleaseFileError(
            "design takes person(...) where the guarantee is about persons, and only there"
        )
    several = len(spec.response.classes) if spec.response.kind == "classes" else 2
    if problem.classes != several:
        raise ReleaseFileError("calibration.classes takes the number of classes of the response")
    if problem.is_multinomial and not (moments is None and counts is None and spec.prior is None):
        raise ReleaseFileError("inference, roc and prior are left out beside several classes")
    _require_shape(document, problem, spec, "radius")
    if problem.blocks:
        given, expected = map(documents.as_entry, (problem.blocks, spec.blocks))
        require_same(documents.plain(given), documents.plain(expected), "calibration.blocks")
    coef = np.array(document.coefficients.design_units, dtype=np.float64)
    if calibration.grid and np.any(np.fmod(coef, calibration.grid)):
        raise ReleaseFileError("coefficients.design_units takes multiples of the grid")
    if counts is not None:
        counts = replace(counts, guarantee=guarantee, entry=entry)
    others = {"scale": scale, "inference": moments, "roc": counts}
    drawn = {} if spec.prior is None else prior_of(spec, problem)
    release = Release(coef, guarantee, calibration, entry, **drawn).having(**others)
    cut = _read_threshold(document.threshold, scale_of(problem.loss))
    kind = MultinomialFit if problem.is_multinomial else FitRecord
    return kind(spec, release, cut)


def _restore_scale(
    document: AnyDocument, planned: Any, problem: Problem
) -> tuple[ScaleRelease | None, Any]:
    """The released moments of the columns, if there are any, and the plan under their map."""
    given = document.scale
    if (given is UNSET) != (planned is UNSET):
        raise ReleaseFileError("scale takes moments where design.standard is, and only there")
    if given is UNSET or planned is UNSET:
        return None, restore_plan(document.design)
    kept, unit = list[ScaleRelease](), planned.unit
    length = CORNER if planned.length is None else planned.length

    def standardised(declared: DesignSpec) -> DesignSpec:
        pure = isinstance(given.target, PureEntry)
        if unit and (pure or counts_long_rows_less(problem.loss)):
            raise ReleaseFileError("design.standard.unit takes false for this loss and target")
        if problem.weighted and not counts_long_rows_less(problem.loss):
            raise ReleaseFileError("design.standard.weighted takes false for this loss")
        held = 1.0 if pure or length == CORNER else length
        constant = (document.design.intercept or 1.0) / held
        with json_values.named("design"):
            spec = plan_standard(
                declared,
                pure=pure,
                length=length,
                unit=unit,
                weighted=problem.weighted,
                intercept_scale=constant,
            )
        kept.append(parts.restore_scale(given, spec, problem))
        return standardise(spec, *scale_map(kept[0]))

    spec = restore_plan(document.design, standardised)
    return kept[0], spec


def _restore_selected(document: AnyDocument) -> SelectedFit:
    """A fit that was released by choices of columns."""
    calibration = parts.restore_selection(document.calibration)
    problem = calibration.problem
    counts = parts.restore_histogram(document.roc, problem.n)
    made: list[Any] = [calibration] if counts is None else [calibration, counts.calibration]
    guarantee = _standing(document, [part.target for part in made])
    entry = read_charge(document.ledger, guarantee, made)
    spec: Any = restore_plan(document.design)
    if isinstance(spec, NormBoundedMatrix):
        raise ReleaseFileError("design.row_norm takes null beside choices")
    _require_shape(document, problem, spec, "x_bound")
    if document.choices is None:
        raise ReleaseFileError("choices takes an object where columns were chosen")
    chosen = parts.restore_choices(document.choices, calibration)
    if counts is not None:
        counts = replace(counts, guarantee=guarantee, entry=entry)
    release = replace(chosen, guarantee=guarantee, entry=entry, histogram=counts)
    if not np.array_equal(document.coefficients.design_units, release.coef):
        raise ReleaseFileError("coefficients.design_units is not what the choices give")
    return SelectedFit(spec, release, _read_threshold(document.threshold, scale_of(problem.loss)))


def _require_shape(document: AnyDocument, problem: Any, spec: Any, size: str) -> None:
    """Raise an error if the plan, the calibration and the coefficients have different sizes."""
    for name in ("d", size):
        require_same(getattr(problem, name), getattr(spec, name), f"calibration.{name}")
    numbers = getattr(problem, "size", spec.d)
    if len(document.coefficients.design_units) != numbers:
        raise ReleaseFileError(f"coefficients.design_units takes {numbers} numbers")


def _standing(document: AnyDocument, targets: Sequence[Guarantee]) -> Guarantee:
    """The guarantee of a release, which is the total of its parts, or none if it is void."""
    guarantee = parts.restore_guarantee(document.guarantee, "guarantee")
    try:
        total = join(targets)
    except GuaranteeError:
        raise ReleaseFileError(
            "inference.target takes a guarantee that adds up with that of the coefficients"
        ) from None
    if isinstance(guarantee, NonPrivate) and not isinstance(total, NonPrivate):
        if not guarantee.reason.startswith("void: "):
            raise ReleaseFileError("guarantee.reason takes 'void: ' and why, beside noise")
    elif not is_total(guarantee, total) and not is_implied(guarantee, total):
        raise ReleaseFileError(f"guarantee is {guarantee}, and the noise was made for {total}")
    return guarantee


def is_total(guarantee: Guarantee, total: Guarantee) -> bool:
    """Whether a guarantee is the total of its parts, or above it by rounding."""
    given, least = prices(guarantee), prices(total)
    if given.keys() != least.keys() or replace(total, **given) != guarantee:  # type: ignore[arg-type]
        return False
    most = {name: value * (1 + CLOSE) for name, value in least.items()}
    return all(exact(least[k]) <= exact(given[k]) <= exact(most[k]) for k in given)


def is_implied(guarantee: Guarantee, total: Guarantee) -> bool:
    """Whether a guarantee is the one that pure parts were made for, which imply it."""
    if not isinstance(total, PureDP):
        return False
    match guarantee:
        case ApproxDP(epsilon=epsilon):
            made = PureDP(epsilon, guarantee.neighbours)
        case ZCDP(rho=rho):
            made = PureDP(pure_within(rho), guarantee.neighbours)
        case _:
            return False
    return is_total(made, total)


def read_charge(
    given: entries.ChargeEntry | None, guarantee: Guarantee, made: Sequence[Any]
) -> Entry | None:
    """The ledger entry of a release, which has its guarantee and its events; None without one."""
    if given is None:
        return None
    if isinstance(guarantee, NonPrivate):
        raise ReleaseFileError("ledger takes null beside a release without a guarantee")
    events = tuple(event for part in made for event in part.events) if given.events else ()
    listed = () if isinstance(given.receipts, UnsetType) else given.receipts
    receipts = tuple(Receipt(one.ledger, one.dataset, one.row, one.head) for one in listed)
    person = None if isinstance(given.person, UnsetType) else given.person
    with json_values.named("ledger"):
        return Entry(given.label, guarantee, events, given.part, given.times, person, receipts)


def require_column(entry: Entry | None, spec: Any) -> None:
    """Refuse a charge about persons of another column than the formula says."""
    person = spec.formula.person
    if entry is not None and entry.person not in (None, person and person.column):
        raise ReleaseFileError("ledger.person takes the column of person(...) in the formula")


def _read_threshold(given: entries.ThresholdEntry, scale: Scale) -> Threshold:
    if given.rule != "fixed":  # a learned value is a function of the data, and not in the file
        return given.rule
    if given.value is None or not scale.lowest <= given.value <= scale.highest:
        raise ReleaseFileError(f"threshold.value takes {scale.takes}")
    return given.value
