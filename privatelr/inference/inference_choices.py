"""What can be asked of inference: checked choices, and the matrices that they call for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

from privatelr.errors import ArgumentError, GuaranteeError, require_choice, require_number
from privatelr.inference.noisy_moments import (
    MODES,
    evidence_of,
    is_exact,
    plausible,
    plug_in,
    quality,
)
from privatelr.mechanisms import Release

if TYPE_CHECKING:
    from privatelr.inference.error_distribution import Matrices
    from privatelr.inference.noisy_moments import Mode

Target = Literal["penalised", "unpenalised"]
Method = Literal["sandwich", "wkl"]
TARGETS = ("penalised", "unpenalised")
_OLDER = {"regularised": "penalised", "unregularised": "unpenalised"}
"""Spellings of earlier versions, which old scripts have."""
METHODS = ("sandwich", "wkl")
LARGEST_BIAS = 0.25
"""Relative bias beyond which one step does not take it off (inference.md 3.4)."""


@dataclass(frozen=True, slots=True)
class InferenceChoices:
    """How to infer, with the default mode of the release filled in."""

    mode: Mode
    target: Target
    method: Method


def read_choices(release: Release, mode: Any, target: Any, method: Any) -> InferenceChoices:
    """Check what is asked of a release.

    Raises
    ------
    ArgumentError
        If the mode, target or method is unknown.
    GuaranteeError
        If inference was not requested, or what was released cannot carry the target.
    """
    if mode is not None:
        require_choice(ArgumentError, "mode", mode, MODES)
    target = read_target(target)
    require_choice(ArgumentError, "method", method, METHODS)
    if method == "wkl" and mode not in (None, "plug-in"):
        raise ArgumentError(
            f"mode={mode!r}: method='wkl' takes mode=None, since it has one way of its own."
        )
    if method == "wkl" and target == "unpenalised":
        raise ArgumentError(
            "target='unpenalised': method='wkl' takes target='penalised', since the published "
            "method has no step that takes the penalty's bias off."
        )
    found = quality(release).mode if mode is None else mode
    if method == "wkl" or is_exact(evidence_of(release)):
        found = "plug-in"
    if target == "unpenalised":
        _require_little_bias(release, found)
    return InferenceChoices(cast("Mode", found), target, method)


def _require_little_bias(release: Release, mode: str) -> None:
    known = quality(release)
    if mode == "conservative":
        raise GuaranteeError(
            "target='unpenalised': the noise in the information matrix is "
            f"{known.noise_to_signal:.2g} times its smallest eigenvalue, so that without the "
            "penalty no limit holds for every dataset; take target='penalised', or more "
            "records, more epsilon or fewer columns."
        )
    if not known.relative_bias <= LARGEST_BIAS:
        bias = known.relative_bias
        size = f"{bias:.0%}" if bias <= 1 else "more than all of them"
        size = "an unknown size" if math.isinf(bias) else size
        raise GuaranteeError(
            f"target='unpenalised': the penalty shrinks the coefficients by {size}, and one "
            f"step corrects at most {LARGEST_BIAS:.0%}; take target='penalised', or fit with a "
            "smaller lambda_."
        )


def read_target(target: Any) -> Target:
    """What estimates are of, also by an older spelling; raises `ArgumentError`."""
    named = _OLDER.get(target, target) if isinstance(target, str) else target
    return cast("Target", require_choice(ArgumentError, "target", named, TARGETS))


def read_level(level: Any) -> float:
    """A level of confidence as a number; raises `ArgumentError`."""
    takes = "a number from 0.5 to 0.9999, such as 0.95"
    return require_number(ArgumentError, "level", level, takes, at_least=0.5, at_most=0.9999)


def matrices_for(release: Release, choices: InferenceChoices) -> Matrices:
    """Curvatures and scores to average over."""
    evidence = evidence_of(release)
    if choices.method == "wkl":
        return plug_in(evidence, scores_floor=evidence.floor)
    if choices.mode == "plug-in":
        return plug_in(evidence)
    return _plausible(release)


@lru_cache(maxsize=16)
def _plausible(release: Release) -> Matrices:
    """The posterior of a release, which is its function, drawn only once."""
    return plausible(evidence_of(release), quality(release).noise_to_signal)
