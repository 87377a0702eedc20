"""Planted bugs in what a person with several records costs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from privatelr.audit.neighbouring_tables import audit_persons_of_fits
from privatelr.call_data import FrameData
from privatelr.design import offsets_and_weights, persons, read_wide, shares_of, with_shares
from privatelr.mechanisms import Problem
from privatelr.mechanisms.calibration import gaussian_objective, pure
from privatelr.mechanisms.candidate_choice import total_score_of_persons
from privatelr.mechanisms.stages.histogram import counts_of_shares, filled_up
from privatelr.mechanisms.stages.matrices import clip_for
from privatelr.mechanisms.stages.scale import scale_sensitivity
from privatelr.numerics.rows import column_sums, grams_of_persons
from privatelr.privacy import TiltEvent, person_tilt
from privatelr.types import FloatArray, IntArray
from tests.audit.mutations.planted import Look, Mutation, changes, list_bug, long, noise

OF_PERSONS: list[Mutation] = []
bug = partial(list_bug, OF_PERSONS)

_LOGISTIC, _HUBER = (
    changes(f"persons, {name}", f"persons, {name}, free*") for name in ("logistic", "huber")
)
_GAUSSIAN = changes("Gaussian noise of persons", "persons, logistic*: Gaussian*")
_DELTA = "objective, *delta = 1e-06*"
_NOISE = noise(_DELTA)
_LONG = long("persons*")
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


@bug("Gaussian noise of persons is half as long", gaussian_objective.objective_sigma, _GAUSSIAN)
def _(honest: Any, facts: Problem, *given: Any, **known: Any) -> float:
    return float(honest(facts, *given, **known)) / (2 if facts.persons else 1)


@bug("a person's rho is that of a tilt half as far", gaussian_objective.sigma_for_rho, _GAUSSIAN)
def _(honest: Any, facts: Problem, *given: Any) -> float:
    return float(honest(facts, *given)) / (2 if facts.persons else 1)


@bug("the curvature of persons is free under a delta", person_tilt.cases, _NOISE)
def _(honest: Any, event: TiltEvent) -> Any:
    return honest(replace(event, kappa=0.0))


@bug("weights of a person add up to more than 1", shares_of, _LOGISTIC)
def _(honest: Any, sizes: IntArray, most: int) -> FloatArray:
    return np.full(np.shape(sizes), 1 / most)


@bug("the number of records of persons is on the page and in errors", with_shares, _FITS)
def _(honest: Any, batch: Any, person: Any) -> Any:
    return len(batch), *honest(batch, person)[1:]


@bug("records of a person count as records", offsets_and_weights.read_targets, _FITS)
def _(honest: Any, spec: Any, values: Any, usable: Any, batch: Any) -> Any:
    return honest(spec, values, usable, replace(batch, shares=np.ones(len(batch.frame))))


@bug("records of a person count as records beside a sparse matrix", read_wide, _FITS)
def _(honest: Any, spec: Any, matrix: Any, batch: Any) -> Any:
    return honest(spec, matrix, replace(batch, shares=np.ones(len(batch))))


@bug("gradients of a person add up as those of so many records", grams_of_persons, _LONG)
def _(honest: Any, rows: Any, weigh: Any, longest: float) -> Any:
    def unweighted(x: Any, y: FloatArray) -> Any:
        bends, pulls = weigh(x, y)
        return bends, pulls * y * y

    return honest(rows, unweighted, 1e9)


@bug("records of a person count as records in the scale", column_sums, _LONG)
def _(honest: Any, x: Any, weight: Any = None) -> Any:
    return honest(x, weight) if weight is None else honest(x / weight[:, None])


@bug("a person counts in the scale by the number of records", (FrameData, "_means"), _LONG)
def _(honest: Any, source: Any) -> Any:
    means = honest(source)
    return None if means is None else np.ones(len(means))


@bug("records of a person count as records in the counts of scores", counts_of_shares, _LONG)
def _(honest: Any, cells: IntArray, shares: FloatArray, bins: int, m: int) -> Any:
    return honest(cells, np.ones(len(shares)), bins, m)


@bug("counts of scores add up to the records of persons", filled_up, _FITS)
def _(honest: Any, counts: FloatArray, m: int) -> Any:
    return counts


@bug("records of a person count as records in a choice among fits", total_score_of_persons, _FITS)
def _(honest: Any, score: Any, label: Any, prediction: Any, shares: Any, m: int) -> Any:
    return honest(score, label, prediction, np.ones(len(shares)), m)


@bug("the noise on the scale of persons is as of two of them", scale_sensitivity, _LONG)
def _(honest: Any, facts: Any) -> float:
    return float(honest(replace(facts, n=2 * facts.n)) if facts.persons else honest(facts))


@bug("a person's records are each held to the trace of a record", clip_for, _LONG)
def _(honest: Any, facts: Problem, *given: Any, **named: Any) -> Any:
    return honest(replace(facts, persons=False), *given, **named)


@bug("records of partitions count wherever they are", (persons, "_inside"), _FITS)
def _(honest: Any, index: Any, section: Any) -> Any:
    return np.ones(len(index), dtype=bool)
