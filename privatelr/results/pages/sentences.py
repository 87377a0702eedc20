"""What the privacy card says of a mechanism and of its release, read from the record of the fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privatelr.numerics import describe
from privatelr.privacy import NonPrivate
from privatelr.results.fit_record import in_user_units, limits_at
from privatelr.results.pages.card_layout import CardTable, Paragraph, Piece
from privatelr.results.pages.summary_table import shortened_apart, shown_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from privatelr.privacy.accounting import Entry
    from privatelr.results.fit_record import FitRecord, ModelRecord

SOURCES = {
    "operating system": "drawn from the operating system, and not kept",
    "seed": "drawn from a seed, so whoever has the seed can take it off",
    "no noise": "there is none",
}


def perturbed_mechanism(fit: FitRecord, document: dict[str, Any]) -> list[tuple[str, str]]:
    """How noise was added to a minimiser or its objective, row by row."""
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
        rows.append(("Mechanism", "none: the minimiser of loss and penalty itself"))
    return [
        *rows,
        *_noise_of_matrices(fit),
        *common_facts(fit, document),
    ]


def common_facts(fit: ModelRecord, document: dict[str, Any]) -> list[tuple[str, str]]:
    """The rows that stand last for every model."""
    by_its_word = "; so its file states" if fit.origin else ""
    return [
        ("Randomness", f"{SOURCES[document['randomness']]}{by_its_word}"),
        ("Threshold", _threshold(fit)),
        ("Ledger", _ledger(fit.release.entry)),
        ("Software", ", ".join(f"{name} {version}" for name, version in _software(fit, document))),
    ]


def _software(fit: ModelRecord, document: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """What made the fit: for one that was read from a file, what its file states."""
    return fit.origin.written_by if fit.origin else document["written_by"].items()


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
        ("Mechanism", f"{kind} ({calibration.bound})"),
        ("Noise", f"{noise.title}, scale {noise.scale:.6g}, added to the {place}"),
    ]
    if shield.scale > 0:
        text = f"{shield.title}, scale {shield.scale:.6g}, which covers the approximate minimum"
        rows.append(("Small noise", text))
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
    if spec.bound_source == "declared bounds and row_norm":
        source = f"from the declared bounds and levels; {shortened_apart(spec)}"
    return f"covariates of length {spec.bound:.6g} at most, {source}; {constant}"


def _threshold(fit: ModelRecord) -> str:
    rule = fit.threshold.rule
    return f"learned ({rule}), not private" if rule else f"{fit.threshold.value:g}, public"


def _ledger(entry: Entry | None) -> str:
    if entry is None:
        return "no ledger was charged"
    part = f", part {entry.part!r}" if entry.part is not None else ""
    times = f", {entry.times} times" if entry.times > 1 else ""
    return f"charged with {entry.guarantee} for {entry.label!r}{part}{times}"


def perturbed_released(fit: FitRecord) -> list[Piece]:
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
    return [CardTable(rows, headers), Paragraph(note), *_matrices(fit)]


def _matrices(fit: FitRecord) -> list[Piece]:
    """What inference is made of, in words; a matrix is not for reading."""
    moments = fit.release.moments
    if moments is None:
        return []
    d = fit.spec.d
    noisy = "without noise" if moments.calibration.noise.scale == 0 else "with noise"
    return [
        Paragraph(
            f"The matrices have {d} rows and {d} columns. They are the information matrix (the "
            "curvature of the loss) and "
            f"the second moment of its gradient at the estimates, both means over the records, "
            f"{noisy}, in the units of the design. Standard errors, tests and intervals are "
            "computed from them, however often, without the data. They are in the release file "
            "under 'inference'."
        )
    ]
