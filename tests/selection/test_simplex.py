"""Draws on the simplex: stability never exceeded and attained, exact laws, draws and refusals."""

import inspect
import math
import re

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from privatelr import dpsimplex
from privatelr.audit.enumerated_choices import exact_minimiser, histograms_of, log_chances
from privatelr.errors import GuaranteeError, NoRelease
from privatelr.numerics import Huber, Logistic
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import (
    ZCDP,
    ApproxDP,
    NonPrivate,
    PureDP,
    event_from_json,
    event_to_json,
    renyi_of_draw,
    to_approximate,
)
from privatelr.privacy.accounting import Entry, epsilon_of
from privatelr.privacy.noise import FloatDraw, SeededRandomness, SystemRandomness
from privatelr.selection import simplex
from privatelr.selection.entropic import Entropic, entropic_minimum
from privatelr.selection.simplex import (
    SimplexProblem,
    Uniforms,
    affordable_draws,
    calibrate_simplex,
    draw_histogram,
    draws_for_epsilon,
    epsilon_for_draws,
    min_lambda,
    release_simplex,
    rho_of_draw,
    simplex_stability,
    stability_of,
    suggest_lambda,
)

COD_RNA = 41_674  # records that the published numbers are about

# -- stability -----------------------------------------------------------------------------------


def speed(theta, x, bends, g, lam):
    """Derivative of log theta along the path, from the derivative of the KKT conditions."""
    centred = np.eye(len(theta)) - np.outer(np.ones(len(theta)), theta)
    matrix = lam * np.eye(len(theta)) + centred @ (x.T * bends) @ x @ np.diag(theta)
    return np.linalg.solve(matrix, -centred @ g)


def shares_of_bounds(theta, x, bends, g, lam, n, curvature_bound, width):
    """Largest, range and deviation of the speed, over their bounds; 1 where one is attained."""
    slope = np.ptp(g) / (2 * width)
    bounds = simplex_stability(n, lam / n, slope, curvature_bound, width)
    u = speed(theta, x, bends, g, lam)
    sd = math.sqrt(theta @ (u - theta @ u) ** 2)
    return np.abs(u).max() / bounds.largest, np.ptp(u) / bounds.width, sd / bounds.sd


def test_speeds_are_never_beyond_the_bounds():
    rng = np.random.default_rng(0)
    worst = np.zeros(3)
    for _ in range(20_000):
        p, n = int(rng.integers(2, 6)), int(rng.integers(1, 5))
        theta = special.softmax(rng.standard_normal(p) * rng.choice([0.3, 3.0, 30.0]))
        x = rng.choice([-1.0, 1.0], (n, p)) if rng.random() < 0.7 else rng.uniform(-1, 1, (n, p))
        g = rng.choice([-0.5, 0.5], p) if rng.random() < 0.7 else rng.uniform(-0.5, 0.5, p)
        g[0], g[-1] = 0.5, -0.5
        width = np.ptp(x, axis=1).max() + 1e-9
        bends = rng.choice([0.0, 1.0], n) if rng.random() < 0.5 else np.ones(n)
        lam = 10.0 ** rng.uniform(-2, 2)
        worst = np.maximum(worst, shares_of_bounds(theta, x, bends, g, lam, n, 1.0, width))
    assert (worst <= 1 + 1e-9).all()
    assert (worst > 0.9).all()


def bent(kappa, bits=5):
    """Options of which half an interval is hit by each of kappa orthogonal rows, 1, 4 or 16."""
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * bits)).reshape(bits, -1)
    a, b, c, d, last = signs
    rows = {
        1: [last],
        4: [last, last * a, last * b, last * a * b],
        16: [last * s * t for s in (1, a, b, a * b) for t in (1, c, d, c * d)],
    }[kappa]
    half = (1 + a + b - a * b) / 2  # of size one, in equal parts of four products
    other = (1 + c + d - c * d) / 2
    g = {1: last, 4: last * half, 16: last * half * other}[kappa] / 2
    x = np.array(rows)
    correlation = np.sign(x @ g)
    # two options that are all but impossible, at the ends of g and against the correlation
    x = np.column_stack([x, -correlation, correlation])
    theta = np.full(x.shape[1], 1e-12)
    theta[: len(g)] = 1 / len(g)
    return theta / theta.sum(), x, np.append(g, [0.5, -0.5])


@pytest.mark.parametrize("count", [1, 4, 16])
def test_the_width_is_attained(count):
    theta, x, g = bent(count)
    # W = 2 and n = count rows, so kappa = count / lam
    for kappa in {1: (0.3, 0.6, 1.0), 4: (4.0,), 16: (16.0,)}[count]:
        lam = count / kappa
        _, width, _ = shares_of_bounds(theta, x, np.ones(count), g, lam, count, 1.0, 2.0)
        assert 1 - 1e-6 < width <= 1 + 1e-9


def test_the_others_are_attained_without_curvature():
    bounds = simplex_stability(10, 0.1, 1.0, 0.0, 2.0)
    assert bounds.kappa == 0
    assert bounds.largest == pytest.approx(4.0) == pytest.approx(bounds.width)
    x, g = np.zeros((1, 2)), np.array([2.0, -2.0])
    assert np.abs(speed(np.array([1e-9, 1.0]), x, np.ones(1), g, 1.0)).max() == pytest.approx(4.0)
    u = speed(np.array([0.5, 0.5]), x, np.ones(1), g, 1.0)
    assert math.sqrt(np.mean(u**2)) == pytest.approx(bounds.sd)


def test_the_published_constant_is_no_range():
    """1 + kappa / 2 in place of the width: what an accounting by ranges would get wrong."""
    theta, x, g = bent(1)
    for kappa in (0.3, 0.6):
        u = speed(theta, x, np.ones(1), g, 1 / kappa)
        assert np.ptp(u) > (1 + kappa / 2) * np.ptp(g) * kappa * 1.05


def test_minimisers_of_real_neighbours_come_near_the_width():
    """With two columns that a prior makes all but impossible; kappa = 0.5."""
    n, reach, kappa = 4000, 0.02, 0.5
    x = np.tile([reach, -reach], (n, 1))
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    lam = n * 0.25 * reach**2 / kappa
    prior = np.array([0.0, -30.0, 0.0, -30.0])
    logs = []
    for sign in (1.0, -1.0):
        x[0] = [sign * reach, sign * reach]
        rows = EntryRows(x, np.where(np.arange(n) == 0, 1.0, y), x_bound=reach)
        problem = Entropic(rows, Logistic(), 1.0, lam, prior)
        logs.append(special.log_softmax(entropic_minimum(problem, 1e-6)))
    facts = SimplexProblem(n, 2, reach, 1.0, Logistic())
    bounds = stability_of(facts.with_lambda(lam / n))
    assert 0.98 < np.ptp(logs[0] - logs[1]) / bounds.width < 1


def neighbours(rng, d, n, loss):
    facts = SimplexProblem(n, d, 1.0, float(10.0 ** rng.uniform(-1.5, 1.5)), loss)
    x = rng.choice([-1.0, 1.0], (n, d)) if rng.random() < 0.5 else rng.uniform(-1, 1, (n, d))
    y = rng.choice([-1.0, 1.0], n)
    moved, labels = x.copy(), y.copy()
    if rng.random() < 0.2:
        labels[0] = 0.0  # a record that cannot be used
    else:
        moved[0] = -x[0] if rng.random() < 0.7 else rng.uniform(-1, 1, d)
    return facts, [EntryRows(a, b, x_bound=1.0) for a, b in ((x, y), (moved, labels))]


def test_minimisers_of_neighbours_are_within_the_bounds():
    rng = np.random.default_rng(1)
    for index in range(150):
        loss = [Logistic(), Huber(), Huber(0.05)][index % 3]
        facts, pair = neighbours(rng, 1 + index % 3, int(rng.integers(1, 30)), loss)
        lam = facts.reach * 10.0 ** rng.uniform(-0.5, 2)
        problem = facts.with_lambda(lam / facts.n)
        bounds = stability_of(problem)
        ours, theirs = (exact_minimiser(rows, problem) for rows in pair)
        assert np.abs(ours - theirs).max() <= bounds.largest
        assert np.ptp(ours - theirs) <= bounds.width
        # the divergence of one draw, either way round, at any order
        for order in (1.05, 2.0, 10.0, 100.0):
            found = max(
                special.logsumexp(order * p + (1 - order) * q) / (order - 1)
                for p, q in ((ours, theirs), (theirs, ours))
            )
            allowed = renyi_of_draw(bounds.largest, bounds.width, bounds.sd, np.array([order]))
            assert found <= allowed[0] + 1e-12


# -- exact multinomial laws ----------------------------------------------------------------------


def test_every_histogram_is_listed_with_its_chance():
    histograms = histograms_of(4, 6)
    assert len(histograms) == len({tuple(h) for h in histograms.tolist()}) == math.comb(9, 3)
    theta = np.array([0.1, 0.2, 0.3, 0.4])
    ours = np.exp(log_chances(histograms, np.log(theta)))
    np.testing.assert_allclose(ours, stats.multinomial(6, theta).pmf(histograms))


CLAIMS = [PureDP(1.0), ZCDP(0.3), ApproxDP(1.0, 1e-3), ApproxDP(2.0, 1e-6)]


# -- draws, lambdas, numbers -----------------------------------------------------------------------


def at(radius, lam, n=COD_RNA, slope=1.0):
    """Of a smoothed hinge on the whole of the Cod-RNA training rows, without a solver's slack."""
    return simplex_stability(n, lam / n, slope, 1.0, 2 * radius)


@pytest.mark.parametrize(
    ("bounds", "epsilon", "delta", "published"),
    [
        (at(10, 1e4, slope=11.0), 10, 1e-3, 7131),
        (at(20, 3e3), 10, 1e-3, 12_470),
        (at(20, 3e3), 10, 1e-6, 4650),
        (at(20, 1e4), 1, 1e-6, 836),
    ],
)
def test_published_numbers_of_draws(bounds, epsilon, delta, published):
    assert draws_for_epsilon(epsilon, bounds, delta) == pytest.approx(published, rel=1e-3)


def test_slack_of_the_solver_costs_next_to_nothing():
    facts = SimplexProblem(COD_RNA, 9, 1.0, 20.0, Huber())
    found = draws_for_epsilon(10, stability_of(facts.with_lambda(3e3 / COD_RNA)), 1e-6)
    assert found == pytest.approx(4650, rel=1e-3)


@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-2])
def test_draws_and_epsilon_are_inverse(delta):
    bounds = at(20.0, 1e4)
    for epsilon in (0.6, 2.0, 5.0):
        most = draws_for_epsilon(epsilon, bounds, delta)
        assert epsilon_for_draws(most, bounds, delta) <= epsilon
        assert epsilon_for_draws(most + 1, bounds, delta) > epsilon


def test_a_pure_claim_adds_up_the_largest():
    bounds = at(5.0, 4e3)
    assert epsilon_for_draws(7, bounds) == pytest.approx(7 * bounds.largest)
    assert draws_for_epsilon(1.0, bounds) == math.floor(1.0 / bounds.largest)


def test_zcdp_of_a_draw_covers_every_order():
    bounds = at(20.0, 1e4)
    orders = 1 + np.geomspace(1e-6, 1e9, 20_001)
    curve = renyi_of_draw(bounds.largest, bounds.width, bounds.sd, orders)
    rho = rho_of_draw(bounds)
    assert (curve <= rho * orders * (1 + 1e-9)).all()
    assert rho <= bounds.width**2 / 8 * (1 + 1e-9)
    assert rho < 1.05 * (curve / orders).max()


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_no_release_names_the_lambda_that_works(claim):
    facts = SimplexProblem(500, 3, 1.0, 2.0, Huber())
    with pytest.raises(NoRelease, match="not one draw") as caught:
        calibrate_simplex(facts, claim, 1e-5)
    least = caught.value.lambda_min
    assert calibrate_simplex(facts, claim, least).draws == 1
    with pytest.raises(NoRelease):
        calibrate_simplex(facts, claim, least * (1 - 1e-6))
    named = float(re.search(r"lambda_ from ([\d.e+-]+),", str(caught.value))[1])
    assert least <= named < least * (1 + 1e-5)


def test_more_draws_than_there_are():
    facts = SimplexProblem(500, 3, 1.0, 2.0, Logistic())
    claim = ApproxDP(1.0, 1e-6)
    lambda_ = 10 * min_lambda(facts, claim)
    most = calibrate_simplex(facts, claim, lambda_).draws
    with pytest.raises(GuaranteeError, match=f"there are {most} draws"):
        calibrate_simplex(facts, claim, lambda_, most + 1)
    assert calibrate_simplex(facts, claim, lambda_, 1).draws == 1
    asked = calibrate_simplex(facts, claim, "auto", most + 1)
    assert asked.draws == most + 1 == affordable_draws(claim, asked.stability)
    assert asked.lambda_ > lambda_


def test_a_larger_lambda_affords_more():
    facts, claim = SimplexProblem(1000, 5, 1.0, 3.0, Huber()), ApproxDP(1.0, 1e-6)
    grid = np.geomspace(min_lambda(facts, claim), 10.0, 40)
    found = [affordable_draws(claim, stability_of(facts.with_lambda(x))) for x in grid.tolist()]
    assert found == sorted(found)
    assert found[0] == 1


def test_the_suggestion_is_as_good_as_a_dense_search():
    facts, claim = SimplexProblem(COD_RNA, 9, 1.0, 20.0, Huber()), ApproxDP(1.0, 1e-6)
    grid = np.geomspace(min_lambda(facts, claim), 1.0, 400)
    best = grid[simplex.least_risk(facts, claim, grid)]
    assert suggest_lambda(facts, claim) == pytest.approx(best, rel=0.05)


def test_slopes_are_bounded_where_margins_can_be():
    narrow = SimplexProblem(10, 1, 0.5, 1.0, Logistic())
    assert narrow.slope_bound == pytest.approx(1 / (1 + math.exp(-0.5)), rel=1e-8)
    assert narrow.slope_bound >= 1 / (1 + math.exp(-0.5))
    assert SimplexProblem(10, 1, 1.0, 1e3, Logistic()).slope_bound == 1.0


@pytest.mark.parametrize(
    ("target", "lambda_", "draws", "named"),
    [
        (PureDP(1.0), 0.0, "auto", "lambda_=0.0"),
        (PureDP(1.0), "free", "auto", "lambda_='free'"),
        (PureDP(1.0), np.ones(3), "auto", "lambda_=<ndarray>"),
        (PureDP(1.0), "auto", np.ones(3), "draws=<ndarray>"),
        (PureDP(1.0), "auto", 0, "draws=0"),
        (PureDP(1.0), "auto", 10**7, "draws=10000000"),
        (NonPrivate(), "auto", 5, "draws=5"),
    ],
)
def test_requests_that_are_none(target, lambda_, draws, named):
    facts = SimplexProblem(500, 3, 1.0, 2.0, Huber())
    with pytest.raises(GuaranteeError, match=re.escape(named)):
        calibrate_simplex(facts, target, lambda_, draws)


def test_calibration_takes_no_rows():
    functions = {
        name: "rows" in inspect.signature(function).parameters
        for name, function in inspect.getmembers(simplex, inspect.isfunction)
        if function.__module__ == simplex.__name__
    }
    assert {"calibrate_simplex", "suggest_lambda", "min_lambda"} <= functions.keys()
    taking_rows = {name for name, takes_rows in functions.items() if takes_rows}
    assert taking_rows == {"release_simplex", "minimiser_logs"}


# -- the release -----------------------------------------------------------------------------------


def some_rows(n=300, d=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, d))
    return EntryRows(x, np.where(x[:, 0] > 0, 1.0, -1.0), x_bound=1.0)


def test_a_release_is_a_histogram_and_nothing_else():
    rows = some_rows()
    facts = SimplexProblem(rows.n, rows.d, 1.0, 2.0, Huber())
    calibration = calibrate_simplex(facts, ApproxDP(5.0, 1e-6))
    release = release_simplex(rows, calibration, SystemRandomness())
    assert release.counts.sum() == calibration.draws
    assert release.exact is None
    assert release.path is None
    assert np.abs(release.coef).sum() <= 2.0
    per_draw = release.coef * calibration.draws / 2.0
    np.testing.assert_allclose(per_draw, np.round(per_draw), atol=1e-9)
    assert release.coef[0] == max(release.coef)
    assert str(calibration.draws) in str(calibration)
    assert dict(calibration.facts)["Draws"].startswith(f"{calibration.draws} ")


def test_labels_and_singulars_of_the_page():
    facts = SimplexProblem(300, 3, 1.0, 2.0, Huber())
    for target in (ApproxDP(5.0, 1e-6), NonPrivate()):
        labels = [label for label, _ in calibrate_simplex(facts, target).facts]
        assert labels == ["Loss", "Radius", "Lambda", "Draws", "Cost"][: len(labels)]
    one = calibrate_simplex(facts, PureDP(1.0), draws=1)
    assert dict(one.facts)["Draws"] == "1 signed column, worth 2"
    for most, words in ((1, "is 1 draw under"), (7, "are 7 draws under")):
        lambda_ = simplex.min_lambda(facts, PureDP(1.0), most)
        with pytest.raises(GuaranteeError, match=f"there {words}.*; take draws={most}( or|, or)"):
            calibrate_simplex(facts, PureDP(1.0), lambda_, 50)
        bounds = simplex.stability_of(facts.with_lambda(lambda_))
        assert simplex.draws_for_epsilon(1.0, bounds) == most
        assert simplex.epsilon_for_draws(most, bounds) <= 1.0


def test_without_a_guarantee_the_minimiser_is_released():
    rows = some_rows()
    plain = calibrate_simplex(SimplexProblem(rows.n, rows.d, 1.0, 2.0, Huber()), NonPrivate())
    release = release_simplex(rows, plain, SystemRandomness())
    log_theta = exact_minimiser(rows, plain.problem)
    exact = 2.0 * (np.exp(log_theta[:3]) - np.exp(log_theta[3:]))
    np.testing.assert_allclose(release.coef, exact, atol=1e-6)
    assert plain.events == ()
    assert isinstance(release.guarantee, NonPrivate)


def test_rows_that_do_not_fit_are_refused():
    rows = some_rows()
    target = ApproxDP(5.0, 1e-6)
    for n, d, x_bound in ((299, 3, 1.0), (300, 4, 1.0), (300, 3, 0.5)):
        facts = SimplexProblem(n, d, x_bound, 2.0, Huber())
        with pytest.raises(GuaranteeError, match="rows"):
            release_simplex(rows, calibrate_simplex(facts, target), SystemRandomness())


def test_histograms_have_their_law():
    logs = np.array([0.0, -1.0, 3.0, -4.0, 2.5])
    theta = special.softmax(logs)
    for source in (SystemRandomness(), SeededRandomness(3)):
        counts = draw_histogram(logs + 700.0, 200_000, source)
        assert counts.sum() == 200_000
        assert stats.chisquare(counts, 200_000 * theta).pvalue > 1e-6


def test_doubtful_draws_are_decided_by_further_bits(monkeypatch):
    """With doubles that decide nothing, the same numbers give the same options."""
    logs = np.random.default_rng(0).standard_normal(50) * 5
    draw = SystemRandomness().draw(Uniforms(500))
    fast = simplex.options_of(logs, draw)
    ends, error = simplex.ends_of(logs)
    monkeypatch.setattr(simplex, "ends_of", lambda _: (ends, 2.0))
    np.testing.assert_array_equal(simplex.options_of(logs, draw), fast)
    assert error < 1e-12


def test_a_number_beside_an_end_is_on_its_side():
    """Ends that doubles cannot tell from the number."""
    logs = np.log([0.1, 0.2, 0.3, 0.4])
    ends = np.cumsum(np.exp(logs)) / np.exp(logs).sum()
    for k in range(3):
        for moved in (-1e-15, 1e-15):
            number = FloatDraw(np.array([ends[k] + moved]))
            exact = k if moved < 0 else k + 1
            assert simplex.options_of(logs, number)[0] == exact


def test_options_of_no_weight_in_doubles_are_never_hit_by_rounding():
    counts = draw_histogram(np.array([0.0, -2000.0, -1e300, 0.0]), 1000, SystemRandomness())
    assert counts[1] == counts[2] == 0
    assert counts[0] + counts[3] == 1000


# -- in a ledger ---------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_a_ledger_charges_no_more_than_the_claim(claim):
    calibration = calibrate_simplex(SimplexProblem(500, 3, 1.0, 2.0, Huber()), claim)
    (event,) = calibration.events
    assert event.times == calibration.draws
    assert event_from_json(event_to_json(event)) == event
    if isinstance(claim, PureDP):
        delta, promised, number = 0.0, claim.epsilon, claim.epsilon
    elif isinstance(claim, ZCDP):
        delta, number = 1e-6, claim.rho
        promised = to_approximate(claim, delta).epsilon
    else:
        delta, promised, number = claim.delta, claim.epsilon, claim.epsilon
    entry = Entry("draws", claim, calibration.events)
    assert epsilon_of([entry], delta) <= promised
    assert 0.9 * number < calibration.cost <= number


@pytest.mark.parametrize("name", ["draws", "lambda_"])
def test_none_is_not_automatic(name):
    frame = pd.DataFrame({"x": [-1.0, 1.0] * 50, "y": [0, 1] * 50})
    with pytest.raises(GuaranteeError, match=f"{name}=None: {name} takes 'auto' or"):
        dpsimplex("y ~ x", frame, bounds={"x": (-1, 1), "y": (0, 1)}, **{name: None})
