"""Differentially private logistic regression and SVM from a formula and a data frame.

from privatelr import dplr, load_dataset, load_schema
fit = dplr("Species != 'setosa' ~ .", load_dataset("iris"), **load_schema("iris"))
print(fit)
"""

import _signal  # type: ignore[import-not-found]  # these three are loaded before any program
import os
import sys

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler and (
    _COMMAND := os.path.basename("".join(sys.argv[:1])).removesuffix(".exe")
) in {"lrsimple", "privatelr", "svmsimple"}:
    # A command imports for a second, in which an interrupt would be a traceback.
    def _leave(*_: object) -> None:
        try:
            os.write(2, f"{_COMMAND}: interrupted.\n".encode())
        finally:
            os._exit(130)

    _signal.signal(_signal.SIGINT, _leave)

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
    SchemaWarning,
)

if TYPE_CHECKING:  # what _FIT and _LATER say, for the reader of types
    from privatelr import audit
    from privatelr.checking import check
    from privatelr.datasets import load_dataset, load_schema
    from privatelr.design.scaling import ScaledData, scaled
    from privatelr.mechanisms.calibration.calibration_record import Calibration
    from privatelr.mechanisms.linear_programs.constraint_private import constraint_private_lp
    from privatelr.mechanisms.online.play import PrivateFTRL
    from privatelr.mechanisms.release import Release
    from privatelr.model import dplr, dpsvm
    from privatelr.numerics.solve.newton import Newton
    from privatelr.planning import StudyPlan, plan
    from privatelr.privacy.accounting.ledger import Ledger
    from privatelr.privacy.conversions import compose, implies, to_approximate, to_zcdp
    from privatelr.privacy.guarantees import REPLACE_ONE, ZCDP, ApproxDP, NonPrivate, PureDP
    from privatelr.results.diagnostics import Diagnostics
    from privatelr.results.effects import MarginalEffects, average_marginal_effects
    from privatelr.results.fit import Fit
    from privatelr.results.plots.forest import plot_coefficients
    from privatelr.results.release_files.release_file import load
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
    "SchemaWarning",
    "SelectedFit",
    "StudyPlan",
    "__version__",
    "audit",
    "average_marginal_effects",
    "check",
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
_FIT = {
    "ApproxDP": "privatelr.privacy.guarantees",
    "Calibration": "privatelr.mechanisms.calibration.calibration_record",
    "Diagnostics": "privatelr.results.diagnostics",
    "Fit": "privatelr.results.fit",
    "Ledger": "privatelr.privacy.accounting.ledger",
    "Newton": "privatelr.numerics.solve.newton",
    "NonPrivate": "privatelr.privacy.guarantees",
    "PureDP": "privatelr.privacy.guarantees",
    "REPLACE_ONE": "privatelr.privacy.guarantees",
    "Release": "privatelr.mechanisms.release",
    "ScaledData": "privatelr.design.scaling",
    "ZCDP": "privatelr.privacy.guarantees",
    "compose": "privatelr.privacy.conversions",
    "dplr": "privatelr.model",
    "dpsvm": "privatelr.model",
    "implies": "privatelr.privacy.conversions",
    "scaled": "privatelr.design.scaling",
    "to_approximate": "privatelr.privacy.conversions",
    "to_zcdp": "privatelr.privacy.conversions",
}
"""Names that a fit needs, and where they are imported from when the first of them is used."""
_LATER = {
    "MarginalEffects": "privatelr.results.effects",
    "PrivateFTRL": "privatelr.mechanisms.online.play",
    "SelectedFit": "privatelr.results.selected",
    "StudyPlan": "privatelr.planning",
    "average_marginal_effects": "privatelr.results.effects",
    "check": "privatelr.checking",
    "constraint_private_lp": "privatelr.mechanisms.linear_programs.constraint_private",
    "dplpsvm": "privatelr.selected_model",
    "dpsimplex": "privatelr.selected_model",
    "load": "privatelr.results.release_files.release_file",
    "load_dataset": "privatelr.datasets",
    "load_schema": "privatelr.datasets",
    "plan": "privatelr.planning",
    "plot_coefficients": "privatelr.results.plots.forest",
}
"""Names that a fit does not need, and where they are imported from when they are first used."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """A name of these, which from now on is an attribute like any other."""
        if name in _ROOMS:
            return import_module(f"{__name__}.{name}")
        place = _FIT.get(name) or _LATER.get(name)
        if place is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(place), name)
        return found

    def __dir__() -> list[str]:
        return sorted(__all__)
