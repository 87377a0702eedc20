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


def decoded(column: Any) -> Any:
    """Return a column of Arrow with neither runs, nor a dictionary of the data, nor views."""
    import pyarrow as pa

    if pa.types.is_run_end_encoded(column.type):
        from pyarrow import compute  # slow to import, and few columns need it

        column = compute.run_end_decode(column)
    kind, whole = column.type, pa.large_string()
    if not pa.types.is_dictionary(kind):
        return column.cast(whole) if pa.types.is_string_view(kind) else column
    if pa.types.is_string_view(kind.value_type):  # pyarrow does not look views up
        column = column.cast(pa.dictionary(kind.index_type, whole))
    return column.cast(column.type.value_type)
