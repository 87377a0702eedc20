"""The study of coverage: its truths are true, it sees undercoverage, and its cache resumes."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from statsmodels.api import Logit
from studies import coverage as study
from studies import coverage_report as report
from studies import coverage_runs as runs
from studies.coverage_populations import (
    GENERATORS,
    LIKENESSES,
    fewest_of_a_level,
    independent,
    population_of,
)
from studies.coverage_runs import Cache, Cell, default_interval, replicate
from studies.made_up_columns import design
from studies.plain_logistic import SeparableError, plain_fit

LARGE = 200_000
CELL = Cell("normal", "zcdp", 4, 1_000, 4.0)


def everywhere():
    return [
        *((name, 6) for name in GENERATORS),
        ("products", 8),
        *((name, 0) for name in LIKENESSES),
    ]


# -- populations ---------------------------------------------------------------------------------


def test_newton_agrees_with_statsmodels():
    population = population_of("levels", 6)
    frame = population.sample(3_000, np.random.default_rng(0))
    x, _ = design(frame, population.bounds, population.levels)
    theirs = Logit(frame["y"].astype(float), x).fit(disp=0, method="newton", tol=1e-10)
    ours = population.fit_without_privacy(frame)
    np.testing.assert_allclose(ours.coef, theirs.params, rtol=1e-7)
    np.testing.assert_allclose(ours.sd, theirs.bse, rtol=1e-7)


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(lambda x, y: [x, 3 - 2 * x], id="collinear"),
        pytest.param(lambda x, y: [x, np.full(len(x), 7.0)], id="constant"),
        pytest.param(lambda x, y: [x, y], id="separable"),
        pytest.param(lambda x, y: [x, (x > 0.5) * y], id="half-separable"),
    ],
)
def test_newton_finds_no_minimum_where_there_is_none(columns):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(300), (rng.random(300) < 0.4).astype(float)
    with pytest.raises(SeparableError):
        plain_fit(np.column_stack([np.ones(300), *columns(x, y)]), y)


@pytest.mark.parametrize(("name", "d"), everywhere())
def test_the_truth_is_true(name, d):
    """An independent fit to many records is as near to it as its standard errors say."""
    population = population_of(name, d)
    frame = population.sample(LARGE, np.random.default_rng(1))
    found = population.fit_without_privacy(frame)
    z = (found.coef - population.truth) / found.sd
    assert np.abs(z).max() < 4
    assert len(population.truth) == d or name in LIKENESSES
    if population.null is not None:
        assert population.truth[population.null] == 0
        # all others have an effect that these records show
        assert np.delete(np.abs(population.truth / found.sd), _place(population)).min() > 3


def _place(population):
    return list(population.truth.index).index(population.null)


@pytest.mark.parametrize(("name", "d"), everywhere())
def test_samples_are_within_what_is_declared(name, d):
    population = population_of(name, d)
    frame = population.sample(20_000, np.random.default_rng(2))
    assert {*frame} == {*population.bounds, *population.levels, "y"}
    for column, (low, high) in population.bounds.items():
        assert frame[column].between(low, high).all()
        assert frame[column].isin([low, high]).mean() < 0.05, column
    for column, levels in population.levels.items():
        assert list(frame[column].cat.categories) == levels
        assert frame[column].value_counts().min() > (30 if name == "rarest" else 200)


def test_the_share_of_positives_and_the_correlation_of_the_null_are_as_said():
    rare = population_of("imbalanced", 6).sample(LARGE, np.random.default_rng(3))
    assert rare["y"].mean() == pytest.approx(0.03, abs=0.002)
    population = population_of("null", 6)
    frame = population.sample(LARGE, np.random.default_rng(3))
    strength = population.truth.drop("(Intercept)").abs()
    assert frame["null"].corr(frame[strength.idxmax()]) == pytest.approx(0.8, abs=0.01)


def test_columns_that_make_a_table_collinear_or_separable_are_found():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 500))
    frame = pd.DataFrame(
        {"a": 1e6 * a, "b": b, "both": 3 * a - b + 7, "c": rng.standard_normal(500)}
    )
    assert independent(frame) == ["a", "b", "c"]
    levels = pd.Series(pd.Categorical(["u"] * 6 + ["v"] * 4, ["u", "v"]))
    positive = pd.Series([True, False] * 5)
    assert fewest_of_a_level(levels, positive) == 2
    assert fewest_of_a_level(levels.cat.add_categories("never"), positive) == 0
    assert fewest_of_a_level(levels, levels == "u") == 0


# -- replications --------------------------------------------------------------------------------


def half_as_wide(fit):
    """A planted wrong interval."""
    found = default_interval(fit)
    middle = found.mean(axis=1)
    return found.sub(middle, axis=0).div(2).add(middle, axis=0)


def test_intervals_that_are_too_narrow_are_seen():
    truth = population_of(CELL.population, CELL.d).truth.to_numpy()
    right, wrong = (
        report.summarise(truth, [replicate(CELL, run, way) for run in range(60)], None)
        for way in (default_interval, half_as_wide)
    )
    assert right.coverage > 0.95 - 4 * right.coverage_error
    assert wrong.coverage < 0.95 - 4 * wrong.coverage_error
    assert wrong.width == pytest.approx(right.width / 2)
    assert right.level < 0.05 + 4 * max(right.level_error, 0.03)


def test_a_replication_depends_on_its_number_alone():
    first, again, other = (replicate(CELL, run) for run in (3, 3, 4))
    timeless = [{**line, "seconds": 0} for line in (first, again)]
    assert timeless[0] == timeless[1]
    assert first["seed"] != other["seed"]
    assert first["plain_width"] != other["plain_width"]
    assert json.loads(json.dumps(first, allow_nan=False)) == first


def test_streams_of_cells_are_different():
    seeds = {replicate(Cell("normal", p, 4, 60, 4.0), 0)["seed"] for p in study.PROMISES}
    assert len(seeds) == 3


def test_a_sample_without_a_plain_fit_is_told(monkeypatch):
    def separable(x, positive):
        raise SeparableError("planted")

    monkeypatch.setattr("studies.coverage_populations.plain_fit", separable)
    line = replicate(CELL, 0)
    truth = population_of(CELL.population, CELL.d).truth.to_numpy()
    found = report.summarise(truth, [line], None)
    assert (found.runs, found.separable) == (1, 1)
    assert math.isnan(found.width)


# -- the cache -----------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch):
    """Numbers of the replications that are run, and a cheap one in place of each."""
    ran = []

    def cheap(cell, run):
        ran.append(run)
        return {"run": run, "seed": run}

    monkeypatch.setattr(runs, "replicate", cheap)
    monkeypatch.setattr(runs, "forecast", lambda cell: {"width": None})
    return ran


def test_the_cache_resumes(tmp_path, counted):
    runs.run_all(Cache(tmp_path, [CELL]), 3, 1)
    runs.run_all(Cache(tmp_path, [CELL]), 3, 1)
    assert counted == [0, 1, 2]
    runs.run_all(Cache(tmp_path, [CELL]), 5, 1)
    assert counted == [0, 1, 2, 3, 4]
    again = Cache(tmp_path, [CELL])
    assert [line["seed"] for line in again.lines(CELL, 4)] == [0, 1, 2, 3]
    assert again.forecasts == {CELL: {"width": None}}


def test_a_killed_run_loses_what_was_in_flight(tmp_path, counted):
    cache = Cache(tmp_path, [CELL])
    runs.run_all(cache, 3, 1)
    with cache.path(CELL).open("a") as file:
        file.write('{"run": 3, "se')
    runs.run_all(Cache(tmp_path, [CELL]), 5, 1)
    assert counted == [0, 1, 2, 3, 4]
    written = cache.path(CELL).read_text().splitlines()
    assert [json.loads(line)["run"] for line in written] == [0, 1, 2, 3, 4]


def test_every_cell_has_a_file_of_its_own(tmp_path):
    cells = [*study.usual_cells(["adult", "titanic"]), *study.growth_cells()]
    cache = Cache(tmp_path, cells)
    assert len({cache.path(cell) for cell in cells}) == len(cells) == len({*cells})


def test_workers_give_the_same_lines(tmp_path):
    cell = Cell("uniform", "pure", 4, 200, 4.0)
    alone, together = Cache(None, [cell]), Cache(tmp_path, [cell])
    runs.run_all(alone, 4, 1)
    runs.run_all(together, 4, 2)
    kept = Cache(tmp_path, [cell])
    for cache in (together, kept):
        same = [{**line, "seconds": 0} for line in cache.lines(cell, 4)]
        assert same == [{**line, "seconds": 0} for line in alone.lines(cell, 4)]


# -- what is printed -----------------------------------------------------------------------------


def line_of(run, lower, upper, **others):
    usual = {
        "estimate": [*lower],
        "plain_width": [1.0, 2.0],
        "p_null": None,
        "mode": "posterior",
        "target": None,
    }
    return {"run": run, "lower": lower, "upper": upper, "seconds": 1.0, **usual, **others}


def test_numbers_add_up():
    truth = np.array([0.0, 1.0])
    lines = [
        line_of(0, [-1, 0], [1, 2], p_null=0.01, target="unpenalised"),
        line_of(1, [-1, 2], [1, 4], p_null=0.2, target="penalised"),
        line_of(2, [-2, 0], [2, 8], mode="conservative", plain_width=None),
        {"run": 3, "plain_width": None, "failed": "GuaranteeError: planted"},
    ]
    found = report.summarise(truth, lines, [2.0, 4.0])
    assert (found.runs, found.failed, found.separable) == (3, 1, 2)
    assert found.coverage == pytest.approx(5 / 6)
    assert found.coverage_error == pytest.approx(np.std([1, 0.5, 1], ddof=1) / np.sqrt(3))
    assert found.worst == pytest.approx(2 / 3)
    assert found.given == 1
    assert found.level == 0.5
    assert found.width == pytest.approx(np.sqrt(2 * 1))
    assert found.widest == pytest.approx(2)
    errors = 2 * 1.959964 * np.array([[-1.0, -0.5], [-1.0, 0.5]])  # the last has no plain width
    assert found.rmse == pytest.approx(np.sqrt((errors**2).mean()))
    assert found.targets == {"unpenalised": 0.5, "penalised": 0.5}
    assert found.modes == pytest.approx({"posterior": 2 / 3, "conservative": 1 / 3})
    assert found.forecast == pytest.approx((1 * 2 * 1 * 2 * 0.5 * 0.5) ** (1 / 6))


def test_nothing_but_failures_is_told():
    line = {"run": 0, "plain_width": [1.0, 1.0], "failed": "GuaranteeError: planted"}
    found = report.summarise(np.zeros(2), [line], None)
    row = report.entries(CELL, found)
    assert row[2] == "0, 1 failed"
    assert len(row) == len(report.HEADINGS)


def test_growth_is_seen():
    terms = len(population_of("birthwt").truth)

    def at(width):
        return [line_of(0, [0.0] * terms, [width] * terms, plain_width=[0.5] * terms)]

    falling = report.growth_rows("birthwt", "pure", [at(w) for w in (8.0, 4.0, 2.0, 1.0, 0.5)])
    assert [row[-1] for row in falling[:terms]] == ["0.50"] * terms
    rising = report.growth_rows("birthwt", "pure", [at(w) for w in (2.0, 1.0, 3.0, 1.0, 0.5)])
    assert rising[0][-1] == "3.00"
    assert rising[-1][4:9] == ["posterior 100%"] * 5
    partly = report.growth_rows("birthwt", "pure", [at(2.0), [], at(3.0), [], []])
    assert partly[0][3:] == ["0.500", "2.000", "-", "3.000", "-", "-", "1.50"]


def test_tables_are_printed_of_what_is_there(monkeypatch, capsys, tmp_path):
    chosen = ["--cells", "uniform", "pure", "n=500", "--tables", "--runs", "2"]
    monkeypatch.setattr("sys.argv", ["coverage", *chosen, "--cache", str(tmp_path)])
    study.main()
    head, _, row = capsys.readouterr().out.splitlines()
    assert row.startswith("| uniform pure d=6 n=500 eps=4 | 6 | 2 |")
    assert head.count("|") == row.count("|") == len(report.HEADINGS) + 1
    monkeypatch.setattr("sys.argv", ["coverage", "--growth", "--cells", "pima,burn", "--list"])
    study.main()
    assert len(capsys.readouterr().out.splitlines()) == 2 * 3 * 5
