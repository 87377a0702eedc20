"""The coefficients: one mechanism for each placement and kind of guarantee.

Every loss goes with every row of the table, and the tests of the laws run over all rows. To add a
mechanism, write its formulas in `privatelr.mechanisms.calibration` and its release in
`privatelr.mechanisms.perturbation`, and list both here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import (
    Calibration,
    calibrate_objective,
    calibrate_output,
    calibrate_plain,
    lambda_rules,
    proven,
)
from privatelr.mechanisms.perturbation import Release, release_minimiser, release_plain
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.request import COEFFICIENTS, Request
from privatelr.mechanisms.stages.scale import ScaleFacts
from privatelr.mechanisms.stages.stage import Calibrations, Stage
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, NonPrivate, PureDP
from privatelr.types import Placement


@dataclass(frozen=True, slots=True)
class Mechanism:
    """Two functions: one calibrates a request, the other releases under the calibration.

    Examples
    --------
    >>> from privatelr import PureDP
    >>> from privatelr.mechanisms import mechanism_of
    >>> mechanism = mechanism_of("objective", PureDP(1.0))
    >>> mechanism.calibrate.__name__, mechanism.release.__name__
    ('calibrate_objective', 'release_minimiser')
    """

    calibrate: Callable[[Problem, Request, str], Calibration]
    release: Callable[..., Release]


MECHANISMS: dict[tuple[Placement, type[Any]], Mechanism] = {
    ("objective", PureDP): Mechanism(calibrate_objective, release_minimiser),
    ("objective", ZCDP): Mechanism(calibrate_objective, release_minimiser),
    ("objective", ApproxDP): Mechanism(calibrate_objective, release_minimiser),
    ("output", PureDP): Mechanism(calibrate_output, release_minimiser),
    ("output", ZCDP): Mechanism(calibrate_output, release_minimiser),
    ("output", ApproxDP): Mechanism(calibrate_output, release_minimiser),
    ("objective", NonPrivate): Mechanism(calibrate_plain, release_plain),
    ("output", NonPrivate): Mechanism(calibrate_plain, release_plain),
}


def mechanism_of(placement: Placement, target: Guarantee) -> Mechanism:
    """Return the mechanism for a guarantee; a shared one is approximate.

    Examples
    --------
    >>> from privatelr import ApproxDP, PureDP
    >>> from privatelr.mechanisms import mechanism_of
    >>> mechanism_of("output", PureDP(1.0)) is mechanism_of("output", ApproxDP(1.0, 1e-6))
    False
    >>> mechanism_of("output", PureDP(1.0)).calibrate.__name__
    'calibrate_output'
    """
    return MECHANISMS[placement, ApproxDP if isinstance(target, ApproxDP) else type(target)]


def calibrate(request: Request, facts: Problem) -> Calibration:
    """Calibrate the coefficients alone; takes no data."""
    return CoefficientStage().calibrate(request, facts, columns=None, before={})


class CoefficientStage(Stage[Calibration]):
    """The coefficients, which a `Mechanism` releases; their draws are a tilt and a shield."""

    name, part, at_coefficients = COEFFICIENTS, "coefficients", False

    def calibrate(
        self, request: Request, problem: Problem, columns: ScaleFacts | None, before: Calibrations
    ) -> Calibration:
        """Choose lambda by its rule, if one was asked for, and calibrate; takes no data."""
        target, wanted = request.target, request.lambda_
        mechanism = mechanism_of(request.placement, target)
        if isinstance(target, NonPrivate):
            if not isinstance(wanted, str):
                return mechanism.calibrate(problem.with_lambda(wanted), request, "as given")
            plain = problem.with_lambda(lambda_rules.PLAIN_LAMBDA)
            return mechanism.calibrate(plain, request, "the default of a plain fit")
        analysis = proven(request.analysis, problem.loss)
        public = problem, target, analysis, request.placement
        corrected = request.buys_intervals and problem.loss.probability is not None
        rule_of = partial(lambda_rules.lambda_by_rule, corrected=corrected)
        rules = dict[lambda_rules.LambdaRule, float]()
        for rule in lambda_rules.LAMBDA_RULES:
            with suppress(GuaranteeError):  # a rule without an answer is not listed
                rules[rule] = rule_of(rule, *public, request.kinds)
        if not isinstance(wanted, str):
            problem, origin = problem.with_lambda(wanted), "as given"
        else:
            if wanted not in rules:  # raise the error that says why the rule has no answer
                rule_of(wanted, *public)
            problem = problem.with_lambda(rules[wanted])
            origin = lambda_rules.origin_of(wanted, rules, *public, corrected=corrected)
            if wanted != "PrivateLR" and analysis != "cms11":
                # R's rule may give too small a lambda
                request = replace(request, on_small_lambda="keep")
        found = mechanism.calibrate(problem, request, origin)
        return replace(found, lambda_rules=tuple(rules.items()))

    def seen(self) -> str:
        """Name the estimates, by which readers know them."""
        return "the estimates"
