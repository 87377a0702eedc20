"""Noise in many dimensions: figure 1 (b), (c), (d) of Jain and Thakurta (2014) on Cod-RNA.

    PRIVATELR_DATA_HOME=folder python -m tests.studies.high_dimension [--runs N] [--full]

prints test accuracies of a Huber support vector machine under output and objective
perturbation, with spherical Laplace noise (pure) and Gaussian noise (delta = 1e-3): first by
epsilon at the 8 columns that there are, then by the number of columns, all further ones being
zero. ``--full`` takes 20 runs, with two lambdas, and stores the means in ``results``.

Columns of zeros need not be there. A coefficient of such a column is its noise alone and meets
zeros only, so of the noise in p dimensions the first 8 coordinates matter, and the calibration
knows p. For Gaussian noise these are 8 normal numbers. A spherical Laplace vector is a direction,
which is a vector of p normal numbers over its length, times a Gamma number: the squares of the
last p - 8 normal numbers add up to a chi-square number. A run with seed s splits the records by
s, 70 to 30, and draws its noise by s.

Figure (d) is the release of draws from the minimiser on the simplex, by the number of signed
columns, with numbers on [-1, 1] by mean and deviation of the whole table (taken for public) and a
column of ones. Columns of zeros all have one weight: they are one option that counts as often as
there are columns. Nothing in here is private.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.datasets import fetch_cod_rna
from privatelr.mechanisms import Problem, calibrate, read_request
from privatelr.mechanisms.calibration import penalty_costing
from privatelr.numerics import Huber, Objective
from privatelr.numerics.rows import DenseRows, EntryRows
from privatelr.numerics.solve import Newton
from privatelr.privacy import ApproxDP
from privatelr.privacy.noise import GaussianNoise, NoNoise, SeededRandomness, SphericalLaplace
from privatelr.selection.entropic import Entropic, entropic_minimum
from privatelr.selection.simplex import SimplexProblem, calibrate_simplex, draw_histogram

from .stored import store

if TYPE_CHECKING:
    from privatelr.mechanisms.calibration import Calibration
    from privatelr.privacy.noise import NoiseLaw
    from privatelr.types import FloatArray

H = 0.5
DELTA = 1e-3
WIDTH = 8
"""Columns that are not zero."""
EPSILONS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
WIDTHS = (8, 100, 1000, 10_000, 100_000)
BLOAT_EPSILONS = (0.5, 5.0)
LAMBDAS = (1e-3, 1e-4)
RUNS = 20
FEW_RUNS = 3
MECHANISMS = {
    "Output": (False, 0.0),
    "Output-Gauss": (False, DELTA),
    "Objective": (True, 0.0),
    "Objective-Gauss": (True, DELTA),
}


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Records to learn from, and to test."""

    rows: DenseRows
    x: FloatArray
    y: FloatArray

    def accuracy(self, coef: FloatArray) -> float:
        return float(np.mean(self.y * (self.x @ coef) > 0))


@lru_cache(maxsize=1)
def table() -> tuple[FloatArray, FloatArray]:
    """Numbers mapped onto [0, 1], rows of length one; and labels."""
    frame = fetch_cod_rna()
    raw = frame.drop(columns="label").to_numpy(dtype=np.float64)
    low, high = raw.min(axis=0), raw.max(axis=0)
    x = (raw - low) / (high - low)
    return x / np.linalg.norm(x, axis=1)[:, None], frame["label"].to_numpy(dtype=np.float64)


def split(seed: int) -> Split:
    """Seventy of a hundred records to learn from."""
    x, y = table()
    order = np.random.default_rng(seed).permutation(len(y))
    cut = len(y) * 7 // 10
    kept, held_out = order[:cut], order[cut:]
    return Split(DenseRows(x[kept], y[kept], bound=1.0, intercept=None), x[held_out], y[held_out])


@lru_cache(maxsize=512)
def calibrated(name: str, n: int, p: int, epsilon: float, lambda_: float) -> Calibration:
    """The package's own calibration of a mechanism in p dimensions.

    Lambda is raised where its curvature would cost objective perturbation more than half of
    epsilon, as at 0.02.
    """
    by_objective, delta = MECHANISMS[name]
    facts = Problem(n, p, Huber(H), 1.0)
    least = penalty_costing(facts, epsilon / 2) / n if by_objective else 0.0
    request = read_request(epsilon, delta, None, max(lambda_, least), by_objective, None, "keep")
    return calibrate(request, facts)


def first_coordinates(law: NoiseLaw, count: int, rng: np.random.Generator) -> FloatArray:
    """The first coordinates ``(count,)`` of one draw, with the law of all of them."""
    normals = rng.standard_normal(count)
    match law:
        case NoNoise():
            return np.zeros(count)
        case GaussianNoise(sd=sd):
            return sd * normals
        case SphericalLaplace(dimension=p, rate=rate):
            others = rng.chisquare(p - count) if p > count else 0.0
            length = rng.gamma(p) / rate
            return length * normals / np.sqrt(normals @ normals + others)
    raise TypeError(law)


@lru_cache(maxsize=4)
def plain(seed: int, lambda_: float) -> FloatArray:
    """The minimiser without noise."""
    return minimum(split(seed), lambda_, np.zeros(WIDTH))


def minimum(data: Split, lambda_: float, tilt: FloatArray) -> FloatArray:
    return Newton()(Objective(data.rows, Huber(H), lambda_, tilt)).w


def accuracy(name: str, seed: int, p: int, epsilon: float, lambda_: float) -> float:
    """Test accuracy of one fit in p dimensions, all but 8 of them zeros."""
    data = halves(seed)
    calibration = calibrated(name, data.rows.n, p, epsilon, lambda_)
    rng = np.random.default_rng([seed, p, round(1e4 * epsilon), list(MECHANISMS).index(name)])
    noise = first_coordinates(calibration.noise, WIDTH, rng)
    if calibration.placement == "output":
        return data.accuracy(plain(seed, lambda_) + noise)
    coef = minimum(data, calibration.lambda_, noise / data.rows.n)
    return data.accuracy(coef + first_coordinates(calibration.shield, WIDTH, rng))


@lru_cache(maxsize=2)
def halves(seed: int) -> Split:
    return split(seed)


# -- figure (d): the simplex ---------------------------------------------------------------------

SIMPLEX_LAMBDAS = (3000.0, 10_000.0)
"""Of the sum form."""
SIMPLEX_RADIUS = 20.0
SIMPLEX_EPSILON = 10.0
SIMPLEX_OPTIONS = (18, 100, 1000, 10_000, 100_000)


@lru_cache(maxsize=1)
def standard_table() -> tuple[FloatArray, FloatArray]:
    """Numbers on [-1, 1], and labels; mean and deviation are taken for public."""
    frame = fetch_cod_rna()
    raw = frame.drop(columns="label").to_numpy(dtype=np.float64)
    x = np.clip((raw - raw.mean(axis=0)) / (2.5 * raw.std(axis=0)), -1, 1)
    return x, frame["label"].to_numpy(dtype=np.float64)


def simplex_accuracy(seed: int, options: int, lambda_: float) -> tuple[float, float]:
    """Test accuracy of the released histogram, and of the minimiser that nobody may see."""
    x, y = standard_table()
    order = np.random.default_rng(seed).permutation(len(y))
    cut = len(y) * 7 // 10
    kept, held_out = order[:cut], order[cut:]
    loss, radius = Huber(H), SIMPLEX_RADIUS
    columns = np.column_stack([x[kept], np.zeros(cut)])  # the last stands for all of zeros
    rows = EntryRows(columns, y[kept], x_bound=1.0, intercept=1.0)
    facts = SimplexProblem(cut, options // 2, 1.0, radius, loss)
    target = ApproxDP(SIMPLEX_EPSILON, DELTA)
    calibration = calibrate_simplex(facts, target, lambda_ / cut)
    zeros = (options - 2 * (rows.d - 1)) / 2
    prior = np.zeros(2 * rows.d)
    prior[[rows.d - 1, -1]] = np.log(zeros) if zeros else -700.0
    objective = Entropic(rows, loss, radius, calibration.problem.penalty, prior)
    logs = entropic_minimum(objective, calibration.tolerance)
    chances = np.exp(logs - logs.max())
    counts = draw_histogram(logs, calibration.draws, SeededRandomness(seed))
    tested = np.column_stack([np.ones(len(held_out)), x[held_out], np.zeros(len(held_out))])

    def correct(shares: FloatArray) -> float:
        coef = radius * (shares[: rows.d] - shares[rows.d :]) / shares.sum()
        return float(np.mean(y[held_out] * (tested @ coef) > 0))

    return correct(counts.astype(float)), correct(chances)


def simplex_cells(runs: int) -> list[tuple[float, int, FloatArray, FloatArray]]:
    """Lambda, options, accuracies ``(runs,)`` of the release and of the minimiser."""
    found = []
    for lambda_ in SIMPLEX_LAMBDAS:
        for options in SIMPLEX_OPTIONS:
            pairs = [simplex_accuracy(seed, options, lambda_) for seed in range(runs)]
            released, plain_ = np.array(pairs).T
            found.append((lambda_, options, released, plain_))
    return found


# -- the tables ----------------------------------------------------------------------------------

Cell = tuple[str, int, float, float]
"""Mechanism, columns, epsilon, lambda."""


def cells(full: bool) -> list[Cell]:
    """Figure (b) at 8 columns, figure (c) at all widths."""
    lambdas = LAMBDAS if full else LAMBDAS[:1]
    by_epsilon = [(name, WIDTH, e, LAMBDAS[0]) for name in MECHANISMS for e in EPSILONS]
    by_width = [
        (name, p, e, lambda_)
        for lambda_ in lambdas
        for name in MECHANISMS
        for e in BLOAT_EPSILONS
        for p in WIDTHS
    ]
    return list(dict.fromkeys(by_epsilon + by_width))


def run(wanted: list[Cell], runs: int) -> dict[Cell, FloatArray]:
    """Accuracies ``(runs,)`` of each cell; a seed at a time, so that a split is read once."""
    found: dict[Cell, list[float]] = {cell: [] for cell in wanted}
    for seed in range(runs):
        for name, p, epsilon, lambda_ in wanted:
            found[name, p, epsilon, lambda_].append(accuracy(name, seed, p, epsilon, lambda_))
    return {cell: np.array(values) for cell, values in found.items()}


def summary(values: FloatArray) -> list[float]:
    """Mean and standard deviation."""
    return [round(float(np.mean(values)), 4), round(float(np.std(values, ddof=1)), 4)]


def results(full: bool, runs: int) -> dict[str, Any]:
    """Everything that is stored: a list of settings, mean and deviation for each figure."""
    found = run(cells(full), runs)
    plains = {
        lambda_: np.array([halves(s).accuracy(plain(s, lambda_)) for s in range(runs)])
        for lambda_ in (LAMBDAS if full else LAMBDAS[:1])
    }
    return {
        "runs": runs,
        "delta": DELTA,
        "perturbation": [[*cell, *summary(values)] for cell, values in found.items()],
        "plain": [[lambda_, *summary(values)] for lambda_, values in plains.items()],
        "simplex": [
            [lambda_, options, *summary(released), *summary(hidden)]
            for lambda_, options, released, hidden in simplex_cells(runs)
        ],
    }


def report(found: dict[str, Any]) -> list[str]:
    """Markdown tables: by epsilon; by columns, for each lambda; the simplex by columns."""
    cell = {tuple(entry[:4]): entry[4:] for entry in found["perturbation"]}

    def row(name: str, keys: list[Cell]) -> str:
        return f"| {name} |" + "".join(f" {text(*cell[key])} |" for key in keys)

    by_epsilon = [
        heading("epsilon", [f"{e:g}" for e in EPSILONS]),
        *(row(name, [(name, WIDTH, e, LAMBDAS[0]) for e in EPSILONS]) for name in MECHANISMS),
    ]
    tables = ["\n".join(by_epsilon)]
    for lambda_, *_ in found["plain"]:
        lines = [heading("columns", [f"{p:,}" for p in WIDTHS])]
        for e in BLOAT_EPSILONS:
            for name in MECHANISMS:
                lines.append(row(f"{name}, {e:g}", [(name, p, e, lambda_) for p in WIDTHS]))
        tables.append("\n".join(lines))
    shares = {(lambda_, options): rest for lambda_, options, *rest in found["simplex"]}
    lines = [heading("signed columns", [f"{p:,}" for p in SIMPLEX_OPTIONS])]
    for lambda_ in SIMPLEX_LAMBDAS:
        for title, first in (("released", 0), ("minimiser", 2)):
            values = (text(*shares[lambda_, p][first : first + 2]) for p in SIMPLEX_OPTIONS)
            lines.append(f"| {title}, {lambda_:g} |" + "".join(f" {value} |" for value in values))
    return [*tables, "\n".join(lines)]


def simplex_report(found: list[list[Any]]) -> str:
    """Markdown table of what `simplex_cod_rna` stored: accuracies by loss and epsilon."""
    epsilons = list(dict.fromkeys(epsilon for _, epsilon, *_ in found))
    cell = {(case, epsilon): rest for case, epsilon, *rest in found}
    lines = [heading("epsilon", [f"{e:g}" for e in epsilons])]
    for case in dict.fromkeys(case for case, _ in cell):
        values = [cell[case, e] for e in epsilons]
        lines.append(f"| {case} |" + "".join(f" {mean:.3f} |" for _, _, mean, _ in values))
        lines.append("| draws |" + "".join(f" {draws:,} |" for _, draws, _, _ in values))
    return "\n".join(lines)


def heading(title: str, names: list[str]) -> str:
    return (
        f"| {title} |" + "".join(f" {name} |" for name in names) + "\n|---|" + "--:|" * len(names)
    )


def text(mean: float, deviation: float) -> str:
    return f"{mean:.3f} ± {deviation:.3f}"


def main() -> None:
    """Print the tables, and store them if the run is a full one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, help=f"by default {FEW_RUNS}, or {RUNS} with --full")
    parser.add_argument("--full", action="store_true", help="both lambdas; the means are stored")
    chosen = parser.parse_args()
    found = results(chosen.full, chosen.runs or (RUNS if chosen.full else FEW_RUNS))
    print("\n\n".join(report(found)))
    if chosen.full:
        command = " ".join(["python -m tests.studies.high_dimension", *sys.argv[1:]])
        print("stored in", store("high_dimension", command, found))


if __name__ == "__main__":
    main()
