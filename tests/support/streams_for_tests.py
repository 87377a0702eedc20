"""Streams of record batches for tests: kept in memory, and read for every pass."""

import pytest

pa = pytest.importorskip("pyarrow", reason="needs the extra [parquet]")
ds = pytest.importorskip("pyarrow.dataset", reason="needs the extra [parquet]")

KEPT, STREAMED = "1GiB", 0
EVERY_MEMORY = pytest.mark.parametrize("memory", [KEPT, STREAMED], ids=["kept", "streamed"])


def arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)
