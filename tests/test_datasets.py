"""Bundled tables and their public schemas."""

import pandas as pd
import pytest

from privatelr import ArgumentError, datasets, dplr, load_dataset, load_schema

ROWS = {"anes96": (944, 10), "breast_cancer": (569, 11), "iris": (150, 5)}
CALLS = {
    "anes96": "vote ~ .",
    "breast_cancer": "diagnosis ~ .",
    "iris": "Species != 'setosa' ~ .",
}


def test_names():
    assert datasets.list_datasets() == sorted(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_table_and_schema_agree(name):
    table, schema = load_dataset(name), load_schema(name)
    assert table.shape == ROWS[name]
    assert set(schema) == {"bounds", "levels"}
    assert {*schema["bounds"], *schema["levels"]} == set(table.columns)
    for column, (low, high) in schema["bounds"].items():
        assert table[column].between(low, high).all()
        # a bound that is the exact range would have been read off the data, unless it is a scale
        integral = pd.api.types.is_integer_dtype(table[column])
        assert integral or (table[column].min() > low or table[column].max() < high)
    for column, levels in schema["levels"].items():
        assert list(table[column].cat.categories) == levels
        assert table[column].notna().all()


@pytest.mark.parametrize("name", ROWS)
def test_a_fit_with_the_schema_is_bounded(name):
    fit = dplr(CALLS[name], load_dataset(name), **load_schema(name))
    assert fit.spec.bound_source == "declared bounds"


@pytest.mark.parametrize("load", [load_dataset, load_schema])
def test_an_unknown_name_lists_the_known(load):
    with pytest.raises(ArgumentError, match="'anes96', 'breast_cancer', 'iris'"):
        load("titanic")


def test_r_names():
    assert list(load_dataset("iris").columns)[:2] == ["Sepal.Length", "Sepal.Width"]
