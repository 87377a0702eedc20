"""From the coefficients of a design to those of the columns as the user holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from privatelr.frames.terms import WIDE

if TYPE_CHECKING:
    from privatelr.frames.terms import Columns
    from privatelr.types import FloatArray


def user_units(columns: Columns, intercept: float | None, projection: FloatArray | None) -> Any:
    """Matrix ``(p + 1, d)`` that takes design coefficients to the user's units.

    Parameters
    ----------
    columns : Columns
        With the map of each column, which is undone.
    intercept : float or None
        The constant in the intercept column.
    projection : ndarray of shape (p, q) or None

    Returns
    -------
    ndarray, or SciPy sparse array of many columns
    """
    first, size = int(columns.has_intercept), len(columns.names)
    child = np.flatnonzero(columns.parent >= 0)
    parent, moved = columns.parent[child], -columns.centre[child] / columns.scale[child]
    if size > WIDE and projection is None:
        constant = np.ones(size)
        constant[:first] = intercept or 0.0
        entries = np.concatenate([1.0 / columns.scale, moved])
        rows, places = (np.concatenate([np.arange(size), ends]) for ends in (parent, child))
        units = sparse.csr_array((entries, (rows, places)), shape=(size, size))
        return sparse.csr_array(units @ sparse.diags_array(constant))
    table = np.diag(1.0 / columns.scale)
    np.add.at(table, (parent, child), moved)
    design = np.eye(size) if projection is None else np.zeros((size, first + projection.shape[1]))
    if projection is not None:
        design[first:, first:] = projection
    if intercept is not None:
        design[0, 0] = intercept
    return table @ design
