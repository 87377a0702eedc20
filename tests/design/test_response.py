"""How the left-hand side becomes labels, and what is refused without a look at the values."""

import re

import numpy as np
import pandas as pd
import pytest

from privatelr.design import plan_design, read_design, require_usable_response
from privatelr.errors import FormulaError, SchemaError
from privatelr.formula import parse_formula
from privatelr.numerics.rows import DenseRows
from privatelr.sources import as_batch, declare_schema


def plan(series, left="v", **schema):
    frame = pd.DataFrame({"v": series, "x": np.linspace(0, 1, len(series))})
    parsed = parse_formula(f"{left} ~ x", ["v", "x"])
    return plan_design(parsed, as_batch(frame), declare_schema(**schema)), frame


FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
CODES, BOUNDED = {"levels": {"v": [0, 1]}}, {"bounds": {"v": (0, 1)}}


@pytest.mark.parametrize(
    ("series", "schema", "kind", "classes", "labels"),
    [
        (pd.Series([0, 1, 2]), CODES, "factor", (0, 1), [-1, 1, 0]),
        (pd.Series([0.0, 1.0, np.nan, 0.5]), CODES, "factor", (0, 1), [-1, 1, 0, 0]),
        (pd.Series([0, 1, None], dtype="Int64"), CODES, "factor", (0, 1), [-1, 1, 0]),
        (pd.Series([-1, 1, 0]), {"levels": {"v": [-1, 1]}}, "factor", (-1, 1), [-1, 1, 0]),
        (pd.Series([0, 1, None, 0.5]), BOUNDED, "binary", (0, 1), [-1, 1, 0, 0]),
        (pd.Series([False, True]), {}, "logical", (False, True), [-1, 1]),
        (pd.Series([None, True], dtype="boolean"), {}, "logical", (False, True), [0, 1]),
        (pd.Series(pd.Categorical(list("nyn"))), {}, "factor", ("n", "y"), [-1, 1, -1]),
        (
            pd.Series(pd.Categorical(["n", "y", None], categories=["y", "n"])),
            {},
            "factor",
            ("y", "n"),
            [1, -1, 0],
        ),
        (pd.Series(pd.Categorical(list("abc"))), {}, "factor", ("a", "not a"), [-1, 1, 1]),
        (pd.Series(list("ynz")), {"levels": {"v": ["n", "y"]}}, "factor", ("n", "y"), [1, -1, 0]),
        (pd.Series([1, 2, 3]), {"levels": {"v": [1, 2]}}, "factor", (1, 2), [-1, 1, 0]),
        (pd.Series([1, 2, 3]), {"levels": {"v": [2, 1]}}, "factor", (2, 1), [1, -1, 0]),
    ],
)
def test_coding(series, schema, kind, classes, labels):
    spec, frame = plan(series, **schema)
    assert (spec.response.kind, spec.response.classes) == (kind, classes)
    assert read_design(spec, as_batch(frame), DenseRows).y.tolist() == labels


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "==", "!="])
@pytest.mark.parametrize("constant", [-1, 0, 0.5, 1, 2])
def test_a_comparison_is_refused_where_bounds_leave_one_answer(operator, constant):
    # narrow types round an end of the bounds to either side
    answers = {eval(f"{v} {operator} {constant}") for v in (-1e-9, 0, 0.25, 0.5, 1, 1 + 1e-9)}
    for left in (f"v {operator} {constant}", f"{constant} {FLIPPED[operator]} v"):
        if len(answers) == 2:
            assert plan(pd.Series([0.0, 1.0]), left, **BOUNDED)[0].response.kind == "logical"
        else:
            with pytest.raises(SchemaError, match="for all values that are declared"):
                plan(pd.Series([0.0, 1.0]), left, **BOUNDED)
    assert plan(pd.Series([0.0, 1.0]), f"v {operator} {constant}")[0].response.kind == "logical"


def test_a_factor_in_the_formula_may_reorder_the_classes():
    series = pd.Series(pd.Categorical(list("nyn")))
    spec, frame = plan(series, "factor(v, levels = c('y', 'n'))")
    assert spec.response.classes == ("y", "n")
    assert read_design(spec, as_batch(frame), DenseRows).y.tolist() == [1, -1, 1]


def test_levels_in_the_formula_are_a_declaration():
    spec, frame = plan(pd.Series(list("nyz")), "factor(v, levels = c('n', 'y'))")
    assert spec.response.classes == ("n", "y")
    assert read_design(spec, as_batch(frame), DenseRows).y.tolist() == [-1, 1, 0]


@pytest.mark.parametrize(
    ("series", "left", "schema", "says"),
    [
        (pd.Series(list("yn")), "v", {}, "levels="),
        (pd.Series([0, 1]), "factor(v)", {}, "levels="),
        (pd.Series([0, 1]), "v + 3", BOUNDED, "(3, 4)"),
        (pd.Series(list("yn"), dtype=object), "I(v != 'y')", {}, 'levels={"v": [...]}'),
        (pd.Series(list("yn")), "v %in% c('Y', 'n')", {"levels": {"v": ["y", "n"]}}, "mean 'y'?"),
        (pd.Series(list("yn")), "v == 1", {"levels": {"v": ["y", "n"]}}, "not one of its levels"),
        (pd.Series(["0,5", "1,5"]), "v", BOUNDED, "x.str.replace"),
        (pd.Series(pd.Categorical(["a"])), "v", {}, "two or more levels"),
        (pd.Series([0, 1]), "scale(v)", {}, "scale"),
        (pd.Series(pd.to_datetime(["2020-01-01"])), "v", {}, "datetime64"),
    ],
)
def test_refusals_are_about_public_facts(series, left, schema, says):
    for frame in (series, series.iloc[:1]):
        with pytest.raises((SchemaError, FormulaError)) as caught:
            plan(frame, left, **schema)
        assert says in str(caught.value)


@pytest.mark.parametrize(("values", "left"), [([1, 2], "v"), ([0, 1], "v"), ([1.5, 2], "1 - v")])
def test_numbers_need_a_declaration_where_anything_is_promised(values, left):
    """Records with other numbers than 0 and 1 would be of no use, and the fit be charged."""
    spec, _ = plan(pd.Series(values), left)
    with pytest.raises(SchemaError, match=re.escape(f'as in "{left} == 1 ~ ..."')) as caught:
        require_usable_response(spec.response)
    # levels of an expression would make a text of its column, with which nothing computes
    assert ('levels={"v": [0, 1]}' in str(caught.value)) is (left == "v")
    require_usable_response(spec.response, promised=False)
    assert "count as missing" in spec.response.describe()


@pytest.mark.parametrize("values", [[0, 0], [1, 1], [2, 3], [np.nan, np.nan]])
def test_one_class_or_none_is_read_like_any_other(values):
    spec, frame = plan(pd.Series(values, dtype=float), **CODES)
    both, _ = plan(pd.Series([0.0, 1.0]), **CODES)
    assert spec.response == both.response
    assert read_design(spec, as_batch(frame), DenseRows).n == 2


def test_the_description_holds_nothing_of_the_data():
    assert [
        plan(pd.Series(values, dtype=float), **BOUNDED)[0].response.describe()
        for values in ([0, 1], [5, 9])
    ] == ["v: 1 (positive) against 0; values beyond (0, 1) are clipped"] * 2
