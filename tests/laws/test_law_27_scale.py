"""Law 27: a scale of columns shows what it claims, of rows within bounds, and is used again.

A scale is the first stage of a fit: noisy means and mean squares, by which rows are standardised.
"""

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import MODELS, clinic, fit_clinic, fixed_noise, replaced, scores
from scipy import special
from statsmodels.api import Logit

import privatelr.fitting
import privatelr.mechanisms.registry
import privatelr.method
import privatelr.model
from privatelr import ZCDP, ApproxDP, PureDP, dplr
from privatelr.audit import worth
from privatelr.design import plan_design, read_design, standardise
from privatelr.mechanisms import (
    Problem,
    Request,
    calibrate_all,
    registry,
    release_scale,
    scale_map,
)
from privatelr.mechanisms.stages import scale
from privatelr.mechanisms.stages import scale as scale_stage
from privatelr.mechanisms.stages.scale import ScaleFacts
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import DenseRows
from privatelr.privacy.events import TiltEvent
from privatelr.privacy.noise import GaussianNoise, gaussian_delta
from privatelr.results import Fit
from privatelr.sources import as_batch, declare_schema
from privatelr.types import ColumnGroup

TARGETS = [PureDP(1.0), ZCDP(0.3), ApproxDP(1.0, 1e-6)]
EVERY_TARGET = pytest.mark.parametrize("target", TARGETS, ids=str)
PRIVATE = {"do_scale": "private"}


# -- what one record moves -------------------------------------------------------------------------

GROUPS = {
    "number": ColumnGroup(1, "number"),
    "indicators": ColumnGroup(3, "indicators"),
    "product": ColumnGroup(4, "product", math.sqrt(2), 1.0),
}
CORNERS = {
    "number": np.linspace(-1, 1, 81)[:, None],
    "indicators": np.vstack([np.zeros(3), np.eye(3)]),
    "product": np.array([[1, 1, 0, 0], [-1, -1, 0, 0], [0, 0, 1, 1], [0, 0, -1, 1]], dtype=float),
}


def check_sensitivity(sensitivity, weight):
    """No two records are further apart than the noise is calibrated for."""
    for name, group in GROUPS.items():
        rows = np.vstack([np.zeros(group.size), CORNERS[name]])
        told = rows if name == "indicators" else np.hstack([rows, weight * rows**2])
        furthest = np.linalg.norm(told[:, None] - told, axis=2).max()
        assert furthest <= sensitivity(ScaleFacts(1, (group,), True, 0.03)) * (1 + 1e-9)


def test_law_of_the_sensitivity():
    check_sensitivity(scale_stage.scale_sensitivity, scale_stage.SQUARE_WEIGHT)


def means_alone(facts):
    """Planted: squares are free in every group, and not for numbers alone."""
    squares = {"number": 4.0, "indicators": 2.0}
    return math.sqrt(sum(squares.get(g.kind, 4 * g.radius**2) for g in facts.groups))


def test_planted_sensitivity_without_the_squares_is_caught():
    with pytest.raises(AssertionError):
        check_sensitivity(means_alone, scale_stage.SQUARE_WEIGHT)


@pytest.mark.parametrize("weight", [1.7, 2.0])
def test_planted_weight_that_is_not_free_is_caught(weight):
    with pytest.raises(AssertionError):
        check_sensitivity(scale_stage.scale_sensitivity, weight)


# -- values beyond their bounds --------------------------------------------------------------------


def check_clipped(monkeypatch, target):
    """A value beyond its bounds is released as the bound, and an unusable record as zeros."""
    frame = clinic()
    with fixed_noise(monkeypatch):
        for values, same in (
            ({"age": 1e9}, {"age": 90.0}),
            ({"dose": -1e300}, {"dose": 0.0}),
            ({"age": math.nan, "dose": 3.0}, {"age": 50.0, "smoker": None}),
        ):
            one, other = (
                fit_clinic(replaced(frame, 3, **held), eps=target, **PRIVATE).release.scale.values
                for held in (values, same)
            )
            np.testing.assert_array_equal(one, other)


@EVERY_TARGET
def test_law_of_bounds(monkeypatch, target):
    check_clipped(monkeypatch, target)


def test_planted_moments_of_unclipped_columns_are_caught(monkeypatch):
    """Planted: the moments are those of the columns as they are."""
    frames = []

    def kept(model_fit):
        def fit(kind, method, data, schema, options):
            frames.append(data.batch)
            return model_fit(kind, method, data, schema, options)

        return fit

    def unclipped(rows, calibration, noise):
        batch = frames[-1]
        age = (np.nan_to_num(np.asarray(batch["age"], dtype=float)) - 54) / 36
        dose = (np.nan_to_num(np.asarray(batch["dose"], dtype=float)) - 2.5) / 2.5
        x = np.array(rows.piece(0)[0])
        assert len(x) == len(batch)
        x[:, 0], x[:, 1] = age, np.clip(dose, -1e9, 1e9)
        return release_scale(
            DenseRows(x, np.ones(len(x)), bound=1e12, intercept=None), calibration, noise
        )

    honest = []
    with fixed_noise(monkeypatch):
        honest.append(fit_clinic(clinic(), eps=ZCDP(0.3), **PRIVATE).release.scale.values)
    monkeypatch.setattr(privatelr.model, "fit", kept(privatelr.model.fit))
    monkeypatch.setattr(privatelr.fitting, "release_scale", unclipped)
    with fixed_noise(monkeypatch):  # the same for values within their bounds
        honest.append(fit_clinic(clinic(), eps=ZCDP(0.3), **PRIVATE).release.scale.values)
    np.testing.assert_allclose(*honest, atol=1e-3)
    with pytest.raises(AssertionError):
        check_clipped(monkeypatch, ZCDP(0.3))


# -- the map in prediction -------------------------------------------------------------------------


def declared_map(spec, frame):
    """The columns as they were before the map of the moments."""
    schema = declare_schema(
        {"age": (18, 90), "dose": (0, 5), "y": (0, 1)}, {"smoker": ["no", "yes"]}
    )
    return replace(spec, columns=plan_design(spec.formula, as_batch(frame), schema).columns)


def check_predictions(model, target):
    """Scores are the product of the coefficients and the rows under the released map."""
    frame = clinic(300)
    fit = fit_clinic(frame, model=model, eps=target, **PRIVATE)
    spec = standardise(
        declared_map(fit.spec, frame), *scale_map(fit.release.scale, fit.release.length)
    )
    rows = read_design(spec, as_batch(frame), DenseRows)
    short = np.linalg.norm(rows.x[:, 1:], axis=1) < spec.bound * (1 - 1e-9)
    if spec.standard.unit or spec.standard.weighted:
        short[:] = True  # all are as long as their bound, or longer ones are as they are
    assert short.any()
    found = np.asarray(scores(fit, frame))
    expected = rows.x @ fit.release.coef * np.abs(rows.y)
    np.testing.assert_allclose(found[short], expected[short], atol=1e-9)


@EVERY_TARGET
@pytest.mark.parametrize("model", [MODELS["dplr"], MODELS["dpsvm"]], ids=["dplr", "dpsvm"])
def test_law_of_predictions(model, target):
    check_predictions(model, target)


@pytest.mark.parametrize("model", [MODELS["dplr"], MODELS["dpsvm"]], ids=["dplr", "dpsvm"])
def test_planted_predictions_without_the_map_are_caught(monkeypatch, model):
    """Planted: the coefficients are those of mapped rows, and the plan of a fit has no map."""

    def forgetful(spec, *rest):
        return Fit(declared_map(spec, clinic()), *rest)

    monkeypatch.setattr(privatelr.results, "Fit", forgetful)
    with pytest.raises(AssertionError):
        check_predictions(model, ZCDP(0.3))


# -- the price of all stages -----------------------------------------------------------------------


def delta(epsilon, mu):
    """Of a Gaussian release (Balle and Wang 2018)."""
    if epsilon < 0:
        return 1.0
    first, second = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    return float(special.ndtr(first) - math.exp(epsilon) * special.ndtr(second))


def vertices(event, epsilon, mu):
    """Theorem 4.2 (b), and a Gaussian release of this mu beside it: one term for each vertex."""
    m, paid = event.m, epsilon - math.log1p(event.kappa / 4)
    left = min(paid if event.weighted else epsilon, epsilon - event.kappa + m * m / 2)
    both, one = math.hypot(2 * m, mu), math.hypot(m, mu)
    terms = delta(epsilon, both), delta(paid, one), delta(left, one), delta(paid, mu)
    return min(1.0, math.fsum(terms))


def check_vertices():
    for epsilon in (0.5, 1.0, 3.0):
        for m in (0.01, 0.05, 0.2):
            for kappa in (0.01, 0.1, 0.4):
                for mu, weighted in itertools.product((0.05, 0.2, 0.5), (False, True)):
                    event = TiltEvent(m, kappa, 0.25, 1.0, weighted)
                    gap = event.small_slope_cost
                    found = gaussian_delta._free_curvature(kappa, gap, epsilon, m, mu)
                    assert math.exp(found) >= vertices(event, epsilon, mu) * (1 - 1e-6)


def staged(target, share, n):
    """A plan that spends this share on the scale."""
    facts = ScaleFacts(n, (GROUPS["number"],) * 3, True, 0.003)
    problem = Problem(n, 4, LOSSES["logistic"], 1.6, weighted=True)
    spend = ("scale", share), ("coefficients", round(1 - share, 6))
    kinds = (GaussianNoise,) if isinstance(target, ApproxDP) else ()
    asked = Request(target, "objective", None, "free", "increase", spend, kinds)
    return calibrate_all(asked, problem, facts)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
@EVERY_TARGET
def test_law_of_the_price(target, share):
    check_price(target, share)


def check_price(target, share=0.8, n=10**6):
    """By a second implementation: each stage spends its part, and the parts make the whole."""
    plan = staged(target, share, n)
    parts = tuple(stage.target for stage in plan.stages)
    assert worth.share_of_parts(target, parts) <= 1 + 1e-9
    assert worth.share_of(plan.scale.target, *worth.scale_spends(plan.scale)) <= 1 + 1e-9
    assert worth.share_spent(plan.coefficients) <= 1 + 1e-6


def test_law_of_vertices():
    check_vertices()


def three_vertices(kappa, gap, epsilon, m, out):
    """Planted: the case of two small slopes is forgotten, as it is nothing without other stages."""
    worst = math.log1p(kappa / 4)
    if epsilon < max(gap, worst):
        return 0.0
    cases = (1, epsilon, 2 * m), (1, epsilon - worst, m), (1, epsilon - gap, m)
    return gaussian_delta._log_sum(out, *cases)


def test_planted_composition_without_the_fourth_vertex_is_caught(monkeypatch):
    event = TiltEvent(0.1, 0.1, 0.25, 1.0)
    alone = gaussian_delta.tilt_log_delta(event, 1.0)
    monkeypatch.setattr(gaussian_delta, "_free_curvature", three_vertices)
    assert gaussian_delta.tilt_log_delta(event, 1.0) == alone  # no stage beside it, no difference
    with pytest.raises(AssertionError):
        check_vertices()
    with pytest.raises(AssertionError):
        check_price(ApproxDP(1.0, 1e-6), n=10**6 + 1)  # noise for the other n is kept in a cache


def check_price_of_weights():
    """A large penalty leaves a curvature that is free if no record has a weight."""
    problem = Problem(10**4, 10, LOSSES["logistic"], 1.6, weighted=True)
    whole = (("coefficients", 1.0),)
    asked = Request(ZCDP(0.5), "objective", None, 0.01, "keep", whole, (GaussianNoise,))
    found = calibrate_all(asked, problem).coefficients
    assert worth.share_spent(found) <= 1 + 1e-6


def test_law_of_the_price_of_weights():
    check_price_of_weights()


def test_planted_price_that_forgets_weights_is_caught(monkeypatch):
    cost = TiltEvent.curvature_cost.fget
    planted = property(lambda event: cost(replace(event, weighted=False)))
    monkeypatch.setattr(TiltEvent, "curvature_cost", planted)
    with pytest.raises(AssertionError):
        check_price_of_weights()


DIVIDE = registry.divide


def too_much(target, spend, loss, **stages):
    """Planted: the scale is free, the coefficients get what they would get without it."""
    ways = DIVIDE(target, spend, loss, **stages)
    whole = target
    if isinstance(target, ApproxDP):
        shared = ways[0][0]["coefficients"]
        whole = replace(shared, beside=shared.beside / 2)
    return [(parts | {"coefficients": whole}, kinds) for parts, kinds in ways[:1]]


@EVERY_TARGET
def test_planted_shares_of_more_than_the_whole_are_caught(monkeypatch, target):
    monkeypatch.setattr(privatelr.mechanisms.registry, "divide", too_much)
    with pytest.raises(AssertionError):
        check_price(target, 0.1)


# -- the limit of a large epsilon ------------------------------------------------------------------

STRONG = {"pure": PureDP(1e4), "zCDP": ZCDP(1e4), "approximate": ApproxDP(1e4, 1e-6)}
LIMITS = pytest.mark.parametrize(
    ("promise", "op", "spend"),
    list(itertools.product(STRONG, (True, False), (None, "inference"))),
)
PUBLIC = {
    "bounds": {"x": (0, 30), "u": (0, 10)},
    "levels": {"g": ["a", "b", "c"], "y": ["no", "yes"]},
}


@cache
def nearly_separated():
    """Data with few records near the boundary and few on its wrong side, and their errors."""
    rng, n = np.random.default_rng(8), 10_000
    x, u = rng.beta(1, 6, n) * 30, rng.uniform(0, 10, n)
    ill = (rng.random(n) < special.expit(2.5 * x - 20 + 0.1 * u)) ^ (rng.random(n) < 0.002)
    frame = pd.DataFrame({"x": x, "u": u, "g": "a", "y": np.where(ill, "yes", "no")})
    design = np.column_stack([np.ones(n), x, u])
    return frame, Logit(ill, design).fit(disp=0).bse


@cache
def far_from_logistic():
    """Data for which no logistic model is true, with long tails; its plain fit and errors."""
    rng, n = np.random.default_rng(7), 10_000
    x, u = np.minimum(np.exp(rng.standard_normal(n)), 30), np.minimum(rng.gamma(0.5, 1.0, n), 10)
    g = rng.choice(["a", "b", "c"], n, p=[0.7, 0.25, 0.05])
    ill = rng.random(n) < 0.03 + 0.9 * (0.4 * np.abs(np.sin(x)) + 0.5 * (u > 1) * (g != "a"))
    frame = pd.DataFrame({"x": x, "u": u, "g": g, "y": np.where(ill, "yes", "no")})
    design = np.column_stack([np.ones(n), x, u, g == "b", g == "c"]).astype(float)
    return frame, Logit(ill, design).fit(disp=0).bse


def check_limit(promise, op, spend, data=far_from_logistic, model="y ~ x + u + g"):
    """At a large epsilon a fit is the plain one, whatever the data are, in most draws of noise."""
    (frame, errors), asked = data(), {"op": op, "spend": spend}
    plain, gaps = dplr(model, frame, 0, lambda_=0, **PUBLIC).coef, []
    for seed in range(5):
        fit = dplr(model, frame, STRONG[promise], seed=seed, **asked, **PUBLIC)
        found = fit.tidy().set_index("term")["estimate"]
        gaps.append(float((np.abs(found - plain) / errors).max()))
    assert np.median(gaps) < 0.5


@pytest.mark.filterwarnings("ignore::privatelr.PrivacyWarning")
@LIMITS
def test_law_of_the_limit(promise, op, spend):
    check_limit(promise, op, spend)


@pytest.mark.filterwarnings("ignore::privatelr.PrivacyWarning")
@pytest.mark.parametrize(("promise", "op"), [*itertools.product(STRONG, (True, False))])
def test_law_of_the_limit_where_classes_are_nearly_separated(promise, op):
    """The penalty moves coefficients far there, and one step by exact matrices takes that off."""
    check_limit(promise, op, "inference", nearly_separated, "y ~ x + u")


@pytest.mark.filterwarnings("ignore::privatelr.PrivacyWarning")
@LIMITS
def test_planted_fixed_length_is_caught(monkeypatch, promise, op, spend):
    """Planted: rows are held to a multiple of the typical length, however large epsilon is."""
    monkeypatch.setattr(privatelr.method, "usual_rows", lambda *facts: (3.0, False))
    with pytest.raises(AssertionError):
        check_limit(promise, op, spend)


@pytest.mark.filterwarnings("ignore::privatelr.PrivacyWarning")
@pytest.mark.parametrize("op", [True, False])
def test_planted_rows_that_are_not_divided_are_caught(monkeypatch, op):
    """Planted: the length is released, and rows are held to a typical one all the same."""
    whole = scale._map_and_longest
    monkeypatch.setattr(scale, "_map_and_longest", lambda scale, length: whole(scale, None))
    with pytest.raises(AssertionError):
        check_limit("pure", op, None)
