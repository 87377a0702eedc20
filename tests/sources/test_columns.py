"""A frame that is read by pieces gives the rows that it gives as a whole, to the last bit."""

import formulaic
import numpy as np
import pandas as pd
import pytest
from raw_designs import raw_design

import privatelr.numerics.rows.dense_rows as rows_module
from privatelr.design import level_codes, plan_design, read_design, read_values
from privatelr.formula import evaluate, parse_formula
from privatelr.numerics import threads
from privatelr.numerics.rows import DenseRows
from privatelr.sources import as_batch, declare_schema

N = 1000
RNG = np.random.default_rng(2)
FRAME = pd.DataFrame(
    {
        "y": RNG.integers(0, 2, N),
        "x": RNG.uniform(-2, 3, N),
        "z": RNG.uniform(0, 1, N).astype(np.float32),
        "k": RNG.integers(0, 9, N),
        "g": RNG.choice(["a", "b", "c"], N),
        "h": pd.Categorical(RNG.choice(["u", "v"], N)),
        "t": RNG.random(N) < 0.5,
    }
)
FRAME.loc[5, "x"], FRAME.loc[7, "g"], FRAME.loc[11, "x"] = np.nan, "other", np.inf
SCHEMA = {
    "bounds": {"x": (-1, 2), "z": (0, 1), "k": (0, 8)},
    "levels": {"g": ["a", "b", "c"], "h": ["u", "v"], "y": [0, 1]},
}
FORMULAS = [
    "y ~ .",
    "y ~ x + z + k",
    "y ~ x * g + h:z - 1",
    "t ~ log(z + 1):x + I(x > 0):k + C(g, contr.helmert) + C(h, contr.sum):x",
    "y ~ g:h:x + 0",
    "y ~ 0 + C(g, contr.poly) * h * t",
    "y ~ g:t + x:z + C(g, contr.treatment('b')):h",
    "y ~ (g + h + t)^3:x",
]


def plan(text):
    return plan_design(
        parse_formula(text, list(FRAME.columns)), as_batch(FRAME), declare_schema(**SCHEMA)
    )


@pytest.mark.parametrize("text", FORMULAS)
def test_pieces_make_the_same_rows(monkeypatch, text):
    spec = plan(text)
    whole = read_design(spec, as_batch(FRAME), DenseRows)
    monkeypatch.setattr(rows_module, "_PIECE", 64)
    for limit in (1, 3):
        with threads(limit):
            pieces = read_design(spec, as_batch(FRAME), DenseRows)
        np.testing.assert_array_equal(pieces.x, whole.x)
        np.testing.assert_array_equal(pieces.y, whole.y)
        assert pieces.radius == whole.radius
        assert not pieces.x.flags.writeable
    assert whole.y[5] == 0 or "x" not in text.split("~")[1]


@pytest.mark.parametrize("text", FORMULAS)
def test_recipes_are_what_formulaic_makes(text):
    """formulaic, which codes the terms by itself, gives the same columns by the same names."""
    spec = plan(text)
    values, _ = read_values(spec.variables, as_batch(FRAME), spec.formula.variables)
    raw, _ = raw_design(spec, values, N)
    factors = factor_frame(spec, values)
    names = [
        f"C({key}, {factor.contrast})" if factor.contrast else key
        for key, factor in zip(factors, spec.factors, strict=True)
    ]
    terms = [":".join(names[index] for index in term) or "1" for term in spec.formula.terms]
    text = " + ".join(terms if () in spec.formula.terms else ["0", *terms])
    expected = formulaic.model_matrix(text, factors, na_action="ignore", context={})
    np.testing.assert_allclose(raw, expected, rtol=1e-14, atol=0)
    assert len(spec.columns.names) == len(expected.columns)


def factor_frame(spec, values):
    """The factors by numbered names, as formulaic reads them."""
    made = {}
    for index, factor in enumerate(spec.factors):
        if factor.is_categorical:
            column = values[factor.source] if factor.source else evaluate(factor.expression, values)
            codes = np.maximum(level_codes(column, factor.levels), 0)
            made[f"f{index}"] = pd.Categorical.from_codes(codes, list(factor.levels))
        else:
            number = np.broadcast_to(evaluate(factor.expression, values), (N,))
            made[f"f{index}"] = np.clip(number, *factor.interval)
    return pd.DataFrame(made, index=range(N))


def test_the_users_frame_is_neither_changed_nor_kept():
    before = FRAME.copy()
    rows = read_design(plan("y ~ ."), as_batch(FRAME), DenseRows)
    pd.testing.assert_frame_equal(FRAME, before)
    assert not np.shares_memory(rows.x, FRAME["x"].to_numpy())
