"""Planted bugs in what a person with several records costs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from privatelr.audit.density.worst_persons import audit_persons
from privatelr.audit.mutations.planted import Look, Mutation, list_bug
from privatelr.audit.persons_of_fits import audit_persons_of_fits
from privatelr.design import offsets_and_weights, shares_of, with_shares
from privatelr.mechanisms import Problem
from privatelr.mechanisms.calibration import pure
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import gram_of_persons
from privatelr.types import FloatArray, IntArray

OF_PERSONS: list[Mutation] = []
bug = partial(list_bug, OF_PERSONS)

_LOGISTIC, _HUBER = (
    Look(f"persons, {name}", partial(audit_persons, 1.0, losses=[LOSSES[name]]))
    for name in ("logistic", "huber")
)
_FITS = Look("fits of persons", lambda rng: audit_persons_of_fits(1.0))


def _twice_the_penalty(honest: Any, rate: float, facts: Problem) -> Any:
    return honest(rate, facts.with_lambda(2 * facts.lambda_) if facts.persons else facts)


def _half_of_it(honest: Any, facts: Problem, *given: Any) -> Any:
    return honest(facts, *given) / (2 if facts.persons else 1)


@bug("the curvature of a person counts as free from half of the penalty on", None, _LOGISTIC)
def _() -> list[tuple[Any, Any]]:
    return [(pure.joint_epsilon, _twice_the_penalty), (pure.laplace_free_penalty, _half_of_it)]


@bug("slope and curvature of a person are bounded as a record's", pure.joint_epsilon, _LOGISTIC)
def _(honest: Any, rate: float, facts: Problem) -> Any:
    return honest(rate, replace(facts, persons=False))


@bug("the curvature of a person keeps its logarithm", pure.curvature_cost, _HUBER)
def _(honest: Any, facts: Problem) -> Any:
    return honest(replace(facts, persons=False))


@bug("weights of a person add up to more than 1", shares_of, _LOGISTIC)
def _(honest: Any, sizes: IntArray, most: int) -> FloatArray:
    return np.full(np.shape(sizes), 1 / most)


@bug("the number of records of persons is on the page and in errors", with_shares, _FITS)
def _(honest: Any, batch: Any, person: Any) -> Any:
    return len(batch), *honest(batch, person)[1:]


@bug("records of a person count as records", offsets_and_weights.read_targets, _FITS)
def _(honest: Any, spec: Any, values: Any, usable: Any, batch: Any) -> Any:
    return honest(spec, values, usable, replace(batch, shares=np.ones(len(batch.frame))))


@bug("gradients of a person add up as those of so many records", gram_of_persons, _FITS)
def _(honest: Any, rows: Any, weigh: Any, longest: float) -> Any:
    def unweighted(x: Any, y: FloatArray) -> FloatArray:
        return np.asarray(weigh(x, y) * y * y)

    return honest(rows, unweighted, 1e9)
