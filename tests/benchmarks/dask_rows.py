"""Rows per second of a fit from Parquet, how passes scale with workers, and the memory it takes.

    python -m tests.benchmarks.dask_rows [--records 2000000] [--columns 20] [--limit 2]
        [--repeat 1] [--only NUMBER] [--fit]

writes a table of float64 to a temporary folder, and passes over it in processes of their own:
rows read anew for every pass (streamed), or kept in memory; on threads, and on clusters of one
and of two processes, as Dask starts them and with memory that is used again (*). A process of
threads may not have more than `--limit` GiB of data, and ends if it asks for more. `--repeat 50`
links every file 50 times: many records in little of a disk, for one pass. `--only` takes the
number of one row of the table, from 0. `--fit` times one call of `dplr` instead, from the files
to the release, streamed on two threads:

    python -m tests.benchmarks.dask_rows --records 2000000 --repeat 50 --fit

fits 100 million records. No data is needed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dask
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
from dask.callbacks import Callback

from privatelr import dplr
from privatelr.design import plan_design, read_dask_design, read_dask_source
from privatelr.formula import parse_formula
from privatelr.numerics import Objective, find_loss, value_and_gradient
from privatelr.numerics.rows import DaskRows
from privatelr.numerics.solve import Newton
from privatelr.sources import declare_schema

if TYPE_CHECKING:
    from collections.abc import Callable

PART = 250_000
"""Records of a file."""
SETTINGS = [
    ("streamed", "threads", 1),
    ("streamed", "threads", 2),
    ("kept", "threads", 1),
    ("kept", "threads", 2),
    ("streamed", "processes", 1),
    ("streamed", "processes", 2),
    ("streamed", "processes*", 1),
    ("streamed", "processes*", 2),
    ("kept", "processes", 1),
    ("kept", "processes", 2),
]
PRE_SPAWN = "distributed.nanny.pre-spawn-environ"
GIB = 2**30
EASY = {
    f"{PRE_SPAWN}.MALLOC_TRIM_THRESHOLD_": 2**30,
    f"{PRE_SPAWN}.MALLOC_MMAP_THRESHOLD_": 2**25,
}
"""Of a process that uses the memory of one array for the next; those of Dask give it back."""


def write_table(folder: Path, n: int, p: int) -> None:
    """Uniform columns on [-1, 1], and a response that the first of them tell."""
    rng = np.random.default_rng(0)
    for number, start in enumerate(range(0, n, PART)):
        x = rng.uniform(-1, 1, (min(PART, n - start), p))
        y = (x[:, : min(p, 5)].sum(axis=1) + rng.logistic(size=len(x)) > 0).astype(np.int8)
        frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(p)]).assign(y=y)
        frame.to_parquet(folder / f"part{number:05d}.parquet")


def cpu() -> float:
    """Seconds of computing that this process took so far."""
    return sum(os.times()[:2])


def peak() -> float:
    """Most memory that this process had so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@dataclass
class Site:
    """Where tasks run: what to ask of all its processes, and what their answers come to."""

    client: distributed.Client | None = None

    def ask(self, question: Callable[[], float], total: Callable[..., float]) -> float:
        return question() if self.client is None else total(self.client.run(question).values())


def measure(folder: Path, p: int, memory: str, site: Site, once: bool) -> dict[str, float]:
    """Seconds to count, to read, for a pass and for a fit."""
    before = site.ask(peak, max)
    marks = [time.perf_counter()]
    text, table = read_dask_source("y ~ .", dd.read_parquet(folder), None)
    schema = declare_schema(bounds={f"x{i}": (-1, 1) for i in range(p)})
    spec = plan_design(parse_formula(text, list(table.typed.names)), table.typed, schema)
    n = len(table)
    marks.append(time.perf_counter())
    with dask.config.set({"privatelr.memory": "64GiB" if memory == "kept" else "0"}):
        rows = read_dask_design(spec, table, DaskRows)
    objective = Objective(rows, find_loss("logistic"), 1e-4, np.zeros(rows.d))
    w = np.full(rows.d, 0.1)
    value_and_gradient(objective, w)  # waits for what is kept
    marks.append(time.perf_counter())
    passes, seconds = [marks[2] - marks[1]], [float("nan")]
    for _ in range(0 if once else 3):
        start, spent = time.perf_counter(), site.ask(cpu, sum)
        value_and_gradient(objective, w)
        passes.append(time.perf_counter() - start)
        seconds.append(site.ask(cpu, sum) - spent)
    fit = float("nan")
    if not once and (memory == "kept" or site.client is None):
        start = time.perf_counter()
        Newton()(objective)
        fit = time.perf_counter() - start
    return {
        "n": n,
        "count": marks[1] - marks[0],
        "first": passes[0],
        "pass": float(np.median(passes if once else passes[1:])),
        "cpu": float(np.median(seconds if once else seconds[1:])),
        "fit": fit,
        "memory": site.ask(peak, max) - before,
    }


def fit(folder: Path, p: int) -> dict[str, float]:
    """Seconds, graphs and memory of a fit, from the files to the release."""
    before, start, spent = peak(), time.perf_counter(), cpu()
    graphs: list[float] = []
    bounds = {f"x{i}": (-1, 1) for i in range(p)}
    with (
        dask.config.set({"privatelr.memory": "0"}),
        Callback(start_state=lambda dsk, state: graphs.append(len(dsk))),
    ):
        found = dplr("y ~ .", dd.read_parquet(folder), eps=1.0, bounds=bounds)
    return {
        "n": found.nobs,
        "seconds": time.perf_counter() - start,
        "cpu": cpu() - spent,
        "graphs": len(graphs),
        "memory": peak() - before,
        "peak": peak(),
    }


def run_fit(folder: Path, p: int, limit: float) -> None:
    """Fit in this process, in little memory, and print the numbers."""
    most = int(limit * GIB)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    with dask.config.set(scheduler="threads", num_workers=2):
        print(json.dumps(fit(folder, p)))


def run(folder: Path, p: int, number: int, limit: float, once: bool) -> None:
    """Measure under one setting, in this process, and print the numbers."""
    memory, scheduler, workers = SETTINGS[number]
    if scheduler == "threads":
        most = int(limit * GIB)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        with dask.config.set(scheduler="threads", num_workers=workers):
            print(json.dumps(measure(folder, p, memory, Site(), once)))
        return
    with (
        dask.config.set(EASY if scheduler.endswith("*") else {}),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=None,
            memory_limit=f"{limit}GiB",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(warm)
        print(json.dumps(measure(folder, p, memory, Site(client), once)))


def warm() -> None:
    """Import what the tasks need."""
    import privatelr.model  # noqa: F401


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--limit", type=float, default=2.0, help="GiB of data in a process")
    parser.add_argument("--repeat", type=int, default=1, help="links to every file")
    parser.add_argument("--only", type=int, choices=range(len(SETTINGS)))
    parser.add_argument("--fit", action="store_true", help="one whole fit, streamed")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.folder is not None and given.fit:
        run_fit(given.folder, given.columns, given.limit)
        return
    if given.folder is not None:
        run(given.folder, given.columns, given.only, given.limit, given.repeat > 1)
        return
    chosen = range(len(SETTINGS)) if given.only is None else [given.only]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder, given.records, given.columns)
        for file in sorted(folder.iterdir()) if given.repeat > 1 else ():
            for copy in range(1, given.repeat):
                file.with_name(f"{file.stem}-{copy:04d}.parquet").hardlink_to(file)
        n = given.records * given.repeat
        print(f"{n} records of {given.columns} float64 columns in files of {PART}\n")
        if given.fit:
            print(fit_in_words(result(given, folder, 0)))
            return
        print("| rows | workers | count | first pass | pass | cpu of it | fit | rows/s | memory |")
        print("|---|---|---|---|---|---|---|---|---|")
        for number in chosen:
            print(row(SETTINGS[number], result(given, folder, number)), flush=True)


def result(given: argparse.Namespace, folder: Path, number: int) -> dict[str, float] | str:
    """The numbers of one setting, or the last words of the process that has none."""
    again = ["--folder", str(folder), "--only", str(number), "--repeat", str(given.repeat)]
    again += ["--columns", str(given.columns), "--limit", str(given.limit)]
    again += ["--fit"] if given.fit else []
    command = [sys.executable, "-m", "tests.benchmarks.dask_rows", *again]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr[-200:] if done.returncode else json.loads(done.stdout.splitlines()[-1])


def fit_in_words(found: dict[str, float] | str) -> str:
    """What a whole fit took."""
    if isinstance(found, str):
        return f"failed: {found}"
    each = found["cpu"] / found["graphs"] / found["n"] * 1e6
    return (
        f"{found['n']} records in {found['seconds']:.0f} s, {found['cpu']:.0f} s of processors, "
        f"{found['graphs']} graphs (the first counts records), {each:.2f} s of processors per "
        f"million records and graph; {found['memory'] / GIB:.2f} GiB above what the imports took, "
        f"{found['peak'] / GIB:.2f} GiB in all"
    )


def row(setting: tuple[str, str, int], found: dict[str, float] | str) -> str:
    """A line of the table."""
    memory, scheduler, workers = setting
    if isinstance(found, str):
        return f"| {memory} | {workers} {scheduler} | failed: {found} |"
    seconds = [found[name] for name in ("count", "first", "pass", "cpu", "fit")]
    shown = ["-" if math.isnan(number) else f"{number:.2f} s" for number in seconds]
    rate = f"{found['n'] / found['pass'] / 1e6:.2f} million"
    cells = [memory, f"{workers} {scheduler}", *shown, rate, f"{found['memory'] / GIB:.2f} GiB"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
