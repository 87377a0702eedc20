"""Linear programs whose constraints are private records.

The program maximises ``c.x`` over ``x >= 0`` with ``a x <= b``, where each record is a row of
``a`` and its bound, or the bound alone. If the value ``opt`` is known, all candidates are weighted
means of the corners ``opt / c_j e_j``. Each constraint has a weight, which falls in a round that
satisfies it, and each round chooses the corner that violates the constraints least on weighted
average (Hsu, Roth, Roughgarden and Ullman 2014).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, GuaranteeError, require_choice, require_number, show
from privatelr.mechanisms.request import (
    USUAL_DELTA,
    read_account,
    read_seed,
    read_target,
    require_below_one_record,
)
from privatelr.privacy import Guarantee, unless_seeded
from privatelr.privacy.accounting import AnyLedger, Entry
from privatelr.privacy.noise import Randomness, SeededRandomness, SystemRandomness
from privatelr.selection.multiplicative_weights import (
    SequentialChoices,
    best_step,
    play,
    projection_error,
    read_rounds,
)
from privatelr.selection.private_numbers import private_numbers, read_range
from privatelr.types import FloatArray, IntArray

Private = Literal["bounds", "rows"]
PRIVATE: tuple[Private, ...] = ("bounds", "rows")
TITLE = "linear program with private constraints"
_INFLATION = 1e-9
"""Share of a sensitivity that is added to it, because corners are rounded to doubles."""


# -- constraints at the corners of the solutions --------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Corners:
    """The left-hand sides of all constraints at all corners.

    Attributes
    ----------
    values : ndarray of shape (n, d)
        Entry ``(i, j)`` is ``a_ij opt / c_j``.
    reach : float
        The length of an interval that holds all values that a record may have at one corner. If
        `a` is public, a record changes its bound alone: its weight moves the score of a corner,
        but the values at that corner stay the same.
    size : float
        The largest absolute value that may occur.
    """

    values: FloatArray
    reach: float
    size: float


def read_program(
    a: Any, b: Any, c: Any, private: Private
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Read three arrays whose shapes fit; numbers are checked only where they are public."""
    if sparse.issparse(a):
        raise ArgumentError(
            "a: takes a dense array, because all corners are computed; a.toarray() makes one."
        )
    rows = private_numbers("a", a, 2) if private == "rows" else _public("a", a)
    bounds, costs = private_numbers("b", b, 1), _public("c", c)
    if rows.ndim != 2 or bounds.shape != rows.shape[:1] or costs.shape != rows.shape[1:]:
        raise ArgumentError(
            f"a, b and c of shapes {rows.shape}, {bounds.shape} and {costs.shape}: they take the "
            "shapes (n, d), (n,) and (d,)."
        )
    if rows.size == 0 or not (np.isfinite(costs).all() and (costs > 0).all()):
        raise ArgumentError("c: takes finite numbers above 0, one for each of d variables.")
    return rows, bounds, costs


def _public(name: str, given: Any) -> FloatArray:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{name}={show(given)}: {name} takes numbers.") from None


def public_corners(rows: FloatArray, scale: FloatArray) -> Corners:
    """Compute the corners of public rows; `scale` is ``opt / c``."""
    if not np.isfinite(rows).all():
        raise ArgumentError("a: takes finite numbers where only bounds are private.")
    values = rows * scale
    spread = values.max(axis=0) - values.min(axis=0)
    return Corners(values, float(spread.max()), float(np.abs(values).max()))


def private_corners(rows: FloatArray, scale: FloatArray, opt: float, ratios: Any) -> Corners:
    """Compute the corners of private rows, clipped to the public range of ``a_ij / c_j``."""
    takes = "a public range (lo, hi) of a_ij / c_j with lo < hi, where rows are private"
    low, high = (opt * end for end in read_range("ratios", ratios, takes))
    with np.errstate(all="ignore"):
        held = np.nan_to_num(rows * scale, nan=high, posinf=high, neginf=low)
    return Corners(np.clip(held, low, high), high - low, max(abs(low), abs(high)))


def require_width(corners: Corners, width: float) -> None:
    """Refuse a width that is too small for any bound; for public rows only."""
    values = corners.values
    least = float((values.max(axis=1) - values.min(axis=1)).max()) / 2
    if width < least:
        raise GuaranteeError(
            f"width={width:g}: width takes {least:.6g} or more, since at the corners of some "
            "constraint the numbers of `a` are twice that apart."
        )


def held_bounds(bounds: FloatArray, corners: Corners, width: float) -> FloatArray:
    """Move bounds ``(n,)`` to where no corner misses or exceeds them by more than the width.

    Each record is moved by itself. A missing bound becomes the middle of the values of its
    corners. So does a bound for which there is no such number.
    """
    low = corners.values.max(axis=1) - width
    high = corners.values.min(axis=1) + width
    middle = (low + high) / 2
    low, high = np.minimum(low, middle), np.maximum(high, middle)
    return np.clip(np.where(np.isnan(bounds), middle, bounds), low, high)


# -- calibration ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintCalibration(SequentialChoices):
    """Rounds, step and choice of a corner, computed before any private constraint is seen.

    Attributes
    ----------
    n, d : int
        The numbers of constraints and of variables.
    private : str
        ``"bounds"`` or ``"rows"``.
    width : float
        The largest amount by which a corner may miss or exceed a constraint.
    s : float
        The least number of constraints that the weights are spread over: no weight exceeds
        ``1 / s``.
    step : float
        The amount by which a log weight falls for each unit of slack.
    """

    n: int
    d: int
    private: Private
    width: float
    s: float
    step: float

    def violation(self, failure: float = 0.05) -> float:
        """Bound the mean violation of the s worst constraints from above, if a solution exists.

        So fewer than s constraints are violated by more than this. The bound fails with
        probability `failure` at most, over the random choices.
        """
        return self.gap(self.width, self.n, self.s, self.step, self.d, failure)

    def __str__(self) -> str:
        lines = [
            f"{TITLE}: private {self.private}",
            f"target {self.target}",
            f"{self.n} constraints, {self.d} variables, width {self.width:.6g}",
            f"weights spread over {self.s:.6g} constraints or more",
            f"rounds = {self.rounds}, step = {self.step:.6g}, sensitivity {self.sensitivity:.6g}",
        ]
        if self.choice is not None:
            lines.append(f"each choice of bounded range {self.eta:.6g}")
        lines.append(
            f"if it can be solved, fewer than {self.s:.6g} constraints violated by more than "
            f"{self.violation():.4g}, but for a chance of 0.05"
        )
        return "\n".join(lines)


def calibrate_constraints(
    sizes: tuple[int, int],
    target: Guarantee,
    private: Private,
    *,
    width: Any,
    violated: Any,
    reach: float,
    size: float,
    rounds: Any = "auto",
) -> ConstraintCalibration:
    """Compute all numbers from public facts.

    The weighted mean of the bounds is the same for all corners and cannot change a choice, so the
    score of a corner is the weighted mean of ``-a_ij opt / c_j``. One record moves it by at most
    ``reach / s``, where `reach` is the length of an interval that holds these values, and by at
    most ``2 width / s`` if only bounds are private (theory.md#lemma-d2). No value is larger than
    `size`, and the allowance for rounding is in proportion to it.
    """
    n, d = sizes
    takes = "a number from 1e-100 to 1e100"
    rho = require_number(ArgumentError, "width", width, takes, at_least=1e-100, at_most=1e100)
    takes = f"a number from 1 and below n={n}, of constraints that may be violated"
    most = math.nextafter(float(n), 0.0)
    s = require_number(GuaranteeError, "violated", violated, takes, at_least=1, at_most=most)
    require_below_one_record(target, n)
    times, eta, _ = read_rounds(rounds, target, n, s, d)
    moved = min(2 * rho, reach) if private == "bounds" else reach
    moved = moved * (1 + _INFLATION) + 4 * projection_error(n) * s * max(size, 1e-6 * rho)
    return ConstraintCalibration(
        n=n,
        d=d,
        target=target,
        private=private,
        width=rho,
        s=s,
        rounds=times,
        step=best_step(rho, n, s, times),
        sensitivity=moved / s,
        eta=eta,
    )


@dataclass(frozen=True, slots=True, eq=False)
class ProgramSolution:
    """A nearly feasible point, free to publish.

    Attributes
    ----------
    x : ndarray of shape (d,), read-only
        The point; ``c.x = opt``.
    path : ndarray of int, shape (rounds,), read-only
        The corner of each round.
    guarantee : Guarantee
        The guarantee for `path`, and for `x`, which is computed from it.
    calibration : ConstraintCalibration
        All numbers of the choices.
    entry : Entry or None
        The entry that a ledger was charged with.
    """

    x: FloatArray
    path: IntArray
    guarantee: Guarantee
    calibration: ConstraintCalibration
    entry: Entry | None = None

    def __post_init__(self) -> None:
        self.x.flags.writeable = False
        self.path.flags.writeable = False

    def __str__(self) -> str:
        used = np.count_nonzero(self.x)
        return f"{self.calibration}\nx: {used} of {len(self.x)} variables above 0"


@suggests_arguments
def constraint_private_lp(
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike,
    opt: float,
    *,
    eps: float | Guarantee = 1.0,
    delta: float = USUAL_DELTA,
    width: float,
    violated: float,
    private: Private = "bounds",
    ratios: tuple[float, float] | None = None,
    rounds: int | str = "auto",
    ledger: AnyLedger | None = None,
    seed: int | None = None,
) -> ProgramSolution:
    """Find ``x >= 0`` with ``c.x = opt`` that satisfies nearly all of ``a x <= b``, nearly.

    Parameters
    ----------
    a : array of shape (n, d)
        A row for each constraint, dense. It is public if only bounds are private.
    b : array of shape (n,)
        A bound for each constraint.
    c : array of shape (d,)
        The objective, public, above 0.
    opt : float
        The value of the objective, public, above 0.
    eps, delta
        The total price; ``eps=0`` or ``eps=inf`` asks for no noise. `eps` may be a guarantee.
    width : float
        A public bound on ``|a_ij opt / c_j - b_i|``, the violation or slack of a constraint at a
        corner. Private numbers that exceed it are moved to where it holds, and so are numbers
        that are missing or are not numbers; none is refused.
    violated : float
        s, from 1 to below n: fewer than s constraints may be violated by more than
        `ConstraintCalibration.violation`. A larger s needs less noise.
    private : {"bounds", "rows"}
        What a record is: a bound ``b_i``, or a row of `a` with its bound.
    ratios : (float, float)
        For private rows, a public range of ``a_ij / c_j``, to which they are clipped.
    rounds : int or "auto"
        The number of corners that are chosen.
    ledger : Ledger or path, optional
        It is charged before the constraints are read, as is every ledger whose block is open.
    seed : int, optional
        A seed for tests and lectures: the choices can be replayed, and the guarantee is void.

    Returns
    -------
    ProgramSolution

    Raises
    ------
    ArgumentError, GuaranteeError
        One sentence about public facts.

    Notes
    -----
    **Privacy.** *Covered*: the corners and their order, and x. *Neighbours*: replace one
    constraint, or its bound. *Assumed public*: n, c, opt, the arguments, and `a` where only
    bounds are private. *Not covered*: time and memory. The result does not tell whether the
    program can be solved.

    Examples
    --------
    >>> import numpy as np; from privatelr import constraint_private_lp
    >>> a, b, public = np.full((9000, 2), 0.5), np.ones(9000), {"width": 1.0, "violated": 3000}
    >>> constraint_private_lp(a, b, np.ones(2), 0.9, eps=1.0, **public).x.shape
    (2,)
    """
    require_choice(ArgumentError, "private", private, PRIVATE)
    rows, bounds, costs = read_program(a, b, c, private)
    value = require_number(ArgumentError, "opt", opt, "a number above 0", above=0)
    account, seeded = read_account(ledger), read_seed(seed, "choices", "solution")
    scale = value / costs
    if private == "bounds":
        corners = public_corners(rows, scale)
    else:
        corners = private_corners(rows, scale, value, ratios)
    target = read_target(eps, delta, USUAL_DELTA)
    sizes = {"reach": corners.reach, "size": corners.size}
    calibration = calibrate_constraints(
        rows.shape, target, private, width=width, violated=violated, rounds=rounds, **sizes
    )
    if private == "bounds":
        require_width(corners, calibration.width)
    guarantee = unless_seeded(target, seeded is not None)
    entry = None if account is None else account.charge(guarantee, calibration.events, TITLE)
    source = SystemRandomness() if seeded is None else SeededRandomness(seeded)
    path = play_constraints(corners, bounds, calibration, source)
    shares = np.bincount(path, minlength=len(costs)) / len(path)
    return ProgramSolution(shares * scale, path, guarantee, calibration, entry)


def play_constraints(
    corners: Corners,
    bounds: FloatArray,
    calibration: ConstraintCalibration,
    randomness: Randomness,
) -> IntArray:
    """Choose one corner in each round; constraints that it satisfies lose weight.

    Notes
    -----
    **Privacy.** *Covered*: the path, by ``calibration.target``. *Neighbours*: replace one
    constraint, or its bound. *Assumed public*: the calibration. *Not covered*: time and memory.
    """
    width, held = calibration.width, held_bounds(bounds, corners, calibration.width)
    transposed = np.ascontiguousarray(corners.values.T)

    def fall(log_weights: FloatArray, option: int) -> None:
        # a constraint with slack needs less attention in later rounds; the clip keeps each change
        # within the width, on which the bound on the violation relies
        log_weights -= calibration.step * np.clip(held - transposed[option], -width, width)

    def score(weights: FloatArray) -> FloatArray:
        return -(transposed @ weights)

    return play(len(held), score, fall, calibration.s, calibration, randomness)
