"""Whether a coarse curvature first, and matrices in its units, makes shorter intervals.

    python -m tests.studies.coarse_step [--runs 40] [--populations normal skewed]
        [--promises pure zcdp] [--cells 6,10000,1 15,100000,1]

Both releases have the same price, that of the matrices of a fit with ``spend="inference"``, and
are made of the same rows, whose scale was released. In two steps, a share of the price buys the
curvature alone. Rows are multiplied by its inverse root, in which every direction counts the same,
and the rest buys both matrices of these rows, clipped at multiples of their typical traces
(inference.md 11.1). Draws of the true matrices, and intervals of the coefficients without a
penalty, are made by the same functions. A row has the ratio of noise to signal of one release,
the geometric mean of the widths over those of exact matrices, and the share of intervals that
hold the truth, without the error of the step that takes the penalty off, for both.
"""

from __future__ import annotations

import argparse
import itertools
import math
import warnings
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr import ZCDP, PrivacyWarning, PureDP, dplr
from privatelr.design import read_design
from privatelr.inference import error_distribution, intervals
from privatelr.inference.error_distribution import Matrices
from privatelr.inference.noisy_moments import evidence_of, floored, quality
from privatelr.inference.posterior import MomentsPosterior, posterior, sampled
from privatelr.mechanisms import matrix_of
from privatelr.mechanisms.calibration.proven_noise import laws_hiding
from privatelr.numerics.rows import DenseRows, bends_of, weights_of
from privatelr.privacy.noise import SphericalLaplace, draw_many, mean_square
from privatelr.sources import as_batch

from .coverage_populations import population_of
from .coverage_report import markdown, number
from .coverage_runs import LEVEL, Cell

if TYPE_CHECKING:
    from privatelr.inference.noisy_moments import NoisyMoments
    from privatelr.privacy import Promise
    from privatelr.privacy.noise import NoiseLaw
    from privatelr.types import FloatArray

CELLS = ("6,2000,1", "6,2000,4", "6,10000,1", "15,10000,1", "15,10000,4", "15,100000,1")
"""Coefficients, records and epsilon."""
COARSE = 0.1 / 0.35
"""Share of the price of the matrices that buys the coarse curvature (inference.md 11.1)."""
CURVATURE_CLIP, SCORES_CLIP = 2.0, 3.0
"""Largest traces of a record in units of the coarse curvature, over the typical one, which is d."""
SCORES_SHARE = 0.5
"""The eta of the clipped matrices, over the ratio of the two clips."""


def part_of(price: Promise, share: float) -> Promise:
    """A share of a price."""
    if isinstance(price, PureDP):
        return PureDP(share * price.epsilon)
    assert isinstance(price, ZCDP)
    return ZCDP(share * price.rho)


def law_hiding(sensitivity: float, size: int, price: Promise) -> NoiseLaw:
    """The noise with the least mean square."""
    return min(laws_hiding(sensitivity, size, price), key=mean_square)


def weights(evidence: NoisyMoments, rows: DenseRows) -> tuple[FloatArray, FloatArray]:
    """Curvature and squared slope ``(n,)`` of each record; private."""
    loss, used = evidence.problem.loss, bends_of(rows.y)
    margin = rows.y * (rows.x @ evidence.w)
    squares = loss.slope(margin) ** 2
    return loss.curvature(margin) * used, squares * used * weights_of(rows.y)


def clipped(x: FloatArray, weight: FloatArray, most: float) -> FloatArray:
    """The mean of weighted squares of rows, none of which has a larger trace; private."""
    least = np.minimum(weight, most / np.maximum(np.einsum("ij,ij->i", x, x), 1e-300))
    return np.asarray((x.T * least) @ x / len(x))


def in_two_steps(
    evidence: NoisyMoments, rows: DenseRows, price: Promise, rng: np.random.Generator
) -> Matrices:
    """Release a coarse curvature, then both matrices in its units, and draw the true ones."""
    n, d = rows.x.shape
    size, (curvature, slopes) = d * (d + 1) // 2, weights(evidence, rows)
    reach = math.sqrt(2) * evidence.largest_trace / n
    law = law_hiding(reach, size, part_of(price, COARSE))
    coarse = clipped(rows.x, curvature, evidence.largest_trace)
    coarse = coarse + matrix_of(draw_many(law, 1, rng)[0])
    least = max(evidence.floor, math.sqrt(float(law.variances[0]) * 2 * d) / 2)
    values, vectors = np.linalg.eigh(floored(coarse, least))
    whiten, back = ((vectors * values**power) @ vectors.T for power in (-0.5, 0.5))
    most = np.array([CURVATURE_CLIP, SCORES_CLIP]) * d
    balance = SCORES_SHARE * most[0] / most[1]
    reach = math.sqrt(2) / n * math.hypot(most[0], balance * most[1])
    law = law_hiding(reach, 2 * size, part_of(price, 1 - COARSE))
    noise, x = draw_many(law, 1, rng)[0], rows.x @ whiten
    drawn = evidence.floor * whiten @ evidence.drawn
    noisy = np.stack(
        [
            clipped(x, curvature, most[0]) + matrix_of(noise[:size]),
            balance * (clipped(x, slopes, most[1]) - np.outer(drawn, drawn))
            + matrix_of(noise[size:]),
        ]
    )
    sd = math.sqrt(float(law.variances[0]))
    values, vectors = (part[..., ::-1] for part in np.linalg.eigh(noisy / sd))
    rate = law.rate * sd if isinstance(law, SphericalLaplace) else None
    largest = most * [1, balance] / sd
    powers = np.array([evidence.determinant, 0.0])
    found = sampled(MomentsPosterior(values, largest, rate, powers), rng)
    found = back @ (sd * (vectors @ found @ np.swapaxes(vectors, 1, 2))) @ back
    return Matrices(found[:, 0] + evidence.penalty, found[:, 1] / balance)


def exact(evidence: NoisyMoments, rows: DenseRows) -> Matrices:
    """The matrices of these rows without noise and without a clip; private."""
    curvature, slopes = (clipped(rows.x, part, math.inf) for part in weights(evidence, rows))
    drawn = evidence.floor * evidence.drawn
    return Matrices((curvature + evidence.penalty)[None], (slopes - np.outer(drawn, drawn))[None])


def ends(evidence: NoisyMoments, matrices: Matrices, terms: FloatArray) -> FloatArray:
    """Intervals ``(2, m)`` of combinations of the coefficients without a penalty."""
    solved, carried, biases = intervals.factors_of(evidence, matrices, terms, "unpenalised")
    law = error_distribution.law_of(evidence, solved, carried, matrices, terms, biases)
    low, high = (law.quantile((1 + side * LEVEL) / 2) for side in (-1, 1))
    return np.array([terms @ evidence.w - high, terms @ evidence.w - low])


def replicate(cell: Cell, run: int) -> dict[str, Any]:
    """One fit: log widths over those of exact matrices, and which intervals hold the truth."""
    source = population_of(cell.population, cell.d)
    rng = np.random.default_rng([zlib.crc32(cell.name.encode()), run])
    frame, seed = source.sample(cell.n, rng), int(rng.integers(2**63))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of the seed
        public: dict[str, Any] = {"bounds": source.bounds, "levels": source.levels}
        fit = dplr(source.formula, frame, cell.guarantee, spend="inference", seed=seed, **public)
    rows, evidence = read_design(fit.spec, as_batch(frame), DenseRows), evidence_of(fit.release)
    names, moments = list(fit.spec.columns.names), fit.release.moments
    assert moments is not None
    terms = fit.spec.user_rows()[[names.index(term) for term in source.truth.index]]
    both = (
        posterior(evidence, rng),
        in_two_steps(evidence, rows, moments.calibration.target, rng),
    )
    least = np.diff(ends(evidence, exact(evidence, rows), terms), axis=0)[0]
    found = [ends(evidence, matrices, terms) for matrices in both]
    truth = source.truth.to_numpy()
    return {
        "noise": quality(fit.release).noise_to_signal,
        "width": [np.log(np.diff(pair, axis=0)[0] / least) for pair in found],
        "held": [(pair[0] <= truth) & (truth <= pair[1]) for pair in found],
    }


HEADINGS = ("cell", "fits", "noise to signal", "one: width", "held", "two: width", "held")


def main() -> None:
    """Run all of it, one cell after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40, help="fits of each cell")
    parser.add_argument("--populations", nargs="*", default=["normal"])
    parser.add_argument("--promises", nargs="*", default=["pure"], choices=["pure", "zcdp"])
    parser.add_argument("--cells", nargs="*", default=CELLS, help="coefficients,records,epsilon")
    chosen = parser.parse_args()
    print(markdown(HEADINGS, []), end="")
    for name, size, promise in itertools.product(chosen.populations, chosen.cells, chosen.promises):
        d, n, epsilon = size.split(",")
        cell = Cell(name, promise, int(d), int(n), float(epsilon))
        lines = [replicate(cell, run) for run in range(chosen.runs)]
        row = [cell.name, str(len(lines)), number(float(np.median([x["noise"] for x in lines])), 2)]
        for way in (0, 1):
            row.append(number(math.exp(float(np.mean([x["width"][way] for x in lines]))), 2))
            row.append(number(float(np.mean([x["held"][way] for x in lines])), 3))
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
