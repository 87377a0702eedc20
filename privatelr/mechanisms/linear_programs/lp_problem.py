"""What a linear program of margins may know before it meets the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from privatelr.errors import GuaranteeError, require_number, show
from privatelr.types import FloatArray

_NEARLY = 1e-9
"""A product of density and n that is below one by no more than this is meant to be one."""
MOST_RECORDS = 10**9


@dataclass(frozen=True, slots=True)
class WorstMargins:
    """What is maximised in the place of a loss: the mean of the smallest margins.

    Attributes
    ----------
    density : float
        Fraction of the records whose margins count.
    """

    density: float

    @property
    def name(self) -> str:
        return "worst-margins"

    @property
    def title(self) -> str:
        return "linear-program support vector machine"

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"density": self.density}

    @property
    def probability(self) -> Callable[[FloatArray], FloatArray] | None:
        return None


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """Public facts about a fit.

    Attributes
    ----------
    n, d : int
        Records, and columns with the intercept.
    x_bound : float
        Largest size of an entry of a row, the intercept entry included.
    density : float
        Fraction of the records over which weights have to be spread at least.
    """

    n: int
    d: int
    x_bound: float
    density: float

    def __post_init__(self) -> None:
        if not (1 <= self.n <= MOST_RECORDS and self.d >= 1):
            raise GuaranteeError(
                f"a fit with n={self.n}, d={self.d}: takes n from 1 to {MOST_RECORDS} and d from 1."
            )
        takes = "a number from 1e-100 to 1e100"
        require_number(
            GuaranteeError, "x_bound", self.x_bound, takes, at_least=1e-100, at_most=1e100
        )
        takes = "a number above 0 and below 1"
        density = require_number(GuaranteeError, "density", self.density, takes, above=0)
        if not (density < 1 and self.n * density >= 1 - _NEARLY):
            raise GuaranteeError(
                f"density={show(self.density)}: density takes a number from 1/n = "
                f"{1 / self.n:.3g} and below 1, because weights are spread over that fraction of "
                f"n={self.n} records."
            )

    @property
    def s(self) -> float:
        """How many records the weights are spread over at least: none has more than ``1 / s``."""
        return max(1.0, self.density * self.n)

    @property
    def loss(self) -> WorstMargins:
        return WorstMargins(self.density)
