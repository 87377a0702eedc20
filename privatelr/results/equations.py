"""Equations about coefficients as text: ``"age = 0, dose - 2 * age = 1"``, or a whole term.

The syntax is that of formulaic's linear constraints. Its parser takes neither ``age = -1`` nor
``1e-3 * age`` nor ``log(age+1)``, and drops the end of ``a = b = 0``, so that equations are read
here; where it reads them at all, they mean the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, permutations
from typing import NoReturn

import numpy as np

from privatelr.design import INTERCEPT, Columns, NumberedColumns
from privatelr.errors import ArgumentError, or_meant, show
from privatelr.types import FloatArray

ARGUMENT = "hypotheses"
_SHOWN = 20
_MOST_FACTORS = 4
"""Factors of a term that may stand in any order."""
_OTHERS = (
    r"(?P<quoted>`[^`]*`)",
    r"(?P<split>,|==?)",
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w))",
    r"(?P<operator>[-+*/()])",
    r"(?P<space>\s+)",
    r"(?P<word>[^\s,=+*/()`-]+|`)",
)
_WORDS = re.compile(r"[\w.]+")
_AFTER = r"(?![\w.:\[(])"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What an equation may be about.

    Attributes
    ----------
    names : tuple of str
        Coefficients in order.
    terms : mapping of str to tuple of int
        Terms that are called otherwise than their coefficients, and the positions of these.
    """

    names: tuple[str, ...]
    terms: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def every(self) -> list[str]:
        return [*self.names, *self.terms]


def vocabulary_of(columns: Columns | NumberedColumns) -> Vocabulary:
    """Coefficients and terms of a design; numbered columns are in no terms."""
    if not isinstance(columns, Columns):
        return Vocabulary(tuple(columns.names), {})
    terms: dict[str, tuple[int, ...]] = {}
    for term in columns.terms:
        factors = term.label.split(":")
        for order in permutations(factors) if len(factors) <= _MOST_FACTORS else [factors]:
            terms.setdefault(":".join(order), term.columns)
    called = {label: held for label, held in terms.items() if label not in columns.names}
    return Vocabulary(columns.names, called)


Equation = tuple[str, "FloatArray", float]


def read_equations(text: str, known: Vocabulary) -> list[Equation]:
    """The equations of a text: label, combination, value; without ``=`` the value is 0.

    A term by itself stands for all its coefficients.
    """
    found: list[Equation] = []
    size = len(known.names)
    for equation in _split(_tokens(text, known), ","):
        sides = _split(equation, "=")
        held = _whole_term(sides, text, known)
        if held:
            value = _linear(sides[1], text, size)[-1] if len(sides) == 2 else 0.0
            ending = f" = {_written(sides[1])}" if len(sides) == 2 else ""
            found += [(f"{known.names[i]}{ending}", np.eye(size)[i], float(value)) for i in held]
            continue
        values = [_linear(side, text, size) for side in sides]
        if len(sides) == 1:
            found.append((_written(sides[0]), values[0][:-1], 0.0 - values[0][-1]))
        for (left, right), (first, second) in zip(pairwise(sides), pairwise(values), strict=True):
            off = first - second
            found.append((f"{_written(left)} = {_written(right)}", off[:-1], 0.0 - off[-1]))
    return found


def _whole_term(sides: list[list[_Token]], text: str, known: Vocabulary) -> tuple[int, ...]:
    """Positions of a term that an equation is about; raises `ArgumentError` for part of one."""
    words = [[token for token in side if token[1] != " "] for side in sides]
    terms = [token for side in words for token in side if token[1].startswith("t[")]
    if not terms:
        return ()
    written, place = terms[0]
    held = known.terms[list(known.terms)[int(place[2:-1])]]
    numbers = all("[" not in token[1] for side in words[1:] for token in side)
    if len(words[0]) == 1 and len(words) <= 2 and numbers:
        return held
    raise ArgumentError(
        f"{ARGUMENT}={show(text)}: {show(written)} is a term with the coefficients "
        f"{listed([known.names[i] for i in held])}; write it by itself, or one of them."
    )


_Token = tuple[str, str]
"""A token as it was written, and as Python is to read it."""


def _tokens(text: str, known: Vocabulary) -> list[_Token]:
    """Names, numbers and operators, each name replaced by a number of its own."""
    names, size = known.every, len(known.names)

    def place(index: int) -> str:
        return f"c[{index}]" if index < size else f"t[{index - size}]"

    alternatives = "|".join(_patterns(names))
    token = re.compile("|".join([f"(?P<name>{alternatives})", *_OTHERS]))
    found: list[_Token] = []
    for match in token.finditer(text):
        kind, written = match.lastgroup, match[0]
        if kind == "name":
            found.append((written, place(_index(written, names, text))))
        elif kind == "quoted":
            name = written[1:-1]
            if name not in names:
                _refuse_name(name, known)
            found.append((written, place(names.index(name))))
        elif kind == "word" and re.match(r"[^\W\d]", written):
            _refuse_name(written, known)
        elif kind == "word":
            _refuse_text(written, text)
        elif kind == "split":
            found.append((written[0], written[0]))
        else:
            found.append((written, " " if kind == "space" else written))
    return found


def _patterns(names: Sequence[str]) -> list[str]:
    """How names may stand in a text, the longest first; others take backticks."""
    bare = {name: _pattern(name) for name in names if _is_plain(name)}
    if INTERCEPT in names and "Intercept" not in names:
        bare["Intercept"] = "Intercept"
    longest = sorted(bare, key=len, reverse=True)
    return [bare[name] + _AFTER for name in longest] or [r"(?!)"]


def _pattern(name: str) -> str:
    """The name, with or without spaces around its operators."""
    parts = re.findall(r"[\w.]+|[^\w.\s]", name)
    pattern: str = re.escape(parts[0])
    for before, part in pairwise(parts):
        words = _WORDS.fullmatch(before) and _WORDS.fullmatch(part)
        pattern += (r"\s+" if words else r"\s*") + re.escape(part)
    return pattern


def _is_plain(name: str) -> bool:
    """Whether a name is read as one without backticks: no operator or space outside brackets."""
    depth, outside = 0, ""
    for character in name:
        depth += (character in "([") - (character in ")]")
        if depth < 0:
            return False
        if depth == 0 and character not in ")]":
            outside += character
    if depth != 0 or "`" in name or re.match(r"\.?\d", name):
        return False
    return bool(re.fullmatch(r"[\w.:]*", outside)) and name.strip() == name != ""


def _index(written: str, names: Sequence[str], text: str) -> int:
    """The coefficient that a text means, whatever its spaces."""
    if written in names:
        return names.index(written)
    if written == "Intercept":
        return names.index(INTERCEPT)
    found = [i for i, name in enumerate(names) if _squeezed(name) == _squeezed(written)]
    if len(found) != 1:
        meant = " or ".join(names[index] for index in found)
        raise ArgumentError(
            f"{ARGUMENT}={show(text)}: {show(written)} may be {meant}; write it in backticks."
        )
    return found[0]


def _squeezed(name: str) -> str:
    return re.sub(r"\s+", "", name)


def _refuse_name(word: str, known: Vocabulary) -> NoReturn:
    alone = {tuple(sorted(name.split(":"))) for name in known.names}
    terms = {tuple(sorted(label.split(":"))): label for label in reversed([*known.terms])}
    others = [label for factors, label in terms.items() if factors not in alone][::-1]
    more = f", and the terms {listed(others)}" if others else ""
    raise ArgumentError(
        f"{ARGUMENT}: {show(word)} is not a coefficient of this fit, which has "
        f"{listed(known.names)}{more}{or_meant(word, known.every)}"
    )


def _refuse_text(part: str, text: str) -> NoReturn:
    raise ArgumentError(
        f"{ARGUMENT}={show(text)}: {show(part)} cannot be read; {ARGUMENT} takes sums of "
        "coefficients times numbers, such as 'age - 2 * dose = 0'."
    )


def listed(names: Sequence[str]) -> str:
    """Names as they are to be written."""
    written = [name if _is_plain(name) else f"`{name}`" for name in names[:_SHOWN]]
    more = len(names) - len(written)
    return ", ".join(written) + (f" and {more} more" if more else "")


def _split(tokens: list[_Token], at: str) -> list[list[_Token]]:
    parts: list[list[_Token]] = [[]]
    for token in tokens:
        if token[1] == at:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts if any(token[1] != " " for token in tokens) else []


def _written(side: list[_Token]) -> str:
    return "".join(written for written, _ in side).strip()


def _linear(side: list[_Token], text: str, size: int) -> FloatArray:
    """Weights of the coefficients, and the constant after them, of one side of an equation."""
    source = "".join(part for _, part in side).strip()
    try:
        weights = _weights(ast.parse(source, mode="eval").body, size)
        if np.isfinite(weights).all():
            return weights
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, OverflowError):
        pass
    _refuse_text(_written(side), text)


def _weights(node: ast.expr, size: int) -> FloatArray:
    """Evaluate a linear expression; raises TypeError for any other."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return np.append(np.zeros(size), float(number))
        case ast.Subscript(value=ast.Name(id="c"), slice=ast.Constant(value=int() as index)):
            return np.asarray(np.eye(size + 1)[index])
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_weights(inner, size)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return _weights(inner, size)
        case ast.BinOp(left=left, op=op, right=right):
            return _combined(op, _weights(left, size), _weights(right, size))
    raise TypeError(node)


def _combined(op: ast.operator, left: FloatArray, right: FloatArray) -> FloatArray:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult() if not left[:-1].any():
            return np.asarray(left[-1] * right)
        case ast.Mult() if not right[:-1].any():
            return np.asarray(left * right[-1])
        case ast.Div() if not right[:-1].any() and right[-1] != 0:
            return np.asarray(left / right[-1])
    raise TypeError(op)
