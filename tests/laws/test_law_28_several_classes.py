"""Law 28: what one record of several classes does is bounded by its own constants.

The gradient of a softmax has slopes whose sizes add up to 2 and a length of up to sqrt(2) times the
row, and its curvature has the rank K - 1. Every bound here is compared with brute force over
thousands of records, and the constants of one class have to fail.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from achieved_guarantees import achieved
from scipy import stats
from scipy.special import logsumexp

from privatelr.errors import GuaranteeError
from privatelr.mechanisms import Problem, calibrate, read_request
from privatelr.mechanisms.calibration import pure, softmax
from privatelr.numerics import LOSSES
from privatelr.privacy import REPLACE_PERSON, ZCDP, ApproxDP, PureDP, TiltEvent, implies, renyi
from privatelr.privacy.events import mean_maximum, tilt_survival
from privatelr.privacy.noise import gaussian_delta, mean_square
from privatelr.types import Block

LOGISTIC = LOSSES["logistic"]
UNITS = 3000


def records(classes, count=UNITS, seed=0):
    """Probabilities ``(count, K)`` of all shapes, and a kappa for each."""
    rng = np.random.default_rng(seed)
    spread = 10 ** rng.uniform(-2, 1.5, (count, 1))
    p = rng.gamma(spread, size=(count, classes)) + 1e-300
    return p / p.sum(axis=1, keepdims=True), 10 ** rng.uniform(-2, 2, count)


def log_det(p, kappa):
    return np.linalg.slogdet(np.eye(len(p)) + kappa * (np.diag(p) - np.outer(p, p)))[1]


@pytest.mark.parametrize("classes", [3, 4, 8])
def test_the_determinant_is_bounded_and_attained(classes):
    found, most = [], softmax.curvature_cost
    for p, kappa in zip(*records(classes), strict=True):
        own = log_det(p, kappa)
        joint = softmax.log_determinant(1 - p[0], kappa, classes)
        assert own <= joint + 1e-9 <= most(kappa, classes) + 2e-9
        found.append(own - joint)
    assert max(found) > -1e-3
    even = np.full(classes, 1 / classes)
    assert log_det(even, 2.0) == pytest.approx(most(2.0, classes), rel=1e-12)
    for s in (0.2, 0.9, 1.0):  # the others share equally: the joint bound is attained
        p = np.append(1 - s, np.full(classes - 1, s / (classes - 1)))
        assert log_det(p, 3.0) == pytest.approx(softmax.log_determinant(s, 3.0, classes))


def test_the_curvature_of_one_slope_is_too_small():
    """A rank-one bound, and one that ends where slopes do, fail for three classes."""
    p, kappa = np.array([1e-12, 0.5, 0.5]), 2.0
    s = 1 - p[0]
    assert log_det(p, kappa) > math.log1p(2 * kappa * s * (1 - s)) + 0.5
    even = np.full(3, 1 / 3)
    assert log_det(even, kappa) > math.log1p(kappa / 4) + 0.1


@pytest.mark.parametrize("classes", [3, 5])
def test_weights_lower_slopes_and_determinants(classes):
    rng = np.random.default_rng(1)
    for p, kappa in zip(*records(classes, seed=1), strict=True):
        a = rng.uniform()
        s = a * (1 - p[0])
        assert log_det(p, a * kappa) <= softmax.log_determinant(s, kappa, classes) + 1e-9


def test_slopes_add_up_to_two_and_have_length_root_two():
    p, _ = records(4)
    slopes = p - np.eye(4)[0]
    s = 1 - p[:, 0]
    sums, lengths = np.abs(slopes).sum(axis=1), np.linalg.norm(slopes, axis=1)
    np.testing.assert_allclose(sums, 2 * s, atol=1e-12)
    assert np.all(lengths <= math.sqrt(2) * s + 1e-12)
    # the constants of one class are exceeded
    assert sums.max() > 1.99
    assert lengths.max() > 1.41
    facts = Problem(100, 2, LOGISTIC, 3.0, classes=4)
    assert facts.pull == 2
    assert facts.reach >= math.sqrt(2) * 3.0
    assert facts.size == 8


@pytest.mark.parametrize("beside", [{"touched": 2}, {"centre": 1.0}, {"stiffness": 1.0}], ids=str)
def test_no_calibration_goes_by_what_is_proven_for_two_classes_alone(beside):
    assert Problem(100, 2, LOGISTIC, 3.0, **beside).classes == 2
    with pytest.raises(GuaranteeError, match="several classes"):
        Problem(100, 2, LOGISTIC, 3.0, classes=3, **beside)


@pytest.mark.parametrize("classes", [3, 6])
@pytest.mark.parametrize("kappa", [0.05, 0.7, 4.0])
@pytest.mark.parametrize("g", [0.05, 0.5, 3.0])
def test_the_joint_price_is_the_largest_over_records(g, kappa, classes):
    s = np.linspace(0, 1, 20_001)
    values = [g * x + softmax.log_determinant(x, kappa, classes) for x in s]
    found = softmax.joint_epsilon(g, kappa, classes)
    assert g + max(values) <= found <= g + max(values) + 1e-6


@pytest.mark.parametrize("classes", [3, 4, 10])
def test_at_two_classes_and_beyond_prices_are_one_family(classes):
    """With two classes the determinant is that of `pure` at twice kappa."""
    for s in np.linspace(0, 1, 11):
        two = softmax.log_determinant(s, 1.3, 2)
        assert two == pytest.approx(math.log1p(2 * 1.3 * s * (1 - s)))
    costs = [softmax.joint_epsilon(1.0, 0.3, k) for k in (2, 3, classes)]
    assert costs == sorted(costs)


def sides(rng, classes, radius=1.0):
    """Two records with their probabilities and classes."""
    found = []
    for _ in range(2):
        row = rng.standard_normal(2)
        p = rng.dirichlet(np.full(classes, rng.choice([0.05, 0.5, 3.0])))
        found.append((radius * row / np.linalg.norm(row), p, int(rng.integers(classes))))
    return found


def change(old, new, p, q):
    (x, _, y), (x_new, _, y_new) = old, new
    unit = np.eye(len(p))
    return np.kron(unit[y_new] - q, x_new) - np.kron(unit[y] - p, x)


@pytest.mark.parametrize("classes", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_a_gaussian_tilt_loses_at_most_what_a_vertex_does(classes):
    """At every tilt: the loss with the whole curvature is below C plus the largest vertex; and
    where kappa is small beside m, below the largest vertex alone."""
    rng, sigma = np.random.default_rng(3), 2.0
    for small in (True, False):
        kappa = 0.5 / sigma**2 if small else 3.0
        cost = 0.0 if small else softmax.curvature_cost(kappa, classes)
        for _ in range(UNITS // 3):
            old, new = sides(rng, classes)
            b = sigma * rng.standard_normal(2 * classes) * rng.choice([0.3, 1.0, 4.0])

            def loss(p, q, old=old, new=new, b=b):
                moved = change(old, new, p, q)
                return float(b @ moved + moved @ moved / 2) / sigma**2

            unit = np.eye(classes)
            largest = max(loss(unit[i], unit[j]) for i in range(classes) for j in range(classes))
            lost = loss(old[1], new[1]) + log_det(old[1], kappa)
            assert lost <= cost + largest + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("classes", [3, 4, 7])
def test_vertices_are_counted(classes):
    """For any two records, the sorted lengths of all vertices are below the stated ones."""
    rng, unit = np.random.default_rng(4), np.eye(classes)
    event = TiltEvent(1.0, 0.1, 0.25, 1.0, classes=classes)
    stated = [0.0]
    for times, size in event.vertices:
        stated += [size / math.sqrt(2)] * times  # in units of R: m is sqrt(2) R / sigma
    stated = np.sort(stated) * 2
    attained = 0.0
    for index in range(500):
        old, new = sides(rng, classes)
        if index % 2:
            new = (-old[0], new[1], old[2])
        lengths = np.sort([np.linalg.norm(change(old, new, p, q)) for p in unit for q in unit])
        assert np.all(lengths <= stated + 1e-9)
        attained = max(attained, lengths[-1])
    assert attained > 0.999 * stated[-1] == pytest.approx(0.999 * math.sqrt(8))


def test_one_class_too_few_in_the_union_is_caught():
    event = TiltEvent(0.2, 0.01, 0.25, 1.0, classes=5)
    own = gaussian_delta.tilt_log_delta(event, 1.0)
    alone = gaussian_delta.log_delta(1.0 - event.curvature_cost, 2 * event.m)
    assert own > alone + math.log(3.9)


@pytest.mark.parametrize("count", [2, 3, 10, 50])
def test_the_mean_of_the_largest_normal_number(count):
    z = np.linspace(-12, 12, 400_001)
    density = count * stats.norm.pdf(z) * stats.norm.cdf(z) ** (count - 1)
    expected = float(np.sum(z * density) * (z[1] - z[0]))
    assert expected <= mean_maximum(count) <= expected * (1 + 1e-7)


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_exponentials_of_a_largest_normal_number_are_concentrated(count):
    """It has the Lipschitz constant 1; of one number the bound is attained."""
    z = np.linspace(-14, 20, 200_001)
    log_density = np.log(count) + stats.norm.logpdf(z) + (count - 1) * stats.norm.logcdf(z)
    for t in (-4.0, -0.5, 0.1, 1.0, 6.0):
        grown = logsumexp(log_density + t * z) + math.log(z[1] - z[0])
        mean = float(np.exp(log_density) @ z) * (z[1] - z[0])
        assert grown - t * mean <= t**2 / 2 + 1e-9
        if count == 1:
            assert grown == pytest.approx(t**2 / 2, abs=1e-9)


@pytest.mark.parametrize("classes", [3, 5])
def test_renyi_divergences_and_survival_cover_the_loss_at_vertices(classes):
    """The maximum over vertices of a Gaussian, simulated, has no larger divergence or tail."""
    rng, m = np.random.default_rng(5), 0.6
    event = TiltEvent(m, m**2 / 4, 0.25, 1.0, classes=classes)
    assert event.curvature_cost == 0
    unit, x = np.eye(classes), np.array([1.0])
    sigma = math.sqrt(2) / m
    moves = np.array([change((x, None, 0), (-x, None, 0), p, q) for p in unit for q in unit])
    b = sigma * rng.standard_normal((200_000, classes))
    lost = ((b @ moves.T + (moves**2).sum(axis=1) / 2) / sigma**2).max(axis=1)
    for order in (1.5, 2.0, 4.0):
        simulated = np.log(np.mean(np.exp((order - 1) * lost))) / (order - 1)
        assert simulated <= renyi(event, order)
    assert np.mean(lost) > 0.8 * (renyi(event, 1.0001) - event.m**2)
    at = np.array([0.5, 1.5, 3.0])
    assert np.all((lost[:, None] > at).mean(axis=0) <= tilt_survival(event, at) + 2e-3)


BLOCKS = (Block(1, 0.5), Block(1, 1.0), Block(2, 1.0))


@pytest.mark.parametrize("target", [(1.0, 0.0), (0.3, 1e-6), (ZCDP(0.2), 0.0), (8.0, 1e-9)])
@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("blocks", [(), BLOCKS])
def test_the_noise_is_enough_for_the_claim_and_takes_no_data(target, op, blocks):
    request = read_request(*target, None, None, op, None, "increase")
    facts = Problem(1000, 4, LOGISTIC, 1.6, blocks, classes=4)
    made = calibrate(request, facts)
    assert implies(achieved(made), made.target)
    assert made.noise.dimension == made.shield.dimension == 16 or not op
    more = replace(made, problem=replace(made.problem, classes=5))
    with pytest.raises(GuaranteeError, match="classes"):
        assert implies(achieved(more), made.target)


def test_noise_does_not_grow_with_the_number_of_classes():
    """One against the rest has noise that grows with K, as all K fits see a record."""
    lengths = []
    for classes in (3, 6, 12):
        facts = Problem(10_000, 5, LOGISTIC, 1.5, classes=classes)
        penalty = pure.laplace_free_penalty(facts, 1.0, "joint")
        made = calibrate(read_request(1.0, 0.0, None, penalty / facts.n, True, None, "keep"), facts)
        lengths.append(math.sqrt(mean_square(made.noise) / classes))
    assert max(lengths) < 1.001 * min(lengths)
    alone = Problem(10_000, 5, LOGISTIC, 1.5)
    each = calibrate(read_request(1.0 / 3, 0.0, None, "free", True, None, "keep"), alone)
    assert lengths[0] < 0.8 * math.sqrt(mean_square(each.noise))


# -- persons ------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [3, 4, 8])
def test_persons_are_bounded_by_the_trace_of_an_average(classes):
    """Weights, directions and probabilities are drawn freely."""
    rng, kappa = np.random.default_rng(6), 1.3
    for index in range(UNITS // 3):
        k = int(rng.integers(1, 5))
        a, p = rng.dirichlet(np.ones(k)) * rng.choice([1.0, 0.6]), records(classes, k, index)[0]
        rows = rng.standard_normal((k, 3))
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        own = sum(
            weight * np.kron(np.diag(q) - np.outer(q, q), np.outer(x, x))
            for weight, q, x in zip(a, p, rows, strict=True)
        )
        found = np.linalg.slogdet(np.eye(3 * classes) + kappa * own)[1]
        s = float(a @ (1 - p[:, 0]))
        bound = kappa * (2 * s - s * s * classes / (classes - 1))
        assert found <= bound + 1e-9
        assert bound <= softmax.person_cost(kappa, classes) + 1e-9
        moved = sum(
            weight * np.kron(q - np.eye(classes)[0], x)
            for weight, q, x in zip(a, p, rows, strict=True)
        ).reshape(classes, 3)
        assert np.linalg.norm(moved, axis=1).sum() <= 2 * s + 1e-9
    # many small records: at a small kappa the trace is nearly the log determinant
    even = np.full(classes, 1 / classes)
    close = log_det(even, 1e-4) / softmax.person_cost(1e-4, classes)
    assert 0.999 < close <= 1


@pytest.mark.parametrize("classes", [3, 6])
@pytest.mark.parametrize("kappa", [0.05, 0.7, 4.0])
@pytest.mark.parametrize("g", [0.05, 0.5, 3.0])
def test_the_joint_price_of_persons_is_the_largest_over_their_slopes(g, kappa, classes):
    s = np.linspace(0, 1, 20_001)
    values = g * s + kappa * (2 * s - s * s * classes / (classes - 1))
    found = softmax.person_epsilon(g, kappa, classes)
    assert found == pytest.approx(g + values.max(), rel=1e-7)
    assert found >= softmax.joint_epsilon(g, kappa, classes)
    own = softmax.kappa_costing(0.3, classes, persons=True)
    assert softmax.person_cost(own, classes) == pytest.approx(0.3)


@pytest.mark.parametrize(
    "target", [(1.0, 0.0), (0.3, 1e-6), (ZCDP(0.2, REPLACE_PERSON), 0.0), (8.0, 1e-9)]
)
@pytest.mark.parametrize("d", [4, 40])
def test_noise_for_persons_is_enough_and_more_than_for_records(target, d):
    request = read_request(*target, None, None, True, None, "increase", REPLACE_PERSON)
    facts = Problem(1000, d, LOGISTIC, 1.6, classes=4, persons=True)
    made = calibrate(request, facts)
    assert implies(achieved(made), made.target)
    alone = replace(made, problem=replace(made.problem, persons=False))
    price = {PureDP: "epsilon", ZCDP: "rho", ApproxDP: "delta"}[type(achieved(made))]
    assert getattr(achieved(alone), price) < getattr(achieved(made), price)


def test_a_pure_claim_is_spent_to_the_last_hundredth():
    facts = Problem(1000, 3, LOGISTIC, 1.2, classes=3)
    made = calibrate(read_request(1.0, 0.0, None, None, True, None, "increase"), facts)
    assert isinstance(achieved(made), PureDP)
    assert 0.98 < achieved(made).epsilon <= 1.0
