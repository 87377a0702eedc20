"""``weights=``: how much a record counts, what it costs, and what it leaves unchanged."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import privatelr
from privatelr import dplr, dpsvm, plan
from privatelr.audit import checks
from privatelr.audit.density.loss import loss_of, search, with_weights
from privatelr.audit.density.persons_and_classes import audit_changes
from privatelr.call_data import read_data
from privatelr.errors import ArgumentError, FormulaError, PrivateLRError, SchemaError
from privatelr.formula import parse_formula
from privatelr.mechanisms import ALL_FOR_COEFFICIENTS, Request
from privatelr.numerics import LOSSES, Objective
from privatelr.numerics.objective import gradient_of, hessian
from privatelr.numerics.rows import DenseRows, SparseRows
from privatelr.privacy import PureDP
from privatelr.sources import declare_schema

N = 2000
BOUNDS = {"x": (-1, 1), "u": (0, 3), "w": (0, 5), "y": (0, 1)}
TINY = 1e-9


def made(n: int = N, seed: int = 20) -> pd.DataFrame:
    """Records whose weights go together with the outcome, so that they matter."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.uniform(-1, 1, n),
            "u": rng.uniform(0, 3, n),
            "w": rng.uniform(0.1, 5, n),
            "g": pd.Categorical.from_codes(rng.integers(0, 90, n), [f"g{i}" for i in range(90)]),
        }
    )
    link = 0.3 + frame["x"] - frame["u"] + 0.4 * frame["w"]
    frame["y"] = (rng.uniform(size=n) < 1 / (1 + np.exp(-link))).astype(int)
    return frame


FRAME = made()


def reference(frame: pd.DataFrame, covariates: pd.DataFrame, weights: pd.Series, **beside):
    design = sm.add_constant(covariates.astype(float))
    family = sm.families.Binomial()
    model = sm.GLM(frame["y"], design, family=family, freq_weights=weights, **beside)
    return np.asarray(model.fit(tol=1e-12, maxiter=200).params)


def rows_of(formula: str, frame: pd.DataFrame = FRAME, **declared: object) -> tuple:
    data = read_data(formula, frame, None)
    spec = data.plan(declare_schema(**{"bounds": BOUNDS, **declared}))
    return spec, data.rows(spec, bar=False)[0]


# --- what a fit computes --------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize(
    ("formula", "given", "weights"),
    [
        ("y ~ x + u", "w", lambda f: f["w"]),
        ("y ~ x + u + weights(w)", None, lambda f: f["w"]),
        ("y ~ x + u", "1 / (1 + w)", lambda f: 1 / (1 + f["w"])),
        ("y ~ x + u + w", "w", lambda f: f["w"]),
        ("y ~ . - g", "w", lambda f: f["w"]),
    ],
)
def test_a_plain_fit_is_that_of_statsmodels(formula, given, weights) -> None:
    fit = dplr(formula, FRAME, eps=0, lambda_=TINY, bounds=BOUNDS, weights=given)
    columns = [name for name in fit.coef.index if name != "(Intercept)"]
    assert columns == (["x", "u", "w"] if "+ w" in formula and given else ["x", "u"])
    expected = reference(FRAME, FRAME[columns], weights(FRAME))
    assert np.abs(fit.coef - expected).max() < 1e-5
    plain = dplr("y ~ x + u", FRAME, eps=0, lambda_=TINY, bounds=BOUNDS)
    assert np.abs(fit.coef[["x", "u"]] - plain.coef[["x", "u"]]).max() > 0.01


def test_wide_factors_take_weights() -> None:
    frame = made(6000)
    fit = dplr("y ~ g", frame, eps=0, lambda_=1e-10, bounds=BOUNDS, weights="w")
    _, rows = rows_of("y ~ g + weights(w)", frame)
    assert isinstance(rows, SparseRows)
    expected = reference(frame, pd.get_dummies(frame["g"]).iloc[:, 1:], frame["w"])
    assert np.abs(fit.coef.to_numpy() - expected).max() < 1e-5


@pytest.mark.parametrize("loss", ["softplus", "huber"])
def test_a_support_vector_machine_counts_its_records_so(loss: str) -> None:
    asked = {"eps": 0, "lambda_": 0.01, "loss": loss}
    fit = dpsvm("y ~ x + u", FRAME, bounds=BOUNDS, weights="w", **asked)
    spec, _ = rows_of("y ~ x + u")
    _, plain = rows_of("y ~ x + u")
    share = FRAME["w"].to_numpy() / 5
    slopes = fit.loss.slope(plain.y * (plain.x @ fit.release.coef))
    gradient = (share * slopes * plain.y) @ plain.x / N + 0.01 * fit.release.coef
    assert spec.weight is None
    assert np.abs(gradient).max() < 1e-7


@pytest.mark.parametrize("partitions", [0, 3])
def test_the_scale_is_that_of_records_that_count_alike(partitions: int) -> None:
    asked = {"eps": 1e4, "bounds": BOUNDS, "do_scale": "private", "lambda_": 1e-6}
    data = FRAME.drop(columns="g")
    if partitions:
        data = pytest.importorskip("dask.dataframe").from_pandas(data, npartitions=partitions)
    fit = dplr("y ~ x + u", data, weights="w", **asked)
    plain = dplr("y ~ x + u", data, **asked)
    for column in ("mean", "sd"):
        assert np.allclose(fit.scale[column], plain.scale[column], atol=1e-3)
    assert np.abs(fit.coef - reference(FRAME, FRAME[["x", "u"]], FRAME["w"])).max() < 0.01


@pytest.mark.parametrize("do_scale", [False, "private"])
def test_standard_errors_are_those_of_a_weighted_sandwich(do_scale) -> None:
    scale = {} if do_scale else {"do_scale": False}
    fit = dplr("y ~ x + u", FRAME, 0, TINY, bounds=BOUNDS, spend="inference", weights="w", **scale)
    x = sm.add_constant(FRAME[["x", "u"]]).to_numpy()
    w, p = FRAME["w"].to_numpy(), 1 / (1 + np.exp(-x @ fit.coef.to_numpy()))
    inverse = np.linalg.inv((x.T * (w * p * (1 - p))) @ x)
    scores = (x.T * (w**2 * (FRAME["y"].to_numpy() - p) ** 2)) @ x
    assert np.allclose(fit.bse, np.sqrt(np.diag(inverse @ scores @ inverse)), rtol=1e-5)


# --- what a record that counts less may move ------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_a_record_moves_as_much_as_a_shorter_one_may(loss, weighted: bool) -> None:
    """The range of slope and curvature in `Weight`: below ``k t (1 - t)``, at any coefficients."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(0, 0.4 if not weighted else 2, (200, 3)), rng.choice([-1.0, 1.0], 200)
    roots = np.sqrt(rng.choice([1.0, 0.5, 1e-3, 1e-12], 200))
    limits = {"bound": 1.0, "intercept": 0.5, "weighted": weighted}
    for w in rng.normal(0, 5, (20, 4)):
        for i in range(0, 200, 10):
            one = DenseRows(x[i : i + 1], y[i : i + 1] / roots[i], **limits)
            held = Objective(one, loss, 0.0, np.zeros(4))
            slope = np.linalg.norm(gradient_of(held, w)) / one.radius / loss.slope_bound
            curvature = np.linalg.eigvalsh(hessian(held, w))[-1] / one.radius**2
            # of a long record the root of its share is in the slope, and not in the curvature
            assert slope <= roots[i] ** 2 * (1 + 1e-9)
            assert curvature <= loss.curvature_bound * roots[i] ** 2 * (1 + 1e-9)
            if loss.name == "logistic" and not weighted:
                assert curvature <= slope * (1 - slope) + 1e-12


@pytest.mark.quick
@pytest.mark.parametrize("make", [DenseRows, SparseRows])
def test_a_row_is_bounded_before_it_is_multiplied(make) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.normal(0, 3, (50, 2)), rng.choice([-1.0, 1.0], 50)
    roots = np.sqrt(rng.uniform(0.01, 1, 50))
    plain, rows = make(x, y, bound=1.0, intercept=0.5), make(x, y / roots, bound=1.0, intercept=0.5)
    one, other = (np.asarray(r.x.todense() if make is SparseRows else r.x) for r in (plain, rows))
    assert np.allclose(other, one * roots[:, None], rtol=1e-12)
    assert np.allclose(rows.y, plain.y / roots)


@pytest.mark.parametrize("epsilon", [0.1])
def test_no_loss_exceeds_its_claim(epsilon: float) -> None:
    found = list(audit_changes(epsilon, np.random.default_rng(2), "weights*"))
    assert len(found) >= 10
    assert all(check.holds for check in found), found


def test_planted_weights_above_the_largest_one_are_caught() -> None:
    request = Request(PureDP(0.5), "objective", None, "free", "keep", ALL_FOR_COEFFICIENTS)
    held = checks.plan_in(request, LOSSES["logistic"], checks.Setting(small=4.0)).coefficients
    worst = search(held, np.random.default_rng(0), 1).pair
    assert loss_of(worst, held).ratio <= 1
    assert loss_of(with_weights(worst, 4.0, 4.0), held).ratio > 1


@pytest.mark.quick
@pytest.mark.parametrize("target", [{}, {"delta": 1e-6}, {"op": False}, {"spend": "inference"}])
def test_no_noise_depends_on_weights(target: dict) -> None:
    declared = {"bounds": BOUNDS, "eps": 1.0, **target}
    plain, counted = (dplr("y ~ x + u", FRAME, weights=w, **declared) for w in (None, "w"))
    assert plain.calibration == counted.calibration


# --- reading --------------------------------------------------------------------------------


@pytest.mark.quick
def test_weights_are_clipped_and_what_is_no_positive_number_does_not_count() -> None:
    odd = FRAME.head(7).assign(w=[np.nan, np.inf, 100.0, 0.0, -2.0, 1e-30, 1.25])
    _, rows = rows_of("y ~ x + u + weights(w)", odd)
    assert np.array_equal(rows.y == 0, [True, True, False, True, True, True, False])
    assert not rows.x[[0, 1, 3, 4, 5]].any()
    assert np.allclose(np.abs(rows.y[[2, 6]]), [1.0, 2.0])
    _, plain = rows_of("y ~ x + u", odd)
    assert np.allclose(rows.x[6], plain.x[6] / 2)


def test_other_functions_do_not_need_the_column(tmp_path) -> None:
    fit = dplr("y ~ x + u", FRAME, eps=4.0, bounds=BOUNDS, spend="inference", weights="w")
    bare = FRAME[["x", "u"]]
    assert np.array_equal(fit.predict(bare), fit.predict(FRAME))
    assert fit.private_roc(FRAME[["x", "u", "y"]], eps=1.0).auc > 0.5
    effects = privatelr.average_marginal_effects(fit, reference=bare)
    assert list(effects.table.index) == ["x", "u"]
    fit.save(tmp_path / "fit.json")
    again = privatelr.load(tmp_path / "fit.json")
    assert np.array_equal(again.predict(bare), fit.predict(bare))
    assert again.spec.weight == fit.spec.weight
    assert again.spec.formula.text == "y ~ x + u + weights(w)"
    assert "weights" in str(privatelr.compare({"one": fit, "other": again}))


def test_pages_name_the_weights_and_the_largest_one() -> None:
    fit = dplr("y ~ x + u", FRAME, eps=1.0, bounds=BOUNDS, weights="w")
    outlook = plan("y ~ x + u", N, 1.0, bounds=BOUNDS, weights="w")
    for page in (str(fit), str(fit.card()), str(outlook)):
        assert "a record counts w / 5" in " ".join(page.split())
    text = " ".join(str(fit).split())
    assert "far less than 1 wastes price" in text
    other = dplr("y ~ x + u", FRAME, eps=1.0, bounds=BOUNDS, weights="1 / (1 + w)")
    assert "a record counts (1/(1 + w)) / 1," in " ".join(str(other).split())


def test_a_plan_forecasts_the_noise_of_records_that_count_less() -> None:
    asked = {"bounds": {**BOUNDS, "w": (0, 5)}, "do_scale": False}
    plain, counted = (plan("y ~ x + u", 10**4, 1.0, weights=w, **asked) for w in (None, "w"))
    ratio = counted.errors.privacy_sd / plain.errors.privacy_sd
    # records of uniform weights count half on average, and the noise moves the fit by twice as much
    assert np.all((ratio > 1.6) & (ratio < 2.4))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("formula", "weights", "declared", "words"),
    [
        ("y ~ x", "v", {}, "'v'"),
        ("y ~ x", "w", {"bounds": {"x": (-1, 1), "y": (0, 1)}}, 'declare bounds={"w": (lo, hi)}'),
        ("y ~ x", "1 / w", {}, "bounds that keep it finite"),
        ("y ~ x", "w", {"bounds": {**BOUNDS, "w": (-3, 0)}}, "at most 0"),
        ("y ~ x", "g", {}, "no categories"),
        ("y ~ x", FRAME["w"], {}, "make them a column"),
        ("y ~ x", " ", {}, "make them a column"),
        ("y ~ x + weights(u)", "w", {}, "not 2 times"),
        ("y ~ x + weights(y)", None, {}, "also a term"),
        ("y ~ x:weights(w)", None, {}, "added to the whole right-hand side"),
        ("weights(w) ~ x", None, {}, "no part of another term"),
    ],
)
def test_refusals(formula, weights, declared, words) -> None:
    with pytest.raises((FormulaError, SchemaError, PrivateLRError)) as caught:
        dplr(formula, FRAME, **{"bounds": BOUNDS, **declared}, weights=weights)
    assert words in str(caught.value)


def test_what_has_no_place_for_weights_says_so() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(ArgumentError, match="columns of a frame"):
        dplr(FRAME["y"], sparse.csr_array(np.eye(N)[:, :4]), weights="w", levels={"y": [0, 1]})
    with pytest.raises(FormulaError, match=r"weights\(w\) goes with dplr and dpsvm"):
        privatelr.dpsimplex("y ~ x + u + weights(w)", FRAME, eps=1.0, bounds=BOUNDS)
    fit = dplr("y ~ x", FRAME, eps=4.0, bounds=BOUNDS, spend="inference", weights="w")
    with pytest.raises(ArgumentError, match="weight"):
        fit.conf_int(method="bootstrap", covariates="uniform")


# --- a subset -------------------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize(
    ("condition", "chosen"),
    [
        ("u > 1", lambda f: f["u"] > 1),
        ("u > 1 & g != 'g3'", lambda f: (f["u"] > 1) & (f["g"] != "g3")),
        ("g %in% c('g1', 'g2', 'g40', 'g41')", lambda f: f["g"].isin(["g1", "g2", "g40", "g41"])),
        ("old", lambda f: f["old"]),
    ],
)
def test_a_plain_fit_of_a_subset_is_that_of_its_records(condition, chosen) -> None:
    frame = FRAME.assign(old=FRAME["u"] + FRAME["x"] > 1)
    fit = dplr("y ~ x + u", frame, 0, 1e-10, bounds=BOUNDS, subset=condition, weights="w")
    part = frame[chosen(frame)]
    assert np.abs(fit.coef - reference(part, part[["x", "u"]], part["w"])).max() < 1e-4
    assert fit.nobs == N
    assert f"records for which {condition}; the others are rows" in " ".join(str(fit).split())


@pytest.mark.parametrize("partitions", [0, 3])
def test_the_scale_is_that_of_all_records(partitions: int) -> None:
    asked = {"eps": 1e4, "bounds": BOUNDS, "do_scale": "private", "lambda_": 1e-6}
    data = FRAME.drop(columns="g")
    if partitions:
        data = pytest.importorskip("dask.dataframe").from_pandas(data, npartitions=partitions)
    fit = dplr("y ~ x + u", data, subset="u > 1", **asked)
    plain = dplr("y ~ x + u", data, **asked)
    assert np.allclose(fit.scale["mean"], plain.scale["mean"], atol=1e-3)
    part = FRAME[FRAME["u"] > 1]
    assert np.abs(fit.coef - reference(part, part[["x", "u"]], part["w"] * 0 + 1)).max() < 0.05


def test_a_subset_is_saved_planned_and_not_needed_to_predict(tmp_path) -> None:
    asked = {"eps": 4.0, "bounds": BOUNDS, "spend": "inference", "subset": "old > 1"}
    asked["bounds"] = {**BOUNDS, "old": (0, 2)}
    frame = FRAME.assign(old=FRAME["u"] / 1.5)
    fit = dplr("y ~ x", frame, **asked)
    assert fit.predict(FRAME[["x"]]).notna().all()
    fit.save(tmp_path / "fit.json")
    assert privatelr.load(tmp_path / "fit.json").spec.weight == fit.spec.weight
    plain, half = (
        plan("y ~ x", N, 4.0, bounds=asked["bounds"], subset=one) for one in (None, "old > 1")
    )
    assert half.errors.sampling_sd[1] > 1.2 * plain.errors.sampling_sd[1]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("condition", "words"),
    [("u + 1", "true or false"), ("w", "subset(w > 50)"), ("g == 'z9'", "not one of its levels")],
)
def test_what_is_no_condition_is_refused(condition, words) -> None:
    with pytest.raises(PrivateLRError) as caught:
        dplr("y ~ x", FRAME, bounds=BOUNDS, subset=condition)
    assert words in str(caught.value)


@pytest.mark.quick
def test_no_dot_stands_for_weights() -> None:
    found = parse_formula("y ~ . + weights(`my w` / a)", ["y", "a", "b", "my w"])
    assert [factor.label for factor in found.factors] == ["b"]
    assert found.variables == ("y", "b", "my w", "a")
    assert found.scored == ("y", "b")
    whole = parse_formula("y ~ . + subset(a > 3)", ["y", "a", "b"])
    assert [factor.label for factor in whole.factors] == ["a", "b"]
    assert parse_formula(found.text, ["y", "a", "b", "my w"]) == found
