"""What intervals hold beside a number that hardly varies within its bounds.

    python -m tests.studies.hidden [--runs 100] [--ratios 5 250] [--sizes 10000,1 2000,4]
        [--always]

Studies are those of `coverage_populations.hidden_confounder`: the largest effect is that of a
column z whose deviation is half the width of its bounds over a ratio, and a column without an
effect is correlated .6 with it. A row has the share of fits whose page gives the coefficients
without a penalty, and the shares of their intervals that hold the true ones: of all terms, of z,
and of the null. Then come the same shares of the other pages, whose intervals are about the
penalised coefficients. Those are the minimisers of each fit's own objective on many records.
Widths are geometric means of all terms, over those of a logistic regression without privacy.
``--always`` prints what would be held if no number counted as thin.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr import PrivacyWarning, dplr
from privatelr.design import read_design
from privatelr.inference import noisy_moments
from privatelr.numerics.objective import Objective, hessian, value_and_gradient
from privatelr.numerics.rows import DenseRows
from privatelr.sources import Batch, as_batch

from .coverage_populations import RATIOS, population_of
from .coverage_report import UNPENALISED, geometric_mean, markdown, number
from .coverage_runs import Cell, Z

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privatelr import Fit
    from privatelr.types import BoolArray, FloatArray

D = 6
SIZES = ((10_000, 1.0), (2_000, 4.0), (100_000, 1.0))
"""Records and epsilon."""
_MANY, _MOST = 10, 400_000
"""Records, as a multiple of n and at most, on which the penalised coefficients are computed."""
_STEPS, _SMALL = 12, 1e-9
"""Newton steps from 0 at most, and the gradient that ends them."""


@lru_cache(maxsize=1)
def many_records(name: str, n: int) -> Batch:
    """Records of a population, the same ones at every call."""
    count = min(_MANY * n, _MOST)
    return as_batch(population_of(name, D).sample(count, np.random.default_rng(99)))


def penalised_truth(fit: Fit, batch: Batch) -> FloatArray:
    """The coefficients that minimise the objective of a fit on other records, in user's units."""
    rows, problem = read_design(fit.spec, batch, DenseRows), fit.release.calibration.problem
    objective = Objective(rows, problem.loss, problem.lambda_, np.zeros(rows.d))
    w = np.zeros(rows.d)
    for _ in range(_STEPS):
        _, gradient = value_and_gradient(objective, w)
        if np.linalg.norm(gradient) < _SMALL:
            break
        w = w - np.linalg.solve(hessian(objective, w), gradient)
    return np.asarray(fit.spec.user_rows() @ w)


def replicate(cell: Cell, run: int) -> dict[str, Any]:
    """One fit: its target, which of its intervals hold their truth, and how wide they are."""
    source = population_of(cell.population, cell.d)
    rng = np.random.default_rng([zlib.crc32(cell.name.encode()), run])
    frame, seed = source.sample(cell.n, rng), int(rng.integers(2**63))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of the seed
        public: dict[str, Any] = {"bounds": source.bounds, "levels": source.levels}
        fit = dplr(source.formula, frame, cell.guarantee, spend="inference", seed=seed, **public)
    found = fit.conf_int()
    lower, upper = found.loc[source.truth.index].to_numpy(dtype=np.float64).T
    truth, target = source.truth.to_numpy(), found.attrs["target"]
    if target != UNPENALISED:
        own = penalised_truth(fit, many_records(cell.population, cell.n))
        truth = own[[list(fit.spec.columns.names).index(term) for term in source.truth.index]]
    plain = 2 * Z * source.fit_without_privacy(frame).sd
    return {
        "given": target == UNPENALISED,
        "held": (lower <= truth) & (truth <= upper),
        "width": np.log((upper - lower) / plain),
    }


def entries(cell: Cell, lines: Sequence[dict[str, Any]]) -> list[str]:
    """One row of the table."""
    terms = list(population_of(cell.population, cell.d).truth.index)
    given = np.array([line["given"] for line in lines], dtype=bool)
    row = [cell.name, str(len(lines)), number(float(given.mean()), 2)]
    for chosen in (given, ~given):
        held = np.array([line["held"] for line in lines])[chosen].reshape(-1, len(terms))
        row += shares(held, terms.index("z"), terms.index("null"))
        row.append(number(geometric_mean(np.array([line["width"] for line in lines])[chosen]), 1))
    return row


def shares(held: BoolArray, *places: int) -> list[str]:
    """Of all terms and of some of them; dashes where there are no fits."""
    if not len(held):
        return ["-"] * (1 + len(places))
    return [number(float(held.mean()), 2), *(number(float(held[:, p].mean()), 2) for p in places)]


HEADINGS = (
    "cell",
    "fits",
    "given",
    *("without a penalty: all", "z", "null", "width"),
    *("penalised: all", "z", "null", "width"),
)


def main() -> None:
    """Run all of it, one cell after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="fits of each cell")
    parser.add_argument("--ratios", nargs="*", type=int, choices=RATIOS, default=RATIOS)
    usual = [f"{n},{epsilon:g}" for n, epsilon in SIZES]
    parser.add_argument("--sizes", nargs="*", default=usual, help="records,epsilon")
    parser.add_argument("--promises", nargs="*", default=["pure", "approx"])
    parser.add_argument("--always", action="store_true", help="as if no number were thin")
    chosen = parser.parse_args()
    if chosen.always:
        noisy_moments.thin_numbers = lambda scale, evidence: []
    print(markdown(HEADINGS, []), end="")
    for size, ratio, promise in itertools.product(chosen.sizes, chosen.ratios, chosen.promises):
        n, epsilon = size.split(",")
        cell = Cell(f"hidden{ratio}", promise, D, int(n), float(epsilon))
        row = entries(cell, [replicate(cell, run) for run in range(chosen.runs)])
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
