"""The audit of suggested bounds and released levels: it holds, and each planted bug is seen."""

import pytest

from privatelr.audit.enumerated_answers import audit_declarations


@pytest.mark.parametrize("epsilon", [0.3, 4.0])
def test_every_check_holds_and_the_pure_one_is_close_to_its_claim(epsilon):
    found = list(audit_declarations(epsilon, calls=60))
    assert [str(check) for check in found if not check.holds] == []
    assert {check.part for check in found} == {"bounds", "lengths", "ranges", "levels"}
    pure = next(check for check in found if check.subject.startswith("epsilon ="))
    assert pure.found > 0.9 * pure.allowed
