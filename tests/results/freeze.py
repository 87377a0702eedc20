"""Release files of today's format, kept so that every later version can be shown to read them.

    python -m tests.results.freeze 2     writes tests/results/frozen/2

Run once, when the format gets a new version; a folder that is there is never written again. The
fits are of public tables and of made-up words, with fresh noise, and beside each file stands what
it predicts for a few rows.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy import sparse

from privatelr import (
    ZCDP,
    Ledger,
    PrivacyWarning,
    dplpsvm,
    dplr,
    dpsimplex,
    dpsvm,
    load_dataset,
    load_schema,
)
from privatelr.design import DesignSpec

FROZEN = Path(__file__).parent / "frozen"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
"""Known to everyone, so it signs tests and nothing else."""
FLOWERS, FLOWER = "Species != 'setosa' ~ .", "Species == 'virginica' ~ "
VOTES_BOUNDED = "vote ~ age * C(PID, contr.sum) + popul"
VOTES = "vote ~ age * C(PID, contr.sum) + log(popul + 1)"

ALL_STAGES = {"scale": 0.1, "coefficients": 0.5, "inference": 0.3, "roc": 0.1}


def iris(model, formula=FLOWERS, **options):
    declared = {**load_schema("iris"), **options}
    return lambda: model(formula, load_dataset("iris"), **declared)


def anes(model, formula, **options):
    declared = {**load_schema("anes96"), **options}
    return lambda: model(formula, load_dataset("anes96"), **declared)


def words(model, **options):
    rng = np.random.default_rng(0)
    x = sparse.random_array((400, 30), density=0.1, rng=rng, format="csr")
    y = pd.Series((x[:, :10].sum(axis=1) > x[:, 10:20].sum(axis=1)).astype(float), name="bought")
    return lambda: model(y, x, **options)


FITS = {
    "objective": iris(dplr),
    "signed": iris(dplr),
    "objective_delta": iris(dplr, delta=1e-6),
    "objective_zcdp": iris(dplr, eps=ZCDP(0.1)),
    "objective_one_log": iris(dplr, analysis="one-log", lambda_=0.3, threshold=0.25),
    "output": iris(dplr, op=False),
    "output_delta": iris(dplr, op=False, delta=1e-6),
    "output_zcdp": iris(dplr, op=False, eps=ZCDP(0.1)),
    "inference": anes(dplr, "vote ~ age + PID", spend="inference"),
    "inference_delta": iris(dplr, delta=1e-6, spend="inference"),
    "inference_zcdp": iris(dplr, eps=ZCDP(0.1), spend={"coefficients": 0.5, "inference": 0.5}),
    "projection": iris(dplr, bounds=None, rp_dim=2, threshold="youden"),
    "row_norm": iris(dplr, row_norm=0.5, intercept_scale=1.5),
    "codings": anes(dplr, VOTES),
    "no_intercept": iris(dplr, FLOWER + "I(Sepal.Length^2):pmin(Petal.Width, 2) - 1"),
    "seeded": iris(dplr, seed=1),
    "plain": iris(dplr, eps=0, spend="inference"),
    "prior": iris(dplr, prior={"Petal.Width": 1.5, "(Intercept)": -2.0}, spend="inference"),
    "weights": iris(dplr, weights="Petal.Length", subset="Petal.Width < 2.2"),
    "ledger": iris(dplr, ledger=Ledger(2.0).part("first half")),
    "huber": iris(dpsvm, loss="huber"),
    "softplus": iris(dpsvm, loss="softplus", h=0.2, spend="inference"),
    "shared_delta": iris(dplr, delta=1e-6, spend="inference"),
    "private_scale": iris(dplr, do_scale="private", spend="inference"),
    "private_scale_delta": anes(dpsvm, VOTES_BOUNDED, do_scale="private", delta=1e-6),
    "roc": iris(dplr, spend={"coefficients": 0.75, "roc": 0.25}, threshold="youden"),
    "roc_zcdp": iris(dpsvm, eps=ZCDP(0.1), spend={"coefficients": 0.75, "roc": 0.25}),
    "roc_scale_delta": anes(dplr, VOTES_BOUNDED, spend=ALL_STAGES, delta=1e-6),
    "linear_program": iris(dplpsvm, eps=3.0),
    "linear_program_delta": iris(dplpsvm, eps=3.0, delta=1e-6),
    "simplex": iris(dpsimplex, eps=3.0),
    "simplex_zcdp": iris(dpsimplex, eps=ZCDP(0.5)),
    "wide": words(dplr, eps=2.0, lambda_=1e-2),
    "wide_output": words(dpsvm, loss="huber", eps=2.0, lambda_=1e-2, op=False),
    "matrix_linear_program": words(dplpsvm, eps=3.0),
    "matrix_simplex": words(dpsimplex, eps=3.0),
}


def rows_of(fit):
    """A few rows in the columns that the fit reads, one of them with what is missing or unknown."""
    spec = fit.spec
    if not isinstance(spec, DesignSpec):
        return np.round(np.random.default_rng(1).uniform(-2, 2, (4, spec.p)), 3).tolist()
    rows = {}
    for name, variable in spec.variables.items():
        if variable.levels:
            named = [variable.levels[i % len(variable.levels)] for i in range(4)]
            rows[name] = [*named, "not a level" if isinstance(named[0], str) else None]
        else:
            low, high = variable.bounds if variable.is_bounded else (-1.0, 7.0)
            rows[name] = [low, high, (low + 2 * high) / 3, 2 * high, None]
    return rows


def as_data(rows):
    """Stored rows as `predict` takes them."""
    if isinstance(rows, list):
        return np.array(rows)
    return pd.DataFrame(
        {
            name: pd.Series(values, dtype="float64" if is_numeric(values) else "object")
            for name, values in rows.items()
        }
    )


def is_numeric(values):
    return all(isinstance(value, float | int | None) for value in values)


def scale_of(fit):
    return "link" if fit.loss.probability is not None else "margins"


def facts_of(fit, rows):
    """What a later version has to find in the file, in plain values."""
    predicted = fit.predict(as_data(rows), scale_of(fit)).tolist()
    return {
        "rows": rows,
        "predicted": [None if math.isnan(value) else value for value in predicted],
        "coef": fit.coef.tolist(),
        "guarantee": str(fit.guarantee),
        "formula": fit.formula,
    }


def freeze(folder):
    folder.mkdir(parents=True)
    for name, make in FITS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            fit = make()
        fit.save(folder / f"{name}.json", key=KEY if name == "signed" else None)
        facts = json.dumps(facts_of(fit, rows_of(fit)), ensure_ascii=False)
        (folder / f"{name}.facts").write_text(facts + "\n", encoding="utf-8")


if __name__ == "__main__":
    freeze(FROZEN / sys.argv[1])
