"""A fit and an answer of every kind that a release file can hold."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr import (
    REPLACE_PERSON,
    ZCDP,
    Ledger,
    choose,
    dplpsvm,
    dplr,
    dpmultinom,
    dpsimplex,
    dpsvm,
    levels_from,
    load_dataset,
    load_schema,
    suggest_bounds,
)
from privatelr.design import DesignSpec
from privatelr.results.multinomial_fit import MultinomialFit
from privatelr.results.strata_of_fits import Strata

FLOWERS, FLOWER = "Species != 'setosa' ~ .", "Species == 'virginica' ~ "
VOTES_BOUNDED = "vote ~ age * C(PID, contr.sum) + popul"
VOTES = "vote ~ age * C(PID, contr.sum) + log(popul + 1)"

OF_PERSONS = ZCDP(2.0, REPLACE_PERSON)
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
    y = pd.Series((x[:, :10].sum(axis=1) > x[:, 10:20].sum(axis=1)), name="bought")
    return lambda: model(y, x, **options)


def made_up_visits():
    """Two visits of each of 450 patients."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(20, 80, 900), "sex": rng.choice(["f", "m"], 900)})
    table["patient"] = np.arange(900) // 2
    table["ill"] = rng.uniform(size=900) < 0.2 + 0.01 * (table["age"] - 20)
    return table


TABLE = made_up_visits()


def visits(**options):
    declared = {"bounds": {"age": (18, 90)}, **options}
    return lambda: dplr("ill ~ age", TABLE, **declared)


def blooms(**options):
    """Iris as if two flowers were of each plant."""
    table = load_dataset("iris").assign(plant=np.arange(150) // 2)
    declared = {**load_schema("iris"), **options}
    return lambda: dpmultinom("Species ~ Petal.Width + Petal.Length", table, **declared)


def ledger_on_disk():
    return Ledger.create(Path(tempfile.mkdtemp()) / "study.ledger", 2.0, dataset="iris")


FITS = {
    "objective": iris(dplr),
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
    "offset": iris(dplr, FLOWER + "Petal.Width + offset(Petal.Length)", do_scale="private"),
    "splines": iris(
        dplr, FLOWER + "ns(Petal.Width, knots = c(1, 1.5)) + cut(Petal.Length, c(1, 3, 7))"
    ),
    "weights": iris(dplr, weights="Petal.Length", subset="Petal.Width < 2.2"),
    "lambda_of_the_other_way": iris(
        dplr,
        eps=1.529098176421465,
        delta=3.91724210556426e-08,
        op=False,
        analysis="cms11",
        spend={"roc": 0.25},
        do_scale=False,
    ),
    "scale_of_the_other_way": iris(
        dplr,
        eps=0.1524,
        delta=8.5e-05,
        lambda_="free",
        analysis="one-log",
        do_scale="private",
    ),
    "all_for_coefficients": iris(dplr, spend={"coefficients": 1}),
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
    "prior_sds": iris(dplr, prior={"Petal.Width": (1.5, 0.5)}),
    "prior_sds_scale": iris(dplr, prior={"Petal.Width": (1.5, 0.5)}, do_scale="private"),
    "classes": iris(dpmultinom, "Species ~ ."),
    "classes_zcdp": iris(dpmultinom, "Species ~ .", eps=ZCDP(0.5), do_scale="private"),
    "receipts": iris(dplr, ledger=ledger_on_disk()),
    "linear_program_roc": iris(dplpsvm, eps=3.0, spend={"coefficients": 0.75, "roc": 0.25}),
    "strata": visits(by="sex", levels={"sex": ["f", "m"]}, spend="inference", eps=20.0),
    "strata_ledger": visits(by="sex", levels={"sex": ["f", "m"]}, ledger=Ledger(2.0)),
    "matrix_persons": words(
        dplr, eps=8.0, person=np.arange(400) // 2, records_per_person=2, spend="inference"
    ),
    "persons": visits(person="patient", records_per_person=2, spend=ALL_STAGES, eps=20.0),
    "persons_zcdp": visits(person="patient", records_per_person=2, eps=OF_PERSONS),
    "persons_strata": visits(
        by="sex", levels={"sex": ["f", "m"]}, person="patient", records_per_person=2, eps=20.0
    ),
    "prior_uncovered": iris(dplr, prior=iris(dplr, eps=0)()),
    "classes_persons": blooms(person="plant", records_per_person=2, eps=4.0),
}


def answers():
    """A private answer of each kind, by name, about fits of made-up visits."""
    fit, small = visits(eps=4.0)(), visits(eps=2.0, delta=1e-6)()
    asked = visits(person="patient", records_per_person=2, eps=8.0)
    whole, persons = TABLE, asked()
    return {
        "curve": fit.private_roc(whole, eps=2.0),
        "curve_persons": persons.private_roc(whole, eps=8.0),
        "choice": choose({"large": fit, "small": small}, whole, 0.5, score="brier"),
        "bounds": suggest_bounds(whole, {"age": (0, 1000)}, ZCDP(4.0)),
        "bounds_persons": suggest_bounds(whole, {"age": (0, 1000)}, 8.0, person="patient"),
        "levels": levels_from(whole, "sex", 4.0, 1e-6),
    }


def rows_of(fit):
    """A few rows in the columns that the fit reads, one of them with what is missing or unknown."""
    if isinstance(fit, Strata):
        levels = [*fit.levels, *fit.levels, "not a level"][-5:]
        return {**rows_of(fit.first), fit.by: levels}
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
    if isinstance(fit, Strata):
        return scale_of(fit.first)
    if isinstance(fit, MultinomialFit):
        return "link"
    return "link" if fit.loss.probability is not None else "margins"


def without_nan(values):
    """Numbers, in lists of lists as well, with None where there is none."""
    if isinstance(values, list):
        return [without_nan(value) for value in values]
    return None if math.isnan(values) else values


def facts_of(fit, rows):
    """What has to be found in the file, in plain values."""
    predicted = np.asarray(fit.predict(as_data(rows), scale_of(fit)), dtype=float)
    each = fit.fits.values() if isinstance(fit, Strata) else [fit]
    return {
        "rows": rows,
        "predicted": without_nan(predicted.tolist()),
        "threshold": [one.threshold for one in each],
        "coef": np.asarray(fit.coef, dtype=float).tolist(),
        "guarantee": str(fit.guarantee),
        "formula": [one.formula for one in each] if isinstance(fit, Strata) else fit.formula,
    }
