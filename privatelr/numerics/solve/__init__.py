"""Minimisers with a certificate: a bound on the gradient at what they return."""

from privatelr.numerics.solve.certified import (
    EXACT_COLUMNS,
    certified_minimum,
    gradient_bound,
    precise_minimum,
    resolved_norm,
)
from privatelr.numerics.solve.newton import (
    CERTIFICATE,
    Minimum,
    Newton,
    Solver,
    certificate,
    descend,
)
