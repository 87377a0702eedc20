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

    from privatelr.types import FloatArray


class Loss(Protocol):
    """One loss. To add one, write a frozen class like `Logistic` and list it in `LOSSES`.

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


LOSSES: dict[str, Loss] = {"logistic": Logistic()}
"""Registered losses; every law about losses runs over this table."""
