"""Bugs in the size of noise: factors, roots and radii, and what a part of the price buys."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from privatelr.audit.mutations.planted import Mutation, Swap, everywhere, noise, row
from privatelr.mechanisms import MECHANISMS, Mechanism, Problem, divide
from privatelr.mechanisms.calibration import (
    Calibration,
    gaussian_objective,
    moment_noise,
    proven_noise,
    pure,
)
from privatelr.numerics import Huber
from privatelr.privacy import ZCDP, ApproxDP, PureDP, conversions
from privatelr.privacy.noise import (
    BlockLaplace,
    GaussianNoise,
    NoiseLaw,
    NoNoise,
    SphericalLaplace,
    gaussian_delta,
)
from privatelr.types import Placement


def _recalibrated(
    placement: Placement, kind: type[Any], change: Callable[[Calibration], Calibration]
) -> Callable[[], Iterable[Swap]]:
    """A row of the table of mechanisms whose calibrations are changed."""

    def swaps() -> Iterable[Swap]:
        honest = MECHANISMS[placement, kind]

        def calibrated(*given: Any) -> Calibration:
            return change(honest.calibrate(*given))

        yield Swap(MECHANISMS, (placement, kind), Mechanism(calibrated, honest.release))

    return swaps


def _less_noise(share: float) -> Callable[[Calibration], Calibration]:
    """The same law of this share of the size."""

    def change(calibration: Calibration) -> Calibration:
        return replace(calibration, noise=_scaled(calibration.noise, share))

    return change


def _scaled(law: NoiseLaw, share: float) -> NoiseLaw:
    match law:
        case SphericalLaplace() | BlockLaplace():
            return replace(law, rate=law.rate / share)
        case GaussianNoise():
            return replace(law, sd=law.sd * share)
    return law


def _radius_forgotten(calibration: Calibration) -> Calibration:
    return _less_noise(min(1.0, 1 / calibration.problem.radius))(calibration)


def _no_shield(calibration: Calibration) -> Calibration:
    return replace(calibration, shield=NoNoise(calibration.problem.d))


def _other_blocks(calibration: Calibration) -> Calibration:
    law = calibration.noise
    if not isinstance(law, BlockLaplace):
        return calibration
    halved = tuple(replace(block, bound=block.bound / 2) for block in law.blocks)
    return replace(calibration, noise=replace(law, blocks=halved))


def _sums_for_lengths(calibration: Calibration) -> Calibration:
    """Noise for rows whose sums of sizes are held, where it is their length that is."""
    law = calibration.noise
    if not isinstance(law, BlockLaplace):
        return calibration
    sums = tuple(replace(block, norm="l1") for block in law.blocks)
    return replace(calibration, noise=replace(law, blocks=sums))


def _hiding(sd_of: Callable[[float, ZCDP], float]) -> Callable[[], Iterable[Swap]]:
    """Gaussian noise under zCDP by another formula."""

    def swaps() -> Iterable[Swap]:
        def hiding(sensitivity: float, d: int, target: ZCDP) -> NoiseLaw:
            return GaussianNoise(d, sd_of(sensitivity, target))

        yield from everywhere(proven_noise.gaussian_within, hiding)

    return swaps


def _times(honest: Callable[..., float], factor: Callable[[Any], float]) -> Iterable[Swap]:
    """A function of a problem, times a factor of that."""
    yield from everywhere(
        honest, lambda problem, *rest, **named: factor(problem) * honest(problem, *rest, **named)
    )


def _kappa() -> Iterable[Swap]:
    yield Swap(Problem, "kappa", property(lambda problem: problem.radius / problem.penalty))


def _curvature_free() -> Iterable[Swap]:
    yield from everywhere(
        pure.joint_epsilon, lambda rate, problem: 2 * rate * problem.loss.slope_bound
    )


def _one_log_free() -> Iterable[Swap]:
    yield from everywhere(pure.curvature_cost, lambda problem: 0.0)


def _first_order() -> Iterable[Swap]:
    yield Swap(gaussian_objective, "FIRST_ORDER", 0.0)


def _profile() -> Iterable[Swap]:
    honest = gaussian_delta.log_delta
    yield from everywhere(honest, lambda epsilon, mu: honest(epsilon, mu / 1.2))


def _curvature_alone() -> Iterable[Swap]:
    def largest(problem: Problem) -> float:
        return problem.loss.curvature_bound

    yield Swap(moment_noise, "_largest_pair", largest)


def _both_get_all() -> Iterable[Swap]:
    honest = divide

    def divided(target: Any, spend: Any, loss: Any) -> Any:
        parts = honest(target, spend, loss)
        return parts if parts[1] is None else (target, target)

    yield from everywhere(divide, divided)


def _half_bend() -> Iterable[Swap]:
    yield Swap(Huber, "curvature_bound", property(lambda loss: 1 / (4 * loss.h)))


def _joint_hinge() -> Iterable[Swap]:
    yield Swap(Huber, "joint_factor", property(lambda loss: 1 / (2 * loss.h)))


def _rho_of_pure() -> Iterable[Swap]:
    honest = conversions.to_zcdp

    def converted(guarantee: PureDP | ZCDP) -> ZCDP:
        found = honest(guarantee)
        return found if isinstance(guarantee, ZCDP) else ZCDP(found.rho / 2, found.neighbours)

    yield from everywhere(honest, converted)


def _epsilon_of_rho() -> Iterable[Swap]:
    def epsilon(rho: float, delta: float) -> float:
        return rho + math.sqrt(rho * math.log(1 / delta))

    yield Swap(conversions, "_zcdp_epsilon", epsilon)


_SMALL_DELTA = "objective, epsilon = 1, delta = 1e-06"
_PURE, _ZCDP = noise("objective, epsilon = 1"), noise("objective, rho*")
_HIDDEN, _MOMENTS = noise("output, rho*"), noise("inference, epsilon = 1")
OF_NOISE = (
    Mutation(
        "a pure tilt has half of its noise",
        _recalibrated("objective", PureDP, _less_noise(0.5)),
        (_PURE,),
    ),
    Mutation(
        "a tilt under zCDP has nine tenths of its noise",
        _recalibrated("objective", ZCDP, _less_noise(0.9)),
        (_ZCDP,),
    ),
    Mutation(
        "a tilt under a delta has nine tenths of its noise",
        _recalibrated("objective", ApproxDP, _less_noise(0.9)),
        (noise(_SMALL_DELTA),),
    ),
    Mutation(
        "noise on the minimiser under a delta is nine tenths",
        _recalibrated("output", ApproxDP, _less_noise(0.9)),
        (noise("output, epsilon = 1, delta = 0.01"),),
    ),
    Mutation(
        "the radius is forgotten in the noise",
        _recalibrated("objective", PureDP, _radius_forgotten),
        (_PURE,),
    ),
    Mutation(
        "nothing covers the distance to the exact minimiser",
        _recalibrated("objective", PureDP, _no_shield),
        (_PURE,),
    ),
    Mutation(
        "noise in blocks has other blocks than the rows",
        _recalibrated("objective", PureDP, _other_blocks),
        (_PURE,),
    ),
    Mutation(
        "noise for a length is that for a sum of sizes",
        _recalibrated("objective", PureDP, _sums_for_lengths),
        (_PURE,),
    ),
    Mutation(
        "a factor of two is lost in rho",
        _hiding(lambda reach, target: reach / math.sqrt(4 * target.rho)),
        (_HIDDEN,),
    ),
    Mutation(
        "a root is lost in rho",
        _hiding(lambda reach, target: reach / (2 * target.rho)),
        (_HIDDEN,),
    ),
    Mutation(
        "replacement counts once in the sensitivity of the minimiser",
        lambda: _times(proven_noise.output_sensitivity, lambda problem: 0.5),
        (noise("output, epsilon = 1"),),
    ),
    Mutation("c R stands for c R squared", _kappa, (row("objective"),)),
    Mutation("the curvature costs nothing under the joint bound", _curvature_free, (_PURE,)),
    Mutation("the curvature costs nothing under the one-log bound", _one_log_free, (_PURE,)),
    Mutation("the first order is forgotten in rho", _first_order, (_ZCDP,)),
    Mutation("the profile of a Gaussian is that of a smaller mu", _profile, (noise(_SMALL_DELTA),)),
    Mutation(
        "moments lack the root of two of a replacement",
        lambda: _times(moment_noise.moments_sensitivity, lambda problem: 1 / math.sqrt(2)),
        (_MOMENTS,),
    ),
    Mutation(
        "moments take R for R squared",
        lambda: _times(moment_noise.moments_sensitivity, lambda problem: 1 / problem.radius),
        (_MOMENTS,),
    ),
    Mutation("moments pay for one of two matrices", _curvature_alone, (_MOMENTS,)),
    Mutation("both parts of a fit get the whole price", _both_get_all, (_MOMENTS,)),
    Mutation("a loss states half of its curvature", _half_bend, (noise("losses"),)),
    Mutation("a loss states a joint bound that it has not", _joint_hinge, (_PURE,)),
    Mutation("a pure epsilon counts as half its rho", _rho_of_pure, (noise("conversions"),)),
    Mutation("rho counts as too small an epsilon", _epsilon_of_rho, (noise("conversions"),)),
)
