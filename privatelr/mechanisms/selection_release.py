"""The common part of mechanisms that choose columns: their input and their releases.

Options are numbered ``0 ... 2 d - 1``. For k below d, option k is column k, and option d + k is
column k with the opposite sign. A released coefficient is a difference of two counts.

Private numbers have a public shape. Every entry is read by itself, and none is refused. How an
entry is read never depends on another one, so that changing a record changes one row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from privatelr.cells import number
from privatelr.errors import ArgumentError, GuaranteeError, require_number, show
from privatelr.mechanisms.perturbation import require_shape
from privatelr.mechanisms.request import COEFFICIENTS, ROC, read_spend, require_usual
from privatelr.mechanisms.score_histogram import (
    HistogramCalibration,
    HistogramRelease,
    ScoreScale,
    calibrate_histogram,
    count_scores,
)
from privatelr.numerics.rows import BoundedEntries
from privatelr.privacy import Event, Guarantee, split
from privatelr.privacy.accounting import Entry
from privatelr.privacy.noise import Draw, Randomness
from privatelr.types import FloatArray, IntArray

LARGEST_NUMBER = 1e100
"""Largest size of a public bound on private numbers, so that their sums do not overflow."""
_NUMERIC = "biuf"
"""The kinds of NumPy's types that hold real numbers, by their letters."""


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


# -- choices, and a ROC curve of what they make ---------------------------------------------------


_PARTS = (COEFFICIENTS, ROC)


@dataclass(frozen=True, slots=True)
class StagedSelection:
    """All numbers of choices and of the counts of scores that come after them."""

    target: Guarantee
    choices: SelectionCalibration
    histogram: HistogramCalibration

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that a ledger composes for both stages; none if the target is charged itself.

        Draws from a minimiser have no events, and those of the counts alone would be too little.
        """
        return (*self.choices.events, *self.histogram.events) if self.choices.events else ()

    def __str__(self) -> str:
        return f"{self.choices}\n{self.histogram}"


@dataclass(frozen=True, slots=True)
class SelectionDraws:
    """What choices draw from, and the noise on the counts of scores, which is drawn once."""

    choices: Randomness
    histogram: Draw


def read_roc_share(spend: Any) -> dict[str, float]:
    """Read the shares of coefficients and ROC curve; raises `GuaranteeError` for other parts."""
    read = read_spend(spend)
    others = [read] if read == "inference" else [name for name, _ in read if name not in _PARTS]
    if read == "inference" or others:
        raise GuaranteeError(
            f"spend: {others[0]!r} takes no share where columns are chosen; spend takes "
            "{'coefficients': 0.75, 'roc': 0.25}, or None for the coefficients alone."
        )
    return dict(read)


def calibrate_stages(
    target: Guarantee,
    shares: dict[str, float],
    choices: Callable[[Guarantee], SelectionCalibration],
    n: int,
) -> SelectionCalibration | StagedSelection:
    """Divide the price by shares, and calibrate choices and counts for their parts of it.

    The counts see the coefficients, so that both compose as releases one after the other.
    """
    if ROC not in shares:
        return choices(target)
    parts = split(target, shares)
    require_usual(parts)
    return StagedSelection(target, choices(parts[COEFFICIENTS]), calibrate_histogram(n, parts[ROC]))


def draw_stages(made: Any, randomness: Randomness) -> Any:
    """Return the randomness itself, as each choice draws its own noise, and the noise on counts."""
    if not isinstance(made, StagedSelection):
        return randomness
    return SelectionDraws(randomness, randomness.draw(made.histogram.noise))


def release_stage(release: Callable[[Any, Any, Any], Selections]) -> Callable[..., Selections]:
    """Return the release of choices for calibrations and draws of one stage or of two."""

    def choose(
        rows: BoundedEntries,
        made: Any,
        draws: Any,
        *,
        expected: Callable[[Any], ScoreScale],
        guarantee: Guarantee,
        entry: Entry | None,
    ) -> Selections:
        staged = isinstance(made, StagedSelection)
        found = release(rows, *((made.choices, draws.choices) if staged else (made, draws)))
        found = replace(found, guarantee=guarantee, entry=entry)
        if not staged:
            return found
        scored = expected(found), made.histogram, draws.histogram
        return replace(found, histogram=count_scores(rows, found, *scored))

    return choose


def require_x_bound(rows: BoundedEntries, calibration: SelectionCalibration) -> None:
    """Refuse rows that the calibration was not made for; compares public facts only."""
    problem = calibration.problem
    require_shape(rows, problem)
    if rows.x_bound > problem.x_bound:
        raise GuaranteeError(
            f"rows with entries up to {rows.x_bound:g} are beyond x_bound={problem.x_bound:g}, "
            "which the choices were calibrated for."
        )


# -- what users hand over -------------------------------------------------------------------------


def private_numbers(name: str, given: Any, dimensions: int) -> FloatArray:
    """Return numbers as doubles; NaN for entries that are missing, masked, or not a number.

    Numbers too large for a double become infinite.

    Parameters
    ----------
    name : str
        The name of the argument, for the error.
    given : array-like
        An array, a column or a frame; for one dimension also a list, of which every item is an
        entry. A list of rows is refused, because it has no public width: rows may differ in it.
    dimensions : int
        The number of dimensions that is wanted, 1 or 2.

    Returns
    -------
    ndarray
        Numbers of the shape of `given`, which the caller has to check.

    Raises
    ------
    ArgumentError
        If the shape is not known without looking at the entries.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself. *Neighbours*: changing one record changes one row.
    *Assumed public*: the shape. *Not covered*: time and memory.
    """
    if isinstance(given, list | tuple):
        if dimensions > 1:
            raise ArgumentError(
                f"{name} of type {type(given).__name__}: a list of rows has no width of its own; "
                f"{name} takes an array, such as numpy.asarray({name}, dtype=float)."
            )
        return np.array([number(value) for value in given], dtype=np.float64)
    if isinstance(given, np.ma.MaskedArray):
        held = _of_array(np.asarray(given.data))
        mask = np.ma.getmaskarray(given)
        return np.where(mask, np.nan, held) if mask.dtype == np.bool_ else held
    try:
        array = np.asarray(given)
    except Exception:
        raise ArgumentError(f"{name}: takes an array of numbers.") from None
    return _of_array(array)


def _of_array(array: Any) -> FloatArray:
    if array.dtype.kind in _NUMERIC:
        with np.errstate(all="ignore"):
            return np.asarray(array, dtype=np.float64)
    if array.dtype.kind != "O":
        return np.full(array.shape, np.nan)
    values = [number(value) for value in array.ravel().tolist()]
    return np.array(values, dtype=np.float64).reshape(array.shape)


def read_range(name: str, given: Any, takes: str) -> tuple[float, float]:
    """Read a public pair of numbers, the lower one first."""
    ends = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(ends, tuple | list) or len(ends) != 2:
        raise ArgumentError(f"{name}={show(given)}: {name} takes {takes}.")
    most = {"at_least": -LARGEST_NUMBER, "at_most": LARGEST_NUMBER}
    low, high = (require_number(ArgumentError, name, end, takes, **most) for end in ends)
    if not high - low >= 1 / LARGEST_NUMBER:
        raise ArgumentError(f"{name}={show(given)}: {name} takes {takes}.")
    return low, high
