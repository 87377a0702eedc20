"""What one record of K classes does to the softmax objective: bounds for its noise.

The objective of K classes has a vector w_k of coefficients for each, with the penalty
``(Lambda / 2) sum_k |w_k|^2``, and a record (x, y) adds ``log sum_k exp(x.w_k) - x.w_y``. With the
probabilities p of the classes at x, its gradient is ``(p - e_y) (x) x`` and its curvature
``(diag p - p p') (x) x x'``, where (x) is the Kronecker product. As everywhere ``|x| <= R`` and
``kappa = R^2 / Lambda``. Write ``s = 1 - p_y``. The map from tilts b ``(K d,)`` to minimisers is a
bijection as for one vector, so that the density of a release is that of b times the determinant of
the Hessian (privacy.md, Lemma 0), and neighbours replace one record.

**Gradient.** ``e_y - p = sum_j p_j (e_y - e_j)``. So the sizes of the K slopes have the sum 2 s,
not K, and the Euclidean length is at most ``sqrt(2) s R``, not ``s R``. Laplace noise that is drawn
for each class by itself has density ``exp(-rate sum_k N(b_k))``, with a norm N that is at most 1 on
rows; its exponent changes by at most ``2 rate (s + s')``, whatever K is.

**Curvature.** For a shared curvature ``A >= Lambda I`` and ``diag p - p p' = B B'``, the ratio
``det(A + B B' (x) x x') / det A = det(I + (B (x) x)' A^-1 (B (x) x))`` is at most
``det(I + kappa B' B) = prod_j (1 + kappa p_j) sum_j p_j / (1 + kappa p_j)``
``= sum_m kappa^m (m + 1) e_{m+1}(p)``, with the elementary symmetric polynomials e of p. These are
Schur concave, so the determinant is largest where p is uniform: ``(1 + kappa / K)^(K - 1)``. With
p_y given it is largest where the other K - 1 classes share s equally, which gives

    D(s) = (1 + kappa s / (K - 1))^(K - 2) (1 + kappa s (1 - s) K / (K - 1)).

The rank is K - 1, not 1. Of two classes ``kappa`` is twice that of `pure`, as the penalty on the
difference of two vectors is half as large.

**Theorem (joint bound).** With ``g = 2 rate`` the tilt costs ``g + max_s [g s + log D(s)]``.
*Proof.* The exponent changes by at most ``g (s + s')``, the determinants by at most the old
record's ``log D(s)``, because the new one's only lowers the ratio, and s' is at most 1. QED.
Unlike that of two classes, the curvature does not vanish at s = 1, where the record is certainly
not of its class and any of K - 1 others: it costs ``(K - 2) log(1 + kappa / (K - 1))`` there, so
that no penalty makes it free.

**Weights.** A record that counts a in [0, 1] has the gradient ``a (p - e_y) (x) x`` and the
curvature ``a (diag p - p p') (x) x x'``. With ``s = a (1 - p_y)`` its determinant is at most
``(1 + kappa s / (K - 1))^(K - 2) (1 + kappa s (1 - s / a) K / (K - 1)) <= D(s)``, so that the
theorem holds as it stands. A long row that counts less has the curvature of a whole row and a
smaller gradient, and g s rises in s.

**Gaussian tilts.** The privacy loss is at most the cost of the curvature, C, plus
``max [b.Delta + |Delta|^2 / 2] / sigma^2`` over ``Delta`` in the sum of the polytopes of both
records, which is convex, so that a vertex ``(e_y' - e_j') (x) x' - (e_y - e_j) (x) x`` is largest.
If j = y or j' = y' its length is at most ``sqrt(2) R``. Else ``|Delta|^2`` is
``2 |x|^2 + 2 |x'|^2 - 2 G x.x'`` with ``G = (e_y' - e_j').(e_y - e_j)``. For y = y', G is 2 for the
K - 1 pairs j = j' and 1 for the other (K - 1)(K - 2), and x' = -x is worst for all of them:
``8 R^2`` and ``6 R^2``. For y other than y' it is -2 once, -1 for 2 (K - 2) pairs, 1 for K - 2, and
0 for the rest; so whatever the sign of x.x', the k-th largest length is no larger than for y = y'.
With ``m = sqrt(2) R / sigma``:

    delta(eps) <= (K-1) delta_G(eps-C; 2m) + (K-1)(K-2) delta_G(eps-C; sqrt(3) m)
                  + 2 (K-1) delta_G(eps-C; m),

with (a) of Theorem 4.2 for K = 2. The maximum is a function of the normal b with the slope
``2 m / sigma``, whose mean is at most ``2 m^2 + sqrt(2) m E max(Z_1..Z_K)``: the maxima over both
polytopes are independent of how the vertices pair up. By the concentration of such functions the
Renyi divergence of order a is at most ``2 a m^2 + C + sqrt(2) m E max(Z_1..Z_K)``.
C is ``(K - 1) log(1 + kappa / K)``, and 0 where ``kappa <= m^2 / 4``: the logarithm of the
determinant is at most ``kappa (1 - |p|^2)``, and with the ``m^2 / 4 |p|^2`` of the square a convex
function of p, whose vertices have no curvature. For a record that counts a, and v its a (e_y - p),
``kappa a (1 - |p|^2)`` grows in a at the same v, so that a = 1 is the worst; but not for long rows.

**Persons.** A person's records have weights a_j whose sum is at most 1. Let ``s = sum_j a_j s_j``.
Their gradients have slopes whose sizes add up to at most ``2 s``, and their curvatures add to the
logarithm of the determinant at most ``kappa sum_j a_j (1 - |p_j|^2)``, as that is subadditive and
at most a trace. With p_y given ``1 - |p|^2`` is largest where the others share s equally:
``q(s) = 2 s - s^2 K / (K - 1)``, which is concave and 0 at 0, so that the sum is at most q(s). So
the tilt costs ``g + max_s [g s + kappa q(s)]``, or by one term ``2 g + kappa (K - 1) / K``. At
s = 1 its curvature costs ``kappa (K - 2) / (K - 1)``. QED. A long row that counts less lowers g s
and leaves q. For Gaussian tilts `privatelr.privacy.noise.person_tilt` averages over records, whose
vertices are those above, with ``C = kappa (K - 1) / K`` or 0.
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
