"""Every fitting function pays before it reads the data, or does not read it."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from frames_for_laws import MODELS, clinic, fit_clinic

import privatelr.call_data
import privatelr.fitting
import privatelr.mechanisms.registry
from privatelr import (
    ZCDP,
    ApproxDP,
    GuaranteeError,
    Ledger,
    PrivateFTRL,
    PureDP,
    constraint_private_lp,
    dpsimplex,
    dpsvm,
)
from privatelr.mechanisms import Problem, calibrate, read_request
from privatelr.numerics import LOSSES
from privatelr.privacy import TiltEvent, exact, renyi, to_approximate
from privatelr.privacy.accounting import Entry, account_with, epsilon_of

EVERY_MODEL = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def unread(monkeypatch):
    """From here on, reading the rows is an error of its own."""

    def read_design(*_):
        raise AssertionError("the data was read")

    monkeypatch.setattr(privatelr.call_data, "read_design", read_design)


def check_charged_before_reading(monkeypatch, **options):
    ledger = Ledger(1.0)
    with monkeypatch.context() as patch:
        unread(patch)
        with pytest.raises(AssertionError, match="was read"):
            fit_clinic(clinic(), eps=0.4, ledger=ledger, **options)
    assert ledger.spent() == 0.4


@EVERY_MODEL
def test_charged_before_the_data_is_read(monkeypatch, model):
    check_charged_before_reading(monkeypatch, model=model)


def test_planted_late_payment_is_caught(monkeypatch):
    """Paying afterwards, as an accountant that is told of results does."""
    honest = privatelr.fitting.charge
    monkeypatch.setattr(privatelr.fitting, "charge", lambda *_: None)
    with pytest.raises(AssertionError):
        check_charged_before_reading(monkeypatch)
    assert honest is not privatelr.fitting.charge


@EVERY_MODEL
@pytest.mark.parametrize("op", [True, False])
def test_an_overdraw_is_refused_before_the_data_is_read(monkeypatch, op, model):
    ledger = Ledger(1.0)
    fit = fit_clinic(clinic(), eps=0.7, ledger=ledger, op=op, model=model)
    assert fit.release.entry == ledger.entries[0]
    unread(monkeypatch)
    with pytest.raises(GuaranteeError, match=r"0\.3"):
        fit_clinic(clinic(), eps=0.4, ledger=ledger, op=op, model=model)
    assert ledger.spent() == 0.7


@EVERY_MODEL
@pytest.mark.parametrize("options", [{"eps": 0}, {"seed": 1}, {"do_scale": True}], ids=str)
@pytest.mark.filterwarnings("ignore::privatelr.PrivacyWarning")
def test_what_is_not_private_is_refused_before_the_data_is_read(monkeypatch, options, model):
    unread(monkeypatch)
    monkeypatch.setattr(privatelr.fitting, "_scaled_by_data", privatelr.call_data.read_design)
    ledger = Ledger(10.0)
    with pytest.raises(GuaranteeError, match="ledger"):
        fit_clinic(clinic(), ledger=ledger, model=model, **options)
    with ledger, pytest.raises(GuaranteeError, match="ledger"):
        fit_clinic(clinic(), model=model, **options)
    assert ledger.entries == ()


SLIPS = [
    {"bounds": {"age": (9, 1), "y": (0, 1)}},
    {"lambda_": -1},
    {"solver": 3},
    {"op": 1},
    {"eps": -1},
]


@EVERY_MODEL
def test_a_public_slip_costs_nothing(model):
    ledger = Ledger(1.0)
    for slip in SLIPS:
        with pytest.raises(ValueError, match=r"."):
            fit_clinic(clinic(), ledger=ledger, model=model, **slip)
    assert ledger.entries == ()


@pytest.mark.parametrize("slip", [{"h": 0.6}, {"h": 0}, {"loss": "logistic"}, {"threshold": "max"}])
def test_a_public_slip_about_a_hinge_costs_nothing(slip):
    ledger = Ledger(1.0)
    with pytest.raises(ValueError, match=r"takes"):
        fit_clinic(clinic(), ledger=ledger, model=dpsvm, **slip)
    assert ledger.entries == ()


def test_a_block_charges_fits_that_do_not_name_it():
    with Ledger(1.0) as ledger:
        fit_clinic(clinic(), eps=0.5)
        with pytest.raises(GuaranteeError):
            fit_clinic(clinic(), eps=0.6)
    fit_clinic(clinic(), eps=0.6)
    assert ledger.spent() == 0.5


def check_named_ledger_does_not_hide_the_block(make):
    """A release that names a ledger inside of a block is charged to both, or to none."""
    with Ledger(1.0) as block:
        named = Ledger(2.0)
        make(named.part("a"))
        assert [len(ledger.entries) for ledger in (block, named)] == [1, 1]
        assert [ledger.entries[0].part for ledger in (block, named)] == [None, "a"]
        with pytest.raises(GuaranteeError, match=r"^ledger: .* of 1"):
            make(named)
        make(Ledger(9.0).part("b"), eps=0.1)
        make(block.part("c"), eps=0.1)
        assert [len(ledger.entries) for ledger in (block, named)] == [3, 1]
        assert [entry.part for entry in block.entries] == [None, None, "c"]


RELEASES = {
    **{name: partial(fit_clinic, clinic(), model=model) for name, model in MODELS.items()},
    "dpsimplex": partial(dpsimplex, "y ~ age", clinic(), bounds={"age": (0, 90), "y": (0, 1)}),
    "play": partial(PrivateFTRL, 3, 20),
    "program": partial(
        constraint_private_lp,
        np.ones((60, 2)),
        np.ones(60),
        np.ones(2),
        1.0,
        width=2.0,
        violated=50,
    ),
}


@pytest.mark.parametrize("release", RELEASES)
def test_a_named_ledger_does_not_hide_the_block(release):
    def make(ledger, eps=0.7):
        price = {"epsilon": eps} if release == "play" else {"eps": eps}
        RELEASES[release](**price, delta=0.0, ledger=ledger)

    check_named_ledger_does_not_hide_the_block(make)


def test_planted_named_ledger_alone_is_caught(monkeypatch):
    """As it was: the ledger that is named, and only without one the block."""
    alone = lambda ledger: ledger if ledger is not None else account_with(None)  # noqa: E731
    monkeypatch.setattr("privatelr.mechanisms.request.account_with", alone)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_named_ledger_does_not_hide_the_block(
            lambda ledger, eps=0.7: fit_clinic(clinic(), eps=eps, ledger=ledger)
        )


def test_disjoint_parts_cost_what_the_worst_does():
    ledger, frame = Ledger(1.0), clinic(n=80)
    for part in range(4):
        fit_clinic(frame[part::4], eps=0.8, ledger=ledger.part(f"every fourth from {part}"))
    assert ledger.spent() == 0.8
    fit_clinic(frame, eps=0.2, ledger=ledger)
    with pytest.raises(GuaranteeError):
        fit_clinic(frame, eps=0.1, ledger=ledger)


@EVERY_MODEL
@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("eps", [0.05, 1.0, 8.0])
def test_one_fit_fits_into_a_ledger_of_its_own_price(op, eps, model):
    """Also a Gaussian tilt, whose own bound is tighter than its Renyi divergence."""
    for target, ledger in (
        (ApproxDP(eps, 1e-6), Ledger(eps, 1e-6)),
        (PureDP(eps), Ledger(eps)),
        (PureDP(eps), Ledger(eps, 1e-6)),
    ):
        fit_clinic(clinic(), eps=target, op=op, ledger=ledger, model=model)
        assert len(ledger.entries) == 1


def ledger_of(target):
    """A ledger whose budget is this guarantee and not a bit more."""
    if isinstance(target, PureDP):
        return Ledger(target.epsilon)
    if isinstance(target, ApproxDP):
        return Ledger(target.epsilon, target.delta)
    known = to_approximate(target, 1e-6)
    return Ledger(1.02 * known.epsilon, known.delta)  # a percent is kept for releases with a delta


def check_inference_fits(target, **options):
    """Once and not twice, and what the ledger counts by is both parts and no less."""
    ledger = ledger_of(target)
    fit = fit_clinic(clinic(), eps=target, ledger=ledger, spend="inference", **options)
    assert ledger.entries == (fit.release.entry,)
    assert fit.release.entry.guarantee == fit.guarantee == target
    assert 0 < ledger.spent() <= ledger.epsilon
    with pytest.raises(GuaranteeError, match=r"^ledger: .* more (would|has)"):
        fit_clinic(clinic(), eps=target, ledger=ledger, spend="inference", **options)
    calibrations = fit.calibration, fit.release.moments.calibration
    assert fit.release.entry.events == calibrations[0].events + calibrations[1].events
    check_worth(fit.release.entry.events, target)


def check_worth(events, target):
    """Composed by themselves, events are worth the target, and not much less."""
    entries = [Entry("event", event) for event in events]
    match target:
        case PureDP():
            assert sum(exact(event.epsilon) for event in events) == exact(target.epsilon)
        case ZCDP():
            for order in (1.01, 2, 10, 100):
                assert sum(renyi(event, order) for event in events) <= order * target.rho * 1.001
            assert sum(renyi(event, 1.01) for event in events) >= 0.9 * 1.01 * target.rho
        case ApproxDP() if not any(isinstance(event, TiltEvent) for event in events):
            # two plain Gaussians cost less together than their parts add up to
            used = epsilon_of(entries, target.delta)
            assert 0.5 * target.epsilon < used <= target.epsilon


@EVERY_MODEL
@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("target", [PureDP(0.7), ZCDP(0.1), ApproxDP(0.7, 1e-6)], ids=str)
def test_inference_fits_into_a_ledger_of_its_own_price(target, op, model):
    check_inference_fits(target, op=op, model=model)


@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("target", [PureDP(0.7), ZCDP(0.1)], ids=str)
def test_planted_free_inference_is_caught(monkeypatch, target, op):
    """A ledger that is told of the coefficients alone has room for more than it should."""
    plan = privatelr.mechanisms.registry.StagedCalibration
    monkeypatch.setattr(plan, "events", property(lambda self: self.coefficients.events))
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_inference_fits(target, op=op)


@EVERY_MODEL
@pytest.mark.parametrize("spend", [{"roc": 1}, {"coefficients": 0.5}, "everything"], ids=str)
def test_a_slip_in_spend_costs_nothing(monkeypatch, model, spend):
    unread(monkeypatch)
    ledger = Ledger(1.0)
    with pytest.raises(GuaranteeError):
        fit_clinic(clinic(), ledger=ledger, model=model, spend=spend)
    assert ledger.entries == ()


def with_many_columns(target, op):
    """A calibration for so many columns that Gaussian noise is the shorter one."""
    request = read_request(target, 0, None, 0.1, op, None, "increase")
    return calibrate(request, Problem(1000, 60, LOSSES["logistic"], 1.0))


def test_gaussian_releases_compose_better_than_their_guarantees():
    single = ApproxDP(0.5, 1e-6)
    output, tilt = Ledger(1.25, 1e-6), Ledger(1.75, 1e-6)
    for _ in range(4):
        output.charge(single, with_many_columns(single, op=False).events)
        tilt.charge(single, with_many_columns(single, op=True).events)
    # plain Gaussians: mu adds in squares; 4-fold eps=1 is at 2.123
    assert 1.0 < output.spent() <= 1.25
    assert 1.0 < tilt.spent() <= 1.75


@EVERY_MODEL
@pytest.mark.parametrize("op", [True, False])
def test_laplace_noise_under_a_delta_is_charged_as_pure(model, op):
    """It uses no delta, so that a budget without one pays for it too."""
    ledger = Ledger(1.0)
    fit = fit_clinic(clinic(), eps=ApproxDP(0.5, 1e-6), op=op, ledger=ledger, model=model)
    assert fit.guarantee == ApproxDP(0.5, 1e-6)
    assert "Laplace" in str(fit)
    assert fit.release.entry.events == (PureDP(0.5),)
    assert ledger.left() == 0.5


@EVERY_MODEL
def test_concentrated_releases_are_charged(model):
    ledger = Ledger(3.0, 1e-6)
    for op in (True, False):
        fit_clinic(clinic(), eps=ZCDP(0.05), op=op, ledger=ledger, model=model)
    assert 0 < ledger.spent() < 3.0


CHILD = """
from privatelr import GuaranteeError, Ledger
for account, named in ((Ledger(9.0), None), (None, None), (None, Ledger(9.0))):
    try:
        if account is not None:
            with account:
                fit(named)
        else:
            fit(named)
        print("released")
    except GuaranteeError as refused:
        print(refused)
"""
FITTING = """
from frames_for_laws import MODELS, clinic, fit_clinic
def fit(named):
    fit_clinic(clinic(), eps=5.0, ledger=named)
"""


def test_a_block_of_a_child_does_not_hide_the_one_above():
    """A child that opens a ledger of its own would leave the outer budget unpaid."""
    with Ledger(1.0) as ledger:
        child = subprocess.run(
            [sys.executable, "-c", FITTING + CHILD],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent / "support")},
            capture_output=True,
            check=True,
        )
    said = child.stdout.decode().splitlines()
    assert len(said) == 3
    assert all("another process" in line for line in said)
    assert ledger.entries == ()
    assert "PRIVATELR_OPEN_BLOCKS" not in os.environ
