"""The privacy loss of a release of coefficients between two datasets, exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize

from privatelr.audit.density.exact import minimisers, tilt_losses
from privatelr.audit.density.loss_profile import loss_law
from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import Calibration
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, PureDP, to_zcdp
from privatelr.privacy.noise import GaussianNoise, NoiseLaw, log_delta
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.audit.density.loss_profile import PrivacyLossDistribution
    from privatelr.audit.density.pairs import Pair

SLACK = 1e-6
"""Relative rounding of an exact loss."""
SEED = 20_240_229
"""The seed of searches and integrals, so that a loss is the same each time."""


@dataclass(frozen=True, slots=True, eq=False)
class PrivacyLoss:
    """What a pair of datasets shows of a mechanism, in the unit of its claim.

    Attributes
    ----------
    claim : Guarantee
    found : float
        Epsilon of a pure claim, rho of a zCDP claim, or delta at the claim's epsilon.
    tilt : float
        The part of it that is computed from the two datasets: the tilted minimiser under
        objective perturbation, everything under output perturbation.
    tilt_claim : float
        What that part may reach.
    shield : float
        What is added for the distance to the exact minimiser, at its claim.
    output : ndarray of shape (d,) or None
        Where a pure loss is largest.
    moments : float
        What the moments add to the loss, if they are released with the coefficients.
    parts : tuple of PrivacyLoss
        Of a release of both: the coefficients alone and the moments alone, against the parts of
        the claim that pay for them, each where it is largest.
    """

    claim: Guarantee
    found: float
    tilt: float
    tilt_claim: float
    shield: float = 0.0
    output: FloatArray | None = None
    moments: float = 0.0
    parts: tuple[PrivacyLoss, ...] = ()

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
        """Whether the claim stands, and that of each part, up to rounding."""
        return self.ratio <= 1 + SLACK and all(part.holds for part in self.parts)

    def __str__(self) -> str:
        verdict = "ok" if self.holds else "VIOLATION"
        added = {"of the moments": self.moments, "for the approximate minimum": self.shield}
        shares = " and ".join(f"{share:.3g} {what}" for what, share in added.items() if share)
        unit = {PureDP: "epsilon", ZCDP: "rho", ApproxDP: "delta"}[type(self.claim)]
        line = (
            f"{unit} {self.found:.6g}{f' (with {shares})' if shares else ''} on this pair, claim "
            f"{self.claimed:.6g}, ratio {self.ratio:.4f}: {verdict}"
        )
        named = zip(("coefficients", "moments"), self.parts, strict=False)
        alone = ", ".join(f"{name} {part.ratio:.4f}" for name, part in named)
        return f"{line}\nalone, over their parts of the claim: {alone}" if alone else line


def claimed_number(claim: Guarantee) -> float:
    """Epsilon, rho or delta."""
    match claim:
        case PureDP():
            return claim.epsilon
        case ZCDP():
            return claim.rho
        case ApproxDP():
            return claim.delta
    raise no_claim(claim)


def no_claim(claim: Guarantee) -> GuaranteeError:
    """The refusal to audit what promises nothing."""
    return GuaranteeError(f"audit: there is no claim to check, the guarantee is {claim}.")


def loss_of(pair: Pair, calibration: Calibration, outputs: FloatArray | None = None) -> PrivacyLoss:
    """`privacy_loss` of a pair; `outputs` ``(m, d)`` are further places to search from."""
    if calibration.placement == "output":
        return _output_loss(pair, calibration)
    if isinstance(calibration.proven, PureDP):
        return _pure_loss(pair, calibration, outputs)
    return _profile_loss(pair, calibration)


def loss_at(pair: Pair, calibration: Calibration, w: FloatArray) -> PrivacyLoss:
    """The loss of objective perturbation under a pure claim at one output, either way round."""
    found = float(tilt_losses(pair, calibration.problem, calibration.noise, w[None])[0])
    return with_shield(calibration, abs(found), w)


def with_shield(calibration: Calibration, tilt: float, w: FloatArray) -> PrivacyLoss:
    """A pure loss of the tilted minimiser, and the shield at its claim."""
    shield = -calibration.shield.log_density(_step(calibration))
    claim = calibration.proven
    rest = claimed_number(claim) - shield
    return PrivacyLoss(claim, tilt + shield, tilt, rest, shield, w)


def _step(calibration: Calibration) -> FloatArray:
    """A vector as long as what the shield hides."""
    return np.asarray(np.eye(1, calibration.problem.d)[0] * calibration.distance)


# -- pure objective perturbation --------------------------------------------------------------


def _pure_loss(pair: Pair, calibration: Calibration, outputs: FloatArray | None) -> PrivacyLoss:
    """Local search over outputs, both ways round, from the best of many places."""
    problem, noise = calibration.problem, calibration.noise
    starts = places(pair, calibration)
    starts = starts if outputs is None else np.vstack([outputs, starts])
    found = [
        climb(partial(tilt_losses, way, problem, noise), starts, problem.radius)
        for way in (pair, pair.swapped())
    ]
    worst, at = max(found, key=lambda reached: reached[0])
    return with_shield(calibration, worst, at)


def climb(
    losses: Callable[[FloatArray], FloatArray], starts: FloatArray, radius: float
) -> tuple[float, FloatArray]:
    """A local maximum of losses ``(m,)`` of outputs near the best start, and where it is."""

    def below(w: FloatArray) -> float:
        return -float(losses(w[None])[0])

    start = starts[int(np.argmax(losses(starts)))]
    size = float(np.abs(start).max()) + 1 / radius
    options = {"maxiter": 100 * len(start), "xatol": 1e-6 * size, "fatol": 1e-7}
    found = optimize.minimize(below, start, method="Nelder-Mead", options=options)
    return -float(found.fun), found.x


def places(pair: Pair, calibration: Calibration) -> FloatArray:
    """Outputs ``(m, d)`` to search from: of many sizes, in random and in telling directions.

    Among them the minimisers without noise, and long vectors all but orthogonal to both
    records: a large intercept with a slope that makes up for it.
    """
    problem, d = calibration.problem, pair.d
    rng = np.random.default_rng(SEED)
    none = np.zeros((1, d))
    centres = [minimisers(side, problem, none)[0] for side in (pair.first(), pair.second())]
    directions = [*rng.standard_normal((60, d)), *centres]
    if d > 1:
        basis = np.linalg.qr(np.column_stack([pair.old, pair.new, np.eye(d)]))[0]
        lean = 10.0 ** rng.uniform(-3, 0, size=(60, 1)) * rng.standard_normal((60, d))
        directions += [*(basis[:, d - 1] + lean), *(-basis[:, d - 1] + lean)]
    sizes = 10.0 ** rng.uniform(-2, 3, size=(len(directions), 1)) / problem.radius
    lengths = np.linalg.norm(directions, axis=1, keepdims=True) + 1e-300
    scaled = np.asarray(directions) / lengths * sizes
    return np.vstack([*(k * centre for centre in centres for k in (0.5, 1.0, 2.0, 4.0)), scaled])


# -- output perturbation ----------------------------------------------------------------------


def _output_loss(pair: Pair, calibration: Calibration) -> PrivacyLoss:
    """The noise laws are symmetric about the minimiser: its shift says all."""
    problem, noise = calibration.problem, calibration.noise
    none = np.zeros((1, pair.d))
    shift = minimisers(pair.first(), problem, none)[0] - minimisers(pair.second(), problem, none)[0]
    claim = calibration.proven
    found = shown(noise, claim, float(np.linalg.norm(shift)) + calibration.distance)
    return PrivacyLoss(claim, found, found, claimed_number(claim))


def shown(noise: NoiseLaw, claim: Guarantee, distance: float) -> float:
    """What noise shows of a distance between the two centres it is added to, as the claim has it.

    Of a Laplace norm the log ratio is largest far out along the distance, where it is the norm of
    it; of a Gaussian the distance over the deviation says all.
    """
    pure = -noise.log_density(distance * np.eye(1, noise.dimension)[0])
    match claim, noise:
        case PureDP(), _:
            return pure
        case ZCDP(), GaussianNoise():
            return (distance / noise.scale) ** 2 / 2
        case ZCDP(), _:
            return to_zcdp(PureDP(pure)).rho if pure > 0 else 0.0
    epsilon = claim.epsilon if isinstance(claim, ApproxDP) else 0.0
    return math.exp(log_delta(epsilon, distance / noise.scale))


# -- Gaussian and zCDP objective perturbation -------------------------------------------------


def _profile_loss(pair: Pair, calibration: Calibration) -> PrivacyLoss:
    """By integration over the tilt, both ways round."""
    rng = np.random.default_rng(SEED)
    problem, noise = calibration.problem, calibration.noise
    laws = [loss_law(way, problem, noise, rng) for way in (pair, pair.swapped())]
    return loss_of_laws(laws, calibration)


def loss_of_laws(laws: list[PrivacyLossDistribution], calibration: Calibration) -> PrivacyLoss:
    """What the laws of the loss of the tilt, either way round, show of a mechanism."""
    claim, mu = calibration.target, shield_ratio(calibration)
    if isinstance(claim, ApproxDP):
        found, tilt = (max(law.delta(claim.epsilon, m) for law in laws) for m in (mu, 0.0))
        return PrivacyLoss(claim, found, tilt, claim.delta, found - tilt)
    shield = mu * mu / 2
    tilt = max(law.rho() for law in laws)
    return PrivacyLoss(claim, tilt + shield, tilt, claimed_number(claim) - shield, shield)


def shield_ratio(calibration: Calibration) -> float:
    """What the shield hides over its deviation; infinite where a distance has no shield."""
    if calibration.distance == 0:
        return 0.0
    scale = calibration.shield.scale
    return calibration.distance / scale if scale > 0 else math.inf
