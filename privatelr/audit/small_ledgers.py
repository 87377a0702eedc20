"""Small ledgers, whose releases are composed here by brute force.

Each release is the worst one of its price: a randomised response, a choice between two options, a
Gaussian number, and all of the data with the probability delta. So the delta of several of them
at an epsilon is a sum over all outcomes. It shares no bookkeeping with the package: a release
that is made fifty times is composed fifty times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np
from scipy import stats

from privatelr.audit.checks import Check, guarded, largest
from privatelr.audit.worth import delta_of_gaussian
from privatelr.errors import GuaranteeError
from privatelr.privacy import ZCDP, ApproxDP, Event, GaussianEvent, Guarantee, PureDP
from privatelr.privacy.accounting import Ledger
from privatelr.privacy.accounting.account import Account
from privatelr.privacy.events import EVENTS, BoundedRangeEvent, SimplexDrawEvent, TiltEvent, grouped

_TIMES, _CHARGES, _LEDGERS = (1, 2, 7, 50), 7, 6
"""How often a release is made, and the numbers of charges of a ledger and of ledgers."""
_ROUNDING = 1e-6
_LOST = 1e-9
_ROWS = 3
"""Number of rows of one record in a group."""


@dataclass(frozen=True, slots=True)
class Charged:
    """A release as a ledger is told of it, made so many times."""

    guarantee: Guarantee
    times: int = 1
    events: tuple[Event, ...] = ()

    def charge(self, account: Account) -> bool:
        """Whether the account accepts it."""
        with suppress(GuaranteeError):
            account.charge(self.guarantee, self.events, times=self.times)
            return True
        return False


def exact_delta(releases: list[Charged], epsilon: float) -> float:
    """The delta of the worst releases of these prices together, over all of their outcomes."""
    kept, square, losses, chances = 1.0, 0.0, np.zeros(1), np.ones(1)
    for release in releases:
        up = down = 0.0
        match release.events[0] if release.events else release.guarantee:
            case GaussianEvent(mu=mu):
                square += release.times * mu * mu
            case ZCDP(rho=rho):
                square += release.times * 2 * rho
            case ApproxDP(epsilon=price, delta=lost):
                kept *= (1 - lost) ** release.times
                up, down = price, -price
            case PureDP(epsilon=price):
                up, down = price, -price
            case BoundedRangeEvent(eta=eta):
                up, down = eta / 2, -eta / 2
        if up > down:
            truth = -math.expm1(down) / (1 - math.exp(down - up))
            ups = np.arange(release.times + 1)
            seen = stats.binom.pmf(ups, release.times, truth)
            each = ups * up + (release.times - ups) * down
            likely = seen > _LOST * 1e-9
            losses = np.add.outer(losses, each[likely]).ravel()
            chances = np.outer(chances, seen[likely]).ravel()
    mu = math.sqrt(square)
    left = np.maximum(-np.expm1(np.minimum(epsilon - losses, 0.0)), 0.0)
    deltas = delta_of_gaussian(epsilon - losses, mu) if mu > 0 else left
    return 1 - kept * (1 - float(chances @ deltas))


def _some(rng: np.random.Generator, epsilon: float, delta: float) -> Charged:
    """A random release that takes a good part of a budget."""
    times, share = int(rng.choice(_TIMES)), float(rng.uniform(0.1, 0.9))
    price, root = epsilon * share / times, math.sqrt(2 * math.log(1 / max(delta, 1e-12)))
    mu = epsilon * share / root / math.sqrt(times)
    kind = rng.integers(5 if delta else 1)
    if kind == 1:
        return Charged(ZCDP(mu * mu / 2), times)
    if kind == 2:
        return Charged(ApproxDP(price / 20, delta * share / float(rng.choice([1, times]))), times)
    if kind == 3:
        # the guarantee that a Gaussian release has, next to the release itself
        lost = delta / 50
        known = np.linspace(0.0, 12 * mu, 20_001)
        least = known[np.argmax(delta_of_gaussian(known, mu) <= lost)]
        return Charged(ApproxDP(float(least), lost), times, (GaussianEvent(mu),))
    if kind == 4:
        return Charged(PureDP(2 * mu), times, (BoundedRangeEvent(2 * mu),))
    return Charged(PureDP(price), times)


def audit_small_ledgers(rng: np.random.Generator) -> Iterator[Check]:
    """Checks of random ledgers, of their parts, of plans, and of groups of rows."""
    for account, delta in product(("sum", "renyi", None), (0.0, 1e-6, 1e-3)):
        subject = f"small ledgers, account {account}, delta {delta:g}"
        yield from guarded("ledger", subject, _filter, account, delta, subject, rng)
    for subject, work in (
        ("sums", _sums),
        ("releases that are made several times", _times),
        ("plans", _plans),
        ("groups of rows", _groups),
    ):
        yield from guarded("ledger", subject, work, subject, rng)


def _filter(
    account: str | None, delta: float, subject: str, rng: np.random.Generator
) -> Iterator[Check]:
    """Fill ledgers, some releases in parts, and compose what each record is told."""
    beyond = counted = 0.0
    for _ in range(_LEDGERS):
        epsilon = float(rng.uniform(0.3, 3.0))
        ledger = Ledger(epsilon, delta, account=account)
        parts: dict[str, list[Charged]] = {"first": [], "second": []}
        for _ in range(_CHARGES):
            some, place = _some(rng, epsilon, delta), int(rng.integers(4))
            names = list(parts)[place : place + 1] or list(parts)
            target: Account = ledger if len(names) > 1 else ledger.part(names[0])
            if some.charge(target):
                for name in names:
                    parts[name].append(some)
        resumed = Ledger.from_json(ledger.to_json())
        for releases in filter(None, parts.values()):
            beyond = largest((beyond, _over(releases, epsilon, delta)))
            told = min(ledger.spent(), resumed.spent())
            counted = largest((counted, _over(releases, told, delta)))
    yield Check("ledger", f"{subject}: delta over that of the budget", beyond, 1 + _ROUNDING)
    yield Check("ledger", f"{subject}: delta at what is counted, over it", counted, 1 + _ROUNDING)


def _over(releases: list[Charged], epsilon: float, delta: float) -> float:
    return exact_delta(releases, epsilon * (1 + _LOST)) / max(delta, _LOST)


def _sums(subject: str, rng: np.random.Generator) -> Iterator[Check]:
    """An account of sums accepts what fits by sums of fractions, and nothing else."""
    wrong = 0
    for delta in (0.0, 1e-6):
        ledger, spent, lost = Ledger(2.0, delta, account="sum"), Fraction(0), Fraction(0)
        for _ in range(4 * _CHARGES):
            times = int(rng.choice(_TIMES))
            price = round(float(rng.uniform(0.01, 0.3)) / times, 6)
            part = round(float(rng.uniform(0.0, delta / 3)) / times, 12)
            some = Charged(ApproxDP(price, part) if part > 0 else PureDP(price), times)
            after = spent + Fraction(str(price)) * times, lost + Fraction(str(part)) * times
            fits = after[0] <= 2 and after[1] <= Fraction(str(delta))
            spent, lost = after if fits else (spent, lost)
            wrong += some.charge(ledger) != fits
        wrong += abs(ledger.spent() / float(spent) - 1) > _LOST
    yield Check("ledger", f"{subject}: decisions that differ from sums of fractions", wrong)


def _times(subject: str, rng: np.random.Generator) -> Iterator[Check]:
    """A release that is made several times costs as much as so many charges."""
    apart = 0.0
    for account, _ in product(("sum", "renyi"), range(_LEDGERS)):
        some = replace(_some(rng, 5.0, 1e-6), times=int(rng.choice(_TIMES[1:3])))
        one, many = (Ledger(50.0, 1e-5, account=account) for _ in range(2))
        if some.charge(one) and all(replace(some, times=1).charge(many) for _ in range(some.times)):
            apart = max(apart, abs(one.spent() / many.spent() - 1))
    yield Check("ledger", f"{subject}: relative difference to single charges", apart, _ROUNDING)


def _plans(subject: str, rng: np.random.Generator) -> Iterator[Check]:
    """A plan covers its declared prices, and no price is used more often than it was declared."""
    over, accepted, delta = 0.0, 0, 1e-5
    for _ in range(_LEDGERS):
        some = replace(_some(rng, 1.0, delta / 50), times=5)
        plan = Ledger.plan([(some.guarantee, some.events)] * some.times, delta)
        over = largest((over, _over([some], plan.epsilon, delta)))
        accepted += replace(some, times=6).charge(plan)
        for times in (3, 3):
            accepted += replace(some, times=times).charge(plan)
        accepted -= 1
    yield Check("ledger", f"{subject}: delta over the stated one", over, 1 + _ROUNDING)
    yield Check("ledger", f"{subject}: charges beyond the declared ones", accepted)


def _groups(subject: str, rng: np.random.Generator) -> Iterator[Check]:
    """What a record of several rows pays is at least the loss along a chain of single changes."""
    price, lost, rows = float(rng.uniform(0.1, 1.0)), 1e-3, _ROWS
    chance = 0.0
    for _ in range(rows):  # the largest chance of an event that has none at the other end
        chance = min(1.0, math.exp(price) * chance + lost)
    wanted: dict[Event, dict[str, float]] = {
        PureDP(price): {"epsilon": rows * price},
        ZCDP(price): {"rho": (rows * math.sqrt(2 * price)) ** 2 / 2},
        GaussianEvent(price): {"mu": rows * price},
        ApproxDP(price, lost): {"epsilon": rows * price, "delta": chance},
        BoundedRangeEvent(price): {"eta": rows * price},
        SimplexDrawEvent(price, price, price): dict.fromkeys(
            ("largest", "width", "sd"), rows * price
        ),
    }
    short = max(
        number / getattr(grouped(event, rows), name)
        for event, numbers in wanted.items()
        for name, number in numbers.items()
    )
    yield Check("ledger", f"{subject}: loss along a chain over the price", short, 1 + _LOST)
    unknown = [kind for kind in EVENTS.values() if kind not in {*map(type, wanted), TiltEvent}]
    with suppress(GuaranteeError):
        grouped(TiltEvent(price, price, 0.25), rows)
        unknown.append(TiltEvent)
    yield Check("ledger", f"{subject}: events with a price that is not known here", len(unknown))
