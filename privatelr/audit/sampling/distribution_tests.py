"""Whether real releases have the law that the audit reasons about."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from privatelr.audit.checks import Check, guarded
from privatelr.audit.density.joint import moments_of, query
from privatelr.audit.density.pairs import signed_rows
from privatelr.audit.sampling.draws import draw_by_definition, release_both_many, release_many
from privatelr.mechanisms import (
    Facts,
    Release,
    Request,
    StagedCalibration,
    calibrate,
    calibrate_all,
    draw,
    draw_all,
    find_mechanism,
    matrix_of,
    release_all,
)
from privatelr.numerics import Loss
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.solve import Newton
from privatelr.privacy.noise import (
    BlockLaplace,
    GaussianNoise,
    NoiseLaw,
    SphericalLaplace,
    SystemRandomness,
)
from privatelr.types import Block, FloatArray

if TYPE_CHECKING:
    from privatelr.audit.density.pairs import SignedRows

_RECORDS, _RECORDS_MANY = 40, 400
_MODELLED, _MOST = 20, 20_000
"""Modelled releases beside a real one, which is far slower, and at most."""
_EVIDENCE = 6.0
_BLOCKS = (Block(1, 0.5), Block(1, 1.0), Block(1, 1.0))
_APART = (Block(1, 0.5), Block(1, 1.0, "l2"), Block(1, 1.0))


def release_pvalue(request: Request, loss: Loss, count: int, rng: np.random.Generator) -> float:
    """Evidence that the releases of the package differ from those that are audited.

    Draws releases of small datasets with noise of the operating system, as a user does: of rows
    in a ball and in blocks, of one class only, and with records that cannot be used. Compares
    each coordinate and the distance from the middle with `release_many` (Kolmogorov and
    Smirnov). Returns the smallest p-value times the number of comparisons.

    Parameters
    ----------
    count : int
        Releases of each dataset.
    """
    pvalues = [
        pvalue
        for rows in small_datasets(rng)
        for pvalue in _compare(rows, request, loss, count, rng)
    ]
    return min(1.0, len(pvalues) * min(pvalues))


def _compare(
    rows: DenseRows, request: Request, loss: Loss, count: int, rng: np.random.Generator
) -> list[float]:
    calibration = calibrate(request, Facts(rows.n, rows.d, loss, rows.radius, rows.blocks))
    release = find_mechanism(request).release
    released = np.array(
        [
            release(rows, calibration, draw(calibration, SystemRandomness()), Newton()).coef
            for _ in range(count)
        ]
    )
    data, many = signed_rows(rows.x, rows.y), min(_MODELLED * count, _MOST)
    modelled = release_many(calibration, data, many, rng, draw_by_definition)
    return [
        _same_law(ours, theirs)
        for ours, theirs in zip(_views(released, modelled), _views(modelled, modelled), strict=True)
    ]


def joint_pvalue(request: Request, loss: Loss, count: int, rng: np.random.Generator) -> float:
    """`release_pvalue` for a request that buys moments with the coefficients.

    What is compared is each coefficient, what the moments differ by from their query at the
    released coefficients, and whether that noise goes with itself or with the coefficients.
    """
    pvalues = [
        pvalue
        for rows in (*small_datasets(rng), _many_records())
        for pvalue in _compare_both(rows, request, loss, count, rng)
    ]
    return min(1.0, len(pvalues) * min(pvalues))


def _compare_both(
    rows: DenseRows, request: Request, loss: Loss, count: int, rng: np.random.Generator
) -> list[float]:
    plan = calibrate_all(request, Facts(rows.n, rows.d, loss, rows.radius, rows.blocks))
    data = signed_rows(rows.x, rows.y)
    drawn = (
        release_all(rows, plan, draw_all(plan, SystemRandomness()), Newton()) for _ in range(count)
    )
    released = np.array([[*release.coef, *_values(release)] for release in drawn])
    many = min(_MODELLED * count, _MOST)
    modelled = release_both_many(plan, data, many, rng, draw_by_definition)
    centre, scale = _middle(modelled[:, : rows.d])
    sides = [_views_of_both(plan, data, side, centre, scale) for side in (released, modelled)]
    return [_same_law(ours, theirs) for ours, theirs in zip(*sides, strict=True)]


def _values(release: Release) -> FloatArray:
    assert release.moments is not None
    return release.moments.values


def _middle(w: FloatArray) -> tuple[FloatArray, FloatArray]:
    centre = np.median(w, axis=0)
    return centre, np.median(np.abs(w - centre), axis=0)


def _views_of_both(
    plan: StagedCalibration,
    data: SignedRows,
    releases: FloatArray,
    centre: FloatArray,
    scale: FloatArray,
) -> list[FloatArray]:
    """Numbers ``(count,)`` whose laws would show a slip in the noise or in the query."""
    moments, d = moments_of(plan), len(centre)
    w = releases[:, :d]
    noise = (releases[:, d:] - query(data, moments, w)) / moments.noise.scale
    bend, steep = np.hsplit(noise, 2)
    spread = (w - centre) / scale
    along = [np.diagonal(matrix_of(part), axis1=1, axis2=2) for part in (bend, steep)]
    return [
        *w.T,
        *noise.T,
        *(column for part in along for column in (spread * part).T),
        np.einsum("ij,ij->i", spread, bend[:, :d]),
        np.linalg.norm(noise, axis=1),
        np.ptp(noise, axis=1),
        np.linalg.norm(bend - steep, axis=1),
    ]


def _same_law(first: FloatArray, second: FloatArray) -> float:
    """p-value of the two-sample test of Kolmogorov and Smirnov, for many observations."""
    pooled = np.concatenate([first, second])
    reached = [
        np.searchsorted(np.sort(side), pooled, side="right") / len(side) for side in (first, second)
    ]
    size = np.sqrt(len(first) * len(second) / len(pooled))
    return float(special.kolmogorov(size * np.abs(reached[0] - reached[1]).max()))


def audit_draws(rng: np.random.Generator, count: int) -> Iterator[Check]:
    """Draws of the operating system against the definition of each law.

    Each coordinate, the length, sums and differences of neighbours, and what share of the length
    the largest coordinate has.
    """
    block = BlockLaplace((Block(1, 1.2, "l2"), Block(2, 1.5), Block(2, 1.2, "l2")), 2.0)
    for law in (SphericalLaplace(3, 2.0), GaussianNoise(3, 0.7), block):
        subject = f"{law.title} draws: digits of evidence that they have another law"
        yield from guarded("draws", subject, _compare_draws, law, subject, rng, count)


def _compare_draws(
    law: NoiseLaw, subject: str, rng: np.random.Generator, count: int
) -> Iterator[Check]:
    source = SystemRandomness()
    real = np.array([source.draw(law).nearest() for _ in range(count)])
    modelled = draw_by_definition(law, _MODELLED * count, rng)
    sides = [_shape(side) for side in (real, modelled)]
    pvalues = [_same_law(ours, theirs) for ours, theirs in zip(*sides, strict=True)]
    evidence = -math.log10(max(len(pvalues) * min(pvalues), 1e-300))
    yield Check("draws", subject, max(evidence, 0.0), _EVIDENCE)


def _shape(draws: FloatArray) -> list[FloatArray]:
    length = np.linalg.norm(draws, axis=1)
    sums = draws[:, 1:] + draws[:, :-1]
    share = np.abs(draws).max(axis=1) / length
    return [*draws.T, *np.diff(draws).T, *sums.T, length, share]


def _views(releases: FloatArray, reference: FloatArray) -> list[FloatArray]:
    middle = np.median(reference, axis=0)
    return [*releases.T, np.linalg.norm(releases - middle, axis=1)]


def small_datasets(rng: np.random.Generator) -> Iterator[DenseRows]:
    """Rows in a ball, in blocks, of one class, of both kinds, and with records of no use."""
    x = rng.standard_normal((_RECORDS, 2))
    y = np.where(rng.random(_RECORDS) < 0.7, 1.0, -1.0)
    yield DenseRows(x, y, bound=1.0, intercept=None)
    box = np.clip(x, -1.0, 1.0)
    yield DenseRows(box, y, bound=2.0**0.5, intercept=0.5, blocks=_BLOCKS)
    yield DenseRows(box, np.ones(_RECORDS), bound=2.0**0.5, intercept=0.5, blocks=_BLOCKS)
    yield DenseRows(x * [9, 0.1], y, bound=2.0**0.5, intercept=0.5, blocks=_APART)
    x[::4] = np.nan
    yield DenseRows(x, y, bound=1.0, intercept=None)


def _many_records() -> DenseRows:
    """Two records, each so often that w shows in the moments beside their noise.

    One has nearly always the same label, where the logistic loss bends unevenly, and one either
    label as often, where the Huber loss has no bend but near by. Moments that are computed
    elsewhere than at the released w differ there.
    """
    half = np.arange(_RECORDS_MANY // 2)
    x = np.repeat([[1.0, 0.0], [0.6, 0.8]], len(half), axis=0)
    y = np.where(np.concatenate([half % 20 > 0, half % 2 > 0]), 1.0, -1.0)
    return DenseRows(x, y, bound=1.0, intercept=None)
