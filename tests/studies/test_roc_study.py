"""The study of ROC curves keeps what it prints, on fewer releases."""

import itertools

import numpy as np
import pytest
from scipy.stats import chi2
from studies import roc

import privatelr.fitting
from privatelr.privacy.noise import SeededRandomness
from privatelr.results.answers import scored_records

RELEASES = 16
BY_CHANCE = np.sqrt(chi2.ppf(1 - 1e-5, RELEASES) / RELEASES)
"""How much larger than its expectation a root mean square of so few normal errors may be."""


@pytest.fixture(autouse=True, scope="module")
def seeded():
    """Fits and answers take one stream of seeded noise after the other, in the order of tests."""
    numbers = itertools.count()

    class Counted(SeededRandomness):
        is_secret = True

        def __init__(self):
            super().__init__(next(numbers))

    with pytest.MonkeyPatch.context() as patch:
        for module in (privatelr.fitting, scored_records):
            patch.setattr(module, "SystemRandomness", Counted)
        yield


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PRIVATELR_DATA_HOME", raising=False)
        patch.setattr(roc, "POPULATION", 30_000)
        return {case.name: case for case in roc.cases()}


@pytest.mark.parametrize("name", ["balanced, dplr", "balanced, dpsvm", "one in five, dplr"])
@pytest.mark.parametrize("epsilon", roc.EPSILONS)
def test_errors_are_as_judged(cases, name, epsilon):
    found = roc.row(cases[name], 10_000, epsilon, RELEASES)
    assert found["AUC error"] < 1.25 * BY_CHANCE * roc.JUDGED[epsilon]
    assert found["J lost, all"] < 0.01
    assert epsilon < 0.5 or found["slope error"] < 0.1
    assert 0.4 < found["AUC error"] / found["stated"] < 2.0


def test_releases_of_a_tenth_of_the_price_would_not_pass(cases):
    found = roc.row(cases["balanced, dplr"], 10_000, 0.1, 60)
    assert found["AUC error"] > 1.25 * BY_CHANCE * roc.JUDGED[1.0]


def test_the_best_youden_of_records_is_that_of_all_cuts():
    rng = np.random.default_rng(1)
    link, positive = rng.normal(size=60), rng.random(60) < 0.5
    best, at = roc.best_and_at(link, positive)
    assert best == pytest.approx(max(at(cut) for cut in [-9.0, *link]))
