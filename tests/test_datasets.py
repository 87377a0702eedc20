"""Bundled tables and their public schemas."""

from pathlib import Path

import pandas as pd
import pytest

from privatelr import ArgumentError, SchemaError, datasets, dplr, load_dataset, load_schema
from privatelr.sources import declare_schema

FETCHED = ("adult", "cod_rna", "kddcup99")
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


@pytest.mark.parametrize("name", FETCHED)
def test_a_table_that_is_not_bundled_names_its_function(name):
    with pytest.raises(ArgumentError, match=rf"privatelr\.datasets\.fetch_{name}\(\)"):
        load_dataset(name)
    assert callable(getattr(datasets, f"fetch_{name}"))
    assert declare_schema(**load_schema(name)).bounds


# -- a file of one's own ---------------------------------------------------------------------

OWN = """
title = "a clinic"
row_norm = 1.5
intercept_scale = 1

[bounds]
age = [18, 90.5]

[levels]
smoker = ["no", "yes"]
grade = [0, 1]
"""


@pytest.mark.parametrize("kind", [str, Path])
def test_a_file_is_a_schema(kind, tmp_path):
    path = tmp_path / "clinic.toml"
    path.write_text(OWN, encoding="utf-8-sig")
    schema = load_schema(kind(path))
    assert schema == {
        "bounds": {"age": (18, 90.5)},
        "levels": {"smoker": ["no", "yes"], "grade": [0, 1]},
        "row_norm": 1.5,
        "intercept_scale": 1,
    }
    assert declare_schema(**schema).row_norm == 1.5


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("age = ", "is not TOML: Invalid value (at end of document)"),
        ("a = [" * 5000, "is not TOML"),
        ("\xff", "is not UTF-8"),
        ("[bound]\nage = [18, 90]", "'bound' is none of what a schema takes: 'bounds', 'levels'"),
        ("bounds = 3", "bounds takes a table, which begins with [bounds]"),
        ("levels = ['no', 'yes']", "levels takes a table, which begins with [levels]"),
        ("[bounds]\nage = 18", "bounds['age']=18"),
        ("[bounds]\nage = [90, 18]", "lo < hi"),
        ("[bounds]\nage = [18, nan]", "finite"),
        ("[bounds.age]\nlo = 18", "bounds['age']"),
        ("[levels]\nsmoker = 'no'", "levels['smoker']='no'"),
        ("[levels]\nday = [2024-01-01, 2024-01-02]", "levels['day']"),
        ("[bounds]\nage = [18, 90]\n[levels]\nage = ['a', 'b']", "both bounds and levels"),
        ("row_norm = 'long'", "row_norm='long'"),
        ("intercept_scale = true", "intercept_scale=True"),
    ],
)
def test_a_file_that_is_no_schema_is_one_sentence(content, words, tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(SchemaError) as refusal:
        load_schema(path)
    assert words in str(refusal.value)
    assert repr(str(path)) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["no.toml", ".toml", Path("folder.toml")])
def test_a_file_that_is_not_there(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(OSError, match=str(name)):
        load_schema(name)
    with pytest.raises(ArgumentError, match="takes a text or a path"):
        load_schema(3)
