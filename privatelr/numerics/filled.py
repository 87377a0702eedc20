"""Objectives without the columns in which no row has an entry.

Nothing but the penalty and the tilt speaks of such a coefficient, so its minimum is at
``-tilt / lambda``, and the others do not depend on it. In a wide sparse table most columns may be
of this kind, and every vector of a solver is as long as the table is wide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from privatelr.numerics.objective import norm_of
from privatelr.numerics.sparse_rows import SparseRows

if TYPE_CHECKING:
    from privatelr.numerics.objective import Objective
    from privatelr.types import FloatArray, IntArray

_WIDE = 2**14
"""Columns from which on it is worth looking."""
_MOST = 0.8
"""Share of columns with entries beyond which little is gained."""


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """The part of an objective that is about columns with entries.

    Attributes
    ----------
    objective : Objective
        Of these columns alone.
    columns : ndarray of shape (k,)
        Which of the d they are.
    """

    objective: Objective
    columns: IntArray

    def spread(self, whole: Objective, w: FloatArray, norm: float) -> tuple[FloatArray, float]:
        """The minimum ``(d,)`` of the whole from that of the part, and its gradient norm."""
        found = whole.tilt / -whole.lambda_
        rest = whole.tilt + whole.lambda_ * found  # nothing but rounding
        rest[self.columns] = 0.0
        found[self.columns] = w
        return found, math.hypot(norm, norm_of(rest))


def filled_part(objective: Objective) -> Filled | None:
    """The columns with entries, or None where all of an objective is as well."""
    rows = objective.rows
    if not isinstance(rows, SparseRows) or rows.d < _WIDE or not objective.lambda_ > 0:
        return None
    x = rows.x
    used = np.zeros(rows.d, dtype=bool)
    used[x.indices] = True
    columns = np.flatnonzero(used)
    if len(columns) > _MOST * rows.d:
        return None
    place = np.cumsum(used, dtype=x.indices.dtype)
    place -= 1
    table = sparse.csr_array((x.data, place[x.indices], x.indptr), shape=(rows.n, len(columns)))
    part = replace(objective, rows=rows.with_table(table), tilt=objective.tilt[columns])
    return Filled(part, columns)
