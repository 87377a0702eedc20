"""The plan of a design as plain values, of a formula or of a matrix, and back again.

Reading does not trust what is derived: the formula is parsed, the declarations are checked, and
the design is planned anew, as for a fit; what the file says of it must be what comes out. The
few numbers of the map that a prediction uses are then taken as they were written, so that it is
the same map on a machine whose logarithm rounds differently.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from privatelr.design import (
    DesignSpec,
    EntryBoundedMatrix,
    NormBoundedMatrix,
    Variable,
    describe_variables,
    plan_design,
    plan_matrix,
    plan_wide,
)
from privatelr.errors import PrivateLRError, ReleaseFileError
from privatelr.formula import parse_formula
from privatelr.results.release_files.design_limits import read_tokens, require_columns
from privatelr.results.release_files.json_values import (
    CLOSE,
    choice,
    entries,
    listing,
    number,
    numbers,
    refuse,
    require_same,
    text,
    whole,
)
from privatelr.sources import declare_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privatelr.design import Factor, Response
    from privatelr.formula import Interval
    from privatelr.types import FloatArray


_DESIGN_ENTRIES = (
    *("formula", "response", "variables", "factors", "terms", "columns"),
    *("intercept", "bound", "bound_source", "unbounded", "radius", "projection"),
)
_APART = "unbounded_norm"
"""An entry of designs with unbounded columns that are shortened apart; others do without."""
_KINDS = ("numeric", "logical", "categorical", "text")
_DTYPES = {"numbers": "float64", "strings": "string", "anything": "object"}
"""A column type for each content of a variable."""
_LONGEST_NAME = 10_000


# -- writing ---------------------------------------------------------------------------------


def design_entry(spec: DesignSpec) -> dict[str, Any]:
    """A plan as plain values; everything in it is public.

    Raises
    ------
    ReleaseFileError
        If a level is not a text, a number or a boolean.
    """
    columns = spec.columns
    return {
        "formula": spec.formula.text,
        "response": response_entry(spec.response),
        "variables": [variable_entry(variable) for variable in spec.variables.values()],
        "factors": [_factor_entry(factor) for factor in spec.factors],
        "terms": [
            {
                "label": term.label,
                "columns": list(term.columns),
                "length": _finite(term.radius),
            }
            for term in columns.terms
        ],
        "columns": [
            {"name": name, "parent": None if parent < 0 else parent, "centre": c, "scale": s}
            for name, parent, c, s in zip(
                columns.names,
                columns.parent.tolist(),
                columns.centre.tolist(),
                columns.scale.tolist(),
                strict=True,
            )
        ],
        "intercept": spec.intercept,
        "bound": spec.bound,
        "bound_source": spec.bound_source,
        "unbounded": list(spec.unbounded),
        "radius": spec.radius,
        "projection": None if spec.projection is None else spec.projection.tolist(),
        **({} if spec.unbounded_norm is None else {_APART: spec.unbounded_norm}),
    }


def response_entry(response: Response) -> dict[str, Any]:
    """How labels come out of the response."""
    return {
        "expression": response.expression.label,
        "kind": response.kind,
        "classes": [_plain(level) for level in response.classes],
        "levels": [_plain(level) for level in response.levels],
        "remark": response.remark,
    }


def variable_entry(variable: Variable) -> dict[str, Any]:
    """A variable and what is public about it."""
    numeric = variable.kind == "numeric" and variable.is_bounded
    return {
        "name": variable.name,
        "kind": variable.kind,
        "content": variable.content,
        "bounds": list(variable.bounds) if numeric else None,
        "levels": [_plain(level) for level in variable.levels],
    }


def _factor_entry(factor: Factor) -> dict[str, Any]:
    return {
        "expression": factor.expression.label,
        "range": None if factor.is_categorical else _finite_range(factor.interval),
        "levels": [_plain(level) for level in factor.levels],
        "contrast": factor.contrast,
    }


def _plain(level: Any) -> str | bool | int | float:
    value = level.item() if isinstance(level, np.generic) else level
    if type(value) not in (str, bool, int, float) or value in (math.inf, -math.inf):
        raise ReleaseFileError(
            f"a level of type {type(level).__name__} has no place in a release file; declare "
            "levels= of texts, numbers or booleans"
        )
    return cast("str | bool | int | float", value)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _finite_range(interval: Interval) -> list[float] | None:
    return list(interval) if all(map(math.isfinite, interval)) else None


# -- reading ---------------------------------------------------------------------------------


def restore_design(value: Any) -> DesignSpec:
    """The plan that `design_entry` wrote.

    Raises
    ------
    ReleaseFileError
        Part of a sentence: an entry that is wrong, or does not follow from the others.
    """
    apart = isinstance(value, dict) and _APART in value
    given = entries(value, "design", (*_DESIGN_ENTRIES, _APART) if apart else _DESIGN_ENTRIES)
    planned = _planned(given)
    spec = _as_written(planned, given)
    require_same(given, design_entry(spec), "design")
    return spec


def _planned(given: dict[str, Any]) -> DesignSpec:
    """Plan the design anew, as for a fit."""
    formula_text = text(given["formula"], "design.formula", longest=10**9)
    listed = listing(given["variables"], "design.variables")
    variables = [read_variable(item, f"design.variables[{i}]") for i, item in enumerate(listed)]
    named = len(listing(given["columns"], "design.columns"))
    schema: dict[str, Any] = {
        "bounds": {v.name: v.bounds for v in variables if v.kind == "numeric" and v.is_bounded},
        "levels": {v.name: v.levels for v in variables if is_declared(v)},
        "row_norm": _row_norm(given),
    }
    if given["intercept"] is not None:
        schema["intercept_scale"] = number(given["intercept"], "design.intercept")
    try:
        tokens = read_tokens(formula_text)
        names = dict.fromkeys(token.text for token in tokens if token.is_name)
        formula = parse_formula(formula_text, list(names))
        if list(formula.variables) != [variable.name for variable in variables]:
            raise ReleaseFileError("design.variables are not the columns that the formula reads")
        frame, declared = typed_frame(variables), declare_schema(**schema)
        described = describe_variables(frame, formula.variables, declared)
        require_columns(formula, described, named)
        planned = plan_design(formula, frame, declared)
        return planned if _APART in given else planned.as_whole_rows()
    except ReleaseFileError:
        raise
    except PrivateLRError as error:
        raise ReleaseFileError(f"design: {str(error).removesuffix('.')}") from None
    except Exception:  # the text may come from anyone, and formulaic and ast may refuse it anyhow
        raise ReleaseFileError("design: the formula and the variables do not fit") from None


def read_variable(value: Any, where: str) -> Variable:
    """The variable that `variable_entry` wrote."""
    given = entries(value, where, ("name", "kind", "content", "bounds", "levels"))
    bounds = (-math.inf, math.inf)
    if given["bounds"] is not None:
        low, high = numbers(given["bounds"], f"{where}.bounds", 2).tolist()
        bounds = (low, high)
    levels = listing(given["levels"], f"{where}.levels")
    for index, level in enumerate(levels):
        if type(level) not in (str, bool, int, float):
            refuse(f"{where}.levels[{index}]", "a text, a number or a boolean", level)
    return Variable(
        text(given["name"], f"{where}.name", _LONGEST_NAME),
        cast("Any", choice(given["kind"], f"{where}.kind", _KINDS)),
        bounds,
        tuple(levels),
        cast("Any", choice(given["content"], f"{where}.content", _DTYPES)),
    )


def is_declared(variable: Variable) -> bool:
    """Whether levels go into the schema; a column's own type may list fewer than two."""
    return variable.kind == "categorical" and len(variable.levels) > 1


def typed_frame(variables: Sequence[Variable]) -> pd.DataFrame:
    """A frame without rows whose columns have types that give these variables."""
    columns = {}
    for variable in variables:
        dtype: Any = _DTYPES[variable.content]
        if variable.kind == "logical":
            dtype = "bool"
        elif variable.kind == "categorical" and not is_declared(variable):
            dtype = pd.CategoricalDtype(list(variable.levels))
        columns[variable.name] = pd.Series([], dtype=dtype)
    return pd.DataFrame(columns)


def _row_norm(given: dict[str, Any]) -> float | None:
    sources = ("declared bounds", "row_norm", "declared bounds and row_norm")
    source = choice(given["bound_source"], "design.bound_source", sources)
    bound = number(given["bound"], "design.bound", at_least=0.0)
    if _APART in given:
        return number(given[_APART], f"design.{_APART}", above=0.0)
    return bound if source == "row_norm" else None


def _as_written(spec: DesignSpec, given: dict[str, Any]) -> DesignSpec:
    """The plan with the numbers of the file, which differ from it by rounding at most."""
    columns = given["columns"]
    listed = [
        entries(c, f"design.columns[{i}]", ("name", "parent", "centre", "scale"))
        for i, c in enumerate(columns)
    ]
    size = len(spec.columns.names)
    centre = numbers([c["centre"] for c in listed], "the centres of design.columns", size)
    scale = numbers([c["scale"] for c in listed], "the scales of design.columns", size)
    slack = CLOSE * np.maximum(spec.columns.scale, np.abs(spec.columns.centre))
    apart = np.abs(centre - spec.columns.centre) + np.abs(scale - spec.columns.scale)
    if np.any(apart > slack) or np.any(scale <= 0):
        raise ReleaseFileError("design.columns has a centre or a scale that its bounds do not give")
    bound = number(given["bound"], "design.bound", at_least=0.0)
    require_same(bound, spec.bound, "design.bound")
    factors = listing(given["factors"], "design.factors")
    if len(factors) != len(spec.factors):
        raise ReleaseFileError("design.factors are not the factors of the formula")
    return replace(
        spec,
        factors=tuple(
            _ranged(factor, item, f"design.factors[{index}]")
            for index, (factor, item) in enumerate(zip(spec.factors, factors, strict=True))
        ),
        columns=replace(spec.columns, centre=centre, scale=scale),
        bound=bound,
        projection=_read_projection(given["projection"], spec.p),
    )


def _ranged(factor: Factor, value: Any, where: str) -> Factor:
    given = entries(value, where, ("expression", "range", "levels", "contrast"))
    expected = _factor_entry(factor)["range"]
    if given["range"] is None or expected is None:
        require_same(given["range"], expected, f"{where}.range")
        return factor
    ends = numbers(given["range"], f"{where}.range", 2)
    if np.any(np.abs(ends - expected) > CLOSE * np.max(np.abs(expected))):
        raise ReleaseFileError(f"{where}.range is not what the bounds of its variables give")
    return replace(factor, interval=(float(ends[0]), float(ends[1])))


def _read_projection(value: Any, p: int) -> FloatArray | None:
    if value is None:
        return None
    listed = listing(value, "design.projection")
    width = len(listing(listed[0], "design.projection[0]")) if listed else 0
    if len(listed) != p or not 1 <= width <= p:
        raise ReleaseFileError(f"design.projection takes {p} rows of 1 to {p} numbers")
    rows = [numbers(row, f"design.projection[{i}]", width) for i, row in enumerate(listed)]
    return np.array(rows, dtype=np.float64)


_MOST_COLUMNS = 10**6
_MATRIX_ENTRIES = ("matrix", "row_norm", "response", "variable", "intercept")


def plan_entry(spec: DesignSpec | EntryBoundedMatrix | NormBoundedMatrix) -> dict[str, Any]:
    """A plan of any kind as plain values; everything in it is public."""
    if not isinstance(spec, EntryBoundedMatrix | NormBoundedMatrix):
        return design_entry(spec)
    (variable,) = spec.variables.values()
    return {
        "matrix": spec.p,
        "row_norm": spec.bound if isinstance(spec, NormBoundedMatrix) else None,
        "response": response_entry(spec.response),
        "variable": variable_entry(variable),
        "intercept": spec.intercept,
    }


def restore_plan(value: Any) -> DesignSpec | EntryBoundedMatrix | NormBoundedMatrix:
    """The plan that `plan_entry` wrote; raises `ReleaseFileError`."""
    if not (isinstance(value, dict) and "matrix" in value):
        return restore_design(value)
    given = entries(value, "design", _MATRIX_ENTRIES)
    variable = read_variable(given["variable"], "design.variable")
    p = whole(given["matrix"], "design.matrix", 1, _MOST_COLUMNS)
    declared: dict[str, Any] = {
        "bounds": {variable.name: variable.bounds}
        if variable.kind == "numeric" and variable.is_bounded
        else {},
        "levels": {variable.name: variable.levels} if is_declared(variable) else {},
        "intercept_scale": number(given["intercept"], "design.intercept"),
    }
    by_length = given["row_norm"] is not None
    if by_length:
        declared["row_norm"] = number(given["row_norm"], "design.row_norm")
    try:
        column = typed_frame([variable])[variable.name]
        plan = plan_wide if by_length else plan_matrix
        spec = plan(variable.name, column, p, declare_schema(**declared))
    except PrivateLRError as error:
        raise ReleaseFileError(f"design: {str(error).removesuffix('.')}") from None
    require_same(given, plan_entry(spec), "design")
    return spec
