"""The largest loss of persons, of records that change strata, and of records of several classes.

A person has several records, whose weights the package gives them. Persons are searched for whose
slopes are steep along one direction while their curvatures lie in others. A record that leaves one
stratum and joins another changes two fits; their noise is independent, so that the logarithms of
their densities add up. The theorem that this attacks is in `privatelr.mechanisms.problem`. Of
several classes all vectors of coefficients are released together, so that the density is that of
the whole tilt times the determinant of the whole Hessian; slopes and curvatures of the softmax are
computed here once more.

The datasets are a few rows, so the density of a release is exact (Lemma 0 of theory.md). Under
Gaussian noise the law of the loss is an integral over tilts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import product

import numpy as np
from scipy import optimize

from privatelr.audit import checks
from privatelr.audit.density import exact
from privatelr.audit.density.loss import (
    FINE,
    climbed,
    loss_law,
    loss_of,
    search,
    shield_ratio,
    with_weights,
)
from privatelr.audit.density.pairs import PULL, TURN, Pair
from privatelr.audit.law_definitions import definition_of
from privatelr.design import shares_of
from privatelr.mechanisms import Problem, Request
from privatelr.mechanisms.calibration import GAUSSIAN, Calibration
from privatelr.mechanisms.calibration.lambda_rules import Kinds
from privatelr.mechanisms.signed_rows import SignedRows
from privatelr.numerics import LOSSES, Loss
from privatelr.privacy import REPLACE_PERSON, Promise, PureDP
from privatelr.types import FloatArray, IntArray, Placement

_DEPTH = 4000.0
"""The output at which densities are compared has this length, over R: records with any margins
there are nearly orthogonal to it."""
_TURNS = 1e4
"""Rows that turn the tilt, or its size over that of a record; the loss is short of its largest by
about the inverse of this."""
_LINEAR, _FARTHEST = 40.0, 60.0
"""At margins of the first size every loss is linear; under Gaussian noise larger ones are tried."""
_PERSONS = ((1, 1), (2, 1), (3, 1), (4, 1), (2, 4))
"""Numbers of records of a person, and of those that are allowed at full weight."""
_SIZES = (1.0, 7.0)
"""The free penalty is divided by these; by the second, most of the claim pays for the curvature."""
_ROUGH = 0.2
"""Each search weighs laws of the loss on a grid of this step, and what it finds on a finer one."""
_STEEP = 0.5
"""Share of a row along the last column at which its class is certain."""
_LEAST = 1e-9
"""Gradient of a record over R below which it cannot turn a tilt."""
_MOST_ROWS = 1e14
"""Largest number of other records, beyond which rounding shows."""
_PAIRS = 3000
"""Number of pairs of records whose gradients are compared."""
_STARTS = 3
"""Number of starts of a search over records of several classes."""
_LINKS, _REACH = np.linspace(-11.0, 1.0, 48), 300.0
"""Links of a record's own class to start from, and how much steeper those of the new record are."""
_SPREADS = (0.0, 0.4, 1.0)
"""Angles between the records of a person to start from."""
_MARGINS = (-30.0, -3.0, -1.0, 0.0, 1.0)
"""Margins to start from of a record that is removed from a stratum."""


def calibrated(
    loss: Loss,
    target: Promise,
    d: int,
    small: float,
    *,
    kinds: Kinds = (),
    classes: int = 2,
    touched: int = 1,
) -> Calibration:
    """Noise at the free penalty over `small`, as a fit would have it.

    Neighbours are those of the target, and change so many fits to strata.
    """
    persons = target.neighbours == REPLACE_PERSON
    facts = Problem(checks.RECORDS, d, loss, 1.0, persons=persons, classes=classes, touched=touched)
    plan = checks.plan_at(
        Request(target, "objective", None, "free", "keep", kinds=kinds), facts, small
    )
    assert plan is not None
    return plan.coefficients


def largest_of(
    loss_at: Callable[[FloatArray], float], starts: Iterable[FloatArray], steps: int
) -> tuple[float, FloatArray]:
    """The largest loss that searches from several starts find, each in so many steps, and where."""
    limits = {"maxfev": steps, "xatol": 1e-6, "fatol": 1e-10}
    ends = [climbed(loss_at, start, **limits) for start in starts]
    best = checks.largest(found for found, _ in ends)
    return best, next(at for found, at in ends if found == best)


# -- persons -------------------------------------------------------------------------------------


def log_ratio_at(calibration: Calibration, pair: Pair, w: FloatArray) -> float:
    """Log ratio of the densities of the minimiser at w ``(d,)``, old person over new."""
    found = exact.tilt_losses(pair, calibration.problem, calibration.noise, w[None])
    return checks.number(float(found[0]))


def adversarial(
    calibration: Calibration,
    angles: FloatArray,
    margins: FloatArray,
    most: int,
    turns: float = _TURNS,
) -> tuple[Pair, FloatArray]:
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
    old = SignedRows(at(plane, margins), shares_of(np.full(len(angles), len(angles)), most))
    (pulled,) = exact.pull(old, loss, w[None])
    across = -pulled
    across[-1] = 0.0
    length = float(np.linalg.norm(across))
    towards = across / length if length > 0 else np.eye(d)[0]
    rows = at(-towards[None], np.array([-_LINEAR, TURN]))
    new = SignedRows(rows[:1], shares_of(np.ones(1, dtype=int), most))
    turning, hold = rows[1], radius * PULL / _DEPTH * along
    slopes = loss.slope(np.array([TURN, PULL]))
    others = pulled + turns * slopes[0] * turning + problem.penalty * w
    count = float(others @ along) / float(-slopes[1] * hold @ along)
    shared = SignedRows(np.array([hold, turning]), np.array([max(count, 0.0), turns]))
    return Pair(shared, old, new), w


def _case_of(
    calibration: Calibration, at: FloatArray, size: int, most: int, turns: float = _TURNS
) -> tuple[Pair, FloatArray]:
    """The case of a person of so many records, from their angles and margins ``(2 size,)``."""
    end = _LINEAR if turns else _FARTHEST
    return adversarial(calibration, at[:size], np.clip(at[size:], -end, end), most, turns)


def worst_person(calibration: Calibration, size: int, most: int, rng: np.random.Generator) -> float:
    """The largest loss over persons of so many records that a search from several starts finds."""

    def loss_of_case(at: FloatArray) -> float:
        return log_ratio_at(calibration, *_case_of(calibration, at, size, most))

    def start(widest: float) -> FloatArray:
        margin = rng.uniform(-3.0, 1.0) * widest
        return np.append(rng.uniform(0.0, 1.6) * _fan(size), np.full(size, margin))

    starts = sorted(map(start, (1.0, 1.0, 10.0) * 2), key=loss_of_case)
    return largest_of(loss_of_case, starts[-2:], 200)[0]


def _fan(size: int) -> FloatArray:
    """So many numbers from -1 to 1; zero if it is one."""
    return np.linspace(-1.0, 1.0, size) if size > 1 else np.zeros(1)


def worst_under_gaussian(calibration: Calibration, size: int) -> float:
    """The largest share of the claim that a person of so many records spends, by a short search."""
    target, mu = calibration.target, shield_ratio(calibration)

    def share_at(at: FloatArray, step: float = _ROUGH) -> float:
        pair, _ = _case_of(calibration, at, size, 1, turns=0.0)
        law = loss_law(pair, calibration, np.random.default_rng(1), step)
        return law.in_unit_of(target, mu) / checks.claimed_number(target)

    # angles between records, and their margins: steep, and curved in many directions
    places = ((0.0, -_FARTHEST), (0.5, -_FARTHEST), (0.3, -2.0), (0.8, 0.0))
    starts = [np.append(spread * _fan(size), np.full(size, at)) for spread, at in places]
    return share_at(largest_of(share_at, [max(starts, key=share_at)], 25)[1], FINE)


# -- strata --------------------------------------------------------------------------------------


def loss_of_strata(
    made: Calibration, margins: FloatArray, before: FloatArray, after: FloatArray
) -> float:
    """Log ratio of the densities of fits to strata, which have these parts ``(K,)`` of a person.

    The old person has a record in each stratum, with these margins ``(K,)`` and the parts `before`
    as weights, and the new one has one there with the parts `after`. A record that moves is in the
    first stratum before, and in the second after. What is left open by each minimum is added,
    because each has a shield of its own.
    """
    total = 0.0
    for margin, part, other in zip(margins, before, after, strict=True):
        pair, w = adversarial(made, np.zeros(1), np.array([margin]), 1)
        old = replace(pair.old, counts=part * pair.old.counts)
        new = replace(pair.new, counts=other * pair.new.counts)
        total += log_ratio_at(made, Pair(pair.shared, old, new), w)
    apart = 2 * made.tau / made.problem.penalty
    return total + len(margins) * apart / made.shield.scale


def worst_spread(made: Calibration, strata: int) -> float:
    """The largest loss that a search over parts and margins in so many strata finds."""

    def loss_of_parts(at: FloatArray) -> float:
        parts = np.exp(at[:strata])
        parts /= parts.sum()
        return loss_of_strata(made, at[strata:], parts, parts)

    starts = [np.append(np.zeros(strata), np.full(strata, margin)) for margin in _MARGINS]
    return largest_of(loss_of_parts, [max(starts, key=loss_of_parts)], 400 * strata)[0]


def worst_move(made: Calibration) -> float:
    """The largest loss of a record that moves, by a search over its margin before."""
    starts = [np.array([margin]) for margin in _MARGINS]
    first, second = np.eye(2)
    return largest_of(lambda at: loss_of_strata(made, at.repeat(2), first, second), starts, 100)[0]


# -- several classes -----------------------------------------------------------------------------


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
    problem, law = calibration.problem, definition_of(calibration.noise)
    pulled = old.gradient(vectors)
    change = new.gradient(vectors) - pulled
    b = -problem.penalty * vectors - shared.gradient(vectors) - pulled
    ratio = float(law.log_ratios(b.reshape(1, -1), change.reshape(1, -1))[0])
    others = shared.hessian(vectors) + problem.penalty * np.eye(vectors.size)
    return checks.number(ratio + old.log_det(vectors, others) - new.log_det(vectors, others))


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


def worst_classes(calibration: Calibration, rng: np.random.Generator, size: int = 1) -> float:
    """The largest loss over pairs of records that a search from several starts finds.

    In three columns the old person has so many records.
    """
    k, d = calibration.problem.classes, calibration.problem.d

    def loss_of_links(at: FloatArray) -> float:
        angles = None if d == 2 else float(at[k + 1]) * _fan(size)
        case = adversarial_classes(calibration, at[:k], float(at[k]), angles)
        if not case[0].counts.max() < _MOST_ROWS:  # no other records make this the minimiser
            return -_MOST_ROWS
        return classes_loss(calibration, *case)

    best = -np.inf
    for start in range(_STARTS):
        # the old record may be of any other class, the new one is certain to be of one of them
        even = 0.1 * (np.arange(k - 1) + 0.1 * rng.standard_normal(k - 1))
        last = [_REACH] if d == 2 else [_REACH, _SPREADS[start]]
        first = max((np.r_[low, even, last] for low in _LINKS[start::_STARTS]), key=loss_of_links)
        best = checks.largest((best, largest_of(loss_of_links, [first], 250)[0]))
    return best


def _moved(rng: np.random.Generator) -> Iterator[float]:
    """How far the gradient moves between random pairs of records, over its bound."""
    made = calibrated(LOSSES["logistic"], PureDP(1.0), 2, 1.0, classes=3)
    radius = made.problem.radius
    for _ in range(_PAIRS):
        row = rng.standard_normal(2)
        row *= radius / np.linalg.norm(row)
        vectors = 20.0 * rng.standard_normal((3, 2)) / radius
        old = one_record(row, int(rng.integers(3)))
        turned = row * rng.choice([-1.0, 1.0], 2)
        new = one_record(turned, int(rng.integers(3)))
        change = new.gradient(vectors) - old.gradient(vectors)
        yield float(np.linalg.norm(change)) / (2 * made.problem.reach)


# -- offsets and weights -------------------------------------------------------------------------

_PLACES: tuple[Placement, ...] = ("objective", "output")
_MOVED = checks.Setting(12.0, 4.0, checks.ONE_COLUMN, offset=40.0)
"""One column, and a penalty so small that a record pays for its curvature. Without an offset,
opposite records have opposite margins there, and lose less than the claim."""
_OTHERWISE = {"offset": _MOVED, "weights": checks.Setting(2.0, 4.0, checks.INTERCEPT_AND_SLOPE)}
_WEIGHTS = ((0.5, 1.0), (1.0, 0.5), (0.9, 0.9), (0.01, 1.0), (1.0, 0.01))
"""What the old and the new record count."""


def _ratios(
    request: Request, loss: Loss, setting: checks.Setting, rng: np.random.Generator
) -> Iterator[float]:
    """The loss over the claim on the worst pair, and where one of its records counts less."""
    plan = checks.plan_in(request, loss, setting)
    assert plan is not None
    worst = search(plan.coefficients, rng, 1)
    yield worst.loss.ratio
    if setting.offset == 0:
        for counted in _WEIGHTS:
            yield loss_of(with_weights(worst.pair, *counted), plan.coefficients).ratio


# -- all of them ---------------------------------------------------------------------------------


def audit_changes(
    epsilon: float, rng: np.random.Generator, only: str = "*"
) -> Iterator[checks.Check]:
    """The largest loss over the claim of persons, strata and classes, with offsets and weights.

    Pure claims are checked at two sizes of the penalty. Only subjects that match the pattern `only`
    are checked, with their part before them.
    """
    for part, subject, shares in _cases(epsilon, rng):
        if fnmatch(f"{part}, {subject}", only):
            yield from checks.measured(part, subject, checks.worst_share, shares)


def _cases(epsilon: float, rng: np.random.Generator) -> Iterator[tuple[str, str, Iterable[float]]]:
    """Parts of the audit, what they check, and the shares of the claim that are found.

    Nothing is calibrated before the shares are asked for, so that an error becomes a verdict.
    """
    record, person = PureDP(epsilon), PureDP(epsilon, REPLACE_PERSON)
    of_persons = [
        replace(claim, neighbours=REPLACE_PERSON) for claim in checks.claims_of_size(epsilon)
    ]
    for loss in LOSSES.values():
        for small in _SIZES:
            where = f"{loss.name}, free lambda / {small:g}: loss of"
            shares = _shares_of_persons(loss, person, small, rng)
            yield "persons", f"{where} a person over the claim", shares
            made = (calibrated(loss, record, d, small, touched=2) for d in (2, 3))
            shares = (worst_move(each) / epsilon for each in made)
            yield "strata", f"{where} two strata over the claim", shares
        for claim in of_persons[1:]:
            subject = (
                f"{loss.name}, {checks.short(claim)}: Gaussian loss of a person over the claim"
            )
            shares = (
                worst_under_gaussian(calibrated(loss, claim, 2, 1.0, kinds=GAUSSIAN), size)
                for size in (1, 4)
            )
            yield "persons", subject, shares
        made = (calibrated(loss, person, 2, small, touched=3) for small in _SIZES)
        shares = (worst_spread(each, 3) / epsilon for each in made)
        yield "strata", f"{loss.name}: loss of a person in three strata over the claim", shares
    for (part, setting), loss, place, claim in product(
        _OTHERWISE.items(), LOSSES.values(), _PLACES, checks.claims_of_size(epsilon)[:2]
    ):
        where = "one column, " if setting is _MOVED else ""
        subject = f"{where}{loss.name}, {place}, {checks.short(claim)}: loss over the claim"
        request = Request(claim, place, None, "free", "keep")
        yield part, subject, _ratios(request, loss, setting, rng)
    yield "classes", "softmax: change of the gradient over its bound", _moved(rng)
    for small in _SIZES:
        where = f"softmax, automatic lambda / {small:g}: loss of a"
        shares = _shares_of_classes(record, 2, (1,), small, rng)
        yield "classes", f"{where} record over the claim", shares
        shares = _shares_of_classes(person, 3, (1, 3), small, rng)
        yield "classes", f"{where} person over the claim", shares


def _shares_of_persons(
    loss: Loss, claim: PureDP, small: float, rng: np.random.Generator
) -> Iterator[float]:
    for d in (2, 3):
        made = calibrated(loss, claim, d, small)
        for size, most in _PERSONS:
            yield worst_person(made, size, most, rng) / claim.epsilon


def _shares_of_classes(
    claim: PureDP, d: int, sizes: tuple[int, ...], small: float, rng: np.random.Generator
) -> Iterator[float]:
    for k, size in product((3, 4), sizes):
        made = calibrated(LOSSES["logistic"], claim, d, small, classes=k)
        yield worst_classes(made, rng, size) / claim.epsilon
