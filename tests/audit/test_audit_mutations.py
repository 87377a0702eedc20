"""The mutation score: bugs planted in the package, each of which the audit has to see."""

import numpy as np
import pytest

from privatelr.audit.checks import Check
from privatelr.audit.designs import audit_rows
from privatelr.mechanisms import MECHANISMS
from privatelr.mechanisms.calibration import proven_noise
from privatelr.numerics.rows import RowBounds
from tests.audit import mutations
from tests.audit.mutations import MUTATIONS
from tests.audit.mutations.planted import Look, Mutation, Swap, everywhere, planted

ALL = 30
"""Bugs that there have to be at least."""


GROUPS = {name: getattr(mutations, name) for name in vars(mutations) if name.startswith("OF_")}


@pytest.mark.long
@pytest.mark.parametrize("bugs", GROUPS.values(), ids=GROUPS)
def test_every_planted_bug_is_caught_by_the_audit(bugs):
    seen = []
    found = mutations.run(bugs, report=seen.append)
    missed = [each.bug for each in found.shown if not each.caught_by]
    assert missed == []
    assert found.without == ()
    assert found.ok
    assert tuple(seen) == found.shown
    assert found.caught == len(bugs) > 0
    assert not any("could not be audited" in each.caught_by for each in seen)
    assert f"{len(bugs)} planted, {len(bugs)} caught" in str(found)


def test_all_groups_of_bugs_are_run():
    assert {bug for bugs in GROUPS.values() for bug in bugs} == {*MUTATIONS}
    assert len(MUTATIONS) >= ALL


def test_bugs_are_told_apart():
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_package_is_as_it_was_afterwards(mutation):
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
    home = "privatelr.mechanisms.calibration"
    assert names >= {f"{home}.proven_noise", f"{home}.moment_noise"}
    assert "privatelr.audit.recomputed" in names


def harmless():
    return []


def broken(rng):
    raise ZeroDivisionError


def test_what_is_not_seen_is_said():
    """A bug that changes nothing, one that stops the audit, and an audit that is always wrong."""
    good = Look("good", lambda rng: [Check("rows", "none", 0.0)])
    bad = Look("bad", lambda rng: [Check("rows", "all", 1.0)])
    for look, wrong in ((good, 0), (Look("broken", broken), 1)):
        found = mutations.run([Mutation("nothing", harmless, (look,))])
        assert (found.caught, len(found.without), found.ok) == (0, wrong, False)
        assert "NOT CAUGHT" in str(found)
        assert "1 planted, 0 caught" in str(found)
    found = mutations.run([Mutation("nothing", harmless, (bad,))])
    assert found.caught == 1
    assert not found.ok  # it sees bugs where there are none
    assert "without a bug: rows, all: VIOLATION" in str(found)


def test_rows_without_a_bug_are_sound_for_other_random_formulas():
    for seed in range(3):
        assert all(check.holds for check in audit_rows(np.random.default_rng(seed), 4))
