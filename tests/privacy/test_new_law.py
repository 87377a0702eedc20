"""A new law of noise is one class and one line in a table: this file has both."""

import math
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
import pytest
from achieved_guarantees import achieved

from privatelr import ZCDP, ApproxDP, Ledger, PureDP, dplr, load, load_dataset, load_schema
from privatelr.audit import worth
from privatelr.audit.density.loss import loss_of
from privatelr.audit.density.pairs import random_pair, straight_pair
from privatelr.audit.sampling.draws_and_releases import _EVIDENCE, Drawing, _compare
from privatelr.mechanisms import Problem, Request, calibrate
from privatelr.numerics import find_loss
from privatelr.privacy.noise import DOWN, LAWS, LaplaceNoise, SystemRandomness, pure_part
from privatelr.privacy.noise.noise_laws import exponentials


@dataclass(frozen=True, slots=True)
class CubeNoise(LaplaceNoise):
    """Independent Laplace numbers: the density falls with the sum of the sizes of coordinates."""

    dimension: int
    rate: float
    title = "cubical Laplace"

    @property
    def variances(self):
        return np.full(self.dimension, 2 / self.rate**2)

    @property
    def lipschitz_sd(self):
        return 2 / self.rate

    def norm(self, b):
        return float(np.abs(b).sum())

    @property
    def uniforms(self):
        return self.dimension

    @property
    def signs(self):
        return self.dimension

    def transform(self, uniforms, signs, arithmetic):
        sizes = exponentials(uniforms, arithmetic)
        return [size * sign / self.rate for size, sign in zip(sizes, signs, strict=True)]

    @classmethod
    def hiding(cls, sensitivity, dimension, target):
        return cls(dimension, pure_part(target) / (sensitivity * math.sqrt(dimension)) * DOWN)

    @classmethod
    def tilting(cls, rate, rows):
        return cls(rows.d, rate / (rows.radius * math.sqrt(rows.d)) * DOWN)

    def rate_along(self, rows):
        return self.rate * rows.radius * math.sqrt(self.dimension)

    def event(self, sensitivity, neighbours):
        return PureDP(sensitivity * math.sqrt(self.dimension) * self.rate, neighbours)


@pytest.fixture(autouse=True)
def listed():
    """List the law while a test runs; the table keeps its order, in which laws are asked."""
    with mock.patch.dict(LAWS, {CubeNoise.__name__: CubeNoise}):
        yield


@pytest.fixture
def alone(listed):
    """Leave no other Laplace law for vectors, so that a fit takes the new one."""
    del LAWS["SphericalLaplace"], LAWS["BlockLaplace"]


TARGETS = [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)]


def calibrated(target, placement="objective", **facts):
    facts = {"n": 1000, "d": 2, "loss": find_loss("logistic"), "radius": 1.0, **facts}
    request = Request(target, placement, None, 0.05, "keep", kinds=(CubeNoise,))
    return calibrate(request, Problem(**facts))


@pytest.mark.parametrize("placement", ["objective", "output"])
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_it_is_calibrated_and_charged(target, placement):
    made = calibrated(target, placement)
    assert isinstance(made.noise, CubeNoise)
    own, epsilon = achieved(made), getattr(made.proven, "epsilon", None)
    assert epsilon is None or own.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert epsilon is not None or own.rho <= target.rho * (1 + 1e-9)
    assert all(event.epsilon <= pure_part(target) for event in made.events[:1])


@pytest.mark.parametrize("placement", ["objective", "output"])
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_audit_agrees_and_finds_too_little_noise(target, placement):
    made = calibrated(target, placement)
    assert 0.9 < worth.share_spent(made) <= 1 + 1e-9
    weak = replace(made, noise=replace(made.noise, rate=1.2 * made.noise.rate))
    assert worth.share_spent(weak) > 1


def test_no_pair_shows_more_than_is_promised():
    made, rng = calibrated(PureDP(1.0)), np.random.default_rng(1)
    found = [loss_of(random_pair(rng, made), made).found for _ in range(3)]
    found.append(loss_of(straight_pair(made, -3.0)[0], made).found)
    assert 0.1 < max(found) <= 1.0


def test_it_is_drawn_as_its_density_says():
    law, source = CubeNoise(3, 0.7), SystemRandomness()
    drawing = Drawing("cube", (law,), lambda: source.draw(law).nearest())
    assert _compare(drawing, np.random.default_rng(2), 200) < _EVIDENCE


@pytest.mark.usefixtures("alone")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fit_with_it_is_printed_and_paid_for():
    ledger = Ledger(2.0)
    votes, public = load_dataset("anes96"), load_schema("anes96")
    fit = dplr("vote ~ age + selfLR", votes, 1.0, do_scale=False, ledger=ledger, **public)
    assert isinstance(fit.calibration.noise, CubeNoise)
    assert isinstance(fit.calibration.shield, CubeNoise)
    assert "cubical Laplace" in str(fit.summary())
    assert ledger.spent() == pytest.approx(1.0)


@pytest.mark.usefixtures("alone")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fit_with_it_is_saved_and_loaded(tmp_path):
    votes, public = load_dataset("anes96"), load_schema("anes96")
    fit = dplr("vote ~ age + selfLR", votes, 1.0, do_scale=False, **public)
    fit.save(tmp_path / "fit.json")
    again = load(tmp_path / "fit.json")
    assert again.calibration == fit.calibration
    assert again.release.coef.tobytes() == fit.release.coef.tobytes()
