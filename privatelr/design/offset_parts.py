"""Offsets of a formula: numbers within declared bounds that are added to linear predictors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from privatelr.design.coding import Factor, plan_factor
from privatelr.design.variables import Values, Variable
from privatelr.errors import SchemaError
from privatelr.formula import Expression, evaluate
from privatelr.types import BoolArray, FloatArray


def plan_offsets(
    expressions: Sequence[Expression], variables: Mapping[str, Variable]
) -> tuple[Factor, ...]:
    """Plan the numbers that are added to the linear predictor; each takes a finite range.

    Raises
    ------
    SchemaError
        If one is no number, or the declared bounds do not limit it.
    """
    found = []
    for expression in expressions:
        factor = plan_factor(expression, variables)
        if factor.is_categorical:
            raise SchemaError(
                f"offset({expression.label}) takes a number that is added to the linear predictor, "
                "and no categories."
            )
        if not factor.is_finite:
            names = [name for name in expression.names if not variables[name].is_bounded]
            name = (names or expression.names)[0]
            why = "" if names else " that keep it finite"
            raise SchemaError(
                f"offset({expression.label}) takes bounds{why}: declare bounds="
                f'{{"{name}": (lo, hi)}} from what is publicly known.'
            )
        found.append(factor)
    return tuple(found)


def reach_of(parts: Sequence[Factor]) -> float:
    """Return the largest size of the sum of these parts, by their ranges."""
    ends = [part.interval for part in parts]
    return max(-sum(low for low, _ in ends), sum(high for _, high in ends), 0.0)


def read_offset(parts: Sequence[Factor], values: Values, n: int) -> tuple[FloatArray, BoolArray]:
    """Return the offset ``(n,)``, and the rows in which it is a number.

    Each part is clipped to its range. `values` holds the columns that it reads, in their units.
    """
    offset, usable = np.zeros(n), np.ones(n, dtype=bool)
    with np.errstate(all="ignore"):  # a warning about an underflow would reveal data
        for part in parts:
            number = np.broadcast_to(evaluate(part.expression, values), (n,))
            defined = np.isfinite(number)
            usable &= defined
            offset += np.clip(np.where(defined, number, 0.0), *part.interval)
    return offset, usable
