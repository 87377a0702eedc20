"""Whether real releases have the law that the audit reasons about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from privatelr.audit.draws import release_many
from privatelr.audit.pairs import signed_rows
from privatelr.mechanisms.problem import Facts
from privatelr.mechanisms.registry import calibrate, find_mechanism
from privatelr.mechanisms.release import draw
from privatelr.numerics.newton import Newton
from privatelr.numerics.rows import DenseRows
from privatelr.privacy.randomness import SystemRandomness

if TYPE_CHECKING:
    from privatelr.mechanisms.request import Request
    from privatelr.numerics.losses import Loss
    from privatelr.types import FloatArray

_RECORDS = 40
_MODELLED = 20_000


def release_pvalue(request: Request, loss: Loss, count: int, rng: np.random.Generator) -> float:
    """Evidence that the releases of the package differ from those that are audited.

    Draws `count` releases of a small dataset with noise of the operating system, as a user
    does, and compares each coordinate and the distance from the middle with `release_many`
    (Kolmogorov and Smirnov). Returns the smallest p-value times the number of comparisons.
    """
    rows, radius = _small_dataset(rng)
    calibration = calibrate(request, Facts(rows.n, rows.d, loss, radius))
    release = find_mechanism(request).release
    released = np.array(
        [
            release(rows, calibration, draw(calibration, SystemRandomness()), Newton()).coef
            for _ in range(count)
        ]
    )
    data = signed_rows(rows.x, rows.y)
    modelled = release_many(calibration, data, _MODELLED, rng)
    pvalues = [
        _same_law(ours, theirs)
        for ours, theirs in zip(_views(released, modelled), _views(modelled, modelled), strict=True)
    ]
    return min(1.0, len(pvalues) * min(pvalues))


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


def _small_dataset(rng: np.random.Generator) -> tuple[DenseRows, float]:
    x = rng.standard_normal((_RECORDS, 2))
    y = np.where(rng.random(_RECORDS) < 0.7, 1.0, -1.0)
    rows = DenseRows(x, y, bound=1.0, intercept=None)
    return rows, rows.radius
