"""Private follow-the-regularised-leader: each round gives an index, then takes its losses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, GuaranteeError
from privatelr.locks import ForkSafeLock
from privatelr.mechanisms.online import state_file
from privatelr.mechanisms.online.online_calibration import (
    OnlineCalibration,
    calibrate_online,
    read_problem,
    read_promise,
)
from privatelr.mechanisms.request import USUAL_DELTA, read_account, read_seed
from privatelr.mechanisms.selection_release import (
    private_numbers,
)
from privatelr.page_model import FactList, Heading, Piece, as_html, as_text
from privatelr.privacy import REPLACE_ONE, Guarantee, unless_seeded
from privatelr.privacy.accounting import AnyLedger, Entry, price
from privatelr.privacy.noise import Randomness, SeededRandomness, SystemRandomness

_LOCK = ForkSafeLock()
_LABEL = "private follow-the-regularised-leader"


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
        self._go_on(state_file.opening_state(calibration, read_seed(seed, "choices", "play")))
        if account is not None:
            self._state.entry = account.charge(self.guarantee, calibration.events, _LABEL)

    def _go_on(self, state: state_file.State) -> None:
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
    def regret_bound(self) -> float:
        """Upper bound on the expected loss above that of the best expert, after all rounds."""
        return self.calibration.regret_bound

    @property
    def rounds(self) -> int:
        """The number of rounds that are over."""
        return self._state.over

    @property
    def horizon(self) -> int:
        """T, the number of rounds in all."""
        return self.calibration.problem.horizon

    def predict(self) -> int:
        """Choose the index of this round; asked again before `update`, return the same index.

        Notes
        -----
        **Privacy.** *Covered*: the index, by `guarantee`, with those of all other rounds.
        *Neighbours*: those of the guarantee. *Assumed public*: as for the class. *Not covered*:
        time and memory.
        """
        with self._held() as state:
            if state.over >= self.horizon:
                raise GuaranteeError(
                    f"predict: all {self.horizon} rounds are over, and nothing more was paid for."
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
            state_file.write(path, state)
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
            If there is not such a file, if it is not yours, or if it is something else. It is
            left as it was.
        """
        play = cls.__new__(cls)
        play._go_on(state_file.take(path))
        return play

    @contextmanager
    def _held(self) -> Iterator[state_file.State]:
        """Lend the state to one thread, if this object and this process keep it."""
        # checked before the lock, which another thread may have held when this process was forked
        if self._keeper is None:
            raise GuaranteeError("play: it was saved and goes on in PrivateFTRL.load(path) only.")
        if self._keeper != os.getpid():
            raise GuaranteeError(
                "play: it is kept in another process; a copy would draw a second time what was "
                "paid for once."
            )
        with _LOCK.held():
            yield self._state

    def _randomness(self) -> Randomness:
        """Return the source of the draw of the present round."""
        seed, over = self._state.seed, self._state.over
        if seed is None:
            return SystemRandomness()
        # seed and round together seed the draw, so that a resumed play makes the same choices
        sequence = np.random.SeedSequence([seed, over])
        return SeededRandomness(int(sequence.generate_state(1, np.uint64)[0]))

    def __copy__(self) -> PrivateFTRL:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivateFTRL:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(
            "a play is not pickled: its copy would draw a second time what was paid for once; "
            "save() moves it."
        )

    def __repr__(self) -> str:
        return f"<PrivateFTRL, {self.rounds} of {self.horizon} rounds over>"

    def __str__(self) -> str:
        return as_text(_page(self))

    def _repr_html_(self) -> str:
        return as_html(_page(self))


def _page(play: PrivateFTRL) -> list[Piece]:
    calibration, problem = play.calibration, play.calibration.problem
    other = "another one" if problem.neighbours is REPLACE_ONE else "zeros"
    promised = "the indices of all rounds together; neighbours replace one loss vector by"
    regret = f"at most {calibration.regret_bound:.4g} expected over {problem.horizon} rounds"
    clipped = f"losses clipped to [{problem.low:g}, {problem.high:g}]"
    rows = [
        ("Promise", f"{play.guarantee}, {promised} {other}"),
        ("Rounds", f"{play.rounds} of {problem.horizon} over"),
        ("Experts", f"{problem.n_experts}, {clipped}"),
        ("Lambda", f"{calibration.lambda_:.4g}, {calibration.lambda_origin}"),
        ("Regret", f"{regret}, whatever the losses"),
    ]
    if play.entry is not None:
        rows.append(("Charged", f"{price(play.entry.guarantee)}, for all rounds together"))
    return [Heading("Private follow-the-regularised-leader"), FactList(rows)]
