"""The study of zero columns: its trick, its stored results, and the page that shows them."""

import numpy as np
import pytest
from scipy import stats
from studies import high_dimension as study
from studies.stored import stored
from studies.tables import HOME, data_home

from privatelr.numerics import Huber, Objective
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.solve import Newton
from privatelr.privacy.noise import GaussianNoise, SphericalLaplace, draw_many

needs_data = pytest.mark.skipif(data_home() is None, reason=f"{HOME} names no folder of tables")


@pytest.mark.parametrize("law", [SphericalLaplace(40, 0.5), GaussianNoise(40, 2.0)], ids=str)
def test_first_coordinates_have_the_law_of_whole_vectors(law):
    rng = np.random.default_rng(0)
    whole = draw_many(law, 4000, rng)[:, :3]
    few = np.array([study.first_coordinates(law, 3, rng) for _ in range(4000)])
    for a, b in ((whole[:, 0], few[:, 0]), (np.hypot(*whole.T[:2]), np.hypot(*few.T[:2]))):
        assert stats.ks_2samp(a, b).pvalue > 1e-6
    # as a vector of the few columns alone would not have
    alone = draw_many(type(law)(3, 0.5), 4000, rng)
    assert stats.ks_2samp(whole[:, 0], alone[:, 0]).pvalue < 1e-6


def test_zero_columns_take_no_part():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((300, 4)) / 4, rng.choice([-1.0, 1.0], 300)
    wide = np.column_stack([x, np.zeros((300, 20))])
    tilt = rng.standard_normal(24) / 30
    narrow = DenseRows(x, y, bound=1.0, intercept=None)
    few = Newton()(Objective(narrow, Huber(0.5), 1e-2, tilt[:4])).w
    rows = DenseRows(wide, y, bound=1.0, intercept=None)
    every = Newton()(Objective(rows, Huber(0.5), 1e-2, tilt)).w
    np.testing.assert_allclose(every[:4], few, atol=1e-8)


@pytest.fixture(scope="module")
def results():
    return stored("high_dimension")["results"]


def test_gaussian_noise_is_flat_and_spherical_noise_is_not(results):
    cell = {tuple(entry[:4]): entry[4] for entry in results["perturbation"]}
    for lambda_, plain, _ in results["plain"]:
        for epsilon in study.BLOAT_EPSILONS:
            flat = [cell["Objective-Gauss", p, epsilon, lambda_] for p in study.WIDTHS]
            assert max(abs(accuracy - plain) for accuracy in flat) < 0.005
            fallen = [cell["Output", p, epsilon, lambda_] for p in study.WIDTHS]
            assert fallen[0] - fallen[-1] > 0.1
        laplace = [cell["Objective", p, 0.5, lambda_] for p in study.WIDTHS]
        assert laplace[0] - laplace[-1] > 0.1
    for epsilon in study.EPSILONS[1:4]:  # objective far above output perturbation
        better, worse = (cell[name, 8, epsilon, 1e-3] for name in ("Objective", "Output"))
        assert better > worse + 0.03


def test_the_simplex_is_as_derived(results):
    cell = {
        (lambda_, p): (released, plain) for lambda_, p, released, _, plain, _ in results["simplex"]
    }
    derived = {
        3000: (0.940, 0.937, 0.932, 0.920, 0.897),
        10_000: (0.936, 0.912, 0.833, 0.785, 0.743),
    }
    for lambda_, values in derived.items():
        for p, value in zip(study.SIMPLEX_OPTIONS, values, strict=True):
            released, plain = cell[lambda_, p]
            assert abs(released - value) < 0.005
            assert abs(released - plain) < 0.003


@needs_data
def test_one_run_agrees_with_the_stored_ones(results, monkeypatch):
    monkeypatch.setenv(HOME, str(data_home()))
    cell = {tuple(entry[:4]): entry[4:] for entry in results["perturbation"]}
    for name in ("Objective", "Objective-Gauss"):
        mean, deviation = cell[name, 8, 5.0, 1e-3]
        assert abs(study.accuracy(name, 0, 8, 5.0, 1e-3) - mean) < 5 * deviation
    released, plain = study.simplex_accuracy(0, 18, 3000.0)
    assert abs(released - 0.939) < 0.005
    assert abs(plain - 0.939) < 0.005
