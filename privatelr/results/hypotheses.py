"""Linear combinations of coefficients, read from what a user writes.

The syntax is that of formulaic's linear constraints: ``"age = 0, dose - 2 * age = 1"``. Its parser
takes neither ``age = -1`` nor ``1e-3 * age`` nor ``log(age+1)``, and drops the end of ``a = b =
0``, so that equations are read here; where it reads them at all, they mean the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from privatelr.errors import ArgumentError, show
from privatelr.frames.terms import INTERCEPT

if TYPE_CHECKING:
    from privatelr.types import FloatArray

_ARGUMENT = "hypotheses"
_SHOWN = 20
_LONGEST = 60
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


@dataclass(frozen=True, slots=True, eq=False)
class Hypotheses:
    """Combinations of the coefficients and the values that they are tested for.

    Attributes
    ----------
    labels : tuple of str
        As they were written.
    contrasts : ndarray of shape (q, p + 1)
        In the user's units, over the coefficients in order.
    values : ndarray of shape (q,)
    """

    labels: tuple[str, ...]
    contrasts: FloatArray
    values: FloatArray


def read_hypotheses(asked: Any, names: Sequence[str]) -> Hypotheses:
    """Read equations, or a matrix, about coefficients of these names.

    Parameters
    ----------
    asked
        Text, with commas between equations, or a list of texts; a mapping from an equation's left
        side to its value, or from a label to a combination; a matrix ``(q, p + 1)``, or one with
        its values ``(q,)``.

    Raises
    ------
    ArgumentError
        One sentence that says how the names are written.
    """
    if isinstance(asked, str):
        return _joined(asked, _equations(asked, names))
    if isinstance(asked, Mapping):
        return _joined(asked, [found for item in asked.items() for found in _item(item, names)])
    if isinstance(asked, Sequence) and all(isinstance(text, str) for text in asked):
        return _joined(asked, [found for text in asked for found in _equations(text, names)])
    if asked is None:
        return _joined(asked, [])
    if isinstance(asked, tuple) and len(asked) == 2 and _depth(asked[0]) > _depth(asked[1]):
        return _matrix(asked[0], asked[1], names)
    return _matrix(asked, 0.0, names)


def _depth(value: Any) -> int:
    """How many axes an array of it would have; 3 for what is none."""
    try:
        return np.ndim(value)
    except ValueError:
        return 3


_Equation = tuple[str, "FloatArray", float]


def _joined(asked: Any, equations: list[_Equation]) -> Hypotheses:
    if not equations:
        raise ArgumentError(
            f"{_ARGUMENT}={show(asked)}: {_ARGUMENT} takes equations such as 'age = 0, dose = 0', "
            "or a matrix with a column for each coefficient."
        )
    for label, contrast, _ in equations:
        if not contrast.any():
            raise ArgumentError(f"{_ARGUMENT}: {show(label)} is about no coefficient.")
    labels, contrasts, values = zip(*equations, strict=True)
    return Hypotheses(labels, np.array(contrasts), np.array(values))


def _item(item: tuple[Any, Any], names: Sequence[str]) -> list[_Equation]:
    """One item of a mapping: an equation's left side and its value, or a label and its meaning."""
    key, value = item
    if not isinstance(key, str):
        raise ArgumentError(f"{_ARGUMENT}: the key {show(key)} takes a text.")
    if isinstance(value, str):
        equations = _equations(value, names)
        if len(equations) != 1:
            raise ArgumentError(f"{_ARGUMENT}: {show(key)} takes one equation, not {show(value)}.")
        return [(key, *equations[0][1:])]
    if np.ndim(value) == 0:
        number = _numbers(value, (), f"the value of {show(key)}")
        return [(f"{key} = {value}", a, v + float(number)) for _, a, v in _equations(key, names)]
    row = _numbers(value, (len(names),), show(key))
    return [(key, row, 0.0)]


def _matrix(matrix: Any, values: Any, names: Sequence[str]) -> Hypotheses:
    size = len(names)
    if isinstance(matrix, int | float):
        raise ArgumentError(
            f"{_ARGUMENT}={show(matrix)}: {_ARGUMENT} takes a text such as 'age = 0, dose = 0', a "
            "mapping, or a matrix with a column for each coefficient."
        )
    rows = np.atleast_2d(_numbers(matrix, None, "the matrix"))
    if rows.ndim != 2 or rows.shape[1] != size:
        raise ArgumentError(
            f"{_ARGUMENT}: a matrix of shape {np.shape(matrix)} takes {size} columns, one for each "
            f"of {_listed(names)}."
        )
    given = _numbers(values, None, "the values")
    if given.shape not in ((), (len(rows),)):
        raise ArgumentError(
            f"{_ARGUMENT}: values of shape {given.shape} take one number for each of the "
            f"{len(rows)} rows of the matrix."
        )
    numbers = np.broadcast_to(given, len(rows))
    labels = [_spelled(row, index, names) for index, row in enumerate(rows)]
    return _joined(matrix, list(zip(labels, rows, map(float, numbers), strict=True)))


def _numbers(value: Any, shape: tuple[int, ...] | None, what: str) -> FloatArray:
    try:
        found = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.array(np.nan)
    if not np.isfinite(found).all() or (shape is not None and found.shape != shape):
        wanted = "finite numbers" if shape is None or shape == () else f"{shape[0]} finite numbers"
        raise ArgumentError(f"{_ARGUMENT}: {what} takes {wanted}, not {show(value)}.")
    return found


def _spelled(row: FloatArray, index: int, names: Sequence[str]) -> str:
    """A row of a matrix in words, or by its number where the words are many."""
    terms = [
        name if weight == 1 else f"{weight:g}*{name}"
        for name, weight in zip(names, row, strict=True)
        if weight != 0
    ]
    text = " + ".join(terms).replace("+ -", "- ")
    return text if len(text) <= _LONGEST else f"row {index + 1}"


# -- equations as text -----------------------------------------------------------------------


def _equations(text: str, names: Sequence[str]) -> list[_Equation]:
    """The equations of a text: label, combination, value; without ``=`` the value is 0."""
    found: list[_Equation] = []
    for equation in _split(_tokens(text, names), ","):
        sides = _split(equation, "=")
        values = [_linear(side, text, len(names)) for side in sides]
        if len(sides) == 1:
            found.append((_written(sides[0]), values[0][:-1], 0.0 - values[0][-1]))
        for (left, right), (first, second) in zip(pairwise(sides), pairwise(values), strict=True):
            off = first - second
            found.append((f"{_written(left)} = {_written(right)}", off[:-1], 0.0 - off[-1]))
    return found


_Token = tuple[str, str]
"""As it was written, and as Python is to read it."""


def _tokens(text: str, names: Sequence[str]) -> list[_Token]:
    """Names, numbers and operators, each name replaced by a number of its own."""
    alternatives = "|".join(_patterns(names))
    token = re.compile("|".join([f"(?P<name>{alternatives})", *_OTHERS]))
    found: list[_Token] = []
    for match in token.finditer(text):
        kind, written = match.lastgroup, match[0]
        if kind == "name":
            found.append((written, f"c[{_index(written, names, text)}]"))
        elif kind == "quoted":
            name = written[1:-1]
            if name not in names:
                _refuse_name(name, names)
            found.append((written, f"c[{names.index(name)}]"))
        elif kind == "word" and re.match(r"[^\W\d]", written):
            _refuse_name(written, names)
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
            f"{_ARGUMENT}={show(text)}: {show(written)} may be {meant}; write it in backticks."
        )
    return found[0]


def _squeezed(name: str) -> str:
    return re.sub(r"\s+", "", name)


def _refuse_name(word: str, names: Sequence[str]) -> NoReturn:
    raise ArgumentError(
        f"{_ARGUMENT}: {show(word)} is not a coefficient of this fit, which has {_listed(names)}."
    )


def _refuse_text(part: str, text: str) -> NoReturn:
    raise ArgumentError(
        f"{_ARGUMENT}={show(text)}: {show(part)} cannot be read; {_ARGUMENT} takes sums of "
        "coefficients times numbers, such as 'age - 2 * dose = 0'."
    )


def _listed(names: Sequence[str]) -> str:
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
