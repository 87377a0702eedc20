"""Releases under noise that is known: each is compared with its definition, digit by digit.

The law of a release can hide a small slip from any sample. With noise that the audit puts in, the
release is one vector, and it is there or it is not: the exact minimiser of the tilted sum, the
moments at it, and of a choice the option that the script makes win by a hair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from privatelr.audit.checks import Check, guarded, label
from privatelr.audit.density.exact import minimisers
from privatelr.audit.density.joint import moments_of, query
from privatelr.audit.density.pairs import signed_rows
from privatelr.audit.sampling.distribution_tests import small_datasets
from privatelr.audit.sampling.draws import draw_by_definition
from privatelr.mechanisms import (
    MECHANISMS,
    Draws,
    Facts,
    Request,
    calibrate,
    calibrate_all,
    draw_all,
    release_moments,
)
from privatelr.mechanisms.calibration import Calibration, calibrate_moments
from privatelr.numerics import LOSSES, Loss
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.solve import Newton
from privatelr.privacy import PureDP
from privatelr.privacy.noise import Draw, FloatDraw, RandomVector, SystemRandomness
from privatelr.types import FloatArray, Placement

PART = "release"
_CLOSE = 1e-8
"""The part of the size of a minimiser that the audit's own doubles lose."""
_HAIR = 1e-6
"""The scripted option wins by so much of an exponent."""


def audit_releases(rng: np.random.Generator, epsilon: float) -> Iterator[Check]:
    """A check for each mechanism and loss, over datasets in balls, in blocks, and of one class."""
    yield from guarded(PART, "fresh noise", _fresh, epsilon)
    for placement, kind in MECHANISMS:
        if kind is not PureDP:  # the others release by the same functions
            continue
        for loss in LOSSES.values():
            subject = f"{placement}, {label(loss)}: distance to the exact minimum, over the most"
            yield from guarded(PART, subject, _minima, placement, loss, subject, epsilon, rng)
    for loss in LOSSES.values():
        subject = f"moments, {label(loss)}: distance to their query and noise, over the most"
        yield from guarded(PART, subject, _moments, loss, subject, epsilon, rng)


@dataclass(frozen=True, slots=True, eq=False)
class _Recorded:
    """Randomness that keeps what it gave."""

    source: SystemRandomness
    given: list[tuple[RandomVector, Draw]]

    def draw(self, recipe: RandomVector) -> Draw:
        """A draw of the operating system, written down."""
        self.given.append((recipe, self.source.draw(recipe)))
        return self.given[-1][1]

    @property
    def is_secret(self) -> bool:
        return True

    def uniforms(self, count: int) -> FloatArray:
        """None are asked for by a release."""
        raise NotImplementedError


def _fresh(epsilon: float) -> Iterator[Check]:
    """Each law of a plan is drawn from once, and that draw is used."""
    request = Request(PureDP(epsilon), "objective", None, "free", "keep", "inference")
    plan = calibrate_all(request, Facts(40, 2, LOSSES["logistic"], 1.0))
    recorded = _Recorded(SystemRandomness(), [])
    draws = draw_all(plan, recorded)
    used = [
        (plan.coefficients.noise, draws.noise),
        (plan.coefficients.shield, draws.shield),
        (moments_of(plan).noise, draws.moments),
    ]
    stale = sum(
        not any(law == drawn and draw is found for drawn, found in recorded.given)
        for law, draw in used
    )
    subject = "coefficients and moments: noise that is not the one draw of its law"
    yield Check(PART, subject, stale + abs(len(recorded.given) - len(used)))


def _minima(
    placement: Placement, loss: Loss, subject: str, epsilon: float, rng: np.random.Generator
) -> Iterator[Check]:
    release = MECHANISMS[placement, PureDP].release
    worst = 0.0
    for rows in small_datasets(rng):
        calibration = _calibrated(rows, loss, epsilon, placement)
        b = draw_by_definition(calibration.noise, 1, rng)
        silence = FloatDraw(np.zeros(calibration.shield.dimension))
        found = release(rows, calibration, Draws(FloatDraw(b[0]), silence), Newton()).coef
        worst = max(worst, _distance(rows, calibration, b, found))
    yield Check(PART, subject, worst, 1.0)


def _calibrated(
    rows: DenseRows, loss: Loss, epsilon: float, placement: Placement = "objective"
) -> Calibration:
    facts = Facts(rows.n, rows.d, loss, rows.radius, rows.blocks)
    return calibrate(Request(PureDP(epsilon), placement, None, "free", "keep"), facts)


def _distance(rows: DenseRows, calibration: Calibration, b: FloatArray, w: FloatArray) -> float:
    """How far a release is from what it should be, over what it may be; infinite off the grid."""
    data, grid, problem = signed_rows(rows.x, rows.y), calibration.grid, calibration.problem
    if not np.array_equal(np.round(w / grid) * grid, w):
        return math.inf
    if calibration.placement == "objective":
        exact = minimisers(data, problem, b)[0]
    else:
        exact = minimisers(data, problem, np.zeros_like(b))[0] + b[0]
    size = float(np.linalg.norm(exact)) + 1 / problem.radius
    rounding = grid / 2 * math.sqrt(len(w))
    return float(np.linalg.norm(w - exact)) / (calibration.distance + rounding + _CLOSE * size)


def _moments(loss: Loss, subject: str, epsilon: float, rng: np.random.Generator) -> Iterator[Check]:
    worst = 0.0
    for rows in small_datasets(rng):
        problem = _calibrated(rows, loss, epsilon).problem
        moments = calibrate_moments(problem, PureDP(epsilon))
        w = rng.standard_normal(rows.d) / problem.radius
        noise = draw_by_definition(moments.noise, 1, rng)[0]
        found = release_moments(rows, w, moments, FloatDraw(noise)).values
        wanted = query(signed_rows(rows.x, rows.y), moments, w[None])[0] + noise
        most = moments.grid / 2 + _CLOSE * (np.abs(wanted) + problem.radius**2)
        worst = max(worst, float((np.abs(found - wanted) / most).max()))
    yield Check(PART, subject, worst, 1.0)


# -- choices ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """Randomness that makes one option of each round win by a hair, if its scores are right.

    Attributes
    ----------
    exponents : callable
        Log chances ``(k,)`` of the options of the next round, by the definition, after a path.
    path : list of int
        The options that are to win.
    done : list of int
        How many rounds were asked for.
    """

    exponents: Callable[[list[int]], FloatArray]
    path: list[int]
    done: list[int]

    def draw(self, recipe: RandomVector) -> Draw:
        """Numbers that level all options but the scripted one."""
        turn = min(len(self.done), len(self.path) - 1)
        self.done.append(turn)
        numbers = -np.asarray(self.exponents(self.path[:turn]), dtype=np.float64)
        numbers[self.path[turn]] += _HAIR
        return FloatDraw(numbers)

    @property
    def is_secret(self) -> bool:
        return False

    def uniforms(self, count: int) -> FloatArray:
        """None are asked for by a choice."""
        raise NotImplementedError


def follows(
    play: Callable[[Script], list[int]],
    exponents: Callable[[list[int]], FloatArray],
    shape: tuple[int, int],
    rng: np.random.Generator,
    scripts: int = 20,
) -> int:
    """Scripts that a play did not follow: where its scores are not those of the definition.

    Parameters
    ----------
    play
        Plays by a script, and returns the options that it chose.
    exponents
        As of a `Script`.
    shape : (int, int)
        Options, and rounds.
    """
    options, rounds = shape
    missed = 0
    for _ in range(scripts):
        path = rng.integers(options, size=rounds).tolist()
        script = Script(exponents, path, [])
        missed += list(play(script)) != path
    return missed
