"""Checks of declarations against types and formula: what is refused, and what is doubtful."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from privatelr.design.variables import TYPED, Variable, remedy
from privatelr.errors import FormulaError, SchemaError, SchemaWarning, listed, or_meant
from privatelr.formula import (
    MEMBERSHIPS,
    Expression,
    Node,
    answers_within,
    constants,
    evaluate,
)
from privatelr.sources import Batch, Schema

if TYPE_CHECKING:
    from privatelr.design import AnySpec


def require_kinds(
    label: str, node: Node, variables: Mapping[str, Variable], *, allowed: bool = True
) -> None:
    """Refuse arithmetic on categories, and comparisons that no declared level can meet.

    Columns of categories or strings may stand alone, be coded as a factor, or be compared for
    equality with constants: there they are `allowed`.
    """
    variable = variables.get(node.name) if node.kind == "column" else None
    if variable is not None and variable.is_textual and not allowed:
        if variable.kind == "text" and variable.content == "anything":
            raise FormulaError(
                f"formula: {label!r} computes with {variable.name!r}, which may hold "
                f'anything; declare bounds={{"{variable.name}": (lo, hi)}}, or {TYPED}.'
            )
        raise FormulaError(
            f"formula: {label!r} computes with {variable.name!r}, which holds texts or "
            "categories; compare it, as in I(x == 'a'), use it by itself, or pass numbers."
        )
    is_equality = node.kind == "infix" and node.name in ("==", "!=", *MEMBERSHIPS)
    for child in node.args:
        require_kinds(label, child, variables, allowed=is_equality)
    if is_equality:
        _require_levels(label, node, variables)


def _require_levels(label: str, node: Node, variables: Mapping[str, Variable]) -> None:
    """Refuse a constant that an equality compares with a column that never equals it."""
    left, right = node.args
    pairs = [(left, right)]
    if node.name not in MEMBERSHIPS:
        pairs = [(a, b) for a, b in (*pairs, (right, left)) if b.kind == "constant"]
    for side, among in pairs:
        variable = variables.get(side.name) if side.kind == "column" else None
        for value in constants(among, label):
            if variable is None or not variable.is_textual:
                if isinstance(value, str):
                    raise FormulaError(
                        f"formula: {label!r} compares numbers with the text {value!r}."
                    )
            elif not variable.levels:
                raise SchemaError(
                    f"formula: {label!r} compares {variable.name!r}, whose levels are not "
                    f"declared, so that nobody can tell whether {value!r} is one; "
                    f"{remedy(variable)}."
                )
            elif value not in variable.levels:
                close = or_meant(value, [each for each in variable.levels if isinstance(each, str)])
                raise FormulaError(
                    f"formula: {label!r} compares {variable.name!r} with {value!r}, which is not "
                    f"one of its levels {listed(variable.levels, 6)}{close}"
                )


def require_some_records(
    expression: Expression, variables: Mapping[str, Variable], needed: set[int]
) -> None:
    """Refuse a condition that declared values leave without an answer that is needed, 0 or 1.

    A response needs both, so that no class is empty, and a subset needs records.
    """
    if not expression.is_logical:
        return
    name, *others = expression.names
    if not others and (levels := variables[name].levels):
        answers = {*evaluate(expression, {name: np.array(levels, dtype=object)}).tolist()}
    else:
        bounds = {each: variables[each].bounds for each in expression.names}
        answers = answers_within(expression, bounds)
    if not needed <= answers:
        raise SchemaError(
            f"formula: {expression.label!r} is {'true' if 1 in answers else 'false'} for all "
            "values that are declared; compare with one that tells records apart."
        )


_LONGEST, _LONGEST_RAW = 10.0, 1000.0
"""Limits on the length of rows beyond which they are likely meant in other units: in lengths of a
typical row, and in lengths of a row whose entries are 1."""


def warn_of_doubts(spec: AnySpec, batch: Batch, schema: Schema, stacklevel: int) -> None:
    """Warn of each of `doubts` with a `SchemaWarning`."""
    for doubt in doubts(spec, batch, schema):
        warnings.warn(f"{doubt}.", SchemaWarning, stacklevel=stacklevel + 1)


def doubts(spec: AnySpec, batch: Batch, schema: Schema) -> list[str]:
    """List the likely mistakes in a plan, each as a sentence without its full stop.

    Parameters
    ----------
    spec : DesignSpec or NumberedSpec
    batch : Batch
        Only its types are looked at.
    schema : Schema

    Notes
    -----
    **Privacy.** *Covered*: the sentences are functions of public facts. *Neighbours*: all have
    the same. *Assumed public*: names, types, declared bounds and levels. *Not covered*: nothing.
    """
    found: list[str] = []
    factors = (*getattr(spec, "factors", ()), *getattr(spec, "offsets", ()))
    open_ended = [factor for factor in factors if not factor.levels and not factor.is_finite]
    names = [name for factor in open_ended for name in factor.expression.names]
    names = list(dict.fromkeys(name for name in names if not spec.variables[name].is_bounded))
    # a declared length of rows takes the place of bounds
    if names and spec.unbounded and not spec.scaled_by_data and schema.row_norm is None:
        found.append(
            f"no bounds are declared for {listed(names, 6)}, so values are shortened in the "
            "columns' own units, which usually costs more than the noise does; declare bounds="
            f"{{{names[0]!r}: (lo, hi)}} from what is publicly known, which need not be exact"
        )
    numbered = not factors and spec.unbounded  # a matrix, whose columns are no terms
    if numbered and (bound := getattr(spec, "bound", None)) and schema.row_norm is None:
        found.append(
            f"row_norm=None: no limit on rows is declared for {spec.unbounded[0]}, so each is "
            f"shortened to a length of {bound:g} in the columns' own units; declare row_norm= "
            "from what is publicly known"
        )
    found += _doubts_of_length(spec)
    response, label = spec.response, spec.response.expression.label
    if not response.declared:  # of a fit that promises nothing
        found.append(f"response {response.describe()}; declare levels=")
    if response.kind == "factor" and len(response.levels) > 2:
        first = response.levels[0]
        found.append(
            f"the response {label!r} has {len(response.levels)} declared levels, and {first!r} is "
            f'fitted against all the others; compare it, as in "{label} == {first!r} ~ ...", to '
            "say which one is meant"
        )
    for name, variable in spec.variables.items():
        dtype = batch.column(name).dtype if name in batch.names else None
        if name in schema.levels and isinstance(dtype, pd.CategoricalDtype):
            categories = dtype.categories.tolist()
            strange = [level for level in variable.levels if level not in categories]
            if strange:
                found.append(
                    f"levels[{name!r}] has {listed(strange, 6)}, which the column's type does not "
                    f"list ({listed(categories, 6)}), so no record has it"
                )
    for expression in (spec.response.expression, *(factor.expression for factor in factors)):
        column = expression.column
        known = spec.variables[column].levels if column is not None else ()
        strange = [level for level in expression.levels if known and level not in known]
        if strange:
            found.append(
                f"the term {expression.label!r} has {listed(strange, 6)}, which is none of the "
                f"declared levels of {column!r} ({listed(known, 6)}), so no record has it"
            )
    return found


def _doubts_of_length(spec: AnySpec) -> list[str]:
    """Doubts about a limit on rows that is far above what rows of that kind have."""
    held = getattr(spec, "standard", None)
    if held is not None:
        if held.length is None or held.length <= _LONGEST:
            return []
        return [
            f"row_norm={held.length:g}: where the scale of columns is released it is in lengths of "
            "a typical row, of which 1 to 3 are usual, and the noise grows with it"
        ]
    limit = getattr(spec, "unbounded_norm", None)
    if limit is None and getattr(spec, "bound_source", None) == "row_norm":
        limit = getattr(spec, "bound", None)
    if limit is None or limit <= _LONGEST_RAW * math.sqrt(spec.p):
        return []
    units = f"the units of {listed(spec.unbounded, 6)}" if spec.unbounded else "their own units"
    return [
        f"row_norm={limit:g}: it limits the columns that have no bounds in {units}, and the noise "
        "is that for rows of such a length, whatever theirs is; declare bounds= for columns in "
        "large units, or a smaller row_norm"
    ]
