"""scikit-learn's classifiers over `dplpsvm` and `dpsimplex`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from privatelr.arguments import suggests_arguments
from privatelr.estimators.private_classifiers import PrivateClassifier
from privatelr.mechanisms import USUAL_DELTA
from privatelr.selection.models import dplpsvm, dpsimplex


@suggests_arguments
@dataclass(kw_only=True, eq=False, repr=False)
class _SelectingClassifier(PrivateClassifier):
    """The classifiers that choose columns, which take neither weights nor persons."""

    delta: float = USUAL_DELTA
    intercept_scale: float = 1.0

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model, after the ledger is charged.

        Parameters
        ----------
        X, y
            As in `PrivateLogisticRegression.fit`.

        Returns
        -------
        The estimator

        Raises
        ------
        ArgumentError, FormulaError, GuaranteeError, SchemaError
            As the function, on public facts alone; also if the classes are not declared.

        Notes
        -----
        **Privacy.** As of `PrivateLogisticRegression.fit`.
        """
        return self._fit(X, y)


@suggests_arguments
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLPSVC(_SelectingClassifier):
    """The linear-program support vector machine of `dplpsvm` as a classifier of scikit-learn.

    Parameters
    ----------
    eps, delta, density, rounds, step, slack, minority, intercept_scale, spend, ledger, threshold
        As in `dplpsvm`.
    round_score : {"margin", "count"}
        The ``score`` of `dplpsvm`, which is a method here.
    bounds, levels, classes, missing
        As in `PrivateLogisticRegression`, which also describes the attributes. It is about two
        classes.
    seed, verbose
        As in `dplpsvm`.

    Notes
    -----
    **Privacy.** As of `PrivateLogisticRegression`; folds take ``cv=KFold(3)``, and not ``cv=3``.

    Examples
    --------
    >>> from privatelr import load_dataset, load_schema
    >>> from privatelr.estimators import PrivateLPSVC
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> model = PrivateLPSVC(eps=4.0, **public)
    >>> covariates = votes.drop(columns="vote")
    >>> model.fit(covariates, votes["vote"]).predict(covariates).shape
    (944,)
    """

    _function = dplpsvm
    _beside = ("classes", "round_score")

    density: float = 0.25
    rounds: int | str = "auto"
    step: float | str = "auto"
    round_score: str = "margin"
    slack: float = 0.0
    minority: float | None = None

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "score": self.round_score}


@suggests_arguments
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSimplexClassifier(_SelectingClassifier):
    """The logistic regression or SVM with few columns of `dpsimplex` as a classifier.

    Parameters
    ----------
    loss : {"huber", "logistic"}
        As in `dpsimplex`; only ``"logistic"`` has ``predict_proba``.
    eps, delta, h, radius, lambda_, draws, intercept_scale, spend, ledger, threshold, seed, verbose
        As in `dpsimplex`.
    bounds, levels, classes, missing
        As in `PrivateLogisticRegression`, which also describes the attributes. It is about two
        classes.

    Notes
    -----
    **Privacy.** As of `PrivateLogisticRegression`; folds take ``cv=KFold(3)``, and not ``cv=3``.

    Examples
    --------
    >>> from privatelr import load_dataset, load_schema
    >>> from privatelr.estimators import PrivateSimplexClassifier
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> model = PrivateSimplexClassifier(eps=4.0, **public)
    >>> covariates = votes.drop(columns="vote")
    >>> model.fit(covariates, votes["vote"]).predict(covariates).shape
    (944,)
    """

    _function = dpsimplex
    _probabilities = True

    loss: str = "huber"
    h: float = 0.5
    radius: float = 1.0
    lambda_: float | str = "auto"
    draws: int | str = "auto"
