"""The errors that a plan forecasts are those of real releases."""

from functools import lru_cache

import numpy as np
import pytest
from studies.planning import Cell, planned, realised_sd, realised_width

from privatelr import ZCDP, ApproxDP, PureDP, plan
from privatelr.planning import forecast

CELLS = [
    Cell("guessed", PureDP(1.0), 3, 2000, "logistic", True),
    Cell("guessed", PureDP(1.0), 10, 1000, "huber", True),
    Cell("guessed", ApproxDP(0.5, 1e-6), 3, 1000, "logistic", True),
    Cell("pilot", ZCDP(0.5), 3, 2000, "huber", True),
    Cell("pilot", ZCDP(0.5), 10, 2000, "logistic", False),
    Cell("guessed", PureDP(1.0), 3, 4000, "logistic", True, scaled=True),
    Cell("pilot", ApproxDP(1.0, 1e-6), 10, 4000, "logistic", True, scaled=True),
]


@lru_cache(maxsize=8)
def found_in(cell):
    return realised_sd(cell, planned(cell), releases=320)


def is_near(predicted, cell):
    """Within 10% on average; a single coefficient is off by 3% for want of more draws."""
    ratio = predicted / found_in(cell)
    return abs(np.log(ratio).mean()) < 0.1 and np.abs(np.log(ratio)).max() < 0.2


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: str(cell).replace(" ", ""))
def test_the_privacy_sd_is_that_of_real_releases(cell):
    assert is_near(planned(cell).errors.privacy_sd, cell)


def test_noise_for_all_of_epsilon_is_caught():
    cell = CELLS[0]
    dearer = planned(Cell(cell.kind, PureDP(1 / 0.65), *(cell.d, cell.n, cell.loss, cell.op)))
    assert not is_near(dearer.errors.privacy_sd, cell)


def test_the_limit_that_holds_for_all_data_is_no_forecast():
    calibration = planned(CELLS[0]).calibration.coefficients
    units = planned(CELLS[0]).study.spec.user_map()
    limit = calibration.coefficient_sd * np.linalg.norm(units, axis=1)
    assert not is_near(limit, CELLS[0])
    assert (limit > found_in(CELLS[0])).all()


def test_where_noise_is_small_the_linear_formula_is_enough():
    outlook = plan("y ~ x", 10**6, 1.0, bounds={"x": (0, 1)}, spend=None)
    sim = forecast.simulate(outlook.study)
    carried = np.linalg.solve(sim.curvature, sim.units.T) / 10**6
    noise, shield = sim.stages.coefficients.noise, sim.stages.coefficients.shield
    linear = (carried**2).T @ noise.variances + sim.units**2 @ shield.variances
    np.testing.assert_allclose(outlook.errors.privacy_sd, np.sqrt(linear), rtol=1e-4)


def test_widths_are_those_of_real_fits():
    for cell in (CELLS[0], Cell("pilot", ZCDP(0.5), 3, 2000, "logistic", False), CELLS[-2]):
        outlook = planned(cell)
        widths, modes = realised_width(cell, outlook, fits=9)
        assert outlook.intervals.mode == "posterior"
        assert modes == ["posterior"] * 9
        ratio = np.exp(np.log(outlook.intervals.width / widths).mean())
        assert 0.85 < ratio < 1.15
