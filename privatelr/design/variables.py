"""Columns of a frame, each with a kind that follows from its type and the schema alone.

Reading a column never fails and never warns because of a value. A value that cannot be used is
marked invalid, and the design turns its row into a row of zeros.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from privatelr.cells import constant, number_or_spelled
from privatelr.errors import SchemaError, count_of, listed, or_meant, show
from privatelr.formula import EVERYTHING, Interval
from privatelr.sources import Batch, Schema, Tally, beyond, count, require_levels, unknown
from privatelr.types import BoolArray, FloatArray, IntArray, ObjectArray

VariableKind = Literal["numeric", "logical", "categorical", "text"]
Content = Literal["numbers", "strings", "anything"]
_DATES = re.compile("date|timestamp")
DAYS = "; for dates count days, as in (x - pandas.Timestamp('2020-01-01')).dt.days"
TYPED = "pass a column with a type, such as numpy.asarray(x, dtype=float) or a categorical one"
"""Advice in errors about a list or a column of objects, which may hold values of any type."""


_MOST_LEFT_OUT = 10


@dataclass(frozen=True, slots=True)
class Variable:
    """A column and what is public about it.

    `levels` is set for the kinds ``logical`` and ``categorical``. The kind ``text`` is a column of
    strings or other objects without a declaration, which can be used in comparisons only.
    `content` says which values the type of the column allows.
    """

    name: str
    kind: VariableKind
    bounds: Interval = EVERYTHING
    levels: tuple[Hashable, ...] = ()
    content: Content = "anything"

    @property
    def is_textual(self) -> bool:
        """Whether its values can be compared but are not numbers to compute with."""
        return self.kind in ("text", "categorical")

    @property
    def is_bounded(self) -> bool:
        return self.kind != "numeric" or all(math.isfinite(end) for end in self.bounds)


def remedy(variable: Variable, levels: str = "...", bounds: str = "lo, hi") -> str:
    """Return what an error asks the user to declare where levels are needed."""
    declare = f'declare levels={{"{variable.name}": [{levels}]}}'
    if variable.kind == "numeric":
        return declare
    if variable.content == "strings":
        return f"{declare}, or pass pandas' categorical type"
    return f'{declare} or bounds={{"{variable.name}": ({bounds})}}, or {TYPED}'


def describe_variables(batch: Batch, names: Iterable[str], schema: Schema) -> dict[str, Variable]:
    """Return the kind of each column, from its dtype and the declared bounds and levels."""
    for argument, declared in (("bounds", schema.bounds), ("levels", schema.levels)):
        for name in declared:
            if name not in batch.names:
                raise SchemaError(
                    f"{argument} names {name!r}, which is not a column of the data; it has "
                    f"{listed(batch.names)}{or_meant(name, batch.names)}"
                )
    variables = {name: _describe(name, batch.column(name).dtype, schema) for name in names}
    for name, variable in variables.items():
        if variable.kind == "numeric" and not variable.is_bounded and batch.is_coded(name):
            # its numbers may be categories or amounts, which only a declaration tells
            variables[name] = replace(variable, kind="text")
    return variables


def require_no_listed_numbers(variables: Iterable[Variable], schema: Schema) -> None:
    """Refuse categories that are numbers and come from the type alone; raises `SchemaError`.

    Files and other libraries hold them as plain numbers, from which another model would follow.
    """
    for name, levels in ((one.name, one.levels) for one in variables):
        if name not in schema.levels and not {*map(type, levels)} <= {str, bool}:
            raise SchemaError(
                f"column {name!r} is categorical and its categories are numbers, which files and "
                f"other libraries hold as plain numbers; declare levels={{{name!r}: "
                f"{show(list(levels))}}}, or pass numbers."
            )


def require_usable(names: Iterable[str], batch: Batch, schema: Schema) -> None:
    """Refuse columns that no term can be made of, all of them at once; raises `SchemaError`."""
    strange = []
    for name in dict.fromkeys(names):
        if name in schema.bounds or name in schema.levels:
            continue
        with suppress(SchemaError):
            if _describe(name, batch.column(name).dtype, schema).kind != "text":
                continue
        strange.append(name)
    if len(strange) > 1:
        raise SchemaError(
            f"columns {listed(strange)}: they are dates, texts without declared levels or the "
            "like, which no model reads as they are; declare their levels= or bounds=, or leave "
            f"them out, as in . - {' - '.join(strange[:_MOST_LEFT_OUT])}."
        )


def _describe(name: str, dtype: Any, schema: Schema) -> Variable:
    bounds, levels = schema.bounds.get(name), schema.levels.get(name)
    categorical = isinstance(dtype, pd.CategoricalDtype)
    content = content_of(name, dtype)
    if bounds is not None and (categorical or content == "strings"):
        raise SchemaError(
            f"bounds[{name!r}] describes numbers, but the column {name!r} is of type {dtype}; drop "
            "the bounds, or pass numbers, as in pandas.to_numeric(x.str.replace(',', '.'))."
        )
    if bounds is not None:
        return Variable(name, "numeric", bounds, content=content)
    if levels is not None:
        require_content(name, content, levels)
        if pd.api.types.is_bool_dtype(dtype) and not {*levels} <= {False, True}:
            raise SchemaError(
                f"levels[{name!r}]={list(levels)!r}: the column {name!r} is of type {dtype}, so no "
                "value can equal some of these levels; levels take the type of the column."
            )
        # Dask knows of a dictionary in a file that it is one, and lists no categories
        listed_none = categorical and len(dtype.categories) == 0
        if categorical and not listed_none and not set(levels) & set(dtype.categories):
            raise SchemaError(
                f"levels[{name!r}]={show(list(levels))}: the column {name!r} is categorical and "
                f"has none of these levels; its type lists {show(dtype.categories.tolist())}."
            )
        return Variable(name, "categorical", levels=levels, content=content)
    if categorical:
        declared = tuple(dtype.categories.tolist())
        require_levels(name, declared)
        return Variable(name, "categorical", levels=declared, content=content)
    if pd.api.types.is_bool_dtype(dtype):
        return Variable(name, "logical", (0.0, 1.0), (False, True), content)
    return Variable(name, "numeric" if content == "numbers" else "text", content=content)


def content_of(name: str, dtype: Any) -> Content:
    """Return what a column of this type can hold; refuses types that models cannot use."""
    with suppress(NotImplementedError):  # of types of Arrow that pandas does not know
        if isinstance(dtype, pd.CategoricalDtype) or pd.api.types.is_object_dtype(dtype):
            return "anything"
        if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype):
            return "numbers"
        if pd.api.types.is_bool_dtype(dtype):  # pandas does not count Arrow's booleans as numbers
            return "numbers"
        if pd.api.types.is_string_dtype(dtype):
            return "strings"
    raise SchemaError(
        f"column {name!r} has the type {dtype}; a model takes numbers, booleans, categories and "
        f"strings with declared levels{DAYS if _DATES.search(str(dtype)) else ''}."
    )


def require_content(name: str, content: Content, levels: Collection[Hashable]) -> None:
    """Refuse levels that no value of the column's type can equal."""
    texts = all(isinstance(level, str) for level in levels)
    numbers = all(isinstance(level, int | float) for level in levels)
    if (texts and content == "numbers") or (numbers and content == "strings"):
        raise SchemaError(
            f"levels[{name!r}]={list(levels)!r}: the column {name!r} holds {content}, so no value "
            "can equal one of these levels; levels take the type of the column."
        )


def read_variable(
    variable: Variable, series: pd.Series[Any] | np.ndarray[Any, Any], tally: Tally | None = None
) -> tuple[FloatArray | ObjectArray, BoolArray]:
    """Return values and validity of a column, each of shape ``(n,)``.

    Numbers are clipped to the declared bounds. Infinite, missing or unreadable numbers, missing
    values and undeclared levels are invalid, and a public constant replaces them. A tally counts
    clipped and invalid values.
    """
    if variable.kind == "numeric":
        # adding 0.0 turns -0.0 into 0.0, so the result does not depend on how clipping treats it
        values = np.add(as_numbers(series), 0.0, dtype=np.float64)
        valid = np.isfinite(values)
        low, high = variable.bounds
        held = values if valid.all() else np.where(valid, values, stand_in(variable))
        if tally is not None:
            missing = len(valid) - int(np.count_nonzero(valid))
            count(tally, variable.name, missing=missing, clipped=beyond(held, low, high))
        np.minimum(np.maximum(held, low, out=held), high, out=held)
        return held, valid
    if isinstance(series, np.ndarray):
        if variable.kind == "logical" and series.dtype == np.bool_:
            return series.astype(np.float64), np.ones(len(series), dtype=bool)
        series = pd.Series(series)
    if variable.kind == "text":
        objects = as_objects(series)  # constants stay; an empty text replaces other objects
        found = np.fromiter(map(constant, objects), dtype=object, count=len(objects))
        valid = np.fromiter((value is not None for value in found), dtype=bool, count=len(found))
        found[~valid] = ""
        count(tally, variable.name, missing=int(np.count_nonzero(~valid)))
        return found, valid
    coded, valid = _read_levels(variable, series, tally)
    if variable.kind == "logical":
        return np.maximum(coded.codes, 0).astype(np.float64), valid
    return np.asarray(coded), valid


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of declared levels, stored as positions; NumPy sees an array of levels.

    Attributes
    ----------
    codes : ndarray of shape (n,)
        -1 where the value is not a level; in the array the first level replaces it.
    """

    codes: IntArray
    levels: tuple[Hashable, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Coded:
        return Coded(self.codes[rows], self.levels)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> ObjectArray:
        levels = np.empty(len(self.levels), dtype=object)
        levels[:] = self.levels
        return levels[np.maximum(self.codes, 0)]


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """Clipped numbers of a type that compares otherwise than doubles; NumPy sees doubles.

    Attributes
    ----------
    doubles : ndarray of shape (n,)
        What arithmetic takes.
    column : Series or ndarray of shape (n,)
    bounds : tuple of float
    """

    doubles: FloatArray
    column: Any
    bounds: Interval

    def __len__(self) -> int:
        return len(self.doubles)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        return self.doubles

    @property
    def own(self) -> np.ndarray[Any, Any]:
        """The numbers in the column's own type, for comparisons; of decimals Python's numbers."""
        kind, ends = _own_type(self.column.dtype), list(self.bounds)
        if kind.kind == "O":
            cells = [constant(cell) or 0 for cell in as_objects(self.column)]
            found = np.fromiter(cells, dtype=object, count=len(cells))
        elif isinstance(self.column, np.ndarray):
            found = self.column
        else:
            found = self.column.to_numpy(dtype=kind, na_value=0)
        if kind.kind in "iu":
            least, most = np.iinfo(kind).min, np.iinfo(kind).max
            ends = [math.trunc(min(max(end, least), most)) for end in ends]
        return np.asarray(np.minimum(np.maximum(found, ends[0]), ends[1]))


_EXACT = 2.0**53
"""Doubles hold all whole numbers up to this size."""


def _own_type(dtype: Any) -> np.dtype[Any]:
    """Return NumPy's type of the numbers of a column, of whatever library; objects for decimals."""
    found = getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", dtype))
    return found if isinstance(found, np.dtype) else np.dtype(object)


def _compares_apart(dtype: Any, bounds: Interval) -> bool:
    """Whether numbers of this type differ from constants that the doubles in their place equal."""
    found = _own_type(dtype)
    if found.kind not in "fiuO" or not pd.api.types.is_numeric_dtype(dtype):
        return False
    if found.kind == "f":
        return found.itemsize < _LONG
    return found.itemsize == _LONG and max(map(abs, bounds)) > _EXACT


_LONG = 8
"""Bytes of a double, of the whole numbers that it may round, and of a place of an object."""
Values = Mapping[str, Any]
"""The columns that were read, by name: numbers, `Numbers`, constants, or `Coded` levels."""


def read_values(
    variables: Mapping[str, Variable], batch: Batch, names: tuple[str, ...]
) -> tuple[dict[str, Any], BoolArray]:
    """Return columns by name, and the rows in which all of them are valid.

    `read_variable` gives the same values, but here levels are positions, which most terms take.
    """
    values: dict[str, Any] = {}
    usable = np.ones(len(batch), dtype=bool)
    for name in names:
        variable, column = variables[name], batch[name]
        read = _read_levels if variable.kind == "categorical" else read_variable
        values[name], valid = read(variable, column, batch.tally)
        if variable.kind == "numeric" and _compares_apart(column.dtype, variable.bounds):
            values[name] = Numbers(values[name], column, variable.bounds)
        usable &= valid
    return values, usable


def require_types(variables: Mapping[str, Variable], batch: Batch, names: tuple[str, ...]) -> None:
    """Refuse a table that lacks a column, or has one that can hold no value of its variable.

    A fit refuses the same types. They are public facts of a whole table, and not of a partition,
    whose values may decide its types.

    Raises
    ------
    FormulaError, SchemaError
    """
    for name in names:
        dtype = batch.column(name).dtype
        if (variable := variables.get(name)) is None:
            continue
        is_number = variable.kind == "numeric"
        bounds = {name: variable.bounds} if is_number and variable.is_bounded else {}
        levels = {name: variable.levels} if variable.levels else {}
        found = _describe(name, dtype, Schema(bounds, levels))
        is_other = {found.content, variable.content} == {"numbers", "strings"}
        if is_other or (is_number and found.kind == "categorical"):
            raise SchemaError(
                f"column {name!r} has the type {dtype}, and the model reads {variable.content} "
                "there; pass the column in the type that it had in the fit."
            )


def other_width(given: int, fitted: int) -> SchemaError:
    """Return the error for an array or a matrix of another number of columns than the fit's."""
    had = count_of(fitted, "column")
    return SchemaError(f"data of {count_of(given, 'column')}: the fit was of {had}.")


def _read_levels(
    variable: Variable, series: pd.Series[Any] | np.ndarray[Any, Any], tally: Tally | None
) -> tuple[Coded, BoolArray]:
    column = pd.Series(series) if isinstance(series, np.ndarray) else series
    coded = Coded(_codes(column, variable.levels), variable.levels)
    known = coded.codes >= 0
    if tally is not None and not known.all():
        missing, undeclared = unknown(column, known)
        count(tally, variable.name, missing=missing, undeclared=undeclared)
    return coded, known


def stand_in(variable: Variable) -> float:
    """Return the number that replaces a missing or infinite one."""
    low, high = variable.bounds
    return (low + high) / 2 if variable.is_bounded else 0.0


def as_numbers(series: pd.Series[Any] | np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return numbers ``(n,)``, NaN for other values; an array of numbers keeps its type."""
    if isinstance(series, np.ndarray):
        return series
    if pd.api.types.is_numeric_dtype(series.dtype) or pd.api.types.is_bool_dtype(series.dtype):
        if pd.api.types.is_complex_dtype(series.dtype):
            return np.full(len(series), np.nan)
        with np.errstate(all="ignore"), suppress(Exception):
            return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    values = as_objects(series)
    return np.fromiter(map(number_or_spelled, values), dtype=np.float64, count=len(values))


def as_objects(series: pd.Series[Any]) -> ObjectArray:
    """Return values as objects, None where the column's library cannot make an object."""
    with suppress(Exception):
        return np.asarray(series.to_numpy(dtype=object))
    # an error would reveal that some value occurs, such as bytes that are not text
    found = np.empty(len(series), dtype=object)
    for index in range(len(series)):
        with suppress(Exception):
            found[index] = series.iloc[index]
    return found


def _codes(series: pd.Series[Any], levels: tuple[Hashable, ...]) -> IntArray:
    """Return the position of each value among `levels`, -1 for any other value."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        position = {level: index for index, level in enumerate(levels)}
        table = [position.get(category, -1) for category in series.cat.categories]
        positions: IntArray = np.asarray([*table, -1], dtype=np.intp)
        return positions.take(np.asarray(series.cat.codes))
    if pd.api.types.is_string_dtype(series.dtype) and series.dtype != object:
        with suppress(Exception):  # text that cannot be encoded fails here, and is read below
            # texts in the memory of Arrow are looked up there
            storage = getattr(series.dtype, "storage", None)
            if isinstance(series.dtype, pd.ArrowDtype) or storage == "pyarrow":
                return _codes_of_arrow(series, levels)
            return np.asarray(pd.Index(list(levels)).get_indexer(pd.Index(series)))
    kind = _own_type(series.dtype)  # 0.1 rounds to another number in a column of short floats
    short = kind.kind == "f" and kind.itemsize < _LONG
    with np.errstate(all="ignore"):
        stored = [kind.type(v).item() if short and isinstance(v, float) else v for v in levels]
    position = {level: index for index, level in enumerate(stored)}
    values = as_objects(series)
    known = (position.get(constant(value), -1) for value in values)  # None is not a level
    return np.fromiter(known, dtype=np.intp, count=len(values))


def _codes_of_arrow(series: pd.Series[Any], levels: tuple[Hashable, ...]) -> IntArray:
    """Look texts up where they are: pandas would make a Python object of each first."""
    import pyarrow as pa
    from pyarrow import compute

    texts = pa.array(series.array)
    known = compute.index_in(texts, value_set=pa.array(levels, texts.type))
    found: IntArray = known.fill_null(-1).to_numpy().astype(np.intp)
    return found


def level_codes(values: Any, levels: tuple[Hashable, ...]) -> IntArray:
    """Return the position among `levels` of each value that was read, or -1."""
    if isinstance(values, Coded):
        if values.levels is levels:
            return np.maximum(values.codes, 0)
        position = {level: index for index, level in enumerate(levels)}
        table = [position.get(level, -1) for level in values.levels]
        found: IntArray = np.asarray(table, dtype=np.intp).take(np.maximum(values.codes, 0))
        return found
    values = getattr(values, "own", values)
    if values.dtype == object:
        position = {level: index for index, level in enumerate(levels)}
        known = (position.get(value, -1) for value in values)
        return np.fromiter(known, dtype=np.intp, count=len(values))
    codes = np.full(len(values), -1, dtype=np.intp)
    for index, level in enumerate(levels):
        np.copyto(codes, index, where=values == level)
    return codes
