"""The Gaussian profile and its inverse, over all the range that a user can ask for."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privatelr.privacy.noise import gaussian_sd, log_delta

FILE = Path(__file__).parent / "reference" / "calibration.json"
REFERENCE = json.loads(FILE.read_text(encoding="utf-8"))
LOG_EPS = st.floats(-6, 3)
LOG_DELTA = st.floats(-30, math.log10(0.5))


@pytest.mark.parametrize("row", REFERENCE["gaussian_profile"], ids=str)
def test_reference_profile(row):
    assert log_delta(row["epsilon"], row["mu"]) == pytest.approx(row["log_delta"], rel=1e-9)


@pytest.mark.parametrize("row", REFERENCE["gaussian"], ids=lambda row: str(list(row.values())[1:5]))
def test_reference_output_sd(row):
    sensitivity = 2 * row["R"] / row["Lambda"]
    found = gaussian_sd(row["epsilon"], row["delta"], sensitivity)
    assert found == pytest.approx(row["sigma_output"], rel=1e-9)


@pytest.mark.parametrize(
    ("eps", "multiple"), [(0.1, 72.61), (0.5, 16.12), (1, 8.449), (2, 4.461), (8, 1.306)]
)
def test_table_of_the_analytic_gaussian(eps, multiple):
    """Multiples of R / Lambda at delta = 1e-6 for the sensitivity 2 R / Lambda."""
    assert gaussian_sd(eps, 1e-6, 2.0) == pytest.approx(multiple, rel=5e-4)


@given(LOG_EPS, LOG_DELTA)
def test_the_sd_is_enough_and_no_more_than_enough(log_eps, log_delta_):
    eps, delta = 10.0**log_eps, 10.0**log_delta_
    sd = gaussian_sd(eps, delta, 1.0)
    assert math.isfinite(sd)
    assert log_delta(eps, 1 / sd) <= math.log(delta)
    assert log_delta(eps, 1 / (sd * (1 - 1e-9))) > math.log(delta)


@given(st.floats(-4, 4), st.floats(-4, 2), st.floats(1.001, 3))
def test_the_profile_is_monotone(log_eps, log_mu, factor):
    eps, mu = 10.0**log_eps, 10.0**log_mu
    here = log_delta(eps, mu)
    assert here <= 0
    slack = 1e-9 * (1 + abs(here)) if math.isfinite(here) else 0.0
    assert log_delta(eps, mu * factor) >= here - slack
    assert log_delta(eps * factor, mu) <= here + slack


def test_no_shift_needs_no_delta():
    assert log_delta(0.5, 0.0) == -math.inf
    assert log_delta(-0.5, 0.0) == pytest.approx(math.log(1 - math.exp(-0.5)))
