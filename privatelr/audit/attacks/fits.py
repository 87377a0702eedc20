"""Attacks that start at the front: fits of formulas, on records that the formula can attain.

A fit is made as a user makes it, and its calibration is taken at its word. Then the same readers
read neighbours of the fit's own schema, whose records are at the corners and beyond, and what the
calibration loses between them is computed exactly.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr.audit.attacks.designs import read_as_a_fit
from privatelr.audit.attacks.formulas import Case
from privatelr.audit.checks import Check, claims_of_size, guarded, short
from privatelr.audit.density.exact import margin_at, margins_of_most
from privatelr.audit.density.loss import loss_of, moments_loss
from privatelr.audit.density.pairs import Pair
from privatelr.mechanisms.calibration import Calibration
from privatelr.model import dplr, dpsvm
from privatelr.privacy import Promise, PureDP
from privatelr.results import Fit
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.audit.density.loss import PrivacyLoss

PART = "formula"
_STEEP = 0.98


@dataclass(frozen=True, slots=True, eq=False)
class Front:
    """A formula, what is declared, and the longest record that a user can write.

    Attributes
    ----------
    formula : str
    longest : dict
        Covariates of a record at the far corner of the design, or beyond it.
    declared : dict
    directions : int
        Of a random projection; 0 for none.
    """

    formula: str
    longest: Mapping[str, Any]
    declared: Mapping[str, Any]
    directions: int = field(default=0)

    def frame(self, labels: list[float]) -> pd.DataFrame:
        """The longest record under these labels; NaN is a label of no use."""
        columns = {name: [value] * len(labels) for name, value in self.longest.items()}
        return pd.DataFrame({**columns, "y": np.array(labels, dtype=np.float64)})


_NO_LEVELS: dict[str, Any] = {"levels": {}, "row_norm": None}
FRONTS = (
    Front("y ~ x", {"x": 50.0}, {**_NO_LEVELS, "bounds": {"x": (-5, 5)}, "intercept_scale": 1.0}),
    Front(
        "y ~ x + z",
        {"x": 3.0, "z": -20.0},
        {"bounds": {}, "levels": {}, "row_norm": 1.0, "intercept_scale": 1.0},
    ),
    Front(
        "y ~ 0 + x + f:x",
        {"x": 2.0, "f": "c"},
        {
            "bounds": {"x": (-1, 2)},
            "levels": {"f": ("a", "b", "c")},
            "row_norm": None,
            "intercept_scale": 0.5,
        },
    ),
    Front(
        "y ~ x + z + u",
        {"x": 9.0, "z": 9.0, "u": 9.0},
        {
            "bounds": {"x": (-1, 1), "z": (-1, 1), "u": (-1, 1)},
            "levels": {},
            "row_norm": None,
            "intercept_scale": 0.5,
        },
        directions=2,
    ),
)


def audit_front(
    epsilon: float, fronts: tuple[Front, ...] = FRONTS, claims: int = 2
) -> Iterator[Check]:
    """A check for each formula, placement and claim: the loss between neighbours it can attain.

    A pure claim, and with two claims rho as well.
    """
    for front in fronts:
        for op in (True, False):
            for claim in claims_of_size(epsilon)[:claims]:
                if op and front is not fronts[0] and not isinstance(claim, PureDP):
                    continue  # an integral over so many dimensions takes long, and is much the same
                place = "objective" if op else "output"
                subject = f"{front.formula}, {place}, {short(claim)}: loss over the claim"
                yield from guarded(PART, subject, _attack, front, op, claim, subject)


def _attack(front: Front, op: bool, claim: Promise, subject: str) -> Iterator[Check]:
    worst = 0.0
    for fit_by in (dplr, dpsvm):
        fit = _fitted(front, fit_by, op, claim)
        pair = _neighbours(front, fit)
        for loss in _losses(fit, pair):
            worst = max(worst, loss.ratio)
    yield Check(PART, subject, worst, 1.0)


def _fitted(front: Front, fit_by: Callable[..., Fit], op: bool, claim: Promise) -> Fit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_by(
            front.formula,
            front.frame([1.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
            claim,
            "free",
            op,
            spend="inference",
            rp_dim=front.directions,
            **front.declared,
        )


def _neighbours(front: Front, fit: Fit) -> Pair:
    """The longest record under either label, beside two like the new one and unusable others."""
    rest = [0.0, 0.0, np.nan, np.nan, np.nan]
    sides = [_signed(front, fit, [label, *rest]) for label in (1.0, 0.0)]
    return Pair(sides[0][1:], np.ones(len(sides[0]) - 1), sides[0][0], sides[1][0])


def _signed(front: Front, fit: Fit, labels: list[float]) -> FloatArray:
    case = Case(front.formula, front.frame(labels), front.declared)
    read = read_as_a_fit(case, projection=fit.spec.projection)
    return np.asarray(read.x * read.y[:, None])


def _losses(fit: Fit, pair: Pair) -> Iterator[PrivacyLoss]:
    calibration = fit.calibration
    yield loss_of(pair, calibration, _outputs(calibration, pair))
    moments = fit.release.moments
    if moments is not None:
        yield moments_loss(pair, moments.calibration)


def _outputs(calibration: Calibration, pair: Pair) -> FloatArray | None:
    """Where the loss of a Laplace tilt is largest for these records."""
    problem, target = calibration.problem, calibration.target
    if calibration.placement == "output" or not isinstance(target, PureDP):
        return None
    square = float(pair.old @ pair.old)
    charge = -calibration.noise.log_density(pair.old)
    margins = margins_of_most(problem.loss, charge, square / problem.penalty)
    steep = margin_at(problem.loss, _STEEP)
    return np.array([margin / square * pair.old for margin in (*margins, steep)])
