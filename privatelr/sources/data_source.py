"""The data of a call: a formula and a frame, a frame, an array, or ``(y, X)``.

X may be a SciPy sparse matrix, whose indices are validated before they are used.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr.errors import FormulaError, SchemaError, listed, or_meant, show
from privatelr.formula import Formula, Person, spell_person
from privatelr.sources.arrow_files import is_pattern, require_local
from privatelr.sources.columns import (
    Batch,
    as_column,
    constant_column,
    decoded_or_left,
    from_foreign,
    is_plain,
    name_of,
    note_dictionaries,
    of_array,
    require_distinct,
)


def read_source(
    first: Any, second: Any, target: str | int | None, person: Any = None, most: int = 1
) -> tuple[str | Formula, Batch]:
    """Return formula and rows of a call, with at least one record; see `dispatch`."""
    for data in (first, second, person):
        _require_memory(data)
    formula, batch = dispatch(first, second, target, person, most)
    if len(batch) == 0:
        raise SchemaError("data is empty: a fit takes at least one record.")
    return formula, batch


def is_dask(data: Any) -> bool:
    """Whether this is a Dask collection; does not import Dask."""
    return callable(getattr(type(data), "__dask_graph__", None))


def _require_memory(data: Any) -> None:
    """Refuse data that are not in memory, where partitions are not supported."""
    if is_dask(data):
        raise SchemaError(
            "data is a Dask collection, of which fits, predictions and answers about fits read one "
            "part after the other; hand over data.compute() if it fits into memory."
        )


def dispatch(
    first: Any, second: Any, target: str | int | None, person: Any = None, most: int = 1
) -> tuple[str | Formula, Batch]:
    """Return a formula and a batch for any way of calling `dplr`.

    Parameters
    ----------
    first, second
        ``(formula, data)``, ``(data, None)`` or ``(y, X)``, as R dispatches on its first
        argument.
    target
        Response column of a frame or an array, by name or by position counted from 0
        (negative from the end); the last column if None.
    person, most
        Beside ``(y, X)``, values that tell persons apart, or the name of a column of X, and the
        number of records per person; the formula has a term for them. Otherwise not looked at.
    """
    if isinstance(first, str | Formula):
        if target is not None:
            raise FormulaError(
                f"target={show(target)}: the formula names the response; target goes with a frame "
                "or an array."
            )
        if second is None:
            raise FormulaError("data=None: data takes a frame or a mapping of columns.")
        return first, _with_columns(as_batch(second))
    if first is None and second is not None:
        first, second = second, None
    if isinstance(second, str):
        raise FormulaError(
            f"data={show(second)}: data takes a frame; the formula is the first argument, the data "
            "the second."
        )
    if first is None:
        raise FormulaError(
            "formula=None: a fit takes a formula and data, a frame, an array, or y and X."
        )
    if second is None:
        batch = _with_columns(as_batch(first))
        return f"{quote(_target(list(batch.names), target))} ~ .", batch
    if target is not None:
        raise FormulaError(f"target={show(target)}: with y and X the response is y; drop target.")
    return _labelled(first, second, person, most)


def as_batch(data: Any) -> Batch:
    """Return the rows of a table in memory, of any kind, as a frame with distinct text names.

    Only columns that Arrow has to decode are copied.
    """
    if isinstance(data, Batch):
        return data
    _require_memory(data)
    width = None
    if isinstance(data, pd.DataFrame):
        frame = data
    elif isinstance(data, np.ndarray):
        if data.ndim != 2:
            raise SchemaError(f"data of ndim {data.ndim}: an array of data takes two dimensions.")
        width = data.shape[1]
        numbered = [f"X{index + 1}" for index in range(width)]
        if is_plain(data):
            frame = pd.DataFrame(data, columns=numbered, copy=False)
        else:
            columns = {name: of_array(data[:, i]) for i, name in enumerate(numbered)}
            frame = pd.DataFrame(columns, index=pd.RangeIndex(len(data)))
    elif isinstance(data, Mapping):
        frame = _from_mapping(data)
    else:
        try:
            frame = from_foreign(data)
        except TypeError:
            raise SchemaError(not_a_table(data)) from None
    names = [x if isinstance(x, str) else name_of(x) for x in frame.columns]
    require_distinct(names)
    frame = _decoded(frame if names == list(frame.columns) else frame.set_axis(names, axis=1))
    return Batch(frame, range(len(frame)), width=width)


def _decoded(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the values of what Arrow holds in pandas as dictionaries or runs.

    A dictionary lists the values that occur, so it declares no levels.
    """
    types = zip(frame.columns, frame.dtypes, strict=True)
    coded = {name: dtype for name, dtype in types if isinstance(dtype, pd.ArrowDtype)}
    found = {name: _decoded_column(frame[name]) for name in coded}
    changed = {name: column for name, column in found.items() if column.dtype != coded[name]}
    if not changed:
        return frame
    batch = Batch(frame, range(len(frame))).assign(changed)
    note_dictionaries(batch.frame, {name: coded[name].pyarrow_dtype for name in changed})
    return batch.frame


def _decoded_column(column: pd.Series[Any]) -> pd.Series[Any]:
    if not isinstance(column.dtype, pd.ArrowDtype):
        return column
    held: Any = column.array
    return pd.Series(pd.arrays.ArrowExtensionArray(decoded_or_left(held.__arrow_array__())))


def not_a_table(data: Any) -> str:
    """Return what to hand over instead of this; looks at no value of a list, as it may be data."""
    if isinstance(data, str | os.PathLike):
        path = os.fspath(data)
        require_local(path)
        if is_pattern(path):
            return (
                f"data={show(path)}: a pattern of files ends in .parquet or .feather, "
                "as in 'visits/*.parquet'; a folder that exists is read without one."
            )
        return (
            f"data={show(path)}: of paths, data takes that of a folder that exists, or "
            "of files that end in .parquet or .feather; read other files by pandas first."
        )
    ways = ("toArrow", "to_pyarrow_dataset", "to_arrow", "collect")
    lazy = next((f" (call {way}() on it first)" for way in ways if hasattr(data, way)), "")
    several = isinstance(data, list | tuple)
    paths = ", or a list of files that end in .parquet or .feather" if several else ""
    batches = hasattr(type(data), "schema") or several
    again = " or, batch by batch, what privatelr.stream describes" if batches else ""
    return (
        f"data of type {type(data).__name__}{lazy}: data takes a data frame, a mapping of columns "
        f"or an array{paths}{again}."
    )


def _with_columns(batch: Batch) -> Batch:
    """Return the batch if it has columns, which a fit needs; predictions may do without."""
    if not len(batch.names):
        raise SchemaError("data has no columns: a fit takes a response and its covariates.")
    return batch


def _from_mapping(data: Mapping[Any, Any]) -> pd.DataFrame:
    for values in data.values():
        _require_memory(values)
    names = [name_of(key) for key in data]
    require_distinct(names)
    # matched by position: an index would align, and so add or drop records
    found = [as_column(f"data[{key!r}]", values) for key, values in data.items()]
    given = [column for column in found if column is not None]
    if any(column.ndim != 1 for column in given):
        raise SchemaError("data: a mapping takes columns of one value per record.")
    if len({len(column) for column in given}) != min(1, len(data)):
        raise SchemaError("data: a mapping of columns takes columns of equal length.")
    columns = [
        constant_column(values, len(given[0])) if column is None else column
        for column, values in zip(found, data.values(), strict=True)
    ]
    return pd.DataFrame(dict(zip(names, columns, strict=True)))


def _target(names: list[str], target: str | int | None) -> str:
    position, size = -1 if target is None else target, len(names)
    if isinstance(position, str):
        if position not in names:
            raise FormulaError(
                f"target={position!r}: target takes one of {listed(names)}"
                f"{or_meant(position, names)}"
            )
        return position
    whole = isinstance(position, int | np.integer) and not isinstance(position, bool)
    if not whole or not -size <= position < size:
        raise FormulaError(
            f"target={show(target)}: target takes a column name or a position from {-size} to "
            f"{size - 1}."
        )
    return names[position]


def _labelled(
    response: Any, covariates: Any, person: Any = None, most: int = 1
) -> tuple[str, Batch]:
    """Put ``y`` and ``X`` into one batch, and who their records are of if that is given.

    The number of records of persons is private, so that no error tells it.
    """
    if isinstance(covariates, list | tuple):
        raise SchemaError(
            f"X of type {type(covariates).__name__}: a list has neither a type nor a width of its "
            "own; X takes an array, such as numpy.asarray(X, dtype=float), or a frame."
        )
    if isinstance(covariates, pd.Series):
        covariates = covariates.to_frame(covariates.name or "X1")
    elif isinstance(covariates, np.ndarray) and covariates.ndim == 1:
        covariates = covariates.reshape(-1, 1)
    batch = _with_columns(as_batch(covariates))
    values, named = _one_column("y", response)
    if values is None:
        raise FormulaError(
            f"formula of type {type(response).__name__}: the first argument is a formula, a frame, "
            "an array with two dimensions, or one response value per row of the second."
        )
    if person is None and len(values) != len(batch):
        raise SchemaError(
            f"y has {len(values)} values and X has {len(batch)} rows: a fit of (y, X) takes one "
            "value per row."
        )
    name = new_name(named, batch.names)
    text, columns = f"{quote(name)} ~ .", {name: values}
    if isinstance(person, str) and person in batch.names:
        whose, column = values, person
    elif person is not None:
        found, named = _one_column("person", person)
        if found is None:
            raise FormulaError(
                f"person={show(person)}: beside y and X it takes one value for each row, as an "
                "array, a Series or a list, or the name of a column of a frame X."
            )
        named = name_of_values(person) or named  # Series of other libraries have names, too
        whose, column = found, new_name(named, [*batch.names, name])
        columns[column] = whose
    if person is not None:
        if not len(values) == len(whose) == len(batch):
            raise SchemaError(
                "person: y, X and person take one value for each record, and their lengths differ."
            )
        quote(column)  # refuses what no formula can name
        text = f"{text} + {spell_person(Person(column, most))}"
    return text, batch.assign(columns)


def _one_column(name: str, value: Any) -> tuple[pd.Series[Any] | None, str]:
    """Return values, one for each record, and their name; None for anything else."""
    if isinstance(value, pd.DataFrame) and value.shape[1] == 1:
        value = value.iloc[:, 0]
    by_columns = isinstance(value, Mapping | pd.DataFrame)  # a response is its only column
    values = None if by_columns else as_column(name, value)
    if isinstance(values, np.ndarray) and values.ndim == 2 and 1 in values.shape:
        values = of_array(values.ravel())
    named = value.name if isinstance(value, pd.Series | pd.Index) else None
    found = _decoded_column(values) if isinstance(values, pd.Series) else None
    return found, name if named is None else str(named)


def name_of_values(values: Any) -> str | None:
    """Return the name that a column of a library has beside its values; None if it has none."""
    if isinstance(values, pd.DataFrame) and values.shape[1] == 1:
        values = values.iloc[:, 0]
    name = getattr(values, "name", None) if hasattr(values, "dtype") else None
    if isinstance(values, pd.Series | pd.Index):  # whose names may be numbers
        return None if name is None else str(name)
    return name if isinstance(name, str) and name else None


def new_name(name: str, taken: Collection[str]) -> str:
    """Return a name that no other column has, by underscores at its end."""
    while name in taken:
        name += "_"
    return name


def quote(name: str) -> str:
    """Return a column name as a formula spells it."""
    if "`" in name or not name:
        raise SchemaError(f"column {name!r}: a name in a formula is not empty and has no backtick.")
    return f"`{name}`"


def validated_sparse(matrix: Any) -> Any:
    """Return a sparse matrix of numbers with valid indices; the same matrix if they are valid.

    SciPy does not check the indices that it is given, and may read memory outside of its arrays.
    Whether they are valid is a fact about the data. So a row with an index of a column that does
    not exist becomes unusable, like a row with a missing value. An entry of a row that does not
    exist is dropped, because it belongs to no record.

    Raises
    ------
    SchemaError
        If its entries are not numbers, or if its row pointers are invalid.
    """
    if matrix.dtype.kind not in "fiub":
        raise SchemaError(f"X of type {matrix.dtype}: a matrix takes real numbers.")
    n, p = matrix.shape
    if matrix.format == "coo":
        data, (rows, columns) = matrix.data, matrix.coords
        if np.all((rows >= 0) & (rows < n) & (columns >= 0) & (columns < p)):
            return matrix
    elif matrix.format in ("csr", "csc"):
        major, minor = (p, n) if matrix.format == "csc" else (n, p)
        starts, entries = matrix.indptr, min(len(matrix.indices), len(matrix.data))
        fits = len(starts) == major + 1 and starts[0] == 0 and starts[-1] <= entries
        if not fits or (np.diff(starts) < 0).any():
            raise SchemaError("X: rows or columns of the matrix do not start where they should.")
        columns, data = matrix.indices[: starts[-1]], matrix.data[: starts[-1]]
        if len(columns) == 0 or (columns.min() >= 0 and columns.max() < minor):
            return matrix
        rows = np.repeat(np.arange(major), np.diff(starts))
        if matrix.format == "csc":
            rows, columns = columns, rows
    else:
        if matrix.format == "bsr":
            try:
                matrix.check_format()
            except ValueError:
                raise SchemaError("X: blocks of the matrix lie beyond its columns.") from None
        return matrix.tocsr()  # of blocks, in Python containers, or by diagonals
    there = (rows >= 0) & (rows < n)
    rows, columns, data = rows[there], columns[there], data[there].astype(np.float64)
    beyond = (columns < 0) | (columns >= p)
    values = np.where(beyond, np.nan, data)
    return sparse.coo_array((values, (rows, np.where(beyond, 0, columns))), shape=(n, p)).tocsr()
