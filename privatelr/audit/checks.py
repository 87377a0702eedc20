"""The claims that an audit tests, the effort it spends, and the checks that it reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import product, starmap
from typing import Any

import numpy as np

from privatelr.errors import GuaranteeError, MissingDependencyError
from privatelr.mechanisms import Problem, Request, StagedCalibration, calibrate_all, divide
from privatelr.mechanisms.calibration import free_penalty, proven
from privatelr.mechanisms.calibration.lambda_rules import within
from privatelr.mechanisms.stages.scale import ScaleFacts
from privatelr.numerics import Loss
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, Promise, PureDP, SharedApproxDP
from privatelr.types import Block, BlockNorm

# -- claims ---------------------------------------------------------------------------------------

ALPHA = 1e-3
"""An audit raises a false alarm by sampling with at most this probability."""
SMALLEST_DELTA = 1e-6
"""The smaller one of the two deltas that an audit claims is this."""
_FEWEST = 100
"""Sampling tests a delta only if delta times the number of trials is at least this."""


def claims_of_size(epsilon: float) -> tuple[Promise, ...]:
    """One pure claim, one of zCDP, and two with a delta, all about as strong as this epsilon."""
    return (
        PureDP(epsilon),
        ZCDP(epsilon**2 / 2),
        ApproxDP(epsilon, SMALLEST_DELTA),
        ApproxDP(epsilon, 1e-2),
    )


def short(claim: Guarantee) -> str:
    """The numbers of a claim in words, such as ``"epsilon = 1, delta = 0.01"``."""
    match claim:
        case PureDP():
            return f"epsilon = {claim.epsilon:g}"
        case ZCDP():
            return f"rho = {claim.rho:g}"
        case ApproxDP():
            return f"epsilon = {claim.epsilon:g}, delta = {claim.delta:g}"
    return str(claim)


UNITS = {PureDP: "epsilon", ZCDP: "rho", ApproxDP: "delta", SharedApproxDP: "delta"}
"""A loss is compared with this attribute of its claim."""


def claimed_number(claim: Guarantee) -> float:
    """The number of a claim that a loss is compared with: its epsilon, rho or delta."""
    if type(claim) not in UNITS:
        raise no_claim(claim)
    number: float = getattr(claim, UNITS[type(claim)])
    return number


def no_claim(claim: Guarantee) -> GuaranteeError:
    """Return the error for a release without a guarantee, which cannot be audited."""
    return GuaranteeError(f"audit: there is no claim to check, the guarantee is {claim}.")


def label(loss: Loss) -> str:
    """The name and parameters of a loss, such as ``"huber(0.5)"``."""
    numbers = ", ".join(f"{value:g}" for value in loss.parameters.values())
    return f"{loss.name}({numbers})" if numbers else loss.name


def shows_nothing(claim: Guarantee, trials: int) -> bool:
    """Whether this number of outputs is too small to show anything about the delta of a claim."""
    return isinstance(claim, ApproxDP) and claim.delta * trials < _FEWEST


# -- effort -------------------------------------------------------------------------------------

Shape = tuple[int, float] | tuple[int, float, BlockNorm]
RECORDS = 10**8
"""A release without moments has this number of records."""
FEWER = 10**6
"""A release with moments has this number of records, so that rounding of sums is negligible."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The public facts under which a mechanism is attacked.

    Attributes
    ----------
    radius : float
        The largest length of a row.
    small : float
        Lambda is the one of the rule ``"free"``, divided by this number.
    shape : tuple of (int, float) or (int, float, str)
        The blocks of columns: size, relative bound, and norm if it is not "l1". If it is empty,
        rows lie in a ball and d = 2.
    offset : float
        Largest size of an offset.
    persons : bool
        Whether neighbours replace a person.
    """

    radius: float = 1.0
    small: float = 1.0
    shape: tuple[Shape, ...] = ()
    offset: float = 0.0
    persons: bool = False

    def facts(self, loss: Loss, n: int = RECORDS) -> Problem:
        """The facts as a `Problem` of n records, with blocks scaled to the radius."""
        given: Any = {"offset": self.offset, "persons": self.persons}
        if not self.shape:
            return Problem(n, 2, loss, self.radius, **given)
        unit = self.radius / math.sqrt(math.fsum(part[1] ** 2 for part in self.shape))
        blocks = tuple(Block(part[0], part[1] * unit, *part[2:]) for part in self.shape)
        d = sum(block.size for block in blocks)
        radius = math.nextafter(self.radius, math.inf)
        return Problem(n, d, loss, radius, blocks, **given)

    def __str__(self) -> str:
        shape = f", blocks {self.shape}" if self.shape else ""
        whose = ", persons" if self.persons else ""
        return f"R={self.radius:g}, free lambda / {self.small:g}{shape}{whose}"


ONE_COLUMN = ((1, 1.0),)
INTERCEPT_AND_SLOPE = ((1, 0.5), (1, 1.0))
INTERCEPT_FACTOR_SLOPE = ((1, 0.5), (3, 1.0), (1, 1.0))
INTERCEPT_SLOPE_BALL: tuple[Shape, ...] = ((1, 0.5), (1, 1.0), (2, 1.0, "l2"))
"""The last two columns of these blocks have no bounds of their own, only one on their length."""
_BOUNDED = ((), ONE_COLUMN, INTERCEPT_AND_SLOPE, INTERCEPT_FACTOR_SLOPE)
_SHAPES: tuple[tuple[Shape, ...], ...] = (*_BOUNDED, INTERCEPT_SLOPE_BALL)


@dataclass(frozen=True, slots=True)
class Effort:
    """The effort of an audit.

    Attributes
    ----------
    settings : tuple of Setting
    random_pairs : int
        Number of random pairs in each setting, besides the pairs that attain the bounds.
    trials : int
        Number of modelled releases that are sampled on each dataset.
    seeds : int
        Number of repetitions of the sampling.
    releases : int
        Number of real releases that are compared with modelled ones.
    choices : int
        Number of pairs of tiny datasets, for each shape, for mechanisms that choose columns.
    formulas : int
        Number of random formulas for each kind of rows.

    Examples
    --------
    >>> from privatelr import audit
    >>> audit.QUICK.seeds, audit.FULL.seeds
    (1, 20)
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


def plan_in(
    request: Request, loss: Loss, setting: Setting, scale: ScaleFacts | None = None
) -> StagedCalibration | None:
    """The calibration of a mechanism in a setting, or None if no noise is large enough."""
    n = FEWER if request.spend == "inference" else RECORDS
    return plan_at(request, setting.facts(loss, n), setting.small, scale)


def plan_at(
    request: Request, facts: Problem, small: float, scale: ScaleFacts | None = None
) -> StagedCalibration | None:
    """The calibration of a mechanism, or None if no noise is large enough.

    Lambda is the one of the rule ``"free"`` for the coefficients, divided by `small`.
    """
    analysis = proven(request.analysis, facts.loss)
    with suppress(GuaranteeError):
        ways = divide(request.target, request.spend, facts.loss, scaled=scale is not None)
        proofs = (parts for parts, meant in ways if request.kinds and within(request.kinds, meant))
        target: Any = next(proofs, ways[0][0])["coefficients"]
        penalty = free_penalty(facts, target, analysis, kinds=request.kinds) / small
        asked = replace(request, analysis=analysis, lambda_=penalty / facts.n)
        return calibrate_all(asked, facts, scale)
    return None


# -- checks --------------------------------------------------------------------------------------

OK, VIOLATION, MISSING = "ok", "VIOLATION", "not installed"
_ROUNDING = 1e-9
_LINE = "{:<10}{:<{wide}}{:>10}{:>10}  {}"


@dataclass(frozen=True, slots=True)
class Check:
    """A number that an audit found, and the largest number that is allowed.

    Attributes
    ----------
    part : str
        The part of the audit, such as ``"rows"`` or ``"ledger"``.
    subject : str
        What was checked, in words.
    found : float
    allowed : float
        The largest allowed value of `found`, up to rounding.
    failure : str
        The reason why there is no number; empty if there is one.

    Examples
    --------
    >>> from privatelr.audit import Check
    >>> Check("rows", "longest row over the radius", found=1.2, allowed=1.0).verdict
    'VIOLATION'
    """

    part: str
    subject: str
    found: float = 0.0
    allowed: float = 0.0
    failure: str = ""

    @property
    def title(self) -> str:
        """The part of the audit and what was checked, in words."""
        return f"{self.part}, {self.subject}"

    @property
    def verdict(self) -> str:
        """``"ok"``, ``"VIOLATION"``, ``"not installed"``, or the reason why there was no audit."""
        if self.failure:
            return self.failure
        return OK if self.found <= self.allowed * (1 + _ROUNDING) else VIOLATION

    @property
    def holds(self) -> bool:
        """Whether the verdict is ``"ok"`` or ``"not installed"``."""
        return self.verdict in (OK, MISSING)

    def line(self, wide: int = 60) -> str:
        """The check as a line of the table, in which the subject has `wide` characters."""
        numbers = ("-", "-") if self.failure else (f"{self.found:.4g}", f"{self.allowed:.4g}")
        return _LINE.format(self.part, self.subject, *numbers, self.verdict, wide=wide)

    __str__ = line


def could_not(failure: Exception) -> str:
    """The verdict for an error: it names the type of the error, and does not quote its text."""
    if isinstance(failure, MissingDependencyError | ModuleNotFoundError):
        return MISSING
    return f"could not be audited: {type(failure).__name__}"


def largest(numbers: Iterable[float]) -> float:
    """The largest of these numbers, and NaN if one is: what nobody could compute is not small."""
    return float(np.max(list(numbers)))


def number(found: float) -> float:
    """The number that was found; NaN, which a search would step over, raises an error."""
    if math.isnan(found):
        raise ArithmeticError("found: NaN is no privacy loss.")
    return found


def guarded(
    part: str, subject: str, work: Callable[..., Iterable[Check]], *given: Any, only: str = "*"
) -> Iterator[Check]:
    """Yield the checks of ``work(*given)``; if it raises an error, the last check reports that.

    There are none unless the subject matches the pattern `only`, whose wildcards are those of file
    names.
    """
    if not fnmatch(subject, only):
        return
    try:
        yield from work(*given)
    except Exception as failure:  # an audit reports any error as a verdict, and goes on
        yield Check(part, subject, failure=could_not(failure))


def measured(
    part: str,
    subject: str,
    measure: Callable[..., float],
    *given: Any,
    allowed: float = 1.0,
    only: str = "*",
) -> Iterator[Check]:
    """Yield the check of the number that ``measure(*given)`` returns, or of its error."""

    def work() -> list[Check]:
        return [Check(part, subject, float(measure(*given)), allowed)]

    yield from guarded(part, subject, work, only=only)


def worst_share(shares: Iterable[float]) -> float:
    """The largest share of a claim; a search that has found a violation is over."""
    worst = -math.inf
    for share in shares:
        worst = largest((worst, share))
        if worst > 1 + _ROUNDING:
            break
    return worst


def table_of(checks: Iterable[Check]) -> list[str]:
    """The lines of a table of checks, followed by an empty line; no lines without checks."""
    listed = list(checks)
    wide = max([len(check.subject) + 2 for check in listed], default=0)
    head = _LINE.format("part", "what was checked", "found", "allowed", "verdict", wide=wide)
    return ruled(head, [check.line(wide) for check in listed])


def ruled(head: str, lines: list[str]) -> list[str]:
    """The lines of a table with a header, followed by an empty line; no lines without `lines`."""
    return [head, "-" * max(map(len, [head, *lines])), *lines, ""] if lines else []
