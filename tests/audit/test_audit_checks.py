"""The checks of an audit: exact lengths, shares of claims, scripts, and what is not installed."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from broken_mechanisms import calibrated

from privatelr.audit import recomputed, worth
from privatelr.audit.checks import Check, guarded, largest, number
from privatelr.audit.designs import (
    KINDS,
    audit_rows,
    count_beyond,
    numeric_case,
    random_case,
    read_as_a_fit,
)
from privatelr.audit.enumerated_choices import follows
from privatelr.audit.recomputed import audit_noise
from privatelr.audit.worth import epsilon_of_gaussian, share_of_choices, share_spent
from privatelr.numerics import LOSSES
from privatelr.privacy import ZCDP, ApproxDP, PureDP
from privatelr.privacy.noise import NoNoise, gaussian_epsilon
from privatelr.types import Block

CLAIMS = [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)]


def rng(seed=0):
    return np.random.default_rng(seed)


# -- rows -----------------------------------------------------------------------------------------


def test_lengths_are_compared_exactly():
    read = read_as_a_fit(numeric_case(rng(), 5, 2))
    for scale, beyond in ((0.0, 0), (-math.inf, 0), (math.inf, 1)):
        x = np.array([[math.nextafter(3.0, scale) if scale else 3.0, 4.0]])
        assert count_beyond(replace(read, x=x, radius=5.0)) == beyond
    for bad in (math.nan, math.inf):
        assert count_beyond(replace(read, x=np.array([[bad, 0.0]]), radius=5.0)) == 1


def test_blocks_are_compared_exactly():
    read = read_as_a_fit(numeric_case(rng(), 5, 2))
    blocks = (Block(1, 9.0), Block(2, 0.75))
    longer = math.nextafter(0.25, 1.0)
    assert 0.5 + longer == 0.75  # in doubles
    for last, beyond in ((0.25, 0), (longer, 1)):
        x = np.array([[1.0, 0.5, -last]])
        found = replace(read, x=x, radius=9.0, blocks=blocks)
        assert count_beyond(found) == beyond


def test_another_record_is_another_one_and_types_stay():
    case = random_case(rng(), 12)
    other = case.with_record(3, rng(1))
    assert list(case.frame.dtypes) == list(other.frame.dtypes)
    differ = (case.frame.astype(str) != other.frame.astype(str)).any(axis=1)
    assert set(np.flatnonzero(differ)) == {3}


def test_a_reader_that_fails_is_a_verdict(monkeypatch):
    def failing(case, rng):
        raise OSError("private")

    monkeypatch.setitem(KINDS, "frame", (KINDS["frame"][0], failing))
    (found,) = audit_rows(rng(), 1, ("frame",))
    assert found.verdict == "could not be audited: OSError"
    assert not found.holds


def test_checks_made_before_an_error_are_kept():
    def work():
        yield Check("rows", "first")
        raise KeyError

    assert [check.holds for check in guarded("rows", "second", work)] == [True, False]


# -- shares of a claim ----------------------------------------------------------------------------


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
@pytest.mark.parametrize("placement", ["objective", "output"])
def test_every_calibration_spends_its_claim_and_no_more(claim, placement):
    for name in ("logistic", "huber"):
        honest = calibrated(claim, placement=placement, loss=LOSSES[name], radius=3.0)
        share = share_spent(honest)
        assert 0.999 < share <= 1 + 1e-6
        noise = honest.noise
        size = {"sd": noise.scale / 1.02} if hasattr(noise, "sd") else {"rate": noise.rate * 1.02}
        assert share_spent(replace(honest, noise=replace(noise, **size))) > 1.005


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_what_no_theorem_speaks_of_is_worth_nothing(claim):
    honest = calibrated(claim)
    assert share_spent(replace(honest, noise=NoNoise(2))) == math.inf
    assert share_spent(replace(honest, shield=NoNoise(2))) > 1


def test_two_ways_to_an_epsilon_of_a_gaussian_agree():
    for mu in (0.1, 1.0, 4.0):
        assert epsilon_of_gaussian(mu, 1e-6) == pytest.approx(gaussian_epsilon(mu, 1e-6), rel=1e-9)


def test_a_share_of_choices_is_that_of_exact_composition():
    assert share_of_choices(0.1, 10, PureDP(1.0)) == pytest.approx(1)
    # one choice with a delta is worth no more than without, and hardly less
    assert 0.9 < share_of_choices(1.0, 1, ApproxDP(1.0, 1e-9)) <= 1


def test_a_share_without_a_number_is_a_violation(monkeypatch):
    """Whatever the other shares are, and wherever it stands among them."""
    shares = itertools.cycle([0.5, math.nan, 0.5])
    monkeypatch.setattr(worth, "share_spent", lambda calibration: next(shares))
    (found,) = audit_noise(1.0, "output, rho = 0.5")
    assert math.isnan(found.found)
    assert found.verdict == "VIOLATION"


# -- scripts --------------------------------------------------------------------------------------


def test_a_script_is_followed_by_the_right_scores_only():
    scores = rng().normal(size=(3, 4))

    def laws(paths):
        return scores[None, paths.shape[1]]

    def playing(shift):
        def play(script):
            path = []
            for turn in range(3):
                noise = script.draw(None).nearest()
                path.append(int(np.argmax(scores[turn] * (1 + shift) + noise)))
            return path

        return play

    assert follows(playing(0.0), laws, (4, 3), rng()) == 0
    assert follows(playing(1e-3), laws, (4, 3), rng()) > 10


# -- other libraries ------------------------------------------------------------------------------


def test_what_is_not_installed_is_said_and_not_wrong(monkeypatch):
    monkeypatch.setattr(recomputed, "find_spec", lambda name: None)
    found = list(recomputed.audit_peers())
    assert [check.verdict for check in found] == ["not installed"] * 2
    assert all(check.holds for check in found)


def test_another_number_than_that_of_a_library_is_a_violation(monkeypatch):
    pytest.importorskip("dp_accounting", reason="needs the extra [audit]")
    pytest.importorskip("opendp", reason="needs the extra [audit]")
    assert all(check.holds for check in recomputed.audit_peers())
    honest = recomputed.laws_hiding
    monkeypatch.setattr(recomputed, "laws_hiding", lambda far, d, goal: honest(0.9 * far, d, goal))
    wrong = [check.subject for check in recomputed.audit_peers() if not check.holds]
    assert len(wrong) >= 6
    assert {subject.split(":")[0] for subject in wrong} == {"dp-accounting", "OpenDP"}


def test_the_largest_number_is_missing_where_one_is():
    assert largest([1.0, 3.0, 2.0]) == 3
    assert not Check("part", "subject", largest([1.0, math.nan, 2.0]), 5.0).holds
    assert number(2.0) == 2
    with pytest.raises(ArithmeticError):
        number(math.nan)
