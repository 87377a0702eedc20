"""All laws of noise that are proven for a target: for tilts, for output noise, and for shields.

If the gradient (sum form) is certified to a norm of tau, the solver's result is within
``tau / Lambda`` of the minimiser. So the results of neighbours with the same minimiser differ by at
most ``2 tau / Lambda``, and noise for that sensitivity, the shield, hides the difference
(approximate minima perturbation, Iyengar et al. 2019, with the factor 2 of theory.md 5). The
shield takes a hundredth of what the budget has for noise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import gaussian_objective, pure
from privatelr.mechanisms.calibration.gaussian_objective import SHIELD_RATIO
from privatelr.mechanisms.problem import Problem
from privatelr.numerics.rows import additions
from privatelr.numerics.solve import EXACT_COLUMNS, resolved_norm
from privatelr.privacy import (
    ZCDP,
    ApproxDP,
    Promise,
    PureDP,
    pure_within,
)
from privatelr.privacy.noise import (
    DOWN,
    LAWS,
    UP,
    CopiedNoise,
    GaussianNoise,
    LaplaceNoise,
    NoiseLaw,
    mean_square,
    pure_part,
    shortest,
)

_SHIELD_SHARE = 0.01
"""Share of the rate of a Laplace tilt, or of rho, that is left to the shield."""
BESIDE_SHIELD = 1 - _SHIELD_SHARE
"""Share of the largest rate that the tilt uses, so that a part of epsilon is left to the shield."""
_NO_USE = 1e-9
"""Smallest useful rate, relative to the rate that the whole epsilon would give."""
_ROUNDING = 2.0**-50
"""Share of epsilon that is kept back, because a few operations in doubles may lose so much."""
ROUNDING = 1e-9
"""Relative allowance for the rounding of slopes and curvatures, far above their actual error."""
_UNIT = 2.0**-53
"""Largest relative error of one rounding to a double."""
MOST_IN_MEMORY = 2**36
"""Twice the number of records that persons in memory do not exceed, which take a quarter of a
terabyte for each column. Groups of whole persons are added up one by one, and so go through twice
as many additions as blocks of rows."""


def lost_in_means(n: int, d: int, *, persons: bool) -> float:
    """Bound the errors of two means of numbers up to 1 that were summed over n rows of d columns.

    The number of records of n persons is not public.
    """
    return 4 * additions(MOST_IN_MEMORY if persons else n, d) * _UNIT


# -- tilts of the objective -----------------------------------------------------------------------


def candidates(problem: Problem, target: Promise, analysis: pure.Analysis) -> list[NoiseLaw]:
    """Return every law of the tilt that is proven for a target at this lambda.

    They are Laplace laws under pure epsilon, and Laplace and Gaussian laws under (epsilon, delta)
    and zCDP, because a pure guarantee implies both.
    """
    if isinstance(target, ZCDP):
        rho = tilt_rho(target.rho)
        sigma = gaussian_objective.sigma_for_rho(problem, rho, analysis)
        return laplace_tilts(problem, pure_within(rho), analysis) + _gaussian(problem, sigma)
    laplace = laplace_tilts(problem, pure_part(target), analysis, BESIDE_SHIELD)
    if isinstance(target, PureDP):
        return laplace
    return laplace + gaussian_tilts(problem, target, analysis)


def laplace_tilts(
    problem: Problem, epsilon: float, analysis: pure.Analysis, share: float = 1.0
) -> list[NoiseLaw]:
    """Return the Laplace laws that are epsilon-DP for these rows, the shortest first.

    Spherical noise is valid for all rows (Theorems 3.1 and 3.2 of theory.md), and noise in the
    shape of the blocks for a design that has blocks (Theorem 3.1b). The length is ``E|b|^2``, a
    public fact. The rate is `share` of the largest one. There are none if the curvature leaves
    nothing of epsilon. Every law with a method `tilting` is tried.
    """
    rate = pure.objective_rate(problem, epsilon, analysis) * share * DOWN
    if not rate * 2 * problem.pull > _NO_USE * epsilon:
        return []
    laws = [law for kind in LAWS.values() if (law := kind.tilting(rate, problem))]
    if problem.is_multinomial:  # each class by itself, which `softmax` is about
        laws = [CopiedNoise(cast("LaplaceNoise", law), problem.classes) for law in laws]
    return sorted(laws, key=mean_square)


def gaussian_tilts(problem: Problem, target: ApproxDP, analysis: pure.Analysis) -> list[NoiseLaw]:
    """Return the Gaussian law for (epsilon, delta), beside a shield; empty if none suffices.

    Its sigma is that of Theorem 4.2 of theory.md.
    """
    if analysis == "cms11":
        raise GuaranteeError(
            "analysis='cms11': that bound is about pure epsilon; with delta above 0 analysis takes "
            "'joint' or 'one-log'."
        )
    return _gaussian(problem, gaussian_objective.tilt_sigma(problem, target, analysis))


def _gaussian(problem: Problem, sigma: float) -> list[NoiseLaw]:
    return [GaussianNoise(problem.size, sigma)] if math.isfinite(sigma) else []


# -- noise on a vector ----------------------------------------------------------------------------


def output_sensitivity(problem: Problem, tau: float = 0.0) -> float:
    """Return ``(2 L R + 2 tau) / Lambda`` (Chaudhuri et al. 2011, Lemma 1; theory.md 3.3).

    tau is the certified gradient norm of the sum form: for either neighbour the solver's result is
    within ``tau / Lambda`` of the minimiser. Of two fits that are touched, each moves by up to
    ``(L R + 2 tau) / Lambda``: one loses a record, and the other one gains it. So together they
    move by ``(2 L R + 4 tau) / Lambda``.
    """
    return 2 * (problem.reach + problem.touched * tau) / problem.penalty * UP


def laws_hiding(sensitivity: float, d: int, target: Promise) -> list[NoiseLaw]:
    """Return the laws of noise for a vector ``(d,)`` of this Euclidean sensitivity.

    They are spherical Laplace noise for the pure epsilon that implies the target and, unless the
    target is pure, Gaussian noise.
    """
    found = (kind.hiding(sensitivity, d, target) for kind in LAWS.values())
    return [law for law in found if law is not None]


def require_law(
    laws: list[NoiseLaw], target: Promise, kinds: tuple[type[NoiseLaw], ...] = ()
) -> NoiseLaw:
    """Return the shortest law, of these kinds if any are given; raise an error without one."""
    noise = shortest(laws, kinds)
    if noise is None:
        raise GuaranteeError(f"{target}: no noise of that kind is proven for it.")
    return noise


# -- what a solver leaves open --------------------------------------------------------------------

_RESOLUTION = 2.0**-47
"""Relative resolution of a sum over rows in doubles, with a margin of a few bits."""
_BASE_COLUMNS = 16
"""Number of columns that is added to d, for the operations whose number does not depend on d."""
_PER_OFFSET = 8
"""Number of columns by which an offset of size 1 makes margins less exact; at least the 7 roundings
that `privatelr.numerics.solve.certified` counts for it."""
_MOST_RECORDS = 2**62
"""Number of records that all persons together do not exceed."""
_USUAL_CURVATURE = 0.25
"""Largest curvature of the logistic loss; losses of larger curvature are resolved less well."""
_GRID = 1e-3
"""Largest grid step of a release, in standard deviations of the noise."""
_LONGER = 2.0
"""Ratio of length to root mean square length that a tilt of many columns is taken to keep below."""
_DRAWN = 16
"""Bound on the relative error of a tilt of many columns in doubles, in units of `_RESOLUTION`."""


def certified_norm(problem: Problem, noise: NoiseLaw) -> float:
    """Return tau, the gradient norm of the sum form that a release is certified to; public.

    theory.md 5. It is a multiple of what doubles resolve for n rows of length R in d columns, and
    for the tilt. The more sharply a loss bends, the less well its slopes are resolved, and the
    larger offsets are, the less well margins are. A prior is a part of the tilt, and where it has
    deviations its pull at w0 is a part of both the tilt and the sum. For many
    columns tau is a norm that doubles can reach for all rows, because balls would take too long;
    the shield pays for its size.
    """
    held = problem.stiffness * problem.centre
    tilt = math.sqrt(mean_square(noise)) + problem.penalty * problem.centre + held
    n, d, loss = problem.n, problem.d, problem.loss
    if d > EXACT_COLUMNS:
        longest, facts = _LONGER * tilt, (loss, n, d, problem.radius, problem.lambda_)
        # the number of a person's records is not public
        records = _MOST_RECORDS if problem.persons else n
        least = resolved_norm(*facts, longest, problem.offset, records, problem.stiffness)
        return least + _DRAWN * _RESOLUTION * longest
    bend = max(1.0, loss.curvature_bound / _USUAL_CURVATURE)
    operations = d + _BASE_COLUMNS + _PER_OFFSET * problem.offset
    if problem.is_multinomial:
        operations += problem.classes  # the terms of the sum of exponentials
    return _RESOLUTION * (operations * (n * problem.reach * bend + held) + tilt)


def tilt_rho(rho: float) -> float:
    """Return the part of rho for the tilt; with the shield's part it is at most the whole."""
    return math.nextafter(rho - _SHIELD_SHARE * rho, 0.0)


def shield_for(
    problem: Problem, target: Promise, analysis: pure.Analysis, noise: NoiseLaw, tau: float
) -> NoiseLaw:
    """Return noise for sensitivity ``2 tau / Lambda``, by what a tilt leaves of the target.

    theory.md 5. The shield is of the same kind as the tilt; under zCDP it is always Gaussian. Each
    of the fits that are touched leaves as much open.
    """
    reach = 2 * tau * problem.touched / problem.penalty
    if isinstance(target, ZCDP):
        share = replace(target, rho=_SHIELD_SHARE * target.rho)
        return require_law(laws_hiding(reach, problem.size, share), share, (GaussianNoise,))
    if not noise.is_pure:
        mu = SHIELD_RATIO * problem.reach / noise.scale
        return GaussianNoise(problem.size, reach / mu * UP)
    epsilon = pure_part(target)
    spent = pure.objective_epsilon(noise.rate_along(problem), problem, analysis)
    left = PureDP(epsilon - spent - _ROUNDING * epsilon)
    hidden = (law.hiding(reach, noise.dimension, left) for law in LAWS.values())
    return next(shield for shield in hidden if shield is not None)


def grid_for(noise: NoiseLaw) -> float:
    """Return the power of two whose multiples are released.

    It is at most a thousandth of the noise's smallest standard deviation, a public fact.
    """
    if noise.scale == 0:
        return 0.0
    spread = math.sqrt(float(noise.variances.min()))
    if not math.isfinite(spread):
        raise GuaranteeError("the noise would be beyond the range of doubles; declare bounds.")
    return float(2.0 ** math.floor(math.log2(_GRID * spread)))
