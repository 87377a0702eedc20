"""Coefficients to which the penalty draws, from public knowledge or from an earlier release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from privatelr.design.terms import Columns
from privatelr.errors import ArgumentError, or_meant
from privatelr.types import FloatArray

LONGEST_MARGIN = 100.0
"""No coefficients of a prior give a row a margin beyond this."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Means of coefficients in the user's units, which are public.

    Attributes
    ----------
    means : mapping from str to float
        By the names of coefficients.
    source : str
        Where they come from, in words.
    """

    means: Mapping[str, float]
    source: str

    def for_plan(self, spec: Any, *, only_shared: bool) -> Prior:
        """Check the means against a plan; if asked, drop those that it has no coefficient for.

        Raises
        ------
        ArgumentError
            One sentence with the coefficients that there are, or with a margin beyond belief.
        """
        if spec.projection is not None or not isinstance(spec.columns, Columns):
            raise ArgumentError(
                "prior: it takes coefficients with names, of a formula and rp_dim=0."
            )
        known = list(spec.columns.names)
        listed = ", ".join(map(repr, known[:8])) + (", ..." if len(known) > 8 else "")
        shared = {name: mean for name, mean in self.means.items() if name in known}
        if not shared or (len(shared) < len(self.means) and not only_shared):
            name = next(name for name in self.means if name not in shared)
            raise ArgumentError(
                f"prior: the model has no coefficient {name!r}; it has {listed}"
                f"{or_meant(name, known)}"
            )
        found = Prior(shared, self.source)
        margin = spec.radius * float(np.linalg.norm(_centre(spec, shared)))
        if not margin <= LONGEST_MARGIN:
            raise ArgumentError(
                f"prior: records within the declared bounds would have linear predictors of up to "
                f"{margin:.3g} by it; prior takes means in the units of the columns."
            )
        return found


def centre_of(spec: Any) -> FloatArray | None:
    """Return the design coefficients w0 ``(d,)`` whose values in the user's units are the prior's.

    Other design coefficients are 0, as without a prior. None for a plan that has no prior. They are
    no longer than what gives rows the margin `LONGEST_MARGIN`, so that the accuracy of a minimum is
    public before the scale of the columns is.
    """
    if spec.prior is None:
        return None
    found = _centre(spec, spec.prior.means)
    length, longest = float(np.linalg.norm(found)), LONGEST_MARGIN / spec.radius
    return found if length < longest else found * (longest / length * (1 - 1e-12))


def _centre(spec: Any, means: Mapping[str, float]) -> FloatArray:
    place = {name: index for index, name in enumerate(spec.columns.names)}
    given = np.array([place[name] for name in means], dtype=np.intp)
    found, units = np.zeros(spec.d), spec.user_map()
    values = np.array(list(means.values()), dtype=np.float64)
    if sparse.issparse(units):
        found[given] = linalg.spsolve(units[given][:, given].tocsc(), values)
    else:
        found[given] = np.linalg.solve(units[np.ix_(given, given)], values)
    return found
