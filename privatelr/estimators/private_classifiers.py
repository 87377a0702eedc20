"""scikit-learn's classifiers over `dplr`, `dpmultinom` and `dpsvm`.

An estimator stores its parameters, hands them to the function with the data, and keeps the fit as
``result_``. Its parameters are the function's own, by the same names, but for the few that
scikit-learn hands over with the data: formula, weights and persons.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import log_softmax

from privatelr.arguments import suggests_arguments
from privatelr.errors import (
    ArgumentError,
    MissingDependencyError,
    PrivacyWarning,
    SchemaError,
    require_choice,
    require_number,
)
from privatelr.estimators.training_tables import (
    Labels,
    as_call,
    as_sparse_frame,
    column_of,
    read_response,
    read_table,
    with_constants,
)
from privatelr.formula import require_most
from privatelr.mechanisms.request import read_account, require_no_account
from privatelr.model import dplr, dpmultinom, dpsvm
from privatelr.privacy import Guarantee, void
from privatelr.privacy.accounting import AnyLedger, charge
from privatelr.results.fit_record import in_user_units
from privatelr.sources import LevelsLike, declare_schema, name_of_values
from privatelr.types import FloatArray

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.metrics import accuracy_score
    from sklearn.utils import column_or_1d
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as missing:
    raise MissingDependencyError(
        "privatelr.estimators takes scikit-learn; install it, or privatelr[sklearn]."
    ) from missing

_READ = void("classes read off the data")


def _with_names(X: Any, table: Any) -> Any:
    """Return what scikit-learn takes names from; its older versions find none in other frames."""
    return table if hasattr(X, "columns") and not isinstance(X, pd.DataFrame) else X


def _has_probabilities(estimator: Any) -> bool:
    loss = getattr(estimator, "loss", "logistic")
    return bool(estimator._probabilities and loss == "logistic")


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What the four classifiers share; a subclass names its function and further parameters.

    As for every estimator, the constructor stores its parameters and does nothing else: they are
    checked in `fit`.
    """

    _function: ClassVar[Callable[..., Any]]
    _probabilities: ClassVar[bool] = False
    _several: ClassVar[bool] = False
    _beside: ClassVar[tuple[str, ...]] = ("classes",)

    eps: float | Guarantee = 1.0
    delta: float = 0.0
    bounds: Any = None
    levels: LevelsLike | None = None
    classes: Any = None
    intercept_scale: float | None = None
    spend: Mapping[str, float] | str | None = None
    ledger: AnyLedger | None = None
    threshold: float | str = "fixed"
    missing: str = "constant"
    seed: int | None = None
    verbose: int = 0

    def _fit(self, X: Any, y: Any, **beside: Any) -> Self:
        """Fit to records, `beside` whom are their weights and persons, where these are given."""
        self._require_missing()
        declare_schema(levels=self.levels)  # refuses what is no mapping to levels
        table, labels = read_table(X, self.levels), self._labels(y)
        validate_data(self, _with_names(X, table), reset=True, skip_check_array=True)
        given = {name: values for name, values in beside.items() if values is not None}
        whose = given.get("person")
        unnamed = not isinstance(whose, str | None) and name_of_values(whose) is None
        if unnamed:
            require_no_account(read_account(self.ledger))
        function, options = self._call(labels, given)
        declares = self.bounds is not None or self.levels or "sample_weight" in given
        if sparse.issparse(table) and (declares or function is dpmultinom):
            table = as_sparse_frame(table)
        data, described = as_call(table, labels, given, self)
        self.result_ = function(*data, **options, **described)
        if self._reads_classes and self.result_.guarantee.is_private:
            release = replace(self.result_.release, guarantee=_READ)
            self.result_ = replace(self.result_, release=release)
        self._columns = None if sparse.issparse(table) else list(table.columns)
        self.classes_ = labels.classes
        self.intercept_, self.coef_ = _coefficients(self.result_)
        return self

    def _call(
        self, labels: Labels, beside: Mapping[str, Any]
    ) -> tuple[Callable[..., Any], dict[str, Any]]:
        """The function for so many classes, and its arguments, but for those about the data."""
        options = self._options()
        if "person" in beside:
            options["records_per_person"] = self.get_params(deep=False)["records_per_person"]
        if len(labels.classes) <= 2:
            return type(self)._function, options
        if not self._several:
            raise SchemaError(
                "Only binary classification is supported. "
                f"Fit {type(self).__name__} to each class against the others, as in y == 'a'. "
                "OneVsRestClassifier would read the classes off y, which no guarantee covers."
            )
        for name, usual in (("threshold", "fixed"), ("prior", None)):
            value = options.pop(name)
            if not (value is None or (isinstance(value, str) and value == usual)):
                raise ArgumentError(
                    f"{name}: it is about two classes, and the response has more; leave it out."
                )
        return dpmultinom, options

    def _options(self) -> dict[str, Any]:
        """The arguments of the function, but for those about the data."""
        given, apart = self.get_params(deep=False), {"bounds", "levels", "missing", *self._beside}
        return {name: value for name, value in given.items() if name not in apart}

    def _labels(self, y: Any) -> Labels:
        if y is None:
            raise SchemaError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        if isinstance(y, np.ndarray) and y.shape[1:] == (1,):
            y = column_or_1d(y, warn=True)
        if self._reads_classes:
            if self._is_noisy:  # a ledger refuses what has no guarantee, before y is read
                charge(read_account(self.ledger), _READ, (), type(self).__name__)
            return read_response(y, None, may_read=True)
        named = (self.levels or {}).get(getattr(y, "name", ""))
        classes = named if self.classes is None else self.classes
        of_clone = vars(self).get("_is_clone", False)
        return read_response(y, classes, may_read=not self._is_noisy, of_clone=of_clone)

    def _read(self, X: Any) -> Any:
        """Return records to predict as the fit takes them, with the names of its columns."""
        check_is_fitted(self)
        table = read_table(X, self.levels)
        validate_data(self, _with_names(X, table), reset=False, skip_check_array=True)
        if self._columns is None:
            return table
        table = as_sparse_frame(table) if sparse.issparse(table) else table
        return table.set_axis(self._columns, axis=1)  # their order was checked

    def _require_missing(self) -> str:
        return require_choice(ArgumentError, "missing", self.missing, ("constant", "nan"))

    def _predicted(self, X: Any, type: str) -> np.ndarray[Any, Any]:
        """Predict each record; by `missing` where it has gaps."""
        table, replaces = self._read(X), self._require_missing() == "constant"
        found = np.array(self.result_.predict(table, type=type))
        gaps = pd.isna(found if found.ndim == 1 else found[:, -1])
        if replaces and gaps.any():
            whole = with_constants(table, gaps, self.result_.spec)
            found[gaps] = np.asarray(self.result_.predict(whole, type=type))
        return found

    def decision_function(self, X: Any) -> FloatArray:
        """Linear predictors of records, each computed independently of the others.

        Parameters
        ----------
        X : frame, array or sparse matrix of shape (n, p)
            As in `fit`.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            Of two classes, positive for ``classes_[1]``: log odds, or margins of a support vector
            machine. Of more, log odds of each class against ``classes_[0]``. A record with a value
            that cannot be used has one by ``missing``, as in the other predictions.

        Notes
        -----
        **Privacy.** *Covered*: functions of the release, by ``result_.guarantee``. *Neighbours*:
        those of the guarantee. *Assumed public*: nothing new. *Not covered*: the privacy of `X`.
        """
        check_is_fitted(self)
        fit = self.result_
        is_margin = fit.loss.probability is None and fit.spec.response.kind != "classes"
        return self._predicted(X, "margins" if is_margin else "link")

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """Classes of records ``(n,)``, by the threshold of the fit.

        Parameters
        ----------
        X : frame, array or sparse matrix of shape (n, p)
            As in `fit`.

        Notes
        -----
        **Privacy.** As of `decision_function`; classes split by a threshold that was learned from
        the training data, and not paid for, are not covered either.
        """
        found = self._predicted(X, "classes")
        place = {name: k for k, name in enumerate(self.result_.spec.response.classes)}
        codes = np.fromiter((place.get(name, -1) for name in found), np.intp, count=len(found))
        chosen = self.classes_[codes]
        if (codes >= 0).all():
            return np.asarray(chosen)
        numeric = self.classes_.dtype.kind in "iuf"
        chosen = chosen.astype(np.float64 if numeric else object)
        chosen[codes < 0] = np.nan
        return np.asarray(chosen)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities ``(n, K)`` of the classes in the order of ``classes_``.

        Parameters
        ----------
        X : frame, array or sparse matrix of shape (n, p)
            As in `fit`.

        Notes
        -----
        **Privacy.** As of `decision_function`.
        """
        found = self._predicted(X, "probabilities")
        if found.ndim == 2:
            return found
        return np.column_stack([1.0 - found, found])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms ``(n, K)`` of the probabilities, finite also where one is rounded to 0.

        Parameters
        ----------
        X : frame, array or sparse matrix of shape (n, p)
            As in `fit`.

        Notes
        -----
        **Privacy.** As of `decision_function`.
        """
        odds = self.decision_function(X)
        odds = np.column_stack([np.zeros(len(odds)), odds]) if odds.ndim == 1 else odds
        return np.asarray(log_softmax(odds, axis=1))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of records whose class is predicted rightly: exact, so not private.

        Records without a class are left out, as no fit depends on them either.

        Parameters
        ----------
        X, y, sample_weight
            Records with their classes, and how much each counts.

        Notes
        -----
        **Privacy.** *Covered*: nothing; a `PrivacyWarning` says so, and that ``cv=3`` cuts folds by
        the labels, since ``cross_val_score`` and searches call this. *Neighbours*: one record
        changes the share by its weight. *Assumed public*: nothing new. *Not covered*: the share,
        and what is chosen by it. ``result_.private_roc`` releases another measure for a price, and
        `privatelr.choose` the better one of several fits.
        """
        warnings.warn(
            "score: it counts the given records exactly, so no guarantee covers it, nor what is "
            "chosen by it; privatelr.choose and result_.private_roc release a choice and a measure "
            "for a price. Nor are folds covered that are cut by the labels, as by cv=3; "
            "cv=KFold(3) cuts them by positions.",
            PrivacyWarning,
            stacklevel=2,
        )
        column = column_of("y", y)
        known = column.notna().to_numpy(dtype=bool)
        if known.all():
            return float(super().score(X, y, sample_weight))
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        true = column[known].tolist()
        return float(accuracy_score(true, self.predict(X)[known].tolist(), sample_weight=weights))

    def __sklearn_clone__(self) -> Self:
        """Return a clone that knows that it is one, as meta-estimators fit clones to other labels.

        Which classes a response has is private, and whether somebody cloned an estimator is not.
        """
        found: Self = super().__sklearn_clone__()
        found._is_clone = True
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "result_")  # lambda_ is a parameter, and no attribute of a fit

    @property
    def _reads_classes(self) -> bool:
        return isinstance(self.classes, str) and self.classes == "from data"

    @property
    def _is_noisy(self) -> bool:
        return not (isinstance(self.eps, int | float) and self.eps in (0, math.inf))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self._is_noisy
        tags.input_tags.allow_nan = tags.input_tags.sparse = tags.input_tags.string = True
        tags.classifier_tags.poor_score = True  # noise decides
        tags.classifier_tags.multi_class = self._several
        return tags


def _coefficients(fit: Any) -> tuple[FloatArray, FloatArray]:
    """Intercepts ``(K,)`` and coefficients ``(K, p)`` of `decision_function`; K is 1 for two."""
    if fit.spec.response.kind == "classes":
        against = np.vstack([np.zeros(len(fit.coef)), fit.coef.to_numpy().T])
    else:
        against = in_user_units(fit).reshape(1, -1)
    return against[:, 0], against[:, 1:]


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
