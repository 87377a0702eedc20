"""How often private intervals hold the truth, and how wide they are beside those without privacy.

    PRIVATELR_DATA_HOME=folder python -m tests.studies.coverage [--cache folder] [--runs 500]
        [--workers 2] [--cells pure d=6,d=15 normal,null] [--tables adult bank] [--list]
        [--growth | --gate]

Everything goes through the public interface. One replication draws a sample from a population
whose logistic coefficients are known (`coverage_populations`), fits it with
``spend="inference"``, and asks for the default intervals and tests. Beside it stands logistic
regression without privacy on the same sample. A cell is a population, a promise, d coefficients, n
records and an epsilon; under zCDP rho is half of its square. ``--cells`` keeps the cells that have
one of the alternatives of every word. ``--growth`` prints the widths by epsilon on tables made up
in the likeness of three small published ones first, and ``--gate`` prints small studies with and
without a released scale.

A replication is a line in the file of its cell in the folder of ``--cache``, and what is there is
not run again: give a new folder to a new version of the package. A run that is killed loses no
more than the replications that it was at; one that is interrupted or terminated prints what it
has. One thread of linear algebra (``OMP_NUM_THREADS=1``) and a worker for each processor are the
fastest.

Columns of the table: the share of intervals that hold the true coefficient, with its standard
error, and that of the term that is held least; the same where the intervals are about the
coefficients without a penalty, as the truth is; the share of tests at 5 % that reject the
coefficient that is 0; widths over those without privacy, as geometric means over runs, of all
terms and of the widest; the root mean square of errors over standard errors without privacy; what
the intervals are about, and their mode; and widths that
`privatelr.plan` forecast from its default guesses over those that came.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .coverage_populations import GENERATORS, LIKENESSES, TABLE_COLUMNS
from .coverage_report import GROWTH, coverage_table, growth_table
from .coverage_runs import Cache, Cell, run_all
from .scale_tables import TABLES
from .tables import data_home

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PROMISES = ("pure", "zcdp", "approx")
SIZES = ((6, 10_000, 1.0), (6, 10_000, 4.0), (6, 2_000, 4.0), (15, 100_000, 1.0))
LARGE_SIZES = ((6, 100_000, 1.0), (6, 100_000, 4.0))
HARD_SIZES = ((6, 2_000, 1.0), (15, 10_000, 1.0), (15, 2_000, 4.0), (6, 500, 4.0))
"""Coefficients with the intercept, records and epsilon: usual ones, and harder ones."""
GATE_SIZES = ((6, 500, 4.0), (6, 2_000, 0.5), (15, 2_000, 2.0))
TABLE_SIZES = ((10_000, 1.0), (10_000, 4.0), (45_000, 1.0), (45_000, 4.0))
SMALL_TABLE = 5_000


def usual_cells(tables: Iterable[str]) -> Iterator[Cell]:
    """Every generator in the usual sizes and in harder ones, and some tables."""
    sizes = (*SIZES, *LARGE_SIZES, *HARD_SIZES)
    for (d, n, epsilon), name, promise in itertools.product(sizes, GENERATORS, PROMISES):
        yield Cell(name, promise, d, n, epsilon)
    for name, promise in itertools.product(tables, PROMISES):
        n = TABLES[name].n
        sized = ((n, 1.0), (n, 4.0)) if n < SMALL_TABLE else TABLE_SIZES
        yield from (Cell(name, promise, 0, size, epsilon) for size, epsilon in sized)


def gate_cells() -> Iterator[Cell]:
    """Studies in which the noise on a scale is large, each with and without one."""
    sized = [(name, 0, n, epsilon) for name, (n, _) in LIKENESSES.items() for epsilon in (1.0, 4.0)]
    sized += [(name, *size) for name in ("normal", "skewed") for size in GATE_SIZES]
    for (name, *size), promise in itertools.product(sized, ("pure", "approx")):
        yield Cell(name, promise, *size, False)
        yield Cell(name, promise, *size, "private")


def growth_cells() -> Iterator[Cell]:
    """Small studies with every epsilon."""
    for name, promise, epsilon in itertools.product(LIKENESSES, PROMISES, GROWTH):
        yield Cell(name, promise, 0, LIKENESSES[name][0], epsilon)


def chosen_cells(cells: Iterable[Cell], wanted: Sequence[str]) -> list[Cell]:
    """The cells that have one of the alternatives of every word."""
    return [c for c in cells if all(set(word.split(",")) & set(c.words) for word in wanted)]


def main() -> None:
    """Run what is missing, and print all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", nargs="*", default=[], metavar="WORD", help="as said above")
    usual = tuple(TABLE_COLUMNS) if data_home() else ()
    parser.add_argument("--tables", nargs="*", choices=tuple(TABLES), default=usual)
    parser.add_argument("--runs", type=int, default=500, help="replications of each cell")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--cache", type=Path, help="folder of replications, not made again")
    parser.add_argument("--growth", action="store_true", help="small studies by epsilon")
    parser.add_argument("--gate", action="store_true", help="small studies without a scale, too")
    parser.add_argument("--list", action="store_true", help="print the cells and do nothing")
    chosen = parser.parse_args()
    cells = growth_cells() if chosen.growth else usual_cells(chosen.tables)
    cells = gate_cells() if chosen.gate else cells
    wanted = chosen_cells(cells, chosen.cells)
    if chosen.list:
        print("\n".join(cell.name for cell in wanted))
        return
    cache = Cache(chosen.cache, wanted)
    try:
        run_all(cache, chosen.runs, chosen.workers)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
    if chosen.growth:
        print(growth_table(cache, chosen.runs))
    print(coverage_table(cache, chosen.runs), end="")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
