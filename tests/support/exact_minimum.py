"""The sum form at hundreds of bits, written out once more: a reference for certificates."""

from flint import arb, arb_mat

from privatelr.locks import working_precision


def logistic_slope(z):
    return -1 / (1 + z.exp()) if z < 0 else -(-z).exp() / (1 + (-z).exp())


SLOPES = {
    "logistic": lambda z, h: logistic_slope(z),
    "softplus": lambda z, h: logistic_slope((z - 1) / h),
    "huber": lambda z, h: -((1 + h - z) / (2 * h)).max(arb(0)).min(arb(1)),
}
"""The slope of each loss at a ball z, written once more; a new loss takes a line here."""


def slope_of(loss):
    """The slope of a registered loss as a function of a ball."""
    slope, h = SLOPES[loss.name], arb(getattr(loss, "h", 1.0))
    return lambda z: slope(z, h)


def curvature_of(loss):
    """Its curvature; at a kink one of its values."""
    if loss.name == "huber":
        h = arb(loss.h)
        return lambda z: 1 / (2 * h) if abs(z.mid() - 1) < h else arb(0)
    slope, width = slope_of(loss), arb(getattr(loss, "h", 1.0))
    return lambda z: -slope(z) * (1 + slope(z)) / width


def exact_gradient(objective, w, tilt, bits=200, slope=None):
    """Enclosures of the gradient of F at w, for exact or double w and tilt."""
    slope = slope or slope_of(objective.loss)
    rows, penalty = objective.rows, arb(objective.rows.n * objective.lambda_)
    with working_precision(bits):
        w = arb_mat(rows.d, 1, list(w))
        x = arb_mat((rows.y[:, None] * rows.x).tolist())
        slopes = [slope(z) for z in (x * w).entries()]
        total = arb_mat(1, rows.n, slopes) * x
        terms = zip(total.entries(), w.entries(), tilt, strict=True)
        return [s + penalty * v + b for s, v, b in terms]


def exact_norm(vector, bits=200):
    """The length of a vector of balls, rounded up in the last of so many bits."""
    with working_precision(bits):
        return sum((v.abs_upper() ** 2 for v in vector), arb(0)).sqrt().upper()


def exact_minimum(objective, near, tilt, bits=600):
    """Newton's method from some point; its own gradient shows how far it came.

    A step is halved until the slope along it has not turned.
    """
    rows, penalty = objective.rows, objective.rows.n * objective.lambda_
    w, curvature = list(near), curvature_of(objective.loss)
    with working_precision(bits):
        x = arb_mat((rows.y[:, None] * rows.x).tolist())
        for _ in range(200):
            gradient = exact_gradient(objective, w, tilt, bits)
            if exact_norm(gradient, bits) <= arb(2) ** -300 * penalty:
                return w
            bends = [curvature(z) for z in (x * arb_mat(rows.d, 1, w)).entries()]
            weighted = [[c * v for v in row] for c, row in zip(bends, x.tolist(), strict=True)]
            hessian = x.transpose() * arb_mat(weighted)
            for j in range(rows.d):
                hessian[j, j] += penalty
            step = hessian.mid().solve(arb_mat(rows.d, 1, [g.mid() for g in gradient]))
            step = [-s.mid() for s in step.entries()]
            steep = abs(_dot(gradient, step)) / 2
            for _ in range(60):
                trial = [(v + s).mid() for v, s in zip(w, step, strict=True)]
                if not _dot(exact_gradient(objective, trial, tilt, bits), step) > steep:
                    break
                step, steep = [s / 2 for s in step], steep / 2
            w = trial
    raise AssertionError("the reference did not converge")


def _dot(a, b):
    return sum((left * right for left, right in zip(a, b, strict=True)), arb(0))
