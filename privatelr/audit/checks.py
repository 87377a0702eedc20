"""The claims that an audit tests, its effort, and its checks: found, allowed, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product, starmap
from typing import Any

from privatelr.audit.sampling import lower_bounds
from privatelr.audit.sampling.outputs import Score, outputs_of
from privatelr.errors import GuaranteeError, MissingDependencyError
from privatelr.mechanisms import Problem, Request, StagedCalibration, calibrate_all, divide
from privatelr.mechanisms.calibration import free_penalty, proven
from privatelr.numerics import Loss
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, Promise, PureDP
from privatelr.types import Block, BlockNorm, FloatArray

# -- claims ---------------------------------------------------------------------------------------

ALPHA = 1e-3
"""Probability that a whole audit raises a false alarm by sampling."""
SMALLEST_DELTA = 1e-6
_FEWEST = 100
"""Least expected number of outputs beyond epsilon for which sampling can test a delta."""


def claims_of_size(epsilon: float) -> tuple[Promise, ...]:
    """One claim of each kind, and two of delta, all worth about this epsilon."""
    return (
        PureDP(epsilon),
        ZCDP(epsilon**2 / 2),
        ApproxDP(epsilon, SMALLEST_DELTA),
        ApproxDP(epsilon, 1e-2),
    )


def short(claim: Guarantee) -> str:
    """The numbers of a claim, as the table has them."""
    match claim:
        case PureDP():
            return f"epsilon = {claim.epsilon:g}"
        case ZCDP():
            return f"rho = {claim.rho:g}"
        case ApproxDP():
            return f"epsilon = {claim.epsilon:g}, delta = {claim.delta:g}"
    return str(claim)


def label(loss: Loss) -> str:
    """Name and parameters of a loss, such as ``"huber(0.5)"``."""
    numbers = ", ".join(f"{value:g}" for value in loss.parameters.values())
    return f"{loss.name}({numbers})" if numbers else loss.name


def shows_nothing(claim: Guarantee, trials: int) -> bool:
    """Whether so many outputs are too few for the delta of a claim."""
    return isinstance(claim, ApproxDP) and claim.delta * trials < _FEWEST


def sampled_bound(
    claim: Guarantee, first: FloatArray, second: FloatArray, alpha: float, score: Score
) -> float:
    """Lower bound on the number of a claim from outputs on either dataset.

    NaN for a delta of which so many outputs can show nothing.
    """
    if shows_nothing(claim, len(first)):
        return math.nan
    sides = outputs_of(first), outputs_of(second)
    match claim:
        case PureDP():
            return lower_bounds.epsilon_from_outputs(*sides, alpha=alpha, score=score)
        case ZCDP():
            return lower_bounds.rho_from_outputs(*sides, alpha=alpha, score=score)
    epsilon = claim.epsilon if isinstance(claim, ApproxDP) else 0.0
    return lower_bounds.delta_from_outputs(*sides, epsilon, alpha=alpha, score=score)


# -- how hard to look ---------------------------------------------------------------------------

Shape = tuple[int, float] | tuple[int, float, BlockNorm]
RECORDS = 10**8
FEWER = 10**6
"""Number of records of a release with moments; rounding of their sums is negligible."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Public facts under which a mechanism is attacked.

    Attributes
    ----------
    radius : float
        Largest length of a row.
    small : float
        Lambda is the free one divided by this.
    shape : tuple of (int, float) or (int, float, str)
        Sizes and relative bounds of the blocks of columns, and their norm where it is not "l1";
        empty for rows in a ball, d = 2.
    """

    radius: float = 1.0
    small: float = 1.0
    shape: tuple[Shape, ...] = ()

    def facts(self, loss: Loss, n: int = RECORDS) -> Problem:
        """The facts, with blocks scaled to the radius."""
        if not self.shape:
            return Problem(n, 2, loss, self.radius)
        unit = self.radius / math.sqrt(math.fsum(part[1] ** 2 for part in self.shape))
        blocks = tuple(Block(part[0], part[1] * unit, *part[2:]) for part in self.shape)
        d = sum(block.size for block in blocks)
        radius = math.nextafter(self.radius, math.inf)
        return Problem(n, d, loss, radius, blocks)

    def __str__(self) -> str:
        shape = f", blocks {self.shape}" if self.shape else ""
        return f"R={self.radius:g}, free lambda / {self.small:g}{shape}"


ONE_COLUMN = ((1, 1.0),)
INTERCEPT_AND_SLOPE = ((1, 0.5), (1, 1.0))
INTERCEPT_FACTOR_SLOPE = ((1, 0.5), (3, 1.0), (1, 1.0))
INTERCEPT_SLOPE_BALL: tuple[Shape, ...] = ((1, 0.5), (1, 1.0), (2, 1.0, "l2"))
"""Blocks whose last two columns have no bounds, but one bound on their length together."""
_BOUNDED = ((), ONE_COLUMN, INTERCEPT_AND_SLOPE, INTERCEPT_FACTOR_SLOPE)
_SHAPES: tuple[tuple[Shape, ...], ...] = (*_BOUNDED, INTERCEPT_SLOPE_BALL)


@dataclass(frozen=True, slots=True)
class Effort:
    """The effort of an audit.

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


_QUICK = (
    *(Setting(), Setting(shape=INTERCEPT_AND_SLOPE)),
    *(Setting(12.0, 4.0), Setting(0.1, 0.25, INTERCEPT_FACTOR_SLOPE)),
)
_FULL = tuple(starmap(Setting, product((0.1, 1.0, 12.0, 100.0), (0.25, 1.0, 4.0), _SHAPES)))
QUICK = Effort(_QUICK, random_pairs=1, trials=300_000, seeds=1, releases=300, choices=6)
FULL = Effort(_FULL, 10, trials=500_000, seeds=20, releases=5_000, choices=60, formulas=200)


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


# -- what was found ------------------------------------------------------------------------------

OK, VIOLATION, MISSING = "ok", "VIOLATION", "not installed"
_ROUNDING = 1e-9
_LINE = "{:<10}{:<{wide}}{:>10}{:>10}  {}"


@dataclass(frozen=True, slots=True)
class Check:
    """A number that was found, with the number that is allowed.

    Attributes
    ----------
    part : str
        What kind of thing was looked at, such as ``"rows"`` or ``"ledger"``.
    subject : str
        Which one.
    found : float
    allowed : float
        `found` may be no larger, up to rounding.
    failure : str
        Why there is no number; empty where there is one.
    """

    part: str
    subject: str
    found: float = 0.0
    allowed: float = 0.0
    failure: str = ""

    @property
    def title(self) -> str:
        """What the check is about."""
        return f"{self.part}, {self.subject}"

    @property
    def verdict(self) -> str:
        """``"ok"``, ``"VIOLATION"``, ``"not installed"``, or why it could not be audited."""
        if self.failure:
            return self.failure
        return OK if self.found <= self.allowed * (1 + _ROUNDING) else VIOLATION

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong; what is not installed is not wrong."""
        return self.verdict in (OK, MISSING)

    def line(self, wide: int = 60) -> str:
        """The check as a line, with so many places for the subject."""
        numbers = ("-", "-") if self.failure else (f"{self.found:.4g}", f"{self.allowed:.4g}")
        return _LINE.format(self.part, self.subject, *numbers, self.verdict, wide=wide)

    __str__ = line


def could_not(failure: Exception) -> str:
    """Return the verdict for an error: its type, and nothing else about it."""
    if isinstance(failure, MissingDependencyError | ModuleNotFoundError):
        return MISSING
    return f"could not be audited: {type(failure).__name__}"


def guarded(
    part: str, subject: str, work: Callable[..., Iterable[Check]], *given: Any
) -> Iterator[Check]:
    """The checks of some work on what is given; what it raises is the verdict of a last one."""
    try:
        yield from work(*given)
    except Exception as failure:  # whatever it is, an audit ends in verdicts
        yield Check(part, subject, failure=could_not(failure))


def table_of(checks: Iterable[Check]) -> list[str]:
    """Lines, the last one empty; none without checks."""
    listed = list(checks)
    wide = max([len(check.subject) + 2 for check in listed], default=0)
    head = _LINE.format("part", "what was checked", "found", "allowed", "verdict", wide=wide)
    return ruled(head, [check.line(wide) for check in listed])


def ruled(head: str, lines: list[str]) -> list[str]:
    """Lines below a head and a rule, the last one empty; none without lines."""
    return [head, "-" * max(map(len, [head, *lines])), *lines, ""] if lines else []
