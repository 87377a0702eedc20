"""What declarations that are paid for will be worth: plans of bounds and of levels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.design import Variable
from privatelr.errors import (
    ArgumentError,
    listed,
    or_meant,
    require_whole,
    show,
)
from privatelr.inference import Guesses
from privatelr.inference.guessed_columns import guessed_numbers
from privatelr.mechanisms.level_selection import (
    LevelCalibration,
    calibrate_levels,
    read_target_of_levels,
    require_possible,
)
from privatelr.mechanisms.range_selection import (
    RangeCalibration,
    calibrate_ranges,
    candidate_ends,
    scores_of_high,
    scores_of_low,
    slots_of,
)
from privatelr.page_model import FactList, Heading, Paged, Piece, Table
from privatelr.planning.made_up_records import read_spread
from privatelr.planning.needed_records import read_size
from privatelr.privacy import Guarantee
from privatelr.results.declarations import whose
from privatelr.results.pages.sentences import neighbours
from privatelr.sources import BoundsLike
from privatelr.suggestions import read_outer, read_price
from privatelr.types import FloatArray

_VALUES = 20_000
"""Quantiles of a guessed law that stand for the values of a column."""
_SURE = 0.95
"""Probability of what is said of an end whatever the data are."""
_SHARES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
"""Shares of the records for which the page has the chance of a level."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BoundsPlan(Paged):
    """How near the ends are expected to be that `suggest_bounds` will suggest.

    Attributes
    ----------
    calibration : RangeCalibration
        The numbers that the choices will have: the price of an end, and the aim.
    cells : int
        The largest number of candidates of an end.
    columns : DataFrame
        One row per column, see `to_frame`.
    """

    calibration: RangeCalibration
    cells: int
    columns: pd.DataFrame

    @property
    def beyond(self) -> tuple[int, int]:
        """Between these many records lie beyond an end, with probability 95 % for each end.

        It holds whatever the values are, if as many have one as are aimed at. A choice misses by
        more than s points of score with probability ``cells exp(-eta s)`` at most, and a record
        too few beyond an end costs three times what one too many does.
        """
        made = self.calibration
        tight, loose = made.misses(self.cells, 1 - _SURE)
        return max(0, math.floor(made.beyond - loose)), math.ceil(made.beyond + tight)

    def to_frame(self) -> pd.DataFrame:
        """One row per column, for made-up values: what ends to expect, and what they cost.

        The columns are column; aim_low and aim_high, the quantiles that are aimed at; low and high,
        the ends on average; low_sd and high_sd, their standard deviations by the noise, in the
        units of the column; clipped, the share of values beyond either end; and width, that of the
        range over that of the aim.
        """
        return self.columns

    def page(self) -> list[Piece]:
        """The pieces of the page that `print` shows."""
        made, about = self.calibration, self.calibration.target.neighbours
        (least, most), who = self.beyond, whose(about)
        facts = [
            ("Promise", neighbours(str(made.target), made.n, about)),
            ("Price", f"epsilon = {made.eta:.3g} for each of {made.choices} ends"),
            ("Aim", f"{made.beyond} {who} ({made.beyond / made.n:.2%}) beyond either end"),
            (
                "Any data",
                f"between {least} and {most} {who} ({most / made.n:.2%}) beyond an end, with "
                f"probability {_SURE:.0%}, in cells of candidates",
            ),
        ]
        cells = [
            [
                f"{row.aim_low:.4g} to {row.aim_high:.4g}",
                f"{row.low:.4g} ({row.low_sd:.2g})",
                f"{row.high:.4g} ({row.high_sd:.2g})",
                f"{row.clipped:.2%}",
                f"{row.width:.3g}",
            ]
            for row in self.columns.itertuples()
        ]
        headers = ("aim", "low (sd)", "high (sd)", "clipped", "width")
        return [
            Heading("Plan of suggested bounds, before any data"),
            "",
            FactList(facts),
            "",
            Table(list(self.columns["column"]), headers, cells),
            "",
            "Ends, their sd by the noise, and the share that is clipped at both are averages "
            "of the choice for made-up values, whose spread is a guess; width is over that of the "
            "aim.",
        ]

    def __repr__(self) -> str:
        return f"<Plan of bounds of {len(self.columns)} columns, {self.calibration.target}>"


@suggests_arguments
def plan_bounds(
    bounds: BoundsLike,
    n: int,
    eps: float | Guarantee,
    delta: float = 0.0,
    *,
    person: str | None = None,
    spread: float | Mapping[str, float] | None = None,
) -> BoundsPlan:
    """Say how near the ends will be that `suggest_bounds` suggests, before any data is read.

    Parameters
    ----------
    bounds, eps, delta, person
        The same as for `suggest_bounds`.
    n : int
        Number of records, or of persons.
    spread : float or mapping, optional
        A guess of the standard deviation of a column over half the width of its outer range, as in
        `plan`. An outer range is wide, so a guess of one's own is worth more here.

    Returns
    -------
    BoundsPlan
        A page, with ``beyond``, how many records lie beyond an end whatever the data are, and
        `to_frame`, the ends to expect for made-up values, with their errors.

    Raises
    ------
    ArgumentError, GuaranteeError, SchemaError
        One sentence each, and those of `suggest_bounds`.

    Examples
    --------
    >>> from privatelr import plan_bounds
    >>> plan_bounds({"age": (0, 150)}, n=1000, eps=0.5).beyond
    (10, 176)
    """
    target, outer = read_price(eps, delta, person), read_outer(bounds)
    ends = {name: candidate_ends(*pair) for name, pair in outer.items()}
    cells = [len(found) - 1 for found in ends.values()]
    made = calibrate_ranges(read_size(n), cells, target)
    if isinstance(spread, Mapping):
        _require_columns(spread, outer)
    guesses = Guesses(spread=read_spread(spread))
    rows = []
    for name, pair in outer.items():
        variable = Variable(name, "numeric", pair)
        ranks = (np.arange(_VALUES) + 0.5) / _VALUES
        values = guessed_numbers(variable, ranks, guesses.spread_of(variable))
        rows.append({"column": name, **_expected_range(np.sort(values), ends[name], made)})
    return BoundsPlan(made, max(cells), pd.DataFrame(rows))


def _require_columns(spread: Mapping[str, object], outer: Mapping[str, object]) -> None:
    """Refuse a guess about a column that has no outer range."""
    for name in spread:
        if name not in outer:
            raise ArgumentError(
                f"spread: {show(name)} is not a column of bounds, which has {listed(outer)}"
                f"{or_meant(name, outer)}"
            )


def _expected_range(
    values: FloatArray, ends: FloatArray, made: RangeCalibration
) -> dict[str, float]:
    """Return what is expected of the range of one column; values ``(m,)`` stand for n records."""
    slots = slots_of(values, ends) * (made.n / len(values))
    share = made.beyond / made.n
    aim = np.quantile(values, [share, 1 - share])
    low = np.exp(made.mechanism.log_probabilities(scores_of_low(slots, made.beyond)))
    high = np.exp(made.mechanism.log_probabilities(scores_of_high(slots, made.beyond)))
    lows, highs = ends[:-1], ends[1:]
    below = np.searchsorted(values, lows, "left") / len(values)
    above = 1 - np.searchsorted(values, highs, "right") / len(values)
    mean = float(low @ lows), float(high @ highs)
    return {
        "aim_low": float(aim[0]),
        "aim_high": float(aim[1]),
        "low": mean[0],
        "low_sd": math.sqrt(float(low @ (lows - mean[0]) ** 2)),
        "high": mean[1],
        "high_sd": math.sqrt(float(high @ (highs - mean[1]) ** 2)),
        "clipped": float(low @ below + high @ above),
        "width": (mean[1] - mean[0]) / max(float(aim[1] - aim[0]), 1e-300),
    }


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LevelsPlan(Paged):
    """With which probability `levels_from` will tell a level, by how many records have it.

    Attributes
    ----------
    n : int
        Number of records, or of persons.
    calibration : LevelCalibration
    """

    n: int
    calibration: LevelCalibration

    def chance(self, count: int) -> float:
        """The probability of a level that so many records have, exactly.

        Raises
        ------
        ArgumentError
            If it is not a whole number from 0 to n.
        """
        takes = f"a whole number from 0 to n = {self.n}"
        read = require_whole(ArgumentError, "count", count, takes, at_least=0, at_most=self.n)
        return self.calibration.chance(read)

    def to_frame(self) -> pd.DataFrame:
        """The columns share (of the records), count and chance, from frequent levels to rare."""
        rows = [(share, round(share * self.n)) for share in _SHARES]
        return pd.DataFrame(
            [{"share": share, "count": k, "chance": self.chance(k)} for share, k in rows]
        )

    def page(self) -> list[Piece]:
        """The pieces of the page that `print` shows."""
        about = self.calibration.target.neighbours
        half, always = self.calibration.ladder
        who = whose(about)
        facts = [
            ("Promise", neighbours(str(self.calibration.target), self.n, about)),
            ("One half", f"is the chance of a level of {half} {who} ({half / self.n:.2%})"),
            ("Always", f"a level of {always} {who} ({always / self.n:.2%})"),
        ]
        frame = self.to_frame()
        cells = [
            [f"{k:,}", f"{p:.3g}"] for k, p in zip(frame["count"], frame["chance"], strict=True)
        ]
        return [
            Heading("Plan of released levels, before any data"),
            "",
            FactList(facts),
            "",
            Table([f"{share:.1%}" for share in frame["share"]], (who, "chance"), cells),
            "",
            "No data were read: chances follow exactly from the promise.",
        ]

    def __repr__(self) -> str:
        return f"<Plan of levels, {self.calibration.target}>"


@suggests_arguments
def plan_levels(
    n: int, eps: float | Guarantee, delta: float = 0.0, *, person: str | None = None
) -> LevelsPlan:
    """Say with which probability `levels_from` will tell a level, before any data is read.

    Parameters
    ----------
    n : int
        Number of records, or of persons.
    eps, delta, person
        The same as for `levels_from`.

    Returns
    -------
    LevelsPlan
        A page, with ``chance(count)`` and `to_frame`; all probabilities are exact.

    Raises
    ------
    ArgumentError, GuaranteeError
        Those of `levels_from`.

    Examples
    --------
    >>> from privatelr import plan_levels
    >>> plan_levels(n=1000, eps=1.0, delta=1e-6).chance(40) > 0.99
    True
    """
    target = read_target_of_levels(read_price(eps, delta, person))
    size, calibration = read_size(n), calibrate_levels(target)
    require_possible(size, calibration)
    return LevelsPlan(size, calibration)
