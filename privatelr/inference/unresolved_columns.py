"""Columns that may hardly vary, as far as a release shows, and draws of their curvature.

A power of the determinant of H as its prior says that no column is nearly constant, and none nearly
always at one level. Of most columns the released scale or the released curvature shows as much. For
a column of which neither does, that prior would leave out what is true of it if it is thin, and its
interval would be too short.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from privatelr.inference.error_distribution import Matrices
from privatelr.mechanisms import (
    Moments,
    ScaleRelease,
    scale_moments,
    spread_to_noise,
    variance_sd,
)
from privatelr.types import FloatArray, IntArray

if TYPE_CHECKING:
    from privatelr.inference.noisy_moments import NoisyMoments

RESOLVED = 8.0
"""Number of deviations of its noise from which on the spread of a column counts as known
(``python -m tests.studies.coverage --cells thin,rarest``)."""
HIDDEN, THIN = 0.3, 0.4
"""A column is hidden if less than the first share of its spread is shown (`resolved_columns`). A
number that is to be inferred without the penalty has to show the second one, 3.2 deviations of the
noise, which a constant column reaches in less than one study of a hundred (``python -m
tests.studies.hidden``)."""
USUAL, MARGIN = 0.25, 1.5
"""Deviation of a usual column, over half the width of its bounds, and the multiple of the limit for
thin numbers that its variance has to be. Its curvature is then well above the noise, too."""
_CELLS, _LEAST, _BEYOND = 96, 1e-5, 8.0
"""Number of curvatures of a grid, which are equally far apart in logarithms; the least of them as a
share of the largest, and how far that is above the released one, in deviations of the noise."""
_EDGE = 1e-9
"""The least own curvature of a drawn matrix, which may lie on the edge of the cone."""
_KEPT = 16
"""What is read from so many released scales is kept: a plan has one scale and many releases."""


def resolved_columns(scale: ScaleRelease | None, moments: Moments) -> FloatArray:
    """How much of the spread of each column a release shows ``(d,)``, from 0 to 1.

    Its released variance and its released curvature, in deviations of their noise, have to be large
    together: where noise makes the one too small, columns are standardised so that the other is
    large. The curvature alone shows a column whose variance is not released, and a quarter is
    enough: such columns are levels and products, which are seldom thin. Columns that are not
    standardised have no prior that would need to know.
    """
    found = np.ones(len(moments.curvature))
    if scale is not None:
        calibration = scale.calibration
        first = len(found) - calibration.facts.p
        alone = np.full(calibration.facts.p, 4.0)
        alone[calibration.means] = 1.0
        # What the intercept leaves of the curvature of a column, in deviations of its noise. Rows
        # are centred by a noisy mean, so a column that hardly varies has the intercept's curvature.
        # That of the intercept itself is no smaller than its noise here.
        matrix, sd = moments.curvature, moments.calibration.entry_sd
        of_intercept = matrix[0] ** 2 / max(matrix[0, 0], sd) if first else np.zeros(len(matrix))
        own = (np.diag(matrix) - of_intercept)[first:] / sd
        shown = np.hypot(spread_to_noise(scale), alone * np.maximum(own, 0.0))
        found[first:] = np.clip(shown / RESOLVED, 0.0, 1.0)
    return found


def hidden_numbers(scale: ScaleRelease | None, evidence: NoisyMoments) -> list[int]:
    """The places of standardised columns that are hidden, and numbers or products, not levels."""
    if scale is None:
        return []
    places = scale.calibration.facts.columns_of("number", "product")
    return [at for at in (evidence.first + p for p in places) if evidence.resolved[at] < HIDDEN]


def thin_numbers(scale: ScaleRelease | None, evidence: NoisyMoments) -> list[int]:
    """The places of numbers that vary less than the release shows, and than is usual.

    They would be shown if they had a usual spread. In small studies the noise hides usual columns,
    too, so that which of them are hidden is a matter of chance. A thin number whose released range
    shows no spread either is one of them. Amounts and times lie near one end
    of their bounds and vary about as much as their mean is away from it, which is little. So that
    is usual there.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import evidence_of, thin_numbers
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=8.0, spend="inference", **public)
    >>> thin_numbers(fit.release.scale, evidence_of(fit.release))  # no spread is hidden
    []
    """
    if scale is None:
        return []
    places = evidence.first + np.union1d(_shown_if_usual(scale), scale.thin[0])
    return [int(place) for place in places if evidence.resolved[place] < THIN]


@lru_cache(maxsize=_KEPT)
def _shown_if_usual(scale: ScaleRelease) -> IntArray:
    """Return the numbers that a release would show if they had a usual spread."""
    facts, mean = scale.calibration.facts, scale_moments(scale)[0]
    largest = np.repeat([g.largest for g in facts.groups], [g.size for g in facts.groups])
    usual = USUAL * largest
    if scale.ranges is None:  # where ranges are paid for, amounts near an end have one
        usual = np.minimum(usual, largest - np.abs(mean))
    shown = usual**2 / variance_sd(scale.calibration, mean) >= MARGIN * THIN * RESOLVED
    return np.array([p for p in facts.columns_of("number") if shown[p]], dtype=np.intp)


def spread_again(evidence: NoisyMoments, matrices: Matrices, rng: np.random.Generator) -> Matrices:
    """Draw the own curvature of each unresolved column again, given all else.

    The own curvature h of a column is what the intercept leaves of its entry of H. If the values of
    the column move away from their mean by a factor, h changes, and what is left of the
    correlations with others does not. With h in place of that entry, the volume of the cone and
    the determinant to the power p have the density ``h^(p + (m - 1) / 2)``, m the number of
    covariates. In its place stands ``h^(r (p + (m - 1) / 2))`` with r from
    ``NoisyMoments.resolved``, which is flat for a column of which nothing is known. To draw h from
    its law given the rest is a step of a Gibbs sampler for that prior; the rest hardly depends on
    the h of a thin column, so one step is enough.

    Notes
    -----
    **Privacy.** *Covered*: a function of the release. *Neighbours*, *Assumed public*: those of the
    release. *Not covered*: nothing.
    """
    sd, d, penalty = evidence.curvature_sd, len(evidence.w), evidence.penalty
    noisy, drawn = (evidence.curvature - penalty) / sd, (matrices.curvature - penalty) / sd
    power = evidence.determinant + (d - evidence.first - 1) / 2
    off = evidence.balance / sd * (matrices.scores - evidence.scores)
    of_scores, most = np.einsum("kij,kij->k", off, off), evidence.largest_trace / sd
    for column in map(int, np.flatnonzero(evidence.resolved < 1)):
        kept = explained(drawn, column, evidence.first)
        own = drawn[:, column] - kept
        own[:, column] = np.maximum(own[:, column], _EDGE)
        away = kept - noisy[column]
        off = drawn - noisy
        elsewhere = of_scores + np.einsum("kij,kij->k", off, off)
        elsewhere -= _square(away, own, column, np.ones((1, 1)))[:, 0]
        top = min(max(noisy[column, column], 0.0) + _BEYOND, most)
        logs = np.linspace(np.log(_LEAST * top), np.log(top), _CELLS)
        square = elsewhere[:, None] + _square(away, own, column, np.exp(logs) / own[:, [column]])
        if (rate := evidence.noise.radial_rate) is not None:
            energy = rate * sd * np.sqrt(np.maximum(square, 0.0))
        else:
            energy = square / 2
        density = (1 + evidence.resolved[column] * power) * logs - energy
        others = np.trace(drawn, axis1=1, axis2=2) - own[:, column]
        # the least curvature is left where the others fill the largest trace
        density[:, 1:][others[:, None] + np.exp(logs[1:]) > most] = -np.inf
        ratio = _draw_from(logs, density, rng) / own[:, column]
        row = kept + np.sqrt(ratio)[:, None] * own
        row[:, column] = kept[:, column] + ratio * own[:, column]
        drawn[:, column, :] = drawn[:, :, column] = row
    return Matrices(drawn * sd + penalty, matrices.scores)


def explained(curvature: FloatArray, column: int, first: int) -> FloatArray:
    """What the intercept contributes to a row ``(k, d)`` of curvatures ``(k, d, d)``.

    It is 0 if ``first``, the place of the first covariate, is 0: then there is no intercept.
    """
    row = curvature[:, column]
    if not first:
        return np.zeros_like(row)
    return np.asarray(curvature[:, 0] * (row[:, :1] / curvature[:, 0, :1]))


def _square(away: FloatArray, own: FloatArray, column: int, ratio: FloatArray) -> FloatArray:
    """Squared distances ``(k, c)`` of a row and column to the noisy ones, by ratios of h.

    `away` ``(k, d)`` is the distance without the column's own part, and `own` ``(k, d)`` is that
    part, which grows with the root of the ratio, and in the diagonal with the ratio.
    """
    others = np.arange(away.shape[1]) != column
    fixed, moving = away[:, others], own[:, others]
    square, product, fixed_square = (
        np.einsum("ki,ki->k", one, other)[:, None]
        for one, other in ((moving, moving), (fixed, moving), (fixed, fixed))
    )
    diagonal = away[:, [column]] + ratio * own[:, [column]]
    return np.asarray(
        2 * (fixed_square + 2 * np.sqrt(ratio) * product + ratio * square) + diagonal**2
    )


def _draw_from(logs: FloatArray, density: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw a number for each row of log densities ``(k, c)`` by the logarithm of the number."""
    cumulated = np.cumsum(np.exp(density - density.max(axis=1, keepdims=True)), axis=1)
    found = (cumulated < cumulated[:, -1:] * rng.uniform(size=(len(density), 1))).sum(axis=1)
    within = (logs[1] - logs[0]) * rng.uniform(-0.5, 0.5, len(density))
    return np.asarray(np.exp(logs[found] + within))
