"""Fits to strata, where a record leaves one stratum and joins another: the loss of both together.

The densities of two fits are exact (Lemma 0 of theory.md), and add up in their logarithms, since
their noise is independent. The theorem that this attacks is in `privatelr.mechanisms.problem`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize

from privatelr.audit.checks import Check, Setting, claims_of_size, guarded, largest
from privatelr.audit.density.worst_persons import (
    SignedPerson,
    adversarial,
    in_one_column,
    person_loss,
)
from privatelr.audit.long_records import share_of_changes
from privatelr.call_data import read_data
from privatelr.mechanisms import Problem, Request, calibrate, mean_moments
from privatelr.mechanisms.calibration import GAUSSIAN, LAPLACE, Calibration, pure
from privatelr.mechanisms.calibration.moment_noise import calibrate_moments
from privatelr.mechanisms.score_histogram import calibrate_histogram, score_counts
from privatelr.model import dplr
from privatelr.numerics import LOSSES, Loss
from privatelr.privacy import PureDP
from privatelr.privacy.accounting import Ledger
from privatelr.sources import declare_schema
from privatelr.types import FloatArray

_STARTS = np.array([-30.0, -3.0, -1.0, 0.0, 1.0])
"""Margins of the removed record at which searches start."""
_SMALL = 7.0
"""The penalty is divided by this where most of the claim is to pay for the curvature."""
_RECORDS = 40
_BOUNDS, _LEVELS = {"x": (0.0, 1.0), "y": (0.0, 1.0)}, {"site": ["a", "b", "c"]}
_FORMULA = "y ~ x + by(site)"
_STEEPEST = np.array([0.0, -0.158])
"""Coefficients at which the first record adds most to both matrices of inference together."""


def calibrated_strata(
    loss: Loss,
    epsilon: float,
    d: int,
    small: float,
    kinds: tuple[Any, ...] = (),
    *,
    persons: int = 0,
) -> Calibration:
    """Noise of each stratum at the free penalty over `small`, as fits to strata have it.

    If there are persons it is that of so many strata.
    """
    facts = replace(Setting(persons=persons > 0).facts(loss), d=d, blocks=(), touched=persons or 2)
    proof = pure.proven(None, loss)
    penalty = pure.laplace_free_penalty(facts, epsilon, proof) / small
    target = PureDP(epsilon, facts.neighbours)
    return calibrate(
        Request(target, "objective", None, penalty / facts.n, "keep", kinds=kinds), facts
    )


def loss_of_move(made: Calibration, margin: float, angle: float = 0.0) -> float:
    """Log ratio of the densities of two fits, of which one loses a record and one gains it.

    The record that is lost has this margin at the output. What is left open by each of the two
    minima is added, as each has a shield of its own.
    """
    d = made.problem.d
    if d == 1:
        output = np.clip(margin, -4000.0, 4000.0)
        shared, old, new, w = in_one_column(made, np.array([1.0, -1.0]), float(output), 1)
    else:
        shared, old, new, w = adversarial(made, np.array([angle]), np.array([margin]), 1)
    nobody = SignedPerson(np.zeros((1, d)), np.ones(1))
    lost = person_loss(made, shared, old, nobody, w)
    gained = person_loss(made, shared, nobody, new, w)
    apart = 2 * made.tau / made.problem.penalty
    return lost + gained + 2 * apart / made.shield.scale


def loss_of_spread(made: Calibration, parts: FloatArray, margins: FloatArray) -> float:
    """Log ratio of the densities of fits to strata in which a person has these parts ``(K,)``.

    The old person has a record in each, with these margins ``(K,)``, and the new one has one there,
    too. What is left open by each minimum is added.
    """
    total = 0.0
    for part, margin in zip(parts / parts.sum(), margins, strict=True):
        shared, old, new, w = adversarial(made, np.zeros(1), np.array([margin]), 1)
        smaller = (SignedPerson(each.rows, part * each.shares) for each in (old, new))
        total += person_loss(made, shared, *smaller, w)
    apart = 2 * made.tau / made.problem.penalty
    return total + len(parts) * apart / made.shield.scale


def worst_spread(made: Calibration, strata: int) -> float:
    """The largest loss that a search over parts and margins in so many strata finds."""

    def loss_at(at: FloatArray) -> float:
        return loss_of_spread(made, np.exp(at[:strata]), at[strata:])

    starts = [np.append(np.zeros(strata), np.full(strata, margin)) for margin in _STARTS]
    found = optimize.minimize(
        lambda at: -loss_at(at), max(starts, key=loss_at), method="Nelder-Mead", tol=1e-9
    )
    return max(-float(found.fun), *map(loss_at, starts))


def worst_move(made: Calibration) -> float:
    """The largest loss of a move that a search over margins finds."""
    found = [
        optimize.minimize_scalar(
            lambda margin: -loss_of_move(made, margin), (start - 0.5, start + 0.5), tol=1e-9
        )
        for start in _STARTS
    ]
    plain = [loss_of_move(made, margin) for margin in _STARTS]
    return max(*plain, *(-float(each.fun) for each in found))


def audit_moves(epsilon: float, losses: Iterable[Loss] = tuple(LOSSES.values())) -> Iterator[Check]:
    """The largest loss of two strata together over the claim, at two sizes of the penalty."""
    for loss in losses:
        for small in (1.0, _SMALL):
            subject = f"{loss.name}, free lambda / {small:g}: loss of two strata over the claim"
            yield from guarded("strata", subject, _largest, loss, epsilon, small, subject)
        subject = f"{loss.name}: loss of a person in three strata over the claim"
        yield from guarded("strata", subject, _largest_spread, loss, epsilon, subject)


def _largest(loss: Loss, epsilon: float, small: float, subject: str) -> Iterator[Check]:
    worst = largest(worst_move(calibrated_strata(loss, epsilon, d, small)) for d in (1, 2, 3))
    yield Check("strata", subject, worst / epsilon, 1.0)


def _largest_spread(loss: Loss, epsilon: float, subject: str) -> Iterator[Check]:
    made = [calibrated_strata(loss, epsilon, 2, small, persons=3) for small in (1.0, _SMALL)]
    worst = largest(worst_spread(each, 3) for each in made)
    yield Check("strata", subject, worst / epsilon, 1.0)


# -- fits to tables ------------------------------------------------------------------------------


def audit_strata(epsilon: float) -> Iterator[Check]:
    """Move a record of a table from one stratum to another, and compare what fits are made of."""
    for subject, work in (
        ("strata that a moved record changes, over 2", _changed),
        ("matrices of two strata: how far a record moves them, over what noise hides", _moved),
        ("counts of two strata: how far a record moves them, over what noise hides", _counted),
        ("price of all strata in a ledger, over the claim", _charged),
        ("what a person counts in all strata together, in records", _weighed),
        ("matrices of all strata: how far a person moves them, over what noise hides", _spread),
        ("counts of all strata: how far a person moves them, over what noise hides", _scored),
    ):
        yield from guarded("strata", subject, work, subject, epsilon)


def _tables() -> list[pd.DataFrame]:
    """Two tables that differ in the first record, which is in another stratum."""
    site = ["a", *(["a", "b", "c", None] * _RECORDS)[: _RECORDS - 1]]
    x = np.append(1.0, np.arange(1, _RECORDS) / _RECORDS)
    table = pd.DataFrame({"site": site, "x": x, "y": np.append(1, np.arange(1, _RECORDS) % 2)})
    return [table, table.assign(site=["b", *site[1:]])]


def _strata(table: pd.DataFrame, formula: str = _FORMULA) -> tuple[Problem, list[Any]]:
    """The public facts of the fits to a table, and the rows of each."""
    source = read_data(formula, table, None)
    spec = source.plan(declare_schema(_BOUNDS, _LEVELS, None, None))
    given: Any = {"lambda_": 0.1, "persons": source.persons is not None}
    facts = Problem(len(source), spec.d, LOSSES["logistic"], spec.radius, **given)
    levels = _LEVELS["site"]
    rows = [source.rows(spec.at_level(level), bar=False)[0] for level in levels]
    return replace(facts, touched=spec.touched), rows


_Pair = tuple[Callable[[], list[pd.DataFrame]], str] | None
"""Two tables and a formula; those of records if there are none."""


def _both(pair: _Pair) -> list[tuple[Problem, list[Any]]]:
    tables, formula = pair or (_tables, _FORMULA)
    return [_strata(table, formula) for table in tables()]


def _changed(subject: str, epsilon: float) -> Iterator[Check]:
    (_, first), (_, second) = map(_strata, _tables())
    changed = sum(
        not (np.array_equal(one.x, other.x) and np.array_equal(one.y, other.y))
        for one, other in zip(first, second, strict=True)
    )
    counted = np.max(sum((one.y != 0).astype(int) for one in first))  # strata of each record
    yield Check("strata", subject, max(changed / 2, float(counted)), 1.0)


def _priced(epsilon: float, facts: Problem) -> Iterator[tuple[Any, Any]]:
    """Every claim about as strong as epsilon, with every kind of noise that is proven for it."""
    for claim, kinds in product(claims_of_size(epsilon), (LAPLACE, GAUSSIAN)):
        if kinds is LAPLACE or not isinstance(claim, PureDP):
            yield replace(claim, neighbours=facts.neighbours), kinds


def _moved(subject: str, epsilon: float, pair: _Pair = None) -> Iterator[Check]:
    (facts, first), (_, second) = _both(pair)
    shares = []
    for claim, kinds in _priced(epsilon, facts):
        plan = calibrate_moments(facts, claim, kinds)
        moved = [
            mean_moments(one, _STEEPEST, plan) - mean_moments(other, _STEEPEST, plan)
            for one, other in zip(first, second, strict=True)
        ]
        shares.append(share_of_changes(plan.noise, claim, moved))
    yield Check("strata", subject, largest(shares), 1.0)


def _counted(subject: str, epsilon: float, pair: _Pair = None) -> Iterator[Check]:
    (facts, first), (_, second) = _both(pair)
    shares = []
    for claim, kinds in _priced(epsilon, facts):
        plan = calibrate_histogram(facts.n, claim, kinds, facts.moved)
        edges = np.zeros(plan.bins - 1)
        moved = [
            score_counts(one, _STEEPEST, edges) - score_counts(other, _STEEPEST, edges)
            for one, other in zip(first, second, strict=True)
        ]
        shares.append(share_of_changes(plan.noise, claim, moved))
    yield Check("strata", subject, largest(shares), 1.0)


def _charged(subject: str, epsilon: float) -> Iterator[Check]:
    ledger: Any = Ledger(epsilon=10 * epsilon)
    dplr(_FORMULA, _tables()[0], epsilon, bounds=_BOUNDS, levels=_LEVELS, ledger=ledger)
    spent = sum(entry.guarantee.epsilon for entry in ledger.entries)
    yield Check("strata", subject, float(abs(spent / epsilon - 1)), 0.0)


_OF_PERSONS = _FORMULA + " + person(who)"


def _persons() -> list[pd.DataFrame]:
    """Two tables that differ in the first person, with records in all strata or in one."""
    first, others = np.arange(_RECORDS) % 3, np.arange(_RECORDS)
    table = pd.DataFrame(
        {
            "who": np.append(np.zeros(_RECORDS, dtype=int), 1 + others),
            "site": np.array(["a", "b", "c"])[np.append(first, others % 3)],
            "x": np.append(np.ones(_RECORDS), others / _RECORDS),
            "y": np.append(np.ones(_RECORDS, dtype=int), others % 2),
        }
    )
    # the other has one record, opposite to those, in one stratum
    alone = table[_RECORDS - 1 :].copy()
    alone.iloc[0] = [0, "b", 0.0, 0]
    return [table, alone]


def _weighed(subject: str, epsilon: float) -> Iterator[Check]:
    table = _persons()[0]
    counted = np.zeros(_RECORDS + 1)
    for rows in _strata(table, _OF_PERSONS)[1]:
        counts = np.where(rows.y == 0, 0.0, 1 / np.maximum(rows.y**2, 1.0))
        counted += np.bincount(table.who, counts)
    yield Check("strata", subject, float(np.max(counted)), 1.0)


def _spread(subject: str, epsilon: float) -> Iterator[Check]:
    yield from _moved(subject, epsilon, (_persons, _OF_PERSONS))


def _scored(subject: str, epsilon: float) -> Iterator[Check]:
    yield from _counted(subject, epsilon, (_persons, _OF_PERSONS))
