"""The privacy loss of the choices that a fit released, between two datasets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.audit.paths import path_loss
from privatelr.audit.simplex import histogram_loss
from privatelr.errors import ArgumentError
from privatelr.frames.design import DesignSpec
from privatelr.frames.source import as_frame
from privatelr.mechanisms.programs.calibration import ProgramCalibration
from privatelr.mechanisms.simplex.calibration import SimplexCalibration
from privatelr.model_data import read_entries
from privatelr.privacy.conversions import to_approximate
from privatelr.privacy.guarantees import ZCDP, ApproxDP, PureDP

if TYPE_CHECKING:
    from privatelr.mechanisms.selections import Selections
    from privatelr.numerics.entries import EntryRows
    from privatelr.privacy.guarantees import Guarantee
    from privatelr.results.record import SelectedRecord

SLACK = 1e-6
_DELTA = 1e-6
"""Chance at which a zCDP claim is read as an epsilon."""


@dataclass(frozen=True, slots=True)
class ChoiceLoss:
    """What the released choices say about which of two datasets they were made from.

    Attributes
    ----------
    claim : Guarantee
    found : float
        Size of the logarithm of the ratio of their chances, exactly.
    epsilon : float
        What the claim lets it be: never more for a pure claim, and for the others more only
        with about the chance delta.
    delta : float
        That chance; 0 for a pure claim.
    """

    claim: Guarantee
    found: float
    epsilon: float
    delta: float

    @property
    def ratio(self) -> float:
        """``found / epsilon``."""
        return self.found / self.epsilon

    @property
    def holds(self) -> bool:
        """Whether the loss is within epsilon, up to rounding."""
        return self.ratio <= 1 + SLACK

    def __str__(self) -> str:
        chance = f", exceeded with a chance of about {self.delta:g}" if self.delta else ""
        verdict = "ok" if self.holds else "VIOLATION" if not self.delta else "above it"
        return (
            f"privacy loss {self.found:.6g} of the released choices on this pair, claim epsilon "
            f"{self.epsilon:.6g}{chance}, ratio {self.ratio:.4f}: {verdict}"
        )


def choice_loss(fit: SelectedRecord, data: Any, neighbour: Any) -> ChoiceLoss:
    """The loss of the choices of a fit between two frames; see `privatelr.audit.privacy_loss`."""
    first, second = (_rows(fit, *side) for side in (("data", data), ("neighbour", neighbour)))
    differ = np.any(first.signed() != second.signed(), axis=1)
    if differ.sum() > 1:
        raise ArgumentError(
            f"data and neighbour differ in {int(differ.sum())} rows: they take one, as neighbours."
        )
    epsilon, delta = _read_as(fit.guarantee)
    return ChoiceLoss(fit.guarantee, abs(_loss(first, second, fit.release)), epsilon, delta)


def _loss(first: EntryRows, second: EntryRows, release: Selections) -> float:
    match release.calibration:
        case ProgramCalibration() as calibration if release.path is not None:
            return path_loss(first, second, calibration, release.path)
        case SimplexCalibration() as calibration:
            return histogram_loss(first, second, calibration, release.counts)
    raise ArgumentError("subject: takes a fit of a registered mechanism.")


def _rows(fit: SelectedRecord, name: str, data: Any) -> EntryRows:
    spec = fit.spec
    if not isinstance(spec, DesignSpec):
        raise ArgumentError("subject: takes a fit of a formula, and not of a sparse matrix.")
    frame = as_frame(data)
    if len(frame) != fit.nobs:
        raise ArgumentError(f"{name} of {len(frame)} rows: takes n={fit.nobs}.")
    return read_entries(spec, frame)[0]


def _read_as(claim: Guarantee) -> tuple[float, float]:
    match claim:
        case PureDP(epsilon=epsilon):
            return epsilon, 0.0
        case ApproxDP(epsilon=epsilon, delta=delta):
            return epsilon, delta
        case ZCDP():
            return to_approximate(claim, _DELTA).epsilon, _DELTA
    raise ArgumentError(f"subject: {claim} claims nothing.")
