"""Formulas of many columns are planned without zeros, and as those of few are."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from privatelr import dplr
from privatelr.design import plan_design
from privatelr.design import terms as terms_module
from privatelr.formula import parse_formula
from privatelr.sources import as_batch, declare_schema

LEVELS = {"arm": ["a", "b", "c"], "place": [f"p{number}" for number in range(5)], "ill": [0, 1]}
BOUNDS = {"dose": (-1, 3), "age": (20, 80)}
FRAME = pd.DataFrame(
    {"ill": [0, 1], "arm": ["a", "b"], "place": ["p1", "p3"], "dose": [0.5, 2.0], "age": [30, 40]}
)
FORMULAS = [
    "ill ~ arm + dose",
    "ill ~ arm * dose + place:age",
    "ill ~ arm:place - 1",
    "ill ~ place / dose",
    "ill ~ dose:arm + C(place, contr.sum)",
    "ill ~ C(place, contr.poly) * dose + I(dose^2)",
    "ill ~ C(arm, contr.helmert):dose:age + log(age)",
    "ill ~ dose - 1",
    "ill ~ 1",
]


def plan(formula, frame=FRAME, **schema):
    declared = declare_schema(**(schema or {"bounds": BOUNDS, "levels": LEVELS}))
    return plan_design(parse_formula(formula, list(frame)), as_batch(frame), declared)


def dense(table):
    return table.toarray() if sparse.issparse(table) else table


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_plan_without_zeros_is_the_same_plan(monkeypatch, formula):
    few = plan(formula)
    monkeypatch.setattr(terms_module, "WIDE", 0)
    monkeypatch.delattr(np, "kron")  # products of tables with all their zeros
    many = plan(formula)
    assert many.columns.names == few.columns.names
    assert many.columns.terms == few.columns.terms
    assert many.blocks == few.blocks
    for part in ("parent", "centre", "scale"):
        np.testing.assert_array_equal(getattr(many.columns, part), getattr(few.columns, part))
    for one, other in zip(many.columns.terms, few.columns.terms, strict=True):
        np.testing.assert_array_equal(dense(one.grid), dense(other.grid))
    assert sparse.issparse(many.user_map())
    np.testing.assert_array_equal(many.user_rows(), few.user_rows())


def test_a_factor_of_many_levels_makes_no_square_of_them():
    """Three thousand levels squared are 72 megabytes of doubles."""
    levels = [f"place {number}" for number in range(3000)]
    frame = pd.DataFrame({"y": [0, 1], "place": ["place 3", "place 5"], "dose": [0.1, 0.2]})
    tracemalloc.start()
    try:
        fit = dplr(
            "y ~ place + dose",
            frame,
            eps=1,
            delta=1e-7,
            bounds={"dose": (0, 1)},
            levels={"y": [0, 1], "place": levels},
        )
        assert fit.coef.index[-1] == "dose"
        assert str(fit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 36e6
