"""Tests that real releases are the ones whose privacy loss the audit computes.

One test compares distributions: that of real releases, and that of modelled ones. Modelled
releases are computed many at once, in doubles. Their noise comes from the package's sampler of
the law, or from the definition of the law and NumPy's samplers.

A small error in a release can be too small to show in any sample. So another test hands in the
noise: then there is one right release, the exact minimiser of the tilted sum or the moments at
given coefficients, and the test compares the numbers themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import numpy as np

from privatelr import mechanisms
from privatelr.audit.checks import Check, guarded, label
from privatelr.audit.density.exact import query
from privatelr.audit.density.pairs import signed_rows
from privatelr.audit.density.worst_classes import ClassedRows
from privatelr.audit.sampling.drawn_noise import draw_by_definition, same_law
from privatelr.mechanisms import Problem, Request, StagedCalibration, draw_all
from privatelr.mechanisms.calibration import (
    Calibration,
    ScaleFacts,
    calibrate_moments,
    calibrate_scale,
)
from privatelr.mechanisms.scale_release import release_scale
from privatelr.mechanisms.signed_rows import SignedRows, minimisers
from privatelr.numerics import LOSSES, Loss
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.solve import Newton
from privatelr.privacy import ZCDP, Promise, PureDP
from privatelr.privacy.noise import (
    Draw,
    FloatDraw,
    NoiseLaw,
    RandomVector,
    SystemRandomness,
    draw_many,
)
from privatelr.types import Block, ColumnGroup, FloatArray, Placement

PART = "release"
_RECORDS, _RECORDS_MANY = 40, 400
"""A small dataset has the first number of records. With the second number, the moments depend on
w by more than their noise."""
_MODELLED, _MOST = 20, 20_000
"""For each real release, which is slow, the first number of modelled ones is made, and at most the
second number in all."""
_BLOCKS = (Block(1, 0.5), Block(1, 1.0), Block(1, 1.0))
_APART = (Block(1, 0.5), Block(1, 1.0, "l2"), Block(1, 1.0))
_CLOSE = 1e-8
"""A minimiser that the audit computes in doubles has at most this relative rounding error."""

Sampler = Callable[[NoiseLaw, int, np.random.Generator], FloatArray]
"""A sampler returns draws ``(count, dimension)`` from a law."""


# -- modelled releases, many at once ----------------------------------------------------------


def release_many(
    calibration: Calibration,
    data: SignedRows,
    count: int,
    rng: np.random.Generator,
    sampler: Sampler = draw_many,
) -> FloatArray:
    """Independent releases ``(count, d)`` on one dataset."""
    problem = calibration.problem
    noise = sampler(calibration.noise, count, rng)
    if calibration.placement == "objective":
        w = minimisers(data, problem, noise) + sampler(calibration.shield, count, rng)
    else:
        w = minimisers(data, problem, np.zeros((1, problem.d))) + noise
    return np.asarray(np.round(w / calibration.grid) * calibration.grid)


def release_both_many(
    plan: StagedCalibration,
    data: SignedRows,
    count: int,
    rng: np.random.Generator,
    sampler: Sampler = draw_many,
) -> FloatArray:
    """Independent releases ``(count, d + d (d + 1))`` of coefficients and the moments at them.

    For a plan without moments the shape is ``(count, d)``.
    """
    w, moments = release_many(plan.coefficients, data, count, rng, sampler), plan.moments
    if moments is None:
        return w
    values = query(data, moments, w) + sampler(moments.noise, count, rng)
    return np.hstack([w, np.round(values / moments.grid) * moments.grid])


# -- real releases, in law --------------------------------------------------------------------


def small_datasets(rng: np.random.Generator) -> Iterator[DenseRows]:
    """Small datasets of all kinds.

    Their rows lie in a ball, in blocks, in blocks with a single class, in blocks of two norms, and
    in a ball with records that cannot be used.
    """
    x = rng.standard_normal((_RECORDS, 2))
    y = np.where(rng.random(_RECORDS) < 0.7, 1.0, -1.0)
    yield DenseRows(x, y, bound=1.0, intercept=None)
    box = np.clip(x, -1.0, 1.0)
    yield DenseRows(box, y, bound=2.0**0.5, intercept=0.5, blocks=_BLOCKS)
    yield DenseRows(box, np.ones(_RECORDS), bound=2.0**0.5, intercept=0.5, blocks=_BLOCKS)
    yield DenseRows(x * [9, 0.1], y, bound=2.0**0.5, intercept=0.5, blocks=_APART)
    x[::4] = np.nan
    yield DenseRows(x, y, bound=1.0, intercept=None)


def _facts(rows: DenseRows, loss: Loss) -> Problem:
    return Problem(rows.n, rows.d, loss, rows.radius, rows.blocks)


def release_pvalue(request: Request, loss: Loss, count: int, rng: np.random.Generator) -> float:
    """The p-value of the hypothesis that real releases have the law of the modelled ones.

    Real releases of `small_datasets` draw their noise from the operating system, as those of a
    user do. Tests of Kolmogorov and Smirnov compare each coefficient, and its vector's distance
    from the median. If the request buys moments, they also compare the noise of the moments
    (the released moments less their query at the released coefficients), its correlation within
    itself, and its correlation with the coefficients.

    Parameters
    ----------
    request : Request
    loss : Loss
    count : int
        Number of real releases of each dataset.
    rng : Generator

    Returns
    -------
    float
        The smallest p-value times the number of comparisons, at most 1.
    """
    pvalues: list[float] = []
    further = [_two_records()] if request.spend == "inference" else []
    for rows in chain(small_datasets(rng), further):
        plan = mechanisms.calibrate_all(request, _facts(rows, loss))
        released = []
        for _ in range(count):
            noise = draw_all(plan, SystemRandomness())
            found = mechanisms.release_all(rows, plan, noise, Newton())
            released.append([*found.coef, *(found.moments.values if found.moments else ())])
        data, many = signed_rows(rows.x, rows.y), min(_MODELLED * count, _MOST)
        modelled = release_both_many(plan, data, many, rng, draw_by_definition)
        pvalues += same_law(
            *(_views(plan, data, side, modelled) for side in (np.array(released), modelled))
        )
    return min(1.0, len(pvalues) * min(pvalues))


def _two_records() -> DenseRows:
    """Many copies of two covariate vectors, so that the moments depend on w by more than noise.

    One vector has nearly always the same label: there the curvature of the logistic loss changes
    with the margin. The other has both labels equally often: its margins are near zero, where the
    Huber loss has no curvature, but has some at margins not far away. So moments that are computed
    at another w than the released one differ.
    """
    half = np.arange(_RECORDS_MANY // 2)
    x = np.repeat([[1.0, 0.0], [0.6, 0.8]], len(half), axis=0)
    y = np.where(np.concatenate([half % 20 > 0, half % 2 > 0]), 1.0, -1.0)
    return DenseRows(x, y, bound=1.0, intercept=None)


def _views(
    plan: StagedCalibration, data: SignedRows, releases: FloatArray, reference: FloatArray
) -> list[FloatArray]:
    """Functions ``(count,)`` of releases whose laws change if the noise or the query is wrong."""
    d = plan.coefficients.problem.d
    w, middles = releases[:, :d], reference[:, :d]
    centre = np.median(middles, axis=0)
    if plan.moments is None:
        return [*w.T, np.linalg.norm(w - centre, axis=1)]
    spread = (w - centre) / np.median(np.abs(middles - centre), axis=0)
    noise = (releases[:, d:] - query(data, plan.moments, w)) / plan.moments.noise.scale
    bend, steep = np.hsplit(noise, 2)
    along = [np.diagonal(mechanisms.matrix_of(part), axis1=1, axis2=2) for part in (bend, steep)]
    return [
        *w.T,
        *noise.T,
        *(column for part in along for column in (spread * part).T),
        np.einsum("ij,ij->i", spread, bend[:, :d]),
        np.linalg.norm(noise, axis=1),
        np.ptp(noise, axis=1),
        np.linalg.norm(bend - steep, axis=1),
    ]


# -- real releases, with given noise ----------------------------------------------------------


def audit_releases(rng: np.random.Generator, epsilon: float) -> Iterator[Check]:
    """A check of `small_datasets` for each mechanism and loss, with noise that is handed in."""
    yield from guarded(PART, "fresh noise", _fresh, epsilon)
    placements = [placement for placement, kind in mechanisms.MECHANISMS if kind is PureDP]
    for placement in placements:  # under other claims they release by the same functions
        for loss in LOSSES.values():
            subject = f"{placement}, {label(loss)}: distance to the exact minimum, over the most"
            off = partial(_off_minimum, placement, loss, epsilon, rng)
            yield from guarded(PART, subject, _worst, subject, off, rng)
        for classes in (3, 7):
            subject = (
                f"{placement}, {classes} classes: distance to the exact minimum, over the most"
            )
            given = placement, classes, epsilon, subject, rng
            yield from guarded(PART, subject, _off_softmax, *given)
    for loss in LOSSES.values():
        subject = f"moments, {label(loss)}: distance to their query and noise, over the most"
        yield from guarded(
            PART, subject, _worst, subject, partial(_off_query, loss, epsilon, rng), rng
        )
    for claim in (PureDP(epsilon), ZCDP(epsilon**2 / 2)):
        subject = f"scale, {claim}: distance to its moments and noise, over the most"
        yield from guarded(PART, subject, _worst, subject, partial(_off_scale, claim, rng), rng)


@dataclass(frozen=True, eq=False)
class _Recorded(SystemRandomness):
    """Randomness that records its draws."""

    given: list[tuple[RandomVector, Draw]] = field(default_factory=list)

    def draw(self, recipe: RandomVector) -> Draw:
        """A draw from the operating system; it is appended to `given`."""
        self.given.append((recipe, super().draw(recipe)))
        return self.given[-1][1]


def _fresh(epsilon: float) -> Iterator[Check]:
    """Check that each noise law of a plan is drawn from once, and that this draw is used."""
    request = Request(PureDP(epsilon), "objective", None, "free", "keep", "inference")
    facts = ScaleFacts(40, (ColumnGroup(1, "number"),) * 2, False, 0.01)
    plan = mechanisms.calibrate_all(request, Problem(40, 2, LOSSES["logistic"], 1.0), facts)
    recorded = _Recorded()
    draws = draw_all(plan, recorded)
    used = [
        (plan.coefficients.noise, draws.noise),
        (plan.coefficients.shield, draws.shield),
        *((plan.parts[name].noise, drawn) for name, drawn in draws.others.items()),
    ]
    stale = sum(
        not any(law == drawn and draw is found for drawn, found in recorded.given)
        for law, draw in used
    )
    subject = "scale, coefficients and moments: noise that is not the one draw of its law"
    yield Check(PART, subject, stale + abs(len(recorded.given) - len(used)))


def _worst(
    subject: str, off: Callable[[DenseRows], float], rng: np.random.Generator
) -> Iterator[Check]:
    """Check the largest error of a release over all small datasets; NaN counts as the largest."""
    yield Check(PART, subject, float(np.max([off(rows) for rows in small_datasets(rng)])), 1.0)


def _calibrated(
    rows: DenseRows, loss: Loss, epsilon: float, placement: Placement = "objective"
) -> Calibration:
    request = Request(PureDP(epsilon), placement, None, "free", "keep")
    return mechanisms.calibrate(request, _facts(rows, loss))


def _off_minimum(
    placement: Placement, loss: Loss, epsilon: float, rng: np.random.Generator, rows: DenseRows
) -> float:
    """The error of a release over the largest error allowed; infinite if it is not on the grid."""
    calibration = _calibrated(rows, loss, epsilon, placement)
    b = draw_by_definition(calibration.noise, 1, rng)
    silence = FloatDraw(np.zeros(calibration.shield.dimension))
    release = mechanisms.MECHANISMS[placement, PureDP].release
    w = release(rows, calibration, mechanisms.Draws(FloatDraw(b[0]), silence), Newton()).coef
    data, grid, problem = signed_rows(rows.x, rows.y), calibration.grid, calibration.problem
    if not np.array_equal(np.round(w / grid) * grid, w):
        return math.inf
    if placement == "objective":
        exact = minimisers(data, problem, b)[0]
    else:
        exact = minimisers(data, problem, np.zeros_like(b))[0] + b[0]
    size = float(np.linalg.norm(exact)) + 1 / problem.radius
    rounding = grid / 2 * math.sqrt(len(w))
    return float(np.linalg.norm(w - exact)) / (calibration.distance + rounding + _CLOSE * size)


def _off_softmax(
    placement: Placement, classes: int, epsilon: float, subject: str, rng: np.random.Generator
) -> Iterator[Check]:
    """Check the gradient at a release of several classes, of which each has noise of its own."""
    own, most = rng.integers(0, classes, _RECORDS), classes - 1.0
    given = rng.standard_normal((_RECORDS, 2)), np.ones(_RECORDS), own.astype(np.float64)
    rows = DenseRows(*given, bound=1.0, intercept=None, offset_bound=most)
    facts = replace(_facts(rows, LOSSES["logistic"]), classes=classes, offset=most)
    request = Request(PureDP(epsilon), placement, None, "free", "keep")
    calibration = mechanisms.calibrate(request, facts)
    b = draw_by_definition(calibration.noise, 1, rng)[0]
    draws = mechanisms.Draws(FloatDraw(b), FloatDraw(np.zeros(facts.size)))
    release = mechanisms.MECHANISMS[placement, PureDP].release
    w = release(rows, calibration, draws, Newton()).coef
    tilt, w = (b, w) if placement == "objective" else (0 * b, w - b)
    vectors, penalty = w.reshape(classes, -1), calibration.problem.penalty
    slope = ClassedRows(rows.x, own, np.ones(_RECORDS)).gradient(vectors).ravel()
    off = float(np.linalg.norm(slope + penalty * w + tilt)) / penalty
    rounding = calibration.grid / 2 * math.sqrt(len(w))
    # a rounded minimiser is off by more in its gradient, by the curvature over the penalty
    bend = 1 + _RECORDS / 2 / penalty
    size = float(np.linalg.norm(w)) + 1 / facts.radius
    yield Check(PART, subject, off / (calibration.distance + bend * rounding + _CLOSE * size), 1.0)


def _off_query(loss: Loss, epsilon: float, rng: np.random.Generator, rows: DenseRows) -> float:
    """The error of released moments over the largest error allowed."""
    problem = _calibrated(rows, loss, epsilon).problem
    moments = calibrate_moments(problem, PureDP(epsilon))
    w = rng.standard_normal(rows.d) / problem.radius
    noise = draw_by_definition(moments.noise, 1, rng)[0]
    found = mechanisms.release_moments(rows, w, moments, FloatDraw(noise)).values
    wanted = query(signed_rows(rows.x, rows.y), moments, w[None])[0] + noise
    most = moments.grid / 2 + _CLOSE * (np.abs(wanted) + problem.radius**2)
    return float((np.abs(found - wanted) / most).max())


def _off_scale(claim: Promise, rng: np.random.Generator, rows: DenseRows) -> float:
    """The error of a released scale over the largest error allowed; infinite if off its grid."""
    facts = ScaleFacts(rows.n, (ColumnGroup(1, "number"),) * 2, False, 0.01)
    scale, covariates = calibrate_scale(facts, claim), rows.x[:, rows.d - facts.p :]
    noise = draw_by_definition(scale.noise, 1, rng)[0]
    found = release_scale(rows, scale, FloatDraw(noise)).values
    squares = scale.weight * (covariates**2).mean(axis=0)
    wanted = np.concatenate([covariates.mean(axis=0), squares]) + noise
    if not np.array_equal(np.round(found / scale.grid) * scale.grid, found):
        return math.inf
    most = scale.grid / 2 + _CLOSE * (np.abs(wanted) + 1)
    return float((np.abs(found - wanted) / most).max())
