"""Dask's collections: their public facts, their partitions, and maps over them.

Objects are not converted to text, which relies on internal expressions of Dask. If a version of
Dask has other expressions, the frame stays unchanged.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from privatelr.dask_cluster import evaluated
from privatelr.errors import SchemaError, redact_errors
from privatelr.sources.columns import Batch
from privatelr.sources.data_source import as_batch, is_dask

_UNKNOWN = "__UNKNOWN_CATEGORIES__"
"""The placeholder category that Dask lists for a column of unknown categories."""


def empty(data: Any) -> Any:
    """Return the empty frame of a Dask collection, with its types; other data unchanged."""
    if not is_dask(data):
        return data
    if is_array(data):
        return np.empty((0, *data.shape[1:]), dtype=data.dtype)
    meta = getattr(data, "_meta", None)
    if isinstance(meta, pd.DataFrame | pd.Series):
        return meta.iloc[:0]
    raise SchemaError(
        f"data of type {type(data).__name__}: of Dask, data takes a dataframe, a series or an "
        "array."
    )


def is_array(data: Any) -> bool:
    """Whether this is a Dask array."""
    # a Delayed has every attribute, so the types of two attributes are checked
    blocks, dtype = getattr(data, "numblocks", None), getattr(data, "dtype", None)
    return isinstance(blocks, tuple) and isinstance(dtype, np.dtype)


def whole_rows(data: Any) -> Any:
    """Return an array divided by rows only; anything else unchanged."""
    if not is_array(data):
        return data
    if not all(width == width for width in data.shape[1:]):  # an unknown width is NaN
        raise SchemaError("data: of a Dask array the number of columns is known beforehand.")
    return data if data.ndim == 1 else data.rechunk({axis: -1 for axis in range(1, data.ndim)})


def unlisted(typed: Batch) -> Batch:
    """Return columns of unknown categories as objects, whose levels have to be declared."""
    columns = {name: typed.column(name) for name in typed.names}
    objects = {
        name: column.astype(object)
        for name, column in columns.items()
        if isinstance(column.dtype, pd.CategoricalDtype) and _UNKNOWN in column.dtype.categories
    }
    return typed.assign(objects)


def chosen(data: Any, names: Sequence[str]) -> Any:
    """Return a frame of the columns that a model reads, so that no others are loaded."""
    if is_array(data) or data.ndim == 1:
        return data
    wanted = set(names)
    columns = [column for column in data.columns if str(column) in wanted]
    # a selection of columns copies those that are in memory
    return data if len(columns) == data.shape[1] else data[columns]


def objects_kept(frame: Any) -> Any:
    """Return the same frame without Dask's conversion of objects to text.

    The conversion runs code of the cells and fails for a cell without a spelling, and that error
    would reveal a record. This package reads the cells itself. Only the conversion right after
    the source is removed; what the user computes stays unchanged.
    """
    with suppress(AttributeError, ImportError, TypeError):
        from dask.dataframe.dask_expr import new_collection
        from dask.dataframe.dask_expr._expr import ArrowStringConversion, Projection
        from dask.dataframe.dask_expr.io.io import FromPandas

        expression = source = frame.expr
        while isinstance(source, Projection):
            source = source.frame
        if isinstance(source, ArrowStringConversion):
            return new_collection(expression.substitute(source, source.frame))
        if isinstance(source, FromPandas) and source.pyarrow_strings_enabled:
            kept = source.substitute_parameters({"pyarrow_strings_enabled": False})
            return new_collection(expression.substitute(source, kept))
    return frame


def partitions(data: Any) -> list[Any]:
    """Return a Delayed for each partition, with the partitions that Dask reports."""
    import dask

    if is_array(data):
        return list(data.to_delayed().ravel())
    # for few columns Dask would join several files to one partition, so counting the records
    # and reading them would see different partitions
    with (
        dask.config.set({"optimization.tune.active": False}),
        redact_errors("its partitions could not be told apart", ours=()),
    ):
        return list(objects_kept(data).to_delayed())


def _width(dtype: Any) -> int:
    """Return the bytes of a value of a column, of which texts and objects have many."""
    is_number = pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype)
    return getattr(dtype, "itemsize", 8) if is_number else 64


def lengths_of(data: Any) -> tuple[int, ...]:
    """Return the records of each partition: known for most arrays, counted for a frame."""
    from dask.delayed import delayed

    if is_array(data):
        if all(size == size for size in data.chunks[0]):
            return tuple(int(size) for size in data.chunks[0])
    elif data.ndim == 2:
        # count along the column with the fewest bytes per value
        data = data[[min(data.columns, key=lambda name: _width(data.dtypes[name]))]]
    counts = [delayed(len, pure=False)(part) for part in partitions(data)]
    what = "the records of a partition could not be counted; a charge for this call stands"
    return tuple(evaluated(counts, what))


def over_partitions(function: Callable[[Any], Any], data: Any, names: Sequence[str] | None) -> Any:
    """Apply a function to each row of a table; returns a collection that is not computed yet.

    Parameters
    ----------
    function
        Takes a frame or an array and returns a series or a frame with as many rows, whose types
        do not depend on the rows. It is sent to the tasks.
    data
        A Dask frame or array.
    names : sequence of str, optional
        The columns of a frame that `function` reads; no others are loaded.

    Returns
    -------
    Dask series or frame, as `function` returns; for an array and a series a Dask array
    """
    import dask.dataframe as dd

    data = whole_rows(data)
    typed = empty(data)
    said = function(typed)  # refuses unsuitable names and types now, not when computed
    if not is_array(data):
        part = data if names is None else chosen(data, names)
        return part.map_partitions(_Told(function), meta=said, align_dataframes=False)
    if isinstance(said, pd.DataFrame):
        frame = dd.from_dask_array(data, columns=as_batch(typed).names)
        return frame.map_partitions(_Told(function), meta=said, align_dataframes=False)
    told, values = _Told(lambda part: np.asarray(function(part))), said.to_numpy()
    return data.map_blocks(told, name=told.name, drop_axis=1, meta=values, dtype=values.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Told:
    """A function of a partition, under a random name.

    Dask would otherwise derive the name of its tasks from the content of the function.
    """

    function: Callable[[Any], Any]
    name: str = field(default_factory=lambda: f"privatelr-predict-{uuid.uuid4().hex}")

    @property
    def __name__(self) -> str:
        return "privatelr-predict"

    def __call__(self, part: Any) -> Any:
        return self.function(part)

    def __dask_tokenize__(self) -> str:
        return self.name
