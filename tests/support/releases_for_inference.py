"""Releases on made-up rows, shared by the tests of inference."""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from privatelr import inference
from privatelr.inference import Question
from privatelr.inference.error_distribution import errors_of, law_of
from privatelr.inference.intervals import factors_of
from privatelr.mechanisms import (
    Problem,
    Request,
    calibrate_all,
    draw_all,
    matrix_of,
    release_all,
)
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.solve import Newton
from privatelr.privacy import NonPrivate
from privatelr.privacy.noise import (
    GaussianNoise,
    SeededRandomness,
    SphericalLaplace,
    draw_many,
)
from privatelr.types import Block, row_radius

INTERCEPT = 0.5


def rows_of(n=2000, d=3, seed=1, *, blocks=False, share=0.5):
    """Rows in a ball, or in blocks; the last column is one of a rare level if `share` is small."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, d - 1))
    if share < 0.5:
        x[:, -1] = rng.random(n) < share
    bound = np.sqrt(d - 1)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-x @ np.linspace(1.5, -1, d - 1))), 1.0, -1.0)
    limits = (Block(1, INTERCEPT), *[Block(1, 1.0)] * (d - 1)) if blocks else ()
    return DenseRows(x, y, bound=bound, intercept=INTERCEPT, blocks=limits)


def plan_of(target, n=2000, d=3, *, loss="logistic", op=True, blocks=False, lambda_=None, kinds=()):
    radius = row_radius(np.sqrt(d - 1), INTERCEPT)
    blocks = (Block(1, INTERCEPT), *[Block(1, 1.0)] * (d - 1)) if blocks else ()
    placement = "objective" if op else "output"
    rule = "free" if lambda_ is None else lambda_
    request = Request(target, placement, None, rule, "increase", "inference", kinds)
    return calibrate_all(request, Problem(n, d, LOSSES[loss], radius, blocks))


@lru_cache(maxsize=64)
def release_of(target, n=2000, d=3, *, seed=1, noise=3, share=0.5, blocks=False, **options):
    """One release, with seeded rows and noise."""
    plan = plan_of(target, n, d, blocks=blocks, **options)
    draws = draw_all(plan, SeededRandomness(noise))
    return release_all(rows_of(n, d, seed, blocks=blocks, share=share), plan, draws, Newton())


def infer(release, contrasts, null=None, **choices):
    """What inference says of combinations, asked by name."""
    return inference.infer(release, contrasts, Question(**choices), null)


def row_errors(release, **choices):
    return inference.row_errors(release, Question(**choices))


def covariance(release, **choices):
    return inference.covariance(release, Question(**choices))


def law_of_errors(evidence, matrices, contrasts, target="penalised"):
    """The law of the errors of released combinations, and draws from their joint law."""
    solved, carried, biases = factors_of(evidence, matrices, contrasts, target)
    law = law_of(evidence, solved, carried, matrices, contrasts, biases)
    return law, errors_of(evidence, solved, carried, matrices, contrasts, biases)


def noisy_evidence(d, ratio, *, laplace, n=4000):
    """Evidence of exact moments plus noise of `ratio` times the smallest eigenvalue of H."""
    exact = inference.evidence_of(release_of(NonPrivate(), n, d, lambda_=1e-3))
    k = d * (d + 1) // 2
    sd = ratio * np.linalg.eigvalsh(exact.curvature)[0] / np.sqrt(2 * d)
    law = SphericalLaplace(2 * k, np.sqrt(2 * k + 1) / sd) if laplace else GaussianNoise(2 * k, sd)
    h, s = np.split(draw_many(law, 1, np.random.default_rng(d))[0], 2)
    return replace(
        exact,
        curvature=exact.curvature + matrix_of(h),
        scores=exact.scores + matrix_of(s) / exact.balance,
        curvature_sd=sd,
        noise=law,
    )
