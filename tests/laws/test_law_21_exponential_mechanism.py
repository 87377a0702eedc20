"""Law 21: choices are made in log space, and stay private for scores of any size."""

import numpy as np
import pytest
from scipy import stats

from privatelr import GuaranteeError
from privatelr.privacy.noise import SeededRandomness, SystemRandomness
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism

# scores of a thousand and a million would underflow or overflow as exponentials
HUGE = np.array([1e6, 1e6 + 1, 1e6 + 2])
TINY = np.array([-1e6, -1e6 + 1, -1e6 + 2])


def check_chances(mechanism, scores, choose, trials=3000):
    """Observed choices against chances worked out with the largest score taken off first."""
    weight = np.exp(mechanism.epsilon * (scores - scores.max()) / mechanism.width)
    expected = weight / weight.sum()
    found = np.bincount([choose(scores) for _ in range(trials)], minlength=len(scores))
    assert (found > 0).all()
    assert stats.chisquare(found, expected * trials).pvalue > 1e-7


@pytest.mark.parametrize("scores", [HUGE, TINY, np.array([0.0, 0.5, 1.5, 2.0])], ids=str)
@pytest.mark.parametrize("randomness", [SystemRandomness(), SeededRandomness(1)], ids=repr)
def test_law(scores, randomness):
    mechanism = ExponentialMechanism(1.0, 1.0)
    check_chances(mechanism, scores, lambda s: mechanism.choose(s, randomness))


def naive(mechanism):
    """Exponentials first, as in diffprivlib#107: zero over zero, or infinity over infinity."""
    rng = np.random.default_rng(0)

    def choose(scores):
        with np.errstate(all="ignore"):
            weight = np.exp(mechanism.epsilon * scores / mechanism.width)
            chances = np.nan_to_num(weight / weight.sum())
        return int(np.searchsorted(np.cumsum(chances), rng.uniform()).clip(0, len(scores) - 1))

    return choose


@pytest.mark.parametrize("scores", [HUGE, TINY], ids=str)
def test_planted_bug_is_caught(scores):
    mechanism = ExponentialMechanism(1.0, 1.0)
    with pytest.raises(AssertionError):
        check_chances(mechanism, scores, naive(mechanism))


def test_exact_loss_is_at_most_epsilon_and_is_reached():
    """Scores that move by the whole width, one way: the loss is epsilon, with no factor 2."""
    mechanism = ExponentialMechanism(0.7, 0.1)
    for size in (0.0, 1e3, 1e9):
        scores = size + np.linspace(0, 1, 50)
        raised = scores.copy()
        raised[7] += 0.1
        loss = mechanism.log_probabilities(raised) - mechanism.log_probabilities(scores)
        assert abs(loss).max() <= 0.7 * (1 + 1e-5)
    all_but_one = np.zeros(50)
    moved = np.full(50, 0.1)
    moved[0] = 0.0
    loss = mechanism.log_probabilities(moved) - mechanism.log_probabilities(all_but_one)
    assert 0.6 < abs(loss).max() <= 0.7


def test_one_option_and_two_alike():
    mechanism = ExponentialMechanism(1.0, 1.0)
    assert mechanism.choose(np.array([3.0]), SystemRandomness()) == 0
    picked = {mechanism.choose(np.array([5.0, 5.0]), SystemRandomness()) for _ in range(60)}
    assert picked == {0, 1}


@pytest.mark.parametrize(("epsilon", "width"), [(0, 1), (1, 0), (np.inf, 1), (1, -1)])
def test_numbers_are_checked(epsilon, width):
    with pytest.raises(GuaranteeError, match="above 0"):
        ExponentialMechanism(epsilon, width)
