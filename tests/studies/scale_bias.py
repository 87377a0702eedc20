"""What bounding rows does to the coefficients of `dplr` under private scale.

    PRIVATELR_DATA_HOME=folder python -m tests.studies.scale_bias [--records 200000]
        [--tables cod_rna spambase] [--epsilons 0.1 1] [--lengths 1.5 2 3 4]

First, tables of the folder, two for the choice of the lengths and two that it was not made on, at
delta 1e-6; ``--records 0`` stops after them. The bias of a length is the difference of two fits
with the same penalty and no noise to speak of: one where rows that are longer count less, and one
where all count as they are. Beside it stands the standard deviation of each coefficient over
private fits of bootstrap samples. Shown are quantiles over the coefficients of the ratio of the
two.

Second, without a folder: data are made up, three columns with a standard deviation of .2 of half
their bounds, normal or by Student's law with four degrees of freedom, independent or with a
correlation of .8, and slopes of 1, -.5 and .25 standard deviations. The bias is that of fits with a
tiny penalty, and the standard error the one that `plan` forecasts for n records at epsilon 1.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import product

import numpy as np
import pandas as pd

from privatelr import ApproxDP, PrivacyWarning, dplr, plan
from privatelr.mechanisms.stages.scale import usual_rows
from privatelr.numerics import find_loss

from .scale_tables import TABLES, read_table
from .tables import data_home

SLOPES = {"a": 1.0, "b": -0.5, "c": 0.25}
SPREAD = 0.2
BOUNDS = dict.fromkeys(SLOPES, (-1 / SPREAD, 1 / SPREAD))
LENGTHS = (1.0, 1.25, 1.5, 2.0, 3.0)
SIZES = (1000, 5000, 20_000, 100_000)
DELTAS = (0.0, 1e-6)
CHOICE, REPORT = ("adult", "bank"), ("cod_rna", "spambase")
EPSILONS = (0.1, 0.5, 1.0)
MOST, FITS, UNSHORTENED = 60_000, 12, 30.0


def records(kind: str, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Made-up data; values beyond the bounds are at them, for the truth as for the fit."""
    x = rng.standard_t(4, (n, 3)) / 2**0.5 if kind == "heavy" else rng.normal(size=(n, 3))
    if kind == "correlated":
        x = x @ np.linalg.cholesky(0.2 * np.eye(3) + 0.8).T
    x = np.clip(x, -1 / SPREAD, 1 / SPREAD)
    odds = x @ np.array([*SLOPES.values()])
    frame = pd.DataFrame(x, columns=list(SLOPES))
    return frame.assign(y=rng.random(n) < 1 / (1 + np.exp(-odds)))


def bias(kind: str, delta: float, length: float, n: int) -> np.ndarray:
    """What the bound does to each slope, without noise to speak of."""
    frame = records(kind, n, np.random.default_rng(1))
    tiny = {"lambda_": 1e-7, "bounds": BOUNDS, "on_small_lambda": "keep"}
    options = {"delta": delta, "do_scale": "private", "row_norm": length}
    short = dplr("y ~ a + b + c", frame, 10_000.0, **options, **tiny)
    whole = dplr("y ~ a + b + c", frame, 0, **tiny)
    return short.coef.to_numpy()[1:] - whole.coef.to_numpy()[1:]


def bias_of_table(name: str, epsilon: float, length: float) -> str:
    """A line of quantiles of bias over standard error, for a table of the folder."""
    table, frame = TABLES[name], read_table(name, data_home())
    n = min(len(frame), MOST)
    frame = frame.iloc[np.random.default_rng(0).permutation(len(frame))[:n]]
    known = {"bounds": table.bounds, "levels": table.levels, "delta": DELTAS[1]}
    known |= {"do_scale": "private", "on_small_lambda": "keep"}
    fits = []
    for seed in range(FITS):
        sample = frame.iloc[np.random.default_rng(seed).integers(0, n, n)]
        fits.append(dplr(table.formula, sample, epsilon, row_norm=length, seed=seed, **known))
    sd = np.std([fit.coef for fit in fits], axis=0, ddof=1)
    quiet = known | {"lambda_": fits[0].calibration.lambda_}
    short, whole = (
        dplr(table.formula, frame, 10_000.0, row_norm=c, **quiet).coef.to_numpy()
        for c in (length, UNSHORTENED)
    )
    ratio = np.abs(short - whole) / sd
    low, high = np.quantile(ratio, [0.5, 0.9])
    size = n * epsilon / len(sd)
    rule = usual_rows(find_loss("logistic"), n, len(sd), ApproxDP(epsilon, DELTAS[1]))[0] == length
    return (
        f"{name:<12}{epsilon:>5g}{size:>10.0f}{length:>7g}{'*' if rule else ' '}"
        f"{low:>9.2f}{high:>8.2f}{ratio.max():>8.2f}"
    )


def main() -> None:
    """Print a table for each kind of promise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--tables", nargs="+", choices=tuple(TABLES), default=CHOICE + REPORT)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--lengths", nargs="+", type=float, default=LENGTHS[1:])
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    if data_home() is not None:
        head = f"{'table':<12}{'eps':>5}{'n eps/d':>10}{'length':>7}"
        print(f"{head}{'median':>10}{'90 %':>8}{'max':>8}")
        for name, epsilon, length in product(chosen.tables, chosen.epsilons, chosen.lengths):
            print(bias_of_table(name, epsilon, length), flush=True)
        print("* the length that a fit takes by the rule\n")
    for delta in DELTAS if chosen.records else ():
        print(f"delta {delta:g}: largest bias over the forecast standard error, by n at eps 1")
        print(f"{'':<12}{'length':>7}{'bias of a':>11}" + "".join(f"{n:>10}" for n in SIZES))
        plans = {n: plan("y ~ a + b + c", n, delta=delta, bounds=BOUNDS) for n in SIZES}
        for kind, length in product(("normal", "heavy", "correlated"), LENGTHS):
            off = bias(kind, delta, length, chosen.records)
            cells = []
            for outlook in plans.values():
                standard = outlook.spec.standard
                mark = "*" if standard is not None and standard.length == length else " "
                ratio = np.max(np.abs(off) / outlook.errors.sd[1:])
                cells.append(f"{ratio:.2f}{mark}")
            print(f"{kind:<12}{length:>7g}{off[0]:>11.4f}" + "".join(f"{x:>10}" for x in cells))
        print("* the length that a fit takes by the rule\n")


if __name__ == "__main__":
    main()
