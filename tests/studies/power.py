"""How often tests of a whole factor find the effect of a common level beside a rare one.

    python -m tests.studies.power [--runs 200]

Each row is a study of two numbers and a factor of three levels, the last of which has 3 % of the
records and no effect. It has the shares of tests at 5 % that reject "the factor has no effect":
by the approximate deviance and by Wald's form, both from the same releases, and that of the common
level alone. In the rows without an effect they are the levels of the tests.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import pandas as pd
from scipy import special

from privatelr import PrivacyWarning, dplr

CELLS = (
    (2000, 1.0, 0.0, 1.0),
    (2000, 2.0, 0.0, 0.6),
    (2000, 2.0, 1e-6, 0.5),
    (2000, 4.0, 0.0, 0.4),
    (2000, 2.0, 0.0, 0.0),
)
"""Records, epsilon, delta, and the effect of the common level."""
BOUNDS = {"age": (20, 80), "weight": (50, 120)}
LEVELS = {"group": ["none", "common", "rare"]}
SHARES = (0.6, 0.37, 0.03)


def sample(n: int, effect: float, rng: np.random.Generator) -> pd.DataFrame:
    """Records of a study."""
    age = np.clip(rng.normal(50, 12, n), *BOUNDS["age"])
    weight = np.clip(rng.normal(85, 14, n), *BOUNDS["weight"])
    group = rng.choice(LEVELS["group"], n, p=SHARES)
    link = 0.04 * (age - 50) + 0.02 * (weight - 85) + effect * (group == "common")
    y = rng.random(n) < special.expit(link)
    return pd.DataFrame({"y": y, "age": age, "weight": weight, "group": group})


def p_values(
    n: int, epsilon: float, delta: float, effect: float, rng: np.random.Generator
) -> list[float]:
    """P-values of one study, in the order of the columns."""
    frame, seed = sample(n, effect, rng), int(rng.integers(2**63))
    public = {"bounds": BOUNDS, "levels": LEVELS, "spend": "inference", "seed": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of the seed
        fit = dplr("y ~ age + weight + group", frame, epsilon, delta=delta, **public)
    tests = [fit.deviance_test("group"), fit.wald_test("group"), fit.wald_test("group[T.common]")]
    return [test.p_value for test in tests]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200, help="studies of each row")
    runs = parser.parse_args().runs
    print("| n | epsilon | delta | effect | deviance | Wald | common level alone |")
    print("|---|---|---|---|---|---|---|")
    for cell in CELLS:
        rng = np.random.default_rng(7)
        found = np.array([p_values(*cell, rng) for _ in range(runs)])
        shares = " | ".join(f"{share:.3f}" for share in (found < 0.05).mean(axis=0))
        print(f"| {' | '.join(f'{number:g}' for number in cell)} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
