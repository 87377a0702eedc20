"""Mechanisms that choose, over all outcomes of tiny cases: no claim is exceeded, no bug unseen."""

import numpy as np
import pytest

from privatelr.audit import enumerated_choices
from tests.audit.mutations import GROUPS
from tests.audit.mutations.planted import CHOICES, SIMPLEX

BUGS = [bug for bug in GROUPS["choices"] if {CHOICES, SIMPLEX} & {*bug.looks}]
BUGS += [bug for bug in GROUPS["choices"] if bug.looks[0].name.startswith("noise, choices")]


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_no_claim_is_exceeded_and_the_cases_say_something(epsilon):
    rng = np.random.default_rng(1)
    assert [
        str(check) for check in enumerated_choices.audit_plays(rng, epsilon, 2) if not check.holds
    ] == []
    rows = enumerated_choices.audit_programs(epsilon, rng, 4) + enumerated_choices.audit_simplex(
        epsilon, rng, 4
    )
    assert [str(row) for row in rows if not row.holds] == []
    assert len(rows) == 8 + 12
    assert min(row.ratio for row in rows if row.claim == f"epsilon = {epsilon:g}") > 0.2


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_every_planted_bug_is_seen(bug):
    assert bug.caught_by()
