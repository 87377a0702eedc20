"""One draw of noise for very many columns: in doubles with known errors, block by block.

Ball arithmetic takes microseconds and hundreds of bytes for each number. Here the noise is the
same function of the same kind of secret bits (see `privacy.noise.randomness`), but it is evaluated
in doubles, together with a bound on how far each double is from the exact number. The bound decides
almost every rounding of a release. Balls decide the few that are left in doubt, with as many
further bits as they need. So here, too, the released number is the rounding of an exact number.

The bounds assume that NumPy's ``log``, ``log1p`` and ``cos`` are right to 4 units in the last
place, as certificates assume of its ``exp`` (privacy.md 10.3), and allow for twice that error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from privatelr.locks import flint, working_precision
from privatelr.privacy.noise.noise_laws import (
    BALLS,
    GaussianNoise,
    RandomVector,
    SphericalLaplace,
    exponentials,
    normals,
)
from privatelr.types import FloatArray

WordArray = npt.NDArray[np.uint64]
MANY = 10_000
"""Largest number of coordinates of a draw that is not made blockwise."""
WORD = 64
"""Number of bits of a uniform number that are drawn first."""
GUARD = 32
"""Bits of precision beyond those of the uniforms, for the rounding of the evaluation."""
NOT_COPIED = "a draw of noise is not copied: with it the noise could be taken off."
_BLOCK = 2**16
"""Number of coordinates in one block."""
_UNIT = 2.0**-53
"""Largest relative error of one rounding to a double."""
_FUNCTION = 16 * _UNIT
"""Largest relative error of a logarithm: 8 units in the last place."""
_LARGE = 2.0**51
"""Size from which on the number of a cell is decided by balls, in units of the grid."""


def is_blockwise(recipe: RandomVector) -> TypeGuard[GaussianNoise | SphericalLaplace]:
    """Whether noise of this law is drawn blockwise."""
    return isinstance(recipe, GaussianNoise | SphericalLaplace) and recipe.dimension > MANY


def drawn_words(bits: Callable[[int], int], count: int) -> WordArray:
    """Draw words of secret bits in one request, which is faster than one by one."""
    drawn = bits(WORD * count).to_bytes(count * WORD // 8, "little")
    return np.frombuffer(drawn, dtype="<u8")


def cell(prefix: int, known: int) -> flint.arb:
    """Return the ball ``[prefix, prefix + 1] / 2**known`` of a uniform with `known` known bits."""
    half = -known - 1
    return flint.arb((2 * prefix + 1, half), (1, half))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BlockwiseDraw:
    """A draw from a secret source of bits; it is never shown, written to a file, or drawn again.

    Parameters
    ----------
    recipe : GaussianNoise or SphericalLaplace
        The law of the noise.
    bits : callable
        A function that draws a given number of secret bits and returns them as an integer.
    """

    recipe: GaussianNoise | SphericalLaplace
    bits: Callable[[int], int]
    _words: WordArray = field(init=False)
    _further: dict[int, tuple[int, int]] = field(init=False)  # index: bits, and how many
    _factor: tuple[float, float] = field(init=False)

    def __post_init__(self) -> None:
        words = np.empty(self.recipe.uniforms, dtype=np.uint64)
        for start in range(0, len(words), _BLOCK):
            here = words[start : start + _BLOCK]
            here[:] = drawn_words(self.bits, len(here))
        object.__setattr__(self, "_words", words)
        object.__setattr__(self, "_further", {})
        object.__setattr__(self, "_factor", self._common_factor())

    def __reduce__(self) -> Any:
        raise TypeError(NOT_COPIED)

    # --- in doubles -----------------------------------------------------------------------------

    def nearest(self) -> FloatArray:
        """Return doubles ``(dimension,)`` near the draw; `distance` bounds how far they are."""
        return np.concatenate([values for _, values, _ in self._blocks()])

    def distance(self, vector: FloatArray) -> float:
        """Bound the Euclidean distance from the draw to a vector of doubles from above."""
        squares = []
        for here, values, errors in self._blocks():
            off = np.abs(values - vector[here]) * (1 + 2 * _UNIT) + errors
            squares.append(math.fsum(off * off))
        return math.sqrt(math.fsum(squares)) * (1 + 16 * _UNIT)

    def rounded(self, centre: FloatArray, grid: float) -> FloatArray:
        """Return the multiples of `grid` nearest to the exact ``centre + draw`` (privacy.md 10.1).

        Notes
        -----
        `grid` is a power of two. Let t be the computed sum over the grid, and ``rint(t)`` the
        nearest whole number. The exact sum has the same nearest whole number if t is farther
        from the end of that cell than the error of t: ``t - rint(t)`` is exact for
        ``|t| < 2**51``, and the sum adds one rounding to the errors of centre and draw.
        """
        found = np.empty(self.recipe.dimension)
        doubtful: list[int] = []
        with np.errstate(all="ignore"):
            for here, values, errors in self._blocks():
                total = (centre[here] + values) / grid
                cells = np.rint(total)
                off = errors / grid * (1 + 4 * _UNIT) + 2 * _UNIT * np.abs(total)
                clear = (0.5 - np.abs(total - cells) > off) & (np.abs(total) < _LARGE)
                found[here] = cells * grid + 0.0  # -0.0 would reveal a sign
                doubtful.extend((here.start + np.flatnonzero(~clear)).tolist())
        for index, number in self._decided(doubtful, centre, grid):
            found[index] = number
        return found

    def _blocks(self) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Yield the position of each block, its doubles, and the largest error of each double."""
        factor, relative = self._factor
        for here, standard, errors in self._standard():
            values = standard * factor
            lost = np.abs(values) * (relative * (1 + relative) + 2 * _UNIT)
            yield here, values, errors * factor * (1 + relative) + lost

    def _standard(self) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Yield the position of each block, its standard normal numbers, and their errors."""
        d = self.recipe.dimension
        words = self._words[d:] if isinstance(self.recipe, SphericalLaplace) else self._words
        for start in range(0, d, _BLOCK):
            size = min(_BLOCK, d - start)
            # numbers are made in pairs, and the last pair may be needed by half only
            numbers, errors = _normal_doubles(words[start : start + size + size % 2])
            yield slice(start, start + size), numbers[:size], errors[:size]

    def _common_factor(self) -> tuple[float, float]:
        """Return the factor of the standard normal numbers, and its relative error."""
        if isinstance(self.recipe, GaussianNoise):
            return self.recipe.sd, 0.0
        d, rate = self.recipe.dimension, self.recipe.rate
        cuts = (slice(start, min(start + _BLOCK, d)) for start in range(0, d, _BLOCK))
        gamma, lost = _summed(exponential_doubles(self._words[cut]) for cut in cuts)
        square, lost_of_square = _summed(
            (numbers * numbers, (2 * np.abs(numbers) + errors) * errors)
            for _, numbers, errors in self._standard()
        )
        off, off_square = lost / gamma, lost_of_square / square + 4 * _UNIT
        # the root halves the relative error of the square, and the quotient adds terms of second
        # order: for an error below a tenth, 1.1 times the whole sum is more than enough
        relative = off + off_square + 16 * _UNIT
        factor = gamma / rate / math.sqrt(square)
        return factor, 1.1 * relative if relative < 0.1 else math.inf

    # --- in balls -------------------------------------------------------------------------------

    def enclose(self, precision: int) -> list[flint.arb]:
        """Return balls that contain the coordinates; more bits give smaller balls."""
        with working_precision(precision):
            known = precision - GUARD
            uniforms = [self._ball(index, known) for index in range(self.recipe.uniforms)]
            return self.recipe.transform(uniforms, (), BALLS)

    def _decided(
        self, doubtful: list[int], centre: FloatArray, grid: float
    ) -> Iterator[tuple[int, float]]:
        """Round a few coordinates by balls, with ever more bits until none is in doubt."""
        known = WORD
        while doubtful:
            left = []
            with working_precision(known + GUARD):
                factor = self._exact_factor(known)
                for index in doubtful:
                    ball = self._coordinate(index, known) * factor
                    total = (flint.arb(float(centre[index])) + ball) / flint.arb(grid)
                    number = (total + flint.arb(0.5)).floor().unique_fmpz()
                    if number is None:
                        left.append(index)
                    else:
                        yield index, float(int(number)) * grid
            doubtful, known = left, 2 * known

    def _exact_factor(self, known: int) -> flint.arb:
        recipe = self.recipe
        if isinstance(recipe, GaussianNoise):
            return flint.arb(recipe.sd)
        d, gamma, square = recipe.dimension, flint.arb(0), flint.arb(0)
        for index in range(d):
            gamma += exponentials([self._ball(index, known)], BALLS)[0]
            square += self._coordinate(index, known) ** 2
        return gamma / flint.arb(recipe.rate) / square.sqrt()

    def _coordinate(self, index: int, known: int) -> flint.arb:
        """Return the ball of one standard normal number."""
        first = self.recipe.dimension if isinstance(self.recipe, SphericalLaplace) else 0
        pair = first + index - index % 2
        uniforms = [self._ball(pair, known), self._ball(pair + 1, known)]
        found: flint.arb = normals(uniforms, 2, BALLS)[index % 2]
        return found

    def _ball(self, index: int, known: int) -> flint.arb:
        """Return the ball of a uniform, from `known` bits of it or more."""
        prefix, size = self._further.get(index, (int(self._words[index]), WORD))
        if known > size:  # earlier bits stay, because they define the draw
            prefix, size = (prefix << (known - size)) | self.bits(known - size), known
            self._further[index] = prefix, size
        return cell(prefix, size)


def _summed(blocks: Iterable[tuple[FloatArray, FloatArray]]) -> tuple[float, float]:
    """Return the sum of the numbers in all blocks, and the sum of their errors."""
    sums = [(math.fsum(numbers), math.fsum(errors)) for numbers, errors in blocks]
    numbers, errors = zip(*sums, strict=True)
    return math.fsum(numbers), math.fsum(errors)


def exponential_doubles(words: WordArray) -> tuple[FloatArray, FloatArray]:
    """Return ``-log U`` for U in ``[word, word + 1] / 2**64``, and the largest error of each.

    Near one it is ``1 - U`` that doubles hold with all digits. The middle of the cell of U, or of
    ``1 - U``, is off by two roundings, and the cell extends ``2**-65`` to either side of it.
    """
    low = words < np.uint64(2**63)
    with np.errstate(all="ignore"):
        middle = (np.where(low, words, ~words).astype(np.float64) + 0.5) * 2.0**-WORD
        values = -np.where(low, np.log(middle), np.log1p(-middle))
        off = middle * (4 * _UNIT) + 2.0 ** -(WORD + 1)
        # the slope of the logarithm is at most one over the nearer end of what U may be
        nearest = np.where(low, middle, 1 - middle) * (1 - _UNIT) - off
        errors = np.where(nearest > 0, off / nearest, np.inf) + _FUNCTION * values
    return values, errors * (1 + 2.0**-40)


def _normal_doubles(words: WordArray) -> tuple[FloatArray, FloatArray]:
    """Return standard normal numbers of pairs of words, and the largest error of each.

    They are made as by `normals`. The error of the length ``(-2 log U)**(1/2)`` is at most that
    of its square over the length, and one rounding. The error of the angle ``2 pi V`` is at most
    3 roundings of ``2 pi`` and the cell of V. A cosine is off by the error of its angle and by 4
    units in the last place: below ``40 * 2**-53`` in all.
    """
    squares, off = exponential_doubles(words[0::2])
    with np.errstate(all="ignore"):
        lengths = np.sqrt(2 * squares)
        off = 2 * off / lengths + 2 * _UNIT * lengths
        angles = (words[1::2].astype(np.float64) + 0.5) * 2.0 ** (1 - WORD) * math.pi
        numbers = np.column_stack([lengths * np.cos(angles), lengths * np.sin(angles)])
        errors = (off + (lengths + off) * (42 * _UNIT)) * (1 + 2.0**-40)
    return numbers.ravel(), np.repeat(errors, 2)
