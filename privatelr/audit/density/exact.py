"""The exact law of a release: densities at outputs, and minimisers for given tilts.

By the change of variables of theory.md, Lemma 0, the density of the minimiser w of the tilted
objective is the density of the tilt ``b(w) = -Lambda w - sum loss'(u.w) u`` times the determinant
of the Hessian. All functions take many outputs at once, as arrays ``(m, d)``. The sum form of an
objective is n times its mean form; Lambda is its penalty, and u is a signed row ``y x``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from privatelr.audit.density.pairs import Pair
from privatelr.audit.law_definitions import definition_of
from privatelr.mechanisms import Problem, vector_of
from privatelr.mechanisms.calibration import Calibration
from privatelr.mechanisms.signed_rows import (
    SignedRows,
    gradient,
    hessian,
    matrix_weights,
    minimisers,
    solve_each,
)
from privatelr.mechanisms.stages.matrices import MomentsCalibration
from privatelr.numerics import Loss
from privatelr.privacy.noise import NoiseLaw
from privatelr.types import FloatArray

_SLACK = 1e-7
"""Losses count as equal to the largest one up to this relative difference."""
_WIDEST = 60.0
"""At margins of at least this size every loss is linear."""
_FLAT = 60.0
"""At this margin every loss has slope and curvature zero, up to rounding."""
_SMALLEST = 1e-300
"""A squared length that is divided by is replaced by this if it is smaller."""


def tilt_losses(pair: Pair, problem: Problem, noise: NoiseLaw, w: FloatArray) -> FloatArray:
    """Log ratio ``(m,)`` of the densities of the minimiser at w, old records over new ones.

    The difference of the tilts is computed from these records alone, and so is the ratio of the
    determinants (Lemma 1). So large sums over the shared records cause no rounding errors in the
    ratio.
    """
    loss = problem.loss
    pulled, pulls = pull(pair.old, loss, w), pull(pair.new, loss, w)
    b, others = -gradient(pair.shared, problem, w) - pulled, hessian(pair.shared, problem, w)
    before, after = (_log_det(rows, loss, w, others) for rows in (pair.old, pair.new))
    return np.asarray(definition_of(noise).log_ratios(b, pulls - pulled) + before - after)


def pull(data: SignedRows, loss: Loss, w: FloatArray) -> FloatArray:
    """The gradients ``(m, d)`` of the losses of all records at each w."""
    return np.asarray(loss.slope(data.margins(w)) * data.counts / data.sizes @ data.rows)


def _log_det(data: SignedRows, loss: Loss, w: FloatArray, others: FloatArray) -> FloatArray:
    """What the curvature of records adds to the log determinants of matrices ``(m, d, d)``."""
    bend = np.sqrt(loss.curvature(data.margins(w)) * data.counts)
    root = bend[:, :, None] * data.rows
    inner = root @ solve_each(others, np.swapaxes(root, 1, 2))
    return np.asarray(np.linalg.slogdet(np.eye(len(data.rows)) + inner)[1])


def centres(pair: Pair, problem: Problem) -> FloatArray:
    """The minimisers ``(2, d)`` of the two datasets without noise."""
    none = np.zeros((1, pair.d))
    return np.vstack([minimisers(side, problem, none) for side in (pair.first(), pair.second())])


Charge = Callable[[FloatArray], FloatArray]
"""A function from outputs ``(m, d)`` to log ratios ``(m,)`` of densities, old record over new."""


def likelihood_ratio(calibration: Calibration, pair: Pair) -> Charge:
    """Log likelihood ratio of the coefficients, without the shield and without rounding.

    The shield is the small noise that covers the distance to the exact minimiser.
    """
    problem, noise = calibration.problem, calibration.noise
    if calibration.placement == "objective":
        return lambda w: tilt_losses(pair, problem, noise, w)
    (first, second), law = centres(pair, problem), definition_of(noise)
    return lambda w: law.log_ratios(w - first, np.broadcast_to(second - first, w.shape))


def query(data: SignedRows, calibration: MomentsCalibration, w: FloatArray) -> FloatArray:
    """The moments ``(svec H, eta svec S)`` of a dataset at each w, without noise.

    Records that are not listed in `data` are zero rows.
    """
    squares = vector_of(data.rows[:, :, None] * data.rows[:, None, :])
    margins, lengths = data.margins(w), (data.rows**2).sum(axis=1)
    weights = matrix_weights(calibration, margins, lengths, data.sizes)
    total = np.hstack([(part * data.counts) @ squares for part in weights])
    return np.asarray(total / calibration.problem.n)


def query_distance(pair: Pair, calibration: MomentsCalibration, w: FloatArray) -> FloatArray:
    """How far ``(m,)`` the query moves from the first dataset to the second, at each w.

    It is the size of the change for the noise.
    """
    return definition_of(calibration.noise).sizes(query(pair.change(), calibration, w))


@lru_cache(maxsize=256)
def margin_at(loss: Loss, share: float) -> float:
    """The margin at which the slope has this share of its largest size, by bisection."""
    low, high = -_WIDEST, _WIDEST
    for _ in range(100):
        middle = (low + high) / 2
        steep = -float(loss.slope(np.array([middle]))[0]) >= share * loss.slope_bound
        low, high = (middle, high) if steep else (low, middle)
    return low


def margins_of_most(loss: Loss, unit: float, kappa: float) -> tuple[float, float]:
    """Margins of the old and of the new record at which the privacy loss is largest.

    The old record adds ``unit s + log(1 + kappa l'')`` to the loss, where s is the size of its
    slope; the new record adds ``unit s - log(1 + kappa l'')``. A record with a slope of one costs
    `unit` under the noise.
    """
    margins = candidate_margins(loss)
    charge = unit * np.abs(loss.slope(margins))
    curvature = np.log1p(kappa * loss.curvature(margins))
    return most(margins, charge + curvature), most(margins, charge - curvature)


@lru_cache(maxsize=16)  # every calibration of a loss is checked on it
def candidate_margins(loss: Loss) -> FloatArray:
    """A grid of margins ``(m,)``, read-only, fine where the curvature of the loss is large."""
    middle, width = margin_at(loss, 0.5), loss.slope_bound / loss.curvature_bound
    bend = middle + width * np.linspace(-20.0, 20.0, 20_001)
    edges = [margin_at(loss, share) for share in 1 - 10.0 ** -np.arange(1.0, 10.0)]
    found = np.concatenate([np.linspace(-40.0, 40.0, 801), bend, edges])
    found.flags.writeable = False
    return found


def most(margins: FloatArray, charged: FloatArray) -> float:
    """The margin nearest to zero among those that attain the maximum up to rounding."""
    close = margins[charged >= charged.max() - _SLACK * np.abs(charged).max()]
    return float(close[np.argmin(np.abs(close))])


def telling_margins(pair: Pair, calibration: MomentsCalibration) -> tuple[FloatArray, FloatArray]:
    """Pairs of margins of the two records at which the change of the moments may be largest.

    Returns
    -------
    ndarray of shape (m, 2)
        Margins at which a record has a large weight in one of the two matrices, in both, or in
        neither: all combinations for the two records, and the combinations for a w along either
        record. If the records are parallel, only the latter are possible.
    ndarray of shape (2, d)
        The matrix from two margins to the shortest w that has them, or nearly has them. Margins are
        those without the offsets.
    """
    margins = candidate_margins(calibration.problem.loss)
    bend, steep = matrix_weights(calibration, margins, calibration.problem.radius**2)
    scores = (np.hypot(bend, steep), bend + steep, bend, steep, bend - steep, steep - bend)
    single = np.unique([*(most(margins, score) for score in scores), _FLAT])
    each = np.stack(np.meshgrid(single, single), axis=-1).reshape(-1, 2)
    ends = pair.change()
    both = ends.rows[0] @ ends.rows[1]
    squares = [max(float(row @ row), _SMALLEST) for row in ends.rows]
    along_old = np.column_stack([single, single * both / squares[0]])
    along_new = np.column_stack([single * both / squares[1], single])
    back = np.linalg.pinv(ends.rows).T
    found = np.vstack([each, along_old, along_new]) - ends.shifts
    return found, np.asarray(back)
