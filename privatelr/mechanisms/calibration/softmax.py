"""What one record of K classes does to the softmax objective: bounds for its noise.

The objective of K classes has a vector w_k of coefficients for each, with the penalty
``(Lambda / 2) sum_k |w_k|^2``, and a record (x, y) adds ``log sum_k exp(x.w_k) - x.w_y``. With the
probabilities p of the classes at x, its gradient is ``(p - e_y) (x) x`` and its curvature
``(diag p - p p') (x) x x'``, where (x) is the Kronecker product. As everywhere ``|x| <= R`` and
``kappa = R^2 / Lambda``. Write ``s = 1 - p_y``. The proofs are in theory.md#several-classes.

**Gradient.** The sizes of the K slopes have the sum 2 s, not K, and their Euclidean length is at
most ``sqrt(2) s``. Laplace noise that is drawn for each class by itself has the density
``exp(-rate sum_k N(b_k))``, with a norm N that is at most 1 on rows; its exponent changes by at
most ``2 rate (s + s')``, whatever K is.

**Curvature.** The determinant of the Hessian grows by a factor of at most

    D(s) = (1 + kappa s / (K - 1))^(K - 2) (1 + kappa s (1 - s) K / (K - 1)),

and of at most ``(1 + kappa / K)^(K - 1)`` over all p. Of two classes ``kappa`` is twice that of
`pure`, as the penalty on the difference of two vectors is half as large.

**Theorem (joint bound).** With ``g = 2 rate`` the tilt costs ``g + max_s [g s + log D(s)]``.
Unlike that of two classes, the curvature does not vanish at s = 1, where the record is certainly
not of its class and any of K - 1 others: it costs ``(K - 2) log(1 + kappa / (K - 1))`` there, so
that no penalty makes it free. Records that count less, and long rows, change nothing.

**Gaussian tilts.** With ``m = sqrt(2) R / sigma`` and C the largest cost of the curvature,

    delta(eps) <= (K-1) delta_G(eps-C; 2m) + (K-1)(K-2) delta_G(eps-C; sqrt(3) m)
                  + 2 (K-1) delta_G(eps-C; m),

and the Renyi divergence of order a is at most ``2 a m^2 + C + sqrt(2) m E max(Z_1..Z_K)``. C is
``(K - 1) log(1 + kappa / K)``, and 0 where ``kappa <= m^2 / 4``, but not for long rows.

**Persons.** With ``q(s) = 2 s - s^2 K / (K - 1)`` the tilt costs ``g + max_s [g s + kappa q(s)]``,
or by one term ``2 g + kappa (K - 1) / K``. For Gaussian tilts `privatelr.privacy.person_tilt`
averages over records, whose vertices are those above, with ``C = kappa (K - 1) / K`` or 0.
"""

from __future__ import annotations

import math

from privatelr.privacy import softmax_curvature_cost
from privatelr.privacy.noise import smallest

_FLAT = 1e30
"""Largest ratio of Lambda to R^2 that is searched."""
_PRECISE = 1e-12
"""Width of the bracket at which the search for a maximum ends."""
curvature_cost = softmax_curvature_cost


def kappa_costing(share: float, classes: int, *, persons: bool = False) -> float:
    """Return the kappa at which the curvature costs this much."""
    if persons:
        return share * classes / (classes - 1)
    return classes * math.expm1(share / (classes - 1))


def log_determinant(s: float, kappa: float, classes: int) -> float:
    """Return ``log D(s)``: the cost of the curvature of a record whose class has ``1 - s``."""
    rest = classes - 1
    return (classes - 2) * math.log1p(kappa * s / rest) + math.log1p(
        kappa * s * (1 - s) * classes / rest
    )


def joint_epsilon(g: float, kappa: float, classes: int) -> float:
    """Return ``g + max_s [g s + log D(s)]``, the price of a Laplace tilt of rate ``g / 2``.

    The function of s is concave: a sum of logarithms of concave functions. Its derivative falls,
    and is bisected; beside the point that is found, no value is higher by more than the derivative
    times the width of the bracket.
    """
    if not math.isfinite(kappa):
        return math.inf

    def slope(s: float) -> float:
        rest = classes - 1
        bent = kappa * classes / rest
        shared = (classes - 2) * kappa / rest / (1 + kappa * s / rest)
        return g + shared + bent * (1 - 2 * s) / (1 + bent * s * (1 - s))

    if slope(1.0) >= 0:
        return 2 * g + log_determinant(1.0, kappa, classes)
    low, high = 0.5, 1.0
    while high - low > _PRECISE:
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) >= 0 else (low, middle)
    return g + g * high + log_determinant(low, kappa, classes) + slope(low) * (high - low)


def person_cost(kappa: float, classes: int) -> float:
    """Return ``kappa (K - 1) / K``, the most that a person changes the log determinant."""
    return kappa * (classes - 1) / classes


def person_epsilon(g: float, kappa: float, classes: int) -> float:
    """Return ``g + max_s [g s + kappa q(s)]``, the price of a Laplace tilt for persons."""
    rest = classes - 1
    if not math.isfinite(kappa):
        return math.inf
    if g * rest >= 2 * kappa:  # the maximum is at s = 1
        return 2 * g + kappa * (classes - 2) / rest
    return g + (g + 2 * kappa) ** 2 * rest / (4 * kappa * classes)


def penalty_keeping(
    share: float, epsilon: float, radius: float, classes: int, *, persons: bool = False
) -> float:
    """Return the least Lambda at which this share of the rate without curvature costs epsilon."""
    price = person_epsilon if persons else joint_epsilon

    def holds(ratio: float) -> bool:
        return price(share * epsilon / 2, 1 / ratio, classes) <= epsilon

    return smallest(holds, 1.0, _FLAT) * radius**2
