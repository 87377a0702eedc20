"""Tests that real draws and releases are the ones whose law and privacy loss the audit computes.

Every law of noise is drawn from by the functions that a fit draws by, for all stages and for
several numbers of classes. The draws of one fit are one long vector. Its coordinates are compared
with draws by NumPy, and so are the lengths of its parts and the dependence of every two of its
coordinates. Then the source of bits is replaced.

Of releases, the noise is handed in: then there is one right release, the exact minimiser of the
tilted sum and the moments at the released coefficients, and the numbers themselves are compared.
Modelled releases are computed many at once, in doubles, with the package's sampler of the law.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from scipy import special, stats

from privatelr import mechanisms
from privatelr.audit.checks import Check, guarded, label, largest, measured
from privatelr.audit.density.exact import query
from privatelr.audit.density.pairs import signed_rows
from privatelr.audit.density.persons_and_classes import ClassedRows
from privatelr.audit.law_definitions import definition_of
from privatelr.audit.recomputed import plans_of_laws
from privatelr.mechanisms import Problem, Request, StagedCalibration, draw_all
from privatelr.mechanisms.calibration import Calibration
from privatelr.mechanisms.signed_rows import SignedRows, minimisers
from privatelr.mechanisms.stages.scale import ScaleFacts, calibrate_scale, release_scale
from privatelr.model import dplr, dpmultinom
from privatelr.numerics import LOSSES, Loss
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.solve import Newton
from privatelr.privacy import ZCDP, Promise, PureDP
from privatelr.privacy.noise import (
    LAWS,
    MANY,
    Draw,
    FloatDraw,
    GaussianNoise,
    NoiseLaw,
    NoNoise,
    RandomVector,
    SphericalLaplace,
    SystemRandomness,
    draw_many,
)
from privatelr.selection.online import PrivateFTRL
from privatelr.types import Block, ColumnGroup, FloatArray, Placement

PART = "release"
_RECORDS = 40
"""A small dataset has this number of records."""
_MODELLED = 20
"""For each real draw this number of modelled ones is made."""
_BLOCKS = (Block(1, 0.5), Block(1, 1.0), Block(1, 1.0))
_APART = (Block(1, 0.5), Block(1, 1.0, "l2"), Block(1, 1.0))
_CLOSE = 1e-8
"""A minimiser that the audit computes in doubles has at most this relative rounding error."""
_EVIDENCE = 6.0
"""A check of draws fails above this ``-log10`` of its p-value."""
_CHEAP = 8
"""Below this number of coordinates more draws are made, as many as take about as long."""
_BLOCKWISE = 2 * 2**16 + MANY
"""Number of coordinates of a draw that is made in several blocks."""
_BYTES = 7
"""A uniform number takes at least so many bytes, as many as a double resolves."""
_COINCIDE = 2
"""So many released numbers may coincide by chance, because they lie on a grid."""


# -- the laws of draws ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """Laws that are drawn from together, and the function that draws from them.

    Attributes
    ----------
    name : str
    laws : tuple of NoiseLaw
    draw : callable
        Returns one draw of each law, end to end.
    """

    name: str
    laws: tuple[NoiseLaw, ...]
    draw: Callable[[], FloatArray]


def drawings() -> Iterator[Drawing]:
    """All laws of the noise of fits, stage by stage."""
    for name, plan in plans_of_laws(1.0):
        others = (plan.parts[part].noise for part in draw_all(plan, SystemRandomness()).others)
        laws = (plan.coefficients.noise, plan.coefficients.shield, *others)
        yield Drawing(name, laws, partial(_draw_plan, plan))


def _draw_plan(plan: StagedCalibration) -> FloatArray:
    draws = draw_all(plan, SystemRandomness())
    drawn = (draws.noise, draws.shield, *draws.others.values())
    return np.concatenate([each.nearest() for each in drawn])


def _draw_law(law: RandomVector) -> FloatArray:
    return SystemRandomness().draw(law).nearest()


def audit_draws(rng: np.random.Generator, count: int, only: str = "") -> Iterator[Check]:
    """Compare noise that is drawn from the operating system with the definitions of its laws.

    Only drawings whose name contains `only` are compared.
    """
    yield from guarded("draws", "laws of noise", _drawn, rng, count, only)


def _drawn(rng: np.random.Generator, count: int, only: str) -> Iterator[Check]:
    compared, other = list(drawings()), "digits of evidence that"
    seen = {NoNoise, *(type(law) for drawing in compared for law in drawing.laws)}
    missing = set(LAWS.values()) - seen
    yield Check("draws", "laws of noise that no fit was seen to draw from", len(missing))
    checked = partial(measured, "draws", allowed=_EVIDENCE, only=f"*{only}*")
    for drawing in compared:
        subject = f"{drawing.name}: {other} they have another law"
        yield from checked(subject, _compare, drawing, rng, count)
    for law in (SphericalLaplace(_BLOCKWISE, 2.0), GaussianNoise(_BLOCKWISE, 0.7)):
        yield from checked(f"{law.title} in blocks: {other} it has another law", _in_blocks, law)
    yield from checked(f"uniform numbers: {other} they are not", _uniform)


def _compare(drawing: Drawing, rng: np.random.Generator, count: int) -> float:
    count *= 1 + _CHEAP // sum(law.dimension for law in drawing.laws)
    real = np.array([drawing.draw() for _ in range(count)])
    many = _MODELLED * count
    modelled = np.hstack([definition_of(law).draw(many, rng) for law in drawing.laws])
    views = [list(_views_of_draws(drawing.laws, side)) for side in (real, modelled)]
    return _evidence(np.append([*same_law(*views)], _same_dependence(real, modelled)))


def _evidence(pvalues: FloatArray) -> float:
    return max(0.0, -math.log10(max(len(pvalues) * float(pvalues.min()), 1e-300)))


def _views_of_draws(laws: Sequence[NoiseLaw], draws: FloatArray) -> Iterator[FloatArray]:
    """Functions of draws whose laws are compared: coordinates, lengths, shares of the largest."""
    yield from draws.T
    start = 0
    for law in laws:
        part = draws[:, start : start + law.dimension]
        start += law.dimension
        for copy in np.split(part, len(law.parts), axis=1):
            length = np.linalg.norm(copy, axis=1)
            yield length
            yield np.abs(copy).max(axis=1) / length
            yield from np.diff(copy).T
            yield from (copy[:, 1:] + copy[:, :-1]).T
        yield np.linalg.norm(part, axis=1)


def same_law(ours: Sequence[FloatArray], theirs: Sequence[FloatArray]) -> Iterator[float]:
    """The p-values of two-sample Kolmogorov-Smirnov tests, by their limit for large samples."""
    for first, second in zip(ours, theirs, strict=True):
        yield float(stats.ks_2samp(first, second, method="asymp").pvalue)


def _same_dependence(real: FloatArray, modelled: FloatArray) -> FloatArray:
    """The p-values of all products of two coordinates and of their sizes, by ranks.

    Real draws are also compared with the draws before them, on which they do not depend.
    """
    ours, theirs = (_ranks(np.hstack([side, np.abs(side)])) for side in (real, modelled))
    above = np.triu_indices(ours.shape[1], 1)
    means, squares = zip(*(_products(side, side) for side in (ours, theirs)), strict=True)
    gap = (means[0] - means[1])[above]
    noise = squares[0][above] / len(ours) + squares[1][above] / len(theirs)
    before, square = _products(ours[:-1], ours[1:])
    z = [gap / np.sqrt(noise), (before / np.sqrt(square / (len(ours) - 1))).ravel()]
    return np.asarray(special.erfc(np.abs(np.concatenate(z)) / math.sqrt(2)))


def _ranks(draws: FloatArray) -> FloatArray:
    """Ranks in each column, from -1 to 1."""
    order = draws.argsort(axis=0).argsort(axis=0)
    return np.asarray(2 * (order + 0.5) / len(draws) - 1)


def _products(first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The means and the variances of the products of every two columns."""
    mean = first.T @ second / len(first)
    return mean, (first**2).T @ second**2 / len(first) - mean**2 + 1e-12


def _in_blocks(law: NoiseLaw) -> float:
    """The evidence of one draw of very many coordinates: law, and dependence at any distance."""
    drawn, d = _draw_law(law), law.dimension
    square = float(drawn @ drawn)
    if law.is_pure:
        normal = drawn * math.sqrt(d / square)
        off = (math.sqrt(square) / law.scale - d) / math.sqrt(d)
    else:
        normal, off = drawn / law.scale, (square / law.scale**2 - d) / math.sqrt(2 * d)
    chance = special.erfc(abs(off) / math.sqrt(2))
    return _evidence(np.append(_of_uniforms(special.ndtr(normal)), chance))


def _uniform() -> float:
    return _evidence(_of_uniforms(SystemRandomness().uniforms(_BLOCKWISE)))


def _of_uniforms(drawn: FloatArray) -> FloatArray:
    """The p-values of the hypothesis that numbers are uniform and independent at any distance."""
    n = len(drawn)
    law = stats.kstest(drawn, "uniform", method="asymp").pvalue
    waves = np.fft.rfft(math.sqrt(12) * (drawn - 0.5), 2 * n)
    lags = np.fft.irfft(np.abs(waves) ** 2)[1 : n // 2]
    z = np.abs(lags) / np.sqrt(n - np.arange(1, n // 2))
    return np.append(special.erfc(z / math.sqrt(2)), law)


# -- the source of bits ---------------------------------------------------------------------------


class _Bits:
    """A known stream of bytes in the place of the operating system's, which counts them."""

    def __init__(self, key: str) -> None:
        self.key, self.taken = key, 0

    def __call__(self, count: int) -> bytes:
        name = f"{self.key} {self.taken}".encode()
        self.taken += count
        return hashlib.shake_256(name).digest(count)


@contextmanager
def known_bits(key: str) -> Iterator[_Bits]:
    """Replace the bits of the operating system, of which `os` and `secrets` are the two doors."""
    bits = _Bits(key)
    with mock.patch.object(os, "urandom", bits), mock.patch.object(random, "_urandom", bits):
        yield bits


_FRAME = {"x": np.linspace(-1, 1, 60), "z": np.linspace(1, -1, 60) ** 3, "y": [0.0, 1.0] * 30}
_CLASSES = {**_FRAME, "y": ["a", "b", "c"] * 20}
_BOX = {"x": (-1.0, 1.0), "z": (-1.0, 1.0)}
_TWO = {**_BOX, "y": (0.0, 1.0)}
_STAGES = {"scale": 0.1, "coefficients": 0.5, "inference": 0.3, "roc": 0.1}


def _fit_all() -> FloatArray:
    fitted = dplr("y ~ x + z", pd.DataFrame(_FRAME), 5.0, bounds=_TWO, spend=_STAGES)
    release = fitted.release
    assert release.scale is not None
    assert release.moments is not None
    return np.concatenate([release.coef, release.moments.values, release.scale.values])


def _fit_classes() -> FloatArray:
    declared: dict[str, Any] = {"bounds": _BOX, "levels": {"y": ["a", "b", "c"]}}
    return dpmultinom("y ~ x + z", pd.DataFrame(_CLASSES), 5.0, **declared).release.coef


def _play() -> FloatArray:
    play, chosen = PrivateFTRL(2, 60, 0.5, 0.0), 0.0
    for _ in range(60):
        chosen = 2 * chosen + play.predict()
        play.update([0.0, 0.0])
    return np.array([chosen])


def audit_source(only: str = "") -> Iterator[Check]:
    """Checks that noise takes its bits from the operating system, fresh ones for each number.

    The bits are replaced by known ones and counted. Equal bits make equal releases, other bits
    change every number, and what seeds Python's and NumPy's generators changes nothing.
    """
    yield from guarded("source", "sources of bits", _sources, only)


def _sources(only: str) -> Iterator[Check]:
    whole = SystemRandomness()
    for name, draw, uniforms, coincide in (
        *((one.name, one.draw, sum(law.uniforms for law in one.laws), 0) for one in drawings()),
        ("uniform numbers", partial(whole.uniforms, 99), 99, 0),
        ("a draw in blocks", partial(_draw_law, GaussianNoise(MANY + 9, 1.0)), MANY, 0),
        ("a fit of all stages", _fit_all, 20, _COINCIDE),
        ("a fit of three classes", _fit_classes, 9, _COINCIDE),
        ("sixty choices", _play, 60, 0),
    ):
        given = name, draw, uniforms, coincide
        yield from guarded("source", name, _source_checks, *given, only=f"*{only}*")


def _source_checks(
    name: str, draw: Callable[[], FloatArray], uniforms: int, coincide: int
) -> Iterator[Check]:
    seeded, known, taken = list[FloatArray](), list[FloatArray](), list[int]()
    for _ in range(2):
        with _global_generators_seeded():
            seeded.append(draw())
    for key in ("one", "one", "other"):
        with known_bits(key) as bits:
            known.append(draw())
            taken.append(bits.taken)
    from_seeds, unchanged = np.sum(seeded[0] == seeded[1]), np.sum(known[0] == known[2])
    for what, found, allowed in (
        ("numbers that follow from a seed of Python or NumPy", from_seeds, coincide),
        ("numbers that do not follow from the system's bits", np.sum(known[0] != known[1]), 0),
        ("numbers that other bits leave as they are", unchanged, coincide),
        ("uniform numbers without fresh bits", max(uniforms - min(taken) / _BYTES, 0.0), 0),
    ):
        yield Check("source", f"{name}: {what}", float(found), allowed)


@contextmanager
def _global_generators_seeded() -> Iterator[None]:
    """Seed the generators of Python and NumPy that any code may draw from, for a while."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


# -- modelled releases, many at once ----------------------------------------------------------


def release_many(
    calibration: Calibration, data: SignedRows, count: int, rng: np.random.Generator
) -> FloatArray:
    """Independent releases ``(count, d)`` on one dataset."""
    problem = calibration.problem
    noise = draw_many(calibration.noise, count, rng)
    if calibration.placement == "objective":
        w = minimisers(data, problem, noise) + draw_many(calibration.shield, count, rng)
    else:
        w = minimisers(data, problem, np.zeros((1, problem.d))) + noise
    return np.asarray(np.round(w / calibration.grid) * calibration.grid)


# -- real releases, with given noise ----------------------------------------------------------


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


def audit_releases(rng: np.random.Generator, epsilon: float) -> Iterator[Check]:
    """A check of `small_datasets` for each mechanism and loss, with noise that is handed in."""
    subject = "scale, coefficients and moments: noise that is not the one draw of its law"
    yield from measured(PART, subject, _fresh, epsilon, allowed=0.0)
    placements = [placement for placement, kind in mechanisms.MECHANISMS if kind is PureDP]
    for placement in placements:  # under other claims they release by the same functions
        for loss in LOSSES.values():
            off = partial(_off_minimum, placement, loss, epsilon, rng)
            subject = f"{placement}, {label(loss)}: distance to minimum and moments, over the most"
            yield from measured(PART, subject, _worst, off, rng)
        for classes in (3, 7):
            off = partial(_off_softmax, placement, classes, epsilon, rng)
            what = f"{placement}, {classes} classes"
            yield from measured(PART, f"{what}: distance to the exact minimum, over the most", off)
    for claim in (PureDP(epsilon), ZCDP(epsilon**2 / 2)):
        subject = f"scale, {claim}: distance to its moments and noise, over the most"
        yield from measured(PART, subject, _worst, partial(_off_scale, claim, rng), rng)


@dataclass(frozen=True, eq=False)
class _Recorded(SystemRandomness):
    """Randomness that records its draws."""

    given: list[tuple[RandomVector, Draw]] = field(default_factory=list)

    def draw(self, recipe: RandomVector) -> Draw:
        """A draw from the operating system; it is appended to `given`."""
        self.given.append((recipe, super().draw(recipe)))
        return self.given[-1][1]


def _fresh(epsilon: float) -> float:
    """The noise laws of a plan that are not drawn from once, or whose draw is not used."""
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
    return stale + abs(len(recorded.given) - len(used))


def _worst(off: Callable[[DenseRows], float], rng: np.random.Generator) -> float:
    """The largest error of a release over all small datasets; NaN counts as the largest."""
    return largest(off(rows) for rows in small_datasets(rng))


def _off_minimum(
    placement: Placement, loss: Loss, epsilon: float, rng: np.random.Generator, rows: DenseRows
) -> float:
    """The error of released coefficients and moments over the largest error allowed.

    It is infinite if the coefficients are not on the grid. Moments are those at the coefficients.
    """
    request = Request(PureDP(epsilon), placement, None, "free", "keep", "inference")
    plan = mechanisms.calibrate_all(request, _facts(rows, loss))
    calibration, moments = plan.coefficients, plan.moments
    assert moments is not None
    b, noise = (definition_of(stage.noise).draw(1, rng) for stage in (calibration, moments))
    silence = FloatDraw(np.zeros(calibration.shield.dimension))
    draws = mechanisms.Draws(FloatDraw(b[0]), silence, {"inference": FloatDraw(noise[0])})
    release = mechanisms.release_all(rows, plan, draws, Newton())
    assert release.moments is not None
    data, grid, problem = signed_rows(rows.x, rows.y), calibration.grid, calibration.problem
    w, values = release.coef, release.moments.values
    if not np.array_equal(np.round(w / grid) * grid, w):
        return math.inf
    if placement == "objective":
        exact = minimisers(data, problem, b)[0]
    else:
        exact = minimisers(data, problem, np.zeros_like(b))[0] + b[0]
    size = float(np.linalg.norm(exact)) + 1 / problem.radius
    most = calibration.distance + grid / 2 * math.sqrt(len(w)) + _CLOSE * size
    wanted = query(data, moments, w[None])[0] + noise[0]
    most_of_each = moments.grid / 2 + _CLOSE * (np.abs(wanted) + problem.radius**2)
    off = float(np.linalg.norm(w - exact)) / most
    return largest((off, *(np.abs(values - wanted) / most_of_each)))


def _off_softmax(
    placement: Placement, classes: int, epsilon: float, rng: np.random.Generator
) -> float:
    """The gradient at a release of several classes, each with its noise, over the most allowed."""
    own, most = rng.integers(0, classes, _RECORDS), classes - 1.0
    given = rng.standard_normal((_RECORDS, 2)), np.ones(_RECORDS), own.astype(np.float64)
    rows = DenseRows(*given, bound=1.0, intercept=None, offset_bound=most)
    facts = replace(_facts(rows, LOSSES["logistic"]), classes=classes, offset=most)
    request = Request(PureDP(epsilon), placement, None, "free", "keep")
    calibration = mechanisms.calibrate(request, facts)
    b = definition_of(calibration.noise).draw(1, rng)[0]
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
    return off / (calibration.distance + bend * rounding + _CLOSE * size)


def _off_scale(claim: Promise, rng: np.random.Generator, rows: DenseRows) -> float:
    """The error of a released scale over the largest error allowed; infinite if off its grid."""
    facts = ScaleFacts(rows.n, (ColumnGroup(1, "number"),) * 2, False, 0.01)
    scale, covariates = calibrate_scale(facts, claim), rows.x[:, rows.d - facts.p :]
    noise = definition_of(scale.noise).draw(1, rng)[0]
    found = release_scale(rows, scale, FloatDraw(noise)).values
    squares = scale.weight * (covariates**2).mean(axis=0)
    wanted = np.concatenate([covariates.mean(axis=0), squares]) + noise
    if not np.array_equal(np.round(found / scale.grid) * scale.grid, found):
        return math.inf
    most = scale.grid / 2 + _CLOSE * (np.abs(wanted) + 1)
    return float((np.abs(found - wanted) / most).max())
