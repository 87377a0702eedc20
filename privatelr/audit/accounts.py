"""The audit of a ledger: reported spending against true spending, and refusals.

The audit uses only the public methods of a ledger: `charge`, `spent`, `left`, `part`, and its
JSON. So it can test any kind of account. The true spending is that of mechanisms whose exact
composition is known: randomised responses, Gaussian releases, or both.
"""

from __future__ import annotations

import json
import math
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing, suppress
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from scipy import stats

from privatelr import model_data
from privatelr.audit.checks import Check, guarded
from privatelr.audit.enumeration.discrete import epsilon_of_outcomes
from privatelr.audit.worth import epsilon_of_gaussian
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
from privatelr.privacy.accounting.ledger_store import DiskPage, LedgerRow, chained, findings
from privatelr.privacy.noise import log_delta
from privatelr.selection.online import PrivateFTRL

_LARGE, _DELTA = 1000.0, 1e-6
_SEVERAL = 9
_TOLD = 1e-4
"""An epsilon at a delta may have at most this relative rounding error."""


def audit_ledger(rng: np.random.Generator) -> Iterator[Check]:
    """Checks of sums, compositions at a delta, parts, budgets, events, charges by fits, files."""
    for subject, work in (
        ("pure releases", _sums),
        ("pure releases at a delta", _responses),
        ("zCDP at a delta", _gaussians),
        ("parts", _parts),
        ("budgets", _budgets),
        ("what is left", _rests),
        ("prices chosen by results", _chosen),
        ("events", _false_events),
        ("deltas of both kinds", _deltas),
        ("persons", _persons),
        ("fits", _fits),
        ("on disk", _on_disk),
    ):
        yield from guarded("ledger", subject, work, rng)


def _share(subject: str, spent: float, ledger: Ledger) -> Check:
    over = spent / said if (said := ledger.spent()) > 0 else math.inf
    counted = f"{subject}: epsilon that is spent over what is counted"
    return Check("ledger", counted, over, 1 + _TOLD)


def _accepts(
    ledger: Ledger, guarantee: Guarantee, *, events: tuple[Event, ...] = (), times: int = 1
) -> bool:
    with suppress(GuaranteeError):
        ledger.charge(guarantee, events, times=times)
        return True
    return False


def _sums(rng: np.random.Generator) -> Iterator[Check]:
    ledger, prices = Ledger(_LARGE), rng.uniform(0.1, 2.0, _SEVERAL).tolist()
    for price in prices:
        ledger.charge(PureDP(price))
    yield _share("pure releases", math.fsum(prices), ledger)
    ledger.charge(PureDP(0.5), times=7)
    yield _share("one release many times", math.fsum(prices) + 3.5, ledger)


def _responses(rng: np.random.Generator) -> Iterator[Check]:
    ledger = Ledger(_LARGE, _DELTA)
    log_p, log_q = np.zeros(1), np.zeros(1)
    for price in rng.uniform(0.1, 1.0, _SEVERAL).tolist():
        ledger.charge(PureDP(price))
        truth, lie = -math.log1p(math.exp(-price)), -math.log1p(math.exp(price))
        log_p = np.concatenate([log_p + truth, log_p + lie])
        log_q = np.concatenate([log_q + lie, log_q + truth])
    yield _share("pure releases at a delta", epsilon_of_outcomes(log_p, log_q, _DELTA), ledger)


def _gaussians(rng: np.random.Generator) -> Iterator[Check]:
    # the budget is not large here, because the account of a large one is inexact for small prices
    ledger, prices = Ledger(15.0, _DELTA), rng.uniform(0.01, 0.2, _SEVERAL).tolist()
    for price in prices:
        ledger.charge(ZCDP(price))
    exact = epsilon_of_gaussian(math.sqrt(2 * math.fsum(prices)), _DELTA)
    yield _share("zCDP at a delta", exact, ledger)


def _parts(rng: np.random.Generator) -> Iterator[Check]:
    ledger = Ledger(_LARGE)
    ledger.part("first").charge(PureDP(1.0))
    ledger.part("second").charge(PureDP(2.0))
    ledger.charge(PureDP(0.5))
    ledger.part("second").charge(PureDP(1.0))
    yield _share("parts", 3.5, ledger)


def _budgets(rng: np.random.Generator) -> Iterator[Check]:
    beyond = 0.0
    for delta, charges in (*((0.0, 40) for _ in range(10)), (_DELTA, 8)):
        ledger, prices = Ledger(1.0, delta), rng.uniform(0.02, 0.4, charges).tolist()
        sum_of_pure = sum(price for price in prices if _accepts(ledger, PureDP(price)))
        beyond = max(beyond, ledger.spent() if delta else sum_of_pure)
    yield Check("ledger", "budgets: what was charged over the budget", beyond, 1.0)
    ledger = Ledger(1.0)
    accepted = sum(_accepts(ledger, NonPrivate("audit")) for _ in range(3))
    yield Check("ledger", "budgets: releases without a guarantee that were accepted", accepted)


def _rests(rng: np.random.Generator) -> Iterator[Check]:
    refused = accepted = 0
    for _ in range(10):
        ledger = Ledger(2.0)
        ledger.charge(PureDP(float(rng.uniform(0.1, 1.5))))
        refused += not _accepts(ledger, PureDP(ledger.left()))
        accepted += _accepts(ledger, PureDP(1e-3))
    yield Check("ledger", "what is left: charges of it that were refused", refused)
    yield Check("ledger", "what is left: charges beyond it that were accepted", accepted)


def _chosen(rng: np.random.Generator) -> Iterator[Check]:
    """Check a ledger whose later prices depend on the result of an earlier release.

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
            if more > 0 and _accepts(ledger, PureDP(price), times=more):
                taken += more
        branches.append((price, taken))
    truth = 1 / (1 + math.exp(-first))
    shown = max(
        truth * _delta_of(*one, epsilon - first) + (1 - truth) * _delta_of(*other, epsilon + first)
        for one, other in (branches, branches[::-1])
    )
    subject = "prices chosen by results: delta over that of the budget"
    yield Check("ledger", subject, shown / delta, 1.0)


def _delta_of(price: float, times: int, epsilon: float) -> float:
    """The delta at epsilon of a number of randomised responses, each of the same pure price."""
    truths = np.arange(times + 1)
    chances = stats.binom.pmf(truths, times, 1 / (1 + math.exp(-price)))
    losses = (2 * truths - times) * price
    return float(chances @ np.maximum(0.0, -np.expm1(epsilon - losses)))


def _false_events(rng: np.random.Generator) -> Iterator[Check]:
    """Check that a ledger refuses events that are much cheaper than their guarantee."""
    cheap = float(10 ** rng.uniform(-6, -2))
    believed = sum(
        _accepts(Ledger(_LARGE, _DELTA), guarantee, events=(event,))
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


def _deltas(rng: np.random.Generator) -> Iterator[Check]:
    """Check releases that reveal all with a small probability together with Gaussian releases.

    Both spend the same delta.
    """
    epsilon, delta = 2.0, 1e-3
    ledger, shares = Ledger(epsilon, delta, account="renyi"), (2.0 ** -np.arange(12)).tolist()
    ledger.charge(ZCDP(1e-6))
    chance = sum(s * delta for s in shares if _accepts(ledger, ApproxDP(1e-9, s * delta)))
    squares = sum(2 * s * epsilon for s in shares if _accepts(ledger, ZCDP(s * epsilon)))
    below = math.exp(log_delta(epsilon, math.sqrt(squares))) if squares > 0 else 0.0
    shown = (chance + (1 - chance) * below) / delta
    yield Check("ledger", "deltas of both kinds: delta over that of the budget", shown, 1.0)


def _persons(rng: np.random.Generator) -> Iterator[Check]:
    """Check that prices about persons of one column are not added to those of another."""
    ledger, about = Ledger(_LARGE, neighbours="person"), PureDP(0.5, REPLACE_PERSON)
    ledger.charge(about, person="patient")
    taken = 0
    with suppress(GuaranteeError):
        ledger.charge(about, person="clinic")
        taken += 1
    yield Check("ledger", "persons: charges about another column that were accepted", taken)


def _fits(rng: np.random.Generator) -> Iterator[Check]:
    """Check that a fit and an online mechanism charge the ledger that they are given.

    The ledger is an argument, or that of an open ``with`` block.
    """
    frame = pd.DataFrame({"x": np.linspace(-1, 1, 8), "y": [0.0, 1.0] * 4})
    box = {"x": (-1.0, 1.0), "y": (0.0, 1.0)}
    named, opened, both = Ledger(_LARGE), Ledger(_LARGE), Ledger(_LARGE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
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
    frame = pd.DataFrame({"x": np.linspace(-1, 1, 8), "y": [0.0, 1.0] * 4})
    seen: list[int] = []

    def look(*given: Any, **options: Any) -> Any:
        seen.append(_count_rows(path))
        return honest(*given, **options)

    honest = vars(model_data)["read_design"]
    with mock.patch.object(model_data, "read_design", look), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dplr("y ~ x", frame, 0.5, bounds={"x": (-1.0, 1.0), "y": (0.0, 1.0)}, ledger=ledger)
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


def _count_rows(path: str) -> int:
    with closing(sqlite3.connect(path)) as other:
        (count,) = other.execute(
            "SELECT count(*) FROM privatelr_ledger WHERE number > 0"
        ).fetchone()
    return int(count)


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
