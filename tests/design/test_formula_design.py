"""Rows of a design: as long as declared at most, exact in the user's units, one by one."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_designs import raw_design

from privatelr.design import plan_design, project, read_covariates, read_design, read_values
from privatelr.errors import FormulaError, SchemaError
from privatelr.formula import parse_formula
from privatelr.numerics.rows import DenseRows
from privatelr.sources import as_batch, declare_schema

G, H = pd.CategoricalDtype(["a", "b", "c"]), pd.CategoricalDtype(["u", "v"])
BOUNDS = {"x": (-1.0, 3.0), "z": (1.0, 4.0)}
LEVELS = {"s": ["p", "q"], "y": [0, 1]}


def table(y, x, z, g, h, f, s, u):
    columns = {"y": y, "x": x, "z": z, "f": f, "u": u}
    categories = {"g": pd.Categorical(g, dtype=G), "h": pd.Categorical(h, dtype=H)}
    return pd.DataFrame({**columns, **categories, "s": pd.Series(s, dtype=object)})


FRAME = table(
    [0, 1, 1, 0],
    [-1.0, 3.0, 0.5, 1.0],
    [1.0, 4.0, 2.5, 3.0],
    list("abca"),
    list("uvvu"),
    [True, False, True, True],
    list("pqpq"),
    [5.0, -5.0, 0.1, 0.0],
)


def plan(terms, frame=FRAME, bounds=BOUNDS, levels=LEVELS, **schema):
    formula = parse_formula(f"y ~ {terms}", list(frame.columns))
    return plan_design(formula, as_batch(frame), declare_schema(bounds, levels, **schema))


def rows(spec, frame=FRAME):
    return read_design(spec, as_batch(frame), DenseRows)


# ---- how long a row can be, term by term


@pytest.mark.parametrize(
    ("term", "length"),
    [
        ("x", 1.0),
        ("z", 1.0),
        ("g", 1.0),
        ("h", 1.0),
        ("f", 1.0),
        ("s", 1.0),
        ("x:z", 1.0),
        ("g:h", math.sqrt(2)),  # full rank next to an intercept takes two dummies per row
        ("g:h - 1", 1.0),
        ("g:x", 1.0),
        ("g:h:x", 1.0),
        ("I(x^2)", 1.0),
        ("log(z)", 1.0),
        ("I(x > 0)", 1.0),
        ("sin(u)", 1.0),
        ("plogis(u):g", 1.0),
        ("C(g, contr.sum)", math.sqrt(2)),  # the last level is (-1, -1)
        ("C(g, contr.helmert)", 2.0),  # the last level is (0, 2)
        ("C(g, contr.sum):x", 1.0),  # coded by dummies, its main effect is not there
        ("C(g, contr.poly)", math.sqrt(2 / 3)),
    ],
)
def test_length_of_a_term(term, length):
    spec = plan(term)
    assert spec.columns.terms[-1].radius == pytest.approx(length)
    assert spec.bound == pytest.approx(length)
    assert spec.bound_source == "declared bounds"
    assert spec.radius == pytest.approx(math.hypot(length, spec.intercept or 0.0))
    assert spec.unbounded == ()


@pytest.mark.parametrize(
    ("terms", "squares"),
    [
        ("x + z", [1, 1]),
        ("x*z", [1, 1, 1]),
        ("x*g", [1, 1, 1]),
        ("C(g, contr.helmert)*x", [4, 1, 4]),
        ("C(g, contr.helmert)*C(h, contr.sum)", [4, 1, 4]),
        ("g*h*x", [1] * 7),
        ("x + I(x^2) + log(z)", [1, 1, 1]),
    ],
)
def test_lengths_of_terms_add_like_squares(terms, squares):
    spec = plan(terms)
    assert spec.bound**2 == pytest.approx(sum(squares))
    assert plan(f"{terms} - 1").radius == pytest.approx(plan(f"0 + {terms}").bound)


@pytest.mark.parametrize(
    ("terms", "schema", "bound", "source", "unbounded"),
    [
        ("u", {}, 1.0, "row_norm", ("u",)),
        ("x + u + u:z", {}, math.sqrt(2), "declared bounds and row_norm", ("u", "u:z")),
        ("u + x + g + u:z", {"row_norm": 2}, 6**0.5, "declared bounds and row_norm", ("u", "u:z")),
        ("u", {"row_norm": 3}, 3.0, "row_norm", ("u",)),
        ("x + z", {"row_norm": 0.5}, 0.5, "row_norm", ()),
        ("x + z", {"row_norm": 9}, math.sqrt(2), "declared bounds", ()),
        ("log(x)", {"row_norm": 2}, 2.0, "row_norm", ("log(x)",)),
        ("I(u^2) + tanh(u)", {}, math.sqrt(2), "declared bounds and row_norm", ("I(u^2)",)),
        ("g:u", {}, 1.0, "row_norm", ("g:u",)),
        ("1", {}, 0.0, "declared bounds", ()),
    ],
)
def test_row_norm_and_partial_bounds(terms, schema, bound, source, unbounded):
    spec = plan(terms, **schema)
    assert spec.bound == pytest.approx(bound)
    assert (spec.bound_source, spec.unbounded) == (source, unbounded)


@pytest.mark.parametrize("scale", [0.1, 0.5, 2.0])
def test_the_intercept_is_inside_the_radius(scale):
    spec = plan("x + z", intercept_scale=scale)
    assert spec.radius == pytest.approx(math.hypot(math.sqrt(2), scale))
    assert (rows(spec).x[:, 0] == scale).all()
    without = plan("x + z - 1", intercept_scale=scale)
    assert without.radius == pytest.approx(math.sqrt(2))
    assert without.intercept is None


@pytest.mark.parametrize("term", ["log(x)", "I(1/x)", "sqrt(x):log(x)", "exp(1000 * z)"])
def test_a_bounded_variable_with_an_unbounded_term_is_refused(term):
    with pytest.raises(SchemaError) as caught:
        plan(term)
    assert "row_norm=" in str(caught.value)
    assert "finite range" in str(caught.value)


def test_bounds_are_attained_and_map_to_the_unit_interval():
    spec = plan("x + z + I(x^2) + x:z")
    frame = FRAME.iloc[[0, 0, 0]].assign(x=[-1.0, 3.0, 1.0], z=[1.0, 4.0, 2.5])
    covariates, _, _ = read_covariates(spec, as_batch(frame), spec.formula.covariates)
    np.testing.assert_allclose(covariates[:, 0], [-1, 1, 0])
    np.testing.assert_allclose(covariates[:, 1], [-1, 1, 0])
    np.testing.assert_allclose(covariates[:, 2], [1 / 4.5 - 1, 1, 1 / 4.5 - 1])
    np.testing.assert_allclose(covariates[1, 3], 1.0)
    # one observation at the corner is as long as the radius says
    assert np.linalg.norm(rows(spec, frame).x[1]) == pytest.approx(spec.radius)


def test_the_helmert_bound_is_attained():
    spec = plan("C(g, contr.helmert) + x")
    lengths = np.linalg.norm(rows(spec, FRAME.assign(x=3.0)).x, axis=1)
    assert lengths.max() == pytest.approx(spec.radius)


# ---- laws over random frames and formulas

ATOMS = ["x", "z", "g", "h", "f", "s", "x:z", "g:x", "g:h", "g:h:z", "I(x^2)", "log(z)", "g*x*h"]
ATOMS += ["C(g, contr.sum)", "C(g, contr.helmert)*z", "z:I(x > 0)", "exp(x):h", "h/x", "(x + f)^2"]
ends = st.sampled_from(["", " - 1", " + 0"])
bounded_terms = st.builds(
    "{}{}".format, st.lists(st.sampled_from(ATOMS), min_size=1, max_size=3).map(" + ".join), ends
)
any_terms = st.builds(
    "{}{}".format,
    st.lists(st.sampled_from([*ATOMS, "u", "g:u", "I(u*x)", "log(u)"]), min_size=1, max_size=3).map(
        " + ".join
    ),
    ends,
)
awkward = st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -1e308, 5e-324, 0.0])
anything = awkward | st.floats()
odd_text = st.sampled_from(["p", "q", "r", None, math.nan, 3, pd.NA])


def frames(x, z, u, y, g, h, s):
    record = st.tuples(y, x, z, g, h, st.booleans(), s, u)
    return st.lists(record, min_size=1, max_size=6).map(
        lambda records: table(*map(list, zip(*records, strict=True)))
    )


wild = frames(
    anything,
    anything,
    anything,
    st.sampled_from([0, 1, 2, math.nan, 0.5]),
    st.sampled_from(["a", "b", "c", None]),
    st.sampled_from(["u", "v", None]),
    odd_text,
)
tame = frames(
    st.floats(-1, 3),
    st.floats(1, 4),
    st.floats(-9, 9),
    st.sampled_from([0, 1]),
    st.sampled_from("abc"),
    st.sampled_from("uv"),
    st.sampled_from("pq"),
)
norms = st.none() | st.floats(0.01, 100)
directions = st.integers(1, 6)


def projected(spec, width):
    draws = np.random.default_rng(width).standard_normal((spec.p, min(width, spec.p)))
    return project(spec, draws)


@settings(max_examples=80, deadline=None)
@given(any_terms, wild, norms, st.none() | directions, st.floats(0.01, 10))
def test_no_row_is_longer_than_the_radius(terms, frame, row_norm, width, scale):
    unbounded_log = "log(u)" in terms and row_norm is None
    spec = plan(terms, frame, row_norm=1.0 if unbounded_log else row_norm, intercept_scale=scale)
    if width is not None and spec.p:
        spec = projected(spec, width)
    made = rows(spec, frame)
    assert np.isfinite(made.x).all()
    assert made.x.shape == (len(frame), spec.d)
    assert made.radius == spec.radius
    assert max(math.hypot(*row) for row in made.x) <= spec.radius  # with no allowance
    assert set(made.y.tolist()) <= {-1.0, 0.0, 1.0}


@settings(max_examples=80, deadline=None)
@given(any_terms, wild, st.none() | directions)
def test_a_row_depends_on_its_record_alone(terms, frame, width):
    spec = plan(terms, frame, row_norm=1.0)
    if width is not None and spec.p:
        spec = projected(spec, width)
    whole = rows(spec, frame)
    for index in range(len(frame)):
        alone = rows(spec, frame.iloc[[index]])
        np.testing.assert_array_equal(alone.x[0], whole.x[index])
        assert alone.y[0] == whole.y[index]


@settings(max_examples=80, deadline=None)
@given(bounded_terms, tame, st.none() | directions, st.floats(0.1, 10))
def test_coefficients_in_the_users_units_are_exact(terms, frame, width, scale):
    spec = plan(terms, frame, intercept_scale=scale)
    if width is not None:
        spec = projected(spec, width)
    values, usable = read_values(spec.variables, as_batch(frame), spec.formula.variables)
    raw, coded = raw_design(spec, values, len(frame))
    assert (usable & coded).all()
    weights = np.random.default_rng(1).standard_normal(spec.d)
    covariates, _, _ = read_covariates(spec, as_batch(frame), spec.formula.variables)
    if spec.projection is not None:
        covariates = covariates @ spec.projection
    first = int(spec.intercept is not None)
    inside = covariates @ weights[first:] + (weights[0] * scale if first else 0.0)
    user = spec.user_map() @ weights
    tolerance = 1e-11 * (1 + np.abs(raw) @ np.abs(user))
    assert (np.abs(raw @ user - inside) <= tolerance).all()
    if width is None:
        # nothing in bounds is shortened: the rows are the design
        made = rows(spec, frame).x @ weights
        assert (np.abs(made - inside) <= 1e-10 * (1 + np.abs(weights).sum())).all()


# ---- what a plan may know


@settings(max_examples=40, deadline=None)
@given(any_terms, wild, wild)
def test_a_plan_knows_types_only(terms, one, other):
    # a column of whole numbers and one with a missing value differ in type, which is public
    one, other = (frame.astype({c: float for c in "yxzu"}) for frame in (one, other))
    first, second = (plan(terms, frame, row_norm=1.0) for frame in (one, other))
    for name in (
        "bound",
        "bound_source",
        "unbounded",
        "intercept",
        "radius",
        "p",
        "d",
        "variables",
    ):
        assert getattr(first, name) == getattr(second, name)
    assert first.response == second.response
    assert first.factors == second.factors
    assert first.columns.names == second.columns.names
    assert first.columns.terms == second.columns.terms
    for name in ("parent", "centre", "scale"):
        np.testing.assert_array_equal(getattr(first.columns, name), getattr(second.columns, name))


# ---- records that cannot be used


@pytest.mark.parametrize(
    "change",
    [
        {"x": math.nan},
        {"x": math.inf},
        {"g": None},
        {"s": None},
        {"s": "undeclared"},
        {"s": ["p"]},
        {"y": math.nan},
        {"y": 2.0},
        {"y": 0.5},
        {"u": math.nan},
        {"u": -1.0},
    ],
    ids=str,
)
def test_an_unusable_record_becomes_a_row_of_zeros_and_nothing_else_moves(change):
    frame = FRAME.astype({"y": float}).assign(u=1.0)
    spec = plan("x*g + s + I(sqrt(u))", frame, row_norm=5)
    before = rows(spec, frame)
    changed = frame.copy()
    for name, value in change.items():
        changed[name] = changed[name].astype(object) if name == "s" else changed[name]
        changed.at[1, name] = value
    after = rows(spec, changed)
    assert after.n == len(frame)
    assert (after.x[1] == 0).all()
    assert after.y[1] == 0
    assert (before.x[1] != 0).any()
    np.testing.assert_array_equal(np.delete(after.x, 1, 0), np.delete(before.x, 1, 0))


def test_a_missing_value_in_a_column_that_is_not_read_is_of_no_interest():
    spec = plan("x")
    frame = FRAME.assign(z=math.nan, s=None)
    np.testing.assert_array_equal(rows(spec, frame).x, rows(spec).x)


def test_values_beyond_a_bound_count_as_the_bound():
    spec = plan("x + I(x^2) + g:x")
    np.testing.assert_array_equal(
        rows(spec, FRAME.assign(x=[-9.0, 9e300, 3.1, -1.1])).x,
        rows(spec, FRAME.assign(x=[-1.0, 3.0, 3.0, -1.0])).x,
    )


def test_a_long_row_is_shortened_along_its_direction():
    spec = plan("x + u", bounds=None)
    frame = FRAME.assign(x=[3.0, 0.3, 0.0, 3e200], u=[4.0, 0.4, 0.0, 4e200])
    made = rows(spec, frame).x[:, 1:]
    np.testing.assert_allclose(made, [[0.6, 0.8], [0.3, 0.4], [0, 0], [0.6, 0.8]], rtol=1e-11)


def test_new_data_without_a_column_is_refused_by_name():
    spec = plan("x*g")
    with pytest.raises(FormulaError, match="'g'"):
        rows(spec, FRAME.drop(columns="g"))


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ("C(g, levels = ['a'])", "one level"),
        ("k", "one level"),
        ("when", "datetime64"),
        ("when:x", "datetime64"),
        ("plain", "levels="),
    ],
)
def test_columns_that_cannot_be_terms(terms, says):
    extra = {"k": pd.Categorical(["only"] * 4), "when": pd.Timestamp("2020-01-01"), "plain": "a"}
    with pytest.raises(SchemaError) as caught:
        plan(terms, FRAME.assign(**extra))
    assert says in str(caught.value)


@pytest.mark.parametrize("intercept", [" - 1", ""])
def test_rounding_does_not_carry_a_shortened_row_beyond_the_radius(intercept):
    draws = np.random.default_rng(3).normal(0, 50, (2000, 5))
    frame = pd.DataFrame(draws, columns=list("abcde")).assign(y=True)
    spec = plan(f".{intercept}", frame, None, None, row_norm=0.3)
    made = rows(spec, frame).x
    assert max(math.hypot(*row) for row in made) <= spec.radius
    assert np.linalg.norm(made, axis=1).max() <= spec.radius
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), spec.radius, rtol=1e-10)
