"""The formula dialect: what R accepts, what it means, and how columns are named."""

import contextlib

import numpy as np
import pandas as pd
import pytest
from formulaic import model_matrix
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_designs import raw_design

from privatelr import dplr
from privatelr.design import plan_design, read_design, read_values
from privatelr.errors import FormulaError, PrivateLRError
from privatelr.formula import parse_formula
from privatelr.numerics.rows import DenseRows
from privatelr.sources import as_batch, declare_schema

N = 12
IRIS = pd.DataFrame(
    {
        "Sepal.Length": np.linspace(4.3, 7.9, N),
        "Sepal.Width": np.linspace(4.4, 2.0, N),
        "Petal.Length": np.linspace(1.0, 6.9, N) ** 1.1,
        "Species": pd.Categorical(["setosa", "versicolor", "virginica"] * 4),
    }
)
TABLE = pd.DataFrame(
    {
        "y": np.arange(N) % 2 == 1,
        "x": np.linspace(-1, 3, N),
        "z": np.linspace(1, 2, N) ** 2,
        "g": pd.Categorical(list("abc") * 4),
        "h": pd.Categorical(list("uv") * 6),
        "flag": np.arange(N) % 4 < 2,
        "text": pd.Categorical(list("pqr") * 4),
        "blood pressure": np.linspace(90, 180, N),
    }
)


def plan(formula, frame=TABLE, **schema):
    return plan_design(
        parse_formula(formula, list(frame.columns)), as_batch(frame), declare_schema(**schema)
    )


def raw(formula, frame=TABLE):
    spec = plan(formula, frame)
    values, _ = read_values(spec.variables, as_batch(frame), spec.formula.variables)
    return spec, raw_design(spec, values, len(frame))[0]


def responses(formula, frame, **schema):
    return read_design(plan(formula, frame, **schema), as_batch(frame), DenseRows).y


# ---- names of columns and expansion of the dot


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ("1", "(Intercept)"),
        ("x", "(Intercept) x"),
        ("x + 0", "x"),
        ("0 + x", "x"),
        ("x - 1", "x"),
        ("-1 + x", "x"),
        ("x + z", "(Intercept) x z"),
        ("x + x", "(Intercept) x"),
        ("x + z - x", "(Intercept) z"),
        ("(x)", "(Intercept) x"),
        ("x * z", "(Intercept) x z x:z"),
        ("x:z", "(Intercept) x:z"),
        ("(x + z + h)^2", "(Intercept) x z h[T.v] x:z x:h[T.v] z:h[T.v]"),
        ("(x + z)**2", "(Intercept) x z x:z"),
        ("x^2", "(Intercept) x"),
        ("h/x", "(Intercept) h[T.v] h[u]:x h[v]:x"),
        ("h + h:x", "(Intercept) h[T.v] h[u]:x h[v]:x"),
        ("g", "(Intercept) g[T.b] g[T.c]"),
        ("g - 1", "g[a] g[b] g[c]"),
        ("flag", "(Intercept) flag[T.True]"),
        ("I(x^2)", "(Intercept) I(x^2)"),
        ("I( x ** 2 )", "(Intercept) I(x**2)"),
        ("log(z) + log( z )", "(Intercept) log(z)"),
        ("`x`", "(Intercept) x"),
        ("x + 1", "(Intercept) x"),
        ("I(g)", "(Intercept) I(g)[T.b] I(g)[T.c]"),
        ("factor(h)", "(Intercept) factor(h)[T.v]"),
    ],
)
def test_columns_of_the_right_hand_side(terms, names):
    assert list(plan(f"y ~ {terms}").columns.names) == names.split(" ")


@pytest.mark.parametrize(
    ("formula", "names"),
    [
        ("Species != 'setosa' ~ .", "Sepal.Length Sepal.Width Petal.Length"),
        ('I(Species != "setosa") ~ .', "Sepal.Length Sepal.Width Petal.Length"),
        ("Species ~ . - Sepal.Width", "Sepal.Length Petal.Length"),
        ("Species ~ . - (Sepal.Width + Petal.Length)", "Sepal.Length"),
        ("Species ~ Sepal.Width + .", "Sepal.Width Sepal.Length Petal.Length"),
        (
            "Petal.Length > 3 ~ .",
            "Sepal.Length Sepal.Width Species[T.versicolor] Species[T.virginica]",
        ),
        ("Petal.Length > Sepal.Width ~ . - Species", "Sepal.Length"),
        (
            "Petal.Length > 3 ~ (. - Species)^2",
            "Sepal.Length Sepal.Width Sepal.Length:Sepal.Width",
        ),
        (
            "Petal.Length > 3 ~ .^2 - Species:.",
            "Sepal.Length Sepal.Width Sepal.Length:Sepal.Width",  # Species:Species is Species
        ),
        (
            "Species ~ Petal.Length:(. - Petal.Length)",
            "Petal.Length:Sepal.Length Petal.Length:Sepal.Width",
        ),
        (
            "Species ~ Sepal.Length * log(Petal.Length) + I(Sepal.Width^2)",
            "Sepal.Length log(Petal.Length) I(Sepal.Width^2) Sepal.Length:log(Petal.Length)",
        ),
    ],
)
def test_the_dot_and_dotted_names(formula, names):
    columns = plan(formula, IRIS).columns.names
    assert columns[0] == "(Intercept)"
    # formulaic may order the factors of an interaction by first appearance
    assert [set(c.split(":")) for c in columns[1:]] == [set(c.split(":")) for c in names.split(" ")]


def test_the_dot_is_spelled_out_in_the_text():
    assert (
        parse_formula("Species != 'setosa'~.", list(IRIS)).text
        == "Species != 'setosa' ~ Sepal.Length + Sepal.Width + Petal.Length"
    )
    assert parse_formula("y ~ .:x", ["y", "x", "a b"]).text == "y ~ (x + `a b`):x"


@pytest.mark.parametrize("formula", ["y ~ . - x", "y ~ .^2", "y > 3 ~ `a b`:.", "y ~ I(x^2)"])
def test_the_text_is_read_back_as_the_same_formula(formula):
    columns = ["y", "x", "a b"]
    once = parse_formula(formula, columns)
    twice = parse_formula(once.text, columns)
    assert (twice.text, twice.terms, twice.variables) == (once.text, once.terms, once.variables)


@pytest.mark.parametrize("unusable", ["text", "when"])
def test_a_column_taken_out_of_the_dot_is_not_asked_for_anything(unusable):
    # `. - name` is how a column that cannot enter a model is left out
    frame = TABLE.assign(when=pd.Timestamp("2020-01-01"))[["y", "x", unusable]]
    spec = plan(f"y ~ . - {unusable}", frame)
    assert spec.columns.names == ("(Intercept)", "x")


def test_a_level_of_any_name_has_a_column():
    frame = pd.DataFrame({"y": [0, 1], "g": ["a", "__b"]})
    fit = dplr("y ~ g", frame, levels={"g": ["a", "__b", "{c}"], "y": [0, 1]})
    assert [*fit.coef.index] == ["(Intercept)", "g[T.__b]", "g[T.{c}]"]


@pytest.mark.parametrize("base", ["(18,25]", "it's", 'a"b', "a`b", "a\\b", "}", "v1_", "é ü"])
def test_a_base_level_may_hold_anything(base):
    levels = ["p", base, "r"]
    frame = pd.DataFrame(
        {"y": [False, True, False], "Treatment": pd.Categorical(levels, categories=levels)}
    )
    term = f"C(Treatment, Treatment({base!r}))"
    spec, columns = raw(f"y ~ {term}", frame)
    assert [name.rpartition("[")[2] for name in spec.columns.names[1:]] == ["T.p]", "T.r]"]
    assert all(name.startswith(term[:22]) for name in spec.columns.names[1:])
    np.testing.assert_array_equal(columns[:, 1:], [[1, 0], [0, 0], [0, 1]])


# ---- values, against formulaic on undotted names as an independent reading


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("x*g", "x*g"),
        ("g:x", "g:x"),
        ("(x + z + h)^2", "(x + z + h)**2"),
        ("g/x - 1", "g/x - 1"),
        ("g*h*x", "g*h*x"),
        ("x:z:g", "x:z:g"),
        ("log(z) + I(x^2):h", "np.log(z) + I(x**2):h"),
        ("C(g, contr.sum):x", "C(g, contr.sum):x"),
        ("C(g, contr.helmert)", "C(g, contr.helmert)"),
        ("C(g, contr.treatment('b'))", "C(g, contr.treatment('b'))"),
        ("C(g, contr.treatment(base = 'b'))*x", "C(g, contr.treatment('b'))*x"),
        ('C(g, Treatment("c"))*x', "C(g, contr.treatment('c'))*x"),
        ('C(g, Treatment(reference="c"))', "C(g, contr.treatment('c'))"),
        ("C(g, Treatment())", "C(g, contr.treatment)"),
        ("C(flag, Treatment(TRUE))", "C(flag, contr.treatment(True))"),
        ("I(-!flag) + I(x * !flag)", "I(-1.0 * ~flag) + I(x * ~flag)"),
        ("factor(g, levels = c('c', 'a', 'b'))", "C(g, levels=['c', 'a', 'b'])"),
        ("I(x > 1 & !(z >= 2))", "I(1.0 * ((x > 1) & ~(z >= 2)))"),
        ("I(g %in% c('a', 'c'))", "I(1.0 * g.isin(['a', 'c']))"),
        ("I(x %% 2) + I(x %/% 2)", "I(x % 2) + I(x // 2)"),
        ("ifelse(flag, x, z)", "I(np.where(flag, x, z))"),
        ("pmin(x, z)", "np.minimum(x, z)"),
    ],
)
def test_raw_columns_are_those_of_formulaic(ours, theirs):
    expected = model_matrix(theirs, TABLE, context={"np": np}, output="numpy")
    np.testing.assert_allclose(raw(f"y ~ {ours}")[1], np.asarray(expected, dtype=float))


@pytest.mark.parametrize(
    ("expression", "meaning"),
    [  # R binds %% and %/% tighter than * and /, Python does not
        ("I(2 * x %% 3)", lambda x: 2 * (x % 3)),
        ("I(7 * x %/% 2)", lambda x: 7 * (x // 2)),
        ("I(-x %% 3)", lambda x: (-x) % 3),
        ("I(-x^2)", lambda x: -(x**2)),
        ("I(2^-x)", lambda x: 2.0**-x),
        ("I(2^x^2)", lambda x: 2.0 ** (x**2)),
        ("I(!x > 1)", lambda x: 1.0 * ~(x > 1)),
        ("I(x > 0 | x > 1 & x > 2)", lambda x: 1.0 * ((x > 0) | ((x > 1) & (x > 2)))),
    ],
)
def test_operators_bind_as_in_r(expression, meaning):
    frame = TABLE.assign(x=np.linspace(0.25, 7.3, N))
    np.testing.assert_allclose(raw(f"y ~ {expression}", frame)[1][:, 1], meaning(frame["x"]))


# ---- responses


@pytest.mark.parametrize(
    ("left", "positive"),
    [
        ("x > 1", lambda f: f["x"] > 1),
        ("1 < x", lambda f: f["x"] > 1),
        ("x>=1 & z<3", lambda f: (f["x"] >= 1) & (f["z"] < 3)),
        ("!flag", lambda f: ~f["flag"]),
        ("!(x > 1)", lambda f: f["x"] <= 1),
        ("log(z) > 0.5", lambda f: np.log(f["z"]) > 0.5),
        ("`blood pressure` > 140", lambda f: f["blood pressure"] > 140),
        ("x > z", lambda f: f["x"] > f["z"]),
        ("I(x > 1)", lambda f: f["x"] > 1),
        ("flag", lambda f: f["flag"]),
        ("flag == FALSE", lambda f: ~f["flag"]),
        ("y", lambda f: f["y"] == 1),
        ("1 - y", lambda f: f["y"] == 0),
        ("as.numeric(x > 1)", lambda f: f["x"] > 1),
        ("ifelse(x > 1, 1, 0)", lambda f: f["x"] > 1),
        ("h", lambda f: f["h"] == "v"),
        ("g", lambda f: f["g"] != "a"),
        ("factor(g)", lambda f: f["g"] != "a"),
        ("factor(g, levels = c('c', 'b', 'a'))", lambda f: f["g"] != "c"),
        ("g == 'b'", lambda f: f["g"] == "b"),
        ("g %in% c('a', 'b')", lambda f: f["g"].isin(["a", "b"])),
        ("text == 'p'", lambda f: f["text"] == "p"),
        ("text != 'p' | flag", lambda f: (f["text"] != "p") | f["flag"]),
    ],
)
def test_responses(left, positive):
    expected = np.where(positive(TABLE), 1.0, -1.0)
    assert (responses(f"{left} ~ z", TABLE) == expected).all()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("C(g, Sum)", "C(g, contr.sum)"),
        ("C(g, Helmert())", "C(g, contr.helmert)"),
        ("C(g, Treatment)", "C(g, contr.treatment)"),
        ("Q('blood pressure') * x", "`blood pressure` * x"),
        ('I(Q("x") > 1)', "I(x > 1)"),
    ],
)
def test_spellings_of_patsy(theirs, ours):
    bounds = {"x": (-1, 3), "blood pressure": (1, 4)}
    found, expected = (plan(f"y ~ {one}", bounds=bounds).columns for one in (theirs, ours))
    for one, other in zip(found.terms, expected.terms, strict=True):
        np.testing.assert_array_equal(one.grid, other.grid)
    assert "Q(" not in "".join(found.names)


# ---- refusals about the formula itself


@pytest.mark.parametrize(
    ("formula", "says"),
    [
        ("y", "one '~'"),
        ("y ~ agee", "agee"),
        ("y ~ blod.pressure", "blod.pressure"),
        ("y ~ I(Y^2)", "I(Y^2)"),
        ("3 > 2 ~ x", "reads no column"),
        ("y ~ x > 3", "I(x > 3.2)"),
        ("y ~ x %% 2", "I(x %% 2)"),
        ("y ~ x | g", "person='clinic'"),
        ("y ~ x + (1 | g)", "random effects"),
        ("y ~ x + strata(g)", "by='g'"),
        ("y ~ 2 * x", "I(2 * x)"),
        ("y ~ 'x'", "not a term"),
        ("y ~ 0", "no columns"),
        ("y ~ x +", "right-hand side"),
        ("y ~ log(x", "bracket"),
        ("y ~ {x}", "cannot read '{'"),
        ("y ~ I(x +)", "I(x + )"),
        ("y ~ I(x[1])", "I(x[1])"),
        ("y ~ log(g)", "'g'"),
        ("y ~ I(x == 'a')", "'a'"),
        ("y ~ I(x %in% c(1, z))", "constants"),
        ("y ~ z * offset(x)", "offset"),
        ("offset(y) ~ x", "offset"),
        ("y ~ x %foo% z", ""),
        ("y ~ C(g, 3)", "contr"),
        ("y ~ C(g, contr.treatment(base = 2))", "base level 2, which is not one of its levels"),
        ("y ~ C(g, contr.treatment(3, base = 2))", "one argument of its contrast"),
        ("y ~ factor(g, labels = c('A', 'B', 'C'))", "labels"),
        ("y ~ factor(g, ordered = TRUE)", "ordered"),
        ("y ~ I(x + 1" + "0" * 400 + ")", "number"),
    ],
)
@pytest.mark.parametrize("row_norm", [None, 1.0])
def test_refused_formulas_name_what_cannot_be_read(formula, says, row_norm):
    bounds = {"x": (-1, 3), "z": (1, 4)}
    with pytest.raises(FormulaError) as caught:
        plan(formula, bounds=bounds, row_norm=row_norm)
    assert says in str(caught.value)
    assert "\ue000" not in str(caught.value)  # keys are internal


TOKENS = ["x", "z", "g", "flag", ".", "1", "0", "2", "+", "-", "*", ":", "^", "/", "%in%", "(", ")"]
TOKENS += [
    "I(",
    "log(",
    "{",
    "}",
    "'a'",
    ">",
    "!",
    "~",
    ",",
    "factor(",
    "C(",
    "=",
    "[",
    "]",
    "`b c`",
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=7))
def test_any_right_hand_side_is_planned_or_refused_in_our_words(tokens):
    with contextlib.suppress(PrivateLRError):
        spec = plan(f"y ~ {' '.join(tokens)}", TABLE, row_norm=1.0)
        made = read_design(spec, as_batch(TABLE), DenseRows)
        assert made.x.shape == (N, len(spec.columns.names))


# -- what was read before --------------------------------------------------------------------------
