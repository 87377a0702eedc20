"""Private answers about fits and columns: the exact laws of counts and choices of tiny cases.

The law of the ends of a suggested range is computed for a pair of tables on which all scores move
as far as they can, and that of released levels for all pairs of small counts. Then real calls are
compared with these laws, and with what they charge.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import special, stats

from privatelr.audit.checks import Check, claimed_number, claims_of_size, guarded, largest, short
from privatelr.audit.enumerated_choices import DRAWN, deviation, loss_of_outcomes, one_choice
from privatelr.mechanisms import candidate_choice
from privatelr.mechanisms import level_selection as levels
from privatelr.mechanisms import range_selection as ranges
from privatelr.mechanisms.candidate_choice import ScoreName, calibrate_choice
from privatelr.mechanisms.stages import lengths
from privatelr.mechanisms.stages import ranges as thin_ranges
from privatelr.mechanisms.stages.histogram import calibrate_histogram, counts_in, release_histogram
from privatelr.mechanisms.stages.scale import ScaleCalibration, ScaleFacts, calibrate_scale
from privatelr.planning.suggestions import levels_from, suggest_bounds
from privatelr.privacy import ApproxDP, Promise, PureDP
from privatelr.privacy.accounting import Ledger
from privatelr.privacy.noise import SystemRandomness
from privatelr.privacy.noise.exponential_mechanism import PermuteAndFlip
from privatelr.types import ColumnGroup, FloatArray, IntArray

PART = "answers"
_RECORDS = 60
_LONGER = 1000
"""So many records may be longer than a length that is chosen."""
_NEAR = np.arange(-6, 7)
"""Released counts less the true one, of which chances are compared with frequencies."""
_SCORES: tuple[ScoreName, ...] = ("auc", "accuracy", "brier")
_Scored = tuple[FloatArray, FloatArray]
"""Outcomes ``(n,)``, and the predictions ``(candidates, n)`` of several fits."""
_OUTER = (0.0, 1.0)
_PLENTY = 10**9
"""A number of records that is enough for any price."""
_ENOUGH = 8.0
"""Outcomes are tested in groups that are expected about this number of times."""
_LEAST_CHANCE = 1e-6
"""Real calls have another law than the definition if a p-value is below this."""


def _loss_of_ranges(claim: PureDP) -> Iterator[Check]:
    """The loss of ranges of one and of several thin numbers, which a record moves all together.

    Of the others, as many as are meant to lie beyond either end do, but for one.
    """
    for numbers in (1, 2):
        made = thin_ranges.RangeCalibrations(claim, _scale_of(numbers), numbers)
        beyond = 8
        slots = np.zeros(2 * made.noise.dimension + 3)
        slots[2], slots[-5], slots[-3] = beyond - 1, 1, beyond - 1
        sides = []
        for place in (2, -3):
            moved = slots.copy()
            moved[place] += 1
            ends = (ranges.scores_of_low(moved, beyond), ranges.scores_of_high(moved, beyond))
            laws = [made.mechanism(numbers).log_probabilities(scores) for scores in ends]
            sides.append(np.add.outer(*laws).ravel())
        first, second = sides
        loss = numbers * loss_of_outcomes(first, second, claim)
        subject = f"{short(claim)}: loss of ranges of {numbers} thin numbers on the worst counts"
        yield Check("ranges", subject, loss, claimed_number(claim))


def _scale_of(numbers: int) -> ScaleCalibration:
    groups = (ColumnGroup(1, "number"),) * numbers
    return calibrate_scale(ScaleFacts(_PLENTY, groups, True, 0.003, 1.0), PureDP(1.0))


_DELTA = 1e-2
"""At this delta levels of few records are released, so that all counts can be tried."""
_SMALL = 1e-6
"""Real calls have this delta, which is far below one over their number of records."""


def audit_answers(rng: np.random.Generator, epsilon: float, cases: int = 6) -> Iterator[Check]:
    """Checks of choices among fits, of drawn counts, and of a choice by permute-and-flip."""
    for score in _SCORES:
        yield from guarded(PART, f"choice of a fit, {score}", _choice, score, rng, epsilon, cases)
    yield from guarded(PART, "draws of counts", _drawn_counts, epsilon)
    given = PART, "permute-and-flip", PermuteAndFlip(2.0, 1.0), law_of_flips
    yield from guarded(PART, "one choice by permute-and-flip", one_choice, *given)


def audit_declarations(epsilon: float, calls: int = 300) -> Iterator[Check]:
    """Checks of both ends of a suggested range, of released levels, and of their charges."""
    for claim in claims_of_size(epsilon):
        yield from guarded("bounds", short(claim), _loss_of_range, claim)
    for claim in claims_of_size(epsilon)[:2]:  # under a delta a length has a pure part
        yield from guarded("lengths", short(claim), _loss_of_length, claim)
    yield from guarded("ranges", "thin numbers", _loss_of_ranges, PureDP(epsilon))
    yield from guarded("bounds", "real calls", _real_ranges, epsilon, calls)
    for each in (epsilon, 4 * epsilon):
        yield from guarded("levels", f"epsilon = {each:g}", _loss_of_levels, each)
    yield from guarded("levels", "real calls", _real_levels, epsilon, calls)


# -- counts ---------------------------------------------------------------------------------------


def _drawn_counts(epsilon: float) -> Iterator[Check]:
    made = calibrate_histogram(_RECORDS, PureDP(max(epsilon, 0.5)))
    cells, source = np.zeros(_RECORDS, dtype=np.intp), SystemRandomness()
    exact = counts_in(cells, made.bins)
    rounds = DRAWN // made.noise.dimension
    drawn = [release_histogram(exact, made, source.draw(made.noise)) - exact for _ in range(rounds)]
    off = np.concatenate(drawn)
    edges = np.append(_NEAR, _NEAR[-1] + 1) - 0.5
    chances = np.diff(stats.laplace(scale=made.noise.scale).cdf(edges))
    counts = np.array([np.count_nonzero(off == number) for number in _NEAR], dtype=np.float64)
    yield deviation(PART, "draws of counts", counts, chances, len(off))


# -- fits -----------------------------------------------------------------------------------------


def law_of_flips(exponents: FloatArray) -> FloatArray:
    """Probabilities of permute-and-flip, over all orders in which options are looked at."""
    chances = np.exp(exponents - exponents.max())
    found = np.zeros(len(chances))
    for order in itertools.permutations(range(len(chances))):
        left = 1.0 / math.factorial(len(chances))
        for option in order:
            found[option] += left * chances[option]
            left *= 1 - chances[option]
    return found


def _choice(
    score: ScoreName, rng: np.random.Generator, epsilon: float, cases: int
) -> Iterator[Check]:
    """The loss over all fits: of pairs that move scores the furthest, and of random tiny ones."""
    apart = _turned(score, np.where(np.arange(_RECORDS) < _RECORDS // 4, 1.0, -1.0), 1.0)
    flipped = _turned(score, np.where(np.arange(_RECORDS) < _RECORDS // 2, 1.0, -1.0), -1.0)
    worst = 0.0
    for one, other in (apart, flipped, *(_tiny_pair(score, rng) for _ in range(8 * cases))):
        first, second = (_log_law_of_choice(score, side, epsilon) for side in (one, other))
        worst = largest((worst, loss_of_outcomes(first, second, PureDP(epsilon))))
    yield Check(PART, f"choice of a fit, {score}: loss over all fits", worst, epsilon)


def _log_law_of_choice(score: ScoreName, data: _Scored, epsilon: float) -> FloatArray:
    label, predictions = data
    made = calibrate_choice(len(label), len(predictions), score, PureDP(epsilon))
    totals = [candidate_choice.total_score(score, label, each) for each in predictions]
    mechanism = made.mechanism
    return np.log(law_of_flips(mechanism.epsilon * np.array(totals) / mechanism.width))


def _turned(score: ScoreName, label: FloatArray, after: float) -> tuple[_Scored, _Scored]:
    """A fit that is always wrong, one that is always right, and a positive record at the start.

    It is replaced by one with the outcome `after`, about which the first fit is right, by as much
    as there is to gain, and the second one is wrong.
    """
    before, turned = np.array([-label, label]), np.array([-label, label])
    turned[:, 0] = 2 * after, -2 * after
    if score != "auc":
        turned = np.sign(turned)
    if score == "brier":
        before, turned = (1 + before) / 2, (1 + turned) / 2
    return (label, before), (np.append(after, label[1:]), turned)


def _tiny_pair(score: ScoreName, rng: np.random.Generator) -> tuple[_Scored, _Scored]:
    known = {"auc": [0.0, 1.0, 2.0], "accuracy": [-1.0, 1.0], "brier": [0.0, 0.3, 1.0]}[score]
    n, fits = int(rng.integers(1, 7)), int(rng.integers(2, 5))
    label = rng.choice([-1.0, 0.0, 1.0], n + 1)
    rows = rng.choice([*known, np.nan], (fits, n + 1))
    return (label[1:], rows[:, 1:]), (label[:-1], rows[:, :-1])


# -- bounds ---------------------------------------------------------------------------------------


def _worst_tables(claim: Promise) -> tuple[list[Any], list[Any], ranges.RangeCalibration]:
    """Two neighbouring columns on which the scores of both ends move as far as they can.

    With m records to be left beyond an end, the first table has m records in the first cell, one
    near the top, m - 1 in the last cell, and none elsewhere; the others have no value. In the
    second one a record has moved from the first cell to the last.
    """
    ends = ranges.candidate_ends(*_OUTER)
    beyond = ranges.calibrate_ranges(_PLENTY, [len(ends) - 1], claim).beyond
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


def _loss_of_length(claim: Promise) -> Iterator[Check]:
    """The loss of a length of rows: a record without a length becomes longer than all candidates.

    Of the others, one fewer than may be longer are longer than all, and one is just below.
    """
    made = lengths.calibrate_lengths(_LONGER, _RECORDS + _LONGER + 1, claim)
    others = np.zeros(2 * len(lengths.LENGTH_GRID) + 1)
    others[1], others[-5], others[-1] = _RECORDS, 1, _LONGER - 1
    first, second = others.copy(), others.copy()
    first[1] += 1
    second[-1] += 1
    p, q = (
        made.mechanism.log_probabilities(ranges.scores_of_high(slots, made.longer))
        for slots in (first, second)
    )
    subject = f"{short(claim)}: loss of a length on the worst counts"
    yield Check("lengths", subject, loss_of_outcomes(p, q, claim), claimed_number(claim))


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
            chances.append(pvalue(np.bincount(cells[:, end], minlength=len(law)), law))
    yield _unlike("bounds", chances)
    yield _uncharged("bounds", ledger, 2 * calls * epsilon)


def _laws_of_hull(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Probabilities of the lower and of the upper one of two cells, drawn independently."""
    joint = np.exp(np.add.outer(low, high))
    cells = len(low)
    lower, upper = np.zeros(cells), np.zeros(cells)
    np.add.at(lower, np.minimum.outer(np.arange(cells), np.arange(cells)), joint)
    np.add.at(upper, np.maximum.outer(np.arange(cells), np.arange(cells)), joint)
    return lower / lower.sum(), upper / upper.sum()


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
    return special.expit(odds), special.expit(-odds)


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
        pvalue(np.array([calls - seen[level], seen[level]]), np.array([1 - p, p]))
        for level, p in zip(counts, chance.tolist(), strict=True)
        if 0 < p < 1
    ]
    yield _unlike("levels", pvalues)
    untold = seen["absent"] + calls - seen["sure"]
    yield Check("levels", "real calls: levels told or left out against the rule", float(untold))
    yield _uncharged("levels", ledger, calls * epsilon)


def pvalue(counts: FloatArray | IntArray, chances: FloatArray) -> float:
    """The p-value of a chi-square test that counts have these probabilities.

    Rare outcomes are tested in groups: each takes outcomes of similar probability, until it is
    expected often enough for the test.
    """
    expected = chances * counts.sum()
    order = np.argsort(expected)
    group = np.floor(np.cumsum(expected[order]) / _ENOUGH * (1 - 1e-12)).astype(np.intp)
    observed, wanted = (np.bincount(group, weights=part[order]) for part in (counts, expected))
    kept = wanted > 0
    if kept.sum() < 2:
        return 1.0
    wanted *= observed[kept].sum() / wanted[kept].sum()
    return float(stats.chisquare(observed[kept], wanted[kept]).pvalue)


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
