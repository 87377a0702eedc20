"""Plans of thresholds, choices, bounds and levels: they say what the mechanisms then do."""

import math

import numpy as np
import pytest
from frames_for_laws import clinic

import privatelr as lr
from privatelr.audit.enumeration.answers import law_of_flips
from privatelr.mechanisms.candidate_choice import choose_candidate
from privatelr.mechanisms.range_selection import candidate_ends, choose_range, slots_of
from privatelr.privacy.noise import SeededRandomness
from privatelr.privacy.noise.exponential_mechanism import PermuteAndFlip

pytestmark = pytest.mark.quick
BOUNDS = {"age": (18, 90), "dose": (0, 10)}
DRAWN = 2000
FIVE_SDS = 5 / (2 * math.sqrt(DRAWN))
"""A share of so many draws is farther from its probability once in a million times at most."""


@pytest.mark.parametrize("k", [2, 3, 5, 6])
def test_chances_of_permute_and_flip_are_those_over_all_orders(k):
    scores = np.random.default_rng(k).uniform(-3, 3, k)
    found = PermuteAndFlip(1.3, 2.0).probabilities(scores)
    np.testing.assert_allclose(found, law_of_flips(1.3 * scores / 2.0), rtol=1e-12)


@pytest.mark.parametrize("spread", [0.0, 1e-9, 30.0, 1e6])
def test_chances_add_up_for_scores_of_any_size(spread):
    scores = np.random.default_rng(1).uniform(-spread, 0, 39)
    found = PermuteAndFlip(1.0, 1.0).probabilities(scores)
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert (found >= 0).all()


# -- a choice among fits ---------------------------------------------------------------------------


@pytest.mark.parametrize("score", ["auc", "accuracy", "brier"])
def test_a_plan_of_a_choice_has_the_shares_that_are_drawn(score):
    planned = lr.plan_choice([0.01, 0.02, 0.0], n=600, eps=0.5, score=score)
    scores = -planned.calibration.records_of(1.0, 0.3) * planned.worse
    randomness = SeededRandomness(3)
    drawn = [choose_candidate(scores, planned.calibration, randomness) for _ in range(DRAWN)]
    shares = np.bincount(drawn, minlength=4) / DRAWN
    assert np.abs(shares - planned.chances).max() < FIVE_SDS
    assert planned.best_chance == pytest.approx(planned.chances[0] + planned.chances[3])
    assert planned.regret == pytest.approx(float(planned.chances @ [0, 0.01, 0.02, 0]))
    for words in ("replace one of n = 600", f"{planned.best_chance:.3f}", "other 3"):
        assert words in str(planned)


def test_a_choice_is_surer_with_more_records_and_price():
    chances = [
        lr.plan_choice(0.01, n, eps).best_chance for n, eps in ((100, 1), (1000, 1), (1000, 4))
    ]
    assert 0.5 < chances[0] < chances[1] < chances[2] < 1
    assert "m = 100 persons" in str(lr.plan_choice(0.01, 100, person="who"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (([], 100), "worse"),
        ((-0.1, 100), "worse"),
        (([0.1, "x"], 100), "worse"),
        ((0.1, 2.5), "n=2.5"),
        ((0.1, 0), "n=0"),
        ((0.1, 100, 0), "eps"),
    ],
)
def test_a_plan_of_a_choice_refuses_what_it_cannot_read(given, words):
    with pytest.raises((lr.ArgumentError, lr.GuaranteeError), match=words):
        lr.plan_choice(*given)


# -- bounds and levels -----------------------------------------------------------------------------


def test_a_plan_of_bounds_has_the_ends_that_are_chosen():
    outer = (-500.0, 500.0)
    planned = lr.plan_bounds({"x": outer}, 400, 2.0, spread=0.1)
    row = planned.to_frame().iloc[0]
    values = np.random.default_rng(5).normal(0, 50, 400)
    ends = candidate_ends(*outer)
    slots, randomness = slots_of(values, ends), SeededRandomness(6)
    made = planned.calibration
    chosen = np.array([choose_range(slots, ends, made, randomness) for _ in range(300)])
    assert row.low == pytest.approx(chosen[:, 0].mean(), abs=25)
    assert row.high == pytest.approx(chosen[:, 1].mean(), abs=25)
    least, most = planned.beyond
    below = (values[:, None] < chosen[:, 0]).sum(axis=0)
    assert np.mean(below > most) < 0.05
    assert 0 <= least < made.beyond < most
    assert f"between {least} and {most} records" in str(planned)


@pytest.mark.parametrize("eps", [1.0, lr.ZCDP(0.1), lr.ApproxDP(1.0, 1e-6)])
def test_ends_are_nearer_at_a_larger_n(eps):
    plans = [lr.plan_bounds({"a": (0, 150), "b": (0, 1e6)}, n, eps) for n in (2000, 200_000)]
    small, large = (planned.to_frame() for planned in plans)
    assert (large["clipped"] < small["clipped"]).all()
    assert (large["width"] > 0.9).all()
    assert (
        plans[0].calibration
        == lr.plan_bounds({"a": (0, 150), "b": (0, 1e6)}, 2000, eps).calibration
    )


def test_a_plan_of_bounds_is_refused_where_the_call_is():
    with pytest.raises(lr.GuaranteeError, match="mostly noise"):
        lr.plan_bounds({"a": (0, 150)}, 20, 0.1)
    with pytest.raises(lr.SchemaError, match="outer range"):
        lr.plan_bounds({}, 100, 1.0)
    assert "m = 2000 persons" in str(lr.plan_bounds({"a": (0, 150)}, 2000, 1.0, person="who"))


def test_a_plan_of_levels_has_the_shares_that_are_released():
    planned = lr.plan_levels(3000, 1.0, 1e-6)
    half, always = planned.calibration.ladder
    randomness = SeededRandomness(7)
    told = [planned.calibration.releases(half, randomness) for _ in range(DRAWN)]
    assert abs(np.mean(told) - planned.chance(half)) < FIVE_SDS
    assert planned.chance(half - 1) < 0.5 <= planned.chance(half)
    assert (planned.chance(0), planned.chance(always)) == (0, 1)
    frame = planned.to_frame()
    assert frame["chance"].is_monotonic_decreasing
    assert f"a level of {half} records" in str(planned)


def test_levels_that_cannot_come_out_are_refused_before_they_are_paid_for():
    frame, ledger = clinic(60), lr.Ledger(1.0, 1e-3)
    for call in (
        lambda: lr.levels_from(frame, "smoker", 0.01, 1e-8, ledger=ledger),
        lambda: lr.plan_levels(60, 0.01, 1e-8),
    ):
        with pytest.raises(lr.GuaranteeError, match=r"nothing was spent; eps=[\d.]+ tells") as told:
            call()
    assert not ledger.entries
    enough = float(str(told.value).partition("; eps=")[2].split()[0])
    assert lr.plan_levels(60, enough, 1e-8).chance(6) >= 0.5
    assert lr.plan_levels(60, enough / 1.5, 1e-8).chance(6) < 0.5


def test_the_plan_of_a_choice_prints_the_promise_as_it_was_asked():
    plan = lr.plan_choice(0.02, 2000, lr.ZCDP(0.02))
    assert "rho = 0.02" in str(plan)


def test_a_guess_about_another_column_is_refused():
    with pytest.raises(lr.ArgumentError, match=r"'agee' is not a column.*did you mean 'age'"):
        lr.plan_bounds({"age": (0, 150)}, 10_000, 0.5, spread={"agee": 0.2})
    assert "age" in str(lr.plan_bounds({"age": (0, 150)}, 10_000, 0.5, spread={"age": 0.2}))


@pytest.mark.parametrize("count", ["a", -1, 10.5, 60_000, None, math.nan])
def test_a_chance_takes_a_number_of_records(count):
    plan = lr.plan_levels(50_000, 0.1, 1e-8)
    with pytest.raises(lr.ArgumentError, match=r"count.*whole number from 0 to n = 50000"):
        plan.chance(count)
    assert plan.chance(0) == 0
    assert plan.chance(50_000) == 1
