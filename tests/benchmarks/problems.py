"""What is minimised: one objective on one design matrix, for the package and for its peers.

    J(w) = (1/n) sum_i loss(y_i x_i.w) + (lambda/2) |w|^2

The intercept is a column of the matrix and is regularised; lambda is 1/n, which is scikit-learn's
``C=1``. The matrix is the one that the package holds, so nothing is lost in translation.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from privatelr.numerics import Huber, Logistic
from privatelr.numerics.rows import DenseRows

try:
    from sklearn.datasets import load_svmlight_file
except ImportError:
    load_svmlight_file = None
try:
    from privatelr.numerics.rows import SparseRows
except ImportError:
    SparseRows = None

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from privatelr.numerics import Loss
    from privatelr.types import FloatArray, Rows

INTERCEPT = 0.5
_A9A_ATTRIBUTES = 14
"""Zeros and ones, at most one of which is one for each attribute."""
_STRENGTH = 3.4
"""Deviation of the margins, with numbers on [-1, 1]: a model that is right for nine in ten."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """One objective.

    Attributes
    ----------
    rows : Rows
        What the package reads.
    x : ndarray or csr_array of shape (n, d)
        What its peers read, the same numbers.
    y : ndarray of shape (n,)
        -1 or +1.
    """

    name: str
    rows: Rows
    x: Any
    y: FloatArray
    loss: Loss

    @property
    def n(self) -> int:
        return int(self.x.shape[0])

    @property
    def d(self) -> int:
        return int(self.x.shape[1])

    @property
    def lambda_(self) -> float:
        return 1.0 / self.n

    @property
    def size(self) -> int:
        """Bytes of the matrix."""
        held = [self.x.data, self.x.indices, self.x.indptr] if sparse.issparse(self.x) else [self.x]
        return sum(int(part.nbytes) for part in held)

    def thinned(self, m: int) -> Problem:
        """About m of the rows, as a problem of their own."""
        rows = self.rows.thinned(m)
        return replace(self, rows=rows, x=rows.x, y=rows.y)


def synthetic(name: str, n: int, d: int, loss: Loss | None = None) -> Problem:
    """Numbers on [-1, 1], some of which lean to one side, and labels by a logistic model."""
    rng = np.random.default_rng([n, d])
    p = d - 1
    x = rng.uniform(-1, 1, (n, p))
    lean = rng.integers(0, 3, p) == 0
    for column in np.flatnonzero(lean):
        np.square(x[:, column], out=x[:, column])
    margin = x @ (rng.standard_normal(p) * _STRENGTH / math.sqrt(p)) - 0.5
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-margin)), 1.0, -1.0)
    rows = DenseRows(x, y, bound=math.sqrt(p), intercept=INTERCEPT)
    return Problem(name, rows, rows.x, rows.y, loss or Logistic())


def a9a(name: str, *, as_sparse: bool = False) -> Problem | None:
    """The records of a9a, dense or sparse, or None where `published` has none."""
    found = published("a9a/a9a.gz", columns=123)
    if found is None:
        return None
    covariates, y = found
    limits = {"bound": math.sqrt(_A9A_ATTRIBUTES), "intercept": INTERCEPT}
    if as_sparse:
        return _sparse(name, covariates, y, **limits)
    rows = DenseRows(covariates.toarray(), y, **limits)
    return Problem(name, rows, rows.x, rows.y, Logistic())


def farm_ads(name: str) -> Problem | None:
    """The words of 4,143 advertisements, or None where `published` has none."""
    found = published("farm-ads/farm-ads-vect.gz", columns=54_877)
    return None if found is None else _sparse(name, *found, bound=15.0, intercept=INTERCEPT)


def wide(name: str, n: int, d: int, filled: int) -> Problem | None:
    """Flags of which every row has so many, from frequent columns to ones that hardly occur."""
    rng = np.random.default_rng([n, d])
    columns = (d * rng.random((n, filled)) ** 4).astype(np.int64)
    coef = rng.standard_normal(d) * _STRENGTH
    entries = np.full(n * filled, 1 / math.sqrt(filled))
    margin = coef[columns].mean(axis=1) * math.sqrt(filled)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-margin)), 1.0, -1.0)
    starts = np.arange(0, n * filled + 1, filled)
    x = sparse.csr_array((entries, columns.ravel(), starts), shape=(n, d))
    return _sparse(name, x, y, bound=1.0, intercept=INTERCEPT)


def published(name: str, columns: int) -> tuple[Any, FloatArray] | None:
    """Covariates, sparse, and labels; None without the file or scikit-learn, which reads it.

    Files are in the folder named by ``PRIVATELR_DATA_HOME``, or else in ``shared/data`` beside
    the checkout.
    """
    beside = Path(__file__).parents[3] / "shared" / "data"
    file = Path(os.environ.get("PRIVATELR_DATA_HOME") or beside) / name
    if not file.exists() or load_svmlight_file is None:
        return None
    x, y = load_svmlight_file(str(file), n_features=columns)
    return sparse.csr_array(x), y


def _sparse(name: str, covariates: Any, y: FloatArray, **limits: float) -> Problem | None:
    if SparseRows is None:
        return None
    rows = SparseRows(covariates, y, **limits)
    return Problem(name, rows, rows.x, rows.y, Logistic())


def _dense(n: int, d: int, loss: Loss | None = None) -> Callable[[str], Problem]:
    return lambda name: synthetic(name, n, d, loss)


PROBLEMS: dict[str, Callable[[str], Problem | None]] = {
    **{f"1e{power}x{d}": _dense(10**power, d) for power in (3, 5, 6) for d in (5, 50, 500)},
    "a9a": a9a,
    "a9a-csr": lambda name: a9a(name, as_sparse=True),
    "farm-ads": farm_ads,
    "1e4x1e5-wide": lambda name: wide(name, 10**4, 10**5, filled=100),
    "1e5x2e7-wide": lambda name: wide(name, 10**5, 2 * 10**7, filled=100),
    "huber-1e3x5": _dense(1000, 5, Huber()),
    "huber-1e5x50": _dense(100_000, 50, Huber()),
}
QUICK: dict[str, Callable[[str], Problem | None]] = {
    "quick-1e3x5": _dense(1000, 5),
    "quick-3e3x20": _dense(3000, 20),
    "quick-huber": _dense(1000, 5, Huber()),
}
