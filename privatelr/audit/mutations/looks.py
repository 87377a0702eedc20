"""Small parts of the audit, cheap enough to be run once for each planted bug."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privatelr.audit.accounts import audit_ledger
from privatelr.audit.designs import audit_rows
from privatelr.audit.faithful import audit_draws
from privatelr.audit.front import FRONTS, audit_front
from privatelr.audit.mutations.planted import Look
from privatelr.audit.peers import audit_peers
from privatelr.audit.plays import audit_plays
from privatelr.audit.recomputed import audit_noise
from privatelr.audit.registered import audit_one
from privatelr.audit.scripted import audit_releases
from privatelr.audit.settings import INTERCEPT_AND_SLOPE, Effort, Setting
from privatelr.audit.simplex import audit_simplex
from privatelr.audit.tables import audit_tables
from privatelr.mechanisms.request import Request
from privatelr.numerics.losses import LOSSES
from privatelr.privacy.guarantees import PureDP

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from privatelr.audit.checks import Check
    from privatelr.audit.table import Row
    from privatelr.types import Placement

_FORMULAS, _DRAWS = 4, 2_000
_BRIEF = Effort((Setting(), Setting(12.0, 4.0, INTERCEPT_AND_SLOPE)), 0, 2_000, 1, 250)
_ALPHA = 1e-6
_PAIRS, _TRIALS = 3, 60


def rows(*kinds: str) -> Look:
    """Rows of random formulas, of these kinds."""
    return Look(f"rows, {', '.join(kinds)}", lambda rng: audit_rows(rng, _FORMULAS, kinds))


def row(placement: Placement, loss: str = "logistic") -> Look:
    """The row of a pure claim: the worst pair, samples, and whether releases have their law."""

    def work(rng: np.random.Generator) -> Iterator[Row]:
        request = Request(PureDP(1.0), placement, None, "free", "keep")
        yield audit_one(request, LOSSES[loss], _BRIEF, _ALPHA, rng)

    return Look(f"row, {placement}, {loss}", work)


def _of_simplex(rng: np.random.Generator) -> Iterator[Row]:
    yield from audit_simplex(1.0, rng, _TRIALS, _PAIRS, [LOSSES["logistic"]])


def noise(only: str) -> Look:
    """What noise is worth, of these subjects."""
    return Look(f"noise, {only}", lambda rng: audit_noise(1.0, only))


def _of_front(rng: np.random.Generator) -> Iterator[Check]:
    yield from audit_front(1.0, FRONTS[:2], claims=1)


FRONT = Look("fits of formulas", _of_front)
DRAWS = Look("draws", lambda rng: audit_draws(rng, _DRAWS))
RELEASES = Look("releases", lambda rng: audit_releases(rng, 1.0))
CHOICES = Look("choices", lambda rng: audit_plays(rng, 1.0, 4))
SIMPLEX = Look("draws from the simplex", _of_simplex)
TABLES = Look("tables", lambda rng: audit_tables())
LEDGER = Look("ledger", audit_ledger)
PEERS = Look("other libraries", lambda rng: audit_peers())
