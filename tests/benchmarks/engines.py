"""The same fit from the same Parquet files by every engine that reads them, side by side.

    python -m tests.benchmarks.engines [--records 2000000] [--columns 20] [--pairs 5] [--only dask]

One whole fit of each engine after the other, in turn, `--pairs` times after one not counted.
Printed are the median of its seconds and of its ratio to the stream of the files in the same turn,
with quartiles. Rows are read anew in every pass, but for "kept in memory". Engines that are not
installed are left out and named.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from privatelr import dplr, stream

from .race import Ratios
from .streams import write_table
from .tables import of_engines

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

BASE = "stream of Parquet"


def sources(folder: str) -> dict[str, Callable[[], Any]]:
    """What each engine makes of the files, by its name."""

    def of_duckdb() -> Any:
        import duckdb

        return stream(duckdb.sql(f"select * from '{folder}/*.parquet'"), memory=0)

    def of_polars() -> Any:
        import polars as pl

        return stream(pl.scan_parquet(f"{folder}/*.parquet"), memory=0)

    def of_dask() -> Any:
        import dask.dataframe as dd

        return dd.read_parquet(folder)

    return {
        BASE: lambda: stream(folder, memory=0),
        "kept in memory": lambda: stream(folder, memory="64GiB"),
        "duckdb": of_duckdb,
        "polars": of_polars,
        "dask": of_dask,
    }


def missing(name: str) -> str:
    """Why an engine cannot run here; empty if it can."""
    is_missing = name.isidentifier() and find_spec(name) is None
    return f"{name} is not installed" if is_missing else ""


def read_anew() -> AbstractContextManager[Any]:
    """Within the block Dask, if it is here, keeps no rows, and computes on threads."""
    if missing("dask"):
        return nullcontext()
    import dask

    held: AbstractContextManager[Any] = dask.config.set(
        {"privatelr.memory": "0", "scheduler": "threads"}
    )
    return held


def measure(folder: str, columns: int, pairs: int, only: list[str]) -> dict[str, list[float]]:
    """Seconds of each fit, by the name of its engine."""
    bounds = {"y": (0, 1), **{f"x{i}": (-1, 1) for i in range(columns)}}
    found: dict[str, list[float]] = {}
    made = {
        name: make for name, make in sources(folder).items() if not only or name in [*only, BASE]
    }
    with read_anew():
        for pair in range(-1, pairs):
            for name, make in made.items():
                if missing(name):
                    continue
                data = make()
                start = time.perf_counter()
                dplr("y ~ .", data, bounds=bounds)
                if pair >= 0:
                    found.setdefault(name, []).append(time.perf_counter() - start)
    return found


def engines(records: int, columns: int, pairs: int, only: list[str]) -> dict[str, Any]:
    """Median seconds of each engine and its ratios to the stream, or why it was left out."""
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder), records, columns)
        taken = measure(folder, columns, pairs, only)
    found: dict[str, Any] = {"n": records, "d": columns, "engines": {}}
    for name in sources(""):
        if name in taken:
            ratios = asdict(Ratios.of(list(zip(taken[name], taken[BASE], strict=True))))
            found["engines"][name] = {"seconds": statistics.median(taken[name]), **ratios}
        elif reason := missing(name):
            found["engines"][name] = {"left out": reason}
    return found


def main() -> None:
    """Write the files, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[])
    chosen = parser.parse_args()
    print(of_engines(engines(chosen.records, chosen.columns, chosen.pairs, chosen.only)))


if __name__ == "__main__":
    main()
