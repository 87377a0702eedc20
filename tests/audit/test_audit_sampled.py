"""Bounds from outputs alone: valid for right mechanisms, and high enough to catch wrong ones."""

import math

import numpy as np
import pandas as pd
import pytest
from broken_mechanisms import (
    LOGISTIC,
    Scalar,
    calibrated,
    halved,
    one_class_shortcut,
    radius_from_data,
    redraws,
    refuses_outliers,
    warns_of_one_class,
)
from scipy import stats

from privatelr import audit, dplr
from privatelr.audit.checks import label
from privatelr.audit.density.loss import deep_pair
from privatelr.audit.run_audit import sample
from privatelr.audit.sampling.draws_and_releases import release_many
from privatelr.audit.sampling.lower_bounds import (
    Outputs,
    bound_from_outputs,
    evidence_of,
    gather,
    observe,
    outputs_of,
)
from privatelr.errors import ArgumentError
from privatelr.numerics import Huber, SoftplusHinge
from privatelr.privacy import ZCDP, ApproxDP, PureDP

SEEDS = range(8)
LOG_RATIO = evidence_of(PureDP(1.0))
CLAIMS = [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 0.01)]


def rng(seed=0):
    return np.random.default_rng(seed)


def outputs(calibration, pair, trials, seed=0):
    source = rng(seed)
    return [
        outputs_of(release_many(calibration, side, trials, source))
        for side in (pair.first(), pair.second())
    ]


def laplace(data, source):
    return data + source.laplace()


def randomised_response(data, source):
    return data if source.random() < math.e / (1 + math.e) else 1 - data


def two_numbers(data, source):
    """Laplace noise that only the difference of two strongly dependent numbers shows."""
    common = 1e4 * source.standard_normal()
    return [common, common + data + source.laplace()]


# -- right mechanisms: no false alarm ---------------------------------------------------------


@pytest.mark.parametrize("mechanism", [laplace, randomised_response], ids=["laplace", "response"])
def test_mechanisms_that_are_exactly_tight_pass(mechanism):
    bounds = [
        audit.epsilon_lower_bound(mechanism, 0, 1, trials=3000, rng=rng(seed)) for seed in SEEDS
    ]
    assert max(bounds) <= 1
    assert np.median(bounds) > 0.7


@pytest.mark.parametrize("loss", [LOGISTIC, Huber(0.1)], ids=label)
@pytest.mark.parametrize("placement", ["objective", "output"])
@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_the_mechanisms_of_the_package_pass(placement, claim, loss):
    calibration = calibrated(claim, placement=placement, loss=loss)
    claimed = {PureDP: 1.0, ZCDP: 0.5, ApproxDP: 0.01}[type(claim)]
    seeds = range(4) if loss is LOGISTIC else range(2)
    bounds = [sample(calibration, 20_000, 1e-3, rng(seed)) for seed in seeds]
    assert max(bounds) <= claimed
    if isinstance(claim, PureDP):  # the attack is one that works
        assert np.median(bounds) > 0.65


def test_a_learned_score_raises_no_false_alarm_and_is_nearly_as_good():
    calibration = calibrated(PureDP(1.0))
    pair = deep_pair(calibration)
    bounds = [
        bound_from_outputs(*outputs(calibration, pair, 20_000, seed), LOG_RATIO, 1e-3)
        for seed in SEEDS
    ]
    assert max(bounds) <= 1
    assert np.median(bounds) > 0.6


def test_a_mechanism_that_ignores_its_data_shows_nothing():
    for seed in range(5):
        bounds = [
            audit.epsilon_lower_bound(m, 0, 1, trials=1000, rng=rng(seed))
            for m in (lambda data, source: source.standard_normal(3), lambda data, source: 1.0)
        ]
        assert bounds == [0.0, 0.0]


# -- wrong mechanisms -------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [LOGISTIC, Huber(0.5), Huber(0.1), SoftplusHinge(0.1)], ids=label)
@pytest.mark.parametrize("placement", ["objective", "output"])
def test_half_the_noise_is_caught(placement, loss):
    broken = halved(calibrated(PureDP(1.0), placement=placement, loss=loss))
    assert sample(broken, 30_000, 1e-3, rng()) > 1.5
    sides = outputs(broken, deep_pair(broken), 30_000)
    assert bound_from_outputs(*sides, LOG_RATIO, 1e-3) > 1.4


@pytest.mark.parametrize(
    ("mechanism", "data", "neighbour", "least"),
    [
        (redraws, [1.0, 1.0, -1.0], [1.0, -1.0, -1.0], 4.0),
        (one_class_shortcut, [1.0, 1.0, 1.0], [1.0, 1.0, -1.0], 4.0),
        (radius_from_data, [1.0, 1.0, 10.0], [1.0, 1.0, 1.0], 1.5),
        (refuses_outliers, [1.0, 1.0, 1.1], [1.0, 1.0, 1.0], 4.0),
        (warns_of_one_class, [1.0, 1.0, 1.0], [1.0, 1.0, -1.0], 4.0),
    ],
)
def test_mechanisms_that_look_at_the_data_are_caught(mechanism, data, neighbour, least):
    found = audit.epsilon_lower_bound(mechanism, data, neighbour, trials=1500, rng=rng())
    assert found > least
    turned = audit.epsilon_lower_bound(mechanism, neighbour, data, trials=1500, rng=rng())
    assert turned > least
    clipped = [np.clip(side, -1, 1) for side in (data, neighbour)]
    assert audit.epsilon_lower_bound(Scalar(), *clipped, trials=1500, rng=rng()) <= 1


# -- what counts as an output -----------------------------------------------------------------


@pytest.mark.parametrize("odd", [math.nan, math.inf, None, "refused", [1.0, 2.0, 3.0]])
def test_odd_outputs_are_symbols(odd):
    def mechanism(data, source):
        return odd if data and source.random() < 0.5 else [0.0, source.standard_normal()]

    assert audit.epsilon_lower_bound(mechanism, 1, 0, trials=500, rng=rng()) > 2.5
    assert audit.epsilon_lower_bound(mechanism, 1, 1, trials=500, rng=rng()) < 0.2


def test_an_infinite_entry_does_not_hide_the_others():
    def mechanism(data, source):
        return [math.nan, 3 * data + source.standard_normal()]

    assert audit.epsilon_lower_bound(mechanism, 1, 0, trials=2000, rng=rng()) > 2


def test_an_atom_inside_the_bulk_is_seen():
    def mechanism(data, source):
        return 0.0 if data and source.random() < 0.1 else source.standard_normal()

    assert audit.epsilon_lower_bound(mechanism, 1, 0, trials=2000, rng=rng()) > 1.5


def test_strongly_dependent_coordinates_are_separated():
    found = audit.epsilon_lower_bound(two_numbers, 0, 1, trials=4000, rng=rng())
    assert 0.6 < found <= 1


def test_observations_name_what_happened():
    def mechanism(data, source):
        if data == "raise":
            raise ZeroDivisionError("no")
        return {"nan": [1.0, math.nan], "text": "hello", "number": 3}[data]

    seen = {name: observe(mechanism, name, 1, rng())[0] for name in ("raise", "nan", "text")}
    assert seen["raise"] == ("refused: ZeroDivisionError: no", None)
    assert seen["nan"][0] == "value with {1: nan}"
    assert seen["text"] == ("said: 'hello'", None)
    first, second = gather(
        observe(mechanism, "number", 2, rng()), observe(mechanism, "raise", 2, rng())
    )
    assert first.values.shape == second.values.shape == (2, 1)
    assert list(second.by_symbol()) == ["refused: ZeroDivisionError: no"]


# -- the statistics ---------------------------------------------------------------------------


def test_the_bound_is_that_of_clopper_and_pearson():
    """One event that separates the halves: the bound is the textbook one on the second half."""
    yes, no = np.ones((1000, 1)), np.zeros((1000, 1))
    first, second = outputs_of(yes), outputs_of(no)
    alpha = 1e-3
    low = stats.beta.ppf(alpha / 2, 500, 1)
    high = stats.beta.ppf(1 - alpha / 2, 1, 500)
    found = bound_from_outputs(first, second, LOG_RATIO, alpha)
    assert found == pytest.approx(math.log(low / high), rel=1e-9)
    found = bound_from_outputs(first, second, evidence_of(ApproxDP(0.3, 0.01)), alpha)
    assert found == pytest.approx(low - math.exp(0.3) * high, rel=1e-9)
    divergence = stats.entropy([low, 1 - low], [high, 1 - high])
    found = bound_from_outputs(first, second, evidence_of(ZCDP(0.5)), alpha)
    assert found == pytest.approx(divergence, rel=1e-9)


def test_the_bound_counts_outputs_that_did_not_choose_the_event():
    """Memorising the first half proves nothing about the second."""
    values = rng().standard_normal((4000, 2))
    chosen = {tuple(row) for row in values[:1000]}

    def memory(outputs):
        return np.array([float(tuple(row) in chosen) for row in outputs])

    first, second = outputs_of(values[:2000]), outputs_of(values[2000:])
    assert bound_from_outputs(first, second, LOG_RATIO, 1e-3, memory) == 0


def test_a_bound_holds_as_often_as_it_says(monkeypatch):
    """Events fixed in advance, epsilon exactly 1: at most alpha of the bounds are above it."""
    monkeypatch.setattr(
        "privatelr.audit.sampling.lower_bounds.learn", lambda first, second, known: _identity
    )
    source, above = rng(7), 0
    share = math.e / (1 + math.e)
    for _ in range(400):
        sides = [source.binomial(1, p, (400, 1)).astype(float) for p in (share, 1 - share)]
        bound = bound_from_outputs(*map(outputs_of, sides), LOG_RATIO, 0.2)
        above += bound > 1
    assert above <= 0.2 * 400
    assert above > 0  # and it is not so cautious as to be useless


def _identity(outputs: Outputs):
    return outputs.values[:, 0]


def test_arguments_are_checked():
    for trials in (0, 19, 30.5, "many"):
        with pytest.raises(ArgumentError, match="trials"):
            audit.epsilon_lower_bound(laplace, 0, 1, trials=trials)
    with pytest.raises(ArgumentError, match="alpha"):
        audit.epsilon_lower_bound(laplace, 0, 1, trials=100, alpha=0.0)
    with pytest.raises(ArgumentError, match="epsilon"):
        audit.delta_lower_bound(laplace, 0, 1, epsilon=-1.0, trials=100)


def needs_data_alone(data):
    return data


def always_raises(data, source):
    raise ValueError("no luck")


def raises_new_text(data, source):
    raise ValueError(f"no luck at {source.random()}")


def says_a_number(data, source):
    return f"about {source.random()}"


def hands_out_an_object(data, source):
    return object()


@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        (needs_data_alone, "never returned on either dataset.*TypeError"),
        (always_raises, "never returned on either dataset.*no luck"),
        (raises_new_text, "an output is a number"),
        (says_a_number, "an output is a number"),
        (hands_out_an_object, "an output is a number"),
        ("laplace", "mechanism takes a function"),
    ],
)
def test_a_mechanism_that_shows_nothing_is_refused(mechanism, words):
    """Not taken for one that is private."""
    with pytest.raises(ArgumentError, match=words):
        audit.epsilon_lower_bound(mechanism, 0, 1, trials=40, rng=rng())
    with pytest.raises(ArgumentError, match=words):
        audit.delta_lower_bound(mechanism, 0, 1, epsilon=0.5, trials=40, rng=rng())


@pytest.mark.parametrize("wrong", [0, "seed", np.random.RandomState(0)])
def test_a_generator_is_asked_for_by_name(wrong):
    with pytest.raises(ArgumentError, match="rng takes None or a numpy Generator"):
        audit.epsilon_lower_bound(laplace, 0, 1, trials=40, rng=wrong)


def test_exceptions_that_tell_datasets_apart_are_outputs():
    def on_one_side(data, source):
        if data:
            raise ValueError("too large")
        return 0.0

    def differently(data, source):
        raise (ValueError if data else KeyError)("no")

    def sometimes(data, source):
        if source.random() < (0.9 if data else 0.1):
            raise ValueError("no")
        return 0.0

    for mechanism, least in ((on_one_side, 3), (differently, 3), (sometimes, 1)):
        found = audit.epsilon_lower_bound(mechanism, 1, 0, trials=400, rng=rng())
        assert found > least


def test_a_fit_counts_as_its_coefficients():
    frame = pd.DataFrame({"x": np.linspace(-1, 1, 30), "y": np.arange(30) % 2})
    fit = dplr("y ~ x", frame, bounds={"x": (-1, 1), "y": (0, 1)})
    symbol, vector = observe(lambda data, source: fit, frame, 1, rng())[0]
    assert symbol == "value"
    np.testing.assert_array_equal(vector, fit.release.coef)


def test_delta_of_a_gaussian_mechanism():
    def gaussian(data, source):
        return data + source.standard_normal()

    true = stats.norm.cdf(0.5) - stats.norm.cdf(-0.5)  # at epsilon 0
    bounds = [
        audit.delta_lower_bound(gaussian, 0, 1, epsilon=0.0, trials=4000, rng=rng(seed))
        for seed in range(5)
    ]
    assert 0.2 < min(bounds) <= max(bounds) <= true
