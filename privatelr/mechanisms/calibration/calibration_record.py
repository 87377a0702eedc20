"""All numbers of a mechanism, computed from a request and public facts, and their page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from privatelr import page_model, privacy
from privatelr.arguments import suggests_arguments
from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import gaussian_objective, proven_noise, pure
from privatelr.mechanisms.calibration.lambda_rules import no_tilt, settle_lambda
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.request import Request
from privatelr.privacy.noise import (
    NoiseLaw,
    NoNoise,
    Randomness,
    gaussian_epsilon,
    mean_square,
    pure_part,
    shortest,
)
from privatelr.types import Placement


class StageCalibration:
    """All numbers of a released stage, computed before any data is touched.

    A stage states its `target`, which is its part of the price, its `noise`, the `grid` whose
    multiples it releases (0 for any number), and its `sensitivity`. What follows from them is here.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def target(self) -> privacy.Guarantee: ...

        @property
        def noise(self) -> NoiseLaw: ...

        @property
        def grid(self) -> float: ...

    @property
    def sensitivity(self) -> float:
        """How far neighbours move what is released, as a Euclidean length."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return self.noise.dimension

    @suggests_arguments
    def draw(self, randomness: Randomness) -> Any:
        """Draw the noise, once."""
        return randomness.draw(self.noise)

    @property
    def proven(self) -> privacy.Guarantee:
        """The guarantee that the noise is proven to give, which implies the target.

        It is pure epsilon if Laplace noise was chosen for (epsilon, delta). A ledger composes it,
        and an audit tries to break it.
        """
        target = self.target
        if isinstance(target, privacy.ApproxDP) and self.noise.is_pure:
            return privacy.PureDP(pure_part(target), target.neighbours)
        return target

    @property
    def events(self) -> tuple[privacy.Event, ...]:
        """The events that a ledger composes for the stage."""
        return events_of(self)

    def __str__(self) -> str:
        return f"target {self.target}\n{self.noise.title} noise on {self.size} numbers"


@suggests_arguments
@dataclass(frozen=True, slots=True, repr=False)
class Calibration(StageCalibration):
    """All numbers of a mechanism that perturbs, computed before any data is touched.

    Attributes
    ----------
    problem : Problem
        The public facts, with the lambda that is used.
    target : Guarantee
        The guarantee that the release will satisfy.
    placement : str
        ``"objective"`` or ``"output"``.
    analysis : str
        The proof that determines the size of the noise; see `dplr`.
    noise : NoiseLaw
        The law of the tilt b of the sum form, or of the noise on the minimiser.
    shield : NoiseLaw
        The law of the noise on the minimiser of a tilted objective, which is needed because the
        minimiser is known only to within ``tau / Lambda``. Output perturbation has no shield,
        because its own noise hides that, too.
    tau : float
        The certified norm of the gradient of the sum form; 0 for the plain fit.
    grid : float
        The power of two whose multiples are released; 0 for the plain fit.
    lambda_origin : str
        What decided lambda, in words.
    lambda_rules : tuple of (str, float)
        The lambda that each automatic rule would choose.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> calibration = dplr("vote ~ age", votes, eps=1.0, **public).calibration
    >>> print(calibration.noise.title, f"{calibration.problem.radius:.3f}")
    block Laplace 1.118
    """

    problem: Problem
    target: privacy.Guarantee
    placement: Placement
    analysis: str
    noise: NoiseLaw
    shield: NoiseLaw
    tau: float
    grid: float
    lambda_origin: str
    lambda_rules: tuple[tuple[str, float], ...] = ()

    @property
    def lambda_(self) -> float:
        """The penalty of the mean objective that is used."""
        return self.problem.lambda_

    @property
    def bound(self) -> str:
        """The proof that determines the size of the noise, in the words of printed pages."""
        if self.placement == "objective":
            return f"analysis={self.analysis!r}"
        return f"{self.analysis} bound"

    @property
    def alternatives(self) -> tuple[tuple[str, float], ...]:
        """Noise that was not chosen, and the ratio of its length to that of the chosen noise.

        Lengths are root mean squares. The ratio is infinite if noise is not possible at this
        lambda. Only pages show them, so they are worked out when one is made.
        """
        if isinstance(self.target, privacy.NonPrivate):
            return ()
        if self.placement == "output":
            laws = _laws_of_output(self.problem, self.tau, self.target)
            return tuple(_others(laws, self.noise))
        analysis = cast("pure.Analysis", self.analysis)
        return tuple(_other_tilts(self.problem, self.target, analysis, self.noise))

    @property
    def sensitivity(self) -> float:
        """How far one record moves the minimiser."""
        return proven_noise.output_sensitivity(self.problem, self.tau)

    @property
    def distance(self) -> float:
        """``2 tau / Lambda``, the sensitivity of an inexact minimum (theory.md 5).

        It is that of all minima together that neighbours touch.
        """
        return 2 * self.tau * self.problem.touched / self.problem.penalty

    @property
    def epsilon_effective(self) -> float:
        """The part of epsilon that is spent on the noise; the rest pays for the curvature.

        It is NaN under zCDP, which has no epsilon, and 0 for the plain fit.
        """
        target, problem, noise = self.target, self.problem, self.noise
        if isinstance(target, privacy.ZCDP | privacy.NonPrivate):
            return math.nan if target.is_private else 0.0
        if self.placement == "output":
            return target.epsilon
        beside = self.distance / self.shield.scale
        if isinstance(target, privacy.ApproxDP) and not noise.is_pure:
            mu = math.hypot(2 * (problem.reach / noise.scale), beside)
            return min(target.epsilon, gaussian_epsilon(mu, target.delta))
        tilt = 2 * problem.pull * noise.rate_along(problem)
        return min(pure_part(target), tilt + beside)

    @property
    def coefficient_sd(self) -> float:
        """Upper bound on the standard deviation of a design coefficient that the noise causes.

        It is exact for output perturbation. Under objective perturbation the coefficients are a
        function of the noise with slope at most ``1 / Lambda``, so their deviation is at most
        the noise's `lipschitz_sd` over Lambda. How much smaller it is depends on the data, so that
        number would have to be paid for. The bound also holds for combinations of coefficients of
        length one.
        """
        if self.placement == "output" or self.noise.scale == 0:
            return math.sqrt(float(self.noise.variances.max()))
        shield = math.sqrt(float(self.shield.variances.max()))
        return math.hypot(self.noise.lipschitz_sd / self.problem.penalty, shield)

    @property
    def events(self) -> tuple[privacy.Event, ...]:
        """The events that a ledger composes for this release."""
        target, problem, noise = self.proven, self.problem, self.noise
        if isinstance(target, privacy.PureDP | privacy.NonPrivate):
            return (target,) if isinstance(target, privacy.PureDP) else ()
        if self.placement == "output":
            return events_of(self)
        shield = privacy.GaussianEvent(self.distance / self.shield.scale, target.neighbours)
        if noise.is_pure:
            rate = noise.rate_along(problem)
            spent = pure.objective_epsilon(rate, problem, self.analysis)
            return (privacy.PureDP(spent, target.neighbours), shield)
        # any proven bound holds, whichever the analysis took
        tilt = gaussian_objective.tilt_event(problem, noise.scale, neighbours=target.neighbours)
        return (tilt, shield)

    def __repr__(self) -> str:
        return f"<Calibration: {self._title}, {self.target}>"

    @property
    def _title(self) -> str:
        return f"{self.placement} perturbation, {self.noise.title}"

    def _page(self) -> list[page_model.Piece]:
        problem, effective = self.problem, self.epsilon_effective
        rules = ", ".join(f"{name} {value:.4g}" for name, value in self.lambda_rules)
        facts = [
            ("Target", str(self.target)),
            ("Size", f"n = {problem.n}, d = {problem.d}"),
            ("Rows", f"radius R = {problem.radius:.6g}"),
            ("Lambda", f"{self.lambda_:.6g}, {self.lambda_origin}"),
            *([("Rules", f"lambda would be {rules}")] if rules else []),
        ]
        if self.noise.scale > 0:
            bought = "" if math.isnan(effective) else f", effective epsilon {effective:.6g}"
            most = " at most" if self.placement == "objective" else ""
            moved = f"a standard deviation of {self.coefficient_sd:.3g}{most} on the coefficients"
            precise = f"minimum certified to a gradient of {self.tau:.3g}"
            facts += [
                ("Noise", f"scale {self.noise.scale:.6g} ({self.bound}){bought}"),
                ("Effect", f"{moved}, in units that have declared bounds at -1 and 1"),
                ("Precision", f"{precise}, released as multiples of {self.grid:.3g}"),
            ]
        page: list[page_model.Piece] = [page_model.Heading(self._title), page_model.FactList(facts)]
        if not (alternatives := self.alternatives):
            return page
        others = [(f"{self.noise.title} noise, {self.bound} (chosen)", "1")]
        for title, ratio in alternatives:
            others.append((title, "not possible" if math.isinf(ratio) else f"{ratio:.3g}"))
        heading = f"Length of the noise at this lambda and d = {problem.d}, the chosen being 1:"
        return [*page, heading, page_model.Listing(("Noise", "Length"), others)]

    def __str__(self) -> str:
        return page_model.as_text(self._page())

    def _repr_html_(self) -> str:
        return page_model.as_html(self._page())


def events_of(stage: StageCalibration) -> tuple[privacy.Event, ...]:
    """Return what a ledger composes for noise on a vector of known sensitivity."""
    proven = stage.proven
    if isinstance(proven, privacy.PureDP):
        return (proven,)
    event = stage.noise.event(stage.sensitivity, proven.neighbours)
    return () if event is None else (event,)


# -- from a request and public facts --------------------------------------------------------------

_SAME = 1e-3
"""Relative difference in length below which two kinds of noise count as the same."""


def calibrate_objective(problem: Problem, request: Request, lambda_origin: str) -> Calibration:
    """Calibrate objective perturbation; a small lambda is raised or refused as requested."""
    target = cast("privacy.Promise", request.target)
    analysis = pure.proven(request.analysis, problem.loss)
    settled = settle_lambda(problem, target, analysis, request.on_small_lambda)
    if settled is not problem:
        lambda_origin = f"raised from {problem.lambda_:.6g}, which is too small for this target"
    laws = proven_noise.candidates(settled, target, analysis)
    noise = shortest(laws, request.kinds)
    if noise is None:
        raise no_tilt(settled, target, analysis)
    tau = proven_noise.certified_norm(settled, noise)
    shield = proven_noise.shield_for(settled, target, analysis, noise, tau)
    return Calibration(
        problem=settled,
        target=target,
        placement="objective",
        analysis=analysis,
        noise=noise,
        shield=shield,
        tau=tau,
        grid=proven_noise.grid_for(shield),
        lambda_origin=lambda_origin,
    )


def calibrate_output(problem: Problem, request: Request, lambda_origin: str) -> Calibration:
    """Calibrate output perturbation; any lambda above 0 will do (theory.md 3.3 and 4.1)."""
    if problem.lambda_ <= 0:
        raise GuaranteeError(
            "lambda_=0: output perturbation takes lambda_ above 0, since the minimiser of an "
            "unpenalised fit can move without limit."
        )
    target, nothing = cast("privacy.Promise", request.target), NoNoise(problem.size)
    tau = proven_noise.certified_norm(problem, nothing)
    laws = _laws_of_output(problem, tau, target)
    noise = proven_noise.require_law(laws, target, request.kinds)
    by_profile = isinstance(target, privacy.ApproxDP) and not noise.is_pure
    return Calibration(
        problem=problem,
        target=target,
        placement="output",
        analysis="analytic" if by_profile else "sensitivity",
        noise=noise,
        shield=nothing,
        tau=tau,
        grid=proven_noise.grid_for(noise),
        lambda_origin=lambda_origin,
    )


def calibrate_plain(problem: Problem, request: Request, lambda_origin: str) -> Calibration:
    """Make the record of the plain fit: penalised, and without noise."""
    nothing, target, placement = NoNoise(problem.size), request.target, request.placement
    return Calibration(
        problem, target, placement, "none", nothing, nothing, 0.0, 0.0, lambda_origin
    )


def _laws_of_output(problem: Problem, tau: float, target: privacy.Promise) -> list[NoiseLaw]:
    """Return every law of noise that hides how far a minimum moves."""
    reach = proven_noise.output_sensitivity(problem, tau)
    return proven_noise.laws_hiding(reach, problem.size, target)


def _other_tilts(
    problem: Problem, target: privacy.Promise, chosen: pure.Analysis, noise: NoiseLaw
) -> Iterator[tuple[str, float]]:
    """Yield other laws of noise under the same bound, then the best laws under other bounds."""
    laws = proven_noise.candidates(problem, target, chosen)
    yield from _others(laws, noise)
    may_be_gaussian = isinstance(target, privacy.ZCDP | privacy.ApproxDP)
    if may_be_gaussian and all(law.is_pure for law in laws):
        yield "Gaussian noise", math.inf
    for analysis in pure.ANALYSES:
        unproven = analysis == "joint" and problem.loss.joint_factor is None
        # R's bound is proven for pure epsilon alone
        other_noise = isinstance(target, privacy.ApproxDP) or not noise.is_pure
        unproven |= (other_noise or problem.is_multinomial) and analysis == "cms11"
        if analysis != chosen and not unproven:
            law = shortest(proven_noise.candidates(problem, target, analysis))
            ratio = _ratio(law, noise) if law else math.inf
            if not math.isclose(ratio, 1.0, rel_tol=_SAME):
                yield f"analysis={analysis!r}", ratio


def _others(laws: list[NoiseLaw], noise: NoiseLaw) -> Iterator[tuple[str, float]]:
    """Yield the laws of other kinds than the chosen one, with the ratios of their lengths."""
    for law in laws:
        if type(law) is not type(noise):
            yield f"{law.title} noise", _ratio(law, noise)


def _ratio(law: NoiseLaw, chosen: NoiseLaw) -> float:
    return math.sqrt(mean_square(law) / mean_square(chosen))
