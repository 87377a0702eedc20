"""Sums of losses over columns as they lie in memory, by a function that numba compiles.

NumPy would write clipped columns, bounded rows and margins to memory one after the other, and its
threads would wait for each other between two calls. Here a few rows at a time go from the columns
to the sums. No guarantee rests on it: the certificate takes its gradient from bounded rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic

from privatelr.numerics.losses import Huber, Logistic, Loss, SoftplusHinge
from privatelr.numerics.rows.row_bounds import BELOW, LEAST_SHARE, RowBounds
from privatelr.types import FloatArray, IntArray, RawColumns

LANES = 509
"""Rows that are summed while they are in the first cache. It is a prime, so that parts of a table
that change places go to other lanes of its checksum."""
_ALIGNED, _TOGETHER = 512, 4
"""Entries of a row of a tile, whole lines of a cache; and columns that are read side by side."""


def _pointer(kind: Any) -> Any:
    """A function that compiled code calls with an address, for a pointer to entries there."""

    def at(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            return builder.inttoptr(given[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(address), generate

    return intrinsic(at)


_doubles, _words = _pointer(types.float64), _pointer(types.uint64)


def _compiled(*freedoms: str) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function, whose arithmetic may take these freedoms of LLVM."""

    def compile_it(function: Callable[..., Any]) -> Any:
        settings = {"nogil": True, "error_model": "numpy", "fastmath": set(freedoms)}
        try:
            return njit(cache=True, **settings)(function)
        except RuntimeError:  # there is no folder in which compiled functions could be kept
            return njit(**settings)(function)

    return compile_it


@_compiled("contract")
def _mapped(entry: float, low: float, high: float, centre: float, factor: float) -> float:
    value = low if entry < low else entry
    value = high if value > high else value
    return (value - centre) * factor


@_compiled()
def _turned(word: Any, bits: int) -> Any:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@_compiled("contract")
def _read(
    addresses: Any,
    n: int,
    start: int,
    m: int,
    mapped: Any,
    w: Any,
    tile: Any,
    margin: Any,
    square: Any,
    lanes: Any,
) -> None:
    """Map m rows of columns, four at a time, into a tile, and add up what rows need of them."""
    for j in range(0, len(addresses), _TOGETHER):
        x0, x1 = carray(_doubles(addresses[j]), n), carray(_doubles(addresses[j + 1]), n)
        x2, x3 = carray(_doubles(addresses[j + 2]), n), carray(_doubles(addresses[j + 3]), n)
        b0, b1 = carray(_words(addresses[j]), n), carray(_words(addresses[j + 1]), n)
        b2, b3 = carray(_words(addresses[j + 2]), n), carray(_words(addresses[j + 3]), n)
        # numbers, as the loop could not know that what it writes is not an array of theirs
        l0, l1, l2, l3 = mapped[0, j], mapped[0, j + 1], mapped[0, j + 2], mapped[0, j + 3]
        h0, h1, h2, h3 = mapped[1, j], mapped[1, j + 1], mapped[1, j + 2], mapped[1, j + 3]
        c0, c1, c2, c3 = mapped[2, j], mapped[2, j + 1], mapped[2, j + 2], mapped[2, j + 3]
        f0, f1, f2, f3 = mapped[3, j], mapped[3, j + 1], mapped[3, j + 2], mapped[3, j + 3]
        w0, w1, w2, w3 = w[j], w[j + 1], w[j + 2], w[j + 3]
        t0, t1, t2, t3 = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
        words = lanes[j // _TOGETHER]
        for i in range(m):
            k = start + i
            e0, e1, e2, e3 = x0[k], x1[k], x2[k], x3[k]
            v0, v1 = _mapped(e0, l0, h0, c0, f0), _mapped(e1, l1, h1, c1, f1)
            v2, v3 = _mapped(e2, l2, h2, c2, f2), _mapped(e3, l3, h3, c3, f3)
            t0[i], t1[i], t2[i], t3[i] = v0, v1, v2, v3
            margin[i] += (v0 * w0 + v1 * w1) + (v2 * w2 + v3 * w3)
            # zero, unless an entry is not finite: then the row is longer than any
            lost = ((e0 - e0) + (e1 - e1)) + ((e2 - e2) + (e3 - e3))
            square[i] += ((v0 * v0 + v1 * v1) + (v2 * v2 + v3 * v3)) + lost
            turned = _turned(b1[k], 13) + _turned(b2[k], 29) + _turned(b3[k], 43)
            words[i] += b0[k] + turned


@_compiled("reassoc", "nsz", "contract")
def _sums(
    addresses: Any,
    mapped: Any,
    labels: Any,
    offset: Any,
    first: int,
    w: Any,
    of_intercept: float,
    constant: float,
    k: int,
    longest_own: float,
    longest: float,
    weighted: bool,
    bent: bool,
    shift: float,
    width: float,
    valued: bool,
    slopes: Any,
    lanes: Any,
) -> tuple[float, float, int]:
    """Add slopes and lanes of n records up, and return their loss and the intercept's slope.

    The first k columns have a length of their own. Returned last is the number of rows so long that
    their squares overflow or that they count for nearly nothing, whose sums are wrong.
    """
    n, p = len(labels), len(addresses)
    margin, slope, own, rest = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    tile = np.empty((p, _ALIGNED))
    total = slope_of_intercept = 0.0
    start = odd = 0
    while start < n:
        lane = (first + start) % LANES
        m = min(LANES - lane, n - start)
        margin[:m] = own[:m] = rest[:m] = 0.0
        here = lanes[:, lane:]
        _read(addresses[:k], n, start, m, mapped[:, :k], w[:k], tile[:k], margin, own, here)
        further = here[k // _TOGETHER :]
        _read(addresses[k:], n, start, m, mapped[:, k:], w[k:], tile[k:], margin, rest, further)
        for i in range(m):
            label, moved = labels[start + i], 0.0
            if len(offset) > 0:
                moved = offset[start + i]
            size = max(abs(label), 1.0)
            sign, part, extent = label / size, 1.0 / (size * size), own[i] + rest[i]
            usable = label != 0.0 and extent < np.inf
            odd += label != 0.0 and extent == np.inf
            if usable and (own[i] > longest_own * longest_own or extent > longest * longest):
                share = longest_own / np.sqrt(own[i]) if own[i] > longest_own * longest_own else 1.0
                if weighted:
                    if extent > longest * longest:
                        share = min(share, longest / np.sqrt(extent))
                    # its row is shorter by as much as its label is larger, so its margin stays
                    share *= BELOW
                    odd += share < LEAST_SHARE
                    part *= share * share
                else:
                    extent = own[i] * share * share + rest[i]
                    of_all = longest / np.sqrt(extent) if extent > longest * longest else 1.0
                    margin[i] = 0.0
                    for j in range(p):
                        tile[j, i] *= of_all * share if j < k else of_all
                        margin[i] += tile[j, i] * w[j]
            signed = sign * (margin[i] + of_intercept * constant + moved)
            if not usable:
                sign, signed, part = 0.0, 0.0, 1.0
                tile[:, i] = 0.0
            scaled = (signed - shift) / width
            if bent:
                short = 0.5 - 0.5 * scaled
                fall = min(max(short, 0.0), 1.0)
                lost = fall * fall + 2.0 * max(short - 1.0, 0.0)
            else:
                small = np.exp(-abs(scaled))
                fall = (small if scaled > 0.0 else 1.0) / (1.0 + small)
                lost = max(-scaled, 0.0) + np.log1p(small) if valued else 0.0
            total += width * lost * part
            slope[i] = -fall * sign * part
            slope_of_intercept += slope[i] * constant
        for j in range(0, p, _TOGETHER):
            t0, t1, t2, t3 = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
            s0 = s1 = s2 = s3 = 0.0
            for i in range(m):
                s0 += slope[i] * t0[i]
                s1 += slope[i] * t1[i]
                s2 += slope[i] * t2[i]
                s3 += slope[i] * t3[i]
            slopes[j] += s0
            slopes[j + 1] += s1
            slopes[j + 2] += s2
            slopes[j + 3] += s3
        start += m
    return total, slope_of_intercept, odd


@dataclass(frozen=True, slots=True, eq=False)
class CompiledSums:
    """How sums of one loss over raw columns are taken under bounds of rows.

    Attributes
    ----------
    bounds : RowBounds
    places : ndarray of int
        Positions of the covariates in the order in which they are read, those with a length of
        their own first. Each of the two kinds is filled up to whole groups, by -1.
    held : tuple
        The number of the former, their length, and that of all covariates.
    form : tuple
        Whether the loss is a parabola around its bend, its margin, and the width of the bend.
    """

    bounds: RowBounds
    places: IntArray
    held: tuple[int, float, float]
    form: tuple[bool, float, float]

    def __call__(
        self, raw: RawColumns, first: int, w: FloatArray, *, valued: bool
    ) -> tuple[float, FloatArray, Any, int]:
        """Return the loss, its slopes ``(d,)``, the lanes of a checksum, and rows that are too odd.

        Parameters
        ----------
        first : int
            The number of the first of these records in the table.
        valued : bool
            Whether the loss is asked for, and not its slopes alone.
        """
        filled, p = self.places >= 0, len(raw.columns)
        columns, intercept = [*raw.columns, np.zeros(len(raw.labels))], w[: len(w) - p]
        addresses = np.array([columns[place].ctypes.data for place in self.places], dtype=np.int64)
        mapped, weights = np.zeros((4, len(filled))), np.zeros(len(filled))
        mapped[:, filled] = raw.mapped[:, self.places[filled]]
        weights[filled] = w[len(intercept) :][self.places[filled]]
        offset, others = np.empty(0), [raw.labels]
        if raw.offset is not None:
            most = self.bounds.offset_bound
            offset = np.clip(raw.offset, -most, most)
            others.append(raw.offset)
        groups = len(addresses) // _TOGETHER
        lanes = np.zeros((groups + len(others), LANES), dtype=np.uint64)
        for row, column in zip(lanes[groups:], others, strict=True):
            _add_in_lanes(row, column, first)
        given = addresses, mapped, raw.labels, offset, first, weights
        of_intercept = float(intercept.sum()), float(self.bounds.intercept or 0.0)
        held = *self.held, self.bounds.weighted, *self.form, valued
        found = np.zeros(len(addresses))
        total, slope, odd = _sums(*given, *of_intercept, *held, found, lanes[:groups])
        slopes = np.empty(p)
        slopes[self.places[filled]] = found[filled]
        return total, np.append(np.full(len(intercept), slope), slopes), lanes, odd


def under(bounds: RowBounds, p: int, loss: Loss) -> CompiledSums | None:
    """Return how sums over p covariates are taken, or None for bounds or losses not known here."""
    form, lengths = _form_of(loss), bounds.lengths(p)
    if form is None or lengths is None:
        return None
    columns, own, every = lengths
    kinds = [columns, np.setdiff1d(np.arange(p), columns)]
    places = [np.append(kind, np.full(-len(kind) % _TOGETHER, -1)) for kind in kinds]
    return CompiledSums(bounds, np.concatenate(places), (len(places[0]), own, every), form)


def works() -> bool:
    """Sum one row, which compiles all that is compiled here, or reads it from where it is kept."""
    row = RawColumns([np.full(1, 0.5)], np.array([[-1.0], [1.0], [0.0], [1.0]]), np.ones(1), None)
    sums = under(RowBounds(1.0, 1.0), 1, Logistic())
    return sums is not None and sums(row, 0, np.zeros(2), valued=True)[1].tolist() == [-0.5, -0.25]


def _form_of(loss: Loss) -> tuple[bool, float, float] | None:
    if isinstance(loss, Logistic):
        return False, 0.0, 1.0
    if isinstance(loss, Huber | SoftplusHinge):
        return isinstance(loss, Huber), 1.0, loss.h
    return None


def _add_in_lanes(lanes: Any, column: FloatArray, first: int) -> None:
    before = first % LANES
    words = np.zeros(-(-(before + len(column)) // LANES) * LANES, dtype=np.uint64)
    words[before : before + len(column)] = column.view(np.uint64)
    lanes += np.add.reduce(words.reshape(-1, LANES), axis=0)
