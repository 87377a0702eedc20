"""The sum form at hundreds of bits, written out once more: a reference for certificates."""

from flint import arb, arb_mat

from privatelr.precision import working_precision


def logistic_slope(z):
    return -1 / (1 + z.exp()) if z < 0 else -(-z).exp() / (1 + (-z).exp())


def exact_gradient(objective, w, tilt, bits=200, slope=logistic_slope):
    """Enclosures of the gradient of F at w, for exact or double w and tilt."""
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
    """Newton's method from a point nearby; its own gradient shows how far it came."""
    rows, penalty = objective.rows, objective.rows.n * objective.lambda_
    w = list(near)
    with working_precision(bits):
        x = arb_mat((rows.y[:, None] * rows.x).tolist())
        for _ in range(40):
            gradient = exact_gradient(objective, w, tilt, bits)
            if exact_norm(gradient, bits) <= arb(2) ** -300 * penalty:
                return w
            shares = [-logistic_slope(z) for z in (x * arb_mat(rows.d, 1, w)).entries()]
            weighted = [
                [s * (1 - s) * v for v in row] for s, row in zip(shares, x.tolist(), strict=True)
            ]
            hessian = x.transpose() * arb_mat(weighted)
            for j in range(rows.d):
                hessian[j, j] += penalty
            step = hessian.mid().solve(arb_mat(rows.d, 1, [g.mid() for g in gradient]))
            w = [(v - s).mid() for v, s in zip(w, step.entries(), strict=True)]
    raise AssertionError("the reference did not converge")
