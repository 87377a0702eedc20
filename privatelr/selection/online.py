"""Private follow-the-regularised-leader: each round gives an index, then takes its losses.

Round t chooses expert i with probability proportional to ``exp(-L_i / lambda)``, where L_i is the
sum of the losses of expert i in all rounds before t. The first round has seen no loss, so only
T - 1 choices are paid for (theory.md#regret).
"""

from __future__ import annotations

import json
import math
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, GuaranteeError, require_choice, show
from privatelr.locks import ForkSafeLock
from privatelr.mechanisms.request import USUAL_DELTA, read_account, read_seed, read_target
from privatelr.page_model import FactList, Heading, Piece, as_html, as_text
from privatelr.privacy import (
    REPLACE_ONE,
    ZERO_OUT,
    BoundedRangeEvent,
    Event,
    Guarantee,
    Neighbours,
    NonPrivate,
    from_json,
    range_within,
    to_json,
    unless_seeded,
)
from privatelr.privacy.accounting import (
    AnyLedger,
    Entry,
    entry_from_json,
    entry_to_json,
    in_agreement,
    price,
)
from privatelr.privacy.noise import Randomness, SeededRandomness, SystemRandomness
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism
from privatelr.selection.private_numbers import LARGEST_NUMBER, private_numbers, read_range
from privatelr.types import IntArray

_LOCK = ForkSafeLock()
_LABEL = "private follow-the-regularised-leader"
_TITLE = "Private follow-the-regularised-leader"
RELATIONS = {"replace": REPLACE_ONE, "zero-out": ZERO_OUT}
"""The neighbouring relations about which something is proven here: one loss vector is changed."""
MOST_ROUNDS, MOST_EXPERTS = 10**9, 10**7
"""Largest horizon and largest number of experts of a play."""
_EXACT_BITS = 52
"""Sums of losses are whole numbers of at most this many bits, which doubles hold exactly."""


@dataclass(frozen=True, slots=True)
class OnlineProblem:
    """Public facts about a sequence of losses.

    Attributes
    ----------
    n_experts, horizon : int
        p and T, both from 2.
    low, high : float
        The public range of a loss; every loss is clipped to it.
    neighbours : Neighbours
        What differs between neighbours: one loss vector is replaced by another one, or by zeros.
    """

    n_experts: int
    horizon: int
    low: float
    high: float
    neighbours: Neighbours

    @property
    def width(self) -> float:
        """W, the largest difference of two losses of a round."""
        return self.high - self.low

    @property
    def steps(self) -> int:
        """The number of steps that the loss range is divided into.

        Losses are rounded to whole steps, so that their sums over all rounds are exact.
        """
        return 1 << min(30, _EXACT_BITS - self.horizon.bit_length())

    @property
    def moved_steps(self) -> int:
        """The length of the interval within which one round moves all sums, in steps.

        Another vector in its place moves each sum up or down by W at most, hence within an
        interval of length 2 W. Zeros in its place, or any other constant, leave an interval of
        length W: the choice does not change when a constant is added to all sums.
        """
        return self.steps * (2 if self.neighbours is REPLACE_ONE else 1)

    @property
    def moved(self) -> float:
        """Gamma, the length `moved_steps` in the units of the losses."""
        return self.width * (self.moved_steps // self.steps)


@dataclass(frozen=True, slots=True)
class OnlineCalibration:
    """All numbers of the choice of a round, computed before any loss is seen.

    Attributes
    ----------
    problem : OnlineProblem
        The public facts that it was made for.
    target : Guarantee
        The guarantee that all choices together satisfy.
    eta : float
        The bounded range of one choice, ``Gamma / lambda``.
    lambda_origin : str
        The reason for this lambda, in words.
    """

    problem: OnlineProblem
    target: Guarantee
    eta: float
    lambda_origin: str

    @property
    def lambda_(self) -> float:
        """Strength of the regularisation, in the units of the losses."""
        return self.problem.moved / self.eta

    @property
    def mechanism(self) -> ExponentialMechanism:
        """The mechanism of a round; its scores are minus the sums of the losses, in steps."""
        return ExponentialMechanism(self.eta, float(self.problem.moved_steps))

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that a ledger composes for all rounds.

        It is empty if they cost far less than the target, so that the target is counted instead.
        """
        if isinstance(self.target, NonPrivate):
            return ()
        problem = self.problem
        event = BoundedRangeEvent(self.eta, problem.horizon - 1, problem.neighbours)
        return in_agreement(self.target, (event,))

    @property
    def regret_bound(self) -> float:
        """Upper bound on the expected loss above that of the best expert, whatever the losses.

        It is ``lambda log p + T W**2 / (8 lambda)``, plus what the rounding to steps adds
        (theory.md#regret has the proof).
        """
        problem, lambda_ = self.problem, self.lambda_
        rounds, width = problem.horizon, problem.width
        play = lambda_ * math.log(problem.n_experts) + rounds * width**2 / (8 * lambda_)
        return play + rounds * width / problem.steps

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Lines of a page, each a label and a text."""
        problem, lambda_ = self.problem, f"{self.lambda_:.4g}, {self.lambda_origin}"
        regret = f"at most {self.regret_bound:.4g} expected over {problem.horizon} rounds"
        clipped = f"losses clipped to [{problem.low:g}, {problem.high:g}]"
        return [
            ("Experts", f"{problem.n_experts}, {clipped}"),
            ("Lambda", lambda_),
            ("Regret", f"{regret}, whatever the losses"),
        ]

    def __str__(self) -> str:
        return as_text([_TITLE, FactList([("Target", str(self.target)), *self.facts])])


def calibrate_online(problem: OnlineProblem, target: Guarantee) -> OnlineCalibration:
    """Choose the smallest lambda that the target allows, or the best for the regret if larger.

    The bound on the regret is smallest at ``W sqrt(T / (8 log p))``, so a smaller lambda than
    this is of no use even where the target allows it (theory.md#regret).
    """
    best = problem.width * math.sqrt(problem.horizon / (8 * math.log(problem.n_experts)))
    useful = problem.moved / best
    if not isinstance(target, NonPrivate):
        affordable = range_within(target, problem.horizon - 1)
        if affordable < useful:
            origin = "the smallest that the guarantee allows"
            return OnlineCalibration(problem, target, affordable, origin)
    return OnlineCalibration(problem, target, useful, "the best for the regret")


def read_problem(n_experts: Any, horizon: Any, loss_range: Any, neighbours: Any) -> OnlineProblem:
    """Check the arguments of `PrivateFTRL`."""
    counts = ("n_experts", n_experts, MOST_EXPERTS), ("horizon", horizon, MOST_ROUNDS)
    for name, value, most in counts:
        is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not (is_whole and 2 <= value <= most):
            takes = f"a whole number from 2 to {most}"
            raise ArgumentError(f"{name}={show(value)}: {name} takes {takes}.")
    chosen = require_choice(GuaranteeError, "neighbours", neighbours, RELATIONS)
    takes = f"a pair of numbers (lo, hi) with lo < hi, none beyond {LARGEST_NUMBER:g}"
    low, high = read_range("loss_range", loss_range, takes)
    return OnlineProblem(int(n_experts), int(horizon), low, high, RELATIONS[chosen])


def read_promise(epsilon: Any, delta: Any, problem: OnlineProblem) -> Guarantee:
    """Read the guarantee that is asked for; it has to be about the neighbours of the problem.

    Epsilon may be a guarantee itself, and then the default delta asks for nothing more.
    """
    about, plain = problem.neighbours, "play without privacy"
    return read_target(epsilon, delta, USUAL_DELTA, name="epsilon", plain=plain, neighbours=about)


# -- the play --------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, repr=False)
class State:
    """All that a play needs to continue; it changes with every round.

    Attributes
    ----------
    calibration : OnlineCalibration
        The numbers of the choice of a round.
    sums : ndarray of int, shape (n_experts,)
        Sums of the losses of all rounds that are over, in steps. Private.
    over : int
        The number of rounds that are over.
    choice : int or None
        The index of the present round; None until it is asked for.
    seed : int or None
        The seed of the choices; None for choices that cannot be replayed.
    entry : Entry or None
        The entry that a ledger was charged with.
    """

    calibration: OnlineCalibration
    sums: IntArray
    over: int = 0
    choice: int | None = None
    seed: int | None = None
    entry: Entry | None = None


def opening_state(calibration: OnlineCalibration, seed: int | None = None) -> State:
    """Return the state before the first round."""
    sums = np.zeros(calibration.problem.n_experts, dtype=np.int64)
    return State(calibration, sums, seed=seed)


@suggests_arguments
class PrivateFTRL:
    """Follow the regularised leader, with one private choice in each round.

    Round t chooses one of p experts with probability proportional to ``exp(-L_i / lambda)``,
    where L_i is the sum of the losses of expert i before round t. All choices together keep the
    promise, also where later losses depend on earlier choices.

    Parameters
    ----------
    n_experts : int
        p, from 2.
    horizon : int
        T, from 2. There is not a further choice after so many rounds.
    epsilon : float or Guarantee
        The price of all rounds together; 0 or infinity asks for play without privacy. It may be
        a guarantee about the same neighbours, such as ``ZCDP(0.1)``.
    delta : float, default 1e-6
        The delta of all rounds together. 0 asks for pure privacy, which makes lambda grow in
        proportion to T, so it is useful for a few rounds only. If epsilon is a guarantee, the
        default asks for nothing more.
    loss_range : (float, float), default (0, 1)
        The public range of a loss. Losses are clipped to it, and a missing one counts as the
        largest.
    neighbours : {"replace", "zero-out"}
        What differs between neighbouring sequences: one loss vector is replaced by another one,
        or by zeros, as if the record had not taken part. Zeros need half the lambda.
    ledger : Ledger or path, optional
        It is charged with all rounds at once when the object is made, as is every ledger whose
        block is open.
    seed : int, optional
        A seed for tests and lectures: the choices can be replayed, and the guarantee is void.

    Raises
    ------
    ArgumentError, GuaranteeError
        One sentence about public facts.

    Notes
    -----
    **Privacy.** *Covered*: the indices of all rounds together, by `guarantee`. *Neighbours*: one
    loss vector replaced by another, or by zeros. *Assumed public*: number of experts, horizon,
    loss range, and that round t is over. *Not covered*: this object and its file, which hold the
    sums of the losses; time and memory.

    **Lambda** is the smallest that the guarantee allows, by the Renyi divergences of T - 1
    choices of bounded range ``Gamma / lambda``, or ``W sqrt(T / (8 log p))`` if that is larger. W
    is the width of the loss range, and Gamma is 2 W for "replace" and W for "zero-out". Losses
    are rounded to a grid, so that their sums are exact and rounding cannot weaken the guarantee.

    **Regret.** The expected loss exceeds that of the best expert by at most ``lambda log p +
    T W**2 / (8 lambda)``, whatever the losses. Jain and Thakurta (2014, equation 12) print a
    bound of order ``sqrt(log p)`` for this algorithm. It does not hold. Their lambda, like every
    lambda that keeps the guarantee, is of order ``sqrt(T log(1 / delta)) / epsilon`` whatever p
    is, and if one expert is good and all others lose W in each round, the regret reaches
    ``lambda log p``. A lambda smaller by ``sqrt(log p)`` would rescue the bound and break the
    guarantee. For many rounds and few experts, Gaussian noise on the sums by a tree (Agarwal and
    Singh 2017) adds its cost to the regret instead of multiplying it; it is not implemented here.

    Examples
    --------
    >>> from privatelr import PrivateFTRL
    >>> play = PrivateFTRL(n_experts=3, horizon=100, epsilon=1.0, delta=1e-6)
    >>> chosen = play.predict()
    >>> play.update([0.2, 0.9, 0.5])
    """

    def __init__(
        self,
        n_experts: int,
        horizon: int,
        epsilon: float | Guarantee,
        delta: float = USUAL_DELTA,
        loss_range: tuple[float, float] = (0.0, 1.0),
        neighbours: str = "replace",
        *,
        ledger: AnyLedger | None = None,
        seed: int | None = None,
    ) -> None:
        account = read_account(ledger)
        problem = read_problem(n_experts, horizon, loss_range, neighbours)
        calibration = calibrate_online(problem, read_promise(epsilon, delta, problem))
        self._go_on(opening_state(calibration, read_seed(seed, "choices", "play")))
        if account is not None:
            self._state.entry = account.charge(self.guarantee, calibration.events, _LABEL)

    def _go_on(self, state: State) -> None:
        """Continue from a state, which this process keeps from now on."""
        self._state = state
        self._keeper: int | None = os.getpid()

    @property
    def calibration(self) -> OnlineCalibration:
        """All numbers of the choice of a round; they are public."""
        return self._state.calibration

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for all indices together; void if a seed was given."""
        return unless_seeded(self.calibration.target, self._state.seed is not None)

    @property
    def entry(self) -> Entry | None:
        """The entry that a ledger was charged with; None without a ledger."""
        return self._state.entry

    @property
    def lambda_(self) -> float:
        """Strength of the regularisation, in the units of the losses."""
        return self.calibration.lambda_

    @property
    def rounds(self) -> int:
        """The number of rounds that are over."""
        return self._state.over

    def predict(self) -> int:
        """Choose the index of this round; asked again before `update`, return the same index.

        Notes
        -----
        **Privacy.** *Covered*: the index, by `guarantee`, with those of all other rounds.
        *Neighbours*: those of the guarantee. *Assumed public*: as for the class. *Not covered*:
        time and memory.
        """
        with self._held() as state:
            if state.over >= self.calibration.problem.horizon:
                raise GuaranteeError(
                    f"predict: all {state.over} rounds are over, and nothing more was paid for."
                )
            # a second draw for one round would be a second release, and one was paid for
            if state.choice is None:
                # the best expert so far has the smallest sum, and the mechanism favours the
                # largest score; lambda alone keeps it from following that expert too closely
                scores = -state.sums.astype(np.float64)
                state.choice = self.calibration.mechanism.choose(scores, self._randomness())
            return state.choice

    def update(self, losses: ArrayLike) -> None:
        """Add the losses ``(n_experts,)`` of this round, after its index was asked for.

        Every loss is read by itself and clipped to the declared range. One that is missing, masked
        or not a number counts as the largest loss. So the only errors are about the shape, and
        about an update before its `predict`: neither depends on the values.
        """
        problem = self.calibration.problem
        given = private_numbers("losses", losses, 1)
        if given.shape != (problem.n_experts,):
            raise ArgumentError(
                f"losses: takes an array of shape ({problem.n_experts},), one loss for each "
                f"expert; the shape is {given.shape}."
            )
        with np.errstate(all="ignore"):
            held = np.nan_to_num(given, nan=np.inf, posinf=np.inf)
            share = (np.clip(held, problem.low, problem.high) - problem.low) / problem.width
            # whole steps add up exactly, so the sums of neighbours differ as calibration assumes
            steps = np.rint(np.clip(share, 0.0, 1.0) * problem.steps).astype(np.int64)
        with self._held() as state:
            if state.choice is None:
                raise ArgumentError("update: takes the losses of a round after its predict().")
            state.sums = state.sums + steps
            state.over += 1
            state.choice = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a new file and close this object; `load` resumes the play.

        The file is PRIVATE. It holds the sums of all losses so far, which no guarantee covers.
        Only its owner may read it, and it must not be shared or copied: anyone who resumes two
        copies draws twice for one round, which was paid for once. Therefore this object draws
        nothing more, and `load` removes the file from the disk.

        Raises
        ------
        ArgumentError
            If there is such a file already, or if it cannot be written. The object stays open.
        """
        with self._held() as state:
            write_state(path, state)
            self._keeper = None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PrivateFTRL:
        """Resume from a file of `save`, and remove the file from the disk.

        Nothing is charged, because all rounds were paid for when play began; `entry` is what was
        charged then. Rounds that are over stay over. The calibration is computed again, and a
        file that states another one is refused.

        Raises
        ------
        ArgumentError
            If there is not such a file, or if it is something else. It is left as it was.
        """
        play = cls.__new__(cls)
        play._go_on(take_state(path))
        return play

    @contextmanager
    def _held(self) -> Iterator[State]:
        """Lend the state to one thread, if this object and this process keep it."""
        # checked before the lock, which another thread may have held when this process was forked
        if self._keeper is None:
            raise GuaranteeError("play: it was saved and goes on in PrivateFTRL.load(path) only.")
        if self._keeper != os.getpid():
            raise GuaranteeError(
                "play: it is kept in another process; a copy would draw a second time what was "
                "paid for once."
            )
        with _LOCK.lock:
            yield self._state

    def _randomness(self) -> Randomness:
        """Return the source of the draw of the present round."""
        seed, over = self._state.seed, self._state.over
        if seed is None:
            return SystemRandomness()
        # seed and round together seed the draw, so that a resumed play makes the same choices
        sequence = np.random.SeedSequence([seed, over])
        return SeededRandomness(int(sequence.generate_state(1, np.uint64)[0]))

    def __reduce__(self) -> Any:
        raise TypeError(
            "a play is neither copied nor pickled: its copy would draw a second time what was paid "
            "for once; save() moves it."
        )

    def __repr__(self) -> str:
        return f"<PrivateFTRL, {self.rounds} of {self.calibration.problem.horizon} rounds over>"

    def __str__(self) -> str:
        return as_text(_page(self))

    def _repr_html_(self) -> str:
        return as_html(_page(self))


def _page(play: PrivateFTRL) -> list[Piece]:
    calibration, problem = play.calibration, play.calibration.problem
    other = "another one" if problem.neighbours is REPLACE_ONE else "zeros"
    promised = "the indices of all rounds together; neighbours replace one loss vector by"
    rows = [
        ("Promise", f"{play.guarantee}, {promised} {other}"),
        ("Rounds", f"{play.rounds} of {problem.horizon} over"),
        *calibration.facts,
    ]
    if play.entry is not None:
        rows.append(("Charged", f"{price(play.entry.guarantee)}, for all rounds together"))
    return [Heading(_TITLE), FactList(rows)]


# -- the file of a play ----------------------------------------------------------------------------


_FORMAT = "privatelr play, PRIVATE: holds sums of losses; not to be shared, copied or published"
_VERSION = 1
_ROUNDING = 1e-9
"""Largest relative difference that is accepted between the same numbers on two machines."""


def write_state(path: str | os.PathLike[str], state: State) -> None:
    """Write the state to a new file that only its owner may read; a failed write leaves no file."""
    name = _require_path(path)
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        taken = "there is such a file, and no state is written over another one"
        raise _refusal(name, taken) from None
    except OSError as error:
        raise _unreadable(name, error) from None
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            json.dump(_document(state), file)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):
            os.unlink(name)
        raise _unreadable(name, error) from None


def take_state(path: str | os.PathLike[str]) -> State:
    """Read the state of a file and remove the file; leave a file of any other kind as it is.

    The file is claimed by renaming it before it is read, so that one process alone reads it.
    """
    name = Path(_require_path(path))
    claimed = name.with_name(f".{secrets.token_hex(8)}.taken")
    try:
        if not stat.S_ISREG(os.lstat(name).st_mode):
            raise _refusal(name, "takes a regular file")
        os.rename(name, claimed)
    except FileNotFoundError:
        gone = "there is no such file; a state is taken off the disk when it is resumed"
        raise _refusal(name, gone) from None
    except OSError as error:
        raise _unreadable(name, error) from None
    try:
        state = _restore(claimed.read_bytes())
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, OSError):
        os.rename(claimed, name)
        raise _refusal(name, "the file holds no state of a play") from None
    claimed.unlink()
    return state


def _require_path(path: Any) -> str:
    if not isinstance(path, str | os.PathLike) or "\0" in os.fsdecode(path):
        raise ArgumentError(f"path={show(path)}: path takes the name of a file.")
    return os.fsdecode(path)


def _refusal(name: str | Path, why: str) -> ArgumentError:
    return ArgumentError(f"path={show(str(name))}: {why}.")


def _unreadable(name: str | Path, error: OSError) -> ArgumentError:
    why = (error.strerror or "unknown").lower()
    return _refusal(name, f"the file cannot be opened or written ({why})")


def _document(state: State) -> dict[str, Any]:
    calibration = state.calibration
    problem = asdict(calibration.problem) | {"neighbours": calibration.problem.neighbours.name}
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "problem": problem,
        "target": to_json(calibration.target),
        "eta": calibration.eta,
        "over": state.over,
        "choice": state.choice,
        "seed": state.seed,
        "sums": state.sums.tolist(),
        "entry": None if state.entry is None else entry_to_json(state.entry),
    }


def _restore(data: bytes) -> State:
    """Read the state that a file holds; any error means that it does not hold one.

    The calibration is computed again. Of its bounded range and the one in the file, which differ
    by rounding at most, the smaller is used.
    """
    given = json.loads(data)
    _require((given["format"], given["version"]) == (_FORMAT, _VERSION))
    stated, eta, over, sums = (given[name] for name in ("problem", "eta", "over", "sums"))
    names = {neighbours.name: name for name, neighbours in RELATIONS.items()}
    ends = stated["low"], stated["high"]
    problem = read_problem(
        stated["n_experts"], stated["horizon"], ends, names[stated["neighbours"]]
    )
    target = from_json(given["target"])
    _require(not isinstance(target, NonPrivate) or type(target.reason) is str)
    _require(read_promise(target, 0.0, problem) == target)
    found = calibrate_online(problem, target)
    _require(type(eta) is float and math.isclose(eta, found.eta, rel_tol=_ROUNDING))
    _require(type(over) is int and 0 <= over <= problem.horizon)
    if (choice := given["choice"]) is not None:
        _require(type(choice) is int and 0 <= choice < problem.n_experts)
        _require(over < problem.horizon)
    if (seed := given["seed"]) is not None:
        _require(type(seed) is int and seed >= 0)
    most = over * problem.steps
    _require(isinstance(sums, list) and len(sums) == problem.n_experts)
    _require(all(type(value) is int and 0 <= value <= most for value in sums))
    entry = None if given["entry"] is None else entry_from_json(given["entry"])
    if entry is not None:  # the charge has to be the one that was made for this play
        events = replace(found, eta=eta).events
        _require((entry.guarantee, entry.events, entry.times) == (target, events, 1))
        _require(seed is None)
    calibration = replace(found, eta=min(eta, found.eta))
    return State(calibration, np.array(sums, dtype=np.int64), over, choice, seed, entry)


def _require(right: bool) -> None:
    if not right:
        raise ValueError
