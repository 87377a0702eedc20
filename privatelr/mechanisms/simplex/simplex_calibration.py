"""The simplex mechanism with all its numbers, computed before any data is touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from privatelr import privacy
from privatelr.errors import GuaranteeError, require_number, show
from privatelr.mechanisms.calibration.calibration_record import facts_html
from privatelr.mechanisms.calibration.lambda_rules import PLAIN_LAMBDA
from privatelr.mechanisms.simplex import number_of_draws as afford
from privatelr.mechanisms.simplex.number_of_draws import SimplexFacts, Stability
from privatelr.numerics import describe
from privatelr.privacy.accounting import in_agreement


@dataclass(frozen=True, slots=True)
class SimplexCalibration:
    """Draws from the minimiser of an entropy-penalised objective on the simplex.

    Attributes
    ----------
    problem : SimplexFacts
        With the lambda that is used.
    target : Guarantee
        What the release will satisfy.
    draws : int
        How many options are drawn; 0 for the plain fit, whose minimiser is the release.
    stability : Stability or None
        How far the minimisers of neighbours are apart; None for the plain fit.
    tolerance : float
        Spread of the KKT conditions of the sum form to which the minimiser is computed.
    lambda_origin : str
        Where lambda comes from, in words.
    """

    problem: SimplexFacts
    target: privacy.Guarantee
    draws: int
    stability: Stability | None
    tolerance: float
    lambda_origin: str
    mechanism: ClassVar[str] = "simplex draws"

    @property
    def lambda_(self) -> float:
        return self.problem.lambda_

    @property
    def unit(self) -> float:
        """Size of a coefficient whose column is always drawn."""
        return self.problem.radius

    @property
    def events(self) -> tuple[privacy.Event, ...]:
        """What a ledger composes; nothing if it is far below what was promised."""
        target, bounds = self.target, self.stability
        if bounds is None or isinstance(target, privacy.NonPrivate):
            return ()
        sizes = (bounds.largest, bounds.width, bounds.sd)
        event = privacy.SimplexDrawEvent(*sizes, times=self.draws, neighbours=target.neighbours)
        return in_agreement(target, (event,))

    @property
    def title(self) -> str:
        return f"entropy-penalised {self.problem.loss.name} loss on the simplex"

    @property
    def cost(self) -> float:
        """Epsilon, or rho under zCDP, of the draws that are made; 0 for the plain fit."""
        bounds = self.stability
        if bounds is None:
            return 0.0
        if isinstance(self.target, privacy.ZCDP):
            return self.draws * afford.rho_of_draw(bounds)
        delta = self.target.delta if isinstance(self.target, privacy.ApproxDP) else 0.0
        return afford.epsilon_for_draws(self.draws, bounds, delta)

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """Labels and sentences for the printed page."""
        problem = self.problem
        lines = [
            ("Loss", f"{describe(problem.loss)}, at margins up to {problem.reach:.6g} in size"),
            ("Radius", f"the sizes of the coefficients sum to at most {problem.radius:.6g}"),
            ("Lambda", f"{problem.lambda_:.6g}; {self.lambda_origin}"),
        ]
        if self.stability is None:
            return (*lines, ("Draws", "none: the minimiser itself, which nothing protects"))
        unit = "rho" if isinstance(self.target, privacy.ZCDP) else "epsilon"
        each = f"worth {problem.radius / self.draws:.6g}"
        drawn = f"{self.draws} signed columns, with replacement, {each} each"
        if self.draws == 1:
            drawn = f"1 signed column, {each}"
        return (*lines, ("Draws", drawn), ("Cost", f"{unit} {self.cost:.6g}"))

    def _repr_html_(self) -> str:
        return facts_html(self.title, (("Target", str(self.target)), *self.facts))

    def __str__(self) -> str:
        problem, bounds = self.problem, self.stability
        lines = [
            self.title,
            f"target {self.target}",
            f"n = {problem.n}, d = {problem.d}, x_bound = {problem.x_bound:.6g}, "
            f"radius = {problem.radius:.6g}",
            f"lambda = {self.lambda_:.6g} (n lambda = {problem.penalty:.6g})",
            f"  {self.lambda_origin}",
            f"KKT conditions of the sum to within {self.tolerance:.3g}",
        ]
        if bounds is None:
            return "\n".join([*lines, "no draws: the minimiser itself"])
        moved = f"by at most {bounds.largest:.6g}, within {bounds.width:.6g}"
        at_speed = f"at a speed of sd {bounds.sd:.6g} (kappa = {bounds.kappa:.6g})"
        drawn = [f"draws = {self.draws}", f"log chances move {moved}, {at_speed}"]
        return "\n".join([*lines, *drawn])


def calibrate_simplex(
    facts: SimplexFacts, target: privacy.Guarantee, lambda_: Any = "auto", draws: Any = "auto"
) -> SimplexCalibration:
    """Lambda and the number of draws for a guarantee, from public facts.

    Parameters
    ----------
    facts : SimplexFacts
    target : Guarantee
        `NonPrivate` for the minimiser itself, by default at lambda 0.001.
    lambda_ : float or "auto"
        Penalty of the mean objective. By default the one of `suggest_lambda`; if draws are
        given, the smallest that affords them.
    draws : int or "auto"
        By default as many as the guarantee affords, up to 1,000,000.

    Raises
    ------
    NoRelease
        If not one draw is affordable at this lambda. The number is never rounded up to one.
    GuaranteeError
        If more draws are asked for than there are, or an argument is none.
    """
    chosen, counted = _given(lambda_), _given(draws)
    if counted is not None:
        afford.require_draws(counted)
    if chosen is not None:
        takes = "'auto' or a finite number above 0"
        chosen = require_number(GuaranteeError, "lambda_", chosen, takes, above=0)
    if not isinstance(target, privacy.Guarantee):
        raise GuaranteeError(f"target={show(target)}: target takes a guarantee.")
    if isinstance(target, privacy.NonPrivate) and counted is not None:
        raise GuaranteeError(
            f"draws={counted}: without a guarantee the minimiser itself is released; leave draws."
        )
    origin = "as given"
    if chosen is None:
        chosen, origin = _choose_lambda(facts, target, counted)
    problem = facts.with_lambda(chosen)
    tolerance = afford.tolerance_of(problem)
    if isinstance(target, privacy.NonPrivate):
        return SimplexCalibration(problem, target, 0, None, tolerance, origin)
    bounds = afford.stability_of(problem)
    most = afford.affordable_draws(target, bounds)
    if most == 0:
        raise afford.refuse(facts, target, chosen)
    if counted is not None and counted > most:
        there = "there is 1 draw" if most == 1 else f"there are {most} draws"
        raise GuaranteeError(
            f"draws={counted}: at lambda_={chosen:g} {there} under {target}; take "
            f"draws={most}{' or fewer' if most > 1 else ''}, or lambda_='auto'."
        )
    return SimplexCalibration(problem, target, counted or most, bounds, tolerance, origin)


def _given(value: Any) -> Any:
    return None if isinstance(value, str) and value == "auto" else value


def _choose_lambda(
    facts: SimplexFacts, target: privacy.Guarantee, draws: int | None
) -> tuple[float, str]:
    """The lambda that is used where none is given, and where that comes from."""
    if isinstance(target, privacy.NonPrivate):
        return PLAIN_LAMBDA, "the default"
    if draws is not None:
        return afford.min_lambda(facts, target, draws), "the smallest for these draws"
    return afford.suggest_lambda(facts, target), "a balance of public bounds"
