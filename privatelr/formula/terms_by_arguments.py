"""Arguments that are other spellings of terms: ``weights=``, ``subset=``, ``by=``, ``person=``."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral
from typing import Any

from privatelr.errors import FormulaError, listed, or_meant, show
from privatelr.formula.algebra import Formula
from privatelr.formula.parser import Token, spell
from privatelr.formula.person import MOST_RECORDS, Person, spell_person

_EXAMPLES = {"weights": "1 / p", "subset": "age > 50", "by": "sex"}


def with_terms(formula: Any, columns: Collection[str], **given: Any) -> Any:
    """Return a formula with terms such as ``weights(...)`` for these arguments.

    Raises
    ------
    FormulaError
        If an argument that is given is no text.
    """
    text = formula.text if isinstance(formula, Formula) else formula
    asked = {name: inner for name, inner in given.items() if inner is not None}
    if not asked or not isinstance(text, str):
        return formula
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


def with_person(formula: Any, person: Any, most: Any = 1) -> Any:
    """Return a formula with the term ``person(...)`` for arguments, if they are given.

    Raises
    ------
    FormulaError
        If `person` is no name, `most` is no number of records, or the formula has a person already.
    """
    text = formula.text if isinstance(formula, Formula) else formula
    require_most(person, most)
    if person is None or not isinstance(text, str):
        return formula
    if not isinstance(person, str) or not person.strip():
        # values of records are private, and a short list of them would be quoted
        given = type(person).__name__ if isinstance(person, list | tuple) else show(person)
        raise FormulaError(
            f"person={given}: person takes the name of a column of the data, whose values "
            "tell persons apart."
        )
    return f"{text} + {spell_person(Person(person, int(most)))}"


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
