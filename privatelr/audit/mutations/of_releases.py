"""Bugs in what is drawn, minimised and released under noise of the right size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import optimize

from privatelr.audit.mutations.planted import DRAWS, RELEASES, Mutation, Swap, everywhere, row
from privatelr.mechanisms import (
    MECHANISMS,
    Mechanism,
    draw,
    perturbation,
    registry,
    rounded_sum,
)
from privatelr.numerics import Objective, gradient_of, value_and_gradient
from privatelr.numerics.solve import certified_minimum
from privatelr.privacy import PureDP
from privatelr.privacy.noise import FloatDraw, SystemRandomness, block_norms, noise_laws
from privatelr.privacy.noise import exact_draws as recipes
from privatelr.types import FloatArray, Placement, parts_of

_KEY: tuple[Placement, type[Any]] = ("objective", PureDP)


# -- draws --------------------------------------------------------------------------------------


def _one_exponential() -> Iterable[Swap]:
    """The length of a spherical draw is that of one dimension."""

    def transform(law: Any, uniforms: Any, signs: Any, arithmetic: Any) -> Any:
        d = law.dimension
        direction = recipes.normals(uniforms[d:], d, arithmetic)
        length = arithmetic.sqrt(recipes.total([x * x for x in direction]))
        gamma = recipes.exponentials(uniforms[:1], arithmetic)[0] / law.rate
        return [x * gamma / length for x in direction]

    yield Swap(noise_laws.SphericalLaplace, "transform", transform)


def _from_a_cube() -> Iterable[Swap]:
    """The direction of a spherical draw is that of a point in a cube."""

    def transform(law: Any, uniforms: Any, signs: Any, arithmetic: Any) -> Any:
        d = law.dimension
        direction = [2 * uniform - 1 for uniform in uniforms[d : 2 * d]]
        length = arithmetic.sqrt(recipes.total([x * x for x in direction]))
        gamma = recipes.total(recipes.exponentials(uniforms[:d], arithmetic)) / law.rate
        return [x * gamma / length for x in direction]

    yield Swap(noise_laws.SphericalLaplace, "transform", transform)


def _block_reach() -> Iterable[Swap]:
    """The reach of a draw in blocks has shape d, and not d + 1."""
    honest = block_norms.BlockLaplace.transform

    def transform(law: Any, uniforms: Any, signs: Any, arithmetic: Any) -> Any:
        sizes = recipes.exponentials(uniforms[: law.dimension + 1], arithmetic)
        shrink = recipes.total(sizes[:-1]) / recipes.total(sizes)
        return [x * shrink for x in honest(law, uniforms, signs, arithmetic)]

    yield Swap(block_norms.BlockLaplace, "transform", transform)


def _on_the_surface() -> Iterable[Swap]:
    """Columns that have a length together are drawn on the surface of their ball."""
    honest = block_norms.BlockLaplace.transform

    def transform(law: Any, uniforms: Any, signs: Any, arithmetic: Any) -> Any:
        drawn = honest(law, uniforms, signs, arithmetic)
        ball = parts_of(law.blocks)[-1]
        if ball.norm == "l1":
            return drawn
        reach = recipes.total(recipes.exponentials(uniforms[: law.dimension + 1], arithmetic))
        own = [drawn[column] for column in ball.columns]
        length = arithmetic.sqrt(recipes.total([x * x for x in own]))
        for column in ball.columns:
            drawn[column] = drawn[column] * (ball.bound * reach / law.rate / length)
        return drawn

    yield Swap(block_norms.BlockLaplace, "transform", transform)


def _one_normal() -> Iterable[Swap]:
    """All coordinates of a Gaussian draw are the same number."""

    def transform(law: Any, uniforms: Any, signs: Any, arithmetic: Any) -> Any:
        return recipes.normals(uniforms[:2], 1, arithmetic) * law.dimension

    def scaled(law: Any, uniforms: Any, signs: Any, arithmetic: Any) -> Any:
        return [x * law.sd for x in transform(law, uniforms, signs, arithmetic)]

    yield Swap(noise_laws.GaussianNoise, "transform", scaled)


def _drawn_once() -> Iterable[Swap]:
    """The first draw of a law is every draw of it."""
    honest = SystemRandomness.draw
    kept: dict[Any, Any] = {}

    def drawn(source: SystemRandomness, recipe: Any) -> Any:
        return kept.setdefault(recipe, honest(source, recipe))

    yield Swap(SystemRandomness, "draw", drawn)


def _shared_draw() -> Iterable[Swap]:
    """The noise of the moments repeats that of the coefficients."""

    def both(plan: Any, randomness: Any) -> Any:
        first = draw(plan.coefficients, randomness)
        if plan.moments is None:
            return first
        unit = first.noise.nearest() / plan.coefficients.noise.scale
        law = plan.moments.noise
        fresh = randomness.draw(law).nearest()
        fresh[: len(unit)] = unit * law.scale
        return replace(first, moments=FloatDraw(fresh))

    yield from everywhere(registry.draw_all, both)


# -- minima -------------------------------------------------------------------------------------


def _minimised(penalty: Callable[[FloatArray], FloatArray]) -> Callable[[], Iterable[Swap]]:
    """The minimum of another objective: with these shares of the penalty of each coefficient."""

    def swaps() -> Iterable[Swap]:
        def minimum(given: Objective, solver: Any, tau: float, *known: Any) -> FloatArray:
            shares = penalty(np.ones(given.rows.d))
            bare = replace(given, lambda_=0.0)

            def value(w: FloatArray) -> tuple[float, FloatArray]:
                found, slope = value_and_gradient(bare, w)
                ridge = given.lambda_ * shares * w
                return found + float(ridge @ w) / 2, slope + ridge

            start = np.zeros(given.rows.d)
            found = optimize.minimize(value, start, jac=True, method="BFGS", options={"gtol": 1e-9})
            return np.asarray(found.x)

        yield Swap(perturbation, "certified_minimum", minimum)

    return swaps


def _first_free(shares: FloatArray) -> FloatArray:
    shares[0] = 0.01  # next to nothing, so that there is a minimum whatever the rows are
    return shares


def _one_step() -> Iterable[Swap]:
    """A few steps down the slope stand in for the minimum."""

    def minimum(given: Objective, solver: Any, tau: float, *known: Any) -> FloatArray:
        w = np.zeros(given.rows.d)
        bend = given.loss.curvature_bound * given.rows.radius**2 + given.lambda_
        for _ in range(10):
            w -= gradient_of(given, w) / bend
        return w

    yield Swap(perturbation, "certified_minimum", minimum)


def _tilt_halved() -> Iterable[Swap]:
    def halved(rows: Any, loss: Any, lambda_: float, tilt: FloatArray) -> Objective:
        return Objective(rows, loss, lambda_, tilt / 2)

    honest = certified_minimum

    def minimum(given: Objective, solver: Any, tau: float, enclose: Any, *known: Any) -> Any:
        def half(precision: int) -> list[Any]:
            return [ball / 2 for ball in enclose(precision)]

        return honest(given, solver, tau, half, None)

    yield Swap(perturbation, "Objective", halved)
    yield Swap(perturbation, "certified_minimum", minimum)


# -- what is released ---------------------------------------------------------------------------


def _release(change: Callable[..., Any]) -> Callable[[], Iterable[Swap]]:
    """Another release of a pure tilt, by the honest one and what that takes."""

    def swaps() -> Iterable[Swap]:
        honest = MECHANISMS[_KEY]

        def release(rows: Any, calibration: Any, draws: Any, solver: Any) -> Any:
            return change(honest.release, rows, calibration, draws, solver)

        yield Swap(MECHANISMS, _KEY, Mechanism(honest.calibrate, release))

    return swaps


def _constant_for_one_class(honest: Any, rows: Any, calibration: Any, *rest: Any) -> Any:
    found = honest(rows, calibration, *rest)
    labels = {float(label) for label in rows.y if label != 0}
    return found if len(labels) > 1 else replace(found, coef=np.zeros_like(found.coef))


def _again_until_good(honest: Any, rows: Any, calibration: Any, draws: Any, solver: Any) -> Any:
    for _ in range(20):
        found = honest(rows, calibration, draws, solver)
        if np.mean(rows.y * (rows.x @ found.coef) > 0) > 0.6:
            break
        draws = draw(calibration, SystemRandomness())
    return found


def _half_noise(honest: Any, rows: Any, calibration: Any, draws: Any, solver: Any) -> Any:
    silent = replace(draws, noise=FloatDraw(draws.noise.nearest() / 2))
    return honest(rows, calibration, silent, solver)


def _grid_of_data() -> Iterable[Swap]:
    """Digits are kept by the size of the minimum, which tells of it."""
    honest = rounded_sum

    def rounded(centre: Any, drawn: Any, grid: float) -> FloatArray:
        found = honest(centre, drawn, grid)
        size = float(np.abs(found).max())
        coarse = grid * 2.0 ** round(np.log2(max(size / grid, 1.0) * 1e-4 + 1.0))
        return np.asarray(np.round(found / coarse) * coarse)

    yield Swap(perturbation, "rounded_sum", rounded)


# -- moments ------------------------------------------------------------------------------------


def _scores_not_averaged() -> Iterable[Swap]:
    honest = perturbation.mean_moments

    def mean(rows: Any, coef: FloatArray, calibration: Any) -> FloatArray:
        found = honest(rows, coef, calibration)
        found[len(found) // 2 :] *= rows.n
        return found

    yield from everywhere(honest, mean)


def _elsewhere() -> Iterable[Swap]:
    honest = perturbation.mean_moments
    yield from everywhere(honest, lambda rows, coef, made: honest(rows, 0 * coef, made))


def _one_noise_for_both() -> Iterable[Swap]:
    honest = perturbation.release_moments

    def released(rows: Any, coef: FloatArray, made: Any, drawn: Any) -> Any:
        half = np.hsplit(drawn.nearest(), 2)[0]
        return honest(rows, coef, made, FloatDraw(np.concatenate([half, half])))

    yield from everywhere(honest, released)


OF_RELEASES = (
    Mutation("the length of a draw has one dimension", _one_exponential, (DRAWS,)),
    Mutation("the direction of a draw is that of a cube", _from_a_cube, (DRAWS,)),
    Mutation("a draw in blocks is one dimension short", _block_reach, (DRAWS,)),
    Mutation("a draw in a ball is on its surface", _on_the_surface, (DRAWS,)),
    Mutation("coordinates of a Gaussian draw are one number", _one_normal, (DRAWS,)),
    Mutation("a law is drawn from once and for all", _drawn_once, (DRAWS,)),
    Mutation(
        "moments take their noise from the coefficients",
        _shared_draw,
        (RELEASES,),
    ),
    Mutation(
        "half of the noise is released",
        _release(_half_noise),
        (row("objective"), RELEASES),
    ),
    Mutation(
        "the objective has half of the penalty of the noise",
        _minimised(lambda shares: shares / 2),
        (RELEASES,),
    ),
    Mutation("the intercept is not regularised", _minimised(_first_free), (RELEASES,)),
    Mutation("a minimum is not waited for", _one_step, (RELEASES,)),
    Mutation("half of the tilt is applied", _tilt_halved, (RELEASES,)),
    Mutation("one class gets a constant", _release(_constant_for_one_class), (RELEASES,)),
    Mutation("noise is drawn until the fit is good", _release(_again_until_good), (RELEASES,)),
    Mutation("digits depend on the data", _grid_of_data, (RELEASES,)),
    Mutation("scores are summed, and not averaged", _scores_not_averaged, (RELEASES,)),
    Mutation("moments are taken elsewhere", _elsewhere, (RELEASES,)),
    Mutation("both matrices get one noise", _one_noise_for_both, (RELEASES,)),
)
