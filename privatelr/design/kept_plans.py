"""What a formula and declarations say of columns, kept for the next fit that asks the same.

A small fit takes as long to plan as to solve. All of it is public.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from scipy import sparse

from privatelr.design.coding import Factor
from privatelr.design.response import Response, plan_response
from privatelr.design.terms import Columns, plan_columns
from privatelr.design.variables import Variable
from privatelr.formula import Formula

_FEW_LEVELS = 200
"""Number of declared levels up to which a plan is small enough to be kept."""
_WRITTEN = (str, bool, int, float)
"""Types whose values are told apart by what they write of themselves."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedColumns:
    """The variables of a formula, its response, and its columns.

    Attributes
    ----------
    variables : dict of str to Variable
        Those of the first call, so that a fit refers to the same objects throughout.
    response : Response
    factors : tuple of Factor
    columns : Columns
        Its arrays are shared by the fits of all calls, so none of them can be written to.
    """

    variables: dict[str, Variable]
    response: Response
    factors: tuple[Factor, ...]
    columns: Columns


@dataclass(frozen=True, slots=True)
class _Question:
    """A formula that was read once, which is one object, and variables as they are written.

    Levels 1, True and 1.0 are equal but not one level, so the variables themselves are no key.
    """

    number: int
    written: tuple[str, ...]
    formula: Formula = field(compare=False)
    variables: dict[str, Variable] = field(compare=False)


def planned_columns(formula: Formula, variables: dict[str, Variable]) -> PlannedColumns:
    """Plan the response and the columns of a formula, or return what was planned before.

    Raises
    ------
    FormulaError, SchemaError
        If the terms cannot be combined, or levels are not declared.
    """
    levels = [level for one in variables.values() for level in one.levels]
    if len(levels) > _FEW_LEVELS or not all(type(level) in _WRITTEN for level in levels):
        return _plan(formula, variables)
    return _kept(_Question(id(formula), tuple(map(repr, variables.values())), formula, variables))


@functools.lru_cache(maxsize=16)
def _kept(question: _Question) -> PlannedColumns:
    """Plan for a first call; a formula that is held here shares its number with no other."""
    return _plan(question.formula, question.variables)


def _plan(formula: Formula, variables: dict[str, Variable]) -> PlannedColumns:
    response = plan_response(formula.response, variables)
    factors, columns = plan_columns(formula, variables)
    grids = (term.grid.data if sparse.issparse(term.grid) else term.grid for term in columns.terms)
    for array in (columns.parent, columns.centre, columns.scale, *grids):
        array.flags.writeable = False
    return PlannedColumns(variables, response, factors, columns)
