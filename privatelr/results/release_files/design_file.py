"""The plan of a design as plain values, of a formula or of a matrix, and back again.

Reading does not trust what is derived: the formula is parsed, the declarations are checked, and
the design is planned anew, as for a fit; what the file says of it must be what comes out. The
few numbers of the map that a prediction uses are then taken as they were written, so that it is
the same map on a machine whose logarithm rounds differently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from msgspec import UNSET

from privatelr.design import (
    DesignSpec,
    EntryBoundedMatrix,
    Factor,
    NormBoundedMatrix,
    Response,
    Variable,
    describe_variables,
    plan_design,
    plan_matrix,
    plan_wide,
)
from privatelr.errors import PrivateLRError, ReleaseFileError
from privatelr.formula import Interval, parse_formula
from privatelr.results.release_files import document_entries as entries
from privatelr.results.release_files.design_limits import read_tokens, require_columns
from privatelr.results.release_files.json_values import CLOSE, named, require_same
from privatelr.sources import declare_schema
from privatelr.types import FloatArray

_DTYPES = {"numbers": "float64", "strings": "string", "anything": "object"}
"""A column type for each content of a variable."""


# -- writing ---------------------------------------------------------------------------------


def plan_entry(
    spec: DesignSpec | EntryBoundedMatrix | NormBoundedMatrix,
) -> entries.AnyDesign:
    """A plan of any kind as an entry; everything in it is public.

    Raises
    ------
    ReleaseFileError
        If a level is not a text, a number or a boolean.
    """
    if not isinstance(spec, EntryBoundedMatrix | NormBoundedMatrix):
        return _design_entry(spec)
    (variable,) = spec.variables.values()
    return entries.MatrixEntry.of(
        spec,
        matrix=spec.p,
        row_norm=spec.bound if isinstance(spec, NormBoundedMatrix) else None,
        response=_response_entry(spec.response),
        variable=_variable_entry(variable),
    )


def _design_entry(spec: DesignSpec) -> entries.FormulaEntry:
    columns = spec.columns
    numbers = (columns.parent.tolist(), columns.centre.tolist(), columns.scale.tolist())
    return entries.FormulaEntry.of(
        spec,
        formula=spec.formula.text,
        response=_response_entry(spec.response),
        variables=[_variable_entry(variable) for variable in spec.variables.values()],
        factors=[_factor_entry(factor) for factor in spec.factors],
        terms=[
            entries.TermEntry(label=t.label, columns=list(t.columns), length=_finite(t.radius))
            for t in columns.terms
        ],
        columns=[
            entries.ColumnEntry(name=name, parent=None if parent < 0 else parent, centre=c, scale=s)
            for name, parent, c, s in zip(columns.names, *numbers, strict=True)
        ],
        unbounded=list(spec.unbounded),
        projection=None if spec.projection is None else spec.projection.tolist(),
        unbounded_norm=UNSET if spec.unbounded_norm is None else spec.unbounded_norm,
    )


def _response_entry(response: Response) -> entries.ResponseEntry:
    levels = {"classes": _plain(response.classes), "levels": _plain(response.levels)}
    return entries.ResponseEntry.of(response, expression=response.expression.label, **levels)


def _variable_entry(variable: Variable) -> entries.VariableEntry:
    numeric = variable.kind == "numeric" and variable.is_bounded
    bounds = list(variable.bounds) if numeric else None
    return entries.VariableEntry.of(variable, bounds=bounds, levels=_plain(variable.levels))


def _factor_entry(factor: Factor) -> entries.FactorEntry:
    ends = None if factor.is_categorical else _finite_range(factor.interval)
    levels = _plain(factor.levels)
    return entries.FactorEntry.of(
        factor, expression=factor.expression.label, range=ends, levels=levels
    )


def _plain(levels: Sequence[Any]) -> list[str | bool | int | float]:
    values = [level.item() if isinstance(level, np.generic) else level for level in levels]
    for value in values:
        if type(value) not in (str, bool, int, float) or value in (math.inf, -math.inf):
            raise ReleaseFileError(
                f"a level of type {type(value).__name__} has no place in a release file; declare "
                "levels= of texts, numbers or booleans"
            )
    return values


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _finite_range(interval: Interval) -> list[float] | None:
    return list(interval) if all(map(math.isfinite, interval)) else None


# -- reading ---------------------------------------------------------------------------------


def restore_plan(entry: entries.AnyDesign) -> DesignSpec | EntryBoundedMatrix | NormBoundedMatrix:
    """The plan that `plan_entry` wrote, from what was declared.

    Raises
    ------
    ReleaseFileError
        Part of a sentence: an entry that is wrong, or a number that the declarations do not give.
    """
    if isinstance(entry, entries.FormulaEntry):
        return _as_written(_planned(entry), entry)
    variable = _variable(entry.variable)
    facts: dict[str, Any] = {"intercept_scale": entry.intercept, "row_norm": entry.row_norm}
    with named("design"):
        declared = declare_schema(**_declared([variable]), **facts)
        column = _typed_frame([variable])[variable.name]
        plan = plan_matrix if entry.row_norm is None else plan_wide
        return plan(variable.name, column, entry.matrix, declared)


def _planned(entry: entries.FormulaEntry) -> DesignSpec:
    """Plan the design anew, as for a fit."""
    variables = [_variable(item) for item in entry.variables]
    schema: dict[str, Any] = {**_declared(variables), "row_norm": _row_norm(entry)}
    if entry.intercept is not None:
        schema["intercept_scale"] = entry.intercept
    try:
        with named("design"):
            tokens = read_tokens(entry.formula)
            names = dict.fromkeys(token.text for token in tokens if token.is_name)
            formula = parse_formula(entry.formula, list(names))
            if list(formula.variables) != [variable.name for variable in variables]:
                raise ReleaseFileError(
                    "design.variables are not the columns that the formula reads"
                )
            frame, declared = _typed_frame(variables), declare_schema(**schema)
            described = describe_variables(frame, formula.variables, declared)
            require_columns(formula, described, len(entry.columns))
            planned = plan_design(formula, frame, declared)
            return planned.as_whole_rows() if entry.unbounded_norm is UNSET else planned
    except PrivateLRError:
        raise
    except Exception:  # the text may come from anyone, and formulaic and ast may refuse it anyhow
        raise ReleaseFileError("design: the formula and the variables do not fit") from None


def _variable(entry: entries.VariableEntry) -> Variable:
    low, high = entry.bounds or (-math.inf, math.inf)
    return Variable(entry.name, entry.kind, (low, high), tuple(entry.levels), entry.content)


def _declared(variables: Sequence[Variable]) -> dict[str, Any]:
    """Bounds and levels for a schema; a column's own type may list fewer than two levels."""
    return {
        "bounds": {v.name: v.bounds for v in variables if v.kind == "numeric" and v.is_bounded},
        "levels": {v.name: v.levels for v in variables if _has_levels(v)},
    }


def _has_levels(variable: Variable) -> bool:
    return variable.kind == "categorical" and len(variable.levels) > 1


def _typed_frame(variables: Sequence[Variable]) -> pd.DataFrame:
    """A frame without rows whose columns have types that give these variables."""
    columns = {}
    for variable in variables:
        dtype: Any = _DTYPES[variable.content]
        if variable.kind == "logical":
            dtype = "bool"
        elif variable.kind == "categorical" and not _has_levels(variable):
            dtype = pd.CategoricalDtype(list(variable.levels))
        columns[variable.name] = pd.Series([], dtype=dtype)
    return pd.DataFrame(columns)


def _row_norm(entry: entries.FormulaEntry) -> float | None:
    if entry.unbounded_norm is not UNSET:
        return entry.unbounded_norm
    return entry.bound if entry.bound_source == "row_norm" else None


def _as_written(spec: DesignSpec, entry: entries.FormulaEntry) -> DesignSpec:
    """The plan with the numbers of the file, which differ from it by rounding at most."""
    if len(entry.columns) != len(spec.columns.names):
        raise ReleaseFileError(f"design.columns takes {len(spec.columns.names)} columns")
    if len(entry.factors) != len(spec.factors):
        raise ReleaseFileError("design.factors are not the factors of the formula")
    centre = np.array([column.centre for column in entry.columns], dtype=np.float64)
    scale = np.array([column.scale for column in entry.columns], dtype=np.float64)
    slack = CLOSE * np.maximum(spec.columns.scale, np.abs(spec.columns.centre))
    apart = np.abs(centre - spec.columns.centre) + np.abs(scale - spec.columns.scale)
    if np.any(apart > slack):
        raise ReleaseFileError("design.columns has a centre or a scale that its bounds do not give")
    require_same(entry.bound, spec.bound, "design.bound")
    return replace(
        spec,
        factors=tuple(
            _ranged(factor, item.range, f"design.factors[{index}].range")
            for index, (factor, item) in enumerate(zip(spec.factors, entry.factors, strict=True))
        ),
        columns=replace(spec.columns, centre=centre, scale=scale),
        bound=entry.bound,
        projection=_read_projection(entry.projection, spec.p),
    )


def _ranged(factor: Factor, given: list[float] | None, where: str) -> Factor:
    expected = _factor_entry(factor).range
    if given is None or expected is None:
        require_same(given, expected, where)
        return factor
    if np.any(np.abs(np.subtract(given, expected)) > CLOSE * np.max(np.abs(expected))):
        raise ReleaseFileError(f"{where} is not what the bounds of its variables give")
    low, high = given
    return replace(factor, interval=(low, high))


def _read_projection(rows: list[list[float]] | None, p: int) -> FloatArray | None:
    if rows is None:
        return None
    widths = {len(row) for row in rows}
    if len(rows) != p or len(widths) != 1 or max(widths) > p:
        raise ReleaseFileError(f"design.projection takes {p} rows of 1 to {p} numbers")
    return np.array(rows, dtype=np.float64)
