"""Linear programs by multiplicative weights: a naive loop, all paths of tiny cases, refusals."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import optimize, sparse

from privatelr import ArgumentError, GuaranteeError, NonPrivate, PureDP
from privatelr.audit.enumerated_choices import (
    all_paths,
    laws_of_columns,
    loss_of_outcomes,
)
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import ZCDP, ApproxDP, BoundedRangeEvent
from privatelr.privacy.noise import SeededRandomness, SystemRandomness
from privatelr.selection.multiplicative_weights import (
    ProgramFacts,
    WorstMargins,
    calibrate_program,
    release_program,
)

CLAIMS = [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 0.01)]
USUAL = ApproxDP(1.0, 1e-6)


def path_log_probabilities(rows, calibration):
    """Log probabilities of all paths, of shape ``(2 d,) * rounds``."""
    laws = partial(laws_of_columns, rows, calibration)
    found = all_paths(laws, 2 * rows.d, calibration.rounds)
    return found.reshape((2 * rows.d,) * calibration.rounds)


def made(n=300, d=6, seed=0, dense=1.0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.2, 1.2, (n, d)) * (rng.random((n, d)) < dense)
    y = np.where(x @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
    y[0], x[1, 0] = 0.5, math.nan  # rows that cannot be used
    return x, y


def naive_path(x, y, calibration, randomness):
    """One sum for each option, bisection for the weights, everything afresh in each round."""
    problem, path = calibration.problem, []
    usable = np.isfinite(x).all(axis=1) & np.isin(y, (-1, 1))
    x = np.where(usable[:, None], np.clip(x, -problem.x_bound, problem.x_bound), 0.0)
    y = np.where(usable, y, 0.0)
    for _ in range(calibration.rounds):
        log_weights = np.zeros(problem.n)
        for option in path:
            sign = 1 if option < problem.d else -1
            log_weights -= calibration.step * sign * y * x[:, option % problem.d]
        low, high = -1e7, 1e7
        for _ in range(200):
            middle = (low + high) / 2
            total = np.exp(np.minimum(log_weights + middle, 0)).sum()
            low, high = (middle, high) if total < problem.s else (low, middle)
        q = np.exp(np.minimum(log_weights + low, 0)) / problem.s
        scores = []
        for option in range(2 * problem.d):
            sign = 1 if option < problem.d else -1
            gain = sign * y * x[:, option % problem.d]
            if calibration.score == "count":
                gain = (gain >= (1 - calibration.slack) * problem.x_bound).astype(float)
            scores.append(sum(q * gain))
        scores, choice = np.array(scores), calibration.choice
        path.append(int(np.argmax(scores)) if choice is None else choice.choose(scores, randomness))
    return path


@pytest.mark.parametrize("target", [USUAL, NonPrivate()], ids=str)
@pytest.mark.parametrize("score", ["margin", "count"])
@pytest.mark.parametrize("step", ["auto", 3.0, 1e5])
@pytest.mark.parametrize("held", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_paths_are_those_of_the_naive_loop(target, score, step, held):
    x, y = made(dense=0.5)
    facts = ProgramFacts(*x.shape, 1.0, 0.2)
    calibration = calibrate_program(facts, target, 12, step, score, slack=0.5)
    rows = EntryRows(held(x), y, x_bound=1.0)
    found = release_program(rows, calibration, SeededRandomness(4)).path
    assert found.tolist() == naive_path(x, y, calibration, SeededRandomness(4))


def test_release():
    x, y = made()
    calibration = calibrate_program(ProgramFacts(300, 6, 1.0, 0.2), USUAL)
    rows = EntryRows(x, y, x_bound=1.0)
    released = release_program(rows, calibration, SystemRandomness())
    assert released.counts.sum() == calibration.rounds == len(released.path)
    assert abs(released.coef).sum() <= 1 + 1e-12
    assert released.guarantee == USUAL
    assert calibration.events == (BoundedRangeEvent(calibration.eta, calibration.rounds),)
    plain = calibrate_program(ProgramFacts(300, 6, 1.0, 0.2), NonPrivate(), 400)
    coef = release_program(rows, plain, SystemRandomness()).coef
    # as good as the linear program itself, within the bound
    worst = np.sort(rows.margins(coef))[:60].mean()
    assert worst == pytest.approx(best_worst_mean(x, y, 60), abs=plain.shortfall())
    assert worst <= best_worst_mean(x, y, 60) + 1e-9


def best_worst_mean(x, y, s):
    """The linear program, by its own solver: the largest mean of the s smallest margins."""
    usable = np.isfinite(x).all(axis=1) & np.isin(y, (-1, 1))
    gain = np.where(usable[:, None], np.clip(x, -1, 1), 0.0) * np.where(usable, y, 0.0)[:, None]
    n, d = gain.shape
    # maximise t - sum(u) / s, u >= t - gain w, u >= 0, w = plus - minus on the simplex
    cost = np.concatenate([np.zeros(2 * d), [-1.0], np.full(n, 1 / s)])
    upper = np.hstack([-gain, gain, np.ones((n, 1)), -np.eye(n)])
    total = np.concatenate([np.ones(2 * d), [0.0], np.zeros(n)])[None]
    bounds = [(0, None)] * (2 * d) + [(None, None)] + [(0, None)] * n
    return -optimize.linprog(cost, upper, np.zeros(n), total, [1.0], bounds).fun


def test_shortfall_holds_with_noise():
    x, y = made(n=4000, d=5, seed=2)
    calibration = calibrate_program(ProgramFacts(4000, 5, 1.0, 0.25), ApproxDP(2.0, 1e-6))
    rows = EntryRows(x, y, x_bound=1.0)
    plain = calibrate_program(calibration.problem, NonPrivate(), 1000)
    best = np.sort(rows.margins(release_program(rows, plain, SystemRandomness()).coef))[:1000]
    best = best.mean() + plain.shortfall()
    for _ in range(5):
        coef = release_program(rows, calibration, SystemRandomness()).coef
        reached = np.sort(rows.margins(coef))[:1000].mean()
        assert best - reached <= calibration.shortfall() + plain.shortfall()


# -- the claim, against all paths -------------------------------------------------------------


def test_known_case():
    """p = 2, T = 5, spread over nearly all records: between a half and all of the claim."""
    facts = ProgramFacts(3, 2, 1.0, 0.9)
    calibration = calibrate_program(facts, PureDP(1.0), 5, 1.0)
    x = np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]])
    moved = x.copy()
    moved[0] = -1.0
    p, q = (
        path_log_probabilities(EntryRows(v, np.ones(3), x_bound=1.0), calibration)
        for v in (x, moved)
    )
    assert p.shape == (4,) * 5
    assert np.exp(p).sum() == pytest.approx(1)
    assert 0.45 < loss_of_outcomes(p, q, PureDP(1.0)) <= 1.0


def test_without_noise_there_is_one_path():
    x, y = made(n=20, d=2)
    calibration = calibrate_program(ProgramFacts(20, 2, 1.0, 0.5), NonPrivate(), 5)
    rows = EntryRows(x, y, x_bound=1.0)
    found = np.argwhere(path_log_probabilities(rows, calibration) == 0.0)
    path = release_program(rows, calibration, SystemRandomness()).path
    assert found.tolist() == [path.tolist()]


# -- numbers, refusals ------------------------------------------------------------------------


def test_the_page_counts_columns_in_words():
    for rounds, words in ((1, "1 column, "), (2, "2 columns, ")):
        found = calibrate_program(ProgramFacts(3, 2, 1.0, 0.9), PureDP(1.0), rounds, 1.0)
        assert dict(found.facts)["Choices"].startswith(words)


@pytest.mark.parametrize(
    ("target", "rounds"),
    [
        (ApproxDP(0.1, 1e-6), 33),
        (ApproxDP(1.0, 1e-6), 335),
        (NonPrivate(), 1000),
        (ApproxDP(1e-9, 1e-6), 1),
    ],
)
def test_automatic_numbers(target, rounds):
    facts = ProgramFacts(45222, 105, 1.0, 0.25)
    calibration = calibrate_program(facts, target)
    assert calibration.rounds == rounds
    assert calibration.step == pytest.approx(math.sqrt(2 * math.log(4) / rounds))
    assert calibration.sensitivity == pytest.approx(2 / (0.25 * 45222), rel=1e-5)
    counts = calibrate_program(facts, target, score="count").sensitivity
    assert counts == pytest.approx(1 / (0.25 * 45222), rel=1e-5)
    assert calibration.sensitivity >= 2 / (0.25 * 45222) * (1 + 1e-9)
    assert f"{rounds} column" in str(calibration)


def test_x_bound_scales_out():
    x, y = made()
    paths = []
    for scale in (1.0, 1e-6, 1e6):
        facts = ProgramFacts(300, 6, scale, 0.2)
        calibration = calibrate_program(facts, USUAL, 20)
        rows = EntryRows(scale * x, y, x_bound=scale)
        paths.append(release_program(rows, calibration, SeededRandomness(1)).path.tolist())
    assert paths[0] == paths[1] == paths[2]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"rounds": 0}, "rounds=0: rounds takes"),
        ({"rounds": 2.0}, "rounds takes"),
        ({"rounds": "many"}, "rounds takes"),
        ({"step": 0}, "step takes"),
        ({"step": "long"}, "step takes"),
        ({"score": "hinge"}, "score takes 'margin', 'count'"),
        ({"slack": 1.0}, "slack takes"),
        ({"slack": -0.1}, "slack takes"),
    ],
)
def test_refusals(arguments, match):
    with pytest.raises(ArgumentError, match=match):
        calibrate_program(ProgramFacts(100, 3, 1.0, 0.25), USUAL, **arguments)


@pytest.mark.parametrize("density", [0.0, 0.009, 1.0, -1, math.nan])
def test_density_is_checked(density):
    with pytest.raises(GuaranteeError, match="density"):
        ProgramFacts(100, 3, 1.0, density)


def test_smallest_density():
    assert ProgramFacts(49, 3, 1.0, 1 / 49).s == 1.0
    assert WorstMargins(0.25).parameters == {"density": 0.25}


def test_rows_have_to_fit():
    x, y = made()
    calibration = calibrate_program(ProgramFacts(300, 6, 1.0, 0.2), USUAL)
    with pytest.raises(GuaranteeError, match="beyond x_bound=1"):
        release_program(EntryRows(x, y, x_bound=2.0), calibration, SystemRandomness())
    with pytest.raises(GuaranteeError, match="do not fit"):
        release_program(EntryRows(x[:, :5], y, x_bound=1.0), calibration, SystemRandomness())
