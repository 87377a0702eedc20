"""The law of an error is that of its parts, and the quadratures are as good as sampling."""

import numpy as np
import pytest
from releases_for_inference import law_of_errors, release_of
from scipy import stats

from privatelr.inference import (
    Matrices,
    evidence_of,
    plausible,
    plug_in,
    points_of,
)
from privatelr.inference.error_distribution import ErrorLaw
from privatelr.privacy import ZCDP, PureDP
from privatelr.privacy.noise import (
    BlockLaplace,
    GaussianNoise,
    NoNoise,
    SphericalLaplace,
    draw_many,
)
from privatelr.types import Block

LEVELS = (0.5, 0.9, 0.95, 0.99)


@pytest.mark.parametrize("d", [1, 2, 5, 40, 200, 400])
def test_the_mixture_is_the_spherical_law(d):
    """Variance, kurtosis 6 / (d + 1), quantiles."""
    law = SphericalLaplace(d, 0.7)
    variances, weight = law.mixture()
    assert weight.sum() == pytest.approx(1)
    assert weight @ variances == pytest.approx(law.variances[0], rel=1e-3)
    kurtosis = 3 * (weight @ variances**2) / (weight @ variances) ** 2 - 3
    assert kurtosis == pytest.approx(6 / (d + 1), rel=0.03 if d <= 200 else 0.2)
    drawn = np.abs(draw_many(law, 200_000 if d < 100 else 20_000, np.random.default_rng(1))[:, 0])
    for level in LEVELS:
        size = np.quantile(drawn, level)
        tail = weight @ (2 * stats.norm.sf(size / np.sqrt(variances)))
        error = 4 * np.sqrt(level * (1 - level) / len(drawn))
        assert tail == pytest.approx(1 - level, abs=error + 1e-3)


def test_other_laws_of_noise():
    assert GaussianNoise(3, 2.0).mixture()[0] == pytest.approx([4.0])
    assert NoNoise(3).mixture()[0] == pytest.approx([0.0])
    law = BlockLaplace((Block(1, 0.5), Block(2, 1.0)), 0.7)
    assert law.mixture() is None
    points = points_of(law, 4)
    assert points.shape[0] == 4
    np.testing.assert_allclose(points.mean(axis=(0, 1)), 0, atol=1e-12)
    np.testing.assert_allclose(points.var(axis=(0, 1)), law.variances, rtol=0.1)


@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("target", [PureDP(1.0), ZCDP(0.5)], ids=str)
@pytest.mark.parametrize("blocks", [True, False])
def test_tails_are_those_of_sampled_errors(op, target, blocks):
    """Quadrature and Monte Carlo agree, for each part and for the whole."""
    release = release_of(target, op=op, blocks=blocks)
    evidence = evidence_of(release)
    matrices = plug_in(evidence)
    contrasts = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -1.0]])
    law, errors = law_of_errors(evidence, matrices, contrasts)
    np.testing.assert_allclose(errors.var(axis=0), law.sampling + law.privacy, rtol=0.06)
    for level in LEVELS:
        half = law.half_width(level)
        np.testing.assert_allclose(law.beyond(half), 1 - level, atol=1e-9)
        spread = 4 * np.sqrt(level * (1 - level) / len(errors)) + 3e-3
        np.testing.assert_allclose((np.abs(errors) > half).mean(axis=0), 1 - level, atol=spread)
        np.testing.assert_allclose(law.quantile((1 + level) / 2), half, rtol=1e-6)


def test_the_parts_are_those_of_the_formulas():
    """The formulas are written out for each mechanism."""
    for op in (True, False):
        release = release_of(ZCDP(0.5), op=op)
        evidence = evidence_of(release)
        matrices = plug_in(evidence)
        law, _ = law_of_errors(evidence, matrices, np.eye(3))
        inverse = np.linalg.inv(matrices.curvature[0])
        n, variance = evidence.problem.n, evidence.calibration.noise.variances[0]
        sampling = np.diag(inverse @ matrices.scores[0] @ inverse) / n
        np.testing.assert_allclose(law.sampling, sampling, rtol=1e-9)
        noise = variance * (np.diag(inverse @ inverse) / n**2 if op else np.ones(3))
        shield = evidence.calibration.shield.variances
        np.testing.assert_allclose(law.privacy, noise + shield, rtol=1e-9)


def test_several_matrices_are_a_mixture():
    evidence = evidence_of(release_of(PureDP(1.0)))
    one = plug_in(evidence)
    other = Matrices(2 * one.curvature, 3 * one.scores)
    both = Matrices(
        *(np.concatenate(pair) for pair in zip(_parts(one), _parts(other), strict=True))
    )
    laws = [law_of_errors(evidence, pair, np.eye(3))[0] for pair in (one, other, both)]
    size = laws[0].half_width(0.9)
    means = (laws[0].beyond(size) + laws[1].beyond(size)) / 2
    np.testing.assert_allclose(laws[2].beyond(size), means, rtol=1e-6)  # with fewer nodes
    np.testing.assert_allclose(laws[2].sampling, (laws[0].sampling + laws[1].sampling) / 2)


def _parts(matrices):
    return matrices.curvature, matrices.scores


def odd_laws():
    rng = np.random.default_rng(0)
    wide = 10.0 ** rng.uniform(-6, 6, (300, 4))
    moved = wide * rng.standard_normal((300, 4))
    apart = np.where(rng.random((300, 4)) < 0.5, -100.0, 200.0)
    tiny, even = np.full((300, 4), 1e-145), np.full(300, 1 / 300)
    return {
        "many sizes": (0 * wide, wide, even),
        "centres as far": (moved, wide, even),
        "two places": (apart, np.ones((300, 4)), even),
        "nearly exact": (0 * tiny, tiny, even),
        "a rare size": (0 * wide, wide, np.append(np.full(299, 1e-9), 1 - 299e-9)),
    }


@pytest.mark.parametrize("name", odd_laws())
def test_quantiles_of_odd_laws(name):
    """`below` and `beyond` have these probabilities there."""
    centre, sd, weight = odd_laws()[name]
    parts = np.ones(4)
    law = ErrorLaw(centre, sd, weight, parts, parts, is_symmetric=not centre.any())
    for share in (0.00005, 0.025, 0.5, 0.9, 0.99995):
        low = high = law.quantile(share)
        # within the precision of 1e-10 standard deviations, by which a tail may change
        spread = 1e-9 * np.sqrt(weight @ (centre**2 + sd**2))
        assert (law.below(low - spread) <= share + 1e-12).all()
        assert (law.below(high + spread) >= share - 1e-12).all()
        if share > 0.5:
            half = law.half_width(share)
            assert (law.beyond(half + spread) <= 1 - share + 1e-12).all()
            assert (law.beyond(half - spread) >= 1 - share - 1e-12).all()


def test_a_quantile_takes_few_looks_at_the_law(monkeypatch):
    release = release_of(PureDP(0.3))
    evidence = evidence_of(release)
    matrices = plausible(evidence, 1.0)
    law, _ = law_of_errors(evidence, matrices, np.eye(3))
    looks = []
    below = ErrorLaw.below
    monkeypatch.setattr(ErrorLaw, "below", lambda *given: looks.append(1) or below(*given))
    law.quantile(0.975)
    assert len(looks) <= 20  # 34 by halvings
