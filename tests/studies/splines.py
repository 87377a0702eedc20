"""Terms that bend and a straight line on records that no fit saw, where the effect is curved.

    python -m tests.studies.splines [--runs N] [--n N] [--eps X]

The log odds are ``2 sin(age / 10) + dose / 3`` for ages from 20 to 80. A row has the mean log loss
on 20,000 records that no fit saw, with its standard error over the runs, of the private fits and
of the plain ones; how much less it is than that of the line in the same run; in how many runs it
is less; and the number of coefficients.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from privatelr import dplr

if TYPE_CHECKING:
    from privatelr.types import FloatArray

KNOTS = "knots = c(35, 50, 65)"
TERMS = {
    "line": "age",
    "bs": f"bs(age, {KNOTS})",
    "ns": f"ns(age, {KNOTS}, Boundary.knots = c(22, 78))",
    "cut": "cut(age, c(20, 30, 40, 50, 60, 70, 80), include.lowest = TRUE)",
    "poly": "poly(age, 3, raw = TRUE)",
}
BOUNDS = {"age": (20, 80), "dose": (0, 5)}
TEST, PLAIN = 20_000, 1e-6


def records(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw records whose log odds are a wave of age."""
    frame = pd.DataFrame({"age": rng.uniform(20, 80, n), "dose": rng.uniform(0, 5, n)})
    link = 2 * np.sin(frame["age"] / 10) + frame["dose"] / 3
    return frame.assign(ill=rng.random(n) < 1 / (1 + np.exp(-link)))


def one_run(n: int, eps: float, seed: int) -> FloatArray:
    """Return the log losses ``(terms, 2)`` of private and of plain fits."""
    rng = np.random.default_rng(seed)
    train, test = records(n, rng), records(TEST, rng)
    found = []
    for term in TERMS.values():
        asked = {"private": {"eps": eps}, "plain": {"eps": 0, "lambda_": PLAIN}}
        fits = [dplr(f"ill ~ {term} + dose", train, bounds=BOUNDS, **one) for one in asked.values()]
        chances = [np.clip(fit.predict(test).to_numpy(), 1e-12, 1 - 1e-12) for fit in fits]
        found.append([-np.log(np.where(test["ill"], p, 1 - p)).mean() for p in chances])
    return np.array(found)


def table(n: int, eps: float, runs: int) -> pd.DataFrame:
    """Return one row per term, with means over the runs and their standard errors."""
    losses = np.array([one_run(n, eps, seed) for seed in range(runs)])
    gains = losses[:, :1, 0] - losses[:, :, 0]
    small = records(50, np.random.default_rng(0))
    rows = {}
    for place, (name, term) in enumerate(TERMS.items()):
        mean, error = (
            part(np.column_stack([losses[:, place], gains[:, place]]))
            for part in (
                lambda x: x.mean(axis=0),
                lambda x: x.std(axis=0, ddof=1) / runs**0.5,
            )
        )
        private, plain, less = (f"{m:.4f} ({e:.4f})" for m, e in zip(mean, error, strict=True))
        fit = dplr(f"ill ~ {term} + dose", small, eps=0, lambda_=0.1, bounds=BOUNDS)
        rows[name] = {
            "coefficients": len(fit.coef),
            "log loss": private,
            "less than the line": less,
            "runs": f"{(gains[:, place] > 0).sum()} of {runs}",
            "without privacy": plain,
        }
    return pd.DataFrame(rows).T


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--eps", type=float, default=1.0)
    chosen = parser.parse_args(arguments)
    print(f"n = {chosen.n:,}, eps = {chosen.eps:g}")
    print(table(chosen.n, chosen.eps, chosen.runs).to_string(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
