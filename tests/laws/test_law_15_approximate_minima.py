"""Law 15: an approximate minimum is certified, whatever the solver did; nothing is drawn again."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from exact_minimum import exact_gradient, exact_minimum, exact_norm
from flint import arb
from frames_for_laws import MODELS, clinic, fit_clinic, fixed_noise

from privatelr import ZCDP, ApproxDP, Newton, PureDP
from privatelr.locks import working_precision
from privatelr.mechanisms import Problem, Request, calibrate, draw, mechanism_of, rounded_sum
from privatelr.mechanisms import perturbation as objective_mechanism
from privatelr.numerics import LOSSES, Huber, Objective, SoftplusHinge
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.solve import Minimum, certified, certified_minimum
from privatelr.privacy.noise import FloatDraw, SystemRandomness

TAU = 1e-6


def case(n=40, d=3, lambda_=1e-2, tilt=5.0, kind="noisy", loss=LOSSES["logistic"]):
    """An objective, and its exact tilt, of which the objective holds a rounded one."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, d))
    y = np.where(rng.uniform(size=n) < 0.5, 1.0, -1.0)
    if kind == "one class":
        y[:] = 1.0
    elif kind == "separable":
        y = np.where(x[:, 0] > 0, 1.0, -1.0)
    elif kind == "zero rows":
        x[:] = np.nan
    elif kind == "identical":
        x[:] = x[0]
    rows = DenseRows(x, y, bound=1.0, intercept=0.5)
    noise = tilt * rng.standard_normal(d + 1)

    def exact(precision):
        """Three tenths more than the doubles: no double, and known as well as asked for."""
        with working_precision(precision):
            return [arb(float(b)) * 13 / 10 for b in noise]

    return Objective(rows, loss, lambda_, 1.3 * noise / n), exact


CASES = {
    "plain": {},
    "one class": {"kind": "one class"},
    "separable": {"kind": "separable", "tilt": 0.0, "lambda_": 1e-13},
    "zero rows": {"kind": "zero rows"},
    "zero rows, huge tilt": {"kind": "zero rows", "tilt": 1e12},
    "identical": {"kind": "identical", "lambda_": 1e-13},
    "one row": {"n": 1},
    "many columns": {"n": 5, "d": 20, "lambda_": 1e-9},
    "huge tilt": {"tilt": 1e12},
    "huge tilt, tiny lambda": {"tilt": 1e12, "lambda_": 1e-13},
    # the tilt is a match for the rows, so margins at the minimum are near zero or near 1e12
    "sharp": {"tilt": 3.0, "lambda_": 1e-13},
    "sharper": {"tilt": 3.0, "lambda_": 1e-40},
}


def trusted(objective):
    return Newton()(objective)


def early(objective):
    """Stops after a step that is too short, and says nothing of it."""
    return Minimum(-1e-3 * objective.tilt, 0.0)


def garbage(objective):
    return Minimum(np.linspace(-1e8, 1e8, objective.rows.d), 0.0)


def overflowing(objective):
    return Minimum(np.full(objective.rows.d, 1e300), 0.0)


def missing(objective):
    return Minimum(np.full(objective.rows.d, np.nan), 0.0)


def shapeless(objective):
    return Minimum(np.zeros((2, objective.rows.d)), 0.0)


def wordless(objective):
    return None


def worded(objective):
    return Minimum(["a", "b"], 0.0)


def raising(objective):
    raise ValueError(f"the first row is {objective.rows.x[0]}")


def warning(objective):
    warnings.warn(f"labels are {objective.rows.y}", UserWarning, stacklevel=1)
    return Minimum(np.zeros(objective.rows.d), 0.0)


SOLVERS = [
    trusted, early, garbage, overflowing, missing, shapeless, wordless, worded, raising, warning
]  # fmt: skip


def check(objective, tilt, w):
    """The point is exact and lies within tau / Lambda of the minimiser, at 900 bits."""
    assert len(w) == objective.rows.d
    assert all(entry.is_exact() for entry in w)
    assert exact_norm(exact_gradient(objective, w, tilt(900), 900), 900) <= TAU
    reference = exact_minimum(objective, w, tilt(900), 900)
    with working_precision(900):
        distance = exact_norm([a - b for a, b in zip(w, reference, strict=True)], 900)
        assert distance <= arb(TAU) / (objective.rows.n * objective.lambda_)


def cases():
    """What the slowest case asks of a solver, it asks of all alike."""
    few = [trusted, garbage, raising]
    return [(name, s) for name in CASES for s in (few if name == "sharper" else SOLVERS)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "solver"), cases(), ids=lambda x: getattr(x, "__name__", x))
def test_law(name, solver, capfd):
    objective, tilt = case(**CASES[name])
    check(objective, tilt, certified_minimum(objective, solver, TAU, tilt))
    assert capfd.readouterr() == ("", "")


HINGES = {
    "huber": Huber(0.5),
    "sharp": Huber(1e-4),
    "softplus": SoftplusHinge(0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("solver", [trusted, raising], ids=lambda solver: solver.__name__)
@pytest.mark.parametrize("loss", HINGES.values(), ids=HINGES)
@pytest.mark.parametrize("name", [name for name in CASES if name != "sharper"])
def test_law_of_hinges(name, loss, solver):
    objective, tilt = case(**CASES[name], loss=loss)
    check(objective, tilt, certified_minimum(objective, solver, TAU, tilt))


@pytest.mark.slow
@pytest.mark.parametrize("loss", HINGES.values(), ids=HINGES)
def test_a_penalty_of_next_to_nothing(loss):
    objective, tilt = case(**CASES["sharper"], loss=loss)
    check(objective, tilt, certified_minimum(objective, raising, TAU, tilt))


MARGINS = {
    "all on the lower kink": lambda h: [1 - h],
    "all on the upper kink": lambda h: [1 + h],
    "half on either": lambda h: [1 - h, 1 + h],
    "on both and inside": lambda h: [1 - h, 1 + h, 1.0],
    "on both and beyond": lambda h: [1 - h, 1 + h, -3.0, 5.0],
}


def kinked(h, margins, n=24):
    """An objective whose minimum w = (2, 0, 1) is known, with margins exactly where they are told.

    All numbers are sums of few powers of two, so nothing is rounded.
    """
    minimum, lambda_ = np.array([2.0, 0.0, 1.0]), 2.0**-7
    told = np.resize(margins, n)
    second = np.resize([0.5, -0.25, 0.125, -1.0, 0.75], n)
    x = np.column_stack([(told - 0.25) / 2, second, np.full(n, 0.25)])
    y = np.resize([1.0, -1.0, -1.0], n)
    rows = DenseRows(x * y[:, None], y, bound=4.0, intercept=None)
    loss = Huber(h)
    slopes = -np.clip((1 + h - told) / (2 * h), 0, 1)
    tilt = -(slopes @ x) - n * lambda_ * minimum

    def exact(precision):
        return [arb(float(b)) for b in tilt]

    return Objective(rows, loss, lambda_, tilt / n), exact, minimum


@pytest.mark.parametrize("solver", [trusted, early, raising], ids=lambda solver: solver.__name__)
@pytest.mark.parametrize("h", [0.5, 0.125, 2.0**-10])
@pytest.mark.parametrize("name", MARGINS)
def test_rows_exactly_on_the_kinks(name, h, solver):
    """There the loss has no second derivative, and the minimum is found and certified anyway."""
    objective, tilt, minimum = kinked(h, MARGINS[name](h))
    margins = (objective.rows.y[:, None] * objective.rows.x) @ minimum
    np.testing.assert_array_equal(margins, np.resize(MARGINS[name](h), len(margins)))
    assert exact_norm(exact_gradient(objective, minimum.tolist(), tilt(900), 900), 900) == 0
    for tau in (TAU, 1e-30):
        w = certified_minimum(objective, solver, tau, tilt)
        assert exact_norm(exact_gradient(objective, w, tilt(900), 900), 900) <= tau
        with working_precision(900):
            off = exact_norm([a - arb(b) for a, b in zip(w, minimum.tolist(), strict=True)], 900)
            assert off <= arb(tau) / (objective.rows.n * objective.lambda_)


@pytest.mark.slow
def test_the_tilt_is_drawn_once():
    """However far it has to go, the tilt is the one that was handed over, enclosed more tightly."""
    objective, tilt = case(**CASES["sharper"])
    asked = []

    def recorded(precision):
        asked.append(precision)
        return tilt(precision)

    certified_minimum(objective, raising, TAU, recorded)
    assert asked == sorted(asked)
    assert asked[-1] > asked[0]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("options", [{}, {"op": False}, {"delta": 1e-6}], ids=str)
def test_front_door(options, model, monkeypatch):
    """A fit is what it would have been with the exact minimiser, to the grid it is rounded to."""
    frame = clinic()
    with fixed_noise(monkeypatch):
        usual, *others = (
            fit_clinic(frame, solver=solver, model=model, **options)
            for solver in (Newton(), early, raising)
        )
    for other in others:
        reach = usual.calibration.grid + 2 * usual.calibration.tau / (
            usual.calibration.problem.penalty
        )
        assert np.abs(other.release.coef - usual.release.coef).max() <= reach
        assert other.guarantee == usual.guarantee


SHIELDED = [PureDP(1.0), ZCDP(0.1), ApproxDP(1.0, 1e-6)]


def check_shield(target, loss=LOSSES["logistic"]):
    """What is released is the minimum plus the whole draw of the shield, and nothing else."""
    rows = case()[0].rows
    facts = Problem(rows.n, rows.d, loss, rows.radius)
    request = Request(target, "objective", None, "free", "keep")
    calibration = calibrate(request, facts)
    draws = draw(calibration, SystemRandomness())
    release = mechanism_of(request.placement, request.target).release
    bare = release(
        rows, calibration, replace(draws, shield=FloatDraw(np.zeros(rows.d))), Newton()
    ).coef
    shield = draws.shield.nearest()
    released = release(rows, calibration, draws, Newton()).coef
    np.testing.assert_allclose(released - bare, shield, atol=2 * calibration.grid)
    assert calibration.grid < np.abs(shield).max() / 20
    return calibration


@pytest.mark.parametrize("loss", [LOSSES["logistic"], *HINGES.values()], ids=["logistic", *HINGES])
@pytest.mark.parametrize("target", SHIELDED, ids=str)
def test_the_distance_to_the_minimum_is_shielded(target, loss):
    """The shield is in the release, and is large enough for twice tau over Lambda."""
    calibration = check_shield(target, loss)
    reach = 2 * calibration.tau / calibration.problem.penalty
    assert reach == pytest.approx(calibration.distance)
    assert reach / calibration.shield.scale < 0.3


@pytest.mark.parametrize("target", SHIELDED, ids=str)
def test_planted_missing_shield_is_caught(monkeypatch, target):
    """The minimum released as if it were exact, as everyone else does."""

    def unshielded(centre, noise, grid):
        return rounded_sum(centre, FloatDraw(np.zeros(len(centre))), grid)

    monkeypatch.setattr(objective_mechanism, "rounded_sum", unshielded)
    with pytest.raises(AssertionError):
        check_shield(target)


@pytest.mark.parametrize("loss", [LOSSES["logistic"], *HINGES.values()], ids=["logistic", *HINGES])
def test_a_solver_that_is_trusted_is_caught(loss):
    objective, tilt = case(loss=loss)
    check(objective, tilt, [arb(float(entry)) for entry in trusted(objective).w])
    with pytest.raises(AssertionError):
        check(objective, tilt, [arb(float(entry)) for entry in early(objective).w])


@pytest.mark.parametrize("loss", [LOSSES["logistic"], Huber(0.5)], ids=["logistic", "huber"])
def test_a_certificate_without_rounding_is_caught(monkeypatch, loss):
    objective, tilt = case(**CASES["zero rows, huge tilt"], loss=loss)
    monkeypatch.setattr(certified, "_rounding_error", lambda objective, w: 0.0)
    monkeypatch.setattr(certified, "rounding_of_tilt", lambda n, used, tilt: arb(0))
    with pytest.raises(AssertionError):
        check(objective, tilt, certified_minimum(objective, trusted, TAU, tilt))


def test_a_tilt_that_is_taken_as_exact_is_caught(monkeypatch):
    objective, tilt = case()
    off = Objective(objective.rows, objective.loss, objective.lambda_, objective.tilt + TAU)
    check(off, tilt, certified_minimum(off, trusted, TAU, tilt))
    monkeypatch.setattr(certified, "rounding_of_tilt", lambda n, used, tilt: arb(0))
    with pytest.raises(AssertionError):
        check(off, tilt, certified_minimum(off, trusted, TAU, tilt))
