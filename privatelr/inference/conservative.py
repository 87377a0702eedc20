"""Intervals that hold for every dataset: the worst case over all moments that the noise allows.

The error of ``a.w`` depends on H only through ``v = H^-1 a``. For the true v, whatever it is, the
noise in H times v and the noise in S along v have known laws, and with probability ``1 - beta``
they keep within limits. These limits, and the floor of H, are quadratic inequalities about v.
Lagrangian duality bounds the largest variance over all v that satisfy them, and any multipliers
give a bound (theory.md#conservative-intervals has the proof). Limits for each v are tighter than
limits for all v together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from privatelr.inference.error_distribution import SMALLEST, bisect
from privatelr.inference.noisy_moments import NoisyMoments, floored, is_exact, undivided
from privatelr.privacy.noise import NoiseLaw
from privatelr.types import FloatArray

SHARE = 0.1
"""beta over alpha: the probability that the limits fail, relative to that of a missed interval."""
_LEVELS = (0.05, 0.005, 5e-4, 5e-5)
"""Values of alpha whose limits are used to compute p-values."""
_MOST_OF_NOISE = np.linspace(0.0, 1.0, 9)
"""Shares of the variance that may be noise; the heaviest tail among them is used."""
_SCALES = 16
"""Number of normal laws whose mixture approximates a Laplace law."""
_NORMAL_NODES = np.linspace(-9.0, 9.0, 181)
_NORMAL_WEIGHTS = np.exp(-(_NORMAL_NODES**2) / 2) / np.exp(-(_NORMAL_NODES**2) / 2).sum()
_NEGLIGIBLE = 1e-4
"""Ratio of the limit `across` to the least curvature below which multipliers lose their digits."""
_START = 1e-3
"""First multipliers of the noise limits, relative to that of the floor, in natural units."""
_STEPS = 60
"""Largest number of Newton steps for one weight of the barrier."""
_CLOSENESS = (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3)
"""Successive weights of the barrier, relative to the bound."""
_DECAYS = np.geomspace(3e-3, 1e3, 481)[:, None]
"""Rates k of densities ``exp(-k |x|)`` on [-1, 1], between the uniform and the Laplace law; where
they are smaller, their variance is lost to rounding."""


@dataclass(frozen=True, slots=True)
class NoiseLimits:
    """Limits on the noise along a fixed direction v of length 1; they fail with probability beta.

    Attributes
    ----------
    across : float
        Largest length of ``N v``, where N is the noise in H.
    along : float
        Largest size of ``v.N v``.
    scores : float
        Largest amount by which the noise in S lowers ``v.S v``.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import evidence_of, limits_of
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age", votes, eps=4.0, spend="inference", do_scale=False, **public)
    >>> limits = limits_of(evidence_of(fit.release), 0.01)  # one release in 100 may break them
    >>> print(f"{limits.along:.4f} along a direction, {limits.across:.4f} across")
    0.0031 along a direction, 0.0033 across
    """

    across: float
    along: float
    scores: float


def limits_of(evidence: NoisyMoments, beta: float) -> NoiseLimits:
    """Return the limits for a probability, a third of which is given to each of the three.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import evidence_of, limits_of
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age", votes, eps=4.0, spend="inference", do_scale=False, **public)
    >>> usual, careful = (limits_of(evidence_of(fit.release), beta) for beta in (0.05, 0.001))
    >>> print(f"{careful.along / usual.along:.2f} times as far")
    1.72 times as far
    """
    if is_exact(evidence):
        return NoiseLimits(0.0, 0.0, 0.0)
    across, along, scores = _limits(evidence.noise, len(evidence.w), beta / 3)
    return NoiseLimits(across, along, scores / evidence.balance)


@lru_cache(maxsize=64)
def _limits(noise: NoiseLaw, d: int, share: float) -> tuple[float, ...]:
    scales = noise.mixture(_SCALES)
    assert scales is not None  # the noise of moments is always spherical or normal
    deviations, weight = np.sqrt(scales[0])[:, None], scales[1]
    reach = 60 * deviations.max() * np.ones(1)

    def across(size: FloatArray) -> FloatArray:
        # for a standard normal svec N and a unit vector v: v.N v is standard normal, and the
        # d - 1 components of N v across v have variance 1/2
        if d == 1:
            return along(size)
        rest = np.maximum(size[..., None] ** 2 - _NORMAL_NODES**2, 0.0)
        return np.asarray(scipy.special.gammaincc((d - 1) / 2, rest) @ _NORMAL_WEIGHTS)

    def along(size: FloatArray) -> FloatArray:
        return np.asarray(2 * scipy.special.ndtr(-size))

    def scores(size: FloatArray) -> FloatArray:
        return np.asarray(scipy.special.ndtr(-size))

    def exceeded(tail: Callable[[FloatArray], FloatArray]) -> float:
        found = bisect(lambda x: weight @ tail(x / deviations) > share, reach * 0, reach)
        return float(found[0])

    return tuple(map(exceeded, (across, along, scores)))


@dataclass(frozen=True, slots=True, eq=False)
class WorstErrors:
    """Bounds on the errors of m combinations, over a region.

    Attributes
    ----------
    evidence : NoisyMoments
    sampling, privacy : ndarray of shape (m,)
        The largest variance, divided into its two parts where it is attained.
    """

    evidence: NoisyMoments
    sampling: FloatArray
    privacy: FloatArray

    def beyond(self, size: FloatArray) -> FloatArray:
        """Bound the probability ``(m,)`` of an error of at least `size` ``(m,)`` from above."""
        calibration = self.evidence.calibration
        total = np.maximum(self.sampling + self.privacy, SMALLEST)
        scales = calibration.noise.mixture()
        if scales is None:
            return heaviest_tail(size / np.sqrt(total))
        nodes, weight = scales
        mean = float(weight @ nodes)
        relative = (nodes / mean if mean > 0 else np.ones_like(nodes))[:, None]
        if calibration.placement == "output":  # the variance of the noise does not depend on H
            laws = [np.maximum(self.sampling + self.privacy * relative, SMALLEST)]
        else:
            laws = [total * (1 - u + u * relative) for u in _MOST_OF_NOISE]
        tails = [weight @ (2 * scipy.special.ndtr(-size / np.sqrt(law))) for law in laws]
        return np.asarray(np.max(tails, axis=0))

    def half_width(self, miss: float) -> FloatArray:
        """Return sizes ``(m,)`` that errors exceed with probability `miss` at most."""
        reach = 100 * np.sqrt(self.sampling + self.privacy)
        return bisect(lambda size: self.beyond(size) > miss, reach * 0, reach)


def heaviest_tail(size: FloatArray) -> FloatArray:
    """Return the largest ``P(|X| >= size sd)`` ``(m,)`` over all symmetric log-concave laws.

    Block noise, and its sum with a normal variable, has such a law. The maximum is attained by a
    density ``exp(-k |x|)`` on an interval, from the uniform to the Laplace law
    (theory.md#conservative-intervals has the proof).

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr.inference import heaviest_tail
    >>> heaviest_tail(np.array([1.96, 4.0])).round(4)  # a normal law has .05 and .0001
    array([0.0703, 0.0035])
    """
    k, whole = _DECAYS, -np.expm1(-_DECAYS)
    variance = (2 * whole - np.exp(-k) * k * (k + 2)) / (k * k * whole)
    inside = np.clip(size * np.sqrt(variance), 0.0, 1.0)
    tails = (np.exp(-k * inside) - np.exp(-k)) / whole
    ends = 1 - size / math.sqrt(3), np.exp(-math.sqrt(2) * size)  # the uniform and the Laplace law
    return np.asarray(np.maximum.reduce([*tails, *ends]))


def worst_errors(evidence: NoisyMoments, contrasts: FloatArray, beta: float) -> WorstErrors:
    """Bound the variances of the errors of combinations ``(m, d)``; each fails with prob. beta.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import evidence_of, worst_errors
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=0, spend="inference", **public)  # no noise
    >>> worst = worst_errors(evidence_of(fit.release), fit.spec.user_rows(), 0.01)
    >>> np.sqrt(worst.sampling).round(3), worst.privacy
    (array([0.396, 0.005, 0.072]), array([0., 0., 0.]))
    """
    limits, n = limits_of(evidence, beta), evidence.problem.n
    fixed = contrasts**2 @ evidence.calibration.shield.variances
    noise = evidence.calibration.noise.variances
    if evidence.calibration.placement == "output":
        released = contrasts**2 @ noise
    # the limits of the noise are in the units of the matrices
    noise, contrasts = noise * evidence.units**2, contrasts * evidence.units
    evidence = undivided(evidence)
    raised = evidence.scores + limits.scores * np.eye(len(evidence.w))
    spread = floored(raised, 0.0) / n
    if evidence.calibration.placement == "output":
        sampling = [largest_form(spread, evidence, limits, a)[0] for a in contrasts]
        return WorstErrors(evidence, np.array(sampling) + fixed, released)
    both = spread + np.diag(noise) / n**2
    found = [largest_form(both, evidence, limits, a) for a in contrasts]
    total = np.array([value for value, _ in found])
    parts = np.array([[v @ spread @ v, v @ both @ v] for _, v in found])
    share = np.clip(parts[:, 0] / np.maximum(parts[:, 1], SMALLEST), 0.0, 1.0)
    return WorstErrors(evidence, total * share + fixed, total * (1 - share))


def largest_form(
    form: FloatArray, evidence: NoisyMoments, limits: NoiseLimits, a: FloatArray
) -> tuple[float, FloatArray]:
    """Bound ``v' form v`` over all possible ``v = H^-1 a``; returns about where it is attained too.

    With the noisy H, and within the limits, ``v.(a - floor v) >= 0``, ``|a - H v| <= across |v|``
    and ``|v.(a - H v)| <= along |v|^2``. These are four quadratic inequalities. They are added to
    the form with positive multipliers. If the sum is concave in v, its maximum is a bound (the
    S-procedure). The bound is convex in the multipliers, so Newton's method approaches the
    smallest one.
    """
    length = float(np.linalg.norm(a))
    if length == 0 or limits.across == 0:
        exact: FloatArray = np.linalg.solve(evidence.curvature, a).astype(np.float64)
        return float(exact @ form @ exact), exact
    a, h, floor = a / length, evidence.curvature, evidence.floor
    top = max(float(np.linalg.eigvalsh(form)[-1]), SMALLEST)
    share = limits.across / max(float(np.linalg.eigvalsh(h)[0]), floor)
    if share < _NEGLIGIBLE:
        # the multipliers would lose their digits; instead use that v is close to H^-1 a:
        # its distance is at most share |v|
        v: FloatArray = np.linalg.solve(h, a).astype(np.float64)
        moved = share / (1 - share) * float(np.linalg.norm(v))
        value = (math.sqrt(max(float(v @ form @ v), 0.0)) + math.sqrt(top) * moved) ** 2
        return value * length**2, v * length
    identity = np.eye(len(a))
    sides = limits.along * identity
    dual = LagrangeDual(
        form,
        np.array([-floor * identity, limits.across**2 * identity - h @ h, sides - h, sides + h]),
        np.array([a / 2, h @ a, a / 2, -a / 2]),
        np.array([0.0, -1.0, 0.0, 0.0]),
    )
    # the first inequality alone bounds the form by |form| |a|^2 / floor^2, at the multiplier
    # 2 |form| / floor; starting there, with small multipliers of the limits, the sum is concave
    units = np.array([1 / floor, _START / limits.across**2, *[_START / limits.along] * 2])
    multipliers = 2 * top * units
    # the weight of the barrier falls in steps, so each start is near the minimum of its problem
    for closeness in _CLOSENESS:
        multipliers = _descended(dual, multipliers, closeness)
        if not 0 < dual.bound(multipliers)[0] < math.inf:
            # no v satisfies all limits, so the noise is beyond them; the bound of the floor holds
            return top * (length / floor) ** 2, a * length / floor
    value, v = dual.bound(multipliers)
    return value * length**2, v * length


@dataclass(frozen=True, slots=True, eq=False)
class LagrangeDual:
    """The maximum over v of ``v' form v + sum_i m_i (v' Q_i v + 2 p_i.v + c_i)``, given m."""

    form: FloatArray
    quadratic: FloatArray
    linear: FloatArray
    constant: FloatArray

    def concave(self, m: FloatArray) -> FloatArray:
        """Return minus the matrix of the sum; a maximum exists if it is positive definite."""
        return np.asarray(-self.form - np.einsum("i,ijk->jk", m, self.quadratic))

    def bound(self, m: FloatArray) -> tuple[float, FloatArray]:
        """Return value and place of the maximum; the value is infinite if there is none."""
        concave = self.concave(m)
        try:
            np.linalg.cholesky(concave)
        except np.linalg.LinAlgError:
            return math.inf, self.linear[0]
        v: FloatArray = np.linalg.solve(concave, m @ self.linear).astype(np.float64)
        return float(m @ self.linear @ v + m @ self.constant), v

    def barred(self, m: FloatArray, weight: float) -> float:
        """Add logarithmic barriers to the bound, which keep multipliers where a maximum exists."""
        value = self.bound(m)[0] if (m > 0).all() else math.inf
        if math.isinf(value):
            return value
        return value - weight * float(np.log(m).sum() + np.linalg.slogdet(self.concave(m))[1])

    def derivatives(self, m: FloatArray, weight: float) -> tuple[FloatArray, FloatArray]:
        """Return gradient ``(4,)`` and Hessian ``(4, 4)`` of `barred`, in units of `m`."""
        v = self.bound(m)[1]
        inverse = np.linalg.inv(self.concave(m))
        image = self.quadratic @ v
        push, turned = image + self.linear, inverse @ self.quadratic
        gradient = image @ v + 2 * self.linear @ v + self.constant
        gradient = gradient + weight * np.trace(turned, axis1=1, axis2=2)
        curvature = 2 * push @ inverse @ push.T
        curvature = curvature + weight * np.einsum("iab,jba->ij", turned, turned)
        return gradient * m - weight, curvature * np.outer(m, m) + weight * np.eye(len(m))


def _descended(dual: LagrangeDual, m: FloatArray, closeness: float) -> FloatArray:
    """Return multipliers whose bound exceeds the least by a few times `closeness`, relatively."""
    weight = closeness * dual.bound(m)[0]
    value = dual.barred(m, weight)
    for _ in range(_STEPS):
        # in units of the multipliers, because their sizes differ by orders of magnitude
        with np.errstate(all="ignore"):
            slope, bend = dual.derivatives(m, weight)
        if not (np.isfinite(slope).all() and np.isfinite(bend).all()):
            return m  # squares are beyond doubles, and any multipliers give a valid bound
        # least squares, because rounding may leave the Hessian singular
        step = -np.linalg.lstsq(bend, slope, rcond=None)[0]
        decrease = -float(step @ slope)
        if decrease < 1e-3 * weight:  # the rest is far below the error that the barrier causes
            break
        # halve the step until the value falls by a tenth of what the slope predicts; beyond the
        # barrier the value is infinite, so this also keeps the multipliers above 0
        length = 1.0
        while (moved := dual.barred(m * (1 + length * step), weight)) > value - (
            0.1 * length * decrease
        ):
            length /= 2
            if length < 1e-6:  # only rounding is left, and any multipliers give a valid bound
                return m
        m, value = m * (1 + length * step), moved
    return m


def worst_p_values(
    known: WorstErrors, contrasts: FloatArray, off: FloatArray, alpha: float
) -> FloatArray:
    """Return p-values ``(m,)`` of combinations ``(m, d)`` whose distance from their null is `off`.

    Each of a few betas gives the value ``tail / (1 - SHARE)``, raised to ``beta / SHARE`` if it is
    smaller. The smallest of these values is a p-value: among the limits with beta up to
    ``SHARE alpha`` the narrowest fail with probability ``SHARE alpha``, and within them no tail is
    smaller than the true one. At the level `alpha` it agrees with the interval.

    Parameters
    ----------
    known : WorstErrors
        Those of the combinations for ``beta = SHARE alpha``.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import evidence_of, worst_errors, worst_p_values
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=0, spend="inference", **public)  # no noise
    >>> rows = fit.spec.user_rows()
    >>> worst = worst_errors(evidence_of(fit.release), rows, 0.005)  # a tenth of .05
    >>> worst_p_values(worst, rows, np.abs(rows @ fit.release.coef), 0.05).round(3)
    array([0.   , 0.939, 0.   ])
    """
    found, left = np.ones(len(off)), np.arange(len(off))
    for level in sorted({alpha, *_LEVELS}, reverse=True):
        if left.size == 0:
            break
        law = WorstErrors(known.evidence, known.sampling[left], known.privacy[left])
        if level != alpha:
            law = worst_errors(known.evidence, contrasts[left], SHARE * level)
        tail = law.beyond(off[left]) / (1 - SHARE)
        found[left] = np.minimum(found[left], np.maximum(tail, level))
        # with a smaller beta the limits are wider and the tail is longer, so only a value that was
        # raised can become smaller
        left = left[tail < level]
    return found
