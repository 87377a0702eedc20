"""What private scale does to the error of classification, on every binary table there is.

    PRIVATELR_DATA_HOME=folder python -m tests.studies.scale [--cache folder] [--full]
        [--tables adult bank] [--runs N] [--beside folder]

prints the excess of the test error over that of the plain fit with a tiny penalty, for `dplr` and
for `dpsvm` with the softplus loss, under pure and under approximate privacy: of the default call,
of ``do_scale="private"``, of the same with a narrower and with a wider intercept, of the same
with other bounds on a row, in lengths of a typical one, of ``do_scale=False`` ("declared"), of
that with the narrower intercept, and of the default call with the penalty of the least expected
excess where a scale is released ("least"). For `dplr` the excess of the log loss is printed, too.
All fits are those of the front door. In every run all of them see the same split and the same seed.

The quick run takes about ten minutes. Results are kept in the folder of ``--cache``, one file for
each table, and what is there is not fitted again. ``--beside`` names such a folder of another
version of the package, and prints how much the errors changed since. One thread of linear algebra
(``OMP_NUM_THREADS=1``) is the fastest on a machine that does other things.

Half of the tables are for choosing numbers (the gate, the lengths), and half for reporting what
was chosen. The tables that the prototype was developed with are in the first half. One table is
left out: the advertisements have more columns than records.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import sys
import time
import warnings
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privatelr import GuaranteeError, PrivacyWarning, dplr, dpsvm
from privatelr import method as setting_up
from privatelr.mechanisms.calibration import expected_excess, proven

from .scale_tables import TABLES, read_table
from .tables import HOME, data_home

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd

    from privatelr.mechanisms.calibration import Calibration
    from privatelr.results import Fit
    from privatelr.types import FloatArray

    from .scale_tables import Table

Method = Literal["dplr", "dpsvm"]
METHODS: tuple[Method, ...] = ("dplr", "dpsvm")
DELTAS = (0.0, 1e-6)
Measure = Literal["error", "log loss"]
MEASURES: dict[Method, tuple[Measure, ...]] = {"dplr": ("error", "log loss"), "dpsvm": ("error",)}
DEFAULT, DECLARED, PRIVATE = "default", "declared", "private"
NARROW, WIDE, DECLARED_NARROW = "narrow", "wide", "declared narrow"
LEAST = "least"
LENGTHS = ("1", "1.5", "2", "3")
VARIANTS = (DEFAULT, DECLARED, PRIVATE, NARROW, WIDE, *LENGTHS, DECLARED_NARROW, LEAST)
EPSILONS, ALL_EPSILONS = (0.1, 0.5, 1.0), (0.05, 0.1, 0.5, 1.0, 2.0)
LENGTH_EPSILONS = (0.1, 1.0)
"""Where the quick run tries lengths."""
NARROW_INTERCEPT = 0.25
WIDE_INTERCEPT = {True: 2.0, False: 0.5}
"""Under pure epsilon, as wide as a column of a factor; otherwise that of declared rows."""
TINY_LAMBDA = 1e-5
LARGE = 5_000
"""Tables with more records need fewer runs."""
GATES = (0.02, 0.03, 0.04, 0.05, 0.1, 0.15, 0.2, 0.3)
LOSS_THAT_COUNTS = 0.01


@dataclass(frozen=True, slots=True)
class Setting:
    """What is fitted; without a variant it is the plain fit."""

    method: Method
    delta: float = 0.0
    epsilon: float = 0.0
    variant: str = ""

    @property
    def name(self) -> str:
        return f"{self.method} {self.delta:g} {self.epsilon:g} {self.variant}".strip()

    @property
    def plain(self) -> Setting:
        """The plain fit that the excess is over."""
        return Setting(self.method)


def settings(full: bool) -> list[Setting]:
    """Those of a run, the plain fits first."""
    found = [Setting(method) for method in METHODS]
    epsilons = ALL_EPSILONS if full else EPSILONS
    for variant, method, delta, epsilon in product(VARIANTS, METHODS, DELTAS, epsilons):
        if full or variant not in LENGTHS or epsilon in LENGTH_EPSILONS:
            found.append(Setting(method, delta, epsilon, variant))
    return found


@contextmanager
def calibrated_once() -> Iterator[None]:
    """Calibrate every setting once: calibration takes no data, so all splits share it."""
    before = setting_up.calibrate_all
    setting_up.calibrate_all = _CALIBRATE
    try:
        yield
    finally:
        setting_up.calibrate_all = before


_CALIBRATE = lru_cache(maxsize=None)(setting_up.calibrate_all)


def possible(setting: Setting, table: Table) -> bool:
    """Whether there is something to release: under a pure promise, the scale of numbers alone."""
    plain = ("", DEFAULT, DECLARED, DECLARED_NARROW, LEAST)
    return setting.variant in plain or setting.delta > 0 or bool(table.bounds)


def fit(setting: Setting, table: Table, frame: pd.DataFrame, seed: int) -> Fit:
    """One fit of the front door."""
    call: Any = dplr if setting.method == "dplr" else partial(dpsvm, loss="softplus")
    known: dict[str, Any] = {"bounds": table.bounds, "levels": table.levels}
    if setting == setting.plain:
        return call(table.formula, frame, eps=0, lambda_=TINY_LAMBDA, **known)
    known |= {"eps": setting.epsilon, "delta": setting.delta, "seed": seed}
    if setting.variant in (DECLARED, DECLARED_NARROW):
        known["do_scale"] = False
    elif setting.variant not in (DEFAULT, LEAST):
        known["do_scale"] = "private"
    if setting.variant in (NARROW, DECLARED_NARROW):
        known["intercept_scale"] = NARROW_INTERCEPT
    if setting.variant == WIDE:
        known["intercept_scale"] = WIDE_INTERCEPT[setting.delta == 0]
    if setting.variant in LENGTHS:
        known["row_norm"] = float(setting.variant)
    made = call(table.formula, frame, **known)
    if setting.variant == LEAST and made.release.scale is not None:
        least = least_excess(made.release.calibration)
        return call(table.formula, frame, lambda_=least, on_small_lambda="keep", **known)
    return made


@functools.cache
def least_excess(calibration: Calibration) -> float:
    """Search the penalty with the least expected excess, for noise of the same law."""
    problem, law = calibration.problem, type(calibration.noise)

    def excess(logarithm: float) -> float:
        at = problem.with_lambda(math.exp(logarithm))
        analysis = proven(None, problem.loss)
        try:
            return expected_excess(at, calibration.target, analysis, (law,))
        except GuaranteeError:  # no noise suffices
            return math.inf

    usual = math.log(problem.lambda_)
    return math.exp(min(np.arange(usual - 2.5, usual + 0.5, 0.05), key=excess))


def split(frame: pd.DataFrame, name: str, run: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Four fifths of the records to learn from, and the rest to test."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), run])
    order = rng.permutation(len(frame))
    cut = len(frame) * 4 // 5
    return frame.iloc[order[:cut]], frame.iloc[order[cut:]]


def measure(setting: Setting, table: Table, parts: tuple[Any, Any], run: int) -> dict[str, float]:
    """Return the test error, and public numbers of the calibration."""
    train, test = parts
    made = fit(setting, table, train, seed=run)
    wrong = np.asarray(made.predict(test, type="classes")) != test[table.response].to_numpy()
    found = {"error": float(np.mean(wrong)), "lambda": made.release.calibration.lambda_}
    if setting.method == "dplr":
        margins = np.abs(np.asarray(made.predict(test, type="link")))
        found["log loss"] = float(np.mean(np.logaddexp(0.0, np.where(wrong, margins, -margins))))
    if made.release.scale is not None:
        found["mean_sd"] = made.release.scale.calibration.mean_sd
    return found


class Cache:
    """Results of one table, in a file if a folder is given: setting and run to numbers."""

    def __init__(self, folder: Path | None, table: str) -> None:
        self.path = None if folder is None else folder / f"{table}.json"
        self.found: dict[str, dict[str, float]] = {}
        if self.path is not None and self.path.exists():
            self.found = json.loads(self.path.read_text(encoding="utf-8"))

    def has(self, setting: Setting, run: int) -> bool:
        return f"{setting.name} / {run}" in self.found

    def put(self, setting: Setting, run: int, numbers: dict[str, float]) -> None:
        self.found[f"{setting.name} / {run}"] = numbers

    def save(self) -> None:
        """Replace the file in one step, so that an interrupted run leaves a whole one."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(self.found), encoding="utf-8")
        temporary.replace(self.path)

    def runs(self) -> list[int]:
        return sorted({int(key.rpartition("/")[2]) for key in self.found})

    def numbers(self, setting: Setting, what: str = "error") -> dict[int, float]:
        """Return a number of a setting by run."""
        keys = {run: f"{setting.name} / {run}" for run in self.runs()}
        return {run: self.found[key][what] for run, key in keys.items() if key in self.found}

    def excess(self, setting: Setting, what: Measure = "error") -> FloatArray:
        """Return the excess of the error, or of the log loss, of each run."""
        mine, plain = self.numbers(setting, what), self.numbers(setting.plain, what)
        return np.array([mine[run] - plain[run] for run in mine if run in plain])


def run_all(
    tables: Iterable[str], wanted: list[Setting], runs: int, folder: Path | None, home: Path
) -> dict[str, Cache]:
    """Fit what is not known yet, one run of all tables after the other."""
    caches = {name: Cache(folder, name) for name in tables}
    frames: dict[str, pd.DataFrame] = {}

    def missing(run: int, name: str) -> list[Setting]:
        todo = [setting for setting in wanted if possible(setting, TABLES[name])]
        return [setting for setting in todo if not caches[name].has(setting, run)]

    jobs = [
        (run, name)
        for run, name in product(range(runs), caches)
        if run < runs_of(name, runs) and missing(run, name)
    ]
    begun = time.monotonic()
    with calibrated_once(), warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        for place, (run, name) in enumerate(jobs):
            table, cache = TABLES[name], caches[name]
            frame = frames.setdefault(name, read_table(name, home))
            parts = split(frame, name, run)
            for setting in missing(run, name):
                cache.put(setting, run, measure(setting, table, parts, run))
            cache.save()
            seconds = time.monotonic() - begun
            told = f"{place + 1} of {len(jobs)}: {name}, split {run + 1}, {seconds:.0f} s"
            print(f"\r{told:<60}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return caches


def runs_of(name: str, runs: int) -> int:
    """Return how many splits a table gets: a quarter where it is large, which is enough there."""
    return max(2, runs // 4) if TABLES[name].n > LARGE else runs


def mean_and_error(numbers: FloatArray) -> tuple[float, float]:
    """Return a mean and its standard error."""
    error = np.std(numbers, ddof=1) / len(numbers) ** 0.5 if len(numbers) > 1 else np.nan
    return float(np.mean(numbers)), float(error)


def excess_table(
    caches: dict[str, Cache], method: Method, delta: float, epsilon: float, what: Measure = "error"
) -> list[str]:
    """Rows of tables, columns of variants; means of each half below."""
    shown = [Setting(method, delta, epsilon, variant) for variant in VARIANTS]
    told = f"{method}, delta {delta:g}, eps {epsilon:g}"
    lines = [f"{told}: excess test {what} over the plain fit (s.e.)"]
    lines.append(f"{'':<15}" + "".join(f"{setting.variant:>17}" for setting in shown))
    for half in ("choice", "report"):
        names = [name for name in caches if TABLES[name].half == half]
        rows = [[caches[name].excess(setting, what) for setting in shown] for name in names]
        for name, row in zip(names, rows, strict=True):
            lines.append(f"{name:<15}" + "".join(f"{_entry(found):>17}" for found in row))
        if names:
            columns = zip(*rows, strict=True)
            means = [[float(np.mean(x)) for x in column if len(x)] for column in columns]
            cells = (f"{np.mean(x):.4f}" if len(x) else "-" for x in means)
            lines.append(f"{f'mean, {half}':<15}" + "".join(f"{cell:>17}" for cell in cells))
    return [line.rstrip() for line in lines]


def _entry(found: FloatArray) -> str:
    if not len(found):
        return "-"
    mean, error = mean_and_error(found)
    return f"{mean:.4f} ({error:.4f})"


def losers(caches: dict[str, Cache], full: bool) -> list[str]:
    """Name the cells that private scale makes worse by more than a hundredth, by their noise."""
    found = cells_of(caches, full)
    lines = [f"private scale loses more than {LOSS_THAT_COUNTS:g} against declared rows:"]
    for sd, setting, name, both in found:
        if np.mean(both) > LOSS_THAT_COUNTS:
            place = f"  {TABLES[name].half}: {name:<15}{setting.name:<28}"
            lines.append(f"{place}sd of a mean {sd:<8.3g}{_entry(both)}")
    lines.append("leave the stage out where the sd of a mean is above a gate:")
    for pure, half, gate in product((True, False), ("choice", "report"), GATES):
        cells = [
            (sd, np.mean(both))
            for sd, setting, name, both in found
            if TABLES[name].half == half and (setting.delta == 0) == pure
        ]
        kept = [mean for sd, mean in cells if sd <= gate]
        lost = sum(mean > LOSS_THAT_COUNTS for mean in kept)
        if cells:
            promise = "pure" if pure else f"delta {DELTAS[1]:g}"
            lines.append(
                f"  {promise}, {half}: gate {gate:<5g} stage in {len(kept):>3} of {len(cells)} "
                f"cells, {lost} lose more than {LOSS_THAT_COUNTS:g}, mean gain "
                f"{-sum(kept) / len(cells):.4f}"
            )
    return lines


def cells_of(caches: dict[str, Cache], full: bool) -> list[tuple[float, Setting, str, FloatArray]]:
    """Every cell of private scale by its noise on a mean, with what it adds to the error."""
    found = []
    for setting in settings(full):
        declared = Setting(setting.method, setting.delta, setting.epsilon, DECLARED)
        for name, cache in caches.items() if setting.variant == PRIVATE else ():
            sd = cache.numbers(setting, "mean_sd")
            mine, theirs = cache.numbers(setting), cache.numbers(declared)
            both = np.array([mine[run] - theirs[run] for run in mine if run in theirs])
            if len(both):
                found.append((next(iter(sd.values())), setting, name, both))
    return sorted(found, key=lambda cell: cell[0])


def change(caches: dict[str, Cache], before: dict[str, Cache], full: bool) -> list[str]:
    """Paired differences of errors to those of another version; a negative one is a gain."""
    lines = ["change of the test error since the other version (s.e.), mean over tables"]
    for setting, half in product(settings(full), ("choice", "report")):
        means, moved = [], []
        for name, cache in caches.items():
            mine, theirs = cache.numbers(setting), before[name].numbers(setting)
            paired = [mine[run] - theirs[run] for run in mine if run in theirs]
            if paired and TABLES[name].half == half and setting.variant:
                means.append(float(np.mean(paired)))
                now, then = (
                    cache.numbers(setting, "lambda"),
                    before[name].numbers(setting, "lambda"),
                )
                moved.append(now[0] / then[0])
        if means and not np.allclose(moved, 1.0, rtol=1e-6):
            worst = f"worst {max(means):+.4f}, best {min(means):+.4f}"
            ratio = f"lambda times {min(moved):.2f} to {max(moved):.2f}"
            lines.append(f"  {half}: {setting.name:<26}{_entry(np.array(means))} {worst}; {ratio}")
    return lines


def main() -> None:
    """Fit what is missing, and print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--runs", type=int, help="splits of a small table; a quarter of it of a large one"
    )
    parser.add_argument("--tables", nargs="+", choices=tuple(TABLES), default=tuple(TABLES))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS)
    parser.add_argument("--cache", type=Path, help="folder of results, which are not made again")
    parser.add_argument("--beside", type=Path, help="such a folder of another version")
    parser.add_argument("--full", action="store_true", help="more epsilons, lengths and runs")
    chosen = parser.parse_args()
    home = data_home()
    if home is None:
        parser.error(f"{HOME} is not set; it names the folder of the tables.")
    runs = chosen.runs or (40 if chosen.full else 8)
    wanted = [s for s in settings(chosen.full) if not s.variant or s.variant in chosen.variants]
    caches = run_all(chosen.tables, wanted, runs, chosen.cache, home)
    epsilons = ALL_EPSILONS if chosen.full else EPSILONS
    for method, delta, epsilon in product(METHODS, DELTAS, epsilons):
        for what in MEASURES[method]:
            print("\n".join(excess_table(caches, method, delta, epsilon, what)), end="\n\n")
    print("\n".join(losers(caches, chosen.full)))
    if chosen.beside is not None:
        before = {name: Cache(chosen.beside, name) for name in caches}
        print("\n".join(change(caches, before, chosen.full)))


if __name__ == "__main__":
    main()
