"""Mechanisms that choose columns, each with what was asked of it, before n, d and data are known.

To add one, write its calibration and release, a class here, and list its calibration in
`privatelr.results.release_files.selections_file` and its audit in `privatelr.audit.run_audit`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from privatelr.mechanisms.linear_programs.lp_calibration import calibrate_program
from privatelr.mechanisms.linear_programs.lp_problem import ProgramFacts, WorstMargins
from privatelr.mechanisms.linear_programs.lp_rounds import release_program
from privatelr.mechanisms.simplex.simplex_calibration import calibrate_simplex
from privatelr.mechanisms.simplex.simplex_problem import SimplexFacts
from privatelr.mechanisms.simplex.simplex_release import release_simplex

if TYPE_CHECKING:
    from privatelr.mechanisms.selection_release import SelectionCalibration, Selections
    from privatelr.numerics import Loss
    from privatelr.numerics.rows import EntryRows
    from privatelr.privacy import Guarantee
    from privatelr.privacy.noise import Randomness


class SelectionMechanism(Protocol):
    """A mechanism with the arguments that it was asked for, before the data is seen."""

    @property
    def loss(self) -> Loss:
        """What scores records."""
        ...

    def calibrate(self, n: int, d: int, x_bound: float) -> SelectionCalibration:
        """All numbers of the mechanism; takes no data."""
        ...

    def release(self, rows: EntryRows, calibration: Any, randomness: Randomness) -> Selections: ...


@dataclass(frozen=True, slots=True)
class LinearProgramMechanism:
    """Dense multiplicative weights for the worst margins."""

    target: Guarantee
    density: Any
    rounds: Any
    step: Any
    score: Any
    slack: Any

    @property
    def loss(self) -> Any:
        return WorstMargins(self.density)

    def calibrate(self, n: int, d: int, x_bound: float) -> SelectionCalibration:
        facts = ProgramFacts(n, d, x_bound, self.density)
        return calibrate_program(facts, self.target, self.rounds, self.step, self.score, self.slack)

    def release(self, rows: EntryRows, calibration: Any, randomness: Randomness) -> Selections:
        return release_program(rows, calibration, randomness)


@dataclass(frozen=True, slots=True)
class SimplexMechanism:
    """Draws from the minimiser of an entropy-penalised objective on the simplex."""

    target: Guarantee
    loss: Loss
    radius: float
    lambda_: Any
    draws: Any

    def calibrate(self, n: int, d: int, x_bound: float) -> SelectionCalibration:
        facts = SimplexFacts(n, d, x_bound, self.radius, self.loss)
        return calibrate_simplex(facts, self.target, self.lambda_, self.draws)

    def release(self, rows: EntryRows, calibration: Any, randomness: Randomness) -> Selections:
        return release_simplex(rows, calibration, randomness)
