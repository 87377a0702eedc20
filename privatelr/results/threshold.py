"""Where predicted classes are split: a public number, or a rule that reads the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privatelr.errors import ArgumentError, require_number, show

if TYPE_CHECKING:
    from privatelr.numerics.roc import ThresholdRule

_TAKES = "a number from 0 to 1, 'fixed' (0.5), 'youden' or 'topleft'"


@dataclass(frozen=True, slots=True)
class Threshold:
    """Either a public `value`, or a `rule` whose value is among the diagnostics."""

    value: float = 0.5
    rule: ThresholdRule | None = None


def read_threshold(threshold: Any) -> Threshold:
    """Check the argument ``threshold`` of the front door."""
    if isinstance(threshold, str):
        if threshold == "fixed":
            return Threshold()
        if threshold in ("youden", "topleft"):
            return Threshold(rule="youden" if threshold == "youden" else "topleft")
        raise ArgumentError(f"threshold={show(threshold)}: threshold takes {_TAKES}.")
    return Threshold(require_probability(threshold, _TAKES))


def require_probability(threshold: Any, takes: str = "a number from 0 to 1") -> float:
    """A threshold that is a number; raises `ArgumentError`."""
    return require_number(ArgumentError, "threshold", threshold, takes, at_least=0, at_most=1)
