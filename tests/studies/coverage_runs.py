"""Replications of the study of coverage: a sample, its private fit and its plain one, and a cache.

See `coverage`.
"""

from __future__ import annotations

import itertools
import json
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
import zlib
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privatelr import ZCDP, ApproxDP, PrivacyWarning, PureDP, dplr, plan
from privatelr.errors import PrivateLRError

from .coverage_populations import population_of
from .plain_logistic import SeparableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import pandas as pd

    from privatelr import Fit

    Line = dict[str, Any]
    Interval = Callable[[Fit], pd.DataFrame]

LEVEL = 0.95
Z = 1.959963984540054
"""The quantile of the normal law at `LEVEL`, for intervals without privacy."""
DELTA = 1e-6
_WAITING = 3
"""Replications that are handed to a worker at a time, so that none waits for the next one."""
_OVERHEAD = 20_000
"""Records that take as long as what does not depend on their number; for the time left."""
_SHOWN_EVERY = 1.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting; d is 0 where the population has its own number of coefficients.

    The scale of columns is released by default or not, or as `do_scale` says.
    """

    population: str
    promise: str
    d: int
    n: int
    epsilon: float
    do_scale: Literal["private", False] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """What ``--cells`` looks for."""
        size = (f"d={self.d}",) if self.d else ()
        rows = {"private": ("scaled",), False: ("declared",), None: ()}[self.do_scale]
        return (self.population, self.promise, *size, f"n={self.n}", f"eps={self.epsilon:g}", *rows)

    @property
    def name(self) -> str:
        return " ".join(self.words)

    @property
    def guarantee(self) -> PureDP | ZCDP | ApproxDP:
        match self.promise:
            case "pure":
                return PureDP(self.epsilon)
            case "zcdp":
                return ZCDP(self.epsilon**2 / 2)
            case _:
                return ApproxDP(self.epsilon, DELTA)


def default_interval(fit: Fit) -> pd.DataFrame:
    """What is studied."""
    return fit.conf_int(alpha=1 - LEVEL)


def replicate(cell: Cell, run: int, interval: Interval = default_interval) -> Line:
    """One fresh sample, its private fit and its plain one.

    Arrays are in the order of the truth; a number that does not exist is None.
    """
    start, source = time.process_time(), population_of(cell.population, cell.d)
    rng = np.random.default_rng([zlib.crc32(cell.name.encode()), run])
    seed = int(rng.integers(2**63))
    frame = source.sample(cell.n, rng)
    line: Line = {"run": run, "seed": seed}
    try:
        line["plain_width"] = (2 * Z * source.fit_without_privacy(frame).sd).tolist()
    except SeparableError as error:
        line |= {"plain_width": None, "separable": str(error)}
    public = {"bounds": source.bounds, "levels": source.levels, "do_scale": cell.do_scale}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # of the seed
            fit = dplr(
                source.formula, frame, cell.guarantee, spend="inference", seed=seed, **public
            )
        found = interval(fit).loc[source.truth.index].to_numpy(dtype=np.float64)
        table = fit.tidy().set_index("term")
        estimate = table["estimate"].loc[source.truth.index].to_numpy(dtype=np.float64)
        p_value = np.nan if source.null is None else float(fit.pvalues[source.null])
    except (PrivateLRError, np.linalg.LinAlgError) as error:
        return line | {"failed": f"{type(error).__name__}: {error}"}
    facts = fit.glance().iloc[0]
    return line | {
        "estimate": estimate.tolist(),
        "lower": found[:, 0].tolist(),
        "upper": found[:, 1].tolist(),
        "p_null": None if math.isnan(p_value) else p_value,
        "mode": facts["inference"],
        "target": facts.get("target"),
        "noise_to_signal": float(facts["noise_to_signal"]),
        "relative_bias": float(facts["relative_bias"]),
        "seconds": time.process_time() - start,
    }


def forecast(cell: Cell) -> Line:
    """Widths that are promised before the study, in the order of the truth."""
    source = population_of(cell.population, cell.d)
    public = {"bounds": source.bounds, "levels": source.levels, "do_scale": cell.do_scale}
    try:
        made = plan(source.formula, cell.n, cell.guarantee, spend="inference", **public)
    except PrivateLRError as error:
        return {"width": None, "failed": f"{type(error).__name__}: {error}"}
    widths = made.to_frame().set_index("term")["width"]
    return {"width": widths.loc[source.truth.index].tolist()}


class Cache:
    """Lines of each cell, in a file each if a folder is given."""

    def __init__(self, folder: Path | None, cells: Iterable[Cell]) -> None:
        self.folder = folder
        self.found: dict[Cell, dict[int, Line]] = {cell: {} for cell in cells}
        self.forecasts: dict[Cell, Line] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for cell in self.found:
                self.found[cell] = read_lines(self.path(cell))
                if self.path(cell, "forecast").exists():
                    text = self.path(cell, "forecast").read_text(encoding="utf-8")
                    self.forecasts[cell] = json.loads(text)

    def path(self, cell: Cell, kind: str = "jsonl") -> Path:
        assert self.folder is not None
        return self.folder / f"{cell.name.replace(' ', '_').replace('=', '')}.{kind}"

    def put(self, cell: Cell, line: Line) -> None:
        """Write a line at once, so that a killed run has it."""
        self.found[cell][line["run"]] = line
        if self.folder is not None:
            with self.path(cell).open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(line)}\n")

    def put_forecast(self, cell: Cell, line: Line) -> None:
        self.forecasts[cell] = line
        if self.folder is not None:
            replace_text(self.path(cell, "forecast"), json.dumps(line))

    def lines(self, cell: Cell, runs: int) -> list[Line]:
        """The first replications of a cell that are there."""
        return [self.found[cell][run] for run in range(runs) if run in self.found[cell]]


def read_lines(path: Path) -> dict[int, Line]:
    """Lines by run; one that was cut off when a run was killed is taken out of the file."""
    if not path.exists():
        return {}
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        replace_text(path, whole)
    found = (json.loads(line) for line in whole.splitlines())
    return {line["run"]: line for line in found}


def replace_text(path: Path, text: str) -> None:
    """Replace a file in one step, so that a killed run leaves a whole one."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def run_all(cache: Cache, runs: int, workers: int) -> None:
    """Run what the cache lacks, one cell after the other."""
    for cell in cache.found:
        if cell not in cache.forecasts:
            show(f"forecast of {cell.name}")
            cache.put_forecast(cell, forecast(cell))
    jobs = [(cell, run) for cell in cache.found for run in range(runs)]
    missing = [(cell, run) for cell, run in jobs if run not in cache.found[cell]]
    total, done = sum(work(cell) for cell, _ in missing), 0
    begun = shown = time.monotonic()
    for place, (cell, line) in enumerate(replications(missing, workers), start=1):
        cache.put(cell, line)
        done += work(cell)
        now = time.monotonic()
        if now > shown + _SHOWN_EVERY or done == total:
            known = f"{len(cache.found[cell])}/{runs}, all {place}/{len(missing)}"
            show(f"{cell.name}: {known}, {duration((now - begun) * (total - done) / done)} left")
            shown = now
    print(file=sys.stderr)


def work(cell: Cell) -> int:
    """What a replication takes, in records."""
    return cell.n + _OVERHEAD


def replications(
    jobs: Sequence[tuple[Cell, int]], workers: int
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Lines as they are ready; few are handed out ahead, which a killed run loses."""
    if workers == 1:
        yield from ((cell, replicate(cell, run)) for cell, run in jobs)
        return
    todo = iter(jobs)
    with ProcessPoolExecutor(workers, initializer=_follow_parent) as pool:
        begun = itertools.islice(todo, _WAITING * workers)
        waiting = {pool.submit(replicate, cell, run): cell for cell, run in begun}
        try:
            while waiting:
                ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in ready:
                    cell = waiting.pop(future)
                    for following, run in itertools.islice(todo, 1):
                        waiting[pool.submit(replicate, following, run)] = following
                    yield cell, future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _follow_parent() -> None:
    """Leave interrupts to the process that writes the lines, and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def show(told: str) -> None:
    """Rewrite the line of progress."""
    print(f"\r{told:<78}", end="", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Hours and minutes, or seconds if there are few."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"
