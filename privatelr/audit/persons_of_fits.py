"""Fits to persons: what a page or an error tells of their records, and how much they count."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr import suggestions
from privatelr.audit.checks import Check, guarded, largest
from privatelr.call_data import read_data
from privatelr.design.persons import Section, sharing_of
from privatelr.errors import GuaranteeError, SchemaWarning
from privatelr.formula import Person
from privatelr.mechanisms import Problem, candidate_choice, mean_moments, range_selection
from privatelr.mechanisms.calibration import ScaleFacts
from privatelr.mechanisms.calibration.moment_noise import calibrate_moments, moments_sensitivity
from privatelr.mechanisms.calibration.scale_noise import calibrate_scale, scale_sensitivity
from privatelr.mechanisms.scale_release import mean_squares
from privatelr.mechanisms.score_histogram import L1_SENSITIVITY, L2_SENSITIVITY, score_counts
from privatelr.model import dplr
from privatelr.numerics import LOSSES
from privatelr.privacy import REPLACE_PERSON, ZCDP, PureDP
from privatelr.sources import declare_schema, stream
from privatelr.types import ColumnGroup, FloatArray

_PERSONS, _FEW, _MANY = 40, 2, 31
_BOUNDS = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
_FORMULA = "y ~ x + person(patient)"
_ALL = {"scale": 0.1, "coefficients": 0.4, "inference": 0.25, "roc": 0.25}


def audit_persons_of_fits(epsilon: float) -> Iterator[Check]:
    """Compare what is told of two tables of as many persons, and weigh the persons of one."""
    for subject, work in (
        ("pages and errors that differ by the number of records", _told),
        ("what a person counts, in records", _counted),
        ("what a person counts beside a sparse matrix, in records", _counted_of_matrix),
        ("what a person counts in two partitions, in records", _in_two_partitions),
        ("what a person counts in batches of a stream, in records", _in_batches),
        ("how far a person moves the matrices of inference", _moved),
        ("how far a person moves the scale of columns", _moved_scale),
        ("how far a person moves the counts of scores", _moved_counts),
        ("how far a person moves the scores of fits to choose from", _moved_choice),
        ("how far a person moves the counts behind suggested bounds", _moved_ranges),
    ):
        yield from guarded("persons", subject, work, subject, epsilon)


def _table(records: int, response: int = 0) -> pd.DataFrame:
    """Persons with one record each, but for the first, who has so many of this response."""
    whose = np.append(np.arange(_PERSONS), np.zeros(records - 1, dtype=int))
    y = np.where(whose == 0, response, whose % 2)
    return pd.DataFrame({"patient": whose, "x": whose / _PERSONS, "y": y})


def _told(subject: str, epsilon: float) -> Iterator[Check]:
    given: dict[str, Any] = {"bounds": _BOUNDS, "lambda_": 1.0, "spend": _ALL}
    told = []
    for records in (_FEW, _MANY):
        table = _table(records)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SchemaWarning)  # a scale of few persons is all noise
            fitted = dplr(_FORMULA, table, epsilon, **given)
        told.append([str(fitted.calibration), str(fitted.guarantee), str(fitted.nobs)])
        try:
            dplr(_FORMULA, table, epsilon, 1e-12, on_small_lambda="keep", bounds=_BOUNDS)
        except GuaranteeError as error:
            told[-1].append(str(error))
    differ = sum(one != other for one, other in zip(*told, strict=True))
    yield Check("persons", subject, float(differ), 0.0)


def _counted(subject: str, epsilon: float) -> Iterator[Check]:
    yield _most_counted(subject, read_data(_FORMULA, _table(_MANY), None), _BOUNDS)


def _counted_of_matrix(subject: str, epsilon: float) -> Iterator[Check]:
    table = _table(_MANY)
    x = sparse.csr_array(table[["x"]].to_numpy())
    yield _most_counted(subject, read_data(table.y, x, None, person=table.patient), None)


def _most_counted(subject: str, source: Any, bounds: Any) -> Check:
    """The largest sum of weights of the rows of one person."""
    rows = source.rows(source.plan(declare_schema(bounds, None, None, None)), bar=False)[0]
    weights: FloatArray = 1 / np.maximum(rows.y**2, 1.0)
    counted = [weights[_table(_MANY).patient == person].sum() for person in range(_PERSONS)]
    return Check("persons", subject, float(np.max(counted)), 1.0)


def _in_two_partitions(subject: str, epsilon: float) -> Iterator[Check]:
    """Both partitions have records of everybody, whatever their intervals say."""
    table, counted = _table(_MANY).set_index("patient"), np.zeros(_PERSONS)
    for low, high, is_last in ((0, _PERSONS // 2, False), (_PERSONS // 2, _PERSONS, True)):
        shares = sharing_of(Section(table, low, high, is_last), Person("patient")).shares
        counted += np.bincount(table.index, shares, minlength=_PERSONS)
    yield Check("persons", subject, float(counted.max()), 1.0)


def _in_batches(subject: str, epsilon: float) -> Iterator[Check]:
    """Each batch has few of the records of the first person, and none says how many there are."""
    if find_spec("pyarrow") is None:
        return
    import pyarrow as pa

    table = pa.Table.from_pandas(_table(_MANY))
    batches = stream(lambda: table.to_reader(max_chunksize=_FEW), memory=0)
    source = read_data(_FORMULA, batches, None)
    rows = source.rows(source.plan(declare_schema(_BOUNDS, None, None, None)), bar=False)[0]
    (y,) = rows.fold(lambda x, y: ([*y],))
    weights: FloatArray = 1 / np.maximum(np.square(y), 1.0)
    counted = np.bincount(_table(_MANY).patient, weights)
    yield Check("persons", subject, float(counted.max()), 1.0)


def _pair_of_rows(*, loose: bool = False, formula: str = _FORMULA) -> Iterator[Any]:
    """Rows of two tables that differ in one person: one record or many, in opposite places."""
    for records, response in ((1, 0), (_MANY, 1)):
        table = _table(records, response)
        table.loc[table.patient == 0, "x"] = float(response)
        source = read_data(formula, table, None)
        spec = source.plan(declare_schema(_BOUNDS, None, None, None))
        yield (source.loose if loose else source.rows)(spec, bar=False)[0]


def _moved_scale(subject: str, epsilon: float) -> Iterator[Check]:
    groups = (ColumnGroup(1, "number"),)
    facts = ScaleFacts(_PERSONS, groups, True, 0.003, 0.25, persons=True)
    rho = ZCDP(epsilon**2 / 2, REPLACE_PERSON)
    made = calibrate_scale(facts, rho)
    worst = 0.0
    for loose in (True, False):
        before, after = (mean_squares(rows, made) for rows in _pair_of_rows(loose=loose))
        worst = largest((worst, float(np.linalg.norm(after - before)) / scale_sensitivity(facts)))
    yield Check("persons", subject, worst, 1.0)


def _moved_counts(subject: str, epsilon: float) -> Iterator[Check]:
    edges, coef = np.linspace(-4.0, 4.0, 9), np.array([-4.0, 3.0])
    before, after = (score_counts(rows, coef, edges) for rows in _pair_of_rows())
    distance = np.abs(after - before)
    ratios = distance.sum() / L1_SENSITIVITY, np.linalg.norm(distance) / L2_SENSITIVITY
    yield Check("persons", subject, float(max(ratios)), 1.0)
    few = f"{_FORMULA[:-1]}, {_MANY})"
    sums = [score_counts(rows, coef, edges).sum() for rows in _pair_of_rows(formula=few)]
    beyond = max(abs(float(found) - _PERSONS) for found in sums)
    yield Check("persons", "sum of counts of scores that is not public", beyond, 0.0)


def _moved(subject: str, epsilon: float) -> Iterator[Check]:
    pair, coef = [], np.array([-4.0, 3.0])
    for table in (_table(_FEW), _table(_MANY, response=1)):
        source = read_data(_FORMULA, table, None)
        spec = source.plan(declare_schema(_BOUNDS, None, None, None))
        rows: Any = source.rows(spec, bar=False)[0]
        facts = Problem(rows.n, rows.d, LOSSES["logistic"], rows.radius, lambda_=0.1, persons=True)
        # as beside a scale, by which a typical row is shorter
        promise, typical = PureDP(epsilon, REPLACE_PERSON), facts.radius / 3
        plan = calibrate_moments(facts, promise, typical=typical)
        pair.append(mean_moments(rows, coef, plan))
    distance = float(np.linalg.norm(pair[1] - pair[0]))
    yield Check("persons", subject, distance / moments_sensitivity(facts, plan.typical), 1.0)


def _moved_ranges(subject: str, epsilon: float) -> Iterator[Check]:
    """The sum of changes of what ranges are chosen by: 2, as one leaves a slot and enters another.

    Persons have one record or many, in opposite places.
    """
    seen: list[FloatArray] = []

    def choose(slots: FloatArray, *given: Any) -> Any:
        seen.append(slots)
        return honest(slots, *given)

    honest, price = range_selection.choose_range, PureDP(1e4 * epsilon, REPLACE_PERSON)
    for records, place in ((1, 0.9), (_MANY, 0.1)):
        table = _table(records)
        table.loc[table.patient == 0, "x"] = place
        with mock.patch.object(suggestions, "choose_range", choose):
            suggestions.suggest_bounds(table, {"x": (-1, 1)}, price, person="patient")
    moved = float(np.abs(seen[0] - seen[1]).sum())
    yield Check("persons", subject, moved, 2.0)


def _moved_choice(subject: str, epsilon: float) -> Iterator[Check]:
    """The interval of changes of all fits, of which some rank this person best and some worst."""
    tables, worst = (_table(1), _table(_MANY, response=1)), 0.0
    width = candidate_choice.calibrate_choice(
        _PERSONS, 2, "auc", PureDP(epsilon, REPLACE_PERSON)
    ).mechanism.width
    values: dict[candidate_choice.ScoreName, FloatArray] = {
        "auc": np.array([0.0, 1.0]),
        "accuracy": np.array([-1.0, 1.0]),
        "brier": np.array([0.0, 1.0]),
    }
    for score, ends in values.items():
        changes = []
        for before, after, others in product(ends, ends, ends):
            totals = []
            for table, own in zip(tables, (before, after), strict=True):
                label = 2.0 * table.y.to_numpy() - 1
                said = np.where(table.patient == 0, own, np.where(label > 0, others, ends.mean()))
                said = np.where((score != "auc") & (said == ends.mean()), np.nan, said)
                shares = read_data(_FORMULA, table, None).batch.shares
                assert shares is not None
                totals.append(
                    candidate_choice.total_score_of_persons(score, label, said, shares, _PERSONS)
                )
            changes.append(totals[1] - totals[0])
        worst = largest((worst, float(np.ptp(changes)) / width))
    yield Check("persons", subject, worst, 1.0)
