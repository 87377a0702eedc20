"""The parts of an audit that are not a row for a mechanism, a loss and a claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privatelr.audit.accounts import audit_ledger
from privatelr.audit.designs import audit_rows
from privatelr.audit.faithful import audit_draws
from privatelr.audit.front import audit_front
from privatelr.audit.peers import audit_peers
from privatelr.audit.plays import audit_plays
from privatelr.audit.recomputed import audit_noise
from privatelr.audit.scripted import audit_releases
from privatelr.audit.tables import audit_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from privatelr.audit.checks import Check
    from privatelr.audit.settings import Effort


def audit_parts(epsilon: float, effort: Effort, rng: np.random.Generator) -> Iterator[Check]:
    """All checks: rows, fits of formulas, noise, releases, choices, ledgers, other libraries.

    Notes
    -----
    **Privacy.** *Covered*: no data is involved. *Neighbours*: replace one record. *Assumed
    public*: everything. *Not covered*: time and memory of the mechanisms.
    """
    yield from audit_rows(rng, effort.formulas)
    yield from audit_tables()
    yield from audit_front(epsilon)
    yield from audit_noise(epsilon)
    yield from audit_draws(rng, 4 * effort.releases)
    yield from audit_releases(rng, epsilon)
    yield from audit_plays(rng, epsilon, effort.choices)
    yield from audit_ledger(rng)
    yield from audit_peers()
