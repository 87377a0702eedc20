"""The table of mechanisms: one for each placement and kind of guarantee.

Every loss goes with every row of the table, and the tests of the laws run over all rows. To add a
mechanism, write its formulas in `privatelr.mechanisms.calibration` and its release in
`privatelr.mechanisms.perturbation`, and list both here.

A price may pay for four releases: the scale of the columns, the coefficients, the matrices that
inference needs, and counts of scores for a ROC curve. Each sees those before it as public, so their
guarantees add up (adaptive composition).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import (
    GAUSSIAN,
    Calibration,
    MomentsCalibration,
    ScaleCalibration,
    ScaleFacts,
    calibrate_moments,
    calibrate_objective,
    calibrate_output,
    calibrate_plain,
    calibrate_scale,
    is_worth_it,
    lambda_rules,
    proven,
)
from privatelr.mechanisms.perturbation import (
    Draws,
    Release,
    draw,
    release_minimiser,
    release_moments,
    release_plain,
)
from privatelr.mechanisms.price_shares import divide
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.request import SMALLEST_EPSILON, Request, require_usual
from privatelr.mechanisms.score_histogram import HistogramCalibration, calibrate_histogram
from privatelr.numerics.solve import Solver
from privatelr.privacy import (
    ZCDP,
    ApproxDP,
    Event,
    Guarantee,
    NonPrivate,
    Promise,
    PureDP,
    pure_within,
)
from privatelr.privacy.noise import Randomness, mean_square
from privatelr.types import FloatArray, Placement, Rows

_SMALLEST = 1e-12
"""A second moment of a column is at least this where one divides by it."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """Two functions: one calibrates a request, the other releases under the calibration.

    Examples
    --------
    >>> from privatelr import PureDP
    >>> from privatelr.mechanisms import mechanism_of
    >>> mechanism = mechanism_of("objective", PureDP(1.0))
    >>> mechanism.calibrate.__name__, mechanism.release.__name__
    ('calibrate_objective', 'release_minimiser')
    """

    calibrate: Callable[[Problem, Request, str], Calibration]
    release: Callable[..., Release]


MECHANISMS: dict[tuple[Placement, type[Any]], Mechanism] = {
    ("objective", PureDP): Mechanism(calibrate_objective, release_minimiser),
    ("objective", ZCDP): Mechanism(calibrate_objective, release_minimiser),
    ("objective", ApproxDP): Mechanism(calibrate_objective, release_minimiser),
    ("output", PureDP): Mechanism(calibrate_output, release_minimiser),
    ("output", ZCDP): Mechanism(calibrate_output, release_minimiser),
    ("output", ApproxDP): Mechanism(calibrate_output, release_minimiser),
    ("objective", NonPrivate): Mechanism(calibrate_plain, release_plain),
    ("output", NonPrivate): Mechanism(calibrate_plain, release_plain),
}


def find_mechanism(request: Request) -> Mechanism:
    """Return the mechanism for a request; raise `GuaranteeError` if none is proven.

    Examples
    --------
    >>> from privatelr.mechanisms import find_mechanism, read_request
    >>> request = read_request(1.0, 0, None, None, True, None, "increase")
    >>> find_mechanism(request).release.__name__
    'release_minimiser'
    """
    return mechanism_of(request.placement, request.target)


def mechanism_of(placement: Placement, target: Guarantee) -> Mechanism:
    """Return the mechanism for a guarantee; a shared one is approximate.

    Examples
    --------
    >>> from privatelr import ApproxDP, PureDP
    >>> from privatelr.mechanisms import mechanism_of
    >>> mechanism_of("output", PureDP(1.0)) is mechanism_of("output", ApproxDP(1.0, 1e-6))
    False
    >>> mechanism_of("output", PureDP(1.0)).calibrate.__name__
    'calibrate_output'
    """
    key = (placement, ApproxDP if isinstance(target, ApproxDP) else type(target))
    if key not in MECHANISMS:
        raise GuaranteeError(f"{placement} perturbation is not available under {target}.")
    return MECHANISMS[key]


def calibrate(request: Request, facts: Problem) -> Calibration:
    """Choose lambda by its rule, if one was asked for, and calibrate; takes no data."""
    mechanism, target, asked = find_mechanism(request), request.target, request.lambda_
    if isinstance(target, NonPrivate):
        if not isinstance(asked, str):
            return mechanism.calibrate(facts.with_lambda(asked), request, "as given")
        plain = facts.with_lambda(lambda_rules.PLAIN_LAMBDA)
        return mechanism.calibrate(plain, request, "the default of a plain fit")
    analysis = proven(request.analysis, facts.loss)
    known = facts, target, analysis, request.placement
    rules = lambda_rules.all_rules(*known, request.kinds)
    if not isinstance(asked, str):
        problem, origin = facts.with_lambda(asked), "as given"
    else:
        if asked not in rules:  # raise the error that says why the rule has no answer
            lambda_rules.lambda_by_rule(asked, *known)
        problem = facts.with_lambda(rules[asked])
        origin = lambda_rules.origin_of(asked, rules, *known)
        if asked != "PrivateLR" and analysis != "cms11":  # R's rule may give too small a lambda
            request = replace(request, on_small_lambda="keep")
    found = mechanism.calibrate(problem, request, origin)
    return replace(found, lambda_rules=tuple(rules.items()))


Stage = ScaleCalibration | Calibration | MomentsCalibration | HistogramCalibration


@dataclass(frozen=True, slots=True)
class StagedCalibration:
    """All numbers of all stages of a fit, computed before any data is touched.

    Examples
    --------
    >>> from privatelr import plan
    >>> study = plan("ill ~ age", n=5_000, eps=1.0, bounds={"age": (18, 99)})
    >>> for stage in study.calibration.stages:
    ...     print(type(stage).__name__, stage.target)
    ScaleCalibration epsilon = 0.1 (pure)
    Calibration epsilon = 0.585 (pure)
    MomentsCalibration epsilon = 0.315 (pure)
    """

    target: Guarantee
    mechanism: Mechanism
    coefficients: Calibration
    moments: MomentsCalibration | None
    scale: ScaleCalibration | None = None
    histogram: HistogramCalibration | None = None
    request: Request | None = None
    """What these stages alone are calibrated for: the promise, and the laws of the chosen way."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages in the order of their releases."""
        order = (self.scale, self.coefficients, self.moments, self.histogram)
        return tuple(stage for stage in order if stage)

    @property
    def is_scale_worth_it(self) -> bool:
        """Whether the noise on the scale is so small that the other stages profit."""
        has_intervals = self.moments is not None
        return self.scale is not None and is_worth_it(self.scale, has_intervals)

    @property
    def proven(self) -> Guarantee:
        """The guarantee that all the noise is proven to give together; see `Calibration.proven`."""
        parts = [stage.proven for stage in self.stages]
        if isinstance(self.target, ApproxDP) and all(isinstance(part, PureDP) for part in parts):
            return PureDP(self.target.epsilon, self.target.neighbours)
        if isinstance(self.target, ZCDP) and all(
            isinstance(stage.target, PureDP) for stage in self.stages
        ):
            return PureDP(pure_within(self.target.rho), self.target.neighbours)
        return self.target

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that a ledger composes for all stages; none for a rho that is charged itself.

        Pure stages that imply a rho together are divided by epsilon, so that what a ledger makes of
        each by itself is too little.
        """
        if isinstance(self.target, ZCDP) and isinstance(self.proven, PureDP):
            return ()
        return tuple(event for stage in self.stages for event in stage.events)

    def __str__(self) -> str:
        return "\n".join(map(str, self.stages))


def calibrate_all(
    request: Request, facts: Problem, scale: ScaleFacts | None = None
) -> StagedCalibration:
    """Divide the price and calibrate every stage; takes no data.

    The scale of columns is released first where facts about them are given. Of several ways to
    divide the price, the one with the least noise on the coefficients is taken.

    Examples
    --------
    >>> from privatelr.mechanisms import Problem, calibrate_all, read_request
    >>> from privatelr.numerics import find_loss
    >>> request = read_request(1.0, 0, "inference", None, True, None, "increase")
    >>> facts = Problem(n=5_000, d=3, loss=find_loss("logistic"), radius=1.0)
    >>> staged = calibrate_all(request, facts)
    >>> for stage in staged.stages:
    ...     print(stage.target, stage.noise.title, f"{stage.noise.scale:.3g}")
    epsilon = 0.65 (pure) spherical Laplace 3.11
    epsilon = 0.35 (pure) spherical Laplace 0.000209
    """
    found, refusal = [], GuaranteeError("spend: no noise is proven for these shares.")
    for parts, meant in divide(request.target, request.spend, facts.loss, scaled=scale is not None):
        kinds = tuple(kind for kind in meant if not request.kinds or kind in request.kinds)
        is_pure = _promise_of(request.target, parts["coefficients"]) != request.target
        if (meant and not kinds) or (is_pure and request.kinds):  # laws are those of a shared delta
            continue
        asked = replace(request, target=parts["coefficients"], kinds=kinds or request.kinds)
        try:
            require_usual(parts)
            coefficients, first, last, counts = calibrate(asked, facts), None, None, None
            if scale is not None:
                first = calibrate_scale(scale, cast("Promise", parts["scale"]))
            beside = GAUSSIAN if meant else request.kinds  # stages that share a delta
            if "roc" in parts:
                counts = calibrate_histogram(facts.n, parts["roc"], beside, facts.moved)
            if "inference" in parts:
                usual = None if first is None else first.typical
                last = calibrate_moments(coefficients.problem, parts["inference"], beside, usual)
        except GuaranteeError as error:
            refusal = error
        else:
            mechanism = find_mechanism(asked)
            stages = coefficients, last, first, counts
            meant_for = replace(asked, target=_promise_of(request.target, asked.target))
            found.append(StagedCalibration(request.target, mechanism, *stages, meant_for))
    if not found:
        raise refusal
    return found[0] if len(found) == 1 else min(found, key=_noise)


def _promise_of(target: Guarantee, part: Guarantee) -> Guarantee:
    """Return what a target was divided as: pure epsilon where its parts are pure."""
    if isinstance(target, ApproxDP) and isinstance(part, PureDP):
        return PureDP(target.epsilon, target.neighbours)
    return target


def _noise(plan: StagedCalibration) -> float:
    """Mean square length of the noise of the coefficients, as that of a tilt."""
    found = plan.coefficients
    slope = 1.0 if found.placement == "objective" else found.problem.penalty
    return slope * slope * mean_square(found.noise)


def promises_for(request: Request) -> tuple[Guarantee, ...]:
    """The target, and a pure guarantee that implies it: factors have less noise under it.

    The matrices of inference have more, and under zCDP the counts of scores, so that beside them it
    is not tried.

    Examples
    --------
    >>> from privatelr.mechanisms import promises_for, read_request
    >>> request = read_request(1.0, 1e-6, None, None, True, None, "increase")
    >>> for promise in promises_for(request):
    ...     print(promise)
    epsilon = 1, delta = 1e-06 (approximate)
    epsilon = 1 (pure)
    """
    target = request.target
    noisier = request.buys_roc and isinstance(target, ZCDP)
    if request.kinds or request.buys_intervals or noisier:
        return (target,)
    match target:
        case ApproxDP(epsilon=epsilon) if epsilon >= SMALLEST_EPSILON:
            return target, PureDP(epsilon, target.neighbours)
        case ZCDP(rho=rho) if pure_within(rho) >= SMALLEST_EPSILON:
            return target, PureDP(pure_within(rho), target.neighbours)
    return (target,)


def relative_noise(plan: StagedCalibration) -> float:
    """Return the noise of the coefficients of standardised columns, for the spread of these.

    It adds up the variances of a tilt over the second moments that the map gives to columns:
    together 1, or 1 for a number under pure epsilon, where other columns have their factor. Noise
    on the minimiser counts by the margins of such rows. The intercept is left out.

    Examples
    --------
    >>> from privatelr import plan
    >>> from privatelr.mechanisms import relative_noise
    >>> public = {"n": 5_000, "bounds": {"age": (18, 99)}, "do_scale": "private"}
    >>> plans = [plan("ill ~ age", eps=eps, **public).calibration for eps in (1.0, 2.0)]
    >>> relative_noise(plans[0]) > relative_noise(plans[1])
    True
    """
    scale, noise = plan.scale, plan.coefficients.noise
    assert scale is not None
    facts = scale.facts
    if scale.of_numbers:
        moments = [
            1.0 if group.kind == "number" else group.usual**2 / (group.size + 1)
            for group in facts.groups
            for _ in range(group.size)
        ]
    else:
        moments = [1.0 / facts.p] * facts.p
    variances = noise.variances.tolist()[-facts.p :]  # that of the intercept is no slope's
    spread = [max(moment, _SMALLEST) for moment in moments]
    carried = spread if plan.coefficients.placement == "output" else [1 / each for each in spread]
    return math.fsum(v * by for v, by in zip(variances, carried, strict=True))


def draw_all(plan: StagedCalibration, randomness: Randomness) -> Draws:
    """Draw all the noise of a calibration, once.

    Examples
    --------
    >>> from privatelr import plan
    >>> from privatelr.mechanisms import draw_all
    >>> from privatelr.privacy.noise import SystemRandomness
    >>> study = plan("ill ~ age", n=5_000, eps=1.0, bounds={"age": (18, 99)}, do_scale=False)
    >>> draws = draw_all(study.calibration, SystemRandomness())
    >>> draws.moments is not None, draws.scale is None  # intervals are bought, no scale
    (True, True)
    """
    moments = randomness.draw(plan.moments.noise) if plan.moments else None
    scale = randomness.draw(plan.scale.noise) if plan.scale else None
    counts = randomness.draw(plan.histogram.noise) if plan.histogram else None
    made = draw(plan.coefficients, randomness)
    return replace(made, moments=moments, scale=scale, histogram=counts)


def release_all(
    rows: Rows,
    plan: StagedCalibration,
    draws: Draws,
    solver: Solver,
    centre: FloatArray | None = None,
    stiff: FloatArray | None = None,
) -> Release:
    """Release the coefficients, and at them the moments if they were requested.

    If `plan` has a scale, it was released before, and the rows are those that it standardised.
    Counts of scores come last, by `release_scores`: their bins follow from the coefficients. The
    penalty draws to `centre` ``(d,)``, which is public, and by default zero; `stiff` ``(k, d)`` is
    that of `release_minimiser`.

    Notes
    -----
    **Privacy.** *Covered*: everything in the release, by ``plan.target``. *Neighbours*: replace
    one record. *Assumed public*: everything in `plan`. *Not covered*: time and memory.
    """
    drawn = {} if centre is None else {"centre": centre, "stiff": stiff}
    released = plan.mechanism.release(rows, plan.coefficients, draws, solver, **drawn)
    released = replace(released, guarantee=plan.target, request=plan.request)
    if plan.moments is None or draws.moments is None:
        return released
    moments = release_moments(rows, released.coef, plan.moments, draws.moments)
    return replace(released, moments=moments)
