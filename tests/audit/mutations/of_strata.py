"""Planted bugs in what fits to strata cost, of which a record may change two."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from privatelr.audit.neighbouring_tables import audit_strata
from privatelr.design import offsets_and_weights
from privatelr.mechanisms import Problem
from privatelr.mechanisms.calibration import proven_noise, pure
from privatelr.mechanisms.stages import matrices as matrix_stage
from privatelr.mechanisms.stages.histogram import calibrate_histogram
from tests.audit.mutations.planted import Look, Mutation, changes, list_bug

OF_STRATA: list[Mutation] = []
bug = partial(list_bug, OF_STRATA)

_MOVES = changes("strata, logistic", "strata, logistic*")
_TABLES = Look("strata of tables", lambda rng: audit_strata(1.0))


@bug(
    "each stratum is charged all of epsilon for a record that it loses", pure.joint_epsilon, _MOVES
)
def _(honest: Any, rate: float, facts: Problem) -> Any:
    return honest(rate, facts) / facts.touched


@bug("what minimisation leaves open is counted for one stratum", proven_noise.shield_for, _MOVES)
def _(honest: Any, facts: Problem, *given: Any) -> Any:
    return honest(replace(facts, touched=1), *given)


@bug("a person changes two strata at most", proven_noise.shield_for, _MOVES)
def _(honest: Any, facts: Problem, *given: Any) -> Any:
    return honest(replace(facts, touched=min(facts.touched, 2)), *given)


@bug("a person weighs as much in each stratum", offsets_and_weights.read_person_roots, _TABLES)
def _(honest: Any, batch: Any) -> Any:
    return np.ones(len(honest(batch)))


@bug("matrices of two strata move as those of one", matrix_stage.moments_sensitivity, _TABLES)
def _(honest: Any, facts: Problem, *given: Any) -> Any:
    return honest(replace(facts, touched=1), *given)


@bug("counts of two strata move as those of one", calibrate_histogram, _TABLES)
def _(honest: Any, n: int, target: Any, kinds: Any = (), touched: int = 1) -> Any:
    return honest(n, target, kinds)


@bug("a record counts in every stratum", offsets_and_weights.read_roots, _TABLES)
def _(honest: Any, weight: Any, values: Any, n: int) -> Any:
    return np.ones(n) if weight is None else honest(replace(weight, stratum=None), values, n)
