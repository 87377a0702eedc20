"""Memory and time of a fit to Parquet files by record batches, against pyarrow reading them.

    python -m tests.benchmarks.streams [--records 10000000] [--columns 20] [--limit 1.5]
    python -m tests.benchmarks.streams --growth 1000000000

The files are written, and a process that may have `--limit` GiB of address space (``ulimit -v``)
fits them, all rows being read anew in every pass. Then passes are timed in pairs: one that sums
gradients, and one in which pyarrow reads the same columns into batches and nothing else. Printed
are medians. With `--growth`, passes over a made-up stream of so many records, and of a tenth, a
hundredth and a thousandth of them, are timed per million, the shorter ones before and after it.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PART = 1_000_000
"""Records of a file."""


def write_table(folder: Path, records: int, columns: int) -> None:
    """Write files of standard normal columns x0, x1, ... and a response y."""
    for number, start in enumerate(range(0, records, PART)):
        rng = np.random.default_rng(number)
        x = rng.uniform(-1, 1, (columns, min(PART, records - start)))
        y = (x[0] + rng.standard_normal(x.shape[1]) > 0).astype(np.int8)
        table = pa.table({**{f"x{i}": column for i, column in enumerate(x)}, "y": y})
        pq.write_table(table, folder / f"{number:04d}.parquet", row_group_size=2**17)


def fit(folder: str, columns: int) -> None:
    """Fit once, in a process of its own, and print its seconds and its largest memory."""
    from privatelr import dplr, stream

    start = time.perf_counter()
    bounds = {f"x{i}": (-1, 1) for i in range(columns)}
    found = dplr("y ~ .", stream(folder, memory=0), bounds=bounds)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{found.nobs:,} records: a fit took {seconds:.1f} s and {peak:.2f} GiB of memory")


def pass_over(data: Any, columns: int) -> tuple[Callable[[], object], list[str], int]:
    """Return a function that passes over data once, the columns it reads, and the records."""
    from privatelr.design import plan_design, read_stream_design, read_stream_source
    from privatelr.formula import parse_formula
    from privatelr.numerics import LOSSES, Objective, value_and_gradient
    from privatelr.numerics.rows import StreamRows
    from privatelr.sources import declare_schema, stream

    formula, table = read_stream_source("y ~ .", stream(data, memory=0), None)
    schema = declare_schema({f"x{i}": (-1, 1) for i in range(columns)})
    spec = plan_design(parse_formula(formula, list(table.typed.names)), table.typed, schema)
    rows = read_stream_design(spec, table, StreamRows)
    objective = Objective(rows, LOSSES["logistic"], 1e-3, np.zeros(spec.d))
    names = list(spec.formula.variables)
    return lambda: value_and_gradient(objective, np.zeros(spec.d)), names, rows.n


def grow(largest: int, columns: int) -> None:
    """Time passes over made-up streams, the shorter ones as often as they fit into the longest."""
    from privatelr.sources import RecordBatches, as_stream

    size = 2**16
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (columns, size))
    y = (x[0] + rng.standard_normal(size) > 0).astype(float)
    batch = pa.record_batch({**{f"x{i}": column for i, column in enumerate(x)}, "y": y})

    def made_up(records: int) -> RecordBatches:
        def reader(names: Any) -> Any:
            chosen = batch.select(list(names))
            for start in range(0, records, size):
                yield chosen.slice(0, min(size, records - start))

        facts = as_stream(lambda: pa.RecordBatchReader.from_batches(batch.schema, []))
        return RecordBatches(facts.schema, facts.typed, reader, lambda: records, 0.0)

    sizes = [largest // 1000, largest // 100, largest // 10, largest]
    times: dict[int, list[float]] = {records: [] for records in sizes}
    # there and back, so that a machine that slows down or recovers is no growth
    for records in [*sizes, *sizes[-2::-1]]:
        one_pass, *_ = pass_over(made_up(records), columns)
        if records < largest:
            one_pass()
        for _ in range(min(5, max(largest // 10 // records, 1))):
            start = time.perf_counter()
            one_pass()
            times[records].append(time.perf_counter() - start)
    each = {records: median(found) / records * 1e6 for records, found in times.items()}
    for records, seconds in each.items():
        print(f"{records:,} records: {seconds:.4f} s per million", flush=True)
    print(f"the slowest over the fastest: {max(each.values()) / min(each.values()):.3f}")


def passes(folder: str, columns: int, pairs: int) -> None:
    """Time passes of gradients and plain reads in pairs."""
    one_pass, names, records = pass_over(folder, columns)
    ours, plain = [], []
    for pair in range(-1, pairs):  # the first is not counted
        start = time.perf_counter()
        one_pass()
        middle = time.perf_counter()
        for _ in ds.dataset(folder).to_batches(columns=names):
            pass
        if pair >= 0:
            ours.append(middle - start)
            plain.append(time.perf_counter() - middle)
    ratio = median(a / b for a, b in zip(ours, plain, strict=True))
    million = records / 1e6
    print(
        f"a pass took {median(ours) / million:.3f} s per million records, and pyarrow alone "
        f"{median(plain) / million:.3f} s: {ratio:.2f} times as long"
    )


def main() -> None:
    """Write the files, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--limit", type=float, default=1.5)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--folder")
    parser.add_argument("--growth", type=int)
    chosen = parser.parse_args()
    if chosen.growth is not None:
        grow(chosen.growth, chosen.columns)
        return
    if chosen.folder is not None:
        most = int(chosen.limit * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        fit(chosen.folder, chosen.columns)
        return
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder), chosen.records, chosen.columns)
        again = ["--folder", folder, "--columns", str(chosen.columns), "--limit", str(chosen.limit)]
        command = [sys.executable, "-m", "tests.benchmarks.streams", *again]
        # pyarrow's own allocator reserves a GiB of addresses at once; that of the system keeps what
        # it was given back unless large arrays have pages of their own, and reserves 64 MiB for
        # each thread beyond the first arenas
        few = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_MMAP_THRESHOLD_": "131072"}
        few |= {"MALLOC_ARENA_MAX": "2"}
        subprocess.run(command, check=True, env={**os.environ, **few})
        passes(folder, chosen.columns, chosen.pairs)


if __name__ == "__main__":
    main()
