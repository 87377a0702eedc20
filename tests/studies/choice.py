"""Whether a choice among fits is worth its price: `choose` beside one formula that gets all of it.

    PRIVATELR_DATA_HOME=folder python -m tests.studies.choice [--runs N] [--tables bank german]

There are two formulas for each table: three columns, the first ones as they are declared, and all
columns. Four fifths of the records are for learning, and AUCs are those of the rest. Either all of
the learning records and all of epsilon go to one formula, that of three columns or that of all; or
three quarters of them go to both formulas, at half of epsilon each, and the last quarter to
`choose`, at epsilon, so that each record pays epsilon in every case. The last columns are about
what was chosen: how often it was the fit with the larger AUC on the test records, and how much AUC
the other cases lost.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import TYPE_CHECKING

import numpy as np

from privatelr import PrivacyWarning, choose, dplr
from privatelr.numerics import c_index

from .scale import mean_and_error, runs_of, split
from .scale_tables import TABLES, read_table
from .tables import HOME, data_home

if TYPE_CHECKING:
    import pandas as pd

    from privatelr.results import Fit

    from .scale_tables import Table

USUAL = ("adult", "bank", "cod_rna", "german", "titanic", "spambase", "transfusion", "anes96")
EPSILONS = (0.25, 0.5, 1.0, 2.0)
FEW = 3
COLUMNS = ("few columns", "all columns", "chosen", "larger AUC chosen", "AUC lost")


def formulas(table: Table) -> dict[str, str]:
    """Return the formula of the first columns and that of all of them."""
    names = [*table.bounds, *table.levels]
    return {"few": f"{table.response} ~ {' + '.join(names[:FEW])}", "all": table.formula}


def area(fit: Fit, table: Table, test: pd.DataFrame) -> float:
    """Return the exact AUC on the test records."""
    link = np.asarray(fit.predict(test, "link"), dtype=np.float64)
    return float(c_index(link, test[table.response].to_numpy(dtype=bool)))


def one_run(table: Table, parts: tuple[pd.DataFrame, pd.DataFrame], epsilon: float) -> list[float]:
    """Return the numbers of `COLUMNS`."""
    learn, test = parts
    known = {"bounds": table.bounds, "levels": table.levels}
    wanted = formulas(table)
    alone = [dplr(formula, learn, eps=epsilon, **known) for formula in wanted.values()]
    cut = len(learn) * 3 // 4  # the order of the records is random
    fits = {
        label: dplr(formula, learn[:cut], eps=epsilon / 2, **known)
        for label, formula in wanted.items()
    }
    chosen = choose(fits, learn[cut:], eps=epsilon)
    areas = {label: area(fit, table, test) for label, fit in fits.items()}
    mine, most = areas[chosen.label], max(areas.values())
    return [*(area(fit, table, test) for fit in alone), mine, float(mine == most), most - mine]


def main() -> None:
    """Fit, choose, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=24, help="splits; a quarter of a large table")
    parser.add_argument("--tables", nargs="+", choices=tuple(TABLES), default=USUAL)
    chosen = parser.parse_args()
    home = data_home()
    if home is None:
        parser.error(f"{HOME} is not set; it names the folder of the tables.")
    print(f"{'':<20}" + "".join(f"{title:>20}" for title in COLUMNS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        for name in chosen.tables:
            print(name, file=sys.stderr, flush=True)
            table, frame = TABLES[name], read_table(name, home)
            splits = [split(frame, name, run) for run in range(runs_of(name, chosen.runs))]
            for epsilon in EPSILONS:
                rows = np.array([one_run(table, parts, epsilon) for parts in splits])
                found = (mean_and_error(column) for column in rows.T)
                entries = (f"{mean:.3f} ({error:.3f})" for mean, error in found)
                row = f"{name:<12} {epsilon:<7g}" + "".join(f"{entry:>20}" for entry in entries)
                print(row, flush=True)


if __name__ == "__main__":
    main()
