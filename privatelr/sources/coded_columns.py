"""Columns that Arrow holds as dictionaries, runs or views, and what their values are."""

from __future__ import annotations

from typing import Any

import pandas as pd

from privatelr.errors import SchemaError


def decoded_or_left(column: Any) -> Any:
    """Return a column of Arrow as `decoded`; unchanged if it cannot be, as it may be unused."""
    import pyarrow as pa

    try:
        return decoded(column)
    except (pa.ArrowException, LookupError, ValueError):  # their words may quote a value
        return column


def require_decoded(name: str, dtype: Any) -> None:
    """Refuse a column that `decoded_or_left` left, once it is used; tells its type alone."""
    if not isinstance(dtype, pd.ArrowDtype):
        return
    import pyarrow as pa

    kind = dtype.pyarrow_dtype
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        raise SchemaError(
            f"column {name!r} has the type {dtype}, and Arrow cannot decode it; leave it out or "
            "convert it."
        )


def is_view(kind: Any) -> bool:
    """Whether a type of Arrow has views of texts; pyarrow 15 has neither them nor such a test."""
    return str(kind) == "string_view"


def decoded(column: Any) -> Any:
    """Return a column of Arrow with neither runs, nor a dictionary of the data, nor views.

    A value that is a place outside of the dictionary is missing.
    """
    import pyarrow as pa

    if pa.types.is_run_end_encoded(column.type):
        from pyarrow import compute  # slow to import, and few columns need it

        column = compute.run_end_decode(column)
    kind, whole = column.type, pa.large_string()
    if not pa.types.is_dictionary(kind):
        return column.cast(whole) if is_view(kind) else column
    column = within_dictionary(column)
    if is_view(kind.value_type):  # pyarrow does not look views up
        column = column.cast(pa.dictionary(kind.index_type, whole))
    return column.cast(column.type.value_type)


def within_dictionary(values: Any) -> Any:
    """Return an array of Arrow, or pieces, in which places outside of a dictionary are missing.

    Arrow raises an error that quotes such a place, or reads what lies behind the dictionary when it
    joins arrays. So one record would end a call, or have the value of another.
    """
    import pyarrow as pa

    kind = values.type
    if not pa.types.is_dictionary(kind):
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array(map(within_dictionary, values.chunks), kind)
    from pyarrow import compute

    whole, length = pa.uint64(), len(values.dictionary)
    places = values.indices
    # negative places become long ones; numbers of both signs would not compare with all of these
    known = compute.less(places.cast(whole, safe=False), pa.scalar(length, whole))
    if compute.all(known, min_count=0).as_py():
        return values
    places = compute.if_else(known, places, pa.scalar(None, kind.index_type))
    return pa.DictionaryArray.from_arrays(places, values.dictionary, ordered=kind.ordered)
