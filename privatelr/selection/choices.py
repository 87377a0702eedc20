"""The releases of mechanisms that choose columns, and their stages.

Options are numbered ``0 ... 2 d - 1``. For k below d, option k is column k, and option d + k is
column k with the opposite sign. A released coefficient is a difference of two counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.perturbation import require_shape
from privatelr.mechanisms.request import COEFFICIENTS, ROC, read_spend
from privatelr.mechanisms.stages.histogram import HistogramCalibration, HistogramRelease
from privatelr.numerics.rows import EntryRows
from privatelr.page_model import FactList, Heading, Paged, Piece
from privatelr.privacy import Event, Guarantee
from privatelr.privacy.accounting import Entry
from privatelr.types import FloatArray, IntArray


class SelectionCalibration(Protocol):
    """All numbers of a mechanism that chooses columns, computed before any data is touched.

    Attributes
    ----------
    problem
        The public facts: n, d, `x_bound` (the largest absolute value of an entry of a row), and
        `loss` with a name, a title and a scale.
    target : Guarantee
        The guarantee that the release will satisfy.
    unit : float
        The size of a coefficient whose column is always chosen, in scaled units.
    events : tuple of Event
        The events that a ledger composes for this release.
    title : str
        The name of the model on printed pages.
    mechanism : str
        The key in the table of mechanisms, such as ``"multiplicative weights"``.
    facts : tuple of (str, str)
        Labels and sentences for printed pages.
    """

    @property
    def problem(self) -> Any: ...
    @property
    def target(self) -> Guarantee: ...
    @property
    def unit(self) -> float: ...
    @property
    def events(self) -> tuple[Event, ...]: ...
    @property
    def title(self) -> str: ...
    @property
    def mechanism(self) -> str: ...
    @property
    def facts(self) -> tuple[tuple[str, str], ...]: ...


class PrintedFacts(Paged):
    """Prints a calibration: what was promised, sizes, and the facts of its pages."""

    __slots__ = ()

    def page(self: SelectionCalibration) -> list[Piece]:
        """The pieces of the page that `print` shows."""
        problem = self.problem
        sizes = f"n = {problem.n}, d = {problem.d}, no entry above {problem.x_bound:.6g} in size"
        facts = [("Target", str(self.target)), ("Rows", sizes), *self.facts]
        return [Heading(self.title), FactList(facts)]


@dataclass(frozen=True, slots=True, eq=False)
class Selections:
    """The choices of a mechanism, which are paid for and free to publish.

    Attributes
    ----------
    counts : ndarray of int, shape (2 d,), read-only
        How often each option was chosen.
    calibration : SelectionCalibration
        All numbers of the mechanism.
    guarantee : Guarantee
        The guarantee for `counts` and `path`.
    entry : Entry or None
        The entry that a ledger was charged with.
    path : ndarray of int, shape (rounds,), read-only, or None
        The options in the order in which they were chosen; None if the order is not released.
    exact : ndarray of shape (d,), read-only, or None
        The exact coefficients of a fit without a guarantee; None if they are made of `counts`.
    histogram : HistogramRelease or None
        The noisy counts of scores by class; None if no ROC curve was requested.
    """

    counts: IntArray
    calibration: SelectionCalibration
    guarantee: Guarantee
    entry: Entry | None = None
    path: IntArray | None = None
    exact: FloatArray | None = None
    histogram: HistogramRelease | None = None

    def __post_init__(self) -> None:
        for array in (self.counts, self.path, self.exact):
            if array is not None:
                array.flags.writeable = False

    @property
    def coef(self) -> FloatArray:
        """The coefficients ``(d,)`` in scaled units, most of them zero."""
        if self.exact is not None:
            return self.exact
        d = len(self.counts) // 2
        times = max(int(self.counts.sum()), 1)
        return np.asarray(
            self.calibration.unit * (self.counts[:d] - self.counts[d:]) / times, dtype=np.float64
        )

    @property
    def stages(self) -> StagedSelection:
        """All numbers of the choices and of the counts."""
        counts = None if self.histogram is None else self.histogram.calibration
        return StagedSelection(self.guarantee, self.calibration, counts)


# -- choices, and a ROC curve of what they make ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class StagedSelection:
    """All numbers of choices, and of the counts of scores if a ROC curve was requested."""

    target: Guarantee
    choices: SelectionCalibration
    histogram: HistogramCalibration | None

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that a ledger composes for both stages; none if the target is charged itself.

        Draws from a minimiser have no events, and those of the counts alone would be too little.
        """
        counts, events = self.histogram, self.choices.events
        return (*events, *counts.events) if events and counts is not None else events

    def __str__(self) -> str:
        return "\n".join(str(stage) for stage in (self.choices, self.histogram) if stage)


def read_roc_share(spend: Any) -> dict[str, float]:
    """Read the shares of coefficients and ROC curve; raises `GuaranteeError` for other parts."""
    shares = read_spend(spend)
    parts: dict[str, float] = {shares: 1.0} if isinstance(shares, str) else dict(shares)
    other = next((name for name in parts if name not in (COEFFICIENTS, ROC)), None)
    if other is not None:
        raise GuaranteeError(
            f"spend: {other!r} takes no share where columns are chosen; spend takes "
            "{'coefficients': 0.75, 'roc': 0.25}, or None for the coefficients alone."
        )
    return parts


def require_x_bound(rows: EntryRows, calibration: SelectionCalibration) -> None:
    """Refuse rows that the calibration was not made for; compares public facts only."""
    problem = calibration.problem
    require_shape(rows, problem)
    if rows.x_bound > problem.x_bound:
        raise GuaranteeError(
            f"rows with entries up to {rows.x_bound:g} are beyond x_bound={problem.x_bound:g}, "
            "which the choices were calibrated for."
        )
