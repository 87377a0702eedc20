"""The design of a formula before it is mapped to scaled units, every term made of its factors."""

import numpy as np

from privatelr.design import fill, read_factors


def raw_design(spec, values, n):
    """Raw design ``(n, d)``, and the rows in which all factors are valid."""
    raw = np.empty((len(spec.columns.names), n)).T
    with np.errstate(all="ignore"):
        numbers, codes, usable = read_factors(spec.factors, values, n)
        for term in spec.columns.terms:
            fill(raw, term, numbers, codes)
    return raw, usable
