"""Differentially private logistic regression and SVM from a formula and a data frame.

from privatelr import dplr, load_dataset, load_schema
fit = dplr("Species != 'setosa' ~ .", load_dataset("iris"), **load_schema("iris"))
print(fit)
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from privatelr.errors import (
    ArgumentError,
    FormulaError,
    GuaranteeError,
    LedgerError,
    MissingDependencyError,
    NoRelease,
    NotConvergedError,
    PrivacyWarning,
    PrivateLRError,
    ReleaseFileError,
    SchemaError,
    SchemaWarning,
)
from privatelr.lazy_import import lazy_import

if TYPE_CHECKING:  # the same imports as in _FOLDERS, for type checkers
    from privatelr import audit
    from privatelr.datasets import load_dataset, load_schema
    from privatelr.design import ScaledData, scaled
    from privatelr.mechanisms import Release
    from privatelr.mechanisms.calibration import Calibration
    from privatelr.model import check, dplr, dpmultinom, dpsvm
    from privatelr.numerics.solve import Newton
    from privatelr.planning import StudyPlan, plan
    from privatelr.planning.suggestions import levels_from, suggest_bounds
    from privatelr.privacy import (
        REPLACE_ONE,
        REPLACE_PERSON,
        ZCDP,
        ApproxDP,
        NonPrivate,
        PureDP,
        compose,
        implies,
        to_approximate,
        to_zcdp,
    )
    from privatelr.privacy.accounting import Ledger
    from privatelr.results import Diagnostics, Fit
    from privatelr.results.answers.chosen_fit import ChosenFit, choose
    from privatelr.results.declarations import ReleasedLevels, SuggestedBounds
    from privatelr.results.effects import MarginalEffects, average_marginal_effects
    from privatelr.results.multinomial_fit import MultinomialFit
    from privatelr.results.pages.comparison import Comparison, compare
    from privatelr.results.pages.forest import plot_coefficients
    from privatelr.results.release_files import load
    from privatelr.results.strata_of_fits import Strata
    from privatelr.selection.constraint_private import constraint_private_lp
    from privatelr.selection.models import dplpsvm, dpsimplex
    from privatelr.selection.online import PrivateFTRL
    from privatelr.selection.selected_fit import SelectedFit
    from privatelr.sources import stream

__version__ = "0.2.0"

kinds_of_files: dict[str, Callable[[], Any]] = {
    "selection": lambda: import_module("privatelr.selection.choice_file").SELECTION,
}
"""Kinds of release files that the core does not know; each is imported at first use."""

__all__ = ["SelectedFit", "__version__", "dplpsvm", "dplr", "dpsimplex", "dpsvm"]
__all__ += ["MultinomialFit", "dpmultinom"]
__all__ += ["Calibration", "Diagnostics", "Fit", "Newton", "PrivateFTRL", "Release", "StudyPlan"]
__all__ += ["REPLACE_ONE", "REPLACE_PERSON", "ZCDP", "ApproxDP", "Ledger", "NonPrivate"]
__all__ += ["PureDP", "compose", "implies", "to_approximate", "to_zcdp"]
__all__ += ["MarginalEffects", "average_marginal_effects", "check", "constraint_private_lp", "plan"]
__all__ += ["ChosenFit", "Comparison", "choose", "compare"]
__all__ += ["ReleasedLevels", "SuggestedBounds", "levels_from", "suggest_bounds"]
__all__ += ["audit", "load", "load_dataset", "load_schema", "plot_coefficients"]
__all__ += ["ScaledData", "Strata", "scaled", "stream"]
__all__ += ["ArgumentError", "FormulaError", "GuaranteeError", "NoRelease"]
__all__ += ["LedgerError", "MissingDependencyError", "NotConvergedError", "PrivateLRError"]
__all__ += ["PrivacyWarning", "ReleaseFileError", "SchemaError", "SchemaWarning"]

_FOLDERS = {
    "": ("audit", "datasets", "estimators", "planning"),
    "datasets": ("load_dataset", "load_schema"),
    "design": ("ScaledData", "scaled"),
    "mechanisms": ("Release",),
    "mechanisms.calibration": ("Calibration",),
    "model": ("check", "dplr", "dpmultinom", "dpsvm"),
    "numerics.solve": ("Newton",),
    "planning": ("StudyPlan", "plan"),
    "privacy": (
        *("REPLACE_ONE", "REPLACE_PERSON", "ZCDP", "ApproxDP", "NonPrivate", "PureDP"),
        *("compose", "implies", "to_approximate", "to_zcdp"),
    ),
    "privacy.accounting": ("Ledger",),
    "results": ("Diagnostics", "Fit"),
    "results.answers.chosen_fit": ("ChosenFit", "choose"),
    "results.declarations": ("ReleasedLevels", "SuggestedBounds"),
    "results.effects": ("MarginalEffects", "average_marginal_effects"),
    "results.pages.comparison": ("Comparison", "compare"),
    "results.multinomial_fit": ("MultinomialFit",),
    "results.pages.forest": ("plot_coefficients",),
    "results.release_files": ("load",),
    "results.strata_of_fits": ("Strata",),
    "selection.constraint_private": ("constraint_private_lp",),
    "selection.models": ("dplpsvm", "dpsimplex"),
    "selection.online": ("PrivateFTRL",),
    "selection.selected_fit": ("SelectedFit",),
    "sources": ("stream",),
    "planning.suggestions": ("levels_from", "suggest_bounds"),
}
"""The module of each public name, which is imported at first use: all imports take a second."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name at its first use and keep it as an attribute of the package."""
        folder = next((folder for folder, names in _FOLDERS.items() if name in names), None)
        if folder is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if not folder:
            return import_module(f"{__name__}.{name}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{folder}"), name)
        return found

    def __dir__() -> list[str]:
        return sorted(__all__)
