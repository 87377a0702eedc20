"""Calibrations are recomputed here: by their theorems, by dp-accounting, and by OpenDP."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
from scipy import special

from privatelr import mechanisms
from privatelr.audit import checks, worth
from privatelr.audit.checks import MISSING, Check, Setting, claims_of_size, guarded, short
from privatelr.audit.density.exact import candidate_margins
from privatelr.mechanisms import Spend
from privatelr.mechanisms.calibration import GAUSSIAN, LAPLACE, laws_hiding
from privatelr.mechanisms.calibration.lambda_rules import Kinds
from privatelr.mechanisms.stages.scale import ScaleFacts
from privatelr.numerics import LOSSES
from privatelr.privacy import (
    ZCDP,
    ApproxDP,
    Promise,
    PureDP,
    TiltEvent,
    guarantees,
    renyi,
    to_approximate,
    to_zcdp,
)
from privatelr.privacy.accounting import Ledger
from privatelr.privacy.events import tilt_survival
from privatelr.privacy.noise import gaussian_epsilon
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism
from privatelr.selection import constraint_private, multiplicative_weights, thesis
from privatelr.selection.online import RELATIONS, OnlineProblem, calibrate_online
from privatelr.types import Block, ColumnGroup, Placement

_SLACK, _DELTA = 1e-6, 1e-6
_USUAL, _RUNS = 1e-4, (1, 10, 100, 1000)
"""The published program is checked at this delta, with these numbers of rounds."""
_STEP, _BY_STEPS = 2.0**-16, 1e-6
"""Derivatives are differences of values this far to both sides of a margin, and are accepted up to
this relative error."""
_SETTINGS = (
    Setting(),
    Setting(12.0, 4.0, checks.INTERCEPT_AND_SLOPE),
    Setting(0.1, 0.25, checks.INTERCEPT_FACTOR_SLOPE),
    Setting(2.0, 1.0, checks.INTERCEPT_SLOPE_BALL),
    Setting(12.0),
    Setting(12.0, 4.0, checks.INTERCEPT_AND_SLOPE, persons=True),
    Setting(0.1, 0.25, persons=True),
)
_KINDS = (GAUSSIAN, LAPLACE)
_NUMBER = ColumnGroup(1, "number")
_FACTORS = (_NUMBER, ColumnGroup(3, "indicators"), ColumnGroup(4, "indicators"))
_GROUPS = {
    "objective": (_NUMBER, ColumnGroup(3, "indicators"), ColumnGroup(4, "product", 1.4, 1.0)),
    "output": _FACTORS,
}
"""Columns whose scale is released; records do not attain the bound of the product."""
_FACTS = mechanisms.Problem(10**6, 8, LOSSES["logistic"], 3.0)
_BLOCKS = (Block(1, 0.5), Block(2, 1.0), Block(1, 0.7, "l2"), Block(1, 0.7, "l2"))
_WHOSE = {
    "records": _FACTS,
    "records of strata": replace(_FACTS, touched=2),
    "persons": replace(_FACTS, persons=True),
    "persons of strata": replace(_FACTS, persons=True, touched=3),
    **{f"{k} classes": replace(_FACTS, classes=k) for k in (3, 7)},
    "persons of classes": replace(_FACTS, classes=3, persons=True),
}
"""Whom plans of all stages are about."""
_SPENDS: dict[str, Spend] = {
    "coefficients": mechanisms.ALL_FOR_COEFFICIENTS,
    "inference": "inference",
    "counts": (("coefficients", 0.75), ("roc", 0.25)),
    "scale": (("scale", 0.1), ("coefficients", 0.5), ("inference", 0.3), ("roc", 0.1)),
}
"""What they release."""
_SIZES = (0.3, 1.0, 3.0)
"""Calibrations are recomputed at these multiples of the requested epsilon."""
_Claims = tuple[Promise, ...]


def audit_noise(epsilon: float, only: str = "*") -> Iterator[Check]:
    """A check for each mechanism and claim: the largest share of the claim that it spends.

    Only subjects that match the pattern `only` are checked; its wildcards are those of file names.
    """
    sizes = zip(*(claims_of_size(size * epsilon) for size in _SIZES), strict=True)
    named = list(zip(map(short, claims_of_size(epsilon)), sizes, strict=True))

    def checked(subject: str, work: Callable[..., Iterator[Check]], *given: Any) -> Iterator[Check]:
        yield from checks.guarded("noise", subject, work, subject, *given, only=only)

    for (placement, kind), (claim, claims) in product(mechanisms.MECHANISMS, named):
        if isinstance(claims[0], kind):
            yield from checked(f"{placement}, {claim}", _coefficients, placement, claims)
    for (what, spend), (claim, claims) in product(_SPENDS.items(), named):
        yield from checked(f"{what}, {claim}", _stages, spend, claims)
    for what, made in (("columns", _columns), ("experts", _experts), ("corners", _corners)):
        for claim, claims in named:
            yield from checked(f"choices of {what}, {claim}", _choices, made, claims)
    yield from checked("conversions", _conversions, epsilon)
    yield from checked("losses", _losses)
    yield from checked("tilts", _tilts)
    yield from checked("published program", _published, epsilon)


def _share(subject: str, shares: Iterable[float]) -> Check:
    """A check of the largest share that is spent of claims of one kind; NaN counts as largest."""
    largest = float(np.max(list(shares)))
    return Check("noise", f"{subject}, share of the claim", largest, 1 + _SLACK)


def _coefficients(subject: str, placement: Placement, claims: _Claims) -> Iterator[Check]:
    """Calibrations for every loss, setting and proven kind of noise, whichever a fit would take."""
    # the size of a claim does not depend on the setting
    cases = [*product(claims[1:2], _SETTINGS), *product(claims[::2], _SETTINGS[:1])]
    found = (
        checks.plan_in(
            mechanisms.Request(claim, placement, None, "free", "keep", kinds=kinds), loss, setting
        )
        for (claim, setting), loss in product(cases, LOSSES.values())
        for kinds in ([()] if isinstance(claim, PureDP) else _KINDS)
    )
    yield _share(subject, (worth.share_of_plan(plan) for plan in found if plan is not None))


def _stages(subject: str, spend: Spend, claims: _Claims) -> Iterator[Check]:
    """Plans of all stages for everybody whom a claim may be about, with all kinds of noise."""
    claim, shares = claims[1], list[float]()
    places: tuple[Placement, ...] = ("objective", "output")
    for whose, facts in _WHOSE.items():
        if facts.classes > 2 and spend != mechanisms.ALL_FOR_COEFFICIENTS:
            continue
        for loss, place in product(LOSSES.values(), places):
            if loss.name != "logistic" and whose != "records":
                continue
            found = [
                plan
                for kinds in ((), *_KINDS)
                if (plan := _plan_of(spend, claim, kinds, replace(facts, loss=loss), place))
            ]
            if not found:
                yield Check(
                    "noise", f"{subject}, {whose}", failure=f"no plan, {loss.name}, {place}"
                )
            shares += map(worth.share_of_plan, found)
    yield _share(f"{subject}, all stages", shares)


def plans_of_laws(epsilon: float) -> Iterator[tuple[str, mechanisms.StagedCalibration]]:
    """Plans of few columns, with their names: one for every set of laws of noise that fits have."""
    two = replace(_FACTS, d=2)
    five, seen = replace(_FACTS, d=5, blocks=_BLOCKS), set()
    ways = zip(claims_of_size(epsilon), (LAPLACE, GAUSSIAN, LAPLACE), strict=False)
    for k, (claim, kinds), spend in product((2, 3, 7), ways, ("coefficients", "scale")):
        for facts in (replace(two, classes=k), replace(five, classes=k)):
            if spend == "scale" and (k > 2 or facts.blocks):
                continue
            plan = _plan_of(_SPENDS[spend], claim, kinds, facts, "objective", (_NUMBER, _NUMBER))
            assert plan is not None
            laws = [stage.noise for stage in plan.stages]
            key = spend, *((type(law), len(law.parts), facts.d) for law in laws)
            if key not in seen and (k == 2 or plan.coefficients.noise.title != "Gaussian"):
                seen.add(key)
                titles = " and ".join(dict.fromkeys(law.title for law in laws))
                yield f"{k} classes, {facts.d} columns, {spend}, {titles}", plan
    four = replace(_FACTS, d=4)  # the fewest columns at which matrices have a law of their own
    matrices = _plan_of("inference", PureDP(epsilon), LAPLACE, four, "objective")
    assert matrices is not None
    yield "2 classes, 4 columns, inference, matrix Laplace", matrices


def _plan_of(
    spend: Spend,
    claim: Promise,
    kinds: Kinds,
    facts: mechanisms.Problem,
    place: Placement,
    groups: tuple[ColumnGroup, ...] | None = None,
) -> mechanisms.StagedCalibration | None:
    """A plan at half of the penalty that frees the curvature; None if it has no such noise."""
    target, scale = replace(claim, neighbours=facts.neighbours), None
    if spend != "inference" and dict(spend).get("scale", 0.0) > 0:
        columns = groups or _GROUPS[place]
        scale = ScaleFacts(facts.n, columns, False, 0.01, persons=facts.persons)
    request = mechanisms.Request(target, place, None, "free", "keep", spend, kinds)
    return checks.plan_at(request, facts, 2.0, scale)


_Choices = Iterator[tuple[float, int, Promise]]
"""Each item has the largest change of the exponents of a choice, the number of choices, and their
claim."""


def _choices(subject: str, made: Callable[[_Claims], _Choices], claims: _Claims) -> Iterator[Check]:
    yield _share(subject, (worth.share_of_choices(*each) for each in made(claims)))


def _columns(claims: _Claims) -> _Choices:
    facts = multiplicative_weights.ProgramFacts(1000, 20, 3.0, 0.25)
    for claim, score in product(claims, multiplicative_weights.SCORES):
        found = multiplicative_weights.calibrate_program(facts, claim, 30, score=score, slack=0.25)
        # a weight is at most 1/s, and a score is a weighted mean of numbers in an interval
        width = 2 * facts.x_bound if score == "margin" else 1.0
        yield found.eta * width / facts.s / found.sensitivity, found.rounds, claim


def _experts(claims: _Claims) -> _Choices:
    for neighbours, claim in product(RELATIONS.values(), claims):
        problem = OnlineProblem(5, 40, 0.0, 2.0, neighbours)
        found = calibrate_online(problem, replace(claim, neighbours=neighbours))
        # a replaced vector moves sums up or down by the width of the range, a zeroed one in only
        # one direction
        moved = 4.0 if neighbours is guarantees.REPLACE_ONE else 2.0
        yield moved / found.lambda_, problem.horizon - 1, claim


def _corners(claims: _Claims) -> _Choices:
    for claim, private in product(claims, constraint_private.PRIVATE):
        found = constraint_private.calibrate_constraints(
            (50, 4), claim, private, width=2.0, violated=12, reach=3.0, size=2.0, rounds=30
        )
        yield found.eta * 3.0 / found.s / found.sensitivity, found.rounds, claim


def _conversions(subject: str, epsilon: float) -> Iterator[Check]:
    """Check conversions against the release whose converted guarantee is known exactly.

    A conversion holds for all releases, so its result is at least the exact number of that one.
    """
    prices = [size * epsilon for size in _SIZES]
    exact = {price: worth.epsilon_of_gaussian(price, _DELTA) for price in prices}
    for what, shares in (
        ("a pure epsilon as rho", [worth.rho_of_pure(p) / to_zcdp(PureDP(p)).rho for p in prices]),
        (
            "rho as an epsilon at a delta",
            [exact[p] / to_approximate(ZCDP(p * p / 2), _DELTA).epsilon for p in prices],
        ),
        (
            "a Gaussian as an epsilon at a delta",
            [exact[p] / gaussian_epsilon(p, _DELTA) for p in prices],
        ),
    ):
        yield Check("noise", f"{subject}, {what}: what is shown of it", max(shares), 1 + _SLACK)


def _losses(subject: str) -> Iterator[Check]:
    """Check the slope and curvature bounds that losses state, by differences on a grid."""
    for loss in LOSSES.values():
        margins = candidate_margins(loss)
        for what, of, most in (
            ("slope", loss.value, loss.slope_bound),
            ("curvature", loss.slope, loss.curvature_bound),
        ):
            found = float(np.abs(of(margins + _STEP) - of(margins - _STEP)).max()) / (2 * _STEP)
            stated = f"{subject}, {checks.label(loss)}: largest {what} over what it states"
            yield Check("noise", stated, found / most, 1 + _BY_STEPS)


def _tilts(subject: str) -> Iterator[Check]:
    """Check what a ledger counts of Gaussian tilts, by integration over the tilt.

    Two gradients of length m along one line may each be there or not, as it is worse at each tilt.
    """
    divergences, tails = [], []
    for m, order in product((0.01, 0.1, 0.5, 2.0), (1.01, 1.5, 2.0, 8.0, 64.0)):
        event = TiltEvent(m, 0.0, 0.25)
        z = np.linspace(-12.0, 12.0 + 2 * m * order, 60_001)
        loss = np.maximum(np.maximum(2 * m * z + 2 * m * m, m * z + m * m / 2), 0.0)
        density = -z * z / 2 - math.log(math.sqrt(2 * math.pi) / (z[1] - z[0]))
        shown = float(special.logsumexp((order - 1) * loss + density)) / (order - 1)
        divergences += [shown / renyi(event, order), shown / order / event.rho]
        least = np.linspace(0.0, 6 * m, 50)
        beyond = np.minimum((least - 2 * m * m) / (2 * m), (least - m * m / 2) / m)
        tails.append(float((special.ndtr(-beyond) / tilt_survival(event, least))[1:].max()))
    for what, shares in (("divergence", divergences), ("tail", tails)):
        yield Check(
            "noise", f"{subject}: {what} over what a ledger counts", max(shares), 1 + _SLACK
        )


def _published(subject: str, epsilon: float) -> Iterator[Check]:
    """Check that the stated true epsilon of the published program covers that of known runs."""
    for score, share in (("margin", 2 / 3), ("count", 1 / 2)):  # of the sensitivity that it states
        said = thesis.true_epsilon(epsilon, _USUAL, score, max(_RUNS))
        shown = []
        for times in _RUNS:
            eta = share * epsilon / math.sqrt(8 * times * math.log(1 / _USUAL))
            law = worth.NOTHING.with_choices(epsilon, -epsilon)
            shown.append(law.with_choices(eta / 2, -eta / 2, times).epsilon(_USUAL))
        what = f"{subject}, {score}: epsilon that is shown over what it says it costs"
        yield Check("noise", what, max(shown) / said, 1 + _SLACK)


_SAME, _ROUNDED, _BY_ORDERS, _BY_GRID = 1e-6, 1e-3, 2e-3, 1e-3
"""Two implementations may have these relative differences: with exact formulas, with a standard
deviation that is rounded up, with a finite set of Renyi orders, and with a grid."""
_DISTANCE = 0.7
_EPSILONS, _RHOS, _MUS = (0.1, 1.0, 3.0), (0.01, 0.1, 1.0), (0.2, 1.0, 3.0)
_ORDERS = 1 + np.geomspace(1e-3, 1e4, 4000)
_RELEASES, _EACH = 20, 0.1


def audit_peers() -> Iterator[Check]:
    """Checks against dp-accounting and OpenDP; if a library is absent, one line says so.

    Each library computes the guarantee of this package's noise in its own terms. The sensitivity
    is handed in: the noise multiplier is the standard deviation over the whole distance between
    two neighbours. So the library's own definition of neighbours does not matter.
    """
    for module, name, work in (
        ("dp_accounting", "dp-accounting", _google),
        ("opendp", "OpenDP", _opendp),
    ):
        if find_spec(module) is None:
            yield Check("peers", f"{name}: all that it states too", failure=MISSING)
        else:
            yield from guarded("peers", name, _compared, name, work)


_Compared = Iterator[tuple[str, float, list[tuple[float, float]]]]
"""What is compared, the largest relative difference, and pairs of this package's numbers and those
of the library."""


def _compared(name: str, work: Callable[[], _Compared]) -> Iterator[Check]:
    for what, most, pairs in work():
        if what.endswith("over what is counted"):  # at most as much as is counted
            yield Check("peers", f"{name}: {what}", max(b / a for a, b in pairs), 1 + most)
        else:
            apart = max(abs(ours / theirs - 1) for ours, theirs in pairs)
            yield Check("peers", f"{name}: {what}, relative difference", apart, most)


def _google() -> _Compared:
    from dp_accounting import GaussianDpEvent, NeighboringRelation, RandomizedResponseDpEvent
    from dp_accounting.pld import common
    from dp_accounting.pld.privacy_loss_distribution import from_privacy_parameters
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss, LaplacePrivacyLoss
    from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant

    def delta(multiplier: float, epsilon: float) -> Any:
        return GaussianPrivacyLoss(multiplier).get_delta_for_epsilon(epsilon)

    sds = [(epsilon, _gaussian_sd(ApproxDP(epsilon, _DELTA)) / _DISTANCE) for epsilon in _EPSILONS]
    at_delta = [(_DELTA, delta(multiplier, epsilon)) for epsilon, multiplier in sds]
    yield "delta of Gaussian noise for an (epsilon, delta)", _ROUNDED, at_delta
    at_delta = [(_DELTA, delta(1 / mu, gaussian_epsilon(mu, _DELTA))) for mu in _MUS]
    yield "delta of a Gaussian at an epsilon for it", _SAME, at_delta
    laplace = [(e, LaplacePrivacyLoss(_scale(e) / _DISTANCE).privacy_loss(-1e9)) for e in _EPSILONS]
    yield "epsilon of Laplace noise", _SAME, laplace
    gaussians, responses = [], []
    for rho in _RHOS:  # the noise multiplier already accounts for replacement
        event: Any = GaussianDpEvent(_gaussian_sd(ZCDP(rho)) / _DISTANCE)
        accountant = RdpAccountant(orders=_ORDERS.tolist()).compose(event)
        gaussians.append((_epsilon(rho), accountant.get_epsilon(_DELTA)))
    yield "rho of a Gaussian", _BY_ORDERS, gaussians
    for epsilon in (0.05, 0.3):
        event = RandomizedResponseDpEvent(2 / (1 + math.exp(epsilon)), 2)
        accountant = RdpAccountant(_ORDERS[::20].tolist(), NeighboringRelation.REPLACE_ONE)
        theirs = accountant.compose(event, 1000).get_epsilon(_DELTA)
        responses.append((_epsilon(1000 * to_zcdp(PureDP(epsilon)).rho), theirs))
    yield "randomised responses by orders, epsilon over what is counted", _BY_ORDERS, responses
    ledger = Ledger(100.0, _DELTA)
    ledger.charge(PureDP(_EACH), (), "audit", times=_RELEASES)
    once = from_privacy_parameters(common.DifferentialPrivacyParameters(_EACH, 0.0))
    exact = once.self_compose(_RELEASES).get_epsilon_for_delta(_DELTA)
    subject = f"{_RELEASES} pure releases, exact epsilon over what is counted"
    yield subject, _BY_GRID, [(ledger.spent(), exact)]


def _opendp() -> _Compared:
    from opendp import prelude

    opendp: Any = prelude  # the library's maps have no type annotations
    with warnings.catch_warnings(action="ignore"):
        # versions of OpenDP use different names for a feature
        opendp.enable_features("contrib", "floating-point", "honest-but-curious")
    entry = opendp.atom_domain(T=float, nan=False)
    number = entry, opendp.absolute_distance(T=float)
    vector = opendp.vector_domain(entry), opendp.l2_distance(T=float)
    scores = opendp.vector_domain(entry), opendp.linf_distance(T=float), opendp.max_divergence()
    laplace = {e: opendp.m.make_laplace(*number, scale=_scale(e)) for e in _EPSILONS}
    yield "epsilon of Laplace noise", _SAME, [(e, m.map(_DISTANCE)) for e, m in laplace.items()]
    sds = {rho: _gaussian_sd(ZCDP(rho)) for rho in (0.01, 0.5, 2.0)}
    made = {rho: opendp.m.make_gaussian(*vector, scale=sd) for rho, sd in sds.items()}
    yield "rho of Gaussian noise", _SAME, [(rho, m.map(_DISTANCE)) for rho, m in made.items()]
    approximate = {rho: opendp.c.make_zCDP_to_approxDP(each) for rho, each in made.items()}
    at_delta = [(_epsilon(rho), m.map(_DISTANCE).epsilon(_DELTA)) for rho, m in approximate.items()]
    yield "rho as an (epsilon, delta)", _BY_ORDERS, at_delta
    largest = []
    for epsilon in _EPSILONS:  # scores move up or down by the distance, so their range is twice it
        choice = ExponentialMechanism(epsilon, 2 * _DISTANCE)
        # the factor of the scores in the exponent, from the law of the choice itself
        log_odds = np.diff(choice.log_probabilities(np.array([0.0, 1.0])))
        noisy = opendp.m.make_noisy_max(*scores, scale=float(1 / log_odds[0]))
        largest.append((epsilon, float(noisy.map(_DISTANCE))))
    yield "epsilon of the largest of noisy scores", _SAME, largest


def _scale(epsilon: float) -> float:
    """The scale of Laplace noise for vectors at the distance `_DISTANCE`."""
    return laws_hiding(_DISTANCE, 1, PureDP(epsilon))[0].scale


def _gaussian_sd(target: ZCDP | ApproxDP) -> float:
    laws = laws_hiding(_DISTANCE, 1, target)
    return next(law.scale for law in laws if not law.is_pure)


def _epsilon(rho: float) -> float:
    return to_approximate(ZCDP(rho), _DELTA).epsilon
