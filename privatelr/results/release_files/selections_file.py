"""Calibrations and choices of mechanisms that choose columns, as plain values and back.

The calibration is written as what determines it; whatever follows is computed anew on reading,
by the formulas that a fit goes through, and the choices have to be worth the guarantee.

Each is written as the numbers that determine it, with what follows from them beside them for the
reader; on reading that is computed again, and the choices have to be worth the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.errors import GuaranteeError, PrivateLRError, ReleaseFileError
from privatelr.mechanisms.linear_programs import (
    MOST_RECORDS,
    MOST_ROUNDS,
    SCORES,
    ProgramCalibration,
    ProgramFacts,
    calibrate_program,
)
from privatelr.mechanisms.selection_release import Selections
from privatelr.mechanisms.simplex import (
    MOST_DRAWS,
    SimplexCalibration,
    SimplexProblem,
    Stability,
    stability_of,
    tolerance_of,
)
from privatelr.privacy import ZCDP, ApproxDP, NonPrivate, PureDP, conversions
from privatelr.results.release_files.calibration_file import (
    loss_entry,
    phrase,
    read_loss,
    require_worth,
    restore_target,
    size,
)
from privatelr.results.release_files.json_values import (
    CLOSE,
    choice,
    entries,
    listing,
    number,
    numbers,
    refuse,
    require_same,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from privatelr.mechanisms.selection_release import SelectionCalibration
    from privatelr.privacy import Guarantee
    from privatelr.types import FloatArray, IntArray


MOST_COLUMNS = 10**7


@dataclass(frozen=True, slots=True)
class SelectionFormat:
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


CHOOSERS: dict[str, SelectionFormat] = {
    "multiplicative weights": SelectionFormat(
        _PROGRAM, _write_program, _read_program, lambda c: int(c.rounds), is_ordered=True
    ),
    "simplex draws": SelectionFormat(
        _SIMPLEX, _write_simplex, _read_simplex, lambda c: int(c.draws), is_ordered=False
    ),
}
"""Mechanisms in a file by their names; a new one is listed here and in the schema."""


_MOST_TIMES = 10**9
_CHOICES = ("options", "times", "path", "exact")


# -- writing ---------------------------------------------------------------------------------


def is_selection(value: Any) -> bool:
    """Whether a calibration in a file is one of choices."""
    return isinstance(value, dict) and "mechanism" in value


def selection_entry(calibration: SelectionCalibration) -> dict[str, Any]:
    """A calibration as plain values, all of them public."""
    chooser = CHOOSERS[calibration.mechanism]
    return {"mechanism": calibration.mechanism, **chooser.write(calibration)}


def choices_entry(release: Selections) -> dict[str, Any]:
    """What was chosen, and how often."""
    chosen = np.flatnonzero(release.counts)
    return {
        "options": chosen.tolist(),
        "times": release.counts[chosen].tolist(),
        "path": None if release.path is None else release.path.tolist(),
        "exact": None if release.exact is None else release.exact.tolist(),
    }


# -- reading ---------------------------------------------------------------------------------


def restore_selection(value: Any) -> SelectionCalibration:
    """The calibration that `selection_entry` wrote.

    Raises
    ------
    ReleaseFileError
        Part of a sentence: an entry that is wrong, or choices that cost more than the target.
    """
    where = "calibration"
    chooser = CHOOSERS[choice(value["mechanism"], f"{where}.mechanism", CHOOSERS)]
    given = entries(value, where, ("mechanism", *chooser.names))
    return chooser.read(given, where)


def restore_choices(value: Any, calibration: SelectionCalibration) -> Selections:
    """The choices that `choices_entry` wrote, under a calibration."""
    where = "choices"
    given = entries(value, where, _CHOICES)
    d = calibration.problem.d
    options = [
        whole(item, f"{where}.options[{i}]", 0, 2 * d - 1)
        for i, item in enumerate(listing(given["options"], f"{where}.options"))
    ]
    if options != sorted(set(options)):
        raise ReleaseFileError(f"{where}.options takes positions in order, each once")
    times = listing(given["times"], f"{where}.times")
    if len(times) != len(options):
        raise ReleaseFileError(f"{where}.times takes one number for each option")
    counts = np.zeros(2 * d, dtype=np.intp)
    for i, (option, item) in enumerate(zip(options, times, strict=True)):
        counts[option] = whole(item, f"{where}.times[{i}]", 1, _MOST_TIMES)
    path, exact = _path(given["path"], counts), _exact(given["exact"], calibration)
    chooser = CHOOSERS[calibration.mechanism]
    if counts.sum() != chooser.choices(calibration):
        raise ReleaseFileError(f"{where}.times does not add up to the number of choices")
    if (path is not None) != (chooser.is_ordered):
        refuse(f"{where}.path", "the order of choices where the mechanism releases it", path)
    return Selections(counts, calibration, calibration.target, path=path, exact=exact)


def _path(value: Any, counts: IntArray) -> IntArray | None:
    if value is None:
        return None
    where = "choices.path"
    listed = listing(value, where)
    path = [whole(item, f"{where}[{i}]", 0, len(counts) - 1) for i, item in enumerate(listed)]
    found = np.array(path, dtype=np.intp)
    if not np.array_equal(np.bincount(found, minlength=len(counts)), counts):
        raise ReleaseFileError(f"{where} does not count as choices.times says")
    return found


def _exact(value: Any, calibration: SelectionCalibration) -> FloatArray | None:
    if value is None:
        return None
    if not isinstance(calibration.target, NonPrivate):
        raise ReleaseFileError("choices.exact takes null beside a guarantee")
    return numbers(value, "choices.exact", calibration.problem.d)
