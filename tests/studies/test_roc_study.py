"""The study of ROC curves keeps what it prints, on fewer releases."""

import numpy as np
import pytest
from studies import roc


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PRIVATELR_DATA_HOME", raising=False)
        patch.setattr(roc, "POPULATION", 30_000)
        return {case.name: case for case in roc.cases()}


@pytest.mark.parametrize("name", ["balanced, dplr", "balanced, dpsvm", "one in five, dplr"])
@pytest.mark.parametrize("epsilon", roc.EPSILONS)
def test_errors_are_as_judged(cases, name, epsilon):
    found = roc.row(cases[name], 10_000, epsilon, 16)
    assert found["AUC error"] < 1.6 * roc.JUDGED[epsilon]  # of few releases
    assert found["J lost, all"] < 0.01
    assert epsilon < 0.5 or found["slope error"] < 0.1
    assert 0.4 < found["AUC error"] / found["stated"] < 2.0


def test_a_worse_release_is_noticed(cases, monkeypatch):
    case = cases["balanced, dplr"]
    honest = roc.row(case, 1000, 0.5, 10)["AUC error"]
    monkeypatch.setattr(roc.released_roc, "consistent_counts", lambda counts, n: abs(counts))
    roc.released_roc.counts_of.cache_clear()
    assert roc.row(case, 1000, 0.5, 10)["AUC error"] > honest


def test_the_best_youden_of_records_is_that_of_all_cuts():
    rng = np.random.default_rng(1)
    link, positive = rng.normal(size=60), rng.random(60) < 0.5
    best, at = roc.best_and_at(link, positive)
    assert best == pytest.approx(max(at(cut) for cut in [-9.0, *link]))
