"""The second release: two matrices as one vector, their noise, and what the noise is worth."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from achieved_guarantees import achieved_moments
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from privatelr import ZCDP, ApproxDP, GuaranteeError, Newton, NonPrivate, PureDP
from privatelr.mechanisms import (
    Moments,
    Problem,
    calibrate_all,
    divide,
    draw_all,
    matrix_of,
    mean_moments,
    read_request,
    read_spend,
    release_all,
    release_moments,
    vector_of,
)
from privatelr.mechanisms.stages.matrices import (
    MOST_COLUMNS,
    calibrate_moments,
    moments_balance,
    moments_sensitivity,
)
from privatelr.numerics import LOSSES, Huber, SoftplusHinge
from privatelr.numerics.rows import BLOCK_ROWS, DenseRows
from privatelr.privacy import GaussianEvent, SharedApproxDP, implies, join
from privatelr.privacy.accounting import Ledger
from privatelr.privacy.noise import (
    Draw,
    GaussianNoise,
    NoNoise,
    SeededRandomness,
    SphericalLaplace,
    SystemRandomness,
    gaussian_mu,
    pure_beside,
)
from privatelr.types import row_radius

TARGETS = [PureDP(0.7), ZCDP(0.05), ApproxDP(0.7, 1e-6)]
EVERY_LOSS = {**LOSSES, "narrow": Huber(0.05), "sharp": SoftplusHinge(0.05)}
SIZES = [(1, 1), (1, 3), (7, 1), (50, 2), (BLOCK_ROWS + 5, 4)]


def symmetric(d, seed=0, count=()):
    a = np.random.default_rng(seed).normal(size=(*count, d, d))
    return a + np.swapaxes(a, -1, -2)


def rows_of(n, d, seed=0, unusable=False):
    """Rows with an intercept, every third of them unusable if asked for."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d - 1))
    y = rng.choice([-1.0, 1.0], n)
    if unusable and d > 1:
        x[::3] = np.nan
    return DenseRows(x, y, bound=1.0, intercept=0.5)


def calibration_of(target, n=50, d=2, loss="logistic", lambda_=0.01):
    radius = row_radius(1.0, 0.5)
    return calibrate_moments(Problem(n, d, EVERY_LOSS[loss], radius).with_lambda(lambda_), target)


# -- vectors of matrices ---------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 17])
@pytest.mark.parametrize("count", [(), (5,), (2, 3)])
def test_a_vector_of_a_matrix_gives_it_back(d, count):
    matrices = symmetric(d, count=count)
    vectors = vector_of(matrices)
    assert vectors.shape == (*count, d * (d + 1) // 2)
    np.testing.assert_allclose(matrix_of(vectors), matrices, rtol=1e-15)
    np.testing.assert_allclose(vector_of(matrix_of(vectors)), vectors, rtol=1e-15)


@pytest.mark.parametrize("d", [1, 2, 3, 17])
def test_the_length_of_a_vector_is_the_frobenius_norm(d):
    """So that a bound on the matrices in that norm is the sensitivity of the vector."""
    first, second = symmetric(d, 1), symmetric(d, 2)
    assert vector_of(first) @ vector_of(second) == pytest.approx(np.trace(first @ second))
    assert np.linalg.norm(vector_of(first)) == pytest.approx(np.linalg.norm(first))


def test_the_order_of_a_vector():
    """Row by row of the upper triangle, the order that release files state."""
    vector = vector_of(np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]]))
    root = math.sqrt(2)
    np.testing.assert_allclose(vector, [1, 2 * root, 3 * root, 4, 5 * root, 6])


# -- what is released ------------------------------------------------------------------------


def by_hand(rows, coef, loss):
    """Both means, one record at a time."""
    curvature, scores = (np.zeros((rows.d, rows.d)) for _ in range(2))
    for x, y in zip(rows.x, rows.y, strict=True):
        if y == 0:
            continue
        margin = np.array([y * (x @ coef)])
        curvature += loss.curvature(margin)[0] * np.outer(x, x) / rows.n
        scores += loss.slope(margin)[0] ** 2 * np.outer(x, x) / rows.n
    return curvature, scores


@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize(("n", "d"), SIZES)
@pytest.mark.parametrize("unusable", [False, True])
def test_the_means_are_those_of_single_records(loss, n, d, unusable):
    rows, coef = rows_of(n, d, unusable=unusable), np.linspace(-1, 2, d)
    calibration = calibration_of(NonPrivate(), n, d, loss)
    released = Moments(mean_moments(rows, coef, calibration), calibration)
    curvature, scores = by_hand(rows, coef, calibration.problem.loss)
    np.testing.assert_allclose(released.curvature, curvature, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(released.scores, scores, rtol=1e-10, atol=1e-14)
    assert (np.linalg.eigvalsh(released.scores) > -1e-12).all()


def test_a_planted_mean_over_usable_rows_is_caught(monkeypatch):
    """It would tell how many rows are unusable."""
    honest = mean_moments

    def learned(rows, coef, calibration):
        return honest(rows, coef, calibration) * rows.n / np.count_nonzero(rows.y)

    monkeypatch.setitem(globals(), "mean_moments", learned)
    with pytest.raises(AssertionError):
        test_the_means_are_those_of_single_records("logistic", 50, 2, True)


@dataclass
class Injected(Draw):
    """Noise of known numbers, in the place of a draw."""

    noise: np.ndarray

    def enclose(self, precision):
        return [arb(float(number)) for number in self.noise]


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "d"), SIZES)
def test_the_release_is_the_mean_and_the_noise_on_the_grid(target, loss, n, d):
    rows, coef = rows_of(n, d, unusable=True), np.linspace(-1, 2, d)
    calibration = calibration_of(target, n, d, loss)
    noise = np.random.default_rng(1).normal(size=d * (d + 1)) * calibration.entry_sd
    released = release_moments(rows, coef, calibration, Injected(noise))
    assert released.values.shape == (calibration.noise.dimension,) == (d * (d + 1),)
    assert not np.fmod(released.values, calibration.grid).any()
    moved = released.values - mean_moments(rows, coef, calibration) - noise
    assert np.abs(moved).max() <= calibration.grid * (0.5 + 1e-6)
    with pytest.raises(ValueError, match="read-only"):
        released.values[0] = 0.0


def test_planted_noise_on_the_curvature_alone_is_caught(monkeypatch):
    honest = release_moments

    def half(rows, coef, calibration, noise):
        silent = np.where(np.arange(len(noise.noise)) < len(noise.noise) // 2, noise.noise, 0.0)
        return honest(rows, coef, calibration, Injected(silent))

    monkeypatch.setitem(globals(), "release_moments", half)
    with pytest.raises(AssertionError):
        test_the_release_is_the_mean_and_the_noise_on_the_grid(PureDP(0.7), "logistic", 50, 2)


def test_what_is_drawn_has_the_deviation_that_is_stated():
    calibration = calibration_of(PureDP(0.7), d=30)
    drawn = SeededRandomness(5).draw(calibration.noise)
    rows, coef = rows_of(50, 30), np.zeros(30)
    released = release_moments(rows, coef, calibration, drawn)
    plain = Moments(mean_moments(rows, coef, calibration), calibration)
    diagonal = np.diag_indices(30)
    off = np.triu_indices(30, 1)
    for name, sd in (
        ("curvature", calibration.entry_sd),
        ("scores", calibration.entry_sd / calibration.balance),
    ):
        noise = getattr(released, name) - getattr(plain, name)
        assert noise[diagonal].std() == pytest.approx(sd, rel=0.7)
        assert noise[off].std() == pytest.approx(sd / math.sqrt(2), rel=0.25)


def test_without_a_guarantee_the_means_are_released_as_they_are():
    rows, coef = rows_of(50, 2, unusable=True), np.array([1.0, -2.0])
    calibration = calibration_of(NonPrivate())
    assert calibration.noise == NoNoise(6)
    assert calibration.grid == calibration.entry_sd == 0
    assert calibration.events == ()
    drawn = SystemRandomness().draw(calibration.noise)
    released = release_moments(rows, coef, calibration, drawn)
    assert released.values.tobytes() == mean_moments(rows, coef, calibration).tobytes()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (rows_of(51, 2), r"rows of shape \(51, 2\).*n=50, d=2"),
        (rows_of(50, 3), r"rows of shape \(50, 3\)"),
        (
            DenseRows(np.ones((50, 1)), np.ones(50), bound=1.1, intercept=0.5),
            "longer than the radius",
        ),
    ],
    ids=["records", "columns", "radius"],
)
def test_rows_that_the_noise_was_not_made_for_are_refused(rows, words):
    calibration = calibration_of(PureDP(1.0))
    drawn = SystemRandomness().draw(calibration.noise)
    with pytest.raises(GuaranteeError, match=words):
        release_moments(rows, np.zeros(rows.d), calibration, drawn)


# -- what the noise is worth -----------------------------------------------------------------


def price(guarantee):
    return guarantee.rho if isinstance(guarantee, ZCDP) else guarantee.epsilon


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 40), (50, 2), (10**6, 40)])
def test_the_noise_is_worth_its_target_and_no_more(target, loss, n, d):
    calibration = calibration_of(target, n, d, loss)
    found = achieved_moments(calibration)
    assert type(found) is type(calibration.proven)
    assert price(found) == pytest.approx(price(target), rel=1e-9)
    assert price(found) <= price(target) * (1 + 1e-12)
    assert implies(calibration.proven, target)
    if isinstance(found, ApproxDP):
        assert found.delta == pytest.approx(target.delta, rel=1e-6)
    for event in calibration.events:
        if isinstance(event, GaussianEvent):
            assert event.mu == pytest.approx(
                moments_sensitivity(calibration.problem) / calibration.noise.scale
            )
        else:
            assert event == calibration.proven


@given(st.floats(-9, 4), st.floats(-30, -0.31), st.integers(1, 10**12), st.floats(-3, 3))
def test_over_all_prices_that_a_release_takes(log_epsilon, log_delta, n, log_radius):
    epsilon = max(10.0**log_epsilon, 1e-9)
    facts = Problem(n, 3, LOSSES["logistic"], 10.0**log_radius).with_lambda(1.0)
    for target in (PureDP(epsilon), ZCDP(epsilon), ApproxDP(epsilon, 10.0**log_delta)):
        found = achieved_moments(calibrate_moments(facts, target))
        assert price(found) <= price(target) * (1 + 1e-12)
        if isinstance(found, ApproxDP):
            assert found.delta <= target.delta * (1 + 1e-8)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("d", [2, 40])
def test_noise_that_is_too_small_is_seen(target, loss, d):
    calibration = calibration_of(target, loss=loss, d=d)
    noise = calibration.noise
    if noise.is_pure:
        meagre = replace(noise, rate=noise.rate / 0.99)
    else:
        meagre = replace(noise, sd=0.99 * noise.sd)
    found = achieved_moments(replace(calibration, noise=meagre))
    worse = (
        found.delta > target.delta if isinstance(found, ApproxDP) else price(found) > price(target)
    )
    assert worse


def test_what_nothing_is_proven_about():
    pure, gaussian = calibration_of(PureDP(1.0)), calibration_of(ZCDP(0.1))
    for wrong in (
        replace(pure, balance=pure.balance * 2),
        replace(pure, balance=math.nextafter(pure.balance, 1)),
        replace(pure, noise=gaussian.noise),
        replace(gaussian, noise=NoNoise(6)),
        replace(gaussian, target=PureDP(1.0)),
        replace(gaussian, target=ApproxDP(1.0, 1e-6), noise=NoNoise(6)),
    ):
        with pytest.raises(GuaranteeError, match="nothing is proven"):
            achieved_moments(wrong)
    assert achieved_moments(calibration_of(NonPrivate("why"))) == NonPrivate("why")


@pytest.mark.parametrize("loss", EVERY_LOSS.values(), ids=EVERY_LOSS)
def test_no_margin_gives_a_longer_pair(loss):
    """K R^2 / n bounds what a record adds, and the bound is met by some margin or is safe."""
    problem = Problem(1, 1, loss, 1.0).with_lambda(1.0)
    margins = np.linspace(-40, 40, 2_000_001)
    pair = np.hypot(loss.curvature(margins), moments_balance(problem) * loss.slope(margins) ** 2)
    largest = moments_sensitivity(problem) / math.sqrt(2)
    assert pair.max() <= largest
    assert pair.max() >= largest * (1 - 1e-3)


def test_sizes_that_are_no_fit_for_inference():
    with pytest.raises(GuaranteeError, match=r"^lambda_=0: .*takes lambda_ above 0"):
        calibration_of(NonPrivate(), lambda_=0.0)
    with pytest.raises(GuaranteeError, match=r"^spend: .* at most 1000 columns.*has 1001"):
        calibration_of(PureDP(1.0), d=MOST_COLUMNS + 1)
    assert calibration_of(PureDP(1.0), d=MOST_COLUMNS).noise.dimension == 1_001_000


def test_a_calibration_in_words():
    said = str(calibration_of(PureDP(0.35)))
    assert "Laplace noise on 6 numbers" in said
    assert "target epsilon = 0.35 (pure)" in said


# -- one price, two releases -----------------------------------------------------------------


def plan_of(
    eps=1.0, delta=0.0, spend="inference", *, n=200, d=3, op=True, loss="logistic", lambda_=None
):
    facts = Problem(n, d, LOSSES[loss], row_radius(1.0, 0.5))
    return calibrate_all(read_request(eps, delta, spend, lambda_, op, None, "keep"), facts)


USUAL = [
    (1.0, 0.0, "logistic", PureDP(0.65), PureDP(0.35)),
    (1.0, 0.0, "softplus", PureDP(0.65), PureDP(0.35)),
    (1.0, 0.0, "huber", PureDP(0.5), PureDP(0.5)),
    (ZCDP(0.1), 0.0, "huber", ZCDP(0.07), ZCDP(0.03)),
]


@pytest.mark.parametrize(("eps", "delta", "loss", "first", "second"), USUAL, ids=str)
@pytest.mark.parametrize("op", [True, False])
def test_the_usual_shares(eps, delta, loss, first, second, op):
    plan = plan_of(eps, delta, loss=loss, op=op)
    assert (plan.coefficients.target, plan.moments.target) == (first, second)
    assert plan.moments.problem == plan.coefficients.problem
    assert plan.events == plan.coefficients.events + plan.moments.events
    assert str(plan) == f"coefficients: {plan.coefficients}\ninference: {plan.moments}"


@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize(("d", "law"), [(3, SphericalLaplace), (30, GaussianNoise)])
def test_under_a_delta_the_stages_share_it(d, law, op):
    """In few columns Laplace noise of its share of epsilon, in many a share of mu squared."""
    plan = plan_of(1.0, 1e-6, op=op, d=d)
    first, second = plan.coefficients.target, plan.moments.target
    mu = math.sqrt(2 * second.rho)
    assert isinstance(plan.coefficients.noise, law)
    assert isinstance(plan.moments.noise, GaussianNoise)
    assert first == SharedApproxDP(1.0, 1e-6, beside=first.beside)
    assert mu <= first.beside <= mu * (1 + 1e-12)
    assert join([first, second]) == ApproxDP(1.0, 1e-6)
    if law is GaussianNoise:
        assert mu**2 == pytest.approx(0.3 * gaussian_mu(1.0, 1e-6) ** 2, rel=1e-9)
    else:
        assert pure_beside(1.0, 1e-6, mu) == pytest.approx(0.7, rel=1e-9)


@pytest.mark.parametrize("spend", ["inference", {"coefficients": 0.9, "inference": 0.1}], ids=str)
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
@pytest.mark.parametrize(("d", "op"), [(3, True), (3, False), (30, True), (30, False)])
def test_under_a_delta_nothing_is_left_unspent(d, op, eps, delta, spend):
    plan = plan_of(eps, delta, op=op, d=d, spend=spend)
    ledger = Ledger(eps, delta)
    ledger.charge(plan.target, plan.events)
    assert 0.99 * eps <= ledger.spent() <= eps


def test_shares_of_ones_own():
    plan = plan_of(spend={"coefficients": 0.9, "inference": 0.1})
    assert (plan.coefficients.target, plan.moments.target) == (PureDP(0.9), PureDP(0.1))
    for nothing in (None, {"coefficients": 1}):
        plan = plan_of(spend=nothing)
        assert (plan.coefficients.target, plan.moments) == (PureDP(1.0), None)
        assert plan.events == plan.coefficients.events


def test_the_coefficients_are_those_of_a_fit_for_their_share():
    """Buying inference changes them by what it costs, and by nothing else at the same lambda."""
    both = plan_of()
    alone = plan_of(0.65, spend=None, lambda_=both.coefficients.problem.lambda_)
    kept = {"lambda_origin": "", "lambda_rules": ()}
    assert replace(both.coefficients, **kept) == replace(alone.coefficients, **kept)
    noise = SeededRandomness(4)
    drawn = draw_all(both, noise)
    rows = rows_of(200, 3)
    released = release_all(rows, both, drawn, Newton())
    same = release_all(rows, alone, replace(drawn, others={}), Newton())
    np.testing.assert_array_equal(released.coef, same.coef)
    assert (released.guarantee, same.guarantee) == (PureDP(1.0), PureDP(0.65))
    again = release_moments(rows, released.coef, both.moments, drawn.others["inference"])
    np.testing.assert_array_equal(released.moments.values, again.values)
    assert same.moments is None


def test_a_plain_plan_with_inference_draws_nothing():
    plan = plan_of(0)
    assert plan.events == ()
    assert isinstance(plan.moments.target, NonPrivate)
    released = release_all(rows_of(200, 3), plan, draw_all(plan, SystemRandomness()), Newton())
    exact = mean_moments(rows_of(200, 3), released.coef, plan.moments)
    np.testing.assert_array_equal(released.moments.values, exact)


def test_parts_below_any_price_are_refused():
    """A whole of the smallest price has parts that no formula was checked for."""
    for eps, delta, words in (
        (1e-9, 0.0, r"coefficients would get epsilon = 6\.5e-10"),
        (ZCDP(1e-18), 0.0, r"coefficients would get rho = 7e-19"),
        (1e-9, 1e-30, r"inference would get rho = .*e-2"),
    ):
        with pytest.raises(GuaranteeError, match=rf"^spend: {words}.*; raise eps"):
            plan_of(eps, delta)
        plan_of(eps, delta, spend=None)


def test_what_no_share_is_given_for_is_left_to_the_coefficients():
    filled = read_request(1.0, 0.0, {"roc": 0.25, "inference": 0.25}, None, True, None, "increase")
    assert filled.spend == (("coefficients", 0.5), ("roc", 0.25), ("inference", 0.25))


@pytest.mark.parametrize(
    ("spend", "words"),
    [
        ("inferences", "spend='inferences': spend takes None"),
        (3, "spend=3: "),
        ([("coefficients", 1.0)], "spend=<list>: "),
        ({"roc": 1.0}, "spend: there is no share for the coefficients"),
        ({"threshold": 1.0}, "spend: 'threshold' is not a part of a fit, and takes no share"),
        (
            {"coefficients": 0.5, "inference": 0.4, "auc": 0.1},
            "spend: 'auc' is not a part of a fit, and takes no share",
        ),
        ({"inference": 1.0}, "spend: there is no share for the coefficients"),
        ({}, "spend: there is no share for the coefficients"),
        ({"coefficients": 0.6, "inference": 0.3}, "is the sum of 0.6, 0.3"),
        ({"coefficients": 1.0, "inference": 0.0}, "share of 'inference'=0.0"),
        ({"coefficients": "1"}, "share of 'coefficients'='1'"),
    ],
    ids=str,
)
@pytest.mark.parametrize("eps", [1.0, 0])
def test_what_cannot_be_bought(spend, words, eps):
    with pytest.raises(GuaranteeError) as caught:
        read_request(eps, 0.0, spend, None, True, None, "increase")
    message = str(caught.value)
    assert message.startswith((words, "shares: ", "share of "))
    assert words in message
    assert message.endswith((".", "; did you mean 'inference'?"))
    assert "\n" not in message


def test_the_parts_of_nothing_are_nothing():
    ((parts, kinds),) = divide(NonPrivate("why"), read_spend("inference"), LOSSES["huber"])
    assert set(parts.values()) == {NonPrivate("why")}
    assert kinds == ()
