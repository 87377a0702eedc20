"""How long a row of terms can be, together and in each, from declared bounds and a length."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from privatelr.errors import SchemaError
from privatelr.types import Block

if TYPE_CHECKING:
    from privatelr.design.coding import Factor
    from privatelr.design.terms import Columns, Term
    from privatelr.design.variables import Variable
    from privatelr.formula import Formula

BoundSource = Literal["declared bounds", "row_norm", "declared bounds and row_norm"]
_MAPPED = 1 + 2.0**-40
"""Factor for the rounding of a value that is mapped onto [-1, 1] and then held by a block."""
_LENGTH = 1.0
"""Length to which unbounded terms are shortened where none is declared."""


def bound_of(
    columns: Columns, row_norm: float | None
) -> tuple[float, BoundSource, tuple[str, ...], float | None]:
    """Length of the covariates of a row, its source, the terms without bounds, and their length.

    `row_norm` limits the unbounded terms if only some terms are unbounded. It limits the whole
    row if all or none are, or if a term is empty, because rows have no blocks then.
    """
    covariates = columns.terms[int(columns.has_intercept) :]
    unbounded = tuple(term.label for term in covariates if not math.isfinite(term.radius))
    given = _LENGTH if row_norm is None and unbounded else row_norm
    limit = math.inf if given is None else given
    if 0 < len(unbounded) < len(covariates) and _is_product(columns):
        lengths = [term.radius for term in covariates if math.isfinite(term.radius)]
        bound = math.sqrt(sum(length**2 for length in lengths) + limit**2)
        return bound, "declared bounds and row_norm", unbounded, limit
    declared = math.sqrt(sum(term.radius**2 for term in covariates))
    source: BoundSource = "row_norm" if limit < declared else "declared bounds"
    return min(declared, limit), source, unbounded, None


def blocks_of(
    columns: Columns, intercept: float | None, unbounded_norm: float | None
) -> tuple[Block, ...]:
    """Return a block with its bound for the intercept and each term; none if a term is empty."""
    if not _is_product(columns):
        return ()

    def block(term: Term) -> Block:
        size = len(term.columns)
        if intercept is not None and term.columns == (0,):
            return Block(size, intercept * _MAPPED)
        if unbounded_norm is not None and not math.isfinite(term.radius):
            return Block(size, unbounded_norm, "l2")
        return Block(size, term.absolute * _MAPPED)

    return tuple(map(block, columns.terms))


def _is_product(columns: Columns) -> bool:
    """Whether every term has columns, and one of them may differ from zero."""
    return all(term.columns and term.absolute > 0 for term in columns.terms)


def require_boundable(
    formula: Formula, variables: Mapping[str, Variable], factors: tuple[Factor, ...]
) -> None:
    """Refuse a term that stays unbounded although all its variables are bounded."""
    for factor in factors:
        names = factor.expression.names
        finite = all(math.isfinite(end) for end in factor.interval)
        if factor.is_categorical or finite or not all(variables[n].is_bounded for n in names):
            continue
        boxes = " and ".join(f"{name} in {variables[name].bounds}" for name in names)
        raise SchemaError(
            f"term '{factor.expression.label}' has no finite range for {boxes}; move the bound "
            "away from where the term is undefined, rewrite the term, or give row_norm= to limit "
            "the length of all that has none."
        )
