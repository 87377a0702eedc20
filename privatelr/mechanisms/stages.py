"""One price, two releases: the coefficients, then what inference needs to know of their error.

The second release sees the first as public, so their guarantees add up (adaptive composition).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from privatelr.errors import GuaranteeError
from privatelr.mechanisms import registry
from privatelr.mechanisms.calibration.moment_noise import MomentsCalibration, calibrate_moments
from privatelr.mechanisms.moments_release import release_moments
from privatelr.mechanisms.release import draw
from privatelr.mechanisms.request import divide, is_usual
from privatelr.privacy import ApproxDP, PureDP

if TYPE_CHECKING:
    from privatelr.mechanisms.calibration.calibration_record import Calibration
    from privatelr.mechanisms.problem import Facts
    from privatelr.mechanisms.registry import Mechanism
    from privatelr.mechanisms.release import Draws, Release
    from privatelr.mechanisms.request import Parts, Request
    from privatelr.numerics.solve import Solver
    from privatelr.privacy import Event, Guarantee
    from privatelr.privacy.noise import Draw, Randomness
    from privatelr.types import Rows


@dataclass(frozen=True, slots=True)
class StagedCalibration:
    """All stages of a fit with all their numbers, before any data is touched."""

    target: Guarantee
    mechanism: Mechanism
    coefficients: Calibration
    moments: MomentsCalibration | None

    @property
    def proven(self) -> Guarantee:
        """What all the noise is proven to give together; see `Calibration.proven`."""
        parts = [stage.proven for stage in (self.coefficients, self.moments) if stage]
        if isinstance(self.target, ApproxDP) and all(isinstance(part, PureDP) for part in parts):
            return PureDP(self.target.epsilon, self.target.neighbours)
        return self.target

    @property
    def events(self) -> tuple[Event, ...]:
        """What a ledger composes for all stages."""
        return self.coefficients.events + (self.moments.events if self.moments else ())

    def __str__(self) -> str:
        return "\n".join(str(stage) for stage in (self.coefficients, self.moments) if stage)


def calibrate_all(request: Request, facts: Facts) -> StagedCalibration:
    """Divide the price and calibrate every stage; takes no data."""
    parts = divide(request.target, request.spend, facts.loss)
    _require_usual(parts)
    asked = replace(request, target=parts.coefficients)
    coefficients = registry.calibrate(asked, facts)
    moments = None
    if parts.moments is not None:
        moments = calibrate_moments(coefficients.problem, parts.moments, request.kinds)
    return StagedCalibration(request.target, registry.find_mechanism(asked), coefficients, moments)


def _require_usual(parts: Parts) -> None:
    """Refuse parts that are smaller than anything that can be asked for by itself."""
    for name, part in (("coefficients", parts.coefficients), ("inference", parts.moments)):
        if part is not None and not is_usual(part):
            raise GuaranteeError(
                f"spend: {name} would get {part}, which is less than a release takes; raise eps, "
                "delta or the share."
            )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StagedNoise:
    """The noise of every stage, drawn once; none for moments that were not requested."""

    coefficients: Draws
    moments: Draw | None


def draw_all(plan: StagedCalibration, randomness: Randomness) -> StagedNoise:
    """All the noise that a plan takes."""
    moments = randomness.draw(plan.moments.noise) if plan.moments else None
    return StagedNoise(draw(plan.coefficients, randomness), moments)


def release_all(rows: Rows, plan: StagedCalibration, draws: StagedNoise, solver: Solver) -> Release:
    """Release the coefficients, and at them the moments if they were requested.

    Notes
    -----
    **Privacy.** *Covered*: everything in the release, by ``plan.target``. *Neighbours*: replace
    one record. *Assumed public*: everything in the plan. *Not covered*: time and memory.
    """
    released = plan.mechanism.release(rows, plan.coefficients, draws.coefficients, solver)
    if plan.moments is None or draws.moments is None:
        return replace(released, guarantee=plan.target)
    moments = release_moments(rows, released.coef, plan.moments, draws.moments)
    return replace(released, guarantee=plan.target, moments=moments)
