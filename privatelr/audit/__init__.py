"""Attacks on mechanisms: exact privacy losses, and lower bounds from sampled outputs.

from privatelr import audit

print(audit.privacy_loss(fit, data, neighbour))     # from the density of the release
audit.epsilon_lower_bound(mechanism, data, neighbour, trials=100_000)   # from outputs alone
print(audit.run())                                  # every mechanism, from formulas to ledgers
"""

from privatelr.audit.audit_table import Audit, Row
from privatelr.audit.checks import FULL, QUICK, Check, Effort, Setting
from privatelr.audit.density.loss import Finding, PrivacyLoss, privacy_loss, search
from privatelr.audit.density.pairs import Pair
from privatelr.audit.run_audit import run
from privatelr.audit.sampling.lower_bounds import (
    Mechanism,
    delta_lower_bound,
    epsilon_lower_bound,
)
from privatelr.mechanisms.signed_rows import SignedRows

__all__ = [
    "FULL",
    "QUICK",
    "Audit",
    "Check",
    "Effort",
    "Finding",
    "Mechanism",
    "Pair",
    "PrivacyLoss",
    "Row",
    "Setting",
    "SignedRows",
    "delta_lower_bound",
    "epsilon_lower_bound",
    "privacy_loss",
    "run",
    "search",
]
