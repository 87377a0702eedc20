"""Beside a number that the noise hides, the coefficients without a penalty are not given."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from studies.coverage_populations import population_of
from studies.coverage_runs import DELTA

from privatelr import ApproxDP, GuaranteeError, PureDP, dplr, dpsvm, plan
from privatelr.design import read_design
from privatelr.inference import quality
from privatelr.inference.unresolved_columns import RESOLVED, THIN, resolved_columns
from privatelr.mechanisms import Moments, ScaleRelease, registry, spread_to_noise, vector_of
from privatelr.numerics.objective import Objective, hessian, value_and_gradient
from privatelr.numerics.rows import DenseRows
from privatelr.planning import study_plan
from privatelr.privacy.noise import draw_many
from privatelr.sources import as_batch

pytestmark = pytest.mark.filterwarnings("ignore::privatelr.errors.PrivacyWarning")
EACH_PROMISE = pytest.mark.parametrize(
    "promise", [PureDP(1.0), ApproxDP(1.0, DELTA)], ids=["pure", "delta"]
)
WIDE, NARROW, NARROWEST = "hidden5", "hidden250", "hidden4200"
"""Populations whose column z has a deviation of a fifth of half its bounds, and of much less."""
FITS = 6


def fit_of(name, promise, *, n=10_000, seed=0, model=dplr, **options):
    source = population_of(name, 6)
    frame = source.sample(n, np.random.default_rng(seed))
    public = {"bounds": source.bounds, "levels": source.levels, "spend": "inference"}
    return model(source.formula, frame, promise, seed=seed, **public, **options)


def fits(name, promise):
    return [fit_of(name, promise, seed=seed) for seed in range(FITS)]


def penalised_truth(fit, name):
    """The coefficients that minimise the objective on a large sample, in the user's units."""
    source = population_of(name, 6)
    batch = as_batch(source.sample(80_000, np.random.default_rng(99)))
    rows, problem = read_design(fit.spec, batch, DenseRows), fit.release.calibration.problem
    objective = Objective(rows, problem.loss, problem.lambda_, np.zeros(rows.d))
    w = np.zeros(rows.d)
    for _ in range(10):
        w -= np.linalg.solve(hessian(objective, w), value_and_gradient(objective, w)[1])
    assert np.linalg.norm(value_and_gradient(objective, w)[1]) < 1e-9
    return fit.spec.user_rows() @ w


@pytest.fixture
def no_ranges(monkeypatch):
    """Ranges show nothing of numbers with most values in one place, and of small studies."""
    monkeypatch.setattr(registry, "share_of_ranges", lambda facts, target: 0.0)


@EACH_PROMISE
@pytest.mark.parametrize("name", [NARROW, NARROWEST])
def test_a_number_with_a_range_is_adjusted_for(name, promise):
    """Its interval holds, and so does that of the column that goes together with it."""
    made, truth = fits(name, promise), population_of(name, 6).truth
    assert {quality(fit.release).target for fit in made} == {"unpenalised"}
    held = []
    for fit in made:
        table = fit.conf_int()
        held.append(((table[0] <= truth) & (truth <= table[1])).to_numpy())
    assert np.mean(held) > 0.85
    assert np.sum(held, axis=0).min() >= FITS - 2


@EACH_PROMISE
@pytest.mark.parametrize("name", [NARROW, NARROWEST])
@pytest.mark.usefixtures("no_ranges")
def test_a_hidden_number_leaves_the_penalised_target(name, promise):
    """It takes the effect of the hidden column for its own, which no interval would know of."""
    made = fits(name, promise)
    assert {quality(fit.release).target for fit in made} == {"penalised"}
    assert {quality(fit.release).mode for fit in made} == {"conservative"}
    for fit in made:
        table, truth = fit.conf_int(target="penalised"), penalised_truth(fit, name)
        assert table.attrs == {"mode": "conservative", "target": "penalised"}
        assert ((table[0] <= truth) & (truth <= table[1])).all()
        assert fit.pvalues.isna().all()
        assert fit.conf_int().isna().all(axis=None)


@EACH_PROMISE
@pytest.mark.usefixtures("no_ranges")
def test_the_page_says_why_and_what_helps(promise):
    fit = fit_of(NARROW, promise)
    text = " ".join(str(fit).split())
    assert "conservative mode, penalised coefficients" in text
    assert (
        "Estimates are shrunk: the noise hides how much z varies from record to record, so that "
        "the coefficients without the penalty cannot be told, neither that of z nor those of "
        "columns that go together with it." in text
    )
    assert "Narrower bounds for z, which privatelr.suggest_bounds can find," in text
    assert "There are no standard errors, intervals and tests" in text
    assert "more than one step can take off" not in text
    assert "Pr(>|z|)" not in text
    assert "no p-value of shrunk estimates" in str(fit.wald_test("null = 0"))


@pytest.mark.parametrize("model", [dplr, dpsvm])
@pytest.mark.usefixtures("no_ranges")
def test_the_other_target_is_refused(model):
    fit = fit_of(NARROW, PureDP(1.0), model=model)
    ways = (fit.conf_int, fit.tidy, fit.summary, lambda **given: fit.wald_test("z = 0", **given))
    for way in ways:
        with pytest.raises(GuaranteeError, match=r"target='unpenalised': .*narrower bounds"):
            way(target="unpenalised")
    named = fit.tidy(target="penalised").set_index("term")
    assert named["p_value"].notna().all()


@EACH_PROMISE
def test_nothing_changes_where_all_columns_are_shown(promise):
    for fit in fits(WIDE, promise):
        known = quality(fit.release)
        assert (known.target, known.mode) == ("unpenalised", "posterior")
        assert not known.has_thin_number
        assert fit.pvalues.notna().all()
    text = " ".join(str(fit).split())
    assert "posterior mode, unpenalised coefficients" in text
    assert "varies" not in text


@EACH_PROMISE
def test_the_target_of_small_studies_is_no_lottery(promise):
    """Where noise may hide a column of usual spread, too, it does not tell which columns are."""
    more = replace(promise, epsilon=4.0)
    made = [fit_of("birthwt", more, n=189, seed=seed) for seed in range(3)]
    made += [fit_of("pima", promise, n=768, seed=seed) for seed in range(3)]
    assert sum(quality(fit.release).hides_numbers for fit in made) > len(made) / 2
    assert {quality(fit.release).target for fit in made} == {"unpenalised"}


@pytest.mark.usefixtures("no_ranges")
def test_amounts_are_not_thin():
    """They lie near one end of their bounds, where little variation is usual."""
    rng, n = np.random.default_rng(1), 10_000
    frame = pd.DataFrame({"x": rng.uniform(0, 1, n), "amount": rng.exponential(1.0, n)})
    frame["y"] = rng.random(n) < 1 / (1 + np.exp(-frame["x"]))
    bounds = {"x": (0, 1), "amount": (0, 300)}
    fit = dplr("y ~ x + amount", frame, 1.0, bounds=bounds, spend="inference", seed=1)
    known = quality(fit.release)
    assert (known.hides_numbers, known.has_thin_number) == (True, False)
    assert (known.target, known.mode) == ("unpenalised", "posterior")


@EACH_PROMISE
def test_a_column_off_its_mean_is_shown_no_better(promise):
    """Noise on the mean that centres a column gives it a curvature, which is the intercept's."""
    release = fit_of(NARROWEST, promise).release
    values, calibration = release.moments.values, release.moments.calibration
    moved = np.eye(6)
    moved[4, 0] = 0.5
    h = moved @ release.moments.curvature @ moved.T
    shifted = Moments(np.r_[vector_of(h), np.split(values, 2)[1]], calibration)
    np.testing.assert_allclose(
        resolved_columns(release.scale, shifted), resolved_columns(release.scale, release.moments)
    )
    assert h[4, 4] / calibration.entry_sd > RESOLVED


def test_noise_on_a_mean_is_noise_on_a_variance():
    """A column of no spread is shown as rarely near the end of its bounds as in the middle."""
    calibration = fit_of(NARROW, PureDP(1.0)).release.scale.calibration
    p = calibration.facts.p
    largest = calibration.facts.groups[0].largest
    noise = draw_many(calibration.noise, 4_000, np.random.default_rng(1))
    for at in (0.0, 0.5, 0.9, -1.0):
        m = at * largest
        exact = np.r_[np.full(p, m), np.full(p, calibration.weight * m**2)]
        shown = np.array([spread_to_noise(ScaleRelease(exact + e, calibration)) for e in noise])
        # of a Laplace law, one number in two hundred is so far on one side
        assert (shown > THIN * RESOLVED).mean() < 0.012
        assert (shown > 1).mean() > 0.05


def test_plans_say_the_same():
    """As far as the declared spread says it; nothing else of a plan knows of the column."""
    bounds = {"x": (0, 10), "z": (0, 10)}
    found = plan(
        "y ~ x + z", 10_000, 1.0, bounds=bounds, spend="inference", spread={"x": 0.3, "z": 0.01}
    )
    assert (found.intervals.target, found.intervals.mode) == ("penalised", "conservative")
    assert found.intervals.thin == (2,)
    words = "The noise would hide how much z varies, which leaves the penalised coefficients alone."
    assert words in " ".join(study_plan._notes(found))
