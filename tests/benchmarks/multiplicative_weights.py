"""Milliseconds a round of the linear-program support vector machine, beside the naive loop.

    python -m tests.benchmarks.multiplicative_weights

n = 45,000 records, p = 105 columns; the least of several runs. Choices are drawn from the system.
"""

from __future__ import annotations

import time

import numpy as np
from scipy import sparse

from privatelr.numerics.rows import EntryRows
from privatelr.privacy import ApproxDP
from privatelr.privacy.noise import SystemRandomness
from privatelr.selection.dense_weights import dense_projection
from privatelr.selection.multiplicative_weights import (
    ProgramFacts,
    calibrate_program,
    release_program,
)

N, P, ROUNDS, RUNS = 45_000, 105, 100, 7
DENSITY = 14 / 105
"""Of the sparse table: fourteen variables in 105 columns, as in Adult."""


def tables():
    """A dense and a sparse table of the same labels."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (N, P))
    y = np.where(x @ rng.standard_normal(P) + rng.standard_normal(N) > 0, 1.0, -1.0)
    thin = sparse.random_array((N, P), density=DENSITY, format="csr", rng=rng)
    return {"dense": (x, y), "sparse": (thin, y)}


def least(function, runs=RUNS):
    """Seconds of the fastest of several runs."""
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return min(found)


def naive_round(gain, log_weights, s, choice):
    """One sum for each option, and bisection for the weights."""
    low, high = -50.0, 50.0
    weights = np.exp(log_weights - log_weights.max())
    for _ in range(60):
        middle = (low + high) / 2
        total = np.minimum(1, np.exp(middle) * weights).sum()
        low, high = (middle, high) if total < s else (low, middle)
    q = np.minimum(1, np.exp(low) * weights) / s
    scores = [sign * (q * gain[:, j]).sum() for sign in (1, -1) for j in range(gain.shape[1])]
    return choice.choose(np.array(scores), SystemRandomness())


def measured(rows, score):
    """Seconds of a round, a projection, a choice, and a round of the naive loop."""
    facts = ProgramFacts(N, P, 1.0, 0.25)
    calibration = calibrate_program(facts, ApproxDP(1.0, 1e-6), ROUNDS, "auto", score, slack=0.5)
    source, choice, rng = SystemRandomness(), calibration.choice, np.random.default_rng(1)
    log_weights, scores, gain = rng.standard_normal(N), rng.standard_normal(2 * P), rows.signed()
    return (
        least(lambda: release_program(rows, calibration, source)) / ROUNDS,
        least(lambda: dense_projection(log_weights, facts.s)),
        least(lambda: choice.choose(scores, source)),
        least(lambda: naive_round(gain, log_weights, facts.s, choice), runs=3),
    )


def main():
    print("| table | score | ms a round | projection | choice | naive |")
    print("|---|---|---|---|---|---|")
    for name, (x, y) in tables().items():
        rows = EntryRows(x, y, x_bound=1.0)
        for score in ("margin", "count"):
            cells = " | ".join(f"{1e3 * seconds:.2f}" for seconds in measured(rows, score))
            print(f"| {name} | {score} | {cells} |")


if __name__ == "__main__":
    main()
