"""The printed algorithm: what it does, and that it costs more than it claims."""

import math

import numpy as np
import pytest
from printed_thesis import dmw_svm_thesis
from scipy import sparse

from privatelr import PureDP
from privatelr.mechanisms import Problem, Request, calibrate, draw
from privatelr.numerics import Huber
from privatelr.numerics.rows import DenseRows, EntryRows
from privatelr.privacy.noise import SeededRandomness, SystemRandomness
from privatelr.privacy.noise.exponential_mechanism import Gumbel
from privatelr.selection.thesis import true_epsilon


@pytest.mark.parametrize(
    ("epsilon", "most", "expected"), [(0.1, 2000, 0.108), (1.0, 2000, 1.11), (0.5, 83, 0.551)]
)
def test_true_epsilon_is_above_the_claim(epsilon, most, expected):
    found = true_epsilon(epsilon, 1 / 40698, "margin", most)
    assert found == pytest.approx(expected, rel=5e-3)
    assert epsilon < true_epsilon(epsilon, 1 / 40698, "count", most) < found


def made(n=400, d=5):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, d))
    x /= np.linalg.norm(x, axis=1)[:, None]
    y = np.where(x[:, 0] + 0.5 * x[:, 1] > 0, 1.0, -1.0)
    ball = DenseRows(x, y, bound=1.0, intercept=None)
    return x, y, ball


def by_the_print(x, y, fit, epsilon, alpha, score, phi, randomness):
    """The loop in the words of the text: losses in [0, 1] of OPT-scaled corners, projected."""
    n, d = x.shape
    opt, rounds = fit.opt, fit.rounds
    rho, s, eta = opt + 1, 0.75 * n, math.sqrt(math.log(n) / rounds)
    assert rounds == math.ceil(36 * rho**2 * math.log(n) / alpha**2)
    each = epsilon / math.sqrt(8 * rounds * math.log(n))
    weights, path = np.full(n, s / n), []
    for _ in range(rounds):
        low, high = 0.0, 1e9
        for _ in range(200):
            zeta = (low + high) / 2
            low, high = (zeta, high) if np.minimum(1, zeta * weights).sum() < s else (low, zeta)
        z = np.minimum(1, low * weights) / s
        gain = np.hstack([opt * y[:, None] * x, -opt * y[:, None] * x])
        if score == "margin":
            quality, sensitivity = z @ gain, 3 * opt / s
        else:
            quality, sensitivity = z @ (gain >= 1 - phi), 2 / s
        if math.isinf(epsilon):
            option = int(np.argmax(quality))
        else:
            noise = randomness.draw(Gumbel(2 * d)).nearest()
            option = int(np.argmax(each * quality / (2 * sensitivity) + noise))
        path.append(option)
        loss = (gain[:, option] - 1) / (2 * rho) + 0.5
        weights = weights * np.exp(-eta * (loss - loss.min()))
    return path


def spend(ball, epsilon, source):
    """Take from a source what the first fit takes."""
    request = Request(PureDP(epsilon), "objective", "cms11", 0.05, "increase")
    draw(calibrate(request, Problem(ball.n, ball.d, Huber(), ball.radius)), source)


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
@pytest.mark.parametrize(("score", "phi"), [("margin", 0.0), ("count", 0.5), ("count", 1.0)])
@pytest.mark.parametrize("held", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_it_does_what_is_printed(epsilon, score, phi, held):
    x, y, ball = made()
    x = np.where(abs(x) < 0.1, 0.0, x)
    ball = DenseRows(x, y, bound=1.0, intercept=None)
    rows = EntryRows(held(x), y, x_bound=1.0)
    fit = dmw_svm_thesis(
        ball, rows, epsilon, 0.05, SeededRandomness(3), alpha=10.0, score=score, slack=phi
    )
    source = SeededRandomness(3)
    if math.isfinite(epsilon):  # what the first fit took
        spend(ball, epsilon, source)
    assert fit.path.tolist() == by_the_print(x, y, fit, epsilon, 10.0, score, phi, source)
    assert fit.opt == pytest.approx(abs(fit.objective_coef).sum())
    assert abs(fit.coef).sum() <= fit.opt * (1 + 1e-9)
    assert fit.delta == 1 / 400
    assert fit.epsilon_true > fit.epsilon_claimed or math.isinf(epsilon)
    assert "claimed epsilon" in str(fit)


def test_rounds_are_cut_off():
    _, _, ball = made()
    rows = EntryRows(ball.x, ball.y, x_bound=1.0)
    fit = dmw_svm_thesis(ball, rows, 0.01, 1e-3, SystemRandomness(), alpha=0.1, most_rounds=7)
    assert fit.rounds == 7
