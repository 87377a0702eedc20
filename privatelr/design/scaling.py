"""Changes of the columns before a fit: a public projection, and R's scaling by the data."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.design.formula_design import DesignSpec, plan_design, read_covariates
from privatelr.errors import FormulaError, PrivacyWarning, SchemaError, show
from privatelr.formula import parse_formula
from privatelr.sources import Batch, Schema, as_batch, declare_schema
from privatelr.types import FloatArray


def projection_width(rp_dim: object, n: int) -> int:
    """Return the number of columns to project to; 0 for no projection.

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
    """Project the covariates onto a random subspace (privacy.md 6).

    Parameters
    ----------
    normals : ndarray of shape (p, q)
        Independent standard normal numbers, drawn without the data.

    Notes
    -----
    The columns are orthonormal up to the factor ``sqrt(p / q)``, so lengths are kept on average.
    Rows are shortened again after the projection. So the row radius, and with it every guarantee,
    holds for any matrix that does not depend on the data, and the matrix may be published.
    """
    p, q = normals.shape
    basis, _ = np.linalg.qr(normals)
    # a projection mixes unbounded columns with the others, so whole rows are shortened first
    return replace(spec.as_whole_rows(), projection=basis * math.sqrt(p / q))


class ScaledData(NamedTuple):
    """What `scaled` returns; computed from the data, hence not private.

    Attributes
    ----------
    data : DataFrame
        Standardised covariates, the longest row of length 1, and the response's columns.
    scale : float
        One over the largest length among the standardised rows.
    """

    data: pd.DataFrame
    scale: float


def scale_by_data(spec: DesignSpec, batch: Batch) -> tuple[DesignSpec, float]:
    """Standardise every covariate column, then shrink all rows into the unit ball.

    Returns the plan with the map that was computed, which prediction uses again, and the factor
    that made the longest row have length 1.
    """
    columns, size = spec.columns, len(spec.columns.names)
    nothing = np.zeros(size)
    unmapped = replace(columns, parent=np.full(size, -1), centre=nothing, scale=nothing + 1)
    plain = replace(spec, columns=unmapped)
    raw, usable, _ = read_covariates(plain, batch, spec.formula.covariates)
    raw = raw[usable]
    first = int(columns.has_intercept)
    with np.errstate(all="ignore"):
        mean = raw.mean(axis=0) if len(raw) and first else np.zeros(raw.shape[1])
        deviation = raw.std(axis=0, ddof=1) if len(raw) > 1 else np.ones(raw.shape[1])
        deviation = np.where((deviation > 0) & np.isfinite(deviation), deviation, 1.0)
        mean = np.where(np.isfinite(mean), mean, 0.0)
        longest = float(np.linalg.norm((raw - mean) / deviation, axis=1).max(initial=0.0))
    factor = 1.0 / longest if longest > 0 and math.isfinite(longest) else 1.0
    parent, centre, scale = columns.parent.copy(), columns.centre.copy(), columns.scale.copy()
    parent[first:], centre[first:], scale[first:] = first - 1, mean, deviation / factor
    whole = spec.as_whole_rows()
    scaled_spec = replace(
        whole,
        columns=replace(columns, parent=parent, centre=centre, scale=scale),
        bound=1.0 if whole.bound_source == "declared bounds" else whole.bound,
        bound_source="row_norm",
        unbounded=(),
        scaled_by_data=True,
    )
    return scaled_spec, factor


@suggests_arguments
def scaled(formula: str, data: Any, *, levels: Any = None) -> ScaledData:
    """Standardise the covariates of a formula and shrink the rows into the unit ball.

    What R's ``scaled`` does: each column minus its mean, over its standard deviation, then
    everything over the largest row length.

    Parameters
    ----------
    formula : str
        As for `dplr`.
    data : DataFrame or mapping of columns
    levels : mapping, optional
        As for `dplr`.

    Returns
    -------
    ScaledData
        ``(data, scale)``.

    Notes
    -----
    **Privacy.** *Covered*: nothing; a `PrivacyWarning` says so. *Neighbours*: one record moves
    every row of the result. *Assumed public*: names, types and levels. *Not covered*: the
    result, the scale, and any fit to the result, whatever its epsilon. Declare ``bounds=`` to
    `dplr` instead.
    """
    batch = as_batch(data)
    warnings.warn(
        "scaled() computes means, standard deviations and a row length from the data: its result, "
        "and any fit to it, is not private.",
        PrivacyWarning,
        stacklevel=3,
    )
    schema: Schema = declare_schema(levels=levels)
    parsed = parse_formula(formula, list(batch.names))
    for name in parsed.response.names:
        if name in parsed.covariates:
            raise FormulaError(
                f"formula: scaled() returns {name!r} once, and it is in the response and among the "
                "covariates; take it out of one."
            )
    spec, factor = scale_by_data(plan_design(parsed, batch, schema), batch)
    covariates, usable, _ = read_covariates(spec, batch, parsed.covariates)
    covariates[~usable] = np.nan
    names = spec.columns.names[int(spec.columns.has_intercept) :]
    result = pd.DataFrame(covariates, columns=list(names), index=batch.index)
    for name in parsed.response.names:
        result[name] = batch[name]
    return ScaledData(result, factor)
