"""A rare outcome with and without a prior on the intercept.

    python -m tests.studies.prior [--runs N]

Six numbers with effects of 0.5 per deviation, bounds of 2.5 deviations, and 3 % positive records.
The prior says that the intercept is the logit of 3 %, and nothing else; the row "wrong" says 10 %.
The rows "slopes" have 0.45 for the slopes, too, as from an older study that was a little off, and
the last one its standard deviation of 0.05.
Columns: the mean error and the root mean squared error of the intercept, the root mean squared
error of the slopes, the log loss on 20,000 records that no fit saw, and coverage and median width
of the default 95 % intervals of the slopes and of the intercept where inference is bought. The
first three are of fits that buy coefficients alone, each mean with its standard error.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr import dplr

if TYPE_CHECKING:
    from privatelr.types import FloatArray

SHARE, EFFECT, COLUMNS, REACH = 0.03, 0.5, 6, 2.5
SIZES, TEST = (2000, 10_000), 20_000
NAMES = [f"x{j}" for j in range(COLUMNS)]
BOUNDS = dict.fromkeys(NAMES, (-REACH, REACH))
LOGIT, OLDER, DEVIATION = float(np.log(SHARE / (1 - SHARE))), 0.45, 0.05
PRIORS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "logit of 3 %": {"(Intercept)": LOGIT},
    "wrong": {"(Intercept)": float(np.log(0.1 / 0.9))},
    "slopes": {"(Intercept)": LOGIT, **dict.fromkeys(NAMES, OLDER)},
    "slopes, sd": {"(Intercept)": LOGIT, **dict.fromkeys(NAMES, (OLDER, DEVIATION))},
}


def intercept_of(x: FloatArray) -> float:
    """Return the intercept that makes the share of positive records right, on many records."""
    low, high = -12.0, 0.0
    for _ in range(60):
        middle = (low + high) / 2
        share = float(np.mean(1 / (1 + np.exp(-(middle + EFFECT * x.sum(axis=1))))))
        low, high = (middle, high) if share < SHARE else (low, middle)
    return low


def records(n: int, intercept: float, rng: np.random.Generator) -> pd.DataFrame:
    """Draw records of independent numbers within their bounds."""
    x = np.clip(rng.standard_normal((n, COLUMNS)), -REACH, REACH)
    frame = pd.DataFrame(x, columns=NAMES)
    chance = 1 / (1 + np.exp(-(intercept + EFFECT * x.sum(axis=1))))
    return frame.assign(y=rng.uniform(size=n) < chance)


def one_run(n: int, truth: FloatArray, seed: int) -> dict[str, list[float]]:
    """Return for each prior: errors, log loss, and coverage and widths of intervals."""
    rng = np.random.default_rng(seed)
    train, test = records(n, truth[0], rng), records(TEST, truth[0], rng)
    formula, found = "y ~ " + " + ".join(NAMES), dict[str, list[float]]()
    for name, prior in PRIORS.items():
        asked: dict[str, Any] = {"eps": 1.0, "bounds": BOUNDS, "prior": prior}
        fit = dplr(formula, train, **asked)
        off = fit.coef.to_numpy() - truth
        p = np.clip(fit.predict(test).to_numpy(), 1e-12, 1 - 1e-12)
        loss = -np.mean(np.where(test["y"] == 1, np.log(p), np.log(1 - p)))
        ends = dplr(formula, train, spend="inference", **asked).conf_int().to_numpy()
        held = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
        width = ends[:, 1] - ends[:, 0]
        slopes = float(np.mean(off[1:] ** 2))
        found[name] = [off[0], off[0] ** 2, slopes, loss, held[0], held[1:].mean()]
        found[name] += [width[0], float(np.median(width[1:]))]
    return found


def table(n: int, runs: int) -> pd.DataFrame:
    """Return one row per prior, with means over the runs and their standard errors."""
    sample = np.clip(np.random.default_rng(0).standard_normal((200_000, COLUMNS)), -REACH, REACH)
    truth = np.array([intercept_of(sample), *[EFFECT] * COLUMNS])
    each = [one_run(n, truth, seed) for seed in range(runs)]
    rows = {}
    for name in PRIORS:
        values = np.array([run[name] for run in each])
        mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / runs**0.5
        rows[name] = {
            "bias of intercept": f"{mean[0]:.2f} ({error[0]:.2f})",
            "rmse of intercept": f"{mean[1] ** 0.5:.2f}",
            "rmse of slopes": f"{mean[2] ** 0.5:.3f}",
            "log loss": f"{mean[3]:.4f} ({error[3]:.4f})",
            "held, intercept": f"{mean[4]:.2f}",
            "held, slopes": f"{mean[5]:.3f}",
            "width, intercept": f"{np.median(values[:, 6]):.2f}",
            "width, slopes": f"{np.median(values[:, 7]):.2f}",
        }
    return pd.DataFrame(rows).T


def main(arguments: list[str]) -> None:
    """Print a table for each number of records."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=100)
    for n in SIZES:
        print(f"n = {n:,}, eps = 1")
        print(table(n, parser.parse_args(arguments).runs).to_string(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
