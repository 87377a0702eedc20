"""The audit of private answers: it comes near each claim, and sees planted bugs."""

import numpy as np
import pytest

from privatelr.audit.checks import Check
from privatelr.audit.enumerated_answers import audit_answers


@pytest.mark.parametrize("epsilon", [0.01, 10.0])
def test_every_claim_holds_and_is_nearly_reached(epsilon):
    found = list(audit_answers(np.random.default_rng(1), epsilon))
    assert all(isinstance(check, Check) and check.holds for check in found), found
    losses = {check.subject: check.found / check.allowed for check in found}
    for score in ("auc", "accuracy", "brier"):
        assert losses[f"choice of a fit, {score}: loss over all fits"] > 0.999
