"""Linear programs whose constraints are private records.

Maximise ``c.x`` over ``x >= 0`` with ``a x <= b``, a row and a bound for each record. With the
value ``opt`` known, solutions are weighted means of the corners ``opt / c_j e_j``. Constraints
keep weights, which fall as they are satisfied, and each round chooses the corner that violates
them least on weighted average (Hsu, Roth, Roughgarden and Ullman 2014).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from privatelr.arguments import suggests_arguments
from privatelr.errors import (
    ArgumentError,
    GuaranteeError,
    PrivacyWarning,
    require_choice,
    require_number,
    show,
)
from privatelr.mechanisms.linear_programs.constraint_vertices import (
    held_bounds,
    private_corners,
    public_corners,
    read_program,
    require_width,
)
from privatelr.mechanisms.linear_programs.lp_calibration import (
    SequentialChoices,
    balanced_rounds,
    best_step,
    convergence_gap,
    require_rounds,
)
from privatelr.mechanisms.request import (
    USUAL_DELTA,
    read_target_with_default_delta,
    require_below_one_record,
)
from privatelr.numerics.solve.dense_weights import dense_projection, projection_error
from privatelr.privacy import Guarantee, Promise, range_within, void
from privatelr.privacy.accounting import Account, Entry, account_with
from privatelr.privacy.noise import Randomness, SeededRandomness, SystemRandomness
from privatelr.types import FloatArray, IntArray

if TYPE_CHECKING:
    from privatelr.mechanisms.linear_programs.constraint_vertices import Corners


Private = Literal["bounds", "rows"]
PRIVATE: tuple[Private, ...] = ("bounds", "rows")
TITLE = "linear program with private constraints"
_INFLATION = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintCalibration(SequentialChoices):
    """Rounds, step and choice of a corner in each, computed before any private constraint is seen.

    Attributes
    ----------
    n, d : int
        Constraints, and variables.
    private : str
        ``"bounds"`` or ``"rows"``.
    width : float
        No constraint is missed or exceeded by more at any corner.
    s : float
        How many constraints the weights are spread over at least.
    step : float
        By how much a log weight falls for a unit of slack.
    """

    n: int
    d: int
    private: Private
    width: float
    s: float
    step: float

    def violation(self, failure: float = 0.05) -> float:
        """Mean violation of the s worst constraints, at most, if the program can be solved.

        So fewer than s constraints are violated by more. It fails with no more than this
        probability over the choices.
        """
        behind = convergence_gap(self.width, self.n, self.s, self.rounds, self.step)
        if math.isinf(self.eta):
            return behind
        tail = math.log(self.d * self.rounds / failure)
        return behind + 2 * self.sensitivity / self.eta * tail

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
    """Settle all numbers; takes no private data.

    The sum of weighted bounds is the same for all corners, so a choice does not see it, and the
    score of a corner is the weighted mean of ``-a_ij opt / c_j``. It moves by at most the length
    `reach` of an interval that holds these over s, or twice the width over s: the lemma of
    `lp_calibration.score_sensitivity`. None of these numbers is larger than `size`, which is what
    rounding goes by.
    """
    n, d = sizes
    takes = "a number from 1e-100 to 1e100"
    rho = require_number(ArgumentError, "width", width, takes, at_least=1e-100, at_most=1e100)
    takes = f"a number from 1 and below n={n}, of constraints that may be violated"
    most = math.nextafter(float(n), 0.0)
    s = require_number(GuaranteeError, "violated", violated, takes, at_least=1, at_most=most)
    require_below_one_record(target, n)
    automatic = isinstance(rounds, str) and rounds == "auto"
    times = balanced_rounds(target, n, s, d) if automatic else rounds
    require_rounds(times)
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
        eta=range_within(target, times) if isinstance(target, Promise) else math.inf,
    )


@dataclass(frozen=True, slots=True, eq=False)
class ProgramSolution:
    """A nearly feasible point, free to publish.

    Attributes
    ----------
    x : ndarray of shape (d,), read-only
        With ``c.x = opt``.
    path : ndarray of int, shape (rounds,), read-only
        The corner of each round.
    guarantee : Guarantee
        What holds for `path`, and for `x` that is computed from it.
    calibration : ConstraintCalibration
    entry : Entry or None
        What a ledger was charged.
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
    ledger: Account | None = None,
    seed: int | None = None,
) -> ProgramSolution:
    """Find ``x >= 0`` with ``c.x = opt`` that satisfies nearly all of ``a x <= b``, nearly.

    Parameters
    ----------
    a : array of shape (n, d)
        A row for each constraint, dense. Public if only bounds are private.
    b : array of shape (n,)
        A bound for each constraint.
    c : array of shape (d,)
        Objective, public, above 0.
    opt : float
        Value of the objective, public, above 0.
    eps, delta
        Total price; ``eps=0`` or ``eps=inf`` for no noise. A guarantee may stand in the place of
        eps.
    width : float
        Public bound on ``|a_ij opt / c_j - b_i|``, the violation or slack of a constraint at a
        corner. Private numbers beyond what it allows are moved to where it holds, and so is what
        is missing or no number; none is refused.
    violated : float
        s: fewer constraints may be violated by more than `ConstraintCalibration.violation`; from
        1 to below n. The more, the less noise.
    private : {"bounds", "rows"}
        What a record is: a bound ``b_i``, or a row of `a` with its bound.
    ratios : (float, float)
        For private rows, a public range of ``a_ij / c_j``, to which they are clipped.
    rounds : int or "auto"
        How many corners are chosen.
    ledger : Ledger, optional
        Charged before the constraints are read, with every ledger whose block is open.
    seed : int, optional
        For tests and lectures: the choices can be replayed, and the guarantee is void.

    Returns
    -------
    ProgramSolution

    Raises
    ------
    ArgumentError, GuaranteeError
        One sentence on public facts.

    Notes
    -----
    **Privacy.** *Covered*: the corners and their order, and x. *Neighbours*: replace one
    constraint, or its bound. *Assumed public*: n, c, opt, the arguments, and `a` where only
    bounds are private. *Not covered*: time and memory. Whether the program can be solved is not
    said.
    """
    require_choice(ArgumentError, "private", private, PRIVATE)
    rows, bounds, costs = read_program(a, b, c, private)
    value = require_number(ArgumentError, "opt", opt, "a number above 0", above=0)
    account, source = _read_ledger(ledger), _read_seed(seed)
    scale = value / costs
    if private == "bounds":
        corners = public_corners(rows, scale)
    else:
        corners = private_corners(rows, scale, value, ratios)
    target = read_target_with_default_delta(eps, delta, USUAL_DELTA)
    calibration = calibrate_constraints(
        rows.shape,
        target,
        private,
        width=width,
        violated=violated,
        reach=corners.reach,
        size=corners.size,
        rounds=rounds,
    )
    if private == "bounds":
        require_width(corners, calibration.width)
    guarantee = target
    if not (source.is_secret or not target.is_private):
        guarantee = void("seeded noise")
    entry = None if account is None else account.charge(guarantee, calibration.events, TITLE)
    path = play_constraints(corners, bounds, calibration, source)
    shares = np.bincount(path, minlength=len(costs)) / len(path)
    return ProgramSolution(shares * scale, path, guarantee, calibration, entry)


def _read_ledger(ledger: Any) -> Account | None:
    if ledger is not None and not isinstance(ledger, Account):
        raise ArgumentError(f"ledger={show(ledger)}: ledger takes a Ledger, or a part of one.")
    return account_with(ledger)


def _read_seed(seed: Any) -> Randomness:
    if seed is None:
        return SystemRandomness()
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ArgumentError(f"seed={show(seed)}: seed takes None or a whole number from 0.")
    warnings.warn(
        f"seed={seed}: the choices can be replayed, so this solution has no privacy; leave "
        "seed=None for a release.",
        PrivacyWarning,
        stacklevel=4,
    )
    return SeededRandomness(int(seed))


def play_constraints(
    corners: Corners,
    bounds: FloatArray,
    calibration: ConstraintCalibration,
    randomness: Randomness,
) -> IntArray:
    """One corner a round; satisfied constraints lose weight.

    Notes
    -----
    **Privacy.** *Covered*: the path, by ``calibration.target``. *Neighbours*: replace one
    constraint, or its bound. *Assumed public*: the calibration. *Not covered*: time and memory.
    """
    width, choice = calibration.width, calibration.choice
    held = held_bounds(bounds, corners, width)
    log_weights, path = np.zeros(len(held)), np.empty(calibration.rounds, dtype=np.intp)
    transposed = np.ascontiguousarray(corners.values.T)
    for turn in range(calibration.rounds):
        scores = -(transposed @ dense_projection(log_weights, calibration.s))
        option = int(np.argmax(scores)) if choice is None else choice.choose(scores, randomness)
        path[turn] = option
        log_weights -= calibration.step * np.clip(held - transposed[option], -width, width)
    return path
