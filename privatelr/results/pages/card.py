"""The privacy card: what a release promises, to whom, what it does not, and how to check it.

Every fact on the card is read from the record of the fit, which is what the release file holds.
"""

from __future__ import annotations

import math
from typing import Any, Literal, cast

import numpy as np

from privatelr import page_model
from privatelr.design import Variable
from privatelr.errors import ArgumentError, ReleaseFileError, require_choice
from privatelr.page_model import Alarm, Bullets, Code, FactList, Heading, Listing, Piece
from privatelr.privacy import ZCDP, ApproxDP, NonPrivate, Promise, PureDP, to_approximate
from privatelr.results.fit_record import (
    FitRecord,
    ModelRecord,
    SelectedRecord,
    in_user_units,
    limits_at,
)
from privatelr.results.pages.sentences import SOURCES, adverb, facts_of_card
from privatelr.results.pages.summary_table import shown_rows
from privatelr.results.release_files.document import release_document
from privatelr.results.release_files.origin import recomputed, stated

CardFormat = Literal["markdown", "html"]
_SCHEMA = (
    'python -c "from importlib.resources import files; '
    "print(files('privatelr.results') / 'release.schema.json')\""
)
_LARGEST_SHOWN = 20.0
"""Beyond this epsilon its exponential says nothing to anyone."""
_EXAMPLE_DELTA = 1e-6


def write_card(fit: ModelRecord, format: CardFormat) -> str:
    """The card as Markdown or as an HTML page; see `Fit.card`."""
    require_choice(ArgumentError, "format", format, ("markdown", "html"))
    try:
        document = release_document(fit)
    except ReleaseFileError as error:
        raise ReleaseFileError(f"card: {error}.") from None
    pieces: list[Piece] = [
        Heading("Privacy card"),
        f"{adverb(fit)} {_title(fit)} of {fit.nobs} records:",
        Code(fit.formula),
        *_promise(fit, document),
        *_limits(fit),
        Heading("How it was done"),
        FactList(facts_of_card(fit, document)),
        Heading("What was declared, without a look at the data"),
        *_declared(fit),
        Heading("What is released"),
        *_released(fit),
        *_shown_by_the_file(fit),
        Heading("How to check this"),
        *_checks(document),
    ]
    return page_model.as_document(pieces) if format == "html" else page_model.as_markdown(pieces)


def _title(fit: ModelRecord) -> str:
    return fit.calibration.title if isinstance(fit, SelectedRecord) else fit.loss.title


def _moments(fit: ModelRecord) -> bool:
    """Whether what inference is made of is in the release."""
    return isinstance(fit, FitRecord) and fit.release.moments is not None


def _released(fit: ModelRecord) -> list[Piece]:
    if isinstance(fit, SelectedRecord):
        return _selected(fit)
    return _perturbed(cast("FitRecord", fit))


# -- what is promised ------------------------------------------------------------------------


def _promise(fit: ModelRecord, document: dict[str, Any]) -> list[Piece]:
    guarantee, others = fit.guarantee, fit.nobs - 1
    heading = Heading("What is promised, and to whom")
    if isinstance(guarantee, NonPrivate):
        return [
            heading,
            Alarm(f"Nothing in this release is private ({guarantee.reason})."),
            (
                f"The noise: {SOURCES[document['randomness']]}. The estimates may tell of single "
                "records. Treat this release as you treat the data that it was computed from."
            ),
        ]
    whom = (
        f"To everyone who has one of the {fit.nobs} records: {guarantee}. Neighbouring data sets "
        f"{guarantee.neighbours.value}."
    )
    knows = (
        f"Suppose someone knows the other {others} records and everything on this card but the "
        "estimates, and can compute without limit. Then they see the estimates"
        f"{' and the matrices for inference' if _moments(fit) else ''}."
    )
    return [heading, whom, f"{knows} {_odds(guarantee)}"]


def _odds(guarantee: Promise) -> str:
    match guarantee:
        case PureDP(epsilon=epsilon):
            return (
                "The odds between any two guesses about your record change by a factor of at most "
                f"{_factor(epsilon)}: a guess that was as likely as not can become "
                f"{_percent(epsilon)} sure at most."
            )
        case ApproxDP(epsilon=epsilon, delta=delta):
            return (
                "Whatever they may conclude is at most "
                f"{_factor(epsilon)} times as probable as it would be with any other record in "
                f"place of yours, plus {delta:.3g}."
            )
        case ZCDP():
            implied = to_approximate(guarantee, _EXAMPLE_DELTA)
            return (
                "Whatever they may conclude is at most "
                f"{_factor(implied.epsilon)} times as probable as it would be with any other "
                f"record in place of yours, plus {implied.delta:.3g}, and so on for any other "
                "delta by the formulas of zero-concentrated privacy."
            )


def _factor(epsilon: float) -> str:
    value = f" = {math.exp(epsilon):.3g}" if epsilon <= _LARGEST_SHOWN else ""
    return f"exp({epsilon:.6g}){value}"


def _percent(epsilon: float) -> str:
    sure = 100.0 / (1.0 + math.exp(-epsilon))
    return f"{sure:.1f}%" if sure < 99.5 else "more than 99%"


# -- what is not -----------------------------------------------------------------------------


def _limits(fit: ModelRecord) -> list[Piece]:
    if isinstance(fit.guarantee, NonPrivate):
        return []
    limits = [
        _groups(fit.guarantee),
        "Other releases about the same records add to what is learned; this card is about one.",
        "What holds for people in general is learned, as it is meant to be, and so it is learned "
        "about you as well.",
        f"The number of records, n = {fit.nobs}, is public, and so are names, bounds and levels.",
        "Diagnostics of the training data (C-index, ROC curve, counts), which the fit shows its "
        "analyst when asked, are not covered, and not in the release file.",
        *_learned_threshold(fit),
        "Time and memory of the computation are not covered, nor is the computer that holds the "
        "data.",
    ]
    return [Heading("What is not promised"), Bullets(limits)]


def _learned_threshold(fit: ModelRecord) -> list[str]:
    rule = fit.threshold.rule
    if rule is None:
        return []
    return [
        f"The threshold of predicted classes ({rule}) was learned from the training data. It is "
        "not in the release file, and classes that are split by it are not covered."
    ]


def _groups(guarantee: Promise) -> str:
    start = "A group of k records is covered with"
    match guarantee:
        case PureDP(epsilon=epsilon):
            return (
                f"{start} k times epsilon; for a household of four the factor is "
                f"{_factor(4 * epsilon)}."
            )
        case ZCDP(rho=rho):
            return f"{start} k squared times rho; for a household of four, rho = {16 * rho:.6g}."
        case ApproxDP(epsilon=epsilon, delta=delta):
            return (
                f"{start} k times epsilon = {epsilon:.6g}, and at most k exp((k - 1) epsilon) "
                f"times delta = {delta:.3g}."
            )


# -- what was declared ------------------------------------------------------------------------


def _declared(fit: ModelRecord) -> list[Piece]:
    rows = [(v.name, v.kind, _range(v)) for v in fit.spec.variables.values()]
    response = fit.spec.response.describe()
    return [
        Listing(("Variable", "Kind", "Declared"), rows),
        f"Response {response}.",
        (
            "The promise takes these as public: they must come from knowledge of the subject, not "
            "from the table. Values beyond a bound count as the bound."
        ),
    ]


def _range(variable: Variable) -> str:
    if variable.kind == "logical":
        return "False, True"
    if variable.levels:
        return ", ".join(map(str, variable.levels))
    if variable.kind == "numeric" and variable.is_bounded:
        low, high = variable.bounds
        return f"from {low:g} to {high:g}"
    return "nothing"


# -- how to check ----------------------------------------------------------------------------


def _shown_by_the_file(fit: ModelRecord) -> list[Piece]:
    """What a reader of the release file can know, and what remains the word of its writer."""
    origin = fit.origin
    if origin is None:
        heading = Heading("What can be checked in the release file")
        checks, word = "Reading the file recomputes:", "What remains the word of its writer:"
    else:
        heading = Heading("What was checked when the release file was read")
        checks = f"This fit was {origin.source}. Reading it recomputed:"
        word = "Stated by the writer of the file, and not checkable:"
    return [
        heading,
        checks,
        Bullets(recomputed(fit)),
        word,
        Bullets(stated(fit)),
    ]


def _checks(document: dict[str, Any]) -> list[Piece]:
    return [
        "Content hash (SHA-256) of the release file, as this software writes it:",
        Code(document["sha256"]),
        (
            "The file is signed if it was saved with a key; a reader who has the public key from "
            "its owner then sees who wrote it."
        ),
        Code(
            'import privatelr\nfit = privatelr.load("model.json")\n'
            'fit = privatelr.load("model.json", public_key="writer.pem")  # if it is signed\n'
            "print(fit.origin)"
        ),
        "Try to break the mechanism, on your own computer:",
        Code("privatelr audit"),
        "A JSON Schema for programs that check such files is part of the package:",
        Code(_SCHEMA),
    ]


_MOST_ROWS = 200


def _selected(fit: SelectedRecord) -> list[Piece]:
    """The coefficients that are not zero, and how often their columns were chosen."""
    d, counts = fit.spec.d, fit.release.counts
    estimates = fit.coef
    shown = [int(index) for index in np.flatnonzero(fit.release.coef)]
    rows = [
        [estimates.index[index], f"{estimates.iloc[index]:.6g}", *_times(counts, index, d)]
        for index in shown[:_MOST_ROWS]
    ]
    headers = ["Coefficient", "Estimate", "Times +", "Times -"]
    ordered = ", the order of the choices" if fit.release.path is not None else ""
    more = f" The table shows {_MOST_ROWS} of {len(shown)}." if len(shown) > _MOST_ROWS else ""
    note = (
        f"These numbers{ordered}, and whatever is computed from them, are all that was released. "
        f"{d - len(shown)} of {d} coefficients are zero in the units of the design.{more}"
    )
    return [Listing(headers, rows), note]


def _times(counts: Any, index: int, d: int) -> tuple[str, str]:
    return str(counts[index]), str(counts[d + index])


def _perturbed(fit: FitRecord) -> list[Piece]:
    """The estimates, and what else is in the release."""
    estimates, headers = in_user_units(fit), ["Coefficient", "Estimate"]
    names, shown = fit.spec.columns.names, shown_rows(estimates)
    rows = [[names[row], f"{estimates[row]:.6g}"] for row in shown]
    also = ", the two matrices below" if fit.release.moments else ""
    if len(shown) < len(estimates):
        also = f", {len(estimates)} of which the {len(shown)} largest are shown{also}"
    note = f"These numbers{also}, and whatever is computed from them, are all that was released."
    if not isinstance(fit.guarantee, NonPrivate):
        headers.append("Privacy sd, at most")
        for row, limit in zip(rows, limits_at(fit, shown), strict=True):
            row.append(f"{limit:.3g}")
        note += " The privacy sd is what the noise adds; it was computed without the data."
    return [Listing(headers, rows), note, *_matrices(fit)]


def _matrices(fit: FitRecord) -> list[Piece]:
    """What inference is made of, in words; a matrix is not for reading."""
    moments = fit.release.moments
    if moments is None:
        return []
    d = fit.spec.d
    noisy = "without noise" if moments.calibration.noise.scale == 0 else "with noise"
    return [
        (
            f"The matrices have {d} rows and {d} columns. They are the information matrix (the "
            "curvature of the loss) and "
            f"the second moment of its gradient at the estimates, both means over the records, "
            f"{noisy}, in the units of the design. Standard errors, tests and intervals are "
            "computed from them, however often, without the data. They are in the release file "
            "under 'inference'."
        )
    ]
