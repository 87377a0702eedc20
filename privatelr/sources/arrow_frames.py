"""Frames of polars and pyarrow as pandas frames whose long columns are the same memory.

narwhals' own conversion copies every number, and decides types by values: a null makes objects of
booleans, and a dictionary, which belongs to the data, makes levels. Here types are decided by types
alone. Numbers are handed over as they are: as a NumPy array where they are one piece of memory
without nulls, and else as pandas' column of Arrow data, which is made into doubles a piece at a
time as it is read. So are texts, booleans, and what no model takes, which is never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v1 as nw
import pandas as pd

from privatelr.errors import SchemaError

_LONG = 8
"""Bytes of a number whose memory pandas can take over from Arrow, with nulls or without."""


def from_foreign(data: Any) -> pd.DataFrame:
    """A frame that narwhals knows, in pandas; raises `TypeError` for anything else."""
    names = getattr(data, "column_names", None)
    if isinstance(names, list):  # of pyarrow, where they may be the same
        require_distinct(names)
    frame = nw.from_native(data, eager_only=True)
    if not (frame.implementation.is_polars() or frame.implementation.is_pyarrow()):
        return frame.to_pandas()
    return pd.DataFrame(
        {name: _column(frame, name) for name in frame.columns},
        copy=False,
        index=pd.RangeIndex(len(frame)),
    )


def foreign_column(name: str, values: Any) -> Any:
    """A column, or a frame of one, of polars or pyarrow for pandas; None for anything else."""
    if hasattr(type(values), "__arrow_c_array__"):  # of pyarrow, in one piece
        import pyarrow as pa

        values = pa.chunked_array([pa.array(values)])
    elif not hasattr(type(values), "__arrow_c_stream__"):
        return None
    found = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(found, nw.Series):
        found = found.alias(name).to_frame()
    if not isinstance(found, nw.DataFrame) or len(found.columns) != 1:
        return None
    return _column(found.rename({found.columns[0]: name}), name)


def require_distinct(names: Sequence[str]) -> None:
    """Refuse a name that two columns have."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SchemaError(f"data has two columns named {twice!r}; names must differ.")


def _column(frame: Any, name: str) -> Any:
    """A column for pandas, of a type that follows from its own."""
    import pyarrow as pa

    kind = frame.schema[name]
    if isinstance(kind, nw.Enum):
        return frame.select([name]).to_pandas()[name]
    if isinstance(kind, nw.Categorical) and frame.implementation.is_polars():
        frame = frame.select(nw.col(name).cast(nw.String))  # its categories are what occurs
    try:
        frame.head(0).select([name]).to_arrow()
    except Exception as error:  # of the type: there are no values
        raise SchemaError(
            f"column {name!r} has the type {kind}, which Arrow does not know; leave it out or "
            "convert it."
        ) from error
    column = frame.select([name]).to_arrow().column(name)
    if pa.types.is_dictionary(column.type):
        column = _decoded(column)
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if number and column.num_chunks == 1 and column.null_count == 0:
        return column.chunk(0).to_numpy(zero_copy_only=True)
    if number and column.type.bit_width < 8 * _LONG:
        # shorter ones turn into other types where there are nulls, and copies of them are short
        return column.to_pandas()
    return pd.arrays.ArrowExtensionArray(column)


def _decoded(column: Any) -> Any:
    """The values of a dictionary column, whose dictionary is made of what occurs."""
    import pyarrow as pa

    chunks = [chunk.dictionary.take(chunk.indices) for chunk in column.chunks]
    return pa.chunked_array(chunks, type=column.type.value_type)
