"""The plan of a matrix of numbered columns as plain values, and back again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privatelr.errors import PrivateLRError, ReleaseFileError
from privatelr.frames.matrix import MatrixSpec, plan_matrix
from privatelr.frames.schema import declare_schema
from privatelr.frames.wide_matrix import WideSpec, plan_wide
from privatelr.results.design_file import (
    design_entry,
    is_declared,
    read_variable,
    response_entry,
    restore_design,
    typed_frame,
    variable_entry,
)
from privatelr.results.json_values import entries, number, require_same, whole

if TYPE_CHECKING:
    from privatelr.frames.design import DesignSpec

_MOST_COLUMNS = 10**6
_ENTRIES = ("matrix", "row_norm", "response", "variable", "intercept")


def plan_entry(spec: DesignSpec | MatrixSpec | WideSpec) -> dict[str, Any]:
    """A plan of any kind as plain values; everything in it is public."""
    if not isinstance(spec, MatrixSpec | WideSpec):
        return design_entry(spec)
    (variable,) = spec.variables.values()
    return {
        "matrix": spec.p,
        "row_norm": spec.bound if isinstance(spec, WideSpec) else None,
        "response": response_entry(spec.response),
        "variable": variable_entry(variable),
        "intercept": spec.intercept,
    }


def restore_plan(value: Any) -> DesignSpec | MatrixSpec | WideSpec:
    """The plan that `plan_entry` wrote; raises `ReleaseFileError`."""
    if not (isinstance(value, dict) and "matrix" in value):
        return restore_design(value)
    given = entries(value, "design", _ENTRIES)
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
