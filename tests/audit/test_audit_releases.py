"""The audit draws real releases: bugs that leave the calibration right are seen there."""

from dataclasses import replace

import numpy as np
import pytest
from broken_mechanisms import kinds_of

from privatelr import ZCDP, ApproxDP, PureDP, mechanisms
from privatelr.audit.sampling import distribution_tests
from privatelr.audit.sampling.distribution_tests import release_pvalue
from privatelr.mechanisms import MECHANISMS, Mechanism, Request
from privatelr.numerics import LOSSES, Huber

LOGISTIC = LOSSES["logistic"]
TARGETS = {PureDP: PureDP(1.0), ZCDP: ZCDP(0.5), ApproxDP: ApproxDP(1.0, 1e-6)}


def pvalue(placement, kind, count=120, loss=LOGISTIC):
    request = Request(TARGETS[kind], placement, None, "free", "keep", kinds=kinds_of(TARGETS[kind]))
    return release_pvalue(request, loss, count, np.random.default_rng(3))


def plant(monkeypatch, placement, kind, make):
    key = (placement, kind)
    honest = MECHANISMS[key]
    monkeypatch.setitem(MECHANISMS, key, Mechanism(honest.calibrate, make(honest.release)))


def refuses_unusable_rows(honest):
    """Fewer records where some cannot be used: noise for another lambda."""

    def release(rows, calibration, draws, solver):
        found = honest(rows, calibration, draws, solver)
        missing = (rows.y == 0).mean()
        return replace(found, coef=found.coef * (1 - missing))

    return release


def test_another_treatment_of_unusable_rows_is_seen(monkeypatch):
    honest = distribution_tests.small_datasets
    monkeypatch.setattr(distribution_tests, "small_datasets", lambda rng: list(honest(rng))[-1:])
    assert pvalue("output", PureDP, 600) > 1e-6
    plant(monkeypatch, "output", PureDP, refuses_unusable_rows)
    assert pvalue("output", PureDP, 900) < 1e-4


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("placement", ["objective", "output"])
def test_honest_releases_pass(placement, kind):
    for loss in (LOGISTIC, Huber(0.01)):
        assert pvalue(placement, kind, 40, loss) > 1e-6


def test_moments_that_are_not_numbers_are_a_violation(monkeypatch):
    honest = mechanisms.release_moments

    def release(rows, coef, calibration, noise):
        found = honest(rows, coef, calibration, noise)
        return replace(found, values=np.full_like(found.values, np.nan))

    monkeypatch.setattr(mechanisms, "release_moments", release)
    monkeypatch.setattr(distribution_tests, "LOSSES", {"huber": Huber(), "logistic": LOGISTIC})
    found = distribution_tests.audit_releases(np.random.default_rng(3), 1.0)
    verdicts = [check.verdict for check in found if check.subject.startswith("moments")]
    assert verdicts == ["VIOLATION"] * 2
