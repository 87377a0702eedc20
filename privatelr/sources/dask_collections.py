"""Dask's collections: what is known of them unread, their partitions, and maps over them.

Parquet is read so that a pass over it is as short as it can be, and objects are not made into text
on the way. This leans on how Dask describes a frame to itself. Where a version of it does so
otherwise, the frame stays as it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from privatelr.dask_cluster import evaluated
from privatelr.errors import SchemaError, redact_errors
from privatelr.sources.data_source import as_frame, is_dask


def columns_apart(frame: Any) -> Any:
    """The same frame, with each column of a Parquet file in an array of its own.

    pandas lays columns of one type side by side, and then copies them once more to put them in
    order; what is read column by column is better left as Arrow holds it.
    """
    with suppress(AttributeError, ImportError, TypeError):
        from dask.dataframe.dask_expr import new_collection
        from dask.dataframe.dask_expr.io.parquet import ReadParquet

        expression = frame.expr
        for files in list(expression.find_operations(ReadParquet)):
            expression = expression.substitute(files, _apart(files))
        return new_collection(expression)
    return frame


def _apart(files: Any) -> Any:
    """An expression that reads Parquet, asked to leave columns apart unless told otherwise."""
    if "arrow_to_pandas" in files._parameters:
        options = files.operand("arrow_to_pandas") or {}
        return files.substitute_parameters({"arrow_to_pandas": {"split_blocks": True, **options}})
    return _fsspec_apart()(*files.operands) if files.operand("engine") == "pyarrow" else files


@cache
def _fsspec_apart() -> Any:
    """Dask's other reader of Parquet, whose options are dealt out for each file anew.

    It changes the options that it is given, and can then not name what it has changed.
    """
    from dask.dataframe.dask_expr.io.parquet import ReadParquetFSSpec

    class ReadParquetApart(ReadParquetFSSpec):  # type: ignore[misc]
        @property
        def _io_func(self) -> Any:
            read = super()._io_func
            if hasattr(read, "common_kwargs"):  # there are files
                options = read.common_kwargs.get("arrow_to_pandas", {})
                read.common_kwargs["arrow_to_pandas"] = {"split_blocks": True, **options}
            return read

    return ReadParquetApart


def objects_kept(frame: Any) -> Any:
    """The same frame without the text that Dask makes of objects when it makes a frame.

    It calls the code of each cell, and fails for one that cannot be spelled: an error that tells
    of one record. Cells are read by this package one by one. Only what stands between the frame
    and where it came from is changed, and nothing that its user computes with it.
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


_UNKNOWN = "__UNKNOWN_CATEGORIES__"
"""The only category that Dask lists for a column whose categories it has not looked up."""


def empty(data: Any) -> Any:
    """Return the types of a Dask collection without its rows; return other data as they are."""
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
    # a Delayed invents any attribute, so the types of two are looked at
    blocks, dtype = getattr(data, "numblocks", None), getattr(data, "dtype", None)
    return isinstance(blocks, tuple) and isinstance(dtype, np.dtype)


def whole_rows(data: Any) -> Any:
    """An array divided by rows only; anything else as it is."""
    if not is_array(data):
        return data
    if not all(width == width for width in data.shape[1:]):  # unknown is NaN
        raise SchemaError("data: of a Dask array the number of columns is known beforehand.")
    return data if data.ndim == 1 else data.rechunk({axis: -1 for axis in range(1, data.ndim)})


def unlisted(frame: pd.DataFrame) -> list[str]:
    """Columns of categories that were not looked up; their levels have to be declared."""
    return [
        str(name)
        for name in frame.columns
        if isinstance(frame[name].dtype, pd.CategoricalDtype)
        and _UNKNOWN in frame[name].dtype.categories
    ]


def chosen(data: Any, names: Sequence[str]) -> Any:
    """The columns of a frame that a model reads, so that no others are loaded."""
    if is_array(data) or data.ndim == 1:
        return data
    wanted = set(names)
    columns = [column for column in data.columns if str(column) in wanted]
    # choosing among columns copies those that are in memory
    return columns_apart(data if len(columns) == data.shape[1] else data[columns])


def partitions(data: Any) -> list[Any]:
    """A Delayed for each partition: as many as Dask says that there are."""
    import dask

    if is_array(data):
        return list(data.to_delayed().ravel())
    # Dask would read several files at once where few columns are asked for, and so make other
    # partitions of the records when it counts them than when it reads them
    with (
        dask.config.set({"optimization.tune.active": False}),
        redact_errors("its partitions could not be told apart"),
    ):
        return list(objects_kept(data).to_delayed())


def lengths_of(data: Any) -> tuple[int, ...]:
    """Records of each partition: known of most arrays, counted along one column of a frame."""
    from dask.delayed import delayed

    if is_array(data):
        if all(size == size for size in data.chunks[0]):
            return tuple(int(size) for size in data.chunks[0])
    elif data.ndim == 2:
        # along a short column: bytes of a value, of which texts and objects have many
        types = pd.api.types
        widths = {
            name: getattr(dtype, "itemsize", 8)
            if types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype)
            else 64
            for name, dtype in data.dtypes.items()
        }
        data = data[[min(widths, key=lambda name: widths[name])]]
    counts = [delayed(len, pure=False)(part) for part in partitions(data)]
    with redact_errors("the records of a partition could not be counted"):
        return tuple(int(count) for count in evaluated(counts))


def over_partitions(function: Callable[[Any], Any], data: Any, names: Sequence[str] | None) -> Any:
    """What a function says of each row of a table: a collection that is not computed yet.

    Parameters
    ----------
    function
        Takes a frame or an array and returns a series or a frame of as many rows, of the same
        types for any number of them. It travels to the tasks.
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
    said = function(typed)  # refuses what does not fit by names and types, now and not later
    if not is_array(data):
        part = data if names is None else chosen(data, names)
        return part.map_partitions(_Told(function), meta=said, align_dataframes=False)
    if isinstance(said, pd.DataFrame):
        frame = dd.from_dask_array(data, columns=as_frame(typed).columns)
        return frame.map_partitions(_Told(function), meta=said, align_dataframes=False)
    told, values = _Told(function, np.asarray), said.to_numpy()
    return data.map_blocks(told, name=told.name, drop_axis=1, meta=values, dtype=values.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Told:
    """A function of a partition, and what becomes of its result, under a name of chance.

    Dask would name its tasks by what it holds.
    """

    function: Callable[[Any], Any]
    then: Callable[[Any], Any] | None = None
    name: str = field(default_factory=lambda: f"privatelr-predict-{uuid.uuid4().hex}")

    @property
    def __name__(self) -> str:
        return "privatelr-predict"

    def __call__(self, part: Any) -> Any:
        found = self.function(part)
        return found if self.then is None else self.then(found)

    def __dask_tokenize__(self) -> str:
        return self.name
