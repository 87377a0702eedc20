"""Coefficients to which the penalty draws, from public knowledge or from an earlier release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from privatelr.errors import ArgumentError, listed, or_meant
from privatelr.types import FloatArray, IntArray

if TYPE_CHECKING:
    from privatelr.design import DesignSpec, RowSpec

LONGEST_MARGIN = 100.0
"""No coefficients of a prior give a row a margin beyond this."""
_MOST_PRECISE = 1e5
"""Largest precision of a coefficient of a prior, in squares of the length of a row."""
_NARROWEST = 20.0
"""How many times as narrow as its bounds a standardised column may be for a full precision."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Means and standard deviations of coefficients in the user's units, which are public.

    Attributes
    ----------
    means : mapping from str to float
        By the names of coefficients.
    source : str
        Where they come from, in words.
    sds : mapping from str to float
        Standard deviations, for some of the same names. The others have that of the penalty.
    uncovered : bool
        Whether they are of an earlier fit that no guarantee covers.
    """

    means: Mapping[str, float]
    source: str
    sds: Mapping[str, float] = field(default_factory=dict)
    uncovered: bool = False

    @np.errstate(over="ignore", invalid="ignore")  # what is too large is refused in a sentence
    def for_plan(self, spec: RowSpec, *, only_shared: bool) -> Prior:
        """Check the means against a plan; if asked, drop those that it has no coefficient for.

        Raises
        ------
        ArgumentError
            One sentence with the coefficients that there are, or with a margin beyond belief.
        """
        if spec.projection is not None or not spec.has_names:
            raise ArgumentError(
                "prior: it takes coefficients with names, of a formula and rp_dim=0."
            )
        known = list(spec.columns.names)
        shared = {name: mean for name, mean in self.means.items() if name in known}
        if not shared or (len(shared) < len(self.means) and not only_shared):
            name = next(name for name in self.means if name not in shared)
            raise ArgumentError(
                f"prior: the model has no coefficient {name!r}; it has {listed(known, 8)}"
                f"{or_meant(name, known)}"
            )
        sds = {n: sd for n, sd in self.sds.items() if n in known}
        found = replace(self, means=shared, sds=sds)
        margin = spec.radius * float(np.linalg.norm(_centre(spec, shared)))
        if not margin <= LONGEST_MARGIN:
            raise ArgumentError(
                f"prior: records within the declared bounds would have linear predictors of up to "
                f"{margin:.3g} by it; prior takes means in the units of the columns."
            )
        planned = cast("DesignSpec", spec)
        precise = _precisions(replace(planned, prior=found))[1] > _MOST_PRECISE * spec.radius**2
        if precise.any():
            name = [*found.sds][int(np.argmax(precise))]
            raise ArgumentError(
                f"prior[{name!r}]: the standard deviation {found.sds[name]:.3g} is so small that "
                "no data would move the coefficient; to fix it, add offset() of the column times "
                "it in the place of the term."
            )
        return found


def require_same_bases(was: Any, now: Any) -> None:
    """Refuse coefficients of an equally named basis with other knots, which mean something else.

    Raises
    ------
    ArgumentError
        If a spline or `cut` of the plan `now` has other knots, or another boundary by declared
        bounds, than that of the plan of an earlier fit.
    """
    before = {one.expression.label: one.partition for one in getattr(was, "factors", ())}
    for one in getattr(now, "factors", ()):
        label = one.expression.label
        if label in before and before[label] != one.partition:
            raise ArgumentError(
                f"prior: {label} of the earlier fit has other knots or ends, by the bounds that "
                "were declared for it, so its coefficients mean something else; declare the same "
                "bounds, or name the boundary in both formulas."
            )


def said_about(prior: Prior, was: Any, names: Sequence[str], now: Any) -> Prior:
    """Add to the words of a prior what an earlier fit promised others, and what of it is unused."""
    told, lost = prior.source, [name for name in names if name not in prior.means]
    before, after = (one.formula.person and one.formula.person.column for one in (was, now))
    if before != after:
        whom = "a record" if before is None else f"all records of a person by {before!r}"
        told += f", whose promise is about {whom}"
    if lost:
        told += f", without its {listed(lost, 6)}, which this model does not have"
    return replace(prior, source=told)


def _precisions(spec: RowSpec) -> tuple[FloatArray, FloatArray]:
    """Return directions ``(k, d)`` of length 1, and the precision along each ``(k,)``.

    A coefficient in the user's units is ``u.w`` with a row u of the map, so that a deviation s is a
    penalty of ``(u.w)**2 / (2 s**2)``, which has the curvature ``|u|**2 / s**2`` along u. Where
    records have weights, they count the share a of the largest weight W. So does the prior, or else
    it would count W times as much beside them as beside the weights that the user gave. Records of
    persons count 1 / k or less, by `records_per_person`, and so does the prior.
    """
    prior = cast("Prior", spec.prior)
    units = spec.user_map()[_places(spec, prior.sds)]
    rows = np.asarray(units.toarray() if sparse.issparse(units) else units)
    lengths = np.linalg.norm(rows, axis=1)
    sds, most = np.array(list(prior.sds.values())), 1.0 if spec.weight is None else spec.weight.most
    most *= 1 if spec.formula.person is None else spec.formula.person.most
    return rows / lengths[:, None], (lengths / sds) ** 2 / most


def most_stiffness(spec: RowSpec, *, standardised: bool) -> float:
    """Return what the precisions of a prior add up to at most, whatever scale is released.

    A column that is `_NARROWEST` times as narrow as its bounds gets as much longer when it is
    standardised, and so does its direction. For narrower ones `prior_of` holds the precisions to
    this, since the accuracy of a minimum is public before the scale of the columns is.
    """
    if spec.prior is None or not spec.prior.sds:
        return 0.0
    total = float(_precisions(spec)[1].sum())
    return total * _NARROWEST**2 if standardised else total


def prior_of(spec: RowSpec, problem: Any) -> dict[str, Any]:
    """Return the arguments `centre` and `stiff` of a release, for the penalty of its problem.

    The precision of a coefficient is ``max(Lambda, 1 / sd**2)``. What it has beyond Lambda is never
    negative, so that no noise depends on it (theory.md#weights-offsets-and-priors). `stiff` is the
    matrix G ``(k, d)`` of the mean objective, None where the penalty is precise enough.
    """
    centre = centre_of(spec)
    if spec.prior is None or not spec.prior.sds:
        return {"centre": centre, "stiff": None}
    rows, precisions = _precisions(spec)
    beyond = beyond_penalty(precisions, problem.penalty)
    if beyond.sum() > problem.stiffness:
        beyond *= problem.stiffness / beyond.sum() * (1 - 1e-12)
    kept = beyond > 0
    stiff = np.sqrt(beyond[kept] / problem.n)[:, None] * rows[kept]
    return {"centre": centre, "stiff": stiff if len(stiff) else None}


def beyond_penalty(precisions: FloatArray, penalty: float) -> FloatArray:
    """What a prior adds to the penalty in its directions ``(k,)``, never below 0."""
    return np.maximum(precisions - penalty, 0.0)


def centre_of(spec: RowSpec) -> FloatArray | None:
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


def _places(spec: RowSpec, names: Iterable[str]) -> IntArray:
    """Return where coefficients of these names are ``(k,)``."""
    place = {name: index for index, name in enumerate(spec.columns.names)}
    return np.array([place[name] for name in names], dtype=np.intp)


def _centre(spec: RowSpec, means: Mapping[str, float]) -> FloatArray:
    given, found, units = _places(spec, means), np.zeros(spec.d), spec.user_map()
    values = np.array(list(means.values()), dtype=np.float64)
    if sparse.issparse(units):
        found[given] = linalg.spsolve(units[given][:, given].tocsc(), values)
    else:
        found[given] = np.linalg.solve(units[np.ix_(given, given)], values)
    return found
