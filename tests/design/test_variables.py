"""The public schema, the kinds of variables that follow from it, and reading a column."""

import math

import numpy as np
import pandas as pd
import pytest

from privatelr.design import Variable, describe_variables, level_codes, read_variable
from privatelr.design.variables import _codes
from privatelr.errors import SchemaError
from privatelr.sources import Schema, as_batch, declare_schema


def kind(series, **schema):
    return describe_variables(
        as_batch(pd.DataFrame({"v": series})), ["v"], declare_schema(**schema)
    )["v"]


# ---- declarations


@pytest.mark.parametrize(
    ("argument", "value", "says"),
    [
        ("bounds", {"age": (90, 18)}, "bounds['age']=(90, 18)"),
        ("bounds", {"age": (18, 18)}, "lo < hi"),
        ("bounds", {"age": (18,)}, "bounds['age']"),
        ("bounds", {"age": (1, 2, 3)}, "bounds['age']"),
        ("bounds", {"age": 5}, "bounds['age']=5"),
        ("bounds", {"age": "ab"}, "bounds['age']='ab'"),
        ("bounds", {"age": ("a", "b")}, "bounds['age']"),
        ("bounds", {"age": (0, math.nan)}, "finite"),
        ("bounds", {"age": (0, math.inf)}, "finite"),
        ("bounds", {"age": (None, 1)}, "finite"),
        ("bounds", {"age": (False, True)}, "finite"),
        ("bounds", {"age": (0, 1j)}, "finite"),
        ("bounds", [("age", (0, 1))], "bounds="),
        ("bounds", (0, 1), "bounds=(0, 1)"),
        ("levels", {"s": "ab"}, "levels['s']='ab'"),
        ("levels", {"s": ["a"]}, "two or more"),
        ("levels", {"s": []}, "two or more"),
        ("levels", {"s": ["a", "a"]}, "different"),
        ("levels", {"s": ["a", None]}, "levels['s']"),
        ("levels", {"s": ["a", math.nan]}, "levels['s']"),
        ("levels", {"s": [["a"], ["b"]]}, "levels['s']"),
        ("levels", {"s": 3}, "levels['s']=3"),
        ("levels", ["a", "b"], "levels="),
        ("row_norm", 0, "row_norm=0"),
        ("row_norm", -1, "row_norm=-1"),
        ("row_norm", math.inf, "row_norm=inf"),
        ("row_norm", math.nan, "row_norm=nan"),
        ("row_norm", "1", "row_norm='1'"),
        ("row_norm", True, "row_norm=True"),
        ("intercept_scale", 0, "intercept_scale=0"),
        ("intercept_scale", "0.5", "intercept_scale='0.5'"),
    ],
)
def test_a_wrong_declaration_is_named_with_what_it_takes(argument, value, says):
    with pytest.raises(SchemaError) as caught:
        declare_schema(**{argument: value})
    assert says in str(caught.value)
    assert "takes" in str(caught.value)


def test_a_variable_has_bounds_or_levels():
    with pytest.raises(SchemaError, match="both bounds and levels"):
        declare_schema(bounds={"v": (0, 1)}, levels={"v": ["a", "b"]})


def test_declarations_are_kept_in_plain_types():
    schema = declare_schema(
        {"a": np.array([0, 1])}, {"s": np.array([1, 2]), "t": (c for c in "uv")}, row_norm=2
    )
    assert schema == Schema({"a": (0.0, 1.0)}, {"s": (1, 2), "t": ("u", "v")}, 2.0, None)
    assert {type(level) for level in schema.levels["s"]} == {int}


@pytest.mark.parametrize("argument", ["bounds", "levels"])
def test_a_declaration_for_an_unknown_column_is_refused(argument):
    declared = {"bounds": {"agee": (0, 1)}, "levels": {"agee": ["a", "b"]}}[argument]
    frame = pd.DataFrame({"age": [1.0]})
    with pytest.raises(SchemaError, match=r"agee.*'age'"):
        describe_variables(as_batch(frame), ["age"], declare_schema(**{argument: declared}))


# ---- kinds follow from types


@pytest.mark.parametrize(
    ("series", "schema", "expected"),
    [
        (pd.Series([1, 2]), {}, "numeric"),
        (pd.Series([1.5], dtype="float32"), {}, "numeric"),
        (pd.Series([1], dtype="uint8"), {}, "numeric"),
        (pd.Series([1, None], dtype="Int64"), {}, "numeric"),
        (pd.Series([1, None], dtype="Float64"), {}, "numeric"),
        (pd.Series([True, False]), {}, "logical"),
        (pd.Series([True, None], dtype="boolean"), {}, "logical"),
        (pd.Series(["a", "b"]), {}, "text"),
        (pd.Series(["a", None], dtype="string"), {}, "text"),
        (pd.Series(["a", 1], dtype=object), {}, "text"),
        (pd.Series([True, False], dtype=object), {}, "text"),
        (pd.Series(["a", "b"], dtype="category"), {}, "categorical"),
        (pd.Series([True, False], dtype="category"), {}, "categorical"),
        (pd.Series(["a", "b"]), {"levels": {"v": ["a", "b"]}}, "categorical"),
        (pd.Series([1, 2]), {"levels": {"v": [1, 2]}}, "categorical"),
        (pd.Series(["1", "2"], dtype=object), {"bounds": {"v": (0, 3)}}, "numeric"),
        (pd.Series([True, False]), {"bounds": {"v": (0, 1)}}, "numeric"),
    ],
)
def test_the_kind_follows_from_the_type(series, schema, expected):
    assert kind(series, **schema).kind == expected
    # one more record cannot change it
    assert kind(series.iloc[:1], **schema) == kind(series, **schema)


def test_levels_follow_from_the_type_or_the_declaration():
    dtype = pd.CategoricalDtype(["b", "a", "never seen"])
    assert kind(pd.Series(["a", "b"], dtype=dtype)).levels == ("b", "a", "never seen")
    declared = kind(pd.Series(["a", "b"], dtype=dtype), levels={"v": ["a", "c"]})
    assert declared.levels == ("a", "c")
    assert kind(pd.Series([True])).levels == (False, True)


@pytest.mark.parametrize("schema", [{}, {"bounds": {"v": (0, 1)}}])
@pytest.mark.parametrize(
    "series",
    [
        pd.Series(pd.to_datetime(["2020-01-01"])),
        pd.Series(pd.to_datetime(["2020-01-01"]).tz_localize("UTC")),
        pd.Series(pd.to_timedelta([1], unit="D")),
        pd.Series(pd.period_range("2020", periods=1, freq="D")),
        pd.Series([1j]),
        pd.Series(pd.interval_range(0, 1)),
    ],
    ids=lambda series: str(series.dtype),
)
def test_types_that_are_neither_numbers_nor_levels_are_refused(series, schema):
    # with bounds they would become rows of zeros without a word
    with pytest.raises(SchemaError, match="'v'") as caught:
        kind(series, **schema)
    assert str(series.dtype) in str(caught.value)


def test_bounds_on_a_categorical_column_are_refused():
    with pytest.raises(SchemaError, match="of type category; drop the bounds"):
        kind(pd.Series(["a"], dtype="category"), bounds={"v": (0, 1)})


@pytest.mark.parametrize(
    ("series", "levels"),
    [
        (pd.Series([1, 2]), ["1", "2"]),
        (pd.Series(["1", "2"], dtype="string"), [1, 2]),
        (pd.Series([True]), ["T", "F"]),
    ],
)
def test_levels_of_another_type_are_refused(series, levels):
    with pytest.raises(SchemaError, match="type"):
        kind(series, levels={"v": levels})


# ---- reading


VARIABLES = [
    Variable("v", "numeric"),
    Variable("v", "numeric", (-1.0, 2.0)),
    Variable("v", "text"),
    Variable("v", "categorical", levels=("a", "b")),
    Variable("v", "categorical", levels=(0, 3)),
    Variable("v", "logical", (0.0, 1.0), (False, True)),
]


def column(values):
    cells = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        cells[index] = value
    return pd.Series(cells, dtype=object)


TYPED = [
    pd.Series([1, None, 300], dtype="Int64"),
    pd.Series([1.0, np.nan, np.inf]),
    pd.Series([1, 0, 255], dtype="uint8"),
    pd.Series([1.5, 2, 3], dtype="float16"),
    pd.Series(np.array(["1e400", "1", "2"], dtype=np.longdouble)),
    pd.Series([1j, 2, 3]),
    pd.Series([True, None, False], dtype="boolean"),
    pd.Series(["a", None, "7"], dtype="string"),
    pd.Series(["a", None, "7"]),
    pd.Series(["a", None, "b"], dtype="category"),
    pd.Series([1, None, 3], dtype="category"),
    pd.Series(pd.to_datetime(["2020", None, "2021"])),
    pd.Series(pd.arrays.SparseArray([1.0, np.nan, 0])),
]


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda v: f"{v.kind}{v.levels or v.bounds}")
@pytest.mark.parametrize("series", TYPED, ids=lambda series: str(series.dtype))
def test_typed_columns_are_read_as_any_kind(series, variable):
    # new data may have another type than the data of the fit
    _, valid = read_variable(variable, series)
    missing = series.isna().to_numpy()
    assert not valid[missing].any()


@pytest.mark.parametrize(
    ("series", "values", "valid"),
    [
        (pd.Series([5, -7, 1]), [2, -1, 1], [1, 1, 1]),
        (pd.Series([5.0, np.nan, np.inf]), [2, 0.5, 0.5], [1, 0, 0]),
        (pd.Series([5, None], dtype="Int64"), [2, 0.5], [1, 0]),
        (pd.Series(["1.5", "x", None, "9"], dtype=object), [1.5, 0.5, 0.5, 2], [1, 0, 0, 1]),
        (pd.Series([True, False]), [1, 0], [1, 1]),
    ],
)
def test_numbers_are_clipped_and_what_is_not_a_number_is_invalid(series, values, valid):
    got = read_variable(Variable("v", "numeric", (-1.0, 2.0)), series)
    assert got[0].tolist() == values
    assert got[1].tolist() == [bool(flag) for flag in valid]


@pytest.mark.parametrize(
    ("series", "levels", "codes"),
    [
        (pd.Series(["b", "a", "c", None]), ("a", "b"), [1, 0, -1, -1]),
        (pd.Series(["b", "a", "c", None], dtype="string"), ("a", "b"), [1, 0, -1, -1]),
        (pd.Series(["b", "a", "c", None], dtype="str"), ("a", "b"), [1, 0, -1, -1]),
        (pd.Series(["b", "", "é", None], dtype="string[python]"), ("", "é"), [-1, 0, 1, -1]),
        (pd.Series(["b", "a", "c", None], dtype=object), ("a", "b"), [1, 0, -1, -1]),
        (pd.Series(["b", "a", "c", None], dtype="category"), ("a", "b"), [1, 0, -1, -1]),
        (pd.Series([2, 1, 3]), (1, 2), [1, 0, -1]),
        (pd.Series([2.0, 1.0, np.nan]), (1, 2), [1, 0, -1]),
        (pd.Series([2, 1, None], dtype="Int64"), (1, 2), [1, 0, -1]),
        (pd.Series([True, False]), (0, 1), [1, 0]),
        (pd.Series([True, None], dtype="boolean"), (0, 1), [1, -1]),
        (pd.Series([1, 0, 2]), (False, True), [1, 0, -1]),
        (pd.Series([1, 0, 2], dtype=object), (False, True), [1, 0, -1]),
        (pd.Series([1, 0], dtype="float16"), (0, 1), [1, 0]),
    ],
)
def test_values_outside_the_levels_are_invalid(series, levels, codes):
    values, valid = read_variable(Variable("v", "categorical", levels=levels), series)
    assert valid.tolist() == [code >= 0 for code in codes]
    assert level_codes(values, levels)[valid].tolist() == [code for code in codes if code >= 0]


def test_texts_of_arrow_are_looked_up_as_others_are():
    pa = pytest.importorskip("pyarrow", reason="needs the extra [parquet]")
    texts, levels = ["b", "", "é", None, "no level", "b"], ("", "é", "b")
    expected = [2, 0, 1, -1, -1, 2]
    kinds = (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))
    for dtype in (pd.StringDtype("pyarrow"), *map(pd.ArrowDtype, kinds)):
        whole = pd.Series(texts, dtype=dtype)
        joined = pd.concat([whole[:2], whole[2:]])  # in two chunks
        for rows in (slice(None), slice(1, None), slice(None, None, 2), slice(0, 0)):
            for series in (whole[rows], joined[rows]):
                assert _codes(series, levels).tolist() == expected[rows]
    buffers = pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"b\xff")
    spoilt = pa.StringArray.from_buffers(2, *buffers)  # its second value is not text
    series = pd.Series(pd.arrays.ArrowExtensionArray(spoilt))
    for odd in (levels, (*levels, 1), (*levels, "\udcff")):
        assert _codes(series, odd).tolist() == [2, -1]


def test_a_boolean_variable_reads_zeros_and_ones_of_new_data():
    logical = Variable("v", "logical", (0.0, 1.0), (False, True))
    for series in (pd.Series([0, 1]), pd.Series([0.0, 1.0]), pd.Series([False, True])):
        values, valid = read_variable(logical, series)
        assert valid.all()
        assert values.tolist() == [0.0, 1.0]
