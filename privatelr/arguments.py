"""Names: a call with an unknown argument is told which one is meant."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Collection
from types import FunctionType
from typing import Any, NoReturn, TypeVar, cast

from privatelr.errors import ArgumentError, CallError, PrivateLRError, nearest

Called = TypeVar("Called", bound="Callable[..., Any]")

_CALLED = {
    "bounds": "limits ranges",
    "data": "df",
    "do_scale": "standardize",
    "eps": "budget epsilon",
    "epsilon": "eps",
    "lambda_": "alpha l2 lam penalty reg",
    "ledger": "accountant",
    "levels": "categories",
    "n": "nobs",
    "row_norm": "data_norm norm",
    "solver": "max_iter maxit method tol",
    "spend": "inference se",
    "target": "outcome response",
    "threshold": "cutoff",
    "weights": "sample_weight",
}
"""Arguments, each with its names in other packages."""
_LEVELS = {
    "alpha": "alpha=0.01",
    "level": "level=0.99",
    "conf_level": "conf_level=0.99",
    "interval": "interval=0.99",
}
"""Ways to ask for a level of confidence, of which a function takes one."""
SAME = {other: one for one, others in _CALLED.items() for other in others.split()}
_PERSONS = "dplr, dpsvm and dpmultinom take person=, all of whose records are protected together"
NOTES = {
    "by": "dplr and dpsvm fit strata, by the levels of a column",
    "C": "for the C of scikit-learn lambda_ is 1 / (C n)",
    "class_weight": "weights=, where it is taken, may be larger for records of one class",
    "data": "it takes the number of records, and never the data",
    "family": "logistic regression is the one family that there is",
    "fit_intercept": "a formula leaves the intercept out by 0, as in 'y ~ 0 + age'",
    "intercept": "a formula leaves the intercept out by 0, as in 'y ~ 0 + age'",
    "kernel": "a support vector machine is linear here",
    "freq_weights": "a row that stands for several records is one record here, and protected "
    "as one; if each is protected by itself, repeat it instead",
    "missing": "a record with a missing value counts as a row of zeros; none is left out, because "
    "the number of records is public",
    "offset": "a formula of dplr or dpsvm has it, as in 'y ~ age + offset(z)'",
    **dict.fromkeys(("cluster", "groups", "id", "person", "random"), _PERSONS),
    **dict.fromkeys(("cov_type", "vcov"), "standard errors are those of the sandwich formula"),
    "contrasts": "a formula has them, as in 'y ~ C(sex, contr.sum)'",
    "link": "the logit is the one link that there is",
    "strata": "dplr and dpsvm fit strata by by=, the name of a column",
    "prior": "dplr, dpsvm and plan take one; leave it out here, as no noise, no bound and no count "
    "of records depends on it",
    "records_per_person": "it goes with person, which dplr, dpsvm and dpmultinom take",
    **dict.fromkeys(
        ("random_state", "rng"),
        "each call draws new noise, which is secret; one that "
        "is drawn again, as seed= does for a lecture, has no guarantee",
    ),
    "scalar": "the numbers of a test are plain ones here, so leave it out",
    "start": "the minimum does not depend on where the solver starts",
    "subset": "dplr, dpsvm and dpmultinom take one, and formulas have it, "
    "as in 'y ~ age + subset(age > 50)'",
    "weights": "dplr, dpsvm and dpmultinom take them, and formulas have them, "
    "as in 'y ~ age + weights(w)'",
}
"""Sentences about arguments that other packages have and this package does not have."""
_TWO = "PrivateLogisticRegression and PrivateLinearSVC"
_TELLS_PERSONS = f"the fit of {_TWO} takes person=, the values that tell persons apart"
OF_FIT = {
    "sample_weight": "LP-SVM and the simplex classifier take no weights, so that every record "
    f"counts once; leave it out, or take {_TWO}",
    "classes": "the constructor takes them, as in PrivateLinearSVC(classes=('no', 'yes'))",
    **dict.fromkeys(("groups", "person"), _TELLS_PERSONS),
}
"""Sentences about arguments that `fit` of an estimator does not have, or not that of each."""
_OF_RECORDS = "is an exact function of the records, which no promise covers"
_LIKELIHOOD = f"it {_OF_RECORDS}; fit.deviance_test compares nested models without it"
_ATTRIBUTES = {
    "aic bic deviance info_criteria llf llnull llr llr_pvalue logLik loglike null_deviance "
    "prsquared": _LIKELIHOOD,
    "bse conf_int confint cov_params deviance_test pvalues t_test tvalues vcov wald_test zvalues": (
        "a fit that chooses its columns has no standard errors, intervals and tests"
    ),
    "CIndex p_tr pred_table": "it is not private, and is a part of fit.diagnostics",
    "classes_": "fit.predict(data, type='classes') has the names of the classes",
    "coef_ coefficients feature_names_in_ intercept_": (
        "fit.coef has the coefficients by name, that of the intercept among them"
    ),
    "converged convergence counts mle_retvals n_iter_ value": f"what the solver did {_OF_RECORDS}",
    "decision_function": "fit.predict(data, type='link') has the linear predictor, or "
    "type='margins' where a fit has no probabilities",
    "df_model df_resid": "fit.nobs and len(fit.coef) are public",
    "eps2 status": "fit.calibration says which part of eps is left for the noise",
    "f_test wald_test_terms": "fit.wald_test('race') tests all levels of a factor, and fit.anova() "
    "each term",
    "fitted fittedvalues resid resid_dev resid_pearson resid_response residuals": (
        "a fit holds no records; fit.augment(data) puts predictions beside those that you have"
    ),
    "get_influence outlier_test": f"what a record does to a fit {_OF_RECORDS}",
    "get_margeff": "privatelr.average_marginal_effects(fit, reference) averages effects over "
    "public rows",
    "get_prediction": "fit.predict(data, interval=0.95) has intervals",
    "get_robustcov_results": "fit.bse is robust already, by the sandwich formula",
    "pred predict_log_proba predict_proba": "fit.predict(data) has the probabilities, or the "
    "classes where a fit has no probabilities",
    "score": "fit.private_roc(data, eps=...).auc says how well it tells the classes apart",
    "summary2": "fit.summary() has the page",
    "as_latex as_markdown to_csv to_html to_latex to_markdown": (
        "its tables are data frames, as in fit.tidy().to_latex()"
    ),
}
OTHERWISE = {name: why for names, why in _ATTRIBUTES.items() for name in names.split()}
"""Attributes of fits of other packages, each with what to call here, or why there is none."""


def suggests_arguments(called: Called) -> Called:
    """Decorate a function: calls that do not fit its signature are refused in one sentence.

    For a class this covers its constructor and the public methods that it defines itself.

    Type checkers and ``help()`` see the original signature. A call takes one more stack frame,
    which the `stacklevel` of a warning has to count.
    """
    if not isinstance(called, type):
        return cast("Called", _checked(called, called.__name__, 0))
    for name, member in list(vars(called).items()):
        if name == "__init__":
            setattr(called, name, _checked(member, called.__name__, 1))
        elif isinstance(member, FunctionType) and not name.startswith("_"):
            setattr(called, name, _checked(member, name, 1))
        elif isinstance(member, classmethod):
            setattr(called, name, classmethod(_checked(member.__func__, name, 1)))
    return called


def _checked(function: Any, title: str, implied: int) -> Any:
    """Return the function with its calls checked, except for the first `implied` arguments."""
    parameters = [*inspect.signature(function).parameters.values()][implied:]
    kinds = {one.kind for one in parameters}
    single = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    known = [one.name for one in single]
    by_position = [one.name for one in single if one.kind is not one.KEYWORD_ONLY]
    most = math.inf if inspect.Parameter.VAR_POSITIONAL in kinds else len(by_position)
    passes_on = inspect.Parameter.VAR_KEYWORD in kinds
    required = [one.name for one in single if one.default is one.empty]
    apart = [one.name for one in single if one.kind is inspect.Parameter.KEYWORD_ONLY]
    by_name = f", such as {apart[0]}=" if apart else ""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = len(args) - implied
        place = by_position[: max(given, 0)]
        unknown = next((name for name in kwargs if name not in known), None)
        if unknown is not None and not passes_on:
            hint = f"{OF_FIT[unknown]}." if title == "fit" and unknown in OF_FIT else None
            hint = hint or _hint(unknown, known)
            raise CallError(f"{unknown} is not an argument of {title}; {hint}")
        if given > most:
            raise CallError(
                f"{title} takes {most} arguments by position ({', '.join(by_position)}), not "
                f"{given}; write the others by name{by_name}."
            )
        twice = next((name for name in place if name in kwargs), None)
        if twice is not None:
            raise CallError(f"{title} got {twice} twice, by position and by name.")
        missing = next((name for name in required if name not in {*place, *kwargs}), None)
        if missing is not None:
            raise CallError(f"{title} takes an argument {missing}, which is missing.")
        return function(*args, **kwargs)

    return checked


class Refused:
    """In the place of an attribute that other objects of its kind have, one sentence why not.

    A method may be looked up, and raises the error once it is called.
    """

    def __init__(self, name: str, why: str, error: type[PrivateLRError], *, called: bool) -> None:
        self.sentence, self.error, self.called = f"{name}: {why}", error, called
        self.__doc__ = f"Raise an error: {why}"

    def __get__(self, one: object, owner: type | None = None) -> Any:
        if one is None:
            return self
        return self._refuse if self.called else self._refuse()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise self.error(self.sentence)


Kind = TypeVar("Kind", bound=type)


def suggests_attributes(kind: Kind) -> Kind:
    """Decorate a class of fits: attributes that those of other packages have are told apart.

    They stay missing, for `hasattr` as well, and nothing of a fit is read to say so. Type checkers
    see a class without them.
    """

    def missing(self: Any, name: str) -> Any:
        why = OTHERWISE.get(name)
        if why is None and not hasattr(type(self), name):
            close = nearest(name, [each for each in dir(type(self)) if not each.startswith("_")])
            why = close and f"did you mean {close}?"
        if why:
            one, end = type(self).__name__, "" if why.endswith("?") else "."
            raise AttributeError(f"{one!r} object has no attribute {name!r}; {why}{end}")
        return object.__getattribute__(self, name)  # Python's own error, or that of a property

    cast("Any", kind).__getattr__ = missing
    return kind


def refuses(
    why: str,
    *,
    methods: str = "",
    properties: str = "",
    error: type[PrivateLRError] = ArgumentError,
) -> Callable[[Kind], Kind]:
    """Decorate a class that has no such methods and properties: a sentence says why not.

    Type checkers see a class without them, or what it inherits.
    """

    def decorated(kind: Kind) -> Kind:
        for names, called in ((methods, True), (properties, False)):
            for name in names.split():
                setattr(kind, name, Refused(name, why, error, called=called))
        return kind

    return decorated


def _hint(name: str, known: Collection[str]) -> str:
    """Return the end of a sentence about an unknown argument: which one may be meant."""
    taken = next((one for one in _LEVELS if one in known), None)
    if name in _LEVELS and taken:
        return f"it takes {_LEVELS[taken]} for a level of 0.99."
    meant = SAME.get(name.casefold())
    if meant in known:
        return f"did you mean {meant}?"
    if name in NOTES and ("lambda_" in known or "lambda_" not in NOTES[name]):
        return f"{NOTES[name]}."
    elsewhere = {other: one for other, one in SAME.items() if one in known}
    close = nearest(name, [*known, *elsewhere])
    close = elsewhere.get(close or "", close)
    return f"did you mean {close}?" if close else f"it takes {', '.join(known) or 'no arguments'}."
