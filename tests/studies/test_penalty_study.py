"""The study of lambda: its first column is the front door's fit, and its oracle is one."""

import numpy as np
import pandas as pd
import pytest
from studies import penalty as study
from studies.scale import split
from studies.scale_tables import Table

from privatelr import dplr

BOUNDS = {"a": (0.0, 10.0), "b": (-5.0, 5.0)}


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(0, 10, 400), "b": rng.normal(0, 1, 400)})
    frame["positive"] = frame["a"] + rng.normal(0, 1, 400) > 5
    return Table("choice", 400, lambda home: frame, BOUNDS)


@pytest.mark.filterwarnings("ignore:seed")
def test_errors_are_those_of_the_front_door(table):
    train, test = split(table.read(None), "made up", 0)
    found = study.errors_of_run("dplr", table, (train, test), 1.0, 3)
    assert len(found) == len(study.FACTORS)
    usual = dplr(table.formula, train, eps=1.0, seed=3, bounds=BOUNDS)
    wrong = np.mean(np.asarray(usual.predict(test, "classes")) != test["positive"])
    assert found[0] == pytest.approx(wrong)
    four = 4 * usual.calibration.lambda_
    larger = dplr(table.formula, train, eps=1.0, seed=3, bounds=BOUNDS, lambda_=four)
    wrong = np.mean(np.asarray(larger.predict(test, "classes")) != test["positive"])
    assert found[study.FACTORS.index(4.0)] == pytest.approx(wrong)


@pytest.mark.filterwarnings("ignore:seed")
def test_a_penalty_for_which_no_noise_suffices_is_left_out(table, monkeypatch):
    monkeypatch.setattr(study, "FACTORS", (1.0, 1e-6))
    parts = split(table.read(None), "made up", 0)
    found = study.errors_of_run("dplr", table, parts, 1.0, 3)
    assert np.isnan(found[1])
    assert study.best(np.array([found, found])) == 0


def test_an_oracle_finds_what_is_better_and_flatters_itself_where_nothing_is():
    rng = np.random.default_rng(1)
    alike = rng.normal(0.2, 0.01, (2000, 7))
    assert study.gain_in_hindsight(alike[:20]) > 0
    assert abs(study.gain_on_other_runs(alike)) < 0.002
    better = alike - 0.05 * (np.arange(7) == 3)
    assert study.gain_on_other_runs(better) == pytest.approx(0.05, abs=0.002)
    worse = better + 0.1
    assert study.gain_on_other_runs(better, worse) == pytest.approx(-0.05, abs=0.002)


def test_a_row_for_each_model_and_price():
    rng = np.random.default_rng(1)
    found = {
        (name, method, epsilon): rng.uniform(0.1, 0.2, (4, len(study.FACTORS)))
        for name in ("one", "two")
        for method in study.METHODS
        for epsilon in study.EPSILONS
    }
    told = study.lines(found)
    assert len(told) == 1 + len(study.METHODS) * len(study.EPSILONS)
    assert "dpsvm eps 0.5" in told[6]
    mean = np.mean([found[name, "dpsvm", 0.5][:, 0].mean() for name in ("one", "two")])
    assert f"{mean:.4f}" in told[6]


def test_a_row_for_each_table_and_model_says_which_multiple_was_best():
    errors = np.full((4, len(study.FACTORS)), 0.2)
    errors[:, study.FACTORS.index(4.0)] = 0.15
    found = {
        ("one", method, epsilon): errors for method in study.METHODS for epsilon in study.EPSILONS
    }
    told = study.lines_of_tables(found)
    assert len(told) == 1 + len(study.METHODS)
    assert told[1].count("-0.0500 (x 4)") == len(study.EPSILONS)
