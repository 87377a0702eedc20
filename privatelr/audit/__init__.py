"""Try to break a mechanism: exact privacy losses, and bounds from sampled outputs.

from privatelr import audit

print(audit.privacy_loss(fit, data, neighbour))     # from the density of the release
audit.epsilon_lower_bound(mechanism, data, neighbour, trials=100_000)   # from outputs alone
print(audit.run())                                  # every mechanism, from formulas to ledgers
"""

from privatelr.audit.between import privacy_loss
from privatelr.audit.checks import Check
from privatelr.audit.choices import ChoiceLoss
from privatelr.audit.loss import PrivacyLoss
from privatelr.audit.outputs import Mechanism, Outputs, outputs_of
from privatelr.audit.pairs import Pair, SignedRows
from privatelr.audit.registered import run
from privatelr.audit.sampled import (
    delta_from_outputs,
    delta_lower_bound,
    epsilon_from_outputs,
    epsilon_lower_bound,
    rho_from_outputs,
)
from privatelr.audit.search import Finding, search
from privatelr.audit.settings import FULL, QUICK, Effort, Setting
from privatelr.audit.table import Audit, Row

__all__ = [
    "FULL",
    "QUICK",
    "Audit",
    "Check",
    "ChoiceLoss",
    "Effort",
    "Finding",
    "Mechanism",
    "Outputs",
    "Pair",
    "PrivacyLoss",
    "Row",
    "Setting",
    "SignedRows",
    "delta_from_outputs",
    "delta_lower_bound",
    "epsilon_from_outputs",
    "epsilon_lower_bound",
    "outputs_of",
    "privacy_loss",
    "rho_from_outputs",
    "run",
    "search",
]
