"""What the certificate of wide tables would cost if it served every number of columns.

    python -m tests.studies.one_certificate

Up to 500 columns tau is small, and ball arithmetic ends what doubles do not reach. Beyond them
it is what doubles reach whatever the rows hold (`resolved_norm`), and the noise on the minimiser
pays for it. Printed are the factors by which the second tau changes the standard deviation of the
coefficients of a logistic regression: where the penalty is all the curvature that there is, and
where rows spread a mean curvature of 1/8 evenly over the columns. In brackets stands the condition
of the objective: in the worst case so many gradient steps for a digit, each a pass over the rows.
"""

import math
from unittest import mock

from privatelr.mechanisms import Problem, calibrate, read_request
from privatelr.mechanisms.calibration import proven_noise
from privatelr.numerics import LOSSES

RECORDS = [10**power for power in range(4, 9)]
COLUMNS = (5, 50, 500)
CASES = [(eps, delta, lam) for eps, delta in ((1.0, 0), (1.0, 1e-12)) for lam in ("auto", 1e-7)]
LOSS, RADIUS, CURVATURES = LOSSES["logistic"], math.sqrt(1.25), (0.0, 1 / 8)


def spread(calibration, curvature):
    """Root of the mean variance of a coefficient: the tilt by the curvature, and the shield."""
    problem = calibration.problem
    second = problem.penalty + problem.n * curvature * problem.radius**2 / problem.d
    tilt, shield = (law.variances.mean() for law in (calibration.noise, calibration.shield))
    return math.sqrt(tilt / second**2 + shield)


def measure(n, d, eps, delta, lambda_):
    """A factor for each curvature, and the condition of the objective."""
    request = read_request(eps, delta, None, lambda_, True, "joint", "increase")
    facts = Problem(n, d, LOSS, RADIUS)
    two = calibrate(request, facts)
    with mock.patch.object(proven_noise, "EXACT_COLUMNS", 0):
        one = calibrate(request, facts)
    factors = [spread(one, curvature) / spread(two, curvature) for curvature in CURVATURES]
    return *factors, 1 + LOSS.curvature_bound * two.problem.kappa * n


def main():
    """Print a table for each guarantee and lambda."""
    for eps, delta, lambda_ in CASES:
        print(f"eps={eps:g}, delta={delta:g}, lambda={lambda_}: factors (condition)")
        print(f"{'n':>11}" + "".join(f"{f'd={d}':>30}" for d in COLUMNS))
        for n in RECORDS:
            found = (measure(n, d, eps, delta, lambda_) for d in COLUMNS)
            print(f"{n:11,}" + "".join(f"{a:11.6f}{b:11.6f} ({c:.0e})" for a, b, c in found))


if __name__ == "__main__":
    main()
