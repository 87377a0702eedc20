"""A mechanism as a call asks for it, with all that is known before the data is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from privatelr.design import LONGEST_MARGIN, RowSpec, most_stiffness, plan_standard
from privatelr.errors import ArgumentError, GuaranteeError, SchemaError, show
from privatelr.mechanisms import (
    Problem,
    Request,
    calibrate_all,
    draw_all,
    mechanism_of,
    promises_for,
    relative_noise,
    release_all,
)
from privatelr.mechanisms.calibration import GAUSSIAN, LAPLACE, Kinds, nominal_epsilon
from privatelr.mechanisms.stages.lengths import longer_records
from privatelr.mechanisms.stages.scale import (
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

Way = Callable[[Any, int], tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class Method:
    """The mechanism that a function such as `dplr` uses, set up before the data is seen.

    Attributes
    ----------
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

    loss: Loss
    target: Guarantee
    facts: Callable[[int, Any], Any]
    calibrate: Callable[..., Any]
    draw: Callable[[Any, Randomness], Any]
    release: Callable[..., Any]
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
) -> Method:
    """Set up objective or output perturbation; refuses choices that no theorem covers."""
    if not callable(solver) or isinstance(solver, type):
        raise ArgumentError(f"solver={show(solver)}: solver takes a minimiser such as Newton().")
    mechanism_of(request.placement, request.target)
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

    def facts(n: int, spec: RowSpec) -> Problem:
        if (spec.formula.person is not None) is not about_persons:
            says = "has no person(...)" if about_persons else "says who records are of"
            raise GuaranteeError(
                f"person: the formula {says}, and the guarantee is about neighbours that "
                f"{target.neighbours.value}; this takes both to be about persons, or neither."
            )
        moved: dict[str, Any] = {"weighted": spec.weighted, "offset": spec.offset_bound}
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
        length, unit = usual_rows(loss, n, declared.d, promise)
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
        columns = ScaleFacts(
            n,
            held.groups,
            held.centred,
            scale_floor(loss),
            constant,
            persons=about_persons,
            longer=longer_records(declared.d, promise) if length is None else None,
        )
        asked = replace(request, target=promise, kinds=kinds)
        return spec, replace(calibrate_all(asked, facts(n, spec), columns), target=price)

    def ways(*laws: Kinds, columns: ScaleFacts | None = None) -> tuple[Any, ...]:
        price = target if columns is None else deciding_price(columns, target)
        promises = promises_for(replace(request, target=price))
        return tuple(partial(standard, price, way) for way in product(promises, laws))

    stages = partial(calibrate_all, request), draw_all, partial(release_all, solver=solver)
    method = Method(loss, target, facts, *stages, buys_roc=request.buys_roc)
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


_Made = tuple[Any, Any]
"""A plan and its calibration."""


def standardised(method: Method, declared: Any, n: int) -> _Made | None:
    """Plan and calibrate standardised rows; takes no data.

    Of several ways the one with the least noise for its rows is taken.

    Returns
    -------
    The plan and the calibration, or None if the scale of the columns is not released.
    """
    found, refusal = _tried(method.standard, declared, n)
    if refusal is not None and not found and method.if_worth_it is None:
        raise refusal
    best = min(found.values(), key=lambda made: relative_noise(made[1]), default=None)
    if best is None or method.if_worth_it is None:
        return best
    rivals = method.if_worth_it()
    if len(rivals) != len(method.standard):  # otherwise they are the ways that were tried
        found = _tried(rivals, declared, n)[0]
    return _if_worth_it(best, found, method.if_worth_it, declared, n)


def _tried(
    ways: tuple[Way, ...], declared: Any, n: int
) -> tuple[dict[int, _Made], Exception | None]:
    """Return what can be made, by its place, and the first refusal."""
    found, refusal = dict[int, _Made](), None
    for place, way in enumerate(ways):
        try:
            found[place] = way(declared, n)
        except (SchemaError, GuaranteeError) as error:
            refusal = refusal or error  # no column to scale, or a price that is too small
    return found, refusal


def _if_worth_it(
    best: _Made, found: dict[int, _Made], rivals: Any, declared: Any, n: int
) -> _Made | None:
    """Return the way with the least noise if it is worth its price, or None to leave it out.

    As the price rises, ways overtake each other that have more and less noise on the scale. So one
    of them decides at all prices, the one that is best at a certain public price. If a scale is
    released at one price, then also at every larger one.
    """
    plan = best[1]
    worth = {place: made for place, made in found.items() if made[1].is_scale_worth_it}
    if not worth or len(worth) == len(found):
        return best if worth else None
    usual = _tried(rivals(columns=plan.scale.facts), declared, n)[0]
    place = min(usual, key=lambda place: relative_noise(usual[place][1]), default=-1)
    if place not in worth or plan.is_scale_worth_it:
        return best if place in worth else None
    if nominal_epsilon(plan.target) < nominal_epsilon(usual[place][1].target):
        return None
    return min(worth.values(), key=lambda made: relative_noise(made[1]))


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
