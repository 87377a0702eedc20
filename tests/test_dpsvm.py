"""`dpsvm`: the arguments, results and guarantees of `dplr` with another loss."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from achieved_guarantees import achieved
from broken_mechanisms import calibrated
from flint import arb
from frames_for_laws import clinic, fit_clinic, replaced, require_fresh
from scipy import optimize

from privatelr import (
    ZCDP,
    ApproxDP,
    GuaranteeError,
    PureDP,
    audit,
    dpsvm,
    load,
)
from privatelr.design import read_design
from privatelr.mechanisms import Problem
from privatelr.mechanisms.calibration import gaussian_objective
from privatelr.numerics import HINGES, LOSSES, Huber, SoftplusHinge, losses
from privatelr.numerics.rows import DenseRows
from privatelr.sources import as_batch

PRICES = {
    "pure": {"eps": 1.0},
    "zCDP": {"eps": ZCDP(0.1)},
    "approximate": {"eps": 1.0, "delta": 1e-6},
}
EVERY_PRICE = pytest.mark.parametrize("price", PRICES.values(), ids=PRICES)
EVERY_LOSS = pytest.mark.parametrize("loss", HINGES)
EVERY_PLACEMENT = pytest.mark.parametrize("op", [True, False], ids=["objective", "output"])


def svm(frame=None, **options):
    return fit_clinic(clinic() if frame is None else frame, model=dpsvm, **options)


def huber_svm(frame=None, **options):
    return svm(frame, loss="huber", **options)


def rows_of(fit, frame):
    return read_design(fit.spec, as_batch(frame), DenseRows)


# -- the same front door -----------------------------------------------------------------------


# -- one line about losses would be one too many -----------------------------------------------


# -- what is refused ---------------------------------------------------------------------------


def test_the_joint_bound_is_refused_for_huber_and_is_that_of_softplus():
    for options in ({}, {"op": False}, {"delta": 1e-6}):
        with pytest.raises(GuaranteeError, match="nothing joint is proven about the huber loss"):
            huber_svm(analysis="joint", **options)
    asked, default = (svm(loss="softplus", analysis=a).calibration for a in ("joint", None))
    assert asked == default
    assert default.analysis == "joint"
    default, asked = (huber_svm(analysis=a).calibration.analysis for a in (None, "one-log"))
    assert default == asked == "one-log"
    assert huber_svm(analysis="cms11").calibration.analysis == "cms11"
    for loss in (None, "huber"):
        with pytest.raises(GuaranteeError, match="that bound is about pure epsilon"):
            svm(loss=loss, analysis="cms11", delta=1e-6)


@pytest.mark.parametrize("loss", [None, "softplus"])
@EVERY_PRICE
@EVERY_PLACEMENT
def test_softplus_is_the_loss_of_a_private_fit(loss, price, op):
    found = svm(loss=loss, op=op, h=0.25, **price).calibration.problem.loss
    assert found == SoftplusHinge(0.25)


@pytest.mark.parametrize(
    "options", [{"eps": 0}, {"eps": 0, "op": False}, {"analysis": "cms11"}], ids=str
)
def test_huber_stays_the_loss_of_a_plain_fit_and_of_the_published_analysis(options):
    assert svm(h=0.25, **options).calibration.problem.loss == Huber(0.25)
    asked = svm(loss="softplus", h=0.25, **options).calibration.problem.loss
    assert asked == SoftplusHinge(0.25)


# -- what is promised --------------------------------------------------------------------------


@EVERY_LOSS
@EVERY_PRICE
@EVERY_PLACEMENT
@pytest.mark.parametrize("h", [0.5, 0.05])
def test_every_mechanism_under_every_guarantee(loss, price, op, h):
    fits = [svm(loss=loss, op=op, h=h, **price) for _ in range(3)]
    first = fits[0]
    assert np.isfinite(first.coef).all()
    require_fresh([fit.coef for fit in fits])
    target = {"pure": PureDP(1.0), "zCDP": ZCDP(0.1), "approximate": ApproxDP(1.0, 1e-6)}
    promised = next(target[name] for name, given in PRICES.items() if given is price)
    assert first.guarantee == first.calibration.target == promised
    found = achieved(first.calibration)
    for name in ("epsilon", "delta", "rho"):
        if hasattr(first.calibration.proven, name):
            assert getattr(found, name) <= getattr(promised, name) * (1 + 1e-12)
            assert getattr(found, name) > 0.98 * getattr(promised, name)


@EVERY_PRICE
@EVERY_PLACEMENT
@pytest.mark.parametrize(
    "options", [{"loss": "huber"}, {"loss": "huber", "h": 0.05}, {"loss": "softplus"}], ids=str
)
def test_the_exact_loss_of_a_fit_keeps_the_promise(price, op, options):
    frame = clinic()
    neighbour = replaced(frame, 0, age=18.0, dose=5.0, smoker="yes", y=1.0 - frame["y"][0])
    fit = svm(frame, op=op, lambda_="free", **options, **price)
    assert audit.privacy_loss(fit, frame, neighbour).holds


# -- lambda ------------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
def test_a_lambda_that_costs_more_than_a_tenth_is_raised(h, eps):
    """Lambda = c R^2 / (exp(eps / 10) - 1), with c = 1/(2h): nine tenths are left for noise."""
    problem = huber_svm(h=h, eps=eps, lambda_=1.0).calibration.problem
    least = problem.radius**2 / (2 * h) / math.expm1(eps / 10) / problem.n
    for lambda_ in (0.0, 1e-6, 0.5 * least, 0.999 * least):
        raised = huber_svm(h=h, eps=eps, lambda_=lambda_).calibration
        assert raised.lambda_ == pytest.approx(least, rel=1e-12)
        assert raised.lambda_origin.startswith(f"raised from {lambda_:.6g}")
        assert raised.epsilon_effective == pytest.approx(0.9 * eps, rel=1e-3)
    enough = huber_svm(h=h, eps=eps, lambda_=1.001 * least).calibration
    assert (enough.lambda_, enough.lambda_origin) == (1.001 * least, "as given")
    assert huber_svm(h=h, eps=eps, lambda_="free").calibration.lambda_ == pytest.approx(least)
    assert huber_svm(h=h, eps=eps).calibration.lambda_ >= least * (1 - 1e-12)


@pytest.mark.parametrize("h", [0.5, 0.01])
def test_a_lambda_that_is_kept_pays_its_one_log_and_no_more(h):
    free = huber_svm(h=h, lambda_="free").calibration
    radius, penalty = free.problem.radius, free.problem.penalty
    for small in (1.0, 3.0, 15.0):
        kept = huber_svm(h=h, lambda_=free.lambda_ / small, on_small_lambda="keep").calibration
        assert kept.lambda_ == free.lambda_ / small
        left = 1.0 - math.log1p(radius**2 / (2 * h) * small / penalty)
        assert kept.noise.rate == pytest.approx(0.99 * left / 2, rel=1e-9)
    with pytest.raises(
        GuaranteeError, match=r"too small for epsilon = 1 .* under analysis='one-log'"
    ):
        huber_svm(h=h, lambda_=free.lambda_ / 17, on_small_lambda="keep")


def test_softplus_is_free_where_kappa_over_h_is():
    """Lambda = 2 R^2 / (h eps), and the whole of epsilon goes to the noise."""
    for h in (0.5, 0.1):
        found = svm(loss="softplus", h=h, lambda_="free").calibration
        least = 2 * found.problem.radius**2 / h / found.problem.n
        assert found.lambda_ == pytest.approx(least, rel=1e-12)
        assert found.noise.rate == pytest.approx(0.99 / 2, rel=1e-9)


# theory.md#theorem-42 (a) at R = L = 1, delta = 1e-6, n = 1e4: h, eps, then sigma at the three
# lambdas
GAUSSIAN = [
    (0.5, 0.1, math.inf, 1222, 80.1),
    (0.5, 0.5, math.inf, 19.6, 16.4),
    (0.5, 1, 25.4, 9.27, 8.53),
    (0.5, 2, 6.60, 4.67, 4.48),
    (0.5, 8, 1.411, 1.319, 1.307),
    (0.1, 1, math.inf, 13.7, 8.85),
]


@pytest.mark.parametrize(("h", "eps", "first", "second", "third"), GAUSSIAN)
def test_gaussian_noise_of_the_table(h, eps, first, second, third):
    for lambda_, expected in zip((1e-4, 1e-3, 1e-2), (first, second, third), strict=True):
        problem = Problem(10**4, 5, Huber(h), 1.0).with_lambda(lambda_)
        found = gaussian_objective.objective_sigma(problem, eps, 1e-6, analysis="one-log")
        # one in the last digit that is printed
        digits = len(f"{expected}".partition(".")[2])
        assert found == pytest.approx(expected, abs=10.0**-digits)
        assert (
            gaussian_objective.objective_sigma(problem, eps, 1e-6) == found
        )  # there is no other bound


# -- the plain fit -----------------------------------------------------------------------------


def value_of(name, h, z):
    """The formulas of the docstring."""
    if name == "softplus":
        return h * np.logaddexp(0, (1 - z) / h)
    bent = (1 + h - z) ** 2 / (4 * h)
    return np.where(z > 1 + h, 0.0, np.where(z < 1 - h, 1 - z, bent))


@EVERY_LOSS
@pytest.mark.parametrize(("h", "lambda_"), [(0.5, 0.01), (0.3, 0.3), (0.05, 0.05)])
def test_the_plain_fit_is_the_minimum_of_the_formula(loss, h, lambda_):
    frame = clinic(n=150)
    fit = svm(frame, eps=0, loss=loss, h=h, lambda_=lambda_)
    rows = rows_of(fit, frame)
    signed = rows.y[:, None] * rows.x

    def objective(w):
        return value_of(loss, h, signed @ w).mean() + lambda_ / 2 * w @ w

    w = fit.release.coef
    found = optimize.minimize(
        objective, np.zeros(rows.d), method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9}
    )
    assert objective(w) <= found.fun + 1e-15
    # differences of the objective resolve the minimum to the root of their own resolution
    np.testing.assert_allclose(w, found.x, atol=1e-4)
    slope = optimize.approx_fprime(found.x, objective, 1e-7)
    assert np.linalg.norm(slope) < 1e-5

    def exact_slope(w):
        z = signed @ w
        if loss == "softplus":
            pull = -1 / (1 + np.exp((z - 1) / h))
        else:
            pull = -np.clip((1 + h - z) / (2 * h), 0, 1)
        return pull @ signed / len(z) + lambda_ * w

    root = optimize.root(exact_slope, found.x, tol=1e-15).x
    np.testing.assert_allclose(w, root, rtol=0, atol=1e-8)


# -- what is seen of a fit ---------------------------------------------------------------------


@EVERY_LOSS
def test_summary_and_card_name_the_model_and_its_loss(loss):
    fit = svm(loss=loss, h=0.25)
    text, html = str(fit), fit.summary().as_html()
    assert text.startswith("Differentially private support vector machine\n")
    assert f"Loss        {loss}, h = 0.25\n" in text
    assert max(map(len, text.splitlines())) <= 79
    for page in (text, html, fit.card(), fit.card("html")):
        assert "odds ratio" not in page
        assert "support vector machine" in page
        assert f"{loss}, h = 0.25" in page
    assert "No number on this page but the estimates was computed from the data." in " ".join(
        text.split()
    )
    assert str(svm(eps=0)).startswith("Non-private support vector machine\n")
    assert "Loss" not in str(fit_clinic(clinic())).split("not private")[0]


def test_classes_are_the_default_and_the_signs_of_margins():
    frame = clinic(n=60)
    fit = svm(frame)
    classes, margins = fit.predict(frame), fit.predict(frame, "margins")
    assert classes.name == "class"
    np.testing.assert_array_equal(classes == 1, margins > 0)
    pd.testing.assert_series_equal(classes, fit.predict(frame, type="classes"))
    cut = float(margins.median())
    above = fit.predict(frame, threshold=cut)
    np.testing.assert_array_equal(above == 1, margins > cut)
    new = frame.drop(columns="y").assign(age=np.nan)
    assert fit.predict(new).isna().all()
    assert fit.predict(new, "margins").isna().all()


# -- thresholds are margins --------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["youden", "topleft"])
def test_learned_thresholds_are_margins_too(rule):
    frame = clinic(n=300)
    fit = svm(frame, threshold=rule)
    value = getattr(fit.diagnostics, rule)
    margins = fit.predict(frame, "margins")
    assert value >= margins.min()
    classes = fit.predict(frame)
    np.testing.assert_array_equal(classes == 1, margins > value)
    positive = frame["y"] == 1
    reached = ((classes == 1)[positive].mean(), (classes == 1)[~positive].mean())
    curve = fit.diagnostics.roc
    if rule == "youden":
        best = (curve["true_positive"] - curve["false_positive"]).max()
        assert reached[0] - reached[1] == pytest.approx(best)
    else:
        best = np.hypot(curve["false_positive"], 1 - curve["true_positive"]).min()
        assert np.hypot(reached[1], 1 - reached[0]) == pytest.approx(best)
    assert f"({rule})" in fit.summary(diagnostics=True).as_text().split("not private -----")[1]


# -- files -------------------------------------------------------------------------------------


# -- a new loss is one class -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HyperbolicHinge(losses.Loss):
    """``((1 - z) + sqrt((1 - z)^2 + h^2)) / 2``: a branch of a hyperbola along the hinge.

    Where the slope has size s the curvature is ``2 s (1 - s) / r`` with
    ``r = sqrt((1 - z)^2 + h^2) >= h``.
    """

    h: float = 0.5
    name: str = "hyperbolic"
    title: str = "support vector machine"
    slope_bound: float = 1.0
    probability: None = None

    @property
    def parameters(self):
        return {"h": self.h}

    @property
    def curvature_bound(self):
        return 1 / (2 * self.h)

    @property
    def joint_factor(self):
        return 2 / self.h

    def value(self, margin):
        short = 1 - margin
        return np.maximum(short, 0) + self._rest(short) / 2

    def _rest(self, short):
        """``r - |1 - z|`` without cancellation."""
        with np.errstate(over="ignore"):
            return self.h * (self.h / (np.hypot(short, self.h) + np.abs(short)))

    def slope(self, margin):
        short = 1 - margin
        flat = self._rest(short) / np.hypot(short, self.h) / 2
        return np.where(short > 0, flat - 1, -flat)

    def curvature(self, margin):
        share = self.h / np.hypot(1 - margin, self.h)
        return share**3 / (2 * self.h)

    def enclose(self, margin):
        short, h = 1 - margin, arb(self.h)
        r = (short * short + h * h).sqrt()
        rest = h * h / (r + abs(short))
        flat = rest / r / 2
        slope = flat - 1 if short > 0 else -flat if short <= 0 else -(1 + short / r) / 2
        return short.max(arb(0)) + rest / 2, slope, h * h / (2 * r * r * r)


@pytest.fixture
def hyperbolic(monkeypatch):
    monkeypatch.setitem(LOSSES, "hyperbolic", HyperbolicHinge())
    monkeypatch.setattr(losses, "HINGES", (*HINGES, "hyperbolic"))


@pytest.mark.usefixtures("hyperbolic")
@EVERY_PRICE
@EVERY_PLACEMENT
def test_a_new_loss_is_fitted_and_read_back_like_the_others(price, op, tmp_path):
    frame, path = clinic(), tmp_path / "model.json"
    fit = svm(frame, loss="hyperbolic", h=0.25, op=op, **price)
    assert fit.calibration.analysis in ("joint", "sensitivity", "analytic")
    assert "hyperbolic, h = 0.25" in str(fit)
    fit.save(path)
    again = load(path)
    assert again.calibration == fit.calibration
    assert again.calibration.problem.loss == HyperbolicHinge(0.25)
    pd.testing.assert_series_equal(again.predict(frame), fit.predict(frame))


@pytest.mark.usefixtures("hyperbolic")
def test_the_plain_fit_of_a_new_loss():
    frame = clinic(n=150)
    fit = svm(frame, loss="hyperbolic", eps=0, lambda_=0.02)
    rows = rows_of(fit, frame)
    signed = rows.y[:, None] * rows.x

    def slope(w):
        short = 1 - signed @ w
        pull = -(1 + short / np.sqrt(short**2 + 0.25)) / 2
        return pull @ signed / len(signed) + 0.02 * w

    np.testing.assert_allclose(slope(fit.release.coef), 0, atol=1e-10)


@pytest.mark.usefixtures("hyperbolic")
def test_a_new_loss_is_audited_by_being_listed():
    effort = audit.Effort((audit.Setting(small=2.0),), 0, 2_000, 1, 20)
    found = audit.run(effort=effort, losses=["hyperbolic"], rng=np.random.default_rng(0))
    assert found.ok
    assert {row.loss for row in found.rows} == {"hyperbolic(0.5)"}
    assert 0.8 < found.rows[0].ratio <= 1


def test_a_constant_that_a_new_loss_states_wrongly_is_found():
    @dataclass(frozen=True, slots=True)
    class Careless(HyperbolicHinge):
        @property
        def joint_factor(self):
            return 0.25 / self.h

    for loss, holds in ((HyperbolicHinge(), True), (Careless(), False)):
        calibration = calibrated(PureDP(1.0), loss=loss)
        found = audit.search(calibration, np.random.default_rng(0), random_pairs=0).loss
        assert found.holds == holds


def test_every_hinge_is_a_registered_loss():
    assert set(HINGES) < set(LOSSES)
    assert [type(LOSSES[name]) for name in HINGES] == [Huber, SoftplusHinge]
    assert all(LOSSES[name].probability is None for name in HINGES)
