"""What a released stage of a fit does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from privatelr.mechanisms.calibration.lambda_rules import Kinds
from privatelr.mechanisms.calibration.scale_noise import ScaleFacts
from privatelr.mechanisms.perturbation import Release
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.request import Request
from privatelr.mechanisms.score_histogram import ScoreScale
from privatelr.privacy import Event, Guarantee
from privatelr.privacy.noise import Draw, NoiseLaw
from privatelr.types import Rows


class StageCalibration(Protocol):
    """All numbers of a stage, computed before any data is touched."""

    @property
    def target(self) -> Guarantee: ...

    @property
    def noise(self) -> NoiseLaw: ...

    @property
    def sensitivity(self) -> float:
        """How far neighbours move what is released, as a Euclidean length."""
        ...

    @property
    def proven(self) -> Guarantee:
        """The guarantee that the noise is proven to give; see `Calibration.proven`."""
        ...

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that a ledger composes for the stage."""
        ...


@dataclass(frozen=True, slots=True)
class Known:
    """What is public when a stage is calibrated.

    Attributes
    ----------
    request : Request
        What was asked for, with the laws of noise of the coefficients.
    facts : Problem
    columns : ScaleFacts or None
        Facts about the columns, if their scale is released.
    kinds : Kinds
        The laws of noise of the stages next to the coefficients; all of them if there are none.
    before : mapping
        The calibrations of the earlier stages.
    """

    request: Request
    facts: Problem
    columns: ScaleFacts | None
    kinds: Kinds
    before: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What a stage is released from.

    Attributes
    ----------
    rows : Rows
        The private rows.
    release : Release
        What was released before, the coefficients among it.
    noise : Draw
        The draw of the stage's noise.
    expected : callable or None
        Returns where scores by released coefficients are expected; a function of public facts.
    """

    rows: Rows
    release: Release
    noise: Draw
    expected: Callable[[Release], ScoreScale] | None = None


Made = TypeVar("Made", bound=StageCalibration)


class Part(Protocol):
    """What a stage released, which may be published."""

    @property
    def calibration(self) -> StageCalibration: ...


class Stage(Generic[Made]):
    """A stage that is released from the rows at the released coefficients."""

    name: ClassVar[str]
    """The name of its share of the price."""
    part: ClassVar[str]
    """What is released, in the words of pages."""
    at_coefficients: ClassVar[bool] = True
    """Whether it is released after the coefficients, from the same rows."""
    drawn: ClassVar[int] = 3
    """When its noise is drawn; a seed gives the same fit as long as this order stays."""

    def calibrate(self, target: Guarantee, known: Known) -> Made:
        """Calibrate the noise for a part of the price; takes no data."""
        raise NotImplementedError

    def release(self, calibration: Made, seen: Seen) -> Part:
        """Release the stage."""
        raise NotImplementedError

    def seen(self) -> str:
        """Say what the reader of a card sees of it."""
        return f"the {self.part}"

    def facts(self, released: Part) -> list[tuple[str, str]]:
        """Return the labels and sentences of the page about what was released."""
        made = released.calibration
        text = f"{made.noise.title} noise, scale {made.noise.scale:.6g}, for {made.target}"
        return [(f"{self.part[0].upper()}{self.part[1:]}", text)]
