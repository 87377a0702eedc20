"""How long intervals take after a fit: ``python -m tests.benchmarks.intervals``.

    python -m tests.benchmarks.intervals [--widths 6 15 30 60] [--runs 5]

prints milliseconds of the processor, medians over fits with other noise (a star: the posterior of
the moments is sampled by chains): `conf_int` at first, when
the posterior of the moments is drawn, and at another level; `pvalues`, `vcov` and one contrast
after that; and the first `conf_int` in the conservative mode. With pure noise the moments have
spherical Laplace noise, otherwise normal noise.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import pandas as pd

from privatelr import ZCDP, dplr
from privatelr.inference import FRAGILE, quality

GUARANTEES = {
    "pure": {"eps": 1.0},
    "rho": {"eps": ZCDP(0.05)},
    "eps, delta": {"eps": 1.0, "delta": 1e-6},
}
RECORDS_PER_COLUMN = 500
STAGES = ("first", "again", "level", "p-values", "vcov", "contrast", "conservative")


def table(d: int, n: int) -> tuple[pd.DataFrame, dict[str, tuple[float, float]]]:
    """Return columns within [-1, 1] and labels, and the bounds of the columns."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, d - 1))
    frame = pd.DataFrame(x).add_prefix("x")
    bounds = dict.fromkeys(frame.columns, (-1.0, 1.0))
    y = rng.random(n) < 1 / (1 + np.exp(-x @ np.linspace(1, -1, d - 1)))
    return frame.assign(y=y.astype(float)), bounds


def taken(d: int, guarantee: dict[str, Any]) -> tuple[float, list[float]]:
    """Noise over signal of one fit, and milliseconds of each stage."""
    frame, bounds = table(d, RECORDS_PER_COLUMN * d)
    fit = dplr(
        "y ~ .",
        frame,
        bounds=bounds,
        levels={"y": [0, 1]},
        spend="inference",
        do_scale=False,
        **guarantee,
    )
    found = []
    for stage in (
        fit.conf_int,
        fit.conf_int,
        lambda: fit.conf_int(0.1),
        lambda: fit.pvalues,
        fit.vcov,
        lambda: fit.contrasts("x0 - x1 = 0"),
        lambda: fit.conf_int(mode="conservative", target="penalised"),
    ):
        start = time.process_time()
        stage()
        found.append(1e3 * (time.process_time() - start))
    return quality(fit.release).noise_to_signal, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[6, 15, 30, 60])
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    print(f"{'median ms':<12}{'d':>4}{'noise':>8}" + "".join(f"{name:>14}" for name in STAGES))
    for d in asked.widths:
        for name, guarantee in GUARANTEES.items():
            runs = [taken(d, guarantee) for _ in range(asked.runs)]
            ratio = statistics.median(ratio for ratio, _ in runs)
            parts = [statistics.median(part) for part in zip(*(ms for _, ms in runs), strict=True)]
            sampled = "*" if ratio >= FRAGILE else " "  # by chains
            line = "".join(f"{ms:>14.1f}" for ms in parts)
            print(f"{name:<12}{d:>4}{ratio:>7.2g}{sampled}{line}", flush=True)


if __name__ == "__main__":
    main()
