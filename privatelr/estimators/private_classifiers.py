"""scikit-learn's classifiers over `dplr`, `dpmultinom` and `dpsvm`.

An estimator stores its parameters, hands them to the function with the data, and keeps the fit as
``result_``. Its parameters are the function's own, by the same names, but for the few that
scikit-learn hands over with the data: formula, weights and persons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, require_number
from privatelr.estimators.classifier_base import PrivateClassifier
from privatelr.formula import require_most
from privatelr.model import dplr, dpsvm


@suggests_arguments
@dataclass(kw_only=True, eq=False, repr=False)
class _NoisyClassifier(PrivateClassifier):
    """The classifiers by perturbation, which take weights and persons."""

    _beside: ClassVar[tuple[str, ...]] = ("classes", "largest_weight", "records_per_person")

    lambda_: float | str | None = None
    op: bool = True
    row_norm: float | None = None
    do_scale: bool | str | None = None
    rp_dim: int = 0
    prior: Any = None
    analysis: str | None = None
    on_small_lambda: str = "increase"
    largest_weight: float = 1.0
    records_per_person: int = 1

    def fit(self, X: Any, y: Any, sample_weight: Any = None, person: Any = None) -> Self:
        """Fit the model, after the ledger is charged.

        Parameters
        ----------
        X : frame, array, list of rows or sparse matrix of shape (n, p)
            Covariates. Cells that are no numbers in a list or an array of objects are missing, as
            are NaN and infinity; a record with one counts as a row of zeros.
        y : of shape (n,)
            Classes. A record of a class that is not declared counts as a row of zeros.
        sample_weight : of shape (n,), optional
            How much each record counts, over ``largest_weight``.
        person : of shape (n,), optional
            Whose record each is, as in `dplr`: all records of one person are protected together. A
            ledger takes a Series that has the name of the column.

        Returns
        -------
        The estimator

        Raises
        ------
        ArgumentError, FormulaError, GuaranteeError, SchemaError
            As the function, on public facts alone; also if the classes are not declared.

        Notes
        -----
        **Privacy.** *Covered*: all fitted attributes, by ``result_.guarantee``. *Neighbours*,
        *assumed public* and *not covered*: as for the function.
        """
        # also where there are none, since a slip is found before it is paid for
        above = "a finite number above 0"
        require_number(ArgumentError, "largest_weight", self.largest_weight, above, above=0)
        require_most("", self.records_per_person)
        return self._fit(X, y, sample_weight=sample_weight, person=person)


@suggests_arguments
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(_NoisyClassifier):
    """Differentially private logistic regression as a classifier of scikit-learn.

    It calls `dplr`, or `dpmultinom` for three classes and more, with the data that `fit` gets.

    Parameters
    ----------
    eps, lambda_, op, delta, row_norm, intercept_scale, spend, ledger, threshold, do_scale
        As in `dplr`. A ledger, or its path, is charged by each `fit`: by all those of
        ``cross_val_score`` and ``GridSearchCV`` as well, since a clone has the same ledger. A
        worker process can charge a ledger on disk, and is refused by one in memory.
    rp_dim, prior, analysis, on_small_lambda, seed, verbose, records_per_person
        As in `dplr`. There is no ``random_state``: each fit draws new noise, which is secret.
    bounds : mapping, pair or list, optional
        By names of columns, as in `dplr`; those of an array are X1, X2, and so on. Or one pair
        ``(low, high)`` for all numbers, or a list of one pair for each column.
    levels : mapping, optional
        As in `dplr`, for columns of texts or categories.
    classes : list, tuple or "from data", optional
        All values that y can have. By default the ``levels`` of its name, or the categories or
        booleans of its type; a private fit refuses any other y. ``"from data"`` reads the classes
        off y. Then the guarantee is void, and a ledger refuses the fit.
    missing : {"constant", "nan"}
        What is predicted for a record with a value that cannot be used: a missing or infinite one,
        or a level that is not declared. ``"constant"``, the default, puts a public constant in its
        place, so that every record has a prediction, as scorers want: the middle of its bounds, 0
        without bounds, the first level. ``"nan"`` predicts NaN, as the functions do. No fit depends
        on it: for a fit such a record is a row of zeros.
    largest_weight : float
        Public limit on ``sample_weight``: a record counts its weight over this.

    Attributes
    ----------
    result_ : Fit or MultinomialFit
        What the function returned: page, guarantee, standard errors, file.
    classes_ : ndarray of shape (K,)
        The classes, in ascending order.
    coef_ : ndarray of shape (1, p) or (K, p)
        Coefficients in the units of the columns, as named in ``result_.coef``; of three classes and
        more those against ``classes_[0]``, whose own are 0.
    intercept_ : ndarray of shape (1,) or (K,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If X is a frame.

    Notes
    -----
    **Privacy.** *Covered*: all fitted attributes, by ``result_.guarantee``. *Neighbours* and
    *assumed public*: as for `dplr`, of the table that `fit` gets. *Not covered*: steps of a
    pipeline before this one that learn from the data, such as a ``StandardScaler`` or an imputer of
    means; `score`, and what is chosen by it, such as ``best_params_``; ``result_.diagnostics``, a
    learned threshold, time and memory; tables whose records were selected or repeated by values, as
    by a bootstrap or by ``cv=3``. Pass ``cv=KFold(3)``, which cuts folds by positions: ``cv=3``
    cuts them by the labels, so that one label moves other records, and more is lost than the ledger
    adds up. No fit can see it.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr.estimators import PrivateLogisticRegression
    >>> X, y = np.arange(100.0).reshape(50, 2) / 10, np.arange(50) // 25
    >>> model = PrivateLogisticRegression(eps=1.0, bounds=(0, 10), classes=(0, 1))
    >>> model.fit(X, y).predict_proba(X).shape
    (50, 2)
    """

    _function = dplr
    _probabilities = True
    _several = True


@suggests_arguments
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearSVC(_NoisyClassifier):
    """Differentially private linear support vector machine as a classifier of scikit-learn.

    It calls `dpsvm` with the data that `fit` gets. It is about two classes. For more, fit
    each against the others, as in ``y == "a"``: ``OneVsRestClassifier`` reads the classes off y,
    which no guarantee covers.

    Parameters
    ----------
    loss, h
        As in `dpsvm`.
    eps, lambda_, op, delta, row_norm, intercept_scale, spend, ledger, threshold, do_scale
        As in `dpsvm`.
    rp_dim, prior, analysis, on_small_lambda, seed, verbose, records_per_person
        As in `dpsvm`.
    bounds, levels, classes, missing, largest_weight
        As in `PrivateLogisticRegression`, which also describes the attributes.

    Notes
    -----
    **Privacy.** As of `PrivateLogisticRegression`; folds take ``cv=KFold(3)``, and not ``cv=3``.

    Examples
    --------
    >>> from privatelr import load_dataset, load_schema
    >>> from privatelr.estimators import PrivateLinearSVC
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> model = PrivateLinearSVC(eps=4.0, **public)
    >>> covariates = votes.drop(columns="vote")
    >>> model.fit(covariates, votes["vote"]).predict(covariates).shape
    (944,)
    """

    _function = dpsvm

    loss: str | None = None
    h: float = 0.5
