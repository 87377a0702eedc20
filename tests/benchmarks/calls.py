"""`dplr` from a formula and a frame, beside what its users call today.

scikit-learn begins with a matrix of numbers that is ready, and stops at its own tolerance, or at
the loosest that takes it to the gradient that peers are asked for everywhere else here;
statsmodels and glum begin with the same formula and frame.
"""

from __future__ import annotations

import importlib.util
import statistics
import warnings
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import special

from privatelr import dplr

from .peers import EQUAL, loosest
from .race import Ratios, pairs

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from privatelr.types import FloatArray

_LEVELS = (3, 5, 10)
"""Numbers of levels of the factors."""
_MANY = 10_000
"""Iterations that nobody is stopped by."""


@dataclass(frozen=True, slots=True)
class Table:
    """Records: numbers on [-1, 1], factors whose levels are strings, and a label of 0 or 1."""

    frame: pd.DataFrame
    bounds: dict[str, tuple[float, float]]
    levels: dict[str, list[str]]

    @property
    def formula(self) -> str:
        """Every column by its name, as glum knows no dot."""
        return f"y ~ {' + '.join([*self.bounds, *self.levels])}"

    def matrix(self) -> FloatArray:
        """All that scikit-learn needs, with an indicator for each level but the first."""
        ready = pd.get_dummies(self.frame.drop(columns="y"), drop_first=True, dtype=float)
        return np.ascontiguousarray(ready.to_numpy())


@dataclass(frozen=True, slots=True)
class Case:
    """A table, who is called on it beside us, and the largest ratio of times that we allow."""

    n: int
    numbers: int
    factors: int
    peers: dict[str, Callable[[Table], Callable[[], Any]]]
    goal: float

    def table(self) -> Table:
        """The records of this case, the same ones every time."""
        return synthetic_table(self.n, self.numbers, self.factors)


def synthetic_table(n: int, numbers: int, factors: int) -> Table:
    """Records whose labels follow a logistic model of the first number."""
    rng = np.random.default_rng([n, numbers, factors])
    x = rng.uniform(-1, 1, (n, numbers))
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(numbers)])
    levels = {}
    for i, count in enumerate(_LEVELS[:factors]):
        levels[f"f{i}"] = [f"level {j}" for j in range(count)]
        drawn = rng.choice(levels[f"f{i}"], n)
        frame[f"f{i}"] = pd.Series(drawn, dtype="str")
    frame["y"] = rng.random(n) < 1 / (1 + np.exp(-2 * x[:, 0]))
    return Table(frame, {f"x{i}": (-1, 1) for i in range(numbers)}, levels)


def ours(table: Table) -> Callable[[], Any]:
    """The whole call: plan, budget, rows, minimum, noise and the record of the result."""
    schema = {"bounds": table.bounds, "levels": table.levels}
    return lambda: dplr(table.formula, table.frame, eps=1.0, **schema)


def _sklearn(solver: str) -> Callable[[Table], Callable[[], Any]]:
    def ready(table: Table) -> Callable[[], Any]:
        from sklearn.linear_model import LogisticRegression

        x, y = table.matrix(), table.frame["y"].to_numpy()
        return lambda: LogisticRegression(solver=solver).fit(x, y)

    return ready


def _sklearn_to_a_gradient(solver: str) -> Callable[[Table], Callable[[], Any]]:
    def ready(table: Table) -> Callable[[], Any]:
        from sklearn.linear_model import LogisticRegression

        x, y = table.matrix(), table.frame["y"].to_numpy()

        def fit(tolerance: float) -> Any:
            return LogisticRegression(solver=solver, tol=tolerance, max_iter=_MANY).fit(x, y)

        tolerance = loosest(lambda tried: _gradient_norm(fit(tried), x, y)).tolerance
        return lambda: fit(tolerance)

    return ready


def _gradient_norm(model: Any, x: FloatArray, y: FloatArray) -> float:
    """Length of the gradient of what scikit-learn minimises, over n; C is 1."""
    coef = model.coef_[0]
    slope = special.expit(x @ coef + model.intercept_[0]) - y
    return float(np.hypot(np.linalg.norm(slope @ x + coef), slope.sum())) / len(y)


def _statsmodels(table: Table) -> Callable[[], Any]:
    from statsmodels.formula.api import logit

    frame = table.frame.assign(y=table.frame["y"].astype(float))  # it takes no booleans
    return lambda: logit(table.formula, frame).fit(disp=0)


def _glum(table: Table) -> Callable[[], Any]:
    from glum import GeneralizedLinearRegressor

    settings = {"family": "binomial", "alpha": 1 / len(table.frame), "l1_ratio": 0}
    return lambda: GeneralizedLinearRegressor(formula=table.formula, **settings).fit(table.frame)


FROM_ARRAYS = {
    "scikit-learn lbfgs": _sklearn("lbfgs"),
    "scikit-learn newton-cholesky": _sklearn("newton-cholesky"),
    f"scikit-learn lbfgs, to {EQUAL:g}": _sklearn_to_a_gradient("lbfgs"),
    f"scikit-learn newton-cholesky, to {EQUAL:g}": _sklearn_to_a_gradient("newton-cholesky"),
}
FROM_FORMULA = {"statsmodels": _statsmodels, "glum": _glum}
CASES = {
    "1e6x50": Case(10**6, 50, 0, FROM_ARRAYS, 0.5),
    "1e5x(20+3)": Case(10**5, 20, 3, FROM_ARRAYS, 0.5),
    "1e3x5": Case(10**3, 5, 0, FROM_FORMULA, 0.7),
}
QUICK = {
    "quick-1e4x(5+1)": Case(10**4, 5, 1, FROM_ARRAYS, 0.5),
    "quick-1e3x5": CASES["1e3x5"],
}
_LIBRARIES = {"scikit-learn": "sklearn"}


def calls(cases: dict[str, Case], repetitions: int) -> dict[str, Any]:
    """Ratios of times of whole calls, in pairs, by case and peer."""
    return {name: _beside(case, repetitions) for name, case in cases.items()}


def _beside(case: Case, repetitions: int) -> dict[str, Any]:
    table = case.table()
    mine = ours(table)
    found: dict[str, Any] = {"goal": case.goal, "peers": {}}
    for name, ready in case.peers.items():
        library = name.split()[0]
        if importlib.util.find_spec(_LIBRARIES.get(library, library)) is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of peers that stop before their minimum
            measured = pairs(mine, ready(table), repetitions)
        seconds = (statistics.median(side) for side in zip(*measured, strict=True))
        found["peers"][name] = {
            **asdict(Ratios.of(measured)),
            **dict(zip(("ours", "seconds"), seconds, strict=True)),
        }
    return found
