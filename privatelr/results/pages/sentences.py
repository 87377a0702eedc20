"""What pages say of a fit: promise, mechanism, rows, lambda; read from its record alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from privatelr.design import DesignSpec, EntryBoundedMatrix, NormBoundedMatrix
from privatelr.inference import Inference, quality
from privatelr.mechanisms.calibration import Calibration
from privatelr.numerics import Loss, describe
from privatelr.privacy import Guarantee, NonPrivate
from privatelr.privacy.accounting import Entry
from privatelr.results.fit_record import FitRecord, ModelRecord, SelectedRecord

if TYPE_CHECKING:
    Rows = list[tuple[str, str]]

SOURCES = {
    "operating system": "drawn from the operating system, and not kept",
    "seed": "drawn from a seed, so whoever has the seed can take it off",
    "no noise": "there is none",
}
_UNMOVED = "none: the minimiser of loss and penalty itself"
_BY_BOUNDS = "declaring bounds={name: (lo, hi)} maps each variable onto [-1, 1]"
_REMEDY = f"{_BY_BOUNDS}, and usually loses less than shortening"
_UNSEEN = "nothing was estimated from the data"


def adverb(fit: ModelRecord) -> str:
    """How the model came about, in the words that its title begins with."""
    return "Non-private" if isinstance(fit.guarantee, NonPrivate) else "Differentially private"


# -- on the printed page and in a plan ---------------------------------------------------------


def neighbours(promise: str, n: int) -> str:
    """A promise, and between which data it holds."""
    return f"{promise}; neighbours replace one of n = {n} records"


def promise(fit: ModelRecord) -> str:
    """The guarantee, and what it bought."""
    if isinstance(fit.guarantee, NonPrivate):
        return f"{fit.guarantee}; nothing on this page is private"
    bought = ", coefficients only"
    if isinstance(fit, SelectedRecord):
        bought = f": the choices{'' if fit.release.path is None else ' and their order'}"
    elif moments := fit.release.moments:
        first, second = _price(fit.release.calibration.target), _price(moments.calibration.target)
        bought = f": coefficients {first}, inference {second}"
    return neighbours(f"{fit.guarantee}{bought}", fit.nobs)


def _price(guarantee: Guarantee) -> str:
    """The numbers of a guarantee, without its kind."""
    return str(guarantee).partition(" (")[0].replace(", ", " and ")


def mechanism(calibration: Calibration) -> str:
    """Where noise was added, and how much."""
    noise = calibration.noise
    if noise.scale == 0:
        return _UNMOVED
    return (
        f"{calibration.placement} perturbation, {noise.title} noise, scale {noise.scale:.3g} "
        f"({calibration.bound})"
    )


def loss(found: Loss) -> Rows:
    """Which of its family a loss is, where it is one of several."""
    return [("Loss", describe(found))] if found.parameters else []


def lambda_(calibration: Calibration, digits: int = 3) -> str:
    """Its value, and where it comes from."""
    return f"{calibration.lambda_:.{digits}g}, {calibration.lambda_origin}"


def projection(spec: DesignSpec) -> Rows:
    """Onto how few directions rows were projected, if they were."""
    if spec.projection is None:
        return []
    p, q = spec.projection.shape
    return [("Projection", f"{p} covariates onto {q} random directions, drawn without the data")]


def perturbed(fit: FitRecord, found: Inference | None) -> Rows:
    """Facts of a fit that noise was added to."""
    calibration = fit.calibration
    shrunk = "; coefficients are penalised by it, that is, shrunk towards zero"
    return [
        ("Mechanism", mechanism(calibration)),
        ("Rows", _row_bounds(fit.spec)),
        ("Response", fit.spec.response.describe()),
        *loss(fit.loss),
        ("Lambda", lambda_(calibration) + (shrunk if calibration.lambda_ else "")),
        *projection(fit.spec),
        *_moments(fit, found),
    ]


def selected(fit: SelectedRecord) -> Rows:
    """Facts of a model of chosen columns."""
    rows = ("Rows", _entry_bounds(fit.spec))
    return [*fit.calibration.facts, rows, ("Response", fit.spec.response.describe())]


def _row_bounds(spec: DesignSpec) -> str:
    radius = f"radius R = {spec.radius:.3g}"
    if spec.scaled_by_data:
        return f"{radius}; columns were scaled by the data's own means, deviations and longest row"
    if spec.bound_source == "declared bounds":
        return f"{radius} from declared bounds; {_UNSEEN}"
    if spec.bound_source == "declared bounds and row_norm":
        return f"{radius} from declared bounds; {_shortened_apart(spec)}; {_REMEDY} them"
    shortened = f"{radius}, covariates shortened to length {spec.bound:.3g} (row_norm)"
    if isinstance(spec, NormBoundedMatrix):
        return f"{shortened}; {_UNSEEN}"
    if not spec.unbounded:
        return f"{shortened}, below what the declared bounds give"
    return f"{shortened}: no bounds for {', '.join(spec.unbounded)}; {_REMEDY} whole rows"


def _shortened_apart(spec: DesignSpec) -> str:
    """What becomes of the terms without bounds of a design that has both."""
    length = f"to length {spec.unbounded_norm:.3g} (row_norm)"
    if len(spec.unbounded) == 1:
        return f"{spec.unbounded[0]} has none and is shortened {length}"
    return f"{', '.join(spec.unbounded)} have none and are shortened together {length}"


def _entry_bounds(spec: DesignSpec | EntryBoundedMatrix) -> str:
    size = f"entries of size {spec.x_bound:.3g} at most"
    if isinstance(spec, EntryBoundedMatrix):
        return f"{size}, others are cut off there; {_UNSEEN}"
    if not spec.unbounded:
        return f"{size} from declared bounds; {_UNSEEN}"
    names = ", ".join(spec.unbounded)
    return f"{size}: no bounds for {names}, whose values are cut off there; {_BY_BOUNDS}"


def _moments(fit: FitRecord, found: Inference | None) -> Rows:
    """What was released for inference, and how good it is."""
    if fit.release.moments is None or found is None:
        return []
    known, noise = quality(fit.release), fit.release.moments.calibration.noise
    size = f"{known.relative_bias:.3g}" if math.isfinite(known.relative_bias) else "not known"
    bias = f"relative bias of the penalty {size}"
    if noise.scale == 0:
        return [("Inference", f"information matrix and scores of the data, without noise; {bias}")]
    size = f"{known.noise_to_signal:.3g} times the smallest eigenvalue of the matrix"
    return [
        (
            "Inference",
            f"information matrix and scores with {noise.title} noise, which is {size}; {bias}; "
            f"{found.mode} mode, {found.target} coefficients",
        )
    ]


# -- on the card -------------------------------------------------------------------------------


def facts_of_card(fit: ModelRecord, document: dict[str, Any]) -> Rows:
    """How a fit was made, row by row."""
    own = _selected_of_card(fit) if isinstance(fit, SelectedRecord) else _perturbed_of_card(fit)
    # what made the fit: for one that was read from a file, what its file states
    software = fit.origin.written_by if fit.origin else document["written_by"].items()
    by_its_word = "; so its file states" if fit.origin else ""
    rule = fit.threshold.rule
    threshold = f"learned ({rule}), not private" if rule else f"{fit.threshold.value:g}, public"
    return [
        ("Guarantee", str(fit.guarantee)),
        *_spent(fit),
        ("Neighbours", fit.guarantee.neighbours.value),
        ("Records", f"n = {fit.nobs}"),
        *own,
        ("Randomness", f"{SOURCES[document['randomness']]}{by_its_word}"),
        ("Threshold", threshold),
        ("Ledger", _ledger(fit.release.entry)),
        ("Software", ", ".join(f"{name} {version}" for name, version in software)),
    ]


def _spent(fit: ModelRecord) -> Rows:
    """What the guarantee paid for."""
    if isinstance(fit.guarantee, NonPrivate):
        return []
    if isinstance(fit, SelectedRecord):
        return [("Spent", "all of it on the choices")]
    moments = fit.release.moments
    if moments is None:
        return [("Spent", "all of it on the coefficients")]
    first, second = fit.release.calibration.target, moments.calibration.target
    return [("Spent", f"{first} on the coefficients; {second} on the matrices for inference")]


def _selected_of_card(fit: SelectedRecord) -> Rows:
    problem = fit.calibration.problem
    return [
        ("Rows", f"d = {problem.d} columns, no entry above {problem.x_bound:.6g} in size"),
        ("Loss", describe(fit.loss)),
        *fit.calibration.facts,
    ]


def _perturbed_of_card(fit: ModelRecord) -> Rows:
    problem, noise = fit.release.calibration.problem, fit.release.calibration.noise
    return [
        ("Rows", f"d = {problem.d} columns, no row longer than R = {problem.radius:.6g}"),
        ("Row length", _row_length(fit.spec)),
        ("Loss", describe(problem.loss)),
        ("Lambda", lambda_(fit.release.calibration, digits=6)),
        *projection(fit.spec),
        *(_noise(fit.release.calibration) if noise.scale > 0 else [("Mechanism", _UNMOVED)]),
        *_noise_of_matrices(fit),
    ]


def _noise(calibration: Calibration) -> Rows:
    noise, shield = calibration.noise, calibration.shield
    place = "objective" if calibration.placement == "objective" else "minimiser"
    rows = [
        ("Mechanism", f"{calibration.placement} perturbation ({calibration.bound})"),
        ("Noise", f"{noise.title}, scale {noise.scale:.6g}, added to the {place}"),
    ]
    if shield.scale > 0:
        text = f"{shield.title}, scale {shield.scale:.6g}, which covers the approximate minimum"
        rows.append(("Small noise", text))
    certified = (
        f"gradient of the objective in its sum form at most {calibration.tau:.6g}; the "
        "distance to the exact minimiser is covered by the guarantee"
    )
    return [*rows, ("Certificate", certified), ("Rounding", _rounding(calibration.grid))]


def _rounding(grid: float) -> str:
    return f"to multiples of {grid:.6g}, decided exactly"


def _noise_of_matrices(fit: ModelRecord) -> Rows:
    moments = fit.release.moments
    if moments is None or moments.calibration.noise.scale == 0:
        return []
    noise = moments.calibration.noise
    text = (
        f"{noise.title} noise, scale {noise.scale:.6g}, added to their {noise.dimension} "
        f"numbers together; rounded {_rounding(moments.calibration.grid)}"
    )
    return [("Matrices for inference", text)]


def _row_length(spec: DesignSpec) -> str:
    constant = "no intercept" if spec.intercept is None else f"intercept {spec.intercept:g}"
    source = "from the declared bounds and levels"
    if spec.bound_source == "row_norm":
        source = "longer ones are shortened (row_norm)"
        if spec.unbounded:
            source += f"; without bounds: {', '.join(spec.unbounded)}"
    if spec.bound_source == "declared bounds and row_norm":
        source = f"from the declared bounds and levels; {_shortened_apart(spec)}"
    return f"covariates of length {spec.bound:.6g} at most, {source}; {constant}"


def _ledger(entry: Entry | None) -> str:
    if entry is None:
        return "no ledger was charged"
    part = f", part {entry.part!r}" if entry.part is not None else ""
    times = f", {entry.times} times" if entry.times > 1 else ""
    return f"charged with {entry.guarantee} for {entry.label!r}{part}{times}"
