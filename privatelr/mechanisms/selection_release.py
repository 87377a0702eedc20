"""What leaves a mechanism that chooses columns: how often each signed column was chosen.

Options are numbered ``0 ... 2 d - 1``: option k below d is column k, and option d + k is column k
with its sign turned. A released coefficient is a difference of two counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from privatelr.errors import GuaranteeError
from privatelr.types import FloatArray, IntArray

if TYPE_CHECKING:
    from privatelr.numerics.rows import EntryRows
    from privatelr.privacy import Event, Guarantee
    from privatelr.privacy.accounting import Entry


class SelectionProblem(Protocol):
    """Public facts about a fit that chooses columns; its `loss` is a name, a title and a scale."""

    @property
    def n(self) -> int: ...
    @property
    def d(self) -> int: ...
    @property
    def x_bound(self) -> float:
        """Largest size of an entry of a row."""
        ...

    @property
    def loss(self) -> Any: ...


class SelectionCalibration(Protocol):
    """All numbers of a mechanism that chooses columns, computed before any data is touched."""

    @property
    def problem(self) -> SelectionProblem: ...
    @property
    def target(self) -> Guarantee: ...
    @property
    def unit(self) -> float:
        """Size of a coefficient whose column is always chosen."""
        ...

    @property
    def events(self) -> tuple[Event, ...]:
        """What a ledger composes for this release."""
        ...

    @property
    def title(self) -> str:
        """What the printed page calls the model."""
        ...

    @property
    def mechanism(self) -> str:
        """Its key in the table of mechanisms, such as ``"multiplicative weights"``."""
        ...

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """Labels and sentences for the printed page."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Selections:
    """Paid for, and free to publish.

    Attributes
    ----------
    counts : ndarray of int, shape (2 d,), read-only
        How often each option was chosen.
    calibration : SelectionCalibration
    guarantee : Guarantee
        What holds for `counts` and `path`.
    entry : Entry or None
        What a ledger was charged.
    path : ndarray of int, shape (rounds,), read-only, or None
        The options in the order in which they were chosen, where the order is released too.
    exact : ndarray of shape (d,), read-only, or None
        Coefficients of a fit without a guarantee that were not rounded to counts.
    """

    counts: IntArray
    calibration: SelectionCalibration
    guarantee: Guarantee
    entry: Entry | None = None
    path: IntArray | None = None
    exact: FloatArray | None = None

    def __post_init__(self) -> None:
        for array in (self.counts, self.path, self.exact):
            if array is not None:
                array.flags.writeable = False

    @property
    def coef(self) -> FloatArray:
        """Coefficients ``(d,)`` in scaled units, most of them zero."""
        if self.exact is not None:
            return self.exact
        d = len(self.counts) // 2
        times = max(int(self.counts.sum()), 1)
        return np.asarray(
            self.calibration.unit * (self.counts[:d] - self.counts[d:]) / times, dtype=np.float64
        )


def require_shape(rows: EntryRows, problem: SelectionProblem) -> None:
    """Refuse rows of another shape than a calibration was made for; compares public facts only."""
    if rows.n != problem.n or rows.d != problem.d:
        raise GuaranteeError(
            f"rows of shape ({rows.n}, {rows.d}) do not fit a calibration for n={problem.n}, "
            f"d={problem.d}."
        )
