"""Memory and time of a fit to Parquet files by record batches, against pyarrow reading them.

    python -m tests.benchmarks.streams [--records 10000000] [--columns 20] [--limit 1.5]
    python -m tests.benchmarks.streams --growth 1000000000

The files are written, and a process that may have `--limit` GiB of address space (``ulimit -v``)
fits them, all rows being read anew in every pass. Then passes are timed in turn: one in which
pyarrow reads the same columns into batches and nothing else, and one that sums gradients. Each is
timed twice and the faster one counts; printed are medians.

With `--growth`, a pass over a made-up stream of so many records is paired with passes over a tenth
of them, half of these before it and half after it, as a machine may be faster in one minute than in
the next; and so are a tenth with a hundredth, and a hundredth with a thousandth.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
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

    from privatelr.types import FloatArray

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
    from privatelr.numerics import LOSSES, Objective, gradient_of
    from privatelr.numerics.rows.stream_rows import StreamRows
    from privatelr.sources import declare_schema, stream

    formula, table = read_stream_source("y ~ .", stream(data, memory=0), None)
    schema = declare_schema({f"x{i}": (-1, 1) for i in range(columns)})
    spec = plan_design(parse_formula(formula, list(table.typed.names)), table.typed, schema)
    rows = read_stream_design(spec, table, StreamRows)
    objective = Objective(rows, LOSSES["logistic"], 1e-3, np.zeros(spec.d))
    names = list(spec.formula.variables)

    def one_pass() -> FloatArray:
        return gradient_of(objective, np.zeros(spec.d))

    return one_pass, names, rows.n


def grow(largest: int, columns: int) -> None:
    """Time passes over made-up streams, each paired with passes over a tenth of its records."""
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
    steps = {records: pass_over(made_up(records), columns)[0] for records in sizes}

    def per_million(records: int) -> float:
        start = time.perf_counter()
        steps[records]()
        return (time.perf_counter() - start) / records * 1e6

    per_million(sizes[0])  # the first is not counted
    cost = [1.0]
    for short, long in pairwise(sizes):
        of_short, of_long, ratios = [], [], []
        for _ in range(min(max(largest // long // 2, 2), 9)):
            beside = [per_million(short) for _ in range(5)]
            of_long.append(per_million(long))
            beside += [per_million(short) for _ in range(5)]
            of_short += beside
            ratios.append(of_long[-1] / median(beside))
        cost.append(cost[-1] * median(ratios))
        print(
            f"{short:,} and {long:,} records: {median(of_short):.4f} and {median(of_long):.4f} s "
            f"per million; in pairs the longer one took {median(ratios):.3f} times as long "
            f"({min(ratios):.3f} to {max(ratios):.3f})",
            flush=True,
        )
    print(f"the slowest over the fastest, by these ratios: {max(cost) / min(cost):.3f}")


def passes(folder: str, columns: int, pairs: int) -> None:
    """Time passes of gradients and plain reads in turn."""

    one_pass, names, records = pass_over(folder, columns)
    steps: dict[str, Callable[[], object]] = {
        "pyarrow alone": lambda: [0 for _ in ds.dataset(folder).to_batches(columns=names)],
        "a pass": one_pass,
    }
    times: dict[str, list[float]] = {name: [] for name in steps}
    for pair in range(-1, pairs):  # the first is not counted
        for name, step in steps.items():
            took = []
            for _ in range(2):  # the faster one, as pyarrow at times waits for memory
                start = time.perf_counter()
                step()
                took.append((time.perf_counter() - start) / records * 1e6)
            if pair >= 0:
                times[name].append(min(took))
    for name, found in times.items():
        ratios = [a / b for a, b in zip(found, times["pyarrow alone"], strict=True)]
        low, high = np.quantile(ratios, [0.25, 0.75])
        print(
            f"{name}: {median(found):.3f} s per million records, {median(ratios):.2f} times "
            f"pyarrow alone (quartiles {low:.2f} to {high:.2f})"
        )


def main() -> None:
    """Write the files, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--limit", type=float, default=1.5)
    parser.add_argument("--pairs", type=int, default=11)
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
