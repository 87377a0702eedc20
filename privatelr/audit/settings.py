"""Public facts under which mechanisms are attacked, and how hard."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from privatelr.errors import GuaranteeError
from privatelr.mechanisms import Facts, Request, StagedCalibration, calibrate_all, divide
from privatelr.mechanisms.calibration import free_penalty, proven
from privatelr.numerics import Loss
from privatelr.types import Block, BlockNorm

if TYPE_CHECKING:
    Shape: TypeAlias = tuple[int, float] | tuple[int, float, BlockNorm]

RECORDS = 10**8
FEWER = 10**6
"""Records of a release with moments: sums of so many lose nothing in doubles that could be seen."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Public facts under which a mechanism is attacked.

    Attributes
    ----------
    radius : float
    small : float
        Lambda is the free one divided by this.
    shape : tuple of (int, float) or (int, float, str)
        Sizes and relative bounds of the blocks of columns, and their norm where it is not "l1";
        empty for rows in a ball, d = 2.
    """

    radius: float = 1.0
    small: float = 1.0
    shape: tuple[Shape, ...] = ()

    def facts(self, loss: Loss, n: int = RECORDS) -> Facts:
        """The facts, with blocks scaled to the radius."""
        if not self.shape:
            return Facts(n, 2, loss, self.radius)
        unit = self.radius / math.sqrt(math.fsum(part[1] ** 2 for part in self.shape))
        blocks = tuple(Block(part[0], part[1] * unit, *part[2:]) for part in self.shape)
        d = sum(block.size for block in blocks)
        radius = math.nextafter(self.radius, math.inf)
        return Facts(n, d, loss, radius, blocks)

    def __str__(self) -> str:
        shape = f", blocks {self.shape}" if self.shape else ""
        return f"R={self.radius:g}, free lambda / {self.small:g}{shape}"


ONE_COLUMN = ((1, 1.0),)
INTERCEPT_AND_SLOPE = ((1, 0.5), (1, 1.0))
INTERCEPT_FACTOR_SLOPE = ((1, 0.5), (3, 1.0), (1, 1.0))
INTERCEPT_SLOPE_BALL: tuple[Shape, ...] = ((1, 0.5), (1, 1.0), (2, 1.0, "l2"))
"""The last two columns have no bounds, and a length together."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to look.

    Attributes
    ----------
    settings : tuple of Setting
    random_pairs : int
        In each setting, beside the pairs on which the bounds are attained.
    trials : int
        Sampled releases on each dataset.
    seeds : int
        How often to sample.
    releases : int
        Real releases to compare with those that are modelled.
    choices : int
        Neighbours of tiny cases, for each shape, of mechanisms that choose columns.
    formulas : int
        Random formulas, for each kind of rows.
    """

    settings: tuple[Setting, ...]
    random_pairs: int
    trials: int
    seeds: int
    releases: int
    choices: int = 4
    formulas: int = 12


QUICK = Effort(
    settings=(
        Setting(),
        Setting(shape=INTERCEPT_AND_SLOPE),
        Setting(12.0, 4.0),
        Setting(0.1, 0.25, INTERCEPT_FACTOR_SLOPE),
    ),
    random_pairs=1,
    trials=300_000,
    seeds=1,
    releases=300,
    choices=6,
)
FULL = Effort(
    settings=tuple(
        Setting(radius, small, shape)
        for radius in (0.1, 1.0, 12.0, 100.0)
        for small in (0.25, 1.0, 4.0)
        for shape in (
            *((), ONE_COLUMN, INTERCEPT_AND_SLOPE),
            *(INTERCEPT_FACTOR_SLOPE, INTERCEPT_SLOPE_BALL),
        )
    ),
    random_pairs=10,
    trials=500_000,
    seeds=20,
    releases=5_000,
    choices=60,
    formulas=200,
)


def plan_in(request: Request, loss: Loss, setting: Setting) -> StagedCalibration | None:
    """The mechanism under these facts, or None where no noise suffices.

    Lambda is what is free for the coefficients, over the number of the setting.
    """
    facts = setting.facts(loss, FEWER if request.spend == "inference" else RECORDS)
    target: Any = divide(request.target, request.spend, loss)[0]
    analysis = proven(request.analysis, loss)
    try:
        penalty = free_penalty(facts, target, analysis, kinds=request.kinds) / setting.small
        return calibrate_all(replace(request, analysis=analysis, lambda_=penalty / facts.n), facts)
    except GuaranteeError:
        return None
