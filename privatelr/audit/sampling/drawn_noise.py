"""Noise that is really drawn: the definition of its law, and the source of its bits.

Every law is drawn from by the functions that a fit draws by, for all stages and for several
numbers of classes. The draws of one fit are one long vector. Its coordinates are compared with
draws by NumPy, and so are the lengths of its parts and the dependence of every two coordinates.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from scipy import special

from privatelr.audit.checks import Check, guarded
from privatelr.audit.law_definitions import definition_of
from privatelr.audit.recomputed import plans_of_laws
from privatelr.mechanisms import StagedCalibration, draw_all
from privatelr.model import dplr
from privatelr.multinomial_model import dpmultinom
from privatelr.privacy.noise import (
    LAWS,
    GaussianNoise,
    NoiseLaw,
    NoNoise,
    RandomVector,
    SphericalLaplace,
    SystemRandomness,
)
from privatelr.privacy.noise.blockwise import MANY
from privatelr.selection.online import PrivateFTRL
from privatelr.types import FloatArray

_MODELLED = 20
"""For each real draw this number of draws is made by NumPy."""
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


def draw_by_definition(law: NoiseLaw, count: int, rng: np.random.Generator) -> FloatArray:
    """Draws ``(count, dimension)`` by the definition of the law and NumPy's samplers."""
    return definition_of(law).draw(law, count, rng)


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
        yield Drawing(name, tuple(_laws(plan)), partial(_draw_plan, plan))


def _laws(plan: StagedCalibration) -> Iterator[NoiseLaw]:
    """The laws of a plan in the order of its draws."""
    yield plan.coefficients.noise
    yield plan.coefficients.shield
    yield from (plan.parts[name].noise for name in draw_all(plan, SystemRandomness()).others)


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
    seen = {NoNoise.__name__}
    for drawing in drawings():
        seen |= {type(law).__name__ for law in drawing.laws}
        if only in drawing.name:
            subject = f"{drawing.name}: digits of evidence that they have another law"
            yield from guarded("draws", subject, _compare, drawing, subject, rng, count)
    missing = {law.__name__ for law in LAWS.values()} - seen
    yield Check("draws", "laws of noise that no fit was seen to draw from", len(missing))
    for law in (SphericalLaplace(_BLOCKWISE, 2.0), GaussianNoise(_BLOCKWISE, 0.7)):
        subject = f"{law.title} in blocks: digits of evidence that it has another law"
        if only in subject:
            yield from guarded("draws", subject, _in_blocks, law, subject)
    if only in "uniform numbers":
        subject = "uniform numbers: digits of evidence that they are not"
        yield from guarded("draws", subject, _uniform, subject)


def _compare(
    drawing: Drawing, subject: str, rng: np.random.Generator, count: int
) -> Iterator[Check]:
    count *= 1 + _CHEAP // sum(law.dimension for law in drawing.laws)
    real = np.array([drawing.draw() for _ in range(count)])
    many = _MODELLED * count
    modelled = np.hstack([draw_by_definition(law, many, rng) for law in drawing.laws])
    views = [list(_views(drawing.laws, side)) for side in (real, modelled)]
    pvalues = np.append([*same_law(*views)], _same_dependence(real, modelled))
    yield Check("draws", subject, _evidence(pvalues), _EVIDENCE)


def _evidence(pvalues: FloatArray) -> float:
    return max(0.0, -math.log10(max(len(pvalues) * float(pvalues.min()), 1e-300)))


def _views(laws: Sequence[NoiseLaw], draws: FloatArray) -> Iterator[FloatArray]:
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
        pooled = np.concatenate([first, second])
        reached = [
            np.searchsorted(np.sort(side), pooled, side="right") / len(side)
            for side in (first, second)
        ]
        size = np.sqrt(len(first) * len(second) / len(pooled))
        yield float(special.kolmogorov(size * np.abs(reached[0] - reached[1]).max()))


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


def _in_blocks(law: NoiseLaw, subject: str) -> Iterator[Check]:
    """Check one draw of very many coordinates: their law, and their dependence at any distance."""
    drawn, d = _draw_law(law), law.dimension
    square = float(drawn @ drawn)
    if law.is_pure:
        normal = drawn * math.sqrt(d / square)
        off = (math.sqrt(square) / law.scale - d) / math.sqrt(d)
    else:
        normal, off = drawn / law.scale, (square / law.scale**2 - d) / math.sqrt(2 * d)
    pvalues = np.append(_of_uniforms(special.ndtr(normal)), special.erfc(abs(off) / math.sqrt(2)))
    yield Check("draws", subject, _evidence(pvalues), _EVIDENCE)


def _uniform(subject: str) -> Iterator[Check]:
    drawn = SystemRandomness().uniforms(_BLOCKWISE)
    yield Check("draws", subject, _evidence(_of_uniforms(drawn)), _EVIDENCE)


def _of_uniforms(drawn: FloatArray) -> FloatArray:
    """The p-values of the hypothesis that numbers are uniform and independent at any distance."""
    n = len(drawn)
    steps = np.arange(n) / n
    ranked = np.sort(drawn)
    far = max((ranked - steps).max(), (steps + 1 / n - ranked).max())
    waves = np.fft.rfft(math.sqrt(12) * (drawn - 0.5), 2 * n)
    lags = np.fft.irfft(np.abs(waves) ** 2)[1 : n // 2]
    z = np.abs(lags) / np.sqrt(n - np.arange(1, n // 2))
    return np.append(special.erfc(z / math.sqrt(2)), special.kolmogorov(math.sqrt(n) * far))


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
    for drawing in drawings():
        uniforms = sum(law.uniforms for law in drawing.laws)
        if only in drawing.name:
            yield from _source_of(drawing.name, drawing.draw, uniforms, 0)
    whole = SystemRandomness()
    for name, draw, uniforms, coincide in (
        ("uniform numbers", partial(whole.uniforms, 99), 99, 0),
        ("a draw in blocks", partial(_draw_law, GaussianNoise(MANY + 9, 1.0)), MANY, 0),
        ("a fit of all stages", _fit_all, 20, _COINCIDE),
        ("a fit of three classes", _fit_classes, 9, _COINCIDE),
        ("sixty choices", _play, 60, 0),
    ):
        if only in name:
            yield from _source_of(name, draw, uniforms, coincide)


def _source_of(
    name: str, draw: Callable[[], FloatArray], uniforms: int, coincide: int
) -> Iterator[Check]:
    yield from guarded("source", name, _source_checks, name, draw, uniforms, coincide)


def _source_checks(
    name: str, draw: Callable[[], FloatArray], uniforms: int, coincide: int
) -> Iterator[Check]:
    seeded, known, taken = [], [], []
    for _ in range(2):
        with _global_generators_seeded():
            seeded.append(draw())
    for key in ("one", "one", "other"):
        with known_bits(key) as bits:
            known.append(draw())
            taken.append(bits.taken)
    for what, found, allowed in (
        (
            "numbers that follow from a seed of Python or NumPy",
            np.sum(seeded[0] == seeded[1]),
            coincide,
        ),
        ("numbers that do not follow from the system's bits", np.sum(known[0] != known[1]), 0),
        ("numbers that other bits leave as they are", np.sum(known[0] == known[2]), coincide),
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
