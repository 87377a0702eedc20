"""ROC curve, AUC, rates, calibration and their errors, from noisy counts of scores by class.

Everything here is a function of a `HistogramRelease`, so it costs no privacy and is free to
repeat. Functions of counts take arrays ``(..., 2 K + 1)``: the bins of the negative class, those of
the positive class, and the records that cannot be used. K is the number of bins of the release,
or of the finer ones that `refined` makes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privatelr.inference.error_distribution import PUBLIC_SEED
from privatelr.lazy_import import lazy_import
from privatelr.mechanisms.stages.histogram import HistogramRelease
from privatelr.numerics import RocCurve
from privatelr.privacy.noise import draw_many
from privatelr.types import FloatArray, IntArray

if TYPE_CHECKING:
    from statsmodels.genmod import families, generalized_linear_model
else:
    families = lazy_import("statsmodels.genmod.families")
    generalized_linear_model = lazy_import("statsmodels.genmod.generalized_linear_model")

_REPLICATES = 400
"""Number of simulated releases, and of simulated datasets, by which errors are computed."""
_SHOWN = 3.0
"""Number of deviations of its noise from which on a class is known to have records."""
FINENESS = 8
"""Number of parts of a bin; the area under the curve lacks 1/64 of what straight densities add."""


class Parts(NamedTuple):
    """Standard deviations of an estimate: by the choice of the records, and by the noise."""

    sampling: FloatArray
    privacy: FloatArray


# -- counts that can be counts --------------------------------------------------------------------


def by_class(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the counts ``(..., K)`` of the negative and of the positive class."""
    bins = counts.shape[-1] // 2
    return counts[..., :bins], counts[..., bins : 2 * bins]


def consistent_counts(counts: FloatArray, n: int) -> FloatArray:
    """Return the nearest counts ``(..., m)`` that are not negative and add up to n.

    This is the Euclidean projection onto a simplex: a shift, the same for all cells, and zero
    where that makes a cell negative (Held, Wolfe and Crowder 1974). Curves that are made by adding
    up such counts rise from 0 to 1.
    """
    falling = -np.sort(-counts, axis=-1)
    excess = np.cumsum(falling, axis=-1) - n
    shifts = excess / np.arange(1, counts.shape[-1] + 1)
    last = np.count_nonzero(falling > shifts, axis=-1, keepdims=True) - 1
    return np.asarray(np.maximum(counts - np.take_along_axis(shifts, last, axis=-1), 0.0))


def refined(counts: FloatArray) -> FloatArray:
    """Return counts of the parts of bins ``(..., 2 K FINENESS + 1)``, all bins being equally wide.

    The density in a bin is a straight line with the slope between the neighbouring bins, or the
    steepest one that is nowhere negative. With an even density in each bin an AUC would be too
    small, by about one over the square of the number of bins.
    """
    middle = (np.arange(FINENESS) + 0.5) / FINENESS - 0.5
    found = []
    for part in by_class(counts):
        slope = np.zeros_like(part)
        slope[..., 1:-1] = (part[..., 2:] - part[..., :-2]) / 2
        slope = np.clip(slope, -2 * part, 2 * part)
        fine = (part[..., None] + slope[..., None] * middle) / FINENESS
        found.append(fine.reshape(*part.shape[:-1], -1))
    return np.concatenate([*found, counts[..., -1:]], axis=-1)


@lru_cache(maxsize=32)  # a release cannot be changed
def counts_of(release: HistogramRelease) -> FloatArray:
    """Return the refined consistent counts of a release."""
    return _read_only(refined(consistent_counts(release.counts, release.calibration.n)))


@lru_cache(maxsize=8)
def _replicates(release: HistogramRelease) -> tuple[FloatArray, FloatArray]:
    """Return counts of other samples, and other releases of the same counts, by public numbers."""
    n, noise = release.calibration.n, release.calibration.noise
    rng, counts = np.random.default_rng(PUBLIC_SEED), consistent_counts(release.counts, n)
    sampled = rng.multinomial(n, counts / counts.sum(), size=_REPLICATES).astype(np.float64)
    noisy = np.rint(counts + draw_many(noise, _REPLICATES, rng))
    return _read_only(refined(sampled)), _read_only(refined(consistent_counts(noisy, n)))


def _read_only(array: FloatArray) -> FloatArray:
    array.flags.writeable = False
    return array


def parts_of(
    release: HistogramRelease,
    statistic: Callable[[FloatArray], FloatArray],
    replicates: int = _REPLICATES,
) -> Parts:
    """Return the errors of a function of counts, by simulation; NaN where it is undefined.

    That of the noise is the root of the mean squared distance from the estimate, since making
    counts consistent has a small bias: noise in empty cells cannot average out.
    """
    sampled, noisy = (statistic(counts[:replicates]) for counts in _replicates(release))
    with np.errstate(invalid="ignore"):
        squares = (noisy - statistic(counts_of(release))) ** 2
        return Parts(np.std(sampled, axis=0), np.sqrt(np.mean(squares, axis=0)))


# -- what bins leave open ------------------------------------------------------------------------


def binning_sd_of_area(release: HistogramRelease) -> float:
    """Return the error of the area by where records lie within bins, which no count tells.

    Of the pairs in one bin, those with the positive record above are at least one half, if the
    odds of the positive class rise with the score. If they rise by the factor ``exp(b w)`` from
    end to end, they are at most ``(1 + tanh(b w / 4)) / 2``, which is reached by records at both
    ends. Here b is the calibration slope, and w the width of the bin in linear predictors, which
    is infinite for the two outer bins. All bins together are taken for anywhere in between, with
    the same chance: clumps of scores, or a tail, are alike in several bins. So this is the root
    mean square of what the straight densities of `refined` may be off by.
    """
    fine, bins = counts_of(release), release.calibration.bins
    negative, positive = (part.reshape(bins, FINENESS) for part in by_class(fine))
    slope = calibration_lines(fine, release.scale.middles(bins * FINENESS))[1]
    edges = release.scale.edges(bins)
    width = np.diff(np.concatenate([[-np.inf], edges, [np.inf]]))
    pairs = negative.sum(axis=1) * positive.sum(axis=1)
    below = np.cumsum(negative, axis=1) - negative / 2
    with np.errstate(invalid="ignore"):
        most = (pairs * np.tanh(np.abs(slope) * width / 4)).sum() / 2
    taken = (positive * below).sum() - pairs.sum() / 2
    spread = np.sqrt(most**2 / 12 + (most / 2 - taken) ** 2)
    return float(_ratio(spread, negative.sum() * positive.sum()))


def binning_sd(
    release: HistogramRelease, statistic: Callable[[FloatArray, FloatArray], FloatArray]
) -> float:
    """Return the error of a function of counts and linear predictors by places within bins.

    The records of a bin are moved together, by the standard deviation of a place that is anywhere
    in it, up and down; the effects of the bins, in squares, add up. An outer bin is as wide as
    twice the distance of its middle from the inner end.
    """
    fine, bins = counts_of(release), release.calibration.bins
    links, edges = release.scale.middles(bins * FINENESS), release.scale.edges(bins)
    middle = release.scale.middles(bins)
    width = np.empty(bins)
    width[1:-1] = np.diff(edges)
    width[[0, -1]] = 2 * (edges[0] - middle[0]), 2 * (middle[-1] - edges[-1])
    here, total = float(statistic(fine, links)), 0.0
    for place in range(bins):
        for step in (-1, 1):
            moved = links.copy()
            moved[place * FINENESS : (place + 1) * FINENESS] += step * width[place] / np.sqrt(12)
            total += (float(statistic(fine, moved)) - here) ** 2 / 2
    return float(np.sqrt(total))


LOST = (
    "Of one class, the noise hides whether there are any records: the numbers above say nothing of "
    "the model. More records or a larger price help."
)
"""What a page says where `hides_class` holds, which depends on released numbers alone."""


def hides_class(release: HistogramRelease) -> bool:
    """Whether the number of records of a class is lost in the noise on it.

    What is made of such counts is made of noise, and may look as good as 0.99.
    """
    made, totals = release.calibration, [part.sum() for part in by_class(release.counts)]
    return bool(min(totals) < _SHOWN * made.count_sd * np.sqrt(made.bins))


# -- functions of counts --------------------------------------------------------------------------


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return a ratio; NaN if the whole is empty."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(whole > 0, part / whole, np.nan))


def above(counts: FloatArray, position: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how many of each class ``(..., t)`` lie above places ``(t,)`` between 0 and 1.

    Within a bin, records are taken to lie evenly, as by the straight pieces of the ROC curve.
    """
    found = []
    for part in by_class(counts):
        bins = part.shape[-1]
        rising = np.concatenate(
            [np.zeros((*part.shape[:-1], 1)), np.cumsum(part, axis=-1)], axis=-1
        )
        place = np.clip(position, 0.0, 1.0) * bins
        index = np.minimum(place.astype(np.intp), bins - 1)
        below = rising[..., index] + (place - index) * part[..., index]
        found.append(np.maximum(rising[..., -1:] - below, 0.0))
    return found[0], found[1]


def roc_of(counts: FloatArray, thresholds: FloatArray) -> RocCurve:
    """Return the curve ``(K + 1,)`` at the edges of the bins, whose thresholds are given."""
    edges = np.linspace(1.0, 0.0, len(thresholds))
    alarms, hits = above(counts, edges)
    negative, positive = by_class(counts)
    return RocCurve(
        thresholds, _ratio(alarms, negative.sum(axis=-1)), _ratio(hits, positive.sum(axis=-1))
    )


def areas(counts: FloatArray) -> FloatArray:
    """Return the area ``(...)`` under the curve: pairs in one bin count one half."""
    negative, positive = by_class(counts)
    below = np.cumsum(negative, axis=-1) - negative / 2
    pairs = negative.sum(axis=-1) * positive.sum(axis=-1)
    return _ratio((positive * below).sum(axis=-1), pairs)


def sampling_sd_of_area(counts: FloatArray) -> float:
    """Return the standard error of an AUC by DeLong, DeLong and Clarke-Pearson (1988)."""
    variance = 0.0
    one, other = by_class(counts)
    for own, against in ((other, one), (one, other)):
        if own.sum() <= 1 or against.sum() <= 0:
            return float("nan")
        share = (np.cumsum(against) - against / 2) / against.sum()
        mean = own @ share / own.sum()
        variance += own @ (share - mean) ** 2 / (own.sum() - 1) / own.sum()
    return float(np.sqrt(variance))


def rates(counts: FloatArray, position: FloatArray) -> FloatArray:
    """Return sensitivity, specificity and predictive values ``(..., t, 4)`` at places ``(t,)``."""
    alarms, hits = above(counts, position)
    # totals by the same additions, so that nothing is below the least threshold
    negative, positive = above(counts, np.zeros(1))
    return np.stack(
        [
            _ratio(hits, np.broadcast_to(positive, hits.shape)),
            _ratio(negative - alarms, np.broadcast_to(negative, hits.shape)),
            _ratio(hits, hits + alarms),
            _ratio(negative - alarms, negative - alarms + positive - hits),
        ],
        axis=-1,
    )


def prevalences(counts: FloatArray) -> FloatArray:
    """Return the share ``(...)`` of the positive class among usable records."""
    negative, positive = (part.sum(axis=-1) for part in by_class(counts))
    return _ratio(positive, negative + positive)


def brier_scores(counts: FloatArray, probability: FloatArray) -> FloatArray:
    """Return the mean squared error ``(...)`` of probabilities ``(K,)`` of bins."""
    negative, positive = by_class(counts)
    squares = negative @ probability**2 + positive @ (1 - probability) ** 2
    return _ratio(squares, (negative + positive).sum(axis=-1))


def sensitivities(counts: FloatArray, false_positive: FloatArray) -> FloatArray:
    """Return the height ``(..., f)`` of the ROC curve at rates of false positives ``(f,)``."""
    flat = counts.reshape(-1, counts.shape[-1])
    edges = np.zeros(counts.shape[-1] // 2 + 1)
    curves = [roc_of(one, edges) for one in flat]
    found = [
        np.interp(false_positive, curve.false_positive, curve.true_positive) for curve in curves
    ]
    return np.reshape(found, (*counts.shape[:-1], len(false_positive)))


# -- calibration ----------------------------------------------------------------------------------


def groups_of(counts: FloatArray, groups: int) -> IntArray:
    """Return the group ``(K,)`` of each bin: of neighbouring bins with about as many records."""
    both = np.add(*by_class(counts))
    middle = (np.cumsum(both) - both / 2) / max(float(both.sum()), 1.0)
    found = np.minimum((middle * groups).astype(np.intp), groups - 1)
    return np.unique(found, return_inverse=True)[1]


def observed_shares(counts: FloatArray, group: IntArray) -> FloatArray:
    """Return the share ``(..., g)`` of positive records in each group of bins."""
    member = (group[:, None] == np.arange(group.max() + 1)).astype(np.float64)
    negative, positive = (part @ member for part in by_class(counts))
    return _ratio(positive, negative + positive)


def calibration_lines(counts: FloatArray, link: FloatArray) -> FloatArray:
    """Return intercepts and slopes ``(..., 2)`` of logistic regressions on linear predictors.

    An intercept of 0 and a slope of 1 are those of probabilities that are right (Cox 1958).
    `link` ``(K,)`` has a linear predictor for each bin. NaN if a class is empty.
    """
    flat = counts.reshape(-1, counts.shape[-1])
    return np.reshape([_line(one, link) for one in flat], (*counts.shape[:-1], 2))


def _line(counts: FloatArray, link: FloatArray) -> FloatArray:
    negative, positive = by_class(counts)
    some = negative + positive > 0
    if not (negative.sum() > 0 and positive.sum() > 0) or np.count_nonzero(some) < 2:
        return np.full(2, np.nan)
    outcomes = np.column_stack([positive, negative])[some]
    columns = np.column_stack([np.ones(some.sum()), link[some]])
    model = generalized_linear_model.GLM(outcomes, columns, family=families.Binomial())
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # counts that are told apart perfectly have no line
        return np.asarray(model.fit().params)
