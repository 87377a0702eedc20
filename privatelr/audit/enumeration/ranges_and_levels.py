"""The audit of suggested bounds and released levels, as users ask for them.

The law of the ends of a range is computed for a pair of tables on which all scores move as far as
they can, and that of levels for all pairs of small counts. Then real calls are compared with these
laws, and with what they charge.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from privatelr.audit.checks import Check, claims_of_size, guarded, short
from privatelr.audit.density.loss import claimed_number
from privatelr.audit.enumeration.discrete import loss_of_outcomes, path_pvalue
from privatelr.mechanisms import level_selection as levels
from privatelr.mechanisms import range_selection as ranges
from privatelr.privacy import ApproxDP, Promise, PureDP
from privatelr.privacy.accounting import Ledger
from privatelr.suggestions import levels_from, suggest_bounds
from privatelr.types import FloatArray, IntArray

_OUTER = (0.0, 1.0)
_ENOUGH = 10**9
"""A number of records that is enough for any price."""
_LEAST_CHANCE = 1e-6
"""Real calls have another law than the definition if a p-value is below this."""
_DELTA = 1e-2
"""At this delta levels of few records are released, so that all counts can be tried."""
_SMALL = 1e-6
"""Real calls have this delta, which is far below one over their number of records."""


def audit_declarations(epsilon: float, calls: int = 300) -> Iterator[Check]:
    """Checks of both ends of a suggested range, of released levels, and of their charges."""
    for claim in claims_of_size(epsilon):
        yield from guarded("bounds", short(claim), _loss_of_range, claim)
    yield from guarded("bounds", "real calls", _real_ranges, epsilon, calls)
    for each in (epsilon, 4 * epsilon):
        yield from guarded("levels", f"epsilon = {each:g}", _loss_of_levels, each)
    yield from guarded("levels", "real calls", _real_levels, epsilon, calls)


# -- bounds ---------------------------------------------------------------------------------------


def _worst_tables(claim: Promise) -> tuple[list[Any], list[Any], ranges.RangeCalibration]:
    """Two neighbouring columns on which the scores of both ends move as far as they can.

    With m records to be left beyond an end, the first table has m records in the first cell, one
    near the top, m - 1 in the last cell, and none elsewhere; the others have no value. In the
    second one a record has moved from the first cell to the last.
    """
    ends = ranges.candidate_ends(*_OUTER)
    beyond = ranges.calibrate_ranges(_ENOUGH, [len(ends) - 1], claim).beyond
    made = ranges.calibrate_ranges(6 * beyond, [len(ends) - 1], claim)
    middles = ((ends[1:] + ends[:-1]) / 2).tolist()
    first, near, last = middles[0], middles[-3], middles[-1]
    others = [first] * (beyond - 1) + [near] + [last] * (beyond - 1)
    missing = [None, math.nan, math.inf, "?"]
    others += [missing[at % 4] for at in range(made.n - 1 - len(others))]
    return [first, *others], [last, *others], made


def _laws_of_ends(column: Sequence[Any], made: ranges.RangeCalibration) -> list[FloatArray]:
    """Log probabilities of the cells of either end, whose scores are counted one by one."""
    ends = ranges.candidate_ends(*_OUTER)
    values = np.array([x for x in column if isinstance(x, float) and math.isfinite(x)])
    found = []
    for held, edges in ((values, ends), (-values, -ends[::-1])):
        below = (held[:, None] < edges).sum(axis=0)
        loss = np.maximum(
            ranges.TOO_TIGHT * (below[:-1] - made.beyond),
            ranges.TOO_LOOSE * (made.beyond - below[1:]),
        )
        found.append(made.mechanism.log_probabilities(-np.maximum(loss, 0.0)))
    return [found[0], found[1][::-1]]


def _loss_of_range(claim: Promise) -> Iterator[Check]:
    first, second, made = _worst_tables(claim)
    low_high = (_laws_of_ends(column, made) for column in (first, second))
    p, q = (np.add.outer(low, high).ravel() for low, high in low_high)
    subject = f"{short(claim)}: loss of both ends on the worst tables"
    yield Check("bounds", subject, loss_of_outcomes(p, q, claim), claimed_number(claim))


def _real_ranges(epsilon: float, calls: int) -> Iterator[Check]:
    claim = PureDP(epsilon)
    first, second, made = _worst_tables(claim)
    ends, ledger = ranges.candidate_ends(*_OUTER), Ledger(4 * calls * epsilon)
    chances = []
    for column in (first, second):
        with ledger:
            pairs = [
                suggest_bounds({"x": column}, {"x": _OUTER}, epsilon)["x"] for _ in range(calls)
            ]
        cells = np.searchsorted(ends, np.array(pairs))
        cells[:, 1] -= 1
        for end, law in enumerate(_laws_of_hull(*_laws_of_ends(column, made))):
            chances.append(path_pvalue(cells[:, end], law))
    yield _unlike("bounds", chances)
    yield _uncharged("bounds", ledger, 2 * calls * epsilon)


def _laws_of_hull(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log probabilities of the lower and of the upper one of two cells, drawn independently."""
    joint = np.exp(np.add.outer(low, high))
    cells = len(low)
    lower, upper = np.zeros(cells), np.zeros(cells)
    np.add.at(lower, np.minimum.outer(np.arange(cells), np.arange(cells)), joint)
    np.add.at(upper, np.maximum.outer(np.arange(cells), np.arange(cells)), joint)
    with np.errstate(divide="ignore"):
        return np.log(lower / lower.sum()), np.log(upper / upper.sum())


# -- levels ---------------------------------------------------------------------------------------


def _loss_of_levels(epsilon: float) -> Iterator[Check]:
    """The largest delta over all pairs of counts, where a record moves from one to the other."""
    made = levels.calibrate_levels(ApproxDP(epsilon, _DELTA))
    most = made.count_of(math.inf) + 1
    chances = _chances_of_levels(made, np.arange(most + 1))
    low, high = ([chance[at] for chance in chances] for at in (slice(None, -1), slice(1, None)))
    # axis 0 is the count of the level that loses a record, axis 1 that of the one that gains it
    before = [np.multiply.outer(old, new) for old in high for new in low]
    after = [np.multiply.outer(old, new) for old in low for new in high]
    gaps = [np.maximum(p - math.exp(epsilon) * q, 0) for p, q in zip(before, after, strict=True)]
    worst = float(np.sum(gaps, axis=0).max())
    yield Check("levels", f"{short(made.target)}: delta of all pairs of counts", worst, _DELTA)


def _chances_of_levels(
    made: levels.LevelCalibration, counts: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Probabilities ``(k,)`` that a level of each count is released, and that it is not."""
    odds = np.array([made.log_odds(count) for count in counts.tolist()])
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(odds))


def _real_levels(epsilon: float, calls: int) -> Iterator[Check]:
    claim = ApproxDP(epsilon, _SMALL)
    made = levels.calibrate_levels(claim)
    counts = {f"level {odds}": made.count_of(odds) for odds in (-1.0, 0.0, 1.0)}
    counts |= {"absent": 0, "sure": made.count_of(math.inf)}
    column = [level for level, count in counts.items() for _ in range(count)]
    ledger = Ledger(2 * calls * epsilon, min(0.99, 2 * calls * claim.delta), account="sum")
    with ledger:
        found = [levels_from({"x": column}, "x", claim)["x"] for _ in range(calls)]
    seen = Counter(level for each in found for level in each)
    chance = _chances_of_levels(made, np.array([*counts.values()]))[0]
    pvalues = [
        path_pvalue(np.repeat([0, 1], [calls - seen[level], seen[level]]), np.log([1 - p, p]))
        for level, p in zip(counts, chance.tolist(), strict=True)
        if 0 < p < 1
    ]
    yield _unlike("levels", pvalues)
    untold = seen["absent"] + calls - seen["sure"]
    yield Check("levels", "real calls: levels told or left out against the rule", float(untold))
    yield _uncharged("levels", ledger, calls * epsilon)


def _unlike(part: str, pvalues: Sequence[float]) -> Check:
    """How unlikely real calls are under the law, over what is allowed; above one is too much."""
    subject = "real calls: how unlike their law they are, in powers of ten"
    found = -math.log10(max(min(pvalues), 1e-300))
    return Check(part, subject, found, -math.log10(_LEAST_CHANCE))


def _uncharged(part: str, ledger: Ledger, price: float) -> Check:
    entries = [entry.guarantee for entry in ledger.entries]
    total = math.fsum(each.epsilon for each in entries if isinstance(each, PureDP | ApproxDP))
    subject = "real calls: share of the price that was not charged"
    return Check(part, subject, 1 - total / price, 1e-9)
