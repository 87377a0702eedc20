"""``prior={"age": (mean, sd)}``: coefficients that are held more tightly than by the penalty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize
from test_prior import BOUNDS, FRAME, MEANS, N, made

from privatelr import ZCDP, dplr, dpsvm
from privatelr.audit.density import exact
from privatelr.audit.density.loss import search
from privatelr.call_data import read_data
from privatelr.design import Prior, prior
from privatelr.errors import ArgumentError, GuaranteeError
from privatelr.locks import flint, working_precision
from privatelr.mechanisms import draw, signed_rows
from privatelr.mechanisms.calibration import certified_norm
from privatelr.mechanisms.perturbation import release_minimiser
from privatelr.numerics import LOSSES, Objective, value_and_gradient
from privatelr.numerics.objective import hessian
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.solve import Newton
from privatelr.numerics.solve.certified import (
    ExactObjective,
    enclose,
    gradient_bound,
    precise_minimum,
)
from privatelr.privacy.noise import SystemRandomness
from privatelr.sources import declare_schema

SDS = {"(Intercept)": (-3.0, 0.2), "x": (1.0, 0.05), "u": (-0.5, 0.02)}


def map_by_scipy(fit, frame: pd.DataFrame, given: dict, most: float = 1.0) -> np.ndarray:
    """The maximum a posteriori in the user's units, without the code of the package."""
    names = list(fit.coef.index)
    design = np.column_stack([np.ones(len(frame)), *(frame[name] for name in names[1:])])
    y = 2 * frame["y"].to_numpy() - 1.0
    weight = frame["w"].to_numpy() / most if "w" in frame else np.ones(len(frame))
    mean, sd = (np.array([given[name][k] for name in names]) for k in (0, 1))

    def value(beta: np.ndarray) -> tuple[float, np.ndarray]:
        margin = y * (design @ beta)
        off = (beta - mean) / sd
        slopes = fit.loss.slope(margin) * y * weight
        return (
            float((fit.loss.value(margin) * weight).sum() + (off @ off) / 2 / most),
            slopes @ design + off / sd / most,
        )

    found = optimize.minimize(value, mean, jac=True, method="BFGS", options={"gtol": 1e-7})
    return np.asarray(found.x)


# --- what a fit computes --------------------------------------------------------------------


@pytest.mark.parametrize("fitter", [dplr, dpsvm])
def test_a_plain_fit_is_the_maximum_a_posteriori(fitter) -> None:
    fit = fitter("y ~ x + u", FRAME, 0, 1e-12, bounds=BOUNDS, prior=SDS)
    best = map_by_scipy(fit, FRAME, SDS)
    assert np.abs(fit.coef.to_numpy() - best).max() < 1e-5
    plain = fitter("y ~ x + u", FRAME, 0, 1e-12, bounds=BOUNDS)
    assert np.abs(plain.coef - best).max() > 0.01


def test_beside_weights_it_counts_as_beside_those_that_the_user_gave() -> None:
    frame = FRAME.assign(w=np.random.default_rng(2).uniform(0, 4, N))
    declared = {"bounds": {**BOUNDS, "w": (0, 4)}, "weights": "w", "prior": SDS}
    fit = dplr("y ~ x + u", frame, 0, 1e-12, **declared)
    assert np.abs(fit.coef.to_numpy() - map_by_scipy(fit, frame, SDS, 4.0)).max() < 1e-5


def test_a_deviation_wider_than_that_of_the_penalty_changes_nothing() -> None:
    """The precision of a coefficient is the larger one of Lambda and 1 / sd**2."""
    wide = {name: (mean, 1e3) for name, (mean, _) in SDS.items()}
    fits = [dplr("y ~ x + u", FRAME, 0, 0.05, bounds=BOUNDS, prior=p) for p in (MEANS, wide)]
    assert np.array_equal(fits[0].coef, fits[1].coef)
    assert fits[1].release.stiff is None


@pytest.mark.parametrize(
    "options",
    [{}, {"do_scale": "private"}, {"delta": 1e-6}, {"eps": ZCDP(2.0)}],
    ids=str,
)
def test_a_private_fit_stays_near_a_precise_prior(options: dict) -> None:
    asked = {"eps": 4.0, "bounds": BOUNDS, "do_scale": False, **options}
    tight = {"x": (2.0, 0.004), "u": (-0.5, 0.02)}
    fit = dplr("y ~ x + u", FRAME, prior=tight, **asked)
    assert abs(fit.coef["x"] - 2.0) < 0.1
    loose = dplr("y ~ x + u", FRAME, prior={"x": 2.0, "u": -0.5}, **asked)
    assert abs(loose.coef["x"] - 2.0) > 0.1


# --- numerics -------------------------------------------------------------------------------


def objective_with(n: int = 60, d: int = 4, seed: int = 0) -> Objective:
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-0.5, 0.5, (n, d)), rng.choice([-1.0, 1.0], n)
    rows = DenseRows(x, y, bound=1.0, intercept=None)
    stiff = rng.normal(0, 1, (2, d))
    return Objective(rows, LOSSES["logistic"], 0.01, rng.normal(0, 0.1, d), stiff)


@pytest.mark.quick
def test_derivatives_are_those_of_the_value() -> None:
    objective, w = objective_with(), np.array([0.3, -0.2, 0.1, 0.5])
    gradient, matrix = value_and_gradient(objective, w)[1], hessian(objective, w)
    for j, step in enumerate(1e-6 * np.eye(4)):
        up, down = (value_and_gradient(objective, w + s) for s in (step, -step))
        assert (up[0] - down[0]) / 2e-6 == pytest.approx(gradient[j], abs=1e-8)
        assert np.allclose((up[1] - down[1]) / 2e-6, matrix[j], atol=1e-8)


@pytest.mark.quick
def test_balls_enclose_the_gradient_and_the_certificate_bounds_it() -> None:
    objective = objective_with()
    n, stiff = objective.rows.n, flint.arb_mat(objective.stiff.tolist())
    nearest = n * objective.tilt
    objective = replace(objective, tilt=nearest / n)
    with working_precision(300):
        tilt, penalty = list(map(flint.arb, nearest)), flint.arb(n * 0.01)
        held = stiff.transpose() * stiff * n
        balls = ExactObjective(objective.rows, objective.loss, penalty, tilt, held)
        for w in (np.zeros(4), np.array([0.3, -0.2, 0.1, 50.0])):
            gradient = n * value_and_gradient(objective, w)[1]
            enclosed = enclose(balls, list(map(flint.arb, w))).gradient
            assert np.allclose([float(entry.mid()) for entry in enclosed], gradient, rtol=1e-10)
            length = sum((entry**2 for entry in enclosed), flint.arb(0)).sqrt()
            assert length <= gradient_bound(objective, w) + 1e-12 * np.linalg.norm(nearest)
    found = precise_minimum(objective, np.zeros(4), 1e-25, lambda _: tilt)
    assert np.allclose([float(v.mid()) for v in found], Newton()(objective).w, atol=1e-9)


@pytest.mark.parametrize("columns", [2, 90, 520])
def test_a_precise_prior_of_many_columns_is_certified(columns: int) -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        rng.uniform(-1, 1, (400, columns)), columns=[f"a{j}" for j in range(columns)]
    )
    bounds = dict.fromkeys(frame.columns, (-1, 1))
    frame["y"] = rng.integers(0, 2, 400) == 1
    for target in ({}, {"delta": 1e-6}):
        sd = 0.05 / np.sqrt(columns)
        given = {"a1": (2.0, sd), "a0": (0.0, 10 * sd)}
        fit = dplr("y ~ .", frame, 1.0, bounds=bounds, prior=given, do_scale=False, **target)
        assert np.isfinite(fit.coef).all()
        problem = fit.calibration.problem
        assert problem.n * (fit.release.stiff**2).sum() <= problem.stiffness
        assert fit.calibration.tau >= certified_norm(problem, fit.calibration.noise)


# --- privacy --------------------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize(
    "target", [{}, {"delta": 1e-6}, {"op": False}, {"spend": "inference"}, {"do_scale": "private"}]
)
def test_no_noise_depends_on_the_deviations(target: dict) -> None:
    declared = {"bounds": BOUNDS, "eps": 1.0, "do_scale": False, **target}
    plain, held = (dplr("y ~ x + u", FRAME, prior=p, **declared).calibration for p in (None, SDS))
    assert held.problem.lambda_ == plain.problem.lambda_
    sds = [np.sqrt(found.noise.variances) for found in (held, plain)]
    assert np.allclose(*sds, rtol=1e-6)
    assert held.problem.stiffness > 0
    assert held.tau > plain.tau


def worst_loss(fit, monkeypatch, precision: np.ndarray, seed: int = 1) -> float:
    """The exact loss over the claim, with this matrix ``(d, d)`` in the sum form of both sides."""
    honest, bend = exact.gradient, exact.hessian
    with monkeypatch.context() as patch:
        for module in (exact, signed_rows):
            patch.setattr(
                module,
                "gradient",
                lambda a, b, w: honest(a, b, w) + (w - fit.release.centre) @ precision,
            )
            patch.setattr(module, "hessian", lambda a, b, w: bend(a, b, w) + precision)
        return search(fit.calibration, np.random.default_rng(seed), 2).loss.ratio


@pytest.mark.parametrize("claim", [{"eps": 1.0}, {"eps": 1.0, "op": False}, {"eps": ZCDP(0.5)}])
def test_the_exact_loss_is_within_the_claim(claim: dict, monkeypatch) -> None:
    fit = dplr("y ~ x", FRAME, bounds=BOUNDS, do_scale=False, prior={"x": (1.0, 0.5)}, **claim)
    stiff, n = fit.release.stiff, fit.calibration.problem.n
    assert stiff is not None
    ratio = worst_loss(fit, monkeypatch, n * stiff.T @ stiff)
    assert 0.05 < ratio <= 1


def test_a_wide_deviation_that_replaces_the_penalty_is_caught(monkeypatch) -> None:
    """The planted bug: the precision 1 / sd**2 where the penalty is larger takes curvature away."""
    monkeypatch.setattr(prior, "beyond_penalty", lambda found, penalty: found - penalty)
    spec = read_data("y ~ x", FRAME, None).plan(declare_schema(bounds=BOUNDS))
    wide = Prior({"(Intercept)": 0.0, "x": 0.0}, "", {"(Intercept)": 9.0, "x": 9.0})
    fit = dplr("y ~ x", FRAME, 1.0, bounds=BOUNDS, do_scale=False, prior={"x": 0.0})
    rows, precisions = prior._precisions(replace(spec, prior=wide))
    beyond = prior.beyond_penalty(precisions, fit.calibration.problem.penalty)
    assert worst_loss(fit, monkeypatch, 0 * rows.T @ rows) <= 1
    assert worst_loss(fit, monkeypatch, (rows.T * beyond) @ rows) > 1.02


def test_deviations_that_the_calibration_does_not_know_are_refused() -> None:
    fit = dplr("y ~ x", FRAME, 1.0, bounds=BOUNDS, do_scale=False, prior={"x": 1.0})
    rows, _ = read_data("y ~ x", FRAME, None).rows(fit.spec, bar=False)
    drawn = draw(fit.calibration, SystemRandomness())
    given = fit.release.centre, np.array([[0.0, 1.0]])
    with pytest.raises(GuaranteeError, match="deviations are smaller"):
        release_minimiser(rows, fit.calibration, drawn, Newton(), *given)


# --- inference ------------------------------------------------------------------------------


def test_the_step_takes_off_what_draws_to_the_prior() -> None:
    truth = dplr("y ~ x + u", FRAME, 0, 1e-9, bounds=BOUNDS).coef
    asked = {"bounds": BOUNDS, "spend": "inference", "do_scale": False}
    off_mark = {"x": (0.5, 0.3), "(Intercept)": (-2.6, 0.5)}
    fit = dplr("y ~ x + u", FRAME, 0, 1e-6, prior=off_mark, **asked)
    estimate = fit.tidy(target="unpenalised").set_index("term")["estimate"]
    pulled = np.abs(fit.coef - truth).max()
    assert pulled > 0.02
    assert np.abs(estimate - truth).max() < 0.15 * pulled
    plain = dplr("y ~ x + u", FRAME, 0, 1e-6, **asked)
    assert np.allclose(
        fit.tidy(target="unpenalised")["std_error"],
        plain.tidy(target="unpenalised")["std_error"],
        rtol=0.15,  # the matrices are those at the coefficients that were drawn to the prior
    )
    # the spread of the coefficients themselves is less than that of those without the prior
    shrunk, free = (f.tidy(target="penalised")["std_error"].to_numpy() for f in (fit, plain))
    assert (shrunk < free).all()


@pytest.mark.parametrize("options", [{}, {"do_scale": "private"}, {"delta": 1e-6}])
def test_private_intervals_hold(options: dict) -> None:
    truth = {"(Intercept)": -3.0, "x": 1.0, "u": -0.5}
    given = {"x": (0.8, 0.3), "(Intercept)": (-2.8, 0.5)}
    for seed in (11, 12):
        frame = made(20_000, seed)
        fit = dplr(
            "y ~ x + u", frame, 4.0, bounds=BOUNDS, spend="inference", prior=given, **options
        )
        ends = fit.conf_int(alpha=0.001)
        low, high = ends.iloc[:, 0], ends.iloc[:, 1]
        assert all(low[name] <= value <= high[name] for name, value in truth.items())


def test_beside_persons_a_deviation_counts_as_their_records_do() -> None:
    """With k records of everyone and k in the call, the fit is that of the records alone."""
    frame = FRAME.assign(who=np.arange(N) // 4)[: N // 4 * 4]
    given, asked = {**SDS}, {"bounds": BOUNDS, "do_scale": False}
    alone = dplr("y ~ x + u", frame, 0, 1e-9, prior=given, **asked)
    fits = [
        dplr("y ~ x + u", frame, 0, 1e-9, prior=given, person="who", records_per_person=k, **asked)
        for k in (4, 1)
    ]
    np.testing.assert_allclose(fits[0].coef, alone.coef, rtol=1e-5)
    # a person who counts once has a fourth of what the records have, beside the same prior
    weights = map_by_scipy(alone, frame.assign(w=0.25), given)
    np.testing.assert_allclose(fits[1].coef, weights, rtol=1e-4)


# --- files, pages, the command line ---------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"x": (1.0, 0.0)}, "a standard deviation above 0"),
        ({"x": (1.0, -1.0)}, "a standard deviation above 0"),
        ({"x": (1.0, np.nan)}, "a standard deviation above 0"),
        ({"x": (1.0, np.inf)}, "a standard deviation above 0"),
        ({"x": (1.0, 2.0, 3.0)}, "a mean and a standard deviation"),
        ({"x": (1.0, 1e-9)}, "add offset()"),
        ({"z": (1.0, 0.1)}, "no coefficient 'z'"),
        (dplr("y ~ x + by(g)", FRAME, 1.0, bounds=BOUNDS), "one of its fits, such as that of '"),
    ],
)
def test_refusals(given, words) -> None:
    with pytest.raises(ArgumentError) as caught:
        dplr("y ~ x + u", FRAME, 1.0, bounds=BOUNDS, prior=given)
    assert words in str(caught.value)
