"""Draws from the minimiser of an entropy-penalised objective on the simplex of signed columns.

Jain and Thakurta (2014) release draws from such a minimiser instead of the minimiser; here a
draw costs what `simplex_stability` says, which is far less than their Theorem 3 does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.selections import Selections
from privatelr.mechanisms.simplex.histogram import draw_histogram
from privatelr.numerics.entropic import entropic_minimum
from privatelr.numerics.simplex_objective import Entropic, coefficients, shares

if TYPE_CHECKING:
    from privatelr.mechanisms.simplex.calibration import SimplexCalibration
    from privatelr.numerics.entries import EntryRows
    from privatelr.privacy.randomness import Randomness
    from privatelr.types import FloatArray


_PATIENCE = 1000
"""Slow steps that a plain fit waits for; a private one may not show that it gave up."""


def release_simplex(
    rows: EntryRows, calibration: SimplexCalibration, randomness: Randomness
) -> Selections:
    """Minimise, draw from the minimiser, release the histogram of the draws.

    ``(1/n) sum_i loss(y_i x_i.w) + lambda sum_k theta_k log theta_k`` is minimised over the
    probabilities theta of the 2 d signed columns, with ``w = radius (theta_+ - theta_-)``. The
    minimiser is never kept: it is private, and only a fit without a guarantee releases it.

    Parameters
    ----------
    rows : EntryRows
    calibration : SimplexCalibration
    randomness : Randomness

    Raises
    ------
    NotConvergedError
        Only by a fit without a guarantee, where its lambda is too small to be minimised.

    Notes
    -----
    **Privacy.** *Covered*: the counts, by ``calibration.target``. *Neighbours*: replace one
    record. *Assumed public*: everything in ``calibration.problem``. *Not covered*: time and
    memory.
    """
    _require_match(rows, calibration)
    logs = minimiser_logs(rows, calibration)
    if calibration.stability is None:
        none = np.zeros(calibration.problem.options, dtype=np.intp)
        exact = coefficients(shares(logs), calibration.problem.radius)
        return Selections(none, calibration, calibration.target, exact=exact)
    counts = draw_histogram(logs, calibration.draws, randomness)
    return Selections(counts, calibration, calibration.target)


def minimiser_logs(rows: EntryRows, calibration: SimplexCalibration) -> FloatArray:
    """Log weights ``(2 d,)`` of the minimiser as a release computes it; never to be released.

    A fit without a guarantee gives up where lambda is too small; a private one may not.
    """
    problem = calibration.problem
    flat = np.zeros(problem.options)
    objective = Entropic(rows, problem.loss, problem.radius, problem.penalty, flat)
    patience = _PATIENCE if calibration.stability is None else None
    return entropic_minimum(objective, calibration.tolerance, patience=patience)


def _require_match(rows: EntryRows, calibration: SimplexCalibration) -> None:
    """Refuse rows that the calibration was not made for; compares public facts only."""
    problem = calibration.problem
    if rows.n != problem.n or rows.d != problem.d:
        raise GuaranteeError(
            f"rows of shape ({rows.n}, {rows.d}) do not fit a calibration for n={problem.n}, "
            f"d={problem.d}."
        )
    if rows.x_bound > problem.x_bound:
        raise GuaranteeError(
            f"rows with entries up to {rows.x_bound:g} are beyond the x_bound "
            f"{problem.x_bound:g} that the draws were calibrated for."
        )
