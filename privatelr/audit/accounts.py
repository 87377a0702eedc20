"""The audit of a ledger: reported spending against true spending, and refusals.

The audit uses only the public methods of a ledger: `charge`, `spent`, `left`, `part`, and its
JSON. So it can test any kind of account. The true spending is composed here by brute force. Each
release is the worst one of its price: a randomised response, a choice between two options, a
Gaussian number, and all of the data with the probability delta. So the delta of several of them
at an epsilon is a sum over all outcomes. It shares no bookkeeping with the package: a release
that is made fifty times is composed fifty times.
"""

from __future__ import annotations

import json
import math
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from privatelr import call_data
from privatelr.audit.checks import Check, guarded, largest, measured
from privatelr.audit.worth import NOTHING, delta_of_gaussian
from privatelr.errors import GuaranteeError
from privatelr.model import dplr
from privatelr.privacy import (
    REPLACE_PERSON,
    ZCDP,
    ApproxDP,
    Event,
    GaussianEvent,
    Guarantee,
    NonPrivate,
    PureDP,
)
from privatelr.privacy.accounting import Entry, Ledger
from privatelr.privacy.accounting.ledger import Account
from privatelr.privacy.accounting.ledger_store import DiskPage, LedgerRow, chained, findings
from privatelr.privacy.events import EVENTS, BoundedRangeEvent, SimplexDrawEvent, TiltEvent, grouped
from privatelr.selection.online import PrivateFTRL

_LARGE, _DELTA = 1000.0, 1e-6
_TOLD = 1e-4
"""An epsilon at a delta may have at most this relative rounding error."""
_TIMES, _CHARGES, _LEDGERS = (1, 2, 7, 50), 7, 6
"""How often a release is made, and the numbers of charges of a ledger and of ledgers."""
_ROUNDING, _LOST = 1e-6, 1e-9
_ROWS_OF_A_LEDGER = "SELECT number FROM privatelr_ledger WHERE number > 0"
_ROWS = 3
"""Number of rows of one record in a group."""
_FRAME = {"x": np.linspace(-1, 1, 8), "y": [0.0, 1.0] * 4}
_BOX = {"x": (-1.0, 1.0), "y": (0.0, 1.0)}


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
    kept, square, law = 1.0, 0.0, NOTHING
    for release in releases:
        match release.events[0] if release.events else release.guarantee:
            case GaussianEvent(mu=mu):
                square += release.times * mu * mu
            case ZCDP(rho=rho):
                square += release.times * 2 * rho
            case ApproxDP(epsilon=price, delta=lost):
                kept *= (1 - lost) ** release.times
                law = law.with_choices(price, -price, release.times)
            case PureDP(epsilon=price):
                law = law.with_choices(price, -price, release.times)
            case BoundedRangeEvent(eta=eta):
                law = law.with_choices(eta / 2, -eta / 2, release.times)
    return 1 - kept * (1 - law.delta(epsilon, math.sqrt(square)))


def audit_ledger(rng: np.random.Generator) -> Iterator[Check]:
    """Checks of what is left, events, charges by fits, files, and random small ledgers."""
    yield from guarded("ledger", "what is left", _rests, rng)
    yield from guarded("ledger", "events", _false_events, rng)
    yield from guarded("ledger", "fits", _fits)
    yield from guarded("ledger", "on disk", _on_disk, rng)
    over = "delta over that of the budget"
    yield from measured("ledger", f"prices chosen by results: {over}", _chosen)
    yield from measured("ledger", f"deltas of both kinds: {over}", _deltas)
    subject = "persons: charges about another column that were accepted"
    yield from measured("ledger", subject, _persons, allowed=0.0)
    yield from audit_small_ledgers(rng)


def _share(subject: str, spent: float, ledger: Ledger) -> Check:
    over = spent / said if (said := ledger.spent()) > 0 else math.inf
    counted = f"{subject}: epsilon that is spent over what is counted"
    return Check("ledger", counted, over, 1 + _TOLD)


def _rests(rng: np.random.Generator) -> Iterator[Check]:
    refused = accepted = 0
    for _ in range(10):
        ledger = Ledger(2.0)
        ledger.charge(PureDP(float(rng.uniform(0.1, 1.5))))
        refused += not Charged(PureDP(ledger.left())).charge(ledger)
        accepted += Charged(PureDP(1e-3)).charge(ledger)
    yield Check("ledger", "what is left: charges of it that were refused", refused)
    yield Check("ledger", "what is left: charges beyond it that were accepted", accepted)


def _chosen() -> float:
    """The delta of a ledger whose later prices depend on the result of an earlier release.

    The bit that a first release returns decides whether one expensive release follows or many
    cheap ones. A ledger that takes the least of several accounts after the prices are known
    accepts too much here. The releases that the ledger accepts in either case are composed
    exactly, together with the first one.
    """
    epsilon, delta, first = 3.402, 1.7e-3, 0.007
    branches = []
    for price, times in ((3.3983, 1), (0.1, 126)):
        ledger, taken = Ledger(epsilon, delta), 0
        ledger.charge(PureDP(first))
        for some in 2 ** np.arange(int(math.log2(times)), -1, -1):
            more = min(int(some), times - taken)
            if more > 0 and Charged(PureDP(price), more).charge(ledger):
                taken += more
        branches.append([Charged(PureDP(price), taken)])
    truth = 1 / (1 + math.exp(-first))
    shown = max(
        truth * exact_delta(one, epsilon - first) + (1 - truth) * exact_delta(two, epsilon + first)
        for one, two in (branches, branches[::-1])
    )
    return shown / delta


def _false_events(rng: np.random.Generator) -> Iterator[Check]:
    """Check that a ledger refuses what has no guarantee, and events much cheaper than theirs."""
    accepted = sum(Charged(NonPrivate("audit")).charge(Ledger(1.0)) for _ in range(3))
    yield Check("ledger", "events: releases without a guarantee that were accepted", accepted)
    cheap = float(10 ** rng.uniform(-6, -2))
    believed = sum(
        Charged(guarantee, 1, (event,)).charge(Ledger(_LARGE, _DELTA))
        for guarantee in (PureDP(50.0), ApproxDP(50.0, _DELTA), ZCDP(10.0))
        for event in (GaussianEvent(cheap), PureDP(cheap))
    )
    yield Check("ledger", "events: cheap ones that were believed", believed)
    written = Ledger(_LARGE, _DELTA)
    written.charge(ApproxDP(50.0, _DELTA / 100))
    document = written.to_json()
    document["entries"][0]["events"] = [
        {"kind": "gaussian", "mu": cheap, "neighbours": written.neighbours.name}
    ]
    read = 0
    with suppress(GuaranteeError):
        Ledger.from_json(document)
        read = 1
    yield Check("ledger", "events: cheap ones that were read from a file", read)


def _deltas() -> float:
    """The delta of releases that reveal all with a small probability and of Gaussian releases.

    Both spend the same delta.
    """
    epsilon, delta = 2.0, 1e-3
    ledger = Ledger(epsilon, delta, account="renyi")
    ledger.charge(ZCDP(1e-6))
    offered: list[Guarantee] = [ApproxDP(1e-9, s * delta) for s in 2.0 ** -np.arange(12)]
    offered += [ZCDP(s * epsilon) for s in 2.0 ** -np.arange(12)]
    taken = [one for one in map(Charged, offered) if one.charge(ledger)]
    return exact_delta(taken, epsilon) / delta


def _persons() -> float:
    """The charges about persons of one column that are added to those of another."""
    ledger, about = Ledger(_LARGE, neighbours="person"), PureDP(0.5, REPLACE_PERSON)
    ledger.charge(about, person="patient")
    with suppress(GuaranteeError):
        ledger.charge(about, person="clinic")
        return 1.0
    return 0.0


def _fits() -> Iterator[Check]:
    """Check that a fit and an online mechanism charge the ledger that they are given.

    The ledger is an argument, or that of an open ``with`` block.
    """
    frame, box = pd.DataFrame(_FRAME), _BOX
    named, opened, both = Ledger(_LARGE), Ledger(_LARGE), Ledger(_LARGE)
    with warnings.catch_warnings(action="ignore"):
        dplr("y ~ x", frame, 0.75, bounds=box, spend="inference", ledger=named)
        PrivateFTRL(2, 4, 0.5, 0.0, ledger=named)
        with opened:
            dplr("y ~ x", frame, 0.75, bounds=box, spend="inference")
            PrivateFTRL(2, 4, 0.5, 0.0)
            dplr("y ~ x", frame, 0.25, bounds=box, ledger=both)
    yield _share("fits beside a ledger", 1.25, named)
    yield _share("fits in a block", 1.5, opened)
    yield _share("fits beside a ledger in the block of another", 0.25, both)


def _on_disk(rng: np.random.Generator) -> Iterator[Check]:
    """Check a ledger on disk: before the data are read, by one at a time, and row by row."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/audit.ledger"
        ledger = Ledger.create(path, _LARGE)
        yield from _before_the_read(ledger, path)
        yield from _one_at_a_time(ledger, path)
        price = float(rng.uniform(0.1, 1.0))
        ledger.charge(PureDP(price), label="audit")
        yield _share("pure releases in a file", 0.5 + 0.25 + price, ledger)
        rows = [json.loads(row.body) for row in ledger.rows]
        entry = rows[-1]["entry"]
        whole = {**entry["guarantee"], "epsilon": 1.0}
        cheap = {**entry, "events": [{**whole, "epsilon": 1e-9}]}
        dear = {**entry, "guarantee": whole, "times": 2000, "events": []}
        forged = [_table(_chain([*rows, {**rows[-1], "entry": one}])) for one in (cheap, dear)]
        missed = sum(not [*findings(table)] for table in forged)
        yield Check("ledger", "on disk: forged rows with right hashes that were believed", missed)
        chain = _chain(rows)
        tables = (_table([*chain[:2], *chain[3:]]), _table(chain)[:-1])
        gone = sum(not [*findings(table)] for table in tables)
        yield Check("ledger", "on disk: rows that are gone unseen", gone)


def _before_the_read(ledger: Ledger, path: str) -> Iterator[Check]:
    """When the rows are read, another connection has to see the charge."""
    seen: list[int] = []

    def look(*given: Any, **options: Any) -> Any:
        with closing(sqlite3.connect(path)) as other:
            seen.append(len(other.execute(_ROWS_OF_A_LEDGER).fetchall()))
        return honest(*given, **options)

    honest = vars(call_data)["read_design"]
    looking = mock.patch.object(call_data, "read_design", look)
    with looking, warnings.catch_warnings(action="ignore"):
        dplr("y ~ x", pd.DataFrame(_FRAME), 0.5, bounds=_BOX, ledger=ledger)
    late = sum(count < 2 for count in seen) if seen else 1
    yield Check("ledger", "on disk: rows that were read before their charge was", late)


def _one_at_a_time(ledger: Ledger, path: str) -> Iterator[Check]:
    """While one charge is composed, no other connection may begin to write."""
    begun: list[bool] = []

    def meanwhile(page: DiskPage, entry: Entry) -> None:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
                other.execute("ROLLBACK")
                begun.append(True)
            except sqlite3.OperationalError:
                begun.append(False)
        honest(page, entry)

    honest = DiskPage.add
    with mock.patch.object(DiskPage, "add", meanwhile):
        ledger.charge(PureDP(0.25))
    yield Check("ledger", "on disk: others that could write during a charge", sum(begun))


def _chain(bodies: list[dict[str, Any]]) -> list[LedgerRow]:
    """Write rows with right hashes, as one who forges a whole file does."""
    rows: list[LedgerRow] = []
    for body in bodies:
        head = rows[-1].hash if rows else ""
        rows.append(chained(json.dumps(body, sort_keys=True), head))
    return rows


def _table(rows: list[LedgerRow]) -> list[tuple[int, str, str]]:
    """Number rows, and add their head."""
    return [(0, str(len(rows)), rows[-1].hash), *((at, *row) for at, row in enumerate(rows, 1))]


# -- random small ledgers ------------------------------------------------------------------------


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
    for subject, work in (("sums", _sums), ("plans", _plans), ("groups of rows", _groups)):
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
