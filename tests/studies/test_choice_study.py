"""The study of choices: what it compares pays the same, and its columns are what they say."""

import numpy as np
import pandas as pd
import pytest
from studies import choice as study
from studies.scale import split
from studies.scale_tables import Table

from privatelr import dplr

BOUNDS = {name: (0.0, 1.0) for name in "abcd"}


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(0, 1, (2000, 4)), columns=list("abcd"))
    frame["positive"] = frame["d"] + rng.normal(0, 0.2, 2000) > 0.5
    return Table("choice", 2000, lambda home: frame, BOUNDS)


def test_few_columns_are_the_first_ones(table):
    assert study.formulas(table) == {"few": "positive ~ a + b + c", "all": "positive ~ ."}


@pytest.mark.filterwarnings("ignore:seed")
def test_where_one_formula_is_better_it_is_chosen(table):
    parts = split(table.read(None), "made up", 0)
    few, every, chosen, larger, lost = study.one_run(table, parts, 2.0)
    assert few < 0.6 < 0.8 < every
    assert (larger, lost) == (1.0, 0.0)
    assert 0.8 < chosen <= 1


def test_areas_are_exact(table):
    learn, test = split(table.read(None), "made up", 0)
    fit = dplr("positive ~ d", learn, eps=2.0, bounds=BOUNDS)
    high, low = (test.loc[test["positive"] == side, "d"].to_numpy() for side in (True, False))
    assert study.area(fit, table, test) == pytest.approx(np.mean(high[:, None] > low))
