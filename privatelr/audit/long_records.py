"""Records that are as long as every clip allows, and how far they move what a fit adds noise to.

Fits are made twice through the public interface, to two neighbouring tables. What a stage hands to
its noise is recorded, and what it releases is chosen here, the same for both: so later stages go
by the same earlier results, and these may be those that make records longest. The change between
the two, under the noise that was really handed along, is the exact privacy loss of that stage.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from privatelr.audit import worth
from privatelr.audit.checks import Check, claims_of_size, guarded, largest, short
from privatelr.audit.density.exact import candidate_margins
from privatelr.audit.law_definitions import definition_of
from privatelr.mechanisms import (
    STAGES,
    Problem,
    mean_moments,
    perturbation,
    scale_release,
    score_histogram,
)
from privatelr.mechanisms.calibration import GAUSSIAN, LAPLACE, calibrate_moments
from privatelr.model import dplr, dpsvm
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import DenseRows
from privatelr.privacy import (
    REPLACE_ONE,
    REPLACE_PERSON,
    ZCDP,
    ApproxDP,
    Guarantee,
    Promise,
    PureDP,
)
from privatelr.privacy.noise import NoiseLaw
from privatelr.types import FloatArray

_LARGE = 1e4
"""An epsilon, or a rho, at which fits take rows much longer than usual ones."""
_REACHED = 0.97
"""The longest records have to reach this share of what the noise of each stage is for."""
_LENGTHS = (1.0, 0.5, 0.38)
"""Lengths of rows over the largest one."""
_OTHERS = 20


def share_of_changes(law: NoiseLaw, target: Guarantee, changes: list[FloatArray]) -> float:
    """The share of a claim that noise on these changes spends."""
    return worth.share_of(target, *definition_of(law).cost_of(law, changes))


# -- the matrices of inference --------------------------------------------------------------------


def audit_long_records(epsilon: float, only: str = "*") -> Iterator[Check]:
    """Checks of the matrices of inference on long rows, and of all stages of fits.

    Only subjects that match the pattern `only` are checked.
    """
    for claim, kinds in product(claims_of_size(epsilon), (LAPLACE, GAUSSIAN)):
        if kinds is LAPLACE or not isinstance(claim, PureDP):
            subject = f"matrices, {short(claim)}, {'Laplace' if kinds is LAPLACE else 'Gaussian'}"
            if fnmatch(subject, only):
                yield from guarded("long", subject, _matrices, claim, kinds, subject)
    reached: dict[str, float] = {}
    for named, case in _CASES.items():
        neighbours = REPLACE_PERSON if "person(" in case.formula else REPLACE_ONE
        for claim in (PureDP(_LARGE, neighbours), ZCDP(_LARGE, neighbours)):
            subject = f"{named}, {'pure' if isinstance(claim, PureDP) else 'zCDP'}"
            if fnmatch(subject, only):
                yield from guarded("long", subject, _fits, case, claim, subject, reached)
    for stage, share in reached.items() if only == "*" else ():
        yield Check("long", f"{stage}: what has to be reached, of its part", _REACHED, share)


def _matrices(claim: Promise, kinds: Any, subject: str) -> Iterator[Check]:
    """Two orthogonal records of all lengths and margins; the worst has to be near the bound."""
    shares = []
    for loss, typical in product(LOSSES.values(), (None, 1.0)):
        facts = Problem(2, 2, loss, 3.0, lambda_=1.0)
        made, reached = calibrate_moments(facts, claim, kinds, typical), []
        margin = candidate_margins(loss)
        weights = loss.curvature(margin), made.balance * loss.slope(margin) ** 2
        tried = (float(margin[np.argmax(np.hypot(*weights))]), 0.0, -30.0)
        for lengths, margins in product(product(_LENGTHS, repeat=2), product(tried, repeat=2)):
            found = [
                mean_moments(
                    DenseRows(row, np.array([1.0, 0.0]), bound=3.0, intercept=None),
                    np.array(margins) / (3.0 * np.array(lengths)),
                    made,
                )
                for row in 3.0 * np.array([[[lengths[0], 0], [0, 0]], [[0, lengths[1]], [0, 0]]])
            ]
            reached.append(share_of_changes(made.noise, claim, [found[0] - found[1]]))
        shares.append(largest(reached))
    yield Check("long", f"{subject}: loss over the claim", largest(shares), 1.0)
    if not isinstance(claim, ApproxDP):  # a delta falls fast with the noise
        yield Check(
            "long", f"{subject}: what has to be reached, of the claim", _REACHED, min(shares)
        )


# -- all stages of fits ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class FarCase:
    """Two neighbouring tables that differ in a record or a person, and what is declared of them."""

    formula: str
    tables: tuple[pd.DataFrame, pd.DataFrame]
    given: Mapping[str, Any] = field(default_factory=dict)


def _tables(*ends: Mapping[str, Any], times: int = 1) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables whose first records, so many, are at one end or at the other; `y` too."""
    middle = {"x": 0.1, "z": -0.1, "f": "b", "w": 0.5, "y": 1.0}
    others = [{**middle, "who": 1 + k} for k in range(_OTHERS)]
    first, second = ([{**middle, **end, "who": 0}] * times + others for end in ends)
    return pd.DataFrame(first), pd.DataFrame(second)


_FAR = {"x": 1e9, "z": -1e9, "f": "a", "w": 1e9, "y": 1.0}
_NEAR = {"x": -1e9, "z": 1e9, "f": "c", "w": 1e9, "y": 0.0}
_ORTHOGONAL = {**_FAR, "z": 1e9, "f": "c"}
_CASES = {
    "opposite records": FarCase("y ~ x + z", _tables(_FAR, _NEAR)),
    "a record that leaves the middle": FarCase("y ~ x + z", _tables(_FAR, {"x": 0.0, "z": 0.0})),
    "orthogonal records": FarCase("y ~ 0 + x + z", _tables(_FAR, _ORTHOGONAL)),
    "factors": FarCase("y ~ x + f", _tables(_FAR, _NEAR)),
    "products": FarCase("y ~ 0 + x:f + z", _tables(_FAR, _NEAR)),
    "heavy records": FarCase("y ~ x + z", _tables(_FAR, _NEAR), {"weights": "w"}),
    "persons": FarCase("y ~ x + f + person(who)", _tables(_FAR, _NEAR, times=9)),
}
_DECLARED: Mapping[str, Any] = {
    "bounds": {"x": (-5, 5), "z": (-2, 2), "w": (0, 1), "y": (0, 1)},
    "levels": {"f": ("a", "b", "c")},
    "spend": {"scale": 0.1, "coefficients": 0.5, "inference": 0.3, "roc": 0.1},
}


@dataclass(slots=True)
class _Watch:
    """Stands in for the rounding of sums with noise, and records the sums and the laws."""

    w: float
    seen: list[tuple[NoiseLaw, FloatArray]] = field(default_factory=list)

    def rounded(self, centre: Any, noise: Any, grid: float) -> FloatArray:
        """Zeros for a scale and for matrices, and coefficients of this size for a minimiser."""
        law = noise.recipe
        values = np.array([float(getattr(c, "mid", lambda c=c: c)()) for c in centre])
        self.seen.append((law, values))
        return np.zeros(len(values))

    def minimiser(self, centre: Any, noise: Any, grid: float) -> FloatArray:
        """The first vector that a fit rounds in this module is that of the coefficients."""
        if any(law is None for law, _ in self.seen):
            return self.rounded(centre, noise, grid)
        self.seen.append((None, np.zeros(0)))  # type: ignore[arg-type]
        return np.resize([self.w, -self.w], len(centre))


def _watched(fit_by: Callable[..., Any], case: FarCase, claim: Promise, w: float, side: int) -> Any:
    watch = _Watch(w)
    with ExitStack() as patched:
        own = {sys.modules[type(stage).__module__] for stage in STAGES.values()}
        rounding = {module for module in own if hasattr(module, "rounded_sum")}
        for module in {scale_release, score_histogram, *rounding}:
            patched.enter_context(mock.patch.object(module, "rounded_sum", watch.rounded))
        patched.enter_context(mock.patch.object(perturbation, "rounded_sum", watch.minimiser))
        patched.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        fit = fit_by(case.formula, case.tables[side], claim, "free", **_DECLARED, **case.given)
    return fit, [(law, values) for law, values in watch.seen if law is not None]


def _fits(
    case: FarCase, claim: Promise, subject: str, reached: dict[str, float]
) -> Iterator[Check]:
    shares: list[float] = []
    for fit_by, w in product((dplr, dpsvm), (0.0, 0.3, -3.0)):
        (fit, first), (_, second) = (_watched(fit_by, case, claim, w, side) for side in (0, 1))
        release = fit.release
        stages = {part.calibration.noise: part.calibration for part in release.parts.values()}
        assert len(first) == len(second) == len(stages)
        for (law, one), (_, other) in zip(first, second, strict=True):
            shares.append(share_of_changes(law, stages[law].target, [one - other]))
            stage = f"{type(stages[law]).__name__}, {type(claim).__name__}"
            reached[stage] = max(reached.get(stage, 0.0), shares[-1])
    yield Check("long", f"{subject}: loss of a stage over its part", largest(shares), 1.0)
