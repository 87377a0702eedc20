"""The table ``fit.scale``: released means and standard deviations, and how far noise moved them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd

from privatelr.mechanisms import ScaleRelease, scale_map, scale_moments
from privatelr.mechanisms.stages.scale import ScaleCalibration
from privatelr.results.fit_record import NoisyRecord
from privatelr.types import FloatArray

SURE = 0.95
"""The probability with which an interval has the standard deviation of the records."""


def scale_table(fit: NoisyRecord) -> pd.DataFrame:
    """The released means and standard deviations of columns, in the units of the data.

    ``attrs["length"]`` is the released length of rows, in lengths of a typical one.

    They are over all n records; one that could not be used counts as the middle of the bounds of
    every column, and as none of the levels. A product of a number with levels counts from the
    number's middle in its own units, so that the share of these levels has to be added; without
    that share nothing is known of it.
    """
    release, columns = fit.release.scale, fit.spec.columns
    assert release is not None
    here = np.array(release.calibration.means)
    centre, factor = scale_map(release, fit.release.length)
    mean, variance = scale_moments(release)
    first = int(columns.has_intercept)
    places = here + first
    units = (columns.scale[places] * factor[here]).astype(float)
    middle = columns.centre[places] - units * centre[here]
    means, spread, sd = units * mean[here], units**2 * variance[here], release.calibration.mean_sd
    noise = units * sd
    low, high = (units**2 * end[here] for end in variance_ends(release))
    for row, place in enumerate(places):
        parent = columns.parent[place] - first
        if middle[row] == 0 or parent < 0:  # it counts from zero, or from a constant
            means[row] += middle[row]
        elif parent in release.calibration.facts.columns_of("indicators"):
            share, off = mean[parent], middle[row]  # the column is 0 where the indicator is
            spread[row] += off * (1 - share) * (off * share + 2 * means[row])
            low[row], high[row] = _ends_from(release, here[row], share, off, units[row])
            means[row], noise[row] = means[row] + off * share, np.hypot(noise[row], off * sd)
        else:
            means[row] = spread[row] = noise[row] = low[row] = high[row] = np.nan
    # noise may have taken a variance below 0, and rounding an end past it
    found = np.sqrt(np.maximum([spread, low, np.maximum(high, spread)], 0.0))
    table = dict(zip(["sd", "sd_lower", "sd_upper"], found, strict=True))
    index = pd.Index([columns.names[place] for place in places], name="column")
    frame = pd.DataFrame({"mean": means, "noise_sd": noise, **table}, index=index)
    frame.attrs["length"] = fit.release.length
    return frame


def variance_ends(release: ScaleRelease) -> tuple[FloatArray, FloatArray]:
    """Return ends ``(p,)`` between which the variances of covariates lie, each with `SURE`.

    A variance is a function of a mean and a mean square, and the noise on both keeps within
    `noise_reach` together. The variance of an indicator is one of its mean alone. It holds for all
    data, also where a variance is next to 0, where its own error is not normal.
    """
    calibration, facts = release.calibration, release.calibration.facts
    largest = np.repeat([g.largest for g in facts.groups], [g.size for g in facts.groups])
    mean, variance = scale_moments(release)
    square = scale_moments(release, np.zeros(facts.p))[1]
    of_mean, of_square = noise_reach(calibration, 2)
    least, most = np.maximum(np.abs(mean) - of_mean, 0.0), np.abs(mean) + of_mean
    low = square - of_square - np.minimum(most, largest) ** 2
    high = variance + of_square + mean**2 - least**2
    levels, of_share = facts.columns_of("indicators"), noise_reach(calibration, 1)[0]
    left, right = (np.clip(mean[levels] + side * of_share, 0.0, 1.0) for side in (-1, 1))
    low[levels] = np.minimum(left * (1 - left), right * (1 - right))
    near = np.clip(0.5, left, right)  # a variance p (1 - p) is largest at the p next to a half
    high[levels] = near * (1 - near)
    return np.clip(low, 0.0, None), np.minimum(high, largest**2)


def _ends_from(
    release: ScaleRelease, column: int, share: float, off: float, unit: float
) -> tuple[float, float]:
    """Return ends of the variance of ``off * indicator + unit * column``.

    The column is 0 where the indicator is, whose `share` is released beside its two moments.
    """
    zeros = np.zeros(release.calibration.facts.p)
    mean, square = (found[column] for found in scale_moments(release, zeros))
    of_mean, of_square = noise_reach(release.calibration, 3)
    middle = abs(off * share + unit * mean)
    moved = (abs(off) + abs(unit)) * of_mean
    found = off**2 * share + 2 * off * unit * mean + unit**2 * square
    of_found = (off**2 + 2 * abs(off * unit)) * of_mean + unit**2 * of_square
    low = found - of_found - (middle + moved) ** 2
    high = max(found - middle**2, 0.0) + of_found + middle**2 - max(middle - moved, 0.0) ** 2
    return max(low, 0.0), high


@lru_cache(maxsize=64)
def noise_reach(calibration: ScaleCalibration, count: int) -> tuple[float, float]:
    """Return how far noise moves means and mean squares, `count` of them together, with `SURE`."""
    # a released number is rounded to the grid
    first, last = (end + calibration.grid for end in calibration.noise.reach(count, SURE))
    return first, last / calibration.weight
