"""Random faults while a fit reads: a right fit or one sentence, and never a wait without end.

    python -m tests.studies.faults [--faults 200] [--seed 1]

Each fault strikes at a random time during a fit of a stream or of a Dask collection: a worker is
killed, a file is removed, a batch has another type, is lost or raises an error, a value or an order
of rows changes between two passes, or the disk is full to which Dask spills (where a small disk in
memory can be mounted). The fit has the same noise each time, so that its coefficients are right if
they are those of the table in memory, to 1e-9, or those of the changed table if it changed before
the first pass. Printed are the outcomes by fault; the status is 1
if any fit was wrong, took more than a minute, or ended in another error than a sentence.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

try:  # as a test imports it, and as a command
    from repeated_noise import drawn
except ModuleNotFoundError:
    sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "support")]
    from repeated_noise import drawn

from privatelr import PrivateLRError, dplr, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORMULA, BOUNDS = "y ~ x0 + x1 + x2", {f"x{i}": (-1, 1) for i in range(3)}
FILES, RECORDS = 6, 20_000
"""Files of a table, and the records of each."""
LONGEST = 60
"""Seconds within which a fit ends."""
RIGHT = 1e-9
"""Largest difference of right coefficients."""


def part(number: int, records: int = RECORDS) -> pd.DataFrame:
    """The records of one file."""
    rng = np.random.default_rng(number)
    frame = pd.DataFrame(rng.uniform(-1, 1, (records, 3)), columns=list(BOUNDS))
    return frame.assign(y=frame["x0"] + rng.standard_normal(records) > 0)


@cache
def expected(records: int) -> np.ndarray[Any, Any]:
    """The coefficients of all records in memory."""
    whole = pd.concat([part(number, records) for number in range(FILES)], ignore_index=True)
    return np.asarray(fitted(whole))


def fitted(data: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return drawn(dplr, FORMULA, data, bounds=BOUNDS).coef


@contextmanager
def struck(fault: Callable[[], Any], delay: float) -> Iterator[None]:
    """Within the block a fault strikes after some seconds."""
    timer = threading.Timer(delay, fault)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def outcome(fit: Callable[[], Any], records: int = RECORDS, changed: Any = None) -> str:
    """What became of a fit: right, a sentence, or what must not be.

    It may also be the fit of a table that is `changed` from the first reading on.
    """

    def late(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST)
    try:
        found = np.asarray(fit())
    except PrivateLRError as error:
        words = str(error)
        return "a sentence" if "\n" not in words and words.endswith(".") else f"WORDS: {words}"
    except KeyboardInterrupt:
        return "HANGS"
    except Exception as error:
        return f"ERROR: {type(error).__name__}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    if np.abs(found - expected(records)).max() <= RIGHT:
        return "right"
    if changed is not None and np.abs(found - np.asarray(fitted(changed))).max() <= RIGHT:
        return "right, of what all passes read"
    return "WRONG"


# -- streams --------------------------------------------------------------------------------


def spoiled(kind: str, strikes: int, records: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """A function that returns readers, spoiled from pass `strikes` on, and the table they hold."""
    tables = [pa.Table.from_pandas(part(number, records)) for number in range(FILES)]
    passes, place = [0], int(rng.integers(FILES))
    row = int(rng.integers(records))

    def change(table: pa.Table) -> Iterator[pa.RecordBatch]:
        if kind == "batch lost":
            return
        if kind == "batch raises":
            raise OSError("a value such as 0.123")
        frame = table.to_pandas()
        if kind == "value changes":
            frame.loc[row, "x1"] += 0.5
        elif kind == "order changes":
            frame = frame.iloc[::-1]
        made = pa.Table.from_pandas(frame, preserve_index=False)
        if kind == "batch of another type":
            made = made.set_column(0, "x0", made["x0"].cast(pa.float32()))
        yield from made.to_batches()

    def batches(spoil: bool) -> Iterator[pa.RecordBatch]:
        for number, table in enumerate(tables):
            yield from change(table) if spoil and number == place else table.to_batches()

    def reader() -> Any:
        passes[0] += 1
        spoil = passes[0] > strikes + 1  # the first call reads the schema
        if spoil and kind == "batch of another type":
            return _Reader(tables[0].schema, batches(spoil))
        return pa.RecordBatchReader.from_batches(tables[0].schema, batches(spoil))

    if kind in ("value changes", "batch lost", "order changes"):
        return reader, pa.Table.from_batches(batches(spoil=True), tables[0].schema).to_pandas()
    return reader, None


class _Reader:
    """A reader whose batches need not have its schema."""

    def __init__(self, schema: Any, batches: Iterator[Any]) -> None:
        self.schema, self._batches = schema, batches

    def __iter__(self) -> Iterator[Any]:
        return self._batches

    def read_next_batch(self) -> Any:
        return next(self._batches)


SPOILED = (
    *("batch lost", "batch raises", "value changes", "order changes", "batch of another type"),
)


def of_stream(kind: str, rng: np.random.Generator, records: int = RECORDS) -> str:
    """A fit of a stream, of which a pass is spoiled."""
    source, changed = spoiled(kind, int(rng.integers(1, 12)), records, rng)
    return outcome(lambda: fitted(stream(source, memory=0)), records, changed)


def written(folder: Path) -> list[Path]:
    """The files of a table."""
    paths = [folder / f"{number}.parquet" for number in range(FILES)]
    for number, path in enumerate(paths):
        pq.write_table(pa.Table.from_pandas(part(number)), path, row_group_size=5000)
    return paths


def removed_from_stream(rng: np.random.Generator) -> str:
    """A file of a dataset is removed."""
    with tempfile.TemporaryDirectory() as folder:
        gone = rng.choice(written(Path(folder)))
        with struck(gone.unlink, float(rng.uniform(0, 0.5))):
            return outcome(lambda: fitted(stream(folder, memory=0)))


# -- Dask -----------------------------------------------------------------------------------


@contextmanager
def cluster(spill: str | None = None) -> Iterator[Any]:
    """A cluster of two processes."""
    import dask
    from distributed import Client, LocalCluster

    few = {"memory_limit": "400MiB", "local_directory": spill} if spill else {}
    settings = {
        "privatelr.memory": "0",
        "logging.distributed": "critical",
    }
    settings |= {"distributed.worker.memory.target": 0.1} if spill else {}
    with (
        dask.config.set(settings),
        LocalCluster(
            2, threads_per_worker=1, dashboard_address=None, silence_logs=60, **few
        ) as held,
        Client(held),
    ):
        yield held


def killed(held: Any, rng: np.random.Generator, folder: Path) -> str:
    """A worker's process is killed."""
    import dask.dataframe as dd

    def kill() -> None:
        workers = [worker for worker in held.workers.values() if worker.pid]
        with suppress(ProcessLookupError):
            if workers:
                os.kill(workers[int(rng.integers(len(workers)))].pid, signal.SIGKILL)

    with struck(kill, float(rng.uniform(0, 2))):
        return outcome(lambda: fitted(dd.read_parquet(folder)))


def removed_from_dask(rng: np.random.Generator) -> str:
    """A file of a frame of Dask is removed."""
    import dask.dataframe as dd

    with tempfile.TemporaryDirectory() as folder:
        gone = rng.choice(written(Path(folder)))
        frame = dd.read_parquet(folder)
        with struck(gone.unlink, float(rng.uniform(0, 1))):
            return outcome(lambda: fitted(frame))


def changing(counter: str, strikes: int, kind: str, number: int) -> pd.DataFrame:
    """A partition that is another one from some reading on."""
    with open(counter, "ab") as file:
        file.write(b"x")
    frame = part(number)
    if os.path.getsize(counter) > strikes:
        if kind == "value changes":
            frame.loc[7, "x1"] = 0.25
        elif kind == "rows lost":
            frame = frame.iloc[:-5]
        elif kind == "another type":
            frame["x2"] = frame["x2"].astype(str)
    return frame


CHANGING = ("value changes", "rows lost", "another type")


def changed_on_dask(kind: str, rng: np.random.Generator) -> str:
    """A partition changes between two readings of it."""
    import dask.dataframe as dd
    from dask.delayed import delayed

    with tempfile.TemporaryDirectory() as folder:
        given = os.path.join(folder, "count"), int(rng.integers(0, 12)), kind
        bad = int(rng.integers(FILES))
        parts = [
            delayed(changing, pure=False)(*given, number)
            if number == bad
            else delayed(part)(number)
            for number in range(FILES)
        ]
        changed = None
        if kind != "another type":
            after = os.path.join(folder, "another"), -1, kind
            frames = [changing(*after, i) if i == bad else part(i) for i in range(FILES)]
            changed = pd.concat(frames, ignore_index=True)
        return outcome(lambda: fitted(dd.from_delayed(parts, meta=part(0, 1))), changed=changed)


@contextmanager
def small_disk() -> Iterator[str | None]:
    """A disk of 2 MB in memory; None where it cannot be mounted."""
    folder = tempfile.mkdtemp()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", folder], capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def full_disk(times: int) -> list[str]:
    """Fits of a persisted frame that is spilled to a disk without room."""
    import dask.dataframe as dd

    with small_disk() as spill:
        if spill is None:
            return []
        with cluster(spill):
            frame = pd.concat([part(number) for number in range(FILES)], ignore_index=True)
            wide = pd.concat([frame, frame.add_prefix("other ")], axis=1)
            held = dd.from_pandas(wide, npartitions=FILES).persist()
            return [outcome(lambda: fitted(held[list(frame)])) for _ in range(times)]


# -- all of them ----------------------------------------------------------------------------


def main() -> int:
    """Let faults strike, and print what became of the fits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    rng, each = np.random.default_rng(chosen.seed), max(chosen.faults // 16, 1)
    found: dict[str, Counter[str]] = {}
    start = time.monotonic()

    def note(fault: str, what: str) -> None:
        found.setdefault(fault, Counter())[what] += 1

    for _ in range(each):
        for kind in SPOILED:
            note(f"stream: {kind}", of_stream(kind, rng))
        note("stream: file removed", removed_from_stream(rng))
    with cluster() as held, tempfile.TemporaryDirectory() as folder:
        written(Path(folder))
        for _ in range(each):
            note("Dask: worker killed", killed(held, rng, Path(folder)))
            note("Dask: file removed", removed_from_dask(rng))
            for kind in CHANGING:
                note(f"Dask: {kind}", changed_on_dask(kind, rng))
    for what in full_disk(each):
        note("Dask: full disk", what)
    for fault, outcomes in found.items():
        print(f"{fault:32} {', '.join(f'{n} {what}' for what, n in sorted(outcomes.items()))}")
    count = sum(sum(outcomes.values()) for outcomes in found.values())
    bad = sum(
        n
        for outcomes in found.values()
        for what, n in outcomes.items()
        if what.split(":")[0].isupper()
    )
    print(f"{count} faults in {time.monotonic() - start:.0f} s, {bad} that must not be")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
