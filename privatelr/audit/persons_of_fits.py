"""Fits to persons: what a page or an error tells of their records, and how much they count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from privatelr.audit.checks import Check, guarded
from privatelr.errors import GuaranteeError
from privatelr.mechanisms import Problem, mean_moments
from privatelr.mechanisms.calibration.moment_noise import calibrate_moments, moments_sensitivity
from privatelr.model import dplr
from privatelr.model_data import read_data
from privatelr.numerics import LOSSES
from privatelr.privacy import REPLACE_PERSON, PureDP
from privatelr.sources import declare_schema
from privatelr.types import FloatArray

_PERSONS, _FEW, _MANY = 40, 2, 31
_BOUNDS = {"x": (0.0, 1.0)}
_FORMULA = "y ~ x + person(patient)"


def audit_persons_of_fits(epsilon: float) -> Iterator[Check]:
    """Compare what is told of two tables of as many persons, and weigh the persons of one."""
    for subject, work in (
        ("pages and errors that differ by the number of records", _told),
        ("what a person counts, in records", _counted),
        ("how far a person moves the matrices of inference", _moved),
    ):
        yield from guarded("persons", subject, work, subject, epsilon)


def _table(records: int, response: int = 0) -> pd.DataFrame:
    """Persons with one record each, but for the first, who has so many of this response."""
    whose = np.append(np.arange(_PERSONS), np.zeros(records - 1, dtype=int))
    y = np.where(whose == 0, response, whose % 2)
    return pd.DataFrame({"patient": whose, "x": whose / _PERSONS, "y": y})


def _told(subject: str, epsilon: float) -> Iterator[Check]:
    given: dict[str, Any] = {"bounds": _BOUNDS, "lambda_": 1.0}
    told = []
    for records in (_FEW, _MANY):
        table = _table(records)
        fitted = dplr(_FORMULA, table, epsilon, **given)
        told.append([str(fitted.calibration), str(fitted.guarantee), str(fitted.nobs)])
        try:
            dplr(_FORMULA, table, epsilon, 1e-12, on_small_lambda="keep", bounds=_BOUNDS)
        except GuaranteeError as error:
            told[-1].append(str(error))
    differ = sum(one != other for one, other in zip(*told, strict=True))
    yield Check("persons", subject, float(differ), 0.0)


def _counted(subject: str, epsilon: float) -> Iterator[Check]:
    source = read_data(_FORMULA, _table(_MANY), None)
    rows: Any = source.rows(source.plan(declare_schema(_BOUNDS, None, None, None)), bar=False)[0]
    weights: FloatArray = 1 / np.maximum(rows.y**2, 1.0)
    counted = [weights[_table(_MANY).patient == person].sum() for person in range(_PERSONS)]
    yield Check("persons", subject, float(np.max(counted)), 1.0)


def _moved(subject: str, epsilon: float) -> Iterator[Check]:
    pair, coef = [], np.array([-4.0, 3.0])
    for table in (_table(_FEW), _table(_MANY, response=1)):
        source = read_data(_FORMULA, table, None)
        spec = source.plan(declare_schema(_BOUNDS, None, None, None))
        rows: Any = source.rows(spec, bar=False)[0]
        facts = Problem(rows.n, rows.d, LOSSES["logistic"], rows.radius, lambda_=0.1, persons=True)
        plan = calibrate_moments(facts, PureDP(epsilon, REPLACE_PERSON))
        pair.append(mean_moments(rows, coef, plan))
    distance = float(np.linalg.norm(pair[1] - pair[0]))
    yield Check("persons", subject, distance / moments_sensitivity(facts), 1.0)
