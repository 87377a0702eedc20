"""Objective and output perturbation as a `Method`: what `dplr` and `dpsvm` have in common."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from privatelr.design import plan_standard
from privatelr.errors import ArgumentError, GuaranteeError, show
from privatelr.fitting import DoScale, Method
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
from privatelr.results import Fit
from privatelr.sources import Schema


def perturbation(
    loss: Loss,
    request: Request,
    schema: Schema,
    do_scale: DoScale,
    rp_dim: int = 0,
    solver: Any = Newton(),
) -> Method[Fit]:
    """Set up objective or output perturbation; refuses choices that no theorem covers."""
    if not callable(solver) or isinstance(solver, type):
        raise ArgumentError(f"solver={show(solver)}: solver takes a minimiser such as Newton().")
    find_mechanism(request)
    target = request.target
    about_persons = target.neighbours is REPLACE_PERSON
    if about_persons:
        _require_built(request, do_scale)
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
        who = {"persons": about_persons}
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
        columns = ScaleFacts(n, held.groups, held.centred, scale_floor(loss), constant)
        asked = replace(request, target=promise, kinds=kinds)
        return spec, replace(calibrate_all(asked, facts(n, spec), columns), target=price)

    def ways(*laws: Kinds, columns: ScaleFacts | None = None) -> tuple[Any, ...]:
        price = target if columns is None else deciding_price(columns, target)
        promises = promises_for(replace(request, target=price))
        return tuple(partial(standard, price, way) for way in product(promises, laws))

    stages = partial(calibrate_all, request), draw_all, partial(release_all, solver=solver)
    method = Method(Fit, loss, target, facts, *stages, buys_roc=request.buys_roc)
    match do_scale:
        case "private":
            released = not isinstance(target, NonPrivate)
        case None:
            plain = schema.row_norm is None and rp_dim == 0 and not about_persons
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


def _require_built(request: Request, do_scale: DoScale) -> None:
    """Refuse what is not built for persons; raises `GuaranteeError`."""
    wanted = {
        "do_scale='private'": do_scale == "private" or request.pays_for_scale,
        "spend='inference'": request.buys_intervals,
        "spend={'roc': ...}": request.buys_roc,
    }
    for asked, is_asked in wanted.items():
        if is_asked:
            raise GuaranteeError(
                f"person and {asked}: a person may have several records, and for this each record "
                "would count; person takes coefficients alone."
            )
