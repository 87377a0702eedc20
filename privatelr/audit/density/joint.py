"""The privacy loss of coefficients and moments together: all that a fit with inference shows.

The density of both is that of the coefficients w times that of the moments given w. So the log
ratio is a sum, and at each w the moments add what their noise shows of the change of their query
there (`privatelr.audit.density.joint`). The shield of the coefficients is so short that the tilted
minimiser and the released w are taken as one; it is counted at its claim.

Given the released w, the moments are a fixed query plus noise whose law is public, so that a
replaced record shows in nothing but the difference of two rank-one terms, which the two records
alone decide. Outputs are arrays ``(m, d)``, queries ``(m, d (d + 1))``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize

from privatelr.audit.density.exact import (
    candidate_margins,
    log_ratios,
    minimisers,
    most,
    tilt_losses,
)
from privatelr.audit.density.loss import (
    SEED,
    PrivacyLoss,
    claimed_number,
    climb,
    loss_of,
    loss_of_laws,
    places,
    shield_ratio,
    shown,
)
from privatelr.audit.density.loss_profile import loss_law, shift_law
from privatelr.audit.density.pairs import SignedRows
from privatelr.mechanisms import StagedCalibration, vector_of
from privatelr.mechanisms.calibration import Calibration, MomentsCalibration
from privatelr.privacy import ZCDP, ApproxDP, PureDP
from privatelr.privacy.noise import GaussianNoise
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.audit.density.loss_profile import PrivacyLossDistribution
    from privatelr.audit.density.pairs import Pair


_FLAT = 60.0
"""A margin at which no loss is left."""
_SMALLEST = 1e-300


def moments_of(plan: StagedCalibration) -> MomentsCalibration:
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


Charge = Callable[["FloatArray"], "FloatArray"]
"""What a part adds ``(m,)`` to the log ratio at outputs ``(m, d)``."""

_STEPS = 10.0 ** np.arange(-2.0, 4.0)


def joint_loss_of(
    pair: Pair, plan: StagedCalibration, outputs: FloatArray | None = None
) -> PrivacyLoss:
    """`privacy_loss` of a release of both; `outputs` ``(m, d)`` are further places to search from.

    For a pure claim the largest sum over all w, for zCDP and for (epsilon, delta) the exact
    divergence or delta of the joint law. The claim of an (epsilon, delta) release is the sum of
    those of its parts, which its exact delta is far below; what shows a slip there is that each
    part is also held to its own claim, and so under the other guarantees: the ledger composes
    the parts.
    """
    moments = moments_of(plan)
    if isinstance(plan.proven, PureDP):
        return _pure_loss(pair, plan, moments, outputs)
    return _profile_loss(pair, plan, moments)


# -- pure claims ------------------------------------------------------------------------------


def _pure_loss(
    pair: Pair, plan: StagedCalibration, moments: MomentsCalibration, outputs: FloatArray | None
) -> PrivacyLoss:
    """Local search over w, both ways round, from where either part is large."""
    radius = plan.coefficients.problem.radius
    parts = loss_of(pair, plan.coefficients, outputs), moments_loss(pair, moments)
    known = [part.output[None] for part in parts if part.output is not None]
    starts = np.vstack(
        [
            *known,
            *([] if outputs is None else [outputs]),
            telling_outputs(pair, moments),
            *_far_out(pair, plan.coefficients),
            places(pair, plan.coefficients),
        ]
    )
    found = [climb(_whole(way, plan, moments), starts, radius) for way in (pair, pair.swapped())]
    at = max(found, key=lambda reached: reached[0])[1]
    return _at(pair, plan, moments, at, parts)


def joint_loss_at(pair: Pair, plan: StagedCalibration, w: FloatArray) -> PrivacyLoss:
    """The loss of a release of both under a pure claim at one w, the worse way round."""
    moments = moments_of(plan)
    parts = loss_of(pair, plan.coefficients), moments_loss(pair, moments)
    return _at(pair, plan, moments, w, parts)


def _at(
    pair: Pair,
    plan: StagedCalibration,
    moments: MomentsCalibration,
    w: FloatArray,
    parts: tuple[PrivacyLoss, ...],
) -> PrivacyLoss:
    ways = (_coefficients(way, plan.coefficients) for way in (pair, pair.swapped()))
    tilt = max(float(charge(w[None])[0]) for charge in ways)
    added = float(_moments(pair, moments)(w[None])[0])
    shield = parts[0].shield
    claimed = claimed_number(plan.proven)
    rest = claimed - shield - claimed_number(moments.proven)
    return PrivacyLoss(plan.proven, tilt + added + shield, tilt, rest, shield, w, added, parts)


def _whole(pair: Pair, plan: StagedCalibration, moments: MomentsCalibration) -> Charge:
    first, second = _coefficients(pair, plan.coefficients), _moments(pair, moments)
    return lambda w: first(w) + second(w)


def _coefficients(pair: Pair, calibration: Calibration) -> Charge:
    """Log ratio ``(m,)`` of the coefficients, old record over new."""
    problem, noise = calibration.problem, calibration.noise
    if calibration.placement == "objective":
        return lambda w: tilt_losses(pair, problem, noise, w)
    first, second = _centres(pair, calibration)
    further = shown(noise, calibration.proven, calibration.distance)
    return lambda w: log_ratios(noise, w - first, np.tile(second - first, (len(w), 1))) + further


def _moments(pair: Pair, moments: MomentsCalibration) -> Charge:
    """What the moments add to a pure loss, at their worst values for each w."""
    unit = shown(moments.noise, moments.proven, 1.0)
    return lambda w: unit * query_distance(pair, moments, w)


def _centres(pair: Pair, calibration: Calibration) -> tuple[FloatArray, FloatArray]:
    """The two minimisers without noise."""
    none = np.zeros((1, pair.d))
    first, second = (
        minimisers(side, calibration.problem, none)[0] for side in (pair.first(), pair.second())
    )
    return first, second


def _far_out(pair: Pair, calibration: Calibration) -> list[FloatArray]:
    """Outputs on the line through the two minimisers, where noise added to them shows most."""
    if calibration.placement == "objective":
        return []
    first, second = _centres(pair, calibration)
    steps = _STEPS[:, None] * (first - second)
    return [first[None], second[None], first + steps, second - steps]


# -- claims about a profile -------------------------------------------------------------------


def _profile_loss(pair: Pair, plan: StagedCalibration, moments: MomentsCalibration) -> PrivacyLoss:
    """By integration over the coefficients, both ways round.

    What one of the two is proven to show at most, under a claim of its own that is pure, comes
    off epsilon.
    """
    claim, coefficients = plan.target, plan.coefficients
    laws = _laws(pair, coefficients, moments)
    first = [law.first() for law in laws]
    mu = certain = 0.0
    if coefficients.placement == "output":
        alone = loss_of(pair, coefficients)
    elif isinstance(coefficients.proven, PureDP):
        alone = loss_of(pair, coefficients)
        certain = alone.shield
    else:
        mu, alone = shield_ratio(coefficients), loss_of_laws(first, coefficients)
    parts = alone, moments_loss(pair, moments)
    if isinstance(claim, ApproxDP):
        rest_of = claim.epsilon - certain
        further = parts[1].found if isinstance(moments.proven, PureDP) else 0.0
        tilt = max(law.delta(claim.epsilon, 0.0) for law in first)
        both = max(law.delta(rest_of, mu) for law in first)
        found = max(law.delta(rest_of - further, mu) for law in laws)
        rest = claim.delta
    else:
        tilt = max(law.rho() for law in first)
        both = tilt + mu * mu / 2
        found = max(law.rho() for law in laws) + mu * mu / 2
        rest = claimed_number(coefficients.target) - mu * mu / 2
    return PrivacyLoss(claim, found, tilt, rest, both - tilt, moments=found - both, parts=parts)


def _laws(
    pair: Pair, calibration: Calibration, moments: MomentsCalibration
) -> list[PrivacyLossDistribution]:
    """Laws of the loss of the coefficients, with the mu of the moments at each of them."""
    rng = np.random.default_rng(SEED)
    problem, noise = calibration.problem, calibration.noise

    def beside(w: FloatArray) -> FloatArray:
        distance = query_distance(pair, moments, w) / moments.noise.scale
        if isinstance(moments.noise, GaussianNoise):
            return distance
        if isinstance(moments.target, ZCDP):  # the Gaussian of as large a rho
            return np.asarray(np.sqrt(2 * distance * np.tanh(distance / 2)))
        return np.zeros(len(w))

    if calibration.placement == "objective":
        ways = (pair, pair.swapped())
        return [loss_law(way, problem, noise, rng, beside) for way in ways]
    first, second = _centres(pair, calibration)
    shift = second - first
    length = float(np.linalg.norm(shift))
    shift = shift * (1 + calibration.distance / length) if length > 0 else shift
    return [
        shift_law(first, shift, noise, rng, beside),
        shift_law(second, -shift, noise, rng, beside),
    ]
