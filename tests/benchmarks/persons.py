"""What persons add to time and memory: ``python -m tests.benchmarks.persons``.

    python -m tests.benchmarks.persons [--n 1000000] [--columns 20] [--pairs 7]

prints the median of paired ratios, of a fit about persons with four records each, in random order,
over the fit of the same records one by one: seconds, and peak memory of the process. Both of a pair
run in a process of their own, which fits a small table and then this one five times; its seconds
are the median, for a draw that needs a step more or less is not what persons add. The order within
a pair changes from pair to pair.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[2]
FIT = """
import gc, resource, statistics, sys, time
import numpy as np
import pandas as pd
from privatelr import dplr
n, d, kind, spend, scale = *map(int, sys.argv[1:3]), *sys.argv[3:]
rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (n, d))
frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(d)], copy=False)
frame["y"] = (rng.random(n) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)
whose = rng.permutation(np.arange(n) // 4)
texts = np.char.add("p", whose.astype(str)) if kind in ("text", "object") else None
frame["person"] = {
    "text": lambda: pd.Series(texts),  # as pandas keeps texts
    "object": lambda: pd.Series(texts.astype(object), dtype=object),
}.get(kind, lambda: whose)()
bounds = {f"x{i}": (-1, 1) for i in range(d)}
given = dict(bounds=bounds, eps=1, do_scale={"auto": None, "none": False}[scale])
shares = {"coefficients": 0.7, "roc": 0.3}
given["spend"] = {"none": None, "inference": "inference"}.get(spend, shares)
formula = "y ~ . - person" if kind == "records" else "y ~ ."
if kind != "records":
    given["person"] = "person"
dplr(formula, frame.head(400), **given | {"do_scale": False})
gc.collect()
try:
    open("/proc/self/clear_refs", "w").write("5")  # the peak so far is that of making the table
except OSError:
    pass
times = []
for _ in range(5):
    start = time.perf_counter()
    dplr(formula, frame, **given)
    times.append(time.perf_counter() - start)
took = statistics.median(times)
peak = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(took, peak[0].split()[1] if peak else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
CASES = {
    "coefficients": ("persons", "none", "none"),
    "and scale": ("persons", "none", "auto"),
    "and scale, inference": ("persons", "inference", "auto"),
    "and score counts": ("persons", "roc", "none"),
    "and scale; persons are texts": ("text", "none", "auto"),
    "and scale; persons are Python's texts": ("object", "none", "auto"),
}


def measured(n: int, columns: int, *case: str) -> tuple[float, float]:
    """Seconds, and kilobytes at the peak, of one fit in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-c", FIT, str(n), str(columns), *case]
    paths = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run(command, cwd=HERE, env=paths, capture_output=True, text=True, check=True)
    seconds, peak = map(float, done.stdout.split())
    return seconds, peak


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=10**6)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=7)
    asked = parser.parse_args()
    for name, (kind, *bought) in CASES.items():
        pairs = []
        for turn in range(asked.pairs):
            order = (kind, "records") if turn % 2 else ("records", kind)
            found = {one: measured(asked.n, asked.columns, one, *bought) for one in order}
            pairs.append([a / b for a, b in zip(found[kind], found["records"], strict=True)])
        for what, ratios in zip(("time", "memory"), zip(*pairs, strict=True), strict=True):
            low, middle, high = statistics.quantiles(ratios, n=4)
            print(f"{name}: {what} {middle:.2f} times ({low:.2f} to {high:.2f})", flush=True)


if __name__ == "__main__":
    main()
