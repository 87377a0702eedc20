"""A second sampler of the posterior of the moments, slow and simple, to judge the first by.

Elliptical slices in the cone (Murray, Adams and MacKay 2010). Given the scale of Laplace noise the
noise is normal, and given the noise the reciprocal of the squared scale is inverse Gaussian. A step
keeps the posterior. Chains need some thousands of steps to forget where they started.
"""

import math

import numpy as np
from scipy.linalg import lapack

from privatelr.inference import Matrices
from privatelr.mechanisms import matrix_of, vector_of
from privatelr.privacy.noise import SphericalLaplace

SHRINKS = 60


def feasible(offset, noisy, largest):
    """Whether noisy matrix ``(d, d)`` plus offset ``(c, k)`` is in the cone."""
    matrices = noisy + matrix_of(offset)
    small = np.trace(matrices, axis1=1, axis2=2) <= largest
    # each matrix is factored by itself, because one failure would end a stack of them
    factored = [lapack.dpotrf(one, clean=0)[1] == 0 for one in matrices]
    return small & np.array(factored)


def sliced(x, y, rng, noisy, largest):
    """One step of each chain, to a point in the cone on the ellipse through x and y."""
    angle = rng.uniform(0, 2 * math.pi, len(x))
    low, high = angle - 2 * math.pi, angle.copy()
    found, left = x.copy(), np.arange(len(x))
    for _ in range(SHRINKS):
        turn = angle[left, None]
        proposal = x[left] * np.cos(turn) + y[left] * np.sin(turn)
        inside = feasible(proposal, noisy, largest)
        found[left[inside]] = proposal[inside]
        left = left[~inside]
        if left.size == 0:
            break
        beyond = angle[left] < 0
        low[left] = np.where(beyond, angle[left], low[left])
        high[left] = np.where(beyond, high[left], angle[left])
        angle[left] = rng.uniform(low[left], high[left])
    return found


def moved_by_slices(evidence, start, steps, rng):
    """Matrices after so many steps of chains that begin at those of `start`."""
    law, balance, penalty = (
        evidence.noise,
        evidence.balance,
        evidence.floor * np.eye(len(evidence.w)),
    )
    x = vector_of(start.curvature - evidence.curvature)
    y = vector_of(start.scores - evidence.scores)
    sd = np.full((len(x), 1), evidence.curvature_sd)
    for _ in range(steps):
        if isinstance(law, SphericalLaplace):
            length = np.linalg.norm(np.hstack([x, balance * y]), axis=1)
            sd = (1 / np.sqrt(rng.wald(law.rate / length, law.rate**2)))[:, None]
        near = evidence.curvature - penalty, evidence.largest_trace
        x = sliced(x, sd * rng.standard_normal(x.shape), rng, *near)
        near = evidence.scores, evidence.largest_scores
        y = sliced(y, sd / balance * rng.standard_normal(y.shape), rng, *near)
    return Matrices(evidence.curvature + matrix_of(x), evidence.scores + matrix_of(y))
