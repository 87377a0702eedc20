"""Random projection of the covariates, drawn without a look at the data (privacy.md 6)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from privatelr.errors import SchemaError, show

if TYPE_CHECKING:
    from privatelr.frames.design import DesignSpec
    from privatelr.types import FloatArray


def projection_width(rp_dim: object, n: int) -> int:
    """Number of columns to project to; 0 for none.

    A negative `rp_dim` asks for R's rule, ``round(0.5 * 0.5**-2 * log(n))``, which depends
    on the number of records only.
    """
    if isinstance(rp_dim, bool) or not isinstance(rp_dim, int | np.integer):
        raise SchemaError(
            f"rp_dim={show(rp_dim)}: rp_dim takes a whole number, 0 for no projection, below 0 for "
            "R's rule."
        )
    return int(rp_dim) if rp_dim >= 0 else max(1, round(0.5 * 0.5**-2 * math.log(n)))


def project(spec: DesignSpec, normals: FloatArray) -> DesignSpec:
    """Project the covariates onto a random subspace.

    Parameters
    ----------
    normals : ndarray of shape (p, q)
        Independent standard normal numbers, drawn without the data.

    Notes
    -----
    The columns are orthonormal up to ``sqrt(p / q)``, so lengths are kept on average; the
    rows are bounded again afterwards, whatever the matrix did to them.
    """
    p, q = normals.shape
    basis, _ = np.linalg.qr(normals)
    # unbounded columns are mixed with the others, so all are shortened together before
    return replace(spec.as_whole_rows(), projection=basis * math.sqrt(p / q))
