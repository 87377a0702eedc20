"""Linear programs with private constraints: solutions, all paths of tiny cases, refusals."""

import itertools
import math

import numpy as np
import pytest

from privatelr import ArgumentError, GuaranteeError, Ledger, NonPrivate, PureDP
from privatelr.audit.discrete import loss_of_outcomes
from privatelr.mechanisms.programs import constraints
from privatelr.mechanisms.programs.constraint_private import constraint_private_lp
from privatelr.mechanisms.programs.constraints import calibrate_constraints
from privatelr.mechanisms.programs.corners import held_bounds, private_corners, public_corners
from privatelr.numerics.dense_weights import dense_projection
from privatelr.privacy.guarantees import ZCDP, ApproxDP
from privatelr.privacy.randomness import SeededRandomness


def solvable(n=2000, d=6, seed=0):
    """A program with a known point inside, and a public width."""
    rng = np.random.default_rng(seed)
    a, c = rng.uniform(-1, 1, (n, d)), rng.uniform(0.5, 1, d)
    inside = rng.dirichlet(np.ones(d)) / c
    b = a @ inside + rng.exponential(0.05, n)
    width = float(abs(a / c - b[:, None]).max())
    return a, b, c, 1.0, width


@pytest.mark.parametrize("eps", [0.0, 2.0])
@pytest.mark.parametrize("private", ["bounds", "rows"])
def test_few_constraints_are_violated_by_much(eps, private):
    a, b, c, opt, width = solvable(20_000 if eps else 2000)
    ratios = (-2.0, 2.0) if private == "rows" else None
    found = constraint_private_lp(
        a, b, c, opt, eps=eps, width=width, violated=len(b) / 4, private=private, ratios=ratios
    )
    assert c @ found.x == pytest.approx(opt)
    assert (found.x >= 0).all()
    worst = np.sort(a @ found.x - b)[::-1][: len(b) // 4]
    assert worst.mean() <= found.calibration.violation()
    assert worst.mean() < 0.5 * width
    assert "fewer than" in str(found)


def all_paths(a, b, c, opt, calibration, ratios=None):
    """Log chances of all paths, from the definition."""
    a, c = np.asarray(a, float), np.asarray(c)
    held = (
        public_corners(a, opt / c) if ratios is None else private_corners(a, opt / c, opt, ratios)
    )
    bounds, corners = held_bounds(np.asarray(b, float), held, calibration.width), held.values
    found = []
    for path in itertools.product(range(len(c)), repeat=calibration.rounds):
        total = 0.0
        for turn, option in enumerate(path):
            slack = np.zeros(len(b))
            for past in path[:turn]:
                slack += np.clip(bounds - corners[:, past], -calibration.width, calibration.width)
            q = dense_projection(-calibration.step * slack, calibration.s)
            exponent = -(corners.T @ q) * calibration.eta / (2 * calibration.sensitivity)
            total += exponent[option] - np.logaddexp.reduce(exponent)
        found.append(total)
    return np.array(found)


def largest_loss(claim, private, seed=0, cases=25):
    rng, losses = np.random.default_rng(seed), []
    n, d, opt = 4, 2, 1.0
    for _ in range(cases):
        c = np.ones(d)
        a = rng.choice([-1.0, 1.0], (n, d))
        b = rng.uniform(-1, 1, n)
        other_a, other_b = a.copy(), b.copy()
        other_b[0] = rng.choice([-1.0, 1.0])
        ratios = None
        if private == "rows":
            other_a[0], ratios = -a[0], (-1.0, 1.0)
        reach = 2.0 if private == "rows" else float(np.ptp(a, axis=0).max())
        calibration = calibrate_constraints(
            (n, d), claim, private, width=2.0, violated=3.4, reach=reach, size=1.0, rounds=5
        )
        p = all_paths(a, b, c, opt, calibration, ratios)
        q = all_paths(other_a, other_b, c, opt, calibration, ratios)
        assert np.exp(p).sum() == pytest.approx(1)
        losses.append(loss_of_outcomes(p, q, claim))
    return max(losses)


@pytest.mark.parametrize("private", ["bounds", "rows"])
@pytest.mark.parametrize(("claim", "number"), [(PureDP(1.0), 1.0), (ZCDP(0.5), 0.5)], ids=str)
def test_exact_loss_is_never_above_the_claim(claim, number, private):
    found = largest_loss(claim, private)
    assert found <= number
    assert found > (0.3 if private == "rows" else 0.001) * number


def test_a_sensitivity_that_is_halved_twice_is_caught(monkeypatch):
    honest = constraints.range_within
    monkeypatch.setattr(constraints, "range_within", lambda *a: 4 * honest(*a))
    assert largest_loss(PureDP(1.0), "rows") > 1.0


def test_paths_of_releases_are_those_of_the_definition():
    """Seeded choices against choices by naive weights."""
    a, b, c, opt, width = solvable(50, 3)
    found = constraint_private_lp(
        a, b, c, opt, eps=5.0, width=width, violated=10, rounds=15, randomness=SeededRandomness(2)
    )
    calibration, source, path = found.calibration, SeededRandomness(2), []
    for _ in range(15):
        slack = sum((b - a[:, j] * opt / c[j] for j in path), np.zeros(50))
        q = dense_projection(-calibration.step * slack, 10)
        path.append(calibration.choice.choose(-(a * opt / c).T @ q, source))
    assert found.path.tolist() == path
    assert isinstance(found.guarantee, NonPrivate)


def test_values_beyond_what_is_declared_are_moved():
    a, b, c, opt, width = solvable(200, 3)
    wild = b.copy()
    wild[:3] = [math.inf, -1e300, math.nan]
    constraint_private_lp(a, wild, c, opt, width=width, violated=50)
    rows = a.copy()
    rows[0], rows[1, 1] = math.inf, math.nan
    constraint_private_lp(
        rows, wild, c, opt, width=width, violated=50, private="rows", ratios=(-2, 2)
    )


def test_ledger_and_guarantees():
    a, b, c, opt, width = solvable(200, 3)
    ledger = Ledger(1.0, 1e-5)
    found = constraint_private_lp(
        a, b, c, opt, eps=ZCDP(0.01), width=width, violated=50, ledger=ledger
    )
    assert found.guarantee == ZCDP(0.01)
    assert ledger.entries == (found.entry,)
    with ledger, pytest.raises(GuaranteeError):
        constraint_private_lp(a, b, c, opt, eps=5.0, width=width, violated=50)
    assert constraint_private_lp(a, b, c, opt, width=width, violated=50).guarantee == ApproxDP(
        1.0, 1e-6
    )


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"c": [1.0, 0.0, 1.0]}, "c: takes"),
        ({"c": [1.0, 1.0]}, "shapes"),
        ({"b": [1.0]}, "shapes"),
        ({"b": "high"}, "b='high': b takes numbers"),
        ({"opt": 0}, "opt takes"),
        ({"width": 0.1}, "width takes"),
        ({"width": -1}, "width takes"),
        ({"violated": 200}, "violated takes"),
        ({"violated": 0.5}, "violated takes"),
        ({"private": "all"}, "private takes 'bounds', 'rows'"),
        ({"private": "rows"}, "ratios takes"),
        ({"private": "rows", "ratios": (1, 1)}, "ratios takes"),
        ({"delta": 0.01}, "below 1/n"),
        ({"rounds": 0}, "rounds takes"),
    ],
)
def test_refusals(changes, match):
    a, b, c, opt, width = solvable(200, 3)
    given = {"a": a, "b": b, "c": c, "opt": opt, "width": width, "violated": 50, **changes}
    with pytest.raises((ArgumentError, GuaranteeError), match=match):
        constraint_private_lp(**given)
