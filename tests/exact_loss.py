"""Exact privacy loss of a mechanism between two datasets, from its density (privacy.md, Lemma 0).

Rows are signed, ``u = y x``, and carry counts, so that a large dataset is a few distinct rows.
Differences between neighbours are formed before they are added to large sums.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import optimize


@dataclass(frozen=True)
class Pair:
    """Neighbours: shared signed rows ``(k, d)`` with counts ``(k,)``, and the replaced row."""

    rows: np.ndarray
    counts: np.ndarray
    old: np.ndarray
    new: np.ndarray

    @property
    def n(self):
        return int(self.counts.sum()) + 1

    def swapped(self):
        return Pair(self.rows, self.counts, self.new, self.old)


def shared_gradient(pair, problem, w):
    slopes = pair.counts * problem.loss.slope(pair.rows @ w)
    return slopes @ pair.rows + problem.penalty * w


def shared_hessian(pair, problem, w):
    weight = pair.counts * problem.loss.curvature(pair.rows @ w)
    return (pair.rows * weight[:, None]).T @ pair.rows + problem.penalty * np.eye(len(w))


def objective_loss(pair, calibration, w):
    """Log ratio of the densities of the released minimiser at w, old record over new.

    The tilt that makes w the minimiser is ``b = -(gradient without tilt)``; its density is the
    noise's, times the determinant of the Hessian.
    """
    problem = calibration.problem
    loss = problem.loss
    margins = np.array([pair.old @ w, pair.new @ w])
    slope, curvature = loss.slope(margins), loss.curvature(margins)
    shared = shared_gradient(pair, problem, w)
    tilt_old, tilt_new = -shared - slope[0] * pair.old, -shared - slope[1] * pair.new
    change = slope[0] * pair.old - slope[1] * pair.new
    lengths = np.linalg.norm(tilt_old) + np.linalg.norm(tilt_new)
    noise = calibration.noise.rate * (change @ (tilt_old + tilt_new)) / lengths
    inverse = np.linalg.inv(shared_hessian(pair, problem, w))
    ratio_old = np.log1p(curvature[0] * pair.old @ inverse @ pair.old)
    ratio_new = np.log1p(curvature[1] * pair.new @ inverse @ pair.new)
    return noise + ratio_old - ratio_new


def worst_objective_loss(pair, calibration, starts):
    """Largest loss over outputs, by local search from the best start, both ways round."""
    worst = 0.0
    for way in (pair, pair.swapped()):
        losses = [objective_loss(way, calibration, w) for w in starts]
        found = optimize.minimize(
            lambda w, way=way: -objective_loss(way, calibration, w),
            starts[int(np.argmax(losses))],
            method="Nelder-Mead",
            options={"maxiter": 400, "xatol": 1e-7, "fatol": 1e-9},
        )
        worst = max(worst, max(losses), -found.fun)
    return worst


def minimiser(pair, problem, *, record):
    """Exact minimiser with `record` in the place of the replaced one, on the sum form."""
    rows, counts = np.vstack([pair.rows, record]), np.append(pair.counts, 1.0)
    whole = Pair(rows, counts, record, record)

    def value(w):
        return counts @ problem.loss.value(rows @ w) + problem.penalty / 2 * w @ w

    w = np.zeros(rows.shape[1])
    for _ in range(200):
        g = shared_gradient(whole, problem, w)
        step = np.linalg.solve(shared_hessian(whole, problem, w), g)
        size = 1.0
        while value(w - size * step) > value(w) and size > 1e-12:
            size /= 2
        w = w - size * step
        if np.linalg.norm(step) < 1e-13 * (1 + np.linalg.norm(w)):
            break
    return w


def output_loss(pair, calibration):
    """Supremum over all outputs: the rate of the noise times the shift of the minimiser."""
    problem = calibration.problem
    shift = minimiser(pair, problem, record=pair.old) - minimiser(pair, problem, record=pair.new)
    return float(np.linalg.norm(shift)) * calibration.noise.rate


def attaining_pair(radius, penalty, depth=40.0, old=7.0, new=7.0):
    """Neighbours in d = 2, and an output w, at which the joint bound is attained as depth grows.

    At ``w = (0, -t)`` with ``t = depth / radius`` the records have margins ``-old`` and
    ``-new``: at 7 their slopes are nearly one and their curvatures nearly zero, and yet they
    point almost opposite ways. Misclassified rows turn the tilt along their difference, and
    rows straight against w make it orthogonal to w.
    """

    def at(margin, sign):
        sine = margin / depth
        return radius * np.array([sign * np.sqrt(1 - sine**2), sine])

    turning, turns = at(20.0, 1), 10.0
    pull = radius / (1 + np.exp(depth))  # of one row straight against w
    lift = turns * turning[1] + at(old, -1)[1] / (1 + np.exp(-old))
    count = (penalty * depth / radius + lift) / pull
    rows = np.array([[0.0, -radius], turning])
    pair = Pair(rows, np.array([count, turns]), at(old, -1), at(new, 1))
    return pair, np.array([0.0, -depth / radius])


def pinned_boundary(n, t=0.9133, gap=0.0229, scale=1.0):
    """privacy.md 11: rows on both sides of ``x = t`` pin a steep boundary in one covariate.

    The old record (x = 1, y = +1) and the new one (x = 2 t - 1, y = -1) are both misclassified
    with confidence; the first column is an intercept of size `scale`.
    """
    half = (n - 1) / 2
    rows = np.array([[scale, t - gap], [-scale, -(t + gap)]])
    old, new = np.array([scale, 1.0]), np.array([-scale, -(2 * t - 1)])
    return Pair(rows, np.array([half, half]), old, new)


def random_pair(rng, d, radius, size=5):
    """A small dataset near the sphere of admissible rows, and a record to replace."""
    rows = rng.standard_normal((size + 2, d))
    rows *= radius / np.linalg.norm(rows, axis=1, keepdims=True)
    rows[:size] *= rng.uniform(size=(size, 1)) ** rng.choice([0.0, 0.5])
    if rng.uniform() < 0.5 and d > 1:
        rows[-1] = -rows[-2] + 0.3 * radius * rng.standard_normal(d)
        rows[-1] *= radius / np.linalg.norm(rows[-1])
    counts = rng.choice([1.0, 3.0, 100.0], size=size)
    return Pair(rows[:size], counts, rows[-2], rows[-1])


def random_outputs(rng, d, radius, count=60):
    """Outputs over many orders of size, where losses are flat and where they are steep."""
    directions = rng.standard_normal((count, d))
    sizes = 10.0 ** rng.uniform(-2, 2.5, size=(count, 1)) / radius
    return list(directions / np.linalg.norm(directions, axis=1, keepdims=True) * sizes)


def table():
    """Exact loss over claim on the pairs that attain it: ``python -m tests.exact_loss``."""
    from privatelr.mechanisms.problem import Facts
    from privatelr.mechanisms.registry import calibrate
    from privatelr.mechanisms.request import read_request
    from privatelr.numerics.losses import LOSSES

    print(f"{'mechanism':<12}{'eps':>6}{'R':>8}{'kappa/free':>12}{'loss/eps':>10}")
    for op, eps, radius in itertools.product((True, False), (0.1, 1.0, 4.0), (0.1, 1.0, 100.0)):
        for multiple in (0.25, 1.0, 4.0) if op else (1.0,):
            n = 10**6
            lambda_ = 2 * radius**2 / eps / n / multiple
            request = read_request(eps, 0, None, lambda_, op, "joint", "keep")
            calibration = calibrate(request, Facts(n, 2, LOSSES["logistic"], radius))
            worst = 0.0
            for old in (0.0, 0.2, 0.5, 1.0, 2.0, 7.0):
                pair, w = attaining_pair(radius, calibration.problem.penalty, old=old)
                alone = Pair(pair.rows[:1], pair.counts[:1], pair.old, pair.new)
                found = (
                    worst_objective_loss(pair, calibration, [w])
                    if op
                    else output_loss(alone, calibration)
                )
                worst = max(worst, found)
            name = "objective" if op else "output"
            print(f"{name:<12}{eps:>6g}{radius:>8g}{multiple:>12g}{worst / eps:>10.4f}")


if __name__ == "__main__":
    table()
