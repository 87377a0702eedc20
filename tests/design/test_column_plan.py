"""Columns that are read straight into the design: as if each row, and each column, were alone."""

import numpy as np
import pandas as pd
import pytest

import privatelr.design.formula_design as formula_design
import privatelr.numerics.rows.dense_rows as rows_module
from privatelr.design import plan_design, read_covariates, read_design, read_values
from privatelr.formula import parse_formula
from privatelr.numerics import threads
from privatelr.numerics.rows import DenseRows
from privatelr.sources import as_batch, declare_schema
from privatelr.sources.columns import side_by_side

N = 400
RNG = np.random.default_rng(11)
FRAME = pd.DataFrame(RNG.uniform(0.1, 0.9, (N, 6)), columns=list("abcdef"))
# what some pieces hold and others do not
FRAME.loc[3, "a"], FRAME.loc[5, "b"], FRAME.loc[7, "c"] = np.nan, np.inf, 1e300
FRAME.loc[150:160, "d"], FRAME.loc[170:180, "d"] = -0.0, 0.0
FRAME.loc[300, "d"], FRAME.loc[390, "e"] = -7.0, 8.0
FRAME["k"] = pd.Categorical(RNG.choice(["u", "v"], N))
FRAME["y"] = RNG.integers(0, 2, N)
BOUNDS = {
    "a": (0, 1),
    "b": (0.2, 0.5),
    "c": (-1, 3),
    "d": (0, 1),
    "e": (0, 1),
    "f": (-2, -1),
    "y": (0, 1),
}
FORMULAS = [
    "y ~ .",
    "y ~ a + b + k + c + d",
    "a > 0.5 ~ a + b + c",
    "y ~ d + a:d + ifelse(1 / (d + 0.5) > 1.9, 1, 0) + f",
    "y ~ a + b + k:a + c - 1",
    "y ~ I(a) + b + exp(a)",
    "y ~ d + a - 1",
]


def plan(text, frame=FRAME):
    schema = declare_schema(bounds=BOUNDS)
    return plan_design(parse_formula(text, list(frame.columns)), as_batch(frame), schema)


def check_rows(monkeypatch, text):
    """Rows by pieces of any length, on any number of threads, are those of one row at a time."""
    spec = plan(text)
    alone = [read_design(spec, as_batch(FRAME[i : i + 1]), DenseRows) for i in range(N)]
    for piece in (2**13, 200, 72):
        monkeypatch.setattr(rows_module, "_PIECE", piece)
        for limit in (1, 2):
            with threads(limit):
                rows = read_design(spec, as_batch(FRAME), DenseRows)
            x, y = np.concatenate([row.x for row in alone]), np.concatenate([r.y for r in alone])
            np.testing.assert_array_equal(rows.x.view(np.int64), x.view(np.int64))
            np.testing.assert_array_equal(rows.y, y)


@pytest.mark.parametrize("text", FORMULAS)
def test_a_row_does_not_depend_on_others(monkeypatch, text):
    check_rows(monkeypatch, text)


@pytest.mark.parametrize("text", FORMULAS)
def test_columns_are_what_terms_make_of_them(text):
    """The general way, by terms, gives the same covariates as the straight one."""
    spec = plan(text)
    stretches, _ = spec.straight
    assert stretches
    covariates, usable, _ = read_covariates(spec, as_batch(FRAME), spec.formula.variables)
    values, _ = read_values(spec.variables, as_batch(FRAME), spec.formula.variables)
    first = int(spec.columns.has_intercept)
    for start, names, _ in stretches:
        for place, name in enumerate(names, start):
            held = np.clip(values[name], *BOUNDS[name])
            centre = spec.columns.centre[place] if first else 0.0
            expected = (held - centre) / spec.columns.scale[place]
            np.testing.assert_array_equal(covariates[usable, place - first], expected[usable])
    plain = np.isfinite(FRAME[[name for name in spec.formula.variables if name in BOUNDS]])
    np.testing.assert_array_equal(usable, plain.all(axis=1))


def test_the_response_keeps_its_units():
    """It may be a covariate too, which is in other units."""
    spec = plan("a > 0.5 ~ a + b")
    rows = read_design(spec, as_batch(FRAME), DenseRows)
    usable = rows.y != 0
    np.testing.assert_array_equal(rows.y[usable] > 0, FRAME["a"][usable] > 0.5)
    assert [names for _, names, _ in spec.straight[0]] == [("b",)]


def test_columns_of_one_array_are_read_side_by_side():
    names = tuple("abcdef")
    block = pd.DataFrame(RNG.random((50, 6)), columns=list(names))
    for frame, sizes in (
        (block, [6]),
        (block[["f", "a", "c"]], None),
        (
            pd.DataFrame({name: block[name].to_numpy().copy() for name in names}, copy=False),
            [1] * 6,
        ),
        (block.iloc[::-3], [6]),
        (block.astype({"c": np.float32}), None),
    ):
        chosen = tuple(frame.columns)
        parts = as_batch(frame).parts(*chosen)
        np.testing.assert_array_equal(np.concatenate(parts), frame.to_numpy().T)
        assert not any(part.flags.writeable for part in parts)
        if sizes is not None:
            assert [len(part) for part in parts] == sizes


def test_what_only_looks_like_a_neighbour_is_read_alone():
    table = np.arange(12.0).reshape(4, 3)
    table.flags.writeable = False
    columns = [table[0], table[1].view(np.int64), table[2], table[3], table[0], table[2, ::-1]]
    parts = side_by_side(columns)
    assert [part.dtype.kind for part in parts] == ["f", "i", "f", "f", "f"]
    lines = [line for part in parts for line in part]
    for line, column in zip(lines, columns, strict=True):
        np.testing.assert_array_equal(line, column)


def columns_of(text, **schema):
    frame = pd.DataFrame({"y": [0, 1], "g": pd.Series([1, 2], dtype=object), "x": [0.1, 0.2]})
    schema = declare_schema(bounds={"x": (0, 1), "y": (0, 1)}, **schema)
    return plan_design(parse_formula(text, list(frame.columns)), as_batch(frame), schema).columns


def test_a_plan_is_kept_for_the_same_formula_and_declarations():
    levels = {"g": [1, 2, 3]}
    assert columns_of("y ~ x + g", levels=levels) is columns_of("y ~ x + g", levels=levels)
    first = columns_of("y ~ x + g", levels=levels)
    assert first is not columns_of("y ~ x + g", levels={"g": [1, 2, 4]})
    assert first is not columns_of("y ~ x * g", levels=levels)


@pytest.mark.parametrize("one", [True, 1.0, np.int64(1), np.float64(1)])
def test_levels_that_are_equal_but_written_otherwise_have_plans_of_their_own(one):
    columns_of("y ~ g", levels={"g": [0, 1]})
    after = columns_of("y ~ g", levels={"g": [0, one]}).names
    formula_design._KEPT.clear()
    assert after == columns_of("y ~ g", levels={"g": [0, one]}).names


def test_zeros_of_either_sign_have_plans_of_their_own():
    assert columns_of("y ~ g", levels={"g": [1.0, 0.0]}).names == ("(Intercept)", "g[T.0.0]")
    assert columns_of("y ~ g", levels={"g": [1.0, -0.0]}).names == ("(Intercept)", "g[T.-0.0]")


def test_levels_whose_words_may_not_tell_them_apart_are_planned_each_time():
    class Silent(str):
        def __repr__(self):
            return "level"

    one, other = [Silent("a"), Silent("b")], [Silent("a"), Silent("c")]
    first = columns_of("y ~ g", levels={"g": one})
    assert first is not columns_of("y ~ g", levels={"g": other})


def test_no_fit_can_write_to_a_plan_that_others_share():
    columns = columns_of("y ~ x + g", levels={"g": [1, 2, 3]})
    shared = [columns.parent, columns.centre, columns.scale, *(term.grid for term in columns.terms)]
    assert not any(array.flags.writeable for array in shared)
