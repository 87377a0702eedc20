"""The ledger: what fits, what is refused and in which words, parts, blocks, page, JSON."""

import contextlib
import json
import math
import re
import sys
import threading
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privatelr import GuaranteeError, NonPrivate, PureDP, locks
from privatelr.privacy import (
    REPLACE_PERSON,
    ZCDP,
    ZERO_OUT,
    ApproxDP,
    GaussianEvent,
    TiltEvent,
    compose,
    from_json,
    implies,
    to_approximate,
    to_json,
)
from privatelr.privacy.accounting import Ledger, account_with, statement
from privatelr.privacy.accounting import ledger as account_module
from privatelr.privacy.noise import gaussian_sd


@pytest.fixture(autouse=True)
def without_library(monkeypatch):
    """The same numbers whether or not the extra is installed, and quick refusals."""
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)


def refusal(account, *arguments, **options):
    before = [ledger.entries for ledger, _ in account.places]
    with pytest.raises(GuaranteeError) as caught:
        account.charge(*arguments, **options)
    assert [ledger.entries for ledger, _ in account.places] == before
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
        "ledger: eps=1, delta=3e-07 more has no epsilon within delta 1e-06 by the account, sums of "
        "epsilon and of delta; what is left is epsilon 2 for a pure release."
    )
    assert refusal(Ledger(3.0), ZCDP(0.1)) == (
        "ledger: rho=0.1 more takes a delta, and the budget has none; what is left is epsilon 3 "
        "for a pure release."
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
    assert "other neighbours" in refusal(Ledger(1.0), PureDP(0.1, ZERO_OUT))
    assert "neighbours" in refusal(Ledger(1.0), PureDP(0.1), [GaussianEvent(1, ZERO_OUT)])


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
    assert account_with(None) is None
    with Ledger(1.0) as ledger:
        thread = threading.Thread(target=lambda: account_with(None).charge(PureDP(0.4)))
        thread.start()
        thread.join()
        assert account_with(None) is ledger
    assert account_with(None) is None
    assert ledger.spent() == 0.4


def test_nested_blocks_are_charged_together_or_not_at_all():
    with Ledger(1.0) as study, Ledger(0.5) as allowance:
        both = account_with(None)
        both.charge(PureDP(0.3))
        assert "would make 0.6 of 0.5" in refusal(both, PureDP(0.3))
    study.charge(PureDP(0.6))
    with allowance, study, study:
        assert "would make 1.05 of 1;" in refusal(account_with(None), PureDP(0.15))
        account_with(None).charge(PureDP(0.1))
    assert (study.spent(), allowance.spent()) == (1.0, 0.4)
    assert account_with(None) is None


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
    honest = account_module.charged

    def slow(*arguments):
        after = honest(*arguments)
        time.sleep(1e-4)
        return after

    monkeypatch.setattr(account_module, "charged", slow)
    open_door = property(lambda _: contextlib.nullcontext(), lambda _, lock: None)
    monkeypatch.setattr(locks.ForkSafeLock, "lock", open_door, raising=False)
    with pytest.raises(AssertionError):
        check_threads()


def test_threads_with_parts_and_nested_blocks():
    outer, inner, accepted = Ledger(0.5), Ledger(0.3), []
    with outer, inner:
        run_threads(lambda: spend_all(account_with(None), accepted, 10))
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
    assert text.splitlines()[:6] == [
        "Ledger: epsilon 3 at delta 1e-06",
        "Neighbours: replace one record, the number of records being public",
        "Account: Renyi divergence of order 9.093 at 80% of delta, with 10% for deltas",
        "  of releases, or sums if they are less and their deltas within the other 10%",
        "[##############..........................] 34% of what the account holds is",
        "spent",
    ]
    assert "histogram [test] 2 eps=0.1, delta=1e-08" in " ".join(text.split())
    assert "two lines" in text
    assert "Spent: epsilon " in text
    assert all(len(line) <= 79 for line in text.splitlines())
    assert "Nothing was charged" in str(Ledger(1))
    assert repr(Ledger(1)) == "<Ledger epsilon=1.0, delta=0.0, 0 entries>"


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (8.0, 1e-3)])
def test_the_page_says_which_shares_of_delta_are_composed(epsilon, delta):
    """What is spent is computed again from the numbers in the words alone."""
    ledger = Ledger(epsilon, delta, account="renyi")
    found = re.fullmatch(
        r"Renyi divergence of order (\S+) at (\d+)% of delta, with (\d+)% for deltas of releases, "
        r"or sums if they are less and their deltas within the other (\d+)%",
        ledger.account,
    )
    order, at, own, summed = map(float, found.groups())
    assert at + own + summed == 100
    ledger.charge(ZCDP(0.01), times=2)
    excess = order - 1
    cost = (
        math.log(1 / (at / 100 * delta)) - (order) * math.log(order) + excess * math.log(excess)
    ) / excess
    assert ledger.spent() == pytest.approx(0.02 * order + cost, rel=1e-3)
    for share in (own, summed):
        with pytest.raises(GuaranteeError):
            ledger.charge(ApproxDP(1e-3, share / 100 * delta * 1.0001))
    ledger.charge(ApproxDP(1e-3, own / 100 * delta * 0.9999))
    assert ledger.spent() == pytest.approx(0.02 * order + cost + 1e-3, rel=2e-3)


def test_a_long_page_is_cut():
    ledger = Ledger(300, 1e-6)
    for k in range(1, 60):
        label = f"{k} " * 40
        ledger.part(label).charge(ApproxDP(1.23456789 + k, 1.23456789e-100), label=label)
    lines = str(ledger).splitlines()
    assert len(lines) < 30
    assert "(47 earlier charges; `ledger.entries` shows all)" in lines
    assert all(len(line) <= 79 for line in lines)


@given(st.floats(-12, 6).map(lambda x: 10.0**x))
def test_a_number_is_rounded_down(value):
    text = statement.rounded_down(value)
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
        PAGE | {"version": 4},
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


# -- a named ledger inside a block --------------------------------------------------------------


def spent_of(*accounts):
    return [account.spent() for account in accounts]


def test_a_named_ledger_and_open_blocks_are_charged_together_or_not_at_all():
    outer, inner, other = Ledger(1.0), Ledger(0.6), Ledger(5.0)
    with outer, inner:
        both = account_with(other.part("a"))
        entry = both.charge(PureDP(0.25))
        assert entry == other.entries[0]
        assert [e.part for e in (entry, *outer.entries, *inner.entries)] == ["a", None, None]
        assert "would make 0.75 of 0.6" in refusal(both, PureDP(0.5))
        assert {ledger for ledger, _ in both.places} == {outer, inner, other}
    assert spent_of(outer, inner, other) == [0.25] * 3
    assert account_with(other) is other
    assert account_with(None) is None


def test_an_open_ledger_that_is_named_is_charged_once():
    with Ledger(1.0) as ledger, ledger:
        account_with(ledger).charge(PureDP(0.25))
        assert account_with(ledger) is ledger
        part = account_with(ledger.part("a"))
        part.charge(PureDP(0.5))
        account_with(account_with(None)).charge(PureDP(0.125))
    assert [entry.part for entry in ledger.entries] == [None, "a", None]
    assert (ledger.spent(), ledger.part("b").left()) == (0.875, 0.625)


# -- accounts -----------------------------------------------------------------------------------


def test_the_first_charge_decides_on_the_account():
    ledger = Ledger(3.0, 1e-6)
    assert ledger.account == "decided by the first charge"
    assert (ledger.left(), ledger.left(1e-6), ledger.spent()) == (3.0, 3.0, 0.0)
    refusal(ledger, PureDP(4.0))
    assert ledger.account == "decided by the first charge"
    ledger.charge(PureDP(0.5))
    assert ledger.account.startswith("Renyi divergence of order ")
    whole = Ledger(3.0, 1e-6)
    whole.charge(ApproxDP(3.0, 1e-6))
    assert whole.account == "sums of epsilon and of delta"
    assert Ledger(3.0).account == Ledger(3.0, account="renyi").account == "the sum of epsilons"
    assert "account, sums of epsilon" in refusal(Ledger(3.0, 1e-6, account="sum"), ZCDP(0.01))


def test_an_account_does_not_change_with_the_prices():
    """Sums would still cover what a ledger refuses that counts otherwise, and the other way."""
    by_divergence, by_sums = Ledger(3.0, 1e-6), Ledger(3.0, 1e-6, account="sum")
    for ledger in (by_divergence, by_sums):
        ledger.charge(PureDP(0.1), times=25)
    by_divergence.charge(PureDP(0.1), times=8)
    assert "would make 3.3 of 3 " in refusal(by_sums, PureDP(0.1), times=8)
    by_sums.charge(ApproxDP(0.5, 1e-6))
    assert "with 10% for deltas of releases" in refusal(by_divergence, ApproxDP(0.01, 2e-7))
    by_divergence.charge(ApproxDP(0.01, 1e-7))


def test_a_release_without_events_fits_beside_others():
    ledger = Ledger(3.0, 1e-6)
    for _ in range(3):
        ledger.charge(ApproxDP(1, 1e-6), [GAUSSIAN])
    ledger.charge(ApproxDP(0.1, 5e-8))
    before = ledger.spent()
    ledger.charge(ApproxDP(0.1, 5e-8))
    assert before < ledger.spent() <= 3
    assert ledger.left(1e-9) == 0 < ledger.left()


def test_spent_at_another_delta_is_of_the_same_account():
    """And so it is no less than at the order that suits that delta."""
    ledger = Ledger(3.0, 1e-6)
    ledger.charge(ZCDP(0.05))
    found = [ledger.spent(delta) for delta in (1e-9, 1e-6, 1e-3)]
    assert found == sorted(found, reverse=True)
    for delta, epsilon in zip((1e-9, 1e-6, 1e-3), found, strict=True):
        assert epsilon >= to_approximate(ZCDP(0.05), delta).epsilon
    assert ledger.spent(0) == math.inf


@given(st.lists(st.sampled_from([0.01, 0.1, 0.5, 2.5]), min_size=1, max_size=12))
def test_what_is_spent_is_the_budget_that_would_do(prices):
    """A ledger of the same order whose budget is what was spent takes the same charges."""
    ledger = Ledger(3.0, 1e-6, account="renyi")
    for price in prices:
        with contextlib.suppress(GuaranteeError):
            ledger.charge(PureDP(price))
    small = Ledger.from_json(ledger.to_json() | {"epsilon": ledger.spent()})
    assert small.spent() == ledger.spent() <= small.epsilon
    assert statement.share(statement.from_json(small.to_json())) <= 1


# -- plans --------------------------------------------------------------------------------------


def test_a_plan_takes_what_was_declared_once():
    ledger = Ledger.plan([PureDP(0.5), PureDP(0.2), PureDP(0.2)])
    assert (ledger.epsilon, ledger.delta) == (0.9, 0.0)
    assert ledger.left() == 0.5
    ledger.charge(PureDP(0.1))  # takes one of 0.2
    ledger.part("a").charge(PureDP(0.2))
    assert ledger.spent() == 0.9  # as a whole
    assert refusal(ledger, PureDP(0.2), times=2) == (
        "ledger: eps=0.2 2 times more is not among the declared prices that are left; "
        "what is left is epsilon 0.5."
    )
    assert "Left: 1 of 3 prices" in str(ledger)
    assert "Account: a plan of 3 prices declared in advance" in str(ledger)
    ledger.charge(PureDP(0.2))
    assert ledger.left() == 0


def test_a_plan_with_events_takes_the_same_events():
    single = (ApproxDP(1, 1e-6), [GAUSSIAN])
    ledger = Ledger.plan([single, single, PureDP(0.1)], 1e-6)
    assert ledger.epsilon < 1.7
    refusal(ledger, ApproxDP(1, 1e-6))
    refusal(ledger, ApproxDP(1, 1e-6), [GaussianEvent(GAUSSIAN.mu * 0.99)])
    for _ in range(2):
        ledger.charge(*single)
    refusal(ledger, *single)
    resumed = Ledger.from_json(json.loads(json.dumps(ledger.to_json())))
    assert resumed.epsilon == ledger.epsilon
    refusal(resumed, *single)
    resumed.charge(PureDP(0.1))


@pytest.mark.parametrize(
    ("prices", "delta"),
    [
        ([], 0.0),
        (3, 0.0),
        ("ab", 0.0),
        ([0.1], 0.0),
        ([(PureDP(0.1), 3)], 0.0),
        ([ZCDP(0.1)], 0.0),
        ([NonPrivate()], 1e-6),
        ([PureDP(0.1, ZERO_OUT)], 0.0),
        ([PureDP(0.1)], 1.0),
    ],
)
def test_what_is_no_plan(prices, delta):
    with pytest.raises(GuaranteeError, match=r"takes|price|neighbours"):
        Ledger.plan(prices, delta)


def test_a_cheaper_epsilon_in_the_file_of_a_plan_is_not_believed():
    ledger = Ledger.plan([PureDP(0.5)] * 4)
    value = ledger.to_json() | {"epsilon": 0.01}
    assert Ledger.from_json(value).epsilon == 2.0


# -- in a notebook --------------------------------------------------------------------------------


class Cells(HTMLParser):
    """The rows of all tables, as text."""

    def __init__(self):
        super().__init__()
        self.rows, self.tags = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        while self.tags and self.tags.pop() != tag:
            pass

    def handle_data(self, data):
        if {"td", "th"} & set(self.tags):
            self.rows[-1][-1] += data


def test_a_ledger_in_a_notebook_is_a_table():
    ledger = study()
    ledger.charge(PureDP(0.01), label="<script>&")
    text = ledger._repr_html_()
    cells = Cells()
    cells.feed(text)
    assert cells.rows[0] == ["release", "row", "price"]
    assert cells.rows[2] == ["histogram [test]", "2", "eps=0.1, delta=1e-08"]
    assert cells.rows[5][1:] == ["5", "rho=0.001 x 40"]
    assert cells.rows[6] == ["<script>&", "6", "eps=0.01"]
    assert all(len(row) == 3 for row in cells.rows)
    assert "<script>" not in text
    for line in ("Ledger: epsilon 3", "Account: Renyi", "Spent: epsilon ", "Left: epsilon "):
        assert line in text
    assert "Nothing was charged" in Ledger(1.0)._repr_html_()


ABOUT_PERSONS = PureDP(0.5, REPLACE_PERSON)


def test_prices_about_persons_and_about_records_are_never_added_up():
    """In neither direction: a person has any number of records, and a record may change hands."""
    assert refusal(Ledger(1.0), ABOUT_PERSONS) == (
        "ledger: the release is about other neighbours than the ledger, 'person' and not "
        "'replace', and prices about both do not add up; charge it to a "
        "Ledger(neighbours='person') of its own."
    )
    ledger = Ledger(1.0, neighbours="person")
    assert "'replace' and not 'person'" in refusal(ledger, PureDP(0.5))
    ledger.charge(ABOUT_PERSONS)
    assert "'replace' and not 'person'" in refusal(ledger, PureDP(0.1))
    assert ledger.left() == 0.5
    assert "replace all records of one person" in str(ledger)
    with Ledger(1.0) as outer:
        assert "'person' and not 'replace'" in refusal(account_with(ledger), ABOUT_PERSONS)
    assert outer.entries == ()
    assert len(ledger.entries) == 1
    assert Ledger.from_json(json.loads(json.dumps(ledger.to_json()))).entries == ledger.entries
    with pytest.raises(GuaranteeError, match="other neighbours"):
        Ledger.plan([PureDP(1.0)], neighbours="person")


def test_a_ledger_about_persons_has_no_parts():
    """A person may have records in two parts, whose prices would add up."""
    ledger = Ledger(1.0, neighbours="person")
    assert "records in several parts" in refusal(ledger.part("half"), ABOUT_PERSONS)


def test_no_guarantee_about_records_implies_one_about_persons_or_the_reverse():
    record = PureDP(0.5)
    assert implies(ABOUT_PERSONS, PureDP(0.6, REPLACE_PERSON))
    assert not implies(record, PureDP(9.0, REPLACE_PERSON))
    assert not implies(ABOUT_PERSONS, PureDP(9.0))
    with pytest.raises(GuaranteeError, match="different neighbours"):
        compose([record, ABOUT_PERSONS])
    assert from_json(to_json(ABOUT_PERSONS)) == ABOUT_PERSONS != record


def test_persons_of_different_columns_are_never_added_up():
    """A patient is not the clinic of all its patients, so their prices do not add up."""
    ledger = Ledger(2.0, neighbours="person")
    assert ledger.person is None
    assert "persons of one column" in str(ledger)
    ledger.charge(ABOUT_PERSONS)
    ledger.charge(ABOUT_PERSONS, person="patient")
    with pytest.raises(GuaranteeError) as caught:
        ledger.charge(ABOUT_PERSONS, person="clinic")
    assert str(caught.value) == (
        "ledger: persons that the column 'clinic' tells apart are not those of 'patient', so "
        "prices about both do not add up; open a Ledger(neighbours='person') for each, or rename "
        "one that tells the same apart."
    )
    ledger.charge(ABOUT_PERSONS, person="patient")
    assert ledger.person == "patient"
    assert ledger.spent() == 1.5
    assert "column 'patient', which 1 of 3 entries do not state" in " ".join(str(ledger).split())


def test_json_has_the_column_of_persons_where_it_is_stated():
    ledger = Ledger(2.0, neighbours="person")
    ledger.charge(ABOUT_PERSONS)
    ledger.charge(ABOUT_PERSONS, person="patient")
    told = json.loads(json.dumps(ledger.to_json()))
    assert [entry.get("person") for entry in told["entries"]] == [None, "patient"]
    assert Ledger.from_json(told).entries == ledger.entries
    told["entries"][0]["person"] = "clinic"
    with pytest.raises(GuaranteeError, match="column 'patient' tells apart are not those of 'cl"):
        Ledger.from_json(told)


def test_a_column_of_persons_goes_with_a_guarantee_about_them():
    with pytest.raises(GuaranteeError, match="goes with a guarantee about persons"):
        Ledger(1.0).charge(PureDP(0.1), person="patient")
    for name in ("", 3):
        with pytest.raises(GuaranteeError, match="takes the name of a column"):
            Ledger(1.0, neighbours="person").charge(ABOUT_PERSONS, person=name)
