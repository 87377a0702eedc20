"""Differentially private logistic regression and SVM from a formula and a data frame.

from privatelr import dplr, load_dataset, load_schema
fit = dplr("Species != 'setosa' ~ .", load_dataset("iris"), **load_schema("iris"))
print(fit)
"""

from privatelr import audit
from privatelr.datasets import load_dataset, load_schema
from privatelr.errors import (
    ArgumentError,
    FormulaError,
    GuaranteeError,
    MissingDependencyError,
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
from privatelr.planning import StudyPlan, plan
from privatelr.privacy.conversions import compose, implies, to_approximate, to_zcdp
from privatelr.privacy.guarantees import REPLACE_ONE, ZCDP, ApproxDP, NonPrivate, PureDP
from privatelr.privacy.ledger import Ledger
from privatelr.results.diagnostics import Diagnostics
from privatelr.results.effects import MarginalEffects, average_marginal_effects
from privatelr.results.fit import Fit
from privatelr.results.forest import plot_coefficients
from privatelr.results.load import load

__version__ = "0.1.0"

__all__ = [
    "REPLACE_ONE",
    "ZCDP",
    "ApproxDP",
    "ArgumentError",
    "Calibration",
    "Diagnostics",
    "Fit",
    "FormulaError",
    "GuaranteeError",
    "Ledger",
    "MarginalEffects",
    "MissingDependencyError",
    "Newton",
    "NonPrivate",
    "NotConvergedError",
    "PrivacyWarning",
    "PrivateLRError",
    "PureDP",
    "Release",
    "ReleaseFileError",
    "ScaledData",
    "SchemaError",
    "StudyPlan",
    "__version__",
    "audit",
    "average_marginal_effects",
    "compose",
    "dplr",
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
