"""Arguments that are other spellings of terms: ``weights=`` and ``person=``."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from privatelr.errors import FormulaError, show
from privatelr.formula.algebra import Formula
from privatelr.formula.parser import Token, spell
from privatelr.formula.person import MOST_RECORDS


def with_weights(formula: Any, weights: Any, columns: Collection[str]) -> Any:
    """Return a formula with the term ``weights(...)`` for an argument of this name, if it is given.

    Raises
    ------
    FormulaError
        If the argument is no text, or the formula has weights already.
    """
    text = formula.text if isinstance(formula, Formula) else formula
    if weights is None or not isinstance(text, str):
        return formula
    if not isinstance(weights, str) or not weights.strip():
        raise FormulaError(
            f"weights={show(weights)}: weights takes the name of a column of the data, or an "
            "expression of columns such as '1 / p', and no numbers; make them a column."
        )
    inner = spell([Token("quoted", weights)]) if weights in columns else weights
    return f"{text} + weights({inner})"


def with_person(formula: Any, person: Any, most: Any = 1) -> Any:
    """Return a formula with the term ``person(...)`` for arguments, if they are given.

    Raises
    ------
    FormulaError
        If `person` is no name, `most` is no number of records, or the formula has a person already.
    """
    text = formula.text if isinstance(formula, Formula) else formula
    whole = isinstance(most, int) and not isinstance(most, bool) and 1 <= most <= MOST_RECORDS
    if not whole or (person is None and most != 1):
        beside = " beside person=" if whole else ""
        raise FormulaError(
            f"records_per_person={show(most)}: records_per_person takes a whole number from 1 to "
            f"{MOST_RECORDS}{beside}."
        )
    if person is None or not isinstance(text, str):
        return formula
    if not isinstance(person, str) or not person.strip():
        raise FormulaError(
            f"person={show(person)}: person takes the name of a column of the data, whose values "
            "tell persons apart."
        )
    number = f", {most}" if most != 1 else ""
    return f"{text} + person({spell([Token('quoted', person)])}{number})"
