"""The calibrations of mechanisms that choose columns, as plain values and back.

Each is written as the numbers that determine it, with what follows from them beside them for the
reader; on reading that is computed again, and the choices have to be worth the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privatelr.errors import GuaranteeError, PrivateLRError, ReleaseFileError
from privatelr.mechanisms.programs.calibration import (
    MOST_ROUNDS,
    SCORES,
    ProgramCalibration,
    calibrate_program,
)
from privatelr.mechanisms.programs.problem import MOST_RECORDS, ProgramFacts
from privatelr.mechanisms.simplex.calibration import SimplexCalibration
from privatelr.mechanisms.simplex.draws import MOST_DRAWS, stability_of, tolerance_of
from privatelr.mechanisms.simplex.problem import SimplexProblem
from privatelr.mechanisms.simplex.stability import Stability
from privatelr.privacy import conversions
from privatelr.privacy.guarantees import ZCDP, ApproxDP, NonPrivate, PureDP
from privatelr.results.calibration_file import loss_entry, read_loss
from privatelr.results.json_values import CLOSE, choice, entries, number, require_same, whole
from privatelr.results.noise_file import phrase, require_worth, restore_target, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from privatelr.mechanisms.selections import SelectionCalibration
    from privatelr.privacy.guarantees import Guarantee

MOST_COLUMNS = 10**7


@dataclass(frozen=True, slots=True)
class Chooser:
    """How the calibration of one mechanism is written and read.

    Attributes
    ----------
    names : tuple of str
        Entries of its file.
    write, read : callable
    choices : callable
        How many choices were made.
    is_ordered : bool
        Whether their order is released.
    """

    names: tuple[str, ...]
    write: Callable[[Any], dict[str, Any]]
    read: Callable[[dict[str, Any], str], SelectionCalibration]
    choices: Callable[[Any], int]
    is_ordered: bool


# -- multiplicative weights ------------------------------------------------------------------

_PROGRAM = (
    *("target", "n", "d", "x_bound", "density", "rounds", "rounds_origin", "step", "score"),
    *("slack", "sensitivity", "eta"),
)


def _write_program(calibration: ProgramCalibration) -> dict[str, Any]:
    problem = calibration.problem
    return {
        "target": conversions.to_json(calibration.target),
        "n": problem.n,
        "d": problem.d,
        "x_bound": problem.x_bound,
        "density": problem.density,
        "rounds": calibration.rounds,
        "rounds_origin": calibration.rounds_origin,
        "step": calibration.step,
        "score": calibration.score,
        "slack": calibration.slack,
        "sensitivity": calibration.sensitivity,
        "eta": None if calibration.choice is None else calibration.eta,
    }


def _read_program(given: dict[str, Any], where: str) -> ProgramCalibration:
    target = restore_target(given["target"], f"{where}.target")
    try:
        facts = ProgramFacts(
            whole(given["n"], f"{where}.n", 1, MOST_RECORDS),
            whole(given["d"], f"{where}.d", 1, MOST_COLUMNS),
            size(given["x_bound"], f"{where}.x_bound"),
            number(given["density"], f"{where}.density"),
        )
        found = calibrate_program(
            facts,
            target,
            whole(given["rounds"], f"{where}.rounds", 1, MOST_ROUNDS),
            size(given["step"], f"{where}.step"),
            choice(given["score"], f"{where}.score", SCORES),
            number(given["slack"], f"{where}.slack"),
        )
    except ReleaseFileError:
        raise
    except PrivateLRError as error:
        raise ReleaseFileError(f"{where}: {str(error).removesuffix('.')}") from None
    eta = found.eta
    _require_close(given["sensitivity"], found.sensitivity, f"{where}.sensitivity")
    if found.choice is None:
        require_same(given["eta"], None, f"{where}.eta")
    else:
        _require_close(given["eta"], found.eta, f"{where}.eta")
        eta = float(given["eta"])
    return ProgramCalibration(
        problem=facts,
        target=target,
        rounds=found.rounds,
        step=found.step,
        score=found.score,
        slack=found.slack,
        sensitivity=float(given["sensitivity"]),
        eta=eta,
        rounds_origin=phrase(given["rounds_origin"], f"{where}.rounds_origin"),
    )


# -- draws from the simplex ------------------------------------------------------------------

_SIMPLEX = (
    *("target", "n", "d", "x_bound", "radius", "loss", "lambda", "lambda_origin", "draws"),
    *("tolerance", "stability"),
)
_STABILITY = ("largest", "width", "sd", "kappa")


def _write_simplex(calibration: SimplexCalibration) -> dict[str, Any]:
    problem, bounds = calibration.problem, calibration.stability
    stability = None if bounds is None else {name: getattr(bounds, name) for name in _STABILITY}
    return {
        "target": conversions.to_json(calibration.target),
        "n": problem.n,
        "d": problem.d,
        "x_bound": problem.x_bound,
        "radius": problem.radius,
        "loss": loss_entry(problem.loss),
        "lambda": problem.lambda_,
        "lambda_origin": calibration.lambda_origin,
        "draws": calibration.draws,
        "tolerance": calibration.tolerance,
        "stability": stability,
    }


def _read_simplex(given: dict[str, Any], where: str) -> SimplexCalibration:
    target = restore_target(given["target"], f"{where}.target")
    plain = isinstance(target, NonPrivate)
    try:
        problem = SimplexProblem(
            whole(given["n"], f"{where}.n", 1, MOST_RECORDS),
            whole(given["d"], f"{where}.d", 1, MOST_COLUMNS),
            size(given["x_bound"], f"{where}.x_bound"),
            size(given["radius"], f"{where}.radius"),
            read_loss(given["loss"], f"{where}.loss"),
            size(given["lambda"], f"{where}.lambda"),
        )
        tolerance, expected = tolerance_of(problem), None if plain else stability_of(problem)
    except GuaranteeError as error:
        raise ReleaseFileError(f"{where}: {str(error).removesuffix('.')}") from None
    _require_close(given["tolerance"], tolerance, f"{where}.tolerance")
    calibration = SimplexCalibration(
        problem,
        target,
        whole(given["draws"], f"{where}.draws", 0 if plain else 1, 0 if plain else MOST_DRAWS),
        _read_stability(given["stability"], expected, f"{where}.stability"),
        float(given["tolerance"]),
        phrase(given["lambda_origin"], f"{where}.lambda_origin"),
    )
    if not plain:
        require_worth(lambda: _worth_of_draws(calibration), target, where)
    return calibration


def _read_stability(value: Any, expected: Stability | None, where: str) -> Stability | None:
    if expected is None:
        require_same(value, None, where)
        return None
    given = entries(value, where, _STABILITY)
    for name in _STABILITY:
        _require_close(given[name], getattr(expected, name), f"{where}.{name}")
    return Stability(**{name: float(given[name]) for name in _STABILITY})


def _worth_of_draws(calibration: SimplexCalibration) -> Guarantee:
    """What the draws cost, as a guarantee of the kind of the target."""
    cost, target = calibration.cost, calibration.target
    match target:
        case ZCDP():
            return ZCDP(cost, target.neighbours)
        case ApproxDP():
            return ApproxDP(cost, target.delta, target.neighbours)
    return PureDP(cost, target.neighbours)


def _require_close(value: Any, expected: float, where: str) -> None:
    """Refuse a number that differs from what the others give by more than rounding."""
    if abs(number(value, where) - expected) > CLOSE * abs(expected):
        raise ReleaseFileError(f"{where} is not what the other entries give")


CHOOSERS: dict[str, Chooser] = {
    "multiplicative weights": Chooser(
        _PROGRAM, _write_program, _read_program, lambda c: int(c.rounds), is_ordered=True
    ),
    "simplex draws": Chooser(
        _SIMPLEX, _write_simplex, _read_simplex, lambda c: int(c.draws), is_ordered=False
    ),
}
"""Mechanisms in a file by their names; a new one is listed here and in the schema."""
