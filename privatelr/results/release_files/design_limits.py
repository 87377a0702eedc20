"""What a formula from a file may ask for, checked before anything is expanded.

A few characters can ask for a great deal: ``(a + b + c)^10``, a factor crossed with another, a
contrast that is computed. A file that was saved names all its columns, so the work of planning
it is bounded by its own length; anything beyond that was not written by `save`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from privatelr.design import Variable, plan_factor
from privatelr.errors import ReleaseFileError
from privatelr.formula import CLOSING, OPENING, Formula, Token, closing_index, tokenize

MOST_COLUMNS = 5_000
LONGEST_FORMULA = 200_000
DEEPEST_BRACKETS = 50
MOST_WORK = 1e7
"""About a second or two; a sum of 4,000 terms takes it, or all pairs of 600."""
_PRODUCT = 20.0
"""Work of a product of two terms, in units of a step of a sum."""
_POWERS = ("^", "**")
_BINDING = {"+": 1, "-": 1, "*": 2, "/": 2, ":": 2, "^": 3, "**": 3}


def read_tokens(text: str) -> list[Token]:
    """The tokens of a formula that is not too long, too deep, or too much to expand."""
    if len(text) > LONGEST_FORMULA:
        raise ReleaseFileError(f"design.formula has more than {LONGEST_FORMULA} characters")
    tokens = tokenize(text)
    depth = deepest = 0
    for token in tokens:
        depth += token.is_operator(*OPENING) - token.is_operator(*CLOSING)
        deepest = max(deepest, depth)
    if deepest > DEEPEST_BRACKETS:
        raise ReleaseFileError(f"design.formula nests more than {DEEPEST_BRACKETS} brackets")
    tildes = [index for index, token in enumerate(tokens) if token.is_operator("~")]
    right = tokens[tildes[0] + 1 :] if tildes else tokens
    if Token("name", ".") in right:  # a saved formula has it expanded
        raise ReleaseFileError("design.formula has a dot that stands for other columns")
    if expansion_work(right) > MOST_WORK:
        raise ReleaseFileError("design.formula asks for more terms than a release can have")
    return tokens


def expansion_work(tokens: Sequence[Token]) -> float:
    """Steps that expanding a right-hand side takes, from above.

    Counts what formulaic would make of each operator if no two terms were the same. A ``:`` is
    read with the strength of ``*``, from the left, which gives no less.
    """
    values: list[float] = []
    waiting: list[str] = []
    work = 0.0

    def reduce(binding: int) -> None:
        nonlocal work
        while waiting and waiting[-1] != "(" and _BINDING[waiting[-1]] >= binding:
            operator = waiting.pop()
            if len(values) < 2:  # a sign
                continue
            right, left = values.pop(), values.pop()
            size, steps = _combined(operator, left, right)
            values.append(size)
            work += steps

    index, power = 0, False
    while index < len(tokens):
        token = tokens[index]
        after = index + 1
        if token.is_name or token.is_operator("{"):
            opens = after if token.is_name else index
            if opens < len(tokens) and tokens[opens].is_operator("(", "{"):
                after = closing_index(tokens, opens) + 1
            values.append(1.0)
        elif token.kind == "number":
            values.append(_exponent(token.text) if power else 1.0)
        elif token.is_operator("("):
            waiting.append("(")
        elif token.is_operator(")"):
            reduce(0)
            if waiting:
                waiting.pop()
        elif token.text in _BINDING:
            reduce(_BINDING[token.text])
            waiting.append(token.text)
        power = token.is_operator(*_POWERS)
        index = after
    reduce(0)
    return work


def _combined(operator: str, left: float, right: float) -> tuple[float, float]:
    """How many terms an operator makes of its operands, and the steps that it takes."""
    if operator in ("+", "-"):
        return left + right, left + right
    if operator in _POWERS:
        size = math.exp(min(right * math.log(max(left, 1.0)), 100.0))
        return size, _PRODUCT * size
    product = left * right
    if operator == ":":
        return product, _PRODUCT * product
    return left + right + product, _PRODUCT * (left + right + product)


def _exponent(text: str) -> float:
    return float(text) if text.isdecimal() and len(text) < 3 else 1.0


def require_columns(formula: Formula, variables: Mapping[str, Variable], named: int) -> None:
    """Refuse a formula with more columns than the file names."""
    factors = [plan_factor(expression, variables) for expression in formula.factors]
    small = len(formula.terms) <= named <= MOST_COLUMNS
    if (
        not small
        or least_columns(formula.terms, [len(factor.levels) for factor in factors]) > named
    ):
        raise ReleaseFileError(
            f"design.columns takes the columns of the formula, at most {MOST_COLUMNS}, not {named}"
        )


def least_columns(terms: Sequence[tuple[int, ...]], levels: Sequence[int]) -> float:
    """Rank of a design, which no coding is below; infinite if a term is too large to look at.

    A term spans, for each subset of its categorical factors, one column for every combination
    of all but the first of their levels; what an earlier term spans adds nothing.
    """
    spanned: set[tuple[frozenset[int], int]] = set()
    rank = 0
    for used in terms:
        numeric = frozenset(i for i in used if levels[i] == 0)
        whole = sum(1 << i for i in used if levels[i] > 0)
        if math.prod(levels[i] for i in used if levels[i] > 0) > MOST_COLUMNS:
            return math.inf
        subset = whole
        while True:
            if (numeric, subset) not in spanned:
                spanned.add((numeric, subset))
                rank += math.prod(levels[i] - 1 for i in used if subset >> i & 1)
            if subset == 0:
                break
            subset = (subset - 1) & whole
        if rank > MOST_COLUMNS:
            return math.inf
    return rank
