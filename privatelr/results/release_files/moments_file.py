"""The moments that inference is made of as plain values, and back again, checked like the rest.

The entry holds the numbers as they were released, because those are what the law of the noise
is about: by rows of the upper triangle, off the diagonal times the root of 2, the scores times
the balance.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.errors import ReleaseFileError
from privatelr.mechanisms import Moments
from privatelr.mechanisms.calibration import (
    MOST_COLUMNS,
    MomentsCalibration,
    achieved_moments,
    moments_balance,
    moments_sensitivity,
)
from privatelr.privacy import NonPrivate, conversions
from privatelr.privacy.noise import NoNoise
from privatelr.results.release_files.calibration_file import (
    law_entry,
    read_law,
    require_power_of_two,
    require_worth,
    restore_target,
    zero_or_size,
)
from privatelr.results.release_files.json_values import entries, listing, numbers, require_same

if TYPE_CHECKING:
    from privatelr.mechanisms import Problem
    from privatelr.types import FloatArray

_ENTRIES = ("target", "balance", "noise", "grid", "curvature", "scores")
_FARTHEST = 1000.0
"""Standard deviations; no noise was ever drawn that far out."""


def moments_entry(moments: Moments | None) -> dict[str, Any] | None:
    """The moments as plain values; None if they were not requested."""
    if moments is None:
        return None
    calibration = moments.calibration
    d = calibration.problem.d
    curvature, scores = np.split(moments.values, 2)
    return {
        "target": conversions.to_json(calibration.target),
        "balance": calibration.balance,
        "noise": law_entry(calibration.noise),
        "grid": calibration.grid,
        "curvature": _triangle(curvature, d),
        "scores": _triangle(scores, d),
    }


def _triangle(svec: FloatArray, d: int) -> list[list[float]]:
    """Rows of the upper triangle, each from its diagonal on."""
    ends = list(accumulate(range(d, 1, -1)))
    return [row.tolist() for row in np.split(svec, ends)]


def restore_moments(value: Any, problem: Problem) -> Moments | None:
    """The moments that `moments_entry` wrote, for coefficients of this problem.

    Raises
    ------
    ReleaseFileError
        Part of a sentence: an entry that is wrong, or noise that does not give the target.
    """
    if value is None:
        return None
    where = "inference"
    given = entries(value, where, _ENTRIES)
    if problem.d > MOST_COLUMNS:
        raise ReleaseFileError(f"{where} takes null beside more than {MOST_COLUMNS} columns")
    if problem.lambda_ == 0:
        raise ReleaseFileError(f"{where} takes null beside a fit without a penalty")
    balance = moments_balance(problem)
    require_same(given["balance"], balance, f"{where}.balance")
    calibration = MomentsCalibration(
        problem=problem,
        target=restore_target(given["target"], f"{where}.target"),
        balance=balance,
        noise=read_law(given["noise"], f"{where}.noise", problem.d * (problem.d + 1)),
        grid=zero_or_size(given["grid"], f"{where}.grid"),
    )
    _require_consistent(calibration)
    halves = [_read_triangle(given[name], f"{where}.{name}", calibration) for name in _ENTRIES[-2:]]
    return Moments(np.concatenate(halves), calibration)


def _require_consistent(calibration: MomentsCalibration) -> None:
    """Refuse noise that does not give its target."""
    if isinstance(calibration.target, NonPrivate):
        if calibration.grid or not isinstance(calibration.noise, NoNoise):
            raise ReleaseFileError("inference: moments without a guarantee have no noise or grid")
        return
    require_power_of_two(calibration.grid, "inference.grid")
    require_worth(lambda: achieved_moments(calibration), calibration.target, "inference")


def _read_triangle(value: Any, where: str, calibration: MomentsCalibration) -> FloatArray:
    """Half of the moments ``(d (d + 1) / 2,)``."""
    problem, grid = calibration.problem, calibration.grid
    rows = listing(value, where)
    if len(rows) != problem.d:
        raise ReleaseFileError(f"{where} takes {problem.d} rows, not {len(rows)}")
    found = np.concatenate(
        [numbers(row, f"{where}[{i}]", problem.d - i) for i, row in enumerate(rows)]
    )
    if grid and np.any(np.fmod(found, grid)):
        raise ReleaseFileError(f"{where} takes multiples of the grid")
    # a mean of rows is within n times what one of them can move it by
    largest = problem.n * moments_sensitivity(problem) + _FARTHEST * calibration.entry_sd
    if np.any(np.abs(found) > largest):
        raise ReleaseFileError(f"{where} takes numbers that rows and noise can make")
    return found
