"""All stages of a fit: they are calibrated, drawn and released one after the other.

A price may pay for several releases, which `privatelr.mechanisms.stages` lists: the scale of the
columns, the coefficients, the matrices that inference needs, and counts of scores for a ROC curve.
Each sees those before it as public, so their guarantees add up (adaptive composition).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from privatelr import privacy
from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import GAUSSIAN, LAPLACE, Calibration, Kinds, lambda_rules
from privatelr.mechanisms.perturbation import Draws, Release, draw
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.request import (
    COEFFICIENTS,
    INFERENCE,
    LENGTHS,
    RANGES,
    ROC,
    SCALE,
    SMALLEST_EPSILON,
    STAGES,
    Request,
    Spend,
    in_order,
    require_usual,
)
from privatelr.mechanisms.stages import StageCalibration
from privatelr.mechanisms.stages.coefficients import mechanism_of
from privatelr.mechanisms.stages.histogram import HistogramCalibration
from privatelr.mechanisms.stages.matrices import MomentsCalibration
from privatelr.mechanisms.stages.scale import ScaleCalibration, ScaleFacts, share_of_ranges
from privatelr.mechanisms.stages.stage import Expected
from privatelr.numerics import Loss
from privatelr.numerics.solve import Solver
from privatelr.privacy import ZCDP, ApproxDP, Event, Guarantee, PureDP, pure_within
from privatelr.privacy.accounting import Entry
from privatelr.privacy.noise import (
    DOWN,
    UP,
    Randomness,
    gaussian_mu,
    mean_square,
    mu_beside_pure,
)
from privatelr.types import FloatArray, Rows

_SMALLEST = 1e-12
"""A second moment of a column is at least this where one divides by it."""


@dataclass(frozen=True, slots=True)
class StagedCalibration:
    """All numbers of all stages of a fit, computed before any data is touched.

    Examples
    --------
    >>> from privatelr import plan
    >>> study = plan("ill ~ age", n=5_000, eps=1.0, bounds={"age": (18, 99)})
    >>> for stage in study.calibration.stages:
    ...     print(type(stage).__name__, stage.target)
    ScaleCalibration epsilon = 0.1 (pure)
    RangeCalibrations epsilon = 0.05 (pure)
    LengthCalibration epsilon = 0.05 (pure)
    Calibration epsilon = 0.52 (pure)
    MomentsCalibration epsilon = 0.28 (pure)
    """

    target: Guarantee
    parts: Mapping[str, Any] = field(hash=False)
    """The calibration of each stage by the name of its share, in the order of their releases."""
    request: Request | None = None
    """What these stages alone are calibrated for: the promise, and the laws of the chosen way."""

    def having(self, parts: Mapping[str, Any]) -> StagedCalibration:
        """Return the same calibration with other stages by name; None leaves a stage out."""
        return replace(self, parts=in_order({**self.parts, **parts}))

    @property
    def coefficients(self) -> Calibration:
        """The calibration of the coefficients."""
        found: Calibration = self.parts[COEFFICIENTS]
        return found

    @property
    def moments(self) -> MomentsCalibration | None:
        """The calibration of the matrices for inference."""
        return self.parts.get(INFERENCE)

    @property
    def scale(self) -> ScaleCalibration | None:
        """The calibration of the scale of the columns."""
        return self.parts.get(SCALE)

    @property
    def histogram(self) -> HistogramCalibration | None:
        """The calibration of the counts of scores."""
        return self.parts.get(ROC)

    @property
    def stages(self) -> tuple[StageCalibration, ...]:
        """The stages in the order of their releases."""
        return tuple(self.parts.values())

    @property
    def proven(self) -> Guarantee:
        """The guarantee that all the noise is proven to give together; see `Calibration.proven`."""
        parts = [stage.proven for stage in self.stages]
        if isinstance(self.target, ApproxDP) and all(isinstance(part, PureDP) for part in parts):
            return PureDP(self.target.epsilon, self.target.neighbours)
        if isinstance(self.target, ZCDP) and all(
            isinstance(stage.target, PureDP) for stage in self.stages
        ):
            return PureDP(pure_within(self.target.rho), self.target.neighbours)
        return self.target

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that a ledger composes for all stages; none for a rho that is charged itself.

        Pure stages that imply a rho together are divided by epsilon, so that what a ledger makes of
        each by itself is too little.
        """
        if isinstance(self.target, ZCDP) and isinstance(self.proven, PureDP):
            return ()
        return tuple(event for stage in self.parts.values() for event in stage.events)

    def __str__(self) -> str:
        return "\n".join(f"{name}: {stage}" for name, stage in self.parts.items())


# -- dividing the price --------------------------------------------------------------------------

Division = tuple[dict[str, Guarantee], Kinds]
"""The part of a target for each stage, which `privacy.join` makes whole again, and the laws of
noise of the coefficients that the parts are meant for; none for all laws."""


def divide(
    target: Guarantee,
    spend: Spend,
    loss: Loss,
    *,
    scaled: bool = False,
    ranges: float = 0.0,
    lengths: bool = False,
) -> list[Division]:
    """Divide a target by the shares of a request.

    Shares are of epsilon or of rho (`privatelr.privacy.split`). Under (epsilon, delta) there are
    two ways, and the calibration takes the one with less noise on the coefficients: a share is
    one of mu squared, or the coefficients have Laplace noise for their share of epsilon, and
    what is left is Gaussian. Both spend all of the target. Beside coefficients, counts of scores
    have less Laplace than Gaussian noise, so pure shares of epsilon come first there. Ranges and a
    length take their shares of epsilon by themselves, and the others divide what is left.

    Examples
    --------
    >>> from privatelr import PureDP
    >>> from privatelr.mechanisms import divide
    >>> from privatelr.numerics import find_loss
    >>> ((parts, kinds),) = divide(PureDP(1.0), "inference", find_loss("logistic"))
    >>> for stage, part in parts.items():
    ...     print(f"{stage}: {part}")
    coefficients: epsilon = 0.65 (pure)
    inference: epsilon = 0.35 (pure)
    """
    shares = shares_of(target, spend, loss, scaled=scaled, ranges=ranges, lengths=lengths)
    by_share = privacy.split(target, shares)
    if not isinstance(target, ApproxDP) or len(shares) == 1:
        return [(by_share, ())]
    parts = dict(shares)
    chosen = {name: parts.pop(name) for name in (RANGES, LENGTHS) if name in parts}
    taken = {name: share * target.epsilon * DOWN for name, share in chosen.items()}
    apart = {name: PureDP(part, target.neighbours) for name, part in taken.items()}
    if apart:
        target = replace(target, epsilon=(target.epsilon - sum(taken.values())) * DOWN)
    epsilon, delta = target.epsilon, target.delta
    first = parts.pop(COEFFICIENTS)
    pure = by_share[COEFFICIENTS].epsilon  # type: ignore[union-attr]
    mus = {
        GAUSSIAN: gaussian_mu(epsilon, delta) * math.sqrt(1 - first / (1 - sum(chosen.values()))),
        LAPLACE: mu_beside_pure(epsilon, delta, pure),
    }
    ways = [_shared(target, parts, mu, kinds) for kinds, mu in mus.items()]
    ways = [({**apart, **divided}, kinds) for divided, kinds in ways]
    if shares.keys() == {COEFFICIENTS, ROC} and epsilon > 0:
        ways.insert(0, (privacy.split(PureDP(epsilon, target.neighbours), shares), ()))
    return ways


def _shared(
    target: ApproxDP,
    shares: dict[str, float],
    mu: float,
    kinds: Kinds,
) -> Division:
    """Divide mu squared among the Gaussian stages; the coefficients share the target with them."""
    whole, total = sum(shares.values()), mu * mu / 2
    parts = {
        name: ZCDP(total * (share / whole), target.neighbours) for name, share in shares.items()
    }
    # enough for the parts as they were rounded
    mu = math.sqrt(2 * sum(part.rho for part in parts.values())) * UP
    rest = privacy.SharedApproxDP(target.epsilon, target.delta, target.neighbours, beside=mu)
    return {COEFFICIENTS: rest, **parts}, kinds


_SHARE_OF_LENGTHS, _SHARE_OF_RHO_OF_LENGTHS = 0.05, 0.01
"""The share of epsilon, or of rho, for the length of rows, which is one choice: of a small rho it
is of larger epsilon."""
SHARE_OF_SCALE = 0.1
"""The share of the price for the scale of columns; from .05 to .25 it matters little."""

_DIGITS = 15


def shares_of(
    target: Guarantee,
    spend: Spend,
    loss: Loss,
    *,
    scaled: bool = False,
    ranges: float = 0.0,
    lengths: bool = False,
) -> dict[str, float]:
    """Return the share of each stage; a scale and a length without a share take their usual ones.

    Of the usual shares they take a part of each. Shares that are written out, for a scale or a ROC
    curve, stay as they are written, but for the coefficients', of which they take their part.

    Raises
    ------
    GuaranteeError
        If the scale has a share and is not released.

    Examples
    --------
    >>> from privatelr import ZCDP
    >>> from privatelr.mechanisms import shares_of
    >>> from privatelr.numerics import find_loss
    >>> shares_of(ZCDP(0.1), "inference", find_loss("logistic"))
    {'coefficients': 0.7, 'inference': 0.3}
    >>> shares_of(ZCDP(0.1), "inference", find_loss("logistic"), scaled=True)
    {'scale': 0.1, 'coefficients': 0.63, 'inference': 0.27}
    """
    shares = usual_shares(target, loss) if spend == "inference" else dict(spend)
    if not scaled and {SCALE, RANGES} & shares.keys():
        raise GuaranteeError(
            "spend: the scale of the columns, or ranges, have a share; do_scale='private' releases "
            "them."
        )
    if not lengths and LENGTHS in shares:
        raise GuaranteeError(
            "spend: 'lengths' has a share, and no length of rows is released; leave it out. A "
            "length is released by dplr and dpmultinom with the scale of the columns, without "
            "row_norm."
        )
    of_lengths = _SHARE_OF_RHO_OF_LENGTHS if isinstance(target, ZCDP) else _SHARE_OF_LENGTHS
    before = {SCALE: SHARE_OF_SCALE} if scaled and SCALE not in shares else {}
    before |= {RANGES: ranges} if ranges and RANGES not in shares else {}
    before |= {LENGTHS: of_lengths} if lengths and LENGTHS not in shares else {}
    if not before:
        return shares
    if {ROC, SCALE, RANGES, LENGTHS} & shares.keys():
        first = shares.pop(COEFFICIENTS)
        price = before.pop(RANGES, 0.0)  # less would pay for no range
        before = {name: share * first for name, share in before.items()}
        before |= {RANGES: price} if price else {}
        rest = Fraction(1)
    else:
        rest = 1 - sum(map(privacy.exact, before.values()), Fraction(0))
    # decimals that a double holds, so that what is left makes the sum 1 as it is read again
    kept = {name: privacy.exact(share) for name, share in before.items()}
    kept |= {name: privacy.exact(share) * rest for name, share in shares.items()}
    parts = {name: round(share, _DIGITS) for name, share in kept.items()}
    parts[COEFFICIENTS] = parts.get(COEFFICIENTS, Fraction(0)) + 1 - sum(parts.values())
    return {name: float(part) for name, part in parts.items()}


def usual_shares(target: Guarantee, loss: Loss) -> dict[str, float]:
    """Return the shares that give the shortest intervals in simulations.

    A loss without a joint bound has larger curvature, so its moments need more noise. Under pure
    epsilon they therefore get half of the price.
    """
    if not isinstance(target, PureDP | privacy.NonPrivate):
        return {COEFFICIENTS: 0.7, INFERENCE: 0.3}
    if loss.joint_factor is None:
        return {COEFFICIENTS: 0.5, INFERENCE: 0.5}
    return {COEFFICIENTS: 0.65, INFERENCE: 0.35}


# -- all stages ----------------------------------------------------------------------------------


def calibrate_all(
    request: Request, facts: Problem, scale: ScaleFacts | None = None
) -> StagedCalibration:
    """Divide the price and calibrate every stage; takes no data.

    The scale of columns is released first where facts about them are given. Of several ways to
    divide the price, the one with the least noise on the coefficients is taken.

    Examples
    --------
    >>> from privatelr.mechanisms import Problem, calibrate_all, read_request
    >>> from privatelr.numerics import find_loss
    >>> request = read_request(1.0, 0, "inference", None, True, None, "increase")
    >>> facts = Problem(n=5_000, d=3, loss=find_loss("logistic"), radius=1.0)
    >>> staged = calibrate_all(request, facts)
    >>> for stage in staged.stages:
    ...     print(stage.target, stage.noise.title, f"{stage.noise.scale:.3g}")
    epsilon = 0.65 (pure) spherical Laplace 3.45
    epsilon = 0.35 (pure) spherical Laplace 0.000209
    """
    found, refusal = [], GuaranteeError("spend: no noise is proven for these shares.")
    lengths = scale is not None and scale.longer is not None
    ranges = 0.0
    if scale is not None and request.buys_intervals:
        ranges = share_of_ranges(scale, request.target)
    ways = divide(
        request.target,
        request.spend,
        facts.loss,
        scaled=scale is not None,
        ranges=ranges,
        lengths=lengths,
    )
    for parts, meant in ways:
        kinds = lambda_rules.within(request.kinds, meant) if meant else request.kinds
        promise = request.target
        if isinstance(promise, ApproxDP) and isinstance(parts[COEFFICIENTS], PureDP):
            promise = PureDP(promise.epsilon, promise.neighbours)
        is_pure = promise != request.target
        if (meant and not kinds) or (is_pure and request.kinds):  # laws are those of a shared delta
            continue
        asked = replace(request, target=parts[COEFFICIENTS], kinds=kinds)
        beside, made = GAUSSIAN if meant else request.kinds, dict[str, Any]()
        try:
            require_usual(parts)
            for name in (name for name in STAGES if name in parts):
                own = asked if name == COEFFICIENTS else replace(asked, kinds=beside)
                own = replace(own, target=parts[name])
                made[name] = STAGES[name].calibrate(own, facts, scale, made)
        except GuaranteeError as error:
            refusal = error
        else:
            meant_for = replace(asked, target=promise)
            found.append(StagedCalibration(request.target, made, meant_for))
    if not found:
        raise refusal
    return found[0] if len(found) == 1 else min(found, key=_noise)


def _noise(plan: StagedCalibration) -> float:
    """Mean square length of the noise of the coefficients, as that of a tilt."""
    found = plan.coefficients
    slope = 1.0 if found.placement == "objective" else found.problem.penalty
    return slope * slope * mean_square(found.noise)


def promises_for(request: Request) -> tuple[Guarantee, ...]:
    """The target, and a pure guarantee that implies it: factors have less noise under it.

    The matrices of inference have more, and under zCDP the counts of scores, so that beside them it
    is not tried.

    Examples
    --------
    >>> from privatelr.mechanisms import promises_for, read_request
    >>> request = read_request(1.0, 1e-6, None, None, True, None, "increase")
    >>> for promise in promises_for(request):
    ...     print(promise)
    epsilon = 1, delta = 1e-06 (approximate)
    epsilon = 1 (pure)
    """
    target = request.target
    noisier = request.buys_roc and isinstance(target, ZCDP)
    if request.kinds or request.buys_intervals or noisier:
        return (target,)
    match target:
        case ApproxDP(epsilon=epsilon) if epsilon >= SMALLEST_EPSILON:
            return target, PureDP(epsilon, target.neighbours)
        case ZCDP(rho=rho) if pure_within(rho) >= SMALLEST_EPSILON:
            return target, PureDP(pure_within(rho), target.neighbours)
    return (target,)


def relative_noise(plan: StagedCalibration) -> float:
    """Return the noise of the coefficients of standardised columns, for the spread of these.

    It adds up the variances of a tilt over the second moments that the map gives to columns:
    together 1, or 1 for a number under pure epsilon, where other columns have their factor. Noise
    on the minimiser counts by the margins of such rows. The intercept is left out.

    Examples
    --------
    >>> from privatelr import plan
    >>> from privatelr.mechanisms import relative_noise
    >>> public = {"n": 5_000, "bounds": {"age": (18, 99)}, "do_scale": "private"}
    >>> plans = [plan("ill ~ age", eps=eps, **public).calibration for eps in (1.0, 2.0)]
    >>> relative_noise(plans[0]) > relative_noise(plans[1])
    True
    """
    scale: ScaleCalibration = plan.parts[SCALE]
    noise = plan.coefficients.noise
    facts = scale.facts
    if scale.of_numbers:
        moments = [
            1.0 if group.kind == "number" else group.usual**2 / (group.size + 1)
            for group in facts.groups
            for _ in range(group.size)
        ]
    else:
        moments = [1.0 / facts.p] * facts.p
    variances = noise.variances.tolist()[-facts.p :]  # that of the intercept is no slope's
    spread = [max(moment, _SMALLEST) for moment in moments]
    carried = spread if plan.coefficients.placement == "output" else [1 / each for each in spread]
    return math.fsum(v * by for v, by in zip(variances, carried, strict=True))


def draw_all(plan: StagedCalibration, randomness: Randomness) -> Draws:
    """Draw all the noise of a calibration, once.

    Examples
    --------
    >>> from privatelr import plan
    >>> from privatelr.mechanisms import draw_all
    >>> from privatelr.privacy.noise import SystemRandomness
    >>> study = plan("ill ~ age", n=5_000, eps=1.0, bounds={"age": (18, 99)}, do_scale=False)
    >>> draws = draw_all(study.calibration, SystemRandomness())
    >>> sorted(draws.others)  # intervals are bought, no scale
    ['inference']
    """
    names = sorted(plan.parts.keys() - {COEFFICIENTS}, key=lambda name: STAGES[name].drawn)
    others = {name: plan.parts[name].draw(randomness) for name in names}
    return replace(draw(plan.coefficients, randomness), others=others)


def release_all(
    rows: Rows,
    plan: StagedCalibration,
    draws: Draws,
    solver: Solver,
    centre: FloatArray | None = None,
    stiff: FloatArray | None = None,
    *,
    before: Mapping[str, Any] | None = None,
    expected: Expected = None,
    guarantee: Guarantee | None = None,
    entry: Entry | None = None,
) -> Release:
    """Release the coefficients, and at them the later stages that were requested.

    If `plan` has a scale, it was released `before`, and the rows are those that it standardised.
    The penalty draws to `centre` ``(d,)``, which is public, and by default zero; `stiff` ``(k, d)``
    is that of `release_minimiser`. Bins of scores are made where they are `expected`. What a
    ledger was charged with is the `entry`, for the `guarantee` or the target.

    Notes
    -----
    **Privacy.** *Covered*: everything in the release, by ``plan.target``. *Neighbours*: replace
    one record. *Assumed public*: everything in `plan`. *Not covered*: time and memory.
    """
    drawn = {} if centre is None else {"centre": centre, "stiff": stiff}
    coefficients = plan.coefficients
    mechanism = mechanism_of(coefficients.placement, coefficients.target)
    released = mechanism.release(rows, coefficients, draws, solver, **drawn)
    covered = guarantee or plan.target
    parts = dict(before or {})
    released = replace(released, guarantee=covered, entry=entry, request=plan.request, parts=parts)
    for name, calibration in plan.parts.items():
        if STAGES[name].at_coefficients:
            noise = draws.others[name]
            parts[name] = STAGES[name].release(calibration, rows, released, noise, expected)
    return released
