"""What Dask says of a collection without reading it, and its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr.dask_cluster import evaluated
from privatelr.errors import SchemaError, quoting_nothing
from privatelr.frames.dask_expressions import columns_apart, objects_kept
from privatelr.frames.source import is_dask

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNKNOWN = "__UNKNOWN_CATEGORIES__"
"""What Dask lists as the only category of a column whose categories it has not looked up."""


def empty(data: Any) -> Any:
    """What is public of a collection, as pandas or NumPy hold it; anything else as it is."""
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
    # what is delayed has every attribute that it is asked for
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
    """Columns of categories that nobody looked up; their levels have to be declared."""
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
        quoting_nothing("its partitions could not be told apart"),
    ):
        return list(objects_kept(data).to_delayed())


def lengths_of(data: Any) -> tuple[int, ...]:
    """Records of each partition: known of most arrays, counted along one column of a frame."""
    from dask.delayed import delayed

    if is_array(data):
        if all(size == size for size in data.chunks[0]):
            return tuple(int(size) for size in data.chunks[0])
    elif data.ndim == 2:
        data = data[[min(data.columns, key=lambda name: _width(data.dtypes[name]))]]
    counts = [delayed(len, pure=False)(part) for part in partitions(data)]
    with quoting_nothing("the records of a partition could not be counted"):
        return tuple(int(count) for count in evaluated(counts))


def _width(dtype: Any) -> int:
    """Bytes of a value, so that records are counted along a short column."""
    numeric = pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype)
    return int(getattr(dtype, "itemsize", 8)) if numeric else 64
