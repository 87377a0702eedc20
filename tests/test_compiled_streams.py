"""Sums that are compiled are those of bounded rows, and no guarantee rests on them."""

from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from changed_tables import fewer, one_label, one_value
from frames_for_laws import FORMULA, SCHEMA, FixedRandomness
from repeated_noise import trial
from streams_for_tests import arrow, pa

import privatelr.fitting
from privatelr import SchemaError, dplr, dpsvm, stream
from privatelr.design import plan_design, read_stream_design, read_stream_source
from privatelr.formula import parse_formula
from privatelr.numerics import LOSSES, Huber, Objective, gradient_of, threads, value_and_gradient
from privatelr.numerics.rows import StreamRows, stream_rows
from privatelr.sources import declare_schema

pytest.importorskip("numba", reason="needs the extra [compiled]")


@pytest.fixture(autouse=True)
def _compiled_at_any_size(monkeypatch):
    monkeypatch.setattr(stream_rows, "_WORTH", 0)
    monkeypatch.setattr(privatelr.fitting, "SystemRandomness", FixedRandomness)


@pytest.fixture
def _in_steps(monkeypatch):
    monkeypatch.setattr(stream_rows, "_IN_STEPS", ContextVar("in_steps", default=True))


@contextmanager
def interpreted():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_rows, "has_compiler", lambda: False)
        yield


def cut(table, size):
    """A function that returns a reader of batches of this size."""
    return lambda: table.to_reader(max_chunksize=size)


def mixed(n=3_000):
    """Numbers, whole numbers, short ones, missing and infinite ones, levels and weights."""
    rng = np.random.default_rng(0)
    gaps = rng.uniform(0, 1, n)
    odd = rng.uniform(-1, 1, n)
    odd[[5, 700]], odd[[6, 1501]], odd[7] = np.nan, np.inf, -np.inf
    return pa.table({
        "a": rng.uniform(-2, 2, n),
        "whole": rng.integers(0, 9, n),
        "short": pa.array(rng.uniform(-1, 1, n), pa.float32()),
        "odd": odd,
        "gaps": pa.array([None if gap < 0.01 else gap for gap in gaps]),
        "ward": rng.choice(["u", "v", "w"], n),
        "counts": rng.uniform(0.1, 1, n),
        "moved": rng.uniform(-3, 3, n),
        "y": pa.array([None if gap > 0.99 else int(gap > 0.4) for gap in gaps]),
    })  # fmt: skip


BOUNDS = {
    "a": (-1, 1.5),
    "whole": (0, 7),
    "short": (-1, 1),
    "odd": (-1, 1),
    "gaps": (0, 1),
    "y": (0, 1),
}
BOUNDS |= {"counts": (0, 1), "moved": (-2, 2)}
FORMULAS = [
    "y ~ a",
    "y ~ 1",
    "y ~ a + whole + short + odd + gaps",
    "y ~ 0 + a + odd",
    "y ~ a * ward + I(a^2) + whole:ward",
    "y ~ bs(a, knots = c(0, 1)) + odd",
    "y ~ a + gaps + offset(moved) + weights(counts)",
    "y ~ a + subset(ward == 'u')",
    "y ~ I(sqrt(a + 1)) + I(1 / (whole + 1)) * gaps",
    "a > 0 ~ whole + odd + ward",
]


def rows_of(formula, table, size=700, **schema):
    formula, source = read_stream_source(formula, stream(cut(table, size), memory=0), None)
    schema = declare_schema(**{"bounds": BOUNDS, "levels": {"ward": ["u", "v", "w"]}, **schema})
    spec = plan_design(parse_formula(formula, list(source.typed.names)), source.typed, schema)
    return read_stream_design(spec, source, StreamRows)


@pytest.mark.usefixtures("_in_steps")
@pytest.mark.parametrize("loss", [*LOSSES.values(), Huber(0.01)], ids=str)
@pytest.mark.parametrize("formula", FORMULAS)
def test_sums_are_those_of_bounded_rows(formula, loss):
    rows = rows_of(formula, mixed())
    assert rows.reader.raw is not None
    w = np.random.default_rng(1).standard_normal(rows.d)
    objective = Objective(rows, loss, 1e-3, np.zeros(rows.d))
    value, gradient = value_and_gradient(objective, w)
    alone = gradient_of(objective, w)
    with interpreted():
        expected, slopes = value_and_gradient(objective, w)
    assert value == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(gradient, slopes, rtol=0, atol=1e-14)
    np.testing.assert_allclose(alone, slopes, rtol=0, atol=1e-14)
    assert len(rows._seen_raw) == len(rows._seen) == 1


@pytest.mark.usefixtures("_in_steps")
@pytest.mark.parametrize("norm", [0.2, 1.0])
@pytest.mark.parametrize("formula", ["y ~ a + odd", "y ~ 0 + a + whole + short"])
def test_rows_that_are_too_long_are_shortened(formula, norm):
    rows = rows_of(formula, mixed(), row_norm=norm)
    w = np.linspace(1, 2, rows.d)
    objective = Objective(rows, LOSSES["logistic"], 1e-3, np.zeros(rows.d))
    found = value_and_gradient(objective, w)
    with interpreted():
        expected = value_and_gradient(objective, w)
    assert found[0] == pytest.approx(expected[0], rel=1e-13)
    np.testing.assert_allclose(found[1], expected[1], rtol=0, atol=1e-14)


def counted(monkeypatch):
    """How many passes were compiled."""
    passes, compiled = [], StreamRows._compiled

    def count(rows, kernel):
        found = compiled(rows, kernel)
        passes.append(found is not None)
        return found

    monkeypatch.setattr(StreamRows, "_compiled", count)
    return passes


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (dplr, {}),
        (dplr, {"op": False, "do_scale": False}),
        (dplr, {"eps": 2.0, "delta": 1e-6}),
        (dpsvm, {"loss": "huber", "h": 0.1}),
        (dpsvm, {}),
    ],
    ids=lambda given: getattr(given, "__name__", str(given)),
)
def test_fits_are_those_of_a_frame(model, options, monkeypatch):
    passes, frame = counted(monkeypatch), trial(20_000)
    found = model(FORMULA, stream(cut(arrow(frame), 3_000), memory=0), **SCHEMA, **options)
    expected = model(FORMULA, frame, **SCHEMA, **options)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)
    assert passes
    assert all(passes)


def test_a_plain_fit_is_not_compiled_as_it_has_no_certificate(monkeypatch):
    passes, frame = counted(monkeypatch), trial(3_000)
    found = dplr(FORMULA, stream(cut(arrow(frame), 700), memory=0), eps=0, **SCHEMA)
    np.testing.assert_array_equal(found.coef, dplr(FORMULA, frame, eps=0, **SCHEMA).coef)
    assert not passes


@pytest.mark.parametrize("entry", [1.797e308, -1e155, 1e30])
@pytest.mark.parametrize("given", [{}, {"eps": 1.0, "delta": 1e-6}])
def test_rows_whose_squares_overflow_are_left_to_numpy(entry, given, monkeypatch):
    """A missing code of a column without bounds, in every other row or in one."""
    passes, rng = counted(monkeypatch), np.random.default_rng(1)
    frame = pd.DataFrame({"b": rng.uniform(-1, 1, 3_000), "x": rng.normal(size=3_000)})
    frame["y"] = (frame["b"] + rng.logistic(size=3_000) > 0).astype(int)
    given = {"bounds": {"b": (-1, 1)}, "row_norm": 1.0, **given}
    for step in (2, 3_000):
        passes.clear()
        frame["x"] = np.where(np.arange(3_000) % step == 0, entry, frame["x"])
        found = dplr("y ~ b + x", stream(cut(arrow(frame), 700), memory=0), **given)
        expected = dplr("y ~ b + x", frame, **given)
        np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)
        assert 1 <= len(passes) <= 12
        assert all(passes) or passes == [False]


def test_designs_that_are_more_than_mapped_columns_are_read_as_rows(monkeypatch):
    passes, frame = counted(monkeypatch), trial(700)
    found = dplr(FORMULA, stream(cut(arrow(frame), 90), memory=0), rp_dim=2, **SCHEMA)
    expected = dplr(FORMULA, frame, rp_dim=2, **SCHEMA)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)
    assert passes
    assert not any(passes)


def test_batches_are_cut_anew_between_passes_without_being_a_change():
    table, sizes = arrow(trial(4_000)), iter([4_000, 1, 37, 509, 511, 2_000, *range(100, 200)])
    source = stream(lambda: table.to_reader(max_chunksize=next(sizes)), memory=0)
    found = dplr(FORMULA, source, **SCHEMA)
    np.testing.assert_allclose(
        found.coef, dplr(FORMULA, trial(4_000), **SCHEMA).coef, rtol=0, atol=1e-9
    )


def swapped(frame):
    """Two parts of equal length that change places."""
    order = np.arange(len(frame))
    order[:512], order[1024:1536] = np.arange(1024, 1536), np.arange(512)
    return frame.iloc[order]


def exchanged(frame):
    """A value that moves from one row of its column to another."""
    frame.iloc[[3, 3 + 509], frame.columns.get_loc("age")] = frame["age"].iloc[[3 + 509, 3]]
    return frame


@pytest.mark.usefixtures("_in_steps")
@pytest.mark.parametrize("change", [fewer, one_value, one_label, swapped])
def test_a_change_between_compiled_passes_is_noticed(change):
    frame = trial(3_000)
    tables = [arrow(frame), arrow(change(frame.copy()))]
    now = [0]
    rows = rows_of("y ~ age + dose", tables[0], **SCHEMA)
    object.__setattr__(
        rows.reader.table.source, "opened", lambda names: tables[now[0]].to_reader().__iter__()
    )
    objective = Objective(rows, LOSSES["logistic"], 1e-3, np.zeros(rows.d))
    first = gradient_of(objective, np.ones(rows.d))
    np.testing.assert_array_equal(gradient_of(objective, np.ones(rows.d)), first)
    now[0] = 1
    with pytest.raises(SchemaError, match="changed while they were read"):
        gradient_of(objective, np.ones(rows.d))


@pytest.mark.usefixtures("_in_steps")
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_threads_change_no_bit(limit):
    table, w = arrow(trial(30_000)), np.ones(3)
    rows = rows_of("y ~ age + dose", table, **SCHEMA)
    objective = Objective(rows, LOSSES["logistic"], 1e-3, np.zeros(3))
    expected = gradient_of(objective, w)
    with threads(limit):
        np.testing.assert_array_equal(gradient_of(objective, w), expected)


def test_wrong_sums_cost_time_and_no_digits(monkeypatch):
    """The certificate takes its gradient from bounded rows, so that a wrong slope is found out."""
    frame = trial(2_000)
    expected = dplr(FORMULA, frame, **SCHEMA)
    compiled = StreamRows._compiled

    def wrong(rows, kernel):
        found = compiled(rows, kernel)
        assert found is not None
        return tuple(1.01 * part for part in found)

    monkeypatch.setattr(StreamRows, "_compiled", wrong)
    found = dplr(FORMULA, stream(cut(arrow(frame), 500), memory=0), **SCHEMA)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)


@pytest.mark.parametrize("error", [ImportError, EOFError, OSError, ValueError])
def test_without_a_numba_that_works_rows_are_summed_by_numpy(error, monkeypatch):
    """It is missing, or a file of its cache is damaged, or a disk is full."""

    class Broken:
        def __getattr__(self, name):
            raise error

    monkeypatch.setattr(stream_rows, "compiled_sums", Broken())
    stream_rows.has_compiler.cache_clear()
    try:
        passes = counted(monkeypatch)
        dplr(FORMULA, stream(cut(arrow(trial(500)), 90), memory=0), **SCHEMA)
        assert passes
        assert not any(passes)
    finally:
        stream_rows.has_compiler.cache_clear()


def test_small_tables_load_no_compiler(monkeypatch):
    monkeypatch.undo()
    passes = counted(monkeypatch)
    dplr(FORMULA, stream(cut(arrow(trial(500)), 90), memory=0), **SCHEMA)
    assert not passes


@pytest.mark.usefixtures("_in_steps")
def test_batches_of_all_lengths_are_summed():
    frame = pd.DataFrame({"x": np.linspace(-1, 1, 1_100), "y": [0.0, 1.0] * 550})
    for ends in ([0, 1_100], [0, 1, 2, 1_100], [0, 509, 1018, 1_100], [0, 508, 508, 510, 1_100]):
        batches = [arrow(frame.iloc[a:b]) for a, b in pairwise(ends)]
        table = pa.concat_tables(batches)
        rows = rows_of("y ~ x", table, size=None, bounds={"x": (-1, 1), "y": (0, 1)}, levels=None)
        objective = Objective(rows, LOSSES["logistic"], 1e-3, np.zeros(2))
        found = gradient_of(objective, np.ones(2))
        with interpreted():
            np.testing.assert_allclose(found, gradient_of(objective, np.ones(2)), atol=1e-15)
