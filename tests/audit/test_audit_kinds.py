"""Noise that is drawn, stages under every promise, small ledgers, long records, sources of bits."""

import math

import numpy as np
import pytest
from scipy import integrate

from privatelr.audit import worth
from privatelr.audit.checks import VIOLATION
from privatelr.audit.recomputed import plans_of_laws
from privatelr.audit.sampling import drawn_noise
from privatelr.audit.sampling.drawn_noise import audit_draws, audit_source
from privatelr.audit.small_ledgers import Charged, audit_small_ledgers, exact_delta
from privatelr.privacy import ZCDP, ApproxDP, PureDP, SharedApproxDP
from privatelr.privacy.noise import CopiedNoise, NoNoise


def normal(x):
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def wrong(checks):
    found = list(checks)
    assert found
    return [str(check) for check in found if not check.holds]


@pytest.mark.quick
@pytest.mark.parametrize(
    "only", ["2 columns, coefficients", "7 classes, 2", "Student", "in blocks", "uniform"]
)
def test_draws_have_the_laws_that_are_stated(only):
    assert wrong(audit_draws(np.random.default_rng(0), 60, only)) == []


@pytest.mark.quick
def test_bits_come_from_the_operating_system():
    assert wrong(audit_source()) == []


@pytest.mark.quick
@pytest.mark.parametrize("seed", [0, 1])
def test_small_ledgers_count_what_brute_force_does(seed):
    assert wrong(audit_small_ledgers(np.random.default_rng(seed))) == []


def test_several_numbers_of_classes_and_all_stages_are_drawn_from():
    plans = [plan for _, plan in plans_of_laws(1.0)]
    copies = {getattr(plan.coefficients.noise, "copies", 1) for plan in plans}
    assert copies == {1, 3, 7}
    assert max(len(plan.stages) for plan in plans) == 4


def test_a_law_that_is_new_has_to_be_drawn_from(monkeypatch):
    monkeypatch.setattr(drawn_noise, "drawings", lambda: iter(()))
    monkeypatch.setattr(drawn_noise, "LAWS", {"NoNoise": NoNoise, "CopiedNoise": CopiedNoise})
    (check,) = audit_draws(np.random.default_rng(0), 9, "nothing")
    assert (check.found, check.verdict) == (1, VIOLATION)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_brute_force_is_the_integral_of_what_one_table_shows_beyond_the_other(epsilon):
    """Two randomised responses, three Gaussian numbers, and all of the data now and then."""
    price, rho, lost = 0.7, 0.05, 1e-3
    releases = [Charged(PureDP(price), 2), Charged(ZCDP(rho), 3), Charged(ApproxDP(0.1, lost), 2)]
    mu, total = math.sqrt(2 * 3 * rho), 0.0
    for signs in np.ndindex(2, 2, 2, 2):
        ups = 2 * np.array(signs) - 1.0
        own = np.array([price, price, 0.1, 0.1])
        p, q = (float(np.prod(1 / (1 + np.exp(-s * ups * own)))) for s in (1, -1))
        total += integrate.quad(
            lambda x, p=p, q=q: max(p * normal(x - mu) - math.exp(epsilon) * q * normal(x), 0.0),
            -12,
            12 + mu,
            limit=400,
            epsabs=1e-11,
        )[0]
    wanted = 1 - (1 - lost) ** 2 * (1 - total)
    assert exact_delta(releases, epsilon) == pytest.approx(wanted, abs=1e-8)


def test_laplace_and_gaussian_stages_together_are_integrated():
    """The delta of a shared claim, by the densities of a response and of a normal number."""
    target, price = SharedApproxDP(1.0, 1e-3, beside=0.3), 0.6
    total = 0.0
    for p, q in ((price, -price), (-price, price)):
        ours, theirs = 1 / (1 + math.exp(-p)), 1 / (1 + math.exp(-q))
        total += integrate.quad(
            lambda x, a=ours, b=theirs: max(a * normal(x - 0.3) - math.e * b * normal(x), 0.0),
            -12,
            12,
            limit=400,
            epsabs=1e-12,
        )[0]
    assert worth.share_of(target, price, 0.0) == pytest.approx(total / 1e-3, rel=1e-6)
