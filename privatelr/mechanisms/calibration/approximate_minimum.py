"""What covers the distance between what a solver returns and the minimiser of the proofs.

A certified gradient of norm tau (sum form) puts the solver's result within ``tau / Lambda`` of
the minimiser, so neighbours with the same minimiser differ by at most ``2 tau / Lambda`` and
noise for that sensitivity hides it (approximate minima perturbation, Iyengar et al. 2019, with
the factor 2 of privacy.md 5). It takes a hundredth of what the budget has for noise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from privatelr.mechanisms.calibration.output_noise import UP, gaussian_within, noise_hiding
from privatelr.numerics.solve import EXACT_COLUMNS, resolved_norm
from privatelr.privacy import ZCDP, PureDP
from privatelr.privacy.noise import GaussianNoise, NoiseLaw, NoNoise

if TYPE_CHECKING:
    from privatelr.mechanisms.problem import Problem

SHARE = 0.01
"""The small noise takes this share of the rate of a Laplace tilt, or of rho."""
SHIELD_RATIO = 0.2
"""``mu_out / m`` of a Gaussian shield: a tenth of the tilt's ``2 m``, a hundredth of rho."""
_RESOLUTION = 2.0**-47
_BASE_COLUMNS = 16
_USUAL_CURVATURE = 0.25
_GRID = 1e-3
_LONGER = 2.0
"""Multiple of its root mean square length that no tilt of hundreds of columns will ever exceed."""
_DRAWN = 16
"""Multiples of `_RESOLUTION` by which doubles may misstate a tilt of many columns."""


def certified_norm(problem: Problem, noise: NoiseLaw) -> float:
    """tau: the gradient norm of the sum form that a release is certified to; public.

    A multiple of what doubles resolve: n rows of length R in d columns, and the tilt. Slopes
    are resolved the less the more sharply the loss bends. For many columns it is what doubles
    reach whatever the rows hold, as nothing else would in time: the shield pays.
    """
    tilt = math.sqrt(float(noise.variances.sum()))
    n, d, loss, radius = problem.n, problem.d, problem.loss, problem.radius
    if d > EXACT_COLUMNS:
        longest = _LONGER * tilt
        least = resolved_norm(loss, n, d, radius, problem.lambda_, longest)
        return least + _DRAWN * _RESOLUTION * longest
    bend = max(1.0, loss.curvature_bound / _USUAL_CURVATURE)
    return _RESOLUTION * ((d + _BASE_COLUMNS) * n * problem.reach * bend + tilt)


def tilt_rho(rho: float) -> float:
    """What is left of rho for the tilt; with `shield_rho` at most the whole."""
    return math.nextafter(rho - shield_rho(rho), 0.0)


def shield_rho(rho: float) -> float:
    """The shield's share of rho."""
    return SHARE * rho


def shield_for(problem: Problem, tau: float, share: PureDP | ZCDP | float) -> NoiseLaw:
    """Noise for sensitivity ``2 tau / Lambda``: pure, zCDP, or Gaussian of a given mu."""
    reach = 2 * tau / problem.penalty
    match share:
        case float():
            return GaussianNoise(problem.d, reach / share * UP)
        case ZCDP():
            return gaussian_within(reach, problem.d, share)
    return noise_hiding(reach, problem.d, share)


def grid_for(noise: NoiseLaw) -> float:
    """Power of two at most a thousandth of the noise's deviation: what releases are rounded to."""
    if isinstance(noise, NoNoise):
        return 0.0
    spread = math.sqrt(float(noise.variances.min()))
    return float(2.0 ** math.floor(math.log2(_GRID * spread)))
