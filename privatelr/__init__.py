"""Differentially private logistic regression and SVM from a formula and a data frame.

from privatelr import dplr, load_dataset, load_schema
fit = dplr("Species != 'setosa' ~ .", load_dataset("iris"), **load_schema("iris"))
print(fit)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from privatelr.errors import (
    ArgumentError,
    ClusterError,
    FormulaError,
    GuaranteeError,
    MissingDependencyError,
    NoRelease,
    NotConvergedError,
    PrivacyWarning,
    PrivateLRError,
    ReleaseFileError,
    SchemaError,
)
from privatelr.frames.scaling import ScaledData, scaled
from privatelr.mechanisms.calibration.record import Calibration
from privatelr.mechanisms.release import Release
from privatelr.model import dplr, dpsvm
from privatelr.numerics.newton import Newton
from privatelr.privacy.conversions import compose, implies, to_approximate, to_zcdp
from privatelr.privacy.guarantees import REPLACE_ONE, ZCDP, ApproxDP, NonPrivate, PureDP
from privatelr.privacy.ledger import Ledger
from privatelr.results.diagnostics import Diagnostics
from privatelr.results.fit import Fit

if TYPE_CHECKING:  # what _LATER says, for the reader of types
    from privatelr import audit
    from privatelr.datasets import load_dataset, load_schema
    from privatelr.mechanisms.online.play import PrivateFTRL
    from privatelr.mechanisms.programs.constraint_private import constraint_private_lp
    from privatelr.planning import StudyPlan, plan
    from privatelr.results.effects import MarginalEffects, average_marginal_effects
    from privatelr.results.forest import plot_coefficients
    from privatelr.results.load import load
    from privatelr.results.selected import SelectedFit
    from privatelr.selected_model import dplpsvm, dpsimplex

__version__ = "0.2.0.dev0"

__all__ = [
    "REPLACE_ONE",
    "ZCDP",
    "ApproxDP",
    "ArgumentError",
    "Calibration",
    "ClusterError",
    "Diagnostics",
    "Fit",
    "FormulaError",
    "GuaranteeError",
    "Ledger",
    "MarginalEffects",
    "MissingDependencyError",
    "Newton",
    "NoRelease",
    "NonPrivate",
    "NotConvergedError",
    "PrivacyWarning",
    "PrivateFTRL",
    "PrivateLRError",
    "PureDP",
    "Release",
    "ReleaseFileError",
    "ScaledData",
    "SchemaError",
    "SelectedFit",
    "StudyPlan",
    "__version__",
    "audit",
    "average_marginal_effects",
    "compose",
    "constraint_private_lp",
    "dplpsvm",
    "dplr",
    "dpsimplex",
    "dpsvm",
    "implies",
    "load",
    "load_dataset",
    "load_schema",
    "plan",
    "plot_coefficients",
    "scaled",
    "to_approximate",
    "to_zcdp",
]

_ROOMS = ("audit", "datasets", "planning")
_LATER = {
    "MarginalEffects": "privatelr.results.effects",
    "PrivateFTRL": "privatelr.mechanisms.online.play",
    "SelectedFit": "privatelr.results.selected",
    "StudyPlan": "privatelr.planning",
    "average_marginal_effects": "privatelr.results.effects",
    "constraint_private_lp": "privatelr.mechanisms.programs.constraint_private",
    "dplpsvm": "privatelr.selected_model",
    "dpsimplex": "privatelr.selected_model",
    "load": "privatelr.results.load",
    "load_dataset": "privatelr.datasets",
    "load_schema": "privatelr.datasets",
    "plan": "privatelr.planning",
    "plot_coefficients": "privatelr.results.forest",
}
"""Names that a fit does not need, and where they are imported from when they are first used."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """A name of `_ROOMS` or `_LATER`, which from now on is an attribute like any other."""
        if name in _ROOMS:
            return import_module(f"{__name__}.{name}")
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_LATER[name]), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *_ROOMS, *_LATER})
