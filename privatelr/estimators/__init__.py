"""Classifiers of scikit-learn whose fits are private; needs the extra ``privatelr[sklearn]``."""

from privatelr.arguments import serve_former_names
from privatelr.estimators.private_classifiers import (
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateLPSVC,
    PrivateSimplexClassifier,
)

__all__ = [
    "PrivateLPSVC",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateSimplexClassifier",
]

serve_former_names(__name__)
