"""A linear program with private constraints, with all its numbers, from public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from privatelr.errors import ArgumentError, GuaranteeError, require_number
from privatelr.mechanisms.deltas import require_below_one_record
from privatelr.mechanisms.programs.calibration import require_rounds
from privatelr.mechanisms.programs.choices import Choices
from privatelr.mechanisms.programs.rounds import balanced_rounds, best_step, want_of_rounds
from privatelr.numerics.dense_weights import projection_error
from privatelr.privacy.bounded_range import range_within
from privatelr.privacy.guarantees import Promise

if TYPE_CHECKING:
    from privatelr.privacy.guarantees import Guarantee

Private = Literal["bounds", "rows"]
PRIVATE: tuple[Private, ...] = ("bounds", "rows")
TITLE = "linear program with private constraints"
_INFLATION = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintCalibration(Choices):
    """Rounds, step and choice of a corner in each, computed before any private constraint is seen.

    Attributes
    ----------
    n, d : int
        Constraints, and variables.
    private : str
        ``"bounds"`` or ``"rows"``.
    width : float
        No constraint is missed or exceeded by more at any corner.
    s : float
        How many constraints the weights are spread over at least.
    step : float
        By how much a log weight falls for a unit of slack.
    """

    n: int
    d: int
    private: Private
    width: float
    s: float
    step: float

    def violation(self, failure: float = 0.05) -> float:
        """Mean violation of the s worst constraints, at most, if the program can be solved.

        So fewer than s constraints are violated by more. It fails with no more than this
        probability over the choices.
        """
        behind = want_of_rounds(self.width, self.n, self.s, self.rounds, self.step)
        if math.isinf(self.eta):
            return behind
        tail = math.log(self.d * self.rounds / failure)
        return behind + 2 * self.sensitivity / self.eta * tail

    def __str__(self) -> str:
        lines = [
            f"{TITLE}: private {self.private}",
            f"target {self.target}",
            f"{self.n} constraints, {self.d} variables, width {self.width:.6g}",
            f"weights spread over {self.s:.6g} constraints or more",
            f"rounds = {self.rounds}, step = {self.step:.6g}, sensitivity {self.sensitivity:.6g}",
        ]
        if self.choice is not None:
            lines.append(f"each choice of bounded range {self.eta:.6g}")
        lines.append(
            f"if it can be solved, fewer than {self.s:.6g} constraints violated by more than "
            f"{self.violation():.4g}, but for a chance of 0.05"
        )
        return "\n".join(lines)


def calibrate_constraints(
    sizes: tuple[int, int],
    target: Guarantee,
    private: Private,
    *,
    width: Any,
    violated: Any,
    reach: float,
    size: float,
    rounds: Any = "auto",
) -> ConstraintCalibration:
    """Settle all numbers; takes no private data.

    The sum of weighted bounds is the same for all corners, so a choice does not see it, and the
    score of a corner is the weighted mean of ``-a_ij opt / c_j``. It moves by at most the length
    `reach` of an interval that holds these over s, or twice the width over s: the lemma of
    `privatelr.mechanisms.programs.calibration.score_sensitivity`. None of these numbers is larger
    than `size`, which is what rounding goes by.
    """
    n, d = sizes
    takes = "a number from 1e-100 to 1e100"
    rho = require_number(ArgumentError, "width", width, takes, at_least=1e-100, at_most=1e100)
    takes = f"a number from 1 and below n={n}, of constraints that may be violated"
    most = math.nextafter(float(n), 0.0)
    s = require_number(GuaranteeError, "violated", violated, takes, at_least=1, at_most=most)
    require_below_one_record(target, n)
    automatic = isinstance(rounds, str) and rounds == "auto"
    times = balanced_rounds(target, n, s, d) if automatic else rounds
    require_rounds(times)
    moved = min(2 * rho, reach) if private == "bounds" else reach
    moved = moved * (1 + _INFLATION) + 4 * projection_error(n) * s * max(size, 1e-6 * rho)
    return ConstraintCalibration(
        n=n,
        d=d,
        target=target,
        private=private,
        width=rho,
        s=s,
        rounds=times,
        step=best_step(rho, n, s, times),
        sensitivity=moved / s,
        eta=range_within(target, times) if isinstance(target, Promise) else math.inf,
    )
