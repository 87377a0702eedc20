"""The exact loss of the softmax objective of several classes, on adversarial pairs of records.

All vectors of coefficients are released together, so that the density is that of the whole tilt
times the determinant of the whole Hessian (theory.md, Lemma 0). Slopes and curvatures are computed
here once more, without the formulas of the package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from privatelr.audit.checks import Check, Setting, guarded, largest, number
from privatelr.audit.density import exact
from privatelr.design import shares_of
from privatelr.mechanisms import Request, calibrate
from privatelr.mechanisms.calibration import Calibration, pure
from privatelr.numerics import LOSSES
from privatelr.privacy import PureDP
from privatelr.types import FloatArray, IntArray

_DEPTH = 4000.0
"""Length over R of the coefficients along the last column, to which the two records are nearly
orthogonal; so their links take any values there."""
_TURNS = 1e4
"""Size of the tilt over that of a record; the loss is short of its largest by about the inverse."""
_STEEP = 0.5
"""Share of a row along the last column at which its class is certain."""
_LEAST = 1e-9
"""Gradient of a record over R below which it cannot turn a tilt."""
_MOST_ROWS = 1e14
"""Largest number of other records, beyond which rounding shows."""
_PAIRS = 3000
"""Number of pairs of records whose gradients are compared."""
_STARTS, _STEPS = 3, 250
_LINKS, _REACH = np.linspace(-11.0, 1.0, 48), 300.0
"""Links of a record's own class to start from, and how much steeper those of the new record are."""
_SPREADS = (0.0, 0.4, 1.0)
"""Angles between the records of a person to start from."""
_SMALL = 7.0
"""The penalty is divided by this where the most is to pay for the curvature."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassedRows:
    """Rows ``(k, d)`` with their classes ``(k,)`` and how often each occurs ``(k,)``."""

    rows: FloatArray
    classes: IntArray
    counts: FloatArray

    def gradients(self, vectors: FloatArray) -> FloatArray:
        """The gradient ``(k, K, d)`` of the loss of each row once, at vectors ``(K, d)``."""
        slopes = self._shares(vectors)
        slopes[np.arange(len(self.rows)), self.classes] -= 1.0
        return np.asarray(slopes[:, :, None] * self.rows[:, None, :])

    def gradient(self, vectors: FloatArray) -> FloatArray:
        """The gradient ``(K, d)`` of the losses at vectors ``(K, d)``."""
        each = self.gradients(vectors).reshape(len(self.rows), -1)
        return np.asarray((self.counts @ each).reshape(vectors.shape))

    def _shares(self, vectors: FloatArray) -> FloatArray:
        """The probabilities ``(k, K)`` of the classes of each row."""
        # as SciPy's softmax does, which takes five times as long for a few rows
        links = self.rows @ vectors.T
        found = np.exp(links - links.max(axis=1, keepdims=True))
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def hessian(self, vectors: FloatArray) -> FloatArray:
        """The second derivative ``(K d, K d)`` there."""
        p = self._shares(vectors)
        bends = p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])
        weighed = self.counts[:, None, None] * self.rows[:, :, None] * self.rows[:, None, :]
        total = np.einsum("nij,nab->iajb", bends, weighed)
        return np.asarray(total.reshape(vectors.size, vectors.size))

    def log_det(self, vectors: FloatArray, others: FloatArray) -> float:
        """What these rows add to the log determinant of the matrix ``(K d, K d)``.

        A factor of the curvature of each has K columns, in which nothing cancels.
        """
        p = self._shares(vectors)
        halves = np.sqrt(p)[:, None, :] * (np.eye(p.shape[1]) - p[:, :, None])
        weighed = np.sqrt(self.counts)[:, None] * self.rows
        root = np.einsum("nij,na->ianj", halves, weighed).reshape(vectors.size, -1)
        inner = np.eye(root.shape[1]) + root.T @ np.linalg.solve(others, root)
        return float(np.linalg.slogdet(inner)[1])


def classes_loss(
    calibration: Calibration,
    shared: ClassedRows,
    old: ClassedRows,
    new: ClassedRows,
    vectors: FloatArray,
) -> float:
    """Log ratio of the densities of the minimiser at `vectors`, with the old record over the new.

    All K vectors are one release.
    """
    problem, noise = calibration.problem, calibration.noise
    pulled = old.gradient(vectors)
    change = new.gradient(vectors) - pulled
    b = -problem.penalty * vectors - shared.gradient(vectors) - pulled
    ratio = float(exact.log_ratios(noise, b.reshape(1, -1), change.reshape(1, -1))[0])
    others = shared.hessian(vectors) + problem.penalty * np.eye(vectors.size)
    return number(ratio + old.log_det(vectors, others) - new.log_det(vectors, others))


def one_record(row: FloatArray, place: int) -> ClassedRows:
    """A record alone."""
    return ClassedRows(row[None], np.array([place]), np.ones(1))


def adversarial_classes(
    calibration: Calibration,
    links: FloatArray,
    reach: float,
    angles: FloatArray | None = None,
) -> tuple[ClassedRows, ClassedRows, ClassedRows, FloatArray]:
    """Two datasets of two columns that differ in a record of the first class, and vectors.

    The old record has these links ``(K,)`` at the vectors, the new one lies opposite to it and has
    `reach` times those. In three columns the old person has a record of equal weight at each of
    these angles ``(k,)``, whose mean is 0, and the new person has one. Other records, whose classes
    are certain to be other ones, turn the tilt of each class in the direction that tells most, and
    make the vectors the minimisers.
    """
    problem = calibration.problem
    radius, k = problem.radius, problem.classes
    links = links - links.mean()
    d = 2 if angles is None else 3
    vectors = np.outer(links, _DEPTH / radius * np.eye(d)[-1])

    def row(first: float, along: float, angle: float = 0.0) -> FloatArray:
        across = first * np.sqrt(1 - along**2) * np.array([np.cos(angle), np.sin(angle)])
        return radius * np.append(across[: d - 1], along)

    turned = np.zeros(1) if angles is None else angles
    records = np.array([row(1.0, 1 / _DEPTH, angle) for angle in turned])
    k_old = len(records)
    old = ClassedRows(records, np.zeros(k_old, dtype=int), shares_of(np.full(k_old, k_old), 1))
    new = one_record(row(-1.0, np.clip(reach / _DEPTH, -_STEEP, _STEEP)), 0)
    change = new.gradient(vectors) - old.gradient(vectors)
    tilt = -_TURNS * change / np.linalg.norm(change) * radius
    tilt[:, 1:] = 0.0
    wanted = -problem.penalty * vectors - old.gradient(vectors) - tilt
    certain = [row(a, b * _STEEP) for a in (1.0, -1.0) for b in (1.0, -1.0)]
    # short rows along the last column, whose classes are open, hold the vectors against the penalty
    open_ = radius / _DEPTH / np.ptp(links) * np.eye(d)[-1]
    held = np.array([*certain, open_, -open_])
    offered = ClassedRows(
        np.repeat(held, k, axis=0), np.tile(np.arange(k), len(held)), np.ones(k * len(held))
    )
    pulls = offered.gradients(vectors).reshape(k * len(held), -1)
    useful = np.linalg.norm(pulls, axis=1) > _LEAST * radius  # others are of the certain class
    counts, _ = optimize.nnls(pulls[useful].T, wanted.ravel(), maxiter=1000)
    shared = ClassedRows(offered.rows[useful], offered.classes[useful], counts)
    return shared, old, new, vectors


def in_one_column(
    calibration: Calibration, links: FloatArray, entries: FloatArray, classes: IntArray
) -> tuple[ClassedRows, ClassedRows, ClassedRows, FloatArray]:
    """Two records alone, with these entries over R in one column, and vectors of these links."""
    rows = calibration.problem.radius * np.clip(entries, -1.0, 1.0)
    old, new = (one_record(rows[i : i + 1], int(classes[i])) for i in range(2))
    nothing = ClassedRows(np.zeros((1, 1)), np.zeros(1, dtype=int), np.ones(1))
    return nothing, old, new, links[:, None] / calibration.problem.radius


def worst_classes(calibration: Calibration, rng: np.random.Generator, size: int = 1) -> float:
    """The largest loss over pairs of records that a search from several starts finds.

    In three columns the old person has so many records.
    """
    k, d = calibration.problem.classes, calibration.problem.d
    fan = np.linspace(-1.0, 1.0, size) if size > 1 else np.zeros(1)

    def case(parameters: FloatArray, classes: IntArray) -> float:
        if d == 3:
            some = parameters[:k], float(parameters[k]), float(parameters[k + 1]) * fan
            made = adversarial_classes(calibration, *some)
        elif d == 1:
            made = in_one_column(calibration, parameters[:k], parameters[k:], classes)
        else:
            made = adversarial_classes(calibration, parameters[:k], float(parameters[k]))
        if not made[0].counts.max() < _MOST_ROWS:  # no other records make this the minimiser
            return -_MOST_ROWS
        return classes_loss(calibration, *made)

    best, limits = -np.inf, {"maxfev": _STEPS, "xatol": 1e-6, "fatol": 1e-10}
    for start in range(_STARTS):
        classes = rng.integers(0, k, 2)
        if d == 1:
            first = np.append(3 * rng.standard_normal(k), rng.choice([-1.0, 1.0], 2))
        else:
            # the old record may be of any other class, the new one is certain to be of one of them
            even = 0.1 * (np.arange(k - 1) + 0.1 * rng.standard_normal(k - 1))
            last = [_REACH] if d == 2 else [_REACH, _SPREADS[start]]
            tried = [np.r_[low, even, last] for low in _LINKS[start::_STARTS]]
            first = max(tried, key=lambda parameters: case(parameters, classes))
        found = optimize.minimize(
            lambda p, c=classes: -case(p, c), first, method="Nelder-Mead", options=limits
        )
        best = largest((best, -float(found.fun)))
    return best


def calibrated_for_classes(
    epsilon: float,
    classes: int,
    d: int,
    small: float,
    analysis: pure.Analysis | None = None,
    *,
    persons: bool = False,
) -> Calibration:
    """Noise for so many classes at the automatic penalty over `small`, as a fit would have it."""
    loss = LOSSES["logistic"]
    known = Setting().facts(loss)
    facts = type(known)(known.n, d, loss, known.radius, classes=classes, persons=persons)
    target, proof = PureDP(epsilon, facts.neighbours), pure.proven(analysis, loss)
    penalty = pure.laplace_free_penalty(facts, epsilon, proof) / small
    request = Request(target, "objective", analysis, penalty / facts.n, "keep")
    return calibrate(request, facts)


def audit_classes(epsilon: float, rng: np.random.Generator) -> Iterator[Check]:
    """The largest loss of a record of several classes over the claim, at two sizes of lambda.

    Of the gradient, the largest change in Euclidean length is found as well, which Gaussian noise
    and noise on the minimiser go by.
    """
    subject = "softmax: change of the gradient over its bound"
    yield from guarded("classes", subject, _moved, subject, rng)
    for small in (1.0, _SMALL):
        subject = f"softmax, automatic lambda / {small:g}: loss of a record over the claim"
        yield from guarded("classes", subject, _largest, epsilon, small, subject, rng)
        subject = f"softmax, automatic lambda / {small:g}: loss of a person over the claim"
        yield from guarded("classes", subject, _largest_person, epsilon, small, subject, rng)


def _moved(subject: str, rng: np.random.Generator) -> Iterator[Check]:
    made, worst = calibrated_for_classes(1.0, 3, 2, 1.0), 0.0
    radius = made.problem.radius
    for _ in range(_PAIRS):
        row = rng.standard_normal(2)
        row *= radius / np.linalg.norm(row)
        vectors = 20.0 * rng.standard_normal((3, 2)) / radius
        old = one_record(row, int(rng.integers(3)))
        turned = row * rng.choice([-1.0, 1.0], 2)
        new = one_record(turned, int(rng.integers(3)))
        change = new.gradient(vectors) - old.gradient(vectors)
        worst = largest((worst, float(np.linalg.norm(change)) / (2 * made.problem.reach)))
    yield Check("classes", subject, worst, 1.0)


def _largest(
    epsilon: float, small: float, subject: str, rng: np.random.Generator
) -> Iterator[Check]:
    losses = (
        worst_classes(calibrated_for_classes(epsilon, classes, d, small), rng)
        for classes in (3, 4)
        for d in (1, 2)
    )
    yield _check_of(subject, losses, epsilon)


def _largest_person(
    epsilon: float, small: float, subject: str, rng: np.random.Generator
) -> Iterator[Check]:
    made = (calibrated_for_classes(epsilon, k, 3, small, persons=True) for k in (3, 4))
    losses = (worst_classes(each, rng, size) for each in made for size in (1, 3))
    yield _check_of(subject, losses, epsilon)


def _check_of(subject: str, losses: Iterable[float], epsilon: float) -> Check:
    """The check of the largest loss; a search that has found a violation is over."""
    worst = -np.inf
    for loss in losses:
        worst = largest((worst, loss))
        check = Check("classes", subject, worst / epsilon, 1.0)
        if not check.holds:
            break
    return check
