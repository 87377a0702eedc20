"""``offset()`` in formulas: what it does to a fit, and what it leaves unchanged."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import optimize

import privatelr
from privatelr import dplr, dpsvm
from privatelr.call_data import read_data
from privatelr.design import read_offset
from privatelr.errors import ArgumentError, FormulaError, SchemaError
from privatelr.formula import parse_formula
from privatelr.locks import flint, working_precision
from privatelr.mechanisms import matrix_of, mean_moments
from privatelr.mechanisms.stages.histogram import score_counts
from privatelr.numerics import LOSSES, Objective
from privatelr.numerics.objective import gradient_of, hessian
from privatelr.numerics.rows import DenseRows, SparseRows
from privatelr.numerics.solve import Newton
from privatelr.numerics.solve.certified import (
    ExactObjective,
    enclose,
    gradient_bound,
    precise_minimum,
)
from privatelr.sources import declare_schema

N = 1500
BOUNDS = {"x": (-1, 1), "u": (0, 3), "z": (0.5, 4), "y": (0, 1)}
FORMULA = "y ~ x + u + offset(log(z))"
TINY = 1e-9


def made(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(20)
    frame = pd.DataFrame(
        {
            "x": rng.uniform(-1, 1, n),
            "u": rng.uniform(0, 3, n),
            "z": rng.uniform(0.5, 4, n),
            "g": pd.Categorical.from_codes(rng.integers(0, 90, n), [f"g{i}" for i in range(90)]),
        }
    )
    link = 0.3 + frame["x"] - frame["u"] + np.log(frame["z"])
    frame["y"] = (rng.uniform(size=n) < 1 / (1 + np.exp(-link))).astype(int)
    return frame


FRAME = made()


def reference(frame: pd.DataFrame, covariates: pd.DataFrame, offset: np.ndarray) -> np.ndarray:
    design = sm.add_constant(covariates.astype(float))
    model = sm.GLM(frame["y"], design, family=sm.families.Binomial(), offset=offset)
    return np.asarray(model.fit(tol=1e-12, maxiter=200).params)


def concordance(scores: pd.Series) -> float:
    positive = FRAME["y"] == 1
    pairs = scores[positive].to_numpy()[:, None] - scores[~positive].to_numpy()
    return float((pairs > 0).mean() + (pairs == 0).mean() / 2)


def rows_of(formula: str, frame: pd.DataFrame = FRAME, **declared: object) -> tuple:
    data = read_data(formula, frame, None)
    spec = data.plan(declare_schema(**{"bounds": BOUNDS, **declared}))
    return spec, data.rows(spec, bar=False)[0]


# --- what a fit computes --------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize(
    ("formula", "offset"),
    [
        (FORMULA, lambda f: np.log(f["z"])),
        ("y ~ offset(z) + x + u", lambda f: f["z"]),
        ("y ~ x + u + offset(z) + offset(2 * x)", lambda f: f["z"] + 2 * f["x"]),
        ("y ~ x + u + z + offset(z)", lambda f: f["z"]),
    ],
)
def test_a_plain_fit_is_that_of_statsmodels(formula: str, offset) -> None:
    fit = dplr(formula, FRAME, eps=0, lambda_=TINY, bounds=BOUNDS)
    columns = [name for name in fit.coef.index if name != "(Intercept)"]
    expected = reference(FRAME, FRAME[columns], np.asarray(offset(FRAME)))
    assert np.abs(fit.coef - expected).max() < 1e-5


def test_wide_factors_take_an_offset() -> None:
    frame = made(6000)
    fit = dplr("y ~ g + offset(log(z))", frame, eps=0, lambda_=1e-10, bounds=BOUNDS)
    _, rows = rows_of("y ~ g + offset(log(z))", frame)
    assert isinstance(rows, SparseRows)
    covariates = pd.get_dummies(frame["g"]).iloc[:, 1:]
    expected = reference(frame, covariates, np.log(frame["z"]))
    assert np.abs(fit.coef.to_numpy() - expected).max() < 1e-5
    link = sm.add_constant(covariates.astype(float)).to_numpy() @ fit.coef + np.log(frame["z"])
    assert np.allclose(fit.predict(frame, "link"), link)


@pytest.mark.parametrize("loss", ["softplus", "huber"])
def test_a_support_vector_machine_has_its_offset_in_the_margin(loss: str) -> None:
    fit = dpsvm("y ~ x + u + offset(z - 2)", FRAME, eps=0, lambda_=0.01, loss=loss, bounds=BOUNDS)
    _, rows = rows_of("y ~ x + u + offset(z - 2)")
    held = fit.loss

    def value(w: np.ndarray) -> float:
        margin = rows.y * (rows.x @ w + FRAME["z"].to_numpy() - 2)
        return float(held.value(margin).mean() + 0.005 * w @ w)

    best = optimize.minimize(value, np.zeros(rows.d), method="BFGS", options={"gtol": 1e-9})
    assert np.abs(fit.release.coef - best.x).max() < 1e-5


def test_the_scale_stage_keeps_the_offset() -> None:
    fit = dplr(FORMULA, FRAME, eps=1e4, bounds=BOUNDS, do_scale="private", lambda_=1e-6)
    expected = reference(FRAME, FRAME[["x", "u"]], np.log(FRAME["z"]))
    assert np.abs(fit.coef - expected).max() < 0.01


def test_moments_are_those_at_margins_with_the_offset() -> None:
    fit = dplr(FORMULA, FRAME, eps=1.0, bounds=BOUNDS, spend="inference", do_scale=False)
    _, rows = rows_of(FORMULA)
    w, calibration = fit.release.coef, fit.release.moments.calibration
    link = rows.x @ w + np.log(FRAME["z"].to_numpy())
    p = 1 / (1 + np.exp(-link))
    curvature = (rows.x.T * (p * (1 - p))) @ rows.x / N
    found = mean_moments(rows, w, calibration)
    assert np.allclose(matrix_of(found[: len(found) // 2]), curvature)


def test_scores_of_a_curve_have_the_offset() -> None:
    _, rows = rows_of(FORMULA)
    w = np.array([0.3, 1.0, -1.0])
    link = rows.x @ w + np.log(FRAME["z"].to_numpy())
    edges = np.quantile(link, [0.25, 0.5, 0.75])
    counts = score_counts(rows, w, edges)
    assert counts[:4].sum() + counts[4:8].sum() == N
    assert np.array_equal(counts[:4] + counts[4:8], np.histogram(link, [-9, *edges, 9])[0])
    scored, _ = rows.scores(w)
    assert np.allclose(scored, link)


def test_an_average_effect_is_taken_at_links_with_the_offset() -> None:
    fit = dplr(FORMULA, FRAME, eps=5.0, bounds=BOUNDS, spend="inference", do_scale=False)
    effects = privatelr.average_marginal_effects(fit, reference=FRAME)
    assert list(effects.table.index) == ["x", "u"]
    coef = fit.coef + 0
    estimates = fit.tidy().set_index("term")["estimate"]
    link = estimates["(Intercept)"] + FRAME[["x", "u"]] @ estimates[["x", "u"]]
    p = 1 / (1 + np.exp(-(link + np.log(FRAME["z"]))))
    assert coef.notna().all()
    expected = estimates[["x", "u"]] * (p * (1 - p)).mean()
    assert np.allclose(effects.table["estimate"], expected, rtol=1e-3)


# --- what it leaves unchanged ---------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize("target", [{}, {"delta": 1e-6}, {"op": False}, {"spend": "inference"}])
def test_no_noise_depends_on_an_offset(target: dict) -> None:
    declared = {"bounds": BOUNDS, "eps": 1.0, "do_scale": False, **target}
    plain, moved = (dplr(f, FRAME, **declared) for f in ("y ~ x + u", FORMULA))
    sds = [np.sqrt(fit.calibration.noise.variances) for fit in (moved, plain)]
    assert np.allclose(*sds, rtol=1e-8)  # output noise has a part for the error of a minimum
    assert moved.calibration.problem.lambda_ == plain.calibration.problem.lambda_
    assert moved.calibration.tau > plain.calibration.tau


@pytest.mark.quick
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_one_record_moves_gradient_and_curvature_within_the_bounds_of_the_proofs(
    loss, weighted: bool
) -> None:
    """The two facts of `held_offset`, record by record, at any coefficients and any offset."""
    rng = np.random.default_rng(3)
    x = rng.normal(0, 2, (200, 3))
    y = rng.choice([-1.0, 1.0], 200)
    offset = rng.choice([-1e8, -3.0, 0.0, 0.7, 1e8], 200)
    limits = {"bound": 1.0, "intercept": 0.5, "weighted": weighted, "offset_bound": 1e6}
    rows = DenseRows(x, y, offset, **limits)
    plain = DenseRows(x, y, **{**limits, "offset_bound": 0.0})
    assert np.array_equal(rows.x, plain.x)
    assert np.array_equal(rows.y, plain.y)
    assert np.abs(rows.offset).max() <= 1e6
    for w in rng.normal(0, 5, (20, 4)):
        for i in range(0, 200, 10):
            one = DenseRows(x[i : i + 1], y[i : i + 1], offset[i : i + 1], **limits)
            held = Objective(one, loss, 0.0, np.zeros(4))
            slope = np.linalg.norm(gradient_of(held, w))
            assert slope <= loss.slope_bound * one.radius * (1 + 1e-12)
            values = np.linalg.eigvalsh(hessian(held, w))
            assert np.abs(values[:-1]).max() < 1e-9
            assert values[-1] <= loss.curvature_bound * one.radius**2 * (1 + 1e-9)


def test_offsets_of_weighted_rows_are_added_to_their_own_link() -> None:
    rng = np.random.default_rng(5)
    x, y, z = rng.normal(0, 3, (50, 2)), rng.choice([-1.0, 1.0], 50), rng.uniform(-2, 2, 50)
    limits = {"bound": 1.0, "intercept": 0.5, "weighted": True, "offset_bound": 2.0}
    rows, w = DenseRows(x, y, z, **limits), np.array([0.2, 1.0, -0.5])
    assert np.abs(rows.y).max() > 1.5
    assert np.allclose(rows.scores(w)[0], 0.1 + x @ w[1:] + z)


# --- certificates ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1.0, 40.0, 1e6])
def test_a_certificate_holds_and_balls_agree_for_large_offsets(size: float) -> None:
    rng = np.random.default_rng(8)
    n = 40
    x, y, z = rng.normal(size=(n, 2)), rng.choice([-1.0, 1.0], n), rng.uniform(-size, size, n)
    rows = DenseRows(x, y, z, bound=1.0, intercept=0.5, offset_bound=size)
    held = Objective(rows, LOSSES["logistic"], 0.01, rng.normal(0, 0.01, 3))
    w = Newton()(held).w
    with working_precision(300):
        tilt = [flint.arb(float(b)) for b in n * held.tilt]
        exact = ExactObjective(rows, held.loss, flint.arb(n * 0.01), tilt)
        point = enclose(exact, [flint.arb(float(entry)) for entry in w])
        length = float(sum((g * g for g in point.gradient), flint.arb(0)).sqrt().upper())
    bound = gradient_bound(held, w)
    assert length <= bound < 1e-7 * (1 + size)
    known = [float(b) for b in n * held.tilt]
    nearer = precise_minimum(held, w, 1e-25, lambda bits: [flint.arb(b) for b in known])
    assert np.abs(np.array([float(entry) for entry in nearer]) - w).max() <= bound / (n * 0.01)


# --- reading --------------------------------------------------------------------------------


@pytest.mark.quick
def test_an_offset_is_clipped_to_its_bounds_and_a_missing_one_makes_a_row_of_zeros() -> None:
    odd = FRAME.head(5).assign(z=[np.nan, np.inf, 100.0, 0.0, 1.0])
    _, rows = rows_of(FORMULA, odd)
    assert np.array_equal(rows.y == 0, [True, True, False, False, False])
    assert not rows.x[:2].any()
    assert np.allclose(rows.offset, [0, 0, np.log(4), np.log(0.5), 0])
    fit = dplr(FORMULA, FRAME, eps=1.0, bounds=BOUNDS)
    link = fit.predict(odd, "link")
    assert link.isna().tolist() == [True, True, False, False, False]
    plain = fit.predict(odd.assign(z=1.0), "link")
    assert np.allclose((link - plain)[2:], [np.log(4), np.log(0.5), 0])


def test_prediction_takes_the_column_and_intervals_move_with_it() -> None:
    fit = dplr(FORMULA, FRAME, eps=1.0, bounds=BOUNDS, spend="inference")
    with pytest.raises(FormulaError, match="'z' is missing"):
        fit.predict(FRAME.drop(columns="z"))
    one, four = (fit.predict(FRAME.assign(z=v), interval=0.9) for v in (1.0, 4.0))
    for name in ("link", "link_lower", "link_upper"):
        assert np.allclose(four[name] - one[name], np.log(4))
    pieces = pd.concat([fit.predict(FRAME.iloc[[i]], "link") for i in range(20)])
    assert np.array_equal(pieces, fit.predict(FRAME, "link")[:20])


def test_pages_name_the_offset_and_its_range() -> None:
    fit = dplr(FORMULA, FRAME, eps=1.0, bounds=BOUNDS)
    for page in (str(fit), str(fit.card())):
        assert "log(z)" in page
        assert "between -0.693 and 1.39" in " ".join(page.split())


def test_partitions_whose_offsets_change_end_a_fit() -> None:
    pytest.importorskip("dask")
    from privatelr.numerics.rows import checksum

    rng = np.random.default_rng(1)
    x, y, z = rng.normal(size=(300, 3)), rng.choice([-1.0, 1.0], 300), rng.normal(size=300)
    other = z.copy()
    other[[3, 8]] = other[[8, 3]]
    assert checksum(x, y, z) != checksum(x, y, other)
    assert checksum(x, y, z) != checksum(x, y)


# --- the formula ----------------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "terms", "offsets"),
    [
        ("y ~ x + offset(z)", ["x"], ["z"]),
        ("y ~ offset(log(z)) + x", ["x"], ["log(z)"]),
        ("y ~ offset(z)", [], ["z"]),
        ("y ~ 0 + x + offset(z) + offset(x)", ["x"], ["z", "x"]),
        ("y ~ offset(z) - 1 + x", ["x"], ["z"]),
        ("y ~ offset + x", ["offset", "x"], []),
    ],
)
def test_an_offset_is_taken_out_of_the_terms(text: str, terms: list, offsets: list) -> None:
    formula = parse_formula(text, ["y", "x", "z", "offset"])
    assert [factor.label for factor in formula.factors] == terms
    assert [part.label for part in formula.offsets] == offsets
    assert (() in formula.terms) == ("0" not in text and "1" not in text)
    assert parse_formula(formula.text, ["y", "x", "z", "offset"]).offsets == formula.offsets


@pytest.mark.quick
@pytest.mark.parametrize(
    "text",
    [
        "y ~ x * offset(z)",
        "y ~ x - offset(z)",
        "y ~ (x + offset(z))",
        "y ~ I(offset(z)) + x",
        "y ~ x + offset(z):x",
        "offset(y) ~ x",
        "y ~ x + offset(y)",
        "y ~ x + offset(2)",
    ],
)
def test_an_offset_stands_by_itself(text: str) -> None:
    with pytest.raises(FormulaError, match="offset"):
        parse_formula(text, ["y", "x", "z"])


@pytest.mark.quick
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: dplr("y ~ x + offset(z)", FRAME, bounds={"x": (-1, 1), "y": (0, 1)}),
            r'bounds=\{"z"',
        ),
        (lambda: dplr("y ~ x + offset(g)", FRAME, bounds=BOUNDS), "no categories"),
        (lambda: dplr("y ~ x + offset(x > 0)", FRAME, bounds=BOUNDS), "no categories"),
        (
            lambda: dplr("y ~ x + offset(log(z))", FRAME, bounds={**BOUNDS, "z": (0, 4)}),
            "keep it finite",
        ),
        (
            lambda: privatelr.dplpsvm("y ~ x + offset(z)", FRAME, eps=1.0, bounds=BOUNDS),
            "dplr and dpsvm",
        ),
        (
            lambda: privatelr.dpsimplex("y ~ x + offset(z)", FRAME, eps=1.0, bounds=BOUNDS),
            "dplr and dpsvm",
        ),
    ],
)
def test_what_has_no_offset_is_refused_in_one_sentence(call, message: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((FormulaError, SchemaError, ArgumentError), match=message) as error:
            call()
    assert str(error.value).count(". ") == 0


# --- plans, commands, audits ----------------------------------------------------------------


def test_the_loss_between_tables_that_differ_in_an_offset_keeps_the_claim() -> None:
    first = FRAME.head(40).drop(columns="g")
    second = first.copy()
    second.loc[0, ["x", "z", "y"]] = [1.0, 4.0, 1 - first.loc[0, "y"]]
    for fit_by in (dplr, dpsvm):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = fit_by("y ~ x + offset(3 * z)", first, eps=1.0, bounds=BOUNDS, do_scale=False)
        whole = privatelr.audit.privacy_loss(fit, first, second)
        assert 0 < whole.found <= 1.0
        sides = (first, second), (first.assign(z=1.0), second.assign(z=1.0))
        at = {"output": np.array([0.1, 0.2])}
        here, without = (privatelr.audit.privacy_loss(fit, *both, **at).found for both in sides)
        assert abs(here - without) > 1e-3


@pytest.mark.filterwarnings("ignore::privatelr.PrivacyWarning")
@pytest.mark.parametrize(
    "given",
    [
        {"rp_dim": 2},
        {"do_scale": True},
        {"do_scale": "private"},
        {"spend": {"coefficients": 0.7, "roc": 0.3}},
        {"op": False},
        {"delta": 1e-6, "spend": "inference"},
        {"row_norm": 0.5},
    ],
    ids=str,
)
def test_other_choices_keep_the_offset_in_their_links(given: dict) -> None:
    fit = dplr(FORMULA, FRAME, eps=2.0, bounds=BOUNDS, **given)
    link = fit.predict(FRAME.head(9), "link")
    moved = fit.predict(FRAME.head(9).assign(z=1.0), "link")
    assert np.allclose(link - moved, np.log(FRAME["z"].head(9)))
    scores = fit.predict(FRAME)
    # scores of the training data have it, too: a learned threshold lies between two of them
    low, high = np.quantile(scores, [0.0, 1.0])
    assert fit.diagnostics.c_index == pytest.approx(concordance(scores), abs=1e-9)
    assert low <= fit.diagnostics.youden <= high


@pytest.mark.quick
def test_a_dot_stands_for_the_column_of_an_offset_too_as_in_r() -> None:
    formula = parse_formula("y ~ . + offset(z)", ["y", "x", "z"])
    assert formula.regressors == ("x", "z")
    assert formula.covariates == ("x", "z")
    assert parse_formula("y ~ . - z + offset(z)", ["y", "x", "z"]).regressors == ("x",)


def test_no_warning_tells_of_an_offset() -> None:
    """Large tables are read by threads, in which NumPy's settings are those of a new thread."""
    frame = made(40_000).assign(z=-700.0)
    frame.loc[0, "z"] = -745.0
    text, bounds = "y ~ x + u + offset(exp(z))", {**BOUNDS, "z": (-750, 0)}
    spec, rows = rows_of(text, frame, bounds=bounds)
    assert rows.n == 40_000
    assert spec.offset_bound == 1.0
    with np.errstate(all="raise"):
        found = read_offset(spec.offsets, {"z": frame["z"].to_numpy()}, len(frame))
    assert found[1].all()
