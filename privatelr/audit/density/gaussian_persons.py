"""The exact delta and rho of a Gaussian tilt between datasets that differ in a whole person.

The tilt is normal under either dataset, and the release and its privacy loss are functions of it,
so the law of the loss is an integral over tilts. Persons are searched for as under Laplace noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from scipy import optimize

from privatelr.audit.checks import Check, Setting, guarded, largest, short
from privatelr.audit.density.loss_profile import FINE, PrivacyLossDistribution, integrated
from privatelr.audit.density.worst_persons import (
    SignedPerson,
    adversarial,
    in_one_column,
    person_losses,
)
from privatelr.mechanisms import Request, calibrate
from privatelr.mechanisms.calibration import Calibration, free_penalty, proven
from privatelr.mechanisms.calibration.lambda_rules import GAUSSIAN
from privatelr.mechanisms.signed_rows import SignedRows, minimisers
from privatelr.numerics import LOSSES, Loss
from privatelr.privacy import REPLACE_PERSON, ZCDP, ApproxDP
from privatelr.types import FloatArray

_TILTS = 200
"""Number of tilts by which the direction is found in which the persons differ."""
_FARTHEST = 60.0
"""Margins that are tried have at most this size."""
_STEPS, _ROUGH = 25, 0.2
"""Values that each search computes, on a grid of this step; what it finds is weighed on the usual,
finer one."""


def person_law(
    calibration: Calibration,
    shared: SignedRows,
    old: SignedPerson,
    new: SignedPerson,
    rng: np.random.Generator,
    step: float = FINE,
) -> PrivacyLossDistribution:
    """The law of the loss, old person over new, under the dataset with the old person.

    It is integrated on a grid of this step, in standard deviations of the noise.
    """
    problem, noise = calibration.problem, calibration.noise
    first = SignedRows(
        np.vstack([shared.rows, old.rows]), np.concatenate([shared.counts, old.shares])
    )

    def released(drawn: FloatArray) -> tuple[FloatArray, FloatArray]:
        w = minimisers(first, problem, drawn)
        return w, person_losses(calibration, shared, old, new, w)

    w, _ = released(noise.scale * rng.standard_normal((_TILTS, problem.d)))
    change = new.pull(problem.loss, w) - old.pull(problem.loss, w)
    furthest = 2 * problem.reach / noise.scale
    return integrated(released, noise, change.mean(axis=0), furthest, rng, step=step)


def share_of_claim(calibration: Calibration, law: PrivacyLossDistribution) -> float:
    """The delta or rho of coefficients and shield together, over the claim."""
    target, mu = calibration.target, calibration.distance / calibration.shield.scale
    if isinstance(target, ApproxDP):
        return law.delta(target.epsilon, mu) / target.delta
    assert isinstance(target, ZCDP)
    return (law.rho() + mu * mu / 2) / target.rho


def worst_under_gaussian(
    calibration: Calibration, size: int, most: int, rng: np.random.Generator
) -> float:
    """The largest share of the claim that a person of so many records spends, by a short search."""
    d = calibration.problem.d

    def share_at(parameters: FloatArray, step: float = _ROUGH) -> float:
        if d == 1:
            case = in_one_column(calibration, parameters, 0.0, most)
        else:
            margins = np.clip(parameters[size:], -_FARTHEST, _FARTHEST)
            case = adversarial(calibration, parameters[:size], margins, most, turns=0.0)
        shared, old, new, _ = case
        law = person_law(calibration, shared, old, new, np.random.default_rng(1), step)
        return share_of_claim(calibration, law)

    even = np.linspace(-1.0, 1.0, size) if size > 1 else np.zeros(1)
    if d == 1:
        starts = [np.append(np.ones(size), -1.0)]
    else:
        starts = [np.append(spread * even, np.full(size, at)) for spread, at in _starts()]
    start = max(starts, key=share_at)
    found = optimize.minimize(
        lambda p: -share_at(p), start, method="Nelder-Mead", options={"maxfev": _STEPS}
    )
    return share_at(found.x, FINE)


def _starts() -> Iterator[tuple[float, float]]:
    """Angles between records, and their margins: steep ones, and curved ones in many directions."""
    yield from ((0.0, -_FARTHEST), (0.5, -_FARTHEST), (0.3, -2.0), (0.8, 0.0))


def gaussian_for(loss: Loss, target: ApproxDP | ZCDP, d: int, small: float) -> Calibration:
    """Gaussian noise for persons at the free penalty over `small`, as a fit would have it."""
    facts = replace(Setting(persons=True).facts(loss), d=d)
    penalty = free_penalty(facts, target, proven(None, loss), kinds=GAUSSIAN) / small
    request = Request(target, "objective", None, penalty / facts.n, "keep", kinds=GAUSSIAN)
    return calibrate(request, facts)


def audit_gaussian_persons(
    epsilon: float, rng: np.random.Generator, losses: Iterable[Loss] = tuple(LOSSES.values())
) -> Iterator[Check]:
    """The largest delta and rho of a person over the claim, for each loss."""
    targets = (
        ApproxDP(epsilon, 1e-6, REPLACE_PERSON),
        ApproxDP(epsilon, 1e-2, REPLACE_PERSON),
        ZCDP(epsilon**2 / 2, REPLACE_PERSON),
    )
    for loss in losses:
        for target in targets:
            subject = f"{loss.name}, {short(target)}: Gaussian loss of a person over the claim"
            yield from guarded("persons", subject, _largest, loss, target, subject, rng)


def _largest(
    loss: Loss, target: ApproxDP | ZCDP, subject: str, rng: np.random.Generator
) -> Iterator[Check]:
    found = [
        worst_under_gaussian(gaussian_for(loss, target, d, 1.0), size, 1, rng)
        for d, size in ((1, 2), (2, 1), (2, 4))
    ]
    yield Check("persons", subject, largest(found), 1.0)
