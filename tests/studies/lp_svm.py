"""The linear-program support vector machine on Adult and KDDCup99: as printed, and corrected.

    PRIVATELR_DATA_HOME=folder python -m tests.studies.lp_svm [--part table] [--full]

Parts: ``table`` is Table 1 of the thesis "Solving Linear Programs to Train SVMs under
Differential Privacy", non-private test errors in ten folds; ``density``, ``alpha``, ``epsilon``
and ``slack`` are its Figures 1 (both halves), 2 and 3; ``sweep`` is the non-private method at
other densities; ``corrected`` is the method of this package at delta = 1e-6; ``objective`` is
objective perturbation of the Huber machine, at the lambda that tests best. A part is a dictionary
from its settings to one test error a fold.

Folds are those of seed 0. Fold f draws its noise by the seed 100 + f (``epsilon``, ``slack``),
300 + f (``density``, ``alpha``), 5000 + f (``corrected``) or 6000 + f (``objective``). Without
``--full``, fewer folds and settings are run, in about two minutes; with it the means are stored
in ``results``. Nothing in here is private.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr import GuaranteeError
from privatelr.datasets import fetch_adult, fetch_kddcup99, load_schema
from privatelr.mechanisms import Problem, calibrate, read_request
from privatelr.numerics import Huber, Objective
from privatelr.numerics.rows import DenseRows, EntryRows, few_are_filled
from privatelr.numerics.solve import Newton
from privatelr.privacy import ApproxDP, NonPrivate
from privatelr.privacy.noise import SeededRandomness
from privatelr.selection.multiplicative_weights import (
    ProgramFacts,
    calibrate_program,
    release_program,
)
from tests.support.printed_thesis import dmw_svm_thesis

from .high_dimension import first_coordinates
from .stored import store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from privatelr.types import FloatArray, IntArray
    from tests.support.printed_thesis import ThesisFit

H = 0.5
DELTA = 1e-6
FOLDS = 10
RECORDS = 70_000
LAMBDAS = {"adult": 1e-3, "kdd": 1e-2}
"""Of the plain Huber machine."""
PUBLISHED = {"adult": (0.248, 0.173, 0.243), "kdd": (0.195, 0.025, 0.063)}
"""Of Table 1: one class for all, the plain Huber machine, the method without privacy."""
MEASURED = {"adult": (0.2478, 0.1688, 0.2428), "kdd": (0.2002, 0.0259, 0.0647)}
CLOSE = 0.01
THESIS_DENSITY = 0.75


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A coded table.

    Attributes
    ----------
    covariates : ndarray of shape (n, p)
        Numbers on [-1, 1] by the range of the whole table, a column of zeros and ones for each
        level.
    labels : ndarray of shape (n,)
        -1 or +1.
    folds : list of ndarray
        Positions of the records to test.
    """

    covariates: FloatArray
    labels: FloatArray
    folds: list[IntArray]

    @property
    def raw(self) -> FloatArray:
        """Rows ``(n, d)`` with a column of ones before the covariates."""
        return np.column_stack([np.ones(len(self.labels)), self.covariates])

    @property
    def unit(self) -> FloatArray:
        """The same, every row scaled to length one."""
        rows = self.raw
        return rows / np.linalg.norm(rows, axis=1)[:, None]

    def kept(self, fold: int) -> IntArray:
        """Positions of the records to learn from."""
        return np.setdiff1d(np.arange(len(self.labels)), self.folds[fold])


def coded(frame: pd.DataFrame, schema: str, response: str) -> FloatArray:
    """Covariates by the public schema: full columns of indicators, as the thesis counts them."""
    bounds = load_schema(schema)["bounds"]
    parts = []
    for name, column in frame.drop(columns=response).items():
        if name in bounds:
            low, high = bounds[name]
            parts.append((2 * (column.to_numpy(float) - low) / (high - low) - 1)[:, None])
        else:
            parts.append(pd.get_dummies(column).to_numpy(float))
    return np.hstack(parts)


@lru_cache(maxsize=2)
def table(data: str) -> Table:
    """All complete records of Adult; random records of KDDCup99, +1 being an attack."""
    if data == "adult":
        frame = fetch_adult()
        x, positive = coded(frame, "adult", "income"), frame["income"] == ">50K"
    else:
        frame = fetch_kddcup99()
        chosen = np.random.default_rng(0).permutation(len(frame))[:RECORDS]
        frame = frame.iloc[chosen]
        x, positive = coded(frame, "kddcup99", "connection"), frame["connection"] != "normal"
    y = np.where(positive, 1.0, -1.0)
    return Table(x, y, np.array_split(np.random.default_rng(0).permutation(len(y)), FOLDS))


def entries(covariates: FloatArray, labels: FloatArray, intercept: float | None) -> EntryRows:
    """Rows with entries in [-1, 1], held without zeros where that is faster."""
    held = covariates
    if few_are_filled(float(np.mean(covariates[:500] != 0))):
        held = sparse.csr_array(covariates)
    return EntryRows(held, labels, x_bound=1.0, intercept=intercept)


def error_of(rows: FloatArray, labels: FloatArray, coef: FloatArray) -> float:
    return float(np.mean(labels * (rows @ coef) <= 0))


# -- the corrected method, and what it is compared with ------------------------------------------

Setting = tuple[str | float | None, ...]
Part = dict[Setting, "FloatArray"]


def corrected(data: str, density: float, epsilon: float, folds: int) -> FloatArray:
    """Test errors ``(folds,)`` at this total epsilon and delta = 1e-6; 0 is without privacy."""
    read = table(data)
    target = ApproxDP(epsilon, DELTA) if epsilon else NonPrivate()
    errors = []
    for fold in range(folds):
        kept, held_out = read.kept(fold), read.folds[fold]
        rows = entries(read.covariates[kept], read.labels[kept], 1.0)
        calibration = calibrate_program(ProgramFacts(rows.n, rows.d, 1.0, density), target)
        coef = release_program(rows, calibration, SeededRandomness(5000 + fold)).coef
        errors.append(error_of(read.raw[held_out], read.labels[held_out], coef))
    return np.array(errors)


def objective(data: str, lambda_: float, epsilon: float, delta: float, folds: int) -> FloatArray:
    """Test errors ``(folds,)`` of objective perturbation; NaN where this lambda is too small."""
    read = table(data)
    unit = read.unit
    errors = []
    for fold in range(folds):
        kept, held_out = read.kept(fold), read.folds[fold]
        rows = DenseRows(unit[kept], read.labels[kept], bound=1.0, intercept=None)
        request = read_request(epsilon, delta, None, lambda_, True, None, "keep")
        try:
            calibration = calibrate(request, Problem(rows.n, rows.d, Huber(H), 1.0))
        except GuaranteeError:
            return np.full(folds, math.nan)
        rng = np.random.default_rng(6000 + fold)
        tilt = first_coordinates(calibration.noise, rows.d, rng) / rows.n
        coef = Newton()(Objective(rows, Huber(H), calibration.lambda_, tilt)).w
        errors.append(error_of(unit[held_out], read.labels[held_out], coef))
    return np.array(errors)


CORRECTED = {
    "adult": [(nu, eps) for nu in (0.25, 0.4) for eps in (0.05, 0.1, 0.2, 0.5, 1.0)],
    "kdd": [(0.1, eps) for eps in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)],
}


def corrected_part(full: bool) -> Iterator[tuple[Setting, FloatArray]]:
    for data, settings in CORRECTED.items():
        for density, epsilon in settings:
            if full or epsilon in (0.1, 0.2):
                folds = FOLDS if full else 3
                yield (data, density, epsilon), corrected(data, density, epsilon, folds)


def objective_part(full: bool) -> Iterator[tuple[Setting, FloatArray]]:
    for data, settings in CORRECTED.items():
        for epsilon in sorted({eps for _, eps in settings}):
            for delta in (0.0, DELTA) if full else (0.0,):
                for lambda_ in (1e-4, 1e-3, 1e-2) if full else (1e-3,):
                    if full or epsilon == 0.1:
                        folds = 5 if full else 1
                        found = objective(data, lambda_, epsilon, delta, folds)
                        yield (data, lambda_, epsilon, delta), found


def sweep_part(full: bool) -> Iterator[tuple[Setting, FloatArray]]:
    """Without privacy, by density."""
    for density in (0.02, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9) if full else (0.1, 0.75):
        yield ("adult", density), corrected("adult", density, 0.0, FOLDS if full else 1)


# -- the method as printed -----------------------------------------------------------------------


def printed(data: str, epsilon: float, folds: int, seed: int, **arguments: Any) -> list[ThesisFit]:
    """The algorithm of the thesis on unit rows, a fit for each fold."""
    read = table(data)
    unit = read.unit
    fits = []
    for fold in range(folds):
        kept = read.kept(fold)
        ball = DenseRows(unit[kept], read.labels[kept], bound=1.0, intercept=None)
        rows = entries(unit[kept], read.labels[kept], None)
        randomness = SeededRandomness(seed + fold)
        fits.append(dmw_svm_thesis(ball, rows, epsilon, LAMBDAS[data], randomness, **arguments))
    return fits


def errors_of(data: str, coefs: list[FloatArray]) -> FloatArray:
    """Test errors of one vector of coefficients for each fold, on unit rows."""
    read = table(data)
    unit = read.unit
    return np.array(
        [
            error_of(unit[held_out], read.labels[held_out], coef)
            for held_out, coef in zip(read.folds, coefs, strict=False)
        ]
    )


def table_part(full: bool) -> Iterator[tuple[Setting, FloatArray]]:
    """Table 1; all ten folds even in a short run."""
    for data in LAMBDAS:
        read = table(data)
        first = np.eye(1, read.covariates.shape[1] + 1)[0]
        constants = [first * np.sign(read.labels[read.kept(f)].mean()) for f in range(FOLDS)]
        yield (data, "fixed"), errors_of(data, constants)
        fits = printed(data, math.inf, FOLDS, 0)
        yield (data, "qp"), errors_of(data, [fit.objective_coef for fit in fits])
        yield (data, "dmw"), errors_of(data, [fit.coef for fit in fits])


def density_part(full: bool) -> Iterator[tuple[Setting, FloatArray]]:
    """Figure 1: epsilon = 0.1, by the share s / n."""
    for data in LAMBDAS:
        for density in (0.1, 0.25, 0.5, 0.75, 0.9, 0.99) if full else (0.1, 0.75):
            fits = printed(data, 0.1, FOLDS if full else 1, 300, density=density, most_rounds=1000)
            yield (data, density), errors_of(data, [fit.coef for fit in fits])


def alpha_part(full: bool) -> Iterator[tuple[Setting, FloatArray]]:
    """Figure 1, its other half: epsilon = 0.1, by alpha, which decides about the rounds alone."""
    for data in LAMBDAS:
        for alpha in (50.0, 100.0, 200.0, 400.0, 800.0) if full else (800.0,):
            fits = printed(data, 0.1, FOLDS if full else 1, 300, alpha=alpha, most_rounds=1000)
            yield (data, alpha), errors_of(data, [fit.coef for fit in fits])


def epsilon_part(full: bool) -> Iterator[tuple[Setting, FloatArray]]:
    """Figure 2: objective perturbation, and the two algorithms that begin with it."""
    for data in LAMBDAS:
        for epsilon in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if full else (0.5,):
            folds = FOLDS if full else 1
            fits = printed(data, epsilon, folds, 100)
            yield (
                (data, epsilon, "objective"),
                errors_of(data, [fit.objective_coef for fit in fits]),
            )
            yield (data, epsilon, "margin"), errors_of(data, [fit.coef for fit in fits])
            fits = printed(data, epsilon, folds, 100, score="count")
            yield (data, epsilon, "count"), errors_of(data, [fit.coef for fit in fits])


def slack_part(full: bool) -> Iterator[tuple[Setting, FloatArray]]:
    """Figure 3: the alternative scores at epsilon = 0.1, by their slack."""
    for data in LAMBDAS:
        for slack in (0.0, 0.3, 0.6, 0.9, 1.0, 1.2) if full else (0.9, 1.0):
            folds = FOLDS if full else 1
            fits = printed(data, 0.1, folds, 100, score="count", slack=slack)
            yield (data, slack), errors_of(data, [fit.coef for fit in fits])


PARTS = {
    "table": table_part,
    "density": density_part,
    "alpha": alpha_part,
    "epsilon": epsilon_part,
    "slack": slack_part,
    "sweep": sweep_part,
    "corrected": corrected_part,
    "objective": objective_part,
}


# -- reading what was stored ---------------------------------------------------------------------

Stored = dict[str, list[list[Any]]]


def means(part: list[list[Any]]) -> dict[Setting, float]:
    return {tuple(setting): float(np.mean(errors)) for setting, errors in part}


def texts(part: list[list[Any]]) -> dict[Setting, str]:
    """Mean and standard deviation over the folds."""
    return {
        tuple(setting): f"{np.mean(errors):.3f} ± {np.std(errors, ddof=1):.3f}"
        for setting, errors in part
    }


def best_objective(found: Stored, data: str, delta: float) -> dict[float, tuple[float, float]]:
    """By epsilon, the mean test error and the lambda of the best of the lambdas."""
    best: dict[float, tuple[float, float]] = {}
    for (name, lambda_, epsilon, excess), error in means(found["objective"]).items():
        if (name, excess) == (data, delta) and not math.isnan(error):
            best[epsilon] = min(best.get(epsilon, (math.inf, 0.0)), (error, lambda_))
    return best


def curves(found: Stored, data: str) -> dict[str, dict[float, float]]:
    """Mean test errors by epsilon, for a picture."""
    fixed = means(found["corrected"])
    drawn = {
        f"corrected, density {density:g}": {
            e: error for (name, nu, e), error in fixed.items() if (name, nu) == (data, density)
        }
        for density in sorted({nu for name, nu, _ in fixed if name == data})
    }
    for title, delta in (("pure", 0.0), ("delta 1e-6", DELTA)):
        drawn[f"objective perturbation, {title}"] = {
            e: error for e, (error, _) in best_objective(found, data, delta).items()
        }
    as_printed = means(found["epsilon"])
    for title, kind in (("as printed, margins", "margin"), ("as printed, counts", "count")):
        drawn[title] = {
            e: error for (name, e, k), error in as_printed.items() if (name, k) == (data, kind)
        }
    return drawn


def markdown(title: str, names: list[str], rows: dict[str, list[str]]) -> str:
    head = f"| {title} |" + "".join(f" {name} |" for name in names)
    body = [f"| {name} |" + "".join(f" {cell} |" for cell in row) for name, row in rows.items()]
    return "\n".join([head, "|---|" + "--:|" * len(names), *body])


TITLES = {"adult": "Adult", "kdd": "KDDCup99"}


def report(found: Stored) -> dict[str, str]:
    """Markdown tables by part."""
    made = {"table": _table_one(found["table"])}
    for part, title in (("density", "s / n"), ("alpha", "alpha"), ("slack", "phi")):
        made[part] = _by_number(found[part], title)
    made["epsilon"] = _figure_two(found["epsilon"])
    swept = texts(found["sweep"])
    names = [f"{density:g}" for _, density in swept]
    made["sweep"] = markdown("s / n", names, {"Adult": list(swept.values())})
    made["corrected"] = "\n\n".join(_compared(found, data) for data in LAMBDAS)
    return made


def _table_one(part: list[list[Any]]) -> str:
    cells, rows = texts(part), {}
    for data, title in TITLES.items():
        rows[title] = [cells[data, kind] for kind in ("fixed", "qp", "dmw")]
        rows[f"{title}, thesis"] = [f"{value:.3f}" for value in PUBLISHED[data]]
    return markdown("test error", ["Fixed", "QP-SVM", "DMW"], rows)


def _by_number(part: list[list[Any]], title: str) -> str:
    cells = texts(part)
    numbers = list(dict.fromkeys(number for _, number in cells))
    rows = {name: [cells[data, x] for x in numbers] for data, name in TITLES.items()}
    return markdown(title, [f"{x:g}" for x in numbers], rows)


def _figure_two(part: list[list[Any]]) -> str:
    cells = texts(part)
    epsilons = list(dict.fromkeys(epsilon for _, epsilon, _ in cells))
    kinds = {"objective": "Algorithm 2", "margin": "Algorithm 3", "count": "Alternative"}
    rows = {
        f"{title}, {kinds[kind]}": [cells[data, e, kind] for e in epsilons]
        for data, title in TITLES.items()
        for kind in kinds
    }
    return markdown("epsilon", [f"{e:g}" for e in epsilons], rows)


def _compared(found: Stored, data: str) -> str:
    cells = texts(found["corrected"])
    densities = sorted({nu for name, nu, _ in cells if name == data})
    epsilons = sorted({e for name, _, e in cells if name == data})
    rows = {
        f"corrected, density {nu:g}": [cells[data, nu, e] for e in epsilons] for nu in densities
    }
    for title, delta in (("pure", 0.0), ("delta 1e-6", DELTA)):
        best = best_objective(found, data, delta)
        rows[f"objective perturbation, {title}"] = [f"{best[e][0]:.3f}" for e in epsilons]
    return markdown(f"{TITLES[data]}, epsilon", [f"{e:g}" for e in epsilons], rows)


def line(setting: Setting, errors: FloatArray) -> str:
    names = " ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in setting)
    deviation = f" +- {np.std(errors, ddof=1):.4f}" if len(errors) > 1 else ""
    return f"{names:<32} {np.mean(errors):.4f}{deviation}"


def main() -> None:
    """Run one part or all, and store the errors if the run is a full one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=tuple(PARTS), action="append", help="by default all")
    parser.add_argument("--full", action="store_true", help="all settings, ten folds; stored")
    chosen = parser.parse_args()
    for part in chosen.part or PARTS:
        began = time.monotonic()
        print(f"-- {part}")
        found = []
        for setting, errors in PARTS[part](chosen.full):
            print(line(setting, errors), flush=True)
            if np.isfinite(errors).all():  # NaN: that lambda is too small for this target
                found.append([list(setting), [round(float(error), 5) for error in errors]])
        print(f"   {time.monotonic() - began:.0f} s")
        if chosen.full:
            command = f"python -m tests.studies.lp_svm --part {part} --full"
            print("stored in", store("lp_svm", command, {part: found}))


if __name__ == "__main__":
    main()
