"""The scale of the columns, which is released first and standardises the rows.

Noise for means and second moments is calibrated before any data is touched. The map is a function
of what was released. From then on it is public: rows are mapped by it, predictions use it, and
coefficients return to the units of the data through it. So the rest of the price is spent on rows
that are nearly as long as their bound. Columns are those of a design in scaled units, where a
number lies between -1 and 1, and a record that cannot be used is a row of zeros.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from privatelr.errors import GuaranteeError, SchemaWarning
from privatelr.mechanisms.calibration.calibration_record import (
    Calibration,
    StageCalibration,
)
from privatelr.mechanisms.calibration.lambda_rules import GAUSSIAN, nominal_epsilon
from privatelr.mechanisms.calibration.proven_noise import (
    ROUNDING,
    grid_for,
    laws_hiding,
    lost_in_means,
    require_law,
)
from privatelr.mechanisms.perturbation import rounded_sum
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.range_selection import CERTAINTY, TOO_LOOSE
from privatelr.mechanisms.request import LENGTHS, SCALE, Request
from privatelr.mechanisms.stages.stage import Calibrations, Part, Stage
from privatelr.numerics import Loss
from privatelr.numerics.rows import LooseRows, column_sums
from privatelr.privacy import (
    ZCDP,
    ApproxDP,
    Guarantee,
    Promise,
    PureDP,
    SharedApproxDP,
)
from privatelr.privacy.noise import DOWN, BlockLaplace, Draw, NoiseLaw, gaussian_mu
from privatelr.types import Block, ColumnGroup, FloatArray, IntArray, Offset, Rows

SQUARE_WEIGHT = 1.66
"""The weight a of squares beside numbers: with ``a**2`` up to 2.773 they add nothing to the
distance that one record can move a column (theory.md#scale-of-columns)."""
BEYOND, ENDS_OF_NORMAL = 1 / 8, 1.15
"""The share of the records that is meant to lie beyond either end of the range of a thin number,
and how many deviations this end of a normal law is away from its middle."""
MOST_RANGES, MOST_CELLS, _LARGEST_SHARE = 3, 750, 0.05
"""The most numbers whose ranges are paid for, the most cells of such a choice, and the largest
share of the price for all ranges."""
_TAIL = 25.0
"""The largest multiple of the variance by its range that a tail of a number may bring it to. A
released variance above it is noise where a number is thin."""
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
_LENGTHS_OF_SHORTENED = ((400.0, 1.5), (4_000.0, 2.0), (2e5, 3.0), (math.inf, 4.0))
"""Bounds on rows that are shortened, each with the ``n epsilon / d`` up to which it holds."""
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
    longer : float or None
        The number of records that are meant to be longer than the length of rows, if that is
        released, too.
    """

    n: int
    groups: tuple[ColumnGroup, ...]
    centred: bool
    floor: float
    intercept: float = 0.0
    persons: bool = False
    longer: float | None = None

    @property
    def p(self) -> int:
        """Number of covariates."""
        return sum(group.size for group in self.groups)

    def columns_of(self, *kinds: str) -> list[int]:
        """Return the positions of the covariates in groups of these kinds."""
        listed = (group.kind for group in self.groups for _ in range(group.size))
        return [place for place, kind in enumerate(listed) if kind in kinds]


@dataclass(frozen=True, slots=True)
class ScaleCalibration(StageCalibration):
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
    def typical(self) -> float:
        """The length of a typical row under the map, with its intercept, before it is divided.

        Under pure epsilon numbers have variance 1 on average, and other columns count as filled.
        """
        square = sum(g.usual**2 for g in self.facts.groups) if self.of_numbers else 1.0
        return math.sqrt(square + self.facts.intercept**2)

    @property
    def sensitivity(self) -> float:
        """How far one record moves all means and mean squares."""
        return scale_sensitivity(self.facts)


def is_worth_it(calibration: ScaleCalibration, has_intervals: bool) -> bool:
    """Return whether the noise is so small that rows profit; it takes no data."""
    usual = _LARGEST_MEAN_SD[calibration.of_numbers]
    return calibration.mean_sd <= (_LARGEST_MEAN_SD_OF_INTERVALS if has_intervals else usual)


def scale_floor(loss: Loss) -> float:
    """Return the variance that is added to each one, besides the noise.

    Errors of classification hardly depend on it; intervals, which only a model with probabilities
    has, profit from a small one.
    """
    return 0.03 if loss.probability is None else 0.003


def usual_rows(loss: Loss, n: int, d: int, target: Guarantee) -> tuple[float | None, bool]:
    """Return the bound on a row in lengths of a typical one, and whether all rows get that length.

    The bound is None where it is released: for a loss with probabilities, of which longer rows
    count less, and are not shortened. Its coefficients keep their meaning under weights that depend
    on the covariates alone, and not where rows are of one length. Classes hardly depend on the
    length of a row, so that a loss without probabilities takes short rows, and under other promises
    than a pure one rows of one length.
    """
    if loss.probability is not None:
        return None, False
    epsilon = nominal_epsilon(cast("Promise", target))
    if d >= _FEW_COLUMNS and epsilon < _LITTLE_NOISE:
        return 1.0, not isinstance(target, PureDP)
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
    lost = lost_in_means(facts.n, facts.p + 1, persons=facts.persons)
    return math.sqrt(distance) * (1 + ROUNDING) / facts.n + lost * math.sqrt(largest)


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


def price_of_range(facts: ScaleFacts, target: Guarantee) -> float:
    """Return the epsilon, or the rho, of both ends of one number."""
    eta = (math.log(MOST_CELLS) + CERTAINTY) / (TOO_LOOSE * BEYOND * facts.n)
    return eta**2 / 4 if isinstance(target, ZCDP) else 2 * eta


def share_of_ranges(facts: ScaleFacts, target: Guarantee) -> float:
    """Return the share of the price for ranges, rounded up for readers; it takes no data.

    It is 0 where columns are not centred, or where the largest share would not pay for a number.

    Examples
    --------
    >>> from privatelr import PureDP, plan
    >>> from privatelr.mechanisms.stages.scale import share_of_ranges
    >>> scale = plan("ill ~ age", n=5_000, eps=1.0, bounds={"age": (18, 99)}).calibration.scale
    >>> share_of_ranges(scale.facts, PureDP(0.5)), share_of_ranges(scale.facts, PureDP(8.0))
    (0.0, 0.0062)
    """
    whole = target.rho if isinstance(target, ZCDP) else nominal_epsilon(cast("Promise", target))
    one, numbers = price_of_range(facts, target) / whole, len(facts.columns_of("number"))
    if not (facts.centred and numbers) or one > _LARGEST_SHARE:
        return 0.0
    share = min(_LARGEST_SHARE, one * min(MOST_RANGES, numbers))
    unit = 10.0 ** (math.floor(math.log10(share)) - 1)
    return min(_LARGEST_SHARE, float(f"{math.ceil(share / unit) * unit:.2g}"))


def scale_blocks(facts: ScaleFacts) -> tuple[Block, ...]:
    """Return how far one record moves each mean of a number, and then each mean square.

    By 2 and by 1, and by what sums in doubles lose. For persons these are the sides of the box that
    holds the convex hull, see `scale_sensitivity`.
    """
    k = len(facts.columns_of("number"))
    ends = [2.0] * k + [1.0] * k
    lost = lost_in_means(facts.n, facts.p + 1, persons=facts.persons)
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
    it goes to the Gaussian stages, by their parts of mu squared (`registry.divide`).
    """
    price, whole = scale.target, coefficients.target
    if isinstance(price, PureDP):
        parts = [price, whole, *others]
        return price.epsilon / math.fsum(cast("PureDP", each).epsilon for each in parts), "epsilon"
    rho = cast("ZCDP", price).rho
    if isinstance(whole, SharedApproxDP):  # a length of rows has a part of epsilon by itself
        others = [each for each in others if isinstance(each, ZCDP)]
    else:
        parts = [price, whole, *others]
        return rho / math.fsum(cast("ZCDP", each).rho for each in parts), "rho"
    if isinstance(coefficients.proven, PureDP):
        beside = math.fsum(cast("ZCDP", each).rho for each in [price, *others])
        return (1 - coefficients.proven.epsilon / whole.epsilon) * rho / beside, "epsilon"
    return 2 * rho / gaussian_mu(whole.epsilon, whole.delta) ** 2, "mu squared"


_SPREAD_OF_BOUNDS = 3**-0.5
"""Standard deviation of values that are spread evenly between -1 and 1; a mean with as much noise
says no more about its column than the bounds do."""
_ROUNDED = 1 + 2.0**-30
"""Factor of the longest row, far above the rounding of rows, so that none counts less by it."""


@dataclass(frozen=True, slots=True, eq=False)
class ScaleRelease:
    """Noisy means and mean squares of columns, which are paid for and free to publish.

    Attributes
    ----------
    values : ndarray of shape (k,), read-only
        Means in scaled units, and then weighted mean squares, as they were released.
    calibration : ScaleCalibration
    ranges : ndarray of shape (2 k,) or None
        The lower ends of all numbers and then the upper ends, where those of thin numbers were
        released: their middles and spreads take the place of their moments.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=1.0, do_scale="private", **public)
    >>> fit.release.scale.values.shape  # two means, two mean squares
    (4,)
    """

    values: FloatArray
    calibration: ScaleCalibration
    ranges: FloatArray | None = None

    def __post_init__(self) -> None:
        self.values.flags.writeable = False

    @property
    def thin(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """The places of thin numbers, the middles of their ranges, and half their widths.

        A width is 0 where most values are in one cell, so that the range shows no spread.
        """
        numbers = np.array(self.calibration.facts.columns_of("number"), dtype=np.intp)
        ends = np.repeat([-1.0, 1.0], len(numbers)) if self.ranges is None else self.ranges
        low, high = np.split(ends, 2)
        narrow = high - low < 2.0
        return numbers[narrow], (high + low)[narrow] / 2, (high - low)[narrow] / 2

    @property
    def ranged(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """The same of those with a range that shows their spread."""
        places, middles, halves = self.thin
        return places[halves > 0], middles[halves > 0], halves[halves > 0]


def warn_of_noise(calibration: ScaleCalibration, stacklevel: int) -> None:
    """Warn of a scale that would be all noise; a function of public facts.

    Examples
    --------
    >>> import warnings
    >>> from privatelr import plan
    >>> from privatelr.mechanisms import warn_of_noise
    >>> public = {"bounds": {"age": (18, 99)}, "do_scale": "private"}
    >>> scale = plan("ill ~ age", n=60, eps=1.0, **public).calibration.scale
    >>> with warnings.catch_warnings(record=True, action="always") as said:
    ...     warn_of_noise(scale, stacklevel=1)
    >>> print(str(said[0].message).partition(" where")[0])
    do_scale='private': the noise on a mean has sd 0.667
    """
    if calibration.mean_sd > _SPREAD_OF_BOUNDS:
        warnings.warn(
            f"do_scale='private': the noise on a mean has sd {calibration.mean_sd:.3g} where the "
            "bounds are -1 and 1, so that what is released of the columns is nearly all noise; "
            "raise eps or the share for the scale, or take do_scale=False.",
            SchemaWarning,
            stacklevel=stacklevel + 1,
        )


def release_scale(
    rows: Rows | LooseRows, calibration: ScaleCalibration, noise: Draw
) -> ScaleRelease:
    """Sum columns and their squares in one pass over the rows, add the noise, round, release.

    Parameters
    ----------
    rows : Rows
        In the units of the declared bounds, an intercept first if there is one.
    calibration : ScaleCalibration
    noise : Draw
        Of ``calibration.noise``.

    Notes
    -----
    **Privacy.** *Covered*: means and mean squares, by ``calibration.target``. *Neighbours*: those
    of the target. *Assumed public*: everything in ``calibration.facts``. *Not covered*: time and
    memory.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import mechanisms, plan
    >>> from privatelr.numerics.rows import DenseRows
    >>> from privatelr.privacy.noise import SystemRandomness
    >>> scale = plan("ill ~ age", n=5_000, eps=1.0, bounds={"age": (18, 99)}).calibration.scale
    >>> rows = DenseRows(np.zeros((5_000, 1)), np.ones(5_000), bound=1.0, intercept=None)
    >>> noise = SystemRandomness().draw(scale.noise)
    >>> mechanisms.release_scale(rows, scale, noise).values.shape  # a mean, a mean square
    (2,)
    """
    facts = calibration.facts
    if rows.n != facts.n or not 0 <= rows.d - facts.p <= 1:
        raise GuaranteeError(
            f"rows of shape ({rows.n}, {rows.d}) do not fit a scale of n={facts.n} records and "
            f"{facts.p} covariates."
        )
    values = mean_squares(rows, calibration)
    return ScaleRelease(rounded_sum(values, noise, calibration.grid), calibration)


def mean_squares(rows: Rows | LooseRows, calibration: ScaleCalibration) -> FloatArray:
    """Return means, and weighted mean squares, without any noise.

    Records of persons count by the roots of their weights, which labels bring: twice in a square,
    and in a mean by the root once more. Bounded rows are multiplied by them already.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import mechanisms, plan
    >>> from privatelr.numerics.rows import DenseRows
    >>> public = {"bounds": {"age": (18, 99)}, "do_scale": "private"}
    >>> scale = plan("ill ~ age", n=4, eps=1.0, **public).calibration.scale
    >>> ages = np.array([[-0.5], [0.5], [0.5], [0.5]])  # in units of the bounds
    >>> rows = DenseRows(ages, np.ones(4), bound=1.0, intercept=None)
    >>> mechanisms.mean_squares(rows, scale)
    array([0.25, 0.25])
    """
    first = rows.d - calibration.facts.p
    means = [first + column for column in calibration.means]
    squares = [first + column for column in calibration.squares]

    kernel = MomentSums(persons=calibration.facts.persons, are_bounded=rows.is_bounded)
    sums, sums_of_squares = rows.fold(kernel)
    found = [sums[means], calibration.weight * sums_of_squares[squares]]
    return np.concatenate(found) / rows.n


@dataclass(frozen=True, slots=True)
class MomentSums:
    """The kernel that sums columns, and their squares.

    Attributes
    ----------
    persons : bool
        Whether records count by the roots of their weights, which labels bring.
    are_bounded : bool
        Whether rows are multiplied by them already.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr.mechanisms.stages.scale import MomentSums
    >>> weighted = np.array([1.0, 2.0])  # the second record counts a quarter
    >>> MomentSums(persons=True, are_bounded=False)(np.array([[0.5], [1.0]]), weighted)
    (array([0.75]), array([0.5]))
    """

    persons: bool
    are_bounded: bool

    def __call__(
        self, x: FloatArray, y: FloatArray, z: Offset = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        """Sum the columns of rows with these labels, and their squares."""
        if not self.persons:
            return column_sums(x)
        # 0 for rows that cannot be used
        roots = np.where(y != 0, 1.0 / np.maximum(np.abs(y), 1.0), 0.0)
        return column_sums(x if self.are_bounded else x * roots[:, None], roots)


def scale_moments(release: ScaleRelease, about: FloatArray | None = None) -> tuple[FloatArray, ...]:
    """Return the mean and the variance of each covariate ``(p,)``, 0 where nothing was released.

    The variance is about the mean, or about other numbers ``(p,)`` if these are given. Noise may
    have taken either out of its range, to which it returns.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import plan
    >>> from privatelr.mechanisms import ScaleRelease, scale_moments
    >>> scale = plan("ill ~ age", n=5_000, eps=1.0, bounds={"age": (18, 99)}).calibration.scale
    >>> mean, variance = scale_moments(ScaleRelease(np.array([0.2, 0.3]), scale))
    >>> mean.round(2), variance.round(2)  # .3 - .2**2
    (array([0.2]), array([0.26]))
    """
    calibration, facts = release.calibration, release.calibration.facts
    means, squares = calibration.means, calibration.squares
    largest = np.repeat([g.largest for g in facts.groups], [g.size for g in facts.groups])
    mean, indicators = np.zeros(facts.p), facts.columns_of("indicators")
    mean[means] = np.clip(release.values[: len(means)], -largest[means], largest[means])
    mean[indicators] = np.maximum(mean[indicators], 0.0)
    second = mean.copy()  # an indicator is its own square
    second[squares] = release.values[len(means) :] / calibration.weight
    ranged, middles, halves = release.ranged
    spread = (halves / ENDS_OF_NORMAL) ** 2
    if len(ranged):  # a long tail adds to what most values show, and noise does not
        shown = (second - mean**2 - variance_sd(calibration, mean))[ranged]
        spread = np.where(shown < _TAIL * spread, np.maximum(spread, shown), spread)
    mean[ranged], second[ranged] = middles, middles**2 + spread
    middle = mean if about is None else about
    return mean, np.clip(second - middle**2, 0.0, largest**2)


@lru_cache(maxsize=16)  # a plan has one scale and many releases
def spread_to_noise(release: ScaleRelease) -> FloatArray:
    """Return the released variance of each covariate ``(p,)``, in deviations of its noise.

    It is 0 where nothing was released, and infinite for a thin number with a range, which shows it.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import plan
    >>> from privatelr.mechanisms import ScaleRelease, spread_to_noise
    >>> scale = plan("ill ~ age", n=5_000, eps=1.0, bounds={"age": (18, 99)}).calibration.scale
    >>> spread_to_noise(ScaleRelease(np.array([0.2, 0.3]), scale)).round(1)  # it is seen well
    array([50.8])
    """
    mean, variance = scale_moments(release)
    found = np.asarray(variance / variance_sd(release.calibration, mean))
    found[release.ranged[0]] = np.inf
    found.flags.writeable = False
    return found


def variance_sd(calibration: ScaleCalibration, mean: FloatArray | float = 0.0) -> FloatArray:
    """Return the standard deviation of the noise on the released variance of each covariate.

    Noise on a mean m moves its square by ``2 m`` as much, so near the ends of its bounds a column
    has more of it than the public least, which is that of ``mean=0``. It is infinite where nothing
    is released.

    Examples
    --------
    >>> from privatelr import plan
    >>> from privatelr.mechanisms import variance_sd
    >>> scale = plan("ill ~ age", n=5_000, eps=1.0, bounds={"age": (18, 99)}).calibration.scale
    >>> variance_sd(scale).round(4), variance_sd(scale, mean=0.9).round(4)
    (array([0.004]), array([0.0149]))
    """
    means, squares = calibration.means, calibration.squares
    sd, found = np.sqrt(calibration.noise.variances), np.full(calibration.facts.p, np.inf)
    found[means] = sd[: len(means)]
    of_mean = 2 * np.broadcast_to(mean, found.shape)[squares] * found[squares]
    found[squares] = np.hypot(sd[len(means) :] / calibration.weight, of_mean)
    return found


@lru_cache(maxsize=32)  # all simulated releases of a plan have one scale
def scale_map(release: ScaleRelease, length: float | None = None) -> tuple[FloatArray, FloatArray]:
    """Return centre m and factor A of each covariate ``(p,)``: ``z = A (x - m)``.

    ``A = (v + floor + s)**-.5`` with the variance v and the deviation s of the noise on a mean, up
    to a factor that gives a typical row length 1. Under pure epsilon, numbers get variance 1 on
    average and other columns a public centre and factor, by which the two values of a factor of
    two levels lie at -1 and 1. A product of a number and levels has the m and A of the number, m
    times the column of the levels and A times the factor. Where a column is not centred, its second
    moment takes the place of its variance. A record in a rare level would be many times as long as
    a typical row, so no level by itself makes it longer than that.

    The factor is divided by a released `length`, or by the longest row that it allows if that is
    shorter, so that few rows or none are longer than a typical one was.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import plan
    >>> from privatelr.mechanisms import ScaleRelease, scale_map
    >>> scale = plan("ill ~ age", n=5_000, eps=1.0, bounds={"age": (18, 99)}).calibration.scale
    >>> centre, factor = scale_map(ScaleRelease(np.array([0.2, 0.3]), scale))
    >>> centre.round(2), factor.round(1)  # rows become factor * (x - centre)
    (array([0.2]), array([2.]))
    """
    return _map_and_longest(release, length)[:2]


def row_map(parts: Mapping[str, Any]) -> tuple[FloatArray, FloatArray, float | None]:
    """Return the `scale_map` of what was released before the coefficients, and the length of rows.

    The length is None if none was released, and infinite if bounds and map allow no longer row.
    """
    length = parts[LENGTHS].length if LENGTHS in parts else None
    centre, factor, longest = _map_and_longest(parts[SCALE], length)
    held = math.inf if length is not None and longest <= length else length
    return centre, factor, held


def _map_and_longest(
    release: ScaleRelease, length: float | None
) -> tuple[FloatArray, FloatArray, float]:
    """Return the `scale_map`, and the length of the longest row where a typical one has length 1.

    The longest row is that of rows whose products of a number and levels have the centre and the
    factor of the levels.
    """
    calibration, facts = release.calibration, release.calibration.facts
    means, pure = calibration.means, calibration.of_numbers
    mean, centre = scale_moments(release)[0], np.zeros(facts.p)
    sizes, factor = [group.size for group in facts.groups], np.ones(facts.p)
    if pure:
        centre = np.repeat([group.middle for group in facts.groups], sizes)
        factor = np.repeat([group.factor for group in facts.groups], sizes)
    if facts.centred:
        moved = facts.columns_of("number", *([] if pure else ["indicators"]))
        centre[moved] = mean[moved]
    size = scale_moments(release, centre)[1]  # a second moment where a column is not centred
    doubt = np.full(facts.p, facts.floor + calibration.mean_sd)
    doubt[release.ranged[0]] = 0.0  # their spread is known
    factor[means] = (size[means] + doubt[means]) ** -0.5
    typical, most = len(means) if pure else 1.0, np.full(facts.p, np.inf)
    if not pure:
        levels = facts.columns_of("indicators")
        most[levels] = 1.0 / np.maximum(1.0 - centre[levels], centre[levels])
    factor[means] = _with_length(factor[means], size[means], typical, most[means])
    longest = _longest_row(calibration, centre, factor) / typical**0.5
    if length is not None:
        factor[means] /= min(length, longest)
    if pure:
        number = np.repeat([-1 if g.number is None else g.number for g in facts.groups], sizes)
        centre = np.where(number < 0, centre, centre[number])
        factor *= np.where(number < 0, 1.0, factor[number])
    return centre, factor, longest


def _with_length(
    factor: FloatArray, size: FloatArray, square: float, most: FloatArray
) -> FloatArray:
    """Multiply factors ``(k,)`` until ``sum size factor**2`` is `square`, but none beyond `most`.

    What is cut off goes to the others, if there are any.
    """
    found, free = np.minimum(factor, most), np.ones(len(factor), dtype=bool)
    while size[free] @ factor[free] ** 2 > 0:
        left = square - size[~free] @ most[~free] ** 2
        found = np.where(free, factor * (left / (size[free] @ factor[free] ** 2)) ** 0.5, most)
        if not (over := free & (found > most)).any():
            break
        found, free = np.minimum(found, most), free & ~over
    return found


def _longest_row(calibration: ScaleCalibration, centre: FloatArray, factor: FloatArray) -> float:
    """Bound the length of all rows under the map, whatever the records are.

    Under pure epsilon it is that of the numbers and of their products with levels. A number is
    furthest at an end of its bounds. A row of indicators has one of them, or none. Any other group
    is not centred, and its rows are bounded by their length and by their entries.
    """
    square, stop, ends = 0.0, 0, factor * (1 + np.abs(centre))
    for group in calibration.facts.groups:
        m, a = (each[stop : stop + group.size] for each in (centre, factor))
        stop += group.size
        if calibration.of_numbers and group.number is not None:
            square += float(ends[group.number] * group.radius) ** 2
        if not group.size or (calibration.of_numbers and group.kind != "number"):
            continue
        match group.kind:
            case "number":
                square += float(ends[stop - 1]) ** 2
            case "indicators":
                at_none = float((a * m) @ (a * m))
                square += at_none + max(0.0, float((a**2 * (1 - 2 * m)).max()))
            case "product":
                longest = min(group.radius * float(a.max()), group.largest * math.hypot(*a))
                square += longest**2
    return math.sqrt(square) * _ROUNDED


class ScaleStage(Stage[ScaleCalibration]):
    """Means and mean squares of columns; `release_scale` releases them from unscaled rows."""

    name, part, at_coefficients, drawn = SCALE, "scale of the columns", False, 1
    released = ScaleRelease

    def calibrate(
        self, request: Request, problem: Problem, columns: ScaleFacts | None, before: Calibrations
    ) -> ScaleCalibration:
        """Calibrate the noise on means and mean squares."""
        assert columns is not None
        return calibrate_scale(columns, cast("Promise", request.target))

    def seen(self) -> str:
        """Name the moments, by which readers know them."""
        return "the moments that standardised the rows"

    def facts(self, released: Part) -> list[tuple[str, str]]:
        """Return nothing: the page compares the price with that of the other stages."""
        return []
