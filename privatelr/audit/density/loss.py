"""The exact privacy loss of coefficients between two datasets.

The shield is the small noise that covers the distance to the exact minimiser. It is so small that
the tilted minimiser and the released w are treated as equal, and its loss is counted as its claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from privatelr.audit.checks import number
from privatelr.audit.density import exact
from privatelr.audit.density.exact import Charge
from privatelr.audit.density.loss_profile import PrivacyLossDistribution, loss_law
from privatelr.audit.density.pairs import Pair
from privatelr.errors import GuaranteeError
from privatelr.mechanisms import Problem
from privatelr.mechanisms.calibration import Calibration, MomentsCalibration
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, PureDP, SharedApproxDP, to_zcdp
from privatelr.privacy.noise import NoiseLaw, log_delta
from privatelr.types import FloatArray

SLACK = 1e-6
"""An exact loss has at most this relative rounding error."""
SEED = 20_240_229
"""Searches and integrals use this seed, so that a loss is the same each time."""


@dataclass(frozen=True, slots=True, eq=False)
class PrivacyLoss:
    """The privacy loss of a mechanism on a pair of datasets, in the unit of its claim.

    Attributes
    ----------
    claim : Guarantee
    found : float
        The loss: an epsilon under a pure claim, a rho under a zCDP claim, or a delta at the
        epsilon of an approximate claim.
    tilt : float
        The part of the loss that is computed from the two datasets. Under objective perturbation
        it is the loss of the tilted minimiser, under output perturbation it is all of the loss.
    tilt_claim : float
        The largest value that the claim allows for `tilt`.
    shield : float
        The loss that is added for the distance to the exact minimiser, at its claimed size.
    output : ndarray of shape (d,) or None
        The coefficients at which a pure loss is largest.
    moments, scale, counts : float
        The loss that moments, the scale of columns and counts of scores add, if they are released.
    of : str
        What is released: ``"coefficients"``, ``"moments"``, ``"scale"``, ``"counts"``, or several
        of them.
    parts : tuple of PrivacyLoss
        For several releases, the loss of each alone, where it is largest, and compared with the
        part of the claim that pays for it.

    Examples
    --------
    >>> from privatelr import audit, dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age", votes, eps=1.0, do_scale=False, **public)
    >>> neighbour = votes.assign(vote=["Dole", *votes["vote"][1:]])
    >>> loss = audit.privacy_loss(fit, votes, neighbour)  # a PrivacyLoss
    >>> loss.holds, loss.claimed
    (True, 1.0)
    """

    claim: Guarantee
    found: float
    tilt: float
    tilt_claim: float
    shield: float = 0.0
    output: FloatArray | None = None
    moments: float = 0.0
    scale: float = 0.0
    of: str = "coefficients"
    parts: tuple[PrivacyLoss, ...] = ()
    counts: float = 0.0

    @property
    def claimed(self) -> float:
        """The number of the claim that `found` is compared to."""
        return claimed_number(self.claim)

    @property
    def ratio(self) -> float:
        """``found / claimed``: above 1, the claim is wrong."""
        return self.found / self.claimed

    @property
    def tilt_ratio(self) -> float:
        """``tilt / tilt_claim``: 1 where the bound is attained."""
        return self.tilt / self.tilt_claim

    @property
    def holds(self) -> bool:
        """Whether the loss, and that of each part, is within its claim, up to rounding."""
        return self.ratio <= 1 + SLACK and all(part.holds for part in self.parts)

    def __str__(self) -> str:
        verdict = "ok" if self.holds else "VIOLATION"
        added = {
            "of the scale": self.scale,
            "of the moments": self.moments,
            "of the counts of scores": self.counts,
            "for the approximate minimum": self.shield,
        }
        shares = " and ".join(f"{share:.3g} {what}" for what, share in added.items() if share)
        line = (
            f"{_UNITS[type(self.claim)]} {self.found:.6g}{f' (with {shares})' if shares else ''} "
            f"on this pair, claim {self.claimed:.6g}, ratio {self.ratio:.4f}: {verdict}"
        )
        alone = ", ".join(f"{part.of} {part.ratio:.4f}" for part in self.parts)
        return f"{line}\nalone, over their parts of the claim: {alone}" if alone else line


_UNITS = {PureDP: "epsilon", ZCDP: "rho", ApproxDP: "delta", SharedApproxDP: "delta"}
"""A loss is compared with this attribute of its claim."""


def claimed_number(claim: Guarantee) -> float:
    """The number of a claim that a loss is compared with: its epsilon, rho or delta."""
    if type(claim) not in _UNITS:
        raise no_claim(claim)
    number: float = getattr(claim, _UNITS[type(claim)])
    return number


def no_claim(claim: Guarantee) -> GuaranteeError:
    """Return the error for a release without a guarantee, which cannot be audited."""
    return GuaranteeError(f"audit: there is no claim to check, the guarantee is {claim}.")


# -- coefficients -----------------------------------------------------------------------------


def loss_of(pair: Pair, calibration: Calibration, outputs: FloatArray | None = None) -> PrivacyLoss:
    """The `privacy_loss` of coefficients on a pair, the larger one of the two directions.

    The loss of output perturbation follows from the distance of the two minimisers. The loss of
    objective perturbation is found by a search under a pure claim, and by integration under any
    other. `outputs` ``(m, d)`` are further points from which to search.
    """
    claim, problem = calibration.proven, calibration.problem
    if calibration.placement == "output":
        first, second = exact.centres(pair, problem)
        distance = float(np.linalg.norm(first - second)) + calibration.distance
        found = shown(calibration.noise, claim, distance)
        return PrivacyLoss(claim, found, found, claimed_number(claim))
    if not isinstance(claim, PureDP):
        return loss_of_laws(laws_of(pair, calibration), calibration)
    starts = [*([] if outputs is None else [outputs]), places(pair, calibration)]
    ways = [(exact.likelihood_ratio(calibration, way),) for way in (pair, pair.swapped())]
    return _with_shield(calibration, *climb(ways, starts, problem))


def loss_at(pair: Pair, calibration: Calibration, w: FloatArray) -> PrivacyLoss:
    """The absolute loss of objective perturbation under a pure claim, at one output w ``(d,)``."""
    return _with_shield(
        calibration, abs(float(exact.likelihood_ratio(calibration, pair)(w[None])[0])), w
    )


def shown(noise: NoiseLaw, claim: Guarantee, distance: float) -> float:
    """The loss of noise on two vectors at a distance, in the unit of the claim.

    Under Laplace noise the log ratio is largest far out along the difference of the vectors, where
    it is the norm of that difference. Under Gaussian noise the loss depends only on the distance
    over the standard deviation.
    """
    pure = -noise.log_density(distance * np.eye(1, noise.dimension)[0])
    match claim, noise.is_pure:
        case PureDP(), _:
            return pure
        case ZCDP(), False:
            return (distance / noise.scale) ** 2 / 2
        case ZCDP(), True:
            return to_zcdp(PureDP(pure)).rho if pure > 0 else 0.0
    epsilon, beside = (claim.epsilon, claim.beside) if isinstance(claim, ApproxDP) else (0.0, 0.0)
    return math.exp(log_delta(epsilon, math.hypot(distance / noise.scale, beside)))


def _with_shield(calibration: Calibration, tilt: float, w: FloatArray) -> PrivacyLoss:
    """The pure loss of a release: that of the tilted minimiser, plus the claim of the shield."""
    step = np.eye(1, calibration.problem.d)[0] * calibration.distance
    shield = -calibration.shield.log_density(step)
    claim = calibration.proven
    return PrivacyLoss(claim, tilt + shield, tilt, claimed_number(claim) - shield, shield, w)


def climb(
    ways: Sequence[Sequence[Charge]], starts: Sequence[FloatArray], problem: Problem
) -> tuple[float, FloatArray]:
    """A local maximum of the sum of log ratios, the larger of two directions, and its output."""
    found, at = [], np.vstack(starts)
    for charges in ways:

        def below(w: FloatArray, charges: Sequence[Charge] = charges) -> float:
            return -number(float(sum(charge(w[None])[0] for charge in charges)))

        total = np.sum([charge(at) for charge in charges], axis=0)
        start = at[int(np.argmax(total))]
        size = float(np.abs(start).max()) + 1 / problem.radius
        options = {"maxiter": 100 * len(start), "xatol": 1e-6 * size, "fatol": 1e-7}
        reached = optimize.minimize(below, start, method="Nelder-Mead", options=options)
        found.append((-float(reached.fun), reached.x))
    return max(found, key=lambda reached: reached[0])


def places(pair: Pair, calibration: Calibration) -> FloatArray:
    """Outputs ``(m, d)`` from which to search, of many lengths and in many directions.

    Some directions are random. Others are those of the minimisers without noise, and directions
    that are nearly orthogonal to both records, such as a large intercept with a slope that
    compensates for it.
    """
    d, rng = pair.d, np.random.default_rng(SEED)
    middles = exact.centres(pair, calibration.problem)
    directions = [*rng.standard_normal((60, d)), *middles]
    if d > 1:
        basis = np.linalg.qr(np.column_stack([pair.old, pair.new, np.eye(d)]))[0]
        lean = 10.0 ** rng.uniform(-3, 0, size=(60, 1)) * rng.standard_normal((60, d))
        directions += [*(basis[:, d - 1] + lean), *(-basis[:, d - 1] + lean)]
    sizes = 10.0 ** rng.uniform(-2, 3, size=(len(directions), 1)) / calibration.problem.radius
    lengths = np.linalg.norm(directions, axis=1, keepdims=True) + 1e-300
    scaled = np.asarray(directions) / lengths * sizes
    return np.vstack([*(k * middle for middle in middles for k in (0.5, 1.0, 2.0, 4.0)), scaled])


def laws_of(
    pair: Pair, calibration: Calibration, moments: MomentsCalibration | None = None
) -> list[PrivacyLossDistribution]:
    """The laws of the loss of the coefficients in both directions, with the mu of the moments."""
    rng = np.random.default_rng(SEED)

    def mu_of_moments(w: FloatArray) -> FloatArray:
        assert moments is not None
        distance = exact.query_distance(pair, moments, w) / moments.noise.scale
        if not moments.noise.is_pure:
            return distance
        if isinstance(moments.target, ZCDP):  # the mu of a Gaussian release with the same rho
            return np.asarray(np.sqrt(2 * distance * np.tanh(distance / 2)))
        return np.zeros(len(w))

    beside = None if moments is None else mu_of_moments
    return [loss_law(way, calibration, rng, beside) for way in (pair, pair.swapped())]


def loss_of_laws(laws: list[PrivacyLossDistribution], calibration: Calibration) -> PrivacyLoss:
    """The loss of a mechanism, from the laws of the loss of its tilt in both directions."""
    claim: Any = calibration.target
    mu = math.hypot(shield_ratio(calibration), getattr(claim, "beside", 0.0))
    tilt, found = largest(laws, claim), largest(laws, claim, mu)
    return PrivacyLoss(claim, found, tilt, rest_of(claim, mu), found - tilt)


def largest(
    laws: list[PrivacyLossDistribution], claim: Guarantee, mu: float = 0.0, off: float = 0.0
) -> float:
    """The larger loss of two laws in the unit of a claim, with a Gaussian release of ratio `mu`.

    A delta is taken at the epsilon of the claim less `off`, the epsilon that other parts spend.
    """
    if isinstance(claim, ApproxDP):
        return max(law.delta(claim.epsilon - off, mu) for law in laws)
    return max(law.rho() for law in laws) + mu * mu / 2


def rest_of(claim: Guarantee, mu: float) -> float:
    """The rho that remains after a Gaussian release of ratio `mu`; a delta is returned whole."""
    return claimed_number(claim) - (0.0 if isinstance(claim, ApproxDP) else mu * mu / 2)


def shield_ratio(calibration: Calibration) -> float:
    """The distance that the shield covers over its standard deviation.

    It is infinite if there is a distance and no shield.
    """
    if calibration.distance == 0:
        return 0.0
    scale = calibration.shield.scale
    return calibration.distance / scale if scale > 0 else math.inf
