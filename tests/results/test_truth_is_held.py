"""Intervals of probabilities and of marginal effects hold the truth of the logistic model."""

from functools import lru_cache

import numpy as np
import pytest
from frames_for_laws import fit_clinic
from repeated_noise import drawn, trial
from scipy import special, stats

from privatelr import average_marginal_effects

RUNS, ONE_IN_A_THOUSAND = 30, 1e-3
LEAST = 0.92
NEW = trial(30, seed=500)


def link(frame):
    """The linear predictor of the model that `trial` draws from."""
    return -3 + 0.05 * frame["age"] + 0.4 * frame["dose"] - 1.0 * (frame["smoker"] == "yes")


def effects(frame):
    """The true average effects of age, of dose, and of smoking."""
    probability = special.expit(link(frame))
    mean = (probability * (1 - probability)).mean()
    without = link(frame.assign(smoker="no"))
    smoking = (special.expit(without - 1.0) - special.expit(without)).mean()
    return np.array([0.05 * mean, 0.4 * mean, smoking])


@lru_cache
def effects_of_everyone():
    return effects(trial(100_000, seed=777))[:2]


PENALTIES = {"private": 0.02, False: 0.005}


@lru_cache(maxsize=2 * RUNS)
def fitted(seed, do_scale):
    """A fit whose penalty takes about a fifth off the coefficients, more than its noise is."""
    options = {"eps": 8.0, "lambda_": PENALTIES[do_scale], "do_scale": do_scale}
    return drawn(fit_clinic, trial(3000, seed), noise_seed=seed, spend="inference", **options)


def of_rows(fit, **asked):
    found, true = fit.predict(NEW, interval=0.95, **asked), special.expit(link(NEW))
    return (found["probability_lower"] <= true) & (true <= found["probability_upper"])


def of_effects(fit, **asked):
    table, true = average_marginal_effects(fit, NEW, **asked).table, effects(NEW)
    return (table["conf_low"] <= true) & (true <= table["conf_high"])


def of_effects_over_the_training_data(fit, **asked):
    table = average_marginal_effects(fit, **asked).table
    true = effects_of_everyone()
    return (table["conf_low"] <= true) & (true <= table["conf_high"])


def check_held(asked, do_scale, **options):
    """Each truth is held in 92 % of fits; one count in a thousand is beyond the limit."""
    held = np.array([asked(fitted(seed, do_scale), **options) for seed in range(RUNS)])
    assert (stats.binom.cdf(held.sum(axis=0), RUNS, LEAST) > ONE_IN_A_THOUSAND).all()
    assert held.mean() >= LEAST


ASKED = [
    (of_rows, "private"),
    (of_effects, "private"),
    # with a private scale long records count less, and there is no mean over all of them
    (of_effects_over_the_training_data, False),
]


@pytest.mark.parametrize(("asked", "do_scale"), ASKED)
def test_the_truth_is_held(asked, do_scale):
    assert fitted(0, do_scale).glance().loc[0, "target"] == "unpenalised"
    check_held(asked, do_scale)


@pytest.mark.parametrize(("asked", "do_scale"), ASKED[:2])
def test_the_penalised_model_in_place_of_it_is_caught(asked, do_scale):
    with pytest.raises(AssertionError):
        check_held(asked, do_scale, target="penalised")
