"""Contrasts that a formula may name.

formulaic evaluates what stands behind a factor, so only what is listed here reaches it: a
contrast by its name, with constants for arguments.
"""

from __future__ import annotations

import ast

CONTRASTS = frozenset({"treatment", "sum", "SAS", "helmert", "diff", "poly"})


def is_plain_contrast(text: str) -> bool:
    """Whether the text is ``contr.name`` or ``contr.name(constants)`` and nothing else."""
    return _is_plain(ast.parse(text, mode="eval").body)


def _is_plain(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="contr"), attr=name):
            return name in CONTRASTS
        case ast.Call(func=ast.Attribute() as named):
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            return _is_plain(named) and all(map(_is_constant, arguments))
    return False


def _is_constant(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str() | bool() | int() | float()):
            return True
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
            return True
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return all(map(_is_constant, items))
    return False
