"""Law 1: the exact loss of a real fit is at most epsilon, also at a large intercept.

The rows come from real frames through the front door; the loss from the density of its release.
The loss of a stage that releases a scale is asked for in ``tests/audit/test_audit_stages.py``.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from broken_mechanisms import FreeIntercept
from frames_for_laws import ONE_STAGE

from privatelr import audit
from privatelr.audit.density.exact import tilt_losses
from privatelr.audit.density.pairs import pair_of_rows
from privatelr.privacy import ZCDP

dplr, huber = ONE_STAGE["dplr"], ONE_STAGE["dpsvm"]
SVMS = {name: model for name, model in ONE_STAGE.items() if name != "dplr"}
N = 2001
BOUNDS = {"x": (-1, 1)}


def adversarial_frames():
    """A steep boundary with its target on the wrong side, and a neighbour."""
    t, gap = 0.9133, 0.0229
    x = np.repeat([t - gap, t + gap, 1.0], [N // 2, N // 2, 1])
    y = np.repeat([1, 0, 1], [N // 2, N // 2, 1])
    frame = pd.DataFrame({"x": x, "y": y})
    neighbour = frame.copy()
    neighbour.loc[N - 1, ["x", "y"]] = [2 * t - 1, 0]
    return frame.astype({"y": bool}), neighbour.astype({"y": bool})


def lonely_frames():
    """One usable record, which changes sides; nothing but the penalty holds the minimiser."""
    frame = pd.DataFrame({"x": np.repeat([np.nan, 1.0], [N - 1, 1]), "y": 1})
    neighbour = frame.copy()
    neighbour.loc[N - 1, "y"] = 0
    return frame.astype({"y": bool}), neighbour.astype({"y": bool})


def check_loss(fit, frames=adversarial_frames):
    """The search starts, among others, at a large intercept with a slope that makes up for it."""
    found = audit.privacy_loss(fit, *frames())
    assert found.holds
    return found


def of_every_price(test):
    """The test under each kind of guarantee, with a delta so large that its share shows."""
    prices = [{"eps": 0.1, "delta": 0.1}, {"eps": ZCDP(0.5)}, {"eps": 1.0}]
    expected = pytest.mark.filterwarnings("ignore:delta=0.1 is not below")
    return expected(pytest.mark.parametrize("price", prices)(test))


@pytest.mark.parametrize("intercept", ["", " - 1"])
@pytest.mark.parametrize("analysis", ["joint", "one-log", "cms11"])
@pytest.mark.parametrize("scale", [0.5, 3.0])
@pytest.mark.parametrize("bounds", [None, BOUNDS], ids=["ball", "blocks"])
def test_law(intercept, analysis, scale, bounds):
    frame, _ = adversarial_frames()
    options = {"analysis": analysis, "intercept_scale": scale, "bounds": bounds}
    assert check_loss(dplr(f"y ~ x{intercept}", frame, **options)).ratio > 0.1


@pytest.mark.parametrize("model", SVMS.values(), ids=SVMS)
@pytest.mark.parametrize("analysis", [None, "one-log", "cms11"])
@pytest.mark.parametrize(
    "options",
    [
        {"bounds": BOUNDS, "intercept_scale": 3.0},
        {"formula": "y ~ x - 1", "bounds": BOUNDS},
        {"lambda_": "free"},
    ],
    ids=["intercept", "no intercept", "ball"],
)
def test_law_of_hinges(model, analysis, options):
    frame, _ = adversarial_frames()
    fit = model(**{"formula": "y ~ x", "data": frame, "analysis": analysis, **options})
    assert check_loss(fit).ratio > 0.1


@pytest.mark.parametrize("small", [1.0, 9.0])
@pytest.mark.parametrize("h", [0.5, 0.01])
def test_a_real_fit_under_the_huber_loss_attains_its_epsilon(small, h):
    """Also where lambda is kept and leaves little for the noise; a record of any length turns."""
    frame, neighbour = sided_frames()
    free = huber("y ~ x - 1", frame, h=h, bounds=BOUNDS, lambda_="free").calibration.lambda_
    options = {"lambda_": free / small, "on_small_lambda": "keep"}
    fit = huber("y ~ x - 1", frame, h=h, bounds=BOUNDS, **options)
    assert fit.calibration.lambda_ == free / small
    edge = np.array([1 - h + 1e-7 * h])  # of the row x = 1, just inside the bend
    found = audit.privacy_loss(fit, frame, neighbour, output=edge)
    assert found.holds
    assert found.ratio == pytest.approx(1, abs=1e-5)


def sided_frames():
    """One record changes sides; the others are unusable but for two like the new one."""
    frame = pd.DataFrame({"x": np.repeat([np.nan, 1.0], [N - 3, 3]), "y": 0})
    frame.loc[N - 1, "y"] = 1
    neighbour = frame.copy()
    neighbour.loc[N - 1, "y"] = 0
    return frame.astype({"y": bool}), neighbour.astype({"y": bool})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dplr", "dpsvm", "softplus"])
@pytest.mark.parametrize("op", [True, False])
@of_every_price
def test_law_of_every_mechanism(name, op, price):
    for frames, least in ((adversarial_frames, -1.0), (lonely_frames, 0.01)):
        fit = ONE_STAGE[name]("y ~ x", frames()[0], op=op, bounds=BOUNDS, lambda_="free", **price)
        assert check_loss(fit, frames).ratio > least


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dplr", "dpsvm", "softplus"])
@pytest.mark.parametrize("op", [True, False])
@of_every_price
def test_law_of_coefficients_and_moments(name, op, price):
    """One price for both: together they keep it, and each keeps its part."""
    for frames in (adversarial_frames, lonely_frames):
        options = {"op": op, "bounds": BOUNDS, "lambda_": "free", "spend": "inference", **price}
        fit = ONE_STAGE[name]("y ~ x", frames()[0], **options)
        found = check_loss(fit, frames)
        assert found.claim == fit.guarantee
        # beside a delta, Laplace noise on the coefficients claims their pure epsilon
        parts = [fit.calibration.proven, fit.release.moments.calibration.target]
        assert [part.claim for part in found.parts] == parts
        assert found.parts[1].found > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dplr", "dpsvm", "softplus"])
def test_planted_moments_that_are_not_paid_for_are_caught(name):
    """Noise on the moments for a record more or less, where neighbours replace one."""
    frame, neighbour = orthogonal_frames()
    fit = ONE_STAGE[name]("y ~ x + z - 1", frame, row_norm=1.0, spend="inference")
    assert audit.privacy_loss(fit, frame, neighbour).holds
    moments = fit.release.moments
    noise = replace(moments.calibration.noise, rate=moments.calibration.noise.rate * 2**0.5)
    broken = replace(moments, calibration=replace(moments.calibration, noise=noise))
    with pytest.raises(AssertionError):
        check_loss(
            replace(fit, release=fit.release.having({"inference": broken})), orthogonal_frames
        )


def orthogonal_frames():
    """A record of length 1 turns by a right angle."""
    frame = pd.DataFrame({"x": np.repeat([0.0, 1.0], [99, 1]), "z": 0.0, "y": 1})
    neighbour = frame.copy()
    neighbour.loc[99, ["x", "z"]] = [0.0, 1.0]
    return frame.astype({"y": bool}), neighbour.astype({"y": bool})


def test_frames_that_are_no_neighbours_are_refused():
    frame, neighbour = adversarial_frames()
    fit = dplr("y ~ x", frame)
    with pytest.raises(ValueError, match="differ in one record"):
        audit.privacy_loss(fit, frame, neighbour.iloc[:-1])
    with pytest.raises(ValueError, match="takes n=2001"):
        audit.privacy_loss(fit, frame.iloc[1:], neighbour.iloc[1:])


@pytest.mark.parametrize("model", ONE_STAGE.values(), ids=ONE_STAGE)
@pytest.mark.parametrize("bounds", [None, BOUNDS], ids=["ball", "blocks"])
def test_planted_bug_is_caught(model, bounds):
    """Noise calibrated for a radius without the intercept column, as PrivateLR does."""
    frame, _ = adversarial_frames()
    fit = model("y ~ x", frame, intercept_scale=3.0, bounds=bounds)
    calibration = fit.calibration
    rate = calibration.noise.rate * (calibration.problem.radius if bounds is None else 3.0)
    broken = replace(calibration, noise=replace(calibration.noise, rate=rate))
    with pytest.raises(AssertionError):
        check_loss(replace(fit, release=replace(fit.release, calibration=broken)))


def check_large_intercept(problem, noise):
    """Loss at large intercepts with slopes that make up for them, where both records are flat."""
    a = np.sqrt(0.5)
    pair = pair_of_rows(
        np.array([[1.0, 0.0]]), np.array([49.0]), np.array([a, a]), np.array([1.0, 0.0])
    )
    outputs = np.array([[k, -k] for k in (-20.0, -10.0, 10.0, 15.0, 20.0)])
    try:
        losses = tilt_losses(pair, problem, noise, outputs)
    except np.linalg.LinAlgError:  # where the loss is straight, nothing holds a free intercept
        losses = np.array([np.inf])
    assert abs(losses).max() <= 1.0


@pytest.mark.parametrize("model", ONE_STAGE.values(), ids=ONE_STAGE)
def test_large_intercepts(model):
    calibration = model("y ~ x", adversarial_frames()[0], intercept_scale=1.0).calibration
    check_large_intercept(calibration.problem, calibration.noise)


@pytest.mark.parametrize("model", ONE_STAGE.values(), ids=ONE_STAGE)
def test_planted_free_intercept_is_caught(model):
    """An intercept without penalty, as diffprivlib has it: the loss has no limit."""
    calibration = model("y ~ x", adversarial_frames()[0], intercept_scale=1.0).calibration
    problem = calibration.problem
    names = ("n", "d", "loss", "radius", "blocks", "lambda_")
    free = FreeIntercept(*(getattr(problem, name) for name in names))
    with pytest.raises(AssertionError):
        check_large_intercept(free, calibration.noise)
