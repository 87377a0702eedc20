"""Offsets and weights of a formula, and the labels that carry them to the rows.

Both are numbers within declared bounds. An offset is added to a linear predictor. A weight is how
much a record counts, at most as much as the largest weight that the bounds allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privatelr.design.column_plan import read_number
from privatelr.design.response import labels, places
from privatelr.design.terms import Factor, plan_factor
from privatelr.design.variables import Values, Variable, level_codes, read_values, remedy
from privatelr.errors import SchemaError
from privatelr.formula import By, Expression, Formula, evaluate
from privatelr.sources import Batch
from privatelr.types import BoolArray, FloatArray

_LEAST_ROOT = 1e-9
"""A record whose weight has a smaller root does not count, which keeps its label finite."""


@dataclass(frozen=True, slots=True)
class Weight:
    """Which records count, and how much: a number over the largest that declared bounds allow.

    Attributes
    ----------
    factor : Factor or None
        None if all records count as much.
    subset : Expression or None
        The condition of records that count at all.
    stratum : By or None
        The level of a column, whose records count and no others; all levels for one without.
    is_equal : bool
        Whether all records with a positive weight count as much, in the subset or not, as where the
        scale is released.

    Notes
    -----
    **Privacy.** The largest weight is public, so a record counts a in [0, 1] whatever others count;
    a sum or mean of the weights in its place would depend on all of them. Then at each point a
    record with a weight adds what a shorter record may add, and no noise depends on weights
    (theory.md#weights-offsets-and-priors has the proof).
    """

    factor: Factor | None
    subset: Expression | None = None
    stratum: By | None = None
    is_equal: bool = False

    @property
    def most(self) -> float:
        """W, the weight of a record that counts fully, by the declared bounds."""
        return 1.0 if self.factor is None else self.factor.interval[1]


def plan_beside(
    formula: Formula, variables: Mapping[str, Variable]
) -> tuple[tuple[Factor, ...], Weight | None]:
    """Plan the numbers that are added to the linear predictor, and how much records count.

    Raises
    ------
    SchemaError
        If one is no number, if the declared bounds do not limit it, if no weight is positive, if
        a subset is no condition, or if levels of strata are not declared.
    """
    offsets = tuple(_plan_number(one, variables, "offset") for one in formula.offsets)
    if not formula.counting:
        return offsets, None
    weights, subset = formula.weights, formula.subset
    factor = None if weights is None else _plan_number(weights, variables, "weights")
    if factor is not None and not factor.interval[1] > 0:
        raise SchemaError(
            f"weights({factor.expression.label}) is at most {factor.interval[1]:g} by the declared "
            "bounds, and takes a positive number."
        )
    if subset is not None and not _is_condition(subset, variables):
        one = variables[subset.names[0]]
        choice = f"== {one.levels[0]!r}" if one.levels else "> 50"
        choice = "== 'a'" if one.kind == "text" and not one.levels else choice
        raise SchemaError(
            f"subset({subset.label}) takes a condition that is true or false, such as "
            f"subset({subset.names[0]} {choice})."
        )
    if formula.by is not None:
        _require_strata(formula.by, variables)
    return offsets, Weight(factor, subset, formula.by)


def _require_strata(by: By, variables: Mapping[str, Variable]) -> None:
    variable = variables[by.column]
    if not variable.levels:
        raise SchemaError(
            f"by: the column {by.column!r} takes declared levels, each of which gets a fit; "
            f"{remedy(variable)}."
        )
    if by.level is not None and by.level not in variable.levels:
        raise SchemaError(
            f"by: {by.label} names a level that is not declared; {by.column!r} has "
            f"{', '.join(map(repr, variable.levels))}."
        )


def _is_condition(expression: Expression, variables: Mapping[str, Variable]) -> bool:
    column = expression.bare()
    return expression.is_logical or (column is not None and variables[column].kind == "logical")


def with_equal_weights(spec: Any) -> Any:
    """Return the plan whose records count alike, except for those of no weight."""
    weight = spec.weight
    return spec if weight is None else replace(spec, weight=replace(weight, is_equal=True))


def _plan_number(
    expression: Expression, variables: Mapping[str, Variable], function: str
) -> Factor:
    factor = plan_factor(expression, variables)
    term = f"{function}({expression.label})"
    if factor.is_categorical:
        use = "added to the linear predictor" if function == "offset" else "the weight of a record"
        raise SchemaError(f"{term} takes a number that is {use}, and no categories.")
    if not factor.is_finite:
        names = [name for name in expression.names if not variables[name].is_bounded]
        name = (names or expression.names)[0]
        why = "" if names else " that keep it finite"
        raise SchemaError(
            f"{term} takes bounds{why}: declare bounds="
            f'{{"{name}": (lo, hi)}} from what is publicly known.'
        )
    return factor


def read_offset(parts: Sequence[Factor], values: Values, n: int) -> tuple[FloatArray, BoolArray]:
    """Return the offset ``(n,)``, and the rows in which it is a number.

    Each part is clipped to its range. `values` holds the columns that it reads, in their units.
    """
    offset, usable = np.zeros(n), np.ones(n, dtype=bool)
    for part in parts:
        number, defined = read_number(part, values, n)
        usable &= defined
        offset += number
    return offset, usable


def read_roots(weight: Weight | None, values: Values, n: int) -> FloatArray:
    """Return the square roots ``(n,)`` of what records count, over the largest weight.

    They are 0 for a weight that is missing, not positive, or below ``1e-18`` of the largest one,
    and outside of a subset or a stratum.
    """
    root = np.ones(n)
    if weight is not None and weight.factor is not None:
        number, defined = read_number(weight.factor, values, n)
        with np.errstate(all="ignore"):
            root = np.sqrt(np.clip(number / weight.most, 0.0, 1.0))
        root[~defined | (root < _LEAST_ROOT)] = 0.0
    if weight is not None and weight.is_equal:
        return np.ceil(root)
    if weight is not None and weight.subset is not None:
        root = np.where(np.equal(evaluate(weight.subset, values), True), root, 0.0)
    if weight is not None and weight.stratum is not None and weight.stratum.level is not None:
        by = weight.stratum
        root = np.where(level_codes(values[by.column], (by.level,)) == 0, root, 0.0)
    return root


def read_selected(
    weight: Weight, variables: Mapping[str, Variable], names: tuple[str, ...], batch: Batch
) -> BoolArray:
    """Return whether records ``(n,)`` are in the subset and in the stratum, by these columns."""
    values, usable = read_values(variables, batch, names)
    which = replace(weight, factor=None, is_equal=False)
    return np.asarray(usable & (read_roots(which, values, len(batch)) > 0))


def read_person_roots(batch: Batch) -> FloatArray:
    """Return the square roots ``(n,)`` of the shares of records in their persons."""
    return np.sqrt(read_person_shares(batch))


def read_person_shares(batch: Batch) -> FloatArray:
    """Return how much of their persons records are ``(n,)``.

    Raises
    ------
    SchemaError
        If the records of a person would each count as a record, because nobody grouped them.
    """
    if batch.shares is None:
        raise SchemaError(
            "person: here rows are read by themselves, and who they are of is not known; this "
            "takes a model without a person."
        )
    return np.asarray(batch.shares[batch.rows.start : batch.rows.stop : batch.rows.step])


def read_targets(
    spec: Any, values: Values, usable: BoolArray, batch: Batch
) -> tuple[FloatArray, ...]:
    """Return labels ``(n,)``, 0 in rows that cannot be used, and an offset if the model has one.

    Of several classes the number of a record's is in the place of an offset, and its label is 1.

    A label is divided by the root of the weight of its record, which `RowBounds` reads off it. A
    record of a person counts its weight times its share of the person.

    Raises
    ------
    SchemaError
        If the records of a person would each count as a record, because nobody grouped them.
    """
    tables: tuple[FloatArray, ...] = ()
    if spec.response.kind == "classes":
        place, labelled = places(spec.response, values)
        label, tables = np.ones(len(usable)), (place,)
    else:
        label, labelled = labels(spec.response, values, batch.tally)
    known = usable & labelled
    if spec.offsets:
        offset, defined = read_offset(spec.offsets, values, len(usable))
        known &= defined
        tables = (offset,)
    if spec.weight is not None or spec.formula.person is not None:
        root = read_roots(spec.weight, values, len(usable))
        if spec.formula.person is not None:
            root = root * read_person_roots(batch)
        known &= root > 0
        label = label / np.where(known, root, 1.0)
    if not known.all():
        label[~known] = 0.0
    return (label, *tables) if spec.offset_bound > 0 else (label,)
