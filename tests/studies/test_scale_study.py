"""The study of private scale: its tables are read as declared, and its numbers add up."""

import json

import numpy as np
import pandas as pd
import pytest
from studies import scale as study
from studies.scale import DECLARED, NARROW, PRIVATE, Cache, Setting
from studies.scale_tables import TABLES, Table, read_table
from studies.tables import HOME, data_home

from privatelr import PrivacyWarning, dplr, plan
from privatelr.mechanisms.calibration import expected_excess

needs_data = pytest.mark.skipif(data_home() is None, reason=f"{HOME} names no folder of tables")
BOUNDS, LEVELS = {"a": (0.0, 10.0), "b": (-5.0, 5.0)}, {"c": ["u", "v"]}


def made_up(home):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(0, 10, 300), "b": rng.normal(0, 1, 300)})
    frame["c"] = rng.choice(["u", "v"], 300)
    return frame.assign(positive=frame["a"] + rng.normal(0, 1, 300) > 5)


@pytest.fixture
def table(monkeypatch):
    found = Table("choice", 300, made_up, BOUNDS, LEVELS)
    monkeypatch.setitem(TABLES, "made_up", found)
    return found


def test_halves_are_of_equal_size_and_do_not_share_a_table():
    halves = [table.half for table in TABLES.values()]
    assert halves.count("choice") == halves.count("report") == 7
    assert TABLES["adult"].half == TABLES["a9a"].half


def test_the_quick_run_is_a_part_of_the_full_one():
    quick, full = study.settings(False), study.settings(True)
    assert set(quick) < set(full)
    assert len(set(full)) == len(full) == 2 + 11 * 2 * 2 * 5
    assert [setting for setting in quick if not setting.variant] == quick[:2]


def test_the_study_fits_what_the_front_door_fits(table):
    frame = read_table("made_up", None)
    with study.calibrated_once(), pytest.warns(PrivacyWarning, match="seed"):
        found = study.fit(Setting("dplr", 0.0, 1.0, NARROW), table, frame, seed=3)
    with pytest.warns(PrivacyWarning, match="seed"):
        again = dplr(
            "positive ~ a + b + c",
            frame,
            eps=1.0,
            bounds=BOUNDS,
            levels=LEVELS,
            do_scale="private",
            intercept_scale=0.25,
            seed=3,
        )
    np.testing.assert_array_equal(found.release.coef, again.release.coef)
    assert found.release.scale.calibration.mean_sd > 0


def test_the_least_excess_is_below_that_of_the_default():
    public = {"bounds": {"a": (0, 1), "b": (0, 1)}, "spend": None}
    calibration = plan("y ~ a + b", 10**5, 1.0, **public).calibration.coefficients

    def excess(lambda_):
        problem = calibration.problem.with_lambda(lambda_)
        return expected_excess(problem, calibration.target, "joint")

    least = study.least_excess(calibration)
    assert excess(least) < 0.9 * excess(calibration.lambda_)
    assert excess(least) < min(excess(0.9 * least), excess(1.1 * least))


def test_results_are_kept_and_not_made_again(table, tmp_path, monkeypatch):
    wanted = [Setting("dplr"), *(Setting("dplr", 0.0, 1.0, v) for v in (DECLARED, PRIVATE))]
    first = study.run_all(["made_up"], wanted, 2, tmp_path, None)["made_up"]
    assert first.runs() == [0, 1]
    assert len(json.loads((tmp_path / "made_up.json").read_text())) == 6
    monkeypatch.setattr(study, "measure", None)  # not called
    again = study.run_all(["made_up"], wanted, 2, tmp_path, None)["made_up"]
    np.testing.assert_array_equal(again.excess(wanted[2]), first.excess(wanted[2]))
    plain = first.numbers(wanted[0])
    assert first.excess(wanted[1])[1] == first.numbers(wanted[1])[1] - plain[1]
    assert study.change({"made_up": first}, {"made_up": again}, False)[1:] == []


def filled(errors):
    """A cache of one split with these errors and noise, by setting."""
    cache = Cache(None, "made_up")
    for setting, (error, sd) in errors.items():
        cache.put(setting, 0, {"error": error, "lambda": 1.0, "mean_sd": sd})
    return cache


def test_a_gate_leaves_out_what_loses(table):
    today, private = (Setting("dplr", 0.0, 0.1, v) for v in (DECLARED, PRIVATE))
    other, better = (Setting("dplr", 0.0, 1.0, v) for v in (DECLARED, PRIVATE))
    errors = {today: (0.3, 0), private: (0.35, 0.15), other: (0.2, 0), better: (0.14, 0.04)}
    lines = study.losers({"made_up": filled(errors)}, False)
    (loser,) = [line for line in lines if "sd of a mean" in line and "made_up" in line]
    assert private.name in loser
    assert "0.0500" in loser
    gates = {
        float(line.split()[3]): line for line in lines if "gate " in line and "pure, choice" in line
    }
    assert "in   1 of 2 cells, 0 lose" in gates[0.1]
    assert "mean gain 0.0300" in gates[0.1]
    assert "in   2 of 2 cells, 1 lose" in gates[0.2]
    assert "mean gain 0.0050" in gates[0.2]


def test_tables_show_every_setting(table):
    wanted = [s for s in study.settings(False) if s.method == "dplr" and s.delta == 0]
    cache = filled({setting: (0.2 + setting.epsilon / 10, 0.1) for setting in wanted})
    lines = study.excess_table({"made_up": cache}, "dplr", 0.0, 0.1)
    assert lines[1].split() == " ".join(study.VARIANTS).split()
    assert lines[2].count("0.0100 (nan)") == len(study.VARIANTS)
    assert lines[3].startswith("mean, choice")


@needs_data
@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.n < study.LARGE])
def test_small_tables_are_read_as_declared(name):
    table, frame = TABLES[name], read_table(name, data_home())
    assert len(frame) == pytest.approx(table.n, rel=0.02)
    assert frame[table.response].mean() == pytest.approx(0.4, abs=0.2)
    for column, (low, high) in table.bounds.items():
        assert frame[column].quantile(0.01) >= low, column
        assert frame[column].quantile(0.99) <= high, column
        assert frame[column].nunique() > 1
    for column, levels in table.levels.items():
        assert set(frame[column]) <= set(levels)
