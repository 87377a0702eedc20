"""Planted bugs in what a record of several classes costs."""

from __future__ import annotations

from functools import partial
from typing import Any

from privatelr.mechanisms import Problem
from privatelr.mechanisms.calibration import softmax
from tests.audit.mutations.planted import Mutation, changes, list_bug

OF_CLASSES: list[Mutation] = []
bug = partial(list_bug, OF_CLASSES)

_CLASSES = changes("classes", "classes*")


@bug("slopes of several classes add up to those of one", (Problem, "pull"), _CLASSES)
def _(honest: Any, facts: Problem) -> float:
    return facts.loss.slope_bound


@bug("the gradient of several classes is as long as that of one", (Problem, "reach"), _CLASSES)
def _(honest: Any, facts: Problem) -> float:
    return facts.loss.slope_bound * facts.radius


@bug("the curvature of several classes has rank one", softmax.log_determinant, _CLASSES)
def _(honest: Any, s: float, kappa: float, classes: int) -> Any:
    return honest(s, kappa, 2)


@bug("the curvature of several classes ends where slopes do", softmax.log_determinant, _CLASSES)
def _(honest: Any, s: float, kappa: float, classes: int) -> Any:
    return 0.0 if s == 1.0 else honest(s, kappa, classes)


@bug("a person of several classes costs what a record does", softmax.person_epsilon, _CLASSES)
def _(honest: Any, g: float, kappa: float, classes: int) -> Any:
    return softmax.joint_epsilon(g, kappa, classes)


@bug("each class has the price of all", softmax.joint_epsilon, _CLASSES)
def _(honest: Any, g: float, kappa: float, classes: int) -> Any:
    return honest(g, kappa, classes) / classes
