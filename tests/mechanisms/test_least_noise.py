"""A delta above 0 never asks for more noise than none: the shortest law that is proven is taken."""

import math
from dataclasses import replace
from functools import cache

import pytest
from achieved_guarantees import achieved

from privatelr import ZCDP, ApproxDP, GuaranteeError, Ledger, PureDP
from privatelr.mechanisms import Problem, calibrate, calibrate_all, read_request
from privatelr.mechanisms.calibration import expected_excess, gaussian_objective, pure
from privatelr.mechanisms.stages.matrices import calibrate_moments
from privatelr.numerics import LOSSES
from privatelr.privacy import implies, pure_within
from privatelr.privacy.noise import BlockLaplace, GaussianNoise, SphericalLaplace, mean_square
from privatelr.types import Block

RECORDS, COLUMNS, EPSILONS = (200, 1000, 10_000), (2, 5, 20, 100), (0.1, 1.0, 4.0)
SMALL, LARGE = 1e-6, 1e-2
ROUNDING = 1 + 1e-12
GRID = [(n, d, eps) for n in RECORDS for d in COLUMNS for eps in EPSILONS]
LAMBDAS = (1e-4, 1e-2)


def facts_of(n, d, loss, blocks):
    """A design with an intercept, numeric terms and a factor; or rows of length 1."""
    if not blocks:
        return Problem(n, d, LOSSES[loss], math.hypot(1.0, 0.5))
    width = max(1, d // 3)
    shape = (Block(1, 0.5), *[Block(1, 1.0)] * (d - 1 - width), Block(width, 1.0))
    radius = math.nextafter(math.sqrt(sum(block.bound**2 for block in shape)), math.inf)
    return Problem(n, d, LOSSES[loss], radius, shape)


def asked(target, lambda_=None, op=True, small="increase"):
    return read_request(target, 0, None, lambda_, op, None, small)


@cache
def calibrated(target, facts, lambda_=None, op=True, small="increase"):
    """The calibration, or None where nothing suffices."""
    try:
        return calibrate(asked(target, lambda_, op, small), facts)
    except GuaranteeError:
        return None


def excess(calibration):
    return expected_excess(
        calibration.problem,
        calibration.target,
        pure.proven(None, calibration.problem.loss),
    )


def stated_excess(calibration):
    """``E|b|^2 / (2 Lambda) + Lambda W^2 / 2``, written down again."""
    problem, epsilon = calibration.problem, calibration.target.epsilon
    guess = math.sqrt(epsilon * problem.n / 6) / problem.radius
    size = mean_square(calibration.noise)
    return size / (2 * problem.penalty) + problem.penalty * guess**2 / 2


def stated_shrinkage(problem):
    """``Lambda W / (n h)`` for columns of mean square ``R**2 / (16 d)``, written down again."""
    side = problem.radius / (4 * math.sqrt(problem.d))
    curvature = problem.n * problem.loss.curvature_bound / 2 * side**2
    return problem.penalty / side / curvature


CELLS = [(loss, blocks, op) for loss in LOSSES for blocks in (True, False) for op in (True, False)]
NAMES = [
    f"{loss}, {'blocks' if blocks else 'ball'}, {'objective' if op else 'output'}"
    for loss, blocks, op in CELLS
]


def check_equal_lambda(loss, blocks, op, delta=SMALL, grid=GRID):
    for n, d, eps in grid:
        facts = facts_of(n, d, loss, blocks)
        for lambda_ in LAMBDAS:
            for small in ("keep", "increase"):
                without = calibrated(PureDP(eps), facts, lambda_, op, small)
                found = calibrated(ApproxDP(eps, delta), facts, lambda_, op, small)
                if without is None:
                    continue
                assert found is not None, (n, d, eps, lambda_, small)
                assert mean_square(found.noise) <= mean_square(without.noise) * ROUNDING
                # and where lambda was raised, at the lambda that it was raised to
                there = calibrated(PureDP(eps), facts, found.lambda_, op, "keep")
                if there is not None:
                    assert mean_square(found.noise) <= mean_square(there.noise) * ROUNDING


@pytest.mark.parametrize(("loss", "blocks", "op"), CELLS, ids=NAMES)
def test_at_equal_lambda_a_delta_costs_no_noise(loss, blocks, op):
    check_equal_lambda(loss, blocks, op)


def test_nor_does_a_large_delta():
    check_equal_lambda("huber", True, True, LARGE)
    check_automatic_lambda("huber", False, False, LARGE)


def check_automatic_lambda(loss, blocks, op, delta=SMALL, grid=GRID):
    for n, d, eps in grid:
        facts = facts_of(n, d, loss, blocks)
        without = calibrated(PureDP(eps), facts, None, op)
        found = calibrated(ApproxDP(eps, delta), facts, None, op)
        if op:
            assert excess(found) <= excess(without) * ROUNDING, (n, d, eps)
            # what is compared is what the documents say, of the noise that is drawn
            assert excess(found) == pytest.approx(stated_excess(found), rel=1e-9)
        else:
            assert mean_square(found.noise) <= mean_square(without.noise) * ROUNDING
            noise = math.sqrt(mean_square(found.noise))
            assert noise == pytest.approx(stated_shrinkage(found.problem), rel=1e-3)


@pytest.mark.parametrize(("loss", "blocks", "op"), CELLS, ids=NAMES)
def test_an_automatic_lambda_expects_no_larger_excess(loss, blocks, op):
    check_automatic_lambda(loss, blocks, op)


@pytest.mark.parametrize("check", [check_equal_lambda, check_automatic_lambda])
def test_planted_gaussian_noise_is_caught(check, monkeypatch):
    """What a delta asked for before, whatever it costs."""

    def old(target, facts, lambda_=None, op=True, small="increase"):
        kinds = (GaussianNoise,) if isinstance(target, ApproxDP) else ()
        if lambda_ is None:  # its free lambda, which balances noise and shrinkage here
            analysis = pure.proven(None, facts.loss)
            if kinds:
                free = gaussian_objective.gaussian_free_penalty(facts, target, analysis)
                lambda_ = free / facts.n
        try:
            return calibrate(replace(asked(target, lambda_, op, small), kinds=kinds), facts)
        except GuaranteeError:
            return None

    monkeypatch.setitem(globals(), "calibrated", old)
    monkeypatch.setitem(globals(), "excess", stated_excess)
    with pytest.raises(AssertionError):
        check("huber", True, True, grid=[(1000, 5, 1.0)])


# -- which law -------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_few_columns_take_laplace_noise_and_many_gaussian(loss, op):
    few, many = (
        calibrated(ApproxDP(1.0, SMALL), facts_of(1000, d, loss, False), 0.1, op) for d in (5, 100)
    )
    assert isinstance(few.noise, SphericalLaplace)
    assert isinstance(many.noise, GaussianNoise)
    assert few.proven == PureDP(1.0)
    assert many.proven == many.target
    for found, other in ((few, "Gaussian noise"), (many, "spherical Laplace noise")):
        assert dict(found.alternatives)[other] > 1


def test_blocks_keep_their_shape_under_a_delta():
    facts = facts_of(1000, 20, "logistic", True)
    with_delta, without = (calibrated(t, facts) for t in (ApproxDP(1.0, SMALL), PureDP(1.0)))
    assert isinstance(with_delta.noise, BlockLaplace)
    assert with_delta.noise == without.noise
    assert with_delta.shield == without.shield
    assert with_delta.lambda_ == without.lambda_
    assert with_delta.lambda_origin == without.lambda_origin
    assert "Length of the noise" in str(with_delta)
    assert "Gaussian noise " in str(with_delta)


@pytest.mark.parametrize("op", [True, False])
def test_what_is_charged_is_the_pure_guarantee_and_implies_what_is_promised(op):
    """So that a budget without a delta pays for it too, and composes it as it is."""
    target, facts = ApproxDP(1.0, SMALL), facts_of(1000, 5, "logistic", True)
    plan = calibrate_all(replace(asked(target, op=op), spend="inference"), facts)
    events = plan.events
    assert events[0].epsilon == pytest.approx(0.7, rel=1e-9)
    assert implies(achieved(plan.coefficients), plan.coefficients.target)
    budget = Ledger(0.7 * (1 + 1e-9))
    budget.charge(plan.coefficients.target, plan.coefficients.events)
    assert budget.left() < 1e-8
    ledger = Ledger(1.0, SMALL)
    ledger.charge(target, events)
    assert ledger.spent() <= 1.0


@pytest.mark.parametrize(("d", "law"), [(2, SphericalLaplace), (20, GaussianNoise)])
def test_moments_take_the_shorter_noise(d, law):
    problem = facts_of(1000, d, "logistic", False).with_lambda(0.1)
    found = calibrate_moments(problem, ApproxDP(0.3, 3e-7))
    pure_noise = calibrate_moments(problem, PureDP(0.3)).noise
    assert isinstance(found.noise, law)
    assert mean_square(found.noise) <= mean_square(pure_noise)
    assert (found.proven == PureDP(0.3)) == (law is SphericalLaplace)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("op", [True, False])
def test_rho_costs_no_more_than_the_pure_epsilon_that_implies_it(loss, op):
    """But for the hundredth of a tilt that covers the solver: of rho, and not of the rate."""
    for n, d, blocks in ((200, 2, True), (1000, 5, False), (10_000, 100, True)):
        facts = facts_of(n, d, loss, blocks)
        for rho in (0.005, 0.5, 8.0, 50.0):
            epsilon = pure_within(rho)
            for small in ("keep", "increase"):
                without = calibrated(PureDP(epsilon), facts, 0.01, op, small)
                found = calibrated(ZCDP(rho), facts, 0.01, op, small)
                if without is None:
                    continue
                assert found.lambda_ <= without.lambda_ * (1 + 1e-9)
                room = 0.02 if op else 1e-9
                assert mean_square(found.noise) <= mean_square(without.noise) * (1 + room)
                assert implies(achieved(found), ZCDP(rho * (1 + 1e-9)))


def test_a_kind_that_is_not_proven_is_refused():
    request = replace(asked(PureDP(1.0), op=False, lambda_=0.1), kinds=(GaussianNoise,))
    with pytest.raises(GuaranteeError, match="no noise of that kind"):
        calibrate(request, facts_of(1000, 5, "logistic", False))
