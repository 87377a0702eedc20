"""Short forms of terms: a dot, raw powers ``poly(x, 2, raw = TRUE)``, names without backticks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from privatelr.errors import FormulaError
from privatelr.formula.parser import CLOSING, OPENING, Token, closing_index, parse, spell, tokenize

_HIGHEST = 10
_UNNAMED = re.compile(r"(Unnamed: \d+|__index_level_\d+__)?")
"""Names of columns without a name: as text and Arrow tables have them, as pandas fills them in when
it reads a text, and as it stores row labels in Arrow."""


def is_unnamed(name: str) -> bool:
    """Whether a column has no name of its own, as R's row numbers in a text have none."""
    return _UNNAMED.fullmatch(name) is not None


def expand_quotes(tokens: Sequence[Token]) -> list[Token]:
    """Replace patsy's ``Q("dose (mg)")`` by the name in backticks."""
    found = list(tokens)
    for place in reversed(range(len(found))):
        match found[place : place + 4]:
            case [("name", "Q"), (_, "("), Token(kind="text") as text, (_, ")")]:
                found[place : place + 4] = [Token("quoted", text.text[1:-1])]
    return found


def expand_dot(tokens: Sequence[Token], others: Sequence[str]) -> list[Token]:
    """Replace ``.`` by the sum of all columns that the response does not read.

    Columns without a name are row numbers or row labels, and no covariates.
    """
    others = [name for name in others if not is_unnamed(name)]
    expanded: list[Token] = []
    for index, token in enumerate(tokens):
        if token != Token("name", "."):
            expanded.append(token)
            continue
        if not others:
            raise FormulaError(
                "formula: '.' stands for no column, the data holds only the response."
            )
        for name in (name for name in others if "`" in name):
            raise FormulaError(
                f"formula: '.' stands for the column {name!r}, which a formula cannot name; rename "
                "it or drop it, because a name has no backtick."
            )
        total = [Token("quoted", others[0])]
        for name in others[1:]:
            total += [Token("operator", "+"), Token("quoted", name)]
        before, after = tokens[max(index - 1, 0) : index], tokens[index + 1 : index + 2]
        alone = all(one.is_operator("+") for one in before)
        alone = alone and all(one.is_operator("+", "-") for one in after)
        expanded += total if alone else [Token("operator", "("), *total, Token("operator", ")")]
    return expanded


def expand_powers(tokens: Sequence[Token]) -> list[Token]:
    """Replace ``poly(x, 2, raw = TRUE)`` by ``(I(x) + I(x^2))``, which is the same."""
    found: list[Token] = []
    index = 0
    while index < len(tokens):
        token, opens = tokens[index], tokens[index + 1 : index + 2]
        if token != Token("name", "poly") or not (opens and opens[0].is_operator("(")):
            found.append(token)
            index += 1
            continue
        stop = closing_index(tokens, index + 1)
        inner = _raw_powers(tokens[index : stop + 1])
        found += tokens[index : stop + 1] if inner is None else tokenize(inner)
        index = stop + 1
    return found


def _raw_powers(call: Sequence[Token]) -> str | None:
    """Return the sum of raw powers that a call of ``poly`` asks for; None for any other call."""
    try:
        node = parse(call)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    named = dict(node.keywords)
    if (raw := named.pop("raw", None)) is None:
        return None
    if any(type(other.value) not in (int, float) for other in node.args[1:2]):
        raise FormulaError(
            f"term {spell(call)!r}: poly takes one variable; write a sum of terms such as "
            "poly(age, 2, raw = TRUE) + poly(dose, 2, raw = TRUE)."
        )
    if len(node.args) > 1 and "degree" in named:
        raise FormulaError(f"term {spell(call)!r}: poly takes degree once.")
    degree = node.args[1] if len(node.args) > 1 else named.pop("degree", None)
    is_true = raw.value is True or raw.name == "T"
    if not is_true or named or len(node.args) > 2:
        return None
    highest = 1 if degree is None else degree.value
    if type(highest) is not int or not 1 <= highest <= _HIGHEST:
        raise FormulaError(
            f"term {spell(call)!r}: poly takes a degree from 1 to {_HIGHEST}; a spline such as "
            "bs(age, knots = c(40, 60)) bends more often."
        )
    depth, end = 0, len(call) - 1
    for place, token in enumerate(call):
        depth += token.is_operator(*OPENING) - token.is_operator(*CLOSING)
        if depth == 1 and token.is_operator(","):
            end = place
            break
    base = spell(call[2:end])
    whole = f"({base})" if end > 3 else base
    return f"({' + '.join([f'I({base})', *(f'I({whole}^{k})' for k in range(2, highest + 1))])})"


def with_backticks(text: str, columns: Sequence[str]) -> str:
    """Return a formula in which unusual names of columns are in backticks, also quoted ones.

    Blanks inside of a name may differ: ``Age(years)`` is the column ``Age (years)``.
    """
    packed = "".join(text.split())
    odd = {
        "".join(name.split()): name
        for name in columns
        if "`" not in name and name.strip() and spell([Token("quoted", name)]) != name
    }
    found = sorted((name for name in odd if name in packed), key=len, reverse=True)
    if not found:
        return text
    spelled = "|".join(r"\s*".join(map(re.escape, name)) for name in found)
    pattern = rf"`[^`]*`|(?<![\w.])(?P<mark>['\"]?)(?P<name>{spelled})(?P=mark)(?![\w.])"

    def quoted(match: re.Match[str]) -> str:
        name = match["name"]
        return match[0] if name is None else f"`{odd[''.join(name.split())]}`"

    return re.sub(pattern, quoted, text)
