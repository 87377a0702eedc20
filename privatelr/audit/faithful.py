"""Whether real releases have the law that the audit reasons about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from privatelr.audit.draws import draw_by_definition, release_many
from privatelr.audit.pairs import signed_rows
from privatelr.mechanisms.problem import Facts
from privatelr.mechanisms.registry import calibrate, find_mechanism
from privatelr.mechanisms.release import draw
from privatelr.numerics.newton import Newton
from privatelr.numerics.rows import DenseRows
from privatelr.privacy.randomness import SystemRandomness
from privatelr.types import Block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from privatelr.mechanisms.request import Request
    from privatelr.numerics.losses import Loss
    from privatelr.types import FloatArray

_RECORDS = 40
_MODELLED, _MOST = 20, 20_000
"""Modelled releases beside a real one, which is far slower, and at most."""
_BLOCKS = (Block(1, 0.5), Block(1, 1.0), Block(1, 1.0))


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
        for rows in _small_datasets(rng)
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


def _same_law(first: FloatArray, second: FloatArray) -> float:
    """p-value of the two-sample test of Kolmogorov and Smirnov, for many observations."""
    pooled = np.concatenate([first, second])
    reached = [
        np.searchsorted(np.sort(side), pooled, side="right") / len(side) for side in (first, second)
    ]
    size = np.sqrt(len(first) * len(second) / len(pooled))
    return float(special.kolmogorov(size * np.abs(reached[0] - reached[1]).max()))


def _views(releases: FloatArray, reference: FloatArray) -> list[FloatArray]:
    middle = np.median(reference, axis=0)
    return [*releases.T, np.linalg.norm(releases - middle, axis=1)]


def _small_datasets(rng: np.random.Generator) -> Iterator[DenseRows]:
    x = rng.standard_normal((_RECORDS, 2))
    y = np.where(rng.random(_RECORDS) < 0.7, 1.0, -1.0)
    yield DenseRows(x, y, bound=1.0, intercept=None)
    box = np.clip(x, -1.0, 1.0)
    yield DenseRows(box, y, bound=2.0**0.5, intercept=0.5, blocks=_BLOCKS)
    yield DenseRows(box, np.ones(_RECORDS), bound=2.0**0.5, intercept=0.5, blocks=_BLOCKS)
    x[::4] = np.nan
    yield DenseRows(x, y, bound=1.0, intercept=None)
