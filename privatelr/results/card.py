"""The privacy card: what a release promises, to whom, what it does not, and how to check it.

Every fact on the card is read from the record of the fit, which is what the release file holds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from privatelr.errors import ArgumentError, ReleaseFileError, require_choice
from privatelr.numerics.losses import describe
from privatelr.privacy.conversions import to_approximate
from privatelr.privacy.guarantees import ZCDP, ApproxDP, NonPrivate, Promise, PureDP
from privatelr.results.card_layout import (
    Alarm,
    Bullets,
    Code,
    Heading,
    Paragraph,
    Piece,
    Table,
    as_html,
    as_markdown,
)
from privatelr.results.release_document import release_document

if TYPE_CHECKING:
    from privatelr.frames.variables import Variable
    from privatelr.privacy.accounting import Entry
    from privatelr.results.record import FitRecord

CardFormat = Literal["markdown", "html"]
_SCHEMA = (
    'python -c "from importlib.resources import files; '
    "print(files('privatelr.results') / 'release.schema.json')\""
)
_SOURCES = {
    "operating system": "drawn from the operating system, and not kept",
    "seed": "drawn from a seed, so whoever has the seed can take it off",
    "no noise": "there is none",
}
_LARGEST_SHOWN = 20.0
"""Beyond this epsilon its exponential says nothing to anyone."""
_EXAMPLE_DELTA = 1e-6


def write_card(fit: FitRecord, format: CardFormat) -> str:
    """The card as Markdown or as an HTML page; see `Fit.card`."""
    require_choice(ArgumentError, "format", format, ("markdown", "html"))
    try:
        document = release_document(fit)
    except ReleaseFileError as error:
        raise ReleaseFileError(f"card: {error}.") from None
    pieces: list[Piece] = [
        Heading("Privacy card"),
        Paragraph(f"{_adverb(fit)} {fit.calibration.problem.loss.title} of {fit.nobs} records:"),
        Code(fit.formula),
        *_promise(fit, document),
        *_limits(fit),
        Heading("How it was done"),
        Table(_mechanism(fit, document)),
        Heading("What was declared, without a look at the data"),
        *_declared(fit),
        Heading("What is released"),
        *_released(fit),
        Heading("How to check this"),
        *_checks(document, parts=1 if fit.release.moments is None else 2),
    ]
    return as_html(pieces) if format == "html" else as_markdown(pieces)


def _adverb(fit: FitRecord) -> str:
    return "Non-private" if isinstance(fit.guarantee, NonPrivate) else "Differentially private"


# -- what is promised ------------------------------------------------------------------------


def _promise(fit: FitRecord, document: dict[str, Any]) -> list[Piece]:
    guarantee, others = fit.guarantee, fit.nobs - 1
    heading = Heading("What is promised, and to whom")
    if isinstance(guarantee, NonPrivate):
        return [
            heading,
            Alarm(f"Nothing in this release is private ({guarantee.reason})."),
            Paragraph(
                f"The noise: {_SOURCES[document['randomness']]}. The estimates may tell of single "
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
        f"{' and the matrices for inference' if fit.release.moments else ''}."
    )
    return [heading, Paragraph(whom), Paragraph(f"{knows} {_odds(guarantee)}")]


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


def _limits(fit: FitRecord) -> list[Piece]:
    if isinstance(fit.guarantee, NonPrivate):
        return []
    limits = [
        _groups(fit.guarantee),
        "Other releases about the same records add to what is learned; this card is about one.",
        "What holds for people in general is learned, as it is meant to be, and so it is learned "
        "about you as well.",
        f"The number of records, n = {fit.nobs}, is public, and so are names, bounds and levels.",
        "Diagnostics of the training data (C-index, ROC curve), which the fit shows its analyst "
        "below a line, are not covered, and not in the release file.",
        *_learned_threshold(fit),
        "Time and memory of the computation are not covered, nor is the computer that holds the "
        "data.",
    ]
    return [Heading("What is not promised"), Bullets(limits)]


def _learned_threshold(fit: FitRecord) -> list[str]:
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


# -- how -------------------------------------------------------------------------------------


def _mechanism(fit: FitRecord, document: dict[str, Any]) -> list[tuple[str, str]]:
    calibration, spec = fit.calibration, fit.spec
    problem = calibration.problem
    rows = [
        ("Guarantee", str(fit.guarantee)),
        *_spent(fit),
        ("Neighbours", fit.guarantee.neighbours.value),
        ("Records", f"n = {problem.n}"),
        ("Rows", f"d = {problem.d} columns, no row longer than R = {problem.radius:.6g}"),
        ("Row length", _row_length(fit)),
        ("Loss", describe(problem.loss)),
        ("Lambda", f"{calibration.lambda_:.6g}, {calibration.lambda_origin}"),
    ]
    if spec.projection is not None:
        width = spec.projection.shape[1]
        drawn = f"{spec.p} covariates onto {width} random directions, drawn without the data"
        rows.append(("Projection", drawn))
    if calibration.noise.scale > 0:
        rows += _noise(fit)
    else:
        rows.append(("Mechanism", "none: the regularised minimiser itself"))
    return [
        *rows,
        *_noise_of_matrices(fit),
        ("Randomness", _SOURCES[document["randomness"]]),
        ("Threshold", _threshold(fit)),
        ("Ledger", _ledger(fit.release.entry)),
        ("Software", ", ".join(f"{name} {v}" for name, v in document["written_by"].items())),
    ]


def _spent(fit: FitRecord) -> list[tuple[str, str]]:
    """What the guarantee paid for."""
    if isinstance(fit.guarantee, NonPrivate):
        return []
    moments = fit.release.moments
    if moments is None:
        return [("Spent", "all of it on the coefficients")]
    first, second = fit.calibration.target, moments.calibration.target
    return [("Spent", f"{first} on the coefficients; {second} on the matrices for inference")]


def _noise(fit: FitRecord) -> list[tuple[str, str]]:
    calibration = fit.calibration
    noise, shield = calibration.noise, calibration.shield
    kind = f"{calibration.placement} perturbation"
    place = "objective" if calibration.placement == "objective" else "minimiser"
    rows = [
        ("Mechanism", f"{kind}, calibrated by the {calibration.analysis} bound"),
        ("Noise", f"{noise.title}, scale {noise.scale:.6g}, added to the {place}"),
    ]
    if shield.scale > 0:
        rows.append(("Shield", f"{shield.title}, scale {shield.scale:.6g}, added to the minimiser"))
    return [
        *rows,
        (
            "Certificate",
            f"gradient of the objective in its sum form at most {calibration.tau:.6g}; the "
            "distance to the exact minimiser is covered by the guarantee",
        ),
        ("Rounding", f"to multiples of {calibration.grid:.6g}, decided exactly"),
    ]


def _noise_of_matrices(fit: FitRecord) -> list[tuple[str, str]]:
    moments = fit.release.moments
    if moments is None or moments.calibration.noise.scale == 0:
        return []
    calibration = moments.calibration
    noise = calibration.noise
    return [
        (
            "Matrices for inference",
            f"{noise.title} noise, scale {noise.scale:.6g}, added to their {noise.dimension} "
            f"numbers together; rounded to multiples of {calibration.grid:.6g}, decided exactly",
        )
    ]


def _row_length(fit: FitRecord) -> str:
    spec = fit.spec
    constant = "no intercept" if spec.intercept is None else f"intercept {spec.intercept:g}"
    source = "from the declared bounds and levels"
    if spec.bound_source == "row_norm":
        source = "longer ones are shortened (row_norm)"
        if spec.unbounded:
            source += f"; without bounds: {', '.join(spec.unbounded)}"
    return f"covariates of length {spec.bound:.6g} at most, {source}; {constant}"


def _threshold(fit: FitRecord) -> str:
    rule = fit.threshold.rule
    return f"learned ({rule}), not private" if rule else f"{fit.threshold.value:g}, public"


def _ledger(entry: Entry | None) -> str:
    if entry is None:
        return "no ledger was charged"
    part = f", part {entry.part!r}" if entry.part is not None else ""
    times = f", {entry.times} times" if entry.times > 1 else ""
    return f"charged with {entry.guarantee} for {entry.label!r}{part}{times}"


def _declared(fit: FitRecord) -> list[Piece]:
    rows = [(v.name, v.kind, _range(v)) for v in fit.spec.variables.values()]
    response = fit.spec.response.describe()
    return [
        Table(rows, ("Variable", "Kind", "Declared")),
        Paragraph(f"Response {response}."),
        Paragraph(
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


def _released(fit: FitRecord) -> list[Piece]:
    estimates, headers = fit.coef, ["Coefficient", "Estimate"]
    rows = [[name, f"{value:.6g}"] for name, value in estimates.items()]
    also = ", the two matrices below" if fit.release.moments else ""
    note = f"These numbers{also}, and whatever is computed from them, are all that was released."
    if not isinstance(fit.guarantee, NonPrivate):
        headers.append("Privacy sd, at most")
        for row, spread in zip(rows, fit.privacy_sd_limit, strict=True):
            row.append(f"{spread:.3g}")
        note += " The privacy sd is what the noise adds; it was computed without the data."
    return [Table(rows, headers), Paragraph(note), *_matrices(fit)]


def _matrices(fit: FitRecord) -> list[Piece]:
    """What inference is made of, in words; a matrix is not for reading."""
    moments = fit.release.moments
    if moments is None:
        return []
    d = fit.spec.d
    noisy = "without noise" if moments.calibration.noise.scale == 0 else "with noise"
    return [
        Paragraph(
            f"The matrices have {d} rows and {d} columns. They are the curvature of the loss and "
            f"the second moment of its gradient at the estimates, both means over the records, "
            f"{noisy}, in the units of the design. Standard errors, tests and intervals are "
            "computed from them, however often, without the data. They are in the release file "
            "under 'inference'."
        )
    ]


# -- how to check ----------------------------------------------------------------------------


def _checks(document: dict[str, Any], parts: int) -> list[Piece]:
    guarantee = "the guarantee from the noise"
    if parts > 1:
        guarantee = "both parts of the guarantee from their noise, and their sum"
    return [
        Paragraph("Content hash (SHA-256) of the release file, as this software writes it:"),
        Code(document["sha256"]),
        Paragraph(
            "Reading the file compares the hash, plans the columns and the row length again from "
            f"formula, bounds and levels, and recomputes {guarantee}. The hash finds accidents; it "
            "does not say who wrote the file."
        ),
        Code('import privatelr\nprivatelr.load("model.json")'),
        Paragraph("Try to break the mechanism, on your own computer:"),
        Code("privatelr audit"),
        Paragraph("A JSON Schema for programs that check such files is part of the package:"),
        Code(_SCHEMA),
    ]
