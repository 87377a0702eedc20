"""The moments given the coefficients: their query at many outputs, and how far a record moves it.

Given the released w, the moments are a fixed query plus noise whose law is public, so that a
replaced record shows in nothing but the difference of two rank-one terms, which the two records
alone decide. Outputs are arrays ``(m, d)``, queries ``(m, d (d + 1))``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize

from privatelr.audit.exact import candidate_margins, most
from privatelr.audit.loss import PrivacyLoss, claimed_number, shown
from privatelr.audit.pairs import SignedRows
from privatelr.mechanisms.moments import vector_of

if TYPE_CHECKING:
    from privatelr.audit.pairs import Pair
    from privatelr.mechanisms.calibration.moments import MomentsCalibration
    from privatelr.mechanisms.stages import Plan
    from privatelr.types import FloatArray

_FLAT = 60.0
"""A margin at which no loss is left."""
_SMALLEST = 1e-300


def moments_of(plan: Plan) -> MomentsCalibration:
    """The calibration of the moments of a plan that buys them."""
    assert plan.moments is not None
    return plan.moments


def query(data: SignedRows, calibration: MomentsCalibration, w: FloatArray) -> FloatArray:
    """``(svec H, eta svec S)`` of a dataset, without noise, at each w; rows not listed are zero."""
    bend, steep = _weights(calibration, w @ data.rows.T)
    squares = _squares(data.rows)
    total = np.hstack([(part * data.counts) @ squares for part in (bend, steep)])
    return np.asarray(total / calibration.problem.n)


def query_change(pair: Pair, calibration: MomentsCalibration, w: FloatArray) -> FloatArray:
    """What the query of the second dataset is more than that of the first, at each w."""
    records = np.array([pair.old, pair.new])
    signs = np.array([-1.0, 1.0])
    return query(SignedRows(records, signs), calibration, w)


def _squares(rows: FloatArray) -> FloatArray:
    """``svec u u'`` of each row."""
    return vector_of(rows[:, :, None] * rows[:, None, :])


def _weights(calibration: MomentsCalibration, margins: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What a row of each margin weighs in H, and what it weighs in eta S."""
    loss = calibration.problem.loss
    return loss.curvature(margins), calibration.balance * loss.slope(margins) ** 2


def query_distance(pair: Pair, calibration: MomentsCalibration, w: FloatArray) -> FloatArray:
    """Euclidean length ``(m,)`` of `query_change`."""
    return np.asarray(np.linalg.norm(query_change(pair, calibration, w), axis=1))


def moments_loss(pair: Pair, calibration: MomentsCalibration) -> PrivacyLoss:
    """The loss of the moments alone, at the coefficients w where it is largest.

    Exact for that w: noise that does not depend on the data shows a change of the query by its
    length alone.
    """
    w = worst_output(pair, calibration)
    distance = float(query_distance(pair, calibration, w[None])[0])
    claim = calibration.proven
    found = shown(calibration.noise, claim, distance)
    return PrivacyLoss(claim, found, found, claimed_number(claim), output=w)


def worst_output(pair: Pair, calibration: MomentsCalibration) -> FloatArray:
    """The w ``(d,)`` at which the query changes most: it matters through two margins only."""
    back = _back(pair)

    def below(margins: FloatArray) -> float:
        return -float(query_distance(pair, calibration, (margins @ back)[None])[0])

    starts = telling_margins(pair, calibration)
    start = starts[int(np.argmax(query_distance(pair, calibration, starts @ back)))]
    found = optimize.minimize(below, start, method="Nelder-Mead", options={"maxiter": 100})
    return np.asarray(found.x @ back)


def telling_outputs(pair: Pair, calibration: MomentsCalibration) -> FloatArray:
    """The shortest w ``(m, d)`` that give the two records telling margins."""
    return np.asarray(telling_margins(pair, calibration) @ _back(pair))


def _back(pair: Pair) -> FloatArray:
    """Matrix ``(2, d)`` from two margins to the shortest w that has them, or nearly."""
    return np.asarray(np.linalg.pinv(np.array([pair.old, pair.new])).T)


def telling_margins(pair: Pair, calibration: MomentsCalibration) -> FloatArray:
    """Pairs of margins ``(m, 2)`` at which a record weighs much in one matrix, in both, in none.

    Each with each, and along either record, which is all there is if they are parallel.
    """
    margins = candidate_margins(calibration.problem.loss)
    bend, steep = _weights(calibration, margins)
    scores = (np.hypot(bend, steep), bend, steep, bend - steep, steep - bend)
    single = np.unique([*(most(margins, score) for score in scores), _FLAT])
    each = np.stack(np.meshgrid(single, single), axis=-1).reshape(-1, 2)
    both = pair.old @ pair.new
    squares = [max(float(row @ row), _SMALLEST) for row in (pair.old, pair.new)]
    along_old = np.column_stack([single, single * both / squares[0]])
    along_new = np.column_stack([single * both / squares[1], single])
    return np.vstack([each, along_old, along_new])
