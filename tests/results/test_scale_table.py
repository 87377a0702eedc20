"""The released standard deviations, and the ends between which those of the records lie."""

import warnings
from dataclasses import replace
from itertools import islice, product

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import own_stages
from scipy import stats

from privatelr import ZCDP, PureDP, dplr
from privatelr.design import standardise, unstandardised
from privatelr.mechanisms.stages.scale import ScaleFacts, ScaleRelease, calibrate_scale, scale_map
from privatelr.privacy.noise import SeededRandomness
from privatelr.results.fit_tables import noise_reach, variance_ends
from privatelr.types import ColumnGroup

DRAWS = 4000
LEAST = stats.binom.ppf(1e-6, DRAWS, 0.95) / DRAWS
"""Coverage of that many draws is below this once in a million times if it is .95."""
NUMBER = ColumnGroup(1, "number")
RNG = np.random.default_rng(4)
COLUMNS = {
    "constant": np.full(500, 0.3),
    "constant at a bound": np.full(500, -1.0),
    "narrow": RNG.normal(-0.6, 0.02, 500),
    "narrow, in the middle": RNG.normal(0, 0.02, 500),
    "wide": RNG.uniform(-1, 1, 500),
    "at both ends": RNG.choice([-1.0, 1.0], 500),
    "skewed": np.minimum(RNG.exponential(0.1, 500) - 1, 1),
}
SHARES = [0.0, 0.01, 0.3, 0.5, 1.0]
TARGETS = [PureDP(20.0), PureDP(1.0), ZCDP(2.0), ZCDP(1e-3)]


def noise_of(calibration):
    randomness = SeededRandomness(11)
    return (randomness.draw(calibration.noise).vector for _ in range(DRAWS))


def draws_of(true, calibration):
    """Releases of the same moments, each with noise of its own on the grid of a fit."""
    for noise in noise_of(calibration):
        value = true + noise
        yield ScaleRelease(np.round(value / calibration.grid) * calibration.grid, calibration)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_ends_have_the_standard_deviation_of_the_records(target):
    """For each column by itself, whatever the data and however large the noise."""
    x = np.column_stack([*COLUMNS.values()])
    groups = [NUMBER] * x.shape[1]
    if not isinstance(target, PureDP):
        x = np.hstack([x, RNG.random((500, len(SHARES))) < SHARES])
        groups += [ColumnGroup(1, "indicators")] * len(SHARES)
    calibration = calibrate_scale(ScaleFacts(500, tuple(groups), True, 0.003), target)
    squares = calibration.weight * (x**2).mean(axis=0)
    true = np.concatenate([x.mean(axis=0), squares[calibration.squares]])
    held, seen = np.zeros(x.shape[1]), []
    for release in draws_of(true, calibration):
        low, high = variance_ends(release)
        assert (low <= high).all()
        held += (low <= x.var(axis=0) * (1 + 1e-9)) & (x.var(axis=0) <= high * (1 + 1e-9) + 1e-15)
        seen.append(high - low)
    assert (held / DRAWS).min() >= LEAST
    # they say no less than that a mean and its square keep within their own noise
    of_mean, of_square = noise_reach(calibration, 2)
    assert (np.median(seen, axis=0) <= 2 * of_square + 4 * of_mean * (1 + of_mean)).all()


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_ends_hold_whenever_noise_keeps_within_its_reach(target):
    calibration = calibrate_scale(ScaleFacts(500, (NUMBER,), True, 0.003), target)
    reach = np.array(noise_reach(calibration, 2)) * [1, calibration.weight]
    for x in COLUMNS.values():
        true = np.array([x.mean(), calibration.weight * (x**2).mean()])
        for signs in product(np.linspace(-1, 1, 9), repeat=2):
            low, high = variance_ends(ScaleRelease(true + reach * signs, calibration))
            assert low[0] <= x.var() + 1e-12
            assert high[0] >= x.var() - 1e-12


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_reach_is_that_of_the_noise(target, count):
    calibration = calibrate_scale(ScaleFacts(500, (NUMBER,) * 4, True, 0.003), target)
    within = noise_reach(calibration, count)
    ends = np.array([within[0]] * 2 + [within[1] * calibration.weight])[3 - count :]
    noise = [draw[[0, 1, 4]][3 - count :] for draw in noise_of(calibration)]
    share = (np.abs(noise) <= ends).all(axis=1).mean()
    assert LEAST <= share <= stats.binom.ppf(1 - 1e-6, DRAWS, 0.955) / DRAWS


@pytest.mark.parametrize("target", [PureDP(1.0), ZCDP(0.02)], ids=str)
def test_the_table_of_a_fit_has_the_standard_deviation_in_the_units_of_the_data(
    monkeypatch, target
):
    """A product of a number with a level counts from a share of its own."""
    own_stages(monkeypatch)
    rng = np.random.default_rng(1)
    n = 2000
    frame = pd.DataFrame({"age": rng.normal(60, 3, n), "smoker": rng.random(n) < 0.3})
    frame["y"] = rng.integers(0, 2, n)
    options = {"bounds": {"age": (0, 120), "y": (0, 1)}, "eps": target, "do_scale": "private"}
    fit = dplr("y ~ age * smoker", frame, **options)
    release = fit.release.scale
    declared = unstandardised(fit.spec, *scale_map(release, fit.release.length))
    both = frame["age"] * frame["smoker"]
    true = [s.std(ddof=0) for s in (frame["age"], frame["smoker"], both)]
    scaled = (frame["age"] - 60) / 60
    columns = np.column_stack([scaled, frame["smoker"], scaled * frame["smoker"]])
    calibration = release.calibration
    moments = columns.mean(axis=0)[calibration.means], (columns**2).mean(axis=0)
    exact = np.concatenate([moments[0], calibration.weight * moments[1][calibration.squares]])
    held, draws = np.zeros(len(fit.scale)), DRAWS // 8

    def table_of(drawn):
        spec = standardise(declared, *scale_map(drawn, fit.release.length))
        return replace(fit, spec=spec, release=fit.release.having({"scale": drawn})).scale

    for drawn in islice(draws_of(exact, calibration), draws):
        table = table_of(drawn)
        assert (table["sd_lower"] <= table["sd"] * (1 + 1e-9)).all()
        assert (table["sd"] <= table["sd_upper"] * (1 + 1e-9)).all()
        held += (table["sd_lower"] <= true[: len(held)]) & (true[: len(held)] <= table["sd_upper"])
    assert held.min() >= stats.binom.ppf(1e-6, draws, 0.95)
    # whatever noise within its reach: what the proof says
    means, squares = len(calibration.means), len(calibration.squares)
    size = noise_reach(calibration, 3 if isinstance(target, ZCDP) else 2)
    reach = np.repeat([size[0], size[1] * calibration.weight], [means, squares])
    for signs in product([-1.0, -0.5, 0.5, 1.0], repeat=len(exact)):
        table = table_of(ScaleRelease(exact + reach * signs, calibration))
        last = slice(2, 3) if isinstance(target, ZCDP) else slice(0, 1)
        assert (table["sd_lower"][last] <= true[last][0]).all()
        assert (table["sd_upper"][last] >= true[last][0]).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit.scale.notna().all().all()
    assert [*fit.scale] == ["mean", "noise_sd", "sd", "sd_lower", "sd_upper"]
