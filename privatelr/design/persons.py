"""Persons with several records: who a record is of, and how much it counts.

All records of a person together count at most as much as one record. Then what proofs use of a
record holds for a person (people.md 1): the gradients add up to at most L R.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from privatelr.cells import constant
from privatelr.design.variables import as_objects, content_of
from privatelr.formula import Person
from privatelr.sources import Batch
from privatelr.types import FloatArray, IntArray

_SAFETY = 1.0 - 2.0**-40
"""Factor of the weights of several records, so that rounding cannot make their sum exceed 1."""


_TEXTS = {id(kind) for kind in (str, type(None), type(pd.NA))}
"""Addresses of the types of texts and of those that are missing."""


def shares_of(sizes: IntArray, most: int) -> FloatArray:
    """Return how much each record counts ``(n,)``, whose person has so many records ``(n,)``.

    It is ``1 / max(k, size)`` for k records per person, `most`. So a person counts at most 1, and a
    person with k records or fewer counts as much for each record as everybody does.
    """
    largest = np.maximum(sizes, most)
    return np.where(largest > 1, _SAFETY, 1.0) / largest


def with_shares(batch: Batch, person: Person) -> tuple[int, IntArray, Batch]:
    """Return the number m of persons, and who each record is of and how much it counts.

    Values are compared for equality only: those of numbers, texts, booleans and categories. All
    records whose person is anything else, or missing, are of one person.

    Returns
    -------
    m : int
    owners : ndarray of shape (n,)
        The number of the person, from 0 to m - 1.
    batch : Batch
        The batch with the shares of its records.

    Raises
    ------
    SchemaError
        If the column has a type that holds none of these.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself. *Neighbours*: if all records of a person are
    replaced, the shares of all other records stay as they are, and so does the number of persons,
    which is public. *Assumed public*: names and types. *Not covered*: owners, shares, and how many
    records there are, which nothing may show.
    """
    column = batch[person.column]
    content_of(person.column, column.dtype)
    codes = _codes(column) + 1
    counts = np.bincount(codes)
    present = counts > 0  # a category may have no record, and no value may be missing
    owners, sizes = (np.cumsum(present) - 1)[codes], counts[present]
    shares = shares_of(sizes[owners], person.most)
    return len(sizes), owners, replace(batch, shares=shares)


def _codes(column: Any) -> IntArray:
    """Return a number ``(n,)`` for each record that tells its person, -1 if that is missing."""
    if isinstance(column, np.ndarray):
        return np.asarray(pd.factorize(column)[0], dtype=np.intp)  # by hashes, without sorting
    if isinstance(column.dtype, pd.CategoricalDtype):
        return np.asarray(column.cat.codes, dtype=np.intp)
    values = as_objects(column)
    if set(map(id, map(type, values))) <= _TEXTS:  # no code of an object runs
        return np.asarray(pd.factorize(values)[0], dtype=np.intp)
    places: dict[Any, int] = {}
    cells = (constant(cell) for cell in values)
    numbers = (-1 if cell is None else places.setdefault(cell, len(places)) for cell in cells)
    return np.fromiter(numbers, dtype=np.intp, count=len(column))
