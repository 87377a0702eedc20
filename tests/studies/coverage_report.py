"""Tables of the study of coverage, in Markdown; see `coverage`."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .coverage_populations import LIKENESSES, population_of
from .coverage_runs import LEVEL, Cell, Z

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from privatelr.types import FloatArray

    from .coverage_runs import Cache, Line

GROWTH = (0.5, 1.0, 2.0, 4.0, 10.0)
"""Epsilons of the table of growth."""
UNPENALISED = "unpenalised"
"""What ``glance()`` calls the target that the truth is of."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers of a cell; NaN where there is nothing to count.

    Attributes
    ----------
    runs, failed, separable : int
        Replications with intervals, without, and those whose fit without privacy does not exist.
    coverage, coverage_error, worst : float
        Over all terms, with a standard error in which replications are independent, and of the
        term that is covered least.
    given : float
        Coverage where the intervals are about coefficients without a penalty.
    level, level_error : float
        Share of the tests at 5 % that reject the coefficient that is 0.
    width, width_error, widest : float
        Over those without privacy, of all terms and of one.
    rmse, rmse_error : float
        Root mean square of the errors of estimates, over standard errors without privacy.
    targets, modes : dict
        Shares of replications.
    forecast : float
        Promised over realised width.
    seconds : float
        Median time of a fit and its intervals.
    """

    d: int
    runs: int
    failed: int
    separable: int
    coverage: float
    coverage_error: float
    worst: float
    given: float
    level: float
    level_error: float
    width: float
    width_error: float
    widest: float
    rmse: float
    rmse_error: float
    targets: dict[str, float]
    modes: dict[str, float]
    forecast: float
    seconds: float


def summarise(
    truth: FloatArray, lines: Sequence[Line], promised: Sequence[float] | None
) -> Summary:
    """The numbers of some replications of a cell with the same true coefficients ``(d,)``."""
    made = [line for line in lines if "failed" not in line]
    lower, upper = ends(made, len(truth))
    covered = (lower <= truth) & (truth <= upper)
    coverage, coverage_error = mean_and_error(covered.mean(axis=1))
    is_given = np.array([line["target"] == UNPENALISED for line in made], dtype=bool)
    tests = np.array([line["p_null"] for line in made if line["p_null"] is not None])
    level, level_error = mean_and_error(tests < 1 - LEVEL)
    log_width = np.log(upper - lower)
    # a separable sample has no plain width, so its private one has nothing to be beside
    plain = [line["plain_width"] or [math.nan] * len(truth) for line in made]
    log_ratio = log_width - np.log(np.reshape(plain, log_width.shape))
    log_ratio = log_ratio[~np.isnan(log_ratio).any(axis=1)]
    estimates = np.array([line["estimate"] for line in made]).reshape(log_width.shape)
    errors = 2 * Z * (estimates - truth) / np.reshape(plain, log_width.shape)
    square, square_error = mean_and_error((errors[~np.isnan(errors).any(axis=1)] ** 2).mean(axis=1))
    rmse, width = math.sqrt(square), geometric_mean(log_ratio)
    return Summary(
        d=len(truth),
        runs=len(made),
        failed=len(lines) - len(made),
        separable=sum(line["plain_width"] is None for line in lines),
        coverage=coverage,
        coverage_error=coverage_error,
        worst=float(covered.mean(axis=0).min()) if made else math.nan,
        given=mean_and_error(covered[is_given].mean(axis=1))[0],
        level=level,
        level_error=level_error,
        width=width,
        width_error=width * mean_and_error(log_ratio.mean(axis=1))[1],
        widest=float(np.exp(log_ratio.mean(axis=0).max())) if len(log_ratio) else math.nan,
        rmse=rmse,
        rmse_error=square_error / (2 * rmse) if rmse else math.nan,
        targets=shares(line["target"] for line in made),
        modes=shares(line["mode"] for line in made),
        forecast=math.nan if promised is None else geometric_mean(np.log(promised) - log_width),
        seconds=float(np.median([line["seconds"] for line in made])) if made else math.nan,
    )


def ends(lines: Sequence[Line], d: int) -> tuple[FloatArray, FloatArray]:
    """Ends of intervals ``(runs, d)``."""
    lower = np.array([line["lower"] for line in lines]).reshape(-1, d)
    upper = np.array([line["upper"] for line in lines]).reshape(-1, d)
    return lower, upper


def mean_and_error(found: Any) -> tuple[float, float]:
    """A mean and its standard error, NaN where there are too few numbers."""
    count = len(found)
    mean = float(np.mean(found)) if count else math.nan
    return mean, float(np.std(found, ddof=1)) / math.sqrt(count) if count > 1 else math.nan


def geometric_mean(logs: FloatArray) -> float:
    return float(np.exp(np.mean(logs))) if logs.size else math.nan


def shares(names: Iterable[str | None]) -> dict[str, float]:
    """How often each name comes, the most frequent one first."""
    counts = Counter(name for name in names if name is not None)
    return {name: count / counts.total() for name, count in counts.most_common()}


HEADINGS = (
    "cell",
    "d",
    "runs",
    "coverage (s.e.)",
    "lowest term",
    "unpenalised target only",
    "level of the test (s.e.)",
    "width / non-private (s.e.)",
    "widest term",
    "rmse / non-private (s.e.)",
    "target",
    "mode",
    "forecast / width",
    "s",
)


def coverage_table(cache: Cache, runs: int) -> str:
    """All cells that have a replication."""
    rows = []
    for cell in cache.found:
        lines = cache.lines(cell, runs)
        if lines:
            truth = population_of(cell.population, cell.d).truth.to_numpy()
            promised = cache.forecasts.get(cell, {}).get("width")
            rows.append(entries(cell, summarise(truth, lines, promised)))
    return markdown(HEADINGS, rows)


def entries(cell: Cell, found: Summary) -> list[str]:
    """One row of the table."""
    others = [f"{found.failed} failed"] if found.failed else []
    others += [f"{found.separable} separable"] if found.separable else []
    return [
        cell.name,
        str(found.d),
        ", ".join([str(found.runs), *others]),
        f"{number(found.coverage)} ({number(found.coverage_error)})",
        number(found.worst),
        number(found.given),
        "-" if math.isnan(found.level) else f"{number(found.level)} ({number(found.level_error)})",
        f"{number(found.width, 2)} ({number(found.width_error, 2)})",
        number(found.widest, 2),
        f"{number(found.rmse, 2)} ({number(found.rmse_error, 2)})",
        percents(found.targets),
        percents(found.modes),
        number(found.forecast, 2),
        number(found.seconds, 2),
    ]


def number(value: float, digits: int = 3) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def percents(found: dict[str, float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in found.items()) or "-"


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = [headings, ["---"] * len(headings)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [*head, *rows])


def growth_table(cache: Cache, runs: int) -> str:
    """Median widths by epsilon, term by term, and below each table what the intervals were."""
    headings = ["table", "promise", "term", "non-private", *(f"eps {e:g}" for e in GROWTH)]
    rows = []
    for name, promise in dict.fromkeys((cell.population, cell.promise) for cell in cache.found):
        cells = [Cell(name, promise, 0, LIKENESSES[name][0], epsilon) for epsilon in GROWTH]
        found = [cache.lines(cell, runs) if cell in cache.found else [] for cell in cells]
        if any(found):
            rows += growth_rows(name, promise, found)
    return markdown([*headings, "largest step up"], rows)


def growth_rows(name: str, promise: str, found: Sequence[Sequence[Line]]) -> list[list[str]]:
    """Rows of one table under one promise; the last column should nowhere be above 1.

    It is the largest factor by which more epsilon made an interval wider.
    """
    truth = population_of(name).truth
    made = [[line for line in lines if "failed" not in line] for lines in found]
    widths = np.array([median_width(lines, len(truth)) for lines in made])
    plain = [line["plain_width"] for lines in made for line in lines if line["plain_width"]]
    beside = np.median(np.reshape(plain, (-1, len(truth))), axis=0)
    rows = []
    for place, term in enumerate(truth.index):
        known = widths[~np.isnan(widths[:, place]), place]
        step = (known[1:] / known[:-1]).max(initial=0.0)
        shown = [*beside[[place]], *widths[:, place]]
        last = f"{step:.2f}" if step else "-"
        rows.append([name, promise, term, *(number(width) for width in shown), last])
    for told in ("target", "mode"):
        counted = [percents(shares(line[told] for line in lines)) for lines in made]
        rows.append([name, promise, f"*{told}*", "", *counted, ""])
    return rows


def median_width(lines: Sequence[Line], d: int) -> FloatArray:
    """Median widths ``(d,)``, NaN if there are no lines."""
    lower, upper = ends(lines, d)
    return np.median(upper - lower, axis=0) if lines else np.full(d, math.nan)
