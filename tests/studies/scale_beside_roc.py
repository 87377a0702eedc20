"""Whether written shares such as 0.75 and 0.25 should leave the usual tenth to the scale.

    python -m tests.studies.scale_beside_roc [--fits 5]

Shown is the mean of the exact AUC of test records, and its standard error over fits with fresh
noise, for ``spend={"coefficients": 0.75, "roc": 0.25}`` as it is written, and with a tenth of the
price of the coefficients spent on the scale of the columns, for Adult and Bank, of which the folder
of PRIVATELR_DATA_HOME has the files, for iris, and for a made-up table of skewed columns.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from privatelr import GuaranteeError, dplr, load_dataset, load_schema
from privatelr.datasets import fetch_adult
from privatelr.numerics import c_index
from privatelr.results.predict import linear_predictors
from tests.studies.tables import data_home

EPSILONS = (0.2, 0.5, 1.0, 2.0)
WRITTEN = {"coefficients": 0.75, "roc": 0.25}
TENTH = {"scale": 0.075, "coefficients": 0.675, "roc": 0.25}


def made_up(n: int = 10_000) -> pd.DataFrame:
    """Records with three skewed columns that fill a small part of their bounds."""
    rng = np.random.default_rng(20261125)
    x = rng.lognormal(0.0, 1.0, (n, 3))
    link = -1.5 + 0.5 * np.log(x).sum(axis=1)
    return pd.DataFrame(x, columns=["a", "b", "c"]).assign(
        y=rng.random(n) < 1 / (1 + np.exp(-link))
    )


def bank() -> tuple[pd.DataFrame, dict[str, Any]]:
    """Bank marketing, by bounds that its codebook suggests."""
    home = data_home()
    assert home is not None
    frame = pd.read_csv(home / "bank" / "bank-full.csv.gz", sep=";")
    bounds = {"age": (18, 100), "balance": (-10_000, 110_000), "duration": (0, 5000)}
    bounds |= {"campaign": (1, 64), "previous": (0, 300)}
    texts = ["job", "marital", "education", "housing", "loan", "contact"]
    levels = {name: sorted(frame[name].unique()) for name in texts}  # as in the codebook
    return frame[[*bounds, *texts, "y"]], {
        "bounds": bounds,
        "levels": levels | {"y": ["no", "yes"]},
    }


def cases() -> Iterator[tuple[str, str, pd.DataFrame, dict[str, Any]]]:
    """Tables by name, with a formula and what is public about them."""
    yield "skewed", "y ~ a + b + c", made_up(), {"bounds": dict.fromkeys("abc", (0, 200))}
    yield "iris", "Species == 'virginica' ~ .", load_dataset("iris"), load_schema("iris")
    if data_home() is not None:
        yield "bank", "y ~ .", *bank()
        yield "adult", "income ~ .", fetch_adult().iloc[:30_000], load_schema("adult")


def area(fit: Any, test: pd.DataFrame, positive: np.ndarray) -> float:
    """The exact AUC of test records."""
    link = linear_predictors(fit, test)
    return float(c_index(np.nan_to_num(link), positive))


def main() -> None:
    """Print a line for each table, epsilon, and way to spend."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=5)
    fits = parser.parse_args().fits
    warnings.simplefilter("ignore")
    for name, formula, frame, declared in cases():
        order = np.random.default_rng(1).permutation(len(frame))
        cut = 2 * len(frame) // 3
        train, test = frame.iloc[order[:cut]], frame.iloc[order[cut:]]
        for eps in EPSILONS:
            told = []
            for shares in (WRITTEN, TENTH):
                try:
                    found = [
                        area(fit, test, _positive(fit, test))
                        for fit in (
                            dplr(formula, train, eps=eps, spend=shares, **declared)
                            for _ in range(fits)
                        )
                    ]
                    se = np.std(found, ddof=1) / np.sqrt(fits)
                    told.append(f"{np.mean(found):.3f} ({se:.3f})")
                except GuaranteeError:
                    told.append("refused")
            print(
                f"{name:8s} eps {eps:<4g} as written {told[0]:>15s}  tenth {told[1]:>15s}",
                flush=True,
            )


def _positive(fit: Any, test: pd.DataFrame) -> np.ndarray:
    name, positive = fit.formula.partition("~")[0].strip(), fit.spec.response.classes[1]
    if "==" in name:
        return (test["Species"] == "virginica").to_numpy()
    return (test[name].astype(str) == str(positive)).to_numpy()


if __name__ == "__main__":
    main()
