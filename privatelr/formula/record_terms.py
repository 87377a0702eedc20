"""Terms of a formula that say how a record counts, and the arguments that spell them.

``person(patient, 4)`` says who a record is of. ``by(sex)`` divides records into strata.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from privatelr.errors import FormulaError, listed, or_meant, show
from privatelr.formula.expression import Expression, constant, parse_expression
from privatelr.formula.parser import Token, closing_index, parse, spell, tokenize

MOST_RECORDS = 10**6
"""Largest number of records per person that can be named."""


@dataclass(frozen=True)
class Person:
    """Who a record is of.

    Attributes
    ----------
    column : str
        Records with equal values in it are of one person.
    most : int
        Number of records up to which each record of a person counts as much as everybody's.
    """

    column: str
    most: int = 1


def column_of(person: Person) -> Expression:
    """The column that tells persons apart, as a term."""
    return parse_expression([Token("quoted", person.column)])


def spell_person(person: Person) -> str:
    """The term of a formula that says this."""
    most = f", {person.most}" if person.most != 1 else ""
    return f"person({spell([Token('quoted', person.column)])}{most})"


def read_person(inner: Sequence[Token], label: str) -> Person:
    """Read what stands in the brackets of ``person(...)``; raises `FormulaError`."""
    match inner:
        case [Token() as name] if name.is_name:
            return Person(name.text)
        case [Token() as name, Token() as comma, Token(kind="number") as most] if (
            name.is_name and comma.is_operator(",") and most.text.isdecimal()
        ):
            if 1 <= int(most.text[:9]) <= MOST_RECORDS and len(most.text) < 9:
                return Person(name.text, int(most.text))
    raise FormulaError(
        f"formula: {label!r} takes a column, whose values tell persons apart, and perhaps a number "
        f"of records up to {MOST_RECORDS}, as in person(patient, 4)."
    )


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
            with suppress(SyntaxError, ValueError):  # it is no constant
                return By(name.text, constant(parse(rest)))
    raise FormulaError(
        f"formula: {label!r} takes a column with declared levels, and perhaps one of them, as in "
        "by(sex, 'female')."
    )


def at_level_text(text: str, by: By) -> str:
    """Return the text of a formula in which ``by(sex)`` names this level."""
    tokens = tokenize(text)
    for place, token in enumerate(tokens[:-1]):
        if token == Token("name", "by") and tokens[place + 1].is_operator("("):
            stop = closing_index(tokens, place + 1)
            if read_by(tokens[place + 2 : stop], spell(tokens[place : stop + 1])).level is None:
                return spell([*tokens[:place], *tokenize(by.label), *tokens[stop + 1 :]])
    return text


_EXAMPLES = {"weights": "1 / p", "subset": "age > 50", "by": "sex"}


def with_terms(
    formula: Any,
    columns: Collection[str] = (),
    *,
    person: Any = None,
    records_per_person: Any = 1,
    **given: Any,
) -> Any:
    """Return a formula with terms such as ``person(...)`` and ``weights(...)`` for these arguments.

    Raises
    ------
    FormulaError
        If `person` is no name, if another argument is no text, or for such a number of records.
    """
    require_most(person, records_per_person)
    text = getattr(formula, "text", formula)
    asked = {name: inner for name, inner in given.items() if inner is not None}
    if not isinstance(text, str) or (person is None and not asked):
        return formula
    if person is not None:
        if not isinstance(person, str) or not person.strip():
            # values of records are private, and a short list of them would be quoted
            kind = type(person).__name__ if isinstance(person, list | tuple) else show(person)
            raise FormulaError(
                f"person={kind}: person takes the name of a column of the data, whose values "
                "tell persons apart."
            )
        text = f"{text} + {spell_person(Person(person, int(records_per_person)))}"
    for name, inner in asked.items():
        if name == "by" and isinstance(inner, str) and inner not in columns:
            raise FormulaError(
                f"by={show(inner)}: by takes the name of a column of the data; it has "
                f"{listed(columns)}{or_meant(inner, columns)}"
            )
        if name == "by" and isinstance(inner, list | tuple):
            raise FormulaError(
                f"by={show(inner)}: by takes one column by its name, such as by='sex'; the levels "
                "of several are those of one column that is made of them."
            )
        if not isinstance(inner, str) or not inner.strip():
            raise FormulaError(
                f"{name}={show(inner)}: {name} takes the name of a column, or an expression of "
                f"columns such as '{_EXAMPLES[name]}', and no values; make them a column."
            )
        quoted = spell([Token("quoted", inner)]) if inner in columns else inner
        text = f"{text} + {name}({quoted})"
    return text


def require_most(person: Any, most: Any) -> None:
    """Refuse what is no number of records of a person; raises `FormulaError`."""
    counts = isinstance(most, Integral) and not isinstance(most, bool)
    whole = counts and 1 <= int(most) <= MOST_RECORDS
    if not whole or (person is None and most != 1):
        term = f"; a term of the formula has it inside, as in person(patient, {most})"
        beside = f" beside person={term}" if whole else ""
        raise FormulaError(
            f"records_per_person={show(most)}: records_per_person takes a whole number from 1 to "
            f"{MOST_RECORDS}{beside}."
        )
