"""How far the minimiser on the simplex moves when one record is replaced."""

from __future__ import annotations

import math
from dataclasses import dataclass

from privatelr.errors import GuaranteeError, require_number
from privatelr.privacy.guarantees import REPLACE_ONE, Neighbours

_ROUNDING = 1e-12
"""Of a dozen operations, relative, on the safe side."""


@dataclass(frozen=True, slots=True)
class Stability:
    """Bounds between the minimisers theta and theta' of neighbours; all of them hold.

    Attributes
    ----------
    largest : float
        No ``|log theta_k / theta'_k|`` is above it.
    width : float
        All ``log theta_k / theta'_k`` lie in one interval of this length.
    sd : float
        On the path from one objective to the other, the speed of ``log theta`` has at most this
        standard deviation under the theta of the moment.
    kappa : float
        What the rows can add to the curvature, relative to that of the entropy.
    """

    largest: float
    width: float
    sd: float
    kappa: float


def simplex_stability(
    n: int,
    lambda_: float,
    slope_bound: float,
    curvature_bound: float,
    width: float,
    slack: float = 0.0,
    neighbours: Neighbours = REPLACE_ONE,
) -> Stability:
    """Stability of ``argmin (1/n) sum_i loss_i(<x_i, theta>) + lambda sum theta_k log theta_k``.

    Parameters
    ----------
    n
        Records, public.
    lambda_
        Penalty of the mean objective. Papers that penalise the sum of losses, Jain and Thakurta
        (2014) among them, write ``lam = n lambda_``, and so do the formulas below.
    slope_bound, curvature_bound
        L and c: largest slope and curvature of the losses where they can be evaluated. Only
        Lipschitz slopes are needed, with constant c.
    width
        W: the largest difference of two entries of a row x over the options; the bounds do not
        see a constant that is added to a row.
    slack
        The tolerance of the solver. A point whose KKT conditions spread over an interval of this
        length is the exact minimiser with a linear term of that range added.
    neighbours
        Replace one record.

    Notes
    -----
    With ``G = 2 L W + 2 slack``, ``kappa = n c W**2 / (4 lam)``:

    - ``largest = G / lam (1 + sqrt(1 + kappa)) / 2``;
    - ``width = G / lam (1 + sqrt(kappa) / 2)``, and for kappa below one
      ``G / lam (1 + kappa / (1 + kappa))``;
    - ``sd = G / (2 lam)``.

    Proof. Let F_t go linearly from the one objective to the other, theta its minimiser and u the
    derivative of ``log theta`` by t, which exists almost everywhere. The derivative of the KKT
    conditions reads ``lam u_k + sum_j D_j x_jk v_j + g_k = const`` for all options k. Here D_j is
    a curvature, in [0, c], the weights of the sum are worth n records, ``v_j = Cov(x_j, u)`` under
    theta, ``E u = 0``, and g is what the replaced record changes in the gradient, of range G at
    most. With q and s the standard deviations of u and g, and ``E = sum D_j v_j**2``, the
    covariance of this equation with u gives ``E + lam q**2 <= s q``. So ``q <= s / lam``, and
    s is at most ``G / 2``: that is `sd`. Also ``E <= s**2 / (4 lam)``, and as
    ``|v_j| <= W q / 2`` also ``E <= kappa lam q**2``, which is the better bound if kappa < 1. By
    Cauchy and Schwarz, ``|sum_j D_j (x_jk - x_jl) v_j| <= sqrt(n c E) W``; with ``s <= G / 2``
    the difference of two entries of the equation gives `width`. For `largest`, take the
    equation's distance to its mean: if g_k lies ``a G`` from the mean of g, then
    ``s <= G sqrt(a (1 - a))`` (Bhatia and Davis 2000), and ``a + sqrt(kappa a (1 - a))`` is at
    most ``(1 + sqrt(1 + kappa)) / 2``. All bounds are integrated over t. The slack adds to g
    the difference of two linear terms, of range ``2 slack`` at most.
    """
    if neighbours is not REPLACE_ONE:
        raise GuaranteeError("neighbours: simplex_stability takes REPLACE_ONE, n being public.")
    above, least = "a finite number above 0", "a finite number from 0"
    require_number(GuaranteeError, "n", n, "an integer from 1", at_least=1)
    require_number(GuaranteeError, "lambda_", lambda_, above, above=0)
    require_number(GuaranteeError, "slope_bound", slope_bound, above, above=0)
    require_number(GuaranteeError, "curvature_bound", curvature_bound, least, at_least=0)
    require_number(GuaranteeError, "width", width, above, above=0)
    require_number(GuaranteeError, "slack", slack, least, at_least=0)
    lam = n * lambda_
    rate = (2 * slope_bound * width + 2 * slack) / lam * (1 + _ROUNDING)
    kappa = n * curvature_bound * width**2 / (4 * lam) * (1 + _ROUNDING)
    bent = math.sqrt(kappa) / 2 if kappa >= 1 else kappa / (1 + kappa)
    largest = rate * (1 + math.sqrt(1 + kappa)) / 2
    return Stability(largest, rate * (1 + bent), rate / 2, kappa)
