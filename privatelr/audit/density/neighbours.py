"""The privacy loss between two datasets, as a user hands them over."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from privatelr.arguments import suggests_arguments
from privatelr.audit.density.joint import joint_loss_at, joint_loss_of
from privatelr.audit.density.loss import PrivacyLoss, loss_at, loss_of, no_claim
from privatelr.audit.density.pairs import Pair, SignedRows, pair_of, row_size, signed_rows
from privatelr.audit.enumeration.choice_paths import ChoiceLoss, choice_loss
from privatelr.design import read_design
from privatelr.errors import ArgumentError, show
from privatelr.mechanisms import MECHANISMS, StagedCalibration
from privatelr.mechanisms.calibration import Calibration
from privatelr.numerics.rows import DenseRows
from privatelr.privacy import Guarantee, PureDP
from privatelr.privacy.noise import BlockLaplace
from privatelr.results import FitRecord, SelectedRecord
from privatelr.sources import as_frame
from privatelr.types import FloatArray

_ROUNDING = 1e-9
"""Relative rounding of the length of a row."""


@suggests_arguments
def privacy_loss(
    subject: FitRecord | SelectedRecord | StagedCalibration | Calibration,
    data: Any,
    neighbour: Any,
    *,
    output: Any = None,
) -> PrivacyLoss | ChoiceLoss:
    """Privacy loss of a mechanism between two datasets, from the density of its release.

    Parameters
    ----------
    subject : Fit, Plan or Calibration
        The mechanism. A fit reads frames as it read its own; with a plan or a calibration, the
        datasets are `SignedRows`, or arrays ``(n, d)`` of signed rows ``y x``.
    data, neighbour
        Two datasets of one size that differ in one record, in any order.
    output : ndarray of shape (d,), optional
        For a pure claim, the loss at this release (scaled units) and not the largest one.

    Returns
    -------
    ChoiceLoss
        Of a fit that chose columns: the exact loss of the choices that it released.
    PrivacyLoss
        Of any other. For a pure claim the largest loss over all outputs, found by local search;
        for zCDP the Renyi divergence over its order, for (epsilon, delta) the exact delta. Of a
        fit that bought inference it is the loss of the coefficients and the moments together, and
        `PrivacyLoss.parts` holds each alone against what was paid for it.

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
    if isinstance(subject, SelectedRecord):
        if not subject.guarantee.is_private:
            raise no_claim(subject.guarantee)
        if output is not None:
            raise ArgumentError("output: takes None beside a fit that chose columns.")
        return choice_loss(subject, data, neighbour)
    calibration, plan = _read_subject(subject)
    pair = pair_of(*(_read(subject, *side) for side in (("data", data), ("neighbour", neighbour))))
    _require_size(pair, calibration, exactly=isinstance(subject, FitRecord))
    if output is None:
        return loss_of(pair, calibration) if plan is None else joint_loss_of(pair, plan)
    at = _read_output(output, calibration, (plan or calibration).proven)
    return loss_at(pair, calibration, at) if plan is None else joint_loss_at(pair, plan, at)


def _read_subject(subject: Any) -> tuple[Calibration, StagedCalibration | None]:
    """The calibration of the coefficients, and the plan if it buys moments too."""
    if isinstance(subject, FitRecord):
        if not subject.guarantee.is_private:
            raise no_claim(subject.guarantee)
        subject = _plan_of(subject)
    if isinstance(subject, StagedCalibration):
        return subject.coefficients, subject if subject.moments is not None else None
    if isinstance(subject, Calibration):
        return subject, None
    raise ArgumentError(f"subject={show(subject)}: subject takes a fit, a plan or a calibration.")


def _plan_of(fit: FitRecord) -> StagedCalibration:
    calibration, moments = fit.calibration, fit.release.moments
    mechanism = MECHANISMS[calibration.placement, type(calibration.target)]
    bought = None if moments is None else moments.calibration
    return StagedCalibration(fit.guarantee, mechanism, calibration, bought)


def _require_size(pair: Pair, calibration: Calibration, *, exactly: bool) -> None:
    """Signed rows may be fewer than n: the others are zero rows, which add nothing."""
    n, d = calibration.problem.n, calibration.problem.d
    if pair.d != d or pair.n > n or (exactly and pair.n < n):
        raise ArgumentError(
            f"data and neighbour of shape ({pair.n}, {pair.d}): takes n={n} and d={d}."
        )


def _read_output(output: Any, calibration: Calibration, claim: Guarantee) -> FloatArray:
    d = calibration.problem.d
    try:
        vector = np.asarray(output, dtype=np.float64)
    except (TypeError, ValueError):
        vector = np.zeros(0)
    if vector.shape != (d,) or not np.isfinite(vector).all():
        raise ArgumentError(
            f"output={show(output)}: output takes {d} finite numbers, shape ({d},)."
        )
    if not isinstance(claim, PureDP) or calibration.placement == "output":
        raise ArgumentError("output: takes None but for objective perturbation of a pure claim.")
    return vector


def _read(subject: FitRecord | StagedCalibration | Calibration, name: str, data: Any) -> SignedRows:
    if isinstance(subject, StagedCalibration):
        return _read(subject.coefficients, name, data)
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
