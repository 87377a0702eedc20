"""Where predicted classes are split: a public number, or a rule that reads the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privatelr.errors import ArgumentError, require_number
from privatelr.results.scores import scale_of

if TYPE_CHECKING:
    from privatelr.numerics.losses import Loss
    from privatelr.numerics.roc import ThresholdRule
    from privatelr.results.scores import Scale

_RULES = ", 'fixed' ({:g}), 'youden' or 'topleft'"


@dataclass(frozen=True, slots=True)
class Threshold:
    """A public `value`, or a `rule` whose value is among the diagnostics instead."""

    value: float
    rule: ThresholdRule | None = None


def read_threshold(threshold: Any, loss: Loss) -> Threshold:
    """Check the argument ``threshold`` of the front door."""
    scale = scale_of(loss)
    rule = threshold if isinstance(threshold, str) else None
    if rule == "fixed":
        return Threshold(scale.fixed)
    if rule in ("youden", "topleft"):
        return Threshold(scale.fixed, rule="youden" if rule == "youden" else "topleft")
    return Threshold(require_threshold(threshold, scale, _RULES))


def require_threshold(threshold: Any, scale: Scale, rules: str = "") -> float:
    """A threshold that is a number; raises `ArgumentError`."""
    limits = {"at_least": scale.lowest, "at_most": scale.highest}
    takes = f"{scale.takes}{rules.format(scale.fixed)}"
    return require_number(ArgumentError, "threshold", threshold, takes, **limits)
