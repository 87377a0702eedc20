"""The benchmarks measure what they say: one objective, one gradient, time that adds up."""

import json

import numpy as np
import pytest
from benchmarks import calls, engines, from_formula, memory, peers, race, tables
from benchmarks.__main__ import STORED, main
from benchmarks.counted import passes
from benchmarks.neutral import gradient_norm, value_and_gradient
from benchmarks.peers import EQUAL, PEERS, Peer, ours, tune
from benchmarks.plot import MARKS, plot
from benchmarks.problems import PROBLEMS, Problem, synthetic, wide
from scipy import sparse

from privatelr.numerics import Huber, Logistic, Objective, gradient_of
from privatelr.numerics import value_and_gradient as in_package

LOSSES = (Logistic(), Huber(), Huber(0.1))
SMALL = synthetic("small", 300, 4)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_neutral_objective_is_the_one_of_the_package(loss, form):
    rows = SMALL.rows
    problem = Problem("small", rows, form(rows.x), rows.y, loss)
    w = np.random.default_rng(0).standard_normal(4)
    objective = Objective(rows, loss, problem.lambda_, np.zeros(4))
    value, gradient = value_and_gradient(problem, w)
    expected = in_package(objective, w)
    assert value == pytest.approx(expected[0], rel=1e-13)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(gradient, gradient_of(objective, w), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("w", [np.full(4, np.nan), np.full(4, np.inf)])
def test_no_numbers_are_no_minimum(w):
    with np.errstate(all="ignore"):
        assert gradient_norm(SMALL, w) == np.inf


def test_the_package_reaches_what_everybody_is_asked_for():
    for loss in LOSSES:
        problem = synthetic("small", 1000, 5, loss)
        assert gradient_norm(problem, ours(problem)) <= EQUAL


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@pytest.mark.parametrize("loss", [Logistic(), Huber()], ids=lambda loss: loss.name)
def test_peers_minimise_the_same_objective(peer, loss):
    problem = synthetic("small", 300, 4, loss)
    if not peer.can(problem):
        pytest.skip("not installed, or not for this loss")
    np.testing.assert_allclose(peer(problem, 1e-9), ours(problem), rtol=1e-3, atol=1e-3)


def test_peers_without_a_library_or_for_too_much_are_left_out():
    assert not Peer("none", ours, needs="a_library_that_nobody_has").can(SMALL)
    assert not Peer("slow", ours, largest=100).can(SMALL)
    assert not Peer("dense", ours, takes_sparse=False).can(as_csr(SMALL))


def as_csr(problem):
    return Problem("csr", problem.rows, sparse.csr_array(problem.x), problem.y, problem.loss)


def tuned(monkeypatch, gradient_of_tolerance):
    """The setting of a peer whose gradient is this function of its tolerance; what was tried."""
    tried = []

    def fit(_, tolerance):
        tried.append(tolerance)
        return np.array([gradient_of_tolerance(tolerance)])

    monkeypatch.setattr(peers, "gradient_norm", lambda _, w: float(w[0]))
    return tune(Peer("stub", fit), SMALL), tried


def test_the_loosest_tolerance_that_is_enough(monkeypatch):
    setting, tried = tuned(monkeypatch, lambda tolerance: tolerance / 2)
    assert setting.is_equal
    assert setting.tolerance == tried[-1] == 1e-10


def test_a_leap_at_the_end_is_waited_for(monkeypatch):
    setting, _ = tuned(monkeypatch, lambda tolerance: 2e-9 if tolerance > 1e-9 else 1e-16)
    assert setting.tolerance == 1e-9


def test_nobody_is_charged_for_steps_that_lead_nowhere(monkeypatch):
    setting, tried = tuned(monkeypatch, lambda tolerance: max(tolerance, 3e-8))
    assert not setting.is_equal
    assert setting == peers.Setting(1e-8, 3e-8)
    assert len(tried) < 7


def test_passes_count_parts_of_the_rows_as_parts():
    problem = synthetic("many", 60_000, 4)
    counted = passes(problem)
    assert counted["full"] >= 1
    assert 0 < counted["thinned"] < 5
    assert passes(problem) == counted


def test_sparse_and_wide_rows_are_minimised_as_far():
    problem = wide("wide", 200, 3000, filled=5)
    if problem is None:
        pytest.skip("no sparse rows")
    assert problem.x.shape == (200, 3001)
    assert gradient_norm(problem, ours(problem)) <= EQUAL
    assert not next(peer for peer in PEERS if peer.name == "glum").can(problem)


def test_ratios_are_of_pairs():
    drifting = [(1.0, 2.0), (10.0, 20.0), (100.0, 200.0)]
    assert race.Ratios.of(drifting) == race.Ratios(0.5, 0.5, 0.5, 3)
    assert race.Ratios.of([(1.0, 4.0)]) == race.Ratios(0.25, 0.25, 0.25, 1)


def test_one_read_reads_every_number():
    x = np.arange(300_000.0).reshape(-1, 3) % 7
    assert race.read_once(x) == np.sum(x * x)
    assert race.read_once(sparse.csr_array(x)) == np.sum(x * x)


def test_an_inner_stage_is_not_counted_twice():
    now = [0.0]

    def takes(duration, *then):
        def run():
            now[0] += duration
            for following in then:
                following()

        return run

    clock = from_formula.Clock(lambda: now[0])
    inner = clock.timed("inner", takes(2.0))
    clock.timed("outer", takes(1.0, inner, takes(4.0), inner))()
    assert clock.own == {"inner": 4.0, "outer": 5.0}


def test_a_call_of_the_front_door_is_divided_into_its_stages():
    found = from_formula.breakdown(synthetic("frame", 2000, 4), 2)
    assert {"solve", "certify", "read rows", "diagnose", "plan"} <= set(found["seconds"])
    assert found["parts of reading"]
    least = found["outside the solver and its certificate"]
    assert 0 < least <= found["outside the solver"] < 1
    assert "outside the solver" in tables.report({"machine": MACHINE, "formula": found})


MACHINE = {"processors": 2, "threads": 1, "load": [0.5, 1.0], "versions": {"numpy": "2"}}


def test_memory_is_measured_in_a_process_of_its_own(tmp_path):
    problem = synthetic("memory", 30_000, 20)
    np.save(tmp_path / "x.npy", problem.x)
    np.save(tmp_path / "y.npy", problem.y)
    taken = memory._in_process(memory.OURS, str(tmp_path), 0.0)
    assert 0 <= taken < 8 * problem.size


def test_every_goal_is_of_a_problem():
    assert {*tables.GOALS, *tables.FLOOR_GOALS} <= set(PROBLEMS)


def cell(median, *, equal=True):
    found = {"median": median, "low": median, "high": median, "pairs": 1}
    gradient = 1e-11 if equal else 1e-8
    return {**found, "seconds": 1.0, "tolerance": 1e-9, "gradient": gradient, "equal": equal}


def results(median):
    peers_found = {"slow": cell(median), "quick": cell(2 * median), "rough": cell(9, equal=False)}
    sizes = {"n": 10**6, "d": 50, "loss": "Logistic()", "lambda": 1e-6}
    numbers = {"seconds": 0.5, "gradient": 1e-12, "passes": {"full": 5, "thinned": 1.5}}
    found = {**sizes, **numbers, "floor": cell(11.0), "peers": peers_found}
    return {"machine": MACHINE, "cells": {"1e6x50": found}, "memory": {"ours": 0.1}}


def test_the_best_peer_is_one_that_is_as_accurate():
    found = results(0.2)["cells"]["1e6x50"]
    assert race.best(found)[0] == "quick"
    assert race.best(found, equal=False)[0] == "rough"
    text = tables.report(results(0.2))
    assert "quick: 0.4 (0.4 to 0.4), goal 0.5 met" in text
    assert "goal 12 met" in text
    assert "[1e-08]" in text
    assert "MISSED" in tables.report(results(0.3))


def test_changes_of_ratios_are_told():
    text = tables.compare(results(0.2), results(0.3))
    assert "| 1e6x50, slow | 0.2 | 0.3 | +50% | slower |" in text
    assert "| 1e6x50, rough | 9 | 9 | +0% |  |" in text
    assert "| memory, ours | 0.1 | 0.1 | +0% |  |" in text
    assert tables.compare({}, results(0.3)).count("\n") == 1


def test_whole_calls_are_shown_beside_their_peers():
    found = calls.calls({"quick": calls.Case(300, 2, 1, calls.FROM_FORMULA, 0.7)}, 2)
    assert found["quick"]["peers"]["statsmodels"]["pairs"] == 2
    text = tables.report({"machine": MACHINE, "calls": found})
    assert "| quick | statsmodels |" in text
    found["quick"]["peers"]["statsmodels"]["median"] = 0.8
    assert "goal 0.7 MISSED" in tables.report({"machine": MACHINE, "calls": found})
    assert "call quick, statsmodels" in tables.compare({"calls": found}, {"calls": found})


def test_peers_of_calls_get_the_same_records():
    table = calls.synthetic_table(200, 2, 2)
    assert table.matrix().shape == (200, 2 + 2 + 4)
    assert set(table.frame["f1"]) <= set(table.levels["f1"])
    fit = calls.ours(table)()
    assert fit.nobs == 200
    assert len(fit.coef) == 1 + 2 + 2 + 4


def test_engines_are_shown_beside_a_stream():
    pytest.importorskip("pyarrow", reason="needs the extra [parquet]")
    pytest.importorskip("dask", reason="needs the extra [dask]")
    found = engines.engines(2000, 2, 2, ["kept in memory"])
    text = tables.of_engines(found)
    assert "| stream of Parquet |" in text
    assert found["engines"][engines.BASE]["median"] == 1.0
    assert "| kept in memory |" in text


def test_a_quick_run(tmp_path, capsys):
    file, picture = tmp_path / "ratios.json", tmp_path / "ratios.png"
    command = ["--quick", "--only", "quick-1e3x5", "--repeats", "1", "--threads", "1"]
    main([*command, "--write", str(file)])
    main([*command, "--only", "quick-huber", "--compare", str(file), "--plot", str(picture)])
    printed = capsys.readouterr().out
    assert "Ours / theirs" in printed
    assert "| quick-1e3x5, SciPy L-BFGS-B |" in printed
    stored = json.loads(file.read_text(encoding="utf-8"))
    assert stored["machine"]["threads"] == 1
    assert stored["cells"]["quick-1e3x5"]["peers"]["SciPy L-BFGS-B"]["median"] > 0
    assert picture.stat().st_size > 1000


def test_peers_are_told_apart_in_the_picture(tmp_path):
    """There are more of them than colours."""
    cells = json.loads(STORED.read_text(encoding="utf-8"))["cells"]
    figure = plot(cells, tmp_path / "ratios.png")
    (legend,) = figure.legends
    lines = legend.get_lines()
    assert len(lines) == len({name for cell in cells.values() for name in cell["peers"]}) > 6
    assert len({line.get_marker() for line in lines}) == len(lines)
    told = {(line.get_color(), line.get_marker()) for line in lines}
    points = [line for line in figure.axes[0].lines if line.get_marker() in MARKS]
    assert {(line.get_color(), line.get_marker()) for line in points} == told


def test_the_kept_run_is_drawn_again(tmp_path, capsys):
    main(["--stored", "--plot", str(tmp_path / "ratios.png")])
    assert "| 1e6x500 |" in capsys.readouterr().out
    assert (tmp_path / "ratios.png").stat().st_size > 1000
