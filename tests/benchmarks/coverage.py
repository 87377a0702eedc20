"""Coverage, width and level of the intervals and tests: ``python -m tests.benchmarks.coverage``.

    python -m tests.benchmarks.coverage [--runs 160] [--cells section-9 logistic,huber ...]
        [--ways default wkl ...] [--full] [--out table.md] [--workers 2]

draws samples from made-up populations (`tests.benchmarks.populations`), releases coefficients
and moments from each, and counts how often intervals at 95 % hold the population's minimiser
(inference.md 9). A cell is one setting; ``--cells`` keeps those that have one of the alternatives
of every word given, such as ``section-9 logistic,huber d=10 eps=0.5,eps=1``. Everything is seeded:
a table can be printed again. Widths stand beside those of an oracle that knows the population
and the law of the noise. Where inference.md has a column for the method of a cell it is printed
too, as a multiple of its oracle, since its population differs in scale from the one here.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.errors import GuaranteeError
from privatelr.inference import Question, infer, quality
from privatelr.mechanisms import (
    Problem,
    Request,
    StagedCalibration,
    calibrate_all,
    draw_all,
    release_all,
)
from privatelr.numerics import LOSSES
from privatelr.numerics.solve import Newton
from privatelr.privacy import ZCDP, ApproxDP, PureDP
from privatelr.privacy.noise import SeededRandomness, draw_many

from .populations import POPULATIONS, population, truth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from privatelr.mechanisms import Release
    from privatelr.privacy import Guarantee
    from privatelr.types import FloatArray

LEVEL = 0.95
FIXED_LAMBDA = 2e-3
"""Times the square of the radius: c = 1e-3 on unit rows."""
DELTA = 1e-6
ORACLE_DRAWS = 20_000
WAYS: dict[str, dict[str, str]] = {
    "default": {},
    "posterior": {"mode": "posterior"},
    "conservative": {"mode": "conservative", "target": "penalised"},
    "plug-in": {"mode": "plug-in"},
    "wkl": {"method": "wkl", "target": "penalised"},
    "wkl-unpenalised": {"method": "wkl", "target": "penalised"},
    "unpenalised": {"target": "unpenalised"},
}
"""How intervals are made; those whose name ends in the last word are held to that target."""
SPLITS: dict[str, Any] = {"usual": "inference", "half": (("coefficients", 0.5), ("inference", 0.5))}
_RUNS_AT_ONCE = 10


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting.

    Attributes
    ----------
    lambda_ : str
        ``"fixed"``: `FIXED_LAMBDA`, raised where the curvature would cost too much, as the front
        door does; ``"kept"``: the same, not raised; ``"auto"``: the automatic rule;
        ``"q=.85"``: what leaves that share of epsilon for the noise (inference.md 8).
    split : str
        ``"usual"``, or ``"half"`` for the coefficients as in inference.md 9.
    """

    population: str
    loss: str
    placement: str
    promise: str
    d: int
    n: int
    epsilon: float
    lambda_: str = "fixed"
    split: str = "usual"

    @property
    def words(self) -> tuple[str, ...]:
        """What ``--cells`` looks for."""
        named = (self.population, self.loss, self.placement, self.promise)
        numbers = (f"d={self.d}", f"n={self.n}", f"eps={self.epsilon:g}")
        return (*named, *numbers, f"lambda={self.lambda_}", f"split={self.split}")

    @property
    def target(self) -> Guarantee:
        if self.promise == "pure":
            return PureDP(self.epsilon)
        if self.promise == "zcdp":
            return ZCDP(self.epsilon**2 / 2)
        return ApproxDP(self.epsilon, DELTA)


@lru_cache(maxsize=64)
def plan_of(cell: Cell) -> StagedCalibration:
    """Calibration of a cell; raises `GuaranteeError` where no noise suffices."""
    source = population(cell.population, cell.d)
    rule: Any = FIXED_LAMBDA * source.radius**2
    if cell.lambda_ == "auto":
        rule = "auto"
    elif cell.lambda_ == "q=.85":
        bend = LOSSES[cell.loss].curvature_bound * source.radius**2
        rule = bend / (math.expm1(0.15 * cell.epsilon / 2) * cell.n)
    small: Any = "keep" if cell.lambda_ in ("kept", "q=.85") else "increase"
    placement: Any = cell.placement
    request = Request(cell.target, placement, None, rule, small, SPLITS[cell.split])
    facts = Problem(cell.n, cell.d, LOSSES[cell.loss], source.radius, source.blocks)
    return calibrate_all(request, facts)


def release_for(cell: Cell, seed: int) -> Release:
    """A fresh sample and one release of it."""
    plan = plan_of(cell)
    rng = np.random.default_rng([seed, *" ".join(cell.words).encode()])
    rows = population(cell.population, cell.d).sample(cell.n, rng)
    draws = draw_all(plan, SeededRandomness(int(rng.integers(2**63))))
    return release_all(rows, plan, draws, Newton())


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """What some replications of a cell gave, one way.

    Attributes
    ----------
    covered, rejected : ndarray of shape (runs, d)
        Whether the interval holds the true value, and whether it is rejected at 5 %.
    width : ndarray of shape (runs, d)
    is_conservative, noise_to_signal, seconds : ndarray of shape (runs,)
        The last of the processor, for all intervals of one release.
    """

    covered: FloatArray
    rejected: FloatArray
    width: FloatArray
    is_conservative: FloatArray
    noise_to_signal: FloatArray
    seconds: FloatArray


def joined(parts: Sequence[Runs]) -> Runs:
    """All replications of some parts."""
    names = [field.name for field in fields(Runs)]
    return Runs(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def run(cell: Cell, seeds: Sequence[int], ways: Sequence[str]) -> dict[str, Runs]:
    """Replications of a cell, each way; refusals are left out."""
    known = truth(cell.population, cell.d, cell.loss, plan_of(cell).coefficients.lambda_)
    found: dict[str, list[tuple[Any, ...]]] = {way: [] for way in ways}
    for seed in seeds:
        release = release_for(cell, seed)
        made = quality(release)
        for way in ways:
            value = known.plain if way.endswith("unpenalised") else known.w
            start = time.process_time()
            try:
                answer = infer(release, np.eye(cell.d), Question(LEVEL, **WAYS[way]), value)
            except GuaranteeError:
                continue  # the penalty shrinks too much for one step
            except np.linalg.LinAlgError:
                print(f"\nno interval: {' '.join(cell.words)}, {way}, {seed}", file=sys.stderr)
                found[way].append(_without_interval(cell.d, made.noise_to_signal))
                continue
            seconds = time.process_time() - start
            covered = (answer.lower <= value) & (value <= answer.upper)
            rejected = answer.p_value < 1 - LEVEL
            is_conservative = answer.mode == "conservative"
            width = answer.upper - answer.lower
            found[way].append(
                (covered, rejected, width, is_conservative, made.noise_to_signal, seconds)
            )
    return {
        way: Runs(*(np.array(column, dtype=np.float64) for column in zip(*rows, strict=True)))
        for way, rows in found.items()
        if rows
    }


def _without_interval(d: int, noise_to_signal: float) -> tuple[Any, ...]:
    """What counts where an interval could not be computed: nothing is covered."""
    return (np.zeros(d), np.ones(d), np.full(d, np.inf), 0.0, noise_to_signal, 0.0)


@lru_cache(maxsize=64)
def oracle_width(cell: Cell) -> FloatArray:
    """Widths ``(d,)`` for one who knows H, S and the noise: quantiles of simulated errors."""
    calibration = plan_of(cell).coefficients
    known = truth(cell.population, cell.d, cell.loss, calibration.lambda_)
    rng = np.random.default_rng([1, *" ".join(cell.words).encode()])
    noise = draw_many(calibration.noise, ORACLE_DRAWS, rng)
    gradient = rng.multivariate_normal(np.zeros(cell.d), known.scores / cell.n, ORACLE_DRAWS)
    if cell.placement == "objective":
        errors = np.linalg.solve(known.curvature, (gradient + noise / cell.n).T).T
    else:
        errors = np.linalg.solve(known.curvature, gradient.T).T + noise
    return np.asarray(2 * np.quantile(np.abs(errors), LEVEL, axis=0))


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table.

    Attributes
    ----------
    coverage, coverage_error : float
        Over all coefficients, and its standard error, replications being independent.
    worst : float
        Coverage of the coefficient that is covered least.
    width, oracle : float
        Median widths.
    ratio : float
        Median of widths over the oracle's, coefficient by coefficient.
    reject, reject_null : float
        Share of tests at 5 % that reject the true value: all, and of the column without effect.
    conservative : float
        Share of replications whose intervals were conservative.
    """

    way: str
    runs: int
    coverage: float
    coverage_error: float
    worst: float
    width: float
    oracle: float
    ratio: float
    reject: float
    reject_null: float
    conservative: float
    noise_to_signal: float
    seconds: float


def summarise(cell: Cell, way: str, runs: Runs) -> Line:
    """The numbers of a cell, one way."""
    oracle = oracle_width(cell)
    shares = runs.covered.mean(axis=1)
    count = len(shares)
    return Line(
        way=way,
        runs=count,
        coverage=float(shares.mean()),
        coverage_error=float(shares.std(ddof=1)) / math.sqrt(count) if count > 1 else math.nan,
        worst=float(runs.covered.mean(axis=0).min()),
        width=float(np.median(runs.width)),
        oracle=float(np.median(oracle)),
        ratio=float(np.median(runs.width / oracle)),
        reject=float(runs.rejected.mean()),
        reject_null=float(runs.rejected[:, -1].mean()),
        conservative=float(runs.is_conservative.mean()),
        noise_to_signal=float(np.median(runs.noise_to_signal)),
        seconds=float(np.median(runs.seconds)),
    )


HONEST = {
    ("logistic", 5, 5000): (0.84 / 0.78, 0.47 / 0.46, 0.36 / 0.35),
    ("logistic", 5, 20000): (0.227 / 0.225, 0.177 / 0.175, 0.162 / 0.161),
    ("logistic", 10, 5000): (4.01 / 1.98, 1.53 / 1.00, 0.67 / 0.60),
    ("logistic", 10, 20000): (0.53 / 0.485, 0.301 / 0.300, 0.234 / 0.235),
    ("huber", 5, 5000): (1.27 / 0.73, 0.48 / 0.44, 0.38 / 0.38),
    ("huber", 5, 20000): (0.215 / 0.209, 0.189 / 0.187, 0.181 / 0.182),
    ("huber", 10, 5000): (5.23 / 2.02, 2.48 / 0.89, 1.30 / 0.62),
    ("huber", 10, 20000): (0.88 / 0.414, 0.36 / 0.303, 0.281 / 0.273),
}
"""inference.md 9: 'honest' over oracle for objective perturbation, pure, eps .5, 1 and 2."""
EPSILONS = (0.5, 1.0, 2.0)


def published_ratio(cell: Cell) -> float | None:
    """Width over the oracle's in inference.md 9, where it has the cell."""
    known = HONEST.get((cell.loss, cell.d, cell.n))
    comparable = ("section-9", "objective", "pure", "half")
    if known is None or cell.epsilon not in EPSILONS:
        return None
    if (cell.population, cell.placement, cell.promise, cell.split) != comparable:
        return None
    return known[EPSILONS.index(cell.epsilon)]


def usual_cells() -> Iterator[Cell]:
    """The grid by which the intervals are judged, and one slice of every other population."""
    for loss, placement, promise, d, n, epsilon in itertools.product(
        ("logistic", "huber"),
        ("objective", "output"),
        ("pure", "zcdp"),
        (3, 10),
        (2000, 20000),
        EPSILONS,
    ):
        yield Cell("section-9", loss, placement, promise, d, n, epsilon)
    for name, loss, promise, d, n, epsilon in itertools.product(
        ("bounded", "rare-levels", "imbalanced", "misspecified"),
        ("logistic", "huber"),
        ("pure", "zcdp"),
        (3, 10),
        (2000, 20000),
        EPSILONS,
    ):
        yield Cell(name, loss, "objective", promise, d, n, epsilon)
    for loss, d, n, epsilon in itertools.product(
        ("logistic", "huber"), (5, 10), (5000, 20000), EPSILONS
    ):
        yield Cell("section-9", loss, "objective", "pure", d, n, epsilon, "kept", "half")
    for n, epsilon in itertools.product((100, 500, 2000), (0.3, 1.0, 3.0)):
        yield Cell("awan-wang", "logistic", "objective", "pure", 2, n, epsilon, "q=.85", "half")


def full_cells() -> Iterator[Cell]:
    """Every population with every loss, mechanism and promise, and the automatic lambda."""
    yield from usual_cells()
    for loss, name, placement, promise, d, n, epsilon, rule in itertools.product(
        LOSSES,
        [name for name in POPULATIONS if name != "awan-wang"],
        ("objective", "output"),
        ("pure", "zcdp", "approx"),
        (3, 10),
        (2000, 20000),
        EPSILONS,
        ("fixed", "auto"),
    ):
        yield Cell(name, loss, placement, promise, d, n, epsilon, rule)


def chosen_cells(cells: Iterator[Cell], wanted: Sequence[str]) -> list[Cell]:
    """The cells that have one of the alternatives of every word, each cell once."""
    return [
        cell
        for cell in dict.fromkeys(cells)
        if all(set(word.split(",")) & set(cell.words) for word in wanted)
    ]


def study(
    cells: Sequence[Cell], runs: int, ways: Sequence[str], workers: int
) -> Iterator[tuple[Cell, list[Line]]]:
    """Lines of each cell as it is finished, in a pool of processes; none where infeasible."""
    tasks = [
        (cell, range(start, min(start + _RUNS_AT_ONCE, runs)))
        for cell in cells
        for start in range(0, runs, _RUNS_AT_ONCE)
    ]
    left = {cell: math.ceil(runs / _RUNS_AT_ONCE) for cell in cells}
    parts: dict[Cell, list[dict[str, Runs]]] = {cell: [] for cell in cells}
    started = time.monotonic()
    with ProcessPoolExecutor(workers) as pool:
        waiting = {pool.submit(_run, cell, seeds, ways): cell for cell, seeds in tasks}
        for done, future in enumerate(as_completed(waiting), 1):
            cell = waiting.pop(future)
            parts[cell].append(future.result())
            left[cell] -= 1
            _show_progress(done, len(tasks), time.monotonic() - started)
            if left[cell] == 0:
                yield cell, _lines(cell, parts.pop(cell), ways)


def _run(cell: Cell, seeds: Sequence[int], ways: Sequence[str]) -> dict[str, Runs]:
    try:
        plan_of(cell)
    except GuaranteeError:
        return {}
    return run(cell, seeds, ways)


def _lines(cell: Cell, parts: list[dict[str, Runs]], ways: Sequence[str]) -> list[Line]:
    found = {way: [part[way] for part in parts if way in part] for way in ways}
    return [summarise(cell, way, joined(runs)) for way, runs in found.items() if runs]


def _show_progress(done: int, tasks: int, seconds: float) -> None:
    filled = 40 * done // tasks
    rest = seconds / done * (tasks - done)
    bar = "#" * filled + "." * (40 - filled)
    end = "\n" if done == tasks else ""
    print(f"\r[{bar}] {done}/{tasks}, {rest:.0f} s left ", end=end, file=sys.stderr, flush=True)


HEADINGS = (
    "cell | way | runs | coverage (s.e.) | worst | width | oracle | ratio | inference.md | "
    "rejects | null | conservative | nsr | ms"
)


def table(results: Sequence[tuple[Cell, Sequence[Line]]]) -> str:
    """All lines as a table in Markdown."""
    rows = [f"| {HEADINGS} |", "|" + "---|" * (HEADINGS.count("|") + 1)]
    rows += [row_of(cell, line) for cell, lines in results for line in lines]
    rows += [f"| {' '.join(cell.words)} | infeasible |" for cell, lines in results if not lines]
    return "\n".join(rows) + "\n"


def row_of(cell: Cell, line: Line) -> str:
    """One line in Markdown."""
    published = published_ratio(cell)
    entries = (
        " ".join(cell.words),
        line.way,
        f"{line.runs}",
        f"{line.coverage:.3f} ({line.coverage_error:.3f})",
        f"{line.worst:.3f}",
        f"{line.width:.3g}",
        f"{line.oracle:.3g}",
        f"{line.ratio:.2f}",
        "" if published is None else f"{published:.2f}",
        f"{line.reject:.3f}",
        f"{line.reject_null:.3f}",
        f"{line.conservative:.2f}",
        f"{line.noise_to_signal:.2f}",
        f"{1e3 * line.seconds:.0f}",
    )
    return f"| {' | '.join(entries)} |"


def as_json(results: Sequence[tuple[Cell, Sequence[Line]]]) -> str:
    """All lines with all their numbers."""

    def numbers(record: Cell | Line) -> dict[str, Any]:
        return {field.name: getattr(record, field.name) for field in fields(record)}

    rows = [{**numbers(cell), **numbers(line)} for cell, lines in results for line in lines]
    return json.dumps(rows, indent=1) + "\n"


def main() -> None:
    """Run the study, print its table, and write it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=160, help="replications of each cell")
    parser.add_argument("--cells", nargs="*", default=[], metavar="WORD", help="as said above")
    parser.add_argument("--ways", nargs="*", choices=tuple(WAYS), default=list(WAYS))
    parser.add_argument("--full", action="store_true", help="many more cells")
    parser.add_argument("--list", action="store_true", help="print the cells and do nothing")
    parser.add_argument("--out", type=Path, help="a file that ends in .md or .json")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    chosen = parser.parse_args()
    cells = chosen_cells(full_cells() if chosen.full else usual_cells(), chosen.cells)
    if chosen.list:
        print("\n".join(" ".join(cell.words) for cell in cells))
        return
    order = {cell: place for place, cell in enumerate(cells)}
    results: list[tuple[Cell, list[Line]]] = []
    for result in study(cells, chosen.runs, chosen.ways, chosen.workers):
        results = sorted([*results, result], key=lambda found: order[found[0]])
        if chosen.out:  # after every cell, since a study is long
            is_json = chosen.out.suffix == ".json"
            chosen.out.write_text(as_json(results) if is_json else table(results), "utf-8")
    print(table(results), end="")


if __name__ == "__main__":
    main()
