"""The column whose levels divide records into strata: the term ``by(sex)`` of a formula."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from privatelr.errors import FormulaError
from privatelr.formula.expression import Expression, parse_expression
from privatelr.formula.parser import CONSTANTS, Token, closing_index, parse, spell, tokenize


@dataclass(frozen=True)
class By:
    """A column whose levels divide records, and the level whose records count.

    Attributes
    ----------
    column : str
    level : str, number, boolean or None
        None stands for each level in turn.
    """

    column: str
    level: Hashable = None

    @property
    def expression(self) -> Expression:
        """The column, as a term."""
        return parse_expression([Token("quoted", self.column)])

    @property
    def label(self) -> str:
        """R spelling."""
        name = spell([Token("quoted", self.column)])
        return f"by({name})" if self.level is None else f"by({name}, {_spelled(self.level)})"


def _spelled(level: Hashable) -> str:
    """Write a level as a constant: a text, a finite number, or a boolean."""
    if isinstance(level, bool):
        return "TRUE" if level else "FALSE"
    if isinstance(level, str):
        return json.dumps(level, ensure_ascii=False)
    return repr(level)


def read_by(inner: Sequence[Token], label: str) -> By:
    """Read what stands in the brackets of ``by(...)``; raises `FormulaError`."""
    match inner:
        case [Token() as name] if name.is_name:
            return By(name.text)
        case [Token() as name, Token() as comma, *rest] if name.is_name and comma.is_operator(","):
            level = _constant(rest)
            if level is not None:
                return By(name.text, level)
    raise FormulaError(
        f"formula: {label!r} takes a column with declared levels, and perhaps one of them, as in "
        "by(sex, 'female')."
    )


def _constant(tokens: Sequence[Token]) -> Hashable:
    """Return the text, number or boolean that is written; None if there is none."""
    match tokens:
        case [Token(kind="name", text=word)] if word in CONSTANTS:
            return CONSTANTS[word]
        case [Token(kind="text" | "number")]:
            with suppress(SyntaxError, ValueError):  # a text with a backslash that is none
                found: Hashable = parse(tokens).value
                return found
        case [Token(kind="operator", text="-"), Token(kind="number") as size]:
            number = parse([size]).value
            return -number if isinstance(number, int | float) else None
    return None


def at_level_text(text: str, by: By) -> str:
    """Return the text of a formula in which ``by(sex)`` names this level."""
    tokens = tokenize(text)
    for place, token in enumerate(tokens[:-1]):
        if token == Token("name", "by") and tokens[place + 1].is_operator("("):
            stop = closing_index(tokens, place + 1)
            if read_by(tokens[place + 2 : stop], spell(tokens[place : stop + 1])).level is None:
                return spell([*tokens[:place], *tokenize(by.label), *tokens[stop + 1 :]])
    return text
