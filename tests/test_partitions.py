"""``bs()``, ``cut()`` and ``poly(raw = TRUE)``: terms with public knots, and their ranges."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.interpolate import BSpline

import privatelr
from privatelr import dplr
from privatelr.call_data import read_data
from privatelr.design.partitions import b_splines
from privatelr.errors import ArgumentError, FormulaError, PrivateLRError, SchemaError
from privatelr.formula import parse_formula
from privatelr.sources import declare_schema

N = 4000
DECLARED = {"bounds": {"age": (20, 80), "z": (-1, 1), "y": (0, 1)}, "levels": {"g": ["a", "b"]}}
KNOTS = "bs(age, knots = c(35, 50, 65))"
SIX = "cut(age, breaks = c(20, 30, 40, 50, 60, 70, 80), include.lowest = TRUE)"


def made(n: int = N, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.uniform(20, 80, n), "z": rng.uniform(-1, 1, n)})
    frame["g"] = rng.choice(["a", "b"], n)
    link = 2 * np.sin(frame["age"] / 10) - (frame["g"] == "b") + 0.5 * frame["z"]
    frame["y"] = (rng.uniform(size=n) < 1 / (1 + np.exp(-link))).astype(int)
    return frame


FRAME = made()


def basis(values: np.ndarray, knots: list[float], degree: int = 3) -> np.ndarray:
    """SciPy's B-splines, as a table ``(n, k)``."""
    ends = [knots[0]] * degree, [knots[-1]] * degree
    return BSpline.design_matrix(
        values, np.concatenate([ends[0], knots, ends[1]]), degree
    ).toarray()


def rows_of(formula: str, frame: pd.DataFrame = FRAME, **declared: object) -> tuple:
    data = read_data(formula, frame, None)
    spec = data.plan(declare_schema(**{**DECLARED, **declared}))
    return spec, data.rows(spec, bar=False)[0]


def log_loss(fit, frame: pd.DataFrame) -> float:
    p = np.clip(fit.predict(frame).to_numpy(), 1e-12, 1 - 1e-12)
    return float(-np.mean(np.where(frame["y"] == 1, np.log(p), np.log(1 - p))))


# --- values ---------------------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize("degree", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "knots",
    [
        *([0.0, 1.0], [-2.0, 0.3, 0.4, 7.0], [0.0, 1e-9, 1.0]),
        *([0.0, 0.5, 0.5, 1.0], [0.0, 0.2, 0.2, 0.2, 0.9, 0.9, 1.0]),
    ],
)
def test_splines_are_those_of_scipy_and_add_up_to_one(degree: int, knots: list[float]) -> None:
    rng = np.random.default_rng(degree)
    values = np.append(rng.uniform(knots[0], knots[-1], 500), knots)
    first, shares = b_splines(values, np.array(knots), degree)
    table = np.zeros((len(values), len(knots) + degree - 1))
    for step in range(degree + 1):
        np.add.at(table, (np.arange(len(values)), first + step), shares[:, step])
    assert np.abs(table - basis(values, knots, degree)).max() < 1e-12
    assert shares.min() >= 0
    assert np.abs(shares.sum(axis=1) - 1).max() < 1e-14


@pytest.mark.quick
@pytest.mark.parametrize(
    ("formula", "covariates"),
    [
        (f"y ~ {KNOTS}", lambda f: basis(f["age"].to_numpy(), [20, 35, 50, 65, 80])[:, 1:]),
        ("y ~ bs(age, degree = 2)", lambda f: basis(f["age"].to_numpy(), [20, 80], 2)[:, 1:]),
        (
            "y ~ bs(age, knots = [50], lower_bound = 0, upper_bound = 100)",
            lambda f: basis(f["age"].to_numpy(), [0, 50, 100])[:, 1:],
        ),
        ("y ~ bs(log(age))", lambda f: basis(np.log(f["age"]), [np.log(20), np.log(80)])[:, 1:]),
        (f"y ~ {SIX}", lambda f: pd.get_dummies(pd.cut(f["age"], range(20, 90, 10))).iloc[:, 1:]),
        (
            "y ~ cut(age, c(20, 50, 80.5), right = FALSE)",
            lambda f: (f["age"] >= 50).to_numpy()[:, None],
        ),
        ("y ~ poly(age, 2, raw = TRUE)", lambda f: np.column_stack([f["age"], f["age"] ** 2])),
    ],
)
def test_a_plain_fit_is_that_of_statsmodels(formula: str, covariates) -> None:
    fit = dplr(formula, FRAME, 0, 1e-10, **DECLARED)
    design = sm.add_constant(np.asarray(covariates(FRAME), dtype=float))
    model = sm.GLM(FRAME["y"], design, family=sm.families.Binomial()).fit(tol=1e-12, maxiter=200)
    assert np.abs(design @ (fit.coef.to_numpy() - model.params)).max() < 1e-4


def test_products_of_splines_are_products_of_their_columns() -> None:
    frame = FRAME.head(200)
    spec, rows = rows_of(
        f"y ~ {KNOTS} * g + {KNOTS}:z + bs(z, degree = 1):bs(age, degree = 2)", frame
    )
    first = basis(frame["age"].to_numpy(), [20, 35, 50, 65, 80])
    b = (frame["g"] == "b").to_numpy()[:, None]
    names = list(spec.columns.names)
    here = [names.index(f"{KNOTS}[{j}]") for j in range(1, 7)]
    both = [names.index(f"{KNOTS}[{j}]:g[T.b]") for j in range(1, 7)]
    assert np.allclose(rows.x[:, here], first[:, 1:], atol=1e-12)
    assert np.allclose(rows.x[:, both], first[:, 1:] * b, atol=1e-12)
    z, age = basis(frame["z"].to_numpy(), [-1, 1], 1), basis(frame["age"].to_numpy(), [20, 80], 2)
    tables = {"bs(z": z, "bs(age": age}
    crossed = [j for j, name in enumerate(names) if "bs(z" in name]
    assert len(crossed) >= 3
    for column in crossed:
        product = np.ones(len(frame))
        for part in names[column].split(":"):
            own, place = tables[part[: part.index(",")]], int(part[part.rindex("[") + 1 : -1])
            product = product * own[:, place]
        assert np.allclose(rows.x[:, column], product, atol=1e-12)


@pytest.mark.quick
def test_names_of_intervals_are_those_of_r() -> None:
    def levels(call: str) -> tuple:
        return rows_of(f"y ~ {call}")[0].factors[0].levels

    assert levels("cut(age, c(20, 30.5, 80))") == ("(20,30.5]", "(30.5,80]")
    assert levels("cut(age, c(20, 50, Inf), right = FALSE)") == ("[20,50)", "[50,Inf)")
    assert levels("cut(age, c(-Inf, 50, 80), include.lowest = TRUE)") == ("[-Inf,50]", "(50,80]")
    assert levels("cut(age, c(20, 50.001, 50.002, 80))")[1] == "(50.001,50.002]"
    assert levels("cut(age, c(20, 50, 80), labels = c('low', 'high'))") == ("low", "high")


def test_a_value_in_no_interval_counts_as_missing() -> None:
    odd = FRAME.head(5).assign(age=[20.0, 30.0, 30.000001, 79.0, np.nan])
    _, rows = rows_of("y ~ cut(age, c(20, 30, 60))", odd)
    assert np.array_equal(rows.y == 0, [True, False, False, True, True])
    fit = dplr("y ~ cut(age, c(20, 30, 60))", FRAME, 1.0, **DECLARED)
    assert fit.predict(odd).isna().tolist() == [True, False, False, True, True]


# --- bounds ---------------------------------------------------------------------------------


def test_a_spline_is_one_block_of_bound_one() -> None:
    spec, rows = rows_of(f"y ~ {KNOTS} + z")
    block = spec.blocks[1]
    assert (block.size, block.bound) == (6, pytest.approx(1.0, abs=1e-9))
    assert rows.x[:, 1:7].sum(axis=1).max() <= block.bound
    columns = "y ~ " + " + ".join(f"I(age^{k})" for k in range(1, 7)) + " + z"
    assert spec.radius < rows_of(columns)[0].radius  # six columns by themselves


# --- plots ----------------------------------------------------------------------------------


def test_a_term_is_drawn_with_its_band_where_inference_was_bought() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    formula = f"y ~ {KNOTS} + g + offset(z)"
    bought = dplr(formula, FRAME, 0, 1e-6, spend="inference", **DECLARED)
    axes = bought.plot_term("bs(age)")
    x, y = axes.lines[0].get_data()
    truth = 2 * np.sin(x / 10) - 2 * np.sin(5)
    assert np.abs(y - truth)[20:-20].max() < 0.5
    assert len(axes.collections) == 1
    assert axes.get_xlabel() == "age"
    alone = dplr(formula, FRAME, 1.0, **DECLARED).plot_term("age", ax=axes)
    assert "adds a band" in alone.get_title()
    for wrong in ("g", "weight", ""):
        with pytest.raises(PrivateLRError):
            bought.plot_term(wrong)


def test_a_smooth_of_each_level_is_drawn_by_itself() -> None:
    """A line for each level of an interaction, or that of the level where it is held."""
    pytest.importorskip("matplotlib").use("Agg")
    formula = "y ~ bs(age, knots = c(40, 60)) * g + z"
    bought = dplr(formula, FRAME, 20.0, spend="inference", **DECLARED)
    values = np.linspace(20, 80, 201)

    def lines(term: str, **asked: object) -> dict[str, np.ndarray]:
        axes = bought.plot_term(term, **asked)
        return {line.get_label(): line.get_ydata() for line in axes.lines[:-1]}

    drawn = lines("bs(age):g")
    assert list(drawn) == ["g = a", "g = b"]
    assert len(bought.plot_term("bs(age)").collections) == 2
    for level, name in (("a", "g = a"), ("b", "g = b")):
        new = pd.DataFrame({"age": np.append(values, 50.0), "g": level, "z": 0.0})
        link = bought.predict(new, type="link", interval=0.95)["link"].to_numpy()
        np.testing.assert_allclose(drawn[name], link[:-1] - link[-1], atol=1e-9)
        (alone,) = lines("age", at={"g": level}).values()
        np.testing.assert_allclose(alone, drawn[name], atol=1e-12)
    assert len(lines("z")) == 1
    for at, words in (
        ({"g": "c"}, "takes one of 'a', 'b'"),
        ({"h": "a"}, "the model has no variable 'h'"),
        ({"age": 3}, "is drawn"),
        ({"z": 3}, "from -1 to 1"),
        (3, "takes a mapping"),
    ):
        with pytest.raises(ArgumentError, match=words):
            bought.plot_term("age", at=at)
    wide = FRAME.assign(g=np.arange(N) % 11)
    schema = {**DECLARED, "levels": {"g": list(range(11))}}
    with pytest.raises(ArgumentError, match=r"hold some of them, as in at=\{'g': 0\}"):
        dplr("y ~ age * g", wide, 20.0, **schema).plot_term("age")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("spelled", "usual"),
    [
        ("bs(age, None, [40, 60], 2, False)", "bs(age, knots = c(40, 60), degree = 2)"),
        (
            "bs(age, NULL, c(40, 60), 3, FALSE, c(10, 90))",
            "bs(age, knots = c(40, 60), Boundary.knots = c(10, 90))",
        ),
        ("splines::ns(age, knots = 50)", "ns(age, knots = 50)"),
        (
            "cr(age, None, [40, 60], 30, 70)",
            "cr(age, knots = c(40, 60), lower_bound = 30, upper_bound = 70)",
        ),
        (
            "cut(age, c(20, 50, 80), NULL, TRUE, FALSE)",
            "cut(age, c(20, 50, 80), include.lowest = TRUE, right = FALSE)",
        ),
        ("stats::poly(age, 2, raw = TRUE)", "poly(age, 2, raw = TRUE)"),
        ("poly(log(age), degree = 2, raw = TRUE)", "poly(log(age), 2, raw = TRUE)"),
    ],
)
def test_arguments_by_name_and_by_place_are_those_of_r_and_formulaic(spelled, usual) -> None:
    (spec, rows), (_, other) = (rows_of(f"y ~ {term} + z") for term in (spelled, usual))
    np.testing.assert_array_equal(rows.x, other.x)
    fit = dplr(f"y ~ {spelled} + z", FRAME[:99], 0, 1e-2, **DECLARED)
    assert parse_formula(fit.formula, list(FRAME)) == spec.formula


@pytest.mark.quick
@pytest.mark.parametrize("name", ["bs", "ns"])
@pytest.mark.parametrize("beyond", [(20, 80), (30, 70)])
def test_a_knot_that_is_repeated_takes_smoothness_and_keeps_the_range(name, beyond) -> None:
    """Columns are those of SciPy, also beyond the boundary; their range is that of rows."""
    term = f"{name}(age, knots = c(50, 50), Boundary.knots = c{beyond})"
    frame = made(601).assign(age=np.linspace(20, 80, 601))
    spec, rows = rows_of(f"y ~ 0 + {term}", frame)
    inside = frame["age"].between(*beyond).to_numpy()
    splines = basis(frame["age"].to_numpy()[inside], [beyond[0], 50, 50, beyond[1]])
    columns = rows.x[inside]
    kept = columns @ np.linalg.lstsq(columns, splines, rcond=None)[0]
    if name == "bs":  # the same functions, all of them
        np.testing.assert_allclose(kept, splines, atol=1e-9)
    made_of = splines @ np.linalg.lstsq(splines, columns, rcond=None)[0]
    np.testing.assert_allclose(made_of, columns, atol=1e-9)
    assert np.linalg.matrix_rank(columns) == columns.shape[1] == (6 if name == "bs" else 4)
    assert np.linalg.norm(rows.x, axis=1).max() <= spec.bound * (1 + 1e-12)


# --- refusals -------------------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize(
    ("term", "words"),
    [
        ("bs(age, df = 5)", "write public ones, as in knots = c(40, 60)"),
        ("bs(age, Boundary.knots = c(49, 51))", "declare bounds= nearer to its boundary (49, 51)"),
        ("bs(age, knots = c(60, 40))", "knots that rise"),
        ("bs(age, knots = seq(20, 80, 30))", "and not on it: 20, 50, 80"),
        ("bs(age, knots = c(40, 40, 40, 40))", "repeats the knot 40, 4 times in all; a knot occ"),
        ("bs(age, Boundary.knots = c(80, 20))", "its boundary takes two numbers that rise"),
        ("bs(age, 5, c(40, 60))", "leave df out, or write NULL in its place"),
        ("bs(age, NULL, c(40), 3, FALSE, c(20, 80), 1)", "no further argument"),
        ("cut(age, c(20, 50, 80), labels = FALSE)", "I(1 + (x > 50))"),
        ("bs(age, knots = quantile(age))", "public numbers"),
        ("bs(age, degree = 0)", "a whole number from 1"),
        ("bs(age, intercept = TRUE)", "write 0 + bs(age) for all columns"),
        ("bs(g)", "divides numbers"),
        ("bs(w)", "declared bounds"),
        ("log(bs(age))", "by itself"),
        ("cut(age, 5)", "three breaks or more"),
        ("cut(age, c(20, 50, 80), labels = c('a'))", "2 different texts"),
        ("cut(age, c(20, 50, 80), right = 3)", "TRUE or FALSE"),
        ("cc(age, knots = c(40))", "no proven range"),
        ("poly(age, 2)", "poly(age, 2, raw = TRUE)"),
        ("poly(age, 20, raw = TRUE)", "a degree from 1 to 10"),
        ("poly(age, w, degree = 2, raw = TRUE)", "poly takes one variable; write a sum"),
        ("poly(age, 3, degree = 2, raw = TRUE)", "poly takes degree once"),
        ("cut(age, c(60, 40, 18))", "takes breaks that rise: 60, 40, 18"),
    ],
)
def test_what_would_learn_from_the_data_or_has_no_bound_is_refused(term: str, words: str) -> None:
    frame = FRAME.assign(w=1.0)
    with pytest.raises((FormulaError, SchemaError, ArgumentError)) as caught:
        dplr(f"y ~ {term}", frame, 1.0, **DECLARED)
    assert words in str(caught.value)


@pytest.mark.quick
def test_powers_are_written_out() -> None:
    found = parse_formula(
        "y ~ poly(log(x), 2, raw=TRUE) * g + poly(x, degree=3, raw=T)", ["y", "x", "g"]
    )
    assert found.text.startswith("y ~ (I(log(x)) + I((log(x))^2)) * g")
    assert parse_formula(found.text, ["y", "x", "g"]) == found


def test_an_interaction_is_drawn_where_the_model_has_it() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    fit = dplr("y ~ age * z + bs(age, knots = 50) + g", FRAME, 20.0, **DECLARED)
    (line, _) = fit.plot_term("age:z", at={"z": 0.5}).lines
    (alone, _) = fit.plot_term("age", at={"z": 0.5}).lines
    np.testing.assert_array_equal(line.get_ydata(), alone.get_ydata())
    assert fit.plot_term("age:z", at={"age": 30}).get_xlabel() == "z"
    with pytest.raises(ArgumentError, match="with other variables held at a value by at"):
        fit.plot_term("age:z")


@pytest.mark.parametrize("formula", ["y ~ g %in% c()", "g %in% c() ~ z", "y ~ I(g %in% [])"])
def test_no_constants_are_refused_before_anything_is_paid(formula) -> None:
    """It was a bare TypeError, after the ledger was charged."""
    with privatelr.Ledger(5.0) as ledger, pytest.raises(FormulaError, match="a constant at least"):
        dplr(formula, FRAME, 1.0, **DECLARED)
    assert ledger.entries == ()


@pytest.mark.quick
def test_an_argument_without_a_place_is_refused() -> None:
    with pytest.raises(FormulaError, match="no further argument"):
        rows_of("y ~ bs(age, None, [35, 50], 3, False, 25, 75)")


@pytest.mark.parametrize("ordered", ["TRUE", "True"])
def test_an_order_that_is_asked_for_is_refused_as_such(ordered) -> None:
    for term in (
        f"factor(g, ordered = {ordered})",
        f"factor(g, levels = c('a', 'b'), ordered = {ordered})",
        f"cut(age, breaks = c(20, 50, 80), ordered_result = {ordered})",
    ):
        for formula in (f"{term} ~ z", f"y ~ {term}"):
            with pytest.raises(PrivateLRError, match="in an order, which no model here uses"):
                dplr(formula, FRAME, 1.0, **DECLARED)
