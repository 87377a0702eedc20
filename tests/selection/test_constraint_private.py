"""Linear programs with private constraints: solutions, all paths of tiny cases, refusals."""

import math
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from privatelr import ArgumentError, GuaranteeError, Ledger, NonPrivate, PrivacyWarning
from privatelr.privacy import ZCDP, ApproxDP
from privatelr.privacy.noise import SeededRandomness
from privatelr.selection.constraint_private import (
    constraint_private_lp,
)
from privatelr.selection.multiplicative_weights import dense_projection


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


def test_paths_of_releases_are_those_of_the_definition():
    """Seeded choices against choices by naive weights."""
    a, b, c, opt, width = solvable(50, 3)
    with pytest.warns(PrivacyWarning, match="seed=2: the choices can be replayed"):
        found = constraint_private_lp(
            a, b, c, opt, eps=5.0, width=width, violated=10, rounds=15, seed=2
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


ODD = [10**400, -(10**400), None, pd.NA, "high", 1j, np.ma.masked, [1.0], Decimal("0.5")]
"""Values that no array of doubles takes as they are."""
READ_AS = [math.inf, -math.inf, math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, 0.5]


def solved(a, b, c, opt, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PrivacyWarning)
        return constraint_private_lp(a, b, c, opt, seed=1, violated=50, **arguments)


def test_private_bounds_are_read_one_by_one():
    a, b, c, opt, width = solvable(200, 3)
    odd, plain, hidden = b.tolist(), b.copy(), b.copy()
    odd[: len(ODD)], plain[: len(ODD)] = ODD, READ_AS
    hidden[:5] = np.nan
    masked = np.ma.array(b, mask=np.arange(200) < 5)
    settings = {"width": width, "eps": 200.0, "rounds": 30}
    for given, same in ((odd, plain), (np.array(odd[:6] + odd[8:], dtype=object), None)):
        found = solved(a[: len(given)], given, c, opt, **settings)
        if same is not None:
            assert found.path.tolist() == solved(a, same, c, opt, **settings).path.tolist()
    for given in (masked, pd.Series(b).mask(masked.mask).astype("Float64")):
        path = solved(a, given, c, opt, **settings).path
        assert path.tolist() == solved(a, hidden, c, opt, **settings).path.tolist()


def test_private_rows_are_read_entry_by_entry():
    a, b, c, opt, width = solvable(200, 3)
    odd, plain = a.astype(object), a.copy()
    for row, (value, same) in enumerate(zip(ODD, READ_AS, strict=True)):
        odd[row, 1] = value
        plain[row, 1] = same
    settings = {"width": width, "eps": 200.0, "rounds": 30, "private": "rows", "ratios": (-2, 2)}
    path = solved(plain, b, c, opt, **settings).path
    assert solved(odd, b, c, opt, **settings).path.tolist() == path.tolist()
    frame = pd.DataFrame(plain).astype("Float64")
    assert solved(frame, b, c, opt, **settings).path.tolist() == path.tolist()
    # whether rows of a list are of one length is a fact about each of them
    for rows in (a.tolist(), [*a.tolist()[:-1], [1.0]], tuple(a.tolist())):
        with pytest.raises(ArgumentError, match=r"a of type (list|tuple): a list of rows has no"):
            solved(rows, b, c, opt, **settings)


def test_infinity_asks_for_no_noise():
    a, b, c, opt, width = solvable(200, 3)
    found, plain = (
        constraint_private_lp(a, b, c, opt, eps=eps, width=width, violated=50)
        for eps in (math.inf, 0)
    )
    assert found.path.tolist() == plain.path.tolist()
    assert isinstance(found.guarantee, NonPrivate)


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
        ({"b": "high"}, r"shapes \(200, 3\), \(\) and"),
        ({"a": [[10**400, 1, 1]] * 200}, "a takes numbers"),
        ({"a": [[pd.NA, 1, 1]] * 200}, "a takes numbers"),
        ({"c": [10**400, 1, 1]}, "c takes numbers"),
        ({"a": sparse.eye_array(200, 3)}, "a: takes a dense array"),
        ({"seed": -1}, "seed=-1: seed takes None or a whole number"),
        ({"seed": True}, "seed=True: seed takes"),
        ({"ledger": 3}, "ledger=3: ledger takes a Ledger"),
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
