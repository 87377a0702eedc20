"""The exact privacy loss between two datasets, and a search for the pair that loses most.

Losses are of the coefficients, and of all stages of a fit.

The shield is the small noise that covers the distance to the exact minimiser. It is so small that
the tilted minimiser and the released w are treated as equal, and its loss is counted as its claim.

The noise has a known law. The release on the first dataset is a function of it, and so is the
privacy loss. Gaussian noise is integrated: on a fine grid along the direction in which the two
datasets differ, and across it on a coarse grid (d = 2) or over random normal vectors (d > 2).
Other noise laws are sampled.

Each stage is attacked by itself, on the records that are worst for it, and is compared with the
part of the claim that pays for it. What they lose is added up as a ledger does it. So the loss of
all stages is at least that of any one output, and the claim has to cover it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from scipy import optimize

from privatelr.arguments import suggests_arguments
from privatelr.audit.checks import UNITS, claimed_number, no_claim, number
from privatelr.audit.density import exact, pairs
from privatelr.audit.density.exact import Charge, centres, tilt_losses
from privatelr.audit.density.pairs import Pair
from privatelr.audit.law_definitions import definition_of
from privatelr.audit.worth import (
    ORDERS,
    PrivacyLossDistribution,
    counts_spend,
    share_of,
    share_of_changes,
    share_of_choices,
    share_of_distance,
)
from privatelr.design import read_design, reader_of, unstandardised
from privatelr.errors import ArgumentError, count_of, show
from privatelr.mechanisms import Problem, Release, StagedCalibration, in_order
from privatelr.mechanisms.calibration import Calibration
from privatelr.mechanisms.request import COEFFICIENTS, LENGTHS, RANGES
from privatelr.mechanisms.signed_rows import SignedRows, minimisers
from privatelr.mechanisms.stages.histogram import HistogramCalibration
from privatelr.mechanisms.stages.matrices import MomentsCalibration
from privatelr.mechanisms.stages.scale import (
    MomentSums,
    ScaleCalibration,
    mean_squares,
    scale_map,
)
from privatelr.numerics.rows import DenseRows, LooseRows
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, PureDP, to_zcdp
from privatelr.privacy.noise import NoiseLaw, draw_many
from privatelr.results import FitRecord
from privatelr.sources import as_batch
from privatelr.types import ColumnGroup, FloatArray

SLACK = 1e-6
"""An exact loss has at most this relative rounding error."""
SEED = 20_240_229
"""Searches and integrals use this seed, so that a loss is the same each time."""
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


@dataclass(frozen=True, slots=True, eq=False)
class PrivacyLoss:
    """The privacy loss of a mechanism on a pair of datasets, in the unit of its claim.

    Attributes
    ----------
    claim : Guarantee
    found : float
        The loss: an epsilon under a pure claim, a rho under a zCDP claim, or a delta at the
        epsilon of an approximate claim.
    tilt : float
        The part of the loss that is computed from the two datasets. Under objective perturbation
        it is the loss of the tilted minimiser, under output perturbation it is all of the loss.
    tilt_claim : float
        The largest value that the claim allows for `tilt`.
    shield : float
        The loss that is added for the distance to the exact minimiser, at its claimed size.
    output : ndarray of shape (d,) or None
        The coefficients at which a pure loss is largest.
    of : str
        What is released: ``"coefficients"``, ``"moments"``, ``"scale"``, ``"counts"``,
        ``"length"``, or several of them.
    parts : tuple of PrivacyLoss
        For several releases, the loss of each alone, where it is largest, and compared with the
        part of the claim that pays for it.

    Examples
    --------
    >>> from privatelr import audit, dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age", votes, eps=1.0, do_scale=False, **public)
    >>> neighbour = votes.assign(vote=["Dole", *votes["vote"][1:]])
    >>> loss = audit.privacy_loss(fit, votes, neighbour)  # a PrivacyLoss
    >>> loss.holds, loss.claimed
    (True, 1.0)
    """

    claim: Guarantee
    found: float
    tilt: float
    tilt_claim: float
    shield: float = 0.0
    output: FloatArray | None = None
    of: str = "coefficients"
    parts: tuple[PrivacyLoss, ...] = ()

    @property
    def claimed(self) -> float:
        """The number of the claim that `found` is compared to."""
        return claimed_number(self.claim)

    @property
    def ratio(self) -> float:
        """``found / claimed``: above 1, the claim is wrong."""
        return self.found / self.claimed

    @property
    def tilt_ratio(self) -> float:
        """``tilt / tilt_claim``: 1 where the bound is attained."""
        return self.tilt / self.tilt_claim

    @property
    def holds(self) -> bool:
        """Whether the loss, and that of each part, is within its claim, up to rounding."""
        return self.ratio <= 1 + SLACK and all(part.holds for part in self.parts)

    def __str__(self) -> str:
        verdict = "ok" if self.holds else "VIOLATION"
        shield = f" (with {self.shield:.3g} for the approximate minimum)" if self.shield else ""
        line = (
            f"{UNITS[type(self.claim)]} {self.found:.6g}{shield} "
            f"on this pair, claim {self.claimed:.6g}, ratio {self.ratio:.4f}: {verdict}"
        )
        alone = ", ".join(f"{part.of} {part.ratio:.4f}" for part in self.parts)
        return f"{line}\nalone, over their parts of the claim: {alone}" if alone else line


# -- the law of the loss ---------------------------------------------------------------------

FINE, _COARSE = 0.05, 0.8
"""The grid along the direction has the first step, and the grid across it the second, in standard
deviations of the noise."""
_BETWEEN = 5
"""Each interval between two points of a line is divided into this number of parts, by linear
interpolation of the losses."""
_REACH = 10.0
"""A line ends after this number of standard deviations of the noise, plus those of a shift."""
_LINES = 40
"""If d > 2, this number of random lines is integrated."""
_DRAWS = 50_000
"""A noise law that is not Gaussian is sampled with this number of draws."""


LossOfNoise = Callable[[FloatArray], FloatArray]
"""A function from noise ``(m, d)`` to the privacy losses ``(m,)`` of what is released with it."""


def loss_law(
    pair: Pair, calibration: Calibration, rng: np.random.Generator, step: float = FINE
) -> PrivacyLossDistribution:
    """The law of the loss of coefficients, old records over new, under the first dataset.

    Under objective perturbation it is the loss of the tilted minimiser without the shield. Under
    output perturbation it is the loss of noise on the minimiser, where the distance between the
    minimisers of the two datasets is increased by their numerical errors.
    """
    problem, noise = calibration.problem, calibration.noise
    if calibration.placement == "objective":

        def loss_of_noise(drawn: FloatArray) -> FloatArray:
            return tilt_losses(pair, problem, noise, minimisers(pair.first(), problem, drawn))

    else:
        first, second = centres(pair, problem)
        length = float(np.linalg.norm(second - first))
        shift = (second - first) * (1 + calibration.distance / length if length > 0 else 1.0)

        def loss_of_noise(drawn: FloatArray) -> FloatArray:
            apart = np.broadcast_to(shift, drawn.shape)
            return definition_of(noise).log_ratios(drawn, apart)

    if noise.is_pure:
        losses = loss_of_noise(draw_many(noise, _DRAWS, rng))
        return PrivacyLossDistribution(losses, np.full(_DRAWS, 1 / _DRAWS), 1 / math.sqrt(_DRAWS))
    if calibration.placement == "output":
        furthest = float(np.linalg.norm(shift)) / noise.scale
        return integrated(loss_of_noise, noise, -shift, furthest, rng)
    w = minimisers(pair.first(), problem, noise.scale * rng.standard_normal((200, pair.d)))
    old, new = (exact.pull(record, problem.loss, w) for record in (pair.old, pair.new))
    change = new - old
    # a Renyi divergence of order a weighs losses by a density that is shifted by a times 2 m
    furthest = 2 * problem.reach / noise.scale
    return integrated(loss_of_noise, noise, change.mean(axis=0), furthest, rng, step)


def integrated(
    loss_of_noise: LossOfNoise,
    noise: NoiseLaw,
    apart: FloatArray,
    furthest: float,
    rng: np.random.Generator,
    step: float = FINE,
) -> PrivacyLossDistribution:
    """The law of the loss from points on lines along `apart` ``(d,)``, where the datasets differ.

    Losses are linear between the points, of which neighbours are `step` deviations apart. The lines
    are so long that the rest has no weight in a divergence, whose density is shifted by `furthest`
    standard deviations per order.
    """
    d, length = len(apart), float(np.linalg.norm(apart))
    along = apart / length if length > 0 else np.eye(1, d)[0]
    reach = _REACH + ORDERS[-1] * furthest
    line = np.arange(-reach, reach + step, step)
    if d == 1:
        across, shares = np.zeros((1, 0)), np.ones(1)
    elif d == 2:
        places = np.arange(-8.0, 8.1, _COARSE)
        across, shares = places[:, None], _COARSE * _normal(places)
    else:
        across, shares = rng.standard_normal((_LINES, d - 1)), np.full(_LINES, 1 / _LINES)
    basis = np.linalg.qr(np.column_stack([along, np.eye(d)]))[0][:, 1:d]
    z = (across @ basis.T)[:, None, :] + line[:, None] * along
    losses = loss_of_noise(noise.scale * z.reshape(-1, d)).reshape(len(shares), -1)
    finer = np.linspace(line[0], line[-1], _BETWEEN * (len(line) - 1) + 1)
    between = np.concatenate([np.interp(finer, line, row) for row in losses])
    weights = (shares[:, None] * (step / _BETWEEN * _normal(finer))).reshape(-1)
    return PrivacyLossDistribution(between, weights)


def _normal(x: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-x * x / 2) / math.sqrt(2 * math.pi))


# -- coefficients -----------------------------------------------------------------------------


def loss_of(pair: Pair, calibration: Calibration, outputs: FloatArray | None = None) -> PrivacyLoss:
    """The `privacy_loss` of coefficients on a pair, the larger one of the two directions.

    The loss of output perturbation follows from the distance of the two minimisers. The loss of
    objective perturbation is found by a search under a pure claim, and by integration under any
    other. `outputs` ``(m, d)`` are further points from which to search.
    """
    claim, problem = calibration.proven, calibration.problem
    if calibration.placement == "output":
        first, second = exact.centres(pair, problem)
        distance = float(np.linalg.norm(first - second)) + calibration.distance
        share = share_of_distance(calibration.noise, claim, distance)
        return _alone("coefficients", claim, share)
    if not isinstance(claim, PureDP):
        rng = np.random.default_rng(SEED)
        laws = [loss_law(way, calibration, rng) for way in (pair, pair.swapped())]
        return loss_of_laws(laws, calibration)
    starts = [*([] if outputs is None else [outputs]), places(pair, calibration)]
    ways = [exact.likelihood_ratio(calibration, way) for way in (pair, pair.swapped())]
    return _with_shield(calibration, *climb(ways, starts, problem))


def loss_at(pair: Pair, calibration: Calibration, w: FloatArray) -> PrivacyLoss:
    """The absolute loss of objective perturbation under a pure claim, at one output w ``(d,)``."""
    return _with_shield(
        calibration, abs(float(exact.likelihood_ratio(calibration, pair)(w[None])[0])), w
    )


def _with_shield(calibration: Calibration, tilt: float, w: FloatArray) -> PrivacyLoss:
    """The pure loss of a release: that of the tilted minimiser, plus the claim of the shield."""
    step = np.eye(1, calibration.problem.d)[0] * calibration.distance
    shield = -calibration.shield.log_density(step)
    claim = calibration.proven
    return PrivacyLoss(claim, tilt + shield, tilt, claimed_number(claim) - shield, shield, w)


def climbed(
    loss_at: Callable[[FloatArray], float], start: FloatArray, **limits: float
) -> tuple[float, FloatArray]:
    """A local maximum of a loss and where it is, by the method of Nelder and Mead from a start."""
    end = optimize.minimize(lambda at: -loss_at(at), start, method="Nelder-Mead", options=limits)
    return -float(end.fun), end.x


def climb(
    ways: Sequence[Charge], starts: Sequence[FloatArray], problem: Problem
) -> tuple[float, FloatArray]:
    """A local maximum of a log ratio, the larger of two directions, and its output."""
    found, at = [], np.vstack(starts)
    for charge in ways:

        def ratio_at(w: FloatArray, charge: Charge = charge) -> float:
            return number(float(charge(w[None])[0]))

        start = at[int(np.argmax(charge(at)))]
        close = 1e-6 * (float(np.abs(start).max()) + 1 / problem.radius)
        found.append(climbed(ratio_at, start, maxiter=100 * len(start), xatol=close, fatol=1e-7))
    return max(found, key=lambda reached: reached[0])


def places(pair: Pair, calibration: Calibration) -> FloatArray:
    """Outputs ``(m, d)`` from which to search, of many lengths and in many directions.

    Some directions are random. Others are those of the minimisers without noise, and directions
    that are nearly orthogonal to both records, such as a large intercept with a slope that
    compensates for it.
    """
    d, rng = pair.d, np.random.default_rng(SEED)
    middles = exact.centres(pair, calibration.problem)
    directions = [*rng.standard_normal((60, d)), *middles]
    if d > 1:
        basis = np.linalg.qr(np.vstack([pair.old.rows, pair.new.rows, np.eye(d)]).T)[0]
        lean = 10.0 ** rng.uniform(-3, 0, size=(60, 1)) * rng.standard_normal((60, d))
        directions += [*(basis[:, d - 1] + lean), *(-basis[:, d - 1] + lean)]
    sizes = 10.0 ** rng.uniform(-2, 3, size=(len(directions), 1)) / calibration.problem.radius
    lengths = np.linalg.norm(directions, axis=1, keepdims=True) + 1e-300
    scaled = np.asarray(directions) / lengths * sizes
    return np.vstack([*(k * middle for middle in middles for k in (0.5, 1.0, 2.0, 4.0)), scaled])


def loss_of_laws(laws: list[PrivacyLossDistribution], calibration: Calibration) -> PrivacyLoss:
    """The loss of a mechanism, from the laws of the loss of its tilt in both directions.

    A rho is what remains next to the shield; a delta counts both together.
    """
    claim: Any = calibration.target
    mu = math.hypot(shield_ratio(calibration), getattr(claim, "beside", 0.0))
    tilt, found = (max(law.in_unit_of(claim, ratio) for law in laws) for ratio in (0.0, mu))
    rest = claimed_number(claim) - (0.0 if isinstance(claim, ApproxDP) else mu * mu / 2)
    return PrivacyLoss(claim, found, tilt, rest, found - tilt)


def shield_ratio(calibration: Calibration) -> float:
    """The distance that the shield covers over its standard deviation.

    It is infinite if there is a distance and no shield.
    """
    if calibration.distance == 0:
        return 0.0
    scale = calibration.shield.scale
    return calibration.distance / scale if scale > 0 else math.inf


# -- the scale of columns -----------------------------------------------------------------------


def scale_change(old: FloatArray, new: FloatArray, scale: ScaleCalibration) -> FloatArray:
    """The change of means and weighted mean squares if a record ``(p,)`` becomes another.

    Records are covariates in scaled units.
    """
    means, squares = (new - old)[scale.means], (new**2 - old**2)[scale.squares]
    return np.asarray(np.concatenate([means, scale.weight * squares]) / scale.facts.n)


def largest_change(scale: ScaleCalibration) -> FloatArray:
    """The change by a record that moves each group of columns from one end to the other."""
    ends = [_ends(group) for group in scale.facts.groups]
    old, new = (np.concatenate(side) for side in zip(*ends, strict=True))
    return scale_change(old, new, scale)


def _ends(group: ColumnGroup) -> tuple[FloatArray, FloatArray]:
    """Two records that are far apart in a group of columns."""
    first, last = np.eye(1, group.size)[0], np.eye(1, group.size, group.size - 1)[0]
    if group.kind == "number":
        return first, -first
    if group.kind == "indicators":
        return first, last if group.size > 1 else 0 * last
    filled = int((group.radius / group.largest) ** 2 * (1 + 1e-9)) if group.largest > 0 else 0
    row = np.where(np.arange(group.size) < filled, group.largest, 0.0)
    return row, -row


def scale_loss(change: FloatArray, scale: ScaleCalibration) -> PrivacyLoss:
    """The loss of the scale alone, for a change of its means and mean squares.

    Under the noise of a box it is the norm of the change, which the log ratio reaches far out along
    the number that moves most.
    """
    return _alone("scale", scale.proven, share_of_changes(scale.noise, scale.proven, [change]))


def counts_loss(made: HistogramCalibration) -> PrivacyLoss:
    """The loss of counts of scores alone, of which one loses a record to another.

    It is the same for all scores, and for all coefficients by which records are scored.
    """
    return _alone("counts", made.proven, share_of(made.proven, *counts_spend(made)))


def _alone(
    of: str, claim: Guarantee, share: float, output: FloatArray | None = None
) -> PrivacyLoss:
    """The loss of a stage alone, which is this share of its claim."""
    claimed = claimed_number(claim)
    return PrivacyLoss(claim, share * claimed, share * claimed, claimed, output=output, of=of)


# -- moments ------------------------------------------------------------------------------------


def moments_loss(pair: Pair, calibration: MomentsCalibration) -> PrivacyLoss:
    """The loss of the moments alone, at the coefficients w at which it is largest.

    It is exact for that w, because the loss of noise depends only on the length of the change of
    the query. The search is over the margins of the two records, as the change depends on w
    through these alone.
    """
    margins, back = exact.telling_margins(pair, calibration)

    def moved(at: FloatArray) -> float:
        return float(exact.query_distance(pair, calibration, (at @ back)[None])[0])

    start = margins[int(np.argmax(exact.query_distance(pair, calibration, margins @ back)))]
    distance, at = climbed(moved, start, maxiter=100)
    share = share_of_distance(calibration.noise, calibration.proven, distance)
    return _alone("moments", calibration.proven, share, np.asarray(at @ back))


# -- all stages ---------------------------------------------------------------------------------


def losses_beside(
    pair: Pair, plan: StagedCalibration, change: FloatArray | None = None
) -> list[PrivacyLoss]:
    """The losses of all stages of a plan but the coefficients.

    `change` is that of the means and mean squares of a released scale; by default the largest.
    """
    found = []
    if plan.moments is not None:
        found.append(moments_loss(pair, plan.moments))
    if (scale := plan.scale) is not None:
        found.append(scale_loss(largest_change(scale) if change is None else change, scale))
    if plan.histogram is not None:
        found.append(counts_loss(plan.histogram))
    if (made := plan.parts.get(RANGES)) is not None:
        eta, choices = made.mechanism(made.most).epsilon, 2 * made.most
        found.append(_alone("ranges", made.proven, share_of_choices(eta, choices, made.proven)))
    if (made := plan.parts.get(LENGTHS)) is not None:  # on two tables on which scores move most
        share = share_of_choices(made.eta, 1, made.proven)
        found.append(_alone("length", made.proven, share))
    return found


def loss_of_stages(plan: StagedCalibration, parts: Sequence[PrivacyLoss]) -> PrivacyLoss:
    """The loss of all stages of a plan, from that of each, that of the coefficients first.

    Losses add up under a pure claim and under zCDP. Under (epsilon, delta) the delta of the
    coefficients already counts the other stages at their price, because these share it.
    """
    first, claim, target = parts[0], plan.proven, plan.coefficients.target
    if isinstance(claim, ApproxDP):
        is_pure = isinstance(first.claim, PureDP)
        found = share_of(target, first.found, 0.0) * claim.delta if is_pure else first.found
    else:
        found = math.fsum(_in_unit_of(claim, part) for part in parts)
    named = " and ".join(part.of for part in parts)
    return replace(first, claim=claim, found=found, of=named, parts=tuple(parts))


def _in_unit_of(claim: Guarantee, part: PrivacyLoss) -> float:
    """The loss of a part as an epsilon under a pure claim, and as a rho under zCDP."""
    is_converted = isinstance(part.claim, PureDP) and isinstance(claim, ZCDP) and part.found > 0
    return to_zcdp(PureDP(part.found)).rho if is_converted else part.found


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
        loss = loss_of(pair, calibration)
    else:
        loss = loss_at(pair, calibration, _read_output(output, calibration, claim))
    if plan is None:
        return loss
    return loss_of_stages(plan, [loss, *losses_beside(pair, plan, change)])


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
            Finding(calibration, pair, loss_of(pair, calibration, outputs), family)
            for family, pair, outputs in _candidates(calibration, rng, random_pairs)
        ),
        key=lambda found: ratio_of(found.loss),
    )
    if plan is None:
        return worst
    others = losses_beside(pairs.right_pair(calibration), plan)
    return replace(worst, loss=loss_of_stages(plan, [worst.loss, *others]))


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
