"""How fast this checkout is beside another: ``python -m tests.benchmarks.checkouts OTHER``.

Each repetition runs a process in the one checkout and in the other, in turns. What is printed is
the median of the ratios of a pair, and the middle half of them.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[2]
FIT = """
import sys, time
import numpy as np
import pandas as pd
from privatelr import dplr
n, d, fits = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (n, d))
frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(d)])
frame["y"] = (rng.random(n) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)
bounds = {f"x{i}": (-1, 1) for i in range(d)}
dplr("y ~ .", frame, eps=1, bounds=bounds)
took = []
for _ in range(fits):
    start = time.perf_counter()
    dplr("y ~ .", frame, eps=1, bounds=bounds)
    took.append(time.perf_counter() - start)
print(sorted(took)[len(took) // 2])
"""
IMPORT = """
import time
start = time.process_time()
from privatelr import dplr
print(time.process_time() - start)
"""
CASES = {
    "import": (IMPORT, ()),
    "1e3 x 5": (FIT, (1_000, 5, 30)),
    "1e5 x 50": (FIT, (100_000, 50, 5)),
    "1e6 x 50": (FIT, (1_000_000, 50, 2)),
}


def seconds(checkout, code, sizes):
    """Seconds that a case takes in a process of its own."""
    command = [sys.executable, "-c", code, *map(str, sizes)]
    paths = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        command, cwd=checkout, env=paths, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main():
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("other", type=Path, help="another checkout of the package")
    parser.add_argument("--pairs", type=int, default=9)
    chosen = parser.parse_args()
    print(f"{'case':10} {'here':>9} {'other':>9} {'ratio':>7}  middle half")
    for name, (code, sizes) in CASES.items():
        pairs = []
        for index in range(chosen.pairs):
            order = (HERE, chosen.other)[:: 1 if index % 2 else -1]
            found = {checkout: seconds(checkout, code, sizes) for checkout in order}
            pairs.append((found[HERE], found[chosen.other]))
        ratios = [ours / theirs for ours, theirs in pairs]
        low, middle, high = statistics.quantiles(ratios, n=4)
        here, other = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{name:10} {here:9.4f} {other:9.4f} {middle:7.3f}  {low:.3f}-{high:.3f}")


if __name__ == "__main__":
    main()
