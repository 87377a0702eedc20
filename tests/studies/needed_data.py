"""How much data an interval takes: the epsilon from which privacy lengthens it by half at most.

    python -m tests.studies.needed_data [--write]

For n records and p numeric columns with declared bounds, `privatelr.plan` looks for the smallest
epsilon of a fit with ``spend="inference"`` at which the widest 95% interval of a column is no
longer than 1.5 times what sampling alone would make it, as it does at the largest epsilon that
is tried, where the penalty is next to nothing. These are forecasts from guesses (columns that fill
their bounds and do not depend on each other): no data is read. ``--write`` keeps the table beside
the other results; README shows it.
"""

from __future__ import annotations

import argparse
import time

from privatelr import GuaranteeError, plan
from tests.studies.stored import store

RECORDS = (500, 2_000, 10_000, 100_000)
COLUMNS = (2, 5, 10, 20)
LONGER = 1.5
GUESSED = {"balance": 0.5, "spread": 0.4, "c_index": 0.75, "correlation": 0.0}
_DEAREST = 1000.0
"""The largest epsilon that `needed_eps` tries."""
_NORMAL = 1.959964
"""97.5% quantile of the standard normal law."""


def needed(n: int, p: int) -> float | None:
    """The epsilon, or None where none up to the largest that is tried is enough."""
    names = [f"x{i}" for i in range(p)]
    formula, bounds = f"y ~ {' + '.join(names)}", dict.fromkeys(names, (-1, 1))
    usual, dear = (
        plan(formula, n=n, eps=eps, spend="inference", bounds=bounds, **GUESSED)
        for eps in (1.0, _DEAREST)
    )
    sampling = float(dear.to_frame()["sampling_sd"].iloc[1:].max())
    try:
        return usual.needed_eps(width=LONGER * 2 * _NORMAL * sampling)
    except GuaranteeError:
        return None


def table(found: dict[str, float | None]) -> str:
    """The numbers as Markdown."""
    lines = [f"| records | {' | '.join(f'{p} columns' for p in COLUMNS)} |"]
    lines.append("|---" * (len(COLUMNS) + 1) + "|")
    for n in RECORDS:
        cells = [found[f"{n} x {p}"] for p in COLUMNS]
        shown = ["-" if value is None else f"{value:.2g}" for value in cells]
        lines.append(f"| {n:,} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found, start = {}, time.monotonic()
    for n in RECORDS:
        for p in COLUMNS:
            found[f"{n} x {p}"] = needed(n, p)
            print(
                f"{n} x {p}: {found[f'{n} x {p}']} ({time.monotonic() - start:.0f} s)", flush=True
            )
    print(table(found))
    if given.write:
        store("needed_data", "python -m tests.studies.needed_data --write", {"epsilon": found})


if __name__ == "__main__":
    main()
