"""How near private ROC curves are to the exact ones of the same records.

    python -m tests.studies.roc [--releases 120] [--bins] [--draw]

Records are made up, and those of Adult are added if PRIVATELR_DATA_HOME has its files. A model is
fitted to 10,000 records at epsilon 1. Then other records are drawn and scored, many times, and a
ROC curve is released for each. Shown are, over these releases: the root mean squared error of the
AUC, beside the one that is stated (of noise and bins), and the bias; that of the calibration slope;
and the mean loss of Youden's J by the released threshold, against the best threshold for the same
records, and against the best one for the population; of the latter also the largest loss in a
release.

With ``--bins`` the error of the AUC is shown for other numbers of bins. With ``--draw`` nothing is
shown, and the picture of the vignette is drawn.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import matplotlib as mpl
import numpy as np
import pandas as pd
from statsmodels.genmod.families import Binomial
from statsmodels.genmod.generalized_linear_model import GLM
from statsmodels.tools.tools import add_constant

from privatelr import dplr, dpsvm, load_schema
from privatelr.datasets import fetch_adult
from privatelr.design import read_labels
from privatelr.errors import PrivateLRError
from privatelr.inference import released_roc
from privatelr.mechanisms.stages import histogram as histogram_stage
from privatelr.numerics import c_index, roc_curve
from privatelr.results.predict import linear_predictors
from privatelr.sources import as_batch

PICTURE = Path(__file__).resolve().parents[2] / "vignettes" / "roc-and-thresholds.png"
TRAINING, POPULATION = 10_000, 100_000
SIZES, EPSILONS = (1000, 10_000), (0.1, 0.5, 1.0)
BINS = (8, 10, 12, 16, 32)
JUDGED = {0.1: 0.016, 0.5: 0.0033, 1.0: 0.0017}
"""Errors of the AUC at n = 10,000 that a release is to keep, up to a quarter."""
STATISTICS = ("auc", "sd", "slope", "own", "all")
COLUMNS = [f"x{k}" for k in range(1, 6)]


class Case(NamedTuple):
    """A model, and records that it was not trained on."""

    name: str
    fit: Any
    records: pd.DataFrame


def made_up(n: int, shift: float, rng: np.random.Generator) -> pd.DataFrame:
    """Five columns of even values, effects of both signs, and a share of positives by `shift`."""
    frame = pd.DataFrame(rng.uniform(-1, 1, (n, len(COLUMNS))), columns=COLUMNS)
    link = frame.to_numpy() @ np.array([1.5, -1.0, 0.8, 0.5, -0.3]) + shift
    return frame.assign(y=rng.random(n) < 1 / (1 + np.exp(-link)))


def cases() -> Iterator[Case]:
    bounds = {"bounds": dict.fromkeys(COLUMNS, (-1.0, 1.0))}
    for name, shift in (("balanced", 0.0), ("one in five", -1.8)):
        frame = made_up(TRAINING + POPULATION, shift, np.random.default_rng(5))
        fit = dplr("y ~ .", frame[:TRAINING], eps=1.0, **bounds)
        yield Case(f"{name}, dplr", fit, frame[TRAINING:])
        if shift == 0:
            fit = dpsvm("y ~ .", frame[:TRAINING], eps=1.0, **bounds)
            yield Case(f"{name}, dpsvm", fit, frame[TRAINING:])
    if "PRIVATELR_DATA_HOME" not in os.environ:
        return
    try:
        adult = fetch_adult().sample(frac=1.0, random_state=5)
    except PrivateLRError as missing:
        print(f"Adult is left out: {missing}", file=sys.stderr)
        return
    for model in (dplr, dpsvm):
        fit = model("income ~ .", adult[:TRAINING], eps=1.0, **load_schema("adult"))
        yield Case(f"Adult, {model.__name__}", fit, adult[TRAINING:])


def scored(case: Case, records: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    link, response = linear_predictors(case.fit, records), case.fit.spec.response
    return link, read_labels(response, case.fit.spec.variables, as_batch(records)) > 0


def best_and_at(link: np.ndarray, positive: np.ndarray) -> tuple[float, Callable[[float], float]]:
    """The best Youden's J of these records, and J at a cut of the linear predictor."""
    curve = roc_curve(link, positive)
    high, low = np.sort(link[positive]), np.sort(link[~positive])

    def at(cut: float) -> float:
        below = np.searchsorted(low, cut, "right") / len(low)
        return float(below - np.searchsorted(high, cut, "right") / len(high))

    return float((curve.true_positive - curve.false_positive).max()), at


def slope(link: np.ndarray, positive: np.ndarray) -> float:
    fitted = GLM(positive, add_constant(link), family=Binomial()).fit()
    return float(fitted.params[1])


def root_mean_square(values: list[float]) -> float:
    return float(np.sqrt(np.nanmean(np.square(values))))


def row(case: Case, n: int, epsilon: float, releases: int) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    best_of_all, at_of_all = best_and_at(*scored(case, case.records))
    found: dict[str, list[float]] = {name: [] for name in STATISTICS}
    for _ in range(releases):
        records = case.records.iloc[rng.choice(len(case.records), n, replace=False)]
        link, positive = scored(case, records)
        answer = case.fit.private_roc(records, eps=epsilon)
        found["auc"].append(answer.auc - c_index(link, positive))
        noise = float(released_roc.parts_of(answer.release, released_roc.areas).privacy)
        found["sd"].append(math.hypot(noise, released_roc.binning_sd_of_area(answer.release)))
        counts = released_roc.counts_of(answer.release)
        middles = answer.release.scale.middles(len(counts) // 2)
        line = released_roc.calibration_lines(counts, middles)[1]
        found["slope"].append(line - slope(link, positive))
        cut = answer._links(np.array([answer.youden]))[0]
        best, at = best_and_at(link, positive)
        found["own"].append(best - at(cut))
        found["all"].append(best_of_all - at_of_all(cut))
    return {
        "records": case.name,
        "n": n,
        "eps": epsilon,
        "bins": answer.release.calibration.bins,
        "AUC error": root_mean_square(found["auc"]),
        "stated": root_mean_square(found["sd"]),
        "bias": float(np.nanmean(found["auc"])),
        "slope error": root_mean_square(found["slope"]),
        "J lost, own": float(np.nanmean(found["own"])),
        "J lost, all": float(np.nanmean(found["all"])),
        "worst of all": float(np.nanmax(found["all"])),
    }


def table(releases: int) -> pd.DataFrame:
    return pd.DataFrame(
        row(case, n, epsilon, releases) for case in cases() for n in SIZES for epsilon in EPSILONS
    )


def table_of_bins(releases: int) -> pd.DataFrame:
    """Error of the AUC at n = 10,000 by the number of bins."""
    found = []
    for case in cases():
        for epsilon in EPSILONS:
            errors: dict[str, Any] = {"records": case.name, "eps": epsilon}
            for bins in BINS:
                with mock.patch.object(histogram_stage, "_bins", lambda *_, k=bins: k):
                    errors[f"{bins} bins"] = row(case, 10_000, epsilon, releases)["AUC error"]
            found.append(errors)
    return pd.DataFrame(found)


def draw(path: Path) -> None:
    """Draw a released curve of few records at a small price, where the noise shows."""
    rng, n = np.random.default_rng(11), 9500
    frame = pd.DataFrame({"age": rng.uniform(20, 80, n), "dose": rng.uniform(0, 5, n)})
    link = (frame["age"] - 58) / 9 + frame["dose"] - 2
    frame["ill"] = rng.random(n) < 1 / (1 + np.exp(-link))
    bounds = {"age": (20, 80), "dose": (0, 5)}
    fit = dplr("ill ~ age + dose", frame[:8000], eps=1.0, bounds=bounds)
    fit.private_roc(frame[8000:], eps=0.3).plot().figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=120)
    parser.add_argument("--bins", action="store_true")
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if options.draw:
        mpl.use("Agg")
        draw(PICTURE)
        return
    warnings.simplefilter("error")
    found = (table_of_bins if options.bins else table)(options.releases)
    print(found.to_string(index=False, float_format=lambda number: f"{number:.4f}"))


if __name__ == "__main__":
    main()
