"""A mechanism as a call asks for it, with all that is known before the data is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from privatelr.design import LONGEST_MARGIN, most_stiffness, plan_standard
from privatelr.errors import ArgumentError, GuaranteeError, show
from privatelr.lazy_import import lazy_import
from privatelr.mechanisms import (
    Problem,
    Request,
    calibrate_all,
    draw_all,
    find_mechanism,
    promises_for,
    release_all,
)
from privatelr.mechanisms.calibration import (
    GAUSSIAN,
    LAPLACE,
    Kinds,
    ScaleFacts,
    counts_long_rows_less,
    deciding_price,
    scale_floor,
    usual_intercept,
    usual_rows,
)
from privatelr.numerics import Loss
from privatelr.numerics.solve import Newton
from privatelr.privacy import REPLACE_PERSON, ApproxDP, Guarantee, NonPrivate, PureDP
from privatelr.privacy.noise import Randomness
from privatelr.sources import Schema

if TYPE_CHECKING:
    from privatelr import results
    from privatelr.results import Fit
else:
    results = lazy_import("privatelr.results")

Fitted = TypeVar("Fitted")
Way = Callable[[Any, int], tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class Method(Generic[Fitted]):
    """The mechanism that a function such as `dplr` uses, set up before the data is seen.

    Attributes
    ----------
    fit : type
        Type of the result.
    loss : Loss
    target : Guarantee
    facts : callable
        Takes n and the plan of the rows; returns public facts.
    calibrate : callable
        Takes the public facts; returns all numbers of the mechanism. It takes no data.
    draw : callable
        Takes a calibration and a source of randomness; returns the noise of a release.
    release : callable
        Takes rows, a calibration and its noise; returns a release.
    by_entries : bool
        Whether the entries of rows are bounded instead of their length.
    standard : tuple of callable
        Ways to standardise the rows. Each takes their plan and n, and returns the plan of
        standardised rows and the calibration of all stages. Empty if the scale is not released.
    buys_roc : bool
        Whether the scores of the rows are counted, so that thresholds are learned from what is
        paid for.
    if_worth_it : callable, optional
        Given where the scale is left out if the plan cannot have it or its noise is too large.
        Returns such ways, one for each law of noise; for facts about the columns, those at the
        price at which they are compared.
    by_class : bool
        Whether each level of the response is a class of its own, so that there are no scores of
        records by which diagnostics or a threshold are found.
    """

    fit: Callable[..., Fitted]
    loss: Loss
    target: Guarantee
    facts: Callable[[int, Any], Any]
    calibrate: Callable[..., Any]
    draw: Callable[[Any, Randomness], Any]
    release: Callable[[Any, Any, Any], Any]
    by_entries: bool = False
    buys_roc: bool = False
    standard: tuple[Way, ...] = ()
    if_worth_it: Callable[..., tuple[Way, ...]] | None = None
    by_class: bool = False


def perturbation(
    loss: Loss,
    request: Request,
    schema: Schema,
    do_scale: bool | str | None,
    rp_dim: int = 0,
    solver: Any = Newton(),
    prior: Any = None,
) -> Method[Fit]:
    """Set up objective or output perturbation; refuses choices that no theorem covers."""
    if not callable(solver) or isinstance(solver, type):
        raise ArgumentError(f"solver={show(solver)}: solver takes a minimiser such as Newton().")
    find_mechanism(request)
    target = request.target
    about_persons = target.neighbours is REPLACE_PERSON
    if rp_dim and (do_scale == "private" or request.pays_for_scale):
        asked = "do_scale='private'" if do_scale == "private" else "spend={'scale': ...}"
        raise ArgumentError(
            f"rp_dim={rp_dim} and {asked}: rows whose scale is released cannot be projected, too."
        )
    if isinstance(do_scale, bool) and request.pays_for_scale:
        raise ArgumentError(
            f"do_scale={do_scale} and spend={{'scale': ...}}: a scale that is not released takes "
            "no share; take do_scale='private', or no share for the scale."
        )

    def facts(n: int, spec: Any) -> Problem:
        if (spec.formula.person is not None) is not about_persons:
            says = "has no person(...)" if about_persons else "says who records are of"
            raise GuaranteeError(
                f"person: the formula {says}, and the guarantee is about neighbours that "
                f"{target.neighbours.value}; this takes both to be about persons, or neither."
            )
        moved = {"weighted": spec.weighted, "offset": spec.offset_bound}
        if prior is not None:
            held = most_stiffness(spec, standardised=spec.standard is not None)
            moved |= {"centre": LONGEST_MARGIN / spec.radius, "stiffness": held}
        who: dict[str, Any] = {"persons": about_persons, "touched": spec.touched}
        if spec.response.kind == "classes":
            who["classes"] = require_few(spec.d, len(spec.response.levels))
        return Problem(n, spec.d, loss, spec.radius, spec.blocks, **moved, **who)

    def standard(price: Guarantee, way: Any, declared: Any, n: int) -> tuple[Any, Any]:
        promise, kinds = way
        bought = request.buys_intervals
        length, unit = usual_rows(loss, n, declared.d, promise, has_intervals=bought)
        if schema.row_norm is not None:
            length, unit = schema.row_norm, False
        spec = plan_standard(
            declared,
            pure=isinstance(promise, PureDP),
            length=length,
            unit=unit,
            weighted=counts_long_rows_less(loss),
            intercept_scale=schema.intercept_scale or usual_intercept(promise, bought),
        )
        held, constant = spec.standard, spec.intercept or 0.0
        assert held is not None
        floor, whose = scale_floor(loss), about_persons
        columns = ScaleFacts(n, held.groups, held.centred, floor, constant, persons=whose)
        asked = replace(request, target=promise, kinds=kinds)
        return spec, replace(calibrate_all(asked, facts(n, spec), columns), target=price)

    def ways(*laws: Kinds, columns: ScaleFacts | None = None) -> tuple[Any, ...]:
        price = target if columns is None else deciding_price(columns, target)
        promises = promises_for(replace(request, target=price))
        return tuple(partial(standard, price, way) for way in product(promises, laws))

    stages = partial(calibrate_all, request), draw_all, partial(release_all, solver=solver)
    method = Method(results.Fit, loss, target, facts, *stages, buys_roc=request.buys_roc)
    match do_scale:
        case "private":
            released = not isinstance(target, NonPrivate)
        case None:
            plain = schema.row_norm is None and rp_dim == 0
            released = request.pays_for_scale or (request.may_scale and plain)
        case _:
            released = False
    if not released:
        return method
    optional = do_scale is None and not request.pays_for_scale
    several = isinstance(target, ApproxDP) and not request.kinds
    laws = (GAUSSIAN, LAPLACE) if several else (request.kinds,)
    rivals = partial(ways, *laws) if optional else None
    return replace(method, standard=ways(request.kinds), if_worth_it=rivals)


MOST_COEFFICIENTS = 500
"""Largest number of coefficients of several classes, whose minima are certified in balls."""


def require_few(d: int, classes: int) -> int:
    """Return the number of classes; raise `ArgumentError` for more coefficients than that."""
    if d * classes > MOST_COEFFICIENTS:
        raise ArgumentError(
            f"formula: {d} columns are too many for so many classes; dpmultinom takes up to "
            f"{MOST_COEFFICIENTS} coefficients, one for each column and class: leave out terms."
        )
    return classes
