"""Matrix Laplace noise: its law, its density in one and two dimensions, and what it hides."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from privatelr import PureDP, dplr, load, load_dataset, load_schema
from privatelr.audit import worth
from privatelr.audit.sampling.draws_and_releases import _EVIDENCE, Drawing, _compare
from privatelr.inference import conservative, evidence_of
from privatelr.mechanisms import Problem, Request, calibrate_all, matrix_of, vector_of
from privatelr.mechanisms.stages.matrices import (
    calibrate_moments,
    moments_balance,
    moments_sensitivity,
)
from privatelr.numerics import LOSSES, Huber
from privatelr.privacy.noise import MatrixLaplace, SphericalLaplace, SystemRandomness, draw_many

RATE = 0.7
UNITS = np.array([[[1.0, 0], [0, 0]], [[0, 1.0], [1.0, 0]], [[0, 0], [0, 1.0]]])
EVERY_LOSS = {**LOSSES, "narrow": Huber(0.05)}


def nuclear(matrices):
    return np.abs(np.linalg.eigvalsh(matrices)).sum(axis=-1)


def log_density(change, shift, steps=1201, reach=9.0):
    """The log density of one matrix ``(2, 2)`` at the difference, by its integral over a plane.

    ``f(N)`` is proportional to ``exp(c tr N)`` times the integral of ``exp(-2 c tr V)`` over V with
    V and V - N positive definite. In the coordinates (half the trace, half the difference of the
    diagonal, the entry off it) both cones are those of points above a distance.
    """
    matrix = change - shift
    t, x, y = (
        (matrix[0, 0] + matrix[1, 1]) / 2,
        (matrix[0, 0] - matrix[1, 1]) / 2,
        matrix[0, 1],
    )
    size = reach / RATE + np.abs([x, y]).max()
    grid = np.linspace(-size, size, steps)
    a, b = np.meshgrid(grid, grid)
    least = np.maximum(np.hypot(a, b), t + np.hypot(a - x, b - y))
    shown = least.min()
    total = np.exp(-4 * RATE * (least - shown)).sum() * (grid[1] - grid[0]) ** 2
    return 2 * RATE * t + math.log(total) - 4 * RATE * shown


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 5])
def test_it_is_drawn_as_scipys_wishart_law_says(d):
    law, source = MatrixLaplace(d, RATE), SystemRandomness()
    drawing = Drawing("matrices", (law,), lambda: source.draw(law).nearest())
    assert _compare(drawing, np.random.default_rng(2), 200) < _EVIDENCE


@pytest.mark.parametrize("planted", ["degrees of freedom", "one matrix twice", "root of two"])
def test_another_law_is_seen(monkeypatch, planted):
    honest, law = MatrixLaplace.transform, MatrixLaplace(3, RATE)

    def transform(self, uniforms, signs, arithmetic):
        if planted == "one matrix twice":
            uniforms = [*uniforms[: 2 * self.dimension], *uniforms[: 2 * self.dimension]]
        drawn = honest(self, uniforms, signs, arithmetic)
        if planted == "root of two":
            return [x / math.sqrt(2) if i % 6 in (1, 2, 4) else x for i, x in enumerate(drawn)]
        if planted == "degrees of freedom":
            return [x * math.sqrt(3 / 4) for x in drawn]
        return drawn

    monkeypatch.setattr(MatrixLaplace, "transform", transform)
    rng = np.random.default_rng(3)
    drawing = Drawing("matrices", (law,), lambda: draw_many(law, 1, rng)[0])
    assert _compare(drawing, np.random.default_rng(2), 600) > _EVIDENCE


@pytest.mark.parametrize("d", [1, 2, 4, 9])
def test_its_variances_and_its_diagonal_are_as_stated(d):
    law = MatrixLaplace(d, RATE)
    drawn = draw_many(law, 40_000, np.random.default_rng(d))
    np.testing.assert_allclose(drawn.var(axis=0), law.variances, rtol=0.06)
    assert law.scale**2 == pytest.approx(law.variances[0])
    correlated = np.corrcoef(drawn.T)
    assert np.abs(correlated - np.eye(law.dimension)).max() < 0.03
    first = matrix_of(drawn[:, : law.dimension // 2])[:, 0, 0]
    nodes, weight = law.mixture()
    for size in (0.5, 1, 2, 3):
        beyond = weight @ (2 * stats.norm.sf(size * law.scale / np.sqrt(nodes)))
        assert (np.abs(first) > size * law.scale).mean() == pytest.approx(beyond, abs=0.01)


def test_in_one_dimension_it_is_the_laplace_law():
    drawn = draw_many(MatrixLaplace(1, RATE), 20_000, np.random.default_rng(1))
    for column in drawn.T:
        assert stats.kstest(column, stats.laplace(scale=1 / RATE).cdf).pvalue > 1e-6


def test_its_density_in_two_dimensions_is_that_of_its_draws():
    """Of draws near the middle and of others, by the ratio of how often they occur."""
    law, rng = MatrixLaplace(2, RATE), np.random.default_rng(5)
    drawn = matrix_of(draw_many(law, 400_000, rng)[:, :3])
    places = [np.zeros((2, 2)), np.diag([2.0, -2.0]), np.array([[2.0, 1.0], [1.0, 1.0]])]
    near = [(np.abs(drawn - at).max(axis=(1, 2)) < 0.5).sum() for at in places]
    cells = []
    for at in places:  # the mean density over a cell
        corners = np.tensordot(rng.uniform(-0.5, 0.5, (60, 3)), UNITS, 1)
        densities = [math.exp(log_density(at + matrix, 0.0, steps=301)) for matrix in corners]
        cells.append(np.mean(densities))
    for k in (1, 2):
        assert near[k] / near[0] == pytest.approx(cells[k] / cells[0], rel=0.12)


@pytest.mark.parametrize("seed", range(12))
def test_no_log_ratio_in_two_dimensions_exceeds_the_nuclear_norm(seed):
    """Records in any directions, and outputs near them and far away."""
    rng = np.random.default_rng(seed)
    old, new = rng.standard_normal((2, 2))
    change = np.outer(old, old) - np.outer(new, new)
    most = RATE * nuclear(change)
    for scale in (0.3, 2.0, 8.0):
        at = scale * rng.standard_normal((2, 2))
        at = at + at.T + (change if seed % 2 else 0)
        ratio = log_density(at, 0.0) - log_density(at, change)
        assert abs(ratio) <= most * (1 + 1e-3)


def test_records_at_a_right_angle_lose_almost_all_that_is_claimed():
    change = np.diag([1.0, -1.0])
    at = 12 * change
    ratio = log_density(at, change) - log_density(at, 0.0)
    assert 0.9 < ratio / (RATE * nuclear(change)) <= 1 + 1e-3


def test_a_rate_that_is_a_fifth_too_large_would_be_seen():
    """The law in two dimensions at 1.2 times the rate loses more than the claim of the first."""
    change = np.diag([1.0, -1.0])
    at = 12 * change
    scaled = 1.2 * (log_density(at, change) - log_density(at, 0.0))
    assert scaled > RATE * nuclear(change)


# -- what a record moves -----------------------------------------------------------------------


@pytest.mark.parametrize("loss", EVERY_LOSS.values(), ids=EVERY_LOSS)
@pytest.mark.parametrize("typical", [None, 0.6])
def test_no_two_records_move_the_matrices_further(loss, typical):
    """In nuclear norm, and two of them at a right angle move them as far."""
    problem = Problem(1, 2, loss, 1.0).with_lambda(1.0)
    made = calibrate_moments(problem, PureDP(1.0), typical=typical)
    bound = moments_sensitivity(problem, made.typical, MatrixLaplace)
    margins = np.linspace(-30, 30, 200_001)
    bend, steep = loss.curvature(margins), moments_balance(problem) * loss.slope(margins) ** 2
    traces = bend + steep
    if made.typical is not None:
        traces = np.minimum(traces, made.largest)
    assert 2 * traces.max() <= bound
    assert 2 * traces.max() > 0.999 * bound or loss.joint_factor is None


def test_several_columns_take_it_and_few_do_not():
    facts = {"n": 1000, "loss": LOSSES["logistic"], "radius": 1.0}
    taken = [
        type(calibrate_moments(Problem(d=d, **facts).with_lambda(1.0), PureDP(1.0)).noise)
        for d in (1, 2, 4, 30, 100, 101)
    ]
    few, many = SphericalLaplace, MatrixLaplace
    assert taken == [few, few, many, many, many, few]


def test_the_audit_finds_too_little_of_it():
    facts = Problem(1000, 6, LOSSES["logistic"], 1.0).with_lambda(0.01)
    request = Request(PureDP(1.0), "objective", None, 0.05, "keep", "inference")
    plan = calibrate_all(request, facts)
    assert isinstance(plan.moments.noise, MatrixLaplace)
    assert 0.99 < worth.share_of_plan(plan) <= 1 + 1e-9
    noise = replace(plan.moments.noise, rate=1.2 * plan.moments.noise.rate)
    weak = plan.having({"inference": replace(plan.moments, noise=noise)})
    assert worth.share_of_plan(weak) > 1.1


# -- what follows ------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [4, 9, 25])
def test_limits_of_the_noise_hold(d):
    """Each is exceeded in at most a third of the releases that may break any of them."""
    law, beta, unit = MatrixLaplace(d, RATE), 0.06, np.eye(1, d)[0]
    across, along, scores = conservative._limits(law, d, beta / 3)
    drawn = matrix_of(draw_many(law, 20_000, np.random.default_rng(d))[:, : law.dimension // 2])
    assert (np.linalg.norm(drawn @ unit, axis=1) > across).mean() < 1.2 * beta / 3
    assert (np.abs(unit @ (drawn @ unit).T) > along).mean() < 1.2 * beta / 3
    assert (unit @ (drawn @ unit).T > scores).mean() < 1.2 * beta / 3


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fit_with_it_is_printed_saved_and_loaded(tmp_path):
    votes, public = load_dataset("anes96"), load_schema("anes96")
    fit = dplr("vote ~ age + selfLR + educ + income", votes, 4.0, spend="inference", **public)
    assert isinstance(fit.release.moments.calibration.noise, MatrixLaplace)
    assert "matrix Laplace noise" in str(fit.summary())
    fit.save(tmp_path / "fit.json")
    again = load(tmp_path / "fit.json")
    assert again.release.moments.calibration == fit.release.moments.calibration
    assert again.tidy().equals(fit.tidy())
    spread = evidence_of(again.release).curvature_sd
    assert spread == pytest.approx(again.release.moments.calibration.noise.scale)


def test_a_vector_holds_two_matrices():
    law, rng = MatrixLaplace(3, 2.0), np.random.default_rng(0)
    matrices = rng.standard_normal((2, 3, 3))
    matrices = matrices + np.swapaxes(matrices, 1, 2)
    vector = np.concatenate([vector_of(matrix) for matrix in matrices])
    for one, other in zip(matrix_of(np.array(np.split(vector, 2))), matrices, strict=True):
        np.testing.assert_allclose(one, other)
    assert law.norm(vector) == pytest.approx(nuclear(matrices).sum())
