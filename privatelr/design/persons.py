"""Persons with several records: who a record is of, and how much it counts.

All records of a person together count at most as much as one record. Then what proofs use of a
record holds for a person (theory.md#persons): the gradients add up to at most L R.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import repeat
from numbers import Real
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from privatelr.cells import constant
from privatelr.design.variables import as_objects, content_of
from privatelr.errors import ArgumentError, GuaranteeError, SchemaError, show
from privatelr.formula import Formula, Person
from privatelr.sources import Batch, as_batch, new_name
from privatelr.sources.columns import decoded
from privatelr.types import BoolArray, FloatArray, IntArray

_SAFETY = 1.0 - 2.0**-40
"""Factor of the weights of several records, so that rounding cannot make their sum exceed 1."""
_TEXTS = {id(kind) for kind in (str, type(None), type(pd.NA))}
"""Addresses of the types of texts and of those that are missing."""
_BY_BITS = "biuf"
"""Kinds of types of numbers that are compared by their bits."""
_NAN = np.float64(np.nan).view(np.uint64)
"""Bits of a number that is missing, if it is not a long whole number."""
_AT_ONCE = 2**16
"""Records whose persons are numbered at once."""


def shares_of(sizes: IntArray, most: int) -> FloatArray:
    """Return how much each record counts ``(n,)``, whose person has so many records ``(n,)``.

    It is ``1 / max(k, size)`` for k records per person, `most`. So a person counts at most 1, and a
    person with k records or fewer counts as much for each record as everybody does.
    """
    largest = np.maximum(np.arange(sizes.max(initial=0) + 1), most)  # of each size there may be
    return np.asarray((np.where(largest > 1, _SAFETY, 1.0) / largest)[sizes])


def with_shares(batch: Batch, person: Person) -> tuple[int, IntArray, Batch]:
    """Return the number m of persons, and who each record is of and how much it counts.

    Values are compared for equality only: numbers, texts, booleans and categories. All records
    whose person is anything else, or missing, are of one person.

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
    require_identities(person.column, column.dtype)
    m, owners, sizes = _grouped(_codes(column))
    return m, owners, replace(batch, shares=shares_of(sizes, person.most))


def require_persons_of(formula: Formula, named: str | None) -> None:
    """Refuse values with the name of another column than that of the persons of a fit.

    Raises
    ------
    GuaranteeError
    """
    if formula.person is None or named is None:
        return
    column = formula.person.column
    others = {*formula.variables, *formula.response.names} - {column}
    if column not in (named, new_name(named, others)):
        raise GuaranteeError(
            f"person: these values are named {show(named)}, and the fit is about persons of "
            f"{show(column)}, who are others; hand over the values of that column under its name."
        )


def require_identities(name: str, dtype: Any) -> None:
    """Refuse types of which no values tell persons apart."""
    try:
        content_of(name, dtype)
    except SchemaError:
        raise SchemaError(
            f"person: the column {name!r} has the type {dtype}; persons are told apart by numbers, "
            f"texts, booleans or categories, such as frame[{name!r}].astype(str)."
        ) from None


def _grouped(codes: IntArray) -> tuple[int, IntArray, IntArray]:
    """Return the number of persons, whose each record is, and how many that person has."""
    codes = codes + 1
    counts = np.bincount(codes)
    present = counts > 0  # a category may have no record, and no value may be missing
    owners = (np.cumsum(present) - 1)[codes]
    return int(np.count_nonzero(present)), owners, counts[codes]


# -- streams --------------------------------------------------------------------------------------


class Owners(NamedTuple):
    """Who the records of a stream are of, by their places.

    Attributes
    ----------
    persons : int
        The number m of persons.
    of_records : ndarray of int, shape (n,)
        The number of the person, from 0 to m - 1: four bytes where they hold it.
    sizes : ndarray of int, shape (m,)
        How many records each person has.
    mark : int
        A number of all persons in their places; see `marked`.
    """

    persons: int
    of_records: IntArray
    sizes: IntArray
    mark: int


def owners_in(tables: Iterable[Any], typed: Batch, name: str, n: int) -> Owners:
    """Return who n records are of, as `with_shares`; their persons come in tables of Arrow."""
    read = _of_numbers if typed[name].dtype.kind in _BY_BITS else _of_values
    m, of_records, mark = read(tables, name, n)
    return Owners(m, of_records, np.bincount(of_records, minlength=m), mark % 2**64)


def _of_numbers(tables: Iterable[Any], name: str, n: int) -> tuple[int, IntArray, int]:
    """Return how many persons there are, the number of each record's ``(n,)``, and their mark.

    Equal numbers have equal bits. To sort these takes less memory than a table of hashes.
    """
    bits, gone = np.empty(n, dtype=np.uint64), np.zeros(n, dtype=bool)
    mark = first = 0
    for table in tables:
        column, stop = as_batch(table)[name], first + len(table)
        mark += marked(column, first)
        bits[first:stop] = _words(column)
        gone[first:stop] = pd.isna(column) if _is_long(column) else bits[first:stop] == _NAN
        first = stop
    bits[gone] = bits[np.argmin(gone)]  # of a record that has a person, if there is one
    order, owners = np.argsort(bits), _numbers(n)
    m, last = 0, None
    for start in range(0, n, _AT_ONCE):
        few = order[start : start + _AT_ONCE]
        values = bits[few]
        begins = np.append(values[0] != last, values[1:] != values[:-1])
        owners[few] = m - 1 + np.cumsum(begins)
        m, last = m + int(np.count_nonzero(begins)), values[-1]
    if not gone.any() or gone.all():
        return m, owners, mark
    owners[gone] = m
    return m + 1, owners, mark


def _of_values(tables: Iterable[Any], name: str, n: int) -> tuple[int, IntArray, int]:
    """Return the same of texts and the like, each of which is kept once and not for each record."""
    import pyarrow as pa

    parts, mark, first = [], 0, 0
    for table in tables:
        mark += marked(as_batch(table)[name], first)
        first += len(table)
        parts += [chunk.dictionary_encode() for chunk in decoded(table.column(name)).chunks]
    whole, places = pa.chunked_array(parts).unify_dictionaries(), _numbers(n)
    known = whole.chunk(0).dictionary
    found = (chunk.indices.fill_null(len(known)) for chunk in whole.chunks)
    np.concatenate([part.to_numpy(zero_copy_only=False) for part in found], out=places)
    # the place after the list stands for no person, and equal values may be in the list twice
    codes = np.append(_codes(as_batch(pa.table({name: known}))[name]), -1)
    present = np.bincount(places, minlength=len(codes)) > 0
    owners = np.zeros(len(codes), dtype=places.dtype)
    m, owners[present], _ = _grouped(codes[present])
    return m, owners[places], mark


def _numbers(n: int) -> IntArray:
    return np.empty(n, dtype=np.int32 if n < 2**31 else np.int64)


def marked(column: Any, first: int) -> int:
    """Return a number of persons and their places, the first of which is given.

    Those of the pieces of a column are added modulo ``2**64``, and do not depend on the pieces: two
    records whose persons change places are noticed.
    """
    words = _words(column)
    words = (words ^ (words >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
    words ^= words >> np.uint64(32)
    places = np.arange(2 * first + 1, 2 * (first + len(words)), 2, dtype=np.uint64)
    return int(np.add.reduce(words * places))


def _is_long(column: Any) -> bool:
    """Whether whole numbers have a type of their own where one of a piece is null, too."""
    return bool(column.dtype.kind in "iu" and column.dtype.itemsize == 8)


def _words(column: Any) -> Any:
    """Return bits ``(n,)`` that differ for persons who differ; another process has other ones."""
    if _is_long(column):
        long = f"{column.dtype.kind}8"
        return pd.Series(column, copy=False).to_numpy(long, na_value=0).view(np.uint64)
    if column.dtype.kind in _BY_BITS:
        numbers = pd.Series(column, copy=False).to_numpy("f8", na_value=np.nan)
        # -0.0 is 0.0, and there is one NaN
        return np.where(np.isnan(numbers), np.nan, numbers + 0.0).view(np.uint64)
    values = as_objects(column)
    if _is_text_of_arrow(column.dtype):
        return pd.util.hash_array(values, categorize=False)
    keys = (hash(constant(cell)) for cell in values)
    return np.fromiter(keys, dtype=np.int64, count=len(values)).view(np.uint64)


# -- partitions -----------------------------------------------------------------------------------


class Section(NamedTuple):
    """A partition of a frame whose index tells persons apart, and the values that belong there.

    Intervals of different partitions have no value in common, so no person is in two of them.

    Attributes
    ----------
    frame : DataFrame
    low, high
        Ends of the interval of its values.
    is_last : bool
        Whether the upper end belongs to it, too.
    """

    frame: Any
    low: Any
    high: Any
    is_last: bool


class Sharing(NamedTuple):
    """Who the records of a partition are of: their number, owners ``(n,)`` and shares ``(n,)``."""

    persons: int
    owners: IntArray
    shares: FloatArray


def sharing_of(section: Section, person: Person) -> Sharing:
    """Return who the records of a partition are of, by its index.

    A record outside of the interval, or whose person is missing, has the share 0: it does not
    count, whatever else is in this partition or in others.

    Notes
    -----
    **Privacy.** As `with_shares`. Partitions that are not sorted as they say they are lose records,
    each by its own value, and keep the promise.
    """
    index = pd.Series(section.frame.index)
    inside = _inside(index, section)
    is_plain = isinstance(index.dtype, np.dtype) and index.dtype != object
    codes = _codes(index.to_numpy() if is_plain else index)
    codes = np.where(inside & (codes >= 0), codes, -1)
    m, owners, sizes = _grouped(codes)
    shares = np.where(codes >= 0, shares_of(sizes, person.most), 0.0)
    return Sharing(m - int(np.any(codes < 0)), owners, shares)


class Present(NamedTuple):
    """Who has records in a partition.

    Attributes
    ----------
    persons : int
        The number of those who belong there.
    has_missing : bool
        Whether any record has no person.
    strays : frozenset
        Keys of those who belong elsewhere.
    """

    persons: int
    has_missing: bool
    strays: frozenset[Any]


def present_in(section: Section, person: Person) -> Present:
    """Return who has records in a partition; private."""
    index = pd.Series(section.frame.index)
    known = _codes(index) >= 0
    away = index[known & ~_inside(index, section)]
    strays = frozenset(map(constant, as_objects(away)))
    return Present(sharing_of(section, person).persons, not known.all(), strays)


def at_home(section: Section, keys: frozenset[Any]) -> frozenset[Any]:
    """Return which of these persons have records in the partition where they belong; private."""
    index = pd.Series(section.frame.index)
    return keys & frozenset(map(constant, as_objects(index[_inside(index, section)])))


def _inside(index: Any, section: Section) -> BoolArray:
    low, high, is_last = section.low, section.high, section.is_last
    if pd.api.types.is_numeric_dtype(index.dtype):
        values = index.to_numpy(dtype=np.float64, na_value=np.nan)
        below = values <= high if is_last else values < high
        return np.asarray((low <= values) & below)
    of_texts = isinstance(low, str)

    def belongs(cell: Any) -> bool:
        if cell is None or isinstance(cell, str) is not of_texts:
            return False
        return bool(low <= cell and (cell < high or (is_last and cell == high)))

    cells = (belongs(constant(cell)) for cell in as_objects(index))
    return np.fromiter(cells, dtype=bool, count=len(index))


def require_sections(index: Any, divisions: tuple[Any, ...], person: Person) -> None:
    """Refuse an index that does not tell which values are in which partition.

    Raises
    ------
    ArgumentError
        If the index has another name, or if its divisions are not known and sorted.
    """
    kinds = {isinstance(end, str) for end in divisions}
    known = len(kinds) == 1 and all(isinstance(end, str | Real) for end in divisions)
    if index.name != person.column or not known or list(divisions) != sorted(divisions):
        raise ArgumentError(
            f"person={show(person.column)}: a Dask collection may hold records of one person in "
            "several partitions; it takes a dataframe whose index has this name and known "
            f"divisions, as frame.set_index({show(person.column)}) makes it."
        )
    content_of(person.column, index.dtype)


def _is_text_of_arrow(dtype: Any) -> bool:
    if isinstance(dtype, pd.StringDtype):
        return bool(dtype.storage == "pyarrow")
    return isinstance(dtype, pd.ArrowDtype) and dtype.type is str


def _are_texts(values: Any) -> bool:
    """Return whether objects are texts or missing; no code of an object runs."""
    if all(map(is_, map(type, values.tolist()), repeat(str))):  # in half the time of what follows
        return True
    return set(map(id, map(type, values))) <= _TEXTS


def _numbered(column: Any) -> IntArray:
    """Return the numbers of persons of a plain array, by hashes without sorting, or as they are."""
    if column.dtype.kind in "iu" and len(column):
        low, high = int(column.min()), int(column.max())
        if high - low < 4 * len(column):  # no longer a table than one of hashes, and no hashing
            wide = column.astype(np.int64 if column.dtype.kind == "i" else np.uint64)
            return np.asarray(wide - wide.dtype.type(low), dtype=np.intp)
    return np.asarray(pd.factorize(column)[0], dtype=np.intp)


def _codes(column: Any) -> IntArray:
    """Return a number ``(n,)`` for each record that tells its person, -1 if that is missing."""
    if isinstance(column, np.ndarray):
        return _numbered(column)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return np.asarray(column.cat.codes, dtype=np.intp)
    if _is_text_of_arrow(column.dtype):
        with suppress(Exception):  # bytes that are no text fail here, and are missing below
            column.array.__arrow_array__().validate(full=True)
            return np.asarray(column.array.factorize()[0], dtype=np.intp)  # no text is an object
    values = as_objects(column)
    if _are_texts(values):
        return np.asarray(pd.factorize(values)[0], dtype=np.intp)
    places: dict[Any, int] = {}
    cells = (constant(cell) for cell in values)
    numbers = (-1 if cell is None else places.setdefault(cell, len(places)) for cell in cells)
    return np.fromiter(numbers, dtype=np.intp, count=len(column))
