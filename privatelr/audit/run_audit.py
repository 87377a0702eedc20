"""The audit of every registered mechanism with every registered loss, and its other parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from privatelr.arguments import suggests_arguments
from privatelr.audit.attacks.accounts import audit_ledger
from privatelr.audit.attacks.designs import audit_rows
from privatelr.audit.attacks.fits import audit_front
from privatelr.audit.attacks.odd_tables import audit_tables
from privatelr.audit.audit_table import Audit, Row, row_or_failure
from privatelr.audit.checks import (
    ALPHA,
    SMALLEST_DELTA,
    claims_of_size,
    label,
    sampled_bound,
    short,
    shows_nothing,
)
from privatelr.audit.density.exact import likelihood_ratio, likelihood_ratio_of_both
from privatelr.audit.density.loss import claimed_number
from privatelr.audit.density.pairs import WIDER, straight_pair, usual_pair
from privatelr.audit.density.search import deep_pair, search
from privatelr.audit.enumeration.plays import audit_plays
from privatelr.audit.enumeration.tiny_cases import audit_programs, audit_simplex
from privatelr.audit.recalculation.peers import audit_peers
from privatelr.audit.recalculation.recomputed import audit_noise
from privatelr.audit.sampling.distribution_tests import (
    audit_draws,
    audit_releases,
    release_both_many,
    release_many,
    release_pvalue,
)
from privatelr.audit.settings import QUICK, calibrate_in, plan_in
from privatelr.errors import ArgumentError, require_number, show
from privatelr.mechanisms import ALL_FOR_COEFFICIENTS, MECHANISMS, Request, Spend, StagedCalibration
from privatelr.mechanisms.calibration import Calibration
from privatelr.numerics import LOSSES, Loss
from privatelr.privacy import ApproxDP, Guarantee, PureDP
from privatelr.privacy.noise import BlockLaplace, GaussianNoise, SphericalLaplace

if TYPE_CHECKING:
    from privatelr.audit.checks import Check
    from privatelr.audit.density.pairs import Pair
    from privatelr.audit.settings import Effort


def audit_parts(epsilon: float, effort: Effort, rng: np.random.Generator) -> Iterator[Check]:
    """All checks: rows, fits of formulas, noise, releases, choices, ledgers, other libraries.

    Notes
    -----
    **Privacy.** *Covered*: no data is involved. *Neighbours*: replace one record. *Assumed
    public*: everything. *Not covered*: time and memory of the mechanisms.
    """
    yield from audit_rows(rng, effort.formulas)
    yield from audit_tables()
    yield from audit_front(epsilon)
    yield from audit_noise(epsilon)
    yield from audit_draws(rng, 4 * effort.releases)
    yield from audit_releases(rng, epsilon)
    yield from audit_plays(rng, epsilon, effort.choices)
    yield from audit_ledger(rng)
    yield from audit_peers()


_FEWER = 10
"""The part of the trials and releases that a row with moments gets: one in so many."""


@suggests_arguments
def run(
    epsilon: float = 1.0,
    *,
    effort: Effort = QUICK,
    losses: Sequence[str | Loss] | None = None,
    rng: np.random.Generator | None = None,
    report: Callable[[Row | Check], None] | None = None,
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
    subjects = list(_subjects(epsilon, _chosen(losses)))
    alpha = ALPHA / (len(subjects) * effort.seeds)
    rows: list[Row] = []
    checks: list[Check] = []

    def told(found: Row | Check) -> None:
        if report is not None:
            report(found)

    if losses is None:
        (other,) = source.spawn(1)  # so that the rows do not depend on the checks
        for check in audit_parts(epsilon, effort, other):
            checks.append(check)
            told(check)
    for request, loss in subjects:
        moments = math.inf if request.spend == "inference" else math.nan
        subject = request.placement, label(loss), request.target
        given = request, loss, effort, alpha, source
        rows.append(row_or_failure(*subject, audit_one, *given, moments=moments))
        told(rows[-1])
    for row in _choices(epsilon, effort, losses, source):
        rows.append(row)
        told(row)
    return Audit(tuple(rows), tuple(checks))


def _choices(
    epsilon: float,
    effort: Effort,
    losses: Sequence[str | Loss] | None,
    rng: np.random.Generator,
) -> Iterator[Row]:
    """Rows of the mechanisms that choose columns; those without a loss only if none was named."""
    if losses is None:
        yield from audit_programs(epsilon, rng, effort.releases, effort.choices)
    yield from audit_simplex(epsilon, rng, effort.releases, effort.choices, _chosen(losses))


def _chosen(losses: Sequence[str | Loss] | None) -> list[Loss]:
    if losses is None:
        return list(LOSSES.values())
    return [_find(loss) for loss in losses]


def _find(loss: str | Loss) -> Loss:
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    if isinstance(loss, str) or not hasattr(loss, "curvature_bound"):
        known = ", ".join(map(repr, LOSSES))
        raise ArgumentError(f"losses: {show(loss)} is none of {known}, and no loss itself.")
    return loss


def _subjects(epsilon: float, losses: list[Loss]) -> Iterator[tuple[Request, Loss]]:
    """Every row of the table of mechanisms, at claims of one size, with every loss.

    First of coefficients alone, then of coefficients and moments.
    """
    spends: tuple[Spend, ...] = (ALL_FOR_COEFFICIENTS, "inference")
    for spend in spends:
        for loss in losses:
            for placement, kind in MECHANISMS:
                for claim in claims_of_size(epsilon):
                    if isinstance(claim, kind):
                        usual = Request(claim, placement, None, "free", "keep", spend)
                        yield from ((one, loss) for one in _with_each_noise(usual))


def _with_each_noise(request: Request) -> Iterator[Request]:
    """Gaussian and Laplace noise under a delta, whichever a fit would take here.

    How large delta is does not matter to Laplace noise, so that the smallest stands for all.
    """
    claim = request.target
    if not isinstance(claim, ApproxDP):
        yield request
        return
    yield replace(request, kinds=(GaussianNoise,))
    if claim.delta == SMALLEST_DELTA:
        yield replace(request, kinds=(SphericalLaplace, BlockLaplace))


def _claim(request: Request) -> Guarantee:
    """What the noise of a request has to hold."""
    target = request.target
    if isinstance(target, ApproxDP) and SphericalLaplace in request.kinds:
        return PureDP(target.epsilon, target.neighbours)
    return target


def _short(request: Request) -> str:
    return short(_claim(request)) + (", delta unused" if _claim(request) != request.target else "")


def audit_one(
    request: Request, loss: Loss, effort: Effort, alpha: float, rng: np.random.Generator
) -> Row:
    """One row of the table."""
    if request.spend == "inference":
        return _audit_both(request, loss, effort, alpha, rng)
    findings = []
    for setting in effort.settings:
        calibration = calibrate_in(request, loss, setting)
        if calibration is not None:
            findings.append((setting, search(calibration, rng, effort.random_pairs)))
    setting, worst = max(findings, key=lambda found: found[1].loss.ratio)
    subject = findings[0][1].calibration
    return Row(
        placement=request.placement,
        loss=label(loss),
        claim=_short(request),
        claimed=claimed_number(_claim(request)),
        exact=worst.loss.found,
        attained=max(found.loss.tilt_ratio for _, found in findings),
        where=f"{setting}, {worst.family}",
        sampled=max(sample(subject, effort.trials, alpha, rng) for _ in range(effort.seeds)),
        differs=release_pvalue(request, loss, effort.releases, rng),
    )


def _audit_both(
    request: Request, loss: Loss, effort: Effort, alpha: float, rng: np.random.Generator
) -> Row:
    """One row about coefficients and moments, with a part of the effort."""
    plans = [(setting, plan_in(request, loss, setting)) for setting in effort.settings]
    findings = [(setting, search(plan, rng, 0)) for setting, plan in plans if plan is not None]
    setting, worst = max(findings, key=lambda found: found[1].loss.ratio)
    subject = next(plan for _, plan in plans if plan is not None)
    trials, releases = -(-effort.trials // _FEWER), -(-effort.releases // _FEWER)
    return Row(
        placement=request.placement,
        loss=label(loss),
        claim=_short(request),
        claimed=claimed_number(_claim(request)),
        exact=worst.loss.found,
        attained=max(found.loss.parts[0].ratio for _, found in findings),
        where=f"{setting}, {worst.family}",
        sampled=max(sample_both(subject, trials, alpha, rng) for _ in range(effort.seeds)),
        differs=release_pvalue(request, loss, releases, rng),
        moments=max(found.loss.parts[1].ratio for _, found in findings),
    )


def sample(calibration: Calibration, trials: int, alpha: float, rng: np.random.Generator) -> float:
    """Lower bound on the number of the claim from releases on a pair of opposite records.

    NaN for a delta of which so many trials can show nothing.
    """
    claim = calibration.proven
    if shows_nothing(claim, trials):
        return math.nan
    pair = deep_pair(calibration) if calibration.problem.d > 1 else _alone(calibration)
    first, second = (
        release_many(calibration, side, trials, rng) for side in (pair.first(), pair.second())
    )
    return sampled_bound(claim, first, second, alpha, likelihood_ratio(calibration, pair))


def sample_both(
    plan: StagedCalibration, trials: int, alpha: float, rng: np.random.Generator
) -> float:
    """As `sample`, from releases of coefficients and moments on records at an angle."""
    if shows_nothing(plan.proven, trials):
        return math.nan
    pair = usual_pair(plan.coefficients, WIDER)[0]
    first, second = (
        release_both_many(plan, side, trials, rng) for side in (pair.first(), pair.second())
    )
    return sampled_bound(plan.proven, first, second, alpha, likelihood_ratio_of_both(plan, pair))


def _alone(calibration: Calibration) -> Pair:
    return straight_pair(calibration, 0.0)[0]
