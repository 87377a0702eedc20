"""The exact privacy loss of a fit that releases more than its coefficients.

The scale of columns comes first, and rows are mapped by what was released. The coefficients w
follow, then moments at these, and counts of scores by them. The joint density is the product of the
densities of each stage given the ones before, so log ratios add up. At each w the moments add the
loss of their noise for the change of their query, which depends on the two records alone.

The rows of the two records under the map are handed in. They differ from scale to scale. So where
a scale is released, its largest loss over all scales is composed with the loss of the other stages
under the given map; the claim has to cover both together, whatever the map.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy import optimize

from privatelr.audit.density import exact
from privatelr.audit.density.exact import Charge
from privatelr.audit.density.loss import (
    PrivacyLoss,
    claimed_number,
    climb,
    largest,
    laws_of,
    loss_at,
    loss_of,
    loss_of_laws,
    places,
    rest_of,
    shield_ratio,
    shown,
)
from privatelr.audit.density.pairs import Pair
from privatelr.mechanisms import StagedCalibration
from privatelr.mechanisms.calibration import MomentsCalibration, ScaleCalibration
from privatelr.mechanisms.score_histogram import HistogramCalibration
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, PureDP, to_zcdp
from privatelr.privacy.noise import NoiseLaw
from privatelr.types import ColumnGroup, FloatArray

# -- the scale of columns -----------------------------------------------------------------------


def scale_change(old: FloatArray, new: FloatArray, scale: ScaleCalibration) -> FloatArray:
    """The change of means and weighted mean squares if a record ``(p,)`` becomes another.

    Records are covariates in scaled units.
    """
    means, squares = (new - old)[scale.means], (new**2 - old**2)[scale.squares]
    return np.asarray(np.concatenate([means, scale.weight * squares]) / scale.facts.n)


def largest_change(scale: ScaleCalibration) -> FloatArray:
    """The change by a record that moves each group of columns from one end to the other."""
    ends = [_ends(group) for group in scale.facts.groups]
    old, new = (np.concatenate(side) for side in zip(*ends, strict=True))
    return scale_change(old, new, scale)


def _ends(group: ColumnGroup) -> tuple[FloatArray, FloatArray]:
    """Two records that are far apart in a group of columns."""
    first, last = np.eye(1, group.size)[0], np.eye(1, group.size, group.size - 1)[0]
    if group.kind == "number":
        return first, -first
    if group.kind == "indicators":
        return first, last if group.size > 1 else 0 * last
    filled = int((group.radius / group.largest) ** 2 * (1 + 1e-9)) if group.largest > 0 else 0
    row = np.where(np.arange(group.size) < filled, group.largest, 0.0)
    return row, -row


def scale_loss(change: FloatArray, scale: ScaleCalibration) -> PrivacyLoss:
    """The loss of the scale alone, for a change of its means and mean squares.

    Under the noise of a box it is the norm of the change, which the log ratio reaches far out along
    the number that moves most.
    """
    return _loss_of_change(change, scale.noise, scale.proven, "scale")


def counts_loss(made: HistogramCalibration) -> PrivacyLoss:
    """The loss of counts of scores alone, of which one loses a record to another.

    It is the same for all scores, and for all coefficients by which records are scored.
    """
    change = np.eye(1, made.noise.dimension)[0] - np.eye(1, made.noise.dimension, 1)[0]
    return _loss_of_change(change, made.noise, made.proven, "counts")


def _loss_of_change(
    change: FloatArray, noise: NoiseLaw, claim: Guarantee, named: str
) -> PrivacyLoss:
    if noise.is_pure:
        found = -noise.log_density(change)
    else:
        found = shown(noise, claim, float(np.linalg.norm(change)))
    return PrivacyLoss(claim, found, found, claimed_number(claim), of=named)


# -- moments ------------------------------------------------------------------------------------


def moments_loss(pair: Pair, calibration: MomentsCalibration) -> PrivacyLoss:
    """The loss of the moments alone, at the coefficients w at which it is largest.

    It is exact for that w, because the loss of noise depends only on the length of the change of
    the query. The search is over the margins of the two records, as the change depends on w
    through these alone.
    """
    margins, back = exact.telling_margins(pair, calibration)

    def below(at: FloatArray) -> float:
        return -float(exact.query_distance(pair, calibration, (at @ back)[None])[0])

    start = margins[int(np.argmax(exact.query_distance(pair, calibration, margins @ back)))]
    found = optimize.minimize(below, start, method="Nelder-Mead", options={"maxiter": 100})
    w = np.asarray(found.x @ back)
    claim, distance = calibration.proven, float(exact.query_distance(pair, calibration, w[None])[0])
    most = shown(calibration.noise, claim, distance)
    return PrivacyLoss(claim, most, most, claimed_number(claim), output=w, of="moments")


# -- all stages ---------------------------------------------------------------------------------


def joint_loss_of(
    pair: Pair,
    plan: StagedCalibration,
    outputs: FloatArray | None = None,
    change: FloatArray | None = None,
) -> PrivacyLoss:
    """The `privacy_loss` of all stages of a plan together.

    Under a pure claim it is the largest sum of the losses over all w, found by a search that also
    starts from `outputs` ``(m, d)``. Under zCDP and (epsilon, delta) it is the exact divergence or
    delta of the joint law.

    Under (epsilon, delta) the claim may be the sum of the claims of the parts, and the exact delta
    is far below it, so that the joint loss would hide an error. Therefore each part is also
    compared with its own claim, under all guarantees, as the ledger composes the parts.

    `change` is that of the means and mean squares of a released scale; by default the largest.
    """
    coefficients, moments = plan.coefficients, plan.moments
    if not isinstance(plan.proven, PureDP):
        return _profile_of_all(pair, plan, change)
    alone = loss_of(pair, coefficients, outputs)
    if moments is None:
        return _with_others(alone, plan, (alone,), change)
    parts = alone, moments_loss(pair, moments)
    starts = [part.output[None] for part in parts if part.output is not None]
    starts += [] if outputs is None else [outputs]
    margins, back = exact.telling_margins(pair, moments)
    starts.append(margins @ back)
    if coefficients.placement == "output":
        # the loss of noise on a minimiser is largest far out on the line through both minimisers
        first, second = exact.centres(pair, coefficients.problem)
        steps = 10.0 ** np.arange(-2.0, 4.0)[:, None] * (first - second)
        starts += [first[None], second[None], first + steps, second - steps]
    starts.append(places(pair, coefficients))
    ways = [_charges(way, plan) for way in (pair, pair.swapped())]
    w = climb(ways, starts, coefficients.problem)[1]
    return joint_loss_at(pair, plan, w, parts, change)


def joint_loss_at(
    pair: Pair,
    plan: StagedCalibration,
    w: FloatArray,
    parts: tuple[PrivacyLoss, ...] = (),
    change: FloatArray | None = None,
) -> PrivacyLoss:
    """The loss of all stages under a pure claim at one w, the larger direction."""
    if plan.moments is None:
        alone = loss_at(pair, plan.coefficients, w)
        return _with_others(alone, plan, parts or (alone,), change)
    parts = parts or (loss_of(pair, plan.coefficients), moments_loss(pair, plan.moments))
    ways = (_charges(way, plan) for way in (pair, pair.swapped()))
    charges = [[float(charge(w[None])[0]) for charge in way] for way in ways]
    tilt, added, shield = max(tilt for tilt, _ in charges), charges[0][1], parts[0].shield
    rest = claimed_number(plan.coefficients.proven) - shield
    both = PrivacyLoss(plan.proven, tilt + added + shield, tilt, rest, shield, w, added)
    return _with_others(both, plan, parts, change)


def _with_others(
    rest: PrivacyLoss,
    plan: StagedCalibration,
    parts: tuple[PrivacyLoss, ...],
    change: FloatArray | None,
) -> PrivacyLoss:
    """The loss of some stages, plus that of scale and counts if these are released; pure."""
    scaled = counted = 0.0
    if plan.scale is not None:
        parts = *parts, scale_loss(_change(plan.scale, change), plan.scale)
        scaled = parts[-1].found
    if plan.histogram is not None:
        parts = *parts, counts_loss(plan.histogram)
        counted = parts[-1].found
    found, named = rest.found + scaled + counted, " and ".join(part.of for part in parts)
    return replace(
        rest,
        claim=plan.proven,
        found=found,
        scale=scaled,
        counts=counted,
        of=named,
        parts=parts,
    )


def _change(scale: ScaleCalibration, change: FloatArray | None) -> FloatArray:
    return largest_change(scale) if change is None else change


def _charges(pair: Pair, plan: StagedCalibration) -> tuple[Charge, Charge]:
    """The log ratio of the coefficients, and the largest one of the moments, as functions of w."""
    calibration, moments = plan.coefficients, exact.moments_of(plan)
    ratio, unit = (
        exact.likelihood_ratio(calibration, pair),
        shown(moments.noise, moments.proven, 1.0),
    )
    inexact = 0.0
    if calibration.placement == "output":
        inexact = shown(calibration.noise, calibration.proven, calibration.distance)
    return lambda w: ratio(w) + inexact, lambda w: unit * exact.query_distance(pair, moments, w)


def _profile_of_all(pair: Pair, plan: StagedCalibration, change: FloatArray | None) -> PrivacyLoss:
    """The joint loss under zCDP or (epsilon, delta), by integration over the coefficients.

    If the noise of a part proves a pure claim, the largest loss of that part is subtracted from
    epsilon; its rho is added under zCDP. The scale has Gaussian noise here, of a mu that does not
    depend on the coefficients, and so have the counts of scores, mostly.
    """
    claim, coefficients, moments, scale = plan.target, plan.coefficients, plan.moments, plan.scale
    laws = laws_of(pair, coefficients, moments)
    first = [law.first() for law in laws]
    if coefficients.placement == "output" or isinstance(coefficients.proven, PureDP):
        alone, mu = loss_of(pair, coefficients), 0.0
        off = alone.shield
    else:
        alone, mu, off = loss_of_laws(first, coefficients), shield_ratio(coefficients), 0.0
    parts, further, beside = [alone], 0.0, 0.0
    if moments is not None:
        parts.append(moments_loss(pair, moments))
        further = parts[-1].found if isinstance(moments.proven, PureDP) else 0.0
    if scale is not None:
        moved = _change(scale, change)
        parts.append(scale_loss(moved, scale))
        beside = float(np.linalg.norm(moved)) / scale.noise.scale
    tilt, without = largest(first, claim), largest(first, claim, mu, off)
    both = largest(laws, claim, mu, off + further)
    three = found = largest(laws, claim, math.hypot(mu, beside), off + further)
    if plan.histogram is not None:
        parts.append(counts_loss(plan.histogram))
        if not plan.histogram.noise.is_pure:
            beside = math.hypot(beside, math.sqrt(2) / plan.histogram.noise.scale)
        elif isinstance(claim, ApproxDP):
            further += parts[-1].found
        found = largest(laws, claim, math.hypot(mu, beside), off + further)
        if isinstance(claim, ZCDP) and isinstance(parts[-1].claim, PureDP):
            found += to_zcdp(PureDP(parts[-1].found)).rho
    return PrivacyLoss(
        claim,
        found,
        tilt,
        rest_of(claim if isinstance(claim, ApproxDP) else coefficients.target, mu),
        without - tilt,
        moments=both - without,
        scale=three - both,
        counts=found - three,
        of=" and ".join(part.of for part in parts),
        parts=tuple(parts),
    )
