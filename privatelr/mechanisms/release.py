"""What leaves a mechanism, and the checks at the one place where promise meets data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from privatelr.errors import GuaranteeError

if TYPE_CHECKING:
    from privatelr.mechanisms.calibration import Calibration
    from privatelr.privacy.guarantees import Guarantee
    from privatelr.types import FloatArray, Rows


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """Paid for, and free to publish.

    Attributes
    ----------
    coef : ndarray of shape (d,), read-only
        Coefficients in design units, the intercept first.
    guarantee : Guarantee
        What holds for `coef`.
    calibration : Calibration
        How it was reached.
    """

    coef: FloatArray
    guarantee: Guarantee
    calibration: Calibration

    def __post_init__(self) -> None:
        self.coef.flags.writeable = False


def require_match(rows: Rows, calibration: Calibration, noise: FloatArray) -> None:
    """Refuse rows that the calibration was not made for; compares public facts only."""
    problem = calibration.problem
    if rows.n != problem.n or rows.d != problem.d or noise.shape != (problem.d,):
        raise GuaranteeError(
            f"rows of shape ({rows.n}, {rows.d}) and noise of shape {noise.shape} do not fit a "
            f"calibration for n={problem.n}, d={problem.d}."
        )
    if rows.radius > problem.radius:
        raise GuaranteeError(
            f"rows of radius {rows.radius:g} are longer than the radius {problem.radius:g} that "
            "the noise was calibrated for."
        )
