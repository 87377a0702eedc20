"""The privacy loss of a mechanism between two datasets, exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import optimize

from privatelr.audit.exact import minimisers, tilt_losses
from privatelr.audit.pairs import Pair, SignedRows, pair_of, row_size, signed_rows
from privatelr.audit.profile import loss_law
from privatelr.errors import ArgumentError, GuaranteeError, show
from privatelr.frames.design import read_design
from privatelr.frames.source import as_frame
from privatelr.mechanisms.calibration.record import Calibration
from privatelr.numerics.rows import DenseRows
from privatelr.privacy.blocks import BlockLaplace
from privatelr.privacy.gaussian import log_delta
from privatelr.privacy.guarantees import ZCDP, ApproxDP, NonPrivate, PureDP
from privatelr.results.record import FitRecord

if TYPE_CHECKING:
    from privatelr.privacy.guarantees import Guarantee
    from privatelr.types import FloatArray

_SLACK = 1e-6
"""Relative rounding of an exact loss."""
_ROUNDING = 1e-9
"""Relative rounding of the length of a row."""
_SEED = 20_240_229


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
    """

    claim: Guarantee
    found: float
    tilt: float
    tilt_claim: float
    shield: float = 0.0
    output: FloatArray | None = None

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
        """Whether the claim stands, up to rounding."""
        return self.ratio <= 1 + _SLACK

    def __str__(self) -> str:
        verdict = "ok" if self.holds else "VIOLATION"
        shield = f" (with {self.shield:.3g} of the shield)" if self.shield else ""
        unit = {PureDP: "epsilon", ZCDP: "rho", ApproxDP: "delta"}[type(self.claim)]
        return (
            f"{unit} {self.found:.6g}{shield} on this pair, claim {self.claimed:.6g}, "
            f"ratio {self.ratio:.4f}: {verdict}"
        )


def claimed_number(claim: Guarantee) -> float:
    """Epsilon, rho or delta."""
    match claim:
        case PureDP():
            return claim.epsilon
        case ZCDP():
            return claim.rho
        case ApproxDP():
            return claim.delta
    raise _no_claim(claim)


def _no_claim(claim: Guarantee) -> GuaranteeError:
    return GuaranteeError(f"audit: there is no claim to check, the guarantee is {claim}.")


def privacy_loss(
    subject: FitRecord | Calibration, data: Any, neighbour: Any, *, output: Any = None
) -> PrivacyLoss:
    """Privacy loss of a mechanism between two datasets, from the density of its release.

    Parameters
    ----------
    subject : Fit or Calibration
        The mechanism. A fit reads frames as it read its own; with a calibration, the datasets
        are `SignedRows`, or arrays ``(n, d)`` of signed rows ``y x``.
    data, neighbour
        Two datasets of one size that differ in one record, in any order.
    output : ndarray of shape (d,), optional
        For a pure claim, the loss at this release (design units) and not the largest one.

    Returns
    -------
    PrivacyLoss
        For a pure claim the largest loss over all outputs, found by local search; for zCDP
        the Renyi divergence over its order, for (epsilon, delta) the exact delta.

    Raises
    ------
    GuaranteeError
        If nothing was claimed.
    ArgumentError
        If the datasets are not neighbours of the size that the mechanism is calibrated for,
        or hold signed rows that it is not calibrated for.

    Notes
    -----
    **Privacy.** *Covered*: nothing; run it on made-up data. *Neighbours*: replace one record.
    *Assumed public*: both datasets. *Not covered*: time and memory of the mechanism.
    """
    calibration = subject.calibration if isinstance(subject, FitRecord) else subject
    if not isinstance(calibration, Calibration):
        raise ArgumentError(f"subject={show(subject)}: subject takes a fit or a calibration.")
    if isinstance(subject, FitRecord) and isinstance(subject.guarantee, NonPrivate):
        raise _no_claim(subject.guarantee)
    pair = pair_of(_read(subject, "data", data), _read(subject, "neighbour", neighbour))
    _require_size(pair, calibration, exactly=isinstance(subject, FitRecord))
    if output is not None:
        return _loss_at(pair, calibration, _read_output(output, pair.d))
    return loss_of(pair, calibration)


def _require_size(pair: Pair, calibration: Calibration, *, exactly: bool) -> None:
    """Signed rows may be fewer than n: the others are zero rows, which add nothing."""
    n, d = calibration.problem.n, calibration.problem.d
    if pair.d != d or pair.n > n or (exactly and pair.n < n):
        raise ArgumentError(
            f"data and neighbour of shape ({pair.n}, {pair.d}): takes n={n} and d={d}."
        )


def _read_output(output: Any, d: int) -> FloatArray:
    try:
        vector = np.asarray(output, dtype=np.float64)
    except (TypeError, ValueError):
        vector = np.zeros(0)
    if vector.shape != (d,) or not np.isfinite(vector).all():
        raise ArgumentError(
            f"output={show(output)}: output takes {d} finite numbers, shape ({d},)."
        )
    return vector


def _read(subject: FitRecord | Calibration, name: str, data: Any) -> SignedRows:
    if isinstance(subject, FitRecord):
        frame = as_frame(data)
        design = cast("DenseRows", read_design(subject.spec, frame, DenseRows).rows)
        return signed_rows(design.x, design.y)
    signed = data if isinstance(data, SignedRows) else _read_array(name, data)
    d = subject.problem.d
    if signed.rows.shape[1] != d:
        raise ArgumentError(f"{name} of {signed.rows.shape[1]} columns: takes d={d}.")
    if any(not row_size(subject, row) <= 1 + _ROUNDING for row in signed.rows):
        blocks = " or outside its blocks" if isinstance(subject.noise, BlockLaplace) else ""
        raise ArgumentError(
            f"{name} has signed rows longer than the radius {subject.problem.radius:.6g} of the "
            f"calibration{blocks}: {name} takes rows that it was made for."
        )
    return signed


def _read_array(name: str, data: Any) -> SignedRows:
    array = isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind in "fiu"
    if not array or not np.isfinite(data).all():
        raise ArgumentError(
            f"{name}={show(data)}: beside a calibration, {name} takes SignedRows or a finite "
            "array (n, d) of signed rows."
        )
    return signed_rows(data.astype(np.float64), np.ones(len(data)))


def loss_of(pair: Pair, calibration: Calibration, outputs: FloatArray | None = None) -> PrivacyLoss:
    """`privacy_loss` of a pair; `outputs` ``(m, d)`` are further places to search from."""
    if calibration.placement == "output":
        return _output_loss(pair, calibration)
    if isinstance(calibration.target, PureDP):
        return _pure_loss(pair, calibration, outputs)
    return _profile_loss(pair, calibration)


def _loss_at(pair: Pair, calibration: Calibration, w: FloatArray) -> PrivacyLoss:
    if not isinstance(calibration.target, PureDP) or calibration.placement == "output":
        raise ArgumentError("output: takes None but for objective perturbation of a pure claim.")
    found = float(tilt_losses(pair, calibration.problem, calibration.noise, w[None])[0])
    return _with_shield(calibration, abs(found), w)


def _with_shield(calibration: Calibration, tilt: float, w: FloatArray) -> PrivacyLoss:
    shield = -calibration.shield.log_density(_step(calibration))
    claim = calibration.target
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
        _climb(way, calibration, starts[int(np.argmax(tilt_losses(way, problem, noise, starts)))])
        for way in (pair, pair.swapped())
    ]
    worst, at = max(found, key=lambda reached: reached[0])
    return _with_shield(calibration, worst, at)


def _climb(pair: Pair, calibration: Calibration, start: FloatArray) -> tuple[float, FloatArray]:
    """The loss at a local maximum near `start`, and where it is."""

    def below(w: FloatArray) -> float:
        return -float(tilt_losses(pair, calibration.problem, calibration.noise, w[None])[0])

    size = float(np.abs(start).max()) + 1 / calibration.problem.radius
    options = {"maxiter": 100 * pair.d, "xatol": 1e-6 * size, "fatol": 1e-7}
    found = optimize.minimize(below, start, method="Nelder-Mead", options=options)
    return -float(found.fun), found.x


def places(pair: Pair, calibration: Calibration) -> FloatArray:
    """Outputs ``(m, d)`` to search from: of many sizes, in random and in telling directions.

    Among them the minimisers without noise, and long vectors all but orthogonal to both
    records: a large intercept with a slope that makes up for it.
    """
    problem, d = calibration.problem, pair.d
    rng = np.random.default_rng(_SEED)
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
    length = float(np.linalg.norm(shift)) + calibration.distance
    claim = calibration.target
    match claim:
        case PureDP():  # a norm changes by at most the norm of the shift, and does so far out
            found = -noise.log_density(length * np.eye(1, pair.d)[0])
        case ZCDP():
            found = (length / noise.scale) ** 2 / 2
        case _:
            epsilon = claim.epsilon if isinstance(claim, ApproxDP) else 0.0
            found = math.exp(log_delta(epsilon, length / noise.scale))
    return PrivacyLoss(claim, found, found, claimed_number(claim))


# -- Gaussian and zCDP objective perturbation -------------------------------------------------


def _profile_loss(pair: Pair, calibration: Calibration) -> PrivacyLoss:
    """By integration over the tilt, both ways round."""
    problem, noise, claim = calibration.problem, calibration.noise, calibration.target
    rng = np.random.default_rng(_SEED)
    laws = [loss_law(way, problem, noise, rng) for way in (pair, pair.swapped())]
    mu = _shield_ratio(calibration)
    if isinstance(claim, ApproxDP):
        found, tilt = (max(law.delta(claim.epsilon, m) for law in laws) for m in (mu, 0.0))
        return PrivacyLoss(claim, found, tilt, claim.delta, found - tilt)
    shield = mu * mu / 2
    tilt = max(law.rho() for law in laws)
    return PrivacyLoss(claim, tilt + shield, tilt, claimed_number(claim) - shield, shield)


def _shield_ratio(calibration: Calibration) -> float:
    """What the shield hides over its deviation; infinite where a distance has no shield."""
    if calibration.distance == 0:
        return 0.0
    scale = calibration.shield.scale
    return calibration.distance / scale if scale > 0 else math.inf
