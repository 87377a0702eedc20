"""What a released stage of a fit does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from privatelr.mechanisms.calibration.calibration_record import StageCalibration
from privatelr.mechanisms.perturbation import Release
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.request import Request
from privatelr.privacy.noise import Draw
from privatelr.types import FloatArray, Rows

if TYPE_CHECKING:
    from privatelr.mechanisms.stages.histogram import ScoreScale
    from privatelr.mechanisms.stages.scale import ScaleFacts


Made = TypeVar("Made", bound=StageCalibration)


Calibrations = Mapping[str, Any]
"""Calibrations of stages by the names of their shares."""
Expected = Callable[[Release], "ScoreScale"] | None
"""Returns where scores by released coefficients are expected; a function of public facts."""


class Part(Protocol):
    """What a stage released, which may be published."""

    @property
    def calibration(self) -> StageCalibration: ...

    @property
    def values(self) -> FloatArray:
        """The released numbers, as a file has them."""
        ...


class Stage(Generic[Made]):
    """A stage that is released from the rows at the released coefficients."""

    name: ClassVar[str]
    """The name of its share of the price."""
    part: ClassVar[str]
    """What is released, in the words of pages."""
    at_coefficients: ClassVar[bool] = True
    """Whether it is released after the coefficients, from the same rows."""
    noise_by: ClassVar[str] = "Laplace noise"
    """What hides the data under a pure part of the price, in the words of pages."""
    drawn: ClassVar[int] = 3
    """When its noise is drawn; a seed gives the same fit as long as this order stays."""
    released: ClassVar[type[Any]]
    """Makes what was released of its numbers in a file, where nothing else is needed."""

    def calibrate(
        self, request: Request, problem: Problem, columns: ScaleFacts | None, before: Calibrations
    ) -> Made:
        """Calibrate the noise for a part of the price; takes no data.

        Parameters
        ----------
        request
            What was asked for, with the part of the price as its target, and the laws of noise of
            the stage.
        problem
        columns
            Facts about the columns, if their scale is released.
        before
            The calibrations of the earlier stages.
        """
        raise NotImplementedError

    def release(
        self, calibration: Made, rows: Rows, release: Release, noise: Draw, expected: Expected
    ) -> Part:
        """Release the stage.

        Parameters
        ----------
        calibration
        rows
            The private rows.
        release
            What was released before, the coefficients among it.
        noise
            The draw of the stage's noise.
        expected
        """
        raise NotImplementedError

    def read(
        self, values: FloatArray, calibration: Made, release: Release | None, expected: Expected
    ) -> Part:
        """Return what was released, from its numbers in a file.

        Parameters
        ----------
        values, calibration
        release
            What was released before; None for what is released before the coefficients.
        expected
            None before the coefficients.
        """
        part: Part = self.released(values, calibration)
        return part

    def seen(self) -> str:
        """Say what the reader of a card sees of it."""
        return f"the {self.part}"

    def facts(self, released: Part) -> list[tuple[str, str]]:
        """Return the labels and sentences of the page about what was released."""
        made = released.calibration
        text = f"{made.noise.title} noise, scale {made.noise.scale:.6g}, for {made.target}"
        return [(f"{self.part[0].upper()}{self.part[1:]}", text)]
