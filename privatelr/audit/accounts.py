"""A ledger through its front: what it says was spent, against what really is, and what it refuses.

Nothing is looked at but `charge`, `spent`, `left` and `part`, so any way to keep accounts can be
put to the test. What is really spent is a lower bound that exists: the exact composition of
randomised responses, of Gaussians, or of both.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from privatelr.audit.checks import Check, guarded
from privatelr.audit.discrete import epsilon_of_outcomes
from privatelr.audit.worth import epsilon_of_gaussian
from privatelr.errors import GuaranteeError
from privatelr.mechanisms.online.play import PrivateFTRL
from privatelr.model import dplr
from privatelr.privacy.guarantees import ZCDP, NonPrivate, PureDP
from privatelr.privacy.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from privatelr.privacy.guarantees import Guarantee

PART = "ledger"
_LARGE, _DELTA = 1000.0, 1e-6
_SEVERAL = 9
_TOLD = 1e-4
"""What an epsilon at a delta may be rounded by."""


def audit_ledger(rng: np.random.Generator) -> Iterator[Check]:
    """Checks of sums, of compositions at a delta, of parts, of budgets, and of who is charged."""
    for subject, work in (
        ("pure releases", _sums),
        ("pure releases at a delta", _responses),
        ("zCDP at a delta", _gaussians),
        ("parts", _parts),
        ("budgets", _budgets),
        ("what is left", _rests),
    ):
        yield from guarded(PART, subject, work, rng)
    yield from guarded(PART, "fits", _fits)


def _share(subject: str, spent: float, said: float) -> Check:
    over = spent / said if said > 0 else math.inf
    return Check(PART, f"{subject}: epsilon that is spent over what is counted", over, 1 + _TOLD)


def _sums(rng: np.random.Generator) -> Iterator[Check]:
    ledger, prices = Ledger(_LARGE), rng.uniform(0.1, 2.0, _SEVERAL).tolist()
    for price in prices:
        ledger.charge(PureDP(price), (), "audit")
    yield _share("pure releases", math.fsum(prices), ledger.spent())
    ledger.charge(PureDP(0.5), (), "audit", times=7)
    yield _share("one release many times", math.fsum(prices) + 3.5, ledger.spent())


def _responses(rng: np.random.Generator) -> Iterator[Check]:
    ledger, prices = Ledger(_LARGE, _DELTA), rng.uniform(0.1, 1.0, _SEVERAL).tolist()
    log_p, log_q = np.zeros(1), np.zeros(1)
    for price in prices:
        ledger.charge(PureDP(price), (), "audit")
        truth, lie = -math.log1p(math.exp(-price)), -math.log1p(math.exp(price))
        log_p = np.concatenate([log_p + truth, log_p + lie])
        log_q = np.concatenate([log_q + lie, log_q + truth])
    exact = epsilon_of_outcomes(log_p, log_q, _DELTA)
    yield _share("pure releases at a delta", exact, ledger.spent())


def _gaussians(rng: np.random.Generator) -> Iterator[Check]:
    ledger, prices = Ledger(_LARGE, _DELTA), rng.uniform(0.01, 0.2, _SEVERAL).tolist()
    for price in prices:
        ledger.charge(ZCDP(price), (), "audit")
    exact = epsilon_of_gaussian(math.sqrt(2 * math.fsum(prices)), _DELTA)
    yield _share("zCDP at a delta", exact, ledger.spent())


def _parts(rng: np.random.Generator) -> Iterator[Check]:
    ledger = Ledger(_LARGE)
    ledger.part("first").charge(PureDP(1.0), (), "audit")
    ledger.part("second").charge(PureDP(2.0), (), "audit")
    ledger.charge(PureDP(0.5), (), "audit")
    ledger.part("second").charge(PureDP(1.0), (), "audit")
    yield _share("parts", 3.5, ledger.spent())


def _budgets(rng: np.random.Generator) -> Iterator[Check]:
    beyond = 0.0
    for delta, charges in (*((0.0, 40) for _ in range(10)), (_DELTA, 8)):
        ledger, sum_of_pure = Ledger(1.0, delta), 0.0
        for _ in range(charges):
            price = float(rng.uniform(0.02, 0.4))
            try:
                ledger.charge(PureDP(price), (), "audit")
            except GuaranteeError:
                continue
            sum_of_pure += price
        spent = sum_of_pure if delta == 0 else ledger.spent()
        beyond = max(beyond, spent)
    yield Check(PART, "budgets: what was charged over the budget", beyond, 1.0)
    ledger = Ledger(1.0)
    accepted = sum(_accepts(ledger, NonPrivate("audit")) for _ in range(3))
    yield Check(PART, "budgets: releases without a guarantee that were accepted", accepted)


def _accepts(ledger: Ledger, guarantee: Guarantee) -> bool:
    try:
        ledger.charge(guarantee, (), "audit")
    except GuaranteeError:
        return False
    return True


def _rests(rng: np.random.Generator) -> Iterator[Check]:
    refused = accepted = 0
    for _ in range(10):
        ledger = Ledger(2.0)
        ledger.charge(PureDP(float(rng.uniform(0.1, 1.5))), (), "audit")
        refused += not _accepts(ledger, PureDP(ledger.left()))
        accepted += _accepts(ledger, PureDP(1e-3))
    yield Check(PART, "what is left: charges of it that were refused", refused)
    yield Check(PART, "what is left: charges beyond it that were accepted", accepted)


def _fits() -> Iterator[Check]:
    """A fit and a play charge their price, where a ledger is named and where a block is open."""
    frame = pd.DataFrame({"x": np.linspace(-1, 1, 8), "y": [0.0, 1.0] * 4})
    box = {"x": (-1.0, 1.0)}
    named, opened = Ledger(_LARGE), Ledger(_LARGE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dplr("y ~ x", frame, 0.75, bounds=box, spend="inference", ledger=named)
        PrivateFTRL(2, 4, 0.5, 0.0, ledger=named)
        with opened:
            dplr("y ~ x", frame, 0.75, bounds=box, spend="inference")
            PrivateFTRL(2, 4, 0.5, 0.0)
    yield _share("fits beside a ledger", 1.25, named.spent())
    yield _share("fits in a block", 1.25, opened.spent())
