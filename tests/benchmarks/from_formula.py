"""Where the time of ``dplr("y ~ .", frame)`` goes, stage by stage.

Stages are functions, timed where they are called. Those of the front door follow one another, and
each has its time to itself: what it calls that is a stage of its own is not counted twice. Reading
the rows may be done by several threads; its parts are measured on all of them and reported as
shares. Processor time is of all threads, and says more than the clock on the wall where other
programs run. A function that is not there any more is left out.
"""

from __future__ import annotations

import importlib
import statistics
import threading
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

import privatelr
from privatelr.numerics.solve import Newton

from .memory import as_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from .problems import Problem

STAGES = {
    "privatelr.call_data": {
        "read_source": "frame",
        "parse_formula": "plan",
        "plan_design": "plan",
        "read_design": "read rows",
    },
    "privatelr.method": {
        "calibrate_all": "calibrate",
        "draw_all": "draw",
        "release_all": "round",
    },
    "privatelr.results": {"diagnose": "diagnose"},
    "privatelr.numerics.solve.certified": {"gradient_bound": "certify"},
}
PARTS = {
    "privatelr.design.formula_design": {
        "read_stretch": "read values",
        "read_values": "read values",
        "to_units": "map to units",
        "read_covariates": "check values",
        "read_labelled": "mark unusable",
    },
    "privatelr.design.column_plan": {"read_factors": "evaluate factors", "fill": "materialise"},
    "privatelr.design.offsets_and_weights": {"labels": "labels"},
    "privatelr.numerics.rows.row_bounds": {
        "keep_rows_within_bounds": "check rows",
        "bounded_rows": "bound rows",
        "held_in_blocks": "hold in blocks",
    },
}
SOLVE, REST = "solve", "rest"


class Clock:
    """Seconds that each stage had to itself, on all threads, by a function that tells the time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.own: dict[str, float] = defaultdict(float)
        self._here, self._adding = threading.local(), threading.Lock()

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, on this clock."""

        def run(*args: Any, **kwargs: Any) -> Any:
            inner = self._here.__dict__.setdefault("inner", [0.0])
            inner.append(0.0)
            start = self._now()
            try:
                return function(*args, **kwargs)
            finally:
                taken = self._now() - start
                own = taken - inner.pop()
                inner[-1] += taken
                with self._adding:
                    self.own[stage] += own

        return run


@contextmanager
def watched(clock: Clock, places: Mapping[str, Mapping[str, str]]) -> Iterator[None]:
    """Within the block the stages in these places are on the clock."""
    with ExitStack() as stack:
        for module, functions in places.items():
            found = importlib.import_module(module)
            for name, stage in functions.items():
                if hasattr(found, name):
                    timed = clock.timed(stage, getattr(found, name))
                    stack.enter_context(patch.object(found, name, timed))
        yield


def breakdown(problem: Problem, repetitions: int) -> dict[str, Any]:
    """Medians of the seconds of each stage, and the share of time outside the solver."""
    frame, bounds = as_frame(problem.x, problem.y)
    frame["y"] = frame["y"] > 0
    # memory that nobody has used yet comes slowly, from some machines very slowly
    privatelr.dplr("y ~ .", frame, eps=1.0, bounds=bounds)
    walls, processors, parts = [], [], []
    for _ in range(repetitions):
        wall, processor = Clock(time.perf_counter), Clock(time.process_time)
        inside = Clock(time.perf_counter)
        with watched(wall, STAGES), watched(processor, STAGES), watched(inside, PARTS):
            fit, minimise = privatelr.dplr, Newton.__call__
            for clock in (wall, processor):
                fit, minimise = clock.timed(REST, fit), clock.timed(SOLVE, minimise)
            # not by another solver around it: how far Newton goes depends on who asks
            with patch.object(Newton, "__call__", minimise):
                fit("y ~ .", frame, eps=1.0, bounds=bounds)
        for runs, clock in ((walls, wall), (processors, processor), (parts, inside)):
            runs.append(dict(clock.own))
    return {
        "n": problem.n,
        "d": problem.d,
        "runs": repetitions,
        "seconds": _medians(walls),
        "processor seconds": _medians(processors),
        "parts of reading": _medians(parts),
        "outside the solver": _outside(walls, SOLVE),
        "outside the solver and its certificate": _outside(walls, SOLVE, "certify"),
        "outside the solver, of processor time": _outside(processors, SOLVE),
    }


def _medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {stage: statistics.median(run[stage] for run in runs) for stage in runs[0]}


def _outside(runs: list[dict[str, float]], *stages: str) -> float:
    inside = (sum(run[stage] for stage in stages) / sum(run.values()) for run in runs)
    return 1 - statistics.median(inside)
