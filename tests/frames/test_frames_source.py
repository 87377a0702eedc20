"""Ways of calling: a formula and data, data alone, or the response and the covariates."""

import numpy as np
import pandas as pd
import pytest

from privatelr.errors import FormulaError, SchemaError
from privatelr.frames.formula import parse_formula
from privatelr.frames.source import as_frame, read_source

X = pd.DataFrame({"a": [1.0, 2, 3], "b": [3.0, 4, 5]}, index=[7, 8, 9])
Y = [0, 1, 0]


@pytest.mark.parametrize(
    ("call", "response", "covariates"),
    [
        (("a ~ b", X, None), "a", "b"),
        (("a ~ b", {"a": Y, "b": [1, 2, 3]}, None), "a", "b"),
        ((X, None, None), "b", "a"),
        ((X, None, "a"), "a", "b"),
        ((X, None, 0), "a", "b"),
        ((X, None, -2), "a", "b"),
        ((X, None, np.int64(1)), "b", "a"),
        (({"u v": Y, "w": Y}, None, "u v"), "u v", "w"),
        ((np.eye(3), None, None), "X3", "X1 X2"),
        ((np.eye(3), None, 0), "X1", "X2 X3"),
        ((np.eye(3), None, -2), "X2", "X1 X3"),
        ((Y, X, None), "y", "a b"),
        (((0, 1, 0), X, None), "y", "a b"),
        ((np.array(Y)[:, None], X, None), "y", "a b"),
        ((pd.Series(Y, name="out"), X, None), "out", "a b"),
        ((pd.Series(Y, name="a"), X, None), "a_", "a b"),
        ((Y, X.rename(columns={"a": "y"}), None), "y_", "y b"),
        ((Y, X.set_axis(["y", "y_"], axis=1), None), "y__", "y y_"),
        ((pd.Series(Y, name="self"), X, None), "self", "a b"),
        ((pd.DataFrame({"name": Y}), X, None), "name", "a b"),
        ((Y, np.eye(3), None), "y", "X1 X2 X3"),
        ((Y, [[1, 2], [3, 4], [5, 6]], None), "y", "X1 X2"),
        ((Y, np.arange(3.0), None), "y", "X1"),
        ((Y, pd.Series([1.0, 2, 3], name="age"), None), "y", "age"),
        ((Y, {"a": [1, 2, 3]}, None), "y", "a"),
        ((pd.DataFrame({1: Y, 2: Y}), None, 0), "1", "2"),
    ],
)
def test_dispatch(call, response, covariates):
    text, frame = read_source(*call)
    formula = parse_formula(text, list(frame.columns))
    assert formula.response.bare() == response
    assert list(formula.covariates) == covariates.split(" ")
    assert len(frame) == 3


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (Y, "int64"),
        (np.array([0.0, 1, 0]), "float64"),
        ([True, False, True], "bool"),
        (pd.Categorical(list("uvu")), "category"),
        (pd.Series(pd.Categorical(list("uvu"))), "category"),
        (pd.Series([0, 1, None], dtype="Int64"), "Int64"),
        (pd.Series([True, None, False], dtype="boolean"), "boolean"),
        (pd.Index(Y), "int64"),
    ],
)
def test_the_response_keeps_its_type_and_goes_by_position(y, kind):
    _, frame = read_source(y, X, None)
    assert str(frame["y"].dtype) == kind
    # the index of y is not that of X, and rows are matched by position
    assert pd.Series(frame["y"].array).equals(pd.Series(pd.Series(y).array))
    assert list(X.columns) == ["a", "b"]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        ((None, None, None), FormulaError, "formula=None"),
        (("a ~ b", None, None), FormulaError, "data=None"),
        (("a ~ b", X, "a"), FormulaError, "target='a'"),
        ((Y, X, "a"), FormulaError, "target='a'"),
        ((X, None, "zz"), FormulaError, "'a', 'b'"),
        ((X, None, 2), FormulaError, "from -2 to 1"),
        ((X, None, -3), FormulaError, "from -2 to 1"),
        ((X, None, True), FormulaError, "target=True"),
        ((X, None, 0.0), FormulaError, "target=0.0"),
        ((X.iloc[:0], None, None), SchemaError, "empty"),
        (("a ~ b", X.iloc[:0], None), SchemaError, "empty"),
        ((pd.DataFrame(index=[0]), None, None), (FormulaError, SchemaError), "data"),
        (([0, 1], X, None), SchemaError, "2 values"),
        ((1.0, X, None), FormulaError, "formula of type float"),
        (({"a": 1}, X, None), FormulaError, "formula of type dict"),
        ((np.zeros((3, 2)), X, None), FormulaError, "one response value"),
        ((Y, [[1], [1, 2], [3]], None), SchemaError, "X"),
        ((Y, np.zeros((3, 1, 1)), None), SchemaError, "two dimensions"),
        ((np.zeros(3), None, None), SchemaError, "two dimensions"),
        ((3, None, None), SchemaError, "int"),
        (("a ~ b", "file.csv", None), SchemaError, "str"),
        ((pd.Series(Y), None, None), SchemaError, "Series"),
        (({"a": 1, "b": 2}, None, None), SchemaError, "equal length"),
        (({"a": [1], "b": [1, 2]}, None, None), SchemaError, "equal length"),
        ((X.set_axis(["a", "a"], axis=1), None, None), SchemaError, "'a'"),
        ((X.set_axis([1, "1"], axis=1), None, None), SchemaError, "'1'"),
        ((pd.Series(Y, name="a`b"), X, None), SchemaError, "backtick"),
        ((X.set_axis(["a", ""], axis=1), None, None), SchemaError, "name"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(call, error, says):
    with pytest.raises(error) as caught:
        read_source(*call)
    assert says in str(caught.value)


def test_a_frame_is_neither_copied_nor_changed():
    assert as_frame(X) is X
    numbered = pd.DataFrame({0: [1.0], 1: [2.0]})
    assert list(as_frame(numbered).columns) == ["0", "1"]
    assert list(numbered.columns) == [0, 1]
    read_source(Y, X, None)
    assert list(X.columns) == ["a", "b"]


def test_columns_of_a_mapping_are_matched_by_position():
    # aligning on an index would change the number of records, which is public
    frame = as_frame({"a": pd.Series([1, 2], index=[0, 1]), "b": pd.Series([3, 4], index=[1, 2])})
    assert frame.to_numpy().tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_frames(library):
    module = pytest.importorskip(library)
    build = module.DataFrame if library == "polars" else module.table
    text, frame = read_source(build({"a": [1.0, 2.0], "y": [0, 1]}), None, None)
    assert text == "`y` ~ ."
    assert isinstance(frame, pd.DataFrame)
