"""R's formula dialect, split into a response and a right-hand side for formulaic.

formulaic does the algebra of terms (``*``, ``:``, ``^``, ``/``, ``-1``). This module translates
what R allows and formulaic does not: comparisons as responses, ``.`` next to them, dotted names
inside calls. Each factor of the right-hand side becomes a numbered name, so formulaic never sees
an expression.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from privatelr.errors import FormulaError, SchemaError, listed, nearest, show
from privatelr.formula.expression import Expression, parse_expression
from privatelr.formula.parser import CLOSING, OPENING, Token, closing_index, spell, tokenize
from privatelr.formula.record_terms import By, Person, column_of, read_by, read_person
from privatelr.formula.shorthands import (
    expand_dot,
    expand_powers,
    expand_quotes,
    with_backticks,
)
from privatelr.lazy_import import lazy_import

if TYPE_CHECKING:
    import formulaic
else:
    formulaic = lazy_import("formulaic")

_ALGEBRA = ("+", "-", "*", "/", ":", "^", "**", "(", ")")
_LARGEST_POWER = 10
_POWERS = frozenset(map(str, range(1, _LARGEST_POWER + 1)))
_BARS = ("|", "||")
_NO_BAR = (
    "formula: {0!r} does not join terms, and no model here has random effects; person='clinic' has "
    "cluster-robust errors, the factor clinic fixed effects, and I(a {0} b) is a condition."
)
_WRAPPED = ("<", "<=", ">", ">=", "==", "!=", "&", "&&", "!", "%%", "%/%")
_KEY = re.compile("\ue000(\\d+)\ue001")
_Read = TypeVar("_Read")
_PRODUCT = re.compile("`\ue000\\d+\ue001`(:`\ue000\\d+\ue001`)*")


@dataclass(frozen=True)
class Formula:
    """A formula read against the column names of a frame.

    Attributes
    ----------
    text : str
        R spelling with ``.`` expanded.
    response : Expression
        Left-hand side.
    terms : tuple of tuple of int
        Right-hand side: for each term the numbers of its factors. Terms of fewer factors come
        first, and the intercept has no factor.
    factors : tuple of Expression
    offsets : tuple of Expression
        What stands in ``offset(...)``. Their sum is added to the linear predictor.
    weights, subset : Expression or None
        How much a record counts, and which do; predictions do not read them.
    person : Person or None
        Who a record is of. It is no variable of the model, so it has neither bounds nor levels.
    by : By or None
        The column whose levels divide records into strata.
    """

    text: str
    response: Expression
    terms: tuple[tuple[int, ...], ...]
    factors: tuple[Expression, ...]
    offsets: tuple[Expression, ...] = ()
    weights: Expression | None = None
    subset: Expression | None = None
    person: Person | None = None
    by: By | None = None

    @functools.cached_property
    def regressors(self) -> tuple[str, ...]:
        """Columns that the terms read, in order of appearance."""
        return tuple(dict.fromkeys(name for factor in self.factors for name in factor.names))

    @functools.cached_property
    def covariates(self) -> tuple[str, ...]:
        """Columns that the right-hand side reads; those of offsets come last."""
        offsets = (name for offset in self.offsets for name in offset.names)
        return tuple(dict.fromkeys((*self.regressors, *offsets)))

    @functools.cached_property
    def counting(self) -> tuple[Expression, ...]:
        """What says how much records count, and which: weights, a subset, and strata."""
        strata = None if self.by is None else self.by.expression
        return tuple(one for one in (self.weights, self.subset, strata) if one is not None)

    @functools.cached_property
    def selecting(self) -> tuple[str, ...]:
        """Columns by which records count or do not: those of a subset, and of one stratum."""
        subset = () if self.subset is None else self.subset.names
        one = () if self.by is None or self.by.level is None else (self.by.column,)
        return tuple(dict.fromkeys((*subset, *one)))

    @functools.cached_property
    def beside(self) -> tuple[Expression, ...]:
        """What stands beside the terms: offsets, weights, a subset, and strata."""
        return (*self.offsets, *self.counting)

    @functools.cached_property
    def scored(self) -> tuple[str, ...]:
        """Columns that the score of a record reads; those of the response come first."""
        return tuple(dict.fromkeys((*self.response.names, *self.covariates)))

    @functools.cached_property
    def variables(self) -> tuple[str, ...]:
        """All columns that the formula reads; those of weights and of a subset come last."""
        return tuple(dict.fromkeys((*self.scored, *self.guessed)))

    @functools.cached_property
    def guessed(self) -> tuple[str, ...]:
        """Columns that a made-up record has beside its response."""
        counting = (name for one in self.counting for name in one.names)
        return tuple(dict.fromkeys((*self.covariates, *counting)))


def parse_formula(text: str | Formula, columns: Sequence[str]) -> Formula:
    """Read an R formula for a frame with these column names; one that was read is only checked.

    Raises
    ------
    FormulaError
        A sentence naming what cannot be read or which column is unknown.
    """
    if isinstance(text, Formula):
        known = dict.fromkeys(columns)  # a fast look-up, because there may be many columns
        whose = () if text.person is None else (column_of(text.person),)
        for expression in (text.response, *text.factors, *text.beside, *whose):
            _require_columns(expression, known)
        return text
    if not isinstance(text, str):
        raise FormulaError(
            f'formula={show(text)}: formula takes a text such as "y ~ age + dose", a data frame, '
            "an array, or a response followed by its covariates."
        )
    with contextlib.suppress(FormulaError, SchemaError):
        return _read(str(text), tuple(columns))
    quoted = with_backticks(text, columns)
    _read(quoted, tuple(columns))  # raises what is wrong beside the names
    told = f"a name with unusual characters goes in backticks, as in {quoted!r}"
    raise FormulaError(f"formula {text!r}: {told}.")


@functools.lru_cache(maxsize=64)
def _read(text: str, columns: tuple[str, ...]) -> Formula:
    """Read a formula, or return what was read before; text and names are all that it depends on.

    A small fit spends more time on its formula than on its rows.
    """
    known = dict.fromkeys(columns)
    left, right = _split(expand_quotes(tokenize(text)), text)
    response = parse_expression(left)
    if not response.names:
        raise FormulaError(f"formula {text!r}: the response {response.label!r} reads no column.")
    _require_columns(response, known)
    taken = {*response.names}
    # a dot stands for covariates, of which weights, persons and strata are none
    for function in ("weights", "person", "by"):
        for found in _taken_apart(right, function, _COUNTING[function])[1]:
            taken.update(found.names if isinstance(found, Expression) else (found.column,))
    right = expand_dot(right, [name for name in columns if name not in taken])
    right = expand_powers(right)
    text = f"{spell(left)} ~ {spell(right)}"
    right, offsets = _taken_apart(right, "offset", _expression)
    counting = dict[str, Any]()
    for function, read in _COUNTING.items():
        right, found = _taken_apart(right, function, read)
        if len(found) > 1:
            raise FormulaError(
                f"formula {text!r}: it takes {function}() once, not {len(found)} times."
            )
        if found:
            counting[function] = found[0]
    if (person := counting.get("person")) is not None:
        _require_columns(column_of(person), known)
        if person.column in response.names:
            told = "is the response, and persons are told apart by a column of their own"
            raise FormulaError(f"person: the column {person.column!r} {told}.")
    beside = *offsets, *(one for one in counting.values() if isinstance(one, Expression))
    by: By | None = counting.get("by")
    if by is not None:
        beside = *beside, by.expression
    algebra, factors = _factorise(right)
    for factor in (*factors, *beside):
        _require_columns(factor, known)
    terms, kept = _expand_terms(algebra, text)
    for factor in (*(factors[index] for index in kept), *beside):
        if factor.label == response.label or factor.bare() == (response.bare() or ""):
            raise FormulaError(
                f"formula {text!r}: the response {response.label!r} is also a term; leave it out."
            )
    used = tuple(factors[index] for index in kept)
    for factor in used:
        if by is not None and by.column in factor.names:
            raise FormulaError(
                f"formula {text!r}: {by.column!r} is the same in all records of a stratum of "
                f"{by.label}, so it is no term as well; leave {factor.label!r} out."
            )
    return Formula(text, response, terms, used, offsets, **counting)


def _split(tokens: Sequence[Token], text: str) -> tuple[list[Token], list[Token]]:
    tildes = [index for index, token in enumerate(tokens) if token.is_operator("~")]
    if len(tildes) != 1 or tildes[0] == 0 or tildes[0] == len(tokens) - 1:
        raise FormulaError(
            f"formula {text!r}: a formula has one '~' with a response before it and terms "
            'after it, as in "y ~ age + dose".'
        )
    return list(tokens[: tildes[0]]), list(tokens[tildes[0] + 1 :])


def _expression(inner: Sequence[Token], label: str) -> Expression:
    found = parse_expression(inner, term=label)
    if not found.names:
        raise FormulaError(f"formula: the term {label!r} reads no column.")
    return found


_COUNTING: dict[str, Callable[[Sequence[Token], str], Any]] = {
    "weights": _expression,
    "subset": _expression,
    "person": read_person,
    "by": read_by,
}
"""Terms that say how much records count, which do, who they are of, and how they are divided."""


def _taken_apart(
    tokens: Sequence[Token],
    function: str,
    read: Callable[[Sequence[Token], str], _Read],
) -> tuple[list[Token], tuple[_Read, ...]]:
    """Return the right-hand side without its offsets or the like, and what is in their brackets.

    As in R, an offset is added to the whole right-hand side, and stands in no other term. The same
    goes for weights, which are an argument in R, and for persons.
    """
    kept: list[Token] = []
    found: list[_Read] = []
    index = depth = 0
    while index < len(tokens):
        token, after = tokens[index], tokens[index + 1 : index + 2]
        depth += token.is_operator(*OPENING) - token.is_operator(*CLOSING)
        index += 1
        if token != Token("name", function) or not (after and after[0].is_operator("(")):
            kept.append(token)
            continue
        stop = closing_index(tokens, index)
        label, inner = spell(tokens[index - 1 : stop + 1]), tokens[index + 1 : stop]
        following = tokens[stop + 1 : stop + 2]
        added = depth == 0 and (not kept or kept[-1].is_operator("+"))
        if not added or (following and not following[0].is_operator("+", "-")):
            raise FormulaError(
                f"formula: {label} is added to the whole right-hand side, as in "
                f'"y ~ x + {function}(z)", and takes no part in other terms.'
            )
        found.append(read(inner, label))
        index = stop + 1
        if kept:
            kept.pop()  # the plus sign before it
        elif following and following[0].is_operator("+"):
            index += 1
    return kept or [Token("number", "1")], tuple(found)


def _factorise(tokens: Sequence[Token]) -> tuple[str, list[Expression]]:
    """Return the right-hand side with keys in place of factors, and the factors."""
    factors: list[Expression] = []
    keys: dict[str, str] = {}
    parts: list[str] = []  # joined at the end, because appending to a text copies it each time
    index = 0
    while index < len(tokens):
        token, start = tokens[index], index
        index += 1
        if token.is_name:
            if index < len(tokens) and tokens[index].is_operator("("):
                index = closing_index(tokens, index) + 1
            index = _end_of_membership(tokens, start, index) or index
            factor = tokens[start:index]
            label = spell(factor)
            if label not in keys:
                keys[label] = f"`\ue000{len(factors)}\ue001`"  # private-use characters
                factors.append(_expression(factor, label))
            parts.append(keys[label])
        elif token.kind == "number":
            parts.append(_number(tokens, start))
        elif token.is_operator(*_ALGEBRA):
            parts.append(f" {token.text} ")
        elif token.is_operator("%in%"):
            raise FormulaError("formula: %in% does not join terms; write a:b for b nested in a.")
        elif token.is_operator(*_BARS):
            raise FormulaError(_NO_BAR.format(token.text))
        elif token.is_operator(*_WRAPPED):
            by = "2" if token.is_operator("%%", "%/%") else "3.2"
            raise FormulaError(
                f"formula: {token.text!r} cannot combine terms; wrap it, as in "
                f"I(x {token.text} {by})."
            )
        elif token.is_operator(",", "="):
            raise FormulaError(
                f"formula: {token.text!r} is not part of a formula; arguments follow its text, as "
                "in dplr('y ~ x', data, weights='w')."
            )
        else:
            raise FormulaError(f"formula: {token.text} is not a term of a model.")
    return "".join(parts), factors


def _end_of_membership(tokens: Sequence[Token], start: int, stop: int) -> int | None:
    """Return where ``g %in% c("a", "b")`` or ``g %in% "a"`` ends, if that begins at `start`.

    R has no such term. It would read a colon or a power beside it first, so it stands by itself.
    """
    before, after = tokens[start - 1 : start], tokens[stop : stop + 3]
    if len(after) < 2 or not after[0].is_operator("%in%"):
        return None
    called = after[1] == Token("name", "c") and after[2:] == [Token("operator", "(")]
    if after[1].kind in ("text", "number"):
        end = stop + 2
    elif called or after[1].is_operator("["):
        end = closing_index(tokens, stop + 1 + called) + 1
    else:
        return None
    beside = (*before, *tokens[end : end + 1])
    return None if any(one.is_operator(":", "^", "**") for one in beside) else end


def _expand_terms(algebra: str, text: str) -> tuple[tuple[tuple[int, ...], ...], list[int]]:
    """Resolve the algebra to terms, and renumber the factors that remain in them."""
    first, *others = algebra.split(" + ")
    if others and all(_PRODUCT.fullmatch(term) for term in others):
        algebra = f"{first} + {_halved(others)}"
    try:
        terms = _resolved(algebra)
    except (formulaic.errors.FormulaicError, ValueError, TypeError, AttributeError):
        raise FormulaError(
            f"formula {text!r}: the right-hand side takes terms joined by + - : * / and ^."
        ) from None
    kept = sorted({index for term in terms for index in term})
    new = {index: position for position, index in enumerate(kept)}
    return tuple(tuple(new[index] for index in term) for term in terms), kept


@functools.lru_cache(maxsize=64)
def _resolved(algebra: str) -> list[list[int]]:
    """Read sums of products by formulaic, once, also if a file spells the formula otherwise."""
    resolved = formulaic.SimpleFormula.from_spec(algebra)
    return [[int(i) for f in term.factors for i in _KEY.findall(f.expr)] for term in resolved]


def _halved(terms: Sequence[str]) -> str:
    """Bracket a sum of terms by halves: formulaic copies all of them at each plus sign."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"({_halved(terms[:middle])} + {_halved(terms[middle:])})"


def _number(tokens: Sequence[Token], index: int) -> str:
    """Return a number that is a power, or the 0 or 1 that drops or adds the intercept."""
    text = tokens[index].text
    before, after = tokens[index - 1] if index else None, tokens[index + 1 : index + 2]
    if before is not None and before.is_operator("^", "**"):
        if text in _POWERS:
            return text
        shown = text if len(text) <= 20 else f"{text[:17]}..."
        raise FormulaError(
            f"formula: the power {shown} of terms takes a whole number from 1 to {_LARGEST_POWER}; "
            f"write I(x^{shown}) for a power of x."
        )
    inside = sum(t.is_operator("(") - t.is_operator(")") for t in tokens[:index]) > 0
    summed = (before is None or before.is_operator("+", "-")) and (
        not after or after[0].is_operator("+", "-")
    )
    if text not in ("0", "1"):
        raise FormulaError(
            f"formula: the number {text} is not a term; write I({text} * x) for a multiple of x."
        )
    if inside or not summed:
        for bar in (token for token in tokens[index:] if token.is_operator(*_BARS)):
            raise FormulaError(_NO_BAR.format(bar.text))  # as in (1 | clinic)
        raise FormulaError(
            f"formula: {text} stands for the intercept and is added to, or subtracted from, the "
            "whole right-hand side, not inside brackets."
        )
    return text


def _require_columns(expression: Expression, columns: Collection[str]) -> None:
    for name in expression.names:
        if name not in columns:
            longer = (one for one in columns if name in one.split())
            close = nearest(name, columns) or next(longer, None)
            hint = f"the nearest name is {close!r}." if close else f"it has {listed(columns)}."
            if close and (spelled := spell([Token("quoted", close)])) != close:
                hint = f"the nearest name is {close!r}, which is written {spelled}."
            raise FormulaError(
                f"formula: {expression.label!r} reads the column {name!r}, which the data does "
                f"not have; {hint}"
            )
