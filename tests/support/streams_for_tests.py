"""Streams of record batches for tests: kept in memory, and read for every pass."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from changed_tables import fewer, one_label, one_value

pa = pytest.importorskip("pyarrow", reason="needs the extra [parquet]")
ds = pytest.importorskip("pyarrow.dataset", reason="needs the extra [parquet]")

KEPT, STREAMED = "1GiB", 0
EVERY_MEMORY = pytest.mark.parametrize("memory", [KEPT, STREAMED], ids=["kept", "streamed"])


def arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def in_batches(table, *lengths):
    """A function that returns a reader of batches of these lengths, and one with the rest."""
    ends = np.cumsum([0, *lengths, table.num_rows - sum(lengths)])
    pieces = [table.slice(a, b - a) for a, b in pairwise(ends)]
    batches = [
        piece.combine_chunks().to_batches()[0]
        if piece.num_rows
        else pa.RecordBatch.from_pylist([], schema=table.schema)
        for piece in pieces
    ]
    return lambda: pa.RecordBatchReader.from_batches(table.schema, batches)


def changing(frame, change, after):
    """A function whose readers have other records from a reading on."""
    readings = []

    def reader():
        readings.append(1)
        return in_batches(arrow(frame if len(readings) <= after else change(frame.copy())), 20)()

    return reader, readings


def more(frame):
    return pd.concat([frame, frame.iloc[:1]])


def another_order(frame):
    return frame.sample(frac=1, random_state=0)


CHANGES = [fewer, more, one_value, one_label, another_order]
