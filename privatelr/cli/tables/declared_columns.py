"""What columns of a table in a file hold, by declarations.

No type is inferred from values. A single value could change an inferred type, and a fit could be
refused because of it, so that the refusal would reveal one record. A cell that does not fit the
declaration of its column counts as missing, and its record remains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from privatelr.cli.outcomes import InputError
from privatelr.design import Variable
from privatelr.errors import SchemaError, show

Reading = Literal["numbers", "text", "true or false"]
UNDECLARED = "\0undeclared"
"""Texts that are not a level get this category; it contains a NUL, which no level can contain."""
TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """The declared content of a column; `levels` is empty if no levels are declared."""

    reading: Reading
    levels: tuple[Hashable, ...] = ()

    def among_levels(self, codes: Sequence[int]) -> pd.Categorical:
        """A column by positions among the levels: -1 is missing, one beyond them is undeclared."""
        places = np.asarray(codes, dtype=np.intp)
        return pd.Categorical.from_codes(places, categories=[*self.levels, UNDECLARED])


def by_levels(name: str, levels: Iterable[Hashable] | None) -> DeclaredColumn:
    """The content of a column with these declared levels, or without any."""
    if levels is None:
        return DeclaredColumn("numbers")
    declared = tuple(levels)
    truths = [isinstance(level, bool) for level in declared]
    if all(truths):
        return DeclaredColumn("true or false", declared)
    if all(isinstance(level, int | float) for level in declared) and not any(truths):
        return DeclaredColumn("numbers", declared)
    wrong = ""
    if not all(isinstance(level, str) for level in declared):
        wrong = (
            "in a file, the levels of a column are all texts, all numbers, or all true and false"
        )
    elif any(str(level).strip() != level for level in declared):
        wrong = "a level in a file has no blank at its ends"
    if wrong:
        raise SchemaError(f"levels[{name!r}]={show(list(declared))}: {wrong}.")
    return DeclaredColumn("text", declared)


def by_variable(variable: Variable) -> DeclaredColumn:
    """The content of a column that is a variable of a model."""
    match variable.kind:
        case "categorical":
            return by_levels(variable.name, variable.levels)
        case "logical":
            return DeclaredColumn("true or false")
        case "text":
            return DeclaredColumn("text")
    return DeclaredColumn("numbers")


def describe(readings: Mapping[str, Reading], numbers_note: str) -> str:
    """A line that says how columns were read, such as ``read as numbers: y, age``."""
    parts = []
    for reading in ("numbers", "text", "true or false"):
        names = [name for name, found in readings.items() if found == reading]
        if names:
            shown = ", ".join(name if name.isprintable() else repr(name) for name in names)
            note = f" ({numbers_note})" if numbers_note and reading == "numbers" else ""
            parts.append(f"as {reading}: {shown}{note}")
    return f"read {'; '.join(parts)}"


def require_different(names: Sequence[str], shown: str) -> None:
    """Refuse columns of the same name; raises `InputError`."""
    for name, often in Counter(names).items():
        if often > 1:
            raise InputError(f"{shown}: two columns are called {name!r}, and names must differ.")
