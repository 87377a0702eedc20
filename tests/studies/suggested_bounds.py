"""What `suggest_bounds` buys: a fifth of epsilon for bounds, beside oracle and loose bounds.

    python -m tests.studies.suggested_bounds [--repeats 20] [--tables adult bank credit] [--write]

Every table is divided at random into 80 % for fits and 20 % for their errors, anew in each
repeat. Oracle bounds are the exact minima and maxima of the records, which are not private; a fit
with them has all of epsilon. Loose bounds are what one declares who knows the sign of a column and
its largest value to within a factor of 2 to 100: from 0, or from minus that number. A fit with
them has all of epsilon, too. Suggested bounds are chosen from the loose ones for a fifth of
epsilon, and the fit has the rest. Everything else is as `dpsvm` and `dplr` do it by default,
private scale included. The table ``credit`` is made up: 30,000 credit cards, with the columns of
such tables and their long tails. Printed are the share of correct classes and the area under the
ROC curve, the means over all repeats. ``--write`` keeps them with their standard errors.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from privatelr import dplr, dpsvm, suggest_bounds

from .scale_tables import TABLES, Table, read_table
from .stored import store
from .tables import data_home

Bounds = dict[str, tuple[float, float]]
Found = dict[str, list[tuple[float, float]]]
MODELS = {"dpsvm": (dpsvm, "margins"), "dplr": (dplr, "probabilities")}
PRICES = (0.2, 0.5, 1.0, 2.0)
SHARE = 0.2
FACTORS = (2, 5, 10, 100)


CARDS, SCHOOLING = 30_000, ["school", "college", "graduate"]


def credit_cards(_: Any = None) -> pd.DataFrame:
    """Cards with limits, bills and payments; about a fifth are not paid back.

    Amounts are log-normal, a balance may be negative, and most months are paid in time.
    """
    rng, n = np.random.default_rng(22), CARDS
    limit = np.round(rng.lognormal(11.6, 0.8, n), -4).clip(1e4, 1e6)
    used = rng.beta(0.6, 1.0, n)
    bill = np.where(rng.random(n) < 0.05, -rng.lognormal(6, 1.5, n), limit * used).round()
    late = rng.choice(9, n, p=[0.77, 0.12, 0.08, 0.015, 0.006, 0.003, 0.002, 0.002, 0.002])
    paid = np.where(late > 1, 0.0, rng.lognormal(8, 1.4, n)).round()
    age = (21 + rng.gamma(2.2, 6.5, n)).clip(21, 79).round()
    schooling = pd.Categorical(rng.choice(SCHOOLING, n, p=[0.17, 0.48, 0.35]), SCHOOLING)
    link = -1.9 + 1.1 * np.minimum(late, 3) + 0.9 * used - 0.35 * (np.log(limit) - 11.6)
    link += 0.01 * (age - 35) - 0.12 * np.log1p(paid) / 2 + 0.2 * (schooling == "school")
    positive = rng.random(n) < 1 / (1 + np.exp(-link))
    columns = {"limit": limit, "bill": bill, "late": late, "paid": paid, "age": age}
    return pd.DataFrame({**columns, "schooling": schooling, "positive": positive})


CREDIT = Table(
    "report",
    CARDS,
    credit_cards,
    dict.fromkeys(("limit", "bill", "late", "paid", "age"), (0.0, 1.0)),  # found by the study
    {"schooling": SCHOOLING},
)


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
    home, table = data_home(), CREDIT if name == "credit" else TABLES[name]
    assert home is not None or name == "credit", "set PRIVATELR_DATA_HOME, where the tables are"
    frame = read_table(name, home) if home and name != "credit" else credit_cards()
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
    parser.add_argument("--tables", nargs="+", default=["adult", "bank", "credit"])
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
        command = f"python -m tests.studies.suggested_bounds --repeats {given.repeats} "
        command += f"--tables {' '.join(given.tables)} --write"
        store("suggested_bounds", command, results)


if __name__ == "__main__":
    main()
