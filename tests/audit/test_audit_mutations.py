"""Bugs planted in the package, each of which the audit has to see."""

from collections import Counter

import numpy as np
import pytest

from privatelr.audit.checks import Check
from privatelr.audit.designs import audit_rows
from privatelr.mechanisms import MECHANISMS
from privatelr.mechanisms.calibration import proven_noise
from privatelr.numerics.rows import RowBounds
from tests.audit.mutations import GROUPS
from tests.audit.mutations.planted import Look, Mutation, Swap, everywhere, planted, wrongs

ON_THE_PAGE = {
    *("persons, logistic", "persons, huber", "Gaussian noise of persons"),
    *("classes", "strata, logistic"),
}
"""Parts whose checks the page about the audit runs in full, without a bug."""
MUTATIONS = [bug for bugs in GROUPS.values() for bug in bugs]


@pytest.mark.long
@pytest.mark.parametrize("bugs", GROUPS.values(), ids=GROUPS)
def test_every_planted_bug_is_caught_by_the_audit(bugs):
    looks = {look.name: look for bug in bugs for look in bug.looks}
    for name in {*looks} - ON_THE_PAGE:
        assert [*wrongs(looks[name])] == []
    assert [bug.name for bug in bugs if not bug.caught_by()] == []


def test_bugs_are_many_and_told_apart():
    assert len(MUTATIONS) >= 30
    assert max(Counter(bug.name for bug in MUTATIONS).values()) == 1


def test_the_package_is_as_it_was_afterwards():
    for mutation in MUTATIONS:
        touched = list(mutation.swaps())
        assert touched
        before = [held(swap) for swap in touched]
        with planted(touched):
            during = [held(swap) for swap in touched]
        assert all(now is swap.value for now, swap in zip(during, touched, strict=True))
        after = [held(swap) for swap in touched]
        assert all(first is last for first, last in zip(before, after, strict=True))


def held(swap):
    if isinstance(swap.owner, dict):
        return swap.owner.get(swap.name)
    return vars(swap.owner).get(swap.name)


def test_a_bug_is_taken_out_again_where_the_audit_fails():
    honest = RowBounds.radius
    with pytest.raises(ZeroDivisionError), planted([Swap(RowBounds, "radius", 3)]):
        raise ZeroDivisionError
    assert RowBounds.radius is honest
    assert ("objective", int) not in MECHANISMS


def test_a_function_is_swapped_wherever_it_is_known():
    names = {swap.owner.__name__ for swap in everywhere(proven_noise.laws_hiding, None)}
    home = "privatelr.mechanisms"
    assert names >= {f"{home}.calibration.proven_noise", f"{home}.stages.histogram"}
    assert "privatelr.audit.recomputed" in names


def broken(rng):
    raise ZeroDivisionError


def test_a_bug_that_changes_nothing_or_stops_the_audit_is_not_caught():
    good = Look("good", lambda rng: [Check("rows", "none", 0.0)])
    for look in (good, Look("broken", broken)):
        assert not Mutation("nothing", lambda: [], (look,)).caught_by()
    bad = Look("bad", lambda rng: [Check("rows", "all", 1.0)])
    assert Mutation("nothing", lambda: [], (bad,)).caught_by() == "rows, all: VIOLATION"


def test_rows_without_a_bug_are_sound_for_other_random_formulas():
    assert all(check.holds for check in audit_rows(np.random.default_rng(1), 4))
