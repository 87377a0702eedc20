"""Regret of private follow-the-regularised-leader beside its bound, and beside the printed one.

    python -m tests.studies.online_regret [--rounds T] [--seeds N]

For each sequence of losses: the expected regret (the mean play), the sampled one with its
deviation over the seeds, the bound of the package, and the bound that Jain and Thakurta (2014,
equation 12) print, with a constant of sqrt(8). A choice is sampled in doubles, from the law that
`PrivateFTRL` draws from exactly. About half a minute; nothing in here is private.
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

import numpy as np

from privatelr.selection.online import calibrate_online, read_problem, read_promise

if TYPE_CHECKING:
    from collections.abc import Callable

    from privatelr.selection.online import OnlineCalibration
    from privatelr.types import FloatArray

DELTA = 1e-6
BLOCK = 500
"""Rounds that are worked on at once."""


def gap(rng: np.random.Generator, rounds: int, p: int) -> FloatArray:
    """One expert loses 0.4 of the time, the others 0.5."""
    return (rng.random((rounds, p)) < np.where(np.arange(p) == 0, 0.4, 0.5)).astype(float)


def switch(rng: np.random.Generator, rounds: int, p: int) -> FloatArray:
    """The best expert of the first half is bad in the second, where another one is good."""
    chances = np.full((rounds, p), 0.5)
    chances[: rounds // 2, 0], chances[rounds // 2 :, 0] = 0.3, 0.6
    chances[rounds // 2 :, 1] = 0.2
    return (rng.random((rounds, p)) < chances).astype(float)


def noise(rng: np.random.Generator, rounds: int, p: int) -> FloatArray:
    """No expert is better."""
    return rng.random((rounds, p))


def one_good(rng: np.random.Generator, rounds: int, p: int) -> FloatArray:
    """One expert never loses, all others always do: the bound is attained."""
    losses = np.ones((rounds, p))
    losses[:, 0] = 0
    return losses


INSTANCES: dict[str, Callable[[np.random.Generator, int, int], FloatArray]] = {
    "gap": gap,
    "switch": switch,
    "noise": noise,
    "one good": one_good,
}


def regrets(
    calibration: OnlineCalibration, losses: FloatArray, rng: np.random.Generator
) -> tuple[float, float]:
    """Expected and sampled loss above the one of the best expert."""
    expected = sampled = 0.0
    sums = np.zeros(losses.shape[1])
    for start in range(0, len(losses), BLOCK):
        part = losses[start : start + BLOCK]
        before = sums + np.cumsum(part, axis=0) - part
        sums = sums + part.sum(axis=0)
        chances = np.exp(-(before - before.min(axis=1, keepdims=True)) / calibration.lambda_)
        chances /= chances.sum(axis=1, keepdims=True)
        expected += float((chances * part).sum())
        drawn = (chances.cumsum(axis=1) > rng.random((len(part), 1))).argmax(axis=1)
        sampled += float(part[np.arange(len(part)), drawn].sum())
    return expected - sums.min(), sampled - sums.min()


def printed_bound(p: int, rounds: int, epsilon: float) -> float:
    """``sqrt(8 log(p) T log(1 / delta)) / epsilon``, which does not hold."""
    return math.sqrt(8 * math.log(p) * rounds * math.log(1 / DELTA)) / epsilon


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    print("| losses | p | eps | lambda | expected | sampled | bound | printed |")
    print("|---|---|---|---|---|---|---|---|")
    for name, make in INSTANCES.items():
        for p in (10, 1000):
            for epsilon in (0.0, 1.0, 5.0):
                problem = read_problem(p, chosen.rounds, (0, 1), "replace")
                found = calibrate_online(problem, read_promise(epsilon, DELTA, problem))
                values = []
                for seed in range(chosen.seeds):
                    rng = np.random.default_rng([seed, p])
                    values.append(regrets(found, make(rng, chosen.rounds, p), rng))
                expected, sampled = np.array(values).T
                printed = f"{printed_bound(p, chosen.rounds, epsilon):.0f}" if epsilon else ""
                print(
                    f"| {name} | {p} | {epsilon:g} | {found.lambda_:.4g} | {expected.max():.1f} | "
                    f"{sampled.mean():.0f} +- {sampled.std(ddof=1):.0f} | "
                    f"{found.regret_bound:.0f} | {printed} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
