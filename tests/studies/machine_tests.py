"""How often tests of a support vector machine find a variable that has no effect.

    python -m tests.studies.machine_tests [--runs 60]

Studies are those of `coverage_populations.collinear_null`: a column without effect is correlated
.8 with the one of the largest effect. A row has the shares of tests at 5 % that reject that its
coefficient is 0: of `dplr` by its usual target, and of `dpsvm` by both targets, asked for by name.
The coefficients of a machine are those of an objective that shortens long rows and has a penalty,
and not those of a model of the response, so that they need not be 0.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from privatelr import ApproxDP, PrivacyWarning, PureDP, dplr, dpsvm

from .coverage_populations import population_of

CELLS = (
    (10_000, PureDP(1.0)),
    (10_000, ApproxDP(1.0, 1e-6)),
    (100_000, PureDP(1.0)),
)
ASKED = ((dplr, None), (dpsvm, "penalised"), (dpsvm, "unpenalised"))


def p_values(n: int, promise: PureDP | ApproxDP, rng: np.random.Generator) -> list[float]:
    """P-values of the null in one study, in the order of the columns."""
    source, seed = population_of("null", 6), int(rng.integers(2**63))
    frame = source.sample(n, rng)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of the seed
        for model, target in ASKED:
            fit = model(
                source.formula, frame, promise, spend="inference", seed=seed, bounds=source.bounds
            )
            found.append(float(fit.tidy(target=target).set_index("term").loc["null", "p_value"]))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=60, help="studies of each row")
    runs = parser.parse_args().runs
    print("| n | promise | dplr | dpsvm, penalised | dpsvm, unpenalised |")
    print("|---|---|---|---|---|")
    for n, promise in CELLS:
        rng = np.random.default_rng(11)
        found = np.array([p_values(n, promise, rng) for _ in range(runs)])
        shares = " | ".join(f"{share:.2f}" for share in (found < 0.05).mean(axis=0))
        print(f"| {n} | {promise} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
