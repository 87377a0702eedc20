"""The noise that a fit is expected to have, by public guesses about its records.

Records are made up by the guesses, so a forecast reads no data. Where the scale of the columns was
released, its moments take the place of the guesses about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy import optimize

from privatelr.design import (
    AnySpec,
    DesignSpec,
    in_standard_units,
    read_covariates,
    read_offset,
    read_roots,
    unstandardised,
)
from privatelr.inference.guessed_columns import Guesses, guessed_columns, positive_shares
from privatelr.mechanisms import Problem, Release, scale_map, scale_moments
from privatelr.numerics.rows import LEAST_SHARE, DenseRows, weights_of
from privatelr.sources import as_batch
from privatelr.types import ColumnGroup, FloatArray

_MOST_COLUMNS = 200
"""Designs with more columns have no forecast, which would take longer than a page may."""
_SMALLEST = 1e-300
"""In a ratio, this replaces a standard deviation of 0."""


# -- the forecast ------------------------------------------------------------------------------


def expected_noise(release: Release, spec: AnySpec) -> FloatArray | None:
    """Forecast the standard deviation that a tilt adds to each coefficient in the user's units.

    It is that of a linear function of the tilt, by the curvature of the expected objective of
    made-up records. `plan` also looks at how the minimiser bends, and differs by a few percent.

    Returns
    -------
    ndarray of shape (m,), or None
        None if there is nothing to make records up from, as without declared bounds or levels, or
        if rows are projected or very wide.

    Notes
    -----
    **Privacy.** *Covered*: a function of public facts, and of the released scale if there is one;
    free to repeat. *Neighbours*, *Assumed public*: those of the release. *Not covered*: nothing.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import expected_noise
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fits = [dplr("vote ~ age", votes, eps=eps, do_scale=False, **public) for eps in (1, 4)]
    >>> sds = [expected_noise(fit.release, fit.spec) for fit in fits]
    >>> bool((sds[0] > sds[1]).all())
    True
    """
    return _expected(release, spec) if _can_be_made_up(spec) else None


@lru_cache(maxsize=32)
def _expected(release: Release, spec: DesignSpec) -> FloatArray | None:
    with np.errstate(all="ignore"):  # bounds may be so wide that nothing follows from them
        held, positive = _made_up_rows(release, spec)
        calibration, units = release.calibration, spec.user_rows()
        curvature = _curvature(calibration.problem, held, positive)
        carried = np.linalg.solve(curvature, units.T) / calibration.problem.n
        variance = calibration.noise.variances @ carried**2
        variance += units**2 @ calibration.shield.variances
    return np.asarray(np.sqrt(variance)) if np.isfinite(variance).all() else None


def _can_be_made_up(spec: AnySpec) -> bool:
    """Whether declarations say what the covariates of a record may be."""
    if not spec.has_names or spec.d > _MOST_COLUMNS:
        return False
    variables = (spec.variables[name] for name in spec.formula.guessed)
    declared = all(v.levels or (v.kind == "numeric" and v.is_bounded) for v in variables)
    return declared and not spec.unbounded and spec.projection is None and not spec.scaled_by_data


def _made_up_rows(release: Release, spec: DesignSpec) -> tuple[DenseRows, FloatArray]:
    """Rows of made-up records, with labels 1 or larger, and the shares ``(m,)`` of this class."""
    guesses, scale, declared = Guesses(), release.scale, spec
    batch = as_batch(guessed_columns(spec, guesses))
    if scale is not None:
        mapped = scale_map(scale, release.length)
        declared = unstandardised(spec, *mapped)
    covariates, usable, values = read_covariates(declared, batch, spec.formula.guessed)
    offset = read_offset(spec.offsets, values, len(batch))[0] if spec.offsets else None
    covariates = np.where(usable[:, None], covariates, 0.0)
    if scale is not None:
        here, (mean, variance) = scale.calibration.means, scale_moments(scale)
        off = covariates[:, here] - covariates[:, here].mean(axis=0)
        units = np.sqrt(variance[here]) / np.maximum(off.std(axis=0), _SMALLEST)
        covariates[:, here] = mean[here] + units * off
        if scale.calibration.of_numbers:  # otherwise products have released moments of their own
            _multiply_again(covariates, spec, scale.calibration.facts.groups)
    positive = positive_shares(covariates, guesses, 0.0 if offset is None else offset)
    if scale is not None:
        covariates = in_standard_units(spec, covariates, *mapped)
    labels = 1 / np.maximum(read_roots(spec.weight, values, len(batch)), LEAST_SHARE)
    return DenseRows(covariates, labels, offset, **spec.limits), positive


def _multiply_again(
    covariates: FloatArray, spec: DesignSpec, groups: Sequence[ColumnGroup]
) -> None:
    """Write products of numbers and levels anew, in place, after the numbers were changed."""
    first, stop = int(spec.columns.has_intercept), 0
    for group in groups:
        columns = np.arange(stop, stop := stop + group.size)
        if group.number is not None:
            levels = covariates[:, spec.columns.parent[first + columns] - first]
            covariates[:, columns] = covariates[:, [group.number]] * levels


def _curvature(problem: Problem, held: DenseRows, positive: FloatArray) -> FloatArray:
    """Second derivative ``(d, d)`` of the expected objective, with the penalty, at its minimum."""
    loss, lambda_, negative = problem.loss, problem.lambda_, 1 - positive
    rows, labels, weights = held.x, held.y, weights_of(held.y)
    shift = 0.0 if held.offset is None else held.offset

    def value(w: FloatArray) -> float:
        link = labels * (rows @ w + shift)
        mean = (weights * (positive * loss.value(link) + negative * loss.value(-link))).mean()
        return float(mean + lambda_ / 2 * (w @ w))

    def gradient(w: FloatArray) -> FloatArray:
        link = labels * (rows @ w + shift)
        slopes = positive * loss.slope(link) - negative * loss.slope(-link)
        slopes *= labels * weights
        return np.asarray(slopes @ rows / len(rows) + lambda_ * w)

    def hessian(w: FloatArray) -> FloatArray:
        link = labels * (rows @ w + shift)
        weight = positive * loss.curvature(link) + negative * loss.curvature(-link)
        return np.asarray((rows.T * weight) @ rows / len(rows) + lambda_ * np.eye(len(w)))

    start, derivatives = np.zeros(problem.d), {"jac": gradient, "hess": hessian}
    found = optimize.minimize(value, start, method="trust-exact", **derivatives)
    return hessian(found.x)
