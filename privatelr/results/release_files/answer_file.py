"""The file of a private answer: a ROC curve, a choice, or a declaration.

It is written, hashed and read as the file of a fit is. What follows from the released
numbers is in it as well, and has to follow when it is read. A choice has the release of each
candidate in it, so that the price of all of them is added up again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from privatelr.errors import GuaranteeError, ReleaseFileError, show
from privatelr.mechanisms.candidate_choice import calibrate_choice
from privatelr.mechanisms.score_histogram import HistogramRelease
from privatelr.privacy import Guarantee, NonPrivate, PureDP, compose
from privatelr.privacy.accounting import Entry
from privatelr.results.answers.chosen_fit import ChosenFit
from privatelr.results.answers.paid_answer import PaidAnswer
from privatelr.results.answers.private_roc import PrivateRoc
from privatelr.results.declarations import ReleasedLevels, SuggestedBounds
from privatelr.results.fit_record import ModelRecord
from privatelr.results.pages.comparison import paid_once
from privatelr.results.release_files import answer_entries as entries
from privatelr.results.release_files import calibration_file as parts
from privatelr.results.release_files import declaration_file as declared
from privatelr.results.release_files import document as documents
from privatelr.results.release_files import json_values, release_file
from privatelr.results.release_files.calibration_entries import ScoreCountsEntry
from privatelr.results.release_files.restored_fit import is_implied, read_charge, require_column
from privatelr.selection.multiplicative_weights import WorstMargins

AnyAnswer = PrivateRoc | ChosenFit | SuggestedBounds | ReleasedLevels
_OPEN = ("written_by", "sha256")
"""These entries are about the file and not about the answer."""


def is_answer(value: Any) -> bool:
    """Whether a value that was read from a file is one of a private answer."""
    return isinstance(value, dict) and value.get("format") == entries.ANSWER_FORMAT


# -- writing -----------------------------------------------------------------------------------


def answer_bytes(answer: PaidAnswer) -> bytes:
    """The content of the file, which is read again before it is returned.

    Raises
    ------
    GuaranteeError
        If the answer was bought with a fit, whose file has it.
    ReleaseFileError
        If it has no place in a file. The message is part of a sentence.
    """
    document = answer_document(answer)
    data = release_file.as_bytes(document)
    read = answer_document(restore_answer(json_values.parse(data)))
    if json_values.canonical(read) != json_values.canonical(document):
        raise ReleaseFileError("the answer would not be read back")
    return data


def answer_document(answer: PaidAnswer) -> dict[str, Any]:
    """An answer as plain values, with its content hash."""
    guarantee = _stated_guarantee(answer)
    notice = f"covered by {guarantee}; holds no record, and no count of records without noise"
    if isinstance(guarantee, NonPrivate):
        notice = f"NOT PRIVATE: no guarantee covers this file as a whole ({guarantee.reason})"
    document: dict[str, Any] = documents.plain(
        entries.AnswerDocument(
            format=entries.ANSWER_FORMAT,
            version=entries.ANSWER_VERSION,
            notice=notice,
            written_by=documents.programs(),
            guarantee=documents.as_entry(guarantee),
            randomness="seed" if isinstance(_own_guarantee(answer), NonPrivate) else _SECRET,
            ledger=documents.as_entry(answer.entry),
            answer=_WRITERS[type(answer)](answer),
            sha256="",
        )
    )
    return {**document, "sha256": documents.content_hash(document)}


_SECRET: Any = "operating system"


def _own_guarantee(answer: PaidAnswer) -> Guarantee:
    """The guarantee of what the answer itself released."""
    if isinstance(answer, ChosenFit):
        return answer.choice_guarantee
    own: Guarantee = answer.guarantee
    return own


def _stated_guarantee(answer: PaidAnswer) -> Guarantee:
    """The guarantee of all that is in the file; prices are added up, whoever reads it."""
    if not isinstance(answer, ChosenFit):
        return _own_guarantee(answer)
    each = [fit.guarantee for fit in paid_once(answer.candidates)]
    return compose([*each, answer.choice_guarantee])


def _curve_entry(answer: PrivateRoc) -> entries.CurveEntry:
    if answer.fit_guarantee is None:
        raise GuaranteeError(
            "the curve was bought with a fit and is a part of it; save the fit, whose file has it."
        )
    return entries.CurveEntry(
        n=answer.nobs,
        formula=answer.formula,
        fit_guarantee=documents.as_entry(answer.fit_guarantee),
        positive=answer.positive,
        loss=documents.loss_entry(answer.loss),
        counts=documents.counts_entry(answer.release),
        edges=_outer_edges(answer.release),
        auc=documents.finite(answer.auc),
        youden=documents.finite(answer.youden),
        topleft=documents.finite(answer.topleft),
    )


def _outer_edges(release: HistogramRelease) -> list[float]:
    edges = release.scale.edges(release.calibration.bins)
    return [float(edges[0]), float(edges[-1])]


def _candidates_entry(answer: ChosenFit) -> entries.CandidatesEntry:
    return entries.CandidatesEntry(
        n=answer.nobs,
        score=answer.calibration.score,
        target=documents.as_entry(answer.calibration.target),
        choice_guarantee=documents.as_entry(answer.choice_guarantee),
        labels=list(answer.labels),
        place=answer.place,
        candidates=[documents.release_document(fit) for fit in answer.candidates],
    )


_WRITERS: dict[type, Callable[[Any], entries.AnyAnswerEntry]] = {
    PrivateRoc: _curve_entry,
    ChosenFit: _candidates_entry,
    SuggestedBounds: declared.ranges_entry,
    ReleasedLevels: declared.levels_entry,
}
"""A new answer is listed here, and in `restore_answer`."""


# -- reading -----------------------------------------------------------------------------------


def restore_answer(value: dict[str, Any]) -> AnyAnswer:
    """The answer of a value that was read from a file; see `privatelr.load`.

    Raises
    ------
    ReleaseFileError
        If the file is wrong. The message is part of a sentence.
    """
    json_values.require_version(value, entries.ANSWER_VERSION)
    document: entries.AnswerDocument = json_values.read_entry(value, entries.AnswerDocument)
    if document.sha256 != documents.content_hash(value):
        raise ReleaseFileError(
            "its content does not have the hash that it states, so it was changed after saving"
        )
    answer = _restore(document)
    written = answer_document(answer)
    written = {name: value[name] if name in _OPEN else written[name] for name in value}
    if isinstance(document.answer, entries.CandidatesEntry):
        # each was read as a file of its own, which another program may have written
        written["answer"]["candidates"] = value["answer"]["candidates"]
    if json_values.canonical(value) != json_values.canonical(written):  # rounding may differ
        json_values.require_same(value, written, "")
    return answer


def _restore(document: entries.AnswerDocument) -> AnyAnswer:
    given = document.answer
    match given:
        case entries.CurveEntry():
            return _restore_curve(document, given)
        case entries.RangesEntry():
            ranges, outer, made = declared.restore_ranges(given)
            paid = _paid(document, made.target, made)
            return SuggestedBounds(ranges, outer, made, *paid, given.identifier)
        case entries.LevelsEntry():
            told, chances = declared.restore_levels(given)
            paid = _paid(document, chances.target, chances)
            return ReleasedLevels(given.column, told, given.n, chances, *paid, given.identifier)
    return _restore_choice(document, given)


def _restore_curve(document: entries.AnswerDocument, given: entries.CurveEntry) -> PrivateRoc:
    found = _restore_counts(given.n, given.counts)
    guarantee, entry = _paid(document, found.calibration.target, found.calibration)
    loss = _restore_loss(given.loss)
    release = HistogramRelease(found.counts, found.scale, found.calibration, guarantee, entry)
    return PrivateRoc(release, loss, given.formula, given.positive, _fit_guarantee(given))


def _restore_choice(document: entries.AnswerDocument, given: entries.CandidatesEntry) -> ChosenFit:
    target = _restore_pure(given.target, "answer.target")
    labels = tuple(given.labels)
    if len({*labels}) < len(labels) or len(given.candidates) != len(labels):
        raise ReleaseFileError("answer.labels takes one label for each candidate")
    if given.place >= len(labels):
        raise ReleaseFileError(f"answer.place takes a whole number up to {len(labels) - 1}")
    fits = dict[str, ModelRecord]()
    for label, each in zip(labels, given.candidates, strict=True):
        try:  # a release that is there twice is one, which was paid for once
            fits.setdefault(str(each.get("sha256")), release_file.restore_fit(each))
        except ReleaseFileError as error:
            raise ReleaseFileError(f"candidate {show(label)}: {error}") from None
    candidates = tuple(fits[str(each.get("sha256"))] for each in given.candidates)
    with json_values.named("answer"):
        calibration = calibrate_choice(given.n, len(labels), given.score, target)
        own = parts.restore_guarantee(given.choice_guarantee, "answer.choice_guarantee")
        if not isinstance(own, NonPrivate) and own != target and not is_implied(own, target):
            raise ReleaseFileError(f"answer.choice_guarantee is {own}, and the choice has {target}")
        found = ChosenFit(given.place, labels, candidates, calibration, own)
        stated = _stated_guarantee(found)  # refuses what cannot be added up
    if parts.restore_guarantee(document.guarantee, "guarantee") != stated:
        raise ReleaseFileError(f"guarantee takes {stated}, which all prices add up to")
    if any(fit.guarantee.neighbours is not target.neighbours for fit in candidates):
        raise ReleaseFileError("answer.target takes a guarantee about the same as the candidates'")
    entry = read_charge(document.ledger, own, [calibration])
    require_column(entry, candidates[0].spec)
    return ChosenFit(given.place, labels, candidates, calibration, own, entry)


def _restore_counts(n: int, entry: ScoreCountsEntry) -> HistogramRelease:
    about = parts.neighbours_of(entry.target)
    found = parts.restore_histogram(entry, n, about, where="answer.counts")
    assert found is not None
    if isinstance(found.calibration.target, NonPrivate):
        raise ReleaseFileError("answer.counts.target takes a guarantee")
    return found


def _restore_loss(entry: Any) -> Any:
    """The loss of a fit, or what stands in its place where columns were chosen."""
    if not isinstance(entry, dict) or entry.get("name") != WorstMargins.name:
        return parts.restore_loss(entry, "answer.loss")
    density = entry.get("density")
    if entry.keys() != {"name", "density"} or not (isinstance(density, float) and 0 < density < 1):
        raise ReleaseFileError("answer.loss takes a density above 0 and below 1")
    return WorstMargins(density)


def _restore_pure(entry: Any, where: str) -> PureDP:
    target = parts.restore_target(entry, where, parts.neighbours_of(entry))
    assert isinstance(target, PureDP)
    return target


def _fit_guarantee(given: entries.AboutEntry) -> Guarantee:
    return parts.restore_guarantee(given.fit_guarantee, "answer.fit_guarantee")


def _paid(
    document: entries.AnswerDocument, target: Guarantee, calibration: Any
) -> tuple[Guarantee, Entry | None]:
    """The guarantee of an answer, which is its target or void, and its charge."""
    guarantee = parts.restore_guarantee(document.guarantee, "guarantee")
    if isinstance(guarantee, NonPrivate):
        if not guarantee.reason.startswith("void: "):
            raise ReleaseFileError("guarantee.reason takes 'void: ' and why, beside noise")
    elif guarantee != target and not is_implied(guarantee, target):
        raise ReleaseFileError(f"guarantee is {guarantee}, and the noise was made for {target}")
    return guarantee, read_charge(document.ledger, guarantee, [calibration])
