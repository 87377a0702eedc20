"""A parser of equations about coefficients, as a user writes them.

Equations are text, such as ``"age = 0, dose - 2 * age = 1"``, or a whole term. The syntax is that
of formulaic's linear constraints. Its parser accepts neither ``age = -1`` nor ``1e-3 * age`` nor
``log(age+1)``, and drops the end of ``a = b = 0``, so this package has its own. Equations that both
accept have the same meaning.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

import numpy as np

from privatelr.design import INTERCEPT, Columns, NumberedColumns
from privatelr.errors import ArgumentError, nearest, show
from privatelr.formula import Token, linear, parse
from privatelr.types import FloatArray

_SHOWN = 20
"""A sentence lists at most this number of names."""
_LONGEST = 60
"""A row of a matrix is labelled by its equation up to this number of characters."""
_OTHERS = (
    r"(?P<quoted>`[^`]*`)",
    r"(?P<split>,|==?)",
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w))",
    r"(?P<operator>[-+*/()])",
    r"(?P<space>\s+)",
    r"(?P<word>[^\s,=+*/()`-]+|`)",
)
_AFTER = r"(?![\w.:\[(])"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names that an equation may use.

    Attributes
    ----------
    names : tuple of str
        The names of the coefficients in order.
    terms : mapping of str to tuple of int
        Terms whose name is not that of a coefficient, each with the positions of its coefficients.
    """

    names: tuple[str, ...]
    terms: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def vocabulary_of(columns: Columns | NumberedColumns) -> Vocabulary:
    """The names of the coefficients and terms of a design; numbered columns have no terms."""
    names = tuple(columns.names)
    terms = {term.label: term.columns for term in columns.terms if term.label not in names}
    return Vocabulary(names, terms)


Equation = tuple[str, "FloatArray", float]
Written = tuple[str, Token | None]
"""A part of a text with its token, which is None for spaces."""


def read_equations(text: str, known: Vocabulary) -> list[Equation]:
    """The equations of a text, each as a label, a combination ``(p + 1,)``, and a value.

    Without ``=`` the value is 0. A term by itself means all of its coefficients.
    """
    found: list[Equation] = []
    places = {name: index for index, name in enumerate(known.names)}
    for equation in _split(_written(text, known), ","):
        sides = _split(equation, "=")
        labels = ["".join(written for written, _ in side).strip() for side in sides]
        held = _whole_term(sides, text, known)
        values = [_linear(side, text, places) for side in sides[1 if held else 0 :]]
        if held:
            value = float(values[0][-1]) if values else 0.0
            ending = f" = {labels[1]}" if values else ""
            size = len(places)
            found += [(f"{known.names[i]}{ending}", np.eye(1, size, i)[0], value) for i in held]
        elif len(sides) == 1:
            found.append((labels[0], values[0][:-1], 0.0 - values[0][-1]))
        else:
            for (left, right), (first, second) in zip(
                pairwise(labels), pairwise(values), strict=True
            ):
                off = first - second
                found.append((f"{left} = {right}", off[:-1], 0.0 - off[-1]))
    return found


def _whole_term(sides: list[list[Written]], text: str, known: Vocabulary) -> tuple[int, ...]:
    """Positions of the coefficients of the term that an equation names; empty if it names none.

    Raises `ArgumentError` if the term is not by itself.
    """
    words = [[(written, token) for written, token in side if token] for side in sides]
    named = [(written, token.text) for side in words for written, token in side if _names(token)]
    terms = [(written, name) for written, name in named if name in known.terms]
    if not terms:
        return ()
    written, name = terms[0]
    numbers = not any(_names(token) for side in words[1:] for _, token in side)
    if len(words[0]) == 1 and len(words) <= 2 and numbers:
        return known.terms[name]
    raise ArgumentError(
        f"hypotheses={show(text)}: {show(written)} is a term with the coefficients "
        f"{listed([known.names[i] for i in known.terms[name]])}; write it by itself, or one of "
        "them."
    )


def _names(token: Token | None) -> bool:
    return token is not None and token.kind == "quoted"


def _written(text: str, known: Vocabulary) -> list[Written]:
    """The tokens of a text; the whole name of a coefficient or a term is one token.

    A text that is nothing but a name, as in ``coef.index``, needs no backticks.
    """
    names = [*known.names, *known.terms]
    whole = text if text in names else text.strip()  # a name may begin with a blank
    if whole in names:
        return [(text, Token("quoted", whole))]
    # names of some forms are recognised without backticks; the longest are tried first
    often = Counter(map(_squeezed, names))
    bare = {_squeezed(name): name for name in names if _is_plain(name)}
    bare = {squeezed: name for squeezed, name in bare.items() if often[squeezed] == 1}
    if INTERCEPT in names:
        bare.setdefault("Intercept", INTERCEPT)
    longest = sorted(bare, key=len, reverse=True)
    spellings = [_pattern(word if word == "Intercept" else bare[word]) for word in longest]
    alternatives = "|".join(spelling + _AFTER for spelling in spellings) or "(?!)"
    found: list[Written] = []
    for match in re.finditer("|".join([f"(?P<name>{alternatives})", *_OTHERS]), text):
        word, kind, token = match[0], match.lastgroup, None
        if kind == "name":
            token = Token("quoted", bare[_squeezed(word)])
        elif kind == "quoted" and word[1:-1] in names:
            token = Token("quoted", word[1:-1])
        elif kind == "quoted" or (kind == "word" and re.match(r"[^\W\d]", word)):
            _refuse_name(word.strip("`"), known)
        elif kind == "word":
            _refuse_text(word, text)
        elif kind == "number":
            token = Token("number", word)
        elif kind != "space":
            token = Token("operator", word[0])
        found.append((word, token))
    return found


def _squeezed(text: str) -> str:
    return re.sub(r"\s", "", text)


def _pattern(name: str) -> str:
    """A regular expression of a name, with or without spaces around its operators."""
    parts = re.findall(r"[\w.]+|[^\w.\s]", name)
    pattern: str = re.escape(parts[0])
    for before, part in pairwise(parts):
        words = all(re.fullmatch(r"[\w.]+", one) for one in (before, part))
        pattern += (r"\s+" if words else r"\s*") + re.escape(part)
    return pattern


def _is_plain(name: str) -> bool:
    """Whether a name needs no backticks: it has no operator or space outside of brackets."""
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


def _refuse_name(word: str, known: Vocabulary) -> NoReturn:
    more = f", and the terms {listed([*known.terms])}" if known.terms else ""
    near = nearest(word, [*known.names, *known.terms])
    close = None if near is None else repr(near) if _is_plain(near) else f"`{near}` in backticks"
    raise ArgumentError(
        f"hypotheses: {show(word)} is not a coefficient of this fit, which has "
        f"{listed(known.names)}{more}{'.' if close is None else f'; did you mean {close}?'}"
    )


def _refuse_text(part: str, text: str) -> NoReturn:
    raise ArgumentError(
        f"hypotheses={show(text)}: {show(part)} cannot be read; hypotheses takes sums of "
        "coefficients times numbers, such as 'age - 2 * dose = 0', with unusual names in backticks."
    )


def listed(names: Sequence[str]) -> str:
    """A list of names for an error message, in backticks if they need them."""
    written = [name if _is_plain(name) else f"`{name}`" for name in names[:_SHOWN]]
    more = len(names) - len(written)
    return ", ".join(written) + (f" and {more} more" if more else "")


def _split(tokens: list[Written], at: str) -> list[list[Written]]:
    """The parts between separators; no parts if there are only spaces."""
    parts: list[list[Written]] = [[]]
    for written, token in tokens:
        if token == Token("operator", at):
            parts.append([])
        else:
            parts[-1].append((written, token))
    return parts if any(token for _, token in tokens) else []


def _linear(side: list[Written], text: str, places: Mapping[str, int]) -> FloatArray:
    """One side of an equation: the weights of the coefficients, followed by the constant."""
    try:
        weights = linear(parse([token for _, token in side if token]), places)
        if np.isfinite(weights).all():
            return weights
    except (SyntaxError, ValueError, TypeError, RecursionError, OverflowError):
        pass
    _refuse_text("".join(written for written, _ in side).strip(), text)


class Hypotheses(NamedTuple):
    """Combinations of coefficients, with the values that they have under the hypothesis.

    Attributes
    ----------
    labels : tuple of str
        The equations as the user wrote them.
    contrasts : ndarray of shape (q, p + 1)
        The weights of the coefficients, in the user's units.
    values : ndarray of shape (q,)
    """

    labels: tuple[str, ...]
    contrasts: FloatArray
    values: FloatArray


def read_hypotheses(asked: Any, known: Vocabulary) -> Hypotheses:
    """Read equations, or a matrix, about the coefficients of a design.

    Parameters
    ----------
    asked
        A text with commas between equations, or a list of texts, in which a term by itself means
        all its coefficients; or a matrix ``(q, p + 1)`` of combinations that are 0.

    Raises
    ------
    ArgumentError
        If an equation cannot be read; the message says how names are written.
    """
    texts = [asked] if isinstance(asked, str) else [] if asked is None else asked
    equations: list[Equation] = []
    if isinstance(texts, Sequence) and all(isinstance(text, str) for text in texts):
        equations = [found for text in texts for found in read_equations(text, known)]
    elif not isinstance(asked, int | float | Mapping):
        equations = _read_matrix(asked, known.names)
    if not equations:
        raise ArgumentError(
            f"hypotheses={show(asked)}: hypotheses takes equations such as 'age = 0, dose = 0', "
            "or a matrix with a column for each coefficient."
        )
    for label, contrast, _ in equations:
        if not contrast.any():
            raise ArgumentError(f"hypotheses: {show(label)} is about no coefficient.")
    labels, contrasts, values = zip(*equations, strict=True)
    return Hypotheses(labels, np.array(contrasts), np.array(values))


def _read_matrix(matrix: Any, names: Sequence[str]) -> list[Equation]:
    try:
        rows = np.atleast_2d(np.asarray(matrix, dtype=np.float64))
    except (TypeError, ValueError):
        rows = np.array([[np.nan]])
    if not np.isfinite(rows).all():
        raise ArgumentError(f"hypotheses: the matrix takes finite numbers, not {show(matrix)}.")
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise ArgumentError(
            f"hypotheses: a matrix of shape {np.shape(matrix)} takes {len(names)} columns, one for "
            f"each of {listed(names)}."
        )
    equations: list[Equation] = []
    for index, row in enumerate(rows):  # the label is the equation, or a number if it is too long
        pairs = [(name, weight) for name, weight in zip(names, row, strict=True) if weight]
        weights = [(f"{weight:g}*" if weight != 1 else "") + name for name, weight in pairs]
        text = " + ".join(weights).replace("+ -", "- ")
        equations.append((text if len(text) <= _LONGEST else f"row {index + 1}", row, 0.0))
    return equations
