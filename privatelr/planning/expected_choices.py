"""What a private choice is expected to lose: of one of several fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, require_choice, require_number, show
from privatelr.mechanisms import read_target
from privatelr.mechanisms.candidate_choice import (
    ChoiceCalibration,
    ScoreName,
    calibrate_choice,
)
from privatelr.page_model import FactList, Heading, Paged, Piece, Table
from privatelr.planning.needed_records import read_size
from privatelr.privacy import Guarantee, neighbours_about
from privatelr.results.answers.scored_records import require_pure
from privatelr.results.pages.sentences import neighbours
from privatelr.types import FloatArray

_COMPARED = {"auc": "AUC", "accuracy": "share of right classes", "brier": "Brier score"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ChoicePlan(Paged):
    """What `choose` is expected to lose, if fits differ as they are guessed to.

    Attributes
    ----------
    calibration : ChoiceCalibration
        The score, the number of records, the number of fits, and the price.
    worse : ndarray of shape (k,)
        By how much each fit is worse than the best one, which is first, with 0.
    chances : ndarray of shape (k,)
        The probability with which each is chosen.
    promise : Guarantee
        The price as it was given, such as a rho, which implies the epsilon of the calibration.
    """

    calibration: ChoiceCalibration
    worse: FloatArray
    chances: FloatArray
    promise: Guarantee

    @property
    def best_chance(self) -> float:
        """The probability that the best fit is chosen, or one that is as good."""
        return float(self.chances[self.worse == 0].sum())

    @property
    def regret(self) -> float:
        """By how much the chosen fit is worse than the best one, on average."""
        return float(self.chances @ self.worse)

    def to_frame(self) -> pd.DataFrame:
        """One row per fit: by how much it is worse than the best one, and its chance."""
        return pd.DataFrame({"worse": self.worse, "chance": self.chances})

    def page(self) -> list[Piece]:
        """The pieces of the page that `print` shows."""
        made = self.calibration
        facts = [
            ("Promise", neighbours(str(self.promise), made.n, made.target.neighbours)),
            ("Score", _COMPARED[made.score]),
            ("Best", f"chosen with probability {self.best_chance:.3f}"),
            ("Regret", f"{self.regret:.2g} on average, in the units of the score"),
        ]
        both = self.worse, self.chances
        cells = [[f"{worse:.4g}", f"{p:.3f}"] for worse, p in zip(*both, strict=True)]
        names = ["best", *(f"other {place}" for place in range(1, len(cells)))]
        return [
            Heading("Plan of a choice among fits"),
            "",
            FactList(facts),
            "",
            Table(names, ("worse by", "chance"), cells),
            "",
            "No data were read: chances follow exactly from these differences, which are a guess.",
        ]

    def __repr__(self) -> str:
        return f"<Plan of a choice among {self.calibration.candidates} fits>"


@suggests_arguments
def plan_choice(
    worse: float | Sequence[float],
    n: int,
    eps: float | Guarantee = 1.0,
    *,
    score: ScoreName = "auc",
    balance: float = 0.3,
    person: str | None = None,
) -> ChoicePlan:
    """Say how well `choose` will tell fits apart, before any data is read.

    Parameters
    ----------
    worse : float or sequence of float
        A guess by how much each fit but the best one is worse, in the units of the score: 0.01 is
        an AUC that is lower by 0.01, or a Brier score that is higher.
    n : int
        Number of records that will be scored, or of persons.
    eps : float, PureDP or ZCDP
        The price of the choice, as in `choose`.
    score : {"auc", "accuracy", "brier"}
        As in `choose`.
    balance : float
        A guess of the share of the positive class, which matters for the AUC.
    person : str, optional
        For fits about persons, whose number is n: the name of the column.

    Returns
    -------
    ChoicePlan
        With ``best_chance`` and ``regret``, exactly, by the formula of permute-and-flip.

    Raises
    ------
    ArgumentError, GuaranteeError
        One sentence each.

    Examples
    --------
    >>> from privatelr import plan_choice
    >>> chance = plan_choice([0.02, 0.05], n=2000, eps=1.0).best_chance
    >>> 1 / 3 < chance < 1  # better than a draw among three fits
    True
    """
    given = [worse] if not isinstance(worse, Sequence | np.ndarray) else [*worse]
    takes = "a difference of scores from 0 to 1 for each fit but the best one"
    if not given:
        raise ArgumentError(f"worse={show(worse)}: worse takes {takes}.")
    gaps = [
        require_number(ArgumentError, "worse", one, takes, at_least=0, at_most=1) for one in given
    ]
    require_choice(ArgumentError, "score", score, get_args(ScoreName))
    share = "a share of records above 0 and below 1"
    positive = require_number(ArgumentError, "balance", balance, share, above=0, at_most=1 - 1e-9)
    about = neighbours_about(person)
    promise = read_target(eps, 0.0, plain=None, neighbours=about)
    target = require_pure(promise, "plan_choice")
    made = calibrate_choice(read_size(n), len(gaps) + 1, score, target)
    below = np.array([0.0, *gaps])
    chances = made.mechanism.probabilities(-made.records_of(1.0, positive) * below)
    return ChoicePlan(made, below, chances, promise)
