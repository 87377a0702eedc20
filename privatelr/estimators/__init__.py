"""Classifiers of scikit-learn whose fits are private; needs the extra ``privatelr[sklearn]``."""

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
