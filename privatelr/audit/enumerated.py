"""Tiny cases of a mechanism that chooses, of which every outcome has a known chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from privatelr.audit.claims import sampled_bound, short
from privatelr.audit.discrete import loss_of_outcomes
from privatelr.audit.loss import claimed_number
from privatelr.audit.table import Row
from privatelr.privacy.guarantees import PureDP

if TYPE_CHECKING:
    from privatelr.numerics.entries import EntryRows
    from privatelr.types import FloatArray, IntArray

_ENOUGH = 8.0
"""Smallest number of expected releases of an outcome that is compared by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class OutcomePair:
    """Neighbouring rows, a calibration, and log chances ``(k,)`` of all outcomes under either."""

    first: EntryRows
    second: EntryRows
    calibration: Any
    log_p: FloatArray
    log_q: FloatArray

    @property
    def loss(self) -> float:
        """In the unit of the claim."""
        return loss_of_outcomes(self.log_p, self.log_q, self.calibration.target)

    @property
    def size(self) -> float:
        """The largest log ratio, by which pairs compare whatever is claimed."""
        return loss_of_outcomes(self.log_p, self.log_q, PureDP(1.0))


def row_of(
    pair: OutcomePair, seen: list[IntArray], alpha: float, *, placement: str, loss: str, where: str
) -> Row:
    """The row of a pair; `seen` are positions ``(trials,)`` of what was released on either side."""
    claim = pair.calibration.target
    claimed, ratio = claimed_number(claim), pair.log_p - pair.log_q

    def score(values: FloatArray) -> FloatArray:
        return np.asarray(ratio[values[:, 0].astype(np.intp)])

    first, second = (side[:, None].astype(np.float64) for side in seen)
    return Row(
        placement=placement,
        loss=loss,
        claim=short(claim),
        claimed=claimed,
        exact=pair.loss,
        attained=pair.loss / claimed,
        where=where,
        sampled=sampled_bound(claim, first, second, alpha, score),
        differs=min(1.0, 2 * min(map(path_pvalue, seen, (pair.log_p, pair.log_q)))),
    )


def path_pvalue(found: IntArray, log_chances: FloatArray) -> float:
    """Evidence that paths do not have these chances, rare ones taken together (chi-square).

    Parameters
    ----------
    found
        Positions of the paths that were seen, ``(m,)``.
    log_chances
        Of all paths, ``(k,)``.
    """
    expected = np.exp(log_chances) * len(found)
    counts = np.bincount(found, minlength=len(expected)).astype(np.float64)
    order = np.argsort(expected)
    # groups of neighbours in rank, each expected often enough
    group = np.floor(np.cumsum(expected[order]) / _ENOUGH * (1 - 1e-12)).astype(np.intp)
    observed = np.bincount(group, weights=counts[order])
    wanted = np.bincount(group, weights=expected[order])
    kept = wanted > 0
    if int(kept.sum()) < 2:
        return 1.0
    total = wanted[kept].sum()
    return float(stats.chisquare(observed[kept], wanted[kept] * counts.sum() / total).pvalue)
