"""A mechanism as a call asks for it, with all that is known before the data is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    promises_for,
    relative_noise,
    release_all,
)
from privatelr.mechanisms.calibration import GAUSSIAN, LAPLACE, Kinds, nominal_epsilon
from privatelr.mechanisms.request import SCALE
from privatelr.mechanisms.stages.lengths import longer_records
from privatelr.mechanisms.stages.scale import (
    ScaleFacts,
    deciding_price,
    is_worth_it,
    scale_floor,
    usual_intercept,
    usual_rows,
)
from privatelr.numerics import Loss
from privatelr.numerics.solve import Newton
from privatelr.privacy import REPLACE_PERSON, ApproxDP, Guarantee, PureDP
from privatelr.privacy.noise import Randomness
from privatelr.sources import Schema

Planned = tuple[Any, Any]
"""The plan of the rows that are fitted, and the calibration of all stages."""
Way = tuple[Guarantee, Kinds]
"""The promise for which stages are calibrated, and the laws of noise of the coefficients."""
MOST_COEFFICIENTS = 500
"""Largest number of coefficients of several classes, whose minima are certified in balls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """The mechanism that a function such as `dplr` uses, set up before the data is seen.

    Attributes
    ----------
    loss : Loss
    target : Guarantee
    draw : callable
        Takes a calibration and a source of randomness; returns the noise of a release.
    release : callable
        Takes rows, a calibration and its noise; returns a release.
    by_entries : bool
        Whether the entries of rows are bounded instead of their length.
    by_class : bool
        Whether each level of the response is a class of its own, so that there are no scores of
        records by which diagnostics or a threshold are found.
    buys_roc : bool
        Whether the scores of the rows are counted, so that thresholds are learned from what is
        paid for.
    standardises : bool
        Whether rows may be standardised by a released scale, so that `row_norm` limits them then.
    """

    loss: Loss
    target: Guarantee
    draw: Callable[[Any, Randomness], Any]
    release: Callable[..., Any]
    by_entries: bool = False
    by_class: bool = False
    buys_roc: bool = False
    standardises: bool = False

    def planned(self, declared: Any, n: int) -> Planned:
        """Plan the rows and calibrate all stages, from the plan of declared rows; takes no data."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbation(Method):
    """Objective or output perturbation.

    Attributes
    ----------
    request : Request
    schema : Schema
    is_optional : bool
        Whether the scale is left out if the plan cannot have it or its noise is too large.
    prior : object
        What the penalty draws to, if that is not zero.
    """

    request: Request
    schema: Schema
    is_optional: bool = False
    prior: Any = None

    def facts(self, n: int, spec: RowSpec) -> Problem:
        """Return the public facts about the rows of a plan."""
        about_persons = self.target.neighbours is REPLACE_PERSON
        if (spec.formula.person is not None) is not about_persons:
            says = "has no person(...)" if about_persons else "says who records are of"
            raise GuaranteeError(
                f"person: the formula {says}, and the guarantee is about neighbours that "
                f"{self.target.neighbours.value}; this takes both to be about persons, or neither."
            )
        beside: dict[str, Any] = {}
        if self.prior is not None:
            held = most_stiffness(spec, standardised=spec.standard is not None)
            beside = {"centre": LONGEST_MARGIN / spec.radius, "stiffness": held}
        if spec.response.kind == "classes":
            beside["classes"] = len(spec.response.levels)
            if spec.d * beside["classes"] > MOST_COEFFICIENTS:
                raise ArgumentError(
                    f"formula: {spec.d} columns are too many for so many classes; dpmultinom takes "
                    f"up to {MOST_COEFFICIENTS} coefficients, one for each column and class: leave "
                    "out terms."
                )
        return Problem(
            n,
            spec.d,
            self.loss,
            spec.radius,
            spec.blocks,
            weighted=spec.weighted,
            offset=spec.offset_bound,
            persons=about_persons,
            touched=spec.touched,
            **beside,
        )

    def planned(self, declared: Any, n: int) -> Planned:
        """Plan standardised rows if the scale is released, and otherwise the declared ones."""
        found = self.standardised(declared, n) if self.standardises else None
        return found or (declared, calibrate_all(self.request, self.facts(n, declared)))

    def standardised(self, declared: Any, n: int) -> Planned | None:
        """Plan standardised rows in the way with the least noise for them.

        The result is None if the scale is optional and not worth its price. As the price rises,
        ways overtake each other that have more and less noise on the scale. So one of them decides
        at all prices, the one that is best at a certain public price. If a scale is released at one
        price, then also at every larger one.
        """
        request, target = self.request, self.target
        ways = list(product(promises_for(request), (request.kinds,)))
        found, refusal = self.tried(declared, n, ways)
        if refusal is not None and not found and not self.is_optional:
            raise refusal
        least = partial(min, key=lambda planned: relative_noise(planned[1]), default=None)
        best: Planned | None = least(found.values())
        if best is None or not self.is_optional:
            return best
        laws: tuple[Kinds, ...] = (request.kinds,)
        if isinstance(target, ApproxDP) and not request.kinds:
            laws = GAUSSIAN, LAPLACE
            found = self.tried(declared, n, product(promises_for(request), laws))[0]
        plan, by_intervals = best[1], request.buys_intervals
        worth = {
            way: planned
            for way, planned in found.items()
            if is_worth_it(planned[1].parts[SCALE], by_intervals)
        }
        if not worth or len(worth) == len(found):
            return best if worth else None
        price = deciding_price(plan.parts[SCALE].facts, target)
        rivals = product(promises_for(replace(request, target=price)), laws)
        usual = self.tried(declared, n, rivals, price)[0]
        decisive = min(usual, key=lambda way: relative_noise(usual[way][1]), default=None)
        if decisive not in worth or is_worth_it(plan.parts[SCALE], by_intervals):
            return best if decisive in worth else None
        if nominal_epsilon(plan.target) < nominal_epsilon(usual[decisive][1].target):
            return None
        chosen: Planned = least(worth.values())
        return chosen

    def tried(
        self, declared: Any, n: int, ways: Iterable[Way], price: Guarantee | None = None
    ) -> tuple[dict[tuple[type, Kinds], Planned], Exception | None]:
        """Plan standardised rows in each way that is possible, and return the first refusal.

        What is possible is returned by the kind of the promise and the laws.
        """
        found, refusal = dict[tuple[type, Kinds], Planned](), None
        loss, schema, request = self.loss, self.schema, self.request
        for promise, kinds in ways:
            length, unit = usual_rows(loss, n, declared.d, promise)
            if schema.row_norm is not None:
                length, unit = schema.row_norm, False
            constant = schema.intercept_scale or usual_intercept(promise, request.buys_intervals)
            try:
                spec = plan_standard(
                    declared,
                    pure=isinstance(promise, PureDP),
                    length=length,
                    unit=unit,
                    weighted=loss.probability is not None,
                    intercept_scale=constant,
                )
                held = spec.standard
                assert held is not None
                columns = ScaleFacts(
                    n,
                    held.groups,
                    held.centred,
                    scale_floor(loss),
                    spec.intercept or 0.0,
                    persons=self.target.neighbours is REPLACE_PERSON,
                    longer=None if length is not None else longer_records(declared.d, promise),
                )
                asked = replace(request, target=promise, kinds=kinds)
                staged = calibrate_all(asked, self.facts(n, spec), columns)
            except (SchemaError, GuaranteeError) as error:
                refusal = refusal or error  # no column to scale, or a price that is too small
            else:
                found[type(promise), kinds] = spec, replace(staged, target=price or self.target)
        return found, refusal


def perturbation(
    loss: Loss,
    request: Request,
    schema: Schema,
    do_scale: bool | str | None,
    rp_dim: int = 0,
    solver: Any = Newton(),
    prior: Any = None,
) -> Perturbation:
    """Set up objective or output perturbation; refuses choices that no theorem covers."""
    if not callable(solver) or isinstance(solver, type):
        raise ArgumentError(f"solver={show(solver)}: solver takes a minimiser such as Newton().")
    pays = request.target.is_private and SCALE in request.shares
    if rp_dim and (do_scale == "private" or pays):
        asked = "do_scale='private'" if do_scale == "private" else "spend={'scale': ...}"
        raise ArgumentError(
            f"rp_dim={rp_dim} and {asked}: rows whose scale is released cannot be projected, too."
        )
    if isinstance(do_scale, bool) and pays:
        raise ArgumentError(
            f"do_scale={do_scale} and spend={{'scale': ...}}: a scale that is not released takes "
            "no share; take do_scale='private', or no share for the scale."
        )
    plain = schema.row_norm is None and rp_dim == 0
    optional = do_scale is None and not pays
    forced = pays or (do_scale == "private" and request.target.is_private)
    return Perturbation(
        loss=loss,
        target=request.target,
        draw=draw_all,
        release=partial(release_all, solver=solver),
        buys_roc=request.buys_roc,
        standardises=forced or (optional and request.may_scale and plain),
        request=request,
        schema=schema,
        is_optional=optional,
        prior=prior,
    )
