"""What the released length of rows does to intervals and estimates, on real tables.

    PRIVATELR_DATA_HOME=folder python -m tests.studies.lengths [--runs 40] [--cells adult,bank]
        [--records 10000] [--epsilons 1 4] [--promises pure approx] [--per-column 50 75 100]
        [--coefficients-alone]

A table is the population: samples are drawn from it with replacement, and its plain logistic
coefficients are the truth. Shown are the coverage of 95 % intervals in the mean and for the worst
term, their width over that of an interval without privacy (geometric mean), the root mean square of
errors over standard errors without privacy, and the median of the released length. With
``--coefficients-alone`` no intervals are bought.

The number of records that may be longer, for each coefficient and over epsilon, was chosen on adult
and bank, and is reported on the others. The last lines compare epsilon 10,000 with the plain fit.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import product

import numpy as np

from privatelr import PrivacyWarning, dplr
from privatelr.errors import PrivateLRError
from privatelr.mechanisms.stages import lengths

from .coverage_populations import population_of
from .coverage_runs import Cell, Z

TABLES = ("adult", "bank", "cod_rna", "kddcup99")
NEARLY_PLAIN = 1e4


def study(cell: Cell, runs: int, spend: str | None) -> str:
    """One line of the table."""
    source = population_of(cell.population, cell.d)
    truth = source.truth.to_numpy()
    public = {"bounds": source.bounds, "levels": source.levels}
    errors, covered, widths, released, failed = [], [], [], [], 0
    for run in range(runs):
        frame = source.sample(cell.n, np.random.default_rng([7, run, cell.n]))
        sd = source.fit_without_privacy(frame).sd
        try:
            fit = dplr(source.formula, frame, cell.guarantee, spend=spend, **public)
            if spend is None:
                estimate = fit.params.loc[source.truth.index].to_numpy(float)
            else:
                table = fit.tidy().set_index("term").loc[source.truth.index]
                estimate = table["estimate"].to_numpy(float)
                found = fit.conf_int().loc[source.truth.index].to_numpy(float)
                if np.isfinite(found).all():
                    covered.append((found[:, 0] <= truth) & (truth <= found[:, 1]))
                    widths.append((found[:, 1] - found[:, 0]) / (2 * Z * sd))
        except PrivateLRError:
            failed += 1
            continue
        errors.append((estimate - truth) / sd)
        released.append(fit.release.length or np.nan)
    line = f"{cell.name:34} rmse {np.sqrt(np.mean(np.square(errors))):5.2f}"
    line += f"  length {np.nanmedian(released):.3g}"
    if covered:
        share = np.mean(covered, axis=0)
        line += f"  coverage {share.mean():.3f} {share.min():.2f}"
        line += f"  width {np.exp(np.log(widths).mean()):.2f}"
        line += f"  withheld {len(errors) - len(covered)}"
    return line + (f"  failed {failed}" if failed else "")


def gap(population: str, n: int, promise: str, op: bool) -> float:
    """The largest distance to the plain fit at a huge epsilon, in standard errors."""
    source = population_of(population, 0)
    frame = source.sample(n, np.random.default_rng(n))
    plain = source.fit_without_privacy(frame)
    fit = dplr(
        source.formula, frame, Cell(population, promise, 0, n, NEARLY_PLAIN).guarantee,
        spend="inference", op=op, bounds=source.bounds, levels=source.levels,
    )  # fmt: skip
    estimate = fit.tidy().set_index("term")["estimate"].loc[source.truth.index]
    return float(np.abs((estimate.to_numpy(float) - plain.coef) / plain.sd).max())


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--cells", default=",".join(TABLES))
    parser.add_argument("--records", type=int, nargs="*", default=[10_000, 45_000])
    parser.add_argument("--epsilons", type=float, nargs="*", default=[1.0, 4.0])
    parser.add_argument("--promises", nargs="*", default=["pure", "approx"])
    parser.add_argument("--per-column", type=float, nargs="*", default=[lengths.PER_COLUMN])
    parser.add_argument("--columns", type=int, default=0)
    parser.add_argument("--coefficients-alone", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    spend = None if asked.coefficients_alone else "inference"
    names = asked.cells.split(",")
    for a in asked.per_column:
        lengths.PER_COLUMN = a
        print(f"{a:g} records that may be longer for each coefficient, over epsilon", flush=True)
        for name, n, eps, promise in product(names, asked.records, asked.epsilons, asked.promises):
            cell = Cell(name, promise, asked.columns, n, eps)
            print("  " + study(cell, asked.runs, spend), flush=True)
    print(f"epsilon {NEARLY_PLAIN:g} and the plain fit, largest distance in standard errors")
    for name, n, promise in product(names, asked.records, asked.promises):
        far = [gap(name, n, promise, op) for op in (True, False)]
        print(f"  {name} {n} {promise}: objective {far[0]:.2f}, output {far[1]:.2f}", flush=True)


if __name__ == "__main__":
    main()
