"""The study of plain errors in ten folds: its parts, a part of Adult, and all of it by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from studies.svm_folds import (
    KDD_RESPONSE,
    LARGEST_GAP,
    TABLES,
    Row,
    fold_errors,
    independent_minimum,
    kdd_design,
    read_adult,
    study,
    unit_rows,
)
from studies.tables import HOME, data_home

from privatelr.numerics import Huber, Objective, value_and_gradient
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.solve import Newton

needs_data = pytest.mark.skipif(data_home() is None, reason=f"{HOME} names no folder of tables")


def connections(services):
    """A frame with the columns of KDDCup99, 3 protocols, 11 flags and as many services."""
    index = np.arange(66)
    numbers = {column: index * 0.5 for column in range(41)}
    factors = {
        1: [f"protocol{i % 3}" for i in index],
        2: [f"service{i % services}" for i in index],
        3: [f"flag{i % 11}" for i in index],
    }
    labels = np.where(index % 2, "normal.", "smurf.")
    return pd.DataFrame({**numbers, 19: 0, **factors, KDD_RESPONSE: labels}).sort_index(axis=1)


def test_connections_have_the_published_columns():
    x, y = kdd_design(connections(66), 60, 0)
    assert x.shape == (60, TABLES["kdd"].columns)
    assert set(y) == {-1.0, 1.0}
    # as in the other file of the competition, which lacks a service
    assert kdd_design(connections(65), 60, 0)[0].shape[1] == TABLES["kdd"].columns - 1


def test_rows_are_coded_and_of_length_one():
    frame = pd.DataFrame({"number": [0, 5, 20], "flag": [0, 0, 0], "factor": ["a", "b", "a"]})
    raw = np.array([[1, -1, -1, 1, 0], [1, -0.5, -1, 0, 1], [1, 1, -1, 1, 0]])
    np.testing.assert_allclose(unit_rows(frame), raw / np.linalg.norm(raw, axis=1)[:, None])


def test_two_solvers_find_one_minimum():
    rng = np.random.default_rng(0)
    x = unit_rows(pd.DataFrame(rng.standard_normal((400, 6))))
    y = np.where(rng.random(400) < 0.3, -1.0, np.sign(x[:, 1]))
    rows = DenseRows(x, y, bound=1.0, intercept=None)
    objective = Objective(rows, Huber(0.5), 1e-2, np.zeros(rows.d))
    found = value_and_gradient(objective, Newton()(objective).w)[0]
    assert abs(found - independent_minimum(rows.x, rows.y, 1e-2)) < LARGEST_GAP
    # as would not be found of another function
    assert abs(found - independent_minimum(rows.x, rows.y, 1.001e-2)) > LARGEST_GAP
    other = Objective(rows, Huber(0.499), 1e-2, np.zeros(rows.d))
    value = value_and_gradient(other, Newton()(other).w)[0]
    assert abs(value - independent_minimum(rows.x, rows.y, 1e-2)) > LARGEST_GAP


def test_what_is_off_is_said():
    errors = np.array([0.168, 0.172, 0.176, 0.170])
    row = Row("adult", (45222, 105), errors, 1e-12)
    assert row.findings == []
    assert "agrees" in str(row)
    wrong = {
        "published": replace(row, errors=errors + 0.02),
        "measured": replace(row, errors=errors - 0.02),
        "104 columns": replace(row, shape=(45222, 104)),
        "solver": replace(row, gap=1e-7),
        "nan": replace(row, gap=float("nan")),
    }
    for words, other in wrong.items():
        assert any(words in finding for finding in other.findings)
        assert "agrees" not in str(other)


@needs_data
def test_a_part_of_adult_errs_as_published():
    x, y = read_adult(data_home(), 0)
    assert (len(y), np.count_nonzero(y > 0)) == (45222, 11208)  # labels of one file have a dot
    chosen = np.random.default_rng(0).permutation(len(y))[:8000]
    part, lambda_ = (x[chosen], y[chosen]), TABLES["adult"].lambda_
    errors, gap = fold_errors(*part, lambda_, 5, 0)
    assert Row("adult", x.shape, errors, gap).findings == []
    # as would not do a penalty of ten times the size
    assert Row("adult", x.shape, *fold_errors(*part, 10 * lambda_, 5, 0)).findings


@pytest.mark.full
@needs_data
@pytest.mark.parametrize("data", TABLES)
def test_the_errors_are_as_published(data, monkeypatch):
    assert study(data, data_home()).findings == []
    monkeypatch.setitem(TABLES, data, replace(TABLES[data], lambda_=10 * TABLES[data].lambda_))
    assert study(data, data_home()).findings
