"""One thing that an audit looked at: what it found, what is allowed, and a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privatelr.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

OK, VIOLATION, MISSING = "ok", "VIOLATION", "not installed"
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Check:
    """What was found beside what is allowed.

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
    def verdict(self) -> str:
        """``"ok"``, ``"VIOLATION"``, ``"not installed"``, or why it could not be audited."""
        if self.failure:
            return self.failure
        return OK if self.found <= self.allowed * (1 + _ROUNDING) else VIOLATION

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong; what is not installed is not wrong."""
        return self.verdict in (OK, MISSING)

    def __str__(self) -> str:
        return self.line()

    def line(self, wide: int = 60) -> str:
        """The check as a line, with so many places for the subject."""
        numbers = f"{'-':>10}{'-':>10}"
        if not self.failure:
            numbers = f"{self.found:>10.4g}{self.allowed:>10.4g}"
        return f"{self.part:<10}{self.subject:<{wide}}{numbers}  {self.verdict}"


def could_not(failure: Exception) -> str:
    """The verdict on what raised: its kind, and nothing else of it."""
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
    if not listed:
        return []
    wide = max(len(check.subject) for check in listed) + 2
    head = f"{'part':<10}{'what was checked':<{wide}}{'found':>10}{'allowed':>10}  verdict"
    lines = [check.line(wide) for check in listed]
    return [head, "-" * max(map(len, [head, *lines])), *lines, ""]
