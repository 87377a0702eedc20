"""Who else minimises the objective, and how each is asked for a small gradient."""

from __future__ import annotations

import importlib.util
import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize, sparse

from privatelr.numerics import Logistic, Objective
from privatelr.numerics.solve import Newton

from .neutral import gradient_norm, value_and_gradient

if TYPE_CHECKING:
    from collections.abc import Callable

    from privatelr.types import FloatArray

    from .problems import Problem

EQUAL = 1e-10
"""Gradient that everybody is asked for, measured by `neutral.gradient_norm`."""
_LOOSEST, _TIGHTEST = 7, 13
"""Digits of the tolerances that are tried."""
_STALLS = 2
_MANY = 10_000
"""Iterations that nobody is stopped by."""
_STEPS = 200
"""And those of liblinear, each a step of Newton's method, of which it may be short forever."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Somebody's minimiser.

    Attributes
    ----------
    fit : callable
        From a problem and the peer's own tolerance to coefficients ``(d,)``.
    needs : str
        The library that it comes with.
    logistic_only : bool
        It knows the logistic loss and no other.
    largest, widest : int
        Entries of a matrix, and columns, beyond which nobody would wait for it, or have the
        memory for it.
    """

    name: str
    fit: Callable[[Problem, float], FloatArray]
    needs: str = "scipy"
    logistic_only: bool = True
    takes_sparse: bool = True
    largest: int = 10**9
    widest: int = 10**6

    def can(self, problem: Problem) -> bool:
        """Whether it is installed and takes the problem."""
        return (
            importlib.util.find_spec(self.needs) is not None
            and (isinstance(problem.loss, Logistic) or not self.logistic_only)
            and (self.takes_sparse or not sparse.issparse(problem.x))
            and problem.x.size <= self.largest
            and problem.d <= self.widest
        )

    def __call__(self, problem: Problem, tolerance: float) -> FloatArray:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # the gradient says how far it came
            return np.ravel(self.fit(problem, tolerance))


def ours(problem: Problem) -> FloatArray:
    """The package's own minimiser, in the state in which a release takes it."""
    objective = Objective(problem.rows, problem.loss, problem.lambda_, np.zeros(problem.d))
    return Newton(EQUAL)(objective).w


def _sklearn(solver: str) -> Callable[[Problem, float], FloatArray]:
    def fit(problem: Problem, tolerance: float) -> FloatArray:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(
            C=1 / (problem.n * problem.lambda_),
            fit_intercept=False,
            solver=solver,
            tol=tolerance,
            max_iter=_STEPS if solver == "liblinear" else _MANY,
        )
        return np.asarray(model.fit(problem.x, problem.y).coef_)

    return fit


def _glum(problem: Problem, tolerance: float) -> FloatArray:
    from glum import GeneralizedLinearRegressor

    model = GeneralizedLinearRegressor(
        family="binomial",
        alpha=problem.lambda_,
        l1_ratio=0,
        fit_intercept=False,
        gradient_tol=tolerance,
        max_iter=_MANY,
        copy_X=False,
    )
    x = sparse.csc_array(problem.x) if sparse.issparse(problem.x) else problem.x
    return np.asarray(model.fit(x, (problem.y + 1) / 2).coef_)


def _statsmodels(problem: Problem, tolerance: float) -> FloatArray:
    from statsmodels.api import GLM, families

    model = GLM((problem.y + 1) / 2, problem.x, family=families.Binomial())
    # tolerance is for changes of coefficients; Logit.fit_regularized knows the lasso only
    fit = model.fit_regularized(
        alpha=problem.lambda_, L1_wt=0.0, maxiter=1000, cnvrg_tol=tolerance, zero_tol=0.0
    )
    return np.asarray(fit.params)


def _scipy(method: str, options: dict[str, float]) -> Callable[[Problem, float], FloatArray]:
    def fit(problem: Problem, tolerance: float) -> FloatArray:
        found = optimize.minimize(
            lambda w: value_and_gradient(problem, w),
            np.zeros(problem.d),
            jac=True,
            method=method,
            options={"gtol": tolerance, "maxiter": _MANY, **options},
        )
        return np.asarray(found.x)

    return fit


_SQUARED = 2000
"""Columns beyond which a matrix of all their pairs is too much."""
PEERS = (
    Peer("scikit-learn lbfgs", _sklearn("lbfgs"), "sklearn"),
    Peer("scikit-learn newton-cholesky", _sklearn("newton-cholesky"), "sklearn", widest=_SQUARED),
    Peer("liblinear", _sklearn("liblinear"), "sklearn", widest=10**8),
    Peer("glum", _glum, "glum", widest=_SQUARED),
    Peer("statsmodels GLM", _statsmodels, "statsmodels", takes_sparse=False, largest=50_000),
    Peer(
        "SciPy L-BFGS-B",
        _scipy("L-BFGS-B", {"ftol": 0.0, "maxfun": _MANY, "maxcor": 20}),
        logistic_only=False,
    ),
    # R's PrivateLR calls optim(method="BFGS") from zero; here it is given exact gradients
    Peer(
        "BFGS, as PrivateLR",
        _scipy("BFGS", {}),
        logistic_only=False,
        largest=10_000_000,
        widest=_SQUARED,
    ),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """The tolerance that a peer is run at, and the gradient that it ends at."""

    tolerance: float
    gradient: float

    @property
    def is_equal(self) -> bool:
        """Whether the accuracy asked for was reached."""
        return self.gradient <= EQUAL


def tune(peer: Peer, problem: Problem) -> Setting:
    """The loosest tolerance at which a peer's gradient is small enough; see `loosest`."""
    return loosest(lambda tolerance: gradient_norm(problem, peer(problem, tolerance)))


def loosest(gradient_at: Callable[[float], float]) -> Setting:
    """The loosest tolerance at which the gradient is small enough.

    Where it never is, the loosest that comes within twice the smallest gradient seen, so that
    nobody is charged for steps that lead nowhere; tighter ones are not tried once two in a row
    that asked for more have led nowhere.
    """
    seen: list[Setting] = []
    for digits in range(_LOOSEST, _TIGHTEST + 1):
        tolerance = 10.0**-digits
        seen.append(Setting(tolerance, gradient_at(tolerance)))
        earlier, last = seen[-1 - _STALLS :][0].gradient, seen[-1].gradient
        asked = len(seen) > _STALLS and 10 * tolerance < last
        if seen[-1].is_equal or (asked and last > earlier / 2):
            break
    goal = max(EQUAL, 2 * min(setting.gradient for setting in seen))
    return next(setting for setting in seen if setting.gradient <= goal)


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
