"""Law 1: the exact loss of a real fit is at most epsilon, also at a large intercept.

The rows come from real frames through the front door; the loss from the density of its release.
"""

from dataclasses import replace

import exact_loss
import numpy as np
import pandas as pd
import pytest

from privatelr import dplr
from privatelr.frames.design import read_design
from privatelr.numerics.rows import DenseRows

N = 2001


def adversarial_frames():
    """A steep boundary with its target on the wrong side, and the neighbour of privacy.md 11."""
    t, gap = 0.9133, 0.0229
    x = np.repeat([t - gap, t + gap, 1.0], [N // 2, N // 2, 1])
    y = np.repeat([1, 0, 1], [N // 2, N // 2, 1])
    frame = pd.DataFrame({"x": x, "y": y})
    neighbour = frame.copy()
    neighbour.loc[N - 1, ["x", "y"]] = [2 * t - 1, 0]
    return frame, neighbour


def pair_of(fit, frame, neighbour):
    """Signed design rows of two frames that differ in their last record."""
    signed = []
    for data in (frame, neighbour):
        rows = read_design(fit.spec, data, DenseRows).rows
        signed.append(rows.x * rows.y[:, None])
    shared, counts = np.unique(signed[0][:-1], axis=0, return_counts=True)
    return exact_loss.Pair(shared, counts.astype(float), signed[0][-1], signed[1][-1])


def check_loss(fit):
    frame, neighbour = adversarial_frames()
    pair = pair_of(fit, frame, neighbour)
    calibration = fit.calibration
    d = calibration.problem.d
    start = exact_loss.minimiser(pair, calibration.problem, record=pair.old)
    rng = np.random.default_rng(0)
    outputs = [start, *(start * k for k in (0.5, 2.0, 4.0))]
    outputs += exact_loss.random_outputs(rng, d, calibration.problem.radius)
    # a large intercept with a slope that makes up for it
    outputs += [np.array([-k, k, 0.0][:d]) for k in (5.0, 20.0, 80.0)] if d > 1 else []
    found = exact_loss.worst_objective_loss(pair, calibration, outputs)
    assert found <= fit.guarantee.epsilon * (1 + 1e-9)
    return found


@pytest.mark.parametrize("intercept", ["", " - 1"])
@pytest.mark.parametrize("analysis", ["joint", "one-log", "cms11"])
@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_law(intercept, analysis, scale):
    frame, _ = adversarial_frames()
    fit = dplr(f"y ~ x{intercept}", frame, analysis=analysis, intercept_scale=scale)
    assert check_loss(fit) > 0.1


@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_law_of_output_perturbation(scale):
    frame, neighbour = adversarial_frames()
    fit = dplr("y ~ x", frame, op=False, intercept_scale=scale)
    pair = pair_of(fit, frame, neighbour)
    assert exact_loss.output_loss(pair, fit.calibration) <= fit.guarantee.epsilon


def test_planted_bug_is_caught():
    """Noise calibrated for a radius without the intercept column, as PrivateLR does."""
    frame, _ = adversarial_frames()
    fit = dplr("y ~ x", frame, intercept_scale=1.0)
    calibration = fit.calibration
    rate = calibration.noise.rate * calibration.problem.radius
    broken = replace(calibration, noise=replace(calibration.noise, rate=rate))
    with pytest.raises(AssertionError):
        check_loss(replace(fit, release=replace(fit.release, calibration=broken)))
