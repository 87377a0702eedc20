"""Law 6: the length of the noise is Gamma(d), its direction uniform, and d counts the intercept."""

import numpy as np
import pytest
from frames_for_laws import clinic, fit_clinic
from scipy import stats

from privatelr.privacy.noise import SphericalLaplace, normals
from privatelr.privacy.randomness import SeededRandomness, SystemRandomness

LEVEL = 1e-7  # a fresh draw of the system may look odd once in ten million runs


def check_noise(law, rate, d):
    randomness = SeededRandomness(d)
    draws = np.array([law.draw(randomness) for _ in range(4000)])
    lengths = np.linalg.norm(draws, axis=1)
    assert stats.kstest(lengths, stats.gamma(d, scale=1 / rate).cdf).pvalue > LEVEL
    # a coordinate of a uniform direction: its square is Beta(1/2, (d - 1)/2)
    squared = (draws[:, 0] / lengths) ** 2
    if d > 1:
        assert stats.kstest(squared, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > LEVEL
    sd = np.sqrt((draws**2).mean(axis=0))
    np.testing.assert_allclose(sd, law.coordinate_sd, rtol=0.1)
    assert abs(stats.norm.ppf((draws > 0).mean(axis=0))).max() < 0.08


@pytest.mark.parametrize("d", [1, 2, 5, 30])
def test_law(d):
    check_noise(SphericalLaplace(d, 0.25), 0.25, d)


def test_dimension_counts_the_intercept():
    fit = fit_clinic(clinic())
    assert fit.calibration.noise.dimension == len(fit.coef) == 4


@pytest.mark.parametrize("randomness", [SystemRandomness(), SeededRandomness(3)])
def test_uniforms_are_uniform_and_never_reach_the_ends(randomness):
    numbers = randomness.uniforms(200_000)
    assert numbers.min() > 0
    assert numbers.max() < 1
    assert stats.kstest(numbers, "uniform").pvalue > LEVEL
    assert stats.kstest(normals(randomness, 100_000), "norm").pvalue > LEVEL


@pytest.mark.parametrize("shape", [1, "d - 1"])
def test_planted_bug_is_caught(monkeypatch, shape):
    """A length that is Gamma(1), as in PSI, or that forgets the intercept."""

    def draw(self, randomness):
        count = 1 if shape == 1 else self.dimension - 1
        length = -np.log(randomness.uniforms(count)).sum() / self.rate
        direction = normals(randomness, self.dimension)
        return length * direction / np.linalg.norm(direction)

    monkeypatch.setattr(SphericalLaplace, "draw", draw)
    with pytest.raises(AssertionError):
        check_noise(SphericalLaplace(5, 1.0), 1.0, 5)


def test_density_and_draws_are_of_one_law():
    """The length has the density ``r^(d-1) exp(log_density)``: its mean by quadrature."""
    law = SphericalLaplace(3, 0.5)
    r = np.linspace(1e-6, 120, 200_001)
    weight = r**2 * np.exp([law.log_density(np.array([0.0, x, 0.0])) for x in r])
    draws = [np.linalg.norm(law.draw(SeededRandomness(seed))) for seed in range(3000)]
    assert np.mean(draws) == pytest.approx((weight @ r) / weight.sum(), rel=0.05)
