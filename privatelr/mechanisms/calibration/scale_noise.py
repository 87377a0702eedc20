"""Noise for means and second moments of the columns, calibrated before any data is touched.

They are released before the coefficients. Rows are then centred, scaled and bounded by what was
released, so that the rest of the price is spent on rows that are nearly as long as their bound
(scale.md). Columns are those of a design in scaled units, where a number lies between -1 and 1,
and a record that cannot be used is a row of zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration.calibration_record import (
    Calibration,
    events_of,
    proven_by,
)
from privatelr.mechanisms.calibration.lambda_rules import GAUSSIAN, nominal_epsilon
from privatelr.mechanisms.calibration.moment_noise import (
    MOST_IN_MEMORY,
    ROUNDING,
    mean_error,
)
from privatelr.mechanisms.calibration.proven_noise import (
    grid_for,
    laws_hiding,
    require_law,
    worth_hiding,
)
from privatelr.numerics import Loss
from privatelr.privacy import (
    ZCDP,
    ApproxDP,
    Event,
    Guarantee,
    Promise,
    PureDP,
    SharedApproxDP,
)
from privatelr.privacy.noise import DOWN, BlockLaplace, NoiseLaw, gaussian_mu
from privatelr.types import Block, ColumnGroup

SQUARE_WEIGHT = 1.66
"""The weight a of squares beside numbers: with ``a**2`` up to 2.773 they add nothing to the
distance that one record can move a column (scale.md 1)."""
_LARGEST_MEAN_SD = {True: 0.04, False: 0.1}
"""The largest noise on a mean, in scaled units, with which the scale is worth its price: under pure
epsilon, and otherwise. Up to here no table loses a hundredth of its classes by it, and beyond some
do (``python -m tests.studies.scale``)."""
_LARGEST_MEAN_SD_OF_INTERVALS = 0.25
"""The same where intervals are bought: matrices of rows that are standardised badly have much less
noise than those of declared rows (``python -m tests.studies.coverage --gate``)."""
_PRICE_OF_DISTANCE = 200.0
"""Epsilon over the distance that one record moves the scale, where ways to pay for it are compared.
At usual deltas Gaussian noise on a mean is about .08 there, just below what is worth it."""
_RHO_OF_SQUARED_DISTANCE = 800.0
"""Rho over the square of that distance, where noise on a mean of a tenth of rho is as large."""
Lengths = tuple[tuple[float, float], ...]
"""Bounds on the length of a row, each with the ``n epsilon / d`` up to which it holds."""
CORNER = math.inf
"""The bound that no row exceeds: the map is divided by the longest row that the declared bounds
allow under it, so that this row has length 1."""
_LENGTHS: Lengths = ((2_000.0, 1.25), (10_000.0, 2.0), (1e5, 3.0), (math.inf, CORNER))
"""Of rows that count less where they are longer, so that a short bound moves coefficients (``python
-m tests.studies.scale_bias``), and a long one costs noise (``python -m tests.studies.scale``)."""
_LENGTHS_OF_INTERVALS: Lengths = ((3_000.0, 2.0), (10_000.0, 3.0), (1e5, 4.0), (math.inf, CORNER))
"""The same where intervals are bought: those of short rows miss the coefficients that the model has
without noise, unless the model is true (``python -m tests.studies.coverage
--cells adult,bank,cod_rna,kddcup99``)."""
_LENGTHS_OF_SHORTENED: Lengths = ((400.0, 1.5), (4_000.0, 2.0), (2e5, 3.0), (math.inf, 4.0))
"""Of rows that are shortened, which moves coefficients."""
_FEW_COLUMNS, _LITTLE_NOISE = 6, 4.0
"""Below this number of columns, and from this epsilon on, rows that are all of one length lose more
by it than they gain (``python -m tests.studies.scale``)."""


@dataclass(frozen=True, slots=True)
class ScaleFacts:
    """Public facts about the columns whose scale is released.

    Attributes
    ----------
    n : int
        Number of records, or of persons.
    groups : tuple of ColumnGroup
        The covariates of the design, in order.
    centred : bool
        Whether columns will be centred, which needs an intercept and dense rows.
    floor : float
        The variance that is added to each one that was released, besides the noise.
    intercept : float
        The constant in the intercept column; 0 if there is none.
    persons : bool
        Whether one of the n is a person with any number of records, whose weights sum to at most 1.
    length : float
        The bound on a row, in lengths of a typical one, or `CORNER`.
    """

    n: int
    groups: tuple[ColumnGroup, ...]
    centred: bool
    floor: float
    intercept: float = 0.0
    persons: bool = False
    length: float = 1.0

    @property
    def p(self) -> int:
        """Number of covariates."""
        return sum(group.size for group in self.groups)

    def columns_of(self, *kinds: str) -> list[int]:
        """Return the positions of the covariates in groups of these kinds."""
        listed = (group.kind for group in self.groups for _ in range(group.size))
        return [place for place, kind in enumerate(listed) if kind in kinds]


@dataclass(frozen=True, slots=True)
class ScaleCalibration:
    """Noise for means and second moments of columns.

    Attributes
    ----------
    facts : ScaleFacts
    target : Guarantee
        The guarantee of this release. If it is pure, the scale of numbers alone is released.
    noise : NoiseLaw
        The law of the noise on the means, and then on the weighted means of squares.
    grid : float
        A power of two whose multiples are released.
    """

    facts: ScaleFacts
    target: Guarantee
    noise: NoiseLaw
    grid: float

    @property
    def of_numbers(self) -> bool:
        """Whether the scale of numbers alone is released, as under a pure promise."""
        return isinstance(self.target, PureDP)

    @property
    def means(self) -> list[int]:
        """The covariates whose means are released."""
        others = () if self.of_numbers else ("indicators", "product")
        return self.facts.columns_of("number", *others)

    @property
    def squares(self) -> list[int]:
        """The covariates whose mean squares are released; an indicator is its own square."""
        return self.facts.columns_of("number", *(() if self.of_numbers else ("product",)))

    @property
    def weight(self) -> float:
        """The weight a of the squares."""
        return 1.0 if self.of_numbers else SQUARE_WEIGHT

    @property
    def mean_sd(self) -> float:
        """Standard deviation of the noise on a mean, in scaled units; 0 if none is released."""
        return math.sqrt(float(self.noise.variances[0]))

    @property
    def typical(self) -> float | None:
        """The length of a typical row under the map, with its intercept; None under `CORNER`.

        Under pure epsilon numbers have variance 1 on average, and other columns count as filled.
        If the map is divided by its longest row, no length of a typical one is public beforehand.
        """
        if self.facts.length == CORNER:
            return None
        square = sum(g.usual**2 for g in self.facts.groups) if self.of_numbers else 1.0
        return math.sqrt(square + self.facts.intercept**2)

    @property
    def sensitivity(self) -> float:
        """How far one record moves all means and mean squares."""
        return scale_sensitivity(self.facts)

    @property
    def proven(self) -> Guarantee:
        """The guarantee that the noise is proven to give; see `Calibration.proven`."""
        return proven_by(self.noise, self.target)

    @property
    def events(self) -> tuple[Event, ...]:
        """What a ledger composes for this release."""
        return events_of(self.noise, self.sensitivity, self.target)

    def __str__(self) -> str:
        return (
            f"scale of columns, {self.noise.title} noise on {self.noise.dimension} numbers\n"
            f"target {self.target}\n"
            f"sd {self.mean_sd:.3g} of a mean in scaled units"
        )


def is_worth_it(calibration: ScaleCalibration, has_intervals: bool) -> bool:
    """Return whether the noise is so small that rows profit; it takes no data (scale.md 2)."""
    usual = _LARGEST_MEAN_SD[calibration.of_numbers]
    return calibration.mean_sd <= (_LARGEST_MEAN_SD_OF_INTERVALS if has_intervals else usual)


def scale_floor(loss: Loss) -> float:
    """Return the variance that is added to each one, besides the noise (scale.md 1).

    Errors of classification hardly depend on it; intervals, which only a model with probabilities
    has, profit from a small one.
    """
    return 0.03 if loss.probability is None else 0.003


def usual_rows(
    loss: Loss, n: int, d: int, target: Guarantee, *, has_intervals: bool = False
) -> tuple[float, bool]:
    """Return the bound on a row in lengths of a typical one, and whether all rows get that length.

    The bound may be `CORNER`.

    Classes hardly depend on the length of a row, so that a loss without probabilities takes short
    rows, and under other promises than a pure one rows of one length (scale.md 1 and 3). For a loss
    with probabilities, longer rows count less, and the bound grows with ``n epsilon / d``: the
    noise falls, and what is left is the error of the sample. In the end no row counts less.
    """
    epsilon = nominal_epsilon(cast("Promise", target))
    if loss.probability is None and d >= _FEW_COLUMNS and epsilon < _LITTLE_NOISE:
        return 1.0, not isinstance(target, PureDP)
    lengths = _LENGTHS_OF_INTERVALS if has_intervals else _LENGTHS
    if not counts_long_rows_less(loss):
        lengths = _LENGTHS_OF_SHORTENED
    return next(length for most, length in lengths if n * epsilon / d < most), False


def usual_intercept(target: Guarantee, has_intervals: bool) -> float:
    """Return the constant in the intercept column, over `length` unless the promise is pure.

    A small one makes rows shorter, but is penalised more: where one class is rare, the bias of the
    intercept is then too large for one step to take off. Under a pure promise, where it is a block
    of its own, it makes no row longer.
    """
    if isinstance(target, PureDP):
        return 1.0
    return 0.5 if has_intervals else 0.25


def counts_long_rows_less(loss: Loss) -> bool:
    """Return whether standardised rows that are too long get a weight, and are not shortened.

    The coefficients of a model with probabilities keep their meaning under weights that depend on
    the covariates alone; those of a classifier have none but the classes. Rows may be brought to
    one length where this is False, because probabilities would depend on the length.
    """
    return loss.probability is not None


def scale_sensitivity(facts: ScaleFacts) -> float:
    """Bound the Euclidean distance that one record moves all means and mean squares.

    A number moves its mean and its weighted square by 2 together, and an indicator of several moves
    by the root of 2. In any other group of columns, rows of length r with entries up to l differ by
    2 r, and their squares, which have no negative entry, by the root of 2 times ``l r``. The same
    bound holds for persons. The proofs are in theory.md#scale-of-columns. Sums in doubles move all
    further, by a small multiple of what one row adds; those of persons lose as much as sums over
    all the records that a memory holds.
    """
    squares = SQUARE_WEIGHT**2
    distance = largest = 0.0
    for group in facts.groups:
        r2, of_squares = group.radius**2, squares * (group.largest * group.radius) ** 2
        match group.kind:
            case "number":
                distance, largest = distance + 4.0, largest + 1.0 + squares
            case "indicators":
                distance, largest = distance + min(group.size, 2), largest + 1.0
            case "product":
                distance, largest = distance + 4 * r2 + 2 * of_squares, largest + r2 + of_squares
    lost = 2 * mean_error(_summed(facts), facts.p + 1)
    return math.sqrt(distance) * (1 + ROUNDING) / facts.n + lost * math.sqrt(largest)


def _summed(facts: ScaleFacts) -> int:
    """Bound the number of records that are summed, which is not public for persons."""
    return MOST_IN_MEMORY if facts.persons else facts.n


def deciding_price(facts: ScaleFacts, target: Guarantee) -> Guarantee:
    """Return the price at which ways to pay for the scale are compared.

    It is about the one from which on the scale is worth its share if its noise is Gaussian,
    whatever epsilon or rho is asked for. Under a pure promise there is one way, and it is the
    target.
    """
    distance = scale_sensitivity(facts)
    match target:
        case ApproxDP():
            return replace(target, epsilon=distance * _PRICE_OF_DISTANCE)
        case ZCDP():
            return replace(target, rho=distance**2 * _RHO_OF_SQUARED_DISTANCE)
    return target


def scale_blocks(facts: ScaleFacts) -> tuple[Block, ...]:
    """Return how far one record moves each mean of a number, and then each mean square.

    By 2 and by 1 (scale.md 2), and by what sums in doubles lose. For persons these are the sides of
    the box that holds the convex hull, see `scale_sensitivity`.
    """
    k = len(facts.columns_of("number"))
    ends = [2.0] * k + [1.0] * k
    lost = 2 * mean_error(_summed(facts), facts.p + 1)
    return tuple(Block(1, end * (1 + ROUNDING) / facts.n + lost) for end in ends)


def calibrate_scale(facts: ScaleFacts, target: Promise) -> ScaleCalibration:
    """The noise of the first stage; takes no data.

    Gaussian under zCDP, which is also how it shares an (epsilon, delta); under pure epsilon the
    K-norm law of the box of all numbers and squares, whose density falls with the largest of them.
    """
    if isinstance(target, PureDP):
        noise: NoiseLaw = BlockLaplace(scale_blocks(facts), target.epsilon * DOWN)
    else:
        assert isinstance(target, ZCDP)
        size = facts.p + len(facts.columns_of("number", "product"))
        laws = laws_hiding(scale_sensitivity(facts), size, target)
        noise = require_law(laws, target, GAUSSIAN)
    return ScaleCalibration(facts, target, noise, grid_for(noise))


def share_of_price(
    scale: ScaleCalibration, coefficients: Calibration, others: Sequence[Guarantee]
) -> tuple[float, str]:
    """Return the share of the price that the scale costs, and what it is a share of.

    `others` are the targets of the stages beside these two.

    That is epsilon or rho, of which stages have parts that add up. Under an (epsilon, delta) it is
    mu squared of the whole, or epsilon if the coefficients have Laplace noise: what they leave of
    it goes to the Gaussian stages, by their parts of mu squared (`price_shares.divide`).
    """
    price, whole = scale.target, coefficients.target
    if isinstance(price, PureDP):
        parts = [price, whole, *others]
        return price.epsilon / math.fsum(cast("PureDP", each).epsilon for each in parts), "epsilon"
    rho = cast("ZCDP", price).rho
    if not isinstance(whole, SharedApproxDP):
        parts = [price, whole, *others]
        return rho / math.fsum(cast("ZCDP", each).rho for each in parts), "rho"
    if isinstance(coefficients.proven, PureDP):
        beside = math.fsum(cast("ZCDP", each).rho for each in [price, *others])
        return (1 - coefficients.proven.epsilon / whole.epsilon) * rho / beside, "epsilon"
    return 2 * rho / gaussian_mu(whole.epsilon, whole.delta) ** 2, "mu squared"


def achieved_scale(calibration: ScaleCalibration) -> Guarantee:
    """Return what the noise of a calibration is worth, from its numbers alone.

    Raises
    ------
    GuaranteeError
        If no proof covers the noise.
    """
    facts, noise, target = calibration.facts, calibration.noise, calibration.target
    if not isinstance(target, PureDP):
        return worth_hiding(noise, calibration.sensitivity, target, "scale")
    epsilon = noise.epsilon_within(scale_blocks(facts))
    if math.isinf(epsilon):
        raise GuaranteeError(f"scale with {noise.title} noise under {target}: nothing is proven.")
    return PureDP(epsilon, target.neighbours)
