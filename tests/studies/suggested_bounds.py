"""What `suggest_bounds` buys: a fifth of epsilon for bounds, beside oracle and loose bounds.

    python -m tests.studies.suggested_bounds [--repeats 20] [--tables adult bank] [--write]

Every table is divided at random into 80 % for fits and 20 % for their errors, anew in each
repeat. Oracle bounds are the exact minima and maxima of the records, which are not private; a fit
with them has all of epsilon. Loose bounds are what one declares who knows the sign of a column and
its largest value to within a factor of 2 to 100: from 0, or from minus that number. A fit with
them has all of epsilon, too. Suggested bounds are chosen from the loose ones for a fifth of
epsilon, and the fit has the rest. Everything else is as `dpsvm` and `dplr` do it by default,
private scale included. Printed are the share of correct classes and the area under the ROC curve,
the means over all repeats. ``--write`` keeps them with their standard errors.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from privatelr import dplr, dpsvm, suggest_bounds

from .scale_tables import TABLES, read_table
from .stored import store
from .tables import data_home

Bounds = dict[str, tuple[float, float]]
Found = dict[str, list[tuple[float, float]]]
MODELS = {"dpsvm": (dpsvm, "margins"), "dplr": (dplr, "probabilities")}
PRICES = (0.2, 0.5, 1.0, 2.0)
SHARE = 0.2
FACTORS = (2, 5, 10, 100)


def exact_bounds(frame: pd.DataFrame, names: list[str]) -> Bounds:
    """Minima and maxima of columns, which no private fit could know."""
    return {name: (float(frame[name].min()), float(frame[name].max())) for name in names}


def loose_bounds(exact: Bounds, factor: float) -> Bounds:
    """Ranges from 0, or from both sides of it, to a multiple of the largest value."""
    most = {name: factor * max(abs(low), abs(high)) for name, (low, high) in exact.items()}
    return {name: (0.0 if exact[name][0] >= 0 else -most[name], most[name]) for name in exact}


def arms(train: pd.DataFrame, exact: Bounds, eps: float) -> dict[str, tuple[Bounds, float]]:
    """The bounds of each arm, and what is left of epsilon for the fit."""
    found: dict[str, tuple[Any, float]] = {"oracle": (exact, eps)}
    for factor in FACTORS:
        loose = loose_bounds(exact, factor)
        suggested = suggest_bounds(train, loose, SHARE * eps)
        found[f"suggested from {factor} times"] = (suggested, (1 - SHARE) * eps)
        found[f"{factor} times, no suggestion"] = (loose, eps)
    return found


def measure(name: str, model: str, eps: float, repeats: int) -> Found:
    """Accuracy and area under the curve of each arm in each repeat."""
    home = data_home()
    assert home is not None, "the tables are absent; set PRIVATELR_DATA_HOME"
    table, frame = TABLES[name], read_table(name, home)
    fitter, score = MODELS[model]
    found: Found = {}
    exact = exact_bounds(frame, list(table.bounds))
    for repeat in range(repeats):
        order = np.random.default_rng(repeat).permutation(len(frame))
        cut = len(frame) * 4 // 5
        train = frame.iloc[order[:cut]].reset_index(drop=True)
        test = frame.iloc[order[cut:]].reset_index(drop=True)
        truth = test[table.response].to_numpy()
        for arm, (bounds, left) in arms(train, exact, eps).items():
            fit = fitter(table.formula, train, left, bounds=bounds, levels=table.levels)
            right = np.mean(fit.predict(test, type="classes").to_numpy().astype(bool) == truth)
            area = roc_auc_score(truth, fit.predict(test, type=score).to_numpy())
            found.setdefault(arm, []).append((float(right), float(area)))
    guess = max(np.mean(frame[table.response]), 1 - np.mean(frame[table.response]))
    found["guess"] = [(float(guess), 0.5)] * repeats
    return found


def summary(found: Found) -> dict[str, list[list[float]]]:
    """Mean and standard error of accuracy and of area, for each arm."""
    return {
        arm: [
            [float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))]
            for values in zip(*pairs, strict=True)
        ]
        for arm, pairs in found.items()
    }


def markdown(results: dict[str, Any], what: str) -> list[str]:
    """A table of accuracy or area, in percent, with a line for each table, model and epsilon."""
    place = ("accuracy", "area").index(what)
    titles = ["table", "fit", "eps", "oracle"]
    titles += [f"{kind} x {factor}" for factor in FACTORS for kind in ("loose", "suggested")]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for name, models in results.items():
        for model, prices in models.items():
            for eps, arms_found in prices.items():
                shown = [arms_found["oracle"][place][0]]
                for factor in FACTORS:
                    shown.append(arms_found[f"{factor} times, no suggestion"][place][0])
                    shown.append(arms_found[f"suggested from {factor} times"][place][0])
                cells = [name, model, eps, *(f"{100 * value:.1f}" for value in shown)]
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def least_shares(results: dict[str, Any], what: str) -> dict[str, float]:
    """The least share of the oracle's number, and of its distance from a guess, over all cells."""
    place = ("accuracy", "area").index(what)
    shares, gains = [], []
    for models in results.values():
        for prices in models.values():
            for arms_found in prices.values():
                oracle, guess = arms_found["oracle"][place][0], arms_found["guess"][place][0]
                for factor in FACTORS:
                    own = arms_found[f"suggested from {factor} times"][place][0]
                    shares.append(own / oracle)
                    gains.append((own - guess) / (oracle - guess))
    return {"share": min(shares), "above a guess": min(gains)}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--tables", nargs="+", default=["adult", "bank"])
    parser.add_argument("--models", nargs="+", default=[*MODELS])
    parser.add_argument("--eps", nargs="+", type=float, default=[*PRICES])
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    results: dict[str, Any] = {}
    for name in given.tables:
        for model in given.models:
            for eps in given.eps:
                found = summary(measure(name, model, eps, given.repeats))
                results.setdefault(name, {}).setdefault(model, {})[f"{eps:g}"] = found
                print(name, model, f"eps={eps:g}", "done", flush=True)
    for what in ("accuracy", "area"):
        print("\n".join(["", what, *markdown(results, what), str(least_shares(results, what))]))
    if given.write:
        command = f"python -m tests.studies.suggested_bounds --repeats {given.repeats} --write"
        store("suggested_bounds", command, results)


if __name__ == "__main__":
    main()
