"""Constraints at the corners of the solutions, held to what is public about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from privatelr.errors import ArgumentError, GuaranteeError, require_number, show
from privatelr.mechanisms.read_numbers import private_numbers
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.mechanisms.linear_programs.constraint_private import Private


@dataclass(frozen=True, slots=True, eq=False)
class Corners:
    """Left-hand sides of all constraints at all corners.

    Attributes
    ----------
    values : ndarray of shape (n, d)
        ``a_ij opt / c_j``.
    reach : float
        Length of an interval that holds what any record may put in the place of another. Where
        `a` is public, a record changes its bound alone, and only its weight moves the score of a
        corner: the numbers stay within those of this corner.
    size : float
        The largest number that there may be.
    """

    values: FloatArray
    reach: float
    size: float


def read_program(
    a: Any, b: Any, c: Any, private: Private
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Three arrays that fit each other; their numbers are looked at only where they are public."""
    if sparse.issparse(a):
        raise ArgumentError(
            "a: takes a dense array, because all corners are computed; a.toarray() makes one."
        )
    rows = private_numbers("a", a, 2) if private == "rows" else _public("a", a)
    bounds, costs = private_numbers("b", b, 1), _public("c", c)
    if rows.ndim != 2 or bounds.shape != rows.shape[:1] or costs.shape != rows.shape[1:]:
        raise ArgumentError(
            f"a, b and c of shapes {rows.shape}, {bounds.shape} and {costs.shape}: they take the "
            "shapes (n, d), (n,) and (d,)."
        )
    if rows.size == 0 or not (np.isfinite(costs).all() and (costs > 0).all()):
        raise ArgumentError("c: takes finite numbers above 0, one for each of d variables.")
    return rows, bounds, costs


def _public(name: str, given: Any) -> FloatArray:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{name}={show(given)}: {name} takes numbers.") from None


def public_corners(rows: FloatArray, scale: FloatArray) -> Corners:
    """Of rows that are public; `scale` is ``opt / c``."""
    if not np.isfinite(rows).all():
        raise ArgumentError("a: takes finite numbers where only bounds are private.")
    values = rows * scale
    spread = values.max(axis=0) - values.min(axis=0)
    return Corners(values, float(spread.max()), float(np.abs(values).max()))


def private_corners(rows: FloatArray, scale: FloatArray, opt: float, ratios: Any) -> Corners:
    """Of rows that are private, each held to the public range of ``a_ij / c_j``."""
    low, high = (opt * end for end in _read_ratios(ratios))
    with np.errstate(all="ignore"):
        held = np.nan_to_num(rows * scale, nan=high, posinf=high, neginf=low)
    return Corners(np.clip(held, low, high), high - low, max(abs(low), abs(high)))


def _read_ratios(ratios: Any) -> tuple[float, float]:
    takes = "a public range (lo, hi) of a_ij / c_j with lo < hi, where rows are private"
    if not isinstance(ratios, tuple | list) or len(ratios) != 2:
        raise ArgumentError(f"ratios={show(ratios)}: ratios takes {takes}.")
    low, high = (
        require_number(ArgumentError, "ratios", end, takes, at_least=-1e100, at_most=1e100)
        for end in ratios
    )
    if not low < high:
        raise ArgumentError(f"ratios={show(ratios)}: ratios takes {takes}.")
    return low, high


def require_width(corners: Corners, width: float) -> None:
    """Refuse a width that no bound can keep; for public rows only."""
    values = corners.values
    least = float((values.max(axis=1) - values.min(axis=1)).max()) / 2
    if width < least:
        raise GuaranteeError(
            f"width={width:g}: width takes {least:.6g} or more, since at the corners of some "
            "constraint the numbers of `a` are twice that apart."
        )


def held_bounds(bounds: FloatArray, corners: Corners, width: float) -> FloatArray:
    """Bounds ``(n,)`` moved to where no corner misses or exceeds them by more than the width.

    Each record by itself; a missing one to the middle of its corners. Where there is no
    such place, that is taken too.
    """
    low = corners.values.max(axis=1) - width
    high = corners.values.min(axis=1) + width
    middle = (low + high) / 2
    low, high = np.minimum(low, middle), np.maximum(high, middle)
    return np.clip(np.where(np.isnan(bounds), middle, bounds), low, high)
