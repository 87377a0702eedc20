"""What it costs a fit of a Dask frame to notice that its data change.

    python -m tests.benchmarks.checksum [--records 1000000] [--columns 20] [--pairs 9]

fits in pairs, with the checksum of the rows in every pass and without, each first in every other
pair, and prints the median ratio of processor seconds with its quartiles, and the part of them
that is spent in the checksum itself, which other processes change less: for a table that is read
from Parquet in every pass, for one in the memory of this process that is read anew, and for rows
that are kept. No data is needed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import dask.dataframe as dd
import numpy as np

from privatelr import dplr
from privatelr.numerics.rows import partition_work
from tests.benchmarks.dask_rows import PART, write_table

if TYPE_CHECKING:
    from privatelr.types import FloatArray, IntArray

_CHECKSUM = partition_work.checksum
_INSIDE: list[float] = []


def timed(x: FloatArray, y: FloatArray) -> IntArray:
    """The checksum, whose processor seconds are kept."""
    start = time.thread_time()
    found = _CHECKSUM(x, y)
    _INSIDE.append(time.thread_time() - start)
    return found


def nothing(x: FloatArray, y: FloatArray) -> IntArray:
    """A checksum that costs nothing, and notices nothing."""
    return np.zeros(1, dtype=np.uint64)


def seconds(table: Any, p: int, checksum: Any) -> float:
    """Processor seconds of one fit."""
    partition_work.checksum = checksum
    start = time.process_time()
    dplr("y ~ .", table, eps=1.0, bounds={f"x{i}": (-1, 1) for i in range(p)})
    return time.process_time() - start


def ratios(table: Any, p: int, pairs: int) -> FloatArray:
    """With the checksum over without, and the part that is spent in it, pair by pair."""
    found = []
    for pair in range(-1, pairs):  # the first is not counted
        _INSIDE.clear()
        order = (timed, nothing) if pair % 2 else (nothing, timed)
        spent = {checksum: seconds(table, p, checksum) for checksum in order}
        found.append((spent[timed] / spent[nothing], sum(_INSIDE) / spent[timed]))
    return np.array(found[1:])


def main() -> None:
    """Print a line for each place that data come from."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=9)
    given = parser.parse_args()
    print("| rows | fit with the checksum / without | quartiles | inside |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name, dask.config.set(scheduler="synchronous"):
        write_table(Path(name), given.records, given.columns)
        files = dd.read_parquet(name)
        parts = -(-given.records // PART)
        held = dd.from_pandas(files.compute(), npartitions=parts)
        for title, table, memory in (
            ("read from Parquet", files, "0"),
            ("in memory, read anew", held, "0"),
            ("kept", held, "64GiB"),
        ):
            with dask.config.set({"privatelr.memory": memory}):
                found, inside = ratios(table, given.columns, given.pairs).T
            low, middle, high = np.quantile(found, [0.25, 0.5, 0.75])
            part = f"{np.median(inside):.1%}"
            print(f"| {title} | {middle:.3f} | {low:.3f}-{high:.3f} | {part} |", flush=True)


if __name__ == "__main__":
    main()
