"""Who a record is of: the term ``person(patient, 4)`` of a formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from privatelr.errors import FormulaError
from privatelr.formula.expression import Expression, parse_expression
from privatelr.formula.parser import Token, spell

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
