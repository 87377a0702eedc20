"""Frames of polars and pyarrow as pandas frames whose long columns are the same memory.

narwhals' own conversion copies every number. Here a column of numbers is handed over as it is:
as a NumPy array where it is one piece of memory without nulls, and else as pandas' column of Arrow
data, which is made into doubles a piece at a time as it is read. Other columns are converted, for
their types decide what they can be in a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v1 as nw
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDE = (nw.Int64, nw.UInt64, nw.Float64)
_SHORT = (nw.Int8, nw.Int16, nw.Int32, nw.UInt8, nw.UInt16, nw.UInt32, nw.Float32)


def from_foreign(data: Any) -> pd.DataFrame:
    """A frame that narwhals knows, in pandas; raises `TypeError` for anything else."""
    frame = nw.from_native(data, eager_only=True)
    if not (frame.implementation.is_polars() or frame.implementation.is_pyarrow()):
        return frame.to_pandas()
    shared = _shared(frame, [name for name in frame.columns if _is_number(frame, name)])
    others = [name for name in frame.columns if name not in shared]
    if not shared:
        return frame.to_pandas()
    converted = frame.select(others).to_pandas() if others else pd.DataFrame()
    columns = {name: shared[name] if name in shared else converted[name] for name in frame.columns}
    return pd.DataFrame(columns, copy=False)


def _is_number(frame: Any, name: str) -> bool:
    return isinstance(frame.schema[name], (*_WIDE, *_SHORT))


def _shared(frame: Any, names: Sequence[str]) -> dict[str, Any]:
    """Those of the columns whose memory pandas can use as it is."""
    if not names:
        return {}
    table = frame.select(names).to_arrow()
    found: dict[str, Any] = {}
    for name in names:
        column = table.column(name)
        if column.num_chunks == 1 and column.null_count == 0:
            found[name] = column.chunk(0).to_numpy(zero_copy_only=True)
        elif isinstance(frame.schema[name], _WIDE):
            # shorter ones turn into other types where there are nulls, and copies of them are short
            found[name] = pd.Series(pd.arrays.ArrowExtensionArray(column))
    return found
