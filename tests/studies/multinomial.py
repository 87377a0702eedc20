"""Noise and accuracy of models of several classes, beside one fit of each class against the rest.

python -m tests.studies.multinomial            the noise on the coefficients, without data
python -m tests.studies.multinomial --runs 10  and the accuracy on iris and adult, with spread
"""

import argparse
import math
import warnings

import numpy as np
import pandas as pd

import privatelr as lr
from privatelr.datasets import fetch_adult
from privatelr.mechanisms import Problem, calibrate, read_request
from privatelr.numerics import LOSSES
from privatelr.privacy.noise import mean_square
from privatelr.types import Block

PROMISES = {
    "pure, eps 1": ((1.0, 0.0), lambda k: (1.0 / k, 0.0)),
    "zCDP, rho .1": ((lr.ZCDP(0.1), 0.0), lambda k: (lr.ZCDP(0.1 / k), 0.0)),
    "eps 1, delta 1e-6": ((1.0, 1e-6), lambda k: (1.0 / k, 1e-6 / k)),
}


def noise_table(columns, n=10_000):
    """Root mean square tilt of a class, over the curvature, of a softmax and of separate fits."""
    rows, blocks = [], tuple(Block(1, bound) for bound in (0.5, *[1.0] * (columns - 1)))
    radius = math.sqrt(columns - 1 + 0.25)
    for name, (whole, part) in PROMISES.items():
        for classes in (3, 5, 10):
            facts = Problem(n, columns, LOSSES["logistic"], radius, blocks)
            several = Problem(n, columns, facts.loss, radius, blocks, classes=classes)
            kinds = {"softmax": (several, whole), "against the rest": (facts, part(classes))}
            for kind, (problem, price) in kinds.items():
                made = calibrate(read_request(*price, None, None, True, None, "increase"), problem)
                shared = problem is several
                tilt = math.sqrt(mean_square(made.noise) / (classes if shared else 1))
                # the curvature of classes of equal size, for a difference of two vectors
                bend = 1 / classes if shared else (classes - 1) / classes**2
                found = {
                    "tilt": tilt,
                    "over curvature": tilt / bend,
                    "Lambda": made.problem.penalty,
                }
                rows.append({"promise": name, "classes": classes, "fit": kind, **found})
    return pd.DataFrame(rows)


def tables():
    """Two tables: formula, records, public facts."""
    iris = lr.load_dataset("iris")
    yield "iris", "Species ~ .", iris, lr.load_schema("iris"), (1.0, 4.0, 10.0)
    schema, adult = lr.load_schema("adult"), fetch_adult()
    kept = ["Never-married", "Married-civ-spouse", "Divorced"]
    adult = adult[adult.marital_status.astype(str).isin(kept)]
    schema["levels"] = {**schema["levels"], "marital_status": kept}
    formula = "marital_status ~ age + education_num + hours_per_week + sex"
    used = ("age", "education_num", "hours_per_week", "sex", "marital_status")
    schema = {
        part: {name: held for name, held in schema[part].items() if name in used}
        for part in ("bounds", "levels")
    }
    yield "adult", formula, adult, schema, (0.1, 1.0)


def hits(chosen, truth):
    return float((chosen.astype(str) == truth.astype(str).to_numpy()).mean())


def against_the_rest(formula, train, test, eps, schema):
    """One fit for each class at its part of the price; the largest link is predicted."""
    response, right = formula.split(" ~ ")
    levels = schema["levels"][response]
    covariates = right if right != "." else " + ".join(c for c in train if c != response)
    links = [
        lr.dplr(f"{response} == '{level}' ~ {covariates}", train, eps / len(levels), **schema)
        .predict(test, type="link")
        .to_numpy()
        for level in levels
    ]
    return pd.Series([levels[k] for k in np.argmax(links, axis=0)])


def accuracy(runs):
    """Share of held-out records that are classified rightly: mean and deviation over splits."""
    for name, formula, data, schema, prices in tables():
        response = formula.split(" ~ ")[0]
        found = {("plain", 0.0): []}
        for run in range(runs):
            order = np.random.default_rng(run).permutation(len(data))
            cut = len(data) * 4 // 5
            train, test = data.iloc[order[:cut]], data.iloc[order[cut:]]
            truth = test[response]
            plain = lr.dpmultinom(formula, train, 0, lambda_=1e-4, **schema)
            found["plain", 0.0].append(hits(plain.predict(test, type="classes"), truth))
            for eps in prices:
                fit = lr.dpmultinom(formula, train, eps, **schema)
                chosen = fit.predict(test, type="classes")
                found.setdefault(("softmax", eps), []).append(hits(chosen, truth))
                chosen = against_the_rest(formula, train, test, eps, schema)
                found.setdefault(("against the rest", eps), []).append(hits(chosen, truth))
        for (kind, eps), shares in sorted(found.items(), key=lambda one: one[0][1]):
            spread = np.std(shares, ddof=1) if runs > 1 else math.nan
            print(f"{name:8} eps {eps:5g}  {kind:18} {np.mean(shares):.3f} +- {spread:.3f}")


def main():
    """Print the table of noise, and the accuracy if runs are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--columns", type=int, default=6)
    chosen = parser.parse_args()
    print(noise_table(chosen.columns).round(1).to_string(index=False))
    if chosen.runs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            accuracy(chosen.runs)


if __name__ == "__main__":
    main()
