"""Theorem 4.2 against the calibration table, and its laws."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privatelr.mechanisms import Problem
from privatelr.mechanisms.calibration import gaussian_objective
from privatelr.numerics import LOSSES, Logistic
from privatelr.privacy.noise import gaussian_sd, smallest, smallest_of

FILE = Path(__file__).parents[1] / "reference" / "calibration.json"
REFERENCE = json.loads(FILE.read_text(encoding="utf-8"))["gaussian"]


@dataclass(frozen=True)
class HuberConstants(Logistic):
    """The constants of the Huber loss, all that a calibration sees of it."""

    curvature_bound: float = 1.0
    joint_factor: float | None = None


LOSSES_OF_THE_TABLE = {
    "logistic": LOSSES["logistic"],
    "huber_0.5": HuberConstants(),
    "huber_0.1": HuberConstants(curvature_bound=5.0),
}
# theory.md#theorem-42: sigma at R = L = 1, delta = 1e-6, n = 1e4
TABLE = [
    (0.1, 1e-3, 94.61, 89.34),
    (0.1, 1e-2, 74.34, 72.61),
    (0.5, 1e-4, 28.01, 25.18),
    (1, 1e-4, 10.68, 10.06),
    (1, 1e-2, 8.469, 8.449),
    (8, 1e-4, 1.338, 1.306),
]


def problem_of(row):
    loss = LOSSES_OF_THE_TABLE[row["loss"]]
    return Problem(1, 5, loss, row["R"]).with_lambda(row["Lambda"])


@pytest.mark.parametrize("row", REFERENCE, ids=lambda row: str(list(row.values())[:5]))
def test_reference(row):
    problem, eps, delta = problem_of(row), row["epsilon"], row["delta"]
    found = gaussian_objective.objective_sigma(problem, eps, delta)
    if row["sigma_best"] is None:
        assert math.isinf(found)
        return
    # the table takes the split from a grid, so ours may save a little more
    assert 0.997 * row["sigma_best"] <= found <= row["sigma_best"] * (1 + 1e-9)
    assert gaussian_objective.objective_log_delta(problem, eps, found) <= math.log(delta)
    one_log = gaussian_objective.objective_sigma(problem, eps, delta, analysis="one-log")
    assert one_log == pytest.approx(row["sigma_one_log"], rel=1e-9)


@pytest.mark.parametrize(("eps", "lambda_", "first", "best"), TABLE)
def test_table(eps, lambda_, first, best):
    problem = Problem(10**4, 5, LOSSES["logistic"], 1.0).with_lambda(lambda_)
    assert gaussian_objective.objective_sigma(problem, eps, 1e-6) == pytest.approx(best, rel=1e-3)
    one_log = gaussian_objective.objective_sigma(problem, eps, 1e-6, analysis="one-log")
    assert one_log == pytest.approx(first, rel=5e-4)


@settings(max_examples=60, deadline=None)
@given(st.floats(-3, 2), st.floats(-20, -1), st.floats(-2, 6), st.floats(-1, 2))
def test_never_below_the_plain_gaussian_mechanism(log_eps, log_delta_, log_penalty, log_radius):
    """Terminates, scales with the radius, and never promises more than sensitivity 2 R allows."""
    eps, delta, radius = 10.0**log_eps, 10.0**log_delta_, 10.0**log_radius
    facts = Problem(1, 5, LOSSES["logistic"], radius)
    found = gaussian_objective.objective_sigma(facts.with_lambda(10.0**log_penalty), eps, delta)
    assert found >= gaussian_sd(eps, delta, 2 * radius) * (1 - 1e-9)
    more = gaussian_objective.objective_sigma(facts.with_lambda(10 * 10.0**log_penalty), eps, delta)
    assert more <= found * (1 + 1e-6)


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("analysis", ["joint", "one-log"])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_search_by_secants_finds_the_same_number(loss, analysis, persons):
    """To the last digit: a price that is computed again years later is the same one."""
    facts = Problem(4000, 3, loss, 2.0, persons=persons)
    for epsilon, delta in ((0.1, 1e-9), (1.0, 1e-6), (9.0, 0.2)):
        goal = math.log(delta)

        def of_sigma(sigma, epsilon=epsilon):
            flat = facts.with_lambda(1e6)
            return gaussian_objective.objective_log_delta(flat, epsilon, sigma, analysis=analysis)

        sigma = smallest(lambda x, f=of_sigma, goal=goal: f(x) <= goal, 1.0, 1e9)
        assert smallest_of(of_sigma, goal, 1.0, 1e9) == sigma

        def of_penalty(penalty, epsilon=epsilon, sigma=1.02 * sigma):
            at = facts.with_lambda(penalty / facts.n)
            return gaussian_objective.objective_log_delta(at, epsilon, sigma, analysis=analysis)

        penalty = smallest(lambda x, f=of_penalty, goal=goal: f(x) <= goal, 1.0, 1e30)
        assert smallest_of(of_penalty, goal, 1.0, 1e30) == penalty


@pytest.mark.parametrize("root", [1e-310, 1e-12, 0.3, 1.0, 1.5, 1e8, 1e9])
def test_a_search_ends_at_numbers_of_any_size(root):
    seen = []

    def value(x):
        seen.append(x)
        return math.log(root) - math.log(x)

    found = smallest_of(value, 0.0, 1.0, 1e9)
    assert len(seen) < 80
    assert found == smallest(lambda x: value(x) <= 0, 1.0, 1e9)
    assert smallest_of(lambda x: 1.0, 0.0, 1.0, 1e9) == math.inf
