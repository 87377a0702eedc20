"""The first stage of a fit: noisy means and second moments of the columns, and the map they make.

The map is a function of what was released. From then on it is public: rows are mapped by it,
predictions use it, and coefficients return to the units of the data through it (scale.md).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np

from privatelr.errors import GuaranteeError, SchemaWarning
from privatelr.mechanisms.calibration.scale_noise import CORNER, ScaleCalibration
from privatelr.mechanisms.perturbation import rounded_sum
from privatelr.numerics.rows import LooseRows, column_sums
from privatelr.privacy.noise import Draw
from privatelr.types import FloatArray, Kernel, Offset, Rows

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

    def __post_init__(self) -> None:
        self.values.flags.writeable = False


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

    if isinstance(rows, LooseRows):
        sums, sums_of_squares = rows.sums
    else:
        sums, sums_of_squares = rows.fold(partial(_sums, bool(calibration.facts.persons)))
    found = [sums[means], calibration.weight * sums_of_squares[squares]]
    return np.concatenate(found) / rows.n


def sums_of_loose(persons: bool) -> Kernel:
    """The kernel that `LooseRows` are read with: sums of columns, and of their squares.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr.mechanisms.scale_release import sums_of_loose
    >>> weighted = np.array([1.0, 2.0])  # the second record counts a quarter
    >>> sums_of_loose(True)(np.array([[0.5], [1.0]]), weighted)
    (array([0.75]), array([0.5]))
    """
    return partial(_sums_of_loose, persons)


def _sums_of_loose(persons: bool, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    return _sums(persons, x * _roots(y)[:, None] if persons else x, y)


def _sums(
    persons: bool, x: FloatArray, y: FloatArray, z: Offset = 0.0
) -> tuple[FloatArray, FloatArray]:
    return column_sums(x, _roots(y) if persons else None)


def _roots(y: FloatArray) -> FloatArray:
    """The roots of weights, which labels bring; 0 for rows that cannot be used."""
    return np.where(y != 0, 1.0 / np.maximum(np.abs(y), 1.0), 0.0)


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
    middle = mean if about is None else about
    return mean, np.clip(second - middle**2, 0.0, largest**2)


def spread_to_noise(release: ScaleRelease) -> FloatArray:
    """Return the released variance of each covariate ``(p,)``, in deviations of its noise.

    It is 0 where nothing was released.

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
    return np.asarray(variance / variance_sd(release.calibration, mean))


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


def scale_map(release: ScaleRelease) -> tuple[FloatArray, FloatArray]:
    """Return centre m and factor A of each covariate ``(p,)``: ``z = A (x - m)``.

    ``A = (v + floor + s)**-.5`` with the variance v and the deviation s of the noise on a mean, up
    to a factor that gives a typical row length 1. Under pure epsilon, numbers get variance 1 on
    average and other columns a public centre and factor (scale.md 2), by which the two values of a
    factor of two levels lie at -1 and 1. A product of a number and levels has the m and A of the
    number, m times the column of the levels and A times the factor. Where a column is not centred,
    its second moment takes the place of its variance. A record in a rare level would be many times
    as long as a typical row, so no level by itself makes it longer than that.

    Under the bound `CORNER` the factor is divided by the longest row that it allows (of numbers,
    under pure epsilon), so that no row is longer than a typical one was.

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
    factor[means] = (size[means] + facts.floor + calibration.mean_sd) ** -0.5
    typical, most = len(means) if pure else 1.0, np.full(facts.p, np.inf)
    if not pure:
        levels = facts.columns_of("indicators")
        most[levels] = 1.0 / np.maximum(1.0 - centre[levels], centre[levels])
    factor[means] = _with_length(factor[means], size[means], typical, most[means])
    if facts.length == CORNER:
        factor[means] *= typical**0.5 / _longest_row(calibration, centre, factor)
    if pure:
        number = np.repeat([-1 if g.number is None else g.number for g in facts.groups], sizes)
        centre = np.where(number < 0, centre, centre[number])
        factor *= np.where(number < 0, 1.0, factor[number])
    return centre, factor


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

    Under pure epsilon it is that of the numbers alone. A number is furthest at an end of its
    bounds. A row of indicators has one of them, or none. Any other group is not centred, and its
    rows are bounded by their length and by their entries.
    """
    square, stop = 0.0, 0
    for group in calibration.facts.groups:
        m, a = (each[stop : stop + group.size] for each in (centre, factor))
        stop += group.size
        if not group.size or (calibration.of_numbers and group.kind != "number"):
            continue
        match group.kind:
            case "number":
                square += float(a[0] * (1 + abs(m[0]))) ** 2
            case "indicators":
                at_none = float((a * m) @ (a * m))
                square += at_none + max(0.0, float((a**2 * (1 - 2 * m)).max()))
            case "product":
                longest = min(group.radius * float(a.max()), group.largest * math.hypot(*a))
                square += longest**2
    return math.sqrt(square) * _ROUNDED
