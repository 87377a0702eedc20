"""Expressions: their range holds their values, and a value depends on its row alone."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privatelr.formula import (
    ROW_FUNCTIONS,
    evaluate,
    interval,
    parse_expression,
    tokenize,
)

STEPS = {"floor", "ceiling", "ceil", "trunc", "round", "sign", "as.integer"}
SMOOTH = sorted(name for name, f in ROW_FUNCTIONS.items() if f.arity == 1 and name not in STEPS)

constants = st.sampled_from(["0", "1", "2", "-3", "0.5", "7", "1e-3", "TRUE"])
leaves = st.sampled_from(["x", "z.z", "`a b`", "-x", "+x"]) | constants
# a step next to a rounding error jumps, so steps are taken of variables only
stepped = st.builds("{}({})".format, st.sampled_from(sorted(STEPS)), st.sampled_from(["x", "-x"]))


def larger(inner):
    calls = st.builds("{}({})".format, st.sampled_from([*SMOOTH, "I"]), inner)
    binary = st.builds(
        "({} {} {})".format,
        inner,
        st.sampled_from(["+", "-", "*", "/", "%%", "%/%", "<", ">=", "==", "!="]),
        inner,
    )
    powers = st.builds(
        "({})^{}".format, inner, st.sampled_from(["2", "3", "0", "1", "0.5", "(-1)", "(-0.5)", "x"])
    )
    logic = st.builds("({} > 0 {} !({} <= 1))".format, inner, st.sampled_from(["&", "||"]), inner)
    negated = st.builds("({} {} !{})".format, inner, st.sampled_from(["+", "*", "-", "=="]), inner)
    negated |= st.builds("(-!{})".format, inner)
    members = st.builds("({} %in% c(1, 2))".format, inner)
    pairs = st.builds("{}({}, {})".format, st.sampled_from(["pmin", "pmax"]), inner, inner)
    choices = st.builds("ifelse({} > 0, {}, {})".format, inner, inner, inner)
    return calls | binary | powers | logic | negated | members | pairs | choices


expressions = st.recursive(leaves | stepped, larger, max_leaves=6)
ends = st.integers(-40, 40).map(lambda k: k / 4) | st.floats(-1e3, 1e3)
boxes = st.tuples(ends, ends).filter(lambda e: e[0] != e[1]).map(lambda e: tuple(sorted(e)))
fractions = st.lists(st.just(0.0) | st.just(1.0) | st.floats(0, 1), min_size=1, max_size=6)
NAMES = ("x", "z.z", "a b")


def parse(text):
    return parse_expression(tokenize(text))


@settings(max_examples=300, deadline=None)
@given(expressions, st.tuples(boxes, boxes, boxes), st.tuples(fractions, fractions, fractions))
def test_the_interval_holds_every_value(text, bounds, places):
    n = min(map(len, places))
    box = dict(zip(NAMES, bounds, strict=True))
    columns = {
        name: np.clip(low + np.array(place[:n]) * (high - low), low, high)
        for (name, (low, high)), place in zip(box.items(), places, strict=True)
    }
    expression = parse(text)
    low, high = interval(expression, box)
    assert low <= high
    values = np.broadcast_to(evaluate(expression, columns), (n,)).astype(float)
    values = values[np.isfinite(values)]
    # undefined values are rows of zeros; libm may round differently alone and in a batch
    slack = [1e-9 * (1 + abs(end)) if math.isfinite(end) else 0.0 for end in (low, high)]
    assert (values >= low - slack[0]).all()
    assert (values <= high + slack[1]).all()


@settings(max_examples=200, deadline=None)
@given(expressions, st.lists(st.tuples(*[st.floats(-1e9, 1e9)] * 3), min_size=2, max_size=9))
def test_a_value_depends_on_its_row_alone(text, rows):
    expression = parse(text)
    table = np.array(rows)

    def value(part):
        columns = dict(zip(NAMES, part.T.copy(), strict=True))
        return np.broadcast_to(evaluate(expression, columns), (len(part),)).astype(float)

    alone = np.concatenate([value(table[i : i + 1]) for i in range(len(table))])
    np.testing.assert_array_equal(value(table), alone)
    np.testing.assert_array_equal(value(table[::-1]), alone[::-1])


@pytest.mark.parametrize(
    ("text", "box", "expected"),
    [
        ("I(x^2)", (-1, 3), (0, 9)),
        ("I(x^2)", (2, 3), (4, 9)),
        ("I(x^3)", (-2, 1), (-8, 1)),
        ("I(x^-2)", (1, 2), (0.25, 1)),
        ("I(x^-1)", (-2, -1), (-1, -0.5)),
        ("sqrt(x)", (4, 9), (2, 3)),
        ("I(x^0.5)", (-4, 9), (0, 3)),
        ("log(x)", (1, math.e), (0, 1)),
        ("abs(x)", (-3, 2), (0, 3)),
        ("abs(x)", (-3, -2), (2, 3)),
        ("cosh(x)", (-1, 0.5), (1, math.cosh(1))),
        ("I(2 - x/4)", (-4, 8), (0, 3)),
        ("I(1/x)", (2, 4), (0.25, 0.5)),
        ("-x", (-1, 3), (-3, 1)),
        ("I(x > 1)", (0, 1), (0, 1)),
        ("pmax(x - 1, 0)", (-1, 3), (0, 2)),
        ("ifelse(x > 0, 5, -x)", (-1, 3), (-3, 5)),
        ("plogis(x)", (0, 0.5), (0.5, 1 / (1 + math.exp(-0.5)))),
        ("floor(x/49)", (0, 49), (0, 1)),  # 49 * (1/49) < 1
        ("I(2^64 * x)", (0, 1), (0, 2.0**64)),  # whole constants must not wrap around
        ("I(x/10^20)", (0, 1e20), (0, 1)),
        ("I(x %% 12)", (0, 23), (0, 12)),
        ("I(x %% -12)", (-math.inf, math.inf), (-12, 0)),
        ("I(x %/% 10)", (-5, 29), (-1, 2)),
        ("I(x %/% -0.1)", (0, 1), (-10, 0)),
    ],
)
def test_the_interval_is_tight_where_a_variable_occurs_once(text, box, expected):
    assert interval(parse(text), {"x": box}) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "text", ["log(x)", "I(1/x)", "I(x^-1)", "I(2^x)", "qlogis(x)", "exp(1000 * x)", "z", "x %% z"]
)
def test_what_has_no_finite_range_says_so(text):
    low, high = interval(parse(text), {"x": (0.0, 1.0)})
    assert not (math.isfinite(low) and math.isfinite(high))


@pytest.mark.parametrize(
    ("text", "brackets"),
    [
        ("I(-!x)", "-(!x)"),
        ("I(-!x + z)", "-(!(x + z))"),
        ("I(z * !x)", "z * (!x)"),
        ("I(z * !x - 1)", "z * (!(x - 1))"),
        ("I(z^!x)", "z^(!x)"),
        ("I(z + !x == 0)", "z + (!(x == 0))"),
        ("I(z == !x & z > 0)", "(z == (!x)) & (z > 0)"),
        ("I(z - !x | x)", "(z - (!x)) | x"),
        ("I(-!!x)", "-(!(!x))"),
        ("I(2 * !x %% 2)", "2 * (!(x %% 2))"),
        ("ifelse(!x, z, -!z)", "ifelse((!x), z, -(!z))"),
        ("I(z * (!x) + 1)", "(z * (!x)) + 1"),
        ("I(z * !x %in% c(0, 2))", "z * (!(x %in% c(0, 2)))"),
        ("I(x %% 2 == 1 and z > 0)", "((x %% 2) == 1) & (z > 0)"),
        ("I(not x %% 2 == 1)", "!((x %% 2) == 1)"),
        ("I(x %in% c(0, 1) %% 2 * z)", "((x %in% c(0, 1)) %% 2) * z"),
        ("I(-x^2 %/% 2 - 1)", "((-(x^2)) %/% 2) - 1"),
        ("I(2^-x^2)", "2^(-(x^2))"),
        ("I(x in c(0, 1) | z == 0)", "(x %in% c(0, 1)) | (z == 0)"),
    ],
)
def test_operators_bind_as_in_r(text, brackets):
    """In R only & and | bind less than !, wherever it stands (R Language Definition, 10.3)."""
    x, z = (values.ravel() for values in np.meshgrid([0.0, 1.0, 2.0, np.nan], [-1.0, 0.0, 1.0]))
    found, expected = (evaluate(parse(one), {"x": x, "z": z}) for one in (text, brackets))
    np.testing.assert_array_equal(found, expected)
    assert len(set(found[np.isfinite(found)])) > 1


@pytest.mark.parametrize("function", sorted(ROW_FUNCTIONS))
@pytest.mark.parametrize("box", [(-2.0, 3.0), (0.25, 0.75), (-0.5, -0.25)])
def test_every_row_function_keeps_to_its_range(function, box):
    entry = ROW_FUNCTIONS[function]
    grid = np.linspace(*box, 41)
    points = np.meshgrid(*[grid] * entry.arity)
    with np.errstate(all="ignore"):
        values = np.asarray(entry.value(*points), dtype=float)
    low, high = entry.interval(*[box] * entry.arity)
    values = values[np.isfinite(values)]
    if math.isnan(low):
        assert values.size == 0
    else:
        assert low - 1e-12 <= values.min()
        assert values.max() <= high + 1e-12
        if function not in ("sin", "cos") and math.isfinite(high - low):
            assert (values.min(), values.max()) == pytest.approx((low, high), abs=0.02)


def test_undefined_operations_are_silent():
    expression = parse("log(x) + 1/x + x^-0.5 + x %% 0 + exp(1e4 * x)")
    assert not np.isfinite(evaluate(expression, {"x": np.array([0.0, -1.0, 1e300])})).any()
