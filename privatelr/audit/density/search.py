"""The privacy loss between two datasets, and a search for the pair with the largest loss."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from privatelr.arguments import suggests_arguments
from privatelr.audit.checks import no_claim
from privatelr.audit.density import exact, pairs
from privatelr.audit.density import loss as losses
from privatelr.audit.density.loss import PrivacyLoss
from privatelr.audit.density.pairs import Pair
from privatelr.design import read_design, reader_of, unstandardised
from privatelr.errors import ArgumentError, count_of, show
from privatelr.mechanisms import Release, StagedCalibration, in_order
from privatelr.mechanisms.calibration import Calibration
from privatelr.mechanisms.request import COEFFICIENTS
from privatelr.mechanisms.signed_rows import SignedRows
from privatelr.mechanisms.stages.scale import (
    MomentSums,
    mean_squares,
    scale_map,
)
from privatelr.numerics.rows import DenseRows, LooseRows
from privatelr.privacy import ApproxDP, Guarantee, PureDP
from privatelr.results import FitRecord
from privatelr.sources import as_batch
from privatelr.types import FloatArray

_ROUNDING = 1e-9
"""The length of a row has at most this relative rounding error."""
_STEEP = 1 - 1e-9
"""A slope of this share of the largest one counts as the largest one."""
_SHARES = (0.9997, 0.98)
"""The old record is tried at margins with these shares of the largest slope, under Gaussian
noise."""
_PINNED = 100_001
"""The realistic pair has this number of records."""

Candidate = tuple[str, Pair, FloatArray | None]
"""The name of a family of pairs, a pair of it, and outputs ``(m, d)`` to start a search from."""


# -- the loss between two datasets of a user ----------------------------------------------------


@suggests_arguments
def privacy_loss(
    subject: FitRecord | StagedCalibration | Calibration,
    data: Any,
    neighbour: Any,
    *,
    output: Any = None,
) -> PrivacyLoss:
    """Privacy loss of a mechanism between two datasets, from the density of its release.

    Parameters
    ----------
    subject : Fit, Plan or Calibration
        The mechanism. For a fit, the datasets are frames, which are read as its own data were.
        For a plan or a calibration, they are `SignedRows`, or arrays ``(n, d)`` of signed rows
        ``y x``.
    data, neighbour
        Two datasets of one size that differ in one record; the order of records does not matter.
    output : ndarray of shape (d,), optional
        Under a pure claim, the loss is computed at these coefficients (in scaled units). By
        default it is the largest loss over all coefficients.

    Returns
    -------
    PrivacyLoss
        Under a pure claim it is the largest loss over all outputs, found by
        a local search; under zCDP it is the largest ratio of a Renyi divergence to its order;
        under (epsilon, delta) it is the exact delta. For a fit that released a scale of columns, or
        bought inference, `PrivacyLoss.parts` compares what each stage loses where it loses most
        with what was paid for it, and the loss is their sum, as a ledger adds them up. The loss of
        the scale is the largest over all scales, and that of the other stages is for rows under
        the scale that the fit released; for a plan, it is that of a record that moves every column
        as far as it may.

    Raises
    ------
    GuaranteeError
        If the mechanism claims no guarantee.
    ArgumentError
        If the datasets are not neighbours of the size that the mechanism is calibrated for, or
        have signed rows that exceed the bounds of the calibration.

    Notes
    -----
    **Privacy.** *Covered*: nothing; run it on made-up data. *Neighbours*: replace one record.
    *Assumed public*: both datasets. *Not covered*: time and memory of the mechanism.
    """
    if isinstance(subject, FitRecord) and not subject.guarantee.is_private:
        raise no_claim(subject.guarantee)
    plan, calibration = _read_subject(subject)
    if calibration.problem.persons or calibration.problem.is_multinomial:
        what = "persons" if calibration.problem.persons else "classes"
        raise ArgumentError(
            f"subject: it is about {what}, about which `audit.run` has checks; "
            "subject takes what is about records of two classes."
        )
    fit = subject if isinstance(subject, FitRecord) else None
    named, change = {"data": data, "neighbour": neighbour}, None
    if fit is not None:
        tables = [as_batch(side) for side in named.values()]
        designs = [read_design(fit.spec, table, DenseRows) for table in tables]
        sides = [pairs.signed_rows(*rows.tables) for rows in cast("list[DenseRows]", designs)]
    else:
        sides = [_read_rows(calibration, name, side) for name, side in named.items()]
    pair, n, d = pairs.pair_of(*sides), calibration.problem.n, calibration.problem.d
    # fewer signed rows than n are allowed: the other records are zero rows, which add nothing
    if pair.d != d or pair.n > n or (fit is not None and pair.n < n):
        raise ArgumentError(
            f"data and neighbour of shape ({pair.n}, {pair.d}): takes n={n} and d={d}."
        )
    if fit is not None and fit.release.scale is not None:
        change = _change_of_scale(fit.spec, fit.release, tables)
    claim = (plan or calibration).proven
    if output is None:
        loss = losses.loss_of(pair, calibration)
    else:
        loss = losses.loss_at(pair, calibration, _read_output(output, calibration, claim))
    if plan is None:
        return loss
    return losses.loss_of_stages(plan, [loss, *losses.losses_beside(pair, plan, change)])


def _change_of_scale(spec: Any, release: Release, tables: list[Any]) -> FloatArray:
    """The change of means and weighted mean squares between two tables, without noise.

    They are those of the covariates in the units of the declared bounds, as they are before the map
    of the scale.
    """
    assert release.scale is not None
    plain, found = unstandardised(spec, *scale_map(release.scale, release.length)), []
    for table in tables:
        kernel = MomentSums(persons=False, are_bounded=False)
        rows = LooseRows.of(reader_of(plain, table), plain.d, kernel)
        found.append(mean_squares(rows, release.scale.calibration))
    return np.asarray(found[1] - found[0])


def _read_subject(subject: Any) -> tuple[StagedCalibration | None, Calibration]:
    """The plan, or None if it buys nothing but coefficients, and their calibration."""
    match subject:
        case FitRecord(calibration=calibration, release=release):
            parts = {name: part.calibration for name, part in release.parts.items()}
            parts = in_order({**parts, COEFFICIENTS: calibration})
            plan = StagedCalibration(subject.guarantee, parts)
        case StagedCalibration():
            plan = subject
        case Calibration():
            return None, subject
        case _:
            raise ArgumentError(
                f"subject={show(subject)}: subject takes a fit, a plan or a calibration."
            )
    return plan if len(plan.stages) > 1 else None, plan.coefficients


def _read_rows(calibration: Calibration, name: str, data: Any) -> SignedRows:
    """Signed rows of a dataset; raises an error if they exceed the bounds of the calibration."""
    if isinstance(data, SignedRows):
        signed = data
    else:
        array = isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind in "fiu"
        if not array or not np.isfinite(data).all():
            raise ArgumentError(
                f"{name}={show(data)}: beside a calibration, {name} takes SignedRows or a finite "
                "array (n, d) of signed rows."
            )
        signed = pairs.signed_rows(data.astype(np.float64), np.ones(len(data)))
    d = calibration.problem.d
    if signed.rows.shape[1] != d:
        raise ArgumentError(f"{name} of {count_of(signed.rows.shape[1], 'column')}: takes d={d}.")
    if any(not pairs.row_size(calibration, row) <= 1 + _ROUNDING for row in signed.rows):
        blocks = " or outside its blocks" if calibration.problem.blocks else ""
        raise ArgumentError(
            f"{name} has signed rows longer than the radius {calibration.problem.radius:.6g} of "
            f"the calibration{blocks}: {name} takes rows that it was made for."
        )
    return signed


def _read_output(output: Any, calibration: Calibration, claim: Guarantee) -> FloatArray:
    d = calibration.problem.d
    try:
        vector = np.asarray(output, dtype=np.float64)
    except (TypeError, ValueError):
        vector = np.zeros(0)
    if vector.shape != (d,) or not np.isfinite(vector).all():
        raise ArgumentError(
            f"output={show(output)}: output takes {d} finite numbers, shape ({d},)."
        )
    if not isinstance(claim, PureDP) or calibration.placement == "output":
        raise ArgumentError("output: takes None but for objective perturbation of a pure claim.")
    return vector


# -- the worst pair ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """The worst pair that a search found.

    Attributes
    ----------
    calibration : Calibration
    pair : Pair
    loss : PrivacyLoss
    family : str
        The family of the pair, such as ``"opposed"`` or ``"random"``.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import audit, dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age", votes, eps=1.0, do_scale=False, **public)
    >>> found = audit.search(fit.calibration, np.random.default_rng(0), random_pairs=0)
    >>> print(f"{found.family}, of {found.pair.n} records: {found.loss.ratio:.2f} of the claim")
    straight, of 3 records: 0.50 of the claim
    """

    calibration: Calibration
    pair: Pair
    loss: PrivacyLoss
    family: str


@suggests_arguments
def search(
    subject: Calibration | StagedCalibration, rng: np.random.Generator, random_pairs: int
) -> Finding:
    """Search for the worst pair among those that attain the bounds, a realistic one, and others.

    Each stage of a plan of several is attacked on the pair that is worst for it: moments on
    orthogonal records, and the scale on records at opposite ends of their bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr import audit, dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age", votes, eps=1.0, **public)
    >>> audit.search(fit.calibration, np.random.default_rng(0), random_pairs=0).loss.holds
    True
    """
    plan, calibration = _read_subject(subject)
    worst = max(
        (
            Finding(calibration, pair, losses.loss_of(pair, calibration, outputs), family)
            for family, pair, outputs in _candidates(calibration, rng, random_pairs)
        ),
        key=lambda found: ratio_of(found.loss),
    )
    if plan is None:
        return worst
    others = losses.losses_beside(pairs.right_pair(calibration), plan)
    return replace(worst, loss=losses.loss_of_stages(plan, [worst.loss, *others]))


def ratio_of(loss: PrivacyLoss) -> float:
    """The ratio of a loss to its claim; NaN becomes infinity, so that it counts as the worst."""
    return math.inf if math.isnan(loss.ratio) else loss.ratio


def _candidates(
    calibration: Calibration, rng: np.random.Generator, random_pairs: int
) -> Iterator[Candidate]:
    yield from _attaining(calibration)
    if calibration.problem.d == 2 and calibration.problem.n >= _PINNED:
        axis = pairs.longest_row(calibration)
        scale = axis[0] / axis[1] if axis[1] > 0 else 0.5
        size = calibration.problem.radius / math.hypot(scale, 1.0)
        yield "pinned boundary", pairs.pinned_boundary(_PINNED, scale, size), None
    for _ in range(random_pairs):
        yield "random", pairs.random_pair(rng, calibration), None


def _attaining(calibration: Calibration) -> Iterator[Candidate]:
    """Pairs on which the bounds are attained as n grows."""
    noise, problem, target = calibration.noise, calibration.problem, calibration.target
    loss, is_flat = problem.loss, problem.d == 1
    if problem.offset > 0 and calibration.placement == "objective":
        yield _shifted(calibration)
    if calibration.placement == "output":
        yield "straight", pairs.straight_pair(calibration, 0.0)[0], None
    if not is_flat:
        yield "opposed", deep_pair(calibration), None
    if calibration.placement == "output":
        return
    if noise.is_pure:
        # the loss of a Laplace tilt is largest at certain slopes and curvatures together
        charge = -noise.log_density(pairs.longest_row(calibration))
        old, new = exact.margins_of_most(loss, charge, problem.kappa)
        pair, w = pairs.straight_pair(calibration, old)
        yield "straight", pair, w[None]
        if not is_flat:
            pair, w = pairs.opposed_pair(calibration, old=old, new=new, turns=2.0)
            yield "opposed", pair, w[None]
        return
    # the number of rows that turn the tilt is such that the loss of the Gaussian tilt is about the
    # epsilon of the claim
    reach = loss.slope_bound * problem.radius
    epsilon = target.epsilon if isinstance(target, ApproxDP) else 0.0
    turns = max(2.0, (epsilon * noise.scale**2 / reach - 2 * reach) / (2 * reach))
    yield "straight", pairs.straight_pair(calibration, 0.0, turns)[0], None
    for old in (exact.margin_at(loss, share) for share in _SHARES if not is_flat):
        new = min(old, exact.margin_at(loss, _STEEP))
        yield "opposed", pairs.opposed_pair(calibration, old=old, new=new, turns=turns)[0], None


def _shifted(calibration: Calibration) -> Candidate:
    """Two opposite records whose margins are free, because the new one has an offset.

    Without an offset the margins of opposite records are opposite, so in one column no other pair
    attains the bounds.
    """
    problem, noise = calibration.problem, calibration.noise
    old, new = exact.margin_at(problem.loss, _SHARES[1]), exact.margin_at(problem.loss, _STEEP)
    if noise.is_pure:
        charge = -noise.log_density(pairs.longest_row(calibration))
        old, new = exact.margins_of_most(problem.loss, charge, problem.kappa)
    pair, w = pairs.straight_pair(calibration, old)
    shifts = np.clip([new + old], -problem.offset, problem.offset)
    return "offset", replace(pair, new=replace(pair.new, shifts=shifts)), w[None]


def deep_pair(calibration: Calibration) -> Pair:
    """Nearly opposite records, in d > 1, that are misclassified under almost any noise."""
    problem = calibration.problem
    moves = 2.0 * problem.loss.slope_bound * problem.radius
    if calibration.placement == "objective":
        moves = 12.0 * math.sqrt(float(calibration.noise.variances.max()))
    margin = exact.margin_at(problem.loss, _STEEP) - problem.kappa * moves / problem.radius
    return pairs.opposed_pair(calibration, old=margin, new=margin)[0]


def with_weights(pair: pairs.Pair, old: float, new: float) -> pairs.Pair:
    """The pair whose replaced record counts `old`, at most 1, and the new one `new`."""
    return replace(pair, old=_weighed(pair.old, old), new=_weighed(pair.new, new))


def _weighed(record: SignedRows, weight: float) -> SignedRows:
    root = math.sqrt(weight)
    shorter = {"rows": record.rows * root, "shifts": record.shifts * root}
    return replace(record, sizes=record.sizes / root, **shorter)
