"""Contrasts that a formula may name, in R's spelling or in patsy's.

formulaic evaluates what stands behind a factor, so only what is listed here reaches it: a
contrast by its name, with constants for arguments.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from privatelr.errors import FormulaError, nearest, show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONTRASTS = frozenset({"treatment", "sum", "SAS", "helmert", "diff", "poly"})
_TREATMENT = "contr.treatment"
_PATSY = {"Treatment": _TREATMENT}
_BASES = {"base", "reference"}
"""What R and patsy call the level that others are compared with."""


def spell_contrast(node: ast.expr, aliases: Mapping[str, str]) -> str | None:
    """A contrast as formulaic reads it, ``contr.name`` or ``contr.name(constants)``.

    None for anything else. `aliases` has the names that stand for identifiers of the tree.
    """
    named = node.func if isinstance(node, ast.Call) else node
    name = aliases.get(named.id, "") if isinstance(named, ast.Name) else ""
    name = _PATSY.get(name, name) if isinstance(node, ast.Call) else name
    if name.removeprefix("contr.") not in CONTRASTS or not name.startswith("contr."):
        return None
    if not isinstance(node, ast.Call):
        return name
    if not all(map(_is_constant, [*node.args, *(keyword.value for keyword in node.keywords)])):
        return None
    given = [ast.unparse(argument) for argument in node.args]
    for keyword in node.keywords:
        value = ast.unparse(keyword.value)
        is_base = name == _TREATMENT and keyword.arg in _BASES
        given.append(value if is_base else f"{keyword.arg}={value}")
    return f"{name}({', '.join(given)})"


def escaped(contrast: str) -> str:
    """The same with nothing in its texts that formulaic takes for a bracket or a name."""
    for node in ast.walk(ast.parse(contrast, mode="eval")):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            letters = (c if c.isalnum() else f"\\U{ord(c):08x}" for c in node.value)
            contrast = contrast.replace(ast.unparse(node), f"'{''.join(letters)}'")
    return contrast


def require_base(label: str, contrast: str | None, levels: Sequence[Any]) -> None:
    """Refuse a base that is not a level; raises `FormulaError`.

    R takes its position too, which would mean another level where levels are numbers.
    """
    if contrast is None or not contrast.startswith(f"{_TREATMENT}("):
        return
    call = ast.parse(contrast, mode="eval").body
    assert isinstance(call, ast.Call)
    if not call.args and not call.keywords:
        return
    if len(call.args) != 1 or call.keywords:
        raise FormulaError(
            f"formula: {label!r} takes one argument of its contrast, the base level by its name, "
            f"such as Treatment({levels[-1]!r})."
        )
    base = ast.literal_eval(call.args[0])
    if base not in levels:
        close = nearest(str(base), [str(level) for level in levels])
        hint = f"the nearest is {close!r}" if close else f"it takes {', '.join(map(show, levels))}"
        raise FormulaError(
            f"formula: {label!r} has the base level {show(base)}, which is not one of its levels; "
            f"{hint}."
        )


def _is_constant(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str() | bool() | int() | float()):
            return True
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
            return True
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return all(map(_is_constant, items))
    return False
