"""The audit of every registered mechanism with every registered loss, and its other parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np

from privatelr.arguments import suggests_arguments
from privatelr.audit import checks
from privatelr.audit.accounts import audit_ledger
from privatelr.audit.audit_table import Audit, Row, row_or_failure
from privatelr.audit.checks import (
    QUICK,
    Effort,
    plan_in,
)
from privatelr.audit.density import exact
from privatelr.audit.density.loss import claimed_number
from privatelr.audit.density.pairs import WIDER, straight_pair, usual_pair
from privatelr.audit.density.search import deep_pair, search
from privatelr.audit.designs import audit_rows
from privatelr.audit.enumeration.plays import audit_plays
from privatelr.audit.enumeration.tiny_cases import audit_programs, audit_simplex
from privatelr.audit.fits import audit_front, audit_tables
from privatelr.audit.recomputed import audit_noise, audit_peers
from privatelr.audit.sampling import distribution_tests
from privatelr.audit.sampling.distribution_tests import (
    audit_draws,
    audit_releases,
    release_pvalue,
)
from privatelr.errors import ArgumentError, require_number, show
from privatelr.mechanisms import ALL_FOR_COEFFICIENTS, MECHANISMS, Request, Spend, StagedCalibration
from privatelr.mechanisms.calibration import Calibration
from privatelr.numerics import LOSSES, Loss
from privatelr.privacy import ApproxDP, Guarantee, PureDP
from privatelr.privacy.noise import BlockLaplace, GaussianNoise, NoiseLaw, SphericalLaplace
from privatelr.types import FloatArray

_FEWER = 10
"""Divisor of the numbers of trials and releases for a row with moments."""


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
        Of the claims; those of zCDP and of small delta are of the same size.
    effort : Effort
        `QUICK`, about a minute, or `FULL`, five to ten minutes per loss.
    losses : sequence of str or Loss, optional
        Registered ones by name, or others such as ``Huber(0.1)``; by default those that are
        registered. With losses, what is not about a loss is left out.
    rng : Generator, optional
        For the search and for the sampled releases; a real release draws from the system.
    report : callable, optional
        Called with each row and each check as soon as it is there.

    Returns
    -------
    Audit
        ``print`` shows the table; `Audit.ok` says whether every claim stood.

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
    """Checks and rows one after the other; what is not about a loss only of the whole audit."""
    subjects = list(_subjects(epsilon, losses))
    if whole:
        (other,) = rng.spawn(1)  # so that the rows do not depend on the checks
        yield from audit_rows(other, effort.formulas)
        yield from audit_tables()
        yield from audit_front(epsilon)
        yield from audit_noise(epsilon)
        yield from audit_draws(other, 4 * effort.releases)
        yield from audit_releases(other, epsilon)
        yield from audit_plays(other, epsilon, effort.choices)
        yield from audit_ledger(other)
        yield from audit_peers()
    for request, loss in subjects:
        yield row_or_failure(
            *(request.placement, checks.label(loss), request.target, audit_one),
            *(request, loss, effort, checks.ALPHA / (len(subjects) * effort.seeds), rng),
            moments=math.inf if request.spend == "inference" else math.nan,
        )
    if whole:
        yield from audit_programs(epsilon, rng, effort.releases, effort.choices)
    yield from audit_simplex(epsilon, rng, effort.releases, effort.choices, losses)


def _subjects(epsilon: float, losses: list[Loss]) -> Iterator[tuple[Request, Loss]]:
    """Every row of the table of mechanisms, at claims of one size, with every loss.

    First of coefficients alone, then of coefficients and moments. Under a delta there is Gaussian
    and Laplace noise, whichever a fit would take here. How large delta is does not matter to
    Laplace noise, so that the smallest stands for all.
    """
    spends: tuple[Spend, ...] = (ALL_FOR_COEFFICIENTS, "inference")
    claims = checks.claims_of_size(epsilon)
    for spend, loss, (placement, kind), claim in product(spends, losses, MECHANISMS, claims):
        kinds: list[tuple[type[NoiseLaw], ...]] = [()] if isinstance(claim, kind) else []
        if kinds and isinstance(claim, ApproxDP):
            smallest = claim.delta == checks.SMALLEST_DELTA
            kinds = [(GaussianNoise,), *[(SphericalLaplace, BlockLaplace)] * smallest]
        for some in kinds:
            yield Request(claim, placement, None, "free", "keep", spend, some), loss


def audit_one(
    request: Request, loss: Loss, effort: Effort, alpha: float, rng: np.random.Generator
) -> Row:
    """One row of the table; one about coefficients and moments gets a part of the effort."""
    both = request.spend == "inference"
    pairs, fewer = (0, _FEWER) if both else (effort.random_pairs, 1)
    plans = [(setting, plan_in(request, loss, setting)) for setting in effort.settings]
    found = [(setting, plan, search(plan, rng, pairs)) for setting, plan in plans if plan]
    setting, _, worst = max(found, key=lambda each: each[2].loss.ratio)
    subject = found[0][1] if both else found[0][1].coefficients
    losses = [each.loss for *_, each in found]
    claim: Guarantee = request.target
    if isinstance(claim, ApproxDP) and SphericalLaplace in request.kinds:
        claim = PureDP(claim.epsilon, claim.neighbours)
    trials = -(-effort.trials // fewer)
    return Row(
        placement=request.placement,
        loss=checks.label(loss),
        claim=checks.short(claim) + (", delta unused" if claim != request.target else ""),
        claimed=claimed_number(claim),
        exact=worst.loss.found,
        attained=max(each.parts[0].ratio if both else each.tilt_ratio for each in losses),
        where=f"{setting}, {worst.family}",
        sampled=max(sample(subject, trials, alpha, rng) for _ in range(effort.seeds)),
        differs=release_pvalue(request, loss, -(-effort.releases // fewer), rng),
        moments=max(each.parts[1].ratio for each in losses) if both else math.nan,
    )


def sample(
    subject: Calibration | StagedCalibration, trials: int, alpha: float, rng: np.random.Generator
) -> float:
    """Lower bound on the number of the claim from releases on two datasets.

    They differ in opposite records, or for coefficients and moments in records at an angle. NaN
    for a delta of which so many trials can show nothing.
    """
    if checks.shows_nothing(subject.proven, trials):
        return math.nan
    release: Callable[..., FloatArray]
    if isinstance(subject, StagedCalibration):
        pair = usual_pair(subject.coefficients, WIDER)[0]
        release = partial(distribution_tests.release_both_many, subject)
        score = exact.likelihood_ratio_of_both(subject, pair)
    else:
        deep = subject.problem.d > 1
        pair = deep_pair(subject) if deep else straight_pair(subject, 0.0)[0]
        release = partial(distribution_tests.release_many, subject)
        score = exact.likelihood_ratio(subject, pair)
    first, second = (release(side, trials, rng) for side in (pair.first(), pair.second()))
    return checks.sampled_bound(subject.proven, first, second, alpha, score)
