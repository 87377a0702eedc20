"""Names: a call with an unknown argument is told which one is meant."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Collection
from types import FunctionType
from typing import Any, Never, TypeVar, cast

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


Kind = TypeVar("Kind", bound=type)


def refuses(
    why: str,
    *,
    methods: str = "",
    properties: str = "",
    error: type[PrivateLRError] = ArgumentError,
) -> Callable[[Kind], Kind]:
    """Decorate a class that has no such methods and properties: a sentence says why not.

    Type checkers see a class without them, or what it inherits. A method may be looked up, and
    raises the error once it is called.
    """

    def refusing(name: str) -> Callable[..., Never]:
        def refuse(*args: Any, **kwargs: Any) -> Never:
            raise error(f"{name}: {why}")

        return refuse

    def decorated(kind: Kind) -> Kind:
        for name in methods.split():
            setattr(kind, name, refusing(name))
        for name in properties.split():
            setattr(kind, name, property(refusing(name), doc=f"Raise an error: {why}"))
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
