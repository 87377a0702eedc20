"""What the simplex mechanism may know before it meets the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privatelr.errors import GuaranteeError, require_number, show

if TYPE_CHECKING:
    from privatelr.numerics import Loss

_ROUNDING = 1e-9
"""Of a slope that is evaluated in doubles, relative, far on the safe side."""


@dataclass(frozen=True, slots=True)
class SimplexFacts:
    """Public facts about a fit.

    Attributes
    ----------
    n, d : int
        Records, and columns with the intercept.
    x_bound : float
        Largest size of an entry of a row, the intercept among them.
    radius : float
        Sum of the sizes of the coefficients, at most.
    loss : Loss
    """

    n: int
    d: int
    x_bound: float
    radius: float
    loss: Loss

    def __post_init__(self) -> None:
        for name in ("n", "d"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise GuaranteeError(f"{name}={show(value)}: {name} takes an integer from 1.")
        for name in ("x_bound", "radius"):
            value = getattr(self, name)
            require_number(GuaranteeError, name, value, "a finite number above 0", above=0)
        require_number(
            GuaranteeError, "radius times x_bound", self.reach, "a number above 0", above=0
        )

    @property
    def options(self) -> int:
        """Columns and columns with their signs turned."""
        return 2 * self.d

    @property
    def reach(self) -> float:
        """R, the largest size of a margin."""
        return self.radius * self.x_bound

    @property
    def width(self) -> float:
        """W, the largest difference of two options for one row: columns come with both signs."""
        return 2 * self.reach

    @property
    def slope_bound(self) -> float:
        """L: the largest slope at margins up to `reach`, which is the one at the left end."""
        steepest = -float(self.loss.slope(np.array([-self.reach]))[0])
        return min(self.loss.slope_bound, steepest * (1 + _ROUNDING))

    def with_lambda(self, lambda_: float) -> SimplexProblem:
        """These facts and a penalty."""
        return SimplexProblem(self.n, self.d, self.x_bound, self.radius, self.loss, lambda_)


@dataclass(frozen=True, slots=True)
class SimplexProblem(SimplexFacts):
    """Public facts and the penalty ``lambda_`` of the mean objective."""

    lambda_: float = 0.0

    @property
    def penalty(self) -> float:
        """The penalty of the sum form: ``n lambda_``."""
        return self.n * self.lambda_
