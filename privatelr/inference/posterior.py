"""Draws of the true moments, given the noisy ones.

The prior is flat on the cone of positive semidefinite matrices of bounded trace; that of H without
its penalty may have a power of the determinant as its density. The posterior of both matrices is
the law of the noise around the noisy ones, times the prior. Hamiltonian Monte Carlo
(Neal 2011) moves through it in coordinates that have no boundary and in which the law is nearly
normal:

- units of the noise, with the weight eta on S, so that one isotropic law covers both matrices;
- the basis of eigenvectors of the noisy matrix, the largest eigenvalue first;
- W, any positive definite matrix, in place of M, whose trace is bounded: ``M = W h(tr W)``;
- the Cholesky factor of W, its diagonal by logarithms.

The change of variables is exact: `energy` holds the logarithms of its determinants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

from privatelr.inference.error_distribution import Matrices
from privatelr.progress_line import ProgressLine, somebody_watches
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.inference.noisy_moments import NoisyMoments

_FEWEST, _USUAL, _MOST, _ENTRIES, _SQUARES = 4, 32, 128, 768, 51_200
"""Least, usual and largest number of chains, their number times d where it is larger than usual,
and times the square of d where it is smaller: a move of a chain costs the third power of d."""
_LONG = 40
"""From so many columns on, a line on the screen says how far the draws are."""
_ROUNDS, _MOVES = 3, 4
"""Rounds of warm-up, and moves in each; after a round the units of the moves are measured again."""
_KEPT, _APART = 12, 2
"""Number of draws that a chain keeps, and of moves between them."""
_FIRST_STEP, _LONGEST_STEP = 0.4, 1.0
"""Length of a step at first and at most, in standard deviations of the coordinates."""
_ACCEPTED = 0.8
"""Share of accepted moves at which the length of steps is right."""
_REACH = 1.9
"""Length of a move; half a turn of a normal law has length pi / 2."""
_JITTER = 0.2
"""Largest relative change of a step, which keeps moves from being periods of the law."""
_TINY = 1e-9
"""Least argument of a difference that cancels near 0."""


@dataclass(frozen=True, slots=True, eq=False)
class MomentsPosterior:
    """The posterior of both matrices, in units of the noise and in their own bases.

    Attributes
    ----------
    noisy : ndarray of shape (2, d)
        Eigenvalues of the noisy matrices, the largest first.
    largest : ndarray of shape (2,)
        The largest traces.
    rate : float or None
        Rate of spherical Laplace noise; None for standard normal noise.
    determinants : ndarray of shape (2,)
        Powers of the determinants in the prior.
    """

    noisy: FloatArray
    largest: FloatArray
    rate: float | None
    determinants: FloatArray

    @property
    def d(self) -> int:
        return int(self.noisy.shape[-1])

    @property
    def dimension(self) -> int:
        """Dimension of the cone of each matrix."""
        return self.d * (self.d + 1) // 2

    @property
    def powers(self) -> FloatArray:
        """Exponents ``(2, d)`` of the factor's diagonal, in the map to its logarithms and prior."""
        return np.arange(self.d + 1.0, 1.0, -1.0) + 2 * self.determinants[:, None]

    @property
    def sharpness(self) -> float:
        """How late the map from W to M bends.

        With this one the trace of W varies as a coordinate of its own, also where the bound on the
        trace of M is all that the posterior knows.
        """
        return 1 + math.sqrt(self.dimension) / 5


class Chains(NamedTuple):
    """The places of c chains, with what is known there.

    `place` and `gradient` have the shape ``(c, 2, d, d)``, and are 0 above the diagonal of the
    place. `matrices` ``(c, 2, d, d)`` are the moments at the place.
    """

    place: FloatArray
    energy: FloatArray
    gradient: FloatArray
    matrices: FloatArray


def posterior(evidence: NoisyMoments, rng: np.random.Generator) -> Matrices:
    """Draw from the posterior of both matrices, with random numbers that may be public.

    Notes
    -----
    **Privacy.** *Covered*: a function of the release. *Neighbours*, *Assumed
    public*: those of the release. *Not covered*: nothing.
    """
    law, sd, balance = evidence.noise, evidence.curvature_sd, evidence.balance
    penalty = evidence.penalty
    noisy = np.stack([evidence.curvature - penalty, balance * evidence.scores]) / sd
    largest = np.array([evidence.largest_trace, balance * evidence.largest_scores]) / sd
    values, vectors = (part[..., ::-1] for part in np.linalg.eigh(noisy))
    rate = None if law.radial_rate is None else law.radial_rate * sd
    determinants = np.array([evidence.determinant, 0.0])
    drawn = sampled(MomentsPosterior(values, largest, rate, determinants), rng)
    found = sd * (vectors @ drawn @ np.swapaxes(vectors, 1, 2))
    return Matrices(found[:, 0] + penalty, found[:, 1] / balance)


def chains_of(d: int) -> int:
    """Return the number of chains for d columns."""
    if (many := _ENTRIES // d) > _USUAL:
        return min(many, _MOST)
    return max(_FEWEST, min(_USUAL, _SQUARES // d**2))


def sampled(law: MomentsPosterior, rng: np.random.Generator) -> FloatArray:
    """Draw pairs of matrices ``(k, 2, d, d)``; all chains give their first draws first."""
    count, line = chains_of(law.d), ProgressLine("averaging over matrices", 0)
    moves = _ROUNDS * _MOVES + _KEPT * _APART
    # a move that leaves the range of doubles has an infinite or undefined energy: it is rejected
    with np.errstate(all="ignore"):
        centre, unit = first_guess(law)
        place = centre + unit * rng.standard_normal((count, *unit.shape))
        chains, step, visited = Chains(place, *energy(law, place)), _FIRST_STEP, list[FloatArray]()
        kept = list[FloatArray]()
        for move in range(1, moves + 1):
            chains, chance = moved(law, chains, unit, step, rng)
            if move <= _ROUNDS * _MOVES:
                step = min(_LONGEST_STEP, step * math.exp((chance - _ACCEPTED) / 2))
                visited.append(chains.place)
                if move % _MOVES == 0:
                    unit, visited = np.concatenate(visited).std(axis=0), []
            elif (move - _ROUNDS * _MOVES) % _APART == 0:
                kept.append(chains.matrices)
            if law.d >= _LONG and somebody_watches():
                line.show(move / moves)
    line.remove()
    return np.concatenate(kept)


def energy(law: MomentsPosterior, place: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Minus the log density ``(c,)`` at places ``(c, 2, d, d)``, its gradient, and the moments.

    A place is a lower triangular matrix: the Cholesky factor of W, with the logarithms of its
    diagonal. With ``z = tr W / largest`` and m the sharpness, M has the trace
    ``largest (1 - exp(-z^m))^(1 / m)``. In dimension k this map of the trace multiplies volumes by
    ``h^(k - m) exp(-z^m)``, and the factor and the logarithms multiply them by the diagonal to its
    `powers`.
    """
    m = law.sharpness
    left = law.dimension - m + law.d * law.determinants
    root = place.copy()
    logs, entries = _diagonal(place), _diagonal(root)
    entries[...] = np.exp(logs)
    whole = root @ np.swapaxes(root, -1, -2).copy()  # small products are fast side by side
    z = _diagonal(whole).sum(axis=-1) / law.largest
    bent = z**m
    ratio = scipy.special.exprel(-bent)
    shrunk = ratio ** (1 / m)
    matrices = whole * shrunk[..., None, None]
    off = matrices.copy()
    _diagonal(off)[...] -= law.noisy
    square = np.einsum("csij,csij->c", off, off)
    if law.rate is None:
        value, slope = square / 2, np.ones_like(square)
    else:
        length = np.sqrt(square)
        value, slope = law.rate * length, law.rate / np.maximum(length, _TINY)
    value = (
        value + (bent - left * np.log(shrunk)).sum(axis=1) - (logs * law.powers).sum(axis=(1, 2))
    )
    # derivative by W: that by M, and along W what the map of the trace contributes
    along = slope[:, None] * np.einsum("csij,csij->cs", off, matrices)
    bend = (np.exp(-bent) - ratio) / (np.maximum(bent, _TINY) * ratio)
    off *= (slope[:, None] * shrunk)[..., None, None]
    _diagonal(off)[...] += (z ** (m - 1) * (bend * (along - left) + m) / law.largest)[..., None]
    gradient = 2 * (off @ root)
    by_logs = _diagonal(gradient)
    by_logs *= entries
    by_logs -= law.powers
    return value, gradient, matrices


def _diagonal(matrices: FloatArray) -> FloatArray:
    """Return a view ``(c, 2, d)`` of the diagonals of matrices ``(c, 2, d, d)``."""
    return np.asarray(np.einsum("...ii->...i", matrices))


def moved(
    law: MomentsPosterior, chains: Chains, unit: FloatArray, step: float, rng: np.random.Generator
) -> tuple[Chains, float]:
    """Move each chain along a path of nearly constant energy; also the mean chance to accept it.

    Parameters
    ----------
    unit : ndarray of shape (2, d, d)
        Units of the coordinates, 0 above the diagonal, where nothing moves.
    """
    momentum = rng.standard_normal(chains.place.shape)
    before = chains.energy + _square(momentum) / 2
    times = math.ceil(_REACH / step)
    push = step * rng.uniform(1 - _JITTER, 1 + _JITTER) * unit
    place, gradient = chains.place, chains.gradient
    for _ in range(times):  # leapfrog
        momentum = momentum - push / 2 * gradient
        place = place + push * momentum
        value, gradient, matrices = energy(law, place)
        momentum = momentum - push / 2 * gradient
    gain = before - value - _square(momentum) / 2
    chance = np.exp(np.minimum(np.where(np.isnan(gain), -np.inf, gain), 0.0))
    accepted = rng.uniform(size=len(gain)) < chance
    found = Chains(place, value, gradient, matrices)
    # entry by entry, because the first axis of every array is that of the chains
    kept = [
        np.where(accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old)
        for new, old in zip(found, chains, strict=True)
    ]
    return Chains(*kept), float(chance.mean())


def _square(momentum: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("csij,csij->c", momentum, momentum))


def first_guess(law: MomentsPosterior) -> tuple[FloatArray, FloatArray]:
    """Guess centre and standard deviations ``(2, d, d)`` of the coordinates.

    The factor's squared diagonal D maximises ``D^(power / 2) exp(-(D - a)^2 / 2)`` with a the noisy
    eigenvalue, as if the matrix were diagonal; other entries have the normal laws around that.
    """
    noisy, powers = law.noisy, law.powers
    root = np.sqrt(noisy**2 / 4 + powers / 2)
    # the same number, by the form in which nothing cancels
    squared = np.where(noisy > 0, noisy / 2 + root, powers / 2 / (root + np.abs(noisy) / 2))
    variance = 1 / (2 * (squared[:, None, :] + powers[..., None] / (2 * squared)[:, :, None]))
    variance = np.tril(variance, -1)
    size = squared.sum(axis=1) + variance.sum(axis=(1, 2))
    m = law.sharpness
    # M keeps about the trace that it would have if nothing but the bound were known
    most = (1 - 1 / (law.dimension / m + 1.5)) ** (1 / m)
    share = np.minimum(most, size / law.largest)
    scale = (law.largest / size * (-np.log1p(-(share**m))) ** (1 / m))[:, None]
    unit = np.sqrt(variance * scale[..., None])
    diagonal = np.arange(law.d)
    squared_of_m = squared * (law.largest / size * share)[:, None]
    unit[:, diagonal, diagonal] = 1 / np.sqrt(4 * squared_of_m**2 + 2 * powers)
    centre = np.zeros_like(unit)
    centre[:, diagonal, diagonal] = np.log(squared * scale) / 2
    return centre, unit
