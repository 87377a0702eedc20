"""The exact loss of objective perturbation between datasets that differ in a whole person.

A person has several records, whose weights the package gives them. Persons are searched for whose
slopes are steep along one direction while their curvatures lie in others. The datasets are a few
rows, so the density of a release is exact (Lemma 0 of theory.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import optimize

from privatelr.audit.checks import Check, Setting, guarded, largest, number
from privatelr.audit.density import exact
from privatelr.audit.density.pairs import PULL, TURN
from privatelr.design import shares_of
from privatelr.mechanisms import Request, calibrate
from privatelr.mechanisms.calibration import Calibration, pure
from privatelr.mechanisms.signed_rows import SignedRows, gradient, hessian
from privatelr.numerics import LOSSES, Loss
from privatelr.privacy import REPLACE_PERSON, PureDP
from privatelr.types import FloatArray

_DEPTH = 4000.0
"""The output at which densities are compared has this length, over R: records with any margins
there are nearly orthogonal to it."""
_TURNS = 1e4
"""Rows that turn the tilt; the loss is short of its largest by about the inverse of this."""
_FARTHEST = 40.0
"""At margins of this size every loss is linear."""
_RECORDS = 4
"""Persons have at most this number of records."""
_STARTS, _STEPS = 6, 200
"""Starts of a search, and the values that each of them computes."""
_SMALL = 7.0
"""The penalty is divided by this where most of the claim is to pay for the curvature."""


@dataclass(frozen=True, slots=True, eq=False)
class SignedPerson:
    """All records of a person: signed rows ``(k, d)``, and how much each counts ``(k,)``."""

    rows: FloatArray
    shares: FloatArray

    def pull(self, loss: Loss, w: FloatArray) -> FloatArray:
        """The gradients ``(m, d)`` of the person's loss at each w ``(m, d)``."""
        return np.asarray((self.shares * loss.slope(w @ self.rows.T)) @ self.rows)

    def log_det(self, loss: Loss, w: FloatArray, others: FloatArray) -> FloatArray:
        """What the person's curvature adds to the log determinants of matrices ``(m, d, d)``."""
        bend = self.shares * loss.curvature(w @ self.rows.T)
        own = np.einsum("mk,ki,kj->mij", bend, self.rows, self.rows)
        inner = np.eye(self.rows.shape[1]) + np.linalg.solve(others, own)
        return np.asarray(np.linalg.slogdet(inner)[1])


def person_losses(
    calibration: Calibration,
    shared: SignedRows,
    old: SignedPerson,
    new: SignedPerson,
    w: FloatArray,
) -> FloatArray:
    """Log ratios ``(m,)`` of densities of the minimiser at w ``(m, d)``, old person over new."""
    problem = calibration.problem
    loss = problem.loss
    pulled, pulls = old.pull(loss, w), new.pull(loss, w)
    b = -gradient(shared, problem, w) - pulled
    ratios = exact.log_ratios(calibration.noise, b, pulls - pulled)
    others = hessian(shared, problem, w)
    return ratios + old.log_det(loss, w, others) - new.log_det(loss, w, others)


def person_loss(calibration: Calibration, *case: Any) -> float:
    """The same at one output w ``(d,)``."""
    shared, old, new, w = case
    return number(float(person_losses(calibration, shared, old, new, w[None])[0]))


def adversarial(
    calibration: Calibration,
    angles: FloatArray,
    margins: FloatArray,
    most: int,
    turns: float = _TURNS,
) -> tuple[SignedRows, SignedPerson, SignedPerson, FloatArray]:
    """Two datasets that differ in a person with these records, and an output w ``(d,)``.

    The old person's records have these margins at w, and lie at these angles in the plane across w;
    in two columns only the signs of their cosines matter. The new person has one record, opposite
    to what the old ones pull, with the largest slope. Other records make w the minimiser and turn
    the tilt in the direction that tells most, if there are to be such `turns`.
    """
    problem = calibration.problem
    d, loss, radius = problem.d, problem.loss, problem.radius
    along = np.eye(d)[-1]
    w = _DEPTH / radius * along

    def at(directions: FloatArray, margins: FloatArray) -> FloatArray:
        """Rows of length R in these directions across w that have these margins at w."""
        high = margins[:, None] / _DEPTH
        return np.asarray(radius * (np.sqrt(1 - high**2) * directions + high * along))

    plane = np.zeros((len(angles), d))
    plane[:, 0] = np.cos(angles) if d > 2 else np.sign(np.cos(angles))
    if d > 2:
        plane[:, 1] = np.sin(angles)
    old = SignedPerson(at(plane, margins), shares_of(np.full(len(angles), len(angles)), most))
    (pulled,) = old.pull(loss, w[None])
    across = -pulled
    across[-1] = 0.0
    length = float(np.linalg.norm(across))
    towards = across / length if length > 0 else np.eye(d)[0]
    rows = at(-towards[None], np.array([-_FARTHEST, TURN]))
    new = SignedPerson(rows[:1], shares_of(np.ones(1, dtype=int), most))
    turning, hold = rows[1], radius * PULL / _DEPTH * along
    slopes = loss.slope(np.array([TURN, PULL]))
    others = pulled + turns * slopes[0] * turning + problem.penalty * w
    count = float(others @ along) / float(-slopes[1] * hold @ along)
    shared = SignedRows(np.array([hold, turning]), np.array([max(count, 0.0), turns]))
    return shared, old, new, w


def in_one_column(
    calibration: Calibration, entries: FloatArray, output: float, most: int
) -> tuple[SignedRows, SignedPerson, SignedPerson, FloatArray]:
    """The same in one column, where a person's records have these entries, over R."""
    rows = calibration.problem.radius * np.clip(entries, -1.0, 1.0)[:, None]
    old = SignedPerson(rows[:-1], shares_of(np.full(len(rows) - 1, len(rows) - 1), most))
    new = SignedPerson(rows[-1:], shares_of(np.ones(1, dtype=int), most))
    nothing = SignedRows(np.zeros((1, 1)), np.ones(1))
    return nothing, old, new, np.array([output / calibration.problem.radius])


def worst_person(calibration: Calibration, size: int, most: int, rng: np.random.Generator) -> float:
    """The largest loss over persons of so many records that a search from several starts finds."""
    d = calibration.problem.d

    def loss_at(parameters: FloatArray) -> float:
        if d == 1:
            case = in_one_column(calibration, parameters[:-1], float(parameters[-1]), most)
            return person_loss(calibration, *case)
        angles, margins = parameters[:size], np.clip(parameters[size:], -_FARTHEST, _FARTHEST)
        return person_loss(calibration, *adversarial(calibration, angles, margins, most))

    best, limits = -np.inf, {"maxfev": _STEPS, "xatol": 1e-6, "fatol": 1e-10}
    for start in range(_STARTS):
        if d == 1:
            first = np.append(rng.choice([-1.0, 1.0], size + 1), rng.normal())
        else:
            even = np.linspace(-1.0, 1.0, size) if size > 1 else np.zeros(1)
            margin = rng.uniform(-3.0, 1.0) * (1.0, 1.0, 10.0)[start % 3]
            first = np.append(rng.uniform(0.0, 1.6) * even, np.full(size, margin))
        found = optimize.minimize(
            lambda p: -loss_at(p), first, method="Nelder-Mead", options=limits
        )
        best = largest((best, -float(found.fun)))
    return best


def calibrated_for(
    loss: Loss, epsilon: float, d: int, small: float, analysis: pure.Analysis | None = None
) -> Calibration:
    """Noise for persons at the free penalty over `small`, as a fit would have it."""
    facts = replace(Setting(persons=True).facts(loss), d=d)
    target, proof = PureDP(epsilon, REPLACE_PERSON), pure.proven(analysis, loss)
    penalty = pure.laplace_free_penalty(facts, epsilon, proof) / small
    request = Request(target, "objective", analysis, penalty / facts.n, "keep")
    return calibrate(request, facts)


def audit_persons(
    epsilon: float, rng: np.random.Generator, losses: Iterable[Loss] = tuple(LOSSES.values())
) -> Iterator[Check]:
    """The largest loss of a person over the claim, for each loss at two sizes of the penalty."""
    for loss in losses:
        for small in (1.0, _SMALL):
            subject = f"{loss.name}, free lambda / {small:g}: loss of a person over the claim"
            yield from guarded("persons", subject, _largest, loss, epsilon, small, subject, rng)


def _largest(
    loss: Loss, epsilon: float, small: float, subject: str, rng: np.random.Generator
) -> Iterator[Check]:
    worst = -np.inf
    for d in (1, 2, 3):
        made = calibrated_for(loss, epsilon, d, small)
        for size, most in ((1, 1), (2, 1), (3, 1), (_RECORDS, 1), (2, _RECORDS)):
            worst = largest((worst, worst_person(made, size, most, rng)))
            check = Check("persons", subject, worst / epsilon, 1.0)
            if not check.holds:  # a search that has found a violation is over
                yield check
                return
    yield check
