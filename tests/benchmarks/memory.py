"""How much memory a fit takes at its peak, beyond its matrix, in a process of its own.

    python -m tests.benchmarks.memory NAME FOLDER TOLERANCE

fits what `peaks` left in a folder and prints bytes. A process starts with the peak of the one
that started it, and a warm-up has one too, so the kernel's mark is taken back before the fit
where that can be done (Linux).
"""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

import privatelr
from privatelr.numerics import Logistic
from privatelr.numerics.rows import DenseRows

from .peers import PEERS, Setting, ours
from .problems import INTERCEPT, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from privatelr.types import FloatArray

OURS, FROM_FORMULA = "ours", "dplr, from the frame"
_WARM = 400
"""Records of the fit that loads whatever is loaded late."""


def peaks(problem: Problem, settings: Mapping[str, Setting]) -> dict[str, float]:
    """Peak memory of each fit over the bytes of the matrix; of peers at their tolerances."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "x.npy", problem.x)
        np.save(Path(folder) / "y.npy", problem.y)
        names = {OURS: 0.0, FROM_FORMULA: 0.0, **{n: s.tolerance for n, s in settings.items()}}
        return {
            name: _in_process(name, folder, tolerance) / problem.size
            for name, tolerance in names.items()
        }


def _in_process(name: str, folder: str, tolerance: float) -> int:
    command = [sys.executable, "-m", __spec__.name, name, folder, repr(tolerance)]
    homes = Path(__file__).parents[__spec__.name.count(".")], Path(privatelr.__file__).parents[1]
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, homes))}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=found)
    return int(done.stdout)


def main() -> None:
    """Fit once in this process, and print by how much its memory grew."""
    name, folder, tolerance = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    x, y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
    few = _prepared(name, x[:_WARM].copy(), y[:_WARM].copy(), tolerance)
    few()
    fit = _prepared(name, x, y, tolerance)
    del x
    gc.collect()
    before = _peak(start_again=True)
    fit()
    print(_peak(start_again=False) - before)


def _prepared(name: str, x: FloatArray, y: FloatArray, tolerance: float) -> Callable[[], Any]:
    """A fit that holds what it is handed, and nothing of it yet that it makes of it."""
    if name == FROM_FORMULA:
        frame, bounds = as_frame(x, y)
        return lambda: privatelr.dplr("y ~ .", frame, eps=1.0, bounds=bounds)
    problem = Problem(name, _held(x, y), x, y, Logistic())
    if name == OURS:
        return lambda: ours(problem)
    peer = next(peer for peer in PEERS if peer.name == name)
    return lambda: peer(problem, tolerance)


def _held(x: FloatArray, y: FloatArray) -> DenseRows:
    """Rows that were bounded before, without another copy of them."""
    first = DenseRows(x[:1, 1:], y[:1], bound=float(len(x[0])) ** 0.5, intercept=INTERCEPT)
    return first.with_table(x, y)


def as_frame(x: FloatArray, y: FloatArray) -> tuple[pd.DataFrame, dict[str, tuple[int, int]]]:
    """The covariates and the response as a user holds them, and the public bounds."""
    names = [f"x{column}" for column in range(1, x.shape[1])]
    frame = pd.DataFrame(x[:, 1:], columns=names)
    frame["y"] = (y > 0).astype(float)
    return frame, dict.fromkeys(names, (-1, 1))


def _peak(*, start_again: bool) -> int:
    """Bytes of memory at the highest so far, from now on if the mark can be taken back."""
    try:
        if start_again:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most


if __name__ == "__main__":
    main()
