"""How fast, beside whom: ``python -m tests.benchmarks``.

    python -m tests.benchmarks [--quick] [--only NAME ...] [--repeats N]
        [--threads N] [--write FILE.json] [--compare FILE.json] [--plot FILE.png]
    python -m tests.benchmarks --stored --plot vignettes/large.png

prints Markdown: time of the package's minimiser over that of its peers on the same matrix, at
the same gradient; passes; time over one read of the matrix; memory; and growth.
NAME is a problem (such as 1e6x50), or memory, growth, calls
(whole calls of `dplr` from a frame beside those of its peers) or engines (the same fit from a
stream, DuckDB, polars and Dask). Ratios of a run are written to a file, with which a later
run is compared. With ``--stored`` nothing is run, and the run that is kept in
tests/benchmarks/results/main.json is printed or drawn. Peers that are not
installed are left out (``pip install privatelr[benchmarks]``). Give it a machine that has nothing
else to do, or at least ``--threads 1``: threads of linear algebra that wait for a processor make
whoever uses them look slow, and that is mostly the peers.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from threadpoolctl import threadpool_limits

from privatelr.numerics import threads

from .calls import CASES as CALLS
from .calls import QUICK as QUICK_CALLS
from .calls import calls
from .engines import engines
from .growth import COLUMNS, QUICK, ROWS, growth
from .memory import peaks
from .peers import PEERS, processors, tune
from .plot import plot
from .problems import PROBLEMS, synthetic
from .problems import QUICK as QUICK_PROBLEMS
from .race import race
from .tables import compare, report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .problems import Problem

PARTS = ("memory", "growth", "calls", "engines")
LIBRARIES = ("numpy", "scipy", "scikit-learn", "glum", "statsmodels", "formulaic", "pandas")
ENGINES, ENGINES_QUICK = 10**6, 10**4
"""Records that every engine reads."""
STORED = Path(__file__).parent / "results" / "main.json"
"""The run whose numbers and picture are on the page."""
_REPEATS, _QUICK_REPEATS, _FEW = 7, 2, 3


def main(arguments: list[str] | None = None) -> None:
    """Run what was asked for, and print it."""
    chosen = _read(arguments)
    if chosen.stored:
        _show(json.loads(STORED.read_text(encoding="utf-8")), chosen)
        return
    most = min(chosen.threads or processors(), processors())
    results: dict[str, Any] = {"machine": _machine(most), "cells": {}}
    with threadpool_limits(most), threads(most):
        for part in _parts(chosen, results):
            results["machine"]["load"][1] = os.getloadavg()[0]
            print(f"{part} done", file=sys.stderr, flush=True)
            if chosen.write:  # after every part: a run is long, and may be ended
                text = json.dumps(_rounded(results), indent=1) + "\n"
                Path(chosen.write).write_text(text, encoding="utf-8")
    _show(results, chosen)


def _show(results: dict[str, Any], chosen: argparse.Namespace) -> None:
    """Print a run, what has changed since an earlier one, and draw it, as asked for."""
    print(report(results))
    if chosen.compare:
        then = json.loads(Path(chosen.compare).read_text(encoding="utf-8"))
        print(f"\n{compare(then, results)}")
    if chosen.plot and results["cells"]:  # there is nothing to draw of the other parts
        plot(results["cells"], chosen.plot)


def _parts(chosen: argparse.Namespace, results: dict[str, Any]) -> Iterator[str]:
    """Put one part after the other into the results."""
    problems = QUICK_PROBLEMS if chosen.quick else PROBLEMS
    wanted = chosen.only or [*problems, *PARTS]
    repeats = chosen.repeats or (_QUICK_REPEATS if chosen.quick else _REPEATS)
    for name, make in problems.items():
        problem = make(name) if name in wanted else None
        if problem is not None:
            results["cells"][name] = race(problem, repeats)
            yield name
    for part in PARTS:
        if part in wanted:
            results[part] = _part(part, repeats, quick=chosen.quick)
            yield part


def _machine(most: int) -> dict[str, Any]:
    load = [os.getloadavg()[0]] * 2
    return {"processors": processors(), "threads": most, "load": load, "versions": versions()}


def _read(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description=__doc__.partition("\n")[0]
    )
    names = (*PROBLEMS, *QUICK_PROBLEMS, *PARTS)
    parser.add_argument("--quick", action="store_true", help="small problems, in half a minute")
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help="this part")
    parser.add_argument("--repeats", type=int, metavar="N", help="pairs to measure")
    parser.add_argument("--threads", type=int, metavar="N", help="of everybody, at most")
    parser.add_argument("--write", metavar="FILE", help="JSON of ratios")
    parser.add_argument("--compare", metavar="FILE", help="JSON of an earlier run")
    parser.add_argument("--stored", action="store_true", help="show the kept run, and run nothing")
    parser.add_argument("--plot", metavar="FILE", help="PNG of ratios")
    return parser.parse_args(arguments)


def _part(part: str, repeats: int, *, quick: bool) -> dict[str, Any]:
    n, d = (20_000, 10) if quick else (10**6, 50)
    few = min(repeats, _FEW)
    if part == "growth":
        if quick:
            return {"rows": growth(QUICK, few)}
        return {"rows": growth(ROWS, few), "columns": growth(COLUMNS, few)}
    if part == "calls":
        return calls(QUICK_CALLS if quick else CALLS, repeats)
    if part == "engines":
        return engines(ENGINES_QUICK if quick else ENGINES, 20, few, [])
    problem = synthetic(part, n, d)
    return peaks(problem, _settings(problem, quick=quick))


def _settings(problem: Problem, *, quick: bool) -> dict[str, Any]:
    """Tolerances of the peers whose memory is measured, tuned on a problem of the same shape."""
    small = synthetic("shape", min(problem.n, 20_000), problem.d)
    able = [peer for peer in PEERS if peer.can(problem)]
    return {peer.name: tune(peer, small) for peer in (able[:1] if quick else able)}


def versions() -> dict[str, str]:
    """Of the libraries that are here."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _rounded(value: Any) -> Any:
    """Five digits of every number: nobody measured more."""
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
