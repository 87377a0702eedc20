"""Losses of a margin ``z = y x.w``, each with the two constants that the proofs use.

A loss is convex, differentiable, and never increases; `slope` lies in ``[-slope_bound, 0]``
and `curvature` in ``[0, curvature_bound]`` (theory.md#setting).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from privatelr.errors import ArgumentError, or_meant, require_choice, require_number, show
from privatelr.locks import flint
from privatelr.types import FloatArray

Function = Callable[[FloatArray], FloatArray]
EVALUATION_ERROR = 8 * 2.0**-53
"""Relative error of a computed slope: 4 units in the last place."""
MARGIN_ERROR = 4 * 2.0**-53
"""A computed slope at z is exact at a margin no further from z than this times ``1 + |z|``."""


class Loss:
    """One loss. To add one, write a frozen class like `Logistic` and list it in `LOSSES`.

    `value`, `slope` and `curvature` compute in doubles. The slope at z has to be the exact one
    at a margin within ``MARGIN_ERROR (1 + |z|)`` of z, up to a relative `EVALUATION_ERROR`
    and to numbers below 1e-307, which may vanish; certificates build on this. The curvature has
    to be the exact one at the same margin, as closely. `enclose` gives value, slope and curvature
    as balls that hold the exact ones at every margin in the given
    ball, at the working precision. At a kink of the slope the ball of the curvature holds all
    values around; for a wide margin a ball may be wide, or not finite.

    Attributes
    ----------
    name, title : str
        Key in `LOSSES`, and what the summary calls the model.
    parameters : mapping of str to float
        The numbers that pick one loss of its family, by name; see `find_loss`.
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

    __slots__ = ()
    name: str
    title: str
    probability: Function | None = None
    value: Function
    slope: Function
    curvature: Function
    enclose: Callable[[flint.arb], tuple[flint.arb, flint.arb, flint.arb]]

    @property
    def slope_bound(self) -> float:
        return 1.0

    @property
    def parameters(self) -> Mapping[str, float]:
        return {}

    @property
    def curvature_bound(self) -> float:
        raise NotImplementedError

    @property
    def joint_factor(self) -> float | None:
        return None


def _expit(link: FloatArray) -> FloatArray:
    return np.asarray(scipy.special.expit(link))


def _falling(z: FloatArray, top: float = 1.0) -> FloatArray:
    """Return ``top / (1 + exp(z))``, with full accuracy for large and small z."""
    with np.errstate(over="ignore"):  # the result is then 0, which is accurate enough
        share = np.asarray(np.exp(z))
    share += 1.0
    return np.asarray(np.divide(top, share, out=share))


def _softplus(z: FloatArray) -> FloatArray:
    """``log(1 + exp(z))``."""
    return np.asarray(np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z))))


@dataclass(frozen=True, slots=True)
class Logistic(Loss):
    """``log(1 + exp(-z))``: slope in [-1, 0], curvature ``s (1 - s)`` at slope ``-s``."""

    name: str = "logistic"
    title: str = "logistic regression"
    slope_bound: float = 1.0
    curvature_bound: float = 0.25
    joint_factor: float | None = 1.0
    probability = staticmethod(_expit)

    def value(self, margin: FloatArray) -> FloatArray:
        return _softplus(-margin)

    def slope(self, margin: FloatArray) -> FloatArray:
        return _falling(margin, -1.0)

    def curvature(self, margin: FloatArray) -> FloatArray:
        return _falling(margin) * _falling(-margin)

    def enclose(self, margin: flint.arb) -> tuple[flint.arb, flint.arb, flint.arb]:
        # use the exponential that is at most 1, so that no digits are lost
        if margin.mid() >= 0:
            small = (-margin).exp()
            share = 1 / (1 + small)
            return small.log1p(), -small * share, small * share * share
        small = margin.exp()
        share = 1 / (1 + small)
        return small.log1p() - margin, -share, small * share * share


_SMALLEST_H, _LARGEST_H = 1e-4, 0.5


@dataclass(frozen=True, slots=True)
class _Hinge(Loss):
    """The common part of two losses that bend the hinge ``max(0, 1 - z)`` at its corner."""

    h: float = _LARGEST_H
    title = "support vector machine"

    def __post_init__(self) -> None:
        takes = (
            f"a number from {_SMALLEST_H:g} (the curvature grows as h falls, and at 0 it has no "
            f"bound and no proof) to {_LARGEST_H:g} (what the loss was published for, with its "
            "bend above the margin 1/2)"
        )
        limits = {"at_least": _SMALLEST_H, "at_most": _LARGEST_H}
        h = require_number(ArgumentError, "h", self.h, takes, **limits)
        object.__setattr__(self, "h", h)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"h": self.h}


@dataclass(frozen=True, slots=True)
class Huber(_Hinge):
    """The hinge ``max(0, 1 - z)`` with its corner replaced by a parabola.

    ``(1 + h - z)**2 / (4 h)`` for margins within h of 1 (Chapelle 2007; Chaudhuri, Monteleoni
    and Sarwate 2011). The slope runs from -1 to 0 there, and the curvature is ``1 / (2 h)`` there
    and zero elsewhere: as large where the slope is nearly one as where it is small, so no
    joint bound does better than the one-log bound, which it attains.

    Parameters
    ----------
    h : float
        Half the width of the parabola, from 1e-4 to 0.5.
    """

    name = "huber"

    @property
    def curvature_bound(self) -> float:
        return 1 / (2 * self.h)

    def value(self, margin: FloatArray) -> FloatArray:
        short = 1 + self.h - margin
        bent = np.clip(short, 0.0, 2 * self.h)
        return np.asarray(bent * bent / (4 * self.h) + np.maximum(short - 2 * self.h, 0.0))

    def slope(self, margin: FloatArray) -> FloatArray:
        return np.asarray(-np.clip((1 + self.h - margin) / (2 * self.h), 0.0, 1.0))

    def curvature(self, margin: FloatArray) -> FloatArray:
        short = 1 + self.h - margin
        bent = (short > 0) & (short < 2 * self.h)
        return np.where(bent, self.curvature_bound, 0.0)

    def enclose(self, margin: flint.arb) -> tuple[flint.arb, flint.arb, flint.arb]:
        h = flint.arb(self.h)
        short, width = 1 + h - margin, 2 * h
        bent = short.max(flint.arb(0)).min(width)
        value = bent * bent / (2 * width) + (short - width).max(flint.arb(0))
        if short < 0 or short > width:
            curvature = flint.arb(0)
        elif short > 0 and short < width:
            curvature = 1 / width
        else:  # at a kink: anything from 0 to 1 / (2 h)
            curvature = flint.arb(0).union(1 / width)
        return value, -bent / width, curvature


@dataclass(frozen=True, slots=True)
class SoftplusHinge(_Hinge):
    """``h log(1 + exp((1 - z) / h))``: the logistic loss that asks for a margin of one.

    Its slope at a margin of zero is steeper than the logistic one, and its curvature
    ``s (1 - s) / h`` vanishes where the slope has size 0 or 1, so the joint bound holds with
    ``kappa / h`` and the curvature can be had for free (theory.md#theorem-32).

    Parameters
    ----------
    h : float
        Width of the bend, from 1e-4 to 0.5.
    """

    name = "softplus"

    @property
    def curvature_bound(self) -> float:
        return 1 / (4 * self.h)

    @property
    def joint_factor(self) -> float:
        return 1 / self.h

    def value(self, margin: FloatArray) -> FloatArray:
        return self.h * _softplus((1 - margin) / self.h)

    def slope(self, margin: FloatArray) -> FloatArray:
        return _falling((margin - 1) / self.h, -1.0)

    def curvature(self, margin: FloatArray) -> FloatArray:
        excess = (1 - margin) / self.h
        return np.asarray(_falling(-excess) * _falling(excess) / self.h)

    def enclose(self, margin: flint.arb) -> tuple[flint.arb, flint.arb, flint.arb]:
        h = flint.arb(self.h)
        value, slope, curvature = Logistic().enclose((margin - 1) / h)
        return h * value, slope, curvature / h


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Logistic(), Huber(), SoftplusHinge())}
"""One registered loss of each family; every law about losses runs over this table."""


HINGES = tuple(name for name, loss in LOSSES.items() if loss.probability is None)
"""Losses of a support vector machine, the usual one first."""


def describe(loss: Loss) -> str:
    """The name of a loss, with the numbers that pick it from its family: ``huber, h = 0.5``."""
    return ", ".join([loss.name, *(f"{name} = {v:.6g}" for name, v in loss.parameters.items())])


def label(formula: str, loss: Loss) -> str:
    """Return the label of a fit in a ledger: its formula, and the loss if it is one of a family."""
    return f"{formula} ({describe(loss)})" if loss.parameters else formula


def find_loss(name: str, **parameters: Any) -> Loss:
    """The loss of a registered family with these parameters, or with its own where not given.

    Raises
    ------
    ArgumentError
        If the family is unknown, or a parameter is not one of it or out of its range.
    """
    if name not in LOSSES:
        known = ", ".join(map(repr, LOSSES))
        raise ArgumentError(f"loss={show(name)}: loss takes one of {known}{or_meant(name, LOSSES)}")
    family: Any = LOSSES[name]
    if unknown := set(parameters) - set(family.parameters):
        raise ArgumentError(f"{min(unknown)}: the {name} loss has no such parameter.")
    found: Loss = replace(family, **parameters)
    return found


def find_hinge(name: Any, h: Any, *, as_published: bool = False) -> Loss:
    """A loss of a support vector machine, of width h; raises `ArgumentError`.

    Softplus by default, which has less noise, or the published Huber loss.
    """
    if name is None:
        name = "huber" if as_published else "softplus"
    return find_loss(require_choice(ArgumentError, "loss", name, HINGES), h=h)
