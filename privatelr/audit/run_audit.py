"""The whole audit: every registered mechanism with every registered loss, and all checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np

from privatelr.arguments import suggests_arguments
from privatelr.audit import (
    accounts,
    checks,
    designs,
    enumerated_answers,
    enumerated_choices,
    neighbouring_tables,
    recomputed,
)
from privatelr.audit.audit_table import LAPLACE_MARK, Audit, Row, row_or_failure
from privatelr.audit.checks import QUICK, Effort, claimed_number, plan_in
from privatelr.audit.density import exact, persons_and_classes
from privatelr.audit.density.loss import deep_pair, ratio_of, search
from privatelr.audit.density.pairs import straight_pair
from privatelr.audit.sampling import draws_and_releases, lower_bounds
from privatelr.errors import ArgumentError, require_number, show
from privatelr.mechanisms import ALL_FOR_COEFFICIENTS, MECHANISMS, Request, Spend
from privatelr.mechanisms.calibration import GAUSSIAN, LAPLACE, Calibration
from privatelr.mechanisms.stages.scale import ScaleFacts
from privatelr.numerics import LOSSES, Loss
from privatelr.privacy import ApproxDP, Guarantee
from privatelr.privacy.noise import NoiseLaw
from privatelr.types import ColumnGroup

_FEWER_CALLS = 3
"""For suggested bounds and released levels, the number of draws is divided by this."""
SCALE_BESIDE: Spend = (("scale", 0.1), ("coefficients", 0.9))
_FEW = 2
"""Scale and coefficients are attacked in settings of at most this number of columns."""


@suggests_arguments
def run(
    epsilon: float = 1.0,
    *,
    effort: Effort = QUICK,
    losses: Sequence[str | Loss] | None = None,
    rng: np.random.Generator | None = None,
    report: Callable[[Row | checks.Check], None] | None = None,
) -> Audit:
    """Try to break every registered mechanism under every registered loss.

    Parameters
    ----------
    epsilon : float
        The epsilon of the claims; claims of zCDP and of a delta have about the same strength.
    effort : Effort
        `QUICK` takes about a minute, `FULL` takes five to ten minutes per loss.
    losses : sequence of str or Loss, optional
        Names of registered losses, or other losses such as ``Huber(0.1)``. By default all
        registered losses are audited; if losses are given, the parts of the audit that do not
        depend on a loss are left out.
    rng : Generator, optional
        The source of random numbers for the search and for modelled releases. A real release draws
        from the system.
    report : callable, optional
        Called with each row and each check as soon as it is computed.

    Returns
    -------
    Audit
        ``print`` shows the table; `Audit.ok` says whether every claim held.

    Notes
    -----
    **Privacy.** *Covered*: no data is involved. *Neighbours*: replace one record.
    *Assumed public*: everything. *Not covered*: time and memory of the mechanisms.
    """
    require_number(
        ArgumentError, "epsilon", epsilon, "a number from 0.01 to 10", at_least=0.01, at_most=10
    )
    source = np.random.default_rng() if rng is None else rng
    chosen = list(LOSSES.values()) if losses is None else [_find(loss) for loss in losses]
    found: list[Row | checks.Check] = []
    for each in _all_found(epsilon, effort, chosen, source, whole=losses is None):
        found.append(each)
        if report is not None:
            report(each)
    rows = tuple(each for each in found if isinstance(each, Row))
    return Audit(rows, tuple(each for each in found if isinstance(each, checks.Check)))


def _find(loss: str | Loss) -> Loss:
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    if isinstance(loss, str) or not hasattr(loss, "curvature_bound"):
        known = ", ".join(map(repr, LOSSES))
        raise ArgumentError(f"losses: {show(loss)} is none of {known}, and no loss itself.")
    return loss


def _all_found(
    epsilon: float, effort: Effort, losses: list[Loss], rng: np.random.Generator, *, whole: bool
) -> Iterator[Row | checks.Check]:
    """Yield checks and rows; parts that do not depend on a loss belong to the whole audit only."""
    subjects = list(_subjects(epsilon, losses))
    if whole:
        (other,) = rng.spawn(1)  # the random numbers of the rows then do not depend on the checks
        yield from designs.audit_rows(other, effort.formulas)
        yield from neighbouring_tables.audit_tables()
        yield from neighbouring_tables.audit_formulas(epsilon)
        for part in ("offset", "weights", "persons"):
            yield from persons_and_classes.audit_changes(epsilon, other, f"{part}, *")
        yield from neighbouring_tables.audit_persons_of_fits(epsilon)
        yield from neighbouring_tables.audit_long_records(epsilon)
        yield from persons_and_classes.audit_changes(epsilon, other, "strata, *")
        yield from neighbouring_tables.audit_strata(epsilon)
        yield from persons_and_classes.audit_changes(epsilon, other, "classes, *")
        yield from recomputed.audit_noise(epsilon)
        yield from draws_and_releases.audit_draws(other, effort.releases)
        yield from draws_and_releases.audit_source()
        yield from draws_and_releases.audit_releases(other, epsilon)
        yield from enumerated_choices.audit_plays(other, epsilon, effort.choices)
        yield from enumerated_answers.audit_declarations(
            epsilon, -(-effort.releases // _FEWER_CALLS)
        )
        yield from enumerated_answers.audit_answers(other, epsilon, effort.choices)
        yield from accounts.audit_ledger(other)
        yield from recomputed.audit_peers()
    for request, loss in subjects:
        yield row_or_failure(
            *(request.placement, checks.label(loss), request.target, audit_one),
            *(request, loss, effort, checks.ALPHA / (len(subjects) * effort.seeds), rng),
            buys=_bought(request),
        )
    if whole:
        yield from enumerated_choices.audit_programs(epsilon, rng, effort.choices)
    yield from enumerated_choices.audit_simplex(epsilon, rng, effort.choices, losses)


def _subjects(epsilon: float, losses: list[Loss]) -> Iterator[tuple[Request, Loss]]:
    """Every registered mechanism with every loss, under claims of about one strength.

    Mechanisms that release coefficients alone come first, then those that also release the scale of
    columns, and those that also release moments.
    Under a delta both Gaussian and Laplace noise are audited, whichever of them a fit would take.
    Laplace noise does not depend on delta, so only the smallest delta is audited with it.
    """
    spends: tuple[Spend, ...] = (ALL_FOR_COEFFICIENTS, SCALE_BESIDE, "inference")
    claims = checks.claims_of_size(epsilon)
    for spend, loss, (placement, kind), claim in product(spends, losses, MECHANISMS, claims):
        kinds: list[tuple[type[NoiseLaw], ...]] = [()] if isinstance(claim, kind) else []
        if kinds and isinstance(claim, ApproxDP):
            smallest = claim.delta == checks.SMALLEST_DELTA
            kinds = [GAUSSIAN, *[LAPLACE] * smallest]
        for some in kinds:
            yield Request(claim, placement, None, "free", "keep", spend, some), loss


def _bought(request: Request) -> str:
    """What a request buys, as a row of the table names it."""
    return {"inference": "inference", SCALE_BESIDE: "scale"}.get(request.spend, "coefficients")


def audit_one(
    request: Request, loss: Loss, effort: Effort, alpha: float, rng: np.random.Generator
) -> Row:
    """One row of the table; a row about several stages has no samples and no random pairs."""
    buys = _bought(request)
    alone, scaled = buys == "coefficients", buys == "scale"
    settings = [each for each in effort.settings if not scaled or each.facts(loss).d <= _FEW]
    plans = []
    for setting in settings:
        columns = (ColumnGroup(1, "number"),) * setting.facts(loss).d
        scale = ScaleFacts(checks.RECORDS, columns, False, 0.003) if scaled else None
        plans.append((setting, plan_in(request, loss, setting, scale)))
    pairs = effort.random_pairs if alone else 0
    found = [(setting, plan, search(plan, rng, pairs)) for setting, plan in plans if plan]
    setting, plan, worst = max(found, key=lambda each: ratio_of(each[2].loss))
    losses = [each.loss for *_, each in found]
    claim: Guarantee = plan.proven
    label = checks.short(claim) + (", delta unused" if claim != request.target else "")
    if isinstance(claim, ApproxDP) and request.kinds == LAPLACE:
        label += LAPLACE_MARK
    sampled, share = math.nan, math.nan
    if alone:
        first = found[0][1].coefficients
        sampled = max(sample(first, effort.trials, alpha, rng) for _ in range(effort.seeds))
        attained = checks.largest(each.tilt_ratio for each in losses)
    else:
        attained, share = (checks.largest(each.parts[k].ratio for each in losses) for k in (0, 1))
    return Row(
        placement=request.placement,
        loss=checks.label(loss),
        claim=label,
        claimed=claimed_number(claim),
        exact=worst.loss.found,
        attained=attained,
        where=f"{setting}, {worst.family}",
        sampled=sampled,
        buys=buys,
        share=share,
    )


def sample(calibration: Calibration, trials: int, alpha: float, rng: np.random.Generator) -> float:
    """A lower bound on the epsilon, rho or delta of the claim, from releases on two datasets.

    The datasets differ in opposite records. The bound is NaN if the trials are too few for the
    delta of the claim.
    """
    if checks.shows_nothing(calibration.proven, trials):
        return math.nan
    deep = calibration.problem.d > 1
    pair = deep_pair(calibration) if deep else straight_pair(calibration, 0.0)[0]
    first, second = (
        lower_bounds.outputs_of(draws_and_releases.release_many(calibration, side, trials, rng))
        for side in (pair.first(), pair.second())
    )
    evidence = lower_bounds.evidence_of(calibration.proven)
    score = exact.likelihood_ratio(calibration, pair)
    return lower_bounds.bound_from_outputs(first, second, evidence, alpha, score)
