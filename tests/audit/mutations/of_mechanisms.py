"""Planted bugs in the size of noise, in draws, in minimisers, and in releases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import optimize

from privatelr.mechanisms import Problem, matrix_of, perturbation, registry
from privatelr.mechanisms.calibration import Calibration, gaussian_objective, proven_noise, pure
from privatelr.mechanisms.stages import coefficients
from privatelr.mechanisms.stages import matrices as matrix_stage
from privatelr.numerics import Huber, Objective, gradient_of, value_and_gradient
from privatelr.privacy import ZCDP, ApproxDP, PureDP, conversions
from privatelr.privacy import noise as laws
from privatelr.privacy.noise import noise_laws
from privatelr.types import Block, FloatArray, Placement, parts_of
from tests.audit.mutations.planted import (
    DRAWS,
    RELEASES,
    Look,
    Mutation,
    list_bug,
    noise,
    row,
    times,
)

OF_MECHANISMS: list[Mutation] = []
bug = partial(list_bug, OF_MECHANISMS)


_Change = Callable[..., Any]


def registered(
    name: str, part: str, *looks: Look, placement: Placement = "objective", kind: Any = PureDP
) -> Callable[[_Change], _Change]:
    """The same as `bug`, for one function of an entry of the table of mechanisms."""

    def plant(change: _Change) -> _Change:
        @bug(name, (coefficients.MECHANISMS, (placement, kind)), *looks)
        def _(honest: Any) -> Any:
            return replace(honest, **{part: partial(change, getattr(honest, part))})

        return change

    return plant


# -- the size of noise --------------------------------------------------------------------------

_SMALL_DELTA = noise("objective, epsilon = 1, delta = 1e-06")
_PURE, _ZCDP = noise("objective, epsilon = 1"), noise("objective, rho*")
_HIDDEN, _MOMENTS = noise("output, rho*"), noise("inference, epsilon = 1")


def _less_noise(share: float, honest: Any, *given: Any) -> Calibration:
    """A calibration whose noise has the same law, but only this share of the right scale."""
    found: Calibration = honest(*given)
    match found.noise:
        case laws.SphericalLaplace() | laws.BlockLaplace() as law:
            return replace(found, noise=replace(law, rate=law.rate / share))
        case laws.GaussianNoise() as law:
            return replace(found, noise=replace(law, sd=law.sd * share))
    return found


for _name, _kind, _share, _look in (
    ("a pure tilt has half of its noise", PureDP, 0.5, _PURE),
    ("a tilt under zCDP has nine tenths of its noise", ZCDP, 0.9, _ZCDP),
    ("a tilt under a delta has nine tenths of its noise", ApproxDP, 0.9, _SMALL_DELTA),
):
    registered(_name, "calibrate", _look, kind=_kind)(partial(_less_noise, _share))


@registered(
    "noise on the minimiser under a delta is nine tenths",
    "calibrate",
    noise("output, epsilon = 1, delta = 0.01"),
    placement="output",
    kind=ApproxDP,
)
def _(honest: Any, *given: Any) -> Calibration:
    return _less_noise(0.9, honest, *given)


@registered("the radius is forgotten in the noise", "calibrate", _PURE)
def _(honest: Any, problem: Problem, *given: Any) -> Calibration:
    return _less_noise(min(1.0, 1 / problem.radius), honest, problem, *given)


@registered("nothing covers the distance to the exact minimiser", "calibrate", _PURE)
def _(honest: Any, problem: Problem, *given: Any) -> Any:
    return replace(honest(problem, *given), shield=laws.NoNoise(problem.d))


@registered("noise in blocks has other blocks than the rows", "calibrate", _PURE)
def _(honest: Any, *given: Any) -> Any:
    return _with_blocks(honest(*given), lambda block: replace(block, bound=block.bound / 2))


@registered("noise for a length is that for a sum of sizes", "calibrate", _PURE)
def _(honest: Any, *given: Any) -> Any:
    """The noise is made for rows of bounded l1 norm, but only the l2 norm of rows is bounded."""
    return _with_blocks(honest(*given), lambda block: replace(block, norm="l1"))


def _with_blocks(found: Calibration, change: Callable[[Block], Block]) -> Calibration:
    if not isinstance(found.noise, laws.BlockLaplace):
        return found
    blocks = tuple(map(change, found.noise.blocks))
    return replace(found, noise=replace(found.noise, blocks=blocks))


@bug("a factor of two is lost in rho", (laws.GaussianNoise, "hiding"), _HIDDEN)
def _(honest: Any, cls: Any, sensitivity: float, d: int, target: Any) -> Any:
    if not isinstance(target, ZCDP):
        return honest(cls, sensitivity, d, target)
    return cls(d, sensitivity / math.sqrt(4 * target.rho))


@bug("a root is lost in rho", (laws.GaussianNoise, "hiding"), _HIDDEN)
def _(honest: Any, cls: Any, sensitivity: float, d: int, target: Any) -> Any:
    if not isinstance(target, ZCDP):
        return honest(cls, sensitivity, d, target)
    return cls(d, sensitivity / (2 * target.rho))


bug(
    "replacement counts once in the sensitivity of the minimiser",
    proven_noise.output_sensitivity,
    noise("output, epsilon = 1"),
)(times(1 / 2))


@bug("c R stands for c R squared", (Problem, "kappa"), row("objective"))
def _(honest: Any, problem: Problem) -> float:
    return problem.radius / problem.penalty


@bug("the curvature costs nothing under the joint bound", pure.joint_epsilon, _PURE)
def _(honest: Any, rate: float, problem: Problem) -> float:
    return 2 * rate * problem.loss.slope_bound


bug("the curvature costs nothing under the one-log bound", pure.curvature_cost, _PURE)(times(0.0))


@bug("the first order is forgotten in rho", (gaussian_objective, "_largest_m"), _ZCDP)
def _(honest: Any, rho: float, first: float) -> Any:
    return honest(rho, 0.0)


@bug("the profile of a Gaussian is that of a smaller mu", laws.log_delta, _SMALL_DELTA)
def _(honest: Any, epsilon: float, mu: float) -> Any:
    return honest(epsilon, mu / 1.2)


bug("moments lack the root of two of a replacement", matrix_stage.moments_sensitivity, _MOMENTS)(
    times(1 / math.sqrt(2))
)


@bug("moments take R for R squared", matrix_stage.moments_sensitivity, _MOMENTS)
def _(honest: Any, problem: Problem, *given: Any, **named: Any) -> Any:
    return honest(problem, *given, **named) / problem.radius


@bug("moments pay for one of two matrices", (matrix_stage, "_largest_pair"), _MOMENTS)
def _(honest: Any, problem: Problem, **traces: Any) -> float:
    return problem.loss.curvature_bound


@bug("both parts of a fit get the whole price", registry.divide, _MOMENTS)
def _(honest: Any, target: Any, *given: Any, **named: Any) -> Any:
    ways = honest(target, *given, **named)
    return [(dict.fromkeys(parts, target), kinds) for parts, kinds in ways]


@bug("a loss states half of its curvature", (Huber, "curvature_bound"), noise("losses"))
def _(honest: Any, loss: Huber) -> float:
    return 1 / (4 * loss.h)


@bug("a loss states a joint bound that it has not", (Huber, "joint_factor"), _PURE)
def _(honest: Any, loss: Huber) -> float:
    return 1 / (2 * loss.h)


@bug("a pure epsilon counts as half its rho", conversions.to_zcdp, noise("conversions"))
def _(honest: Any, guarantee: PureDP | ZCDP) -> ZCDP:
    found: ZCDP = honest(guarantee)
    return found if isinstance(guarantee, ZCDP) else ZCDP(found.rho / 2, found.neighbours)


@bug("rho counts as too small an epsilon", (conversions, "_zcdp_epsilon"), noise("conversions"))
def _(honest: Any, rho: float, delta: float) -> float:
    return rho + math.sqrt(rho * math.log(1 / delta))


# -- draws --------------------------------------------------------------------------------------


def _along(direction: list[Any], reach: Any, arithmetic: Any) -> list[Any]:
    """A vector of this direction and of length `reach`."""
    length = arithmetic.sqrt(sum([x * x for x in direction]))
    return [x * reach / length for x in direction]


@bug("the length of a draw has one dimension", (laws.SphericalLaplace, "transform"), DRAWS)
def _(honest: Any, law: Any, uniforms: Any, signs: Any, arithmetic: Any) -> Any:
    direction = noise_laws.normals(uniforms[law.dimension :], law.dimension, arithmetic)
    gamma = noise_laws.exponentials(uniforms[:1], arithmetic)[0] / law.rate
    return _along(direction, gamma, arithmetic)


@bug("the direction of a draw is that of a cube", (laws.SphericalLaplace, "transform"), DRAWS)
def _(honest: Any, law: Any, uniforms: Any, signs: Any, arithmetic: Any) -> Any:
    d = law.dimension
    direction = [2 * uniform - 1 for uniform in uniforms[d : 2 * d]]
    gamma = sum(noise_laws.exponentials(uniforms[:d], arithmetic)) / law.rate
    return _along(direction, gamma, arithmetic)


@bug("a draw in blocks is one dimension short", (laws.BlockLaplace, "transform"), DRAWS)
def _(honest: Any, law: Any, uniforms: Any, signs: Any, arithmetic: Any) -> Any:
    """The length has a gamma distribution of shape d instead of d + 1."""
    sizes = noise_laws.exponentials(uniforms[: law.dimension + 1], arithmetic)
    shrink = sum(sizes[:-1]) / sum(sizes)
    return [x * shrink for x in honest(law, uniforms, signs, arithmetic)]


@bug("a draw in a ball is on its surface", (laws.BlockLaplace, "transform"), DRAWS)
def _(honest: Any, law: Any, uniforms: Any, signs: Any, arithmetic: Any) -> Any:
    drawn = honest(law, uniforms, signs, arithmetic)
    columns, ball = parts_of(law.blocks)[-1]
    if ball.norm == "l2":
        sizes = noise_laws.exponentials(uniforms[: law.dimension + 1], arithmetic)
        reach = ball.bound * sum(sizes) / law.rate
        own = _along([drawn[column] for column in columns], reach, arithmetic)
        for column, x in zip(columns, own, strict=True):
            drawn[column] = x
    return drawn


@bug("coordinates of a Gaussian draw are one number", (laws.GaussianNoise, "transform"), DRAWS)
def _(honest: Any, law: Any, uniforms: Any, signs: Any, arithmetic: Any) -> Any:
    one = noise_laws.normals(uniforms[:2], 1, arithmetic)[0]
    return [one * law.sd] * law.dimension


@bug("a law is drawn from once and for all", None, DRAWS)
def _() -> Iterable[Any]:
    kept: dict[Any, Any] = {}

    def drawn(honest: Any, source: Any, law: Any) -> Any:
        return kept.setdefault(law, honest(source, law))

    yield (laws.SystemRandomness, "draw"), drawn


@bug("moments take their noise from the coefficients", registry.draw_all, RELEASES)
def _(honest: Any, plan: Any, randomness: Any) -> Any:
    first = registry.draw(plan.coefficients, randomness)
    if plan.moments is None:
        return first
    unit = first.noise.nearest() / plan.coefficients.noise.scale
    fresh = randomness.draw(plan.moments.noise).nearest()
    fresh[: len(unit)] = unit * plan.moments.noise.scale
    return replace(first, others={**first.others, "inference": laws.FloatDraw(fresh)})


# -- minima and releases ------------------------------------------------------------------------


@registered("half of the noise is released", "release", row("objective"), RELEASES)
def _(honest: Any, rows: Any, calibration: Any, draws: Any, solver: Any) -> Any:
    silent = replace(draws, noise=laws.FloatDraw(draws.noise.nearest() / 2))
    return honest(rows, calibration, silent, solver)


def _minimum(given: Objective, shares: FloatArray) -> FloatArray:
    """The minimiser ``(d,)`` if the penalty of each coefficient is multiplied by its share."""
    bare = replace(given, lambda_=0.0)

    def value(w: FloatArray) -> tuple[float, FloatArray]:
        found, slope = value_and_gradient(bare, w)
        ridge = given.lambda_ * shares * w
        return found + float(ridge @ w) / 2, slope + ridge

    start = np.zeros(given.rows.d)
    found = optimize.minimize(value, start, jac=True, method="BFGS", options={"gtol": 1e-9})
    return np.asarray(found.x)


_MINIMUM = (perturbation, "certified_minimum")


@bug("the objective has half of the penalty of the noise", _MINIMUM, RELEASES)
def _(honest: Any, given: Objective, *others: Any) -> FloatArray:
    return _minimum(given, np.full(given.rows.d, 0.5))


@bug("the intercept is not regularised", _MINIMUM, RELEASES)
def _(honest: Any, given: Objective, *others: Any) -> FloatArray:
    # a small share and not zero, because without a penalty there may be no minimum
    return _minimum(given, np.array([0.01, *[1.0] * (given.rows.d - 1)]))


@bug("a minimum is not waited for", _MINIMUM, RELEASES)
def _(honest: Any, given: Objective, *others: Any) -> FloatArray:
    """The result of a few gradient steps is released instead of the minimum."""
    w = np.zeros(given.rows.d)
    bend = given.loss.curvature_bound * given.rows.radius**2 + given.lambda_
    for _ in range(10):
        w -= gradient_of(given, w) / bend
    return w


@bug("half of the tilt is applied", None, RELEASES)
def _() -> Iterable[Any]:
    def objective(honest: Any, rows: Any, loss: Any, penalty: float, tilt: Any, *rest: Any) -> Any:
        return honest(rows, loss, penalty, tilt / 2, *rest)

    def minimum(honest: Any, given: Any, solver: Any, tau: float, enclose: Any, *_: Any) -> Any:
        return honest(given, solver, tau, lambda bits: [ball / 2 for ball in enclose(bits)], None)

    yield (perturbation, "Objective"), objective
    yield _MINIMUM, minimum


@registered("one class gets a constant", "release", RELEASES)
def _(honest: Any, rows: Any, *others: Any) -> Any:
    found = honest(rows, *others)
    labels = {float(label) for label in rows.y if label != 0}
    return found if len(labels) > 1 else replace(found, coef=np.zeros_like(found.coef))


@registered("noise is drawn until the fit is good", "release", RELEASES)
def _(honest: Any, rows: Any, calibration: Any, draws: Any, solver: Any) -> Any:
    for _ in range(20):
        found = honest(rows, calibration, draws, solver)
        if np.mean(rows.y * (rows.x @ found.coef) > 0) > 0.6:
            break
        draws = registry.draw(calibration, laws.SystemRandomness())
    return found


@bug("digits depend on the data", (perturbation, "rounded_sum"), RELEASES)
def _(honest: Any, centre: Any, drawn: Any, grid: float) -> FloatArray:
    """The rounding depends on the size of the minimum, and so reveals it."""
    found = honest(centre, drawn, grid)
    size = float(np.abs(found).max())
    coarse = grid * 2.0 ** round(np.log2(max(size / grid, 1.0) * 1e-4 + 1.0))
    return np.asarray(np.round(found / coarse) * coarse)


# -- moments ------------------------------------------------------------------------------------


@bug("scores are summed, and not averaged", perturbation.mean_moments, RELEASES)
def _(honest: Any, rows: Any, *others: Any) -> FloatArray:
    found: FloatArray = honest(rows, *others)
    found[len(found) // 2 :] *= rows.n
    return found


@bug("moments are taken elsewhere", perturbation.mean_moments, RELEASES)
def _(honest: Any, rows: Any, coef: FloatArray, *others: Any) -> Any:
    return honest(rows, 0 * coef, *others)


@bug("both matrices get one noise", perturbation.release_moments, RELEASES)
def _(honest: Any, rows: Any, coef: FloatArray, made: Any, drawn: Any, *units: Any) -> Any:
    half = np.hsplit(drawn.nearest(), 2)[0]
    return honest(rows, coef, made, laws.FloatDraw(np.concatenate([half, half])), *units)


@bug("all entries of both matrices get one number", perturbation.release_moments, RELEASES)
def _(honest: Any, rows: Any, coef: FloatArray, made: Any, drawn: Any, *units: Any) -> Any:
    noise = drawn.nearest()
    return honest(rows, coef, made, laws.FloatDraw(np.full_like(noise, noise[0])), *units)


@bug("matrices are released with half of their noise", perturbation.release_moments, RELEASES)
def _(honest: Any, rows: Any, coef: FloatArray, made: Any, drawn: Any, *units: Any) -> Any:
    return honest(rows, coef, made, laws.FloatDraw(drawn.nearest() / 2), *units)


@bug("the two matrices change places", perturbation.mean_moments, RELEASES)
def _(honest: Any, rows: Any, *others: Any) -> Any:
    found = honest(rows, *others)
    return np.roll(found, len(found) // 2)


@bug("entries beside the diagonal lack their root of two", perturbation.mean_moments, RELEASES)
def _(honest: Any, rows: Any, *others: Any) -> FloatArray:
    matrices = matrix_of(honest(rows, *others).reshape(2, -1))
    return matrices[:, *np.triu_indices(matrices.shape[-1])].reshape(-1)
