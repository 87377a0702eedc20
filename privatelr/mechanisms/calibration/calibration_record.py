"""A mechanism with all its numbers, how it reads, and its page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from privatelr.arguments import suggests_arguments
from privatelr.mechanisms.calibration.proven_noise import (
    output_sensitivity,
    relative_rate,
    tilt_epsilon,
)
from privatelr.mechanisms.problem import Problem
from privatelr.page_model import FactList, Heading, Piece, as_html
from privatelr.privacy import (
    ZCDP,
    ApproxDP,
    Event,
    GaussianEvent,
    Guarantee,
    Neighbours,
    NonPrivate,
    PureDP,
    TiltEvent,
)
from privatelr.privacy.noise import GaussianNoise, NoiseLaw, gaussian_epsilon
from privatelr.types import Placement


@dataclass(frozen=True, slots=True)
class Alternative:
    """Noise that was not chosen: what it is, and its root mean square length over the chosen."""

    title: str
    ratio: float

    def __str__(self) -> str:
        if math.isinf(self.ratio):
            return f"{self.title}: not possible at this lambda"
        return f"{self.title}: {self.ratio:.3g} times the noise"


@suggests_arguments
@dataclass(frozen=True, slots=True, repr=False)
class Calibration:
    """A mechanism with all its numbers, computed before any data is touched.

    Attributes
    ----------
    problem : Problem
        With the lambda that is used.
    target : Guarantee
        What the release will satisfy.
    placement : str
        ``"objective"`` or ``"output"``.
    analysis : str
        The proof that fixed the size of the noise; see `dplr`.
    noise : NoiseLaw
        Law of the tilt b of the sum form, or of what is added to the minimiser.
    shield : NoiseLaw
        Law of what is added to the minimiser of a tilted objective, because it is known only
        to within ``tau / Lambda``; no noise for output perturbation, whose own noise does it.
    tau : float
        Certified norm of the gradient of the sum form; 0 for the plain fit.
    grid : float
        Power of two whose multiples are released; 0 for the plain fit.
    lambda_origin : str
        Where lambda comes from, in words.
    lambda_rules : tuple of (str, float)
        What each automatic rule would choose.
    alternatives : tuple of Alternative
        What other noise would cost at this lambda.
    """

    problem: Problem
    target: Guarantee
    placement: Placement
    analysis: str
    noise: NoiseLaw
    shield: NoiseLaw
    tau: float
    grid: float
    lambda_origin: str
    lambda_rules: tuple[tuple[str, float], ...] = ()
    alternatives: tuple[Alternative, ...] = ()

    @property
    def lambda_(self) -> float:
        return self.problem.lambda_

    @property
    def bound(self) -> str:
        """What fixed the size of the noise, as pages say it: an argument if there is one."""
        if self.placement == "objective":
            return f"analysis={self.analysis!r}"
        return f"{self.analysis} bound"

    @property
    def proven(self) -> Guarantee:
        """What the noise is proven to give: pure epsilon where (epsilon, delta) met Laplace noise.

        This is what a ledger composes and what an audit tries to break; it implies the target.
        """
        return proven_by(self.noise, self.target)

    @property
    def distance(self) -> float:
        """``2 tau / Lambda``: how much further apart neighbours may be for want of exactness."""
        return 2 * self.tau / self.problem.penalty

    @property
    def epsilon_effective(self) -> float:
        """The part of epsilon that buys noise; the rest pays for the curvature.

        NaN under zCDP, which has no epsilon, and 0 for the plain fit.
        """
        target, problem, noise = self.target, self.problem, self.noise
        if isinstance(target, ZCDP | NonPrivate):
            return math.nan if target.is_private else 0.0
        if self.placement == "output":
            return target.epsilon
        beside = self.distance / self.shield.scale
        if isinstance(target, ApproxDP) and isinstance(noise, GaussianNoise):
            mu = math.hypot(2 * (problem.reach / noise.scale), beside)
            return min(target.epsilon, gaussian_epsilon(mu, target.delta))
        tilt = 2 * problem.loss.slope_bound * relative_rate(noise, problem)
        return min(target.epsilon, tilt + beside)

    @property
    def coefficient_sd(self) -> float:
        """Standard deviation that the noise gives a design coefficient, at most.

        Exact for output perturbation. Under objective perturbation the coefficients are a
        function of the noise with slope at most ``1 / Lambda``, so their deviation is at most
        the noise's `lipschitz_sd` over Lambda; how much smaller it is depends on the data and
        is not free. The same holds for a combination of coefficients of length one.
        """
        if self.placement == "output" or self.noise.scale == 0:
            return math.sqrt(float(self.noise.variances.max()))
        shield = math.sqrt(float(self.shield.variances.max()))
        return math.hypot(self.noise.lipschitz_sd / self.problem.penalty, shield)

    @property
    def events(self) -> tuple[Event, ...]:
        """What a ledger composes for this release."""
        target, problem, noise = self.proven, self.problem, self.noise
        if isinstance(target, PureDP | NonPrivate):
            return (target,) if isinstance(target, PureDP) else ()
        if self.placement == "output":
            return (event_of(noise, output_sensitivity(problem, self.tau), target.neighbours),)
        shield = GaussianEvent(self.distance / self.shield.scale, target.neighbours)
        if not isinstance(noise, GaussianNoise):
            spent = tilt_epsilon(noise, problem, self.analysis)
            return (PureDP(spent, target.neighbours), shield)
        m, loss = problem.reach / noise.scale, problem.loss
        bend = problem.kappa, loss.curvature_bound, loss.joint_factor
        return (TiltEvent(m, *bend, target.neighbours), shield)

    def __repr__(self) -> str:
        return f"<Calibration: {self._title}, {self.target}>"

    @property
    def _title(self) -> str:
        return f"{self.placement} perturbation, {self.noise.title}"

    @property
    def _rules(self) -> str:
        return ", ".join(f"{name} {value:.4g}" for name, value in self.lambda_rules)

    def __str__(self) -> str:
        problem = self.problem
        lines = [
            self._title,
            f"target {self.target}",
            f"n = {problem.n}, d = {problem.d}, R = {problem.radius:.6g}",
            f"lambda = {self.lambda_:.6g}",
            f"  {self.lambda_origin}",
        ]
        if self.noise.scale > 0:
            effective = self.epsilon_effective
            bought = "" if math.isnan(effective) else f", effective epsilon {effective:.6g}"
            lines += [
                f"noise scale {self.noise.scale:.6g} ({self.bound}){bought}",
                f"minimum certified to a gradient of {self.tau:.3g}, released as multiples of "
                f"{self.grid:.3g}",
            ]
        if self.alternatives:
            lines.append(f"alternatives at this lambda and d = {problem.d}:")
            lines += [f"  {other}" for other in self.alternatives]
        return "\n".join([*lines, *([f"lambda by rule: {self._rules}"] if self._rules else [])])

    def _repr_html_(self) -> str:
        problem, effective = self.problem, self.epsilon_effective
        facts = [
            ("Target", str(self.target)),
            ("Size", f"n = {problem.n}, d = {problem.d}"),
            ("Rows", f"radius R = {problem.radius:.6g}"),
            ("Lambda", f"{self.lambda_:.6g}, {self.lambda_origin}"),
        ]
        if self._rules:
            facts.append(("Lambda by rule", self._rules))
        if self.noise.scale > 0:
            facts.append(("Noise", f"scale {self.noise.scale:.6g} ({self.bound})"))
            if not math.isnan(effective):
                facts.append(("Effective epsilon", f"{effective:.6g}"))
            most = " at most" if self.placement == "objective" else ""
            moved = f"moved by a standard deviation of {self.coefficient_sd:.3g}{most}"
            precise = f"minimum certified to a gradient of {self.tau:.3g}"
            facts += [
                ("Coefficients", f"{moved}, in units that have declared bounds at -1 and 1"),
                ("Precision", f"{precise}, released as multiples of {self.grid:.3g}"),
            ]
        if not self.alternatives:
            return facts_html(self._title, facts)
        others = [(f"{self.noise.title} noise, {self.bound} (chosen)", "1")]
        for other in self.alternatives:
            ratio = "not possible" if math.isinf(other.ratio) else f"{other.ratio:.3g}"
            others.append((other.title, ratio))
        heading = f"Length of the noise at this lambda and d = {problem.d}, the chosen being 1:"
        return facts_html(self._title, facts, heading, FactList(others))


def proven_by(noise: NoiseLaw, target: Guarantee) -> Guarantee:
    """The target, or the pure guarantee of its epsilon if that is what the noise was made for."""
    if isinstance(target, ApproxDP) and not isinstance(noise, GaussianNoise):
        return PureDP(target.epsilon, target.neighbours)
    return target


def event_of(noise: NoiseLaw, reach: float, neighbours: Neighbours) -> Event:
    """What a ledger composes for spherical noise that hides a vector moved by `reach`."""
    if isinstance(noise, GaussianNoise):
        return GaussianEvent(reach / noise.sd, neighbours)
    return PureDP(reach / noise.scale, neighbours)


def facts_html(title: str, facts: Sequence[tuple[str, str]], *below: Piece) -> str:
    """A title above a table of labels and sentences."""
    return as_html([Heading(title), FactList(facts), *below])
