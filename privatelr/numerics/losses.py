"""Losses of a margin ``z = y x.w``, each with the two constants that the proofs use.

A loss is convex, differentiable, and never increases; `slope` lies in ``[-slope_bound, 0]``
and `curvature` in ``[0, curvature_bound]`` (privacy.md, section 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from collections.abc import Callable

    from flint import arb

    from privatelr.types import FloatArray

EVALUATION_ERROR = 8 * 2.0**-53
"""Relative error of a computed slope: 4 units in the last place."""
MARGIN_ERROR = 4 * 2.0**-53
"""Relative to ``1 + |z|``: how far from z the margin may lie that a computed slope belongs to."""


class Loss(Protocol):
    """One loss. To add one, write a frozen class like `Logistic` and list it in `LOSSES`.

    `value`, `slope` and `curvature` compute in doubles. The slope at z has to be the exact one
    at a margin within ``MARGIN_ERROR (1 + |z|)`` of z, up to a relative `EVALUATION_ERROR`
    and to numbers below 1e-307, which may vanish; certificates build on this. `enclose` gives
    value, slope and curvature as balls that hold the exact ones at every margin in the given
    ball, at the working precision. At a kink of the slope the ball of the curvature holds all
    values around; for a wide margin a ball may be wide, or not finite.

    Attributes
    ----------
    name, title : str
        Key in `LOSSES`, and what the summary calls the model.
    slope_bound : float
        L, the largest size of the slope.
    curvature_bound : float
        c, the largest curvature.
    joint_factor : float or None
        k if the curvature where the slope has size ``s L`` is at most ``k s (1 - s)``, which
        is what the joint bound needs; None if the loss has no such bound.
    probability : callable or None
        Probability of the positive class as a function of the linear predictor, where the
        loss defines one.
    """

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def slope_bound(self) -> float: ...
    @property
    def curvature_bound(self) -> float: ...
    @property
    def joint_factor(self) -> float | None: ...
    @property
    def probability(self) -> Callable[[FloatArray], FloatArray] | None: ...

    def value(self, margin: FloatArray) -> FloatArray: ...
    def slope(self, margin: FloatArray) -> FloatArray: ...
    def curvature(self, margin: FloatArray) -> FloatArray: ...
    def enclose(self, margin: arb) -> tuple[arb, arb, arb]: ...


def _expit(link: FloatArray) -> FloatArray:
    return np.asarray(special.expit(link))


@dataclass(frozen=True, slots=True)
class Logistic:
    """``log(1 + exp(-z))``: slope in [-1, 0], curvature ``s (1 - s)`` at slope ``-s``."""

    name: str = "logistic"
    title: str = "logistic regression"
    slope_bound: float = 1.0
    curvature_bound: float = 0.25
    joint_factor: float | None = 1.0

    @property
    def probability(self) -> Callable[[FloatArray], FloatArray]:
        return _expit

    def value(self, margin: FloatArray) -> FloatArray:
        return np.logaddexp(0.0, -margin)

    def slope(self, margin: FloatArray) -> FloatArray:
        return -_expit(-margin)

    def curvature(self, margin: FloatArray) -> FloatArray:
        return _expit(margin) * _expit(-margin)

    def enclose(self, margin: arb) -> tuple[arb, arb, arb]:
        # the exponential that is at most 1 loses no digits to the other terms
        if margin.mid() >= 0:
            small = (-margin).exp()
            share = 1 / (1 + small)
            return small.log1p(), -small * share, small * share * share
        small = margin.exp()
        share = 1 / (1 + small)
        return small.log1p() - margin, -share, small * share * share


LOSSES: dict[str, Loss] = {"logistic": Logistic()}
"""Registered losses; every law about losses runs over this table."""
