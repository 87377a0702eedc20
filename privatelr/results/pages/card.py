"""The privacy card: what a release promises and to whom, what it does not, and how to check it.

Every fact on the card comes from the record of the fit, which is the content of the release file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from privatelr import page_model
from privatelr.design import Variable
from privatelr.errors import ArgumentError, ReleaseFileError, require_choice
from privatelr.mechanisms import STAGES, in_order
from privatelr.page_model import Bullets, Code, Heading, Listing, Piece, in_words
from privatelr.privacy import (
    REPLACE_PERSON,
    ZCDP,
    ApproxDP,
    Guarantee,
    NonPrivate,
    Promise,
    PureDP,
    to_approximate,
)
from privatelr.results.answers.paid_answer import PaidAnswer
from privatelr.results.fit_record import FitRecord, ModelRecord, NoisyRecord
from privatelr.results.pages import sentences
from privatelr.results.pages.coefficient_table import shown_rows
from privatelr.results.pages.sentences import beyond_promise, sentences_of_paid
from privatelr.results.release_files.origin import checked, recomputed, sample_of, stated
from privatelr.results.release_files.release_file import kind_of, release_document

if TYPE_CHECKING:
    from privatelr.results.strata_of_fits import Strata

CardFormat = Literal["markdown", "html"]
_SCHEMA = (
    'python -c "from importlib.resources import files; '
    "print(files('privatelr.results') / 'release.schema.json')\""
)
_LOAD = """\
import privatelr
release = privatelr.load("release.json")
print(release)"""
_ENOUGH = (
    "The law of the noise, or of the choice, is enough for the guarantee, by the proof that the "
    "answer itself used."
)
_LARGEST_SHOWN = 20.0
"""The card shows the exponential of an epsilon up to this one."""
_EXAMPLE_DELTA = 1e-6
_MOST_ROWS = 200
"""The card lists at most this number of chosen columns."""


def written(pieces: list[Piece], format: CardFormat) -> str:
    """The card as Markdown or as an HTML page; see `Fit.card`."""
    require_choice(ArgumentError, "format", format, ("markdown", "html"))
    return page_model.as_document(pieces) if format == "html" else page_model.as_markdown(pieces)


def _document_of(release: ModelRecord | PaidAnswer) -> dict[str, Any]:
    try:
        return release_document(release)
    except ReleaseFileError as error:
        raise ReleaseFileError(f"card: {error}.") from None


# -- a fit ---------------------------------------------------------------------------------------


def pieces_of_fit(fit: ModelRecord) -> list[Piece]:
    """The card of a fit."""
    document = _document_of(fit)
    return [
        Heading("Privacy card"),
        f"{sentences.title(fit)} of {sample_of(fit)}{sentences.of_strata(fit)}:",
        Code(fit.formula),
        Heading("What is promised, and to whom"),
        *_promise(fit, document),
        Heading("How it was done"),
        page_model.FactList(sentences.facts_of_card(fit, document)),
        Heading("What was declared"),
        Listing(
            ("Variable", "Kind", "Declared"),
            [(v.name, v.kind, _range(v)) for v in fit.spec.variables.values()],
        ),
        "A promise takes these as public: they must come from knowledge of the subject, or from "
        "a release that was paid for apart, such as suggest_bounds, and not from a look at the "
        "table. Values beyond a bound count as the bound.",
        *_void_declarations(fit),
        Heading("What is released"),
        *fit.kind.released(fit),
        *_checks(fit, document, recomputed(fit, checked(fit)), stated(fit)),
        "Try to break the mechanism, on your own computer:",
        Code("privatelr audit"),
        "A JSON Schema for programs that check such files is part of the package:",
        Code(_SCHEMA),
    ]


def _void_declarations(fit: ModelRecord) -> list[str]:
    """Say of a void fit that declarations may come from the data."""
    if isinstance(fit.guarantee, NonPrivate) and fit.guarantee.reason.startswith("void: "):
        return ["The fit is void for the reason above. Some declarations may come from the data."]
    return []


_UNCOVERED = (
    "{} of the training data (C-index, ROC curve, counts), which the fit shows its analyst when "
    "asked, are not covered, and not in the release file."
)


# -- the promise of a fit, and its limits -----------------------------------------------------


def _promise(fit: ModelRecord, document: dict[str, Any]) -> list[Piece]:
    guarantee = fit.guarantee
    if isinstance(guarantee, NonPrivate):
        return [
            page_model.Alarm(f"Nothing in this release is private ({guarantee.reason})."),
            f"The noise: {sentences.SOURCES[document['randomness']]}. The estimates may tell of "
            "single records. Treat this release as you treat the data that it was computed from.",
        ]
    exact = "Exact diagnostics" if fit.has_roc else "Diagnostics"
    seen = ["the estimates", *fit.kind.seen(fit)]
    hidden = "the estimates and the ROC curve" if fit.has_roc else "the estimates"
    odds, groups = meaning(guarantee)
    whom, others = f"everyone who has one of the {fit.nobs} records", f"{fit.nobs - 1} records"
    public, of = f"The number of records, n = {fit.nobs}, is public", "records"
    if guarantee.neighbours is REPLACE_PERSON:
        whom, of = f"each of {fit.nobs} persons, for all records that they have", "persons"
        others = f"{fit.nobs - 1} persons with all their records"
        public = f"The number of persons, m = {fit.nobs}, is public (that of records is not)"
    limits = [
        f"A group of k {of} is covered with {groups}.",
        "Other releases about the same records add to what is learned; this card is about one.",
        "What holds for people in general is learned, as it is meant to be, and so it is learned "
        "about you as well.",
        f"{public}, and so are names, bounds and levels.",
        *([] if fit.spec.response.kind == "classes" else [_UNCOVERED.format(exact)]),
        "Time and memory of the computation are not covered, nor is the computer that holds the "
        "data.",
    ]
    if fit.spec.formula.by is not None:
        limits[1] += " The fits to other strata of the same call are covered by the same promise."
    if beyond := beyond_promise(fit.spec):
        limits.insert(2, f"{beyond[0].upper()}{beyond[1:]}, even where they are among these.")
    if fit.spec.formula.person is not None:
        limits.insert(
            1,
            f"Records are of one person where {fit.spec.formula.person.column!r} has the same "
            "value, and also where it has none. Someone with k values in it is covered as a group "
            "of k persons.",
        )
    if isinstance(fit.threshold, str) and not fit.has_roc:
        limits.insert(
            -1,
            f"The threshold of predicted classes ({fit.threshold}) was learned from the "
            "training data. It is not in the release file, and classes that are split by it are "
            "not covered.",
        )
    return [
        f"To {whom}: {guarantee}. Neighbouring data sets {guarantee.neighbours.value}.",
        f"Suppose someone knows the other {others} and everything on this card but "
        f"{hidden}, and can compute without limit. Then they see {in_words(seen)}. {odds}",
        Heading("What is not promised"),
        Bullets([*sentences.unseen_records(fit), *limits]),
    ]


def meaning(guarantee: Promise) -> tuple[str, str]:
    """The meaning of a guarantee for a conclusion about one record or person, and for a group."""
    odds, groups = _meaning_for_records(guarantee)
    if guarantee.neighbours is REPLACE_PERSON:
        odds = odds.replace("your record", "your records").replace("any other record ", "others ")
    return odds, groups


def _meaning_for_records(guarantee: Promise) -> tuple[str, str]:
    concluded = (
        "Whatever they may conclude is at most {} times as probable as it would be with any other "
        "record in place of yours, plus {:.3g}"
    )
    match guarantee:
        case PureDP(epsilon=epsilon):
            sure = 100.0 / (1.0 + math.exp(-epsilon))
            return (
                "The odds between any two guesses about your record change by a factor of at most "
                f"{_factor(epsilon)}: a guess that was as likely as not can become "
                f"{f'{sure:.1f}%' if sure < 99.5 else 'more than 99%'} sure at most.",
                f"k times epsilon; for a household of four the factor is {_factor(4 * epsilon)}",
            )
        case ApproxDP(epsilon=epsilon, delta=delta):
            return (
                f"{concluded.format(_factor(epsilon), delta)}.",
                f"k times epsilon = {epsilon:.6g}, and at most k exp((k - 1) epsilon) times delta "
                f"= {delta:.3g}",
            )
        case ZCDP(rho=rho):
            implied = to_approximate(guarantee, _EXAMPLE_DELTA)
            return (
                f"{concluded.format(_factor(implied.epsilon), implied.delta)}, and so on for any "
                "other delta by the formulas of zero-concentrated privacy.",
                f"k squared times rho; for a household of four, rho = {16 * rho:.6g}",
            )


def _factor(epsilon: float) -> str:
    value = f" = {math.exp(epsilon):.3g}" if epsilon <= _LARGEST_SHOWN else ""
    return f"exp({epsilon:.6g}){value}"


def _range(variable: Variable) -> str:
    if variable.kind == "logical":
        return "False, True"
    if variable.levels:
        return ", ".join(map(str, variable.levels))
    if variable.kind == "numeric" and variable.is_bounded:
        return "from {:g} to {:g}".format(*variable.bounds)
    return "nothing"


# -- the release of a fit, and how to check it -------------------------------------------------


def seen_next_to_noise(fit: NoisyRecord) -> list[str]:
    """What is released next to estimates with noise."""
    return [STAGES[name].seen() for name in in_order(fit.release.parts)]


def released_with_noise(fit: FitRecord) -> list[Piece]:
    """The table of estimates, and a description of the matrices of inference in words."""
    estimates, names, moments = fit.kind.estimates(fit), fit.kind.names(fit), fit.release.moments
    headers, shown = ["Coefficient", "Estimate"], shown_rows(estimates)
    rows = [[names[row], f"{estimates[row]:.6g}"] for row in shown]
    also = ", the two matrices below" if moments else ""
    also = f", the moments below{also}" if fit.release.scale is not None else also
    also = f", the counts of scores by class{also}" if fit.has_roc else also
    if len(shown) < len(estimates):
        also = f", {len(estimates)} of which the {len(shown)} largest are shown{also}"
    note = f"These numbers{also}, and whatever is computed from them, are all that was released."
    if fit.spec.response.kind == "classes":
        note += f" They are log odds against {fit.spec.response.classes[0]}, the reference."
    if not isinstance(fit.guarantee, NonPrivate):
        headers.append("Privacy sd, at most")
        for cells, limit in zip(rows, fit.kind.noise(fit, shown)[1], strict=True):
            cells.append(f"{limit:.3g}")
        of_scale = "" if fit.release.scale is None else ", but for the released scale"
        note += f" The privacy sd is what the noise adds; computed without the data{of_scale}."
    below = [Listing(headers, rows), note, *_moments_of_columns(fit)]
    if moments is None:
        return below
    d, noise = fit.spec.d, moments.calibration.noise
    return [
        *below,
        f"The matrices have {d} rows and {d} columns. They are the information matrix (the "
        "curvature of the loss) and the second moment of its gradient at the estimates, both means "
        f"over the records, {'without' if noise.scale == 0 else 'with'} noise, in the units of the "
        "design. Standard errors, tests and intervals are computed from them, however often, "
        "without the data. They are in the release file under 'inference'.",
    ]


def _moments_of_columns(fit: NoisyRecord) -> list[Piece]:
    """The released scale of the columns, if there is one."""
    if fit.scale is None:
        return []
    few = fit.scale.head(_MOST_ROWS)
    shown = few.map(lambda x: "-" if math.isnan(x) else f"{x:.4g}")
    rows = [[str(name), *cells] for name, *cells in shown.itertuples()]
    of_ranges = (
        " A thin number without these ends has the middle of its released range, and half its "
        "width over 1.15; its range is under 'ranges'."
    )
    return [
        Listing(
            ("Column", "Mean", "Noise sd of the mean", "Sd", "Sd at least", "Sd at most"), rows
        ),
        "Means and standard deviations by which the rows were standardised, with noise, over all "
        f"{sample_of(fit)}; one that could not be used counts as the middle of the bounds of "
        "every column, and as none of the levels. By the law of the noise the standard deviation "
        "of the records lies between the two ends in 95 % of fits or more, for each column. The "
        "moments are in the release file under 'scale', in scaled units."
        + of_ranges
        * bool(few.isna().any(axis=None)),
    ]


def _checks(
    release: ModelRecord | PaidAnswer,
    document: dict[str, Any],
    recomputed: Sequence[str],
    stated: Sequence[str],
) -> list[Piece]:
    """What a reader of the release file can check, how, and what its writer only states."""
    heading = "What can be checked in the release file"
    checks, word = "Reading the file recomputes:", "What remains the word of its writer:"
    if getattr(release, "origin", None) is not None:
        heading = "What was checked when the release file was read"
        checks = "This fit was read from a file. Reading it recomputed:"
        word = "Stated by the writer of the file, and not checkable:"
    return [
        Heading(heading),
        checks,
        Bullets(recomputed),
        word,
        Bullets(stated),
        Heading("How to check this"),
        "Content hash (SHA-256) of the release file, as this software writes it:",
        Code(document["sha256"]),
        Code(_LOAD),
    ]


# -- fits to strata ------------------------------------------------------------------------------


def pieces_of_strata(strata: Strata) -> list[Piece]:
    """The promise of all fits together, and then each one's card."""
    levels = ", ".join(map(str, strata.levels))
    pieces: list[Piece] = [
        Heading("Privacy card of strata"),
        f"A fit for each level of {strata.by}: {levels}. All of them together keep what each card "
        f"below promises: {strata.guarantee}. They were paid for once.",
        *sentences_of_paid([strata.first.spec], strata.guarantee),
        "A record counts in the fit of its own level, and is a row of zeros in the others. If it "
        "were another one, of whatever level, at most two of the fits would change. Which level "
        "a record has, and how many records a level has, is covered by the promise.",
    ]
    for level, fit in strata.items():
        pieces += [Heading(f"{strata.by} = {level}"), *pieces_of_fit(fit)]
    return pieces


# -- an answer -----------------------------------------------------------------------------------


def pieces_of_answer(answer: PaidAnswer) -> list[Piece]:
    """The card of an answer, and of the fit that it chose."""
    document, (_, kind) = _document_of(answer), kind_of(answer)
    verified = [_ENOUGH, kind.checked]
    pieces: list[Piece] = [
        Heading("Privacy card of an answer"),
        *_promise_of_answer(answer.guarantee),
        *(piece for piece in answer.page() if piece),
        *_checks(answer, document, recomputed(answer, verified), stated(answer, kind.stated)),
    ]
    if answer.fit is not None:
        pieces += [Heading("The chosen fit"), *pieces_of_fit(answer.fit)]
    return pieces


def _promise_of_answer(guarantee: Guarantee) -> list[Piece]:
    """What the guarantee says of a conclusion about one record, or about a person."""
    if isinstance(guarantee, NonPrivate):
        return [page_model.Alarm(f"This answer has no guarantee as a whole ({guarantee}).")]
    odds, groups = meaning(guarantee)
    of = "persons" if guarantee.neighbours is REPLACE_PERSON else "records"
    return [
        f"Suppose someone knows all other {of} and everything but this answer, and can compute "
        f"without limit. {odds} A group of k {of} is covered with {groups}."
    ]
