"""The forecast of the noise: that of a plan, and a function of public facts and the release."""

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import SCHEMA, clinic, fit_clinic, fixed_noise
from repeated_noise import drawn, trial

from privatelr import ZCDP, Newton, PrivacyWarning, dplpsvm, dplr, dpsvm, plan
from privatelr.design import read_design
from privatelr.inference import expected_noise
from privatelr.inference import noise_forecast as forecast
from privatelr.mechanisms import ScaleRelease
from privatelr.numerics import Objective, hessian
from privatelr.numerics.rows import DenseRows
from privatelr.sources import as_batch

FORMULAS = [
    "y ~ age + dose + smoker",
    "y ~ smoker * log(age)",
    "y ~ 0 + I(dose > 1) + age:smoker",
    "y ~ 1",
]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("model", [dplr, dpsvm], ids=["dplr", "dpsvm"])
@pytest.mark.parametrize("eps", [0.1, 1.0, ZCDP(2.0)], ids=str)
def test_it_is_that_of_the_plan(formula, model, eps):
    fit = model(formula, trial(500), eps=eps, do_scale=False, **SCHEMA)
    loss = "logistic" if model is dplr else "softplus"
    options = {"loss": loss, "eps": eps, "do_scale": False, "spend": None}
    planned = plan(formula, 500, **SCHEMA, **options).errors.privacy_sd
    np.testing.assert_allclose(fit.privacy_sd_expected, planned, rtol=1e-6)


@pytest.mark.parametrize(
    "options",
    [{}, {"op": False}, {"eps": ZCDP(0.5)}, {"eps": 50.0}, {"lambda_": 1e-9}, {"row_norm": 0.4}],
    ids=str,
)
def test_it_is_below_the_limit(options):
    fit = fit_clinic(trial(300), **options)
    expected, limit = fit.privacy_sd_expected, fit.privacy_sd_limit
    assert (expected <= limit * (1 + 1e-12)).all()
    assert (expected == limit).all() == (options == {"op": False})
    assert list(fit.tidy().columns) == [
        *("term", "estimate", "privacy_sd_expected", "privacy_sd_limit"),
    ]
    np.testing.assert_array_equal(fit.tidy()["privacy_sd_expected"], expected)
    np.testing.assert_array_equal(fit.tidy()["privacy_sd_limit"], limit)


def check_is_of_the_release(fit, other, error):
    """Another fit says the same once it carries this release, and this map of the columns."""
    carrier = replace(other, release=fit.release, spec=fit.spec)
    np.testing.assert_array_equal(error(carrier), error(fit))


@pytest.mark.parametrize("options", [{}, {"eps": 50.0}, {"eps": ZCDP(2.0)}], ids=str)
def test_it_is_of_public_facts_and_of_the_release_alone(monkeypatch, options):
    frames = [trial(400), trial(400, seed=5).assign(dose=4.0)]
    with fixed_noise(monkeypatch):
        fits = [fit_clinic(frame, **options) for frame in frames]
    found = [fit.privacy_sd_expected.to_numpy() for fit in fits]
    is_scaled = fits[0].release.scale is not None
    assert is_scaled == bool(options)
    # without a released scale two tables of one size have one forecast
    assert np.array_equal(*found) != is_scaled
    check_is_of_the_release(*fits, lambda fit: fit.privacy_sd_expected)
    # a fresh computation gives the same to the last bit
    before = expected_noise(fits[0].release, fits[0].spec)
    forecast._expected.cache_clear()
    np.testing.assert_array_equal(expected_noise(fits[0].release, fits[0].spec), before)
    with pytest.raises(AssertionError):
        check_is_of_the_release(
            *fits, lambda fit: fit.privacy_sd_expected * fit.diagnostics.c_index
        )


def test_what_is_released_later_does_not_change_it():
    """The coefficients are not looked at: a forecast is not about them."""
    fit = fit_clinic(clinic())
    blank = replace(fit, release=replace(fit.release, coef=np.zeros(4)))
    np.testing.assert_array_equal(blank.privacy_sd_expected, fit.privacy_sd_expected)


def in_the_data(fit, frame):
    """What the noise does to the coefficients of these records, to first order."""
    rows = read_design(fit.spec, as_batch(frame), DenseRows)
    problem = fit.calibration.problem
    objective = Objective(rows, problem.loss, problem.lambda_, np.zeros(rows.d))
    curvature = hessian(objective, Newton()(objective).w)
    solved = np.linalg.solve(curvature, fit.spec.user_rows().T) / problem.n
    return np.sqrt(fit.calibration.noise.variances @ solved**2)


MONEY = {"bounds": {"income": (-4e5, 4e5), "age": (20, 70), "y": (0, 1)}}


def earners(n=20_000):
    """Columns that fill little of their bounds, as money may, and else as they are guessed."""
    rng = np.random.default_rng(3)
    z = rng.multivariate_normal(np.zeros(2), [[1, 0.5], [0.5, 1]], n)
    y = (rng.random(n) < 1 / (1 + np.exp(1.05 - 0.64 * z.sum(axis=1)))).astype(float)
    return pd.DataFrame({"income": 60_000 + 12_000 * z[:, 0], "age": 45 + 8 * z[:, 1], "y": y})


@pytest.mark.parametrize("eps", [100.0, ZCDP(2.0)], ids=str)
def test_a_released_scale_takes_the_place_of_the_guess(eps):
    frame = earners()
    fit = drawn(dplr, "y ~ income + age", frame, eps=eps, do_scale="private", **MONEY)
    np.testing.assert_allclose(fit.privacy_sd_expected, in_the_data(fit, frame), rtol=0.15)
    guessed = drawn(dplr, "y ~ income + age", frame, eps=eps, do_scale=False, **MONEY)
    assert in_the_data(guessed, frame)[1] > 2 * guessed.privacy_sd_expected["income"]


@pytest.mark.parametrize("eps", [20.0, ZCDP(2.0)], ids=str)
def test_made_up_records_have_the_released_moments(eps):
    frame = trial(2000)
    fit = drawn(fit_clinic, frame, eps=eps, do_scale="private")
    release, spec = fit.release, replace(fit.spec, bound=1e9)
    spec = replace(spec, standard=replace(spec.standard, blocks=(), weighted=False))
    held, positive = forecast._made_up_rows(release, spec)
    rows = held.x
    kept = np.array(release.scale.calibration.means) + 1
    made = pd.DataFrame(rows[:, kept])
    # the map takes released means to 0, up to indicators under a pure promise, and scales the rest
    np.testing.assert_allclose(made.mean(), 0, atol=1e-9)
    widths = fit.scale["sd"] / fit.spec.columns.scale[kept]
    np.testing.assert_allclose(made.std(ddof=0), widths, rtol=1e-6)
    assert positive.mean() == pytest.approx(0.3, abs=1e-3)
    wrong = ScaleRelease(release.scale.values * 0.9, release.scale.calibration)
    moved = forecast._made_up_rows(release.having({"scale": wrong}), spec)[0].x
    assert not np.allclose(moved, rows)


def test_made_up_products_are_those_of_the_released_numbers():
    frame = trial(2000)
    fit = drawn(dplr, "y ~ smoker * age", frame, eps=20.0, do_scale="private", **SCHEMA)
    spec = replace(fit.spec, bound=1e9)
    spec = replace(spec, standard=replace(spec.standard, blocks=(), weighted=False))
    rows = forecast._made_up_rows(fit.release, spec)[0].x
    smoker, age, product = rows.T[1:]
    assert np.ptp(product) > 1
    np.testing.assert_allclose(product, 2 * age * (smoker > 0), atol=1e-9)


# -- where there is none -------------------------------------------------------------------------


def wide(p):
    rng = np.random.default_rng(p)
    frame = pd.DataFrame(rng.uniform(-1, 1, (300, p)), columns=[f"x{k}" for k in range(p)])
    bounds = {name: (-1, 1) for name in frame}
    return frame.assign(y=rng.integers(0, 2, 300)), bounds


def unforeseen():
    frame, rng = clinic(), np.random.default_rng(0)
    wider, bounds = wide(200)
    return {
        "no bounds": fit_clinic(frame, bounds=None),
        "some bounds": fit_clinic(frame, bounds={"age": (18, 90)}),
        "projected": fit_clinic(frame, rp_dim=1),
        "matrix": dplr(frame["y"], rng.uniform(-1, 1, (40, 3)), levels={"y": [0, 1]}),
        "more than 200 columns": dplr("y ~ .", wider, bounds=bounds, levels={"y": [0, 1]}),
        "texts": dplr(
            "y ~ factor(smoker, levels = c('no', 'yes')) + age",
            frame,
            bounds=SCHEMA["bounds"],
            levels={"y": [0, 1]},
        ),
    }


@pytest.mark.parametrize("name", unforeseen())
def test_pages_have_the_limit_alone_where_nothing_can_be_guessed(name):
    fit = unforeseen()[name]
    assert fit.privacy_sd_expected.isna().all()
    assert fit.tidy()["privacy_sd_expected"].isna().all()
    text = " ".join(str(fit).split())
    assert "expected" not in text
    assert "noise sd limit: what the noise adds has at most this standard deviation" in text
    assert "noise sd limit" in fit._repr_html_()


def test_fits_without_a_guarantee_have_none_on_their_page():
    with pytest.warns(PrivacyWarning):
        scaled = fit_clinic(clinic(), do_scale=True)
    assert scaled.privacy_sd_expected.isna().all()
    plain = fit_clinic(clinic(), eps=0)
    assert (plain.privacy_sd_expected == 0).all()
    for fit in (scaled, plain, dplpsvm("y ~ age", clinic(), eps=1.0, **SCHEMA)):
        assert "noise sd" not in str(fit)


@pytest.mark.parametrize(
    ("formula", "bounds"),
    [
        ("y ~ age", {"age": (-1e100, 1e100)}),
        ("y ~ log(age)", {"age": (1e-90, 90)}),
        ("y ~ sqrt(age - 50) + dose", {"age": (18, 90), "dose": (0, 5)}),
        ("y ~ age + I(age > 200)", {"age": (18, 90)}),
        ("y ~ tanh(dose)", {}),
        ("y ~ age + dose", {"age": (0, 1e-20), "dose": (-1e50, 3)}),
        ("y ~ I(age * 0)", {"age": (18, 90)}),
    ],
)
@pytest.mark.parametrize("eps", [1.0, ZCDP(20.0)], ids=str)
def test_odd_declarations_have_a_page(formula, bounds, eps):
    assert "noise sd" in str(dplr(formula, clinic(), eps=eps, bounds=bounds, levels={"y": [0, 1]}))


def test_it_is_fast():
    frame, bounds = wide(15)
    fit = dplr("y ~ .", frame, bounds=bounds, levels={"y": [0, 1]})
    expected_noise(fit.release, fit.spec)
    forecast._expected.cache_clear()
    start = time.perf_counter()
    assert expected_noise(fit.release, fit.spec) is not None
    assert time.perf_counter() - start < 0.3
