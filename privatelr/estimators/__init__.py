"""Classifiers of scikit-learn whose fits are private; needs the extra ``privatelr[sklearn]``."""

from typing import TYPE_CHECKING, Any

from privatelr.estimators.private_classifiers import PrivateLinearSVC, PrivateLogisticRegression
from privatelr.lazy_import import lazy_import

if TYPE_CHECKING:
    from privatelr.selection import classifiers
    from privatelr.selection.classifiers import PrivateLPSVC, PrivateSimplexClassifier
else:
    classifiers = lazy_import("privatelr.selection.classifiers")

    def __getattr__(name: str) -> Any:
        """Import the classifiers that choose columns at their first use."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(classifiers, name)


__all__ = [
    "PrivateLPSVC",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateSimplexClassifier",
]
