"""The exact loss of objective perturbation between datasets that differ in a whole person."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from privatelr.audit.density import exact
from privatelr.audit.density.loss import loss_law
from privatelr.audit.density.persons_and_classes import (
    adversarial,
    audit_changes,
    calibrated,
    log_ratio_at,
    worst_person,
    worst_under_gaussian,
)
from privatelr.audit.neighbouring_tables import audit_persons_of_fits
from privatelr.audit.worth import ORDERS
from privatelr.design import shares_of
from privatelr.mechanisms.calibration import GAUSSIAN, pure
from privatelr.mechanisms.signed_rows import SignedRows
from privatelr.numerics import LOSSES
from privatelr.privacy import REPLACE_PERSON, ZCDP, ApproxDP, PureDP, renyi
from privatelr.privacy.person_tilt import mean_excess

LOGISTIC = LOSSES["logistic"]


def test_equal_records_of_one_person_have_the_loss_of_one_record():
    made = calibrated(LOGISTIC, PureDP(1.0, REPLACE_PERSON), 2, 2.0)
    one = log_ratio_at(made, *adversarial(made, np.array([0.0]), np.array([-1.0]), 1))
    four = log_ratio_at(made, *adversarial(made, np.zeros(4), np.full(4, -1.0), 1))
    assert four == pytest.approx(one, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_no_person_exceeds_the_claim_and_the_bound_is_attained(epsilon):
    """At the free penalty above .9 of epsilon; a hundredth of it is for the shield."""
    rng = np.random.default_rng(3)
    found = [
        worst_person(calibrated(LOGISTIC, PureDP(epsilon, REPLACE_PERSON), d, 1.0), size, 1, rng)
        / epsilon
        for d in (2, 3)
        for size in (1, 2, 4)
    ]
    assert 0.9 < min(found) <= max(found) <= 1


def test_a_person_costs_more_than_a_record_where_the_curvature_is_paid_for():
    made, rng = calibrated(LOGISTIC, PureDP(1.0, REPLACE_PERSON), 3, 7.0), np.random.default_rng(3)
    one, two = (worst_person(made, size, 1, rng) for size in (1, 2))
    assert one * 1.05 < two <= 1
    # the noise that a record would have leaves less than a person costs
    spent = pure.joint_epsilon(made.noise.rate, made.problem)
    assert pure.joint_epsilon(made.noise.rate, replace(made.problem, persons=False)) < two < spent


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("logistic", ApproxDP(0.1, 1e-3, REPLACE_PERSON)),
        ("huber", ApproxDP(1.0, 1e-2, REPLACE_PERSON)),
    ],
    ids=["logistic", "huber"],
)
def test_the_delta_of_a_gaussian_tilt_is_attained_by_persons_and_not_exceeded(name, target):
    """Beside a penalty whose curvature is nothing; see the search for what is planted here."""
    loss = LOSSES[name]
    for d, size in ((2, 1), (2, 4), (3, 3)):
        made = calibrated(loss, target, d, 0.05, kinds=GAUSSIAN)
        assert 0.9 < worst_under_gaussian(made, size) <= 1
    half = replace(made, noise=replace(made.noise, sd=made.noise.sd / 2))
    assert worst_under_gaussian(half, size) > 2


@pytest.mark.parametrize("name", ["logistic", "huber"])
def test_the_curvature_of_a_person_has_to_be_paid_under_a_delta(name):
    """A penalty of a fortieth and the noise of a whole one: the tilt alone exceeds the claim."""
    target = ApproxDP(0.1, 1e-3, REPLACE_PERSON)
    made = calibrated(LOSSES[name], target, 3, 0.05, kinds=GAUSSIAN)
    low = made.problem.with_lambda(made.problem.lambda_ / 4000)
    found = calibrated(LOSSES[name], target, 3, 0.05, kinds=GAUSSIAN)
    silent = replace(made, problem=low, tau=made.tau / 1e9)  # the shield then costs nothing
    assert worst_under_gaussian(found, 4) <= 1 < worst_under_gaussian(silent, 4)


@pytest.mark.parametrize("name", ["logistic", "huber"])
@pytest.mark.parametrize("rho", [0.5, 8.0])
def test_renyi_divergences_of_persons_are_bounded(name, rho):
    """At every order, and near the bound at high ones, where the maximum over slopes is small."""
    made = calibrated(LOSSES[name], ZCDP(rho, REPLACE_PERSON), 2, 1.0, kinds=GAUSSIAN)
    tilt = made.events[0]
    ratios = {}
    for size in (1, 2, 4):
        angles = np.linspace(-0.4, 0.4, size)
        pair, _ = adversarial(made, angles, np.full(size, -60.0), 1, turns=0.0)
        law = loss_law(pair, made, np.random.default_rng(1))
        for order in ORDERS[1:]:
            known = renyi(tilt, order) - tilt.curvature_cost
            ratios[size, order] = law.divergence(order) / known
    assert max(ratios.values()) <= 1
    assert ratios[1, ORDERS[-1]] > 0.9
    assert worst_under_gaussian(made, 2) <= 1


def test_normal_numbers_are_averaged_over_the_excess_as_by_quadrature():
    for v in (0.01, 1.0, 6.0):
        for z in (-5.0, 0.0, 0.9, 1.1, 8.0, 49.0, 51.0, 3000.0):
            # the density at z is taken out, and the rest is in units of 1 / z
            unit = 1 / max(z, 1.0)
            known, _ = integrate.quad(
                lambda s, z=z, unit=unit: s * np.exp(-z * s * unit - (s * unit) ** 2 / 2), 0, 60
            )
            log = np.log(v * unit**2 * known) - z * z / 2 - np.log(2 * np.pi) / 2
            found = mean_excess(v, np.array([v * v / 2 + z * v]))[0]
            assert found == pytest.approx(log, rel=1e-9, abs=1e-7)


def test_weights_above_1_are_found_beside_a_frame_and_beside_a_matrix(monkeypatch):
    bug = "privatelr.design.persons.shares_of"
    monkeypatch.setattr(bug, lambda sizes, most: np.full(np.shape(sizes), 1 / most))
    counted = [c for c in audit_persons_of_fits(1.0) if c.subject.startswith("what a person count")]
    assert [(check.verdict, check.found > 2) for check in counted] == [("VIOLATION", True)] * 4


@given(st.integers(1, 10**6), st.integers(1, 1000))
def test_weights_of_a_person_never_add_up_to_more_than_one(size, most):
    few = min(size, 5000)
    shares = shares_of(np.full(few, size), most)
    assert np.all(shares > 0)
    assert np.all(np.sqrt(shares) ** 2 * size <= 1)
    assert shares[0] == pytest.approx(1 / max(size, most), rel=1e-11)
    if size == most == 1:
        assert shares[0] == 1


def test_a_person_pulls_at_most_as_far_as_a_row():
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((4, 3))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    person = SignedRows(rows, shares_of(np.full(4, 4), 1))
    assert all(
        np.linalg.norm(exact.pull(person, LOGISTIC, w[None])) <= 1
        for w in 50 * rng.standard_normal((500, 3))
    )


def test_planted_losses_that_are_no_numbers_are_no_verdict_of_ok(monkeypatch):
    """Python's ``max`` keeps a number beside NaN, and a search steps over it."""
    monkeypatch.setattr(exact, "pull", lambda data, loss, w: np.full_like(w, math.nan))
    checks = list(audit_changes(1.0, np.random.default_rng(3), "persons, logistic, free*"))
    assert all(check.verdict.startswith("could not be audited") for check in checks)
    assert not any(check.holds for check in checks)
