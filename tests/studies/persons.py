"""Intervals where records of a person go together, by persons and by records.

    python -m tests.studies.persons [--runs N] [--epsilon E]

Each of 2,000 persons has 2 to 10 records, with x its own and z anew in each record. What else is
its own has half of the variance of the latent outcome (intraclass correlation .5). Coverage and
median width of 95 % intervals, under a pure promise about persons and under one about records. The
truth is the marginal model's, from a million records of as many persons.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from privatelr import dplr

PERSONS, FEWEST, MOST = 2000, 2, 10
NAMES = ("x", "z")
BOUNDS = dict.fromkeys(NAMES, (-1.0, 1.0))
OWN = np.pi / np.sqrt(3)
"""Standard deviation of the logistic law, so that the intraclass correlation is a half."""


def records(m: int, sizes: Any, rng: np.random.Generator) -> pd.DataFrame:
    """Draw the records of m persons."""
    whose = np.repeat(np.arange(m), sizes)
    own, x = OWN * rng.standard_normal(m), rng.uniform(-1, 1, m)
    z = rng.uniform(-1, 1, len(whose))
    chance = 1 / (1 + np.exp(-(x[whose] + z + own[whose])))
    y = rng.uniform(size=len(whose)) < chance
    return pd.DataFrame({"y": y, "x": x[whose], "z": z, "person": whose})


@lru_cache(maxsize=1)
def truth() -> Any:
    """Return the coefficients of the marginal model."""
    rng = np.random.default_rng(1)
    frame = records(10**6, 1, rng)
    return dplr("y ~ x + z", frame, 0, lambda_=1e-9, bounds=BOUNDS).coef.to_numpy()


def one_run(seed: int, epsilon: float, person: str | None) -> tuple[Any, Any]:
    """Return whether each interval holds the truth ``(3,)``, and the widths ``(3,)``."""
    rng = np.random.default_rng(seed)
    frame = records(PERSONS, rng.integers(FEWEST, MOST + 1, PERSONS), rng)
    given: dict[str, Any] = {"bounds": BOUNDS, "do_scale": False, "spend": "inference"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a seed is for studies
        made = dplr("y ~ x + z", frame, epsilon, person=person, seed=seed, **given)
    low, high = made.conf_int().to_numpy().T
    return (low <= truth()) & (truth() <= high), high - low


def main(given: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.studies.persons")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--epsilon", type=float, default=2.0)
    asked = parser.parse_args(given)
    print("promise about | held: intercept, x, z (s.e.) | median width")
    for person in ("person", None):
        held, widths = zip(
            *(one_run(seed, asked.epsilon, person) for seed in range(asked.runs)), strict=True
        )
        share = np.mean(held, axis=0)
        error = np.sqrt(share * (1 - share) / asked.runs)
        told = ", ".join(f"{a:.3f} ({b:.3f})" for a, b in zip(share, error, strict=True))
        width = ", ".join(f"{one:.3f}" for one in np.median(widths, axis=0))
        print(f"{'persons' if person else 'records'} | {told} | {width}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
