"""Forecasts of the same study under other guarantees, mechanisms, shares and penalties."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from privatelr import privacy
from privatelr.errors import GuaranteeError
from privatelr.mechanisms import USUAL_DELTA, Request, read_spend, shares_of
from privatelr.page_model import Table
from privatelr.planning.expected_intervals import NEARLY_ALL, TYPICAL, intervals, worst_of
from privatelr.planning.forecast import FEWEST_DRAWS, Simulator, errors, simulate
from privatelr.planning.study import Study, rows_of
from privatelr.progress_line import ProgressLine, somebody_watches
from privatelr.types import FloatArray, Placement

_SHARES = (0.5, 0.65, 0.8)
"""Alternatives give the coefficients these shares of the guarantee."""
PESSIMISTIC = "pessimistic guesses"
"""The title of the plan itself under these, with what nearly all studies reach."""
_MOST = 5
"""For a row, intervals of so many simulated releases are computed at most; there are many rows."""
_SAME = 1e-3
"""Two numbers with at most this relative difference count as equal."""


@dataclass(frozen=True, slots=True)
class StudyAlternative:
    """One way to run the study: the plan itself, or an alternative.

    Attributes
    ----------
    title : str
        The difference from the plan.
    guarantee : str
    placement : str
    coefficients : float
        The share of the guarantee that the coefficients spend.
    lambda_, noise_scale : float
    privacy_sd : float
        The standard deviation of the noise over that of the plan, as a geometric mean over the
        covariates.
    width : float
        The width of the intervals over that of the plan, as a geometric mean; NaN if inference is
        not requested.
    kept : float
        The share of small effects that remains under the penalty, as a mean over the covariates.
    mode : str
        The mode of the intervals; empty if inference is not requested.
    is_chosen : bool
        Whether it is the plan itself.
    """

    title: str
    guarantee: str
    placement: str
    coefficients: float
    lambda_: float
    noise_scale: float
    privacy_sd: float
    width: float
    kept: float
    mode: str
    is_chosen: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Outcome:
    """A simulation, with errors and widths ``(m,)`` of all coefficients but the intercept."""

    sim: Simulator
    privacy_sd: FloatArray
    kept: FloatArray
    width: FloatArray
    mode: str


@lru_cache(maxsize=16)
def alternatives(plan: Simulator) -> tuple[StudyAlternative, ...]:
    """The plan itself, under pessimistic guesses, too, and alternatives with a proven guarantee."""
    found, study = [], plan.study
    chosen = _outcome(plan)
    lambda_ = plan.problem.lambda_
    variations = list(_variations(study, plan))
    line = ProgressLine("comparing alternatives", 0)
    for place, (title, varied) in enumerate(variations):
        if somebody_watches():
            line.show(place / len(variations))
        try:
            # a lambda means the same on the same rows only
            like = None if varied.request.target.is_private else plan.spec
            if title == PESSIMISTIC:  # worse guesses make single intervals shorter
                outcome = _outcome(worst_of(plan), NEARLY_ALL)
                outcome = replace(outcome, width=np.maximum(outcome.width, chosen.width))
            else:
                outcome = chosen if varied is study else _outcome(simulate(varied, like))
        except GuaranteeError:  # no guarantee is proven for it, or no noise is large enough
            continue
        calibration = outcome.sim.stages.coefficients
        is_same = math.isclose(calibration.problem.lambda_, lambda_, rel_tol=_SAME)
        if title.startswith("lambda") and is_same:
            continue
        row = StudyAlternative(
            title=title,
            guarantee=str(varied.request.target),
            placement=calibration.placement if calibration.noise.scale else "none",
            coefficients=share_of_coefficients(varied, outcome.sim),
            lambda_=calibration.problem.lambda_,
            noise_scale=calibration.noise.scale,
            privacy_sd=_ratio(outcome.privacy_sd, chosen.privacy_sd),
            width=_ratio(outcome.width, chosen.width),
            kept=float(outcome.kept.mean()),
            mode=outcome.mode,
            is_chosen=outcome is chosen,
        )
        found.append(row)
    line.remove()
    return tuple(found)


def _outcome(sim: Simulator, share: float = TYPICAL) -> _Outcome:
    rows = rows_of(sim.study, None)
    width, mode, target = np.full(len(rows), math.nan), "", "penalised"
    if sim.stages.moments is not None:
        inferred = intervals(sim, rows, share, _MOST)
        width, mode = inferred.width, inferred.mode if sim.stages.moments.grid else "exact"
        target, mode = inferred.target, mode if np.isfinite(width).all() else "none"
    found = errors(sim, FEWEST_DRAWS, target)  # few are enough for ratios under the same draws
    return _Outcome(sim, found.privacy_sd[rows], found.kept[rows], width, mode)


def _ratio(of: FloatArray, over: FloatArray) -> float:
    """The geometric mean of ratios; NaN if the plan has no noise."""
    with np.errstate(all="ignore"):  # without an interval there is no ratio
        return float(np.exp(np.mean(np.log(of / np.where(np.isinf(over), np.nan, over)))))


def share_of_coefficients(study: Study, sim: Simulator) -> float:
    """The share of the guarantee that the coefficients spend."""
    request, scaled = study.request, sim.stages.scale is not None
    return shares_of(request.target, request.spend, study.loss, scaled=scaled)["coefficients"]


def _variations(study: Study, sim: Simulator) -> Iterator[tuple[str, Study]]:
    """The plan, and studies that differ from it in one argument, or in guarantee and placement."""
    yield "this plan", study
    if study.worse is not None:
        yield PESSIMISTIC, replace(study, population=study.worse)
    if not study.request.target.is_private:
        return
    for title, request in _requests(study, sim):
        yield title, replace(study, request=request)
    if sim.stages.scale is not None and not study.request.pays_for_scale:
        yield "do_scale=False", replace(study, do_scale=False)


def _requests(study: Study, sim: Simulator) -> Iterator[tuple[str, Request]]:
    request = study.request
    other: Placement = "output" if request.placement == "objective" else "objective"
    targets = list(_other_targets(request.target))
    for title, target in targets:
        yield title, replace(request, target=target)
    yield f"{other} perturbation", replace(request, placement=other)
    for title, target in targets:
        yield f"{other} perturbation, {title}", replace(request, target=target, placement=other)
    for shares in _other_shares(study, sim) if sim.stages.moments is not None else ():
        named = ", ".join(f"{share:g}" for share in shares.values())
        title = f"shares {' and '.join(named.rsplit(', ', 1))}"
        yield title, replace(request, spend=read_spend(shares))
    for rule in ("auto", "free"):
        yield f"lambda by the rule {rule!r}", replace(request, lambda_=rule)
    plain = privacy.NonPrivate("none: for comparison")
    yield "no privacy, the same lambda", replace(request, target=plain, lambda_=sim.problem.lambda_)


def _other_shares(study: Study, sim: Simulator) -> Iterator[dict[str, float]]:
    """Other divisions between coefficients and inference; other parts keep their shares."""
    scaled = sim.stages.scale is not None
    shares = shares_of(study.request.target, study.request.spend, study.loss, scaled=scaled)
    scale = {"scale": shares["scale"]} if scaled else {}
    counts = {"roc": shares["roc"]} if study.request.buys_roc else {}
    left = 1 - sum(scale.values()) - sum(counts.values())
    for share in _SHARES:
        if not math.isclose(share, shares["coefficients"] / left, rel_tol=_SAME):
            parts = {"coefficients": share * left, "inference": (1 - share) * left}
            rounded = {name: round(part, 6) for name, part in parts.items()}
            yield scale | rounded | counts


def _other_targets(target: privacy.Guarantee) -> Iterator[tuple[str, privacy.Guarantee]]:
    """Guarantees of other kinds with about the same strength."""
    about = target.neighbours
    match target:
        case privacy.PureDP(epsilon=epsilon):
            yield f"delta = {USUAL_DELTA:g}", privacy.ApproxDP(epsilon, USUAL_DELTA, about)
            rho = privacy.to_zcdp(target).rho
            yield f"rho = {rho:.3g}", privacy.ZCDP(rho, about)
        case privacy.ApproxDP(epsilon=epsilon):
            if epsilon > 0:
                yield "delta = 0", privacy.PureDP(epsilon, about)
                rho = _rho_within(target)
                yield f"rho = {rho:.3g}", privacy.ZCDP(rho, about)
        case privacy.ZCDP(rho=rho):
            pure = privacy.PureDP(privacy.pure_within(rho), about)
            yield f"epsilon = {pure.epsilon:.3g}", pure
            implied = privacy.to_approximate(target, USUAL_DELTA)
            yield f"epsilon = {implied.epsilon:.3g}, delta = {USUAL_DELTA:g}", implied


def _rho_within(target: privacy.ApproxDP) -> float:
    """The largest rho that implies a target, up to the accuracy of a bisection."""
    low, high = 1e-12, 1e5
    for _ in range(80):
        middle = math.sqrt(low * high)
        if privacy.to_approximate(privacy.ZCDP(middle), target.delta).epsilon <= target.epsilon:
            low = middle
        else:
            high = middle
    return low


def table_of(rows: Sequence[StudyAlternative]) -> Table:
    """Lay out alternatives, the plan itself marked by a star."""
    names = tuple(f"{'*' if row.is_chosen else ' '} {row.title}" for row in rows)
    columns = {
        "lambda": [f"{row.lambda_:.3g}" for row in rows],
        "privacy sd": [_multiple(row.privacy_sd) for row in rows],
        "width": [_multiple(row.width) for row in rows],
        "kept": [f"{row.kept:.2f}" for row in rows],
        "intervals": [row.mode or "-" for row in rows],
    }
    return Table(names, tuple(columns), tuple(zip(*columns.values(), strict=True)))


def _multiple(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    return f"{value:.2f}" if value < 100 else f"{value:.3g}"
