"""Where predicted classes are split: a public number, or a rule that reads the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privatelr.errors import ArgumentError, require_number, show
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
    if not isinstance(threshold, str):
        return Threshold(require_threshold(threshold, scale, _RULES))
    if threshold == "fixed":
        return Threshold(scale.fixed)
    if threshold in ("youden", "topleft"):
        return Threshold(scale.fixed, rule="youden" if threshold == "youden" else "topleft")
    takes = f"{scale.takes}{_RULES.format(scale.fixed)}"
    raise ArgumentError(f"threshold={show(threshold)}: threshold takes {takes}.")


def require_threshold(threshold: Any, scale: Scale, rules: str = "") -> float:
    """A threshold that is a number; raises `ArgumentError`."""
    limits = {"at_least": scale.lowest, "at_most": scale.highest}
    takes = f"{scale.takes}{rules.format(scale.fixed)}"
    return require_number(ArgumentError, "threshold", threshold, takes, **limits)
