"""Ways of calling: a formula and data, data alone, or the response and the covariates."""

from array import array
from collections import deque

import numpy as np
import pandas as pd
import pytest

from privatelr import dplr
from privatelr.errors import FormulaError, SchemaError
from privatelr.formula import parse_formula
from privatelr.sources import as_batch, read_source


def as_frame(data):
    return as_batch(data).frame


X = pd.DataFrame({"a": [1.0, 2, 3], "b": [3.0, 4, 5]}, index=[7, 8, 9])
Y = [0, 1, 0]


def frame_of(batch):
    """The columns of a batch by position, with their types."""
    return pd.DataFrame(
        {name: pd.Series(batch[name]).reset_index(drop=True) for name in batch.names}
    )


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
        ((Y, np.array([[1, "a"], [3, "b"], [5, "c"]], dtype=object), None), "y", "X1 X2"),
        ((Y, np.arange(3.0), None), "y", "X1"),
        ((Y, pd.Series([1.0, 2, 3], name="age"), None), "y", "age"),
        ((Y, {"a": [1, 2, 3]}, None), "y", "a"),
        ((pd.DataFrame({1: Y, 2: Y}), None, 0), "1", "2"),
    ],
)
def test_dispatch(call, response, covariates):
    text, frame = read_source(*call)
    formula = parse_formula(text, list(frame.names))
    assert formula.response.bare() == response
    assert list(formula.covariates) == covariates.split(" ")
    assert len(frame) == 3


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (np.array([0, 1, 0]), "int64"),
        (np.array([0.0, 1, 0]), "float64"),
        (np.array([True, False, True]), "bool"),
        (pd.Categorical(list("uvu")), "category"),
        (pd.Series(pd.Categorical(list("uvu"))), "category"),
        (pd.Series([0, 1, None], dtype="Int64"), "Int64"),
        (pd.Series([True, None, False], dtype="boolean"), "boolean"),
        (pd.Index(Y), "int64"),
    ],
)
def test_the_response_keeps_its_type_and_goes_by_position(y, kind):
    frame = frame_of(read_source(y, X, None)[1])
    assert str(frame["y"].dtype) == kind
    # the index of y is not that of X, and rows are matched by position
    assert pd.Series(frame["y"].array).equals(pd.Series(pd.Series(y).array))
    assert list(X.columns) == ["a", "b"]


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (range(3), "int64"),
        (array("d", Y), "float64"),
        (np.ma.array(Y, mask=[0, 1, 0]), "Int64"),
        (np.ma.array([True, False, True], mask=[0, 1, 0]), "boolean"),
        (Y, "object"),
        (tuple(Y), "object"),
        (deque(Y), "object"),
        (["a", "b", "a"], "object"),
        (np.array(["a", "b", "a"], dtype=object), "object"),
        (np.array([pd.Timestamp("2020")] * 3, dtype=object), "object"),
        (pd.Series(["a", "b", "a"], dtype=object), "object"),
        (pd.Index(["a", "b", "a"], dtype=object), "object"),
        (np.array(["a", "b", "\ud800"]), "string"),
    ],
)
def test_the_type_of_a_response_is_that_of_its_container(y, kind):
    frame = frame_of(read_source(y, X, None)[1])
    assert str(frame["y"].dtype) == kind
    masked = np.ma.getmaskarray(y) if isinstance(y, np.ma.MaskedArray) else np.zeros(3, dtype=bool)
    assert frame["y"].isna().tolist() == masked.tolist()
    assert frame["y"][~masked].tolist() == [
        v for v, gone in zip(y, masked, strict=True) if not gone
    ]


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
        ((Y, [[1], [1, 2], [3]], None), SchemaError, "X of type list"),
        ((Y, [[1, 2], [1, 2], [3, 4]], None), SchemaError, "numpy.asarray(X, dtype=float)"),
        ((Y, (1.0, 2.0, 3.0), None), SchemaError, "X of type tuple"),
        (({1, 2, 3}, X, None), SchemaError, "y of type set"),
        ((iter(Y), X, None), SchemaError, "y of type list_iterator"),
        (({"a": Y, "b": {0: 1, 1: 2, 2: 3}}, None, None), SchemaError, "data['b'] of type dict"),
        (({"a": Y, "b": np.zeros((3, 1))}, None, None), SchemaError, "one value per record"),
        (({"a": Y, "b": np.zeros(2)}, None, None), SchemaError, "equal length"),
        (({1: Y, "1": Y}, None, None), SchemaError, "two columns named '1'"),
        ((Y, np.zeros((3, 1, 1)), None), SchemaError, "two dimensions"),
        ((np.zeros(3), None, None), SchemaError, "two dimensions"),
        ((3, None, None), SchemaError, "int"),
        (("a ~ b", "file.csv", None), SchemaError, "of paths"),
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


def objects(cells):
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def kinds(frame):
    return [str(dtype) for dtype in frame.dtypes]


TIMES = [pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-02")]


@pytest.mark.parametrize("values", [[1, 2], ["a", "b"], [True, None], TIMES, [[1], [2]]], ids=str)
def test_what_has_no_type_holds_objects(values):
    cells = objects(values)
    several = {
        "list": values,
        "tuple": tuple(values),
        "array": cells,
        "series": pd.Series(cells, dtype=object),
        "index": pd.Index(cells, dtype=object),
        "extension": pd.Series(cells, dtype=object).array,
    }
    frame = as_frame(several)
    assert kinds(frame) == ["object"] * 6
    assert all(type(frame[name][0]) is type(values[0]) for name in several)
    table = as_frame(np.stack([cells, cells], axis=1))
    assert kinds(table) == ["object"] * 2
    both = frame_of(read_source(cells, pd.DataFrame({"x": [1.0, 2.0]}, index=[5, 5]), None)[1])
    assert kinds(both) == ["float64", "object"]


def test_what_has_a_type_keeps_it():
    several = {
        "whole": np.arange(2, dtype=np.int8),
        "nullable": pd.array([1, None], dtype="Int64"),
        "text": np.array(["a", "b"]),
        "level": pd.Categorical(["a", "b"]),
        "date": np.array(["2020", "2021"], dtype="M8[Y]"),
        "far date": np.array(["2020", "99999999999"], dtype="M8[Y]"),
        "bytes": np.array([b"a", b"b"]),
        "constant": 3,
        "word": "three",
    }
    expected = ["int8", "Int64", "string", "category", "datetime64[s]", "datetime64[s]"]
    frame = as_frame(several)
    assert kinds(frame) == [*expected, "object", "object", "object"]
    assert frame["word"].tolist() == ["three"] * 2


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        ((Y, np.eye(3)), r'levels={"y": \[first, second\]} or bounds={"y": \(0, 1\)}, or pass'),
        (
            ("a ~ b", {"a": np.array(Y) == 1, "b": Y}),
            r'levels={"b": \[...\]} or bounds={"b": \(lo, hi\)}',
        ),
        (
            ("a ~ log(b)", {"a": np.array(Y) == 1, "b": Y}),
            r'computes with .b., .* bounds={"b": \(lo, hi\)}',
        ),
        (
            ("a > 0 ~ b", {"a": Y, "b": np.arange(3)}),
            r"computes with .a., .*asarray\(x, dtype=float",
        ),
    ],
)
@pytest.mark.parametrize("kind", [list, objects], ids=["list", "objects"])
def test_an_undeclared_list_is_refused_whatever_it_holds(call, remedy, kind):
    for cells in ([0, 1, 0], ["a", "b", "a"], [None] * 3, [TIMES[0]] * 3):
        first, second = (kind(cells) if given is Y else given for given in call)
        if isinstance(second, dict):
            second = {name: kind(cells) if v is Y else v for name, v in second.items()}
        with pytest.raises((SchemaError, FormulaError), match=remedy):
            dplr(first, second)


def test_a_declared_list_is_read_by_its_declaration():
    numbers = np.eye(3)
    factor = dplr(["no", "yes", "no"], numbers, levels={"y": ["no", "yes"]})
    assert factor.spec.response.classes == ("no", "yes")
    binary = dplr([True, 0, None], numbers, bounds={"y": (0, 1)})
    assert binary.spec.response.kind == "binary"
    compared = dplr("y == 1 ~ x", {"y": Y, "x": [1, 2, "three"]}, bounds={"x": (0, 9), "y": (0, 1)})
    assert compared.spec.response.classes == (False, True)
    assert compared.predict({"x": [1, "three", "2"]}).isna().tolist() == [False, True, False]
