"""The ledger: what fits, what is refused and in which words, parts, blocks, page, JSON."""

import contextlib
import json
import math
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privatelr import GuaranteeError, NonPrivate, PureDP
from privatelr.privacy import accounting_pld
from privatelr.privacy import ledger as ledger_module
from privatelr.privacy.events import GaussianEvent, TiltEvent
from privatelr.privacy.gaussian import gaussian_sd
from privatelr.privacy.guarantees import ZCDP, ApproxDP
from privatelr.privacy.ledger import Ledger, active_ledger
from privatelr.privacy.statement import rounded_down


@pytest.fixture(autouse=True)
def without_library(monkeypatch):
    """The same numbers whether or not the extra is installed, and quick refusals."""
    monkeypatch.setattr(accounting_pld, "_library", lambda: None)


def refusal(account, *arguments, **options):
    before = [ledger.entries for ledger in account.ledgers]
    with pytest.raises(GuaranteeError) as caught:
        account.charge(*arguments, **options)
    assert [ledger.entries for ledger in account.ledgers] == before
    return str(caught.value)


def test_pure_charges_add_up_as_decimals():
    ledger = Ledger(0.3)
    for _ in range(3):
        ledger.charge(PureDP(0.1))
    assert ledger.spent() == 0.3
    assert ledger.left() == 0
    assert "left is epsilon 0." in refusal(ledger, PureDP(1e-12))


def test_a_refusal_names_what_is_left():
    ledger = Ledger(3.0, 1e-6)
    ledger.charge(PureDP(2.2), label="fit")
    assert refusal(ledger, PureDP(1)) == (
        "ledger: eps=1 more would make 3.2 of 3 at delta 1e-06; what is left is epsilon 0.8."
    )
    assert refusal(ledger, PureDP(0.5), times=2) == (
        "ledger: eps=0.5 2 times more would make 3.2 of 3 at delta 1e-06; "
        "what is left is epsilon 0.8."
    )
    ledger.charge(PureDP(0.8))
    assert ledger.left() < 1e-5


def test_a_refusal_names_the_delta():
    ledger = Ledger(3.0, 1e-6)
    ledger.charge(ApproxDP(1, 8e-7))
    assert refusal(ledger, ApproxDP(1, 3e-7)) == (
        "ledger: eps=1, delta=3e-07 more would take more than the delta 1e-06 of the budget; "
        "what is left is epsilon 2 at delta 2e-07."
    )
    assert refusal(Ledger(3.0), ZCDP(0.1)) == (
        "ledger: rho=0.1 more takes a delta, and the budget has none; what is left is epsilon 3."
    )
    ledger.charge(ApproxDP(2, 2e-7))
    assert ledger.spent() == 3


@pytest.mark.parametrize("reason", ["void: seeded noise", "no privacy was asked for"])
def test_what_has_no_guarantee_is_refused(reason):
    assert f"{reason}) has no price" in refusal(Ledger(1.0), NonPrivate(reason))


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((1.0,), {}),
        ((PureDP(0.1), ["fit"]), {}),
        ((PureDP(0.1), [NonPrivate()]), {}),
        ((PureDP(0.1), (), 7), {}),
        ((PureDP(0.1),), {"times": 0}),
        ((PureDP(0.1),), {"times": 1.0}),
        ((PureDP(0.1),), {"times": True}),
    ],
)
def test_what_is_no_charge_is_refused(arguments, options):
    assert "takes" in refusal(Ledger(1.0), *arguments, **options)


def test_other_neighbours_are_refused():
    other = object()
    assert "other neighbours" in refusal(Ledger(1.0), PureDP(0.1, other))
    assert "neighbours" in refusal(Ledger(1.0), PureDP(0.1), [GaussianEvent(1, other)])


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, 0), (math.inf, 0), ("1", 0), (1, 1), (1, -1e-9), (1, math.nan)]
)
def test_numbers_that_are_no_budget(epsilon, delta):
    with pytest.raises(GuaranteeError, match="takes"):
        Ledger(epsilon, delta)


GAUSSIAN = GaussianEvent(1 / gaussian_sd(1.0, 1e-6, 1.0))
"""With epsilon 1 at delta 1e-6."""


def test_gaussian_releases_in_a_plan_are_composed_exactly():
    ledger = Ledger.plan([(ApproxDP(1, 1e-6), [GAUSSIAN])] * 4, 1e-6)
    assert ledger.spent() == 0
    for _ in range(4):
        ledger.charge(ApproxDP(1, 1e-6), [GAUSSIAN])
    assert ledger.epsilon == ledger.spent() == pytest.approx(2.123, abs=5e-4)
    assert "is not among the declared prices" in refusal(ledger, ApproxDP(1, 1e-6), [GAUSSIAN])


def test_gaussian_releases_are_counted_by_their_divergence():
    """Near to what they compose to exactly, although their prices may be chosen by results."""
    ledger = Ledger(2.35, 1e-6)
    for _ in range(4):
        ledger.charge(ApproxDP(1, 1e-6), [GAUSSIAN])
    assert 2.123 < ledger.spent() <= 2.35
    assert "what is left is epsilon " in refusal(ledger, ApproxDP(1, 1e-6), [GAUSSIAN])


TILT = TiltEvent(1 / 8.6, 0.5, 0.25, 1.0)
"""With epsilon 1 at delta 1e-6 by Theorem 4.2, and a little to spare."""


def test_a_tilt_takes_the_whole_budget_that_it_was_calibrated_to():
    ledger = Ledger(1, 1e-6)
    ledger.charge(ApproxDP(1, 1e-6), [TILT, GaussianEvent(0.002)])
    assert ledger.spent() == 1
    assert ledger.left() == 0


def test_parts_cost_what_the_worst_of_them_does():
    ledger = Ledger(1.0)
    ledger.charge(PureDP(0.2), label="all")
    train, test = ledger.part("train"), ledger.part("test")
    train.charge(PureDP(0.8))
    test.charge(PureDP(0.3))
    assert ledger.spent() == 1.0
    assert (ledger.left(), train.left(), test.left()) == (0, 0, 0.5)
    assert "left is epsilon 0.5." in refusal(test, PureDP(0.6))
    assert "left is epsilon 0." in refusal(ledger, PureDP(0.1))
    test.charge(PureDP(0.5))
    assert [entry.part for entry in ledger.entries] == [None, "train", "test", "test"]
    assert "takes a name" in refusal(ledger.part(""), PureDP(0.1))


def test_a_charge_to_all_rows_adds_to_every_part():
    ledger = Ledger(1.0)
    ledger.part("a").charge(PureDP(0.5))
    ledger.part("b").charge(PureDP(0.7))
    assert ledger.left() == pytest.approx(0.3)
    ledger.charge(PureDP(0.3))
    assert ledger.spent() == 1.0
    assert ledger.part("a").left() == 0.2


def test_a_block_is_charged_in_every_thread():
    assert active_ledger() is None
    with Ledger(1.0) as ledger:
        thread = threading.Thread(target=lambda: active_ledger().charge(PureDP(0.4)))
        thread.start()
        thread.join()
        assert active_ledger() is ledger
    assert active_ledger() is None
    assert ledger.spent() == 0.4


def test_nested_blocks_are_charged_together_or_not_at_all():
    with Ledger(1.0) as study, Ledger(0.5) as allowance:
        both = active_ledger()
        both.charge(PureDP(0.3))
        assert "would make 0.6 of 0.5" in refusal(both, PureDP(0.3))
    study.charge(PureDP(0.6))
    with allowance, study, study:
        assert "would make 1.05 of 1;" in refusal(active_ledger(), PureDP(0.15))
        active_ledger().charge(PureDP(0.1))
    assert (study.spent(), allowance.spent()) == (1.0, 0.4)
    assert active_ledger() is None


def test_a_block_ends_with_an_error():
    ledger = Ledger(1.0)
    with pytest.raises(RuntimeError), ledger:
        raise RuntimeError
    assert active_ledger() is None


def run_threads(work, threads=8):
    barrier = threading.Barrier(threads)

    def start():
        barrier.wait()
        work()

    running = [threading.Thread(target=start) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def spend_all(account, accepted, charges=40):
    for _ in range(charges):
        with contextlib.suppress(GuaranteeError):
            accepted.append(account.charge(PureDP(0.01)))


def check_threads():
    """More is asked for than there is; all of it is spent, and whatever was allowed is written."""
    ledger, accepted = Ledger(1.0), []
    run_threads(lambda: spend_all(ledger, accepted))
    assert len(accepted) == len(ledger.entries) == 100
    assert ledger.spent() == 1.0


@pytest.mark.parametrize("repetition", range(3))
def test_eight_threads_spend_exactly_the_budget(repetition):
    check_threads()


def test_a_missing_lock_is_caught(monkeypatch):
    honest = ledger_module.charged

    def slow(*arguments):
        after = honest(*arguments)
        time.sleep(1e-4)
        return after

    monkeypatch.setattr(ledger_module, "charged", slow)
    monkeypatch.setattr(ledger_module._LOCK, "held", contextlib.nullcontext)
    with pytest.raises(AssertionError):
        check_threads()


def test_threads_with_parts_and_nested_blocks():
    outer, inner, accepted = Ledger(0.5), Ledger(0.3), []
    with outer, inner:
        run_threads(lambda: spend_all(active_ledger(), accepted, 10))
    run_threads(lambda: spend_all(outer.part("a"), accepted, 10))
    assert (outer.spent(), inner.spent()) == (0.5, 0.3)
    assert len(outer.entries) == len(accepted) == 50


PRICE = st.floats(-3, 0.3).map(lambda x: 10.0**x)
CHARGE = st.tuples(
    st.one_of(
        PRICE.map(PureDP), PRICE.map(ZCDP), st.builds(ApproxDP, PRICE, st.floats(1e-9, 1e-7))
    ),
    st.sampled_from([None, "a", "b"]),
    st.integers(1, 3),
)


@settings(max_examples=40)
@given(st.lists(CHARGE, max_size=8))
def test_what_is_left_can_be_spent_and_no_more(charges):
    ledger = Ledger(2.0, 1e-6)
    for guarantee, part, times in charges:
        account = ledger if part is None else ledger.part(part)
        try:
            account.charge(guarantee, times=times)
        except GuaranteeError:
            if isinstance(guarantee, PureDP):
                assert account.left() < guarantee.epsilon * times * (1 + 1e-3)
        assert ledger.spent() <= 2.0
    left = ledger.left()
    if left > 0:
        ledger.charge(PureDP(left))
    assert ledger.spent() <= 2.0


SMALL = 1 / gaussian_sd(0.1, 1e-8, 1.0)
"""Mu of a Gaussian release with epsilon 0.1 at delta 1e-8."""


def study():
    ledger = Ledger(3, 1e-6)
    ledger.charge(PureDP(0.25), label="the fit of a model with a long name, and then some more")
    for _ in range(3):
        ledger.part("test").charge(ApproxDP(0.1, 1e-8), [GaussianEvent(SMALL)], "histogram")
    ledger.charge(ZCDP(0.001), label="two\nlines", times=40)
    return ledger


def test_page():
    text = str(study())
    assert text.splitlines()[:5] == [
        "Ledger: epsilon 3 at delta 1e-06",
        "Neighbours: replace one record, the number of records being public",
        "Account: Renyi divergence of order 9.093, or sums if they are less; prices may",
        "  depend on results",
        "  release                                     part  price                 times",
    ]
    assert "  histogram                                   test  eps=0.1, delta=1e-08  3" in text
    assert "two lines" in text
    assert "Spent: epsilon " in text
    assert all(len(line) <= 79 for line in text.splitlines())
    assert "nothing was released" in str(Ledger(1))
    assert repr(Ledger(1)) == "<Ledger epsilon=1.0, delta=0.0, 0 entries>"


def test_a_long_page_is_cut():
    ledger = Ledger(300, 1e-6)
    for k in range(1, 60):
        label = f"{k} " * 40
        ledger.part(label).charge(ApproxDP(1.23456789 + k, 1.23456789e-100), label=label)
    lines = str(ledger).splitlines()
    assert len(lines) < 30
    assert "  ... 39 before" in lines
    assert all(len(line) <= 79 for line in lines)


@given(st.floats(-12, 6).map(lambda x: 10.0**x))
def test_a_number_is_rounded_down(value):
    text = rounded_down(value)
    assert value * (1 - 2e-3) <= float(text) <= value
    assert len(text) <= 12


def test_json_resumes_the_account():
    ledger = study()
    value = json.loads(json.dumps(ledger.to_json()))
    resumed = Ledger.from_json(value)
    assert resumed is not ledger
    assert resumed.entries == ledger.entries
    assert (resumed.spent(), resumed.left()) == (ledger.spent(), ledger.left())
    resumed.charge(PureDP(0.1))
    assert len(resumed.entries) == len(ledger.entries) + 1


def test_a_ledger_that_is_overdrawn_can_be_read_but_not_charged():
    value = study().to_json() | {"epsilon": 0.5}
    resumed = Ledger.from_json(value)
    assert resumed.left() == 0
    assert "what is left is epsilon 0." in refusal(resumed, PureDP(1e-9))


PAGE = study().to_json()


def entry(**changes):
    return PAGE["entries"][1] | changes


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "{}",
        {},
        PAGE | {"spent": 0},
        PAGE | {"format": "other"},
        PAGE | {"version": 3},
        PAGE | {"version": 1},
        PAGE | {"version": True},
        PAGE | {"epsilon": "3"},
        PAGE | {"epsilon": math.nan},
        PAGE | {"delta": 1},
        PAGE | {"neighbours": "ADD_REMOVE"},
        PAGE | {"neighbours": []},
        PAGE | {"entries": {}},
        PAGE | {"entries": [{}]},
        PAGE | {"entries": [entry(label=None)]},
        PAGE | {"entries": [entry(part="")]},
        PAGE | {"entries": [entry(part=[])]},
        PAGE | {"entries": [entry(times=-1)]},
        PAGE | {"entries": [entry(times=10**400)]},
        PAGE | {"entries": [entry(events=None)]},
        PAGE | {"entries": [entry(events=[{"kind": "none"}])]},
        PAGE | {"entries": [entry(guarantee={"kind": "none"})]},
        PAGE | {"entries": [entry(guarantee={"kind": "gaussian", "mu": 1})]},
        PAGE | {"entries": [entry(guarantee={"kind": []})]},
    ],
)
def test_json_that_is_no_ledger(value):
    with pytest.raises(GuaranteeError):
        Ledger.from_json(value)
